#!/bin/sh
# plan: its texts, its JSON, and its counters against closed forms.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

ok "$RINGTRUE" plan --list
[ "$(sed -n '/^#/!s/[: ].*//p' stdout.txt | head -n 2 | tr '\n' ' ')" = 'single ring ' ] || fail "--list does not begin each line with a name"

# Ring, T = S/P tokens of e-byte keys and values: forward 2 (P-1) T Hkv D e sent per rank; backward the same again, and
# 2 P T Hkv D 4 bytes of gradients.  S = 131072, Hkv = 8, D = 128, P = 4: 384, 384 and 1024 MiB.
ok "$RINGTRUE" plan --seqlen 128k --heads 32 --kv-heads 8 --dim 128 --dtype bf16 --plan ring --ranks 4 --summary --verify
prints '# verified: every visible pair once forward and once backward'
awk -v mib=1048576 '
    { gsub(/\(all heads\)/, "") }
    $2 == "pass" { for (i = 1; i <= NF; i++) column[$i] = i }
    $1 == "#" && ($2 == "forward" || $2 == "backward") && NF > 12 {
        rows++
        backward = $2 == "backward"
        if ($column["KV(B)"] != 384 * mib || $column["DKV(B)"] != (backward ? 1024 * mib : 0)) exit 1
        if ($column["sent(B)"] != (backward ? 1408 : 384) * mib || $column["Q(B)"] + $column["STATE(B)"] + $column["DQ(B)"] != 0) exit 1
        if ($column["pairs"] != 32 * 32768 * 131072) exit 1
    }
    END { exit rows != 8 }' stdout.txt || fail "bytes of ring at P = 4"
grep -q ' tile \| move ' stdout.txt && fail "--summary lists tiles"

# Causal pairs of one head, S = 256, P = 4: contiguous, zigzag (all equal), striped.
pairs() { # LAYOUT: the forward's pairs, rank after rank
    ok "$RINGTRUE" plan --seqlen 256 --heads 1 --dim 8 --mask causal --plan ring --layout "$1" --ranks 4 --summary
    awk '$2 == "forward" && NF > 12 { printf "%s%s", n++ ? " " : "", $4 }' stdout.txt
}
[ "$(pairs contiguous)" = "2080 6176 10272 14368" ] || fail "pairs, contiguous"
[ "$(pairs zigzag)" = "8224 8224 8224 8224" ] || fail "pairs, zigzag"
[ "$(pairs striped)" = "8128 8192 8256 8320" ] || fail "pairs, striped"

# Tiles and moves: P ranks, P steps, every tile once; P (P - 1) moves of KV forward.
ok "$RINGTRUE" plan --seqlen 64 --heads 2 --dim 8 --plan ring --ranks 4
[ "$(grep -c '^  forward .* tile ' stdout.txt)" -eq 16 ] || fail "forward tiles"
[ "$(grep -c '^  forward .* move .* KV ' stdout.txt)" -eq 12 ] || fail "forward moves"
[ "$(grep -c '^  backward .* tile ' stdout.txt)" -eq 16 ] || fail "backward tiles"
[ "$(grep -c '^  backward .* move .* DKV ' stdout.txt)" -eq 16 ] || fail "backward moves"
grep -v '^[# ]' stdout.txt && fail "a line that is neither # nor a row"

# The schedule as a table: DistFlashAttn's for P = 4, and its way back with one step more.
ok "$RINGTRUE" plan --seqlen 64 --heads 2 --dim 8 --mask causal --plan balanced --ranks 4 --table
cat >want.txt <<'EOF'
  forward       0  q0k0  q1k1  q2k2  q3k3
  forward       1  q3k0  q1k0  q2k1  q3k2
  forward       2     .     .  q2k0  q3k1
  backward      0  q0k0  q1k1  q2k2  q3k3
  backward      1  q3k0  q1k0  q2k1  q3k2
  backward      2     .     .  q2k0  q3k1
  backward      3     .     .     .     .
EOF
grep -v '^#' stdout.txt | cmp - want.txt || fail "the table of balanced"
prints '# pass       step rank0 rank1 rank2 rank3'
ok "$RINGTRUE" plan --seqlen 12 --heads 2 --dim 8 --plan decode --ranks 3 --layout striped --table
grep -qx '  forward       1 q0k0+q1k0+q2k0 q0k1+q1k1+q2k1 q0k2+q1k2+q2k2' stdout.txt || fail "several pairs in a cell"
refuse 2 '--table: the table is text' "$RINGTRUE" plan --ranks 2 --table --json

