/* referee.c: see referee.h.
 *
 * Scores and dO.v are exact sums of products (4,400 bits hold any of doubles); all else is rounded to
 * `bits` bits, with an error far below mass 2^-(bits - 80).  A result that lies that near to a midpoint of
 * its format is evaluated again with so many bits that only a true tie can still lie there: exponentials of
 * gaps up to `spread` cannot be smaller than exp(-spread). */
#include "referee.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DOT_BITS = 4400, FIRST_BITS = 320, MAX_SPREAD = 20000, MAX_FINE = 12000, MORE_BITS = 800 };

/* ---- formats
 * --------------------------------------------------------------------------------------------- */

typedef struct {
    int precision, low; /* bits of the significand; exponent of the smallest normal */
    double max, beyond; /* largest value; what is larger becomes */
} format_of;

static format_of describe(rt_dtype t)
{
    const double inf = (double)INFINITY, nan = (double)NAN;
    switch ((int)t) {
    case RT_F32:
        return (format_of){24, -126, 0x1.fffffep127, inf};
    case RT_BF16:
        return (format_of){8, -126, 0x1.fep127, inf};
    case RT_F16:
        return (format_of){11, -14, 65504, inf};
    case RT_E4M3:
        return (format_of){4, -6, 448, nan};
    case RT_E5M2:
        return (format_of){3, -14, 57344, inf};
    default:
        return (format_of){53, -1022, 0x1.fffffffffffffp1023, inf};
    }
}

double referee_round(rt_dtype format, const mpfr_t x, const mpfr_t tolerance, bool *doubt)
{
    const format_of f = describe(format);
    if (mpfr_nan_p(x))
        return (double)NAN;
    if (mpfr_cmpabs(x, tolerance) <= 0) { /* nothing but rounding errors, unless it is zero */
        if (doubt != NULL)
            *doubt = true;
        return 0.0;
    }
    long e = mpfr_zero_p(x) ? f.low : (long)mpfr_get_exp(x) - 1;
    e = e < f.low ? f.low : e;
    const long unit = e - f.precision + 1;
    mpfr_t y, whole, off, tol;
    mpfr_inits2(mpfr_get_prec(x) + 128, y, whole, off, tol, (mpfr_ptr)0);
    mpfr_mul_2si(y, x, -unit, MPFR_RNDN);
    mpfr_mul_2si(tol, tolerance, -unit, MPFR_RNDU);
    /* distance to the midpoint of the two integers around y */
    mpfr_floor(whole, y);
    mpfr_add_d(whole, whole, 0.5, MPFR_RNDN);
    mpfr_sub(off, y, whole, MPFR_RNDN);
    bool near = mpfr_cmpabs(off, tol) <= 0;
    if (near)
        mpfr_set(y, whole, MPFR_RNDN); /* a tie, which rint takes to even */
    /* at a power of two the midpoint below is a quarter away in these units */
    if (!near && e > f.low) {
        mpfr_set_si_2exp(whole, 1, f.precision - 1, MPFR_RNDN);
        mpfr_abs(off, y, MPFR_RNDN);
        mpfr_sub(off, off, whole, MPFR_RNDN);
        mpfr_add_d(off, off, 0.25, MPFR_RNDN);
        near = mpfr_cmpabs(off, tol) <= 0;
    }
    if (doubt != NULL)
        *doubt = *doubt || near;
    mpfr_rint(y, y, MPFR_RNDN);
    mpfr_mul_2si(y, y, unit, MPFR_RNDN);
    double r;
    if (mpfr_cmp_d(y, f.max) > 0)
        r = f.beyond;
    else if (mpfr_cmp_d(y, -f.max) < 0)
        r = -f.beyond;
    else
        r = mpfr_get_d(y, MPFR_RNDN);
    mpfr_clears(y, whole, off, tol, (mpfr_ptr)0);
    return r < 0 || r > 0 || isnan(r) ? r : 0.0;
}

double referee_round_d(rt_dtype format, double x)
{
    mpfr_t y, none;
    mpfr_init2(y, 53);
    mpfr_init2(none, 53);
    mpfr_set_d(y, x, MPFR_RNDN);
    mpfr_set_zero(none, 1);
    const double r = referee_round(format, y, none, NULL);
    mpfr_clears(y, none, (mpfr_ptr)0);
    return r;
}

