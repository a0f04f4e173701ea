/* What joins and bends the scores of exact's tiles, row by row, and what the sink adds to a finished row. */
#include <string.h>

#include "arithmetic/exact.h"

void rt_exact_bend_init(const rt_problem *p, rt_exact_bend *x)
{
    *x = (rt_exact_bend){.p = p,
                         .any = p->alibi != NULL || p->bias != NULL || p->softcap > 0,
                         .drops = p->dropout > 0,
                         .hides = p->bias != NULL};
    if (p->softcap > 0)
        x->inverse = rt_dd_div((rt_dd){1, 0}, (rt_dd){p->softcap, 0});
}

const double *rt_exact_hide(const rt_exact_bend *x, int64_t b, int64_t h, int64_t i, const int64_t *k_pos,
                            int64_t n, const double *vis, double *store)
{
    if (!x->hides)
        return vis;
    const double *bias = rt_score_bias_row(x->p, b, h, i);
    for (int64_t k = 0; k < n; k++)
        store[k] = (vis == NULL || vis[k] > 0) && !rt_is_minus_inf(bias[k_pos[k]]) ? 1 : 0;
    return store;
}

/* Errors, absolute.  alpha s: |alpha| err_s + alpha_error |alpha s|; the sum with what is added: 2^-98 of the moduli; then tanh, whose slope
 * is at most 1, relative 2^-72, and the quotient by the cap and the product with it, 2^-98 together.  The derivative g(x) = 1 - tanh^2 x
 * has |g'| <= 2 g.  Keys that cannot weigh more than exp(-600) of the row's largest, or lie so far out that tanh is 1 and g is 0, do not
 * count: a bias of -1e30 that hides a key would else drown the others.  `margin` allows for the estimate of y in one double. */
double rt_exact_bend_row(const rt_exact_bend *x, const rt_exact_kernels *f, int64_t b, int64_t h, int64_t i,
                         const int64_t *k_pos, int64_t n, rt_dd alpha, double alpha_error, double err_s,
                         const double *vis, double *hi, double *lo, double *add, double *slope,
                         double *slope_error, bool *far)
{
    const rt_problem *p = x->p;
    const double *bias = p->bias != NULL ? rt_score_bias_row(p, b, h, i) : NULL, cap = p->softcap;
    double *add_hi = add, *add_lo = add + n, *size = add + 2 * n, top = -RT_INF, top_margin = 0, widest = 0;
    bool clamped = false;
    *far = *far || (cap > 0 && !(cap >= 0x1p-500 && cap <= 0x1p500));
    for (int64_t k = 0; k < n; k++) {
        rt_dd t;
        const double product = hi[k] * alpha.hi;
        const bool seen = vis == NULL || vis[k] > 0;
        double y = bias != NULL && seen ? bias[k_pos[k]] : 0;
        t.hi = rt_score_alibi(p, h, i, k_pos[k], &t.lo);
        if (!(fabs(y) <= RT_EXACT_RANGE)) { /* far below all others it weighs nothing, wherever it is */
            *far = *far || y > 0 || cap > 0;
            clamped = true;
            y = y > 0 ? 0 : -RT_EXACT_RANGE;
        }
        size[k] = fabs(product) + fabs(t.hi) + fabs(y);
        t = rt_dd_add_d(t, y);
        add_hi[k] = t.hi;
        add_lo[k] = t.lo;
        if (seen) {
            *far = *far || !(fabs(t.hi) <= 2 * RT_EXACT_RANGE);
            widest = fabs(product) > widest ? fabs(product) : widest;
            if (product + t.hi > top) {
                top = product + t.hi;
                top_margin = 0x1p-50 * size[k];
            }
        }
    }
    *far = *far || (clamped && !(widest < 0x1p200));
    double largest = 0, largest_product = 0;
    for (int64_t k = 0; k < n; k++) {
        const double product = hi[k] * alpha.hi, y = product + add_hi[k],
                     margin = 0x1p-50 * size[k] + 2 * fabs(alpha.hi) * err_s;
        const bool dead = cap > 0 ? fabs(y) - margin > 400 * cap : y + margin < top - top_margin - 1000;
        if ((vis == NULL || vis[k] > 0) && !dead) {
            largest = size[k] > largest ? size[k] : largest;
            largest_product = fabs(product) > largest_product ? fabs(product) : largest_product;
        }
    }
    const double error =
        (fabs(alpha.hi) * err_s + alpha_error * largest_product) * (1 + 0x1p-50) + 0x1p-98 * largest;
    if (*far) {
        memset(hi, 0, (size_t)n * sizeof *hi);
        memset(lo, 0, (size_t)n * sizeof *lo);
        return 0;
    }
    f->bend(n, (const double[2]){alpha.hi, alpha.lo}, p->alibi != NULL || bias != NULL ? add_hi : NULL,
            add_lo, cap, (const double[2]){x->inverse.hi, x->inverse.lo}, hi, lo, slope,
            slope != NULL ? slope + n : NULL);
    if (!(cap > 0))
        return error;
    if (slope_error != NULL) {
        const double off =
            2 * (error + 0x1p-98 * largest) * x->inverse.hi * (1 + 0x1p-50) + RT_DD_TANH_ERROR;
        *slope_error = off < 0x1p-20 ? off * (1 + 0x1p-18) : RT_INF; /* exp(2 dx) - 1 */
    }
    return error + (RT_DD_TANH_ERROR + 0x1p-98) * (largest < cap ? largest : cap);
}

void rt_exact_drop(const rt_exact_bend *x, int64_t b, int64_t h, int64_t i, const int64_t *k_pos, int64_t n,
                   uint8_t *keep, double *a, double *c)
{
    rt_dropout_row(x->p, b, h, i, k_pos, n, keep);
    for (int64_t k = 0; k < n; k++)
        if (!keep[k])
            a[k] = c[k] = 0;
}

/* 1 - dropout: exact. */
rt_dd rt_exact_keep(const rt_problem *p)
{
    return rt_two_sum(1, -p->dropout);
}

/* A sink is a key whose value is 0: a state of its own that the row's joins. */
void rt_exact_sink(const rt_problem *p, int64_t h, const double *const state[RT_EXACT_STATE], double *store,
                   double *to[RT_EXACT_STATE])
{
    const int64_t Dv = p->dim_v;
    double *sink[RT_EXACT_STATE];
    const double *in[RT_EXACT_STATE];
    for (int k = 0; k < RT_EXACT_STATE; k++) {
        const int64_t n = k < 3 ? Dv : 1;
        to[k] = store;
        sink[k] = store + n;
        store += 2 * n;
        memcpy(to[k], state[k], (size_t)n * sizeof *store);
        memset(sink[k], 0, (size_t)n * sizeof *store);
        in[k] = sink[k];
    }
    *sink[3] = p->sink[h];
    *sink[4] = 1;
    rt_exact_join(1, Dv, in, to);
}
