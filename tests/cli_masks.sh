#!/bin/sh
# Every mask from flags or a spec: gen, run and check; exact gives the same bits on every layout, over MPI too; a dump judged
# under a mask that is off by one fails; what is wrong gets one clear line.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"
OMP_NUM_THREADS=1
export OMP_NUM_THREADS

# npy ROWS COLUMNS PROGRAM [DESCR]: a matrix of bytes, bool; awk's PROGRAM gives the element at i, j.
npy() {
    dict="{'descr': '${4:-|b1}', 'fortran_order': False, 'shape': ($1, $2), }"
    printf '\223NUMPY\001\000\166\000%-117s\n' "$dict"
    # shellcheck disable=SC2059
    printf "$(awk -v n="$1" -v m="$2" "BEGIN { for (i = 0; i < n; i++) for (j = 0; j < m; j++) printf \"\\\\00%d\", ($3) ? 1 : 0 }")"
}

npy 40 40 'j <= i && (i * 7 + j * 3 + 1) % 5 > 0' >dense.npy
cat >slices.txt <<'EOF'
# q0 q1 k0 k1 kind
0 20 0 20 causal
20 40 0 20 full   # the second half sees the first
20 40 20 40 inv-causal
EOF
same="--seqlen 40 --heads 4 --kv-heads 2 --dim 16"

checked() { # the mask as check names it
    sed -n 's/^# problem.*  mask \(.*\)  scale .*/\1/p' stdout.txt
}

try() { # NAME WORDS FLAGS..
    name=$1 words=$2
    shift 2
    # shellcheck disable=SC2086
    ok "$RINGTRUE" gen $same "$@" -o "$name"
    ok "$RINGTRUE" run "$name" --plan ring --layout zigzag --ranks 3 -o "$name.f64"
    ok "$RINGTRUE" check "$name.f64"
    prints '5 tensors judged: 5 pass, 0 fail;'
    [ "$(checked)" = "$words" ] || fail "check says mask $(checked), not $words"
    fingerprints "$RINGTRUE" run "$name" --arith exact --fingerprint >one.txt
    fingerprints "$RINGTRUE" run "$name" --arith exact --fingerprint --plan ring --layout striped --ranks 5 >five.txt
    fingerprints mpi 2 "$RINGTRUE" run "$name.f64" --arith exact --fingerprint --plan ring --layout contiguous --ranks 4 >mpi.txt
    cmp -s one.txt five.txt && cmp -s one.txt mpi.txt || fail "$name: exact's bits depend on the layout"
    cmp -s one.txt full.txt && fail "$name: the mask changes nothing"
    ok mpi 2 "$RINGTRUE" check "$name.f64"
    prints '5 tensors judged: 5 pass, 0 fail;'
    ok "$RINGTRUE" plan "$name" --plan ring --layout zigzag --ranks 3 --summary
    prints "mask ${words%% in *}, documents"
}
: >full.txt
try full full --batch 2
cp one.txt full.txt
try window 'causal, window (7, 0)' --batch 2 --mask causal --window 7,0
try both 'full, window (3, 5)' --batch 2 --window 3,5
try prefix 'causal, window (4, -1), prefix 9' --batch 2 --mask causal --window 4,-1 --prefix 9
try documents 'causal, window (5, -1), prefix 3 in 4 documents' --batch 2 --mask causal --window 5,-1 --prefix 3 --cu-seqlens 0,11,11,30,40
try slices 'full, 3 slices' --batch 2 --slices slices.txt
try padding 'causal, key padding' --batch 2 --mask causal --key-lengths 33,7
try dense 'full, dense' --batch 2 --dense-mask dense.npy
try all 'causal, window (31, -1), prefix 2, 3 slices, key padding, dense' --batch 2 --mask causal --window 31,-1 --prefix 2 --slices slices.txt --key-lengths 35,40 --dense-mask dense.npy

# One file, one spec: a dump of the whole, judged under a mask that differs in one place.  wrong NAME FROM TO
ok "$RINGTRUE" run all --arith exact -o all.exact
ok "$RINGTRUE" check all.exact
wrong() {
    size=$(od -An -tu8 -N8 "$1.exact/rank0.safetensors" | tr -d ' ')
    head -c $((8 + size)) "$1.exact/rank0.safetensors" | tail -c "$size" | sed 's/.*"__metadata__":{"ringtrue":"\(.*\)"}.*/\1/; s/\\"/"/g; s/\\n/ /g' |
        tr -d '\n' | tr -s ' ' >right.json
    ok "$RINGTRUE" check "$1.exact" --spec right.json
    sed "s/$2/$3/" right.json >wrong.json
    cmp -s right.json wrong.json && fail "$2 is not in the spec: $(cat right.json)"
    expect 1 "$RINGTRUE" check "$1.exact" --spec wrong.json
    prints 'FAIL'
}
wrong all '"window": \[ *31,' '"window": [30,'
wrong all '"prefix": 2' '"prefix": 3'
wrong all '"key_lengths": \[ *35,' '"key_lengths": [34,'
wrong all '"inv-causal"' '"full"'
ok "$RINGTRUE" run slices --arith exact -o slices.exact
wrong slices '20, 40, 0, 20,' '20, 39, 0, 20,'