/* ---- sizes and masks
 * -------------------------------------------------------------------------------------- */

static bool of_keys(rt_tensor_id t)
{
    return t == RT_K || t == RT_V || t == RT_DK || t == RT_DV;
}

int64_t referee_rows(const rt_problem *p, rt_tensor_id t)
{
    if (t == RT_DSINK)
        return p->sink != NULL ? p->heads_q : 0;
    if (t == RT_DBIAS)
        return p->bias != NULL && !p->no_dbias ? p->bias_shape[0] * p->bias_shape[1] * p->bias_shape[2] : 0;
    return p->batch * (of_keys(t) ? p->seqlen_k * p->heads_kv : p->seqlen_q * p->heads_q);
}

int64_t referee_width(const rt_problem *p, rt_tensor_id t)
{
    if (t == RT_LSE || t == RT_DSINK)
        return 1;
    if (t == RT_DBIAS)
        return p->seqlen_k;
    return t == RT_Q || t == RT_K || t == RT_DQ || t == RT_DK ? p->dim : p->dim_v;
}

static int64_t element(const rt_problem *p, rt_tensor_id t, int64_t b, int64_t pos, int64_t h)
{
    const int64_t length = of_keys(t) ? p->seqlen_k : p->seqlen_q,
                  heads = of_keys(t) ? p->heads_kv : p->heads_q;
    return ((b * length + pos) * heads + h) * referee_width(p, t);
}

/* One document's own coordinates: query qi of nq, key kj of nk. */
static bool near(const rt_problem *p, int64_t qi, int64_t kj, int64_t nq, int64_t nk)
{
    const int64_t diagonal = p->mask == RT_MASK_CAUSAL_BOTTOM_RIGHT ? qi + nk - nq : qi;
    const bool causal = p->mask == RT_MASK_FULL || kj <= diagonal;
    const bool left = !p->has_window || p->window_left < 0 || diagonal - p->window_left <= kj;
    const bool right = !p->has_window || p->window_right < 0 || kj <= diagonal + p->window_right;
    return kj < p->prefix || (causal && left && right);
}

/* Part by part, pair by pair. */
static bool visible(const rt_problem *p, int64_t b, int64_t i, int64_t j)
{
    bool seen = p->documents == 0 && near(p, i, j, p->seqlen_q, p->seqlen_k);
    for (int64_t n = 0; n < p->documents; n++) {
        const int64_t qi = i - p->cu_q[n], kj = j - p->cu_k[n], nq = p->cu_q[n + 1] - p->cu_q[n],
                      nk = p->cu_k[n + 1] - p->cu_k[n];
        if (qi >= 0 && qi < nq && kj >= 0 && kj < nk)
            seen = near(p, qi, kj, nq, nk);
    }
    int64_t slices = 0;
    for (int64_t n = 0; n < p->n_slices; n++) {
        const rt_slice *s = &p->slices[n];
        const int64_t from_top = i - s->q0, from_bottom = s->q1 - 1 - i, from_left = j - s->k0,
                      from_right = s->k1 - 1 - j;
        if (from_top < 0 || from_bottom < 0 || from_left < 0 || from_right < 0)
            continue;
        const bool lower = from_right >= from_bottom, upper = from_left >= from_top;
        slices += s->kind == RT_SLICE_FULL || (s->kind == RT_SLICE_CAUSAL && lower) ||
                  (s->kind == RT_SLICE_INV_CAUSAL && upper) ||
                  (s->kind == RT_SLICE_BI_CAUSAL && lower && upper);
    }
    if (p->n_slices > 0 && slices == 0)
        seen = false;
    if (p->key_valid != NULL && !p->key_valid[b * p->seqlen_k + j])
        seen = false;
    return seen && (p->dense == NULL || p->dense[i * p->seqlen_k + j]);
}

/* ---- what joins and bends the scores
 * ----------------------------------------------------------------------- */

