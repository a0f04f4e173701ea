#!/bin/sh
# data/ holds exactly what its MANIFEST lists, bit for bit.
set -eu
cd -- "$RT_SOURCE_DIR/data"
sha256sum --check --strict --quiet MANIFEST
listed=$(sed -n 's/^[0-9a-f]\{64\}  //p' MANIFEST | LC_ALL=C sort)
found=$(find . -type f ! -name MANIFEST | sed 's|^\./||' | LC_ALL=C sort)
[ -n "$listed" ]
[ "$listed" = "$found" ] || {
    echo "MANIFEST and data/ differ" >&2
    exit 1
}
