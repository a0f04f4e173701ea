#!/bin/sh
# fresh.sh FOLDER SCRIPT [ARGUMENT...]: run SCRIPT in FOLDER, emptied first.
set -eu
folder=$1
shift
rm -rf -- "$folder"
mkdir -p -- "$folder"
cd -- "$folder"
exec sh "$@"
