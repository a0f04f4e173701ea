#!/bin/sh
# run --relayout: a dump in another layout, there and back, bit by bit; padding with NaN reaches nothing.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"
export OMP_NUM_THREADS=1 # small problems: more threads would only wait

prints_of() { # DUMP: its fingerprints, by original position
    fingerprints "$RINGTRUE" info "$1" --fingerprint
}
ok "$RINGTRUE" gen --batch 2 --seqlen 23 --heads 4 --kv-heads 2 --dim 8 --dim-v 4 --mask causal --cu-seqlens 0,9,9,12,23 -o in
ok "$RINGTRUE" run in --layout zigzag --ranks 3 --plan ring --out-dtype bf16 -o start
want=$(prints_of start)
[ "$(echo "$want" | wc -l)" -eq 9 ] || fail "nine tensors"

# Through every kind of order and several P, then back to where it began: the same files.
ok cp -r start here
for how in "contiguous 5" "striped:stripe=4 2" "zigzag-doc 5" "contiguous-doc 3" "ptrr:block=3 3" "hybrid-te:ulysses=2 4" \
    "hybrid-mindspeed:ulysses=2 4" "usp:ulysses=3,order=ring-low 6" "usp:ulysses=2,tokens=strip 6" "interleaved:size=2 3" "chunked:chunks=0 2" \
    "fpdt:chunks=2 4" "head-tail 7" "contiguous 1"; do
    ok "$RINGTRUE" run here --relayout "${how% *}" --ranks "${how#* }" -o next
    [ "$(prints_of next)" = "$want" ] || fail "other bits in $how"
    [ "$(find next -name 'rank*.safetensors' | wc -l)" -eq "${how#* }" ] || fail "files of $how"
    rm -r here
    mv next here
done
ok "$RINGTRUE" check here
ok "$RINGTRUE" run here --relayout zigzag --ranks 3 -o back
for r in 0 1 2; do
    cmp "back/rank$r.safetensors" "start/rank$r.safetensors" || fail "rank $r is not what it was"
done

# Padded: documents at offsets of their own, rows of padding between them.
ok "$RINGTRUE" run back --relayout zigzag-doc --ranks 2 --cu-seqlens-padded 0,12,16,20,32 -o padded
[ "$(prints_of padded)" = "$want" ] || fail "other bits in padded"
ok "$RINGTRUE" check padded
ok "$RINGTRUE" info padded
prints '[2, 16, 4, 8]'
prints '"cu_seqlens_padded": ['
if command -v python3 >python.txt; then
    # NaN in every row of padding, of every tensor.
    cat >poison.py <<'P'
