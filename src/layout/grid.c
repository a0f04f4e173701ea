/* Process grids and the groups along their axes. */
#include <ringtrue/grid.h>

#include <stdio.h>
#include <string.h>

#include "layout/grid.h"

void rt_groups_reset(rt_groups *g)
{
    if (g == NULL)
        return;
    rt_free(g->first);
    rt_free(g->ranks);
    memset(g, 0, sizeof *g);
}

rt_status rt_groups_alloc(rt_context *ctx, int64_t count, int64_t ranks, rt_groups *out)
{
    rt_groups g = {.count = 0};
    g.first = rt_calloc(ctx, count + 1, sizeof *g.first);
    g.ranks = rt_alloc(ctx, ranks, sizeof *g.ranks);
    if (g.first == NULL || g.ranks == NULL) {
        rt_groups_reset(&g);
        return RT_ERR_NOMEM;
    }
    *out = g;
    return RT_OK;
}

/* Is `name`, n characters long, one of the axes of "a-b-c"? */
static bool listed(const char *axes, const char *name, size_t n)
{
    for (const char *at = axes; *at != '\0'; at += *at == '-') {
        const size_t word = strcspn(at, "-");
        if (word == n && strncmp(at, name, n) == 0)
            return true;
        at += word;
    }
    return false;
}

rt_status rt_grid_init(rt_context *ctx, const char *order, const char *const *names, const int64_t *sizes,
                       int64_t n, rt_grid *out)
{
    rt_grid g = {.world = 1};
    for (int64_t i = 0; i < n; i++)
        if (sizes[i] < 1)
            return rt_fail(ctx, RT_ERR_ARG, "%s is %lld; it must be at least 1", names[i],
                           (long long)sizes[i]);
    for (const char *at = order; *at != '\0'; at += *at == '-') {
        const size_t word = strcspn(at, "-");
        if (word == 0 || word >= sizeof g.name[0] || g.n_axes == RT_GRID_MAX_AXES)
            return rt_fail(
                ctx, RT_ERR_ARG,
                "order \"%.60s\": at most %d axes of at most %zu letters, with dashes between them", order,
                RT_GRID_MAX_AXES, sizeof g.name[0] - 1);
        for (int32_t k = 0; k < g.n_axes; k++)
            if (strlen(g.name[k]) == word && strncmp(g.name[k], at, word) == 0)
                return rt_fail(ctx, RT_ERR_ARG, "order \"%.60s\": axis %s is there twice", order,
                               g.name[k]);
        memcpy(g.name[g.n_axes], at, word);
        g.size[g.n_axes] = 0;
        for (int64_t i = 0; i < n; i++)
            if (strcmp(names[i], g.name[g.n_axes]) == 0)
                g.size[g.n_axes] = sizes[i];
        if (g.size[g.n_axes] == 0) {
            char known[160] = "";
            for (int64_t i = 0; i < n; i++) {
                const size_t used = strlen(known);
                (void)snprintf(known + used, sizeof known - used, " %s", names[i]);
            }
            return rt_fail(ctx, RT_ERR_ARG, "order \"%.60s\": axis %s is unknown; known:%s", order,
                           g.name[g.n_axes], known);
        }
        g.n_axes++;
        at += word;
    }
    if (g.n_axes == 0)
        return rt_fail(ctx, RT_ERR_ARG, "the order names no axis. Hint: tp-cp-ep-dp-pp");
    for (int64_t i = 0; i < n; i++) {
        if (sizes[i] > 1 && !listed(order, names[i], strlen(names[i])))
            return rt_fail(ctx, RT_ERR_ARG, "%s is %lld, but the order \"%.60s\" does not name it",
                           names[i], (long long)sizes[i], order);
        if (__builtin_mul_overflow(g.world, sizes[i], &g.world) || g.world > INT32_MAX)
            return rt_fail(ctx, RT_ERR_ARG, "the world has more than 2^31 - 1 ranks");
    }
    *out = g;
    return RT_OK;
}

/* The rank that index i has over the axes that are in `axes`, or over those that are not. */
static int64_t spread(const rt_grid *g, const char *axes, bool within, int64_t i)
{
    int64_t rank = 0, stride = 1;
    for (int32_t k = 0; k < g->n_axes; k++) {
        if (listed(axes, g->name[k], strlen(g->name[k])) == within) {
            rank += i % g->size[k] * stride;
            i /= g->size[k];
        }
        stride *= g->size[k];
    }
    return rank;
}

rt_status rt_grid_groups(rt_context *ctx, const rt_grid *g, const char *axes, rt_groups *out)
{
    int64_t size = 1;
    for (int32_t k = 0; k < g->n_axes; k++)
        if (listed(axes, g->name[k], strlen(g->name[k])))
            size *= g->size[k];
    rt_groups x;
    RT_TRY(rt_groups_alloc(ctx, g->world / size, g->world, &x));
    x.count = g->world / size;
    for (int64_t i = 0; i < x.count; i++) {
        for (int64_t k = 0; k < size; k++)
            x.ranks[i * size + k] = spread(g, axes, false, i) + spread(g, axes, true, k);
        x.first[i + 1] = (i + 1) * size;
    }
    *out = x;
    return RT_OK;
}
