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

/* Whether the tiles of a rank are wanted. */
static bool wanted(const rt_builder *b, int32_t rank)
{
    return b->of == NULL || (rank >= b->of->first && rank < b->of->end);
}

rt_status rt_builder_tile(rt_context *ctx, rt_builder *b, const rt_tile *tile)
{
    rt_pass *pass = &b->pass;
    if (!wanted(b, tile->rank))
        return RT_OK;
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

rt_status rt_builder_send(rt_context *ctx, rt_builder *b, rt_payload payload, rt_piece piece, int32_t from,
                          int32_t to, int32_t src_buf, int32_t dst_buf, rt_how how)
{
    const rt_move move = {payload, piece, from, to, src_buf, dst_buf, how};
    if (piece.slot0 >= piece.slot1 || piece.head0 >= piece.head1)
        return RT_OK;
    return rt_builder_move(ctx, b, &move);
}

rt_status rt_builder_hold(rt_context *ctx, rt_builder *b, rt_payload payload, rt_piece piece, int32_t rank,
                          int32_t buf)
{
    rt_pass *pass = &b->pass;
    if (piece.slot0 >= piece.slot1 || piece.head0 >= piece.head1)
        return RT_OK;
    rt_held *held = array_grow(ctx, pass->held, pass->n_held, &b->cap_held, sizeof *held);
    if (held == NULL)
        return RT_ERR_NOMEM;
    pass->held = held;
    pass->held[pass->n_held++] = (rt_held){payload, piece, rank, buf};
    return RT_OK;
}

/* A tile of the last step with what decides its place. */
typedef struct {
    rt_tile tile;
    int64_t work, call_work, index;
} ranked;

static int by_call(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->tile.rank != y->tile.rank)
        return x->tile.rank < y->tile.rank ? -1 : 1;
    if (x->tile.call != y->tile.call)
        return x->tile.call < y->tile.call ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static int by_length(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->tile.rank != y->tile.rank)
        return x->tile.rank < y->tile.rank ? -1 : 1;
    if (x->call_work != y->call_work)
        return x->call_work > y->call_work ? -1 : 1;
    if (x->tile.call != y->tile.call)
        return x->tile.call < y->tile.call ? -1 : 1;
    if (x->work != y->work)
        return x->work > y->work ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static bool same_call(const rt_tile *a, const rt_tile *b)
{
    return a->rank == b->rank && a->call == b->call;
}

rt_status rt_builder_longest_first(rt_context *ctx, rt_builder *b)
{
    const rt_step *step = &b->pass.steps[b->pass.n_steps - 1];
    const int64_t n = step->tile1 - step->tile0;
    rt_tile *tiles = b->pass.tiles + step->tile0;
    if (n == 0)
        return RT_OK;
    ranked *x = rt_alloc(ctx, n, sizeof *x);
    if (x == NULL)
        return RT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++)
        x[i] = (ranked){tiles[i], tiles[i].pairs * (tiles[i].q.head1 - tiles[i].q.head0), 0, i};
    qsort(x, (size_t)n, sizeof *x, by_call);
    for (int64_t i = 0, end; i < n; i = end) {
        int64_t sum = 0;
        for (end = i; end < n && same_call(&x[i].tile, &x[end].tile); end++)
            sum += x[end].work;
        for (int64_t k = i; k < end; k++)
            x[k].call_work = sum;
    }
    qsort(x, (size_t)n, sizeof *x, by_length);
    int32_t call = 0;
    for (int64_t i = 0; i < n; i++) {
        tiles[i] = x[i].tile;
        if (i > 0)
            call = x[i].tile.rank != x[i - 1].tile.rank   ? 0
                   : x[i].tile.call != x[i - 1].tile.call ? call + 1
                                                          : call;
        tiles[i].call = call;
    }
    rt_free(x);
    return RT_OK;
}

int32_t rt_shard_buffer(int32_t rank, int32_t shard)
{
    return shard == rank ? 0 : shard + (shard < rank);
}

