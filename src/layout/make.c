/* Named layouts: the name is found, its order lays each side out, padding is taken out. */
#include <stdio.h>
#include <string.h>

#include "base/parameters.h"
#include "layout/build.h"

const rt_layout_info *rt_layout_listed(int64_t i)
{
    const rt_token_order_entry *each = rt_token_orders();
    while (i > 0 && each->info.name != NULL) {
        each++;
        i--;
    }
    return i == 0 && each->info.name != NULL ? &each->info : NULL;
}

const rt_token_order_entry *rt_token_order_find(const char *name)
{
    const size_t n = strcspn(name, ":");
    for (const rt_token_order_entry *each = rt_token_orders(); each->info.name != NULL; each++)
        if (strlen(each->info.name) == n && strncmp(each->info.name, name, n) == 0)
            return each;
    return NULL;
}

static const char *parameters_of(const char *name)
{
    const size_t n = strcspn(name, ":");
    return name[n] == ':' ? name + n + 1 : "";
}

rt_status rt_layout_check_name(rt_context *ctx, const char *name)
{
    const rt_token_order_entry *order = rt_token_order_find(name);
    char text[320] = "";
    if (strlen(name) >= RT_LAYOUT_NAME_MAX)
        return rt_fail(ctx, RT_ERR_ARG, "layout \"%.40s..\" is too long: at most %d characters", name,
                       RT_LAYOUT_NAME_MAX - 1);
    RT_TRY(rt_parameters_check_text(ctx, "layout", name));
    if (order == NULL) {
        size_t used = 0;
        for (const rt_token_order_entry *each = rt_token_orders();
             each->info.name != NULL && used < sizeof text; each++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " " : "",
                                     each->info.name);
        return rt_fail(ctx, RT_ERR_ARG, "layout %.60s is unknown; allowed: %s", name, text);
    }
    (void)snprintf(text, sizeof text, "layout %s", order->info.name);
    RT_TRY(rt_parameters_check(ctx, text, order->info.parameters, parameters_of(name)));
    int length;
    if (order->kind == RT_LAYOUT_POSITIONS &&
        rt_parameters_find(parameters_of(name), "file", &length) == NULL)
        return rt_fail(
            ctx, RT_ERR_ARG,
            "layout positions needs a list. Hint: positions:file=PATH, as ringtrue grid prints it");
    return RT_OK;
}

static rt_status segments_set(rt_context *ctx, rt_token_order *o)
{
    const int64_t *cu = o->padded != NULL ? o->padded : o->side == RT_SIDE_Q ? o->p->cu_q : o->p->cu_k;
    o->segments = o->entry->documents && o->p->documents > 0 ? o->p->documents : 1;
    o->bounds = rt_alloc(ctx, o->segments + 1, sizeof *o->bounds);
    if (o->bounds == NULL)
        return RT_ERR_NOMEM;
    if (o->entry->documents && o->p->documents > 0) {
        memcpy(o->bounds, cu, (size_t)(o->segments + 1) * sizeof *cu);
    } else {
        o->bounds[0] = 0;
        o->bounds[1] = o->length;
    }
    return RT_OK;
}

static const char *length_name(const rt_token_order *o)
{
    return o->side == RT_SIDE_Q ? "seqlen" : "seqlen_k";
}

/* The first segment that is not a multiple of `unit`, -1 if all are. */
static int64_t segment_odd(const rt_token_order *o, int64_t unit)
{
    for (int64_t i = 0; i < o->segments; i++)
        if ((o->bounds[i + 1] - o->bounds[i]) % unit != 0)
            return i;
    return -1;
}

static rt_status refuse(rt_context *ctx, const rt_token_order *o, int64_t unit, int64_t odd)
{
    const long long n = (long long)(o->bounds[odd + 1] - o->bounds[odd]), next = (n / unit + 1) * unit;
    if (o->segments > 1)
        return rt_fail(ctx, RT_ERR_ARG,
                       "%s over %d ranks needs each %s of %s divisible by %lld, but number %lld has %lld. "
                       "Hint: cu_seqlens_padded with %lld places for it, or remainder spread, ceil or last",
                       o->what, (int)o->ranks, o->entry->documents ? "document" : "chunk", length_name(o),
                       (long long)unit, (long long)odd, n, next);
    return rt_fail(ctx, RT_ERR_ARG,
                   "%s over %d ranks needs %s divisible by %lld, but it is %lld%s.  Hint: %s %lld, or "
                   "remainder spread, ceil or last",
                   o->what, (int)o->ranks, length_name(o), (long long)unit, n,
                   o->padded != NULL ? " with its padding" : "", length_name(o), next);
}

/* One side: its order and the note's unit where something does not divide (else 0). */
static rt_status side_make(rt_context *ctx, rt_token_order *o, int64_t *noted)
{
    int64_t unit = 1;
    RT_TRY(segments_set(ctx, o));
    RT_TRY(o->entry->prepare(ctx, o, &unit));
    const int64_t odd = segment_odd(o, unit);
    if (odd >= 0 && o->remainder == RT_REMAINDER_REFUSE)
        return refuse(ctx, o, unit, odd);
    if (odd >= 0)
        *noted = unit;
    RT_TRY(rt_layout_side_alloc(ctx, o->length, o->ranks, &o->s));
    for (int32_t r = 0; r < o->ranks; r++) {
        o->s.first[r] = o->at;
        o->s.half[r] = o->entry->rank(o, r);
        o->s.rows[r] = o->at - o->s.first[r];
    }
    o->s.first[o->ranks] = o->at;
    if (o->padded != NULL)
        RT_TRY(rt_padding_remove(ctx, o->p, o->side, o->padded, o->ranks, &o->s));
    rt_layout_side_invert(&o->s, o->ranks);
    return RT_OK;
}

