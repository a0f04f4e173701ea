/* A pass that grows, and the counting of visible pairs: what every planner needs. */
#include "plan/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more item; the array doubles. */
static void *array_grow(rt_context *ctx, void *old, int64_t n, int64_t *cap, size_t size)
{
    if (n < *cap)
        return old;
    int64_t want = *cap > 0 ? 2 * *cap : 16;
    void *bigger = rt_alloc(ctx, want, size);
    if (bigger == NULL)
        return NULL;
    if (n > 0)
        memcpy(bigger, old, (size_t)n * size);
    rt_free(old);
    *cap = want;
    return bigger;
}

rt_status rt_builder_step(rt_context *ctx, rt_builder *b)
{
    rt_pass *pass = &b->pass;
    rt_step *steps = array_grow(ctx, pass->steps, pass->n_steps, &b->cap_steps, sizeof *steps);
    if (steps == NULL)
        return RT_ERR_NOMEM;
    pass->steps = steps;
    pass->steps[pass->n_steps++] = (rt_step){pass->n_tiles, pass->n_tiles, pass->n_moves, pass->n_moves};
    return RT_OK;
}

rt_status rt_builder_tile(rt_context *ctx, rt_builder *b, const rt_tile *tile)
{
    rt_pass *pass = &b->pass;
    rt_tile *tiles = array_grow(ctx, pass->tiles, pass->n_tiles, &b->cap_tiles, sizeof *tiles);
    if (tiles == NULL)
        return RT_ERR_NOMEM;
    pass->tiles = tiles;
    pass->tiles[pass->n_tiles++] = *tile;
    pass->steps[pass->n_steps - 1].tile1 = pass->n_tiles;
    return RT_OK;
}

rt_status rt_builder_move(rt_context *ctx, rt_builder *b, const rt_move *move)
{
    rt_pass *pass = &b->pass;
    rt_move *moves = array_grow(ctx, pass->moves, pass->n_moves, &b->cap_moves, sizeof *moves);
    if (moves == NULL)
        return RT_ERR_NOMEM;
    pass->moves = moves;
    pass->moves[pass->n_moves++] = *move;
    pass->steps[pass->n_steps - 1].move1 = pass->n_moves;
    return RT_OK;
}

void rt_pass_reset(rt_pass *pass)
{
    rt_free(pass->steps);
    rt_free(pass->tiles);
    rt_free(pass->moves);
    memset(pass, 0, sizeof *pass);
}

rt_piece rt_piece_whole(const rt_problem *p, const rt_layout *l, rt_side side, int32_t shard)
{
    rt_piece piece = {
        side, shard, 0, rt_layout_count(l, side, shard), 0, side == RT_SIDE_Q ? p->heads_q : p->heads_kv};
    return piece;
}

const char *rt_piece_text(char text[RT_PIECE_TEXT], rt_payload payload, const rt_piece *piece)
{
    (void)snprintf(text, RT_PIECE_TEXT, "%s shard %d slots [%lld, %lld) heads [%lld, %lld)",
                   rt_payload_name(payload), (int)piece->shard, (long long)piece->slot0,
                   (long long)piece->slot1, (long long)piece->head0, (long long)piece->head1);
    return text;
}

rt_side rt_payload_side(rt_payload payload)
{
    return payload == RT_PAYLOAD_KV || payload == RT_PAYLOAD_DKV ? RT_SIDE_KV : RT_SIDE_Q;
}

bool rt_payload_is_result(rt_payload payload)
{
    return payload == RT_PAYLOAD_STATE || payload == RT_PAYLOAD_DQ || payload == RT_PAYLOAD_DKV;
}

static int position_compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

rt_status rt_pair_counter_init(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                               rt_pair_counter *out)
{
    rt_pair_counter c = {p, l, NULL};
    if (l->kind == RT_LAYOUT_POSITIONS) {
        const rt_layout_side *s = &l->side[RT_SIDE_KV];
        c.sorted_kv = rt_alloc(ctx, s->length, sizeof *c.sorted_kv);
        if (c.sorted_kv == NULL)
            return RT_ERR_NOMEM;
        memcpy(c.sorted_kv, s->pos, (size_t)s->length * sizeof *c.sorted_kv);
        for (int32_t r = 0; r < l->ranks; r++)
            qsort(c.sorted_kv + s->first[r], (size_t)rt_layout_count(l, RT_SIDE_KV, r), sizeof *c.sorted_kv,
                  position_compare);
    }
    *out = c;
    return RT_OK;
}

void rt_pair_counter_reset(rt_pair_counter *c)
{
    rt_free(c->sorted_kv);
    c->sorted_kv = NULL;
}

int64_t rt_pair_counter_count(const rt_pair_counter *c, const rt_piece *q, const rt_piece *kv)
{
    const int64_t *q_pos = rt_layout_positions(c->l, RT_SIDE_Q, q->shard) + q->slot0;
    const int64_t *k_pos = rt_layout_positions(c->l, RT_SIDE_KV, kv->shard) + kv->slot0;
    int64_t n_k = kv->slot1 - kv->slot0;
    if (c->sorted_kv != NULL && n_k == rt_layout_count(c->l, RT_SIDE_KV, kv->shard))
        k_pos = c->sorted_kv + c->l->side[RT_SIDE_KV].first[kv->shard];
    return rt_mask_pairs(c->p, q_pos, q->slot1 - q->slot0, k_pos, n_k);
}

int64_t rt_pass_step_of_tile(const rt_pass *pass, int64_t i)
{
    for (int64_t t = 0; t < pass->n_steps; t++) {
        if (pass->steps[t].tile0 <= i && i < pass->steps[t].tile1)
            return t;
    }
    return -1;
}
