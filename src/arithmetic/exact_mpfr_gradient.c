/* Elements of gradients by MPFR.
 *
 * A row of dq needs one row of weights; a row of dk or dv needs those of every query that sees the key, so there is a cap on the work,
 * and one on the precision: gradients have rational values that no cheap test finds.  What is open at a cap is reported as undecided.
 *
 * With U = (4 max|y| + 2n + 16) 2^-prec bounding the relative error of every P_ij: |error of dS_j| <= P_j U (|t_j| + 4 C), C the largest
 * sum |dO||v|; sums add n 2^-prec of their moduli, which U covers.  With a softcap dS has a factor whose relative error joins U. */
#include <string.h>

#include "arithmetic/exact_mpfr.h"

enum { FIRST_PRECISION = 160, LAST_PRECISION = 1280, KEEP_BITS = 1200 };
#define WORK_CAP 3e7 /* multiplications at the first precision: seconds */

typedef struct {
    const rt_exact_source *s;
    rt_tensor_id t;
    int64_t pos, width; /* pos: of the key, for dk and dv */
    const bool *todo;
    mpfr_t *sum, *error; /* width */
    double rows;         /* contributions that are added */
    bool *live;          /* width: some contribution so far is not exactly zero */
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
            w->live[d] = true;
    }
}

/* acc[d] += c, for one element. */
static void add_one(work *w, int64_t d, const mpfr_t c, const mpfr_t bound)
{
    if (!w->todo[d])
        return;
    mpfr_add(w->sum[d], w->sum[d], c, MPFR_RNDN);
    mpfr_add(w->error[d], w->error[d], bound, MPFR_RNDU);
    w->live[d] = w->live[d] || !mpfr_zero_p(bound);
}

/* The moduli of dP, bounded: the largest sum of |dO||v|. */
static double largest_mass(const rt_mpfr_row *r, const double *dout, int64_t Dv)
{
    double largest = 0;
    for (int64_t j = 0; j < r->n; j++) {
        double mass = (double)Dv * 0x1p-1074;
        for (int64_t d = 0; d < Dv; d++)
            mass += fabs(dout[d] * r->v[j * Dv + d]);
        largest = mass > largest ? mass : largest;
    }
    return largest;
}

