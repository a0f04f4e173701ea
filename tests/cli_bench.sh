#!/bin/sh
# bench: the rows and their sanity, never a time.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

ok "$RINGTRUE" bench --seqlen 96 --heads 4 --kv-heads 2 --dim 16 --iters 2 --warmup 0
for arith in f32 f64 exact; do
    for pass in forward backward; do
        grep -qE "^  $arith +$pass +[0-9.]+ +[0-9.]+ +[0-9.]+ +[sd]gemm +[0-9.]+ +[0-9.]+$" stdout.txt || fail "no row $arith $pass"
    done
done
grep -qE '^# exact / f64 time: forward [0-9.]+, backward [0-9.]+$' stdout.txt || fail "no ratio of exact to f64"
[ "$(grep -vc '^#' stdout.txt)" -eq 6 ] || fail "not six rows"

refuse 2 '--arith f32,f99: unknown; allowed: ' "$RINGTRUE" bench --arith f32,f99
refuse 2 '--arith : unknown; allowed: ' "$RINGTRUE" bench --arith ''
refuse 2 '--iters 0: a whole number from 1' "$RINGTRUE" bench --iters 0
refuse 2 'bench takes no argument, not in' "$RINGTRUE" bench in
refuse 2 '--peer is compared with f32' "$RINGTRUE" bench --seqlen 8 --heads 1 --arith f64 --peer
refuse 2 '--peer: it computes no alibi, bias, softcap, sink or dropout' "$RINGTRUE" bench --seqlen 8 --heads 1 --arith f32 --peer --sink
refuse 2 'mask causal-bottom-right is not one of' "$RINGTRUE" bench --seqlen 8 --heads 1 --mask causal-bottom-right --peer
refuse 2 'heads 4 is not a multiple of kv_heads 3' "$RINGTRUE" bench --heads 4 --kv-heads 3

refuse 2 'bench --ring needs at least two processes. Hint: mpirun -n 2' "$RINGTRUE" bench --ring
refuse 2 'bench takes no argument, not in' "$RINGTRUE" bench --ring in

# A peer that is not there, that has no torch, that stops early, and one that answers.
RINGTRUE_PYTHON=/nonexistent/python3 && export RINGTRUE_PYTHON
RINGTRUE_PEER=$RT_SOURCE_DIR/validation/peer/sdpa_peer.py && export RINGTRUE_PEER
refuse 4 'does not start' "$RINGTRUE" bench --seqlen 8 --heads 1 --arith f32 --peer
RINGTRUE_PYTHON=sh
echo 'exit 3' >none.sh
RINGTRUE_PEER=none.sh
refuse 4 'has no torch' "$RINGTRUE" bench --seqlen 8 --heads 1 --arith f32 --peer
echo 'echo stub 1.0; read -r _' >early.sh
RINGTRUE_PEER=early.sh
refuse 4 'stopped before its turn was over' "$RINGTRUE" bench --seqlen 8 --heads 1 --arith f32 --peer
# shellcheck disable=SC2016 # for the stub
echo 'echo "stub 1.0 $*"; while read -r _; do echo 1000 3000; done' >stub.sh
RINGTRUE_PEER=stub.sh
ok "$RINGTRUE" bench --batch 2 --seqlen 8 --heads 4 --kv-heads 2 --dim 16 --mask causal --arith f32 --iters 2 --peer
prints '# stub 1.0 2 8 4 2 16 causal '
prints 'forward 1000.000000 s, forward + backward 3000.000000 s'
RINGTRUE_PEER=absent.py
refuse 4 'is not found' "$RINGTRUE" bench --seqlen 8 --heads 1 --arith f32 --peer

if ! command -v python3 >/dev/null 2>&1; then
    echo "the JSON part is left out: no python3"
    exit 0
fi
RINGTRUE_PEER=stub.sh
ok "$RINGTRUE" bench --json --seqlen 64 --heads 2 --dim 32 --mask causal --dtype f32 --arith exact,f64,f32 --iters 3 --peer
python3 - <<'EOF' || fail "bench --json"
import json
rows = json.load(open("stdout.txt"))
assert [(r["arith"], r["pass"]) for r in rows] == [(a, p) for a in ("exact", "f64", "f32") for p in ("forward", "backward")]
for r in rows:
    assert (r["batch"], r["seqlen"], r["heads"], r["kv_heads"], r["dim"], r["mask"], r["dtype"], r["iters"]) == (1, 64, 2, 2, 32, "causal", "f32", 3)
    assert 0 < r["seconds"] <= r["median_seconds"] and r["threads"] >= 1 and "OpenBLAS" in r["blas"]
    work = (2 if r["pass"] == "forward" else 5) * 64 * 64 * 32 * 2
    assert abs(r["gflops"] * 1e9 * r["seconds"] / work - 1) < 1e-9
    assert abs(r["gemm_ratio"] * r["gemm_gflops"] / r["gflops"] - 1) < 1e-9
f64 = {r["pass"]: r["seconds"] for r in rows if r["arith"] == "f64"}
for r in rows:
    if r["arith"] == "exact":
        assert abs(r["f64_ratio"] * f64[r["pass"]] / r["seconds"] - 1) < 1e-9
f32 = {r["pass"]: r for r in rows if r["arith"] == "f32"}
assert abs(f32["forward"]["peer_forward_ratio"] * f32["forward"]["seconds"] / 1000 - 1) < 1e-9
both = f32["forward"]["seconds"] + f32["backward"]["seconds"]
assert abs(f32["backward"]["peer_forward_backward_ratio"] * both / 3000 - 1) < 1e-9
EOF
