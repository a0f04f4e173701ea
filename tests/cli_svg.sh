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
