/* A schedule by rounds as a plan.  Forward: KV to the rank that computes its own queries, or Q to the helper
 * and its STATE back, joined.  Backward: KV there and DKV back, added; or Q and DO there and DQ back, while
 * the DKV of a helper's own keys is at home already. */
#include "plan/rounds.h"

#include <string.h>

rt_status rt_schedule_round(rt_context *ctx, rt_schedule *s, rt_task **row)
{
    if (s->rounds == s->cap) {
        const int64_t want = s->cap > 0 ? 2 * s->cap : 8;
        rt_task *bigger = rt_alloc(ctx, want * s->ranks, sizeof *bigger);
        if (bigger == NULL)
            return RT_ERR_NOMEM;
        if (s->rounds > 0)
            memcpy(bigger, s->task, (size_t)(s->rounds * s->ranks) * sizeof *bigger);
        rt_free(s->task);
        s->task = bigger;
        s->cap = want;
    }
    *row = s->task + s->rounds++ * s->ranks;
    for (int32_t r = 0; r < s->ranks; r++)
        (*row)[r] = (rt_task){-1, -1};
    return RT_OK;
}

void rt_schedule_reset(rt_schedule *s)
{
    rt_free(s->task);
    memset(s, 0, sizeof *s);
}

static rt_task task_of(const rt_schedule *s, int64_t round, int32_t rank)
{
    return s->task[round * s->ranks + rank];
}

/* Of two buffers the one that is not read while this round's is filled. */
static int32_t round_buffer(int64_t round)
{
    return (int32_t)(1 + round % 2);
}

static bool round_needs_moves(const rt_schedule *s, int64_t round)
{
    for (int32_t r = 0; r < s->ranks; r++) {
        const rt_task x = task_of(s, round, r);
        if (x.q >= 0 && (x.q != r || x.kv != r))
            return true;
    }
    return false;
}

/* Whether a result of the round is not at home. */
static bool round_leaves_results(const rt_schedule *s, int64_t round, bool backward)
{
    for (int32_t r = 0; r < s->ranks; r++) {
        const rt_task x = task_of(s, round, r);
        if (x.q >= 0 && (x.q != r || (backward && x.kv != r)))
            return true;
    }
    return false;
}

static rt_status round_tiles(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, const rt_schedule *s,
                             int64_t round, bool backward)
{
    for (int32_t r = 0; r < s->ranks; r++) {
        const rt_task x = task_of(s, round, r);
        if (x.q < 0)
            continue;
        rt_tile tile;
        memset(&tile, 0, sizeof tile);
        tile.rank = r;
        tile.q = rt_piece_whole(c->p, c->l, RT_SIDE_Q, x.q);
        tile.kv = rt_piece_whole(c->p, c->l, RT_SIDE_KV, x.kv);
        tile.q_buf = tile.dst_q = x.q != r ? round_buffer(round) : 0;
        tile.kv_buf = x.kv != r ? round_buffer(round) : 0;
        tile.dst_kv = backward ? tile.kv_buf : 0;
        RT_TRY(rt_builder_compute(ctx, b, c, tile));
    }
    return RT_OK;
}

/* What the round needs, from home to the rank that computes. */
static rt_status round_inputs(rt_context *ctx, rt_builder *b, const rt_pair_counter *c,
                              const rt_schedule *s, int64_t round, bool backward)
{
    const int32_t buf = round_buffer(round);
    for (int32_t r = 0; r < s->ranks; r++) {
        const rt_task x = task_of(s, round, r);
        if (x.q < 0)
            continue;
        const rt_piece q = rt_piece_whole(c->p, c->l, RT_SIDE_Q, x.q);
        if (x.kv != r)
            RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_KV, rt_piece_whole(c->p, c->l, RT_SIDE_KV, x.kv),
                                   x.kv, r, 0, buf, RT_PUT));
        if (x.q != r)
            RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_Q, q, x.q, r, 0, buf, RT_PUT));
        if (x.q != r && backward)
            RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_DO, q, x.q, r, 0, buf, RT_PUT));
    }
    return RT_OK;
}

/* What the round left away from home. */
static rt_status round_results(rt_context *ctx, rt_builder *b, const rt_pair_counter *c,
                               const rt_schedule *s, int64_t round, bool backward)
{
    const int32_t buf = round_buffer(round);
    for (int32_t r = 0; r < s->ranks; r++) {
        const rt_task x = task_of(s, round, r);
        if (x.q < 0)
            continue;
        if (x.q != r)
            RT_TRY(rt_builder_send(ctx, b, backward ? RT_PAYLOAD_DQ : RT_PAYLOAD_STATE,
                                   rt_piece_whole(c->p, c->l, RT_SIDE_Q, x.q), r, x.q, buf, 0,
                                   backward ? RT_ADD : RT_JOIN));
        if (x.kv != r && backward)
            RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_DKV, rt_piece_whole(c->p, c->l, RT_SIDE_KV, x.kv), r,
                                   x.kv, buf, 0, RT_ADD));
    }
    return RT_OK;
}

rt_status rt_rounds_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                         const void *arg)
{
    const rt_schedule *s = arg;
    const int64_t lead = s->rounds > 0 && round_needs_moves(s, 0),
                  tail = s->rounds > 0 && round_leaves_results(s, s->rounds - 1, backward);
    for (int64_t t = -lead; t < s->rounds + tail; t++) {
        rt_progress(ctx, backward ? "planning backward" : "planning forward", t + lead,
                    lead + s->rounds + tail);
        RT_TRY(rt_builder_step(ctx, b));
        if (t >= 0 && t < s->rounds)
            RT_TRY(round_tiles(ctx, b, c, s, t, backward));
        if (t + 1 < s->rounds)
            RT_TRY(round_inputs(ctx, b, c, s, t + 1, backward));
        if (t >= 1)
            RT_TRY(round_results(ctx, b, c, s, t - 1, backward));
    }
    return RT_OK;
}
