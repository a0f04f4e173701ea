#!/bin/sh
# A wrong element is found and named; diff finds the same one; JSON says what the text says.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

ok "$RINGTRUE" gen --seqlen 40 --batch 2 --heads 4 --kv-heads 2 --dim 16 --mask causal -o in
ok "$RINGTRUE" run in --plan ring --layout zigzag --ranks 3 --out-dtype bf16 -o out
ok "$RINGTRUE" check out
# Computed in f64 and rounded once: the truth's radius is far below half an ulp, so all but near-ties are known to be ROUNDED.
awk '/^  (lse|out|dv) / && $4 >= 0.99 * $3 { n++ } END { exit n != 3 }' stdout.txt || fail "results rounded from f64 are not ROUNDED"

# Rank 1 of 3 in zigzag over 40 tokens: runs of 7 7 7 7 6 6; it holds run 1 (7..13) and run 4 (28..33).
# Element out[b 1, slot 9 = token 30, head 2, dim 5] of (2, 13, 4, 16): the sign, which is the top bit of the second byte.
at=$(($(tensor_at out out/rank1.safetensors) + 2 * (((1 * 13 + 9) * 4 + 2) * 16 + 5)))
cp -r out flipped
flip flipped/rank1.safetensors $((at + 1)) 128
expect 1 "$RINGTRUE" check flipped
prints 'first WRONG out[b 1, token 30, head 2, dim 5]'
prints 'worst WRONG out[b 1, token 30, head 2, dim 5]'
prints 'owner rank 1, slot 9 of 13 (second half)'
prints "# replay: $RINGTRUE check flipped"
prints '# 5 tensors judged: 4 pass, 1 fail;'
grep '^  out ' stdout.txt | grep -q 'FAIL$' || fail "the row of out does not FAIL"
grep '^  \(lse\|d[qkv]\) ' stdout.txt | grep -qv 'PASS$' && fail "another row than out's fails"
[ "$(tail -n 1 stdout.txt | sed 's/.*;  //')" = FAIL ] || fail "the last line does not say FAIL"

# NaN in a visible place is SPECIAL and fails; so does infinity: exponent bits all set.
for low in 255 128; do
    cp out/rank1.safetensors flipped/rank1.safetensors
    # shellcheck disable=SC2059
    printf "\\$(printf %03o $low)\\177" | dd of=flipped/rank1.safetensors bs=1 seek=$at conv=notrunc 2>/dev/null
    expect 1 "$RINGTRUE" check flipped
    prints 'first SPECIAL out[b 1, token 30, head 2, dim 5]'
done

# Two ulps beside the rounded truth are more than the declared arithmetic, f64, explains.
cp out/rank1.safetensors flipped/rank1.safetensors
flip flipped/rank1.safetensors "$at" 2
expect 1 "$RINGTRUE" check flipped
grep '^  out ' stdout.txt | awk '$7 + $8 == 1 { found = 1 } END { exit !found }' || fail "not one element SUSPECT or WRONG"
prints 'WRONG out[b 1, token 30, head 2, dim 5]'

# diff names the same element, of dumps and of files.
cp out/rank1.safetensors flipped/rank1.safetensors
flip flipped/rank1.safetensors "$at" 1
expect 1 "$RINGTRUE" diff out flipped
prints 'b 1, token 30, head 2, dim 5:'
prints '# 1 tensor differs;  DIFFERENT'
grep '^  out ' stdout.txt | awk '$3 == 10240 / 2 && $4 == 1 && $5 == 0 && $6 == 1 { found = 1 } END { exit !found }' || fail "not one element by one ulp"
expect 1 "$RINGTRUE" diff out/rank1.safetensors flipped/rank1.safetensors
prints "element $((((1 * 13 + 9) * 4 + 2) * 16 + 5)):"
ok "$RINGTRUE" diff out out
prints '# 0 tensors differ;  SAME BITS'
ok "$RINGTRUE" diff out/rank1.safetensors out/rank1.safetensors
[ "$(fingerprints "$RINGTRUE" info out --fingerprint | grep -c .)" -eq 9 ] || fail "nine fingerprints"
fingerprints "$RINGTRUE" info out --fingerprint >a.txt
fingerprints "$RINGTRUE" info flipped --fingerprint >b.txt
[ "$(diff a.txt b.txt | grep -c '^> fingerprint out')" -eq 1 ] || fail "one bit leaves the fingerprint"
[ "$(diff a.txt b.txt | grep -c '^>')" -eq 1 ] || fail "one bit changes another tensor's fingerprint"

