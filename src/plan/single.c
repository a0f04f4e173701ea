/* Everything on rank 0.  With one rank: one tile.  With more: the shards of the other ranks come to rank 0,
 * each into the buffer of its number (shard 0 is at home in buffer 0); rank 0 computes every pair of
 * shards that sees anything; the results go home. */
#include "plan/build.h"

#include <string.h>

/* Move a payload of every shard but 0 between its owner's home and rank 0, if `needed` says so. */
static rt_status single_moves(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, rt_payload payload,
                              bool home, const bool *needed)
{
    for (int32_t s = 1; s < c->l->ranks; s++) {
        rt_piece piece = rt_piece_whole(c->p, c->l, rt_payload_side(payload), s);
        if (piece.slot1 == 0 || (needed != NULL && !needed[s]))
            continue;
        rt_move move = {payload, piece, home ? 0 : s, home ? s : 0, home ? s : 0, home ? 0 : s, RT_PUT};
        RT_TRY(rt_builder_move(ctx, b, &move));
    }
    return RT_OK;
}

/* One tile per pair of shards, all of one kernel call; notes which shards have a result. */
static rt_status single_tiles(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                              bool *q_done, bool *kv_done)
{
    for (int32_t s = 0; s < c->l->ranks; s++) {
        for (int32_t k = 0; k < c->l->ranks; k++) {
            rt_tile tile;
            memset(&tile, 0, sizeof tile);
            tile.q = rt_piece_whole(c->p, c->l, RT_SIDE_Q, s);
            tile.kv = rt_piece_whole(c->p, c->l, RT_SIDE_KV, k);
            tile.q_buf = tile.dst_q = s;
            tile.kv_buf = k;
            tile.dst_kv = backward ? k : 0;
            tile.pairs = rt_pair_counter_count(c, &tile.q, &tile.kv);
            if (tile.pairs == 0)
                continue;
            q_done[s] = kv_done[k] = true;
            RT_TRY(rt_builder_tile(ctx, b, &tile));
        }
    }
    return RT_OK;
}

static rt_status single_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                             bool *q_done, bool *kv_done)
{
    const bool many = c->l->ranks > 1;
    if (many) {
        RT_TRY(rt_builder_step(ctx, b));
        RT_TRY(single_moves(ctx, b, c, RT_PAYLOAD_Q, false, NULL));
        RT_TRY(single_moves(ctx, b, c, RT_PAYLOAD_KV, false, NULL));
        if (backward)
            RT_TRY(single_moves(ctx, b, c, RT_PAYLOAD_DO, false, NULL));
    }
    RT_TRY(rt_builder_step(ctx, b));
    RT_TRY(single_tiles(ctx, b, c, backward, q_done, kv_done));
    RT_TRY(rt_builder_longest_first(ctx, b));
    if (many) {
        RT_TRY(rt_builder_step(ctx, b));
        RT_TRY(single_moves(ctx, b, c, backward ? RT_PAYLOAD_DQ : RT_PAYLOAD_STATE, true, q_done));
        if (backward)
            RT_TRY(single_moves(ctx, b, c, RT_PAYLOAD_DKV, true, kv_done));
    }
    return RT_OK;
}

rt_status rt_plan_single(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                         rt_plan *out)
{
    rt_builder forward, backward;
    memset(&forward, 0, sizeof forward);
    memset(&backward, 0, sizeof backward);
    forward.of = backward.of = o->of;
    rt_pair_counter c;
    bool *done = rt_calloc(ctx, 2 * (int64_t)l->ranks, sizeof *done);
    if (done == NULL)
        return RT_ERR_NOMEM;
    rt_status status = rt_pair_counter_init(ctx, p, l, &c);
    if (status != RT_OK)
        goto free_done;
    status = single_pass(ctx, &forward, &c, false, done, done + l->ranks);
    if (status != RT_OK)
        goto reset_passes;
    status = single_pass(ctx, &backward, &c, true, done, done + l->ranks);
    if (status != RT_OK)
        goto reset_passes;
    memset(out, 0, sizeof *out);
    out->ranks = l->ranks;
    out->forward = forward.pass;
    out->backward = backward.pass;
    goto reset_counter;

reset_passes:
    rt_pass_reset(&forward.pass);
    rt_pass_reset(&backward.pass);
reset_counter:
    rt_pair_counter_reset(&c);
free_done:
    rt_free(done);
    return status;
}
