/* Elements of gradients by MPFR.
 *
 * A row of dq needs one row of weights; a row of dk or dv needs those of every query that sees the key, so there is a cap on the work,
 * and one on the precision: gradients have rational values that no cheap test finds.  What is open at a cap is reported as undecided.
 *
 * With U = (4 max|y| + 2n + 16) 2^-prec bounding the relative error of every P_ij: |error of dS_j| <= P_j U (|t_j| + 4 C), C the largest
 * sum |dO||v|; sums add n 2^-prec of their moduli, which U covers. */
#include <string.h>

#include "arithmetic/exact_mpfr.h"

enum { FIRST_PRECISION = 160, LAST_PRECISION = 1280 };
#define WORK_CAP 3e7 /* multiplications at the first precision: seconds */

typedef struct {
    const rt_exact_source *s;
    rt_tensor_id t;
    int64_t b, g, pos, width;
    const bool *todo;
    mpfr_t *sum, *error; /* width */
    double rows;         /* contributions that are added */
    bool all_zero;       /* every contribution so far is exactly zero */
    double *dout, *k;
} work;

/* Whether dP is one number over the visible keys (then dS = 0). */
static bool flat(const rt_mpfr_row *r, const double *dout, int64_t Dv)
{
    if (r->n == 1)
        return true;
    mpfr_t first, next, term;
    mpfr_init2(term, 110);
    mpfr_inits2(RT_EXACT_BITS, first, next, (mpfr_ptr)0);
    rt_mpfr_dot(first, term, dout, r->v, Dv);
    bool same = true;
    for (int64_t j = 1; j < r->n && same; j++) {
        rt_mpfr_dot(next, term, dout, r->v + j * Dv, Dv);
        same = mpfr_cmp(first, next) == 0;
    }
    mpfr_clears(first, next, term, (mpfr_ptr)0);
    return same;
}

/* acc[d] += c x[d], error[d] += bound |x[d]| for the dims to do. */
static void add(work *w, const mpfr_t c, const mpfr_t bound, const double *x, mpfr_t t)
{
    for (int64_t d = 0; d < w->width; d++) {
        if (!w->todo[d])
            continue;
        mpfr_mul_d(t, c, x[d], MPFR_RNDN);
        mpfr_add(w->sum[d], w->sum[d], t, MPFR_RNDN);
        mpfr_mul_d(t, bound, fabs(x[d]), MPFR_RNDU);
        mpfr_add(w->error[d], w->error[d], t, MPFR_RNDU);
        if (!mpfr_zero_p(bound) &&
            (x[d] < 0 || x[d] > 0)) /* c may have been cancelled to 0 at this precision */
            w->all_zero = false;
    }
}

/* The contribution of query (h, i), at precision prec. */
static rt_status contribute(rt_context *ctx, work *w, int64_t h, int64_t i, mpfr_prec_t prec)
{
    const rt_problem *p = w->s->p;
    const int64_t D = p->dim, Dv = p->dim_v;
    rt_mpfr_row r;
    if (w->t != RT_DQ && !rt_mask_visible(p, w->b, i, w->pos))
        return RT_OK;
    RT_TRY(rt_mpfr_row_load(ctx, w->s, w->b, h, i, &r));
    if (r.n == 0) { /* dq of an empty row is 0 */
        rt_mpfr_row_reset(&r);
        return RT_OK;
    }
    w->s->load(w->s->arg, RT_DOUT, w->b, i, h, w->dout);
    double *q = w->k + D;
    w->s->load(w->s->arg, RT_Q, w->b, i, h, q);
    mpfr_t *weight = rt_alloc(ctx, 2 * r.n, sizeof *weight);
    if (weight == NULL) {
        rt_mpfr_row_reset(&r);
        return RT_ERR_NOMEM;
    }
    mpfr_t *dp = weight + r.n;
    mpfr_t sum, alpha, shift, delta, t, c, bound, scratch, term;
    mpfr_inits2(prec, sum, alpha, shift, delta, t, c, bound, scratch, (mpfr_ptr)0);
    mpfr_init2(term, 110);
    for (int64_t j = 0; j < r.n; j++)
        mpfr_inits2(prec, weight[j], dp[j], (mpfr_ptr)0);
    const double size = rt_mpfr_weights(p, &r, weight, sum, alpha, shift);
    const double units = 4 * size + 2 * (double)r.n + 2 * (double)Dv + 2 * w->rows + 32;
    int64_t own = -1; /* the key that the gradient is of, where it is one */
    for (int64_t j = 0; j < r.n && w->t != RT_DQ && own < 0; j++)
        own = r.key[j] == w->pos ? j : -1;
    if (w->t == RT_DV) {
        mpfr_div(c, weight[own], sum, MPFR_RNDN);
        mpfr_mul_d(bound, c, units, MPFR_RNDU);
        mpfr_div_2si(bound, bound, prec, MPFR_RNDU);
        add(w, c, bound, w->dout, scratch);
    } else if (!flat(&r, w->dout, Dv)) {
        double largest = 0;
        mpfr_set_zero(delta, 1);
        for (int64_t j = 0; j < r.n; j++) {
            double mass = (double)Dv * 0x1p-1074;
            for (int64_t d = 0; d < Dv; d++)
                mass += fabs(w->dout[d] * r.v[j * Dv + d]);
            largest = mass > largest ? mass : largest;
            rt_mpfr_dot(dp[j], term, w->dout, r.v + j * Dv, Dv);
            mpfr_div(weight[j], weight[j], sum, MPFR_RNDN);
            mpfr_mul(t, weight[j], dp[j], MPFR_RNDN);
            mpfr_add(delta, delta, t, MPFR_RNDN);
        }
        for (int64_t j = own < 0 ? 0 : own; j < (own < 0 ? r.n : own + 1); j++) {
            mpfr_sub(t, dp[j], delta, MPFR_RNDN);
            mpfr_mul(c, weight[j], t, MPFR_RNDN);
            mpfr_abs(bound, t, MPFR_RNDU);
            mpfr_add_d(bound, bound, 4 * largest, MPFR_RNDU);
            mpfr_mul(bound, bound, weight[j], MPFR_RNDU);
            mpfr_mul_d(bound, bound, units, MPFR_RNDU);
            mpfr_div_2si(bound, bound, prec, MPFR_RNDU);
            const double *x = q;
            if (w->t == RT_DQ) {
                w->s->load(w->s->arg, RT_K, w->b, r.key[j], w->g, w->k);
                x = w->k;
            }
            add(w, c, bound, x, scratch);
        }
    }
    for (int64_t j = 0; j < r.n; j++)
        mpfr_clears(weight[j], dp[j], (mpfr_ptr)0);
    mpfr_clears(sum, alpha, shift, delta, t, c, bound, scratch, term, (mpfr_ptr)0);
    rt_free(weight);
    rt_mpfr_row_reset(&r);
    return RT_OK;
}