# Decode: one query on rank 0, 25 keys interleaved over 4 ranks; its row (8 x 4 bytes and the statistics) is sent by each rank but the owner, once.
for join in tree ag-rs; do
    ok "$RINGTRUE" plan --seqlen 1 --seqlen-k 25 --heads 1 --dim 8 --mask causal-bottom-right --plan decode:join=$join \
        --layout interleaved:queries=first --ranks 4 --summary --verify
    awk '
        { gsub(/\(all heads\)/, "") }
        $2 == "pass" { for (i = 1; i <= NF; i++) column[$i] = i }
        $1 == "#" && $2 == "forward" && NF > 12 {
            if ($column["pairs"] != ($column["rank"] == 0 ? 7 : 6)) exit 1
            if ($column["STATE(B)"] != ($column["rank"] == 0 ? 0 : 36)) exit 1
            if ($column["Q(B)"] != ($column["rank"] == 0 ? 48 : 0)) exit 1
            rows++
        }
        END { exit rows != 4 }' stdout.txt || fail "decode:join=$join"
done

# Plans take parameters: a given grid of tiles, and what is wrong with one.
ok "$RINGTRUE" plan --seqlen 64 --heads 2 --dim 8 --mask causal --plan adaptive:grid=10/11 --ranks 2 --table
grep -qx '  forward       1     .  q1k0' stdout.txt || fail "a given grid"
printf '10\n11\n' >grid.txt
ok "$RINGTRUE" plan --seqlen 64 --heads 2 --dim 8 --mask causal --plan adaptive:grid=@grid.txt --ranks 2 --table
grep -qx '  forward       1     .  q1k0' stdout.txt || fail "a grid from a file"
refuse 2 'the grid lacks tile q1k0' "$RINGTRUE" plan --seqlen 64 --mask causal --plan adaptive:grid=10/01 --ranks 2
refuse 3 "cannot open the grid 'none.txt': No such file" "$RINGTRUE" plan --seqlen 64 --plan adaptive:grid=@none.txt --ranks 2
refuse 3 'cannot read the grid' "$RINGTRUE" plan --seqlen 64 --plan adaptive:grid=@. --ranks 2
refuse 2 'plan hybrid: ulysses is "3"; it must divide 8' "$RINGTRUE" plan --seqlen 64 --plan hybrid:ulysses=3 --ranks 8
refuse 2 'parameter order is given twice' "$RINGTRUE" plan --seqlen 64 --plan ring:order=up,move=all,order=down --ranks 2
refuse 2 'parameter "" is unknown or has no value' "$RINGTRUE" plan --seqlen 64 --plan ring:order=up, --ranks 2
refuse 2 'come behind the colon' "$RINGTRUE" plan --seqlen 64 --plan ring: --ranks 2
refuse 2 'a name has no quotes' "$RINGTRUE" plan --seqlen 64 --plan 'adaptive:grid=@a"b' --ranks 2 --json
refuse 2 'join is "star"; it is one of tree, ag-rs, a2a' "$RINGTRUE" plan --seqlen 64 --plan decode:join=star --ranks 2

# From a dump: its own layout, ranks and algorithm; flags override them.
ok "$RINGTRUE" gen --seqlen 30 --heads 2 --dim 8 --mask causal -o in
ok "$RINGTRUE" run in --plan ring --layout striped --ranks 3 -o out
ok "$RINGTRUE" plan out --summary
prints '# plan ring, layout striped, remainder spread, 3 ranks'
ok "$RINGTRUE" plan out --summary --plan single --layout zigzag --ranks 2 --remainder ceil
prints '# plan single, layout zigzag, remainder ceil, 2 ranks'

# A dump carries the files that its plan names: it is judged, run and laid anew from any folder; so are lists of positions that a spec names.
ok "$RINGTRUE" run in --plan adaptive:grid=@grid.txt --ranks 2 --arith f64 -o carried
cmp grid.txt carried/grid.txt || fail "the grid beside the dump"
mkdir elsewhere
(cd elsewhere && ok "$RINGTRUE" check ../carried && prints 'algorithm adaptive:grid=@grid.txt')
(cd elsewhere && ok "$RINGTRUE" plan "$PWD/../carried" --summary && ok "$RINGTRUE" run ../carried --arith f64 -o again && cmp again/grid.txt ../grid.txt &&
    ok "$RINGTRUE" run ../carried --relayout contiguous --ranks 2 -o laid && ok "$RINGTRUE" check laid) || fail "from another folder"
rm carried/grid.txt
(cd elsewhere && refuse 3 "cannot open the grid '../carried/grid.txt'" "$RINGTRUE" check ../carried)
ok "$RINGTRUE" run in --layout contiguous --ranks 2 --plan ring -o listed
printf 'qkv 0 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14\nqkv 1 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29\n' >listed/order.txt
"$RINGTRUE" info listed | sed -n '/^# spec/,$p' | sed '1d; s/"layout": "contiguous"/"layout": "positions:file=order.txt"/' >listed.json
(cd elsewhere && ok "$RINGTRUE" check ../listed --spec ../listed.json && prints 'layout    positions:file=order.txt' &&
    ok "$RINGTRUE" run ../listed --spec ../listed.json --arith f64 -o from_list && ok "$RINGTRUE" check from_list) || fail "a list beside the dump"
