#!/bin/sh
# bench --ring: the rows and their sanity, never a time.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"
OMP_NUM_THREADS=1 && export OMP_NUM_THREADS
# Not `ok`: mpirun tells on stderr of signals that a busy machine sends.

expect 0 mpi 2 "$RINGTRUE" bench --ring --iters 1 --warmup 0
prints '2 processes  1 rounds after 0'
[ "$(grep -vc '^#' stdout.txt)" -eq 5 ] || fail "not five message sizes"
# message, hops, and medians in brackets of their quartiles; the ratio is of the medians
grep -v '^#' stdout.txt | tr -d '[]' | awk -v size=1048576 '{
    if ($1 != size || $2 < 20 || $3 < $4 || $3 > $5 || $6 < $7 || $6 > $8) exit 1
    if ($11 < 0.99 * $3 / $6 || $11 > 1.01 * $3 / $6 || $12 != $11 || $13 != $11) exit 1
    size *= 2 }' || fail "the rows"

if ! command -v python3 >/dev/null 2>&1; then
    echo "the JSON part is left out: no python3"
    exit 0
fi
expect 0 mpi 2 "$RINGTRUE" bench --ring --iters 1 --warmup 0 --json
python3 - <<'EOF' || fail "the JSON rows"
import json
rows = json.load(open("stdout.txt"))
assert [r["bytes"] for r in rows] == [1 << n for n in range(20, 25)]
for r in rows:
    assert (r["bench"], r["processes"], r["rounds"]) == ("ring", 2, 1) and r["hops"] >= 20
    for value, spread in (("sendrecv_seconds", "sendrecv_quartiles"), ("step_seconds", "step_quartiles"), ("ratio", "ratio_quartiles")):
        assert 0 < r[spread][0] <= r[value] <= r[spread][1], r
EOF
