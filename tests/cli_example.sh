#!/bin/sh
# The example of the README, line by line; and the same bits for any number of processes and threads.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

ok "$RINGTRUE" gen --family gaussian --seqlen 257 --heads 8 --kv-heads 2 --dim 64 --dtype bf16 --mask causal -o in
expect 0 mpi 2 "$RINGTRUE" run in --plan ring --layout zigzag --ranks 4 --arith f64 -o out
prints '# wrote out: 4 files, '
[ "$(ls out)" = "$(printf 'rank%s.safetensors\n' 0 1 2 3)" ] || fail "out holds something else"
ok "$RINGTRUE" check out
prints '# 5 tensors judged: 5 pass, 0 fail;'
[ "$(tail -n 1 stdout.txt | sed 's/.*;  //')" = PASS ] || fail "the last line does not say PASS"
[ "$(awk 'length > 200' stdout.txt)" = "" ] || fail "a line is longer than 200 characters"
# Header and rows have as many columns (the row's first is indented by two, the header's begins with #).
awk '/^# tensor/ { n = NF - 1 } /^  / && n > 0 && NF != n { exit 1 } END { exit n != 16 }' stdout.txt || fail "columns of the table"

# N = 1, 2, 3 and P processes, one and two threads.
one=$(OMP_NUM_THREADS=1 fingerprints "$RINGTRUE" run in --plan ring --layout zigzag --ranks 4 --fingerprint)
[ "$(echo "$one" | wc -l)" -eq 5 ] || fail "not five fingerprints: $one"
[ "$one" = "$(OMP_NUM_THREADS=2 fingerprints "$RINGTRUE" run in --plan ring --layout zigzag --ranks 4 --fingerprint)" ] || fail "two threads"
for n in 2 3 4; do
    OMP_NUM_THREADS=1 expect 0 mpi "$n" "$RINGTRUE" run in --plan ring --layout zigzag --ranks 4 --fingerprint
    [ "$one" = "$(grep '^fingerprint' stdout.txt | LC_ALL=C sort)" ] || fail "$n processes give other bits"
done
# What was written is what was computed.
[ "$one" = "$(fingerprints "$RINGTRUE" info out --fingerprint | grep -E ' (lse|out|dq|dk|dv) ')" ] || fail "info's fingerprints are others"
# The inputs are those that were generated, wherever they lie.
[ "$(fingerprints "$RINGTRUE" info in --fingerprint)" = "$(fingerprints "$RINGTRUE" info out --fingerprint | grep -E ' (q|k|v|dout) ')" ] ||
    fail "the inputs changed on their way"

# check shares its work too, with the same verdict.
expect 0 mpi 3 "$RINGTRUE" check out
grep '^  ' stdout.txt >three.txt
ok "$RINGTRUE" check out
grep '^  ' stdout.txt | cmp - three.txt || fail "three processes give another verdict"
