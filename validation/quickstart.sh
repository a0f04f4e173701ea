#!/bin/sh
# quickstart.sh: packages, release build, and the main job on data that other programs wrote: two right runs
# and one with a published bug.  Exit code 0 only when ringtrue's verdict on each is the known one.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cd -- "$root"

sh tests/packages.sh
sh tests/preset.sh release build
# Open MPI as root and in a container, for those who run it so.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM

wrong=0
judge() { # NAME EXPECTED_EXIT_CODE WHY
    printf '\n# ringtrue check data/%s --spec validation/specs/%s.json\n' "$1" "$1"
    code=0
    build/release/ringtrue check "data/$1" --spec "validation/specs/$1.json" || code=$?
    if [ "$code" -eq "$2" ]; then
        printf '# %s: exit code %s, as expected: %s\n' "$1" "$code" "$3"
    else
        printf '# %s: exit code %s, NOT AS EXPECTED (%s): %s\n' "$1" "$code" "$2" "$3"
        wrong=$((wrong + 1))
    fi
}

judge rfa-ring-minilm 0 "a right run of ring-flash-attn on real activations"
judge torch-cp-headtail 0 "a right run of PyTorch's context parallel"
judge diffusers-ring 1 "a published bug of diffusers 0.38.0: the backward runs every ring step on the \
rank's own keys and values, so out and lse are right, and dq, dk, dv are wrong"

if [ "$wrong" -ne 0 ]; then
    printf '\n%s of 3 verdicts not as expected\n' "$wrong"
    exit 1
fi
printf '\n3 of 3 verdicts as expected\n'
