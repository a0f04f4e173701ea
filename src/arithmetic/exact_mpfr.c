/* The last resort of exact: one row, or one element of a gradient, by MPFR.
 *
 * O_d is rational only if in every class of keys with equal scores the mean of v_d is the same number (the exponentials of distinct
 * algebraic exponents are linearly independent over the algebraic numbers, Lindemann-Weierstrass): then O_d is that mean, divided by keep
 * with dropout, where what is dropped counts as 0.  A sink is a key whose v is 0.  L is rational only if one key alone is visible, or the
 * sink alone: then L is its score.  Everything else is transcendental, so it is no midpoint between two representable numbers and rising
 * precision decides it in the end.  (Under a softcap scores are transcendental themselves and no theorem forbids other ties: none is known,
 * and the precision has an end.) */
#include "arithmetic/exact_mpfr.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_PRECISION = 192, LAST_PRECISION = 12288, EXACT_BITS = RT_EXACT_BITS };

void rt_mpfr_row_reset(rt_mpfr_row *r)
{
    for (int64_t j = 0; j < r->n && r->score != NULL; j++)
        mpfr_clear(r->score[j]);
    for (int64_t j = 0; j < r->n && r->add != NULL; j++)
        mpfr_clear(r->add[j]);
    rt_free(r->add);
    rt_free(r->score);
    rt_free(r->key);
    rt_free(r->v);
    rt_free(r->class_of);
    memset(r, 0, sizeof *r);
}

/* Exact dot product: products of two doubles fit 106 bits, their sum the given precision (inputs of 32 bits and less: 700). */
void rt_mpfr_dot(mpfr_t out, mpfr_t term, const double *a, const double *b, int64_t n)
{
    mpfr_set_zero(out, 1);
    for (int64_t d = 0; d < n; d++) {
        mpfr_set_d(term, a[d], MPFR_RNDN);
        mpfr_mul_d(term, term, b[d], MPFR_RNDN);
        mpfr_add(out, out, term, MPFR_RNDN);
    }
}

/* Whether the pair counts: visible, and not hidden by the bias. */
static bool sees(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return rt_mask_visible(p, b, i, j) &&
           !(p->bias != NULL && rt_is_minus_inf(rt_score_bias(p, b, h, i, j)));
}

rt_status rt_mpfr_row_load(rt_context *ctx, const rt_exact_source *s, int64_t b, int64_t h, int64_t pos,
                           rt_mpfr_row *r)
{
    const rt_problem *p = s->p;
    const int64_t g = h / (p->heads_q / p->heads_kv), D = p->dim, Dv = p->dim_v;
    const bool bends = rt_mpfr_bends(p);
    int64_t lo, hi, n = 0;
    rt_mask_row(p, pos, &lo, &hi);
    memset(r, 0, sizeof *r);
    r->p = p;
    r->head = h;
    r->key = rt_alloc(ctx, hi - lo + 1, sizeof *r->key);
    if (r->key == NULL)
        return RT_ERR_NOMEM;
    for (int64_t j = lo; j < hi; j++)
        if (sees(p, b, h, pos, j))
            r->key[n++] = j;
    if (p->sink != NULL)
        r->key[n++] = -1;
    r->v = rt_calloc(ctx, n * Dv + 2 * D, sizeof *r->v);
    r->class_of = rt_alloc(ctx, n, sizeof *r->class_of);
    mpfr_t *score = rt_alloc(ctx, n, sizeof *score), *add = bends ? rt_alloc(ctx, n, sizeof *add) : NULL;
    if (r->v == NULL || r->class_of == NULL || score == NULL || (bends && add == NULL)) {
        rt_free(score);
        rt_free(add);
        rt_mpfr_row_reset(r);
        return RT_ERR_NOMEM;
    }
    r->n = n;
    r->score = score;
    r->add = add;
    double *q = r->v + n * Dv, *k = q + D;
    s->load(s->arg, RT_Q, b, pos, h, q);
    mpfr_t term;
    mpfr_init2(term, 110);
    for (int64_t j = 0; j < n; j++) {
        const int64_t key = r->key[j];
        mpfr_init2(score[j], EXACT_BITS);
        mpfr_set_zero(score[j], 1);
        if (bends)
            mpfr_init2(add[j], EXACT_BITS);
        if (key < 0) {
            mpfr_set_d(add[j], p->sink[h], MPFR_RNDN);
            continue;
        }
        s->load(s->arg, RT_K, b, key, g, k);
        rt_mpfr_dot(score[j], term, q, k, D);
        if (bends)
            rt_mpfr_added(p, b, h, pos, key, add[j]);
        if (rt_dropout_keep(p, b, h, pos, key))
            s->load(s->arg, RT_V, b, key, g, r->v + j * Dv);
    }
    mpfr_clear(term);
    const rt_status st = rt_mpfr_classes(ctx, r);
    if (st != RT_OK)
        rt_mpfr_row_reset(r);
    return st;
}

