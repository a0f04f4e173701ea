/* Inside exact: the error bounds that a state, a row and a gradient carry are never exceeded by the true
 * error (MPFR), through blocks, joins and the backward; a wrong gemm changes nothing but its counter; the
 * kernels of all instruction sets agree. */
#include <math.h>

#include "arithmetic/exact.h"
#include "exact_run.h"
#include "referee.h"
#include "scratch.h"

enum { HQ = 2, D = 7, DV = 5, BITS = 500 };

/* A problem of one key head and two query heads as slabs (heads, slots, width), and as the referee wants
 * it. */
typedef struct {
    rt_problem p;
    t_tensors in;
    double *slab[RT_DOUT + 1];
    int64_t *pos; /* 0 .. */
    double *state[RT_EXACT_STATE], *row[RT_EXACT_DO], *dq[RT_EXACT_DQ], *dkv[RT_EXACT_DKV];
    rt_part q, k, v, part_state[RT_MAX_PARTS], part_row[RT_MAX_PARTS], part_dq[RT_MAX_PARTS],
        part_dkv[RT_MAX_PARTS];
    referee_truth truth;
} bench;

static rt_part part_of(double *base, int64_t heads, int64_t slots, int64_t width)
{
    return (rt_part){base, heads * slots * width, slots * width, width, 0};
}

static double *parts(rt_part *part, double **base, int k, int64_t heads, int64_t slots, int64_t width)
{
    base[k] = calloc((size_t)(heads * slots * width), sizeof(double));
    assert_non_null(base[k]);
    part[k] = part_of(base[k], heads, slots, width);
    return base[k];
}

/* family: 0 gaussian, 1 large scores, 2 the maximum rises in every block, 3 one key far ahead, 4 equal
 * keys, 5 large scores that differ little, so that what the scores lack shows in the weights, 6 few bits
 * but in single elements */
static void bench_create(bench *x, int64_t sq, int64_t sk, rt_mask_kind mask, rt_dtype type, int family,
                         bool backward)
{
    memset(x, 0, sizeof *x);
    x->p = t_problem(1, sq, sk, HQ, 1, D, DV, mask);
    t_tensors_create(&x->p, &x->in);
    t_fill(&x->in, RT_FAMILY_GAUSSIAN, 3 + (uint64_t)family);
    for (int t = RT_Q; t <= RT_DOUT; t++)
        for (int64_t i = 0; i < t_rows(&x->p, (rt_tensor_id)t); i++) {
            double *r = x->in.x[t] + i * t_width(&x->p, (rt_tensor_id)t);
            for (int64_t d = 0; d < t_width(&x->p, (rt_tensor_id)t); d++)
                r[d] *= 1 + 1 / (3.0 + (double)(3 * i + d)); /* the generator's have few bits */
            if (family == 1 && (t == RT_Q || t == RT_K))
                for (int64_t d = 0; d < D; d++)
                    r[d] *= 9;
            if (family == 2 && t == RT_Q)
                r[0] = 4;
            if (family == 2 && t == RT_K)
                r[0] = 0.05 * (double)i;
            if (family == 3 && t == RT_K && i == sk / 2)
                r[0] = 40;
            if (family == 3 && t == RT_Q)
                r[0] = 3;
            for (int64_t d = 0; d < D && family == 5 && t == RT_Q; d++)
                r[d] *= 40;
            for (int64_t d = 0; d < D && family == 5 && t == RT_K; d++)
                r[d] = 120.1 / (double)(d + 3) + 0.02 * r[d];
            for (int64_t d = 0; d < t_width(&x->p, (rt_tensor_id)t) && family == 6; d++)
                r[d] = floor(r[d] * 4) / 4 + (d == 0 && i % 5 == 0 ? 1.0 / 3 : 0);
            if (family == 4 && t == RT_K)
                memcpy(r, x->in.x[t], D * sizeof *r);
            for (int64_t d = 0; d < t_width(&x->p, (rt_tensor_id)t); d++)
                r[d] = referee_round_d(type, r[d]);
        }
    for (int t = RT_Q; t <= RT_DOUT; t++) {
        const int64_t heads = t_heads(&x->p, (rt_tensor_id)t), n = t_length(&x->p, (rt_tensor_id)t),
                      w = t_width(&x->p, (rt_tensor_id)t);
        x->slab[t] = calloc((size_t)(heads * n * w), sizeof(double));
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < n; i++)
                memcpy(x->slab[t] + (h * n + i) * w, t_row(&x->in, (rt_tensor_id)t, 0, i, h),
                       (size_t)w * sizeof(double));
    }
    const int64_t most = sq > sk ? sq : sk;
    x->pos = calloc((size_t)most, sizeof *x->pos);
    for (int64_t i = 0; i < most; i++)
        x->pos[i] = i;
    x->q = part_of(x->slab[RT_Q], HQ, sq, D);
    x->k = part_of(x->slab[RT_K], 1, sk, D);
    x->v = part_of(x->slab[RT_V], 1, sk, DV);
    for (int k = 0; k < RT_EXACT_STATE; k++)
        parts(x->part_state, x->state, k, HQ, sq, k < 3 ? DV : 1);
    for (int k = 0; k < RT_EXACT_DO; k++)
        parts(x->part_row, x->row, k, HQ, sq, k == 0 ? DV : 1);
    memcpy(x->row[0], x->slab[RT_DOUT], (size_t)(HQ * sq * DV) * sizeof(double));
    for (int k = 0; k < RT_EXACT_DQ; k++)
        parts(x->part_dq, x->dq, k, HQ, sq, D);
    for (int k = 0; k < RT_EXACT_DKV; k++)
        parts(x->part_dkv, x->dkv, k, 1, sk, k < 3 ? D : DV);
    const referee_inputs in = {
        &x->p, {x->in.x[RT_Q], x->in.x[RT_K], x->in.x[RT_V], backward ? x->in.x[RT_DOUT] : NULL}};
    referee_evaluate(&in, BITS, &x->truth);
}

