/* Scores of an MPFR row: what joins and bends them, their order, their exact values.
 *
 * Up to the softcap a score is y = alpha s + t, s = q.k and t = alibi + bias exact numbers, alpha a double or 1 / sqrt(D).  Whether two
 * are equal, and which is larger, is decided exactly: for a double alpha the difference is a sum of exact products; else that of
 * ds + sqrt(D) dt, by squares.  The softcap keeps the order of keys and their classes.  The sink is the row's last key, with value 0 and a
 * score of its own that no softcap bends: c tanh(y / c) is transcendental unless y is 0 (Lindemann-Weierstrass), so that it equals
 * the sink only if both are 0, and rising precision tells which is larger. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arithmetic/exact_mpfr.h"

enum { WIDE = 2 * RT_EXACT_BITS, ORDER_BITS = 20000 };

bool rt_mpfr_bends(const rt_problem *p)
{
    return p->alibi != NULL || p->bias != NULL || p->softcap > 0 || p->sink != NULL;
}

void rt_mpfr_added(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t j, mpfr_t out)
{
    double low;
    mpfr_set_d(out, rt_score_alibi(p, h, i, j, &low), MPFR_RNDN);
    mpfr_add_d(out, out, low, MPFR_RNDN);
    mpfr_add_d(out, out, rt_score_bias(p, b, h, i, j), MPFR_RNDN);
}

/* The sign of alpha ds + dt. */
static int sign_of(const rt_problem *p, const mpfr_t ds, const mpfr_t dt)
{
    int sign = 0;
    mpfr_t x, y;
    mpfr_inits2(2 * WIDE, x, y, (mpfr_ptr)0);
    if (p->scale_kind != RT_SCALE_RSQRT_DIM) {
        mpfr_mul_d(x, ds, p->scale, MPFR_RNDN);
        mpfr_add(x, x, dt, MPFR_RNDN);
        sign = mpfr_sgn(x);
    } else if (mpfr_sgn(ds) * mpfr_sgn(dt) >= 0) {
        sign = mpfr_zero_p(ds) ? mpfr_sgn(dt) : mpfr_sgn(ds);
    } else {
        mpfr_sqr(x, ds, MPFR_RNDN);
        mpfr_sqr(y, dt, MPFR_RNDN);
        mpfr_mul_si(y, y, (long)p->dim, MPFR_RNDN);
        sign = mpfr_cmp(x, y) * mpfr_sgn(ds);
    }
    mpfr_clears(x, y, (mpfr_ptr)0);
    return sign;
}

/* The sign of z_j - z_k. */
static int compare(const rt_mpfr_row *r, int64_t j, int64_t k)
{
    const rt_problem *p = r->p;
    if (r->add == NULL) {
        const int sign = mpfr_cmp(r->score[j], r->score[k]);
        return p->scale > 0 ? sign : p->scale < 0 ? -sign : 0;
    }
    int sign = 0;
    mpfr_t a, b;
    mpfr_inits2(WIDE, a, b, (mpfr_ptr)0);
    const bool sink_j = r->key[j] < 0, sink_k = r->key[k] < 0;
    if (!(p->softcap > 0) || (!sink_j && !sink_k)) {
        mpfr_sub(a, r->score[j], r->score[k], MPFR_RNDN);
        mpfr_sub(b, r->add[j], r->add[k], MPFR_RNDN);
        sign = sign_of(p, a, b);
    } else if (!sink_j || !sink_k) { /* c tanh(y / c) against the sink */
        const int64_t key = sink_j ? k : j, sink = sink_j ? j : k;
        mpfr_t alpha;
        mpfr_init2(alpha, ORDER_BITS);
        const bool both_zero = sign_of(p, r->score[key], r->add[key]) == 0 && mpfr_zero_p(r->add[sink]);
        for (mpfr_prec_t prec = 160; prec <= ORDER_BITS && sign == 0 && !both_zero; prec *= 2) {
            mpfr_set_prec(a, prec);
            mpfr_set_prec(b, prec);
            mpfr_set_prec(alpha, prec);
            rt_mpfr_scale(alpha, p);
            const double size = rt_mpfr_value(r, key, alpha, a);
            mpfr_sub(a, a, r->add[sink], MPFR_RNDN);
            mpfr_set_d(b, size + fabs(p->sink[r->head]), MPFR_RNDU);
            mpfr_mul_2si(b, b, 4 - prec, MPFR_RNDU);
            sign = mpfr_cmpabs(a, b) > 0 ? mpfr_sgn(a) * (sink_j ? -1 : 1) : 0;
        }
        if (sign == 0 && !both_zero) /* distinct, whichever is first */
            sign = sink_j ? 1 : -1;
        mpfr_clear(alpha);
    }
    mpfr_clears(a, b, (mpfr_ptr)0);
    return sign;
}

typedef struct {
    const rt_mpfr_row *row;
    int64_t key;
} item;