/* alpha at the precision of x. */
void rt_mpfr_scale(mpfr_t x, const rt_problem *p)
{
    if (p->scale_kind == RT_SCALE_RSQRT_DIM) {
        mpfr_set_si(x, (long)p->dim, MPFR_RNDN);
        mpfr_rec_sqrt(x, x, MPFR_RNDN);
    } else {
        mpfr_set_d(x, p->scale, MPFR_RNDN);
    }
}

/* The rounding of x with error at most r (both MPFR numbers); exact: r = 0 and ties go to even.  False: undecided. */
bool rt_mpfr_decide(rt_dtype format, const mpfr_t x, const mpfr_t r, bool exact, double *out)
{
    double c, gap_below, gap_above;
    rt_exact_candidate(format, mpfr_get_d(x, MPFR_RNDN), &c, &gap_below, &gap_above);
    bool done = false;
    mpfr_t d, e, half;
    mpfr_inits2(mpfr_get_prec(x) + 64, d, e, (mpfr_ptr)0);
    mpfr_init2(half, 53);
    const double max = rt_max_finite(format);
    for (int turn = 0; turn < 3 && !done; turn++) {
        mpfr_sub_d(d, x, c, MPFR_RNDN);
        mpfr_set_d(half, gap_above, MPFR_RNDN);
        mpfr_div_2ui(half, half, 1, MPFR_RNDN);
        mpfr_sub(e, half, d, MPFR_RNDN); /* to the midpoint above */
        const int up = mpfr_cmp(e, r);
        const bool beyond_up = mpfr_sgn(e) < 0 && mpfr_cmpabs(e, r) > 0;
        mpfr_set_d(half, gap_below, MPFR_RNDN);
        mpfr_div_2ui(half, half, 1, MPFR_RNDN);
        mpfr_add(e, d, half, MPFR_RNDN);
        const int down = mpfr_cmp(e, r);
        const bool beyond_down = mpfr_sgn(e) < 0 && mpfr_cmpabs(e, r) > 0;
        if (up > 0 && down > 0) {
            *out = c;
            done = true;
        } else if (exact && (up == 0 || down == 0)) { /* a tie: rt_round_to knows which is even */
            const double tie = up == 0 ? c + 0.5 * gap_above : c - 0.5 * gap_below;
            *out = rt_round_to(format, tie);
            if (format == RT_F64) { /* the midpoint is no double: the even neighbour of two */
                uint64_t bits;
                memcpy(&bits, &c, sizeof bits);
                *out = (bits & 1) == 0 ? c : up == 0 ? c + gap_above : c - gap_below;
            }
            done = true;
        } else if (c >= max && beyond_up) {
            *out = rt_round_to(format, 2 * max);
            done = true;
        } else if (c <= -max && beyond_down) {
            *out = rt_round_to(format, -2 * max);
            done = true;
        } else if (beyond_up || beyond_down) {
            rt_exact_candidate(format, beyond_up ? c + 0.75 * gap_above : c - 0.75 * gap_below, &c,
                               &gap_below, &gap_above);
        } else {
            break;
        }
    }
    mpfr_clears(d, e, half, (mpfr_ptr)0);
    if (done && !(*out < 0 || *out > 0) && !isnan(*out))
        *out = 0.0; /* zeros are +0 */
    return done;
}

