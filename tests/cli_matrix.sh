#!/bin/sh
# S = 257, GQA 8/2: every P with every layout, masks and head dims in turn; run, then check.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"
OMP_NUM_THREADS=1
export OMP_NUM_THREADS

for mask in full causal; do
    ok "$RINGTRUE" gen --seqlen 257 --heads 8 --kv-heads 2 --dim 64 --mask $mask -o "$mask.64"
    ok "$RINGTRUE" gen --seqlen 257 --heads 8 --kv-heads 2 --dim 96 --dim-v 64 --mask $mask -o "$mask.96"
done
ok "$RINGTRUE" gen --seqlen 257 --heads 8 --kv-heads 2 --mask causal --cu-seqlens 0,1,64,64,200,257 -o causal.documents
ok "$RINGTRUE" gen --seqlen 130 --seqlen-k 257 --heads 8 --kv-heads 2 --mask causal-bottom-right -o bottom-right
ok "$RINGTRUE" gen --seqlen 257 --seqlen-k 130 --heads 4 --mask causal-bottom-right -o empty-rows

# try INPUT LAYOUT P PLAN
try() {
    rm -rf out
    ok "$RINGTRUE" run "$1" --layout "$2" --ranks "$3" --plan "$4" -o out
    ok "$RINGTRUE" check out
    prints '5 tensors judged: 5 pass, 0 fail;'
}

turn=0
for ranks in 1 2 3 4 5 8; do
    for layout in contiguous zigzag striped; do
        case $((turn % 5)) in
        0) input=causal.64 ;;
        1) input=full.96 ;;
        2) input=causal.96 ;;
        3) input=full.64 ;;
        4) input=causal.documents ;;
        esac
        plan=ring
        [ "$ranks" -gt 1 ] || plan=single
        try "$input" "$layout" "$ranks" "$plan"
        turn=$((turn + 1))
    done
done
try bottom-right zigzag 3 ring
try empty-rows striped 4 ring

# The same question on another layout, rank count and remainder is the same answer to the last rounding.
ok "$RINGTRUE" run causal.64 --plan ring --layout contiguous --remainder ceil --ranks 5 --out-dtype f32 -o a
ok "$RINGTRUE" run causal.64 --plan ring --layout zigzag --remainder last --ranks 3 --out-dtype f32 -o b
"$RINGTRUE" diff a b >stdout.txt 2>stderr.txt || [ $? -eq 1 ] || fail "diff a b"
prints ' tensor'
awk '$1 ~ /^(q|k|v|dout)$/ && $4 != 0 { exit 1 } $1 ~ /^(lse|out|dq|dk|dv)$/ && $6 > 1 { exit 1 }' stdout.txt || fail "more than one ulp between two layouts"
