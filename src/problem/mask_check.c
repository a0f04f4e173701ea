/* The rules of windows, prefixes, slices, key padding and dense masks; their names and their digest. */
#include "problem/mask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_MAX (INT64_C(1) << 40)
#define SLICES_MAX (INT64_C(1) << 24)

static const char *const slice_names[] = {"full", "causal", "inv-causal", "bi-causal"};

const char *rt_slice_name(rt_slice_kind k)
{
    return (unsigned)k < sizeof slice_names / sizeof slice_names[0] ? slice_names[k] : NULL;
}

bool rt_slice_parse(const char *name, rt_slice_kind *out)
{
    for (size_t k = 0; name != NULL && k < sizeof slice_names / sizeof slice_names[0]; k++) {
        if (strcmp(name, slice_names[k]) == 0) {
            *out = (rt_slice_kind)k;
            return true;
        }
    }
    return false;
}

const char *rt_mask_text(char text[RT_MASK_TEXT], const rt_problem *p)
{
    const char *name = rt_mask_name(p->mask);
    int used = snprintf(text, RT_MASK_TEXT, "%s", name != NULL ? name : "?");
    if (p->has_window)
        used += snprintf(text + used, RT_MASK_TEXT - (size_t)used, ", window (%lld, %lld)",
                         (long long)p->window_left, (long long)p->window_right);
    if (p->prefix > 0)
        used += snprintf(text + used, RT_MASK_TEXT - (size_t)used, ", prefix %lld", (long long)p->prefix);
    if (p->n_slices > 0)
        used += snprintf(text + used, RT_MASK_TEXT - (size_t)used, ", %lld slices", (long long)p->n_slices);
    (void)snprintf(text + used, RT_MASK_TEXT - (size_t)used, "%s%s",
                   p->key_valid != NULL ? ", key padding" : "", p->dense != NULL ? ", dense" : "");
    return text;
}

/* ---- slices: no pair in two of them ---- */

/* The keys of row i are [lo, hi), each a constant or i plus a constant. */
typedef struct {
    int64_t lo, hi;
    bool lo_slope, hi_slope;
} lines;

static lines lines_of(const rt_slice *s)
{
    lines x = {s->k0, s->k1, false, false};
    if (s->kind == RT_SLICE_CAUSAL || s->kind == RT_SLICE_BI_CAUSAL) {
        x.hi = s->k1 - s->q1 + 1;
        x.hi_slope = true;
    }
    if (s->kind == RT_SLICE_INV_CAUSAL || s->kind == RT_SLICE_BI_CAUSAL) {
        x.lo = s->k0 - s->q0;
        x.lo_slope = true;
    }
    return x;
}

/* Keep of the rows [*i0, *i1) those with lo < hi: a run, since each side is a line of slope 0 or 1. */
static void rows_where_less(int64_t lo, bool lo_slope, int64_t hi, bool hi_slope, int64_t *i0, int64_t *i1)
{
    if (lo_slope == hi_slope) {
        if (lo >= hi)
            *i1 = *i0;
    } else if (hi_slope) { /* lo < hi + i */
        if (lo - hi + 1 > *i0)
            *i0 = lo - hi + 1;
    } else if (hi - lo < *i1) { /* lo + i < hi */
        *i1 = hi - lo;
    }
}

/* Some row that both have in common sees some key in both. */
static bool slices_meet(const rt_slice *a, const rt_slice *b)
{
    if (a->k0 >= b->k1 || b->k0 >= a->k1)
        return false;
    int64_t i0 = a->q0 > b->q0 ? a->q0 : b->q0, i1 = a->q1 < b->q1 ? a->q1 : b->q1;
    const lines x = lines_of(a), y = lines_of(b);
    /* each lower end below each upper end, those of the slices' rectangles too */
    const lines z[4] = {x, y, {a->k0, a->k1, false, false}, {b->k0, b->k1, false, false}};
    for (int m = 0; m < 4; m++)
        for (int n = 0; n < 4; n++)
            rows_where_less(z[m].lo, z[m].lo_slope, z[n].hi, z[n].hi_slope, &i0, &i1);
    return i0 < i1;
}

static int by_first_row(const void *a, const void *b)
{
    const rt_slice *x = *(const rt_slice *const *)a, *y = *(const rt_slice *const *)b;
    return x->q0 != y->q0 ? (x->q0 > y->q0) - (x->q0 < y->q0) : (x > y) - (x < y);
}

static rt_status slice_check(rt_context *ctx, const rt_problem *p, int64_t n)
{
    const rt_slice *s = &p->slices[n];
    if (s->q0 < 0 || s->q0 >= s->q1 || s->q1 > p->seqlen_q)
        return rt_fail(ctx, RT_ERR_ARG,
                       "slice %lld has queries [%lld, %lld); they must be at least one, within [0, %lld)",
                       (long long)n, (long long)s->q0, (long long)s->q1, (long long)p->seqlen_q);
    if (s->k0 < 0 || s->k0 >= s->k1 || s->k1 > p->seqlen_k)
        return rt_fail(ctx, RT_ERR_ARG,
                       "slice %lld has keys [%lld, %lld); they must be at least one, within [0, %lld)",
                       (long long)n, (long long)s->k0, (long long)s->k1, (long long)p->seqlen_k);
    if (rt_slice_name(s->kind) == NULL)
        return rt_fail(
            ctx, RT_ERR_ARG,
            "slice %lld has kind %d; 0 (full), 1 (causal), 2 (inv-causal) and 3 (bi-causal) are known",
            (long long)n, (int)s->kind);
    return RT_OK;
}

