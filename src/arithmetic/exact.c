/* Arithmetic exact: the scale, the kernels for this processor, cut keys, products of cut rows. */
#include "arithmetic/exact.h"

#include <string.h>

const rt_exact_kernels *rt_exact_kernels_here(void)
{
#if defined(RT_EXACT_AVX)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return &rt_exact_kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &rt_exact_kernels_avx2;
#endif
    return &rt_exact_kernels_plain;
}

rt_dd rt_exact_scale(const rt_problem *p, double *error)
{
    *error = 0;
    if (p->scale_kind != RT_SCALE_RSQRT_DIM)
        return (rt_dd){p->scale, 0};
    /* One Newton step from the nearest double y: x = y + y (1 - D y^2) / 2, the residual exact in double-double. */
    const double y = p->scale;
    const rt_dd y2 = rt_two_prod(y, y);
    const rt_dd r = rt_dd_add_d(rt_dd_neg(rt_dd_mul_d(y2, (double)p->dim)), 1.0);
    const rt_dd x = rt_quick_two_sum(y, 0.5 * y * (r.hi + r.lo));
    *error = r.hi < 0 || r.hi > 0 || r.lo < 0 || r.lo > 0 ? 0x1p-100 : 0;
    return x;
}

bool rt_exact_clean(const double *x, int64_t n, int64_t width, int64_t stride, bool *bad, bool *far,
                    double *out)
{
    bool any = rt_rows_not_finite(x, n, width, stride, bad);
    rt_rows_clean(x, n, width, stride, bad, out);
    for (int64_t i = 0; i < n; i++) {
        double *row = out + i * width, top = 0;
        for (int64_t d = 0; d < width; d++)
            top = fabs(row[d]) > top ? fabs(row[d]) : top;
        far[i] = top > RT_EXACT_RANGE;
        any |= far[i];
        for (int64_t d = 0; d < width && far[i]; d++)
            row[d] = fabs(row[d]) > RT_EXACT_RANGE ? 0 : row[d];
    }
    return any;
}

rt_status rt_exact_keys_reserve(rt_context *ctx, rt_exact_keys *x, const rt_problem *p, int64_t n,
                                bool backward)
{
    memset(x, 0, sizeof *x);
    rt_status st = rt_slices_reserve(ctx, &x->k, n, p->dim);
    if (st == RT_OK)
        st = rt_slices_reserve(ctx, &x->v, n, p->dim_v);
    if (st == RT_OK && backward)
        st = rt_slices_reserve(ctx, &x->kc, n, p->dim);
    if (st == RT_OK) {
        x->k_bad = rt_alloc(ctx, 4 * n, sizeof *x->k_bad);
        x->clean = rt_alloc(ctx, n * (2 * p->dim + 2 * p->dim_v), sizeof *x->clean);
        st = x->k_bad == NULL || x->clean == NULL ? RT_ERR_NOMEM : RT_OK;
    }
    if (st != RT_OK) {
        rt_exact_keys_reset(x);
        return st;
    }
    x->v_bad = x->k_bad + n;
    x->k_far = x->v_bad + n;
    x->v_far = x->k_far + n;
    x->v_scaled = x->clean + n * (p->dim + p->dim_v);
    x->kc_scaled = x->v_scaled + n * p->dim_v;
    return RT_OK;
}

void rt_exact_keys_reset(rt_exact_keys *x)
{
    rt_slices_reset(&x->k);
    rt_slices_reset(&x->v);
    rt_slices_reset(&x->kc);
    rt_free(x->k_bad);
    rt_free(x->clean);
    memset(x, 0, sizeof *x);
}