/* Bias and dbias, as (B, position, head, Sk) and as (B, head, position, Sk): 0 for an axis of one. */
static int64_t bias_at(const rt_problem *p, int64_t b, int64_t h, int64_t i, bool by_position)
{
    const int64_t *n = p->bias_shape, bb = n[0] == 1 ? 0 : b, hh = n[1] == 1 ? 0 : h,
                  ii = n[2] == 1 ? 0 : i;
    return (by_position ? (bb * n[2] + ii) * n[1] + hh : (bb * n[1] + hh) * n[2] + ii) * n[3];
}

static bool counts(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    if (p->bias != NULL && p->bias[bias_at(p, b, h, i, false) + j] < -DBL_MAX)
        return false;
    return visible(p, b, i, j);
}

static bool bends(const rt_problem *p)
{
    return p->alibi != NULL || p->bias != NULL || p->softcap > 0 || p->sink != NULL;
}

/* Distance of a key from the diagonal of its query's document. */
static int64_t distance(const rt_problem *p, int64_t i, int64_t j)
{
    int64_t qi = i, kj = j, nq = p->seqlen_q, nk = p->seqlen_k;
    for (int64_t n = 0; n < p->documents; n++)
        if (p->cu_q[n] <= i && i < p->cu_q[n + 1]) {
            qi = i - p->cu_q[n];
            kj = j - p->cu_k[n];
            nq = p->cu_q[n + 1] - p->cu_q[n];
            nk = p->cu_k[n + 1] - p->cu_k[n];
        }
    const int64_t diagonal = p->mask == RT_MASK_CAUSAL_BOTTOM_RIGHT ? qi + nk - nq : qi;
    return diagonal > kj ? diagonal - kj : kj - diagonal;
}

/* Philox4x32, ten rounds, from its description: a bijection of 128 bits keyed by 64. */
static void philox(uint64_t key, uint32_t c[4])
{
    uint32_t k0 = (uint32_t)(key & 0xffffffff), k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)c[0] * UINT64_C(0xD2511F53), b = (uint64_t)c[2] * UINT64_C(0xCD9E8D57);
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b,
                                  (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
        memcpy(c, next, sizeof next);
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
}

static bool kept(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    if (!(p->dropout > 0))
        return true;
    const uint64_t block = (uint64_t)j / 4, row = (uint64_t)i;
    uint32_t c[4] = {(uint32_t)block, (uint32_t)row, (uint32_t)(h + (int64_t)((row >> 32) << 24)),
                     (uint32_t)(UINT64_C(0xf0000000) + (block >> 32 << 24) + (uint64_t)b)};
    philox(p->dropout_seed, c);
    return (double)c[j % 4] >= floor(p->dropout * 4294967296.0);
}

/* z = the score of a pair; with a softcap slope = 1 - tanh^2. */
static void score_of(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t j, const mpfr_t product,
                     const mpfr_t alpha, mpfr_t z, mpfr_t slope)
{
    mpfr_mul(z, product, alpha, MPFR_RNDN);
    if (p->alibi != NULL) {
        mpfr_set_d(slope, p->alibi[h], MPFR_RNDN);
        mpfr_mul_si(slope, slope, (long)distance(p, i, j), MPFR_RNDN);
        mpfr_sub(z, z, slope, MPFR_RNDN);
    }
    if (p->bias != NULL)
        mpfr_add_d(z, z, p->bias[bias_at(p, b, h, i, false) + j], MPFR_RNDN);
    mpfr_set_si(slope, 1, MPFR_RNDN);
    if (p->softcap > 0) {
        mpfr_div_d(z, z, p->softcap, MPFR_RNDN);
        mpfr_cosh(slope, z, MPFR_RNDN);
        mpfr_sqr(slope, slope, MPFR_RNDN);
        mpfr_si_div(slope, 1, slope, MPFR_RNDN);
        mpfr_tanh(z, z, MPFR_RNDN);
        mpfr_mul_d(z, z, p->softcap, MPFR_RNDN);
    }
}

/* ---- evaluation
 * ------------------------------------------------------------------------------------------- */

static mpfr_t *numbers(int64_t n, mpfr_prec_t bits)
{
    mpfr_t *x = malloc((size_t)(n > 0 ? n : 1) * sizeof *x);
    if (x == NULL)
        abort();
    for (int64_t i = 0; i < n; i++) {
        mpfr_init2(x[i], bits);
        mpfr_set_zero(x[i], 1);
    }
    return x;
}