/* O_d as a class mean over keep, if all classes have the same. */
static bool rational_output(const rt_mpfr_row *r, int64_t d, rt_dtype format, double *out)
{
    enum { KEEP_BITS = 1200, BITS = EXACT_BITS + 64 };
    const int64_t Dv = r->p->dim_v;
    mpfr_t *sum = malloc((size_t)r->classes * sizeof *sum);
    int64_t *count = calloc((size_t)r->classes, sizeof *count);
    bool same = sum != NULL && count != NULL, decided = false;
    if (same) {
        for (int64_t c = 0; c < r->classes; c++)
            mpfr_init2(sum[c], EXACT_BITS);
        for (int64_t c = 0; c < r->classes; c++)
            mpfr_set_zero(sum[c], 1);
        for (int64_t j = 0; j < r->n; j++) {
            mpfr_add_d(sum[r->class_of[j]], sum[r->class_of[j]], r->v[j * Dv + d], MPFR_RNDN);
            count[r->class_of[j]]++;
        }
        mpfr_t a, b, by;
        mpfr_inits2(BITS, a, b, (mpfr_ptr)0);
        mpfr_init2(by, KEEP_BITS);
        for (int64_t c = 1; c < r->classes && same; c++) { /* sum_c / n_c = sum_0 / n_0, exactly */
            mpfr_mul_si(a, sum[c], (long)count[0], MPFR_RNDN);
            mpfr_mul_si(b, sum[0], (long)count[c], MPFR_RNDN);
            same = mpfr_cmp(a, b) == 0;
        }
        if (same) { /* scale the question instead of the answer: compare sum with n keep times the midpoints */
            mpfr_set_d(by, 1, MPFR_RNDN);
            mpfr_sub_d(by, by, r->p->dropout, MPFR_RNDN);
            mpfr_mul_si(by, by, (long)count[0], MPFR_RNDN);
            mpfr_div(a, sum[0], by, MPFR_RNDN);
            mpfr_set_prec(b, BITS + KEEP_BITS);
            mpfr_mul(b, a, by, MPFR_RNDN);
            const bool whole = mpfr_cmp(b, sum[0]) == 0;
            mpfr_set_zero(b, 1);
            if (!whole) { /* a repeating fraction is no midpoint: an error of one unit of 4464 bits */
                mpfr_set(b, a, MPFR_RNDN);
                mpfr_abs(b, b, MPFR_RNDN);
                mpfr_div_2si(b, b, EXACT_BITS + 60, MPFR_RNDN);
            }
            decided = rt_mpfr_decide(format, a, b, whole, out);
        }
        mpfr_clears(a, b, by, (mpfr_ptr)0);
        for (int64_t c = 0; c < r->classes; c++)
            mpfr_clear(sum[c]);
    }
    free(sum);
    free(count);
    return decided;
}

/* exp(y) is 0 to any precision in use: y is below -1e9, and off by no more than a part of it in 2^60. */
bool rt_mpfr_vanishes(const rt_mpfr_row *r, const mpfr_t y, double off)
{
    const double size = fabs(mpfr_get_d(y, MPFR_RNDN));
    return size > 1e9 && (r->add == NULL || off * 0x1p-100 < size);
}