void rt_exact_keys_cut(rt_exact_keys *x, const rt_problem *p, const double *k, const double *v, int64_t n,
                       bool backward)
{
    const int64_t D = p->dim, Dv = p->dim_v;
    double *ck = x->clean, *cv = ck + n * D;
    x->n = n;
    x->any_bad = rt_exact_clean(k, n, D, D, x->k_bad, x->k_far, ck);
    x->any_bad |= rt_exact_clean(v, n, Dv, Dv, x->v_bad, x->v_far, cv);
    rt_slices_cut(&x->k, ck, D, n, D, rt_slices_bits(D, 0), false);
    /* V meets integers of 25 bits in the forward (inner dimension: a block of keys), dO of its own kind in the backward. */
    if (backward) {
        rt_slices_cut(&x->v, cv, Dv, n, Dv, rt_slices_bits(Dv, 0), false);
        rt_slices_cut(&x->kc, ck, D, n, D, rt_slices_bits(RT_BLOCK_K, RT_P_BITS), true);
        for (int64_t j = 0; j < n; j++)
            for (int64_t d = 0; d < D; d++)
                x->kc_scaled[j * D + d] = ck[j * D + d] / x->kc.scale[d];
    } else {
        rt_slices_cut(&x->v, cv, Dv, n, Dv, rt_slices_bits(RT_BLOCK_K, RT_P_BITS), true);
        for (int64_t j = 0; j < n; j++)
            for (int64_t d = 0; d < Dv; d++)
                x->v_scaled[j * Dv + d] = cv[j * Dv + d] / x->v.scale[d];
    }
}

