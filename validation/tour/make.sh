#!/bin/sh
# make.sh [FOLDER]: draw every picture of the tour, and its README.md, into FOLDER (here, without one).
# RINGTRUE names the command (default: build/release/ringtrue).  A test compares the result with what is kept here.
set -eu
here=$(cd -- "$(dirname -- "$0")" && pwd)
to=${1:-$here}
ringtrue=${RINGTRUE:-$here/../../build/release/ringtrue}

# A picture a line: its file, the plan, the flags of its problem, and what to look at.
tour() {
    cat <<'LIST'
single|single|--seqlen 64 --mask causal --layout zigzag|Everything comes to rank 0: the reference for all that follow.
ring|ring|--seqlen 64 --mask causal --layout zigzag|Keys go round while queries stay. In zigzag every tile but the first is half a square, so all ranks work alike; in the backward the gradients of the keys follow them and need one hop more.
ring-contiguous|ring:move=needed|--seqlen 64 --mask causal --layout contiguous|The same ring on a contiguous layout: the causal mask leaves rank 0 idle after its first tile. Keys that nobody needs are not sent on.
double-ring|double-ring:window=2|--seqlen 64 --mask causal --layout zigzag|Two rings: inside windows of two ranks, and between the windows.
all-gather|all-gather:form=chunks|--seqlen 64 --mask causal --layout zigzag|All keys to all ranks, then two kernel calls, one for each half of a rank's queries. The backward adds the gradients of the keys at their owners.
ulysses|ulysses|--seqlen 64 --mask causal --layout contiguous|Tokens are traded for heads: each rank computes one head over the whole sequence, and the outputs are traded back.
hybrid|hybrid:ulysses=2|--seqlen 64 --mask causal --layout zigzag|Ulysses inside pairs of ranks, a ring between the pairs.
pass-q|pass-q|--seqlen 64 --mask causal --layout zigzag|Queries go round while keys stay; partial results come home and are joined.
balanced|balanced|--seqlen 64 --mask causal --layout contiguous|DistFlashAttn: ranks whose own tiles are masked help the others and send the partial result back.
burst|burst|--seqlen 64 --mask causal --layout zigzag|The ring forward; in the backward the queries' side goes round, and the keys and their gradients stay.
adaptive|adaptive|--seqlen 64 --mask causal --cu-seqlens 0,24,40,64 --layout contiguous|MindSpeed: greedy rounds over the tiles that the documents leave.
groupcast|groupcast|--seqlen 64 --mask causal --cu-seqlens 0,24,40,64 --layout contiguous|MagiAttention: keys go only to the ranks that see them.
decode|decode:join=tree|--seqlen 4 --seqlen-k 64 --mask causal-bottom-right --layout contiguous|Few new queries against a cache of keys that stays: queries to all, partial results joined along a tree.
prefill|prefill|--seqlen 32 --seqlen-k 64 --mask causal-bottom-right --layout zigzag|A chunk of new queries on cached and new keys.
LIST
}

page=$to/README.md
{
    echo '# A tour of the plans'
    echo
    echo 'Every picture is a plan as `ringtrue plan --svg` draws it: on top the mask, coloured by the rank that computes each part, and what each rank'
    echo 'computes and sends; below the steps of the forward and of the backward, a row per rank, messages as arrows, or as one upright bar where'
    echo 'ranks all send to each other. All have P = 4 and 4 heads, and are drawn again by `sh validation/tour/make.sh`.'
} >"$page.part"
tour | while IFS='|' read -r file plan flags text; do
    # shellcheck disable=SC2086 # flags are words
    "$ringtrue" plan --plan "$plan" $flags --heads 4 --dim 16 --ranks 4 --verify --summary --quiet --svg "$to/$file.svg" --force >/dev/null
    {
        echo
        echo "## $plan"
        echo
        echo "$text"
        echo
        echo "    ringtrue plan --plan $plan $flags --heads 4 --dim 16 --ranks 4 --svg $file.svg"
        echo
        echo "![$plan]($file.svg)"
    } >>"$page.part"
done
mv -- "$page.part" "$page"
