#!/bin/sh
# house_headers.sh CC c|c++: every public header compiles alone, without warnings, in that language, and each of its
# functions has C linkage.
set -eu
cc=$1 language=$2
include=$RT_SOURCE_DIR/include

fail() {
    printf 'house_headers.sh: %s\n' "$*" >&2
    exit 1
}

set -- "$cc" -x c -std=c11 -Wstrict-prototypes
if [ "$language" = c++ ]; then
    echo 'int main() { return 0; }' >probe.cpp
    # gcc needs g++'s package for this, clang only itself.
    for candidate in "$cc" c++ g++ clang; do
        set -- "$candidate" -x c++ -std=c++11
        "$@" -c probe.cpp -o probe.o >/dev/null 2>&1 && break
        set --
    done
    if [ $# -eq 0 ]; then
        echo "skipped: no C++ compiler"
        exit 77
    fi
fi
echo "# $*"

count=0
for header in "$include"/ringtrue/*.h; do
    name=$(basename "$header" .h)
    # Twice: the guard.  The addresses of its functions, so that the object names what it would link to; static ones
    # have no linkage.
    functions=$(sed -n '/^static/!s/^[a-z][A-Za-z0-9_ *]*[ *]\(rt_[a-z0-9_]*\)(.*/\1/p' "$header" | LC_ALL=C sort -u)
    {
        printf '#include <ringtrue/%s.h>\n#include <ringtrue/%s.h>\n' "$name" "$name"
        printf 'typedef void (*rt_any)(void);\nextern rt_any const used[];\nrt_any const used[] = {0'
        for function in $functions; do printf ', (rt_any)%s' "$function"; done
        printf '};\n'
    } >"$name.c"
    "$@" -Wall -Wextra -Wpedantic -Wundef -Werror -Wno-cast-function-type -I "$include" -c "$name.c" -o "$name.o" ||
        fail "ringtrue/$name.h does not compile alone"
    nm "$name.o" | sed 's/.* //' | LC_ALL=C sort -u >"$name.symbols"
    printf '%s\n' "$functions" | LC_ALL=C comm -23 - "$name.symbols" >"$name.mangled"
    [ -z "$functions" ] || [ ! -s "$name.mangled" ] ||
        fail "ringtrue/$name.h: no C linkage: $(tr '\n' ' ' <"$name.mangled")"
    count=$((count + $(printf '%s\n' "$functions" | wc -w)))
done
[ "$count" -gt 20 ] || fail "only $count functions found: does the search still fit the headers?"
echo "# $count functions"