/* First tail of row `row` on. */
static int64_t first_tail(const rt_slices *s, int64_t row)
{
    int64_t low = 0, high = s->tails;
    while (low < high) {
        const int64_t mid = (low + high) / 2;
        if (s->tail[mid].row < row)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

double rt_exact_products(rt_checked_gemm *g, const rt_exact_kernels *f, const rt_slices *a, int64_t na,
                         const rt_slices *b, int64_t b0, int64_t nb, const double *b_values,
                         const double *a_values, rt_exact_scores *x)
{
    const int64_t D = a->width, K = RT_BLOCK_K;
    const double down = ldexp(1.0, -a->bits), unit = ldexp(1.0, a->bits);
    double a_top = 0, b_top = 0;
    for (int64_t i = 0; i < na; i++)
        a_top = a->scale[i] * unit > a_top ? a->scale[i] * unit : a_top;
    for (int64_t j = 0; j < nb; j++)
        b_top = b->scale[b0 + j] * unit > b_top ? b->scale[b0 + j] * unit : b_top;
    /* Products of slices by order of magnitude: (0,0); (0,1) + (1,0); (0,2) + (1,1) + (2,0). */
    int used = 1;
    for (int order = 0; order < 3; order++) {
        bool first = true;
        for (int ia = 0; ia <= order; ia++) {
            const int ib = order - ia;
            if (ia >= a->count || ib >= b->count)
                continue;
            double *c = first ? x->s[order] : x->extra;
            rt_gemm_exact(g, false, true, na, nb, D, a->slice[ia], D, b->slice[ib] + b0 * D, D, c, K);
            if (!first)
                for (int64_t i = 0; i < na; i++)
                    for (int64_t j = 0; j < nb; j++)
                        x->s[order][i * K + j] += c[i * K + j];
            first = false;
        }
        if (first)
            break;
        used = order + 1;
    }
    /* Single elements: a's against all of b; b's against a without its tail. */
    const int64_t t0 = first_tail(b, b0);
    const bool tails = a->tails > 0 || (t0 < b->tails && b->tail[t0].row < b0 + nb);
    if (tails) {
        for (int64_t i = 0; i < na; i++)
            memset(x->extra + i * K, 0, (size_t)nb * sizeof(double));
        for (int64_t t = 0; t < a->tails; t++) {
            const rt_tail *e = &a->tail[t];
            double *row = x->extra + (int64_t)e->row * K;
            for (int64_t j = 0; j < nb; j++)
                row[j] += e->value * b_values[(b0 + j) * D + e->column];
        }
        for (int64_t t = t0; t < b->tails && b->tail[t].row < b0 + nb; t++) {
            const rt_tail *e = &b->tail[t];
            double *column = x->extra + (e->row - b0);
            for (int64_t i = 0; i < na; i++)
                column[i * K] += e->value * a_values[i * D + e->column];
        }
        /* what both tails share has been counted twice */
        for (int64_t t = 0; t < a->tails; t++)
            for (int64_t s = t0; s < b->tails && b->tail[s].row < b0 + nb; s++)
                if (a->tail[t].column == b->tail[s].column)
                    x->extra[(int64_t)a->tail[t].row * K + (b->tail[s].row - b0)] -=
                        a->tail[t].value * b->tail[s].value;
    }
    for (int64_t i = 0; i < na; i++)
        (void)f->scores(nb, x->s[0] + i * K, used > 1 ? x->s[1] + i * K : NULL,
                        used > 2 ? x->s[2] + i * K : NULL, down, b->scale + b0, a->scale[i],
                        tails ? x->extra + i * K : NULL, NULL, x->hi + i * K, x->lo + i * K);
    /* Error, in units of a_top b_top: sums of low orders rounded a few times (each below D 2^-b), tails below 2^-b, at most 2 D roundings of
     * 2^-53 D 2^-b; orders that are left out; remainders in no slice. */
    const double n = (double)D;
    double error = 0;
    if (used > 1 || tails)
        error += 0x1p-53 * (2 * n + 16) * n * down * 2;
    if (a->count + b->count > 4) /* orders 3 and 4 */
        error += 4 * n * down * down * down;
    error += n * (a->left + b->left) * 2;
    return error * a_top * b_top;
}

double rt_exact_apply(rt_checked_gemm *g, bool trans, int64_t m, int64_t n, int64_t k, const double *a1,
                      const double *a2, int64_t lda, const rt_slices *b, int64_t b0, const double *b_scaled,
                      bool rounded, double *big, double *small, double *more)
{
    const double unit = ldexp(1.0, b->bits), inner = (double)k, top = (double)(1 << RT_P_BITS);
    double error = 0, down = 1;
    rt_gemm_exact(g, trans, false, m, n, k, a1, lda, b->slice[0] + b0 * n, n, big, n);
    if (rounded) /* a2's own rounding, and the product's */
        error = 0x1p-53 * inner * unit + rt_gemm_rounded(g, trans, false, m, n, k, a2, lda,
                                                         b_scaled + b0 * n, n, small, n, 0.51, unit);
    else
        memset(small, 0, (size_t)(m * n) * sizeof(double));
    for (int s = 1; s < b->count; s++) {
        down /= unit;
        rt_gemm_exact(g, trans, false, m, n, k, a1, lda, b->slice[s] + b0 * n, n, more, n);
        for (int64_t e = 0; e < m * n; e++)
            small[e] += more[e] * down;
        error += 0x1p-52 * inner * top; /* |more down| <= inner 2^25 */
    }
    error += inner * top * b->left * unit;
    const int64_t t0 = first_tail(b, b0);
    for (int64_t t = t0; t < b->tails && b->tail[t].row < b0 + k; t++) {
        const rt_tail *e = &b->tail[t];
        const double x = e->value / b->scale[e->column];
        const int64_t row = e->row - b0;
        for (int64_t i = 0; i < m; i++)
            small[i * n + e->column] += (trans ? a1[row * lda + i] : a1[i * lda + row]) * x;
    }
    if (t0 < b->tails && b->tail[t0].row < b0 + k)
        error += 0x1p-51 * inner * inner * top; /* inner additions to a sum below inner 2^25 */
    return error;
}

static bool comes_before(const rt_undecided *a, const rt_undecided *b)
{
    const int64_t x[] = {a->b, a->pos, a->head, a->dim}, y[] = {b->b, b->pos, b->head, b->dim};
    for (int i = 0; i < 4; i++)
        if (x[i] != y[i])
            return x[i] < y[i];
    return false;
}

void rt_certificate_add(rt_certificate *to, const rt_certificate *from)
{
    if (from->undecided > 0 && (to->undecided == 0 || comes_before(&from->first, &to->first)))
        to->first = from->first;
    to->widest = from->widest > to->widest ? from->widest : to->widest;
    to->fast += from->fast;
    to->exact_case += from->exact_case;
    to->mpfr += from->mpfr;
    to->undecided += from->undecided;
    to->radius = from->radius > to->radius ? from->radius : to->radius;
    to->precision = from->precision > to->precision ? from->precision : to->precision;
}

void rt_certificate_undecided(rt_certificate *to, const rt_undecided *element)
{
    const double half = 0.5 * element->high - 0.5 * element->low;
    const rt_certificate one = {.undecided = 1, .first = *element, .widest = half};
    rt_certificate_add(to, &one);
}
