/* All-gather of KV: every rank gets the KV of all, computes its own queries in one or two calls of a kernel, and has
 * nothing to join.  Backward: DKV of every shard is written on every rank and added at its owner's, those of the
 * owner first, then rank after rank (reduce-scatter).
 *
 * whole: one call (llama3 of ring-flash-attention gathers `stride` key heads at a time, into two sets of
 * buffers, so that the next are in flight while these are computed).  chunks: one call for each half of the
 * rank's tokens, which in zigzag sees one run of keys (TransformerEngine).  rotate: what the gather brings is
 * used shard by shard as in a ring, each time with a join, and DKV goes round (PyTorch, diffusers). */
#include "plan/rotate.h"

#include <string.h>

const rt_plan_parameter rt_all_gather_parameters[] = {
    {"form", "whole | chunks | rotate",
     "one kernel call on all keys (default), one for each half of a rank's tokens, one for each shard of "
     "keys"},
    {"stride", "1 .. Hkv", "key heads that are gathered at a time (default: all); not with rotate"},
    {"order", "down | up", "rotate: a rank meets KV of shards r, r - 1, .. (default) or r, r + 1, .."},
    {NULL, NULL, NULL}};

typedef struct {
    int64_t stride;
    bool chunks;
} gather;

/* Shard s on rank r, of head group g: two sets of buffers take turns. */
static int32_t group_buffer(const rt_pair_counter *c, int32_t r, int32_t s, int64_t g)
{
    return s == r ? 0 : rt_shard_buffer(r, s) + (int32_t)(g % 2) * (c->l->ranks - 1);
}

/* Key heads of group g of a shard. */
static rt_piece group_piece(const rt_pair_counter *c, int32_t s, int64_t g, int64_t stride)
{
    rt_piece kv = rt_piece_whole(c->p, c->l, RT_SIDE_KV, s);
    kv.head0 = g * stride;
    kv.head1 = kv.head0 + stride < kv.head1 ? kv.head0 + stride : kv.head1;
    return kv;
}

/* Between every rank r and every other owner s: the KV of s comes to r, or the DKV that r has goes to s. */
static rt_status gather_moves(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, rt_payload payload,
                              int64_t g, int64_t stride)
{
    const bool home = payload == RT_PAYLOAD_DKV;
    for (int32_t s = 0; s < c->l->ranks; s++)
        for (int32_t r = 0; r < c->l->ranks; r++) {
            const int32_t at = group_buffer(c, r, s, g);
            if (r != s)
                RT_TRY(rt_builder_send(ctx, b, payload, group_piece(c, s, g, stride), home ? r : s,
                                       home ? s : r, home ? at : 0, home ? 0 : at, home ? RT_ADD : RT_PUT));
        }
    return RT_OK;
}

/* The tiles of a rank: its own queries, as a whole or by halves, against every shard. */
static rt_status gather_tiles(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, int32_t r,
                              int64_t g, const gather *x, bool backward)
{
    const int64_t group = c->p->heads_q / c->p->heads_kv;
    const rt_piece whole = rt_piece_whole(c->p, c->l, RT_SIDE_Q, r);
    const int64_t half = x->chunks ? c->l->side[RT_SIDE_Q].half[r] : whole.slot1;
    for (int32_t call = 0; call < (half < whole.slot1 ? 2 : 1); call++)
        for (int32_t s = 0; s < c->l->ranks; s++) {
            rt_tile tile = {.rank = r,
                            .q = whole,
                            .kv = group_piece(c, s, g, x->stride),
                            .kv_buf = group_buffer(c, r, s, g),
                            .dst_kv = backward ? group_buffer(c, r, s, g) : 0,
                            .call = call};
            tile.q.slot0 = call == 0 ? 0 : half;
            tile.q.slot1 = call == 0 ? half : whole.slot1;
            tile.q.head0 = tile.kv.head0 * group;
            tile.q.head1 = tile.kv.head1 * group;
            RT_TRY(rt_builder_compute(ctx, b, c, tile));
        }
    return RT_OK;
}

static rt_status gather_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                             const void *arg)
{
    const gather *x = arg;
    const int64_t groups = (c->p->heads_kv + x->stride - 1) / x->stride;
    const bool many = c->l->ranks > 1;
    for (int64_t g = many ? -1 : 0; g < groups + (backward && many); g++) {
        RT_TRY(rt_builder_step(ctx, b));
        for (int32_t r = 0; r < c->l->ranks && g >= 0 && g < groups; r++)
            RT_TRY(gather_tiles(ctx, b, c, r, g, x, backward));
        RT_TRY(rt_builder_longest_first(ctx, b));
        if (g + 1 < groups)
            RT_TRY(gather_moves(ctx, b, c, RT_PAYLOAD_KV, g + 1, x->stride));
        if (backward && g > 0)
            RT_TRY(gather_moves(ctx, b, c, RT_PAYLOAD_DKV, g - 1, x->stride));
    }
    return RT_OK;
}

rt_status rt_plan_all_gather(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                             const rt_plan_options *o, rt_plan *out)
{
    static const char *const forms[] = {"whole", "chunks", "rotate", NULL}, *const orders[] = {"down", "up",
                                                                                               NULL};
    int form, order;
    gather x;
    RT_TRY(rt_plan_option_choice(ctx, o, "form", forms, 0, &form));
    RT_TRY(rt_plan_option_choice(ctx, o, "order", orders, -1, &order));
    RT_TRY(rt_plan_option_number(ctx, o, "stride", 1, p->heads_kv, 0, &x.stride));
    if (form == 2 && x.stride > 0)
        return rt_fail(ctx, RT_ERR_ARG,
                       "plan all-gather: form=rotate gathers all key heads at once; no stride");
    if (form != 2 && order >= 0)
        return rt_fail(ctx, RT_ERR_ARG,
                       "plan all-gather: form=%s uses all keys in one call; an order goes with form=rotate",
                       forms[form]);
    if (form == 2) {
        const rt_rotation rotation = {.lanes = 1, .window = 1, .up = order == 1, .gather = true};
        return rt_plan_rotation(ctx, p, l, o, &rotation, out);
    }
    x.stride = x.stride > 0 ? x.stride : p->heads_kv;
    x.chunks = form == 1;
    return rt_plan_passes(ctx, p, l, o, gather_pass, &x, out);
}
