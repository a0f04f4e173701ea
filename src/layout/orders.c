/* The named orders: what each takes, and the positions that it gives a rank. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/parameters.h"
#include "layout/build.h"

/* ---- pieces ---- */

int64_t rt_run_start(int64_t length, int64_t n, int64_t k, rt_remainder rem)
{
    int64_t whole = length / n, rest = length % n;
    if (rem == RT_REMAINDER_CEIL) {
        int64_t size = whole + (rest > 0);
        /* no k * size, which could overflow, once the runs are used up */
        return size > 0 && k > length / size ? length : (k * size < length ? k * size : length);
    }
    if (rem == RT_REMAINDER_LAST)
        return k == n ? length : k * whole;
    return k * whole + (k < rest ? k : rest);
}

static void emit(rt_token_order *o, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        o->s.pos[o->at++] = i;
}

/* Run k of n in a segment; how many positions it has. */
static int64_t run(rt_token_order *o, int64_t segment, int64_t n, int64_t k)
{
    const int64_t start = o->bounds[segment], length = o->bounds[segment + 1] - start;
    const int64_t from = rt_run_start(length, n, k, o->remainder),
                  to = rt_run_start(length, n, k + 1, o->remainder);
    emit(o, start + from, start + to);
    return to - from;
}

/* ---- contiguous, zigzag, striped ---- */

static int64_t contiguous(rt_token_order *o, int32_t r)
{
    int64_t n = 0;
    for (int64_t i = 0; i < o->segments; i++)
        n += run(o, i, o->ranks, r);
    return n;
}

static int64_t zigzag(rt_token_order *o, int32_t r)
{
    const int64_t half = run(o, 0, 2 * (int64_t)o->ranks, r);
    (void)run(o, 0, 2 * (int64_t)o->ranks, 2 * (int64_t)o->ranks - 1 - r);
    return half;
}

/* In each segment: no half of the shard is a half of them all. */
static int64_t zigzag_segments(rt_token_order *o, int32_t r)
{
    const int64_t before = o->at, runs = 2 * (int64_t)o->ranks;
    for (int64_t i = 0; i < o->segments; i++) {
        (void)run(o, i, runs, r);
        (void)run(o, i, runs, runs - 1 - r);
    }
    return o->at - before;
}

static int64_t striped(rt_token_order *o, int32_t r)
{
    const int64_t before = o->at;
    for (int64_t i = r; i <= (o->length - 1) / o->stripe; i += o->ranks) {
        const int64_t from = i * o->stripe;
        emit(o, from, o->length - from < o->stripe ? o->length : from + o->stripe);
    }
    return o->at - before;
}

static rt_status prepare_contiguous(rt_context *ctx, rt_token_order *o, int64_t *unit)
{
    (void)ctx;
    *unit = o->ranks;
    return RT_OK;
}

static rt_status prepare_zigzag(rt_context *ctx, rt_token_order *o, int64_t *unit)
{
    (void)ctx;
    *unit = 2 * (int64_t)o->ranks;
    return RT_OK;
}

static rt_status prepare_striped(rt_context *ctx, rt_token_order *o, int64_t *unit)
{
    RT_TRY(rt_parameters_number(ctx, o->what, o->parameters, "stripe", 1, INT32_MAX, 1, &o->stripe));
    o->kind = o->stripe == 1 ? RT_LAYOUT_STRIPED : RT_LAYOUT_BLOCK_STRIPED;
    *unit = o->ranks * o->stripe;
    return RT_OK;
}

/* FPDT: chunks P runs each, and rank r has runs r, r + P, .. */
static rt_status prepare_fpdt(rt_context *ctx, rt_token_order *o, int64_t *unit)
{
    RT_TRY(rt_parameters_number(ctx, o->what, o->parameters, "chunks", 1, INT32_MAX, 1, &o->chunks));
    o->kind = o->chunks == 1 ? RT_LAYOUT_CONTIGUOUS : RT_LAYOUT_BLOCK_STRIPED;
    *unit = o->ranks * o->chunks;
    return RT_OK;
}

static int64_t fpdt(rt_token_order *o, int32_t r)
{
    int64_t n = 0;
    for (int64_t i = 0; i < o->chunks; i++)
        n += run(o, 0, o->chunks * o->ranks, i * o->ranks + r);
    return n;
}