/* The contribution of query (b, h, i), at precision prec. */
static rt_status contribute(rt_context *ctx, work *w, int64_t b, int64_t h, int64_t i, mpfr_prec_t prec)
{
    const rt_problem *p = w->s->p;
    const int64_t D = p->dim, Dv = p->dim_v, g = h / (p->heads_q / p->heads_kv);
    const bool of_key = w->t == RT_DK || w->t == RT_DV;
    rt_mpfr_row r;
    if ((of_key && !rt_mask_visible(p, b, i, w->pos)) ||
        (w->t == RT_DV && !rt_dropout_keep(p, b, h, i, w->pos)))
        return RT_OK;
    RT_TRY(rt_mpfr_row_load(ctx, w->s, b, h, i, &r));
    int64_t own = -1; /* the key that the gradient is of, or the sink, where it is one's */
    for (int64_t j = 0; j < r.n && own < 0; j++)
        own = (of_key && r.key[j] == w->pos) || (w->t == RT_DSINK && r.key[j] < 0) ? j : -1;
    if (r.n == 0 || (own < 0 && (of_key || w->t == RT_DSINK))) { /* the gradients of an empty row are 0 */
        rt_mpfr_row_reset(&r);
        return RT_OK;
    }
    w->s->load(w->s->arg, RT_DOUT, b, i, h, w->dout);
    double *q = w->k + D;
    w->s->load(w->s->arg, RT_Q, b, i, h, q);
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
    double shift_size;
    const double size = rt_mpfr_weights(&r, weight, sum, alpha, shift, &shift_size);
    const double units = 4 * size + 2 * (double)r.n + 2 * (double)Dv + 2 * w->rows + 48;
    if (w->t == RT_DV) {
        mpfr_div(c, weight[own], sum, MPFR_RNDN);
        mpfr_mul_d(bound, c, units, MPFR_RNDU);
        mpfr_div_2si(bound, bound, prec, MPFR_RNDU);
        add(w, c, bound, w->dout, scratch);
    } else if (!flat(&r, w->dout, Dv)) {
        const double largest = largest_mass(&r, w->dout, Dv);
        mpfr_set_zero(delta, 1);
        for (int64_t j = 0; j < r.n; j++) {
            rt_mpfr_dot(dp[j], term, w->dout, r.v + j * Dv, Dv);
            mpfr_div(weight[j], weight[j], sum, MPFR_RNDN);
            mpfr_mul(t, weight[j], dp[j], MPFR_RNDN);
            mpfr_add(delta, delta, t, MPFR_RNDN);
        }
        for (int64_t j = own < 0 ? 0 : own; j < (own < 0 ? r.n : own + 1); j++) {
            double bent = 0; /* by the softcap */
            if (r.key[j] < 0 && w->t != RT_DSINK)
                continue;
            mpfr_sub(t, dp[j], delta, MPFR_RNDN);
            mpfr_mul(c, weight[j], t, MPFR_RNDN);
            mpfr_abs(bound, t, MPFR_RNDU);
            mpfr_add_d(bound, bound, 4 * largest, MPFR_RNDU);
            mpfr_mul(bound, bound, weight[j], MPFR_RNDU);
            if (p->softcap > 0 && r.key[j] >= 0) {
                bent = rt_mpfr_slope(&r, j, alpha, scratch);
                bent = ldexp(bent, (int)(20 - prec)) < 1 ? 4 * bent : RT_INF;
                mpfr_mul(c, c, scratch, MPFR_RNDN);
                mpfr_mul(bound, bound, scratch, MPFR_RNDU);
            }
            mpfr_mul_d(bound, bound, units + bent, MPFR_RNDU);
            mpfr_div_2si(bound, bound, prec, MPFR_RNDU);
            if (w->t == RT_DQ) {
                w->s->load(w->s->arg, RT_K, b, r.key[j], g, w->k);
                add(w, c, bound, w->k, scratch);
            } else if (w->t == RT_DK) {
                add(w, c, bound, q, scratch);
            } else {
                add_one(w, w->t == RT_DSINK ? 0 : r.key[j], c, bound);
            }
        }
    }
    for (int64_t j = 0; j < r.n; j++)
        mpfr_clears(weight[j], dp[j], (mpfr_ptr)0);
    mpfr_clears(sum, alpha, shift, delta, t, c, bound, scratch, term, (mpfr_ptr)0);
    rt_free(weight);
    rt_mpfr_row_reset(&r);
    return RT_OK;
}

/* The queries whose rows an element is a sum over. */
typedef struct {
    int64_t b0, b1, h0, h1, i0, i1;
} queries;

static queries queries_of(const rt_problem *p, rt_tensor_id t, int64_t b, int64_t head, int64_t pos)
{
    const int64_t group = p->heads_q / p->heads_kv;
    queries x = {b, b + 1, head, head + 1, pos, pos + 1};
    if (t == RT_DK || t == RT_DV) {
        rt_mask_column(p, pos, &x.i0, &x.i1);
        x.h0 = head * group;
        x.h1 = x.h0 + group;
    }
    const bool all = t == RT_DSINK, bias = t == RT_DBIAS;
    if (all || (bias && p->bias_shape[0] == 1)) {
        x.b0 = 0;
        x.b1 = p->batch;
    }
    if (bias && p->bias_shape[1] == 1) {
        x.h0 = 0;
        x.h1 = p->heads_q;
    }
    if (all || (bias && p->bias_shape[2] == 1)) {
        x.i0 = 0;
        x.i1 = p->seqlen_q;
    }
    return x;
}

static double rows_of(const queries *x)
{
    return (double)(x->b1 - x->b0) * (double)(x->h1 - x->h0) * (double)(x->i1 - x->i0);
}

/* Multiplications that the rows of one evaluation take; key: of dk and dv, else -1. */
static double cost(const rt_problem *p, const queries *x, int64_t key)
{
    double pairs = 0;
    for (int64_t b = x->b0; b < x->b1; b++)
        for (int64_t i = x->i0; i < x->i1; i++)
            if (key < 0 || rt_mask_visible(p, b, i, key))
                pairs += (double)rt_mask_row_count(p, b, i, INT64_MAX);
    return pairs * (double)(x->h1 - x->h0) * (double)(p->dim + p->dim_v);
}

