#!/bin/sh
# packages.sh [PACKAGE...]: install the Debian packages that the build and the tests need, and those named.
# Says what it is about to install; installs nothing that is there; can be run again at any time.
set -eu

wanted="gcc libc6-dev cmake ninja-build pkg-config openmpi-bin libopenmpi-dev libopenblas-openmp-dev
libsleef-dev libjansson-dev libxxhash-dev librandom123-dev libmpfr-dev libcmocka-dev"

# A program that is there, from wherever it came, needs no package.
have_program() {
    case $1 in
    gcc | g++ | cmake | pkg-config | clang | python3) command -v "$1" ;;
    ninja-build) command -v ninja ;;
    *) false ;;
    esac >/dev/null 2>&1
}

have_package() {
    case $(dpkg-query -W -f='${Status}' "$1" 2>/dev/null) in
    *' installed') true ;;
    *) false ;;
    esac
}

# Without dpkg, whether the build finds the thing is all that can be asked.
have_otherwise() {
    case $1 in
    libc6-dev) true ;;
    openmpi-bin) command -v mpirun ;;
    libopenmpi-dev) command -v mpicc ;;
    libopenblas-openmp-dev) pkg-config --exists openblas ;;
    libsleef-dev) pkg-config --exists sleef ;;
    libjansson-dev) pkg-config --exists jansson ;;
    libxxhash-dev) pkg-config --exists libxxhash ;;
    librandom123-dev) [ -e /usr/include/Random123/philox.h ] || [ -e /usr/local/include/Random123/philox.h ] ;;
    libmpfr-dev) pkg-config --exists mpfr ;;
    libcmocka-dev) pkg-config --exists cmocka ;;
    *) false ;;
    esac >/dev/null 2>&1
}

missing=
for package in $wanted "$@"; do
    have_program "$package" && continue
    if command -v dpkg-query >/dev/null 2>&1; then
        have_package "$package" && continue
    else
        have_otherwise "$package" && continue
    fi
    missing="$missing $package"
done
missing=${missing# }
if [ -z "$missing" ]; then
    echo "# packages: all there, nothing to install"
    exit 0
fi

if ! command -v apt-get >/dev/null 2>&1; then
    echo "packages.sh: no apt-get here; install what Debian calls: $missing" >&2
    exit 1
fi
if [ "$(id -u)" -eq 0 ]; then
    as_root="env"
elif command -v sudo >/dev/null 2>&1; then
    as_root="sudo"
else
    echo "packages.sh: neither root nor sudo; have these Debian packages installed: $missing" >&2
    exit 1
fi
echo "# packages: going to install with apt-get, as root: $missing"
$as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q
# shellcheck disable=SC2086 # the list is split on purpose
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