/* ---- hybrids ---- */

static rt_status read_ulysses(rt_context *ctx, rt_token_order *o)
{
    RT_TRY(rt_parameters_number(ctx, o->what, o->parameters, "ulysses", 1, INT32_MAX, 1, &o->ulysses));
    if (o->ranks % o->ulysses != 0)
        return rt_fail(ctx, RT_ERR_ARG, "%s: ulysses is %lld; it must divide the %d ranks", o->what,
                       (long long)o->ulysses, (int)o->ranks);
    return RT_OK;
}

/* TransformerEngine a2a+p2p and Megatron: the zigzag of all ranks, whatever the Ulysses degree. */
static rt_status prepare_hybrid_te(rt_context *ctx, rt_token_order *o, int64_t *unit)
{
    RT_TRY(read_ulysses(ctx, o));
    return prepare_zigzag(ctx, o, unit);
}

/* A rank's place in its ring and in its Ulysses group. */
static void hybrid_place(const rt_token_order *o, int32_t r, int64_t *ring, int64_t *ulysses)
{
    const int64_t degree = o->ranks / o->ulysses;
    *ring = o->ring_low ? r % degree : r / o->ulysses;
    *ulysses = o->ring_low ? r / degree : r % o->ulysses;
}

/* The two runs of the rank's ring place, one behind the other, cut again over the Ulysses ranks. */
static int64_t hybrid_zigzag(rt_token_order *o, int32_t r)
{
    const int64_t runs = 2 * (o->ranks / o->ulysses), before = o->at;
    int64_t ring, ulysses;
    hybrid_place(o, r, &ring, &ulysses);
    const int64_t head = rt_run_start(o->length, runs, ring, o->remainder),
                  n_head = rt_run_start(o->length, runs, ring + 1, o->remainder) - head,
                  tail = rt_run_start(o->length, runs, runs - 1 - ring, o->remainder),
                  n = n_head + rt_run_start(o->length, runs, runs - ring, o->remainder) - tail;
    const int64_t from = rt_run_start(n, o->ulysses, ulysses, o->remainder),
                  to = rt_run_start(n, o->ulysses, ulysses + 1, o->remainder);
    for (int64_t i = from; i < to; i++)
        o->s.pos[o->at++] = i < n_head ? head + i : tail + i - n_head;
    return o->ulysses == 1 ? n_head : o->at - before;
}

/* "strip": the tokens sorted by their residue modulo the ring's size, then runs by rank. */
static int64_t hybrid_strip(rt_token_order *o, int32_t r)
{
    const int64_t degree = o->ranks / o->ulysses, before = o->at;
    const int64_t from = rt_run_start(o->length, o->ranks, r, o->remainder),
                  to = rt_run_start(o->length, o->ranks, r + 1, o->remainder);
    int64_t start = 0; /* of the residue's class in the sorted sequence */
    for (int64_t k = 0; k < degree && start < to; k++) {
        const int64_t n = o->length > k ? (o->length - k - 1) / degree + 1 : 0;
        for (int64_t i = from > start ? from - start : 0; i < n && start + i < to; i++)
            o->s.pos[o->at++] = k + i * degree;
        start += n;
    }
    return o->at - before;
}

enum { TOKENS_ZIGZAG, TOKENS_BASIC, TOKENS_STRIP };

static int64_t usp(rt_token_order *o, int32_t r)
{
    return o->choice == TOKENS_ZIGZAG  ? hybrid_zigzag(o, r)
           : o->choice == TOKENS_BASIC ? contiguous(o, r)
                                       : hybrid_strip(o, r);
}

