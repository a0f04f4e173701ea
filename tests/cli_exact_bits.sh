#!/bin/sh
# Arithmetic exact gives one set of bits: that of data/fingerprints/exact.txt, whatever the plan, layout, P, threads, processes and
# the kernels in use.  With the argument "print" the file is written anew to stdout; with "committed" only the file is compared.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"
OMP_NUM_THREADS=2
export OMP_NUM_THREADS
unset OPENBLAS_CORETYPE GLIBC_TUNABLES
file=$RT_SOURCE_DIR/data/fingerprints/exact.txt

# NAME|DTYPE OF THE RESULTS|FLAGS OF gen
problems() {
    cat <<'END'
gaussian-bf16|f32|--seqlen 161 --heads 4 --kv-heads 2 --dim 32 --mask causal --dtype bf16
gaussian-bf16-f64|f64|--seqlen 21 --heads 2 --dim 8 --dtype bf16 --seed 2
gaussian-bf16-bf16|bf16|--seqlen 97 --heads 4 --kv-heads 1 --dim 64 --dim-v 48 --mask causal --dtype bf16 --seed 3
gaussian-f16|f16|--seqlen 90 --seqlen-k 131 --heads 2 --dim 40 --mask causal-bottom-right --dtype f16 --seed 4
gaussian-f32|f32|--seqlen 300 --heads 2 --kv-heads 1 --dim 16 --dtype f32 --seed 5
gaussian-f32-scale|f32|--seqlen 140 --heads 2 --dim 20 --mask causal --dtype f32 --scale f32:-0.3 --seed 6
gaussian-f64|f32|--seqlen 77 --heads 2 --dim 18 --mask causal --dtype f64 --seed 7
gaussian-f64-f64|f64|--seqlen 20 --heads 2 --kv-heads 1 --dim 9 --dtype f64 --scale 0.1 --seed 8
gaussian-e4m3|bf16|--seqlen 128 --batch 2 --heads 2 --dim 16 --mask causal --dtype e4m3 --seed 9
gaussian-e5m2|e5m2|--seqlen 70 --heads 2 --dim 16 --dtype e5m2 --seed 10
documents|f32|--seqlen 150 --heads 2 --dim 16 --mask causal --cu-seqlens 0,1,40,40,99,150 --dtype bf16 --seed 11
empty-rows|f32|--seqlen 80 --seqlen-k 33 --heads 2 --dim 8 --mask causal-bottom-right --dtype bf16 --seed 12
huge-bf16|f32|--family huge --seqlen 40 --heads 1 --dim 16 --mask causal --dtype bf16 --seed 13
huge-f16|f32|--family huge --seqlen 40 --heads 2 --dim 8 --dtype f16 --seed 14
tilted-bf16|f32|--family tilted --seqlen 290 --heads 2 --dim 16 --dtype bf16 --seed 15
tracer-bf16|bf16|--family tracer --seqlen 120 --heads 2 --dim 20 --mask causal --dtype bf16 --seed 16
alibi|f32|--seqlen 90 --seqlen-k 131 --heads 4 --kv-heads 2 --dim 18 --mask causal-bottom-right --dtype f16 --alibi --seed 17
bias|f32|--seqlen 130 --heads 2 --dim 16 --dtype bf16 --bias 1hss --seed 18
softcap|f32|--seqlen 140 --heads 2 --dim 16 --mask causal --dtype bf16 --softcap 1.5 --seed 19
sink|f32|--seqlen 120 --heads 4 --kv-heads 1 --dim 16 --mask causal --dtype bf16 --sink --seed 20
dropout|bf16|--seqlen 110 --batch 2 --heads 2 --dim 16 --mask causal --dtype bf16 --dropout 0.3 --seed 21
scores|f32|--seqlen 60 --batch 2 --heads 4 --kv-heads 2 --dim 16 --mask causal --cu-seqlens 0,1,20,20,45,60 --dtype bf16 --alibi --bias b1ss --softcap 3 --sink --dropout 0.2 --seed 22
END
}

prints_of() {
    problems | while IFS='|' read -r name out flags; do
        # shellcheck disable=SC2086
        ok "$RINGTRUE" gen $flags -o "$name"
        fingerprints "$RINGTRUE" run "$name" --arith exact --out-dtype "$out" --fingerprint | sed "s/^fingerprint/$name/" | tr -s ' '
    done
}

if [ "${1:-}" = print ]; then
    cat <<'END'