double rt_mpfr_weights(const rt_mpfr_row *r, mpfr_t *w, mpfr_t sum, mpfr_t alpha, mpfr_t shift,
                       double *shift_size)
{
    double size = 0;
    const mpfr_prec_t prec = mpfr_get_prec(alpha);
    rt_mpfr_scale(alpha, r->p);
    *shift_size = rt_mpfr_value(r, r->top, alpha, shift);
    if (r->add == NULL) /* one product, rounded */
        *shift_size = 0;
    mpfr_set_zero(sum, 1);
    for (int64_t j = 0; j < r->n; j++) {
        const double off = rt_mpfr_gap(r, j, r->top, alpha, w[j]);
        size = off > size && !rt_mpfr_vanishes(r, w[j], off) ? off : size;
        mpfr_exp(w[j], w[j], MPFR_RNDN);
        mpfr_add(sum, sum, w[j], MPFR_RNDN);
    }
    return ldexp(size, (int)(20 - prec)) < 1 ? size : RT_INF;
}

void rt_mpfr_narrow(rt_interval *between, const mpfr_t x, const mpfr_t r)
{
    mpfr_t end;
    mpfr_init2(end, mpfr_get_prec(x));
    mpfr_sub(end, x, r, MPFR_RNDD);
    const double low = mpfr_get_d(end, MPFR_RNDD);
    mpfr_add(end, x, r, MPFR_RNDU);
    const double high = mpfr_get_d(end, MPFR_RNDU);
    mpfr_clear(end);
    between->low = low > between->low ? low : between->low;
    between->high = high < between->high ? high : between->high;
}

