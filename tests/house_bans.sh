#!/bin/sh
# house_bans.sh: what our sources must not hold, each rule tried on a planted offence first.
# shellcheck disable=SC2317 # the rules are called by their names in a variable
set -eu

code() { # ROOT: our C sources and headers
    find "$1/src" "$1/include" "$1/tests" -name '*.[ch]'
}
build_files() { # ROOT
    find "$1" -maxdepth 1 \( -name CMakeLists.txt -o -name CMakePresets.json \)
    find "$1/src" "$1/tests" -name '*.cmake' -o -name CMakeLists.txt
}
matches() { # PATTERN, file names on stdin
    tr '\n' '\0' | xargs -0 -r grep -nE -e "$1" /dev/null || true
}

# Each rule prints the offending lines.
rule_float_equal() { # CMocka's passes for NaN, for infinities and for what differs by less than its epsilon
    code "$1" | matches 'assert_(float|double)_(not_)?equal'
}
rule_fast_math() { # these flags and pragmas let the compiler change results
    build_files "$1" | matches '-ffast-math|-Ofast|-funsafe-math|-fassociative-math|-freciprocal-math|-ffp-contract=(fast|on)|-ffinite-math'
    code "$1" | matches '# *pragma +(GCC +optimize|STDC +FP_CONTRACT +(ON|DEFAULT)|(clang +)?fp +)|attribute.*optimize *\('
}
# A sum over threads has no fixed order, which floats would show: the variable of a reduction must be an integer
# where it is declared, in the same file.
rule_reduction() {
    code "$1" | matches '# *pragma +omp.*reduction *\( *[-+*] *:' | while IFS= read -r line; do
        file=${line%%:*}
        printf '%s\n' "$line" | sed 's/.*reduction *( *[-+*] *: *\([^)]*\)).*/\1/' | tr -d ' ' | tr ',' '\n' |
            while IFS= read -r name; do
                type='(u?int(8|16|32|64)?_t|int|unsigned|long|size_t|bool)'
                if grep -Eq "(float|double)[^;(]*[ *,]${name}\>" "$file" || ! grep -Eq "\<${type}[^;(]*[ ,]$name\>" "$file"; then
                    printf '%s\n' "$line"
                fi
            done
    done
}
rule_mpi_sum() {
    code "$1" | matches 'MPI_(FLOAT|DOUBLE|LONG_DOUBLE), *MPI_(SUM|PROD)'
}
rule_mpi_header() { # MPI is known to these rooms only
    find "$1/src" "$1/include" -name '*.[ch]' | grep -vE "^$1/src/(run|model)/|^$1/src/layout/grid" | matches '# *include *<mpi\.h>'
}
# A room includes from itself and from the rooms before it.
rooms="base number tensor problem layout plan arithmetic run judge io show model cli"
rule_rooms() {
    find "$1/src" -name '*.[ch]' | matches '# *include *"[a-z]+/' | awk -v root="$1/src/" -v rooms="$rooms" '
        BEGIN { n = split(rooms, name, " "); for (i = 1; i <= n; i++) order[name[i]] = i }
        {
            from = substr($0, length(root) + 1); sub("/.*", "", from)
            to = $0; sub(/.*include *"/, "", to); sub("/.*", "", to)
            if (!(from in order) || !(to in order) || order[to] > order[from]) print
        }'
}
rule_long_file() {
    code "$1" | while IFS= read -r file; do
        n=$(wc -l <"$file")
        [ "$n" -lt 700 ] || printf '%s: %s lines\n' "$file" "$n"
    done
}
rule_house() { # every folder of src has its row in README's table
    for folder in "$1"/src/*/; do
        folder=${folder%/}
        grep -qsF "| \`src/${folder##*/}\` |" "$1/README.md" || printf '%s: not in the table of rooms\n' "$folder"
    done
}
rules="float_equal fast_math reduction mpi_sum mpi_header rooms long_file house"

plant() { # FILE TEXT RULE: the rule finds the text, planted as the only line of FILE
    rm -rf planted
    mkdir -p planted/src/judge planted/include planted/tests
    printf '%s\n' "$2" >"planted/$1"
    [ -n "$("rule_$3" planted)" ] || {
        printf 'house_bans.sh: rule %s misses: %s\n' "$3" "$2" >&2
        exit 1
    }
}
plant tests/a.c 'assert_float_equal(x, y, 0);' float_equal
plant CMakeLists.txt 'target_compile_options(a PRIVATE -ffast-math)' fast_math
plant CMakePresets.json '"CMAKE_C_FLAGS": "-Ofast"' fast_math
plant src/flags.cmake 'target_compile_options(a PRIVATE -ffp-contract=fast)' fast_math
plant src/a.c '#pragma STDC FP_CONTRACT ON' fast_math
plant src/a.c 'double x = 0;
#pragma omp parallel for reduction(+:x)' reduction
plant src/a.c 'int64_t n = 0; double y, x = 0;
#pragma omp parallel for reduction(+ : n, x)' reduction
plant src/a.c '#pragma omp parallel for reduction(+ : unknown)' reduction
plant src/judge/a.c 'MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, comm);' mpi_sum
plant src/judge/a.c '#include <mpi.h>' mpi_header
plant src/judge/a.c '#include "io/dump.h"' rooms
plant src/judge/a.c '#include "attic/dump.h"' rooms
plant src/a.c "$(seq 700)" long_file
plant README.md 'no table' house
rm -rf planted
mkdir -p planted/src planted/include planted/tests
printf 'int64_t total, n = 0;\n#pragma omp parallel for reduction(+ : n)\n' >planted/src/a.c
[ -z "$(rule_reduction planted)" ] || {
    echo "house_bans.sh: rule reduction finds fault with an integer" >&2
    exit 1
}

bad=0
for rule in $rules; do
    found=$("rule_$rule" "$RT_SOURCE_DIR")
    if [ -n "$found" ]; then
        printf 'house_bans.sh: %s:\n%s\n' "$rule" "$found" >&2
        bad=1
    fi
done
exit "$bad"
