/* The last resort of exact: one row, or one element of a gradient, by MPFR.
 *
 * O_d is rational only if in every class of keys with equal scores the mean of v_d is the same number (the exponentials of distinct
 * algebraic exponents are linearly independent over the algebraic numbers, Lindemann-Weierstrass): then O_d is that mean.  L is
 * rational only if one key alone is visible: then L = scale * score.  Everything else is transcendental, so it is no midpoint between two
 * representable numbers and rising precision decides it in the end. */
#include "arithmetic/exact_mpfr.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_PRECISION = 192, LAST_PRECISION = 12288, EXACT_BITS = RT_EXACT_BITS };

void rt_mpfr_row_reset(rt_mpfr_row *r)
{
    for (int64_t j = 0; j < r->n && r->score != NULL; j++)
        mpfr_clear(r->score[j]);
    rt_free(r->score);
    rt_free(r->key);
    rt_free(r->v);
    rt_free(r->class_of);
    memset(r, 0, sizeof *r);
}

static int by_score(const void *a, const void *b)
{
    const mpfr_t *const *x = a, *const *y = b;
    return mpfr_cmp(**x, **y);
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

rt_status rt_mpfr_row_load(rt_context *ctx, const rt_exact_source *s, int64_t b, int64_t h, int64_t pos,
                           rt_mpfr_row *r)
{
    const rt_problem *p = s->p;
    const int64_t g = h / (p->heads_q / p->heads_kv), D = p->dim, Dv = p->dim_v;
    int64_t lo, hi;
    rt_mask_row(p, pos, &lo, &hi);
    memset(r, 0, sizeof *r);
    r->n = rt_mask_row_count(p, b, pos, INT64_MAX);
    r->key = rt_alloc(ctx, r->n, sizeof *r->key);
    r->v = rt_alloc(ctx, r->n * Dv + 2 * D, sizeof *r->v);
    r->class_of = rt_alloc(ctx, r->n, sizeof *r->class_of);
    mpfr_t **order = rt_alloc(ctx, r->n, sizeof *order);
    mpfr_t *score = rt_alloc(ctx, r->n, sizeof *score);
    if (r->key == NULL || r->v == NULL || r->class_of == NULL || order == NULL || score == NULL) {
        rt_free(order);
        rt_free(score);
        rt_mpfr_row_reset(r);
        return RT_ERR_NOMEM;
    }
    r->score = score;
    double *q = r->v + r->n * Dv, *k = q + D;
    s->load(s->arg, RT_Q, b, pos, h, q);
    mpfr_t term;
    mpfr_init2(term, 110);
    for (int64_t j = 0, key = lo; j < r->n; j++, key++) {
        while (!rt_mask_visible(p, b, pos, key))
            key++;
        r->key[j] = key;
        s->load(s->arg, RT_K, b, key, g, k);
        s->load(s->arg, RT_V, b, key, g, r->v + j * Dv);
        mpfr_init2(score[j], EXACT_BITS);
        rt_mpfr_dot(score[j], term, q, k, D);
        order[j] = &score[j];
    }
    mpfr_clear(term);
    qsort(order, (size_t)r->n, sizeof *order, by_score);
    for (int64_t j = 0; j < r->n; j++) {
        if (j > 0 && mpfr_cmp(*order[j], *order[j - 1]) != 0 &&
            (p->scale < 0 || p->scale > 0)) /* scale 0: all weigh the same */
            r->classes++;
        r->class_of[order[j] - score] = r->classes;
    }
    r->classes++;
    rt_free(order);
    return RT_OK;
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

/* O_d as a class mean, if all classes have the same. */
static bool rational_output(const rt_mpfr_row *r, int64_t d, int64_t Dv, rt_dtype format, double *out)
{
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
        mpfr_t a, b;
        mpfr_inits2(EXACT_BITS + 64, a, b, (mpfr_ptr)0);
        for (int64_t c = 1; c < r->classes && same; c++) { /* sum_c / n_c = sum_0 / n_0, exactly */
            mpfr_mul_si(a, sum[c], (long)count[0], MPFR_RNDN);
            mpfr_mul_si(b, sum[0], (long)count[c], MPFR_RNDN);
            same = mpfr_cmp(a, b) == 0;
        }
        if (same) { /* scale the question instead of the answer: compare sum with n times the midpoints */
            mpfr_div_si(a, sum[0], (long)count[0], MPFR_RNDN);
            mpfr_mul_si(b, a, (long)count[0], MPFR_RNDN);
            const bool whole = mpfr_cmp(b, sum[0]) == 0;
            mpfr_set_zero(b, 1);
            if (!whole) { /* a repeating fraction is no midpoint: an error of one unit of 4464 bits */
                mpfr_set(b, a, MPFR_RNDN);
                mpfr_abs(b, b, MPFR_RNDN);
                mpfr_div_2si(b, b, EXACT_BITS + 60, MPFR_RNDN);
            }
            decided = rt_mpfr_decide(format, a, b, whole, out);
        }
        mpfr_clears(a, b, (mpfr_ptr)0);
        for (int64_t c = 0; c < r->classes; c++)
            mpfr_clear(sum[c]);
    }
    free(sum);
    free(count);
    return decided;
}

/* Weights exp(alpha (s - s_max)) at precision w.prec and their sum; returns the largest |alpha s|. */
double rt_mpfr_weights(const rt_problem *p, const rt_mpfr_row *r, mpfr_t *w, mpfr_t sum, mpfr_t alpha,
                       mpfr_t shift)
{
    double size = 0;
    rt_mpfr_scale(alpha, p);
    int64_t top = 0;
    for (int64_t j = 1; j < r->n; j++)
        if (mpfr_cmp(r->score[j], r->score[top]) * (p->scale < 0 ? -1 : 1) > 0)
            top = j;
    mpfr_mul(shift, r->score[top], alpha, MPFR_RNDN);
    mpfr_set_zero(sum, 1);
    mpfr_t d;
    mpfr_init2(d, EXACT_BITS + 16);
    for (int64_t j = 0; j < r->n; j++) {
        mpfr_sub(d, r->score[j], r->score[top], MPFR_RNDN); /* exact */
        mpfr_mul(w[j], d, alpha, MPFR_RNDN);
        const double y = fabs(mpfr_get_d(w[j], MPFR_RNDN));
        size = y > size && y < 1e9 ? y : size; /* below, a weight is 0 to any precision in use */
        mpfr_exp(w[j], w[j], MPFR_RNDN);
        mpfr_add(sum, sum, w[j], MPFR_RNDN);
    }
    mpfr_clear(d);
    return size;
}

rt_status rt_exact_resolve_row(rt_context *ctx, const rt_exact_source *s, int64_t b, int64_t h, int64_t pos,
                               rt_dtype format, rt_dtype lse_format, bool *todo, bool *todo_lse,
                               double *out, double *lse, rt_certificate *cert)
{
    const int64_t Dv = s->p->dim_v;
    rt_mpfr_row r;
    RT_TRY(rt_mpfr_row_load(ctx, s, b, h, pos, &r));
    int64_t open = 0;
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
        } else if (rational_output(&r, d, Dv, format, &out[d])) {
            todo[d] = false;
            cert[RT_OUT].exact_case++;
        } else if (rt_mpfr_leading_output(s->p, &r, d, format, &out[d])) {
            todo[d] = false;
            cert[RT_OUT].mpfr++;
        } else {
            open++;
        }
    }
    if (*todo_lse && rt_mpfr_leading_lse(s->p, &r, lse_format, lse)) {
        *todo_lse = false;
        cert[RT_LSE].mpfr++;
    }
    mpfr_t *w = rt_alloc(ctx, r.n, sizeof *w);
    if (w == NULL) {
        rt_mpfr_row_reset(&r);
        return RT_ERR_NOMEM;
    }
    for (mpfr_prec_t prec = FIRST_PRECISION; prec <= LAST_PRECISION && (open > 0 || *todo_lse); prec *= 2) {
        mpfr_t sum, alpha, shift, x, t, total, error;
        mpfr_inits2(prec, sum, alpha, shift, x, t, total, error, (mpfr_ptr)0);
        for (int64_t j = 0; j < r.n; j++)
            mpfr_init2(w[j], prec);
        const double size = rt_mpfr_weights(s->p, &r, w, sum, alpha, shift);
        /* every weight is right to (|y| 4 + 4) 2^-prec, sums of n of them to n 2^-prec more; both numerator and denominator */
        const double units = 2 * (4 * size + 8 + 2 * (double)r.n) + 16;
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
            mpfr_div(error, total, sum, MPFR_RNDU);
            mpfr_mul_d(error, error, units, MPFR_RNDU);
            mpfr_div_2si(error, error, prec, MPFR_RNDU);
            if (rt_mpfr_decide(format, x, error, false, &out[d])) {
                todo[d] = false;
                open--;
                cert[RT_OUT].mpfr++;
                cert[RT_OUT].precision = prec > cert[RT_OUT].precision ? prec : cert[RT_OUT].precision;
            }
        }
        if (*todo_lse) {
            mpfr_log(x, sum, MPFR_RNDN);
            mpfr_add(x, x, shift, MPFR_RNDN);
            mpfr_abs(error, shift, MPFR_RNDU);
            mpfr_add_d(error, error, units + 64, MPFR_RNDU);
            mpfr_mul_2si(error, error, 2 - prec, MPFR_RNDU);
            bool exact = false;
            if (r.n == 1) { /* L = alpha s */
                mpfr_t full;
                mpfr_init2(full, 2 * EXACT_BITS);
                exact = rt_mpfr_scaled(s->p, r.score[0], full);
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
            if (!*todo_lse && !exact)
                cert[RT_LSE].precision = prec > cert[RT_LSE].precision ? prec : cert[RT_LSE].precision;
        }
        for (int64_t j = 0; j < r.n; j++)
            mpfr_clear(w[j]);
        mpfr_clears(sum, alpha, shift, x, t, total, error, (mpfr_ptr)0);
    }
    rt_free(w);
    rt_mpfr_row_reset(&r);
    return RT_OK;
}
