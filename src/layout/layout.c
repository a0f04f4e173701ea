/* Layouts as objects: the position of every slot of every rank, and its inverse.  The named layouts (make.c,
 * orders.c) are built as the same two arrays that an explicit list gives, so that nothing later knows which
 * it was. */
#include "layout/build.h"

#include <string.h>

static const char *const layout_names[] = {"contiguous",    "zigzag",         "striped",    "positions",
                                           "block-striped", "contiguous-doc", "zigzag-doc", "ptrr",
                                           "usp",           "interleaved",    "chunked"};
enum { N_LAYOUTS = sizeof layout_names / sizeof layout_names[0] };
static const char *const remainder_names[] = {"spread", "ceil", "last", "refuse"};

static const char *name_of(const char *const *names, int n, int i)
{
    return i >= 0 && i < n ? names[i] : NULL;
}

static int name_find(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0)
            return i;
    }
    return -1;
}

const char *rt_layout_name(rt_layout_kind k)
{
    return name_of(layout_names, N_LAYOUTS, (int)k);
}

bool rt_layout_parse(const char *name, rt_layout_kind *out)
{
    int i = name_find(layout_names, N_LAYOUTS, name);
    if (i >= 0)
        *out = (rt_layout_kind)i;
    return i >= 0;
}

const char *rt_remainder_name(rt_remainder r)
{
    return name_of(remainder_names, 4, (int)r);
}

bool rt_remainder_parse(const char *name, rt_remainder *out)
{
    int i = name_find(remainder_names, 4, name);
    if (i >= 0)
        *out = (rt_remainder)i;
    return i >= 0;
}

void rt_layout_side_reset(rt_layout_side *s)
{
    rt_free(s->first);
    rt_free(s->half);
    rt_free(s->pos);
    rt_free(s->rank_of);
    rt_free(s->slot_of);
    rt_free(s->rows);
    rt_free(s->row_of);
    rt_free(s->padded_of);
    memset(s, 0, sizeof *s);
}

void rt_layout_reset(rt_layout *l)
{
    if (l == NULL)
        return;
    rt_layout_side_reset(&l->side[RT_SIDE_Q]);
    rt_layout_side_reset(&l->side[RT_SIDE_KV]);
    memset(l, 0, sizeof *l);
}

rt_status rt_layout_side_alloc(rt_context *ctx, int64_t length, int32_t ranks, rt_layout_side *s)
{
    memset(s, 0, sizeof *s);
    s->length = length;
    s->padded = length;
    s->first = rt_calloc(ctx, (int64_t)ranks + 1, sizeof *s->first);
    s->half = rt_calloc(ctx, ranks, sizeof *s->half);
    s->pos = rt_alloc(ctx, length, sizeof *s->pos);
    s->rank_of = rt_alloc(ctx, length, sizeof *s->rank_of);
    s->slot_of = rt_alloc(ctx, length, sizeof *s->slot_of);
    s->rows = rt_calloc(ctx, ranks, sizeof *s->rows);
    if (s->first == NULL || s->half == NULL || s->pos == NULL || s->rank_of == NULL || s->slot_of == NULL ||
        s->rows == NULL) {
        rt_layout_side_reset(s);
        return RT_ERR_NOMEM;
    }
    return RT_OK;
}

static rt_status side_copy(rt_context *ctx, const rt_layout_side *from, int32_t ranks, rt_layout_side *to)
{
    const size_t n = (size_t)from->length;
    RT_TRY(rt_layout_side_alloc(ctx, from->length, ranks, to));
    memcpy(to->first, from->first, ((size_t)ranks + 1) * sizeof *to->first);
    memcpy(to->half, from->half, (size_t)ranks * sizeof *to->half);
    memcpy(to->rows, from->rows, (size_t)ranks * sizeof *to->rows);
    memcpy(to->pos, from->pos, n * sizeof *to->pos);
    memcpy(to->rank_of, from->rank_of, n * sizeof *to->rank_of);
    memcpy(to->slot_of, from->slot_of, n * sizeof *to->slot_of);
    to->padded = from->padded;
    int64_t **const copies[] = {&to->row_of, &to->padded_of};
    const int64_t *const lists[] = {from->row_of, from->padded_of};
    for (int i = 0; i < 2; i++) {
        if (lists[i] == NULL)
            continue;
        *copies[i] = rt_alloc(ctx, from->length, sizeof(int64_t));
        if (*copies[i] == NULL) {
            rt_layout_side_reset(to);
            return RT_ERR_NOMEM;
        }
        memcpy(*copies[i], lists[i], n * sizeof(int64_t));
    }
    return RT_OK;
}