/* Multiplications that the rows of one evaluation take. */
static double cost(const rt_problem *p, rt_tensor_id t, int64_t b, int64_t pos)
{
    int64_t lo, hi;
    const double width = (double)(p->dim + p->dim_v);
    if (t == RT_DQ)
        return (double)rt_mask_row_count(p, b, pos, INT64_MAX) * width;
    rt_mask_column(p, pos, &lo, &hi);
    double pairs = 0;
    for (int64_t i = lo; i < hi; i++)
        if (rt_mask_visible(p, b, i, pos))
            pairs += (double)rt_mask_row_count(p, b, i, INT64_MAX);
    return pairs * width * (double)(p->heads_q / p->heads_kv);
}

rt_status rt_exact_resolve_gradient(rt_context *ctx, const rt_exact_source *s, rt_tensor_id t, int64_t b,
                                    int64_t head, int64_t pos, rt_dtype format, bool *todo, double *out,
                                    rt_certificate *cert)
{
    const rt_problem *p = s->p;
    const int64_t group = p->heads_q / p->heads_kv, width = t == RT_DV ? p->dim_v : p->dim;
    work w = {.s = s,
              .t = t,
              .b = b,
              .g = t == RT_DQ ? head / group : head,
              .pos = pos,
              .width = width,
              .todo = todo};
    int64_t open = 0;
    for (int64_t d = 0; d < width; d++)
        open += todo[d];
    if (open == 0)
        return RT_OK;
    w.sum = rt_alloc(ctx, 2 * width, sizeof *w.sum);
    w.dout = rt_alloc(ctx, p->dim_v + 2 * p->dim, sizeof *w.dout);
    rt_status st = w.sum == NULL || w.dout == NULL ? RT_ERR_NOMEM : RT_OK;
    if (st != RT_OK)
        goto free_sums;
    w.error = w.sum + width;
    w.k = w.dout + p->dim_v;
    double spent = 0;
    for (mpfr_prec_t prec = FIRST_PRECISION; prec <= LAST_PRECISION && open > 0 && st == RT_OK; prec *= 2) {
        spent += cost(p, t, b, pos) * (double)prec / FIRST_PRECISION;
        if (spent > WORK_CAP)
            break;
        mpfr_t alpha;
        mpfr_init2(alpha, prec);
        rt_mpfr_scale(alpha, p);
        for (int64_t d = 0; d < width; d++) {
            mpfr_inits2(prec, w.sum[d], w.error[d], (mpfr_ptr)0);
            mpfr_set_zero(w.sum[d], 1);
            mpfr_set_zero(w.error[d], 1);
        }
        w.all_zero = true;
        int64_t i0 = pos, i1 = pos + 1, h0 = head, h1 = head + 1;
        if (t != RT_DQ) {
            rt_mask_column(p, pos, &i0, &i1);
            h0 = head * group;
            h1 = h0 + group;
        }
        w.rows = (double)(h1 - h0) * (double)(i1 - i0);
        for (int64_t h = h0; h < h1 && st == RT_OK; h++)
            for (int64_t i = i0; i < i1 && st == RT_OK; i++)
                st = contribute(ctx, &w, h, i, prec);
        for (int64_t d = 0; d < width; d++) {
            if (st == RT_OK && todo[d]) {
                if (t != RT_DV) {
                    mpfr_mul(w.sum[d], w.sum[d], alpha, MPFR_RNDN);
                    mpfr_mul_d(w.error[d], w.error[d], fabs(p->scale) * (1 + 0x1p-50), MPFR_RNDU);
                }
                if (w.all_zero)
                    mpfr_set_zero(w.error[d], 1);
                if (rt_mpfr_decide(format, w.sum[d], w.error[d], w.all_zero, &out[d])) {
                    todo[d] = false;
                    open--;
                    cert->exact_case += w.all_zero;
                    cert->mpfr += !w.all_zero;
                    cert->precision = !w.all_zero && prec > cert->precision ? prec : cert->precision;
                }
            }
            mpfr_clears(w.sum[d], w.error[d], (mpfr_ptr)0);
        }
        mpfr_clear(alpha);
    }
free_sums:
    rt_free(w.sum);
    rt_free(w.dout);
    return st;
}