static void bench_free(bench *x)
{
    for (int t = RT_Q; t <= RT_DOUT; t++)
        free(x->slab[t]);
    free(x->pos);
    for (int k = 0; k < RT_EXACT_STATE; k++)
        free(x->state[k]);
    for (int k = 0; k < RT_EXACT_DO; k++)
        free(x->row[k]);
    for (int k = 0; k < RT_EXACT_DQ; k++)
        free(x->dq[k]);
    for (int k = 0; k < RT_EXACT_DKV; k++)
        free(x->dkv[k]);
    t_tensors_free(&x->in);
    referee_reset(&x->truth);
}

/* Keys [k0, k1) of the bench as one tile. */
static void forward(bench *x, int64_t k0, int64_t k1, bool fresh, rt_gemm_fn gemm, int64_t counts[2])
{
    rt_context ctx = {0};
    rt_part k = x->k, v = x->v;
    k.base += k0 * D;
    v.base += k0 * DV;
    t_assert_ok(&ctx,
                rt_exact_forward_tile(&ctx, &x->p, 0, x->p.seqlen_q, x->pos, k1 - k0, x->pos + k0, 0, HQ,
                                      &x->q, &k, &v, x->part_state, fresh, gemm, counts, NULL, NULL));
}

/* |hi + lo - want| / bound: not above 1 */
static double ratio(double hi, double lo, const mpfr_t want, double bound)
{
    mpfr_t e;
    mpfr_init2(e, BITS);
    mpfr_d_sub(e, hi, want, MPFR_RNDN);
    mpfr_add_d(e, e, lo, MPFR_RNDN);
    const double err = fabs(mpfr_get_d(e, MPFR_RNDU));
    mpfr_clear(e);
    if (err <= 0 && bound >= 0)
        return 0;
    return err / bound;
}

