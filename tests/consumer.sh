#!/bin/sh
# consumer.sh BUILD CONFIG CC CMAKE GENERATOR OPENBLAS_DIR CFLAGS: install BUILD into ./prefix, move that to
# another place, and build and run tests/consumer against it, once with find_package and once with pkg-config.
set -eu
build=$1 config=$2 cc=$3 cmake=$4 generator=$5 openblas_dir=$6 cflags=$7
here=$(pwd)
source=$RT_SOURCE_DIR/tests/consumer

say() {
    printf '# %s\n' "$*"
}
fail() {
    printf 'consumer.sh: %s\n' "$*" >&2
    exit 1
}

say "install"
"$cmake" --install "$build" --config "$config" --prefix "$here/staged" >install.log || fail "install failed"
# A package must not remember where it was installed first.
mv staged prefix
[ -x prefix/bin/ringtrue ] || fail "no prefix/bin/ringtrue"
ldd prefix/bin/ringtrue >ldd.log || fail "ldd prefix/bin/ringtrue failed"
if grep "not found" ldd.log >&2; then fail "the installed command lacks a library"; fi

# The OpenBLAS that is loaded must be the one of the build, wherever the alternatives point.
wanted=$(readlink -f "$openblas_dir/libopenblas.so.0")
loads_right_openblas() {
    ldd "$1" >ldd.log || fail "ldd $1 failed"
    # Shared builds load it through libringtrue.
    loaded=$(sed -n 's/.*libopenblas\.so\.0 => \([^ ]*\).*/\1/p' ldd.log)
    if [ -z "$loaded" ] || [ "$(readlink -f "$loaded")" != "$wanted" ]; then
        cat ldd.log >&2
        fail "$1 loads another OpenBLAS than $wanted"
    fi
}

say "find_package"
"$cmake" -S "$source" -B cmake-build -G "$generator" -DCMAKE_PREFIX_PATH="$here/prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_C_FLAGS="$cflags" -DCMAKE_BUILD_TYPE=Release >configure.log || fail "configure failed"
"$cmake" --build cmake-build >build.log || { cat build.log >&2; fail "build failed"; }
./cmake-build/consumer
loads_right_openblas ./cmake-build/consumer

say "pkg-config"
PKG_CONFIG_PATH=$(find "$here/prefix" -type d -name pkgconfig | head -n 1)
[ -n "$PKG_CONFIG_PATH" ] || fail "no ringtrue.pc"
export PKG_CONFIG_PATH
# pkg-config escapes for a shell, so a shell must read what it prints.
eval "\"\$cc\" -std=c11 $cflags $(pkg-config --cflags ringtrue) -o consumer-pc \"\$source/consumer.c\" \
    $(pkg-config --libs ringtrue)" || fail "pkg-config's flags do not build the consumer"
libdir=$(pkg-config --variable=libdir ringtrue)
LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ./consumer-pc
LD_LIBRARY_PATH=$libdir loads_right_openblas ./consumer-pc

[ "$(pkg-config --modversion ringtrue)" = 0.1.0 ] || fail "ringtrue.pc has another version"
