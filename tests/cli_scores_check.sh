#!/bin/sh
# check on scores with ALiBi, bias, softcap, sinks and dropout: right results pass, and results of another rule fail
# where that rule is seen.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

gen="$RINGTRUE gen -q --seqlen 48 --heads 4 --kv-heads 2 --dim 8 --mask causal --dtype bf16 --force"
all="--softcap 2.5 --alibi --sink --bias 1hss --dropout 0.25 --dropout-seed 7"

# Some and all of them, over a ring; biases of several shapes.
for part in "--softcap 2.5 --bias 11ss" "--alibi --bias bhss" "--sink --bias 111s" "--dropout 0.25" "$all"; do
    ok $gen --batch 2 $part -o in
    ok "$RINGTRUE" run in --arith f64 --plan ring --layout zigzag --ranks 3 --force -o out
    ok "$RINGTRUE" check out --full
    judged=5
    case $part in *--sink*) judged=$((judged + 1)) ;; esac
    case $part in *--bias*) judged=$((judged + 1)) ;; esac
    prints "# $judged tensors judged: $judged pass, 0 fail"
    if grep -q 'not judged' stdout.txt; then fail "$part: something was not judged"; fi
done

# The same verdict over processes, line by line but for the time and who worked.
lines() { sed -n '/^# tensor/,$p' stdout.txt | grep -v 'tensors judged'; }
lines >alone.txt
ok mpi 3 "$RINGTRUE" check out --full
lines >three.txt
cmp alone.txt three.txt || fail "another verdict over three processes"

# The results of other rules: the spec of the dump changed in one thing.
"$RINGTRUE" info out | sed -n '/^# spec/,$p' | sed 1d >spec.json
ok "$RINGTRUE" check out --full --spec spec.json
wrong() { # wrong "TENSORS THAT FAIL" SED: the spec changed by SED
    sed "$2" spec.json >other.json
    cmp -s spec.json other.json && fail "$2 changes nothing"
    expect 1 "$RINGTRUE" check out --full --spec other.json
    for t in $1; do
        grep "^  $t .* FAIL$" stdout.txt >/dev/null || fail "$2: $t passes"
    done
}
wrong "lse out dq dk dv dsink dbias" 's/"softcap": 2.5/"softcap": 2.4/'
wrong "lse out dq dk dv dsink dbias" '/"softcap"/d'
wrong "lse out dq dk dv dsink dbias" 's/"alibi": "standard"/"alibi": [0.25, 0.0625, 0.015625, 0.004]/'
wrong "lse out dq dk dv" '/"sink"/d'
wrong "lse out dq dk dv dsink" 's/"sink": "sink"/"sink": [0, 0, 0, 0]/'
wrong "out dq dk dv dsink dbias" 's/"seed": 7/"seed": 8/'
wrong "out dq dk dv dsink dbias" 's/"p": 0.25/"p": 0.5/'
grep '^  lse .* PASS$' stdout.txt >/dev/null || fail "lse knows of dropout"

# In the other arithmetics, and where a row is one kernel call.
for arith in f32 exact; do
    ok "$RINGTRUE" run in --arith $arith --plan all-gather --layout striped --ranks 3 --force -o other
    ok "$RINGTRUE" check other --full
    prints '# 7 tensors judged: 7 pass, 0 fail'
done

# Samples: dsink of every row, given the dump's lse and out; dbias by rows, but where its bias is broadcast (here over the batch).
ok "$RINGTRUE" check out --sample both --samples 40
prints '# dk and dv and dsink are judged given'
prints '# dbias not judged: its bias is broadcast'
ok $gen $all -o in
ok "$RINGTRUE" run in --arith f32 --plan ring --ranks 2 --force -o rows
for way in both keys; do
    ok "$RINGTRUE" check rows --sample $way --samples 40
    prints 'dbias 40 of 192'
done
ok $gen --bias 11ss --sink -o in
ok "$RINGTRUE" run in --arith exact --out-dtype f32 --force -o shared
# The exact truth, and the arithmetic exact, of dsink and dbias too: every element is correctly rounded.
rounded() { # rounded TENSOR: all elements are in the class ROUNDED
    row=$(grep "^  $1 " stdout.txt) || fail "$1 is not judged"
    # shellcheck disable=SC2086
    set -- $row
    [ "$3" = "$4" ] || fail "$1: $4 of $3 are correctly rounded"
}
ok "$RINGTRUE" check shared --full
prints '# truth     exact, correctly rounded: lse out dq dk dv dsink dbias'
prints '# certificate dsink decided 4: '
prints '# certificate dbias decided 2304: '
for t in lse out dq dk dv dsink dbias; do rounded $t; done
# As JSON.
ok "$RINGTRUE" check out --full --json
prints '"dsink": {'
prints '"dbias": {'
ok $gen -o plain
ok "$RINGTRUE" run plain --arith f64 --force -o out
ok "$RINGTRUE" check out --json
if grep -q '"dsink"' stdout.txt; then fail "dsink without a sink"; fi
