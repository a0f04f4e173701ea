#!/bin/sh
# check holds less than 1.5 x the bytes of its files and 64 MiB, the mapped files included.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

if [ -n "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ]; then
    echo "skipped: a sanitizer's own memory would be measured"
    exit 77
fi
ok "$RINGTRUE" gen --seqlen 2k --heads 4 --dim 128 --mask causal -o in
ok "$RINGTRUE" run in --plan ring --layout zigzag --ranks 4 --out-dtype bf16 -o out
rm -r in
ok "$RINGTRUE" check out
peak=$(sed -n 's/.*peak memory \([0-9]*\) MiB.*/\1/p' stdout.txt)
bytes=$(cat out/*.safetensors | wc -c)
limit=$((bytes * 3 / 2 / 1048576 + 64))
echo "peak memory $peak MiB, files $((bytes / 1048576)) MiB, limit $limit MiB"
[ "$peak" -gt 0 ] || fail "no peak memory printed"
[ "$peak" -lt "$limit" ] || fail "peak memory $peak MiB is not below $limit MiB"