static double worst_of(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

/* The states against acc = O exp(L - m), l = exp(L - m); useful: bounds are a small part of the row. */
static void check_state(const bench *x, const char *what)
{
    mpfr_t t, z;
    mpfr_inits2(BITS, t, z, (mpfr_ptr)0);
    double worst = 0, width = 0;
    for (int64_t h = 0; h < HQ; h++)
        for (int64_t i = 0; i < x->p.seqlen_q; i++) {
            const int64_t s = h * x->p.seqlen_q + i, r = i * HQ + h;
            if (x->truth.seen[r] == 0) {
                assert_true(rt_is_minus_inf(x->state[3][s]));
                continue;
            }
            mpfr_sub_d(z, x->truth.value[RT_LSE][r], x->state[3][s], MPFR_RNDN);
            mpfr_exp(z, z, MPFR_RNDN);
            worst = worst_of(ratio(x->state[4][s], x->state[5][s], z, x->state[6][s]), worst);
            width = worst_of(x->state[6][s] / x->state[4][s], width);
            for (int64_t d = 0; d < DV; d++) {
                mpfr_mul(t, z, x->truth.value[RT_OUT][r * DV + d], MPFR_RNDN);
                worst = worst_of(
                    ratio(x->state[0][s * DV + d], x->state[1][s * DV + d], t, x->state[2][s * DV + d]),
                    worst);
                width = worst_of(x->state[2][s * DV + d] / x->state[4][s], width);
            }
        }
    mpfr_clears(t, z, (mpfr_ptr)0);
    if (!(worst <= 1) || !(width <= 0x1p-45))
        print_error("%s: error / bound %g, bound 2^%.1f\n", what, worst, log2(width));
    t_assert_le(worst, 1);
    t_assert_le(width, 0x1p-45); /* f64 inputs of many magnitudes; bf16 has 2^-63 and better */
}

static const rt_dtype types[] = {RT_BF16, RT_F32, RT_F64};
static const char *const families[] = {"gaussian",   "large scores",    "rising maximum", "one key ahead",
                                       "equal keys", "large and close", "single elements"};
enum { FAMILIES = sizeof families / sizeof families[0] };

static void test_forward(void **state)
{
    (void)state;
    for (int family = 0; family < FAMILIES; family++)
        for (int t = 0; t < 3; t++)
            for (int mask = 0; mask < 2; mask++) {
                if (t_left_out(6 * family + 2 * t + mask))
                    continue;
                char what[80];
                int64_t counts[2] = {0, 0};
                bench x;
                bench_create(&x, 5, 530, mask ? RT_MASK_CAUSAL_BOTTOM_RIGHT : RT_MASK_FULL, types[t],
                             family, false);
                forward(&x, 0, 530, true, rt_gemm_openblas, counts);
                (void)snprintf(what, sizeof what, "%s %s, one tile", families[family],
                               rt_dtype_name(types[t]));
                check_state(&x, what);
                /* three tiles, the middle one first: joins */
                forward(&x, 200, 460, true, rt_gemm_openblas, counts);
                forward(&x, 460, 530, false, rt_gemm_openblas, counts);
                forward(&x, 0, 200, false, rt_gemm_openblas, counts);
                (void)snprintf(what, sizeof what, "%s %s, three tiles", families[family],
                               rt_dtype_name(types[t]));
                check_state(&x, what);
                assert_int_equal(counts[1], 0);
                assert_true(counts[0] > 0);
                bench_free(&x);
            }
}

/* Few keys: nothing hides behind bounds that grow with their number. */
static void test_few_keys(void **state)
{
    (void)state;
    for (int family = 0; family < FAMILIES; family++)
        for (int t = 0; t < 3; t++)
            for (int64_t sk = 1; sk < 5; sk++) {
                if (t_left_out(12 * family + 4 * t + sk - 1))
                    continue;
                int64_t counts[2] = {0, 0};
                bench x;
                bench_create(&x, 60, sk, RT_MASK_FULL, types[t], family, false);
                forward(&x, 0, sk, true, rt_gemm_openblas, counts);
                check_state(&x, families[family]);
                bench_free(&x);
            }
}

/* Bounds stay true through many joins of states that are already joined, in any order. */
static void test_joins(void **state)
{
    (void)state;
    for (int family = 0; family < FAMILIES; family++) {
        bench x;
        int64_t counts[2] = {0, 0};
        bench_create(&x, 6, 96, RT_MASK_FULL, RT_F32, family, false);
        for (int order = 0; order < 2; order++) {
            for (int64_t k = 0; k < 96; k += 4) {
                const int64_t k0 = order == 0 ? k : 92 - k;
                forward(&x, k0, k0 + 4, k == 0, rt_gemm_openblas, counts);
            }
            check_state(&x, families[family]);
        }
        bench_free(&x);
    }
}

static double gradient_ratio(const bench *x, rt_tensor_id t, double *const part[3], double *width)
{
    const rt_problem *p = &x->p;
    const int64_t heads = t == RT_DQ ? HQ : 1, n = t == RT_DQ ? p->seqlen_q : p->seqlen_k,
                  w = t == RT_DV ? DV : D;
    mpfr_t alpha, want;
    mpfr_inits2(BITS, alpha, want, (mpfr_ptr)0);
    mpfr_set_si(alpha, D, MPFR_RNDN);
    mpfr_sqrt(alpha, alpha, MPFR_RNDN); /* parts are before the factor scale */
    double worst = 0, top = 0, bound = 0;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t d = 0; d < w; d++) {
                const int64_t s = (h * n + i) * w + d;
                mpfr_set(want, x->truth.value[t][(i * heads + h) * w + d], MPFR_RNDN);
                if (t != RT_DV)
                    mpfr_mul(want, want, alpha, MPFR_RNDN);
                worst = worst_of(ratio(part[0][s], part[1][s], want, part[2][s]), worst);
                top = worst_of(mpfr_get_d(x->truth.mass[t][(i * heads + h) * w + d], MPFR_RNDN), top);
                bound = worst_of(part[2][s], bound);
            }
    mpfr_clears(alpha, want, (mpfr_ptr)0);
    *width = worst_of(top > 0 ? bound / top : 0, *width);
    return worst;
}

