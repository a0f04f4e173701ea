/* Rings over chunks of queries.  The keys of a chunk's ring start from home again. */
#include "plan/chunked.h"

#include <string.h>

static int32_t ring_rank(int64_t r, int32_t ranks)
{
    return (int32_t)((r % ranks + ranks) % ranks);
}

/* Where what goes round is at step t of a ring: at home, then in two buffers that alternate. */
static int32_t ring_buffer(int64_t t)
{
    return t == 0 ? 0 : (int32_t)(1 + (t - 1) % 2);
}

/* Where the gradient that follows it is written at step t. */
static int32_t follow_buffer(int64_t t)
{
    return (int32_t)(1 + t % 2);
}

static rt_piece chunk_piece(const rt_pair_counter *c, int32_t shard, int64_t n, int64_t chunk)
{
    rt_piece piece = rt_piece_whole(c->p, c->l, RT_SIDE_Q, shard);
    const int64_t slots = piece.slot1;
    if (chunk > 0 && n * chunk < slots) {
        piece.slot0 = n * chunk;
        piece.slot1 = slots - piece.slot0 > chunk ? piece.slot0 + chunk : slots;
    } else if (chunk > 0) {
        piece.slot0 = slots;
    }
    return piece;
}

static int64_t chunk_count(const rt_pair_counter *c, int64_t chunk)
{
    int64_t most = 1;
    for (int32_t r = 0; r < c->l->ranks && chunk > 0; r++) {
        const int64_t slots = rt_layout_count(c->l, RT_SIDE_Q, r), n = slots / chunk + (slots % chunk != 0);
        most = n > most ? n : most;
    }
    return most;
}

static rt_status kv_step(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                         int64_t chunk, int64_t n, int64_t t)
{
    const int32_t ranks = c->l->ranks;
    rt_tile tile;
    memset(&tile, 0, sizeof tile);
    tile.kv_buf = ring_buffer(t);
    tile.dst_kv = backward && ranks > 1 ? follow_buffer(t) : 0;
    for (int32_t r = 0; r < ranks && t < ranks; r++) {
        tile.rank = r;
        tile.q = chunk_piece(c, r, n, chunk);
        tile.kv = rt_piece_whole(c->p, c->l, RT_SIDE_KV, ring_rank(r - t, ranks));
        RT_TRY(rt_builder_compute(ctx, b, c, tile));
    }
    for (int32_t r = 0; r < ranks && t < ranks - 1; r++)
        RT_TRY(rt_builder_send(
            ctx, b, RT_PAYLOAD_KV, rt_piece_whole(c->p, c->l, RT_SIDE_KV, ring_rank(r - t, ranks)), r,
            ring_rank((int64_t)r + 1, ranks), ring_buffer(t), ring_buffer(t + 1), RT_PUT));
    for (int32_t r = 0; r < ranks && backward && t > 0; r++)
        RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_DKV,
                               rt_piece_whole(c->p, c->l, RT_SIDE_KV, ring_rank(r - (t - 1), ranks)), r,
                               ring_rank((int64_t)r + 1, ranks), follow_buffer(t - 1),
                               t < ranks ? follow_buffer(t) : 0, t < ranks || n > 0 ? RT_ADD : RT_PUT));
    return RT_OK;
}

/* The partials of chunk n go to the owners of its queries, in the order in which the ring met them. */
static rt_status states_home(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, int64_t chunk,
                             int64_t n)
{
    const int32_t ranks = c->l->ranks;
    for (int32_t t = 1; t < ranks; t++)
        for (int32_t r = 0; r < ranks; r++)
            RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_STATE, chunk_piece(c, r, n, chunk),
                                   ring_rank((int64_t)r + t, ranks), r, t, 0, RT_JOIN));
    return RT_OK;
}

static rt_status q_step(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                        int64_t chunk, int64_t n, int64_t t)
{
    const int32_t ranks = c->l->ranks;
    rt_tile tile;
    memset(&tile, 0, sizeof tile);
    tile.q_buf = ring_buffer(t);
    if (ranks > 1)
        tile.dst_q = backward ? follow_buffer(t) : (int32_t)t;
    for (int32_t r = 0; r < ranks && t < ranks; r++) {
        tile.rank = r;
        tile.q = chunk_piece(c, ring_rank(r - t, ranks), n, chunk);
        tile.kv = rt_piece_whole(c->p, c->l, RT_SIDE_KV, r);
        RT_TRY(rt_builder_compute(ctx, b, c, tile));
    }
    for (int32_t r = 0; r < ranks && t < ranks - 1; r++) {
        const rt_piece q = chunk_piece(c, ring_rank(r - t, ranks), n, chunk);
        const int32_t to = ring_rank((int64_t)r + 1, ranks);
        RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_Q, q, r, to, ring_buffer(t), ring_buffer(t + 1), RT_PUT));
        if (backward)
            RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_DO, q, r, to, ring_buffer(t), ring_buffer(t + 1),
                                   RT_PUT));
    }
    for (int32_t r = 0; r < ranks && backward && t > 0; r++)
        RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_DQ,
                               chunk_piece(c, ring_rank(r - (t - 1), ranks), n, chunk), r,
                               ring_rank((int64_t)r + 1, ranks), follow_buffer(t - 1),
                               t < ranks ? follow_buffer(t) : 0, t < ranks || n > 0 ? RT_ADD : RT_PUT));
    return RT_OK;
}

static rt_status chunked_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                              int64_t chunk, bool queries_move)
{
    const int32_t ranks = c->l->ranks;
    const int64_t chunks = chunk_count(c, chunk), steps = ranks + (backward && ranks > 1);
    for (int64_t n = 0; n < chunks; n++) {
        for (int64_t t = 0; t < steps; t++) {
            rt_progress(ctx, backward ? "planning backward" : "planning forward", n * steps + t,
                        chunks * steps);
            RT_TRY(rt_builder_step(ctx, b));
            if (!queries_move) {
                RT_TRY(kv_step(ctx, b, c, backward, chunk, n, t));
                continue;
            }
            RT_TRY(q_step(ctx, b, c, backward, chunk, n, t));
            if (!backward && t == 0 && n > 0) /* while the next chunk begins */
                RT_TRY(states_home(ctx, b, c, chunk, n - 1));
        }
    }
    if (!queries_move || backward || ranks == 1)
        return RT_OK;
    RT_TRY(rt_builder_step(ctx, b));
    return states_home(ctx, b, c, chunk, chunks - 1);
}

rt_status rt_chunked_kv_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                             const void *arg)
{
    const rt_chunked *x = arg;
    return chunked_pass(ctx, b, c, backward, x->chunk, false);
}

rt_status rt_chunked_q_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                            const void *arg)
{
    const rt_chunked *x = arg;
    return chunked_pass(ctx, b, c, backward, x->chunk, true);
}