import json, struct, sys
for path in sys.argv[1:]:
    data = bytearray(open(path, "rb").read())
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    start, size = 8 + n, {"BF16": 2, "F32": 4}
    a, b = header["pos"]["data_offsets"]
    pos = struct.unpack("<%dq" % ((b - a) // 8), data[start + a:start + b])
    for name, t in header.items():
        if name in ("__metadata__", "pos"):
            continue
        rows = 2 if name == "lse" else 1
        outer = inner = 1
        for x in t["shape"][:rows]:
            outer *= x
        for x in t["shape"][rows + 1:]:
            inner *= x
        assert t["shape"][rows] == len(pos) and -1 in pos
        step = inner * size[t["dtype"]]
        for o in range(outer):
            for i, p in enumerate(pos):
                if p < 0:
                    at = start + t["data_offsets"][0] + (o * len(pos) + i) * step
                    data[at:at + step] = b"\xff" * step
    open(path, "wb").write(data)
P
    ok cp -r padded nan
    ok python3 poison.py nan/rank0.safetensors nan/rank1.safetensors
    cmp -s nan/rank0.safetensors padded/rank0.safetensors && fail "nothing is poisoned"
    [ "$(prints_of nan)" = "$want" ] || fail "NaN in padding reaches a fingerprint"
    ok "$RINGTRUE" check padded
    grep '^  ' stdout.txt >clean.rows
    ok "$RINGTRUE" check nan
    grep '^  ' stdout.txt | cmp - clean.rows || fail "NaN in padding reaches the verdict"
    for plan in ring single; do
        [ "$(fingerprints "$RINGTRUE" run nan --plan $plan --fingerprint)" = "$(fingerprints "$RINGTRUE" run padded --plan $plan --fingerprint)" ] ||
            fail "NaN in padding reaches a result"
    done
    ok "$RINGTRUE" run nan --relayout zigzag --ranks 3 --cu-seqlens-padded none -o clean
    cmp clean/rank1.safetensors start/rank1.safetensors || fail "NaN in padding reaches another layout"
    # A wrong value is placed by its slot, and by the row where it stands.
    cat >spoil.py <<'P'
import json, struct
data = bytearray(open("spoilt/rank1.safetensors", "rb").read())
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + n])
a, b = header["pos"]["data_offsets"]
pos = struct.unpack("<%dq" % ((b - a) // 8), data[8 + n + a:8 + n + b])
row = next(i for i, p in enumerate(pos) if p >= 0 and -1 in pos[:i])
at = 8 + n + header["out"]["data_offsets"][0] + row * 4 * 4 * 2
data[at:at + 2] = b"\x00\x44" # 512
open("spoilt/rank1.safetensors", "wb").write(data)
print("owner rank 1, slot %d of %d, row %d of its tensors" % (sum(p >= 0 for p in pos[:row]), sum(p >= 0 for p in pos), row))
P
    ok cp -r padded spoilt
    ok python3 spoil.py
    place=$(cat stdout.txt)
    expect 1 "$RINGTRUE" check spoilt
    prints "$place"
    # As a list with -1, for a spec that names the tensor.
    ok "$RINGTRUE" info nan
    sed -n '/^{/,$p' stdout.txt | sed '/"cu_seqlens_\(k_\)\{0,1\}padded": \[/,/\]/d; s/^ *"layout": .*/"layout": {"positions": "pos"},/' >list.json
    ok "$RINGTRUE" check nan --spec list.json
    grep '^  ' stdout.txt | cmp - clean.rows || fail "a list with -1"
fi
# A global dump may be padded, too: its rows are those of the padded sequence.
ok "$RINGTRUE" run back --relayout contiguous --ranks 1 --cu-seqlens-padded 0,12,16,20,32 -o one
mkdir global
mv one/rank0.safetensors global/all.safetensors
ok "$RINGTRUE" info global
sed -n '/^{/,$p' stdout.txt | sed 's/^ *"ranks": 1,/"ranks": 2,/' >global.json
ok "$RINGTRUE" check global --spec global.json
prints 'layout    contiguous, P 2'
[ "$(fingerprints "$RINGTRUE" info global --spec global.json --fingerprint)" = "$want" ] || fail "other bits in a global padded dump"

# What run writes has the rows of the layout's padding, too.
ok "$RINGTRUE" run padded --plan ring --out-dtype bf16 -o rerun --fingerprint
ran=$(grep '^fingerprint' stdout.txt | LC_ALL=C sort)
[ "$(prints_of rerun | grep -v ' q \| k \| v \| dout ')" = "$ran" ] || fail "run misplaces rows beside padding"
ok "$RINGTRUE" check rerun

# What belongs to the scores goes along: each rank's own queries of a bias, what has no queries with rank 0.
for shape in bhss 111s; do
    ok "$RINGTRUE" gen --batch 2 --seqlen 11 --heads 2 --dim 4 --dtype f32 --mask causal --sink --bias $shape --cu-seqlens 0,4,11 --force -o scores
    ok "$RINGTRUE" run scores --layout striped --ranks 3 --plan ring --force -o scored
    want=$(prints_of scored)
    [ "$(echo "$want" | wc -l)" -eq 11 ] || fail "dsink and dbias"
    ok "$RINGTRUE" run scored --relayout zigzag-doc --ranks 2 --cu-seqlens-padded 0,8,16 --force -o moved
    [ "$(prints_of moved)" = "$want" ] || fail "other bits of the scores, bias $shape"
    [ "$(fingerprints "$RINGTRUE" run moved --plan ring --ranks 1 --layout contiguous --cu-seqlens-padded none --fingerprint)" = \
        "$(fingerprints "$RINGTRUE" run scored --plan ring --ranks 1 --layout contiguous --fingerprint)" ] || fail "another sink or bias $shape"
    ok "$RINGTRUE" run moved --relayout striped --ranks 3 --cu-seqlens-padded none --force -o again
    for r in 0 1 2; do
        cmp "again/rank$r.safetensors" "scored/rank$r.safetensors" || fail "rank $r with bias $shape is not what it was"
    done
done

# A dense mask, and the other parts of one, go along.
ok "$RINGTRUE" gen --seqlen 6 --heads 2 --dim 4 --dtype f32 --mask causal --window 2,1 -o masked
cat >dense.py <<'P'
import struct
bits = bytes(i - j != 1 for i in range(6) for j in range(6))
header = b"{'descr': '|b1', 'fortran_order': False, 'shape': (6, 6), }"
header += b" " * ((-(10 + len(header)) - 1) % 64) + b"\n"
open("mask.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bits)
P
if command -v python3 >python.txt; then
    ok python3 dense.py
    ok "$RINGTRUE" gen --seqlen 6 --heads 2 --dim 4 --dtype f32 --mask causal --window 2,1 --dense-mask mask.npy -o dense
    ok "$RINGTRUE" run dense --plan ring --ranks 2 --layout zigzag -o dense2
    want=$(prints_of dense2)
    [ "$want" != "$(ok "$RINGTRUE" run masked --plan ring --ranks 2 --layout zigzag --force -o masked2 && prints_of masked2)" ] || fail "the mask does nothing"
    ok "$RINGTRUE" run dense2 --relayout striped --ranks 3 -o dense3
    [ "$(prints_of dense3)" = "$want" ] || fail "other bits beside a dense mask"
    ok "$RINGTRUE" check dense3
    ok "$RINGTRUE" run dense3 --relayout zigzag --ranks 2 -o dense4
    cmp dense4/rank0.safetensors dense2/rank0.safetensors || fail "the file with the mask is not what it was"
fi

# The names and axes of the dump are kept.
ok "$RINGTRUE" info start
sed -n '/^{/,$p' stdout.txt | sed 's/^ *"order": .*/"order": "bshd", "tensors": {"lse": "softmax_lse"},/' >names.json
refuse 3 "tensor 'softmax_lse'" "$RINGTRUE" run start --relayout striped --spec names.json -o never

# gen writes a layout at once: the same numbers as in order.
ok "$RINGTRUE" gen --batch 2 --seqlen 23 --heads 4 --kv-heads 2 --dim 8 --dim-v 4 --mask causal --cu-seqlens 0,9,9,12,23 --layout zigzag-doc \
    --ranks 3 --cu-seqlens-padded 0,12,18,24,36 -o born
ok "$RINGTRUE" diff born in
prints 'SAME BITS'
ok "$RINGTRUE" info born
prints '# layout    zigzag-doc, P 3, one file per rank'
[ "$(fingerprints "$RINGTRUE" run born --plan single --fingerprint)" = "$(fingerprints "$RINGTRUE" run in --plan single --ranks 3 --layout zigzag-doc --cu-seqlens-padded 0,12,18,24,36 --fingerprint)" ] ||
    fail "another result from what gen laid out"
refuse 2 'need --layout or --ranks' "$RINGTRUE" gen --seqlen 8 --remainder last -o never
refuse 2 'must divide the 2 ranks' "$RINGTRUE" gen --seqlen 8 --layout usp:ulysses=3 --ranks 2 -o never

# Also where gen lays out, and from a file beside the spec.
{
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|b1', 'fortran_order': False, 'shape': (6, 6), }"
    printf '\001\000\000\000\000\000\001\001\000\000\000\000\000\001\001\000\000\000\001\000\000\001\000\000\000\000\001\001\001\000\001\001\001\001\001\001'
} >dense.npy
ok "$RINGTRUE" gen --seqlen 6 --heads 2 --dim 4 --dense-mask dense.npy -o whole
ok "$RINGTRUE" gen --seqlen 6 --heads 2 --dim 4 --dense-mask dense.npy --layout zigzag --ranks 2 -o spread
ok "$RINGTRUE" info whole
sed -n '/^{/,$p' stdout.txt | sed 's/"dense_mask": "mask"/"dense_mask": "dense.npy"/' >beside.json
grep -q dense.npy beside.json || fail "no dense mask in the spec"
ok "$RINGTRUE" run whole --spec beside.json --relayout striped --ranks 3 -o beside
want=$(fingerprints "$RINGTRUE" run whole --arith exact --fingerprint)
for dump in spread beside; do
    [ "$(fingerprints "$RINGTRUE" run $dump --arith exact --fingerprint --plan ring)" = "$want" ] || fail "the dense mask of $dump"
done
sed 's/"tensors": {/&"q": "mask", /' beside.json >taken.json
cmp -s beside.json taken.json || refuse 3 "tensor 'mask'" "$RINGTRUE" run whole --relayout striped --spec taken.json -o never

# What cannot be.
refuse 2 '--relayout needs -o FOLDER' "$RINGTRUE" run start --relayout striped
for flag in '--plan ring' '--arith exact' --fingerprint --forward-only '--out-dtype f32' '--trace never' '--transport p2p'; do
    # shellcheck disable=SC2086
    refuse 2 "${flag%% *} goes with a run" "$RINGTRUE" run start --relayout striped $flag -o never
done
refuse 2 'no --layout beside it' "$RINGTRUE" run start --relayout striped --layout zigzag -o never
expect 2 mpi 2 "$RINGTRUE" run start --relayout striped -o never
says '--relayout runs in one process'
refuse 2 'layout snake is unknown' "$RINGTRUE" run start --relayout snake -o never
refuse 3 "exists" "$RINGTRUE" run start --relayout striped -o back
refuse 2 'needs each document of seqlen divisible by 6, but number 0 has 9' "$RINGTRUE" run start --relayout zigzag-doc --remainder refuse -o never
absent never
# A spec's padding is checked as strictly as the rest.
ok "$RINGTRUE" info padded
sed -n '/^{/,$p' stdout.txt >padded.json
sed '/_padded/,/\]/s/^ *12,$/8,/' padded.json >tight.json
refuse 3 'its 9 tokens need 9' "$RINGTRUE" check padded --spec tight.json
sed '/"cu_seqlens_padded": \[/,/\]/d' padded.json >half.json
refuse 3 'is given without' "$RINGTRUE" check padded --spec half.json
