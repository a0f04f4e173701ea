/* Rings over chunks of queries.  Keys stay cached at home, so every chunk's ring of keys starts there again; it
 * carries the slots that the chunk's queries see, not the keys of later chunks. */
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

/* The last slot from `from` on that the queries see, plus 1; `from` if they see none. */
static int64_t seen_end(const rt_pair_counter *c, const rt_piece *q, rt_piece kv, int64_t from)
{
    const int64_t end = kv.slot1;
    kv.slot0 = from;
    if (from >= end || rt_pair_counter_count(c, q, &kv) == 0)
        return from;
    int64_t low = from, high = end;
    while (high - low > 1) { /* something is seen from `low` on, nothing from `high` on */
        kv.slot0 = low + (high - low) / 2;
        if (rt_pair_counter_count(c, q, &kv) > 0)
            low = kv.slot0;
        else
            high = kv.slot0;
    }
    return high;
}

/* The first slot below `to` that the queries see; `to` if they see none. */
static int64_t seen_begin(const rt_pair_counter *c, const rt_piece *q, rt_piece kv, int64_t to)
{
    kv.slot1 = to;
    if (to <= kv.slot0 || rt_pair_counter_count(c, q, &kv) == 0)
        return to;
    int64_t low = kv.slot0, high = to;
    while (high - low > 1) { /* nothing is seen below `low`, something below `high` */
        kv.slot1 = low + (high - low) / 2;
        if (rt_pair_counter_count(c, q, &kv) > 0)
            high = kv.slot1;
        else
            low = kv.slot1;
    }
    return low;
}

/* The slots of a shard of keys from the first to the last that some query of chunk n sees; all of them where the queries
 * are not cut. */
static rt_piece chunk_keys(const rt_pair_counter *c, int32_t shard, int64_t n, int64_t chunk)
{
    const rt_piece whole = rt_piece_whole(c->p, c->l, RT_SIDE_KV, shard);
    rt_piece keys = whole;
    if (chunk == 0)
        return keys;
    keys.slot0 = whole.slot1;
    keys.slot1 = 0;
    for (int32_t r = 0; r < c->l->ranks; r++) {
        const rt_piece q = chunk_piece(c, r, n, chunk);
        if (q.slot0 < q.slot1) {
            keys.slot1 = seen_end(c, &q, whole, keys.slot1);
            keys.slot0 = seen_begin(c, &q, whole, keys.slot0);
        }
    }
    if (keys.slot1 <= keys.slot0)
        keys.slot0 = keys.slot1 = 0;
    return keys;
}

/* keys: of chunk n, by shard */
static rt_status kv_step(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                         int64_t chunk, int64_t n, int64_t t, const rt_piece *keys)
{
    const int32_t ranks = c->l->ranks;
    rt_tile tile;
    memset(&tile, 0, sizeof tile);
    tile.kv_buf = ring_buffer(t);
    tile.dst_kv = backward && ranks > 1 ? follow_buffer(t) : 0;
    for (int32_t r = 0; r < ranks && t < ranks; r++) {
        tile.rank = r;
        tile.q = chunk_piece(c, r, n, chunk);
        tile.kv = keys[ring_rank(r - t, ranks)];
        RT_TRY(rt_builder_compute(ctx, b, c, tile));
    }
    for (int32_t r = 0; r < ranks && t < ranks - 1; r++)
        RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_KV, keys[ring_rank(r - t, ranks)], r,
                               ring_rank((int64_t)r + 1, ranks), ring_buffer(t), ring_buffer(t + 1),
                               RT_PUT));
    for (int32_t r = 0; r < ranks && backward && t > 0; r++)
        RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_DKV, keys[ring_rank(r - (t - 1), ranks)], r,
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
    rt_piece *keys = rt_alloc(ctx, ranks, sizeof *keys);
    rt_status st = keys == NULL ? RT_ERR_NOMEM : RT_OK;
    for (int64_t n = 0; n < chunks && st == RT_OK; n++) {
        for (int32_t r = 0; r < ranks && !queries_move; r++)
            keys[r] = chunk_keys(c, r, n, chunk);
        for (int64_t t = 0; t < steps && st == RT_OK; t++) {
            rt_progress(ctx, backward ? "planning backward" : "planning forward", n * steps + t,
                        chunks * steps);
            st = rt_builder_step(ctx, b);
            if (st == RT_OK)
                st = queries_move ? q_step(ctx, b, c, backward, chunk, n, t)
                                  : kv_step(ctx, b, c, backward, chunk, n, t, keys);
            if (st == RT_OK && queries_move && !backward && t == 0 &&
                n > 0) /* while the next chunk begins */
                st = states_home(ctx, b, c, chunk, n - 1);
        }
    }
    rt_free(keys);
    if (st != RT_OK || !queries_move || backward || ranks == 1)
        return st;
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