static rt_status prepare_usp(rt_context *ctx, rt_token_order *o, int64_t *unit)
{
    static const char *const orders[] = {"ulysses-low", "ring-low", NULL}, *const tokens[] = {
                                                                               "zigzag", "basic", "strip",
                                                                               NULL};
    int low = 0;
    RT_TRY(read_ulysses(ctx, o));
    RT_TRY(rt_parameters_choice(ctx, o->what, o->parameters, "order", orders, 0, &low));
    RT_TRY(rt_parameters_choice(ctx, o->what, o->parameters, "tokens", tokens, 0, &o->choice));
    o->ring_low = low == 1;
    static const rt_layout_kind plain[] = {RT_LAYOUT_ZIGZAG, RT_LAYOUT_CONTIGUOUS, RT_LAYOUT_STRIPED};
    o->kind = o->ulysses == 1 || o->choice == TOKENS_BASIC ? plain[o->choice] : RT_LAYOUT_USP;
    /* 2 ring runs of the length, and two of them cut in as many parts as there are Ulysses ranks */
    *unit = o->choice == TOKENS_ZIGZAG && o->ulysses % 2 != 0 ? 2 * (int64_t)o->ranks : o->ranks;
    return RT_OK;
}

static rt_status prepare_mindspeed(rt_context *ctx, rt_token_order *o, int64_t *unit)
{
    RT_TRY(read_ulysses(ctx, o));
    o->kind = o->ulysses == 1 ? RT_LAYOUT_ZIGZAG : RT_LAYOUT_USP;
    *unit = 2 * (int64_t)o->ranks;
    return RT_OK;
}

/* ---- by the work of the mask ---- */

/* The original positions of places [from, to) of the padded sequence. */
static int64_t tokens_of(const rt_token_order *o, int64_t from, int64_t to, int64_t *pos)
{
    const rt_problem *p = o->p;
    int64_t n = 0;
    if (o->padded == NULL) {
        for (int64_t i = from; i < to; i++)
            pos[n++] = i;
        return n;
    }
    for (int64_t d = 0; d < p->documents; d++) {
        const int64_t first = o->padded[d], length = p->cu_q[d + 1] - p->cu_q[d];
        for (int64_t i = from > first ? from : first; i < to && i < first + length; i++)
            pos[n++] = p->cu_q[d] + i - first;
    }
    return n;
}

/* Work of a block of queries: blocks of keys of which it sees something, or pairs. */
static int64_t block_work(const rt_token_order *o, int64_t b, int64_t *q, const int64_t *k)
{
    const rt_problem *p = o->p;
    const int64_t from = b * o->block, to = o->length - from < o->block ? o->length : from + o->block;
    const int64_t n = tokens_of(o, from, to, q);
    if (o->pairs)
        return rt_mask_pairs(p, q, n, k, p->seqlen_k);
    int64_t work = 0;
    for (int64_t j = 0; j < p->seqlen_k; j += o->block)
        work += rt_mask_pairs(p, q, n, k + j, p->seqlen_k - j < o->block ? p->seqlen_k - j : o->block) > 0;
    return work;
}

static rt_status prepare_ptrr(rt_context *ctx, rt_token_order *o, int64_t *unit)
{
    static const char *const kinds[] = {"blocks", "pairs", NULL};
    int choice = 0;
    RT_TRY(rt_parameters_number(ctx, o->what, o->parameters, "block", 1, INT32_MAX, 128, &o->block));
    RT_TRY(rt_parameters_choice(ctx, o->what, o->parameters, "work", kinds, 0, &choice));
    o->pairs = choice == 1;
    if (o->side == RT_SIDE_KV && o->p->seqlen_k != o->p->seqlen_q) {
        *unit = o->ranks; /* keys of another length are gathered whole: in runs */
        return RT_OK;
    }
    *unit = o->block * o->ranks;
    const int64_t blocks = (o->length - 1) / o->block + 1;
    rt_status st = RT_ERR_NOMEM;
    int64_t *work = rt_alloc(ctx, blocks, sizeof *work), *q = rt_alloc(ctx, o->block, sizeof *q),
            *k = rt_alloc(ctx, o->p->seqlen_k, sizeof *k);
    o->work = rt_alloc(ctx, blocks, sizeof *o->work);
    if (work != NULL && q != NULL && k != NULL && o->work != NULL) {
        for (int64_t j = 0; j < o->p->seqlen_k; j++)
            k[j] = j;
        for (int64_t b = 0; b < blocks; b++)
            work[b] = block_work(o, b, q, k);
        st = rt_deal(ctx, work, blocks, o->ranks, o->work);
    }
    rt_free(k);
    rt_free(q);
    rt_free(work);
    return st;
}