static rt_status slices_check(rt_context *ctx, const rt_problem *p)
{
    if (p->n_slices < 0 || p->n_slices > SLICES_MAX || (p->n_slices > 0) != (p->slices != NULL))
        return rt_fail(ctx, RT_ERR_ARG, "%lld slices %s; 0 (none) to %lld, as many as are counted",
                       (long long)p->n_slices, p->slices != NULL ? "are given" : "are missing",
                       (long long)SLICES_MAX);
    if (p->n_slices == 0)
        return RT_OK;
    for (int64_t n = 0; n < p->n_slices; n++)
        RT_TRY(slice_check(ctx, p, n));
    const rt_slice **order = rt_alloc(ctx, p->n_slices, sizeof *order);
    if (order == NULL)
        return RT_ERR_NOMEM;
    for (int64_t n = 0; n < p->n_slices; n++)
        order[n] = &p->slices[n];
    qsort(order, (size_t)p->n_slices, sizeof *order, by_first_row);
    rt_status st = RT_OK;
    for (int64_t a = 0; a < p->n_slices && st == RT_OK; a++)
        for (int64_t b = a + 1; b < p->n_slices && order[b]->q0 < order[a]->q1 && st == RT_OK; b++)
            if (slices_meet(order[a], order[b]))
                st = rt_fail(ctx, RT_ERR_ARG,
                             "slices %lld and %lld overlap: a (query, key) pair may lie in one slice only",
                             (long long)(order[a] - p->slices), (long long)(order[b] - p->slices));
    rt_free(order);
    return st;
}

/* ---- the rest ---- */

static rt_status bits_check(rt_context *ctx, const char *name, const uint8_t *x, int64_t rows,
                            int64_t width)
{
    for (int64_t i = 0; i < rows * width; i++)
        if (x[i] > 1)
            return rt_fail(ctx, RT_ERR_ARG, "%s [%lld, %lld] is %d; 0 (hidden) or 1 (visible)", name,
                           (long long)(i / width), (long long)(i % width), (int)x[i]);
    return RT_OK;
}

static bool window_good(int64_t x)
{
    return x >= -1 && x <= WINDOW_MAX;
}

rt_status rt_mask_check(rt_context *ctx, const rt_problem *p)
{
    if (p->has_window && !(window_good(p->window_left) && window_good(p->window_right)))
        return rt_fail(ctx, RT_ERR_ARG, "window is (%lld, %lld); each side must be -1 (no limit) to 2^40",
                       (long long)p->window_left, (long long)p->window_right);
    if (p->prefix < 0 || p->prefix > p->seqlen_k)
        return rt_fail(ctx, RT_ERR_ARG,
                       "prefix is %lld; it must be 0 (none) to the length of the keys, %lld",
                       (long long)p->prefix, (long long)p->seqlen_k);
    RT_TRY(slices_check(ctx, p));
    if (p->key_valid != NULL)
        RT_TRY(bits_check(ctx, "key_valid", p->key_valid, p->batch, p->seqlen_k));
    if (p->dense != NULL)
        RT_TRY(bits_check(ctx, "dense mask", p->dense, p->seqlen_q, p->seqlen_k));
    return RT_OK;
}

static uint64_t digest_bytes(uint64_t h, uint64_t tag, const uint8_t *x, int64_t n)
{
    h = rt_digest_mix(h, tag);
    for (int64_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        for (int64_t k = i; k < i + 8 && k < n; k++)
            word |= (uint64_t)x[k] << (8 * (k - i));
        h = rt_digest_mix(h, word);
    }
    return h;
}

uint64_t rt_mask_digest(uint64_t h, const rt_problem *p)
{
    if (p->has_window)
        h = rt_digest_mix(rt_digest_mix(rt_digest_mix(h, 'w'), (uint64_t)p->window_left),
                          (uint64_t)p->window_right);
    if (p->prefix > 0)
        h = rt_digest_mix(rt_digest_mix(h, 'p'), (uint64_t)p->prefix);
    if (p->n_slices > 0)
        h = rt_digest_mix(rt_digest_mix(h, 's'), (uint64_t)p->n_slices);
    for (int64_t n = 0; n < p->n_slices; n++) {
        const rt_slice *s = &p->slices[n];
        const int64_t field[] = {s->q0, s->q1, s->k0, s->k1, (int64_t)s->kind};
        for (int k = 0; k < 5; k++)
            h = rt_digest_mix(h, (uint64_t)field[k]);
    }
    if (p->key_valid != NULL)
        h = digest_bytes(h, 'k', p->key_valid, p->batch * p->seqlen_k);
    if (p->dense != NULL)
        h = digest_bytes(h, 'd', p->dense, p->seqlen_q * p->seqlen_k);
    return h;
}
