/* Ring attention, pass-Q: keys stay, queries go round.  Forward: at step t rank r computes the queries of shard
 * r - t against its own keys and keeps that partial STATE; after the last step all partials go home at once
 * and are joined there, in the order in which they were computed.
 * Backward: Q and DO go round; DQ of a shard follows one step behind, picks up each rank's contribution where
 * it arrives, and needs one hop more to be home.  DKV never leaves home. */
#include "plan/build.h"

static int32_t wrap(int64_t r, int32_t ranks)
{
    return (int32_t)((r % ranks + ranks) % ranks);
}

/* The buffer that holds the queries of step t: home, then two that alternate. */
static int32_t q_buffer(int64_t t)
{
    return t == 0 ? 0 : (int32_t)(1 + (t - 1) % 2);
}

/* Where the result of step t goes: DQ travels in two buffers that alternate; each STATE has its own until the end. */
static int32_t result_buffer(const rt_pair_counter *c, int64_t t, bool backward)
{
    if (c->l->ranks == 1)
        return 0;
    return backward ? (int32_t)(1 + t % 2) : (int32_t)t;
}

static rt_status pass_q_step(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, int64_t t,
                             bool backward)
{
    const int32_t ranks = c->l->ranks;
    RT_TRY(rt_builder_step(ctx, b));
    for (int32_t r = 0; r < ranks && t < ranks; r++) {
        const rt_tile tile = {.rank = r,
                              .q = rt_piece_whole(c->p, c->l, RT_SIDE_Q, wrap(r - t, ranks)),
                              .kv = rt_piece_whole(c->p, c->l, RT_SIDE_KV, r),
                              .q_buf = q_buffer(t),
                              .dst_q = result_buffer(c, t, backward)};
        RT_TRY(rt_builder_compute(ctx, b, c, tile));
    }
    for (int32_t r = 0; r < ranks && t < ranks - 1; r++) {
        const rt_piece q = rt_piece_whole(c->p, c->l, RT_SIDE_Q, wrap(r - t, ranks));
        const int32_t to = wrap((int64_t)r + 1, ranks);
        RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_Q, q, r, to, q_buffer(t), q_buffer(t + 1), RT_PUT));
        if (backward)
            RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_DO, q, r, to, q_buffer(t), q_buffer(t + 1), RT_PUT));
    }
    return RT_OK;
}

/* The DQ of step t - 1 goes to the next rank; at step P that is its owner. */
static rt_status dq_moves(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, int64_t t)
{
    const int32_t ranks = c->l->ranks;
    for (int32_t r = 0; r < ranks; r++) {
        const rt_piece q = rt_piece_whole(c->p, c->l, RT_SIDE_Q, wrap(r - (t - 1), ranks));
        RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_DQ, q, r, wrap((int64_t)r + 1, ranks),
                               result_buffer(c, t - 1, true), t < ranks ? result_buffer(c, t, true) : 0,
                               t < ranks ? RT_ADD : RT_PUT));
    }
    return RT_OK;
}

static rt_status pass_q_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                             const void *arg)
{
    (void)arg;
    const int32_t ranks = c->l->ranks;
    for (int64_t t = 0; t < ranks + (ranks > 1); t++) {
        rt_progress(ctx, backward ? "planning backward" : "planning forward", t, ranks);
        RT_TRY(pass_q_step(ctx, b, c, t, backward));
        if (backward && t > 0)
            RT_TRY(dq_moves(ctx, b, c, t));
    }
    for (int64_t t = 1; t < ranks && !backward; t++)
        for (int32_t s = 0; s < ranks; s++)
            RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_STATE, rt_piece_whole(c->p, c->l, RT_SIDE_Q, s),
                                   wrap(s + t, ranks), s, result_buffer(c, t, false), 0, RT_JOIN));
    return RT_OK;
}

rt_status rt_plan_pass_q(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                         rt_plan *out)
{
    (void)o;
    return rt_plan_passes(ctx, p, l, pass_q_pass, NULL, out);
}
