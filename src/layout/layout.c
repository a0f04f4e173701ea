/* Layouts: the position of every slot of every rank, and its inverse.  The named layouts are built as
 * the same two arrays that an explicit list gives, so that nothing later knows which it was. */
#include <ringtrue/layout.h>

#include <stdio.h>
#include <string.h>

static const char *const layout_names[] = {"contiguous", "zigzag", "striped", "positions"};
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
    return name_of(layout_names, 4, (int)k);
}

bool rt_layout_parse(const char *name, rt_layout_kind *out)
{
    int i = name_find(layout_names, 4, name);
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

static void side_reset(rt_layout_side *s)
{
    rt_free(s->first);
    rt_free(s->half);
    rt_free(s->pos);
    rt_free(s->rank_of);
    rt_free(s->slot_of);
    memset(s, 0, sizeof *s);
}

void rt_layout_reset(rt_layout *l)
{
    if (l == NULL)
        return;
    side_reset(&l->side[RT_SIDE_Q]);
    side_reset(&l->side[RT_SIDE_KV]);
    memset(l, 0, sizeof *l);
}

static rt_status side_alloc(rt_context *ctx, int64_t length, int32_t ranks, rt_layout_side *s)
{
    memset(s, 0, sizeof *s);
    s->length = length;
    s->first = rt_calloc(ctx, (int64_t)ranks + 1, sizeof *s->first);
    s->half = rt_calloc(ctx, ranks, sizeof *s->half);
    s->pos = rt_alloc(ctx, length, sizeof *s->pos);
    s->rank_of = rt_alloc(ctx, length, sizeof *s->rank_of);
    s->slot_of = rt_alloc(ctx, length, sizeof *s->slot_of);
    if (s->first == NULL || s->half == NULL || s->pos == NULL || s->rank_of == NULL || s->slot_of == NULL) {
        side_reset(s);
        return RT_ERR_NOMEM;
    }
    return RT_OK;
}

/* Where run k of n starts: k == n gives the length. */
static int64_t run_start(int64_t length, int64_t n, int64_t k, rt_remainder rem)
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

static int64_t run_write(int64_t length, int64_t n, int64_t k, rt_remainder rem, int64_t *pos)
{
    int64_t start = run_start(length, n, k, rem), end = run_start(length, n, k + 1, rem);
    for (int64_t i = start; i < end; i++)
        pos[i - start] = i;
    return end - start;
}

static void side_fill(rt_layout_side *s, rt_layout_kind kind, rt_remainder rem, int32_t ranks)
{
    int64_t at = 0, runs = 2 * (int64_t)ranks;
    for (int32_t r = 0; r < ranks; r++) {
        s->first[r] = at;
        if (kind == RT_LAYOUT_ZIGZAG) {
            s->half[r] = run_write(s->length, runs, r, rem, s->pos + at);
            at += s->half[r];
            at += run_write(s->length, runs, runs - 1 - r, rem, s->pos + at);
        } else if (kind == RT_LAYOUT_STRIPED) {
            for (int64_t i = r; i < s->length; i += ranks)
                s->pos[at++] = i;
            s->half[r] = at - s->first[r];
        } else {
            s->half[r] = run_write(s->length, ranks, r, rem, s->pos + at);
            at += s->half[r];
        }
    }
    s->first[ranks] = at;
}

/* rank_of and slot_of from pos; the positions are known to be a permutation. */
static void side_invert(rt_layout_side *s, int32_t ranks)
{
    for (int32_t r = 0; r < ranks; r++) {
        for (int64_t i = s->first[r]; i < s->first[r + 1]; i++) {
            s->rank_of[s->pos[i]] = r;
            s->slot_of[s->pos[i]] = i - s->first[r];
        }
    }
}

static void note_write(rt_layout *l, int64_t runs)
{
    static const char *const rule[] = {"the first runs hold one token more",
                                       "runs are rounded up, the last ones short",
                                       "the last run holds the rest", ""};
    const char *what = rule[l->remainder];
    if (l->kind == RT_LAYOUT_STRIPED)
        what = "token t still goes to rank t mod P, the first ranks hold one token more";
    (void)snprintf(
        l->note, sizeof l->note,
        "frameworks define %s only for multiples of %lld; for Sq %lld, Sk %lld the rule applied is %s: %s.",
        rt_layout_name(l->kind), (long long)runs, (long long)l->side[RT_SIDE_Q].length,
        (long long)l->side[RT_SIDE_KV].length,
        l->kind == RT_LAYOUT_STRIPED ? "the stripe's own" : rt_remainder_name(l->remainder), what);
}

rt_status rt_layout_create(rt_context *ctx, const rt_problem *p, rt_layout_kind kind, rt_remainder rem,
                           int32_t ranks, rt_layout *out)
{
    if (ranks < 1)
        return rt_fail(ctx, RT_ERR_ARG, "ranks is %d; a layout needs at least 1", (int)ranks);
    if (kind != RT_LAYOUT_CONTIGUOUS && kind != RT_LAYOUT_ZIGZAG && kind != RT_LAYOUT_STRIPED)
        return rt_fail(ctx, RT_ERR_ARG,
                       "layout kind %d cannot be built by name; contiguous, zigzag and striped can",
                       (int)kind);
    if (rt_remainder_name(rem) == NULL)
        return rt_fail(ctx, RT_ERR_ARG,
                       "remainder rule %d is unknown; spread, ceil, last and refuse are known", (int)rem);
    const int64_t length[2] = {p->seqlen_q, p->seqlen_k};
    const char *const name[2] = {"seqlen", "seqlen_k"};
    const int64_t runs = kind == RT_LAYOUT_ZIGZAG ? 2 * (int64_t)ranks : ranks;
    for (int s = 0; s < 2; s++) {
        if (length[s] < 1)
            return rt_fail(ctx, RT_ERR_ARG, "%s is %lld; it must be at least 1", name[s],
                           (long long)length[s]);
        if (rem == RT_REMAINDER_REFUSE && length[s] % runs != 0)
            return rt_fail(
                ctx, RT_ERR_ARG,
                "layout %s over %d ranks needs %s divisible by %lld, but it is %lld.  Hint: %s %lld, or "
                "remainder spread, ceil or last",
                rt_layout_name(kind), (int)ranks, name[s], (long long)runs, (long long)length[s], name[s],
                (long long)((length[s] / runs + 1) * runs));
    }
    rt_layout l;
    memset(&l, 0, sizeof l);
    l.kind = kind;
    l.remainder = rem;
    l.ranks = ranks;
    for (int s = 0; s < 2; s++) {
        if (side_alloc(ctx, length[s], ranks, &l.side[s]) != RT_OK)
            goto free_sides;
        side_fill(&l.side[s], kind, rem, ranks);
        side_invert(&l.side[s], ranks);
    }
    if (length[0] % runs != 0 || length[1] % runs != 0)
        note_write(&l, runs);
    *out = l;
    return RT_OK;

free_sides:
    rt_layout_reset(&l);
    return RT_ERR_NOMEM;
}

static rt_status side_from_list(rt_context *ctx, const char *name, int64_t length, int32_t ranks,
                                const int64_t *n, const int64_t *pos, rt_layout_side *s)
{
    for (int32_t r = 0; r < ranks; r++) {
        if (n[r] < 0)
            return rt_fail(ctx, RT_ERR_FORMAT,
                           "%s positions: rank %d has %lld slots; at least 0 are needed", name, (int)r,
                           (long long)n[r]);
    }
    /* A list longer than the sequence needs no check of its own: by then a position is repeated. */
    RT_TRY(side_alloc(ctx, length, ranks, s));
    for (int64_t i = 0; i < length; i++)
        s->rank_of[i] = -1;
    int64_t at = 0;
    for (int32_t r = 0; r < ranks; r++) {
        s->first[r] = at;
        s->half[r] = n[r];
        for (int64_t slot = 0; slot < n[r]; slot++, at++) {
            int64_t x = pos[at];
            if (x < 0 || x >= length) {
                side_reset(s);
                return rt_fail(ctx, RT_ERR_FORMAT,
                               "%s position %lld (rank %d, slot %lld) is not in 0 .. %lld", name,
                               (long long)x, (int)r, (long long)slot, (long long)(length - 1));
            }
            if (s->rank_of[x] >= 0) {
                int other = (int)s->rank_of[x];
                long long other_slot = (long long)s->slot_of[x];
                side_reset(s);
                return rt_fail(ctx, RT_ERR_FORMAT,
                               "%s position %lld is repeated: rank %d slot %lld, and rank %d slot %lld",
                               name, (long long)x, other, other_slot, (int)r, (long long)slot);
            }
            s->rank_of[x] = r;
            s->slot_of[x] = slot;
            s->pos[at] = x;
        }
    }
    s->first[ranks] = at;
    for (int64_t i = 0; i < length; i++) {
        if (s->rank_of[i] < 0) {
            side_reset(s);
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
