/* Padded sequences: every document stands at an offset of its own, with room behind it.  An order is laid
 * over the padded sequence; here its padding is taken out, and the rows that the tokens keep are noted. */
#include <stdio.h>
#include <string.h>

#include "layout/build.h"

static const int64_t *boundaries(const rt_problem *p, rt_side side)
{
    return side == RT_SIDE_Q ? p->cu_q : p->cu_k;
}

rt_status rt_layout_check_padding(rt_context *ctx, const rt_problem *p, rt_side side, const int64_t *padded)
{
    const char *name = side == RT_SIDE_Q ? "cu_seqlens_padded" : "cu_seqlens_k_padded";
    if (p->documents == 0)
        return rt_fail(ctx, RT_ERR_ARG, "%s needs cu_seqlens: which of the places are tokens?", name);
    const int64_t *cu = boundaries(p, side);
    if (padded[0] != 0)
        return rt_fail(ctx, RT_ERR_ARG, "%s begins with %lld; it must begin with 0", name,
                       (long long)padded[0]);
    for (int64_t d = 0; d < p->documents; d++) {
        const int64_t length = cu[d + 1] - cu[d];
        if (padded[d + 1] < padded[d] || padded[d + 1] - padded[d] < length)
            return rt_fail(ctx, RT_ERR_ARG,
                           "%s gives document %lld the places %lld to %lld; its %lld tokens need %lld",
                           name, (long long)d, (long long)padded[d], (long long)padded[d + 1],
                           (long long)length, (long long)length);
    }
    return RT_OK;
}

rt_status rt_padding_remove(rt_context *ctx, const rt_problem *p, rt_side side, const int64_t *padded,
                            int32_t ranks, rt_layout_side *s)
{
    const int64_t *cu = boundaries(p, side), length = cu[p->documents], places = padded[p->documents];
    rt_layout_side t;
    rt_status st = RT_ERR_NOMEM;
    RT_TRY(rt_layout_side_alloc(ctx, length, ranks, &t));
    int64_t *token = rt_alloc(ctx, places, sizeof *token); /* at each place, -1: padding */
    t.row_of = rt_alloc(ctx, length, sizeof *t.row_of);
    t.padded_of = rt_alloc(ctx, length, sizeof *t.padded_of);
    if (token == NULL || t.row_of == NULL || t.padded_of == NULL)
        goto free_token;
    t.padded = places;
    for (int64_t i = 0; i < places; i++)
        token[i] = -1;
    for (int64_t d = 0; d < p->documents; d++) {
        for (int64_t i = cu[d]; i < cu[d + 1]; i++) {
            t.padded_of[i] = padded[d] + i - cu[d];
            token[t.padded_of[i]] = i;
        }
    }
    int64_t at = 0;
    for (int32_t r = 0; r < ranks; r++) {
        t.first[r] = at;
        t.rows[r] = s->first[r + 1] - s->first[r];
        for (int64_t row = 0; row < t.rows[r]; row++) {
            const int64_t x = token[s->pos[s->first[r] + row]];
            if (row == s->half[r])
                t.half[r] = at - t.first[r];
            if (x >= 0) {
                t.row_of[x] = row;
                t.pos[at++] = x;
            }
        }
        if (s->half[r] == t.rows[r])
            t.half[r] = at - t.first[r];
    }
    t.first[ranks] = at;
    rt_layout_side_reset(s);
    *s = t;
    rt_free(token);
    return RT_OK;

free_token:
    rt_free(token);
    rt_layout_side_reset(&t);
    return st;
}
