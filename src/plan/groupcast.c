/* Zero-redundancy exchange (MagiAttention's GroupCast and GroupReduce): the keys of a rank go only to the ranks
 * whose queries see them, and their gradients come back from those alone.  Slots that a destination sees are
 * merged to ranges, one move and one tile a range.  Under a causal mask that is 1/2 of a ring's volume on
 * contiguous shards and 3/4 on zigzag ones, for every P.
 *
 * A rank computes its own keys while the first stage's arrive; stage k arrives while stage k - 1 is computed,
 * each stage in one kernel call.  Stages take the sources by their distance r - s. */
#include "plan/build.h"

#include <string.h>

/* Keys of shard `source` that rank `to` sees. */
typedef struct {
    int32_t source, to;
    int64_t slot0, slot1;
} seen_range;

typedef struct {
    seen_range *range;
    int64_t n, cap, stages;
} exchange;

static rt_status range_add(rt_context *ctx, exchange *x, seen_range range)
{
    if (x->n == x->cap) {
        const int64_t want = x->cap > 0 ? 2 * x->cap : 64;
        seen_range *bigger = rt_alloc(ctx, want, sizeof *bigger);
        if (bigger == NULL)
            return RT_ERR_NOMEM;
        if (x->n > 0)
            memcpy(bigger, x->range, (size_t)x->n * sizeof *bigger);
        rt_free(x->range);
        x->range = bigger;
        x->cap = want;
    }
    x->range[x->n++] = range;
    return RT_OK;
}

/* Room to find what a rank sees. */
typedef struct {
    uint8_t *seen, *row; /* Sk */
    int64_t *open;       /* Sk + 1 */
    int64_t *all;        /* Sk: 0, 1, .. */
} sight;

static rt_status sight_create(rt_context *ctx, int64_t keys, sight *out)
{
    out->seen = rt_alloc(ctx, keys, sizeof *out->seen);
    out->row = rt_alloc(ctx, keys, sizeof *out->row);
    out->open = rt_alloc(ctx, keys + 1, sizeof *out->open);
    out->all = rt_alloc(ctx, keys, sizeof *out->all);
    if (out->seen == NULL || out->row == NULL || out->open == NULL || out->all == NULL)
        return RT_ERR_NOMEM;
    for (int64_t j = 0; j < keys; j++)
        out->all[j] = j;
    return RT_OK;
}

static void sight_reset(sight *x)
{
    rt_free(x->seen);
    rt_free(x->row);
    rt_free(x->open);
    rt_free(x->all);
}

/* seen[j] = 1 for every key that some query of the rank sees: where each sees one run, by counting the runs that
 * begin and end; else row by row. */
static void keys_seen(const rt_problem *p, const rt_layout *l, int32_t rank, sight *x)
{
    const int64_t *pos = rt_layout_positions(l, RT_SIDE_Q, rank), keys = p->seqlen_k;
    const bool interval = rt_mask_is_interval(p);
    int64_t lo, hi, running = 0;
    memset(x->seen, 0, (size_t)keys);
    memset(x->open, 0, (size_t)(keys + 1) * sizeof *x->open);
    for (int64_t i = 0; i < rt_layout_count(l, RT_SIDE_Q, rank); i++) {
        rt_mask_row(p, pos[i], &lo, &hi);
        x->open[lo] += lo < hi;
        x->open[hi] -= lo < hi;
        for (int64_t b = 0; b < p->batch && !interval; b++) {
            (void)rt_mask_row_keys(p, b, pos[i], x->all + lo, hi - lo, x->row);
            for (int64_t j = lo; j < hi; j++)
                x->seen[j] |= x->row[j - lo];
        }
    }
    for (int64_t j = 0; j < keys && interval; j++) {
        running += x->open[j];
        x->seen[j] = running > 0;
    }
}

static rt_status ranges_find(rt_context *ctx, const rt_problem *p, const rt_layout *l, exchange *x)
{
    sight view;
    rt_status status = sight_create(ctx, p->seqlen_k, &view);
    for (int32_t to = 0; to < l->ranks && status == RT_OK; to++) {
        keys_seen(p, l, to, &view);
        for (int32_t s = 0; s < l->ranks && status == RT_OK; s++) {
            const int64_t *pos = rt_layout_positions(l, RT_SIDE_KV, s);
            const int64_t n = rt_layout_count(l, RT_SIDE_KV, s);
            for (int64_t i = 0, end; i < n && s != to && status == RT_OK; i = end) {
                for (end = i + 1; end < n && view.seen[pos[end]] == view.seen[pos[i]]; end++)
                    ;
                if (view.seen[pos[i]])
                    status = range_add(ctx, x, (seen_range){s, to, i, end});
            }
        }
    }
    sight_reset(&view);
    return status;
}

