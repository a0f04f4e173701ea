/* Ring attention, pass-KV.  Forward: at step t rank r computes its queries against the KV shard of rank
 * r - t, while that shard goes on to rank r + 1.  Backward: KV goes round again; the gradient of a shard
 * follows it one step behind, picks up each rank's contribution where it arrives, and needs one hop more
 * to be home. */
#include "plan/build.h"

#include <string.h>

static int32_t ring_rank(int64_t r, int32_t ranks)
{
    return (int32_t)((r % ranks + ranks) % ranks);
}

/* The buffer that holds the KV of step t: home, then two that alternate, so that one is read and sent
 * while the other is filled. */
static int32_t ring_kv_buffer(int64_t t)
{
    return t == 0 ? 0 : (int32_t)(1 + (t - 1) % 2);
}

/* The buffer in which the DKV contribution of step t is written and joined by what arrives. */
static int32_t ring_dkv_buffer(int64_t t)
{
    return (int32_t)(1 + t % 2);
}

/* In zigzag a shard is two runs far apart, and a mask often empties the block of two halves: the tile
 * is the smallest rectangle of whole halves that holds every visible pair. */
static int64_t zigzag_shrink(const rt_pair_counter *c, const rt_layout *l, rt_piece *q, rt_piece *kv)
{
    const int64_t q_half = l->side[RT_SIDE_Q].half[q->shard], kv_half = l->side[RT_SIDE_KV].half[kv->shard];
    const int64_t q_cut[3] = {0, q_half, q->slot1}, kv_cut[3] = {0, kv_half, kv->slot1};
    bool q_sees[2] = {false, false}, kv_seen[2] = {false, false};
    int64_t pairs = 0;
    for (int a = 0; a < 2; a++) {
        for (int b = 0; b < 2; b++) {
            rt_piece q_part = *q, kv_part = *kv;
            q_part.slot0 = q_cut[a];
            q_part.slot1 = q_cut[a + 1];
            kv_part.slot0 = kv_cut[b];
            kv_part.slot1 = kv_cut[b + 1];
            int64_t n = rt_pair_counter_count(c, &q_part, &kv_part);
            q_sees[a] = q_sees[a] || n > 0;
            kv_seen[b] = kv_seen[b] || n > 0;
            pairs += n;
        }
    }
    if (pairs > 0) {
        q->slot0 = q_sees[0] ? 0 : q_half;
        q->slot1 = q_sees[1] ? q->slot1 : q_half;
        kv->slot0 = kv_seen[0] ? 0 : kv_half;
        kv->slot1 = kv_seen[1] ? kv->slot1 : kv_half;
    }
    return pairs;
}

/* The tile of rank r at step t, where anything is visible. */
static rt_status ring_tile(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, int32_t r, int64_t t,
                           bool backward)
{
    const int32_t ranks = c->l->ranks;
    rt_tile tile;
    memset(&tile, 0, sizeof tile);
    tile.rank = r;
    tile.q = rt_piece_whole(c->p, c->l, RT_SIDE_Q, r);
    tile.kv = rt_piece_whole(c->p, c->l, RT_SIDE_KV, ring_rank(r - t, ranks));
    tile.pairs = c->l->kind == RT_LAYOUT_ZIGZAG ? zigzag_shrink(c, c->l, &tile.q, &tile.kv)
                                                : rt_pair_counter_count(c, &tile.q, &tile.kv);
    if (tile.pairs == 0)
        return RT_OK;
    tile.kv_buf = ring_kv_buffer(t);
    if (backward && ranks > 1)
        tile.dst_kv = ring_dkv_buffer(t);
    return rt_builder_tile(ctx, b, &tile);
}

/* The move of `payload` of a shard one rank on; a shard without slots does not move. */
static rt_status ring_move(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, rt_payload payload,
                           rt_how how, int32_t shard, int32_t from, int32_t src_buf, int32_t dst_buf)
{
    rt_move move = {payload, rt_piece_whole(c->p, c->l, RT_SIDE_KV, shard),
                    from,    ring_rank((int64_t)from + 1, c->l->ranks),
                    src_buf, dst_buf,
                    how};
    if (move.piece.slot1 == 0)
        return RT_OK;
    return rt_builder_move(ctx, b, &move);
}

static rt_status ring_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward)
{
    const int32_t ranks = c->l->ranks;
    const int64_t steps = backward && ranks > 1 ? (int64_t)ranks + 1 : ranks;
    for (int64_t t = 0; t < steps; t++) {
        rt_progress(ctx, backward ? "planning backward" : "planning forward", t, steps);
        RT_TRY(rt_builder_step(ctx, b));
        for (int32_t r = 0; r < ranks && t < ranks; r++)
            RT_TRY(ring_tile(ctx, b, c, r, t, backward));
        for (int32_t r = 0; r < ranks && t < ranks - 1; r++)
            RT_TRY(ring_move(ctx, b, c, RT_PAYLOAD_KV, RT_PUT, ring_rank(r - t, ranks), r,
                             ring_kv_buffer(t), ring_kv_buffer(t + 1)));
        /* what rank r computed or received at step t - 1 goes on, and at step P it comes home */
        for (int32_t r = 0; r < ranks && backward && t > 0; r++)
            RT_TRY(ring_move(ctx, b, c, RT_PAYLOAD_DKV, t < ranks ? RT_ADD : RT_PUT,
                             ring_rank(r - (t - 1), ranks), r, ring_dkv_buffer(t - 1),
                             t < ranks ? ring_dkv_buffer(t) : 0));
    }
    return RT_OK;
}

rt_status rt_plan_ring(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                       rt_plan *out)
{
    (void)o; /* KV and DKV move whether or not a tile needs them, as in the frameworks */
    rt_builder forward, backward;
    memset(&forward, 0, sizeof forward);
    memset(&backward, 0, sizeof backward);
    rt_pair_counter c;
    RT_TRY(rt_pair_counter_init(ctx, p, l, &c));
    rt_status status = ring_pass(ctx, &forward, &c, false);
    if (status != RT_OK)
        goto reset_passes;
    status = ring_pass(ctx, &backward, &c, true);
    if (status != RT_OK)
        goto reset_passes;
    rt_pair_counter_reset(&c);
    memset(out, 0, sizeof *out);
    memcpy(out->name, "ring", sizeof "ring");
    out->ranks = l->ranks;
    out->forward = forward.pass;
    out->backward = backward.pass;
    return RT_OK;

reset_passes:
    rt_pass_reset(&forward.pass);
    rt_pass_reset(&backward.pass);
    rt_pair_counter_reset(&c);
    return status;
}
