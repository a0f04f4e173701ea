#!/bin/sh
# Inputs whose sums are exact in any order: the same bits over every layout, P and plan.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"
OMP_NUM_THREADS=1
export OMP_NUM_THREADS

# compare INPUT: the first run gives the bits, all others have to agree.
compare() {
    want=
    for ranks in 1 2 3 5 8; do
        for layout in contiguous zigzag striped; do
            for plan in ring single; do
                got=$(fingerprints "$RINGTRUE" run "$1" --layout $layout --ranks $ranks --plan $plan --fingerprint)
                [ -n "$want" ] || want=$got
                [ "$got" = "$want" ] || fail "$1: $plan, $layout, P $ranks gives other bits: $got, not $want"
            done
        done
    done
    [ "$(echo "$want" | wc -l)" -eq 5 ] || fail "not five fingerprints"
}

for mask in full causal; do
    ok "$RINGTRUE" gen --family exact --seqlen 67 --heads 4 --kv-heads 2 --dim 8 --mask $mask -o "$mask"
    compare "$mask"
done
ok "$RINGTRUE" gen --family exact --seqlen 64 --heads 2 --dim 8 --mask causal --cu-seqlens 0,10,11,40,64 -o documents
compare documents

# The seed matters, and the layout does not.
ok "$RINGTRUE" gen --family exact --seqlen 67 --heads 4 --kv-heads 2 --dim 8 --mask full --seed 2 -o seed2
[ "$(fingerprints "$RINGTRUE" info full --fingerprint)" != "$(fingerprints "$RINGTRUE" info seed2 --fingerprint)" ] || fail "the seed does not matter"

# All processes' counts: over MPI the same bits again.
one=$(fingerprints "$RINGTRUE" run causal --plan ring --layout striped --ranks 3 --fingerprint)
expect 0 mpi 3 "$RINGTRUE" run causal --plan ring --layout striped --ranks 3 --fingerprint
[ "$one" = "$(grep '^fingerprint' stdout.txt | LC_ALL=C sort)" ] || fail "three processes give other bits"

# What is left undecided is counted and has its interval: dq of rows with one key that outweighs all, which check asks no MPFR about.
ok "$RINGTRUE" gen --family huge --seqlen 12 --heads 1 --dim 4 -o huge
ok "$RINGTRUE" run huge --arith exact --out-dtype f32 -o huge.out
prints '# certificate dq   decided 48: '
if grep -q 'undecided: the first' stdout.txt; then fail "run left something undecided"; fi
ok "$RINGTRUE" check huge.out
prints 'undecided 48'
prints '#   undecided: the first is b 0, token 0, head 0, dim 0, between -'
ok "$RINGTRUE" check huge.out --json
prints '"first_undecided": {'