static rt_piece range_piece(const rt_pair_counter *c, const seen_range *range)
{
    rt_piece piece = rt_piece_whole(c->p, c->l, RT_SIDE_KV, range->source);
    piece.slot0 = range->slot0;
    piece.slot1 = range->slot1;
    return piece;
}

/* 0 .. stages - 1: near sources first. */
static int64_t range_stage(const exchange *x, const seen_range *range, int32_t ranks)
{
    const int64_t distance = (range->to - range->source + ranks) % ranks;
    return (distance - 1) * x->stages / (ranks - 1);
}

/* The tiles of stage k at every rank; stage -1 is a rank's own keys. */
static rt_status stage_tiles(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, const exchange *x,
                             int64_t stage, bool backward)
{
    rt_tile tile;
    memset(&tile, 0, sizeof tile);
    for (int32_t r = 0; r < c->l->ranks && stage < 0; r++) {
        tile.rank = r;
        tile.q = rt_piece_whole(c->p, c->l, RT_SIDE_Q, r);
        tile.kv = rt_piece_whole(c->p, c->l, RT_SIDE_KV, r);
        RT_TRY(rt_builder_compute(ctx, b, c, tile));
    }
    for (int64_t i = 0; i < x->n && stage >= 0; i++) {
        if (range_stage(x, &x->range[i], c->l->ranks) != stage)
            continue;
        tile.rank = x->range[i].to;
        tile.q = rt_piece_whole(c->p, c->l, RT_SIDE_Q, tile.rank);
        tile.kv = range_piece(c, &x->range[i]);
        tile.kv_buf = rt_shard_buffer(tile.rank, x->range[i].source);
        tile.dst_kv = backward ? tile.kv_buf : 0;
        RT_TRY(rt_builder_compute(ctx, b, c, tile));
    }
    return rt_builder_longest_first(ctx, b);
}

/* KV of stage k to the ranks that see it, or its DKV home. */
static rt_status stage_moves(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, const exchange *x,
                             int64_t stage, rt_payload payload)
{
    for (int64_t i = 0; i < x->n; i++) {
        const seen_range *range = &x->range[i];
        if (range_stage(x, range, c->l->ranks) != stage)
            continue;
        const int32_t buf = rt_shard_buffer(range->to, range->source);
        const rt_piece piece = range_piece(c, range);
        if (payload == RT_PAYLOAD_KV)
            RT_TRY(rt_builder_send(ctx, b, payload, piece, range->source, range->to, 0, buf, RT_PUT));
        else
            RT_TRY(rt_builder_send(ctx, b, payload, piece, range->to, range->source, buf, 0, RT_ADD));
    }
    return RT_OK;
}

static rt_status groupcast_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                                const void *arg)
{
    const exchange *x = arg;
    const int64_t stages = x->n > 0 ? x->stages : 0, steps = stages + 1 + (backward && stages > 0);
    for (int64_t t = 0; t < steps; t++) {
        rt_progress(ctx, backward ? "planning backward" : "planning forward", t, steps);
        RT_TRY(rt_builder_step(ctx, b));
        if (t <= stages)
            RT_TRY(stage_tiles(ctx, b, c, x, t - 1, backward));
        if (t < stages)
            RT_TRY(stage_moves(ctx, b, c, x, t, RT_PAYLOAD_KV));
        if (backward && t >= 2)
            RT_TRY(stage_moves(ctx, b, c, x, t - 2, RT_PAYLOAD_DKV));
    }
    return RT_OK;
}

const rt_plan_parameter rt_groupcast_parameters[] = {
    {"stages", "1 .. P - 1",
     "parts of the exchange; one arrives while the one before is computed (default: 1)"},
    {NULL, NULL, NULL}};

rt_status rt_plan_groupcast(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                            const rt_plan_options *o, rt_plan *out)
{
    exchange x = {NULL, 0, 0, 1};
    RT_TRY(rt_plan_option_number(ctx, o, "stages", 1, l->ranks > 2 ? l->ranks - 1 : 1, 1, &x.stages));
    rt_status status = ranges_find(ctx, p, l, &x);
    if (status == RT_OK)
        status = rt_plan_passes(ctx, p, l, o, groupcast_pass, &x, out);
    rt_free(x.range);
    return status;
}
