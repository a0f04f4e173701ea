/* The proof of a plan, before a number is computed.  Here: every visible (query, key, head) is computed
 * exactly once.  Tiles are rectangles, so it is enough that no two overlap, that each says truly how many
 * visible pairs it has, and that the pairs add up to the mask's.  What moves is proved in deliver.c. */
#include "plan/grid.h"

#include <stdlib.h>

/* A tile's place in the order in which tiles that could overlap are neighbours. */
typedef struct {
    int32_t q, kv;
    int64_t head0, tile;
} cover;

static int cover_compare(const void *a, const void *b)
{
    const cover *x = a, *y = b;
    if (x->q != y->q)
        return x->q < y->q ? -1 : 1;
    if (x->kv != y->kv)
        return x->kv < y->kv ? -1 : 1;
    if (x->head0 != y->head0)
        return x->head0 < y->head0 ? -1 : 1;
    return (x->tile > y->tile) - (x->tile < y->tile);
}

static bool ranges_meet(int64_t a0, int64_t a1, int64_t b0, int64_t b1)
{
    return a0 < b1 && b0 < a1;
}

static bool tiles_overlap(const rt_tile *a, const rt_tile *b)
{
    return ranges_meet(a->q.head0, a->q.head1, b->q.head0, b->q.head1) &&
           ranges_meet(a->q.slot0, a->q.slot1, b->q.slot0, b->q.slot1) &&
           ranges_meet(a->kv.slot0, a->kv.slot1, b->kv.slot0, b->kv.slot1);
}

static rt_status overlap_fail(rt_context *ctx, const rt_pass *pass, const char *name, int64_t a, int64_t b)
{
    char q[RT_PIECE_TEXT], kv[RT_PIECE_TEXT];
    int64_t first = a < b ? a : b, second = a < b ? b : a;
    const rt_tile *t = &pass->tiles[second];
    return rt_fail(ctx, RT_ERR_FORMAT,
                   "%s step %lld rank %d: tile %lld computes again what tile %lld (step %lld, rank %d) "
                   "computes: %s, %s",
                   name, (long long)rt_pass_step_of_tile(pass, second), (int)t->rank, (long long)second,
                   (long long)first, (long long)rt_pass_step_of_tile(pass, first),
                   (int)pass->tiles[first].rank, rt_piece_text(q, RT_PAYLOAD_Q, &t->q),
                   rt_piece_text(kv, RT_PAYLOAD_KV, &t->kv));
}

/* The first step at which the owner of a q shard holds a kv shard; -1 if it never does. */
static int64_t meeting_step(const rt_pass *pass, int32_t q, int32_t kv)
{
    for (int64_t t = 0; t < pass->n_steps && q != kv; t++) {
        for (int64_t i = pass->steps[t].move0; i < pass->steps[t].move1; i++) {
            const rt_move *m = &pass->moves[i];
            if (m->payload == RT_PAYLOAD_KV && m->to == q && m->piece.shard == kv)
                return t + 1;
        }
    }
    return q == kv ? 0 : -1;
}

/* Some pairs are computed by no tile: find the first pair of shards that lacks them. */
static rt_status missing_fail(rt_context *ctx, const rt_pass *pass, const rt_pair_counter *c,
                              const cover *order, const char *name)
{
    int64_t at = 0;
    for (int32_t q = 0; q < c->l->ranks; q++) {
        for (int32_t kv = 0; kv < c->l->ranks; kv++) {
            rt_piece whole_q = rt_piece_whole(c->p, c->l, RT_SIDE_Q, q);
            rt_piece whole_kv = rt_piece_whole(c->p, c->l, RT_SIDE_KV, kv);
            int64_t want = rt_pair_counter_count(c, &whole_q, &whole_kv) * c->p->heads_q, got = 0;
            for (; at < pass->n_tiles && order[at].q == q && order[at].kv == kv; at++) {
                const rt_tile *t = &pass->tiles[order[at].tile];
                got += t->pairs * (t->q.head1 - t->q.head0);
            }
            if (got == want)
                continue;
            int64_t step = meeting_step(pass, q, kv);
            if (step < 0)
                return rt_fail(ctx, RT_ERR_FORMAT,
                               "%s rank %d: a tile is missing: Q shard %d against KV shard %d has %lld "
                               "visible pairs over "
                               "all heads, %lld are computed, and no step brings the two together there",
                               name, (int)q, (int)q, (int)kv, (long long)want, (long long)got);
            return rt_fail(ctx, RT_ERR_FORMAT,
                           "%s step %lld rank %d (where they meet first): a tile is missing: Q shard %d "
                           "against KV shard "
                           "%d has %lld visible pairs over all heads, %lld are computed",
                           name, (long long)step, (int)q, (int)q, (int)kv, (long long)want, (long long)got);
        }
    }
    return rt_fail(ctx, RT_ERR_FORMAT, "%s: the tiles' pairs do not add up to the mask's", name);
}

static rt_status pairs_check(rt_context *ctx, const rt_pass *pass, const rt_pair_counter *c,
                             const char *name)
{
    for (int64_t i = 0; i < pass->n_tiles; i++) {
        const rt_tile *t = &pass->tiles[i];
        if (i % 1024 == 0)
            rt_progress(ctx, "verifying the plan", i, pass->n_tiles);
        int64_t n = rt_pair_counter_count(c, &t->q, &t->kv);
        if (t->pairs != n) {
            char q[RT_PIECE_TEXT], kv[RT_PIECE_TEXT];
            return rt_fail(
                ctx, RT_ERR_FORMAT,
                "%s step %lld rank %d: tile %lld says %lld visible pairs; %s against %s has %lld", name,
                (long long)rt_pass_step_of_tile(pass, i), (int)t->rank, (long long)i, (long long)t->pairs,
                rt_piece_text(q, RT_PAYLOAD_Q, &t->q), rt_piece_text(kv, RT_PAYLOAD_KV, &t->kv),
                (long long)n);
        }
    }
    return RT_OK;
}

