/* The grid of cells of a pass.  Boundaries are marked first, then numbered, so that memory is one
 * integer per slot and per head and rank, whatever the plan. */
#include "plan/grid.h"

#include <string.h>

void rt_grid_reset(rt_grid *g)
{
    for (int s = 0; s < 2; s++) {
        rt_free(g->slot_cell[s]);
        rt_free(g->head_cell[s]);
        rt_free(g->offset[s]);
    }
    memset(g, 0, sizeof *g);
}

static int32_t *slot_row(const rt_grid *g, rt_side side, int32_t shard)
{
    return g->slot_cell[side] + g->l->side[side].first[shard] + shard;
}

static int32_t *head_row(const rt_grid *g, rt_side side, int32_t shard)
{
    return g->head_cell[side] + shard * (g->heads[side] + 1);
}

static void grid_mark(const rt_grid *g, const rt_piece *piece)
{
    int32_t *slot = slot_row(g, piece->side, piece->shard), *head = head_row(g, piece->side, piece->shard);
    slot[piece->slot0] = slot[piece->slot1] = 1;
    head[piece->head0] = head[piece->head1] = 1;
}

/* Turn marks at 0 .. n into the number of the cell that begins there; returns the number of cells. */
static int64_t grid_number(int32_t *mark, int64_t n)
{
    int32_t cell = -1;
    mark[0] = 1;
    for (int64_t x = 0; x < n; x++) {
        cell += mark[x];
        mark[x] = cell;
    }
    mark[n] = cell + 1;
    return cell + 1;
}

rt_status rt_grid_create(rt_context *ctx, const rt_pass *pass, const rt_problem *p, const rt_layout *l,
                         rt_grid *out)
{
    rt_grid g;
    memset(&g, 0, sizeof g);
    g.l = l;
    g.heads[RT_SIDE_Q] = p->heads_q;
    g.heads[RT_SIDE_KV] = p->heads_kv;
    for (int s = 0; s < 2; s++) {
        g.slot_cell[s] = rt_calloc(ctx, l->side[s].length + l->ranks, sizeof *g.slot_cell[s]);
        g.head_cell[s] = rt_calloc(ctx, l->ranks * (g.heads[s] + 1), sizeof *g.head_cell[s]);
        g.offset[s] = rt_calloc(ctx, (int64_t)l->ranks + 1, sizeof *g.offset[s]);
        if (g.slot_cell[s] == NULL || g.head_cell[s] == NULL || g.offset[s] == NULL)
            goto free_grid;
    }
    for (int64_t i = 0; i < pass->n_tiles; i++) {
        grid_mark(&g, &pass->tiles[i].q);
        grid_mark(&g, &pass->tiles[i].kv);
    }
    for (int64_t i = 0; i < pass->n_moves; i++)
        grid_mark(&g, &pass->moves[i].piece);
    for (int64_t i = 0; i < pass->n_held; i++)
        grid_mark(&g, &pass->held[i].piece);
    for (int s = 0; s < 2; s++) {
        for (int32_t r = 0; r < l->ranks; r++) {
            int64_t cells = grid_number(slot_row(&g, (rt_side)s, r), rt_layout_count(l, (rt_side)s, r)) *
                            grid_number(head_row(&g, (rt_side)s, r), g.heads[s]);
            g.offset[s][r + 1] = g.offset[s][r] + cells;
            if (cells > g.max_cells[s])
                g.max_cells[s] = cells;
        }
    }
    *out = g;
    return RT_OK;

free_grid:
    rt_grid_reset(&g);
    return RT_ERR_NOMEM;
}

rt_cells rt_grid_cells(const rt_grid *g, const rt_piece *piece)
{
    const int32_t *slot = slot_row(g, piece->side, piece->shard),
                  *head = head_row(g, piece->side, piece->shard);
    rt_cells c = {slot[piece->slot0], slot[piece->slot1], head[piece->head0], head[piece->head1],
                  head[g->heads[piece->side]]};
    return c;
}

