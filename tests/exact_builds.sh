#!/bin/sh
# exact_builds.sh COMPILER CMAKE GENERATOR [SANITIZER]: the command built otherwise - the other compiler, -O0, -O3, this processor's
# own instructions - gives the committed bits too.
set -eu
compiler=$1 cmake=$2 generator=$3
[ -z "${4:-}" ] || exit 77 # the plain builds run it
. "$RT_SOURCE_DIR/tests/cli_common.sh"
case $(basename "$compiler") in
*clang*) other=gcc ;;
*) other=clang ;;
esac
command -v "$other" >/dev/null || other=$compiler

# build NAME COMPILER FLAGS
build() {
    {
        "$cmake" -S "$RT_SOURCE_DIR" -B "$1" -G "$generator" -DCMAKE_C_COMPILER="$2" -DCMAKE_BUILD_TYPE=Release \
            -DCMAKE_C_FLAGS_RELEASE="$3" && "$cmake" --build "$1" --target ringtrue --parallel 2
    } >"$1.log" 2>&1 || {
        tail -n 20 "$1.log" >&2
        fail "no build by $2 $3"
    }
    (
        mkdir "$1.run" && cd "$1.run"
        RINGTRUE=$PWD/../$1/ringtrue
        export RINGTRUE
        exec sh "$RT_SOURCE_DIR/tests/cli_exact_bits.sh" committed
    ) || fail "other bits by $2 $3"
}

build plain "$other" -O0
build native "$compiler" "-O3 -march=native"