static void drop(mpfr_t *x, int64_t n)
{
    for (int64_t i = 0; x != NULL && i < n; i++)
        mpfr_clear(x[i]);
    free(x);
}

/* sum = a.b exactly; mass = sum |a b|. */
static void dot(mpfr_t sum, mpfr_t mass, const double *a, const double *b, int64_t n)
{
    mpfr_t t;
    mpfr_init2(t, 106);
    mpfr_set_zero(sum, 1);
    mpfr_set_zero(mass, 1);
    for (int64_t d = 0; d < n; d++) {
        mpfr_set_d(t, a[d], MPFR_RNDN);
        mpfr_mul_d(t, t, b[d], MPFR_RNDN);
        mpfr_add(sum, sum, t, MPFR_RNDN);
        mpfr_abs(t, t, MPFR_RNDN);
        mpfr_add(mass, mass, t, MPFR_RNDU);
    }
    mpfr_clear(t);
}

/* sum[d] += c x[d], mass[d] += |m x[d]| */
static void add_scaled(mpfr_t *sum, mpfr_t *mass, const mpfr_t c, const mpfr_t m, const double *x,
                       int64_t n)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(c));
    for (int64_t d = 0; d < n; d++) {
        mpfr_mul_d(t, c, x[d], MPFR_RNDN);
        mpfr_add(sum[d], sum[d], t, MPFR_RNDN);
        mpfr_mul_d(t, m, fabs(x[d]), MPFR_RNDU);
        mpfr_add(mass[d], mass[d], t, MPFR_RNDU);
    }
    mpfr_clear(t);
}

static void scale_of(const rt_problem *p, mpfr_t alpha)
{
    if (p->scale_kind == RT_SCALE_RSQRT_DIM) {
        mpfr_set_si(alpha, (long)p->dim, MPFR_RNDN);
        mpfr_sqrt(alpha, alpha, MPFR_RNDN);
        mpfr_si_div(alpha, 1, alpha, MPFR_RNDN);
    } else {
        mpfr_set_d(alpha, p->scale, MPFR_RNDN);
    }
}

typedef struct {
    mpfr_t *score, *z, *slope, *w, *dp, *dp_mass; /* a row's keys */
    mpfr_t alpha, wide_alpha, wide_top, keep, top, sum, gap, t, ds, ds_mass, delta, delta_mass, w_sink;
} scratch;

static void note_gap(referee_truth *out, const mpfr_t gap)
{
    const double y = fabs(mpfr_get_d(gap, MPFR_RNDN));
    out->spread = y > out->spread ? y : out->spread;
    if (!mpfr_zero_p(gap) && -(double)mpfr_get_exp(gap) > out->finest)
        out->finest = -(double)mpfr_get_exp(gap);
}

/* Scores that a softcap takes near its end differ by as little as 1 - tanh^2. */
static void note_slope(referee_truth *out, const mpfr_t slope)
{
    const double fine = mpfr_zero_p(slope) ? 1e300 : -(double)mpfr_get_exp(slope);
    out->finest = fine > out->finest ? fine : out->finest;
}