sed 's/order.txt/none.txt/' listed.json >none.json
refuse 3 "cannot open 'listed/none.txt'" "$RINGTRUE" check listed --spec none.json

if ! command -v python3 >/dev/null 2>&1; then
    echo "the JSON part is left out: no python3"
    exit 0
fi
for summary in '' --summary; do
    # shellcheck disable=SC2086 # no word when empty
    ok "$RINGTRUE" plan out --json $summary # which is proved before it is printed
    python3 - "$summary" <<'EOF' || fail "plan --json $summary"
import json, sys
plan = json.load(open("stdout.txt"))
assert plan["planner"] == "ring" and plan["layout"] == "striped" and plan["ranks"] == 3 and plan["verified"]
assert sum(plan["forward"]["counters"]["pairs"]) == 2 * 30 * 31 // 2
assert plan["forward"]["counters"]["sent_bytes"]["KV"] == [2 * 2 * 10 * 2 * 8 * 2] * 3
steps = plan["forward"]["steps"]
assert len(steps) == (0 if sys.argv[1] else 3)
assert sum(t["pairs"] for s in steps for t in s["tiles"]) == (0 if sys.argv[1] else 30 * 31 // 2)
EOF
done

# --cost against closed forms.  Ring, P = 4, full mask, S = 4096, H = Hkv = 2, D = 64: T = 1024 tokens of KV are
# 2 T H D 2 bytes = 512 KiB, a gradient twice that, and a tile is T^2 pairs of 2 heads, 256 operations each forward and 640 backward.
ok "$RINGTRUE" plan --seqlen 4k --heads 2 --dim 64 --plan ring --ranks 4 --summary --json --cost bandwidth=1GiB/s,latency=10us,flops=1TF
python3 - <<'EOF' || fail "--cost"
import json
c = json.load(open("stdout.txt"))["cost"]
near = lambda a, b: abs(a - b) <= 1e-12 * abs(b)
assert c["bandwidth"] == 2**30 and near(c["latency"], 10e-6) and c["flops"] == 1e12
kv, dkv = 10e-6 + 2**19 / 2**30, 10e-6 + 2**20 / 2**30
tile = {"forward": 2 * 2**20 * 256 / 1e12, "backward": 2 * 2**20 * 640 / 1e12}
comm = {"forward": [kv] * 3 + [0], "backward": [kv] + [kv + dkv] * 2 + [dkv] * 2}
for name in comm:
    steps, total = c[name]["steps"], c[name]["total"]
    assert len(steps) == len(comm[name])
    for t, s in enumerate(steps):
        compute = tile[name] if t < 4 else 0
        assert near(s["compute"], compute) and near(s["comm"], comm[name][t])
        assert near(s["time"], max(compute, comm[name][t])) and abs(s["exposed"] - max(0, comm[name][t] - compute)) < 1e-15
    for key in total:
        assert near(total[key], sum(s[key] for s in steps)) or total[key] == 0
EOF
ok "$RINGTRUE" plan --seqlen 4k --heads 2 --dim 64 --plan ring --ranks 4 --summary --cost flops=100GF,bandwidth=25GB/s
prints '# cost: 2.5e+10 B/s each way and 0 s a message on the link of a rank, 1e+11 FLOP/s a rank'
[ "$(grep -cE '^# (forward|backward) +(total|[0-9]+) +[0-9.e+-]+ +[0-9.e+-]+ +[0-9.e+-]+ +[0-9.e+-]+$' stdout.txt)" -eq 11 ] || fail "rows of --cost"
prints '# forward and backward: '
first=$(grep '^# forward and' stdout.txt)
ok "$RINGTRUE" plan --seqlen 4k --heads 2 --dim 64 --plan ring --ranks 4 --summary --cost flops=100GF,bandwidth=100GB/s,element=8
# all elements four times as large, the gradients twice, on four times the bandwidth
[ "$first" != "$(grep '^# forward and' stdout.txt)" ] || fail "element=8 changes nothing"
refuse 2 'element is a number and a unit: B' "$RINGTRUE" plan --cost bandwidth=1,flops=1,element=8s
refuse 2 'bandwidth and flops are needed' "$RINGTRUE" plan --cost bandwidth=1GB/s
refuse 2 'bandwidth is a number and a unit' "$RINGTRUE" plan --cost bandwidth=fast,flops=1TF
refuse 2 'latency is a number and a unit: s ms us ns' "$RINGTRUE" plan --cost bandwidth=1,flops=1,latency=2min
refuse 2 '"width=3" is unknown or given twice' "$RINGTRUE" plan --cost width=3,flops=1TF
refuse 2 'given twice' "$RINGTRUE" plan --cost flops=1TF,flops=1TF
refuse 2 'both above 0' "$RINGTRUE" plan --cost bandwidth=0,flops=1TF
