#!/bin/sh
# grid: positions of a layout and process groups, as text and as JSON; what it prints is a list that layouts read.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"
export OMP_NUM_THREADS=1 # small problems: more threads would only wait

grid() { ok "$RINGTRUE" grid "$@"; }

# Positions.
grid --layout zigzag --ranks 4 --seqlen 16 --mask causal
prints '  qkv 0 0 1 14 15'
prints '  qkv 3 6 7 8 9'
prints '# rank 2: 4 queries, 4 keys, 34 visible pairs'
prints '# max / mean pairs 1.0000'
grid --layout zigzag-doc --ranks 2 --seqlen 10 --cu-seqlens 0,7,7,10 --cu-seqlens-padded 0,8,12,16 --mask causal
prints '  qkv 0 0 1 6 -1 -1 -1 7 -1'
prints '  qkv 1 2 3 4 5 -1 -1 8 9'
grid --layout interleaved --ranks 4 --seqlen 1 --seqlen-k 25 --mask causal-bottom-right
prints '  q 0 0'
prints '  kv 0 0 4 8 12 16 20 24'
grid --layout contiguous --ranks 4 --seqlen 64 --mask causal --summary
prints '# rank 3: 16 queries, 16 keys, 904 visible pairs'
prints '# max / mean pairs 1.7385'
[ "$(grep -c '^  ' stdout.txt || true)" -eq 0 ] || fail "--summary prints positions"
grid --list
for name in contiguous zigzag striped head-tail fpdt contiguous-doc zigzag-doc head-tail-doc ptrr hybrid-te hybrid-mindspeed usp interleaved \
    chunked positions; do
    grep -q "^$name[: ]" stdout.txt || fail "--list lacks $name"
done
prints 'usp:ulysses=(a divisor of P),order=(ulysses-low|ring-low),'
refuse 2 'Hint: chunked:chunks=0/5' "$RINGTRUE" grid --seqlen 3 --seqlen-k 8 --layout chunked
grid --seqlen 3 --seqlen-k 8 --layout chunked:chunks=0/5
refuse 2 'Hint: chunked:chunks=0' "$RINGTRUE" grid --seqlen 8 --layout chunked
grep -q 'chunks=0$' stderr.txt || fail "the hint is no layout"
grid --seqlen 8 --layout chunked:chunks=0
refuse 2 'there are only 3' "$RINGTRUE" grid --seqlen 8 --seqlen-k 3 --layout chunked
refuse 2 'parameter stripe is given twice' "$RINGTRUE" grid --seqlen 8 --layout striped:stripe=2,stripe=3

# What is printed is read again, by every verb that takes a layout.
grid --layout usp:ulysses=2,order=ring-low --ranks 4 --seqlen 21 --mask causal
grep '^  qkv' stdout.txt >usp.rows
cp stdout.txt usp.txt
grid --layout positions:file=usp.txt --ranks 4 --seqlen 21 --mask causal
grep '^  qkv' stdout.txt | cmp - usp.rows || fail "a list is not read as it was printed"
ok "$RINGTRUE" plan --layout positions:file=usp.txt --ranks 4 --seqlen 21 --mask causal --plan ring --summary --verify
prints 'layout positions:file=usp.txt'
ok "$RINGTRUE" gen --family exact --seqlen 21 --heads 2 --dim 8 --mask causal -o in
one=$(fingerprints "$RINGTRUE" run in --fingerprint)
[ "$one" = "$(fingerprints "$RINGTRUE" run in --layout positions:file=usp.txt --ranks 4 --plan ring --fingerprint)" ] || fail "bits of a list"
ok "$RINGTRUE" run in --layout positions:file=usp.txt --ranks 4 --plan ring -o listed
ok "$RINGTRUE" check listed
grid listed # a dump's own
grep '^  qkv' stdout.txt | cmp - usp.rows || fail "the dump's list"
grid in --layout striped:stripe=2 --ranks 3 # another layout of a dump's problem
prints '  qkv 1 2 3 8 9 14 15 20'