# Fingerprints of results in arithmetic exact: name, tensor, dtype, fingerprint.  Every machine, compiler and plan must give these.
# Each is that of   ringtrue gen FLAGS -o DUMP && ringtrue run DUMP --arith exact --out-dtype DTYPE --fingerprint
# with the flags that tests/cli_exact_bits.sh lists.  This whole file is made, in an empty folder, by
#   RINGTRUE=BUILD/ringtrue RT_SOURCE_DIR=SOURCE sh SOURCE/tests/cli_exact_bits.sh print
END
    prints_of
    exit 0
fi

grep -v '^#' "$file" >committed.txt
prints_of >here.txt
cmp -s committed.txt here.txt || {
    diff committed.txt here.txt >&2 || true
    fail "other bits than those committed"
}
[ "$(wc -l <here.txt)" -eq $(($(problems | wc -l) * 5 + 4)) ] || fail "not five tensors each, and two of sinks and two of biases"
[ "${1:-}" != committed ] || exit 0

# same NAME COMMAND..: the committed bits of that problem, and nothing undecided that they would not cover
same() {
    name=$1
    shift
    out=$(problems | sed -n "s/^$name|\([^|]*\)|.*/\1/p")
    # shellcheck disable=SC2086
    expect 0 "$@" run "$name" --arith exact --out-dtype "$out" --fingerprint $more
    [ "$(grep -c '^# certificate.* undecided 0$' stdout.txt)" -eq "$(grep -c '^fingerprint' stdout.txt)" ] || fail "$name: something is undecided, which may have any bits"
    grep '^fingerprint' stdout.txt | LC_ALL=C sort | sed "s/^fingerprint/$name/" | tr -s ' ' >got.txt
    grep "^$name " committed.txt >want.txt
    cmp -s want.txt got.txt || {
        diff want.txt got.txt >&2 || true
        fail "other bits: $* $more, OMP_NUM_THREADS=$OMP_NUM_THREADS ${OPENBLAS_CORETYPE:-} ${GLIBC_TUNABLES:-}"
    }
}

# Plans, layouts, P; threads in turn.
turn=0
for ranks in 1 2 3 5; do
    for layout in contiguous zigzag striped; do
        for plan in single ring; do
            for name in gaussian-bf16 gaussian-f32-scale documents empty-rows gaussian-e4m3 scores; do
                turn=$((turn + 1))
                case $((turn % 4)) in
                0) OMP_NUM_THREADS=1 ;;
                1) OMP_NUM_THREADS=2 ;;
                2) OMP_NUM_THREADS=3 ;;
                3) OMP_NUM_THREADS=7 ;;
                esac
                more="--ranks $ranks --layout $layout --plan $plan"
                # a third of the combinations each, so that all appear with all
                [ $(((turn + ranks) % 3)) -ne 0 ] || same "$name" "$RINGTRUE"
            done
        done
    done
done
more="--plan single"
for OMP_NUM_THREADS in 1 2 3 7; do
    same gaussian-f32 "$RINGTRUE"
    same gaussian-f64-f64 "$RINGTRUE"
done

# Processes.
OMP_NUM_THREADS=1
more="--ranks 3 --layout striped --plan ring"
for processes in 1 2 3; do
    same gaussian-bf16 mpi $processes "$RINGTRUE"
    same tilted-bf16 mpi $processes "$RINGTRUE"
    same scores mpi $processes "$RINGTRUE"
done

# The BLAS's kernels, with and without FMA and AVX, and the libraries' view of the processor.  A kernel that this processor
# cannot run is not asked for.
OMP_NUM_THREADS=2
has() {
    grep -qw "$1" /proc/cpuinfo 2>/dev/null
}
more="--ranks 2 --layout zigzag --plan ring"
kernels="Prescott Nehalem"
if has avx; then kernels="$kernels Sandybridge"; fi
if has avx2 && has fma; then kernels="$kernels Haswell Zen"; fi
if has avx512f && has avx512dq && has avx512vl && has avx512bw; then kernels="$kernels SkylakeX"; fi
if [ "$(uname -m)" != x86_64 ]; then kernels=; fi
for kernel in $kernels; do
    for name in gaussian-bf16 gaussian-f32 gaussian-f64-f64 huge-f16; do
        OPENBLAS_CORETYPE=$kernel
        export OPENBLAS_CORETYPE
        same $name "$RINGTRUE"
        unset OPENBLAS_CORETYPE
    done
done
for features in -AVX2_Usable,-FMA_Usable,-AVX512F_Usable -AVX2,-FMA,-AVX512F; do
    GLIBC_TUNABLES=glibc.cpu.hwcaps=$features
    export GLIBC_TUNABLES
    same gaussian-bf16 "$RINGTRUE"
    same gaussian-f32 "$RINGTRUE"
    unset GLIBC_TUNABLES
done
