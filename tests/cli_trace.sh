#!/bin/sh
# run --trace: one file from all processes; its events against the plan and against the printed totals.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"
OMP_NUM_THREADS=1 && export OMP_NUM_THREADS

ok "$RINGTRUE" gen --seqlen 192 --heads 2 --dim 16 --mask causal -o in
ok "$RINGTRUE" run in --plan ring --layout zigzag --ranks 4 --trace one.json
prints '0 messages, 0.000 MiB between processes'
grep -q 'overlap' stdout.txt && fail "an overlap without messages"
cp one.json kept.json
refuse 3 "output 'one.json' exists and stays as it is" "$RINGTRUE" run in --trace one.json
cmp one.json kept.json || fail "one.json was touched"
ok "$RINGTRUE" run in --plan ring --layout zigzag --ranks 4 --trace one.json --force
refuse 3 'no-such-folder/a.json' "$RINGTRUE" run in --trace no-such-folder/a.json
refuse 2 '--transport carrier: unknown; allowed: auto p2p collective' "$RINGTRUE" run in --fingerprint --transport carrier

one=$(fingerprints "$RINGTRUE" run in --plan ring --layout zigzag --ranks 4 --fingerprint)
for n in 1 2 3; do
    for transport in p2p auto collective; do
        name=$n-$transport
        many=$(fingerprints mpi $n "$RINGTRUE" run in --plan ring --layout zigzag --ranks 4 --fingerprint --transport $transport --trace $name.json)
        [ "$one" = "$many" ] || fail "$n processes, $transport: other bits"
        if [ $n -gt 1 ]; then
            grep -q '^# steps with messages: .* overlap [0-9.]* % (measured' stdout.txt || fail "the overlap is not printed"
            prints '# overlap: the share of the communication time'
        fi
        cp stdout.txt $name.txt
    done
done
prints '0 point to point'
for keep in yes no; do
    fingerprints mpi 2 "$RINGTRUE" run in --plan ulysses:keep=$keep --ranks 2 --fingerprint --trace keep-$keep.json >keep-$keep.txt
done
cmp keep-yes.txt keep-no.txt || fail "what is kept has other bits than what is sent again"
# A file that cannot be written is told by one process, and no other waits.
expect 3 mpi 2 "$RINGTRUE" run in --plan ring --ranks 4 --trace no-such-folder/a.json
says 'no-such-folder/a.json'

if ! command -v python3 >/dev/null 2>&1; then
    echo "the events are not read: no python3"
    exit 0
fi
cat >read.py <<'PY'
import json, sys
P, TILES, STEPS = 4, 16, 4
for n in (1, 2, 3):
    for transport in ("p2p", "auto", "collective"):
        trace = json.load(open(f"{n}-{transport}.json"))
        head, events = trace["otherData"], trace["traceEvents"]
        assert head["plan"] == "ring" and head["ranks"] == P and head["processes"] == n, head
        assert 0 <= head["overlap"] <= 1 and head["hidden_seconds"] <= head["communication_seconds"]
        x = [e for e in events if e["ph"] == "X"]
        assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in x)
        tiles = [e for e in x if e["cat"] == "compute"]
        assert sorted((e["args"]["pass"], e["args"]["tile"]) for e in tiles) == sorted((p, i) for p in ("forward", "backward") for i in range(TILES))
        owner = lambda rank: rank * n // P
        assert all(e["pid"] == owner(e["args"]["rank"]) and e["tid"] == 1 + e["args"]["rank"] for e in tiles)
        # every step of every rank, with its compute time, its wait, its bytes and messages
        ranks = {(e["args"]["pass"], e["args"]["step"], e["args"]["rank"]): e for e in x if e["cat"] == "rank"}
        assert len(ranks) == (STEPS + STEPS + 1) * P
        for (p, s, r), e in ranks.items():
            mine = [t for t in tiles if (t["args"]["pass"], t["args"]["step"], t["args"]["rank"]) == (p, s, r)]
            assert e["args"]["tiles"] == len(mine) and abs(e["args"]["compute_us"] - sum(t["dur"] for t in mine)) < 1
            assert all(e["ts"] - 0.01 <= t["ts"] and t["ts"] + t["dur"] <= e["ts"] + e["dur"] + 0.01 for t in mine)
        # messages are posted before the first tile of their step begins, and are there before they land
        for p in range(n):
            for key in {(e["args"]["pass"], e["args"]["step"]) for e in x}:
                of = lambda cat: [e for e in x if e["pid"] == p and e["cat"] == cat and (e["args"]["pass"], e["args"]["step"]) == key]
                post, work, land = of("post"), of("compute"), of("land")
                for a in post:
                    assert all(a["ts"] + a["dur"] <= t["ts"] + 0.01 for t in work)
                for a in land:
                    assert all(t["ts"] + t["dur"] <= a["ts"] + 0.01 for t in work + of("wait") + post)
        # messages: a beginning and an end each; the same moves at both sides, the bytes of ring by its closed form
        flights = [e for e in events if e["ph"] in "be"]
        begun = {(e["id"], e["pid"]): e for e in flights if e["ph"] == "b"}
        ended = {(e["id"], e["pid"]): e for e in flights if e["ph"] == "e"}
        assert begun.keys() == ended.keys() and len(flights) == 2 * len(begun)
        assert all(ended[k]["ts"] >= e["ts"] for k, e in begun.items())
        moves = lambda side: sorted((e["args"]["pass"], e["args"]["move"], e["args"]["bytes"]) for e in begun.values() if e["id"][0] == side and e["args"]["move"] >= 0)
        assert moves("s") == moves("r")
        cross = sum(owner(r) != owner((r + 1) % P) for r in range(P))
        slab = 192 // P * 2 * (16 + 16) * 8
        assert len(moves("s")) == (3 + 3 + 4) * cross and all(b == slab for _, _, b in moves("s"))
        total = sum(e["args"]["bytes"] for e in x if e["cat"] == "step")
        assert total == head["bytes"] == len(moves("s")) * slab, (total, head["bytes"])
        steps = head["steps"]
        assert sum(steps.values()) == (8 if n > 1 else 0)
        assert transport != "p2p" or steps["p2p"] == sum(steps.values())
        assert transport != "collective" or steps["p2p"] == 0
# Ulysses: the backward sends Q and KV again, or works on what the forward left
slab = 96 * 16 * 8
for keep in ("yes", "no"):
    trace = json.load(open(f"keep-{keep}.json"))
    sent = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "b" and e["id"][0] == "s" and e["args"]["move"] >= 0:
            key = e["args"]["pass"], e["name"].split()[0]
            sent[key] = sent.get(key, 0) + e["args"]["bytes"]
    assert sent[("forward", "Q")] == 2 * slab and sent[("forward", "KV")] == 4 * slab, sent
    again = {} if keep == "yes" else {"Q": 2 * slab, "KV": 4 * slab}
    assert {p: b for (way, p), b in sent.items() if way == "backward" and p in ("Q", "KV")} == again, sent
    assert sent[("backward", "DQ")] == 2 * slab and sent[("backward", "DKV")] == 4 * slab, sent
    assert trace["otherData"]["bytes"] == sum(sent.values()), sent
PY
python3 read.py || fail "the events of a trace"