static void test_backward(void **state)
{
    (void)state;
    for (int family = 0; family < FAMILIES; family++)
        for (int t = 0; t < 3; t++)
            for (int shape = 0; shape < 3; shape++) {
                if (t_left_out(9 * family + 3 * t + shape))
                    continue;
                rt_context ctx = {0};
                bench x;
                int64_t counts[2] = {0, 0};
                /* across blocks of queries, and of keys; few */
                static const int64_t lengths[][2] = {{5, 262}, {132, 12}, {1, 3}};
                const int64_t sq = lengths[shape][0], sk = lengths[shape][1], half = sk < 7 ? 1 : 7;
                bench_create(&x, sq, sk, shape ? RT_MASK_FULL : RT_MASK_CAUSAL_BOTTOM_RIGHT, types[t],
                             family, true);
                forward(&x, 0, sk, true, rt_gemm_openblas, counts);
                double worst = 0, width = 0, out[DV], lse;
                mpfr_t delta, term;
                mpfr_inits2(BITS, delta, term, (mpfr_ptr)0);
                rt_certificate cert[RT_TENSOR_COUNT] = {{0}};
                for (int64_t h = 0; h < HQ; h++)
                    for (int64_t i = 0; i < sq; i++) {
                        const double *st[RT_EXACT_STATE];
                        double *row[RT_EXACT_DO];
                        const int64_t s = h * sq + i, r = i * HQ + h;
                        for (int k = 0; k < RT_EXACT_STATE; k++)
                            st[k] = x.state[k] + s * (k < 3 ? DV : 1);
                        for (int k = 0; k < RT_EXACT_DO; k++)
                            row[k] = x.row[k] + s * (k == 0 ? DV : 1);
                        t_assert_ok(&ctx, rt_exact_finish_row(&ctx, &x.p, NULL, 0, h, i, st, RT_F32, RT_F32,
                                                              out, &lse, row, cert, NULL, NULL));
                        worst = worst_of(ratio(*row[1], *row[2], x.truth.value[RT_LSE][r], *row[3]), worst);
                        mpfr_set_zero(delta, 1);
                        for (int64_t d = 0; d < DV; d++) {
                            mpfr_mul_d(term, x.truth.value[RT_OUT][r * DV + d], row[0][d], MPFR_RNDN);
                            mpfr_add(delta, delta, term, MPFR_RNDN);
                        }
                        worst = worst_of(ratio(*row[4], *row[5], delta, *row[6]), worst);
                    }
                mpfr_clears(delta, term, (mpfr_ptr)0);
                t_assert_le(worst, 1);
                assert_int_equal(cert[RT_OUT].fast + cert[RT_OUT].exact_case + cert[RT_OUT].mpfr +
                                     cert[RT_OUT].undecided,
                                 HQ * sq * DV);
                /* two tiles: the second adds */
                for (int64_t k0 = 0; k0 < sk; k0 += half + (k0 > 0 ? sk : 0)) {
                    const int64_t k1 = k0 == 0 ? half : sk;
                    rt_part k = x.k, v = x.v, dkv[RT_MAX_PARTS];
                    k.base += k0 * D;
                    v.base += k0 * DV;
                    for (int y = 0; y < RT_EXACT_DKV; y++) {
                        dkv[y] = x.part_dkv[y];
                        dkv[y].base += k0 * dkv[y].width;
                    }
                    const rt_exact_grads g = {&x.q, &k,   &v,      x.part_row, x.part_dq,
                                              dkv,  NULL, k0 == 0, true};
                    t_assert_ok(&ctx,
                                rt_exact_backward_tile(&ctx, &x.p, 0, sq, x.pos, k1 - k0, x.pos + k0, 0, HQ,
                                                       &g, rt_gemm_openblas, counts, NULL, NULL));
                }
                worst = worst_of(gradient_ratio(&x, RT_DQ, x.dq, &width), worst);
                worst = worst_of(gradient_ratio(&x, RT_DK, x.dkv, &width), worst);
                worst = worst_of(gradient_ratio(&x, RT_DV, x.dkv + 3, &width), worst);
                if (!(worst <= 1) || !(width <= 0x1p-45))
                    print_error("%s %s: error / bound %g, bound 2^%.1f of what is summed\n",
                                families[family], rt_dtype_name(types[t]), worst, log2(width));
                t_assert_le(worst, 1);
                t_assert_le(width, 0x1p-45);
                assert_int_equal(counts[1], 0);
                bench_free(&x);
            }
}

