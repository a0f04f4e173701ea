#!/bin/sh
# The forms of a dump: npy files, lists of files, a spec beside them; each gives the verdict of the folder it came from.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

ok "$RINGTRUE" gen --seqlen 20 --batch 2 --heads 4 --kv-heads 2 --dim 8 --dim-v 12 --mask causal -o in
ok "$RINGTRUE" run in --out-dtype bf16 -o one
ok "$RINGTRUE" run in --out-dtype bf16 --plan ring --layout zigzag --ranks 3 -o three
cat >spec.json <<'EOF'
{"ringtrue": 1, "batch": 2, "seqlen": 20, "heads": 4, "kv_heads": 2, "dim": 8, "dim_v": 12, "mask": "causal", "arithmetic": "f64"}
EOF

# npy FILE DESCR SHAPE BYTES FROM NAME: tensor NAME of the safetensors file FROM as npy 1.0.
npy() {
    dictionary="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
    { printf '\223NUMPY\001\000\166\000%-117s\n' "$dictionary" && tail -c +$(($(tensor_at "$6" "$5") + 1)) "$5" | head -c "$4"; } >"$1"
    [ "$(wc -c <"$1")" -eq $((128 + $4)) ] || fail "size of $1"
}
verdict() { # the rows of the table
    ok "$RINGTRUE" check "$@"
    grep '^  [a-z]' stdout.txt
}

mkdir npy
from=one/rank0.safetensors
npy npy/q.npy '<V2' '(2, 20, 4, 8)' $((2 * 20 * 4 * 8 * 2)) $from q
npy npy/k.npy '<u2' '(2, 20, 2, 8)' $((2 * 20 * 2 * 8 * 2)) $from k
npy npy/v.npy '|V2' '(2, 20, 2, 12)' $((2 * 20 * 2 * 12 * 2)) $from v
npy npy/out.npy 'bfloat16' '(2, 20, 4, 12)' $((2 * 20 * 4 * 12 * 2)) $from out
refuse 3 'spec.json' "$RINGTRUE" check npy
cp spec.json npy
verdict one | grep '^  out' >want.txt
verdict npy | cmp - want.txt || fail "npy: another verdict"
prints '# lse not judged: not in the dump'
prints '# dq not judged: not in the dump'
verdict npy/q.npy npy/k.npy npy/v.npy npy/out.npy | cmp - want.txt || fail "a list of npy files: another verdict"
npy npy/lse.npy '<f4' '(2, 4, 20)' $((2 * 4 * 20 * 4)) $from lse
verdict one | grep '^  \(lse\|out\)' >want.txt
verdict npy | cmp - want.txt || fail "npy with lse: another verdict"
rm npy/k.npy
refuse 3 "missing file 'npy/k.npy'" "$RINGTRUE" check npy
for at in 0 5 9 60 127 128 200; do
    npy npy/k.npy '<V2' '(2, 20, 2, 8)' $((2 * 20 * 2 * 8 * 2)) $from k
    head -c $at npy/k.npy >short.npy && mv short.npy npy/k.npy
    refuse 3 'npy/k.npy' "$RINGTRUE" check npy
done

# A list of safetensors files is in the order of the ranks, whatever their names.
verdict three >want.txt
verdict three/rank0.safetensors three/rank1.safetensors three/rank2.safetensors | cmp - want.txt || fail "a list of files: another verdict"
mkdir named
cp three/rank0.safetensors named/c.safetensors
cp three/rank1.safetensors named/a.safetensors
cp three/rank2.safetensors named/b.safetensors
verdict named/c.safetensors named/a.safetensors named/b.safetensors | cmp - want.txt || fail "renamed files: another verdict"
# In another order they do not fit the layout: ranks 0 and 2 of 20 tokens in 6 runs hold 7 and 6.
refuse 3 'slots' "$RINGTRUE" check named/b.safetensors named/a.safetensors named/c.safetensors
refuse 3 "none is named rank0.safetensors" "$RINGTRUE" check named

# One file is a dump, and --spec goes before the spec inside.
verdict one/rank0.safetensors >want.txt
verdict one | cmp - want.txt || fail "the file and its folder: another verdict"
verdict one --spec spec.json | cmp - want.txt || fail "--spec: another verdict"
sed 's/causal/full/' spec.json >full.json
expect 1 "$RINGTRUE" check one --spec full.json
prints 'mask full'
# The three are the one: gathered by original position.
fingerprints "$RINGTRUE" info one --fingerprint >want.txt
fingerprints "$RINGTRUE" info three --fingerprint | grep ' \(q\|k\|v\|dout\) ' | while read -r line; do
    grep -qF "$line" want.txt || fail "inputs of three are others"
done
