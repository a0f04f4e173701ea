#!/bin/sh
# Wrong usage: exit code 2, nothing on stdout, one line on stderr that names the value and what is allowed.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

# usage TEXT ARGUMENT..
usage() {
    text=$1
    shift
    refuse 2 "$text" "$RINGTRUE" "$@"
}

usage 'no verb is given'
usage 'bogus: unknown verb; allowed: gen run plan grid check diff info' bogus
usage '--bogus: unknown flag of gen' gen --bogus 1 -o x
usage '-x: unknown flag of gen' gen -x
usage '--se: unknown flag of gen' gen --se 3 -o x
usage '--see: write --seed in full' gen --see 3 -o x
usage '--force=1: this flag takes no value' gen --force=1 -o x
usage '--json: not a flag of gen' gen --json -o x
usage '--family: not a flag of run' run in --family exact -o x
usage '--ranks: not a flag of check' check in --ranks 4
usage '--heads needs a value' gen -o x --heads
usage '-o needs a value' gen -o

ok "$RINGTRUE" gen --seqlen 16 --heads 2 --dim 8 -o in

# Each flag that takes a value, with one that it cannot take.
for flag in batch seqlen seqlen-k heads kv-heads dim dim-v; do
    for verb in gen plan; do
        for value in 0 -1 x 1x '' 99999999999999999999 9223372036854775807G; do
            usage "--$flag $value: a whole number from 1 to" $verb --$flag "$value"
        done
    done
done
usage '--ranks 0: a whole number from 1 to 65536' plan --ranks 0
usage '--ranks 4.5: a whole number from 1 to 65536' run in --ranks 4.5 -o x
usage '--seed -1: a whole number from 0 to' gen --seed -1 -o x
usage '--family uniform: unknown; allowed: gaussian exact tracer tilted huge' gen --family uniform -o x
usage '--dtype int8: unknown; allowed: f64 f32 bf16 f16 e4m3 e5m2' gen --dtype int8 -o x
usage '--dtype i32: unknown; allowed: f64 f32 bf16 f16 e4m3 e5m2' gen --dtype i32 -o x
usage '--dtype tf32: unknown; allowed: f64 f32 bf16 f16 e4m3 e5m2' gen --dtype tf32 -o x
usage '--out-dtype int8: unknown; allowed: f64 f32' run in --out-dtype int8 -o x
usage '--mask windowed: unknown; allowed: full causal causal-bottom-right' gen --mask windowed -o x
usage '--layout snake: layout snake is unknown; allowed: contiguous zigzag striped' run in --layout snake -o x
usage '--layout positions: layout positions needs a list' plan --layout positions
usage '--remainder none: unknown; allowed: spread ceil last refuse' plan --remainder none
usage '--arith f128: unknown; allowed: ' run in --arith f128 -o x
usage 'plan spiral is unknown; known plans: single' run in --plan spiral -o x
usage 'plan spiral is unknown; known plans: single' plan --plan spiral
usage 'plan spiral is unknown; known plans: single' plan in --plan spiral
usage '--scale pi: unknown; allowed: rsqrt_dim, or f32:X, f64:X or X' gen --scale pi -o x
usage '--scale f32:: unknown; allowed: rsqrt_dim' gen --scale f32: -o x
usage '--scale inf: unknown; allowed: rsqrt_dim' gen --scale inf -o x
usage '--cu-seqlens 0,a: whole numbers separated by commas' gen --cu-seqlens 0,a -o x
usage '--cu-seqlens has 1 boundaries' gen --cu-seqlens 0 -o x
usage '--cu-seqlens-k without --cu-seqlens' gen --cu-seqlens-k 0,256 -o x
usage 'last boundary must be the length, 256' gen --seqlen 256 --cu-seqlens 0,255 -o x
usage '--cu-seqlens has 2 boundaries and --cu-seqlens-k 3' gen --cu-seqlens 0,256 --cu-seqlens-k 0,1,256 -o x
usage '--delta 2: a chance between 0 and 1' check in --delta 2
usage '--delta x: a finite number is needed' check in --delta x
usage 'heads 8 is not a multiple of kv_heads 3' gen --heads 8 --kv-heads 3 -o x
usage 'family exact needs' gen --family exact --dim 2 -o x
usage 'family exact needs scale 1' gen --family exact --scale 2 -o x
usage 'needs seqlen divisible by 6, but it is 16' run in --layout zigzag --ranks 3 --remainder refuse -o x

for cap in 1e-320 1e308; do
    usage 'softcap is' gen --softcap $cap -o x
done
usage '--dropout-seed goes with --dropout' gen --dropout-seed 3 -o x
usage '--dropout-seed goes with --dropout' plan --dropout 0 --dropout-seed 3

# What a verb needs, and what it cannot use.
usage 'gen needs -o FOLDER' gen
usage 'gen needs -o FOLDER and no other argument, not in' gen in -o x
usage 'run needs -o FOLDER, --fingerprint or --trace FILE' run in
for verb in run check info; do
    case $verb in
    run) set -- run -o x ;;
    *) set -- $verb ;;
    esac
    usage "$verb needs a dump: a folder, a file, or one file per rank" "$@"
done
usage 'diff needs two files or two dumps, not 1' diff in
usage 'diff needs two files or two dumps, not 3' diff in in in
usage "--seqlen: the dump 'in' says this itself" plan in --seqlen 5
usage '--cu-seqlens: the dump' plan in --cu-seqlens 0,16

# --declare, of which every key is checked; an output without a name.
ok "$RINGTRUE" run in -o out
usage '--declare speed=1: KEY=VALUE with a key of accumulate exp block_keys probabilities partial state join grad_partial grad_state tanh' \
    check out --declare speed=1
usage '--declare exp: KEY=VALUE' check out --declare exp
usage '--declare accumulate=f16: unknown; allowed: f32 f64 tc-volta' check out --declare accumulate=f16
usage '--declare exp=2' check out --declare exp=2
usage 'exp x: a finite number' check out --declare exp=x
usage 'block_keys 0: a whole number from 1' check out --declare block_keys=0
usage '--declare join=zip: unknown; allowed: sigmoid two-pass split raw' check out --declare join=zip
for key in probabilities partial state grad_partial grad_state; do
    usage "--declare $key=i32: unknown; allowed: f64 f32 bf16 f16 tf32 e4m3 e5m2" check out --declare $key=i32
done
usage "output folder '.' has no name of its own" run in -o .

# Under mpirun process 0 alone speaks.
for bad in 'run nothing-here -o x' 'run in --bogus' 'run in --ranks 1 -o x'; do
    # shellcheck disable=SC2086 # words on purpose
    mpi 3 "$RINGTRUE" $bad >stdout.txt 2>stderr.txt && fail "mpirun ringtrue $bad: exit code 0"
    [ "$(grep -c '^ringtrue' stderr.txt)" -eq 1 ] || fail "mpirun ringtrue $bad: not one line"
    [ "$(cat stdout.txt stderr.txt | grep -c '^#')" -eq 0 ] || fail "mpirun ringtrue $bad: prints"
done
absent x
