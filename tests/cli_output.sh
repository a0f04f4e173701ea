#!/bin/sh
# Output folders appear complete or not at all, and nothing that exists is touched without --force.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"

ok "$RINGTRUE" gen --seqlen 16 --heads 2 --dim 8 -o in
sum=$(cksum <in/global.safetensors)
refuse 3 "output 'in' exists and stays as it is. Hint: another name, or --force" "$RINGTRUE" gen --seqlen 32 -o in
refuse 3 "output 'in' exists and stays as it is. Hint: another name, or --force" "$RINGTRUE" run in -o in
[ "$sum" = "$(cksum <in/global.safetensors)" ] || fail "in was touched"
ok "$RINGTRUE" gen --seqlen 32 --heads 2 --dim 8 --force -o in/
[ "$sum" != "$(cksum <in/global.safetensors)" ] || fail "--force did not replace"
echo keep >file
refuse 3 "output 'file' exists" "$RINGTRUE" run in -o file
ok "$RINGTRUE" run in -o file --force
[ -s file/rank0.safetensors ] || fail "--force did not replace a file"
# A run onto its own input, forced: read to the end before it is replaced.
ok "$RINGTRUE" run in -o in --force --plan ring --ranks 2
ok "$RINGTRUE" check in

refuse 3 'no-such-folder/out' "$RINGTRUE" run in -o no-such-folder/out
refuse 3 'no-such-folder/out' "$RINGTRUE" gen -o no-such-folder/out
refuse 3 'file/rank0.safetensors/out' "$RINGTRUE" gen -o file/rank0.safetensors/out
if [ "$(id -u)" -ne 0 ]; then
    mkdir closed
    chmod 555 closed
    refuse 3 'closed/out' "$RINGTRUE" run in -o closed/out
fi
# A limit on the size of files is a full disk in small: the signal's default would kill, an ignored one is an error.
ok "$RINGTRUE" gen --seqlen 2k --heads 8 --dim 64 -o big
got=0
(trap '' XFSZ && ulimit -f 64 && exec "$RINGTRUE" run big -o out) >stdout.txt 2>stderr.txt || got=$?
[ "$got" -eq 3 ] || fail "limited file size: exit code $got"
says 'cannot reserve'
absent out
if [ -e /dev/full ]; then
    got=0
    "$RINGTRUE" info in >/dev/full 2>stderr.txt || got=$?
    [ "$got" -eq 3 ] || fail "full standard output: exit code $got"
    says 'standard output could not be written'
fi

# A run that fails after its files were begun leaves nothing: process 1 has another problem.
ok "$RINGTRUE" gen --seqlen 2k --heads 8 --dim 64 --seed 2 --forward-only -o big2
code=0
"$MPIEXEC" -n 1 "$RINGTRUE" run big -o out --ranks 2 --plan ring : -n 1 "$RINGTRUE" run big2 -o out --ranks 2 --plan ring --layout zigzag >stdout.txt 2>stderr.txt || code=$?
[ "$code" -ne 0 ] || fail "two processes with two problems"
[ "$(grep -c '^ringtrue' stderr.txt)" -eq 1 ] || fail "not one line"
absent out

# A device or a pipe is no output, whatever --force says.
mkfifo pipe
refuse 3 "'pipe' is no folder and stays" "$RINGTRUE" run big -o pipe --force
refuse 3 "'pipe' is no regular file and stays" "$RINGTRUE" plan --seqlen 8 --svg pipe --force
refuse 2 'needs a name' "$RINGTRUE" plan --seqlen 8 --svg ''
[ -p pipe ] || fail "the pipe was replaced"

# Killed in the middle: the name is absent.  (What was begun aside stays; a second run does not mind.)
ok "$RINGTRUE" gen --seqlen 8k --heads 8 --dim 64 -o large
"$RINGTRUE" run large -o killed --quiet >stdout.txt 2>stderr.txt &
pid=$!
tries=0
until ls -d killed.part-* >/dev/null 2>&1; do
    kill -0 $pid 2>/dev/null || fail "the run ended before it was killed"
    tries=$((tries + 1))
    [ $tries -lt 200 ] || fail "nothing was begun"
    sleep 0.05
done
kill -9 $pid
wait $pid 2>/dev/null || true
[ ! -e killed ] || fail "a killed run left its output's name"
ls -d killed.part-* >/dev/null 2>&1 || fail "the run was not killed in the middle"