# Masks of bytes are the same masks; what is neither 0 nor 1 is refused.
ok "$RINGTRUE" gen --seqlen 40 --heads 2 --dim 8 --dense-mask dense.npy -o bools
for descr in '|u1' '|i1'; do
    npy 40 40 'j <= i && (i * 7 + j * 3 + 1) % 5 > 0' "$descr" >bytes.npy
    ok "$RINGTRUE" gen --seqlen 40 --heads 2 --dim 8 --dense-mask bytes.npy --force -o bytes
    cmp bools/global.safetensors bytes/global.safetensors || fail "a mask of $descr"
done
{ head -c 169 bytes.npy && printf '\377' && tail -c +171 bytes.npy; } >odd.npy
refuse 3 "dense mask 'odd' [1, 1] is -1; 0 (hidden) or 1 (visible)" "$RINGTRUE" plan --seqlen 40 --dense-mask odd.npy
LC_ALL=C sed "s/|i1/|u1/" odd.npy >odd_u.npy
refuse 3 "dense mask 'odd_u' [1, 1] is 255; 0 (hidden) or 1 (visible)" "$RINGTRUE" plan --seqlen 40 --dense-mask odd_u.npy

# A dense mask of a file beside the spec; keys that count in ranges.
ok "$RINGTRUE" run dense --arith exact -o dense.exact
wrong dense '"dense_mask": "mask"' '"dense_mask": "dense.npy", "window": [38, -1]'
sed 's/"dense_mask": "mask"/"dense_mask": "dense.npy"/' right.json >beside.json
ok "$RINGTRUE" check dense.exact --spec beside.json
npy 40 40 'j <= i && (i * 7 + j * 3 + 1) % 5 > 0 && (i != 39 || j != 38)' >dense.npy
expect 1 "$RINGTRUE" check dense.exact --spec beside.json
ok "$RINGTRUE" run padding --arith exact -o padding.exact
wrong padding '"key_lengths": \[ *33, 7 *\]' '"key_ranges": [[[0, 33]], [[0, 3], [4, 7]]]'
sed 's/"key_lengths": \[ *33, 7 *\]/"key_ranges": [[[0, 30], [30, 33]], [[0, 7]]]/' right.json >ranges.json
ok "$RINGTRUE" check padding.exact --spec ranges.json

# A comment of any length.
{
    sed 1q slices.txt
    printf '# %0600d\n' 1
    sed 1d slices.txt
} >long.txt
# shellcheck disable=SC2086
ok "$RINGTRUE" plan $same --slices long.txt --summary
prints '3 slices'

# Bad input: one line.
bad() { # TEXT FLAGS..
    text=$1 code=$2
    shift 2
    # shellcheck disable=SC2086
    refuse "$code" "$text" "$RINGTRUE" plan $same "$@"
}
bad 'two numbers LEFT,RIGHT' 2 --window 3
bad 'window is (-2, 0); each side must be -1 (no limit) to 2^40' 2 --window -2,0
bad 'prefix is 41; it must be 0 (none) to the length of the keys, 40' 2 --prefix 41
bad '--key-lengths has 2 numbers; batch is 1' 2 --key-lengths 3,4
bad '--key-lengths: 41; 0 to the length of the keys, 40' 2 --key-lengths 41
bad "cannot open the slices 'none.txt'" 3 --slices none.txt
echo '0 20 0 20 diagonal' >kind.txt
bad "kind.txt: line 1 is '0 20 0 20 diagonal'" 3 --slices kind.txt
printf '0 20 0 20 full\n19 40 19 40 full\n' >meet.txt
bad 'slices 0 and 1 overlap' 2 --slices meet.txt
echo '# nothing' >none.txt
bad 'none.txt: no slice' 3 --slices none.txt
bad "cannot read the slices '.'" 3 --slices .
npy 40 39 1 >narrow.npy
bad "dense mask 'narrow' is bool (40, 39); it must be bool, u8, i8, i32 or i64, (40, 40)" 3 --dense-mask narrow.npy
bad "'none.npy'" 3 --dense-mask none.npy
spec() { # TEXT KEY VALUE
    sed "s/\"mask\": \"full\"/\"mask\": \"full\", \"$2\": $3/" full.json >bad.json
    refuse 3 "$1" "$RINGTRUE" info full --spec bad.json
}
cat >full.json <<'EOF'
{"ringtrue": 1, "batch": 2, "seqlen": 40, "heads": 4, "kv_heads": 2, "dim": 16, "mask": "full"}
EOF
ok "$RINGTRUE" info full --spec full.json
spec 'key "window" is [3]; allowed: [left, right]' window '[3]'
spec 'window is (-7, 0); each side must be' window '[-7, 0]'
spec 'key "prefix" is "x"; allowed: how many keys' prefix '"x"'
spec 'key "slices" is' slices '[[0, 4, 0, 4]]'
spec 'queries [0, 44); they must be' slices '[[0, 44, 0, 4, "full"]]'
spec 'key "key_lengths" is [3]; allowed: 2 lengths' key_lengths '[3]'
spec 'key "key_lengths" is 41' key_lengths '[3, 41]'
spec 'key "key_ranges" is [5,3]' key_ranges '[[[5, 3]], []]'
spec 'which no file of the dump has' dense_mask '"nothing"'
spec 'exclude each other' key_lengths '[1, 2], "key_ranges": [[], []]'