# Logits of 1e14: rows that the exact pass cannot hold reach the keys' gradients as open, not as nothing.
for seed in 1 2 3; do
    ok "$RINGTRUE" gen --seqlen 8 --heads 1 --dim 4 --scale 1e13 --dtype f32 --seed $seed --force -o tall
    ok "$RINGTRUE" run tall --arith exact --force -o tallest
    ok "$RINGTRUE" check tallest
done

# Logits of thousands: the weights of the binary64 truth add up to 1 all the same.
ok "$RINGTRUE" gen --family huge --dtype f16 --batch 3 --seqlen 20 --seqlen-k 40 --heads 1 --dim 8 --mask causal --bias 11ss --key-lengths 9,40,5 --seed 2186 -o thousands
ok "$RINGTRUE" run thousands -o thousands64
ok "$RINGTRUE" check thousands64
ok "$RINGTRUE" check thousands64 --truth f64
ok "$RINGTRUE" check thousands64 --sample keys --samples 5

# Weights as small as 1e-160: their squares are no double, and the bounds of the keys that have no other still hold.
for seed in 2 5; do
    ok "$RINGTRUE" gen --family huge --dtype f64 --seqlen 24 --heads 1 --dim 8 --seed $seed --force -o tiny
    ok "$RINGTRUE" run tiny --force -o tiny64
    for how in '--truth exact' '--truth f64' '--sample both --samples 24'; do
        # shellcheck disable=SC2086
        ok "$RINGTRUE" check tiny64 $how
    done
done

if ! command -v python3 >/dev/null 2>&1; then
    echo "the JSON part is left out: no python3"
    exit 0
fi
cp out/rank1.safetensors flipped/rank1.safetensors
flip flipped/rank1.safetensors $((at + 1)) 128
for dump in out flipped; do
    code=0
    "$RINGTRUE" check $dump >text.txt || code=$?
    expect $code "$RINGTRUE" check $dump --json
    python3 - "$code" <<'EOF' || fail "check --json of $dump"
import json, sys
report = json.load(open("stdout.txt"))
assert report["schema"] == 1 and report["verb"] == "check" and report["pass"] == (sys.argv[1] == "0")
assert report["spec"]["layout"] == "zigzag" and report["spec"]["ranks"] == 3
names = ["ROUNDED", "FAITHFUL", "EXPLAINED", "SUSPECT", "WRONG", "SPECIAL", "UNDEFINED"]
rows = [line.split() for line in open("text.txt") if line.startswith("  ")]
assert len(rows) == 5
for row in rows:
    tensor = report["tensors"][row[0]]
    assert tensor["judged"] and tensor["pass"] == (row[-1] == "PASS") and tensor["dtype"] == row[1]
    assert tensor["elements"] == int(row[2]) == sum(tensor["count"].values())
    assert [tensor["count"][name] for name in names] == [int(x) for x in row[3:10]]
    assert float(f"{tensor['max_ratio']:.3g}") == float(row[10])
    assert float(f"{tensor['max_ratio_lambda']:.3g}") == float(row[11])
    assert sum(tensor["ulp_bins"]) == tensor["elements"]
if sys.argv[1] == "1":
    first = report["tensors"]["out"]["first"]
    assert [first[k] for k in ("batch", "token", "head", "dim", "class")] == [1, 30, 2, 5, "WRONG"]
    assert "owner rank 1, slot 9 of 13" in first["place"]
EOF
done
expect 1 "$RINGTRUE" diff out flipped --json
python3 - <<'EOF' || fail "diff --json"
import json
report = json.load(open("stdout.txt"))
assert report["differing"] == 1 and report["only_in_one"] == []
assert [t["tensor"] for t in report["tensors"] if t["differ"]] == ["out"]
EOF
expect 0 "$RINGTRUE" info out --json --fingerprint
python3 - <<'EOF' || fail "info --json"
import json
report = json.load(open("stdout.txt"))
assert report["spec"]["seqlen"] == 40 and len(report["files"]) == 3
text = dict(line.split()[1::2] for line in open("a.txt"))
assert report["fingerprints"] == text and len(text) == 9
EOF
