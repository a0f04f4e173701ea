#!/bin/sh
# --help of a verb lists exactly the flags that the verb accepts.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

ok "$RINGTRUE" --help
for verb in gen run plan grid check diff info bench; do
    grep -q "^  $verb " stdout.txt || fail "--help does not list $verb"
done
prints 'Exit codes: 0 pass, 1 numeric failure, 2 usage, 3 input or format, 4 MPI or system.'
ok "$RINGTRUE" --version
grep -qE '^ringtrue [0-9]+\.[0-9]+\.[0-9]+, OpenBLAS ' stdout.txt || fail "--version"
[ "$(wc -l <stdout.txt)" -eq 1 ] || fail "--version is not one line"

# The flags of all verbs: "name value" where one is needed, "name" else.
for verb in gen run plan grid check diff info bench; do
    ok "$RINGTRUE" $verb --help
    [ "$(awk 'length > 130' stdout.txt)" = "" ] || fail "a long line in $verb --help"
    sed -n 's/^  \(-[a-z], \)\{0,1\}--\([a-z-]*\) \{0,1\}\([A-Z][A-Z=]*\)\{0,1\} .*/\2 \3/p' stdout.txt >"$verb.flags"
    [ "$(wc -l <"$verb.flags")" -eq "$(grep -c '^  -' stdout.txt)" ] || fail "a flag of $verb is not understood here"
done
LC_ALL=C sort -u ./*.flags >all.flags
# No flag is hidden from every verb's help.
for name in family seed batch seqlen seqlen-k heads kv-heads dim dim-v dtype mask window prefix slices key-lengths dense-mask cu-seqlens cu-seqlens-k cu-seqlens-padded cu-seqlens-k-padded scale plan layout remainder ranks \
    arith out-dtype spec declare delta budget full samples sample truth results iters warmup peer json fingerprint verify list summary table \
    softcap alibi bias sink dropout dropout-seed \
    relayout world order tp cp dp pp ep sharding cp-levels ulysses cp-order cp-window double-ring hybrid-cp lengths max-len \
    forward-only svg trace transport ring cost output force quiet help; do
    grep -q "^$name " all.flags || fail "no help lists --$name"
done

value_of() { # a good value of a flag
    case $1 in
    family) echo exact ;;
    dtype | out-dtype) echo bf16 ;;
    mask) echo causal ;;
    cu-seqlens | cu-seqlens-k | cu-seqlens-padded | cu-seqlens-k-padded) echo 0,8 ;;
    window) echo 4,0 ;;
    scale | delta | dropout) echo 0.5 ;;
    bias) echo 1hss ;;
    layout | relayout) echo zigzag ;;
    cp-order) echo ring-low ;;
    double-ring) echo loongtrain ;;
    remainder) echo ceil ;;
    plan) echo ring ;;
    arith) echo f64 ;;
    declare) echo exp=1e-7 ;;
    sample) echo keys ;;
    truth) echo f64 ;;
    transport) echo p2p ;;
    cost) echo bandwidth=25GB/s,flops=1TF ;;
    *) echo 3 ;;
    esac
}
for verb in gen run plan grid check diff info bench; do
    while read -r name value; do
        set -- --"$name"
        [ -z "$value" ] || set -- --"$name" "$(value_of "$name")"
        if grep -q "^$name " "$verb.flags"; then
            ok "$RINGTRUE" $verb "$@" --help
        else
            refuse 2 "--$name: not a flag of $verb" "$RINGTRUE" $verb "$@" --help
        fi
    done <all.flags
done

# The flags that no other test gives.
ok "$RINGTRUE" gen --seqlen 8 --heads 2 --dim 8 --forward-only --quiet -o in
ok "$RINGTRUE" gen -q --batch 2 --seqlen 8 --seqlen-k 12 --cu-seqlens 0,3,8 --cu-seqlens-k 0,6,12 --heads 2 --dim 8 --scale f32:0.1 --mask causal -o documents
ok "$RINGTRUE" run documents -q -o out
ok "$RINGTRUE" check out -q --plan single
prints '5 tensors judged: 5 pass'
prints 'scale f32 0.100000001'
ok "$RINGTRUE" run documents --forward-only -o forward
ok "$RINGTRUE" check forward
prints '# dq not judged: not in the dump'
prints '# 2 tensors judged: 2 pass, 0 fail;'
ok "$RINGTRUE" run in -o no-dout
ok "$RINGTRUE" check no-dout
prints '# 2 tensors judged: 2 pass, 0 fail;'
