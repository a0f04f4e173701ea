/* Groups made of groups: hierarchies, hybrids, double rings, slices. */
#include "layout/grid.h"

static int64_t total(const rt_groups *g)
{
    return g->first[g->count];
}

static int64_t group_size(const rt_groups *g, int64_t i)
{
    return g->first[i + 1] - g->first[i];
}

/* Cut each group as an array (outer, size, inner): the groups run along the middle axis. */
static rt_status along(rt_context *ctx, const rt_groups *from, int64_t size, int64_t inner, rt_groups *out)
{
    rt_groups x;
    RT_TRY(rt_groups_alloc(ctx, total(from) / size, total(from), &x));
    int64_t at = 0;
    for (int64_t g = 0; g < from->count; g++) {
        const int64_t *ranks = from->ranks + from->first[g];
        for (int64_t outer = 0; outer < group_size(from, g) / (size * inner); outer++) {
            for (int64_t i = 0; i < inner; i++) {
                for (int64_t k = 0; k < size; k++)
                    x.ranks[at++] = ranks[(outer * size + k) * inner + i];
                x.first[++x.count] = at;
            }
        }
    }
    *out = x;
    return RT_OK;
}

rt_status rt_groups_level(rt_context *ctx, const rt_groups *from, const int64_t *sizes, int64_t n_sizes,
                          int64_t level, rt_groups *out)
{
    int64_t product = 1, inner = 1;
    for (int64_t i = 0; i < n_sizes; i++) {
        if (sizes[i] < 1 || __builtin_mul_overflow(product, sizes[i], &product))
            return rt_fail(ctx, RT_ERR_ARG, "hierarchy: size %lld; sizes are at least 1",
                           (long long)sizes[i]);
        if (i < level)
            inner *= sizes[i];
    }
    if (level < 0 || level >= n_sizes)
        return rt_fail(ctx, RT_ERR_ARG, "hierarchy: level %lld of %lld", (long long)level,
                       (long long)n_sizes);
    for (int64_t g = 0; g < from->count; g++)
        if (group_size(from, g) != product)
            return rt_fail(
                ctx, RT_ERR_ARG,
                "hierarchy: the sizes' product is %lld, but the context-parallel groups have %lld "
                "ranks",
                (long long)product, (long long)group_size(from, g));
    return along(ctx, from, sizes[level], inner, out);
}

rt_status rt_groups_hybrid(rt_context *ctx, const rt_groups *from, int64_t ulysses, bool ring_low,
                           rt_groups *rings, rt_groups *ulysses_groups)
{
    for (int64_t g = 0; g < from->count; g++)
        if (ulysses < 1 || group_size(from, g) % ulysses != 0)
            return rt_fail(ctx, RT_ERR_ARG, "ulysses is %lld; it must divide the %lld ranks of a group",
                           (long long)ulysses, (long long)group_size(from, g));
    const int64_t ring = from->count > 0 ? group_size(from, 0) / ulysses : 1;
    rt_groups low, high;
    RT_TRY(along(ctx, from, ring_low ? ring : ulysses, 1, &low));
    const rt_status st = along(ctx, from, ring_low ? ulysses : ring, ring_low ? ring : ulysses, &high);
    if (st != RT_OK) {
        rt_groups_reset(&low);
        return st;
    }
    *rings = ring_low ? low : high;
    *ulysses_groups = ring_low ? high : low;
    return RT_OK;
}

rt_status rt_groups_double_ring(rt_context *ctx, const rt_groups *from, int64_t window,
                                rt_double_ring which, rt_groups *out)
{
    for (int64_t g = 0; g < from->count; g++)
        if (window < 1 || group_size(from, g) % window != 0)
            return rt_fail(ctx, RT_ERR_ARG, "the window is %lld; it must divide the %lld ranks of a ring",
                           (long long)window, (long long)group_size(from, g));
    if (which == RT_DOUBLE_RING_INTRA)
        return along(ctx, from, window, 1, out);
    if (which == RT_DOUBLE_RING_KV)
        return along(ctx, from, from->count > 0 ? group_size(from, 0) / window : 1, window, out);
    rt_groups x;
    RT_TRY(rt_groups_alloc(ctx, total(from), total(from), &x));
    int64_t at = 0;
    for (int64_t g = 0; g < from->count; g++) {
        const int64_t *ranks = from->ranks + from->first[g], n = group_size(from, g), windows = n / window;
        for (int64_t start = 0; start < window; start++) {
            /* the orbit of (window w, place j) -> (w + 1, j + 1), if it has no smaller start in window 0 */
            int64_t steps = 0;
            bool seen = false;
            do {
                const int64_t w = steps % windows, j = (start + steps) % window;
                seen = seen || (w == 0 && j < start);
                steps++;
            } while (steps % windows != 0 || steps % window != 0);
            for (int64_t k = 0; k < steps && !seen; k++)
                x.ranks[at++] = ranks[k % windows * window + (start + k) % window];
            if (!seen)
                x.first[++x.count] = at;
        }
    }
    *out = x;
    return RT_OK;
}

rt_status rt_groups_interleave(rt_context *ctx, const rt_groups *from, int64_t window, rt_groups *out)
{
    for (int64_t g = 0; g < from->count; g++)
        if (window < 1 || group_size(from, g) % 2 != 0 || group_size(from, g) / 2 % window != 0)
            return rt_fail(
                ctx, RT_ERR_ARG,
                "the window is %lld; twice as much must divide the %lld ranks of an interleaved ring",
                (long long)window, (long long)group_size(from, g));
    rt_groups x;
    RT_TRY(rt_groups_alloc(ctx, from->count, total(from), &x));
    x.count = from->count;
    for (int64_t g = 0; g < from->count; g++) {
        for (int64_t i = 0; i < group_size(from, g); i++) {
            const int64_t block = i / window / 2 * 2 * window, odd = i / window % 2;
            x.ranks[from->first[g] + i] = from->ranks[from->first[g] + block + i % window * 2 + odd];
        }
        x.first[g + 1] = from->first[g + 1];
    }
    *out = x;
    return RT_OK;
}

void rt_double_ring_order(int64_t n, int64_t window, int64_t me, int64_t *order)
{
    const int64_t windows = n / window, w = me / window, j = me % window;
    for (int64_t outer = 0; outer < windows; outer++)
        for (int64_t inner = 0; inner < window; inner++)
            *order++ = (w - outer + windows) % windows * window + (j - inner + window) % window;
}

int64_t rt_hybrid_cp_size(int64_t length, int64_t most)
{
    int64_t size = 1;
    while (most >= 1 && size < INT64_MAX / 2 && length > size * most)
        size *= 2;
    return size;
}

rt_status rt_groups_slices(rt_context *ctx, const rt_groups *from, int64_t size, rt_groups *out)
{
    if (size < 1)
        return rt_fail(ctx, RT_ERR_ARG, "slices of %lld ranks; at least 1", (long long)size);
    rt_groups x;
    RT_TRY(rt_groups_alloc(ctx, total(from), total(from), &x));
    for (int64_t g = 0; g < from->count; g++)
        for (int64_t i = from->first[g]; i < from->first[g + 1]; i++) {
            x.ranks[i] = from->ranks[i];
            if ((i - from->first[g]) % size == size - 1 || i + 1 == from->first[g + 1])
                x.first[++x.count] = i + 1;
        }
    *out = x;
    return RT_OK;
}