static int64_t ptrr(rt_token_order *o, int32_t r)
{
    const int64_t before = o->at;
    if (o->work == NULL)
        return contiguous(o, r);
    for (int64_t b = 0; b <= (o->length - 1) / o->block; b++) {
        const int64_t from = b * o->block;
        if (o->work[b] == r)
            emit(o, from, o->length - from < o->block ? o->length : from + o->block);
    }
    return o->at - before;
}

/* ---- inference ---- */

enum { QUERIES_CONTIGUOUS, QUERIES_ZIGZAG, QUERIES_FIRST, QUERIES_INTERLEAVED };

static rt_status prepare_interleaved(rt_context *ctx, rt_token_order *o, int64_t *unit)
{
    static const char *const queries[] = {"contiguous", "zigzag", "first", "interleaved", NULL};
    RT_TRY(rt_parameters_number(ctx, o->what, o->parameters, "size", 1, INT32_MAX, 1, &o->stripe));
    RT_TRY(rt_parameters_choice(ctx, o->what, o->parameters, "queries", queries, 0, &o->choice));
    *unit = 1; /* a cache grows by a token at a time */
    return RT_OK;
}

static int64_t interleaved(rt_token_order *o, int32_t r)
{
    if (o->side == RT_SIDE_KV || o->choice == QUERIES_INTERLEAVED)
        return striped(o, r);
    if (o->choice == QUERIES_CONTIGUOUS)
        return contiguous(o, r);
    if (o->choice == QUERIES_ZIGZAG)
        return zigzag_segments(o, r);
    emit(o, 0, r == 0 ? o->length : 0);
    return r == 0 ? o->length : 0;
}

static rt_status prepare_chunked(rt_context *ctx, rt_token_order *o, int64_t *unit)
{
    *unit = 2 * (int64_t)o->ranks;
    if (o->padded != NULL)
        return rt_fail(ctx, RT_ERR_ARG, "%s: chunks have no padding. Hint: leave cu_seqlens_padded out",
                       o->what);
    const int64_t keys = o->p->seqlen_k, queries = o->p->seqlen_q;
    if (keys < queries)
        return rt_fail(ctx, RT_ERR_ARG,
                       "%s: the %lld queries are the last of the keys, but there are only %lld", o->what,
                       (long long)queries, (long long)keys);
    int64_t *list, n;
    RT_TRY(rt_parameters_list(ctx, o->what, o->parameters, "chunks", &list, &n));
    bool good = n > 0 && list[0] == 0;
    for (int64_t i = 1; good && i < n; i++)
        good = list[i] > list[i - 1] && list[i] <= keys;
    if (good && n > 1 && list[n - 1] == keys)
        n--; /* the end may be said */
    if (!good || keys - list[n - 1] != queries) {
        rt_free(list);
        char hint[32] = "0";
        if (keys > queries)
            (void)snprintf(hint, sizeof hint, "0/%lld", (long long)(keys - queries));
        return rt_fail(
            ctx, RT_ERR_ARG,
            "%s: chunks must be the places where the chunks of the %lld keys begin, ascending from "
            "0, the last of them that of the %lld queries, %lld. Hint: chunked:chunks=%s",
            o->what, (long long)keys, (long long)queries, (long long)(keys - queries), hint);
    }
    if (o->side == RT_SIDE_Q) {
        rt_free(list);
        return RT_OK;
    }
    int64_t *bounds = rt_alloc(ctx, n + 1, sizeof *bounds);
    if (bounds != NULL) {
        memcpy(bounds, list, (size_t)n * sizeof *bounds);
        bounds[n] = keys;
        rt_free(o->bounds);
        o->bounds = bounds;
        o->segments = n;
    }
    rt_free(list);
    return bounds != NULL ? RT_OK : RT_ERR_NOMEM;
}

/* ---- the table ---- */

