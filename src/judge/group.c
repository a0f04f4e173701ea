/* Groups of positions by kernel call.
 *
 * The grid of the pass cuts each shard into runs of slots that no tile divides.  For every run y of the
 * other side and every class of query heads there is the number of the call that meets run x, or none: the
 * signature of x.  Runs whose signatures never differ where both have a call are put together, in order:
 * nothing can tell them apart. */
#include "judge/group.h"

#include <string.h>

#include "plan/grid.h"

enum { NONE = -1 };
/* A table beyond this (calls) is not built: then a group is what a shard brings, as in a ring. */
#define MOST_ENTRIES ((int64_t)1 << 25)

typedef struct {
    const rt_layout *l;
    rt_grid grid;
    int64_t *slot_first[2]; /* P + 1: runs of slots of the shards before r */
    int64_t runs[2];        /* in all */
    int64_t *head_class;    /* Hq + 1: query heads that no tile tells apart have one number */
    int64_t heads;          /* how many */
} runs;

/* The whole shard as a piece. */
static rt_piece whole(const rt_problem *p, const rt_layout *l, rt_side side, int32_t r)
{
    return (rt_piece){
        side, r, 0, rt_layout_count(l, side, r), 0, side == RT_SIDE_Q ? p->heads_q : p->heads_kv};
}

static rt_status runs_create(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_pass *pass,
                             runs *x)
{
    memset(x, 0, sizeof *x);
    x->l = l;
    RT_TRY(rt_grid_create(ctx, pass, p, l, &x->grid));
    for (int s = 0; s < 2; s++) {
        x->slot_first[s] = rt_calloc(ctx, (int64_t)l->ranks + 1, sizeof *x->slot_first[s]);
        if (x->slot_first[s] == NULL)
            return RT_ERR_NOMEM;
        for (int32_t r = 0; r < l->ranks; r++) {
            const rt_piece piece = whole(p, l, (rt_side)s, r);
            const rt_cells c = rt_grid_cells(&x->grid, &piece);
            x->slot_first[s][r + 1] = x->slot_first[s][r] + c.s1;
        }
        x->runs[s] = x->slot_first[s][l->ranks];
    }
    x->head_class = rt_calloc(ctx, p->heads_q + 1, sizeof *x->head_class);
    if (x->head_class == NULL)
        return RT_ERR_NOMEM;
    for (int64_t i = 0; i < pass->n_tiles; i++)
        x->head_class[pass->tiles[i].q.head0] = x->head_class[pass->tiles[i].q.head1] = 1;
    x->head_class[0] = 0;
    for (int64_t h = 1; h < p->heads_q; h++)
        x->head_class[h] += x->head_class[h - 1];
    x->heads = x->head_class[p->heads_q - 1] + 1;
    return RT_OK;
}

static void runs_reset(runs *x)
{
    rt_grid_reset(&x->grid);
    rt_free(x->slot_first[0]);
    rt_free(x->slot_first[1]);
    rt_free(x->head_class);
}

/* The numbers of the calls: table[x * width + y * heads + h], x a run of `side`, y one of the other, h a
 * class of query heads. */
static void fill(const runs *r, const rt_pass *pass, rt_side side, int32_t ranks, int32_t *table)
{
    const rt_side other = side == RT_SIDE_KV ? RT_SIDE_Q : RT_SIDE_KV;
    const int64_t width = r->runs[other] * r->heads;
    for (int64_t i = 0; i < r->runs[side] * width; i++)
        table[i] = NONE;
    int32_t base = 0, most = 0; /* calls are numbered within (rank, step) */
    for (int64_t i = 0; i < pass->n_tiles; i++)
        most = pass->tiles[i].call > most ? pass->tiles[i].call : most;
    for (int64_t t = 0; t < pass->n_steps; t++, base += ranks * (most + 1))
        for (int64_t i = pass->steps[t].tile0; i < pass->steps[t].tile1; i++) {
            const rt_tile *tile = &pass->tiles[i];
            const rt_cells q = rt_grid_cells(&r->grid, &tile->q), k = rt_grid_cells(&r->grid, &tile->kv);
            const rt_cells *mine = side == RT_SIDE_KV ? &k : &q, *theirs = side == RT_SIDE_KV ? &q : &k;
            const int64_t x0 = r->slot_first[side][side == RT_SIDE_KV ? tile->kv.shard : tile->q.shard],
                          y0 = r->slot_first[other][side == RT_SIDE_KV ? tile->q.shard : tile->kv.shard];
            for (int64_t x = mine->s0; x < mine->s1; x++)
                for (int64_t y = theirs->s0; y < theirs->s1; y++)
                    for (int64_t h = r->head_class[tile->q.head0]; h <= r->head_class[tile->q.head1 - 1];
                         h++)
                        table[(x0 + x) * width + (y0 + y) * r->heads + h] =
                            base + tile->rank * (most + 1) + tile->call;
        }
}

