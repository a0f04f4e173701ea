#!/bin/sh
# Input that is not what it should be: exit code 3, one line, nothing written.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

# bad TEXT DUMP.. : each verb that reads refuses it; the last tries to write.
bad() {
    text=$1
    shift
    refuse 3 "$text" "$RINGTRUE" check "$@"
    refuse 3 "$text" "$RINGTRUE" info "$@"
    refuse 3 "$text" "$RINGTRUE" plan "$@"
    refuse 3 "$text" "$RINGTRUE" run "$@" -o never
    absent never
}

# copy FROM: the dump FROM as the folder "case".
copy() {
    rm -rf case
    cp -r "$1" case
}

# The bytes of the header of a safetensors file, its 8 bytes of length included.
header_bytes() {
    echo $((8 + $(od -An -tu8 -N8 "$1")))
}

# ---- a file cut at every byte of its header, and inside its data ----
ok "$RINGTRUE" gen --seqlen 4 --heads 1 --dim 4 --forward-only -o tiny
header=$(header_bytes tiny/global.safetensors) size=$(wc -c <tiny/global.safetensors)
[ "$size" -gt "$header" ] || fail "no data in tiny"
mkdir case
at=0
while [ "$at" -lt "$size" ]; do
    head -c "$at" tiny/global.safetensors >case/global.safetensors
    refuse 3 'case/global.safetensors' "$RINGTRUE" info case
    if [ "$at" -lt "$header" ]; then at=$((at + 1)); else at=$((at + 7)); fi
done
head -c $((size - 1)) tiny/global.safetensors >case/global.safetensors
bad 'case/global.safetensors' case
{ cat tiny/global.safetensors && printf x; } >case/global.safetensors
bad 'case/global.safetensors' case

# ---- one file per rank ----
ok "$RINGTRUE" gen --seqlen 24 --heads 4 --kv-heads 2 --dim 8 --mask causal --cu-seqlens 0,10,24 -o in
ok "$RINGTRUE" run in --plan ring --layout zigzag --ranks 4 --out-dtype bf16 -o out
copy out
head -c $(($(wc -c <out/rank3.safetensors) - 2)) out/rank3.safetensors >case/rank3.safetensors
bad "rank 3: case/rank3.safetensors" case
copy out
rm case/rank2.safetensors
bad "missing file 'case/rank2.safetensors': rank 2 of 4" case
copy out
rm case/rank0.safetensors
bad "rank0.safetensors" case
copy out
cp out/rank3.safetensors case/rank4.safetensors
bad "surplus file 'case/rank4.safetensors'" case
refuse 3 'has no file for rank 3 of 4' "$RINGTRUE" check out/rank0.safetensors out/rank1.safetensors out/rank2.safetensors
ok "$RINGTRUE" run in --plan ring --layout zigzag --ranks 4 --out-dtype f16 -o half
copy out
cp half/rank1.safetensors case/rank1.safetensors
bad "case/rank1.safetensors: tensor 'out' is f16, but rank 0 has it in bf16" case
copy out
cp out/rank1.safetensors case/rank2.safetensors # every layout rule holds, but the spec's order of ranks does not show
ok "$RINGTRUE" info case
ok "$RINGTRUE" run in --plan ring --ranks 4 --layout contiguous --out-dtype bf16 -o other
copy out
cp other/rank1.safetensors case/rank1.safetensors
bad 'metadata "ringtrue" differs' case
bad 'nowhere' nowhere
mkdir empty
bad "'empty' holds no dump" empty
printf 'not a dump' >text.safetensors
bad 'text.safetensors' text.safetensors

# ---- tensors ----
# rename FILE FROM TO: a tensor's name in the header, of the same length.
rename() {
    LC_ALL=C sed "s/\"$2\"/\"$3\"/" "$1" >renamed.tmp
    [ "$(wc -c <renamed.tmp)" -eq "$(wc -c <"$1")" ] || fail "renaming changed the size"
    mv renamed.tmp "$1"
}
for tensor in q k v; do
    copy in
    rename case/global.safetensors $tensor x
    bad "tensor '$tensor' is missing" case
done
copy out
rename case/rank1.safetensors lse xyz
bad "case/rank1.safetensors: tensor 'lse' is missing" case
# A dump of inputs alone: nothing to judge.
refuse 3 'nothing to judge' "$RINGTRUE" check in

# ---- two files to compare ----
refuse 3 'has tensor' "$RINGTRUE" diff in/global.safetensors out/rank0.safetensors
refuse 3 'is not that of' "$RINGTRUE" diff out/rank0.safetensors half/rank0.safetensors
refuse 3 'ulps need one format' "$RINGTRUE" diff out half
refuse 3 'different sizes' "$RINGTRUE" diff in tiny
refuse 3 'nowhere' "$RINGTRUE" diff in nowhere
