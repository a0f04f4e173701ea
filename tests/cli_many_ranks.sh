#!/bin/sh
# cli_many_ranks.sh RANKS: so many plan ranks in one process, two tokens each, forward and backward: the plan is proved, its run
# passes check, and one wrong element of one rank is found and its owner named.  (validation/many_ranks.sh has the times of a longer one.)
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"
ranks=$1
seqlen=$((2 * ranks)) OMP_NUM_THREADS=1
export OMP_NUM_THREADS

ok "$RINGTRUE" plan --seqlen $seqlen --heads 2 --dim 64 --mask causal --plan ring --layout zigzag --ranks "$ranks" --summary --verify
prints '# verified: every visible pair once forward and once backward'
# zigzag: all ranks alike, P (P + 1) / 2 of whole shards' worth of pairs
prints "# forward: steps $ranks,"
[ "$(awk '$2 == "forward" && NF > 12 { print $4 }' stdout.txt | sort -u)" = $((2 * (2 * ranks + 1))) ] || fail "pairs of a rank"
[ "$(grep -c '^# backward *[0-9]' stdout.txt)" -eq "$ranks" ] || fail "rows of ranks"
ok "$RINGTRUE" gen --seqlen $seqlen --heads 2 --dim 64 --mask causal -o in
ok "$RINGTRUE" run in --plan ring --layout zigzag --ranks "$ranks" -o out
[ "$(find out -name 'rank*.safetensors' | wc -l)" -eq "$ranks" ] || fail "files of ranks"
ok "$RINGTRUE" check out
prints '# 5 tensors judged: 5 pass, 0 fail;'

# The last rank but two has tokens P - 3 and P + 2; of the first the sign of out[head 1, dim 7], f64.
wrong=$((ranks - 3)) file=out/rank$((ranks - 3)).safetensors
at=$(($(tensor_at out "$file") + 8 * (64 + 7)))
flip "$file" $((at + 7)) 128
expect 1 "$RINGTRUE" check out
prints "first WRONG out[b 0, token $wrong, head 1, dim 7]"
prints "owner rank $wrong, slot 0 of 2 (first half)"
prints '# 5 tensors judged: 4 pass, 1 fail;'
