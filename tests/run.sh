#!/bin/sh
# run.sh: packages, release build, every test.  Ends with one line: N passed, N failed, N skipped.
# Exit code 0 only when nothing failed.  RT_FIELD_DATA in the environment, an absolute path, is
# passed to the build.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd -- "$root"

# Beyond the build: a C++ compiler for the test of the headers, Python for the test of the capture.
sh tests/packages.sh g++ python3
sh tests/preset.sh release