void rt_pass_reset(rt_pass *pass)
{
    rt_free(pass->steps);
    rt_free(pass->tiles);
    rt_free(pass->moves);
    rt_free(pass->held);
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
    if (l->kind == RT_LAYOUT_POSITIONS || l->kind == RT_LAYOUT_USP) { /* these may not ascend */
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

int64_t rt_tile_shrink(const rt_pair_counter *c, rt_tile *tile)
{
    const rt_layout_side *side = c->l->side;
    rt_piece *const piece[2] = {&tile->q, &tile->kv};
    int64_t cut[2][3]; /* of queries, of keys: begin, the shard's middle, end */
    bool halves = false;
    for (int s = 0; s < 2; s++) {
        const int64_t half = side[s].half[piece[s]->shard];
        cut[s][0] = piece[s]->slot0;
        cut[s][1] = half < piece[s]->slot0   ? piece[s]->slot0
                    : half > piece[s]->slot1 ? piece[s]->slot1
                                             : half;
        cut[s][2] = piece[s]->slot1;
        halves = halves || (cut[s][0] < cut[s][1] && cut[s][1] < cut[s][2]);
    }
    if (!halves)
        return tile->pairs = rt_pair_counter_count(c, &tile->q, &tile->kv);
    bool sees[2][2] = {{false, false}, {false, false}};
    tile->pairs = 0;
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            rt_piece q = tile->q, kv = tile->kv;
            q.slot0 = cut[RT_SIDE_Q][a];
            q.slot1 = cut[RT_SIDE_Q][a + 1];
            kv.slot0 = cut[RT_SIDE_KV][b];
            kv.slot1 = cut[RT_SIDE_KV][b + 1];
            const int64_t n = rt_pair_counter_count(c, &q, &kv);
            sees[RT_SIDE_Q][a] = sees[RT_SIDE_Q][a] || n > 0;
            sees[RT_SIDE_KV][b] = sees[RT_SIDE_KV][b] || n > 0;
            tile->pairs += n;
        }
    for (int s = 0; s < 2 && tile->pairs > 0; s++) {
        piece[s]->slot0 = sees[s][0] ? cut[s][0] : cut[s][1];
        piece[s]->slot1 = sees[s][1] ? cut[s][2] : cut[s][1];
    }
    return tile->pairs;
}

rt_status rt_builder_compute(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, rt_tile tile)
{
    if (!wanted(b, tile.rank) || tile.q.head0 >= tile.q.head1 || rt_tile_shrink(c, &tile) == 0)
        return RT_OK;
    return rt_builder_tile(ctx, b, &tile);
}

rt_status rt_plan_passes(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                         rt_pass_fn make, const void *arg, rt_plan *out)
{
    rt_builder pass[2];
    rt_pair_counter c;
    memset(pass, 0, sizeof pass);
    pass[0].of = pass[1].of = o->of;
    RT_TRY(rt_pair_counter_init(ctx, p, l, &c));
    rt_status status = make(ctx, &pass[0], &c, false, arg);
    if (status == RT_OK)
        status = make(ctx, &pass[1], &c, true, arg);
    rt_pair_counter_reset(&c);
    if (status != RT_OK)
        goto reset_passes;
    memset(out, 0, sizeof *out);
    out->ranks = l->ranks;
    out->forward = pass[0].pass;
    out->backward = pass[1].pass;
    return RT_OK;

reset_passes:
    rt_pass_reset(&pass[0].pass);
    rt_pass_reset(&pass[1].pass);
    return status;
}

rt_status rt_shard_grid(rt_context *ctx, const rt_pair_counter *c, uint8_t **out)
{
    const int32_t ranks = c->l->ranks;
    uint8_t *grid = rt_alloc(ctx, (int64_t)ranks * ranks, 1);
    if (grid == NULL)
        return RT_ERR_NOMEM;
    for (int32_t q = 0; q < ranks; q++) {
        const rt_piece q_piece = rt_piece_whole(c->p, c->l, RT_SIDE_Q, q);
        for (int32_t kv = 0; kv < ranks; kv++) {
            const rt_piece kv_piece = rt_piece_whole(c->p, c->l, RT_SIDE_KV, kv);
            grid[(int64_t)q * ranks + kv] = rt_pair_counter_count(c, &q_piece, &kv_piece) > 0;
        }
    }
    *out = grid;
    return RT_OK;
}

int64_t rt_pass_step_of_tile(const rt_pass *pass, int64_t i)
{
    for (int64_t t = 0; t < pass->n_steps; t++) {
        if (pass->steps[t].tile0 <= i && i < pass->steps[t].tile1)
            return t;
    }
    return -1;
}
