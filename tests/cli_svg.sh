#!/bin/sh
# plan --svg: well-formed pictures that show every tile and message, the same bytes each time.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

# wellformed FILE: tags nest, attributes are quoted once each, nothing is outside of the one root.
wellformed() {
    tr '\n' ' ' <"$1" | sed 's/</\n</g' | awk '
        function bad(why) { printf "%s: %s: %s\n", FILENAME, why, $0 >"/dev/stderr"; wrong = 1; exit 1 }
        NR == 1 && /^ *$/ { next }
        {
            if (!match($0, /^<[^<>]*>/)) bad("not a tag")
            tag = substr($0, 2, RLENGTH - 2); rest = substr($0, RLENGTH + 1)
            if (gsub(/&(amp|lt|gt|quot|#[0-9]+);/, "", rest) < 0 || rest ~ /&/) bad("a bare &")
            if (depth == 0 && begun && rest ~ /[^ ]/) bad("text after the root")
            if (tag ~ /^\//) {
                if (depth == 0 || name[depth] != substr(tag, 2)) bad("closes what is not open")
                depth--
                if (depth == 0 && rest ~ /[^ ]/) bad("text after the root")
                next
            }
            if (depth == 0 && begun++) bad("a second root")
            empty = tag ~ /\/$/; sub(/\/$/, "", tag)
            word = tag; sub(/ .*/, "", word)
            sub(/^[a-z]+/, "", tag)
            split("", seen)
            while (match(tag, /^ +[a-zA-Z:-]+="[^"]*"/)) {
                key = substr(tag, 1, RLENGTH); tag = substr(tag, RLENGTH + 1)
                sub(/=.*/, "", key); gsub(/ /, "", key)
                if (key in seen) bad("an attribute twice")
                seen[key] = 1
            }
            if (tag ~ /[^ ]/) bad("attributes")
            if (!empty) name[++depth] = word
        }
        END { if (!wrong && (depth || !begun)) { print "not closed" >"/dev/stderr"; exit 1 } }' || fail "$1 is not well-formed XML"
    if command -v xmllint >/dev/null 2>&1; then
        xmllint --noout "$1" || fail "xmllint refuses $1"
    fi
}
# The checker finds what it should.
printf '<svg a="1"><g></svg></g>\n' >planted.xml
(wellformed planted.xml) >/dev/null 2>&1 && fail "the checker misses a wrong nesting"
printf '<svg a="1" a="2"/>\n' >planted.xml
(wellformed planted.xml) >/dev/null 2>&1 && fail "the checker misses an attribute given twice"
printf '<svg>a & b</svg>\n' >planted.xml
(wellformed planted.xml) >/dev/null 2>&1 && fail "the checker misses a bare &"
printf '<svg><g></g>\n' >planted.xml
(wellformed planted.xml) >/dev/null 2>&1 && fail "the checker misses an open root"

arrows() { # FILE: paths with an arrow head, less the six of the legend
    echo $(($(grep -c 'marker-end=' "$1") - 6))
}
boxes() { # FILE: boxes with work in them
    grep -c '<title>step [0-9]*, rank' "$1" || true
}

for layout in contiguous zigzag striped; do
    ok "$RINGTRUE" plan --seqlen 1k --heads 4 --dim 16 --plan ring --layout $layout --ranks 8 --summary --verify --svg $layout.svg
    prints '# plan ring, layout'
    wellformed $layout.svg
    # Full mask, P = 8: every rank works at each of 8 steps; KV makes 7 hops, in the backward DKV 8 more.
    [ "$(boxes $layout.svg)" -eq 128 ] || fail "$layout: $(boxes $layout.svg) boxes"
    [ "$(arrows $layout.svg)" -eq 176 ] || fail "$layout: $(arrows $layout.svg) arrows"
    grep -q 'proved: every visible pair once' $layout.svg || fail "the proof is not told"
    grep -q '>56 KV<\|>8 KV<' $layout.svg || fail "messages are not counted"
done
grep -q 'only the first 64 queries' striped.svg || fail "striped: the window is not told"
grep -q 'only the first' zigzag.svg && fail "zigzag: a window"

# Causal and contiguous: rank r idles in the last P - 1 - r steps.
ok "$RINGTRUE" plan --seqlen 64 --heads 2 --dim 8 --mask causal --plan ring --ranks 4 --summary --svg causal.svg
wellformed causal.svg
[ "$(boxes causal.svg)" -eq 20 ] || fail "causal: $(boxes causal.svg) boxes"
grep -q '>idle<' causal.svg || fail "causal: nobody idles"

# The same bytes again; what exists stays, unless forced.
cp causal.svg again.svg
refuse 3 "output 'causal.svg' exists and stays as it is" "$RINGTRUE" plan --seqlen 64 --ranks 2 --svg causal.svg
cmp causal.svg again.svg || fail "causal.svg was touched"
ok "$RINGTRUE" plan --seqlen 64 --heads 2 --dim 8 --mask causal --plan ring --ranks 4 --summary --svg causal.svg --force
cmp causal.svg again.svg || fail "the picture is not the same again"
refuse 3 'is a folder' "$RINGTRUE" plan --seqlen 64 --svg . --force
refuse 3 'no-such-folder/a.svg' "$RINGTRUE" plan --seqlen 64 --svg no-such-folder/a.svg
if [ -e /dev/full ]; then
    # Eight blocks, not one: clang's OpenMP runtime writes a file of 1 KiB to shared memory as it starts.
    got=0
    (trap '' XFSZ && ulimit -f 8 && exec "$RINGTRUE" plan --seqlen 64 --plan ring --ranks 8 --svg full.svg --summary) >stdout.txt 2>stderr.txt || got=$?
    [ "$got" -eq 3 ] || fail "limited file size: exit code $got"
    says 'could not be written'
    absent full.svg
fi

# From nobody's company to a crowd, which is drawn compactly and says what it leaves out.
for ranks in 1 2 3 64 200; do
    ok "$RINGTRUE" plan --seqlen 400 --heads 2 --dim 8 --mask causal --plan ring --layout zigzag --ranks $ranks --summary --svg p$ranks.svg
    wellformed p$ranks.svg
done
grep -q 'drawn: ranks' p3.svg && fail "P = 3 leaves something out"
grep -q 'drawn: ranks 0..63 of 64, steps 0..33 and the last six of 64' p64.svg || fail "P = 64 does not say what it leaves out"
grep -q 'drawn: ranks 0..127 of 200' p200.svg || fail "P = 200 does not say what it leaves out"
ok "$RINGTRUE" plan --seqlen 64 --seqlen-k 96 --cu-seqlens 0,10,10,64 --cu-seqlens-k 0,32,40,96 --heads 2 --dim 8 --plan single --ranks 5 --summary --svg odd.svg
wellformed odd.svg

# Ranks that all send to each other are one bar per payload, with an arrow and a dot for each of them: what is counted above
# is the messages. Hybrid: two groups of four, which in the order ring-low lie in each other and so side by side.
bars() { # FILE
    grep -c '<title>[A-Z]*: each of [0-9]* ranks sends to each of the others' "$1" || true
}
bar_places() { # FILE: at which x bars of KV stand in the forward, sorted
    sed -n 's/.*<circle cx="\([0-9.]*\)" .*fill="#c2410c".*/\1/p' "$1" | head -n 8 | LC_ALL=C sort -u | wc -l
}
draw8() { # FILE FLAGS..
    file=$1
    shift
    ok "$RINGTRUE" plan --seqlen 128 --heads 16 --dim 8 --ranks 8 --summary --svg "$file" "$@"
    wellformed "$file"
    [ "$(grep -c '<circle' "$file")" -eq $((8 * $(bars "$file"))) ] ||
        [ "$(grep -c '<circle' "$file")" -eq $((4 * $(bars "$file"))) ] || fail "$file: dots"
}
draw8 gather.svg --mask causal --layout zigzag --plan all-gather
[ "$(bars gather.svg) $(arrows gather.svg)" = "3 24" ] || fail "all-gather: $(bars gather.svg) bars, $(arrows gather.svg) arrows"
grep -q '>56 KV<' gather.svg || fail "all-gather: messages are not counted"
draw8 keeps.svg --plan hybrid:ulysses=4
[ "$(bars keeps.svg)" -eq 12 ] || fail "hybrid: $(bars keeps.svg) bars" # Q KV STATE, DO DQ DKV, of two groups
draw8 low.svg --plan hybrid:ulysses=4,keep=no
[ "$(bars low.svg)" -eq 16 ] || fail "hybrid: $(bars low.svg) bars" # Q KV STATE, Q KV DO DQ DKV, of two groups
[ "$(bar_places low.svg)" -eq 1 ] || fail "hybrid: groups one below the other share a place"
draw8 ring-low.svg --plan hybrid:ulysses=4,order=ring-low,keep=no
[ "$(bars ring-low.svg) $(bar_places ring-low.svg)" = "16 2" ] || fail "ring-low: groups in each other stand side by side"
# A ring of three is no group, nor are two ranks; what a causal mask leaves out of an exchange makes arrows of it.
ok "$RINGTRUE" plan --seqlen 96 --heads 4 --dim 8 --ranks 3 --plan ring --summary --svg three.svg
ok "$RINGTRUE" plan --seqlen 96 --heads 4 --dim 8 --ranks 2 --plan all-gather --summary --svg two.svg
ok "$RINGTRUE" plan --seqlen 128 --heads 4 --dim 8 --mask causal --ranks 8 --plan groupcast --summary --svg groupcast.svg
[ "$(bars three.svg)$(bars two.svg)$(bars groupcast.svg)" = 000 ] || fail "a bar where not all send to all"
[ "$(arrows groupcast.svg)" -eq 84 ] || fail "groupcast: $(arrows groupcast.svg) arrows" # 28 KV, 28 KV, 28 DKV

# Each group of heads has its map, up to 16, none lower than the page's top part allows, and each of the same size.
draw8 heads.svg --plan ulysses
for heads in 0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15; do
    grep -q ">heads $heads<" heads.svg || fail "no map of heads $heads"
done
grep -q 'more groups of heads' heads.svg && fail "groups of heads are left out"
ok "$RINGTRUE" plan --seqlen 64 --heads 20 --dim 8 --ranks 20 --plan ulysses --summary --svg many.svg
grep -q 'and 4 more groups of heads, not drawn' many.svg || fail "what is left out is not told"
# Nothing is wider than the page, and the steps begin below the maps: all text, dots and boxes lie inside.
for file in *.svg; do
    awk '/^<svg / { w = $0; sub(/.* width="/, "", w); sub(/".*/, "", w); h = $0; sub(/.* height="/, "", h); sub(/".*/, "", h) }
        /^<rect x=/ { split($0, a, "\""); if (a[2] + a[6] > w + 0 || a[4] + a[8] > h + 0) { print; exit 1 } }
        /^<text x=/ { split($0, a, "\""); if (a[2] > w + 0 || a[4] > h + 0) { print; exit 1 } }' "$file" || fail "$file: something lies outside of the page"
done