# Groups.
grid --tp 2 --cp 2 --dp 2
prints '# ringtrue '
prints '  cp             4 6'
prints '  dp-cp          1 3 5 7'
grid --tp 2 --cp 2 --pp 2 --world 16 --order tp-cp-pp-ep-dp
prints '  pp             1 5'
prints '  dp             0 8'
grid --order paddle --tp 2 --cp 2 --pp 2 --dp 2
prints '  pipe           0 4'
prints '  data-sep       0 2 8 10'
# Whole groups, ranks without spaces: Megatron's and MindSpeed's tables at 8 ranks.
groups() { # NAME: all groups of that name
    awk -v name="$1" '$1 == name { line = ""; for (i = 2; i <= NF; i++) line = line $i; printf "%s%s", between, line; between = " " }' stdout.txt
}
says_groups() { # NAME GROUPS
    [ "$(groups "$1")" = "$2" ] || fail "$1: $(groups "$1"), not $2"
}
while read -r tp cp dp a b c d; do
    grid --tp "$tp" --cp "$cp" --dp "$dp"
    says_groups tp "$(echo "$a" | tr , ' ')"
    says_groups cp "$(echo "$b" | tr , ' ')"
    says_groups dp "$(echo "$c" | tr , ' ')"
    says_groups dp-cp "$(echo "$d" | tr , ' ')"
done <<EOF
2 2 2 01,23,45,67 02,13,46,57 04,15,26,37 0246,1357
1 4 2 0,1,2,3,4,5,6,7 0123,4567 04,15,26,37 01234567
2 4 1 01,23,45,67 0246,1357 0,1,2,3,4,5,6,7 0246,1357
4 2 1 0123,4567 04,15,26,37 0,1,2,3,4,5,6,7 04,15,26,37
EOF
while read -r w intra kv dkv order0 order5 back0; do
    grid --cp 8 --cp-window "$w"
    says_groups intra-window "$(echo "$intra" | tr , ' ')"
    says_groups inter-kv "$(echo "$kv" | tr , ' ')"
    says_groups inter-dkv "$(echo "$dkv" | tr , ' ')"
    groups kv-order | awk -v a="$order0" -v b="$order5" '{ exit !($1 == a && $6 == b) }' || fail "--cp-window $w: order of KV"
    groups kv-order-back | awk -v a="$back0" '{ exit !($1 == a) }' || fail "--cp-window $w: order of the backward"
    cp stdout.txt mindspeed.txt
    # LoongTrain: KV as in MindSpeed, the backward in the same order; dKV on the rings of KV.
    grid --cp 8 --cp-window "$w" --double-ring loongtrain
    for name in intra-window dkv-intra; do says_groups $name "$(echo "$intra" | tr , ' ')"; done
    for name in inter-window dkv-inter; do says_groups $name "$(echo "$kv" | tr , ' ')"; done
    groups kv-order-back | awk -v a="$order0" -v b="$order5" '{ exit !($1 == a && $6 == b) }' || fail "LoongTrain, window $w: order of the backward"
done <<EOF
1 0,1,2,3,4,5,6,7 01234567 01234567 07654321 54321076 12345670
2 01,23,45,67 0246,1357 0347,1256 01674523 54321076 32547610
4 0123,4567 04,15,26,37 0527,1634 03214765 54761032 56741230
EOF
grid --cp 16 --cp-window 4 --double-ring loongtrain-interleaved
prints '  intra-window   9 11 13 15'
prints '  dkv-inter      2 3 10 11'
prints '  kv-order       8 14 12 10 1 7 5 3 0 6 4 2 9 15 13 11'
refuse 2 'LoongTrain places ranks as without it' "$RINGTRUE" grid --cp 16 --cp-window 8 --double-ring loongtrain-interleaved
refuse 2 'LoongTrain places ranks as without it' "$RINGTRUE" grid --cp 4 --cp-window 4 --double-ring loongtrain-interleaved
refuse 2 'LoongTrain places ranks as without it' "$RINGTRUE" grid --cp 8 --ulysses 2 --cp-window 2 --double-ring loongtrain-interleaved
refuse 2 'twice as much must divide the 6 ranks' "$RINGTRUE" grid --cp 6 --cp-window 2 --double-ring loongtrain-interleaved
refuse 2 '--double-ring needs --cp-window' "$RINGTRUE" grid --cp 8 --double-ring loongtrain
refuse 2 '--double-ring usp: unknown; allowed: mindspeed loongtrain loongtrain-interleaved' "$RINGTRUE" grid --double-ring usp
grid --cp 8 --cp-window 2 --order mindspeed
prints '  inter-dkv      0 3 4 7'
prints '  kv-order       5 4 3 2 1 0 7 6'
grid --tp 2 --cp 8 --ulysses 2 --cp-window 2 # a double ring in each ring of a hybrid, in ranks of the world
prints '  ulysses        0 2'
prints '  ring           0 4 8 12'
prints '  inter-kv       0 8'
prints '  kv-order       0 4 8 12'
grid --cp 8 --ulysses 2 --cp-order ring-low
prints '  ulysses        3 7'
grid --cp 16 --cp-levels 2,2,4
prints '  cp-level-3     0 4 8 12'
grid --cp 4 --dp 2 --hybrid-cp --lengths 4096,5000,20000 --max-len 4096
prints '  hybrid-cp-2    2 3'
prints '  hybrid-cp-4    4 5 6 7'
prints '  hybrid-cp-size 20000 8'
grep -q '^  hybrid-cp-8' stdout.txt && fail "a hybrid group of all"
grid --world 8 --tp 2 --ep 2
prints '  ep             0 2'
prints '  expert-dp      0 4'
prints '  tp-ep          0 1 2 3'