static rt_status resolve_row(rt_context *ctx, const rt_exact_source *s, int64_t b, int64_t h, int64_t pos,
                             rt_dtype format, rt_dtype lse_format, bool *todo, bool *todo_lse, double *out,
                             double *lse, rt_interval *between, rt_interval *lse_between,
                             rt_certificate *cert)
{
    const int64_t Dv = s->p->dim_v;
    rt_mpfr_row r;
    RT_TRY(rt_mpfr_row_load(ctx, s, b, h, pos, &r));
    int64_t open = 0;
    mpfr_t keep;
    mpfr_init2(keep, 1200);
    mpfr_set_d(keep, 1, MPFR_RNDN);
    mpfr_sub_d(keep, keep, s->p->dropout, MPFR_RNDN);
    for (int64_t d = 0; d < Dv; d++) {
        if (!todo[d])
            continue;
        bool finite = true;
        for (int64_t j = 0; j < r.n; j++)
            finite = finite && isfinite(r.v[j * Dv + d]);
        if (!finite) { /* a NaN or an infinity in a visible v */
            out[d] = RT_NAN;
            todo[d] = false;
            cert[RT_OUT].exact_case++;
        } else if (rational_output(&r, d, format, &out[d])) {
            todo[d] = false;
            cert[RT_OUT].exact_case++;
        } else if (rt_mpfr_leading_output(&r, d, format, &out[d])) {
            todo[d] = false;
            cert[RT_OUT].mpfr++;
        } else {
            open++;
        }
    }
    if (*todo_lse && rt_mpfr_leading_lse(&r, lse_format, lse)) {
        *todo_lse = false;
        cert[RT_LSE].mpfr++;
    }
    mpfr_t *w = rt_alloc(ctx, r.n, sizeof *w);
    if (w == NULL) {
        mpfr_clear(keep);
        rt_mpfr_row_reset(&r);
        return RT_ERR_NOMEM;
    }
    for (mpfr_prec_t prec = FIRST_PRECISION; prec <= LAST_PRECISION && (open > 0 || *todo_lse); prec *= 2) {
        mpfr_t sum, alpha, shift, x, t, total, error;
        mpfr_inits2(prec, sum, alpha, shift, x, t, total, error, (mpfr_ptr)0);
        for (int64_t j = 0; j < r.n; j++)
            mpfr_init2(w[j], prec);
        double shift_size;
        const double size = rt_mpfr_weights(&r, w, sum, alpha, shift, &shift_size);
        /* every weight is right to (|y| 4 + 4) 2^-prec, sums of n of them to n 2^-prec more; both numerator and denominator */
        const double units = 2 * (4 * size + 8 + 2 * (double)r.n) + 20;
        for (int64_t d = 0; d < Dv; d++) {
            if (!todo[d])
                continue;
            mpfr_set_zero(x, 1);
            mpfr_set_zero(total, 1);
            for (int64_t j = 0; j < r.n; j++) {
                mpfr_mul_d(t, w[j], r.v[j * Dv + d], MPFR_RNDN);
                mpfr_add(x, x, t, MPFR_RNDN);
                mpfr_abs(t, t, MPFR_RNDN);
                mpfr_add(total, total, t, MPFR_RNDU);
            }
            mpfr_div(x, x, sum, MPFR_RNDN);
            mpfr_div(x, x, keep, MPFR_RNDN);
            mpfr_div(error, total, sum, MPFR_RNDU);
            mpfr_div(error, error, keep, MPFR_RNDU);
            mpfr_mul_d(error, error, units, MPFR_RNDU);
            mpfr_div_2si(error, error, prec, MPFR_RNDU);
            if (rt_mpfr_decide(format, x, error, false, &out[d])) {
                todo[d] = false;
                open--;
                cert[RT_OUT].mpfr++;
                cert[RT_OUT].precision = prec > cert[RT_OUT].precision ? prec : cert[RT_OUT].precision;
            } else {
                rt_mpfr_narrow(&between[d], x, error);
            }
        }
        if (*todo_lse) {
            mpfr_log(x, sum, MPFR_RNDN);
            mpfr_add(x, x, shift, MPFR_RNDN);
            mpfr_abs(error, shift, MPFR_RNDU);
            mpfr_add_d(error, error, units + 4 * shift_size + 64, MPFR_RNDU);
            mpfr_mul_2si(error, error, 2 - prec, MPFR_RNDU);
            bool exact = false;
            if (r.n == 1) { /* L is the score */
                mpfr_t full;
                mpfr_init2(full, 2 * EXACT_BITS);
                exact = rt_mpfr_exact_value(&r, 0, full);
                if (exact)
                    mpfr_set_zero(error, 1);
                if (rt_mpfr_decide(lse_format, exact ? full : x, error, exact, lse)) {
                    *todo_lse = false;
                    cert[RT_LSE].exact_case += exact;
                    cert[RT_LSE].mpfr += !exact;
                }
                mpfr_clear(full);
            } else if (rt_mpfr_decide(lse_format, x, error, false, lse)) {
                *todo_lse = false;
                cert[RT_LSE].mpfr++;
            }
            if (*todo_lse)
                rt_mpfr_narrow(lse_between, x, error);
            if (!*todo_lse && !exact)
                cert[RT_LSE].precision = prec > cert[RT_LSE].precision ? prec : cert[RT_LSE].precision;
        }
        for (int64_t j = 0; j < r.n; j++)
            mpfr_clear(w[j]);
        mpfr_clears(sum, alpha, shift, x, t, total, error, (mpfr_ptr)0);
    }
    rt_free(w);
    mpfr_clear(keep);
    rt_mpfr_row_reset(&r);
    return RT_OK;
}

rt_status rt_exact_resolve_row(rt_context *ctx, const rt_exact_source *s, int64_t b, int64_t h, int64_t pos,
                               rt_dtype format, rt_dtype lse_format, bool *todo, bool *todo_lse,
                               double *out, double *lse, rt_interval *between, rt_interval *lse_between,
                               rt_certificate *cert)
{
    const rt_status st = resolve_row(ctx, s, b, h, pos, format, lse_format, todo, todo_lse, out, lse,
                                     between, lse_between, cert);
    mpfr_free_cache2(MPFR_FREE_LOCAL_CACHE); /* the thread may end, and would lose it */
    return st;
}
