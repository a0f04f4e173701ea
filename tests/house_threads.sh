#!/bin/sh
# house_threads.sh: run and check over more threads than cores give the bits and the words of one thread.  Under
# ThreadSanitizer this is the test in which all parallel regions run together.
set -eu
"$RINGTRUE" gen --family gaussian --seqlen 300 --heads 4 --kv-heads 2 --dim 64 --dtype bf16 --mask causal -o in >gen.txt
for threads in 1 2 3 7; do
    export OMP_NUM_THREADS=$threads
    "$RINGTRUE" run in --plan ring --layout zigzag --ranks 3 --arith f64 -o out$threads >run$threads.txt
    # Of the report, what does not tell the time, the memory, the threads and the folder.
    "$RINGTRUE" check out$threads >all$threads.txt
    grep -vE '^# (ringtrue|run|products|[0-9]+ tensors)' all$threads.txt >check$threads.txt
    [ "$(wc -l <check$threads.txt)" -gt 15 ]
    for file in out1/*.safetensors; do
        cmp "$file" "out$threads/${file#out1/}"
    done
    cmp check1.txt check$threads.txt
    # Samples: how many heads are in hand at once, and how their rows and keys are cut, depends on the threads.
    for samples in 24 1024; do
        for truth in f64 exact; do
            "$RINGTRUE" check out$threads --sample both --samples $samples --truth $truth >all$threads.txt
            grep -vE '^# (ringtrue|run|products|[0-9]+ tensors)' all$threads.txt >sample$threads.txt
            [ "$(wc -l <sample$threads.txt)" -gt 15 ]
            [ -e sample.$samples.$truth ] || cp sample$threads.txt sample.$samples.$truth
            cmp sample.$samples.$truth sample$threads.txt
        done
    done
done