/* Weights exp(z - top), their sum, top.  Without what bends them, differences of scores are exact. */
static int64_t weights(const referee_inputs *in, int64_t b, int64_t h, int64_t i, scratch *c,
                       referee_truth *out)
{
    const rt_problem *p = in->p;
    const int64_t g = h / (p->heads_q / p->heads_kv), D = p->dim;
    const double *q = in->x[RT_Q] + element(p, RT_Q, b, i, h);
    const bool bent = bends(p);
    int64_t n = 0, best = -1;
    for (int64_t j = 0; j < p->seqlen_k; j++) {
        if (!counts(p, b, h, i, j))
            continue;
        n++;
        dot(c->score[j], c->t, q, in->x[RT_K] + element(p, RT_K, b, j, g), D);
        score_of(p, b, h, i, j, c->score[j], c->wide_alpha, c->z[j], c->slope[j]);
        note_slope(out, c->slope[j]);
        /* the largest scale * score: a negative scale turns the order round */
        const int order = best < 0 ? 1
                          : bent   ? mpfr_cmp(c->z[j], c->z[best])
                                   : mpfr_cmp(c->score[j], c->score[best]) * mpfr_sgn(c->alpha);
        if (best < 0 || order > 0)
            best = j;
    }
    out->seen[(b * p->seqlen_q + i) * p->heads_q + h] = n + (p->sink != NULL);
    if (n == 0)
        return 0;
    if (bent)
        mpfr_set(c->wide_top, c->z[best], MPFR_RNDN);
    if (p->sink != NULL && mpfr_cmp_d(c->wide_top, p->sink[h]) < 0)
        mpfr_set_d(c->wide_top, p->sink[h], MPFR_RNDN);
    mpfr_set_zero(c->sum, 1);
    for (int64_t j = 0; j < p->seqlen_k; j++) {
        if (!counts(p, b, h, i, j))
            continue;
        if (bent) {
            mpfr_sub(c->t, c->z[j], c->wide_top, MPFR_RNDN);
        } else {
            mpfr_sub(c->gap, c->score[j], c->score[best], MPFR_RNDN);
            mpfr_mul(c->t, c->gap, c->alpha, MPFR_RNDN);
        }
        note_gap(out, c->t);
        mpfr_exp(c->w[j], c->t, MPFR_RNDN);
        mpfr_add(c->sum, c->sum, c->w[j], MPFR_RNDN);
    }
    mpfr_set_zero(c->w_sink, 1);
    if (p->sink != NULL) {
        mpfr_d_sub(c->t, p->sink[h], c->wide_top, MPFR_RNDN);
        note_gap(out, c->t);
        mpfr_exp(c->w_sink, c->t, MPFR_RNDN);
        mpfr_add(c->sum, c->sum, c->w_sink, MPFR_RNDN);
        mpfr_div(c->w_sink, c->w_sink, c->sum, MPFR_RNDN);
    }
    const int64_t at = element(p, RT_LSE, b, i, h);
    if (bent)
        mpfr_set(c->top, c->wide_top, MPFR_RNDN);
    else
        mpfr_mul(c->top, c->score[best], c->alpha, MPFR_RNDN);
    mpfr_log(c->t, c->sum, MPFR_RNDN);
    mpfr_add(out->value[RT_LSE][at], c->t, c->top, MPFR_RNDN);
    mpfr_abs(c->top, c->top, MPFR_RNDU);
    mpfr_add(out->mass[RT_LSE][at], c->top, c->t, MPFR_RNDU);
    for (int64_t j = 0; j < p->seqlen_k; j++)
        if (counts(p, b, h, i, j))
            mpfr_div(c->w[j], c->w[j], c->sum, MPFR_RNDN);
    return n;
}

/* value += x, mass += m */
static void add_to(referee_truth *out, rt_tensor_id t, int64_t at, const mpfr_t x, const mpfr_t m)
{
    mpfr_add(out->value[t][at], out->value[t][at], x, MPFR_RNDN);
    mpfr_add(out->mass[t][at], out->mass[t][at], m, MPFR_RNDU);
}

