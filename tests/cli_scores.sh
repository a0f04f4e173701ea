#!/bin/sh
# Scores with ALiBi, bias, softcap, sinks and dropout: from flags to a dump, through a run and back.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

gen="$RINGTRUE gen -q --seqlen 40 --heads 4 --kv-heads 2 --dim 8 --mask causal --dtype f32"
ok $gen --softcap 2.5 --alibi --sink --bias 1hss --dropout 0.25 --dropout-seed 7 -o in
ok "$RINGTRUE" info in
prints '# scores    bias 1hss, alibi, softcap 2.5, sink, dropout 0.25 (seed 7)'
prints '  sink         f32   [4]'
prints '  bias         f32   [1, 4, 40, 40]'
ok "$RINGTRUE" plan in --ranks 2 --plan ring
prints '# scores bias 1hss, alibi, softcap 2.5, sink, dropout 0.25 (seed 7)'
ok "$RINGTRUE" plan --seqlen 16 --softcap 3 --alibi --bias 11ss --sink --dropout 0.1 --dropout-seed 2
prints '# scores bias 11ss, alibi, softcap 3, sink, dropout 0.1 (seed 2)'

# Each changes the result; a seed of dropout, too.
fingerprints "$RINGTRUE" run in --arith f64 --fingerprint >all.txt
[ "$(wc -l <all.txt)" -eq 7 ] || fail "not seven results with a sink and a bias"
for part in "--softcap 2.5" "--alibi" "--sink" "--bias 1hss" "--dropout 0.25" "--dropout 0.25 --dropout-seed 8" "--softcap 2"; do
    ok $gen $part --force -o part
    fingerprints "$RINGTRUE" run part --fingerprint | grep out
done >parts.txt
[ "$(sort -u parts.txt | wc -l)" -eq 7 ] || fail "two of the scores give the same output"

# What a run writes is read back: the same inputs, the same results, in files of ranks and their own rows of the bias.
for shape in bhss 11ss 111s; do
    ok $gen --batch 2 --softcap 2.5 --alibi --sink --bias $shape --dropout 0.25 --force -o in
    ok "$RINGTRUE" run in --plan ring --layout striped --ranks 3 --force -o out --fingerprint
    grep ^fingerprint stdout.txt | sort >first.txt
    fingerprints "$RINGTRUE" run out --fingerprint >again.txt
    cmp first.txt again.txt || fail "bias $shape is not read back"
    fingerprints "$RINGTRUE" info out --fingerprint >held.txt
    while read -r line; do
        grep -qF "$line" held.txt || fail "bias $shape: the dump does not hold what the run printed: $line"
    done <first.txt
    fingerprints mpi 3 "$RINGTRUE" run in --plan ring --layout striped --ranks 3 --fingerprint >three.txt
    cmp first.txt three.txt || fail "bias $shape: other bits over three processes"
    ok "$RINGTRUE" run out --plan ring --force -o twice
    ok "$RINGTRUE" diff out twice
    prints '# 0 tensors differ;  SAME BITS'
    prints '  dsink '
    prints '  dbias '
done
ok "$RINGTRUE" run in --forward-only --force -o forward
ok "$RINGTRUE" info forward
if grep -q ' dsink\| dbias' stdout.txt; then fail "a forward run wrote gradients"; fi

# A spec may hold the numbers itself, and leave dbias out.
spec='{"ringtrue": 1, "batch": 1, "seqlen": 8, "heads": 2, "dim": 4, "mask": "full"'
ok "$RINGTRUE" gen -q --seqlen 8 --heads 2 --dim 4 --dtype f32 --sink --bias 11ss -o small
echo "$spec, \"sink\": [0.5, -1], \"alibi\": [0.25, 0.5], \"bias\": {\"shape\": \"11ss\", \"gradient\": false}}" >spec.json
ok "$RINGTRUE" info small --spec spec.json
prints '# scores    bias 11ss, alibi, sink'
prints ' "gradient": false'
fingerprints "$RINGTRUE" run small --spec spec.json --fingerprint >list.txt
grep -q dsink list.txt || fail "no dsink"
if grep -q dbias list.txt; then fail "dbias though the spec wants none"; fi

bad() { # bad TEXT KEYS: the spec with these keys is refused
    echo "$spec, $2}" >bad.json
    refuse 3 "$1" "$RINGTRUE" info small --spec bad.json
}
bad 'key "softcap" is 0; allowed: a positive number' '"softcap": 0'
bad 'key "softcap" is -3; allowed: a positive number' '"softcap": -3'
bad 'key "softcap" is "30"; allowed: a positive number' '"softcap": "30"'
bad 'key "alibi" is [0.5]; allowed: "standard", or one slope for each of the heads' '"alibi": [0.5]'
bad 'key "alibi" is "usual"; allowed: "standard"' '"alibi": "usual"'
bad 'the slope of head 1 is 1e+300' '"alibi": [1, 1e300]'
bad 'key "sink" is [1]; allowed' '"sink": [1]'
bad "tensor 'logits' is missing" '"sink": "logits"'
bad "tensor 'q' is f32 (1, 8, 2, 4); the spec gives (2)" '"sink": "q"'
bad "tensor 'bias' is f32 (1, 1, 8, 8); the spec gives (1, 2, 8, 8)" '"bias": {"shape": "1hss"}'
bad 'key "bias.shape" is "ssss"; allowed: bhss' '"bias": {"shape": "ssss"}'
bad 'key "bias.shape" is missing' '"bias": {"tensor": "bias"}'
bad 'unknown key "grad"' '"bias": {"shape": "11ss", "grad": false}'
bad 'key "dropout.p" is 1; allowed: a probability, from 0 to below 1' '"dropout": {"p": 1, "seed": 1}'
bad 'key "dropout.seed" is missing' '"dropout": {"p": 0.5}'
bad 'key "dropout.seed" is -1; allowed' '"dropout": {"p": 0.5, "seed": -1}'

refuse 2 '--softcap 0: a positive number is needed' $gen --softcap 0 -o no
refuse 2 '--softcap nan: a finite number is needed' $gen --softcap nan -o no
refuse 2 '--dropout 1: a probability from 0 to below 1 is needed' $gen --dropout 1 -o no
refuse 2 '--bias 1hs: bhss, or with 1' $gen --bias 1hs -o no
refuse 2 'family exact has no alibi, bias, softcap, sink or dropout' "$RINGTRUE" gen --family exact --dim 8 --sink -o no
refuse 2 'results by closed form: without alibi' "$RINGTRUE" gen --family tracer --results --softcap 3 -o no
absent no
