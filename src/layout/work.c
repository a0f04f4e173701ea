/* Dealing blocks by their work. */
#include "layout/build.h"

#include <stdlib.h>

typedef struct {
    int64_t work, index;
} item;

static int by_work(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->work != y->work)
        return x->work > y->work ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

rt_status rt_deal(rt_context *ctx, const int64_t *work, int64_t n, int32_t ranks, int64_t *rank)
{
    item *items = rt_alloc(ctx, n, sizeof *items);
    if (items == NULL)
        return RT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++)
        items[i] = (item){work[i], i};
    qsort(items, (size_t)n, sizeof *items, by_work);
    for (int64_t i = 0; i < n; i++) {
        const int64_t turn = i / ranks, seat = i % ranks;
        rank[items[i].index] = turn % 2 == 0 ? seat : ranks - 1 - seat;
    }
    rt_free(items);
    return RT_OK;
}