static void row(const referee_inputs *in, int64_t b, int64_t h, int64_t i, scratch *c, referee_truth *out)
{
    const rt_problem *p = in->p;
    const int64_t g = h / (p->heads_q / p->heads_kv), D = p->dim, Dv = p->dim_v;
    const double *q = in->x[RT_Q] + element(p, RT_Q, b, i, h);
    if (weights(in, b, h, i, c, out) == 0)
        return;
    for (int64_t j = 0; j < p->seqlen_k; j++) {
        if (!counts(p, b, h, i, j) || !kept(p, b, h, i, j))
            continue;
        const int64_t o = element(p, RT_OUT, b, i, h);
        mpfr_div(c->t, c->w[j], c->keep, MPFR_RNDN);
        add_scaled(out->value[RT_OUT] + o, out->mass[RT_OUT] + o, c->t, c->t,
                   in->x[RT_V] + element(p, RT_V, b, j, g), Dv);
    }
    if (in->x[RT_DOUT] == NULL)
        return;
    const double *dout = in->x[RT_DOUT] + element(p, RT_DOUT, b, i, h);
    mpfr_set_zero(c->delta, 1);
    mpfr_set_zero(c->delta_mass, 1);
    for (int64_t j = 0; j < p->seqlen_k; j++) { /* dP and delta times keep */
        if (!counts(p, b, h, i, j))
            continue;
        mpfr_set_zero(c->dp[j], 1);
        mpfr_set_zero(c->dp_mass[j], 1);
        if (kept(p, b, h, i, j))
            dot(c->dp[j], c->dp_mass[j], dout, in->x[RT_V] + element(p, RT_V, b, j, g), Dv);
        mpfr_mul(c->t, c->dp[j], c->w[j], MPFR_RNDN);
        mpfr_add(c->delta, c->delta, c->t, MPFR_RNDN);
        mpfr_mul(c->t, c->dp_mass[j], c->w[j], MPFR_RNDU);
        mpfr_add(c->delta_mass, c->delta_mass, c->t, MPFR_RNDU);
    }
    for (int64_t j = 0; j < p->seqlen_k; j++) {
        if (!counts(p, b, h, i, j))
            continue;
        const int64_t dv = element(p, RT_DV, b, j, g), dk = element(p, RT_DK, b, j, g),
                      dq = element(p, RT_DQ, b, i, h);
        mpfr_div(c->t, c->w[j], c->keep, MPFR_RNDN);
        if (kept(p, b, h, i, j))
            add_scaled(out->value[RT_DV] + dv, out->mass[RT_DV] + dv, c->t, c->t, dout, Dv);
        mpfr_mul(c->t, c->t, c->slope[j], MPFR_RNDN);
        mpfr_sub(c->ds, c->dp[j], c->delta, MPFR_RNDN);
        mpfr_mul(c->ds, c->ds, c->t, MPFR_RNDN);
        mpfr_add(c->ds_mass, c->dp_mass[j], c->delta_mass, MPFR_RNDU);
        mpfr_mul(c->ds_mass, c->ds_mass, c->t, MPFR_RNDU);
        if (out->n[RT_DBIAS] > 0)
            add_to(out, RT_DBIAS, bias_at(p, b, h, i, true) + j, c->ds, c->ds_mass);
        mpfr_mul(c->ds, c->ds, c->alpha, MPFR_RNDN);
        mpfr_mul(c->ds_mass, c->ds_mass, c->alpha, MPFR_RNDA);
        mpfr_abs(c->ds_mass, c->ds_mass, MPFR_RNDU);
        add_scaled(out->value[RT_DQ] + dq, out->mass[RT_DQ] + dq, c->ds, c->ds_mass,
                   in->x[RT_K] + element(p, RT_K, b, j, g), D);
        add_scaled(out->value[RT_DK] + dk, out->mass[RT_DK] + dk, c->ds, c->ds_mass, q, D);
    }
    if (out->n[RT_DSINK] == 0)
        return;
    mpfr_div(c->w_sink, c->w_sink, c->keep, MPFR_RNDN);
    mpfr_mul(c->ds, c->w_sink, c->delta, MPFR_RNDN);
    mpfr_neg(c->ds, c->ds, MPFR_RNDN);
    mpfr_mul(c->ds_mass, c->w_sink, c->delta_mass, MPFR_RNDU);
    add_to(out, RT_DSINK, h, c->ds, c->ds_mass);
}

