#!/bin/sh
# many_ranks.sh RINGTRUE [RANKS [SEQLEN]]: a zigzag ring of 512 plan ranks in one process at S = 8192, D = 64, H = 2: plan and proof, a run in
# f64 forward and backward, and check.  Prints the seconds of each; exit code 0 only when all pass.
set -eu
[ $# -ge 1 ] && [ $# -le 3 ] || { echo "usage: sh many_ranks.sh RINGTRUE [RANKS [SEQLEN]]" >&2 && exit 2; }
ringtrue=$(CDPATH='' cd -- "$(dirname -- "$1")" && pwd)/$(basename -- "$1")
ranks=${2:-512} seqlen=${3:-8192}
problem="--seqlen $seqlen --heads 2 --dim 64 --mask causal" layout="--plan ring --layout zigzag --ranks $ranks"
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cd -- "$work"

timed() { # NAME COMMAND..
    name=$1 begin=$(date +%s%N)
    shift
    "$@" >log.txt || { cat log.txt >&2 && echo "many_ranks.sh: $name failed" >&2 && exit 1; }
    awk -v name="$name" -v ns=$(($(date +%s%N) - begin)) 'BEGIN { printf "%-16s %8.2f s\n", name, ns / 1e9 }'
}
echo "# $ranks plan ranks in one process, $problem $layout"
# shellcheck disable=SC2086 # flags are words
timed gen "$ringtrue" gen $problem -o in --quiet
# shellcheck disable=SC2086
timed "plan and proof" "$ringtrue" plan $problem $layout --summary --verify
# shellcheck disable=SC2086
timed run "$ringtrue" run in $layout -o out --quiet
timed check "$ringtrue" check out
tail -n 1 log.txt
