#!/bin/sh
# The dumps of other people's programs (RT_FIELD_DATA): eight pass, and not vacuously; one fails where it is wrong.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

if [ -z "${RT_FIELD_DATA:-}" ] || [ ! -d "$RT_FIELD_DATA" ]; then
    echo "skipped: RT_FIELD_DATA names no folder of dumps"
    exit 77
fi
export OMP_NUM_THREADS=1 # small problems: more threads would only wait
specs=$RT_SOURCE_DIR/validation/specs
right="jax-ring rfa-llama3-docs rfa-ring-minilm rfa-stripe rfa-zigzag-gqa torch-cp-contiguous torch-cp-headtail usp-u2r2-zigzag"
wrong=diffusers-ring

# check CODE OUT DUMP [OPTION..]: the verdict as JSON in OUT.
check() {
    code=$1 out=$2 dump=$3
    shift 3
    expect "$code" "$RINGTRUE" check --json "$RT_FIELD_DATA/$dump" --spec "$specs/$dump.json" "$@"
    mv stdout.txt "$out"
}

# How many tensors of FILE passed, failed: the lines are those of json_dumpf with an indent.
passed() { grep -c '^   "pass": true' "$1" || true; }
failed() { grep -c '^   "pass": false' "$1" || true; }
# The value of key KEY of tensor NAME in FILE.
value() { sed -n "/^  \"$2\": {/,/^  }/s/^ *\"$3\": \([^,]*\),*\$/\1/p" "$1" | head -n 1; }

for dump in $right; do
    check 0 "$dump.json" "$dump"
    [ "$(failed "$dump.json")" -eq 0 ] || fail "$dump: a tensor fails"
    [ "$(passed "$dump.json")" -ge 4 ] || fail "$dump: fewer than four tensors are judged"
done
check 1 $wrong.json $wrong
for tensor in lse out; do
    [ "$(value $wrong.json $tensor pass)" = true ] || fail "$wrong: $tensor should pass"
done
for tensor in dq dk dv; do
    [ "$(value $wrong.json $tensor pass)" = false ] || fail "$wrong: $tensor should fail"
    [ "$(value $wrong.json $tensor WRONG)" -gt 0 ] || fail "$wrong: nothing in $tensor is WRONG"
done

# The largest err / B_lambda of every right tensor lies in [0.01, 1].
for dump in $right $wrong; do
    for tensor in lse out dq dk dv; do
        [ "$(value "$dump.json" $tensor pass)" = true ] || continue
        ratio=$(value "$dump.json" $tensor max_ratio_lambda)
        echo "# $dump $tensor $ratio"
        awk -v r="$ratio" 'BEGIN { exit !(r >= 0.01 && r <= 1) }' </dev/null || fail "$dump: $tensor: ratio $ratio"
    done
done

# A kernel with a fast exp is caught in lse once its exp is declared as binary32's.
for dump in rfa-llama3-docs rfa-ring-minilm rfa-stripe rfa-zigzag-gqa torch-cp-headtail $wrong; do
    check 1 exact-exp.json "$dump" --declare exp=2.4e-7
    [ "$(value exact-exp.json lse pass)" = false ] || fail "$dump: lse passes with exp 2.4e-7"
    [ "$(value exact-exp.json out pass)" = true ] || fail "$dump: out fails with exp 2.4e-7"
done

# Two processes count the same.
for dump in rfa-zigzag-gqa usp-u2r2-zigzag $wrong; do
    code=0
    [ "$dump" != $wrong ] || code=1
    expect $code "$MPIEXEC" -n 2 "$RINGTRUE" check --json "$RT_FIELD_DATA/$dump" --spec "$specs/$dump.json"
    grep -v '"processes"\|"threads"\|"seconds"\|"peak_mib"' stdout.txt >two.json
    grep -v '"processes"\|"threads"\|"seconds"\|"peak_mib"' "$dump.json" | cmp - two.json || fail "$dump: two processes differ from one"
done

# The whole of it is JSON, where there is something to ask.
if command -v python3 >python.txt; then
    for dump in $right $wrong; do
        python3 -c 'import json, sys
verdict = json.load(open(sys.argv[1]))
tensors = [t for t in verdict["tensors"].values() if t["judged"]]
assert verdict["pass"] == all(t["pass"] for t in tensors) and len(tensors) >= 4
assert all(sum(t["count"].values()) == t["elements"] for t in tensors)' "$dump.json" || fail "$dump: not the JSON that it should be"
    done
fi