rt_piece rt_grid_piece(const rt_grid *g, rt_side side, int32_t shard, int64_t cell)
{
    const int32_t *slot = slot_row(g, side, shard), *head = head_row(g, side, shard);
    const int64_t width = head[g->heads[side]], n = rt_layout_count(g->l, side, shard);
    rt_piece piece = {side, shard, 0, n, 0, g->heads[side]};
    for (int64_t x = n - 1; x >= 0 && slot[x] >= cell / width; x--) {
        piece.slot1 = slot[x] > cell / width ? x : piece.slot1;
        piece.slot0 = x;
    }
    for (int64_t x = g->heads[side] - 1; x >= 0 && head[x] >= cell % width; x--) {
        piece.head1 = head[x] > cell % width ? x : piece.head1;
        piece.head0 = x;
    }
    return piece;
}

rt_status rt_grid_rows_create(rt_context *ctx, const rt_grid *g, rt_side side, int64_t **out)
{
    int64_t *rows = rt_calloc(ctx, g->offset[side][g->l->ranks], sizeof *rows);
    if (rows == NULL)
        return RT_ERR_NOMEM;
    for (int32_t r = 0; r < g->l->ranks; r++) {
        const int32_t *slot = slot_row(g, side, r), *head = head_row(g, side, r);
        const int64_t n = rt_layout_count(g->l, side, r), heads = g->heads[side], width = head[heads];
        int64_t *shard = rows + g->offset[side][r];
        /* slots first, in the cells of the first head; then each times its heads */
        for (int64_t x = 0; x < n; x++)
            shard[slot[x] * width]++;
        for (int64_t s = 0; s < slot[n]; s++) {
            const int64_t slots = shard[s * width];
            shard[s * width] = 0;
            for (int64_t h = 0; h < heads; h++)
                shard[s * width + head[h]] += slots;
        }
    }
    *out = rows;
    return RT_OK;
}

int64_t rt_buffer_row(const rt_layout *l, rt_payload payload, int32_t rank)
{
    return (int64_t)payload * l->ranks + rank;
}

rt_status rt_buffer_table_create(rt_context *ctx, const rt_pass *pass, const rt_layout *l, int64_t **out)
{
    const int64_t rows = (int64_t)RT_PAYLOAD_COUNT * l->ranks;
    int64_t *first = rt_calloc(ctx, rows + 1, sizeof *first);
    if (first == NULL)
        return RT_ERR_NOMEM;
    int64_t *most = first + 1; /* the highest number of each row, which then becomes the running sum */
    for (int64_t i = 0; i < pass->n_tiles; i++) {
        const rt_tile *t = &pass->tiles[i];
        const int32_t used[RT_PAYLOAD_COUNT] = {t->q_buf, t->kv_buf, t->dst_q,
                                                t->q_buf, t->dst_q,  t->dst_kv};
        for (int k = 0; k < RT_PAYLOAD_COUNT; k++) {
            int64_t row = rt_buffer_row(l, (rt_payload)k, t->rank);
            most[row] = used[k] > most[row] ? used[k] : most[row];
        }
    }
    for (int64_t i = 0; i < pass->n_moves; i++) {
        const rt_move *m = &pass->moves[i];
        int64_t from = rt_buffer_row(l, m->payload, m->from), to = rt_buffer_row(l, m->payload, m->to);
        most[from] = m->src_buf > most[from] ? m->src_buf : most[from];
        most[to] = m->dst_buf > most[to] ? m->dst_buf : most[to];
    }
    for (int64_t i = 0; i < pass->n_held; i++) {
        const rt_held *x = &pass->held[i];
        const int64_t row = rt_buffer_row(l, x->payload, x->rank);
        most[row] = x->buf > most[row] ? x->buf : most[row];
    }
    for (int64_t row = 0; row < rows; row++)
        first[row + 1] += first[row] + 1;
    *out = first;
    return RT_OK;
}