static const rt_parameter
    p_stripe[] = {{"stripe", "1 ..", "tokens of a block"}, {NULL, NULL, NULL}},
    p_fpdt[] = {{"chunks", "1 ..", "chunks of a rank"}, {NULL, NULL, NULL}},
    p_hybrid[] = {{"ulysses", "a divisor of P", "ranks of a Ulysses group"}, {NULL, NULL, NULL}},
    p_usp[] = {{"ulysses", "a divisor of P", "ranks of a Ulysses group"},
               {"order", "ulysses-low | ring-low", "which ranks are neighbours"},
               {"tokens", "zigzag | basic | strip", "the order of the ring"},
               {NULL, NULL, NULL}},
    p_ptrr[] = {{"block", "1 ..", "queries of a block, 128"},
                {"work", "blocks | pairs", "what is counted"},
                {NULL, NULL, NULL}},
    p_cache[] = {{"size", "1 ..", "tokens in a row on one rank"},
                 {"queries", "contiguous | zigzag | first | interleaved", "where the queries are"},
                 {NULL, NULL, NULL}},
    p_chunks[] = {{"chunks", "0/64/96..", "where the chunks begin"}, {NULL, NULL, NULL}},
    p_file[] = {{"file", "a path", "a list of positions, as grid prints it"}, {NULL, NULL, NULL}};

const rt_token_order_entry *rt_token_orders(void)
{
    static const rt_token_order_entry orders[] = {
        {{"contiguous", "P runs, rank r has the r-th", NULL},
         RT_LAYOUT_CONTIGUOUS,
         prepare_contiguous,
         contiguous,
         false},
        {{"zigzag", "2P runs, rank r has r and 2P-1-r", NULL},
         RT_LAYOUT_ZIGZAG,
         prepare_zigzag,
         zigzag,
         false},
        {{"striped", "blocks of `stripe` tokens in turns over the ranks", p_stripe},
         RT_LAYOUT_STRIPED,
         prepare_striped,
         striped,
         false},
        {{"head-tail", "PyTorch's name of zigzag", NULL}, RT_LAYOUT_ZIGZAG, prepare_zigzag, zigzag, false},
        {{"fpdt", "DeepSpeed FPDT: chunks x P runs in turns over the ranks", p_fpdt},
         RT_LAYOUT_BLOCK_STRIPED,
         prepare_fpdt,
         fpdt,
         false},
        {{"contiguous-doc", "P runs of each document", NULL},
         RT_LAYOUT_CONTIGUOUS_DOC,
         prepare_contiguous,
         contiguous,
         true},
        {{"zigzag-doc", "TransformerEngine THD: 2P runs of each document", NULL},
         RT_LAYOUT_ZIGZAG_DOC,
         prepare_zigzag,
         zigzag_segments,
         true},
        {{"head-tail-doc", "PyTorch's name of zigzag-doc", NULL},
         RT_LAYOUT_ZIGZAG_DOC,
         prepare_zigzag,
         zigzag_segments,
         true},
        {{"ptrr", "PyTorch: blocks dealt by their work under the mask, there and back", p_ptrr},
         RT_LAYOUT_PTRR,
         prepare_ptrr,
         ptrr,
         false},
        {{"hybrid-te", "TransformerEngine a2a+p2p, Megatron: zigzag over all ranks", p_hybrid},
         RT_LAYOUT_ZIGZAG,
         prepare_hybrid_te,
         zigzag,
         false},
        {{"hybrid-mindspeed", "MindSpeed, causal: zigzag over the ring, cut over Ulysses", p_hybrid},
         RT_LAYOUT_USP,
         prepare_mindspeed,
         hybrid_zigzag,
         false},
        {{"usp", "USP (yunchang): the ring's order, cut over Ulysses", p_usp},
         RT_LAYOUT_USP,
         prepare_usp,
         usp,
         false},
        {{"interleaved", "decode: keys in turns over the ranks", p_cache},
         RT_LAYOUT_INTERLEAVED,
         prepare_interleaved,
         interleaved,
         false},
        {{"chunked", "chunked prefill: keys zigzag in each chunk, queries the last chunk", p_chunks},
         RT_LAYOUT_CHUNKED,
         prepare_chunked,
         zigzag_segments,
         false},
        {{"positions", "an explicit list", p_file}, RT_LAYOUT_POSITIONS, NULL, NULL, false},
        {{NULL, NULL, NULL}, RT_LAYOUT_POSITIONS, NULL, NULL, false}};
    return orders;
}