/* ---- a wrong gemm
 * ---------------------------------------------------------------------------------------- */

static int fault;

static void wrong_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a, int64_t lda,
                       const double *b, int64_t ldb, double *c, int64_t ldc)
{
    rt_gemm_plain(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
    switch (fault) {
    case 0: /* one element, far off */
        c[(m / 2) * ldc + n / 3] += 0x1p50;
        break;
    case 1: /* the last unit of one element */
        c[(m - 1) * ldc + n - 1] += 1;
        break;
    case 2:
        memset(c, 0, (size_t)n * sizeof *c);
        break;
    case 3:
        c[0] = T_NAN;
        break;
    default: /* the last columns, as a wrong edge kernel leaves them */
        for (int64_t i = 0; i < m; i++)
            c[i * ldc + n - 1] = c[i * ldc];
        break;
    }
}

static void test_wrong_gemm(void **state)
{
    (void)state;
    bench x, y;
    int64_t counts[2] = {0, 0};
    rt_context ctx = {0};
    for (int t = 0; t < 3; t++) {
        bench_create(&x, 20, 300, RT_MASK_FULL, types[t], 0, false);
        bench_create(&y, 20, 300, RT_MASK_FULL, types[t], 0, false);
        forward(&x, 0, 300, true, rt_gemm_plain, counts);
        assert_int_equal(counts[1], 0);
        for (int64_t s = 0; s < HQ * 20; s++)
            for (int k = 1; k < RT_EXACT_DO; k++)
                x.row[k][s] = y.row[k][s] = k == 1 ? x.state[3][s] + log(x.state[4][s]) : k == 4 ? 0.25 : 0;
        const rt_exact_grads gx = {&x.q, &x.k, &x.v, x.part_row, x.part_dq, x.part_dkv, NULL, true, true};
        const rt_exact_grads gy = {&y.q, &y.k, &y.v, y.part_row, y.part_dq, y.part_dkv, NULL, true, true};
        t_assert_ok(&ctx, rt_exact_backward_tile(&ctx, &x.p, 0, 20, x.pos, 300, x.pos, 0, HQ, &gx,
                                                 rt_gemm_plain, counts, NULL, NULL));
        assert_int_equal(counts[1], 0);
        for (fault = 0; fault < 5; fault++) {
            int64_t wrong[2] = {0, 0};
            forward(&y, 0, 300, true, wrong_gemm, wrong);
            assert_true(wrong[1] > 0 && wrong[1] <= wrong[0]);
            for (int k = 0; k < RT_EXACT_STATE; k++)
                for (int64_t e = 0; e < HQ * 20 * (k < 3 ? DV : 1); e++)
                    if (fault != 1 ||
                        k == 3) /* a unit of a rounded product is within its bound, and stays */
                        t_assert_bits_eq(y.state[k][e], x.state[k][e]);
            check_state(&y, "wrong gemm");
            int64_t before = wrong[1];
            t_assert_ok(&ctx, rt_exact_backward_tile(&ctx, &y.p, 0, 20, y.pos, 300, y.pos, 0, HQ, &gy,
                                                     wrong_gemm, wrong, NULL, NULL));
            assert_true(wrong[1] > before);
            for (int k = 0; k < RT_EXACT_DQ && fault != 1; k++)
                for (int64_t e = 0; e < HQ * 20 * D; e++)
                    t_assert_bits_eq(y.dq[k][e], x.dq[k][e]);
            for (int k = 0; k < RT_EXACT_DKV && fault != 1; k++)
                for (int64_t e = 0; e < 300 * (k < 3 ? D : DV); e++)
                    t_assert_bits_eq(y.dkv[k][e], x.dkv[k][e]);
        }
        bench_free(&x);
        bench_free(&y);
    }
}

/* ---- kernels
 * --------------------------------------------------------------------------------------------- */

enum { N = 83 };

static void fill(double *x, uint64_t *s, double size)
{
    for (int i = 0; i < N; i++)
        x[i] = size * ((double)(t_random(s) >> 11) * 0x1p-52 - 1);
}

/* Every pass, its outputs one after the other; sums apart, for their order is free. */
static int64_t passes(const rt_exact_kernels *f, int64_t n, double *out, double sums[6])
{
    static double a[N], b[N], c[N], key[N], extra[N], vis[N], hi[N], lo[N], p1[N], p2[N], ph[N], pl[N],
        dh[N], dl[N], cols[4][N];
    uint64_t s = 17;
    int64_t at = 0;
    fill(a, &s, 0x1p40);
    fill(b, &s, 0x1p40);
    fill(c, &s, 0x1p40);
    fill(extra, &s, 0x1p-30);
    memset(cols, 0, sizeof cols);
    for (int i = 0; i < N; i++) {
        key[i] = ldexp(1, -38 - i % 3);
        vis[i] = i % 5 != 2;
    }
    sums[0] = f->scores(n, a, b, c, 0x1p-23, key, 0.5, extra, vis, hi, lo);
    const double alpha[2] = {0.353, 1e-18}, shift[2] = {2.5, 0}, delta[2] = {0.125, 1e-19};
    sums[1] = sums[2] = 0;
    f->probabilities(n, hi, lo, alpha, shift, vis, p1, p2, sums + 1);
    f->weights(n, hi, lo, alpha, shift, vis, ph, pl);
    double row[3] = {0, 0, 0};
    f->gradient(n, ph, pl, a, b, delta, dh, dl, cols[0], cols[1], cols[2], cols[3], row);
    memcpy(sums + 3, row, sizeof row);
    const double *const kept[] = {hi, lo, p1, p2, ph, pl, dh, dl, cols[0], cols[1], cols[2], cols[3]};
    for (size_t k = 0; k < sizeof kept / sizeof kept[0]; k++, at += n)
        memcpy(out + at, kept[k], (size_t)n * sizeof(double));
    f->cut(n, ph, pl, key, a, b);
    memcpy(out + at, a, (size_t)n * sizeof(double));
    memcpy(out + at + n, b, (size_t)n * sizeof(double));
    at += 2 * n;
    f->accumulate(n, p1, p2, key, 3.0, hi, lo);
    memcpy(out + at, hi, (size_t)n * sizeof(double));
    memcpy(out + at + n, lo, (size_t)n * sizeof(double));
    return at + 2 * n;
}

static void same_as_plain(const rt_exact_kernels *f)
{
    static double want[16 * N], got[16 * N];
    for (int64_t n = 1; n <= N; n++) {
        double a[6], b[6];
        const int64_t all = passes(&rt_exact_kernels_plain, n, want, a);
        assert_int_equal(passes(f, n, got, b), all);
        for (int64_t i = 0; i < all; i++)
            t_assert_bits_eq(got[i], want[i]);
        t_assert_bits_eq(b[0], a[0]); /* a maximum, and a sum of integers */
        t_assert_bits_eq(b[1], a[1]);
        t_assert_bits_eq(b[5], a[5]);
        for (int k = 2; k < 5; k++)
            t_assert_le(fabs(a[k] - b[k]), 0x1p-44 * (1 + fabs(a[k])));
    }
}

static void test_kernels(void **state)
{
    (void)state;
    same_as_plain(rt_exact_kernels_here());
#if defined(RT_EXACT_AVX)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        same_as_plain(&rt_exact_kernels_avx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        same_as_plain(&rt_exact_kernels_avx512);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forward),    cmocka_unit_test(test_few_keys),
                                       cmocka_unit_test(test_joins),      cmocka_unit_test(test_backward),
                                       cmocka_unit_test(test_wrong_gemm), cmocka_unit_test(test_kernels)};
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