static bool together(const int32_t *a, const int32_t *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i] && a[i] != NONE && b[i] != NONE)
            return false;
    return true;
}

/* The group of each run; table becomes the groups' joint signatures. */
static int32_t merge(int32_t *table, int64_t n, int64_t width, int32_t *group)
{
    int32_t groups = 0;
    for (int64_t x = 0; x < n; x++) {
        const int32_t *row = table + x * width;
        int32_t g = 0;
        while (g < groups && !together(table + g * width, row, width))
            g++;
        int32_t *to = table + g * width;
        for (int64_t i = 0; i < width && g < groups; i++)
            to[i] = row[i] == NONE ? to[i] : row[i];
        if (g == groups) {
            memmove(to, row, (size_t)width * sizeof *to);
            groups++;
        }
        group[x] = g;
    }
    return groups;
}

/* Of run y of the other side: its calls over all heads, without those that it meets as groups. */
static int32_t extra(const int32_t *table, int32_t groups, int64_t width, int64_t heads, int64_t y)
{
    int32_t calls = 0, met = 0;
    for (int32_t g = 0; g < groups; g++) {
        const int32_t *row = table + g * width + y * heads;
        int32_t distinct = 0;
        for (int64_t h = 0; h < heads; h++) {
            bool before = row[h] == NONE;
            for (int64_t k = 0; k < h && !before; k++)
                before = row[k] == row[h];
            distinct += !before;
        }
        calls += distinct;
        met += distinct > 0;
    }
    return calls - met;
}

/* Runs of a shard are told apart by the grid: the run of each position. */
static void spread(const runs *r, rt_side side, int32_t shard, const int32_t *value, int32_t *out)
{
    const int64_t n = rt_layout_count(r->l, side, shard);
    const int64_t *pos = rt_layout_positions(r->l, side, shard);
    for (int64_t x = 0; x < n; x++) {
        const rt_piece one = {side, shard, x, x + 1, 0, r->grid.heads[side]};
        out[pos[x]] = value[r->slot_first[side][shard] + rt_grid_cells(&r->grid, &one).s0];
    }
}

rt_status rt_call_groups(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_pass *pass,
                         rt_side side, int32_t *group_of, int32_t *groups, int32_t *again)
{
    const rt_side other = side == RT_SIDE_KV ? RT_SIDE_Q : RT_SIDE_KV;
    memset(group_of, 0, (size_t)l->side[side].length * sizeof *group_of);
    if (again != NULL)
        memset(again, 0, (size_t)l->side[other].length * sizeof *again);
    *groups = 1;
    runs r;
    int32_t *table = NULL, *run = NULL;
    rt_status st = runs_create(ctx, p, l, pass, &r);
    if (st != RT_OK)
        goto reset_runs;
    const int64_t n = r.runs[side], width = r.runs[other] * r.heads;
    if (n * width > MOST_ENTRIES) {
        memcpy(group_of, l->side[side].rank_of, (size_t)l->side[side].length * sizeof *group_of);
        *groups = l->ranks;
        goto reset_runs;
    }
    table = rt_alloc(ctx, n * width, sizeof *table);
    run = rt_alloc(ctx, n + r.runs[other], sizeof *run);
    st = table == NULL || run == NULL ? RT_ERR_NOMEM : RT_OK;
    if (st != RT_OK)
        goto free_table;
    fill(&r, pass, side, l->ranks, table);
    *groups = merge(table, n, width, run);
    for (int32_t s = 0; s < l->ranks; s++)
        spread(&r, side, s, run, group_of);
    for (int64_t y = 0; y < r.runs[other]; y++)
        run[n + y] = again == NULL ? 0 : extra(table, *groups, width, r.heads, y);
    for (int32_t s = 0; s < l->ranks && again != NULL; s++)
        spread(&r, other, s, run + n, again);
free_table:
    rt_free(table);
    rt_free(run);
reset_runs:
    runs_reset(&r);
    return st;
}
