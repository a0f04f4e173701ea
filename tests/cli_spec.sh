#!/bin/sh
# A spec with any one key wrong: exit code 3, one line that names the key, nothing written.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

ok "$RINGTRUE" gen --seqlen 24 --heads 4 --kv-heads 2 --dim 8 --mask causal --cu-seqlens 0,10,24 -o in
ok "$RINGTRUE" run in --plan ring --layout zigzag --ranks 4 --out-dtype bf16 -o out

# bad TEXT DUMP.. : refused, and nothing is written.
bad() {
    text=$1
    shift
    refuse 3 "$text" "$RINGTRUE" check "$@"
    refuse 3 "$text" "$RINGTRUE" run "$@" -o never
    absent never
}

cat >spec.json <<'EOF'
{
"ringtrue": 1,
"comment": "a spec",
"batch": 1,
"seqlen": 24,
"seqlen_k": 24,
"heads": 4,
"kv_heads": 2,
"dim": 8,
"dim_v": 8,
"scale": "rsqrt_dim",
"mask": "causal",
"cu_seqlens": [0, 10, 24],
"cu_seqlens_k": [0, 10, 24],
"order": "bshd",
"tensors": {"q": "q"},
"lse": {"shape": "bhs", "base": "e"},
"ranks": 4,
"layout": "zigzag",
"remainder": "spread",
"algorithm": "ring",
"arithmetic": {"accumulate": "f32", "exp": 1e-4, "tanh": 1e-5, "block_keys": 64, "probabilities": "bf16", "partial": "bf16", "state": "f32", "join": "sigmoid", "grad_partial": "f32", "grad_state": "f32"}
}
EOF
ok "$RINGTRUE" info out --spec spec.json
# wrong KEY VALUE [TEXT]: the spec with that value; the message names the key unless TEXT says what it names.
wrong() {
    awk -v key="\"$1\":" -v value="$2" '$1 == key { tail = /,$/ ? "," : ""; print key " " value tail; next } { print }' spec.json >wrong.json
    cmp -s spec.json wrong.json && fail "spec.json has no key $1"
    bad "${3:-$1}" out --spec wrong.json
}
for key in batch seqlen seqlen_k heads kv_heads dim dim_v ranks; do
    for value in 0 -1 1.5 '"4"' null '[4]' true 99999999999999999999; do
        case $value in
        9*) wrong $key "$value" wrong.json ;; # no integer of JSON's reader: a line number is named
        *) wrong $key "$value" "\"$key\" is $value; allowed: an integer" ;;
        esac
    done
done
wrong ringtrue 2 '"ringtrue" is 2; allowed: an integer from 1 to 1'
wrong comment 3 '"comment" is 3; allowed: a string'
wrong batch 2 'the spec gives (2'
wrong seqlen 25
wrong seqlen_k 23 cu_seqlens_k
wrong heads 8 'tensor'
wrong kv_heads 3 'a divisor of heads'
wrong kv_heads 1 "tensor 'k'"
wrong dim 16 "tensor 'q'"
wrong dim_v 4 "tensor 'v'"
wrong scale '"large"'
wrong scale '{"f32": 1, "f64": 1}'
wrong scale '{"f16": 1}'
wrong scale 0.125
wrong mask '"windowed"' 'allowed: full causal causal-bottom-right'
wrong cu_seqlens '[0, 25]'
wrong cu_seqlens '[0, 12, 10, 24]'
wrong cu_seqlens '[1, 24]'
wrong cu_seqlens '"0,24"'
wrong cu_seqlens_k '[0, 24]'
wrong order '"hsbd"' 'allowed: bshd sbhd bhsd'
wrong order '"bhsd"' "tensor 'q'"
wrong order '"sbhd"' "tensor 'q'"
wrong tensors '{"query": "q"}'
wrong tensors '{"q": 1}' tensors.q
wrong tensors '{"q": "k"}' tensors
wrong tensors '{"q": "query"}' "tensor 'query' is missing"
wrong tensors '{"lse": "softmax_lse"}' "tensor 'softmax_lse' is missing"
wrong lse '"bhs"'
wrong lse '{"shape": "hbs"}' 'allowed: bhs bsh sbh'
wrong lse '{"base": "10"}' 'lse.base'
wrong lse '{"shape": "bsh", "base": "e"}' "tensor 'lse'"
wrong ranks 3 'rank3.safetensors'
wrong ranks 5 'rank 4 of 5'
wrong layout '"snake"' 'contiguous zigzag striped'
wrong layout '{"position": "pos"}' position
wrong layout '{"positions": "nowhere"}' nowhere
wrong layout '{"positions": "q"}' "'q'"
wrong remainder '"none"' 'allowed: spread ceil last refuse'
wrong algorithm '"spiral"' 'allowed: single'
wrong arithmetic '"f128"'
wrong arithmetic '{"speed": 1}' speed
wrong arithmetic '{"accumulate": "f16"}' arithmetic.accumulate
wrong arithmetic '{"exp": 1}' arithmetic.exp
wrong arithmetic '{"exp": "fast"}' arithmetic.exp
wrong arithmetic '{"block_keys": 0}' arithmetic.block_keys
wrong arithmetic '{"join": "zip"}' arithmetic.join
for key in probabilities partial state grad_partial grad_state; do
    wrong arithmetic "{\"$key\": \"i32\"}" "arithmetic.$key"
done
for key in ringtrue batch seqlen heads dim mask; do
    grep -v "^\"$key\":" spec.json >wrong.json
    bad "key \"$key\" is missing" out --spec wrong.json
done
sed 's/^"batch"/"batches"/' spec.json >wrong.json
bad 'unknown key "batches"' out --spec wrong.json
sed 's/^"batch": 1,/"batch": 1,"batch": 1,/' spec.json >wrong.json
bad 'wrong.json' out --spec wrong.json
: >wrong.json
bad 'wrong.json' out --spec wrong.json
bad 'no-such-spec.json' out --spec no-such-spec.json

# ---- positions that are no permutation ----
sed 's/^"layout": .*/"layout": {"positions": "pos"},/' spec.json >positions.json
ok "$RINGTRUE" check out --spec positions.json --declare exp=1e-4
cp -r out case
cp out/rank0.safetensors case/rank1.safetensors
bad 'position' case --spec positions.json

