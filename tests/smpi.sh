#!/bin/sh
# smpi.sh: 64 processes of the real MPI code in SimGrid's simulated time on a described cluster (smpi_platform.xml): the bits of
# one process, and the time that plan --cost foretells.  Ends with one line: N passed, N failed, N skipped; without SimGrid, skipped.
set -u
root=$(cd -- "$(dirname -- "$0")/.." && pwd)
cd -- "$root" || exit 1
sh tests/packages.sh libsimgrid-dev
if ! command -v smpirun >/dev/null 2>&1; then
    echo "# SimGrid (libsimgrid-dev) is not here and cannot be installed: its simulations are left out"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
{ cmake --preset smpi && cmake --build --preset smpi && cmake --preset release -DBUILD_TESTING=ON && cmake --build --preset release --target ringtrue_cli; } >/dev/null || {
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
ringtrue=$root/build/release/ringtrue simulated=$root/build/smpi/ringtrue
work=$(mktemp -d) || exit 1
trap 'rm -rf -- "$work"' EXIT
cd -- "$work" || exit 1
OMP_NUM_THREADS=1 && export OMP_NUM_THREADS
machine=bandwidth=100MB/s,flops=10GF,element=8 passed=0 failed=0

# simulate COMMAND..: the time of computations is that of their operations, told by the code; the network is fluid, without factors.
simulate() {
    smpirun -np $processes -platform "$root/tests/smpi_platform.xml" --cfg=smpi/simulate-computation:no --cfg=smpi/test:0 \
        --cfg=network/model:CM02 --cfg=network/bandwidth-factor:1 --cfg=network/latency-factor:1 --cfg=network/crosstraffic:0 \
        --cfg=network/TCP-gamma:0 --log=root.thres:warning "$simulated" "$@"
}
foretold() { # PLAN LATENCY: seconds of the forward, and of both passes
    "$ringtrue" plan --plan "$1" --ranks $processes $problem --summary --cost "$machine,latency=$2" |
        awk '$2 == "forward" && $3 == "total" { forward = $6 } $2 == "backward" && $3 == "total" { print forward, forward + $6 }'
}
problem="--seqlen 512 --heads 64 --dim 16"
# shellcheck disable=SC2086 # flags are words
"$ringtrue" gen $problem --quiet -o in >/dev/null || exit 1

# Between the larger of pure bandwidth and pure compute of each step, and the model with the latency of every message after the
# other, 4 % for the statistics of rows that the model counts as 4 bytes and a run sends as 8, and the agreement that begins
# each step: at most 2 log2(64) messages of 1 us there and back, for as many steps as the plan has and four more in a pass.
processes=64
for plan in ring hybrid:ulysses=8 ulysses; do
    one=$("$ringtrue" run in --plan $plan --ranks $processes --fingerprint | grep '^fingerprint')
    rm -f trace.json
    many=$(simulate run in --plan $plan --ranks $processes --fingerprint --trace trace.json | grep '^fingerprint')
    if [ "$(echo "$one" | wc -l)" -eq 5 ] && [ "$one" = "$many" ]; then # lse out dq dk dv
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $plan: other bits in $processes simulated processes"
    fi
    # the forward takes until the last process has ended its last step; the whole run says how long it took
    forward=$(awk -F'"ts": |, "dur": |, "args"' '/"cat": "step".*"pass": "forward"/ { end = $2 + $3; most = end > most ? end : most }
        END { printf "%.9f", most / 1e6 }' trace.json)
    seconds=$(sed -n 's/^  "seconds": \([0-9.e+-]*\),.*/\1/p' trace.json)
    steps=$("$ringtrue" plan --plan $plan --ranks $processes $problem --summary | sed -n 's/^# [a-z]*: steps \([0-9]*\),.*/\1/p' | tr '\n' ' ')
    if echo "$forward $seconds $(foretold $plan 0) $(foretold $plan 1us) $steps" | awk -v plan=$plan 'NF == 8 {
            for (both = 0; both < 2; both++) {
                seen = $(1 + both); low = $(3 + both); model = $(5 + both); steps += $(7 + both) + 4
                high = model * 1.04 + steps * 24e-6
                printf "  %-18s %-20s simulated %.6f s, model %.6f s, ratio %.4f, allowed %.6f to %.6f s\n", plan,
                    both ? "forward and backward" : "forward", seen, model, seen / model, low, high
                held += low > 0 && seen >= 0.999 * low && seen <= high && high < 1.5 * low
            }
        }
        END { exit held != 2 }'; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $plan: the simulated time is not what the model foretells"
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
