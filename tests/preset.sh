#!/bin/sh
# preset.sh PRESET [build]: configure and build a preset and, unless told only to build, run its tests.
# Ends with one line of ctest's totals: N passed, N failed, N skipped.
set -eu
preset=$1
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd -- "$root"
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
build=$root/build/$preset

echo "# $preset: configure"
if [ -n "${RT_FIELD_DATA:-}" ]; then
    case $RT_FIELD_DATA in
    /*) ;;
    *) echo "preset.sh: RT_FIELD_DATA=$RT_FIELD_DATA must be an absolute path" >&2 && exit 1 ;;
    esac
    [ -d "$RT_FIELD_DATA" ] || { echo "preset.sh: RT_FIELD_DATA=$RT_FIELD_DATA is no folder" >&2 && exit 1; }
fi
cmake --preset "$preset" ${RT_FIELD_DATA+-DRT_FIELD_DATA="$RT_FIELD_DATA"}
echo "# $preset: build"
cmake --build --preset "$preset" --parallel "$jobs"
[ "${2:-}" != build ] || exit 0

echo "# $preset: test"
totals=$build/ctest.xml
rm -f -- "$totals"
code=0
ctest --preset "$preset" --parallel "$jobs" --output-junit "$totals" || code=$?
if [ ! -s "$totals" ]; then
    echo "preset.sh: ctest gave no totals (exit code $code)" >&2
    exit 1
fi

# Attribute NAME of the <testsuite> element, which ctest spreads over lines.
total() {
    sed -n '/<testsuite /,/>/p' "$totals" | sed -n "s/.*[^a-z]$1=\"\([0-9]*\)\".*/\1/p" | head -n 1
}
failed=$(total failures)
skipped=$(($(total skipped) + $(total disabled)))
passed=$(($(total tests) - failed - skipped))
# ctest's exit code also knows what the totals do not, such as a program that was not built.
if [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; then
    echo "preset.sh: ctest failed with exit code $code" >&2
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$code" -eq 0 ] && [ "$failed" -eq 0 ]
