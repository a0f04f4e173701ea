#!/bin/sh
# The pictures of the tour are those that this command draws, and every planner has one.
set -eu
. "$RT_SOURCE_DIR/tests/cli_common.sh"
tour=$RT_SOURCE_DIR/validation/tour
mkdir new
RINGTRUE=$RINGTRUE sh "$tour/make.sh" new >stdout.txt 2>stderr.txt || fail "validation/tour/make.sh"
for file in "$tour"/*.svg "$tour/README.md"; do
    cmp -s "$file" "new/${file##*/}" || fail "validation/tour/${file##*/} is not up to date. Hint: sh validation/tour/make.sh"
done
for file in new/*; do
    [ -e "$tour/${file##*/}" ] || fail "validation/tour/${file##*/} is missing. Hint: sh validation/tour/make.sh"
done
ok "$RINGTRUE" plan --list
grep -v '^#' stdout.txt | sed 's/[: ].*//' | while read -r name; do
    grep -q "^## $name\(:.*\)\{0,1\}$" "$tour/README.md" || fail "the tour has no picture of plan $name: add a line to validation/tour/make.sh and run it"
done
