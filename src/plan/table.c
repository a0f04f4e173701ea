/* A pass as a table: a row per step, a column per rank, in each cell the pairs of shards that the rank computes. */
#include "plan/build.h"

#include <stdlib.h>
#include <string.h>

static int tile_compare(const void *a, const void *b)
{
    const rt_tile *x = *(const rt_tile *const *)a, *y = *(const rt_tile *const *)b;
    const int32_t key[3][2] = {{x->rank, y->rank}, {x->q.shard, y->q.shard}, {x->kv.shard, y->kv.shard}};
    for (int k = 0; k < 3; k++)
        if (key[k][0] != key[k][1])
            return key[k][0] < key[k][1] ? -1 : 1;
    return 0;
}

/* The tiles of a step by rank, one of each pair of shards; returns how many. */
static int64_t step_pairs(const rt_pass *pass, int64_t step, const rt_tile **order)
{
    int64_t n = 0, kept = 0;
    for (int64_t i = pass->steps[step].tile0; i < pass->steps[step].tile1; i++)
        order[n++] = &pass->tiles[i];
    qsort(order, (size_t)n, sizeof *order, tile_compare);
    for (int64_t i = 0; i < n; i++)
        if (kept == 0 || tile_compare(&order[kept - 1], &order[i]) != 0)
            order[kept++] = order[i];
    return kept;
}

/* The text of a rank's cell, from order[*at] on: "q2k0+q2k1", or "." for nothing.  Printed to the right of `width`
 * characters if f is not NULL; returns its length. */
static int cell(FILE *f, const rt_tile *const *order, int64_t n, int32_t rank, int64_t *at, int width)
{
    const int64_t first = *at;
    int length = 0;
    while (*at < n && order[*at]->rank == rank)
        ++*at;
    for (int64_t i = first; i < *at; i++)
        length +=
            (i > first) + snprintf(NULL, 0, "q%dk%d", (int)order[i]->q.shard, (int)order[i]->kv.shard);
    length = length > 0 ? length : 1;
    if (f == NULL)
        return length;
    fprintf(f, " %*s", width - length, "");
    if (first == *at)
        fprintf(f, ".");
    for (int64_t i = first; i < *at; i++)
        fprintf(f, "%sq%dk%d", i > first ? "+" : "", (int)order[i]->q.shard, (int)order[i]->kv.shard);
    return length;
}

rt_status rt_pass_table(rt_context *ctx, FILE *f, const rt_pass *pass, int32_t ranks, const char *name)
{
    const rt_tile **order = rt_alloc(ctx, pass->n_tiles, sizeof *order);
    if (order == NULL)
        return RT_ERR_NOMEM;
    int width = snprintf(NULL, 0, "rank%d", (int)ranks - 1);
    for (int64_t t = 0; t < pass->n_steps; t++) {
        const int64_t n = step_pairs(pass, t, order);
        int64_t at = 0;
        for (int32_t r = 0; r < ranks; r++) {
            const int length = cell(NULL, order, n, r, &at, 0);
            width = length > width ? length : width;
        }
    }
    fprintf(f, "# %-8s %6s", "pass", "step");
    for (int32_t r = 0; r < ranks; r++)
        fprintf(f, " %*srank%d", width - snprintf(NULL, 0, "rank%d", (int)r), "", (int)r);
    fprintf(f, "\n");
    for (int64_t t = 0; t < pass->n_steps; t++) {
        const int64_t n = step_pairs(pass, t, order);
        int64_t at = 0;
        fprintf(f, "  %-8s %6lld", name, (long long)t);
        for (int32_t r = 0; r < ranks; r++)
            (void)cell(f, order, n, r, &at, width);
        fprintf(f, "\n");
    }
    rt_free(order);
    return RT_OK;
}