rt_status rt_exact_resolve_gradient(rt_context *ctx, const rt_exact_source *s, rt_tensor_id t, int64_t b,
                                    int64_t head, int64_t pos, rt_dtype format, bool *todo, double *out,
                                    rt_interval *between, rt_certificate *cert)
{
    const rt_problem *p = s->p;
    const int64_t width = rt_exact_width(p, t);
    const queries x = queries_of(p, t, b, head, pos);
    work w = {.s = s, .t = t, .pos = pos, .width = width, .todo = todo};
    int64_t open = 0;
    for (int64_t d = 0; d < width; d++)
        open += todo[d];
    if (open == 0)
        return RT_OK;
    w.sum = rt_alloc(ctx, 2 * width, sizeof *w.sum);
    w.dout = rt_alloc(ctx, p->dim_v + 2 * p->dim, sizeof *w.dout);
    w.live = rt_alloc(ctx, width, sizeof *w.live);
    rt_status st = w.sum == NULL || w.dout == NULL || w.live == NULL ? RT_ERR_NOMEM : RT_OK;
    if (st != RT_OK)
        goto free_sums;
    w.error = w.sum + width;
    w.k = w.dout + p->dim_v;
    w.rows = rows_of(&x);
    const bool scaled = t == RT_DQ || t == RT_DK;
    const double once = cost(p, &x, t == RT_DK || t == RT_DV ? pos : -1);
    double spent = 0;
    for (mpfr_prec_t prec = FIRST_PRECISION; prec <= LAST_PRECISION && open > 0 && st == RT_OK; prec *= 2) {
        spent += once * (double)prec / FIRST_PRECISION;
        if (spent > WORK_CAP)
            break;
        mpfr_t alpha, keep;
        mpfr_init2(alpha, prec);
        mpfr_init2(keep, KEEP_BITS);
        rt_mpfr_scale(alpha, p);
        mpfr_set_d(keep, 1, MPFR_RNDN);
        mpfr_sub_d(keep, keep, p->dropout, MPFR_RNDN);
        for (int64_t d = 0; d < width; d++) {
            mpfr_inits2(prec, w.sum[d], w.error[d], (mpfr_ptr)0);
            mpfr_set_zero(w.sum[d], 1);
            mpfr_set_zero(w.error[d], 1);
            w.live[d] = false;
        }
        for (int64_t bb = x.b0; bb < x.b1; bb++)
            for (int64_t h = x.h0; h < x.h1; h++)
                for (int64_t i = x.i0; i < x.i1 && st == RT_OK; i++)
                    st = contribute(ctx, &w, bb, h, i, prec);
        for (int64_t d = 0; d < width; d++) {
            if (st == RT_OK && todo[d]) {
                if (scaled) {
                    mpfr_mul(w.sum[d], w.sum[d], alpha, MPFR_RNDN);
                    mpfr_mul_d(w.error[d], w.error[d], fabs(p->scale) * (1 + 0x1p-50), MPFR_RNDU);
                }
                mpfr_div(w.sum[d], w.sum[d], keep, MPFR_RNDN);
                mpfr_div(w.error[d], w.error[d], keep, MPFR_RNDU);
                if (!w.live[d])
                    mpfr_set_zero(w.error[d], 1);
                if (rt_mpfr_decide(format, w.sum[d], w.error[d], !w.live[d], &out[d])) {
                    todo[d] = false;
                    open--;
                    cert->exact_case += !w.live[d];
                    cert->mpfr += w.live[d];
                    cert->precision = w.live[d] && prec > cert->precision ? prec : cert->precision;
                } else {
                    rt_mpfr_narrow(&between[d], w.sum[d], w.error[d]);
                }
            }
            mpfr_clears(w.sum[d], w.error[d], (mpfr_ptr)0);
        }
        mpfr_clears(alpha, keep, (mpfr_ptr)0);
    }
free_sums:
    mpfr_free_cache2(MPFR_FREE_LOCAL_CACHE); /* the thread may end, and would lose it */
    rt_free(w.sum);
    rt_free(w.dout);
    rt_free(w.live);
    return st;
}