void referee_evaluate(const referee_inputs *in, mpfr_prec_t bits, referee_truth *out)
{
    const rt_problem *p = in->p;
    memset(out, 0, sizeof *out);
    out->bits = bits;
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++) {
        out->n[t] = referee_rows(p, (rt_tensor_id)t) * referee_width(p, (rt_tensor_id)t);
        out->value[t] = numbers(out->n[t], bits);
        out->mass[t] = numbers(out->n[t], 64);
    }
    out->seen = calloc((size_t)(p->batch * p->seqlen_q * p->heads_q), sizeof *out->seen);
    scratch c;
    c.score = numbers(p->seqlen_k, DOT_BITS);
    c.z = numbers(p->seqlen_k, bits + MORE_BITS);
    c.slope = numbers(p->seqlen_k, bits + MORE_BITS);
    c.w = numbers(p->seqlen_k, bits);
    c.dp = numbers(p->seqlen_k, DOT_BITS);
    c.dp_mass = numbers(p->seqlen_k, 64);
    mpfr_inits2(bits, c.alpha, c.top, c.sum, c.t, c.ds, c.ds_mass, c.delta, c.delta_mass, c.w_sink,
                (mpfr_ptr)0);
    mpfr_inits2(bits + MORE_BITS, c.wide_alpha, c.wide_top, (mpfr_ptr)0);
    mpfr_init2(c.keep, 1200);
    mpfr_init2(c.gap, DOT_BITS + 8);
    if (out->seen == NULL)
        abort();
    scale_of(p, c.alpha);
    scale_of(p, c.wide_alpha);
    mpfr_set_d(c.keep, -p->dropout, MPFR_RNDN);
    mpfr_add_si(c.keep, c.keep, 1, MPFR_RNDN);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < p->seqlen_q; i++)
                row(in, b, h, i, &c, out);
    mpfr_clears(c.alpha, c.top, c.sum, c.t, c.ds, c.ds_mass, c.delta, c.delta_mass, c.w_sink, c.gap, c.keep,
                c.wide_alpha, c.wide_top, (mpfr_ptr)0);
    drop(c.score, p->seqlen_k);
    drop(c.z, p->seqlen_k);
    drop(c.slope, p->seqlen_k);
    drop(c.w, p->seqlen_k);
    drop(c.dp, p->seqlen_k);
    drop(c.dp_mass, p->seqlen_k);
}

void referee_reset(referee_truth *t)
{
    for (int x = 0; x < RT_RESULT_COUNT; x++) {
        drop(t->value[x], t->n[x]);
        drop(t->mass[x], t->n[x]);
    }
    free(t->seen);
    memset(t, 0, sizeof *t);
}

int64_t referee_results(const referee_inputs *in, rt_dtype format, rt_dtype lse_format,
                        double *const got[RT_RESULT_COUNT])
{
    referee_truth first, second = {0};
    referee_evaluate(in, FIRST_BITS, &first);
    const int last = in->x[RT_DOUT] != NULL ? RT_DBIAS : RT_OUT;
    const uint64_t unknown = REFEREE_UNKNOWN;
    int64_t ties = 0;
    mpfr_t tolerance;
    mpfr_init2(tolerance, 64);
    for (int t = RT_LSE; t <= last; t++)
        for (int64_t e = 0; e < first.n[t]; e++) {
            const int64_t at = e / referee_width(in->p, (rt_tensor_id)t);
            if (t == RT_LSE || t == RT_OUT) {
                const bool sink = in->p->sink != NULL;
                if (first.seen[at] == 0 || (sink && first.seen[at] == 1)) { /* no keys */
                    got[t][e] = t == RT_OUT ? 0.0
                                : sink      ? referee_round_d(lse_format, in->p->sink[at % in->p->heads_q])
                                            : -(double)INFINITY;
                    continue;
                }
            }
            bool doubt = false;
            mpfr_mul_2si(tolerance, first.mass[t][e], 80 - FIRST_BITS, MPFR_RNDU);
            got[t][e] =
                referee_round(t == RT_LSE ? lse_format : format, first.value[t][e], tolerance, &doubt);
            if (!doubt)
                continue;
            if (second.bits == 0)
                referee_evaluate(
                    in,
                    1200 + (mpfr_prec_t)(2 * (first.finest < MAX_FINE ? first.finest : 0) +
                                         3 * 1.443 * (first.spread < MAX_SPREAD ? first.spread : 0)),
                    &second);
            doubt = false;
            mpfr_mul_2si(tolerance, second.mass[t][e], 80 - second.bits, MPFR_RNDU);
            got[t][e] =
                referee_round(t == RT_LSE ? lse_format : format, second.value[t][e], tolerance, &doubt);
            ties += doubt;
            if (doubt && (first.spread >= MAX_SPREAD || first.finest >= MAX_FINE))
                memcpy(&got[t][e], &unknown, sizeof unknown);
        }
    mpfr_clear(tolerance);
    referee_reset(&first);
    referee_reset(&second);
    return ties;
}