static int by_score(const void *a, const void *b)
{
    const item *x = a, *y = b;
    return compare(x->row, x->key, y->key);
}

rt_status rt_mpfr_classes(rt_context *ctx, rt_mpfr_row *r)
{
    item *order = rt_alloc(ctx, r->n, sizeof *order);
    if (order == NULL)
        return RT_ERR_NOMEM;
    for (int64_t j = 0; j < r->n; j++)
        order[j] = (item){r, j};
    qsort(order, (size_t)r->n, sizeof *order, by_score);
    r->classes = 0;
    for (int64_t j = 0; j < r->n; j++) {
        r->classes += j > 0 && compare(r, order[j].key, order[j - 1].key) != 0;
        r->class_of[order[j].key] = r->classes;
    }
    r->top = r->n > 0 ? order[r->n - 1].key : -1;
    r->classes++;
    rt_free(order);
    return RT_OK;
}

/* tanh is flatter than 1, and where |y| is above a million caps an error of |y| 2^-100 changes nothing that shows. */
double rt_mpfr_value(const rt_mpfr_row *r, int64_t j, const mpfr_t alpha, mpfr_t out)
{
    const rt_problem *p = r->p;
    mpfr_mul(out, r->score[j], alpha, MPFR_RNDN);
    double size = fabs(mpfr_get_d(out, MPFR_RNDN));
    if (r->add == NULL)
        return size;
    mpfr_add(out, out, r->add[j], MPFR_RNDN);
    size += fabs(mpfr_get_d(r->add[j], MPFR_RNDN));
    if (!(p->softcap > 0) || r->key[j] < 0)
        return size;
    const double y = fabs(mpfr_get_d(out, MPFR_RNDN));
    const bool flat = y > 1e6 * p->softcap && y > size * 0x1p-100;
    mpfr_div_d(out, out, p->softcap, MPFR_RNDN);
    mpfr_tanh(out, out, MPFR_RNDN);
    mpfr_mul_d(out, out, p->softcap, MPFR_RNDN);
    return flat ? 4 * p->softcap : 4 * size;
}

double rt_mpfr_slope(const rt_mpfr_row *r, int64_t j, const mpfr_t alpha, mpfr_t out)
{
    const rt_problem *p = r->p;
    mpfr_mul(out, r->score[j], alpha, MPFR_RNDN);
    double size = fabs(mpfr_get_d(out, MPFR_RNDN));
    mpfr_add(out, out, r->add[j], MPFR_RNDN);
    size += fabs(mpfr_get_d(r->add[j], MPFR_RNDN));
    mpfr_div_d(out, out, p->softcap, MPFR_RNDN);
    mpfr_sech(out, out, MPFR_RNDN);
    mpfr_sqr(out, out, MPFR_RNDN);
    return 4 * size / p->softcap + 4;
}

double rt_mpfr_gap(const rt_mpfr_row *r, int64_t j, int64_t k, const mpfr_t alpha, mpfr_t out)
{
    const rt_problem *p = r->p;
    double size = 0;
    if (p->softcap > 0) {
        mpfr_t z;
        mpfr_init2(z, mpfr_get_prec(out));
        size = rt_mpfr_value(r, j, alpha, out) + rt_mpfr_value(r, k, alpha, z);
        if (r->class_of[j] == r->class_of[k])
            mpfr_set_zero(out, 1);
        else
            mpfr_sub(out, out, z, MPFR_RNDN);
        mpfr_clear(z);
        return size;
    }
    mpfr_t d;
    mpfr_init2(d, RT_EXACT_BITS + 16);
    mpfr_sub(d, r->score[j], r->score[k], MPFR_RNDN); /* exact */
    mpfr_mul(out, d, alpha, MPFR_RNDN);
    size = fabs(mpfr_get_d(out, MPFR_RNDN));
    if (r->add != NULL) {
        mpfr_sub(d, r->add[j], r->add[k], MPFR_RNDN); /* exact */
        size += fabs(mpfr_get_d(d, MPFR_RNDN));
        if (r->class_of[j] == r->class_of[k])
            mpfr_set_zero(out, 1);
        else
            mpfr_add(out, out, d, MPFR_RNDN);
    }
    mpfr_clear(d);
    return size;
}

bool rt_mpfr_exact_value(const rt_mpfr_row *r, int64_t j, mpfr_t out)
{
    const rt_problem *p = r->p;
    if (r->add == NULL)
        return rt_mpfr_scaled(p, r->score[j], out);
    if (p->softcap > 0 && r->key[j] >= 0) {
        mpfr_set_zero(out, 1);
        return sign_of(p, r->score[j], r->add[j]) == 0;
    }
    if (!rt_mpfr_scaled(p, r->score[j], out))
        return false;
    mpfr_add(out, out, r->add[j], MPFR_RNDN);
    return true;
}