# Wrong questions.
refuse 2 'grid needs --layout NAME --ranks P' "$RINGTRUE" grid
refuse 2 'one of the two' "$RINGTRUE" grid --layout zigzag --tp 2
refuse 2 '--world 9 is not a multiple' "$RINGTRUE" grid --world 9 --tp 2
refuse 2 'without --dp it follows' "$RINGTRUE" grid --world 8 --tp 2 --dp 2
refuse 2 'dp is 2, but the order "tp-cp"' "$RINGTRUE" grid --order tp-cp --dp 2
refuse 2 'axis xp is unknown' "$RINGTRUE" grid --order tp-xp
refuse 2 '--sharding is an axis of --order paddle' "$RINGTRUE" grid --sharding 2
refuse 2 "are Megatron's, not Paddle's" "$RINGTRUE" grid --order paddle --ep 2
refuse 2 'no multiple of tp x ep x pp = 3' "$RINGTRUE" grid --world 8 --ep 3
refuse 2 'ulysses is 3; it must divide the 8 ranks' "$RINGTRUE" grid --cp 8 --ulysses 3
refuse 2 'the window is 3' "$RINGTRUE" grid --cp 8 --cp-window 3
refuse 2 "the sizes' product is 6" "$RINGTRUE" grid --cp 8 --cp-levels 2,3
refuse 2 '--lengths needs --max-len' "$RINGTRUE" grid --cp 8 --lengths 5
refuse 2 '--max-len needs --lengths' "$RINGTRUE" grid --cp 8 --max-len 5
refuse 2 '--cp-order needs --ulysses' "$RINGTRUE" grid --cp 8 --cp-order ring-low
refuse 2 '--cp-order up: unknown; allowed: ulysses-low ring-low' "$RINGTRUE" grid --cp 8 --cp-order up
refuse 2 '--cp 0: a whole number from 1' "$RINGTRUE" grid --cp 0
refuse 2 'seqlen divisible by 8, but it is 9' "$RINGTRUE" grid --layout zigzag --ranks 4 --seqlen 9 --remainder refuse
refuse 2 'needs 4' "$RINGTRUE" grid --layout zigzag --ranks 4 --seqlen 9 --cu-seqlens 0,3,5,9 --cu-seqlens-padded 0,9
refuse 2 'with 0 documents' "$RINGTRUE" grid --layout zigzag --ranks 4 --seqlen 9 --cu-seqlens-padded 0,9
refuse 2 'its 3 tokens need 3' "$RINGTRUE" grid --layout zigzag --ranks 4 --seqlen 9 --cu-seqlens 0,3,9 --cu-seqlens-padded 0,2,9
refuse 3 "cannot open 'nowhere'" "$RINGTRUE" grid --layout positions:file=nowhere --ranks 4
refuse 2 "--seqlen: the dump 'in' says this itself" "$RINGTRUE" grid in --seqlen 3
echo 'qkv 0 0 1 2 3 3' >twice.txt
refuse 3 'twice.txt: query position 3 is repeated' "$RINGTRUE" grid --layout positions:file=twice.txt --ranks 1 --seqlen 4

if command -v python3 >python.txt; then
    grid --layout zigzag-doc --ranks 2 --seqlen 10 --cu-seqlens 0,7,7,10 --cu-seqlens-padded 0,8,12,16 --mask causal --json
    mv stdout.txt layout.json
    grid --tp 2 --cp 2 --dp 2 --json
    mv stdout.txt groups.json
    grid --cp 2 --lengths 5,7 --max-len 4 --json
    python3 -c 'import json
l = json.load(open("layout.json"))
assert l["schema"] == 1 and l["verb"] == "grid" and l["layout"] == "zigzag-doc" and l["ranks"] == 2
assert l["q"] == l["kv"] == [[0, 1, 6, -1, -1, -1, 7, -1], [2, 3, 4, 5, -1, -1, 8, 9]] and sum(l["pairs"]) == 34
g = json.load(open("groups.json"))
assert g["world"] == 8 and g["groups"]["cp"] == [[0, 2], [1, 3], [4, 6], [5, 7]]
assert json.load(open("stdout.txt"))["groups"]["hybrid-cp-size"] == [[5, 2], [7, 2]]' || fail "the JSON"
fi