rt_status rt_layout_copy(rt_context *ctx, const rt_layout *from, rt_layout *to)
{
    rt_layout l = *from;
    memset(l.side, 0, sizeof l.side);
    for (int side = 0; side < 2; side++) {
        const rt_status st = side_copy(ctx, &from->side[side], from->ranks, &l.side[side]);
        if (st != RT_OK) {
            rt_layout_reset(&l);
            return st;
        }
    }
    *to = l;
    return RT_OK;
}

/* rank_of and slot_of from pos; the positions are known to be a permutation. */
void rt_layout_side_invert(rt_layout_side *s, int32_t ranks)
{
    for (int32_t r = 0; r < ranks; r++) {
        for (int64_t i = s->first[r]; i < s->first[r + 1]; i++) {
            s->rank_of[s->pos[i]] = r;
            s->slot_of[s->pos[i]] = i - s->first[r];
        }
    }
}

static rt_status side_from_list(rt_context *ctx, const char *name, int64_t length, int32_t ranks,
                                const int64_t *n, const int64_t *pos, rt_layout_side *s)
{
    int64_t rows = 0, listed = 0;
    for (int32_t r = 0; r < ranks; r++) {
        if (n[r] < 0)
            return rt_fail(ctx, RT_ERR_FORMAT,
                           "%s positions: rank %d has %lld slots; at least 0 are needed", name, (int)r,
                           (long long)n[r]);
        for (int64_t i = 0; i < n[r]; i++)
            listed += pos[rows + i] >= 0;
        rows += n[r];
    }
    /* A list longer than the sequence needs no check of its own: by then a position is repeated. */
    RT_TRY(rt_layout_side_alloc(ctx, length, ranks, s));
    if (rows > listed) {
        s->row_of = rt_alloc(ctx, length, sizeof *s->row_of);
        if (s->row_of == NULL) {
            rt_layout_side_reset(s);
            return RT_ERR_NOMEM;
        }
    }
    for (int64_t i = 0; i < length; i++)
        s->rank_of[i] = -1;
    int64_t at = 0;
    for (int32_t r = 0; r < ranks; r++) {
        s->first[r] = at;
        s->rows[r] = n[r];
        for (int64_t row = 0; row < n[r]; row++, pos++) {
            const int64_t x = *pos, slot = at - s->first[r];
            if (x == -1)
                continue;
            if (x < 0 || x >= length) {
                rt_layout_side_reset(s);
                return rt_fail(
                    ctx, RT_ERR_FORMAT,
                    "%s position %lld (rank %d, slot %lld) is not in 0 .. %lld, nor -1 (padding)", name,
                    (long long)x, (int)r, (long long)row, (long long)(length - 1));
            }
            if (s->rank_of[x] >= 0) {
                int other = (int)s->rank_of[x];
                long long other_slot = (long long)rt_layout_row(s, x);
                rt_layout_side_reset(s);
                return rt_fail(ctx, RT_ERR_FORMAT,
                               "%s position %lld is repeated: rank %d slot %lld, and rank %d slot %lld",
                               name, (long long)x, other, other_slot, (int)r, (long long)row);
            }
            s->rank_of[x] = r;
            s->slot_of[x] = slot;
            if (s->row_of != NULL)
                s->row_of[x] = row;
            s->pos[at++] = x;
        }
        s->half[r] = at - s->first[r];
    }
    s->first[ranks] = at;
    for (int64_t i = 0; i < length; i++) {
        if (s->rank_of[i] < 0) {
            rt_layout_side_reset(s);
            return rt_fail(ctx, RT_ERR_FORMAT, "%s position %lld is missing: none of the %d ranks holds it",
                           name, (long long)i, (int)ranks);
        }
    }
    return RT_OK;
}

rt_status rt_layout_from_positions(rt_context *ctx, const rt_problem *p, int32_t ranks, const int64_t *n_q,
                                   const int64_t *q_pos, const int64_t *n_kv, const int64_t *kv_pos,
                                   rt_layout *out)
{
    if (ranks < 1)
        return rt_fail(ctx, RT_ERR_ARG, "ranks is %d; a layout needs at least 1", (int)ranks);
    rt_layout l;
    memset(&l, 0, sizeof l);
    l.kind = RT_LAYOUT_POSITIONS;
    strcpy(l.name, "positions");
    l.ranks = ranks;
    RT_TRY(side_from_list(ctx, "query", p->seqlen_q, ranks, n_q, q_pos, &l.side[RT_SIDE_Q]));
    rt_status status = side_from_list(ctx, "key", p->seqlen_k, ranks, n_kv, kv_pos, &l.side[RT_SIDE_KV]);
    if (status != RT_OK)
        goto free_q;
    *out = l;
    return RT_OK;

free_q:
    rt_layout_reset(&l);
    return status;
}
