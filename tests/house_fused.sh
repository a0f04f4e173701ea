#!/bin/sh
# house_fused.sh BUILD CC [CFLAGS]: no object of the library holds a fused multiply-add, unless its source or a header of
# ours that it includes asks for one by name: a compiler that contracts a * b + c changes promised bits.
set -eu
build=$1 cc=$2 cflags=${3:-}
objects=$build/CMakeFiles/ringtrue.dir/src

fail() {
    printf 'house_fused.sh: %s\n' "$*" >&2
    exit 1
}
skip() {
    printf 'skipped: %s\n' "$*"
    exit 77
}
case $(uname -m) in
x86_64) ;;
*) skip "the names of fused instructions are known for x86-64 only" ;;
esac
command -v objdump >/dev/null || skip "no objdump"
# shellcheck disable=SC2086 # the flags are split on purpose
if "$cc" $cflags -dM -E -x c /dev/null | grep -q '__FMA__'; then
    skip "the user's flags ($cflags) let every fma() become an instruction"
fi

fused() {
    objdump -d --no-show-raw-insn "$1" | grep -c '[[:space:]]vfn\?m\(add\|sub\)' || true
}

# The search finds one where there is one, and none in the same function compiled as the project does.
cat >probe.c <<'C'
double probe(double a, double b, double c);
double probe(double a, double b, double c)
{
    return a * b + c;
}
C
"$cc" -std=c11 -O2 -mfma -ffp-contract=fast -c probe.c -o probe.o
[ "$(fused probe.o)" -gt 0 ] || fail "the search misses a fused multiply-add"

# The file and what it includes of ours.
sources() {
    todo=$1
    seen=
    while [ -n "$todo" ]; do
        next=
        for file in $todo; do
            case " $seen " in
            *" $file "*) continue ;;
            esac
            seen="$seen $file"
            # shellcheck disable=SC2013 # words are what is wanted
            for header in $(sed -n 's/^# *include *"\([a-z0-9_/]*\.h\)".*/\1/p' "$RT_SOURCE_DIR/src/$file"); do
                next="$next $header"
            done
        done
        todo=${next# }
    done
    for file in $seen; do
        echo "$RT_SOURCE_DIR/src/$file"
    done
}

count=0
find "$objects" -name '*.c.o' | LC_ALL=C sort >list
while read -r object; do
    count=$((count + 1))
    source=${object#"$objects"/}
    source=${source%.o}
    n=$(fused "$object")
    # shellcheck disable=SC2046 # no space in our file names
    if [ "$n" -gt 0 ] && ! grep -Eqh '(\<|__builtin_)fmaf?[[:space:]]*\(|_fn?m(add|sub)_' $(sources "$source"); then
        fail "src/$source: $n fused instructions, none asked for"
    fi
done <list
[ "$count" -gt 20 ] || fail "only $count objects under $objects"
echo "# $count objects"