static rt_status disjoint_check(rt_context *ctx, const rt_pass *pass, const cover *order, const char *name)
{
    for (int64_t i = 0; i < pass->n_tiles; i++) {
        const rt_tile *a = &pass->tiles[order[i].tile];
        for (int64_t j = i + 1; j < pass->n_tiles && order[j].q == order[i].q &&
                                order[j].kv == order[i].kv && order[j].head0 < a->q.head1;
             j++) {
            if (tiles_overlap(a, &pass->tiles[order[j].tile]))
                return overlap_fail(ctx, pass, name, order[i].tile, order[j].tile);
        }
    }
    return RT_OK;
}

static rt_status cover_check(rt_context *ctx, const rt_pass *pass, const rt_pair_counter *c,
                             const char *name)
{
    RT_TRY(pairs_check(ctx, pass, c, name));
    cover *order = rt_alloc(ctx, pass->n_tiles, sizeof *order);
    if (order == NULL)
        return RT_ERR_NOMEM;
    int64_t got = 0, want = 0;
    for (int64_t i = 0; i < pass->n_tiles; i++) {
        const rt_tile *t = &pass->tiles[i];
        order[i] = (cover){t->q.shard, t->kv.shard, t->q.head0, i};
    }
    qsort(order, (size_t)pass->n_tiles, sizeof *order, cover_compare);
    rt_status status = disjoint_check(ctx, pass, order, name);
    if (status != RT_OK)
        goto free_order;
    /* only now: disjoint tiles cannot add up to more than the mask has, so nothing overflows */
    for (int64_t i = 0; i < pass->n_tiles; i++)
        got += pass->tiles[i].pairs * (pass->tiles[i].q.head1 - pass->tiles[i].q.head0);
    for (int64_t i = 0; i < c->p->seqlen_q; i++)
        for (int64_t b = 0; b < c->p->batch; b++)
            want += rt_mask_row_count(c->p, b, i, INT64_MAX) * c->p->heads_q;
    if (got != want)
        status = missing_fail(ctx, pass, c, order, name);

free_order:
    rt_free(order);
    return status;
}

static bool same_held(const rt_held *x, const rt_held *y)
{
    const rt_piece *a = &x->piece, *b = &y->piece;
    return x->payload == y->payload && x->rank == y->rank && x->buf == y->buf && a->side == b->side &&
           a->shard == b->shard && a->slot0 == b->slot0 && a->slot1 == b->slot1 && a->head0 == b->head0 &&
           a->head1 == b->head1;
}

/* The backward begins with what the forward keeps: one list, in both passes.  Both have a sound structure. */
static rt_status held_check(rt_context *ctx, const rt_pass *forward, const rt_pass *backward)
{
    char text[RT_PIECE_TEXT];
    for (int64_t i = 0; i < backward->n_held || i < forward->n_held; i++) {
        const bool here = i < backward->n_held, there = i < forward->n_held;
        if (here && there && same_held(&backward->held[i], &forward->held[i]))
            continue;
        const rt_held *x = here ? &backward->held[i] : &forward->held[i];
        return rt_fail(ctx, RT_ERR_FORMAT, "backward rank %d: held piece %lld, %s in buffer %d, is %s",
                       (int)x->rank, (long long)i, rt_piece_text(text, x->payload, &x->piece), (int)x->buf,
                       here ? "not what the forward keeps" : "kept by the forward, and not held here");
    }
    return RT_OK;
}

rt_status rt_plan_verify(rt_context *ctx, const rt_plan *plan, const rt_problem *p, const rt_layout *l)
{
    if (plan->part)
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "the plan has the tiles of ranks [%d, %d) only; a proof needs the whole plan",
                       (int)plan->of.first, (int)plan->of.end);
    if (plan->ranks != l->ranks)
        return rt_fail(ctx, RT_ERR_FORMAT, "the plan is for %d ranks, the layout for %d", (int)plan->ranks,
                       (int)l->ranks);
    if (l->side[RT_SIDE_Q].length != p->seqlen_q || l->side[RT_SIDE_KV].length != p->seqlen_k)
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "the layout is for Sq %lld, Sk %lld; the problem has Sq %lld, Sk %lld",
                       (long long)l->side[RT_SIDE_Q].length, (long long)l->side[RT_SIDE_KV].length,
                       (long long)p->seqlen_q, (long long)p->seqlen_k);
    rt_pair_counter c;
    RT_TRY(rt_pair_counter_init(ctx, p, l, &c));
    rt_status status = RT_OK;
    for (int backward = 0; backward < 2 && status == RT_OK; backward++) {
        const rt_pass *pass = backward ? &plan->backward : &plan->forward;
        status = rt_pass_structure_check(ctx, pass, p, l, backward);
        if (status == RT_OK && backward)
            status = held_check(ctx, &plan->forward, pass);
        if (status == RT_OK)
            status = cover_check(ctx, pass, &c, backward ? "backward" : "forward");
        if (status == RT_OK)
            status = rt_pass_deliver_check(ctx, pass, p, l, backward);
    }
    rt_pair_counter_reset(&c);
    return status;
}