static void note_write(rt_layout *l, const rt_token_order_entry *entry, bool in_turns, int64_t unit)
{
    static const char *const rule[] = {"the first runs hold one token more",
                                       "runs are rounded up, the last ones short",
                                       "the last run holds the rest", ""};
    const char *what = in_turns ? "blocks still go to the ranks in turns, the first ranks hold more"
                       : entry->kind == RT_LAYOUT_PTRR
                           ? "the last block is shorter, ranks hold unequal numbers"
                           : rule[l->remainder];
    const bool own = in_turns || entry->kind == RT_LAYOUT_PTRR;
    (void)snprintf(
        l->note, sizeof l->note,
        "frameworks define %s only for multiples of %lld; for Sq %lld, Sk %lld the rule applied is %s: %s.",
        entry->info.name, (long long)unit, (long long)l->side[RT_SIDE_Q].length,
        (long long)l->side[RT_SIDE_KV].length, own ? "the order's own" : rt_remainder_name(l->remainder),
        what);
}

static rt_status make_checked(rt_context *ctx, const rt_problem *p, const rt_layout_options *o,
                              const rt_token_order_entry *entry, int32_t ranks, rt_layout *l)
{
    char what[64];
    int64_t noted = 0;
    (void)snprintf(what, sizeof what, "layout %s", entry->info.name);
    for (int side = 0; side < 2; side++) {
        const int64_t *padded = side == 0 ? o->padded_q : o->padded_k;
        if (padded != NULL)
            RT_TRY(rt_layout_check_padding(ctx, p, (rt_side)side, padded));
        const int64_t length = side == 0 ? p->seqlen_q : p->seqlen_k;
        rt_token_order order = {.p = p,
                                .entry = entry,
                                .what = what,
                                .parameters = parameters_of(o->name != NULL ? o->name : ""),
                                .side = (rt_side)side,
                                .ranks = ranks,
                                .remainder = o->remainder,
                                .length = padded != NULL ? padded[p->documents] : length,
                                .padded = padded,
                                .kind = entry->kind};
        const rt_status st = side_make(ctx, &order, &noted);
        rt_free(order.bounds);
        rt_free(order.work);
        l->side[side] = order.s;
        l->kind = order.kind;
        RT_TRY(st);
    }
    if (noted > 0)
        note_write(l, entry, l->kind == RT_LAYOUT_STRIPED || entry->kind == RT_LAYOUT_STRIPED, noted);
    return RT_OK;
}

rt_status rt_layout_make(rt_context *ctx, const rt_problem *p, const rt_layout_options *o, int32_t ranks,
                         rt_layout *out)
{
    const char *name = o->name != NULL ? o->name : "contiguous";
    if (ranks < 1)
        return rt_fail(ctx, RT_ERR_ARG, "ranks is %d; a layout needs at least 1", (int)ranks);
    RT_TRY(rt_layout_check_name(ctx, name));
    if (rt_remainder_name(o->remainder) == NULL)
        return rt_fail(ctx, RT_ERR_ARG,
                       "remainder rule %d is unknown; spread, ceil, last and refuse are known",
                       (int)o->remainder);
    const int64_t length[2] = {p->seqlen_q, p->seqlen_k};
    for (int s = 0; s < 2; s++)
        if (length[s] < 1)
            return rt_fail(ctx, RT_ERR_ARG, "%s is %lld; it must be at least 1",
                           s == 0 ? "seqlen" : "seqlen_k", (long long)length[s]);
    const rt_token_order_entry *entry = rt_token_order_find(name);
    if (entry->kind == RT_LAYOUT_POSITIONS) {
        int n = 0;
        char *path = NULL;
        const char *file = rt_parameters_find(parameters_of(name), "file", &n);
        RT_TRY(rt_parameters_path(ctx, o->folder, file, n, &path));
        const rt_status read = rt_layout_read(ctx, p, path, ranks, out);
        rt_free(path);
        RT_TRY(read);
        (void)snprintf(out->name, sizeof out->name, "%s", name);
        return RT_OK;
    }
    if ((o->padded_q == NULL) != (o->padded_k == NULL))
        return rt_fail(ctx, RT_ERR_ARG, "padded offsets are needed for queries and keys, or for neither");
    rt_layout l;
    memset(&l, 0, sizeof l);
    (void)snprintf(l.name, sizeof l.name, "%s", name);
    l.remainder = o->remainder;
    l.ranks = ranks;
    const rt_status st = make_checked(ctx, p, o, entry, ranks, &l);
    if (st == RT_OK)
        *out = l;
    else
        rt_layout_reset(&l);
    return st;
}

rt_status rt_layout_create(rt_context *ctx, const rt_problem *p, rt_layout_kind kind, rt_remainder rem,
                           int32_t ranks, rt_layout *out)
{
    if (kind != RT_LAYOUT_CONTIGUOUS && kind != RT_LAYOUT_ZIGZAG && kind != RT_LAYOUT_STRIPED && ranks >= 1)
        return rt_fail(ctx, RT_ERR_ARG,
                       "layout kind %d cannot be built by itself; contiguous, zigzag and striped can",
                       (int)kind);
    const rt_layout_options o = {
        .name = ranks >= 1 ? rt_layout_name(kind) : NULL, .remainder = rem, .padded_q = NULL};
    return rt_layout_make(ctx, p, &o, ranks, out);
}
