/* What joins and bends the scores inside exact: tanh and its derivative to their bound, on every instruction set; the error bounds that rows
 * and gradients carry are never exceeded by the true error (MPFR), with each of ALiBi, bias, softcap, sink and dropout, and stay small. */
#include <math.h>

#include "arithmetic/exact.h"
#include "exact_run.h"
#include "referee.h"
#include "score_cases.h"
#include "scratch.h"

enum { N = 4096, BITS = 500 };

static double worst_of(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

/* ---- tanh -------------------------------------------------------------------------------------------- */

static double off_by(double hi, double lo, const mpfr_t want)
{
    mpfr_t e;
    mpfr_init2(e, BITS);
    mpfr_d_sub(e, hi, want, MPFR_RNDN);
    mpfr_add_d(e, e, lo, MPFR_RNDN);
    if (!mpfr_zero_p(want))
        mpfr_div(e, e, want, MPFR_RNDN);
    const double r = fabs(mpfr_get_d(e, MPFR_RNDU));
    mpfr_clear(e);
    return r;
}

/* Near 0, in the middle, near the halves of ln 2 where the reduction's k changes, far out; both signs. */
static void arguments(double *hi, double *lo)
{
    uint64_t s = 11;
    for (int i = 0; i < N; i++) {
        const double u = score_unit(&s);
        double x = 0;
        switch (i % 6) {
        case 0:
            x = ldexp(u, -(int)score_below(&s, 200));
            break;
        case 1:
            x = 3 * u;
            break;
        case 2:
            x = 0x1.62e42fefa39efp-2 * ((double)score_below(&s, 40) + 0.5) * (1 + 0x1p-50 * u);
            break;
        case 3:
            x = 299 * u;
            break;
        case 4:
            x = (i & 1 ? -0x1.62e42fefa39efp-2 : 0x1.62e42fefa39efp-2) * (double)score_below(&s, 40);
            break;
        default:
            x = 0.25 * u;
            break;
        }
        const rt_dd z = rt_quick_two_sum(x, score_below(&s, 3) ? x * 0x1p-53 * score_unit(&s) : 0);
        hi[i] = z.hi;
        lo[i] = z.lo;
    }
    hi[0] = lo[0] = lo[1] = 0;
    hi[1] = 300;
}

static void bend(const rt_exact_kernels *f, int64_t n, double *hi, double *lo, double *slope)
{
    const double one[2] = {1, 0};
    f->bend(n, one, NULL, NULL, 1, one, hi, lo, slope, slope + n);
}

static void test_tanh(void **state)
{
    (void)state;
    static double xh[N], xl[N], th[N], tl[N], slope[2 * N];
    arguments(xh, xl);
    memcpy(th, xh, sizeof th);
    memcpy(tl, xl, sizeof tl);
    bend(&rt_exact_kernels_plain, N, th, tl, slope);
    mpfr_t x, t, g;
    mpfr_inits2(BITS, x, t, g, (mpfr_ptr)0);
    double worst = 0, worst_slope = 0;
    for (int i = 0; i < N; i++) {
        mpfr_set_d(x, xh[i], MPFR_RNDN);
        mpfr_add_d(x, x, xl[i], MPFR_RNDN);
        mpfr_tanh(t, x, MPFR_RNDN);
        mpfr_cosh(g, x, MPFR_RNDN);
        mpfr_sqr(g, g, MPFR_RNDN);
        mpfr_si_div(g, 1, g, MPFR_RNDN);
        worst = worst_of(off_by(th[i], tl[i], t), worst);
        worst_slope = worst_of(off_by(slope[i], slope[N + i], g), worst_slope);
    }
    mpfr_clears(x, t, g, (mpfr_ptr)0);
    print_message("# tanh: relative error 2^%.2f, its derivative 2^%.2f\n", log2(worst), log2(worst_slope));
    t_assert_le(worst, RT_DD_TANH_ERROR);
    t_assert_le(worst_slope, RT_DD_TANH_ERROR);
    /* far out: 1 and 0; at 0: 0 and 1 */
    double h[6] = {301, -1e5, 1e300, 0, -0.0, -301}, l[6] = {0}, s[12];
    static const double want[6] = {1, -1, 1, 0, 0, -1};
    bend(rt_exact_kernels_here(), 6, h, l, s);
    for (int i = 0; i < 6; i++) {
        t_assert_bits_eq(h[i] + 0.0, want[i]);
        t_assert_bits_eq(fabs(l[i]), 0);
        t_assert_bits_eq(s[i], fabs(want[i]) > 0 ? 0 : 1);
        t_assert_bits_eq(fabs(s[6 + i]), 0);
    }
}

/* alpha s + add, then the cap, of a row whose length leaves a tail: the same bits, and nothing beyond it is written. */
static void same_bits(const rt_exact_kernels *f)
{
    static double xh[N], xl[N];
    arguments(xh, xl);
    const double alpha[2] = {0.3, 1e-18};
    for (int64_t n = 1; n < 40; n++)
        for (int capped = 0; capped < 2; capped++) {
            double a[2][64], b[2][64], s[2][128], add[2][64];
            const rt_dd inverse = rt_dd_div((rt_dd){1, 0}, (rt_dd){7, 0});
            for (int i = 0; i < 64; i++) {
                a[0][i] = b[0][i] = xh[i + 7 * n];
                a[1][i] = b[1][i] = xl[i + 7 * n];
                add[0][i] = 0.1 * i;
                add[1][i] = 1e-18 * i;
                s[0][i] = s[1][i] = s[0][64 + i] = s[1][64 + i] = 3;
            }
            const double down[2] = {inverse.hi, inverse.lo};
            rt_exact_kernels_plain.bend(n, alpha, add[0], add[1], capped ? 7 : 0, down, a[0], a[1], s[0],
                                        s[0] + 64);
            f->bend(n, alpha, add[0], add[1], capped ? 7 : 0, down, b[0], b[1], s[1], s[1] + 64);
            for (int i = 0; i < 64; i++) {
                t_assert_bits_eq(b[0][i], a[0][i]);
                t_assert_bits_eq(b[1][i], a[1][i]);
                t_assert_bits_eq(s[1][i], s[0][i]);
                t_assert_bits_eq(s[1][64 + i], s[0][64 + i]);
                if (i >= n)
                    t_assert_bits_eq(b[0][i], xh[i + 7 * n]);
            }
        }
}

static void test_kernels(void **state)
{
    (void)state;
    same_bits(rt_exact_kernels_here());
#if defined(RT_EXACT_AVX)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        same_bits(&rt_exact_kernels_avx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        same_bits(&rt_exact_kernels_avx512);
#endif
}

/* ---- bounds ------------------------------------------------------------------------------------------ */

/* A problem's tensors as slabs (B, heads, slots, width) with one head group, results as parts. */
typedef struct {
    rt_problem p;
    t_tensors in;
    referee_truth truth;
    double *store[40];
    int stores;
    rt_part q, k, v, state[RT_EXACT_STATE], row[RT_EXACT_DO], dq[2 * RT_EXACT_DQ], dkv[RT_EXACT_DKV];
    int64_t pos[600];
} bench;

static rt_part part(bench *x, int64_t heads, int64_t slots, int64_t width)
{
    double *base = calloc((size_t)(x->p.batch * heads * slots * width), sizeof *base);
    assert_true(base != NULL && x->stores < 40);
    x->store[x->stores++] = base;
    return (rt_part){base, heads * slots * width, slots * width, width, 0};
}

static rt_part input(bench *x, rt_tensor_id t)
{
    const int64_t heads = t_heads(&x->p, t), slots = t_length(&x->p, t), width = t_width(&x->p, t);
    const rt_part to = part(x, heads, slots, width);
    for (int64_t b = 0; b < x->p.batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < slots; i++)
                memcpy(rt_part_at(&to, b, h, i), t_row(&x->in, t, b, i, h), (size_t)width * sizeof(double));
    return to;
}

/* kind 0: ordinary; 1: large scores; 2: equal keys. */
static void cancel(rt_problem *p, double size, double cap, bool drops);
static void bench_create_with(bench *x, int64_t sq, int64_t sk, rt_dtype type, int what, int kind,
                              int cancelling)
{
    memset(x, 0, sizeof *x);
    uint64_t seed = 5 + (uint64_t)(what * 8 + kind);
    x->p = t_problem(2, sq, sk, 2, 1, 7, 5, RT_MASK_CAUSAL_BOTTOM_RIGHT);
    score_cases_add(&x->p, what, &seed);
    if (cancelling > 0)
        cancel(&x->p, cancelling % 2 ? 0x1p40 / 3 : 0x1p44 / 3, cancelling > 4 ? 1.5 : 0,
               cancelling / 2 % 2 == 1);
    t_tensors_create(&x->p, &x->in);
    t_fill(&x->in, RT_FAMILY_GAUSSIAN, 3);
    for (int t = RT_Q; t <= RT_DOUT; t++)
        for (int64_t i = 0; i < t_rows(&x->p, (rt_tensor_id)t) * t_width(&x->p, (rt_tensor_id)t); i++) {
            double y = x->in.x[t][i] * (1 + 1 / (3.0 + (double)i)); /* the generator's have few bits */
            y *= kind == 1 && (t == RT_Q || t == RT_K) ? 7 : 1;
            x->in.x[t][i] = referee_round_d(type, kind == 2 && t == RT_K ? 0.1 * (double)(i % 7) : y);
        }
    for (int i = 0; i < 600; i++)
        x->pos[i] = i;
    x->q = input(x, RT_Q);
    x->k = input(x, RT_K);
    x->v = input(x, RT_V);
    x->row[0] = input(x, RT_DOUT);
    for (int k = 0; k < RT_EXACT_STATE; k++)
        x->state[k] = part(x, 2, sq, k < 3 ? 5 : 1);
    for (int k = 1; k < RT_EXACT_DO; k++)
        x->row[k] = part(x, 2, sq, 1);
    for (int k = 0; k < 2 * RT_EXACT_DQ; k++)
        x->dq[k] = part(x, 2, sq, k < 3 ? 7 : sk);
    for (int k = 0; k < RT_EXACT_DKV; k++)
        x->dkv[k] = part(x, 1, sk, k < 3 ? 7 : 5);
    const referee_inputs in = {&x->p, {x->in.x[RT_Q], x->in.x[RT_K], x->in.x[RT_V], x->in.x[RT_DOUT]}};
    referee_evaluate(&in, BITS, &x->truth);
}

static void bench_create(bench *x, int64_t sq, int64_t sk, rt_dtype type, int what, int kind)
{
    bench_create_with(x, sq, sk, type, what, kind, 0);
}

static void bench_free(bench *x)
{
    for (int k = 0; k < x->stores; k++)
        free(x->store[k]);
    t_tensors_free(&x->in);
    referee_reset(&x->truth);
    rt_problem_reset(&x->p);
}

/* The largest error / bound, and by tensor the largest bound and the largest sum of moduli (delta as RT_OUT). */
typedef struct {
    double worst, bound[RT_RESULT_COUNT], mass[RT_RESULT_COUNT];
    int64_t measured;
} tally;

/* hi + lo against factor want */
static void measure(const bench *x, rt_tensor_id t, int64_t at, const mpfr_t factor, double hi, double lo,
                    double bound, tally *y)
{
    mpfr_t e;
    /* left to MPFR, which is not asked here: logits beyond the range, a row of keys that are all but hidden */
    if (bound > DBL_MAX || (isnan(hi) && !(bound <= DBL_MAX)))
        return;
    y->measured++;
    mpfr_init2(e, BITS);
    mpfr_mul(e, x->truth.value[t][at], factor, MPFR_RNDN);
    mpfr_d_sub(e, hi, e, MPFR_RNDN);
    mpfr_add_d(e, e, lo, MPFR_RNDN);
    const double err = fabs(mpfr_get_d(e, MPFR_RNDU));
    mpfr_mul(e, x->truth.mass[t][at], factor, MPFR_RNDN);
    const double mass = fabs(mpfr_get_d(e, MPFR_RNDN));
    mpfr_clear(e);
    y->worst = worst_of(err <= 0 && bound >= 0 ? 0 : err / bound, y->worst);
    y->bound[t] = worst_of(bound, y->bound[t]);
    y->mass[t] = worst_of(mass, y->mass[t]);
}

/* Keys [0, half) and [half, sk) as two tiles, forward, finish, backward. */
static void compute(bench *x, tally *y, const mpfr_t one, const mpfr_t keep)
{
    rt_context ctx = {0};
    const rt_problem *p = &x->p;
    const int64_t sq = p->seqlen_q, sk = p->seqlen_k, half = sk < 7 ? 1 : sk / 3;
    int64_t counts[2] = {0, 0};
    rt_certificate cert[RT_TENSOR_COUNT] = {{0}};
    for (int backward = 0; backward < 2; backward++) {
        for (int64_t k0 = 0; k0 < sk; k0 = k0 == 0 ? half : sk) {
            const int64_t k1 = k0 == 0 ? half : sk;
            rt_part k = x->k, v = x->v, dkv[RT_EXACT_DKV];
            k.base += k0 * 7;
            v.base += k0 * 5;
            for (int z = 0; z < RT_EXACT_DKV; z++) {
                dkv[z] = x->dkv[z];
                dkv[z].base += k0 * dkv[z].width;
            }
            const rt_exact_grads g = {.q = &x->q,
                                      .k = &k,
                                      .v = &v,
                                      .row = x->row,
                                      .dq = x->dq,
                                      .dkv = dkv,
                                      .dbias = rt_wants_dbias(p) ? x->dq + RT_EXACT_DQ : NULL,
                                      .fresh_q = k0 == 0,
                                      .fresh_kv = true};
            const int64_t n = k1 - k0, *pos = x->pos + k0;
            t_assert_ok(&ctx, backward ? rt_exact_backward_tile(&ctx, p, 0, sq, x->pos, n, pos, 0, 2, &g,
                                                                rt_gemm_openblas, counts, NULL, NULL)
                                       : rt_exact_forward_tile(&ctx, p, 0, sq, x->pos, n, pos, 0, 2, &x->q,
                                                               &k, &v, x->state, k0 == 0, rt_gemm_openblas,
                                                               counts, NULL, NULL));
        }
        for (int64_t r = 0; r < 2 * 2 * sq && !backward; r++) {
            const int64_t b = r / (2 * sq), h = r / sq % 2, i = r % sq, at = (b * sq + i) * 2 + h;
            const double *in[RT_EXACT_STATE];
            double *row[RT_EXACT_DO], out[5], lse;
            for (int k = 0; k < RT_EXACT_STATE; k++)
                in[k] = rt_part_at(&x->state[k], b, h, i);
            for (int k = 0; k < RT_EXACT_DO; k++)
                row[k] = rt_part_at(&x->row[k], b, h, i);
            t_assert_ok(&ctx, rt_exact_finish_row(&ctx, p, NULL, b, h, i, in, RT_F32, RT_F32, out, &lse,
                                                  row, cert, NULL, NULL));
            if (!isfinite(*in[3])) /* empty, or left to MPFR */
                continue;
            measure(x, RT_LSE, at, one, *row[1], *row[2], *row[3], y);
            /* delta = dO.O, times keep */
            mpfr_t delta;
            mpfr_init2(delta, BITS);
            mpfr_set_zero(delta, 1);
            double mass = 0;
            for (int64_t d = 0; d < 5; d++) {
                mpfr_t t;
                mpfr_init2(t, BITS);
                mpfr_mul_d(t, x->truth.value[RT_OUT][at * 5 + d], row[0][d], MPFR_RNDN);
                mpfr_add(delta, delta, t, MPFR_RNDN);
                mass += fabs(row[0][d]) * mpfr_get_d(x->truth.mass[RT_OUT][at * 5 + d], MPFR_RNDN);
                mpfr_clear(t);
            }
            mpfr_mul(delta, delta, keep, MPFR_RNDN);
            mpfr_sub_d(delta, delta, *row[4], MPFR_RNDN);
            mpfr_sub_d(delta, delta, *row[5], MPFR_RNDN);
            const double err = fabs(mpfr_get_d(delta, MPFR_RNDU));
            mpfr_clear(delta);
            y->worst = worst_of(err <= 0 ? 0 : err / *row[6], y->worst);
            y->bound[RT_OUT] = worst_of(*row[6], y->bound[RT_OUT]);
            y->mass[RT_OUT] = worst_of(mass, y->mass[RT_OUT]);
        }
    }
    assert_int_equal(counts[1], 0);
}

static void gradients(bench *x, tally *y, const mpfr_t root, const mpfr_t keep)
{
    const rt_problem *p = &x->p;
    const int64_t sq = p->seqlen_q, sk = p->seqlen_k;
    mpfr_t scaled; /* parts are before the factor scale, and times keep */
    mpfr_init2(scaled, BITS);
    mpfr_mul(scaled, root, keep, MPFR_RNDN);
    for (int64_t b = 0; b < 2; b++) {
        for (int64_t s = 0; s < 2 * sq * 7; s++) {
            const int64_t h = s / (sq * 7), i = s / 7 % sq, d = s % 7, at = ((b * sq + i) * 2 + h) * 7 + d;
            measure(x, RT_DQ, at, scaled, rt_part_at(&x->dq[0], b, h, i)[d],
                    rt_part_at(&x->dq[1], b, h, i)[d], rt_part_at(&x->dq[2], b, h, i)[d], y);
        }
        for (int64_t j = 0; j < sk; j++)
            for (int64_t d = 0; d < 7 + 5; d++) {
                const bool v = d >= 7;
                const int64_t e = v ? d - 7 : d, at = (b * sk + j) * (v ? 5 : 7) + e;
                measure(x, v ? RT_DV : RT_DK, at, v ? keep : scaled,
                        rt_part_at(&x->dkv[v ? 3 : 0], b, 0, j)[e],
                        rt_part_at(&x->dkv[v ? 4 : 1], b, 0, j)[e],
                        rt_part_at(&x->dkv[v ? 5 : 2], b, 0, j)[e], y);
            }
        const bool whole = rt_wants_dbias(p) && p->bias_shape[0] == 2 && p->bias_shape[1] == 2 &&
                           (p->bias_shape[2] == sq && sq > 1);
        for (int64_t s = 0; s < 2 * sq * sk && whole; s++) {
            const int64_t h = s / (sq * sk), i = s / sk % sq, j = s % sk,
                          at = ((b * sq + i) * 2 + h) * sk + j;
            measure(x, RT_DBIAS, at, keep, rt_part_at(&x->dq[3], b, h, i)[j],
                    rt_part_at(&x->dq[4], b, h, i)[j], rt_part_at(&x->dq[5], b, h, i)[j], y);
        }
    }
    mpfr_clear(scaled);
}

/* dSink: the sum of the rows' shares. */
static void sinks(const bench *x, tally *y, const mpfr_t keep)
{
    const rt_problem *p = &x->p;
    for (int64_t h = 0; h < 2 && p->sink != NULL; h++) {
        double sum[3] = {0}, share[3];
        for (int64_t r = 0; r < 2 * p->seqlen_q; r++) {
            const double *row[RT_MAX_PARTS] = {NULL}, *in[RT_MAX_PARTS] = {share};
            double *to[RT_MAX_PARTS] = {sum};
            for (int k = 0; k < RT_EXACT_DO; k++)
                row[k] = rt_part_at(&x->row[k], r / p->seqlen_q, h, r % p->seqlen_q);
            rt_arithmetic_exact.share_sink(p, h, row, share);
            rt_arithmetic_exact.sum(RT_DSINK, p, in, to);
        }
        measure(x, RT_DSINK, h, keep, sum[0], sum[1], sum[2], y);
    }
}

/* Slopes and a bias that all but cancel: what the scores lack shows. */
static void cancel(rt_problem *p, double size, double cap, bool drops)
{
    rt_context ctx = {0};
    uint64_t seed = 3;
    p->alibi = rt_calloc(&ctx, 2, sizeof *p->alibi);
    assert_true(rt_bias_shape_parse("bhss", p, p->bias_shape));
    p->bias = rt_calloc(&ctx, 2 * 2 * p->seqlen_q * p->seqlen_k, sizeof *p->bias);
    p->sink = rt_calloc(&ctx, 2, sizeof *p->sink);
    p->alibi[0] = size;
    p->alibi[1] = -1.1 * size;
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 2; h++)
            for (int64_t i = 0; i < p->seqlen_q; i++)
                for (int64_t j = 0; j < p->seqlen_k; j++) {
                    double low;
                    const double t = rt_score_alibi(p, h, i, j, &low);
                    p->bias[((b * 2 + h) * p->seqlen_q + i) * p->seqlen_k + j] = -t + score_unit(&seed);
                }
    p->softcap = cap;
    p->dropout = drops ? 0.5 : 0;
}

static void test_cancelling(void **state)
{
    (void)state;
    for (int c = 0; c < 8; c++) {
        if (t_left_out(c))
            continue;
        bench x;
        tally y = {.worst = 0};
        mpfr_t one, keep, root;
        mpfr_inits2(BITS, one, keep, root, (mpfr_ptr)0);
        bench_create_with(&x, 6, 40, RT_F32, 0, 0, c + 1);
        mpfr_set_si(one, 1, MPFR_RNDN);
        mpfr_set_si(root, 7, MPFR_RNDN);
        mpfr_sqrt(root, root, MPFR_RNDN);
        mpfr_set_d(keep, 1 - x.p.dropout, MPFR_RNDN);
        compute(&x, &y, one, keep);
        gradients(&x, &y, root, keep);
        sinks(&x, &y, keep);
        if (!(y.worst <= 1))
            print_error("cancelling %d: error / bound %g\n", c, y.worst);
        t_assert_le(y.worst, 1);
        for (int t = RT_OUT; t <= RT_DBIAS; t++)
            t_assert_le(y.bound[t], 0x1p-20 * y.mass[t]);
        mpfr_clears(one, keep, root, (mpfr_ptr)0);
        bench_free(&x);
    }
}

static void test_bounds(void **state)
{
    (void)state;
    static const rt_dtype types[] = {RT_BF16, RT_F32};
    static const int64_t lengths[][2] = {{5, 270}, {132, 12}, {2, 3}};
    double widest = 0;
    int64_t measured = 0;
    static const int whats[] = {SCORE_ALIBI,
                                SCORE_BIAS,
                                SCORE_CAP,
                                SCORE_SINK,
                                SCORE_DROP,
                                SCORE_CAP | SCORE_SINK,
                                SCORE_BIAS | SCORE_DROP,
                                SCORE_ALIBI | SCORE_CAP,
                                SCORE_ALL};
    for (size_t w = 0; w < sizeof whats / sizeof whats[0]; w++)
        for (int c = 0; c < 6; c++) {
            if (t_left_out(6 * (int)w + c))
                continue;
            const int what = whats[w], shape = c % 3, kind = (c + (int)w) % 3;
            bench x;
            double width = 0;
            tally y = {.worst = 0};
            mpfr_t one, keep, root;
            mpfr_inits2(BITS, one, keep, root, (mpfr_ptr)0);
            bench_create(&x, lengths[shape][0], lengths[shape][1], types[c / 3], what, kind);
            mpfr_set_si(one, 1, MPFR_RNDN);
            mpfr_set_si(root, 7, MPFR_RNDN);
            mpfr_sqrt(root, root, MPFR_RNDN);
            mpfr_d_sub(keep, x.p.dropout, one, MPFR_RNDN);
            mpfr_neg(keep, keep, MPFR_RNDN);
            compute(&x, &y, one, keep);
            gradients(&x, &y, root, keep);
            sinks(&x, &y, keep);
            for (int t = 0; t < RT_RESULT_COUNT; t++)
                width = worst_of(y.mass[t] > 0 ? y.bound[t] / y.mass[t] : 0, width);
            if (!(y.worst <= 1))
                print_error("scores %d, case %d: error / bound %g, bound 2^%.1f\n", what, c, y.worst,
                            log2(width));
            t_assert_le(y.worst, 1);
            measured += y.measured;
            widest = worst_of(width, widest);
            mpfr_clears(one, keep, root, (mpfr_ptr)0);
            bench_free(&x);
        }
    print_message("# %" PRId64 " elements; largest bound 2^%.1f of what was added up\n", measured,
                  log2(widest));
    assert_true(measured > 100000 / T_EVERY);
    t_assert_le(widest, 0x1p-50);
}

/* ---- ties that something too small to see breaks, and exact values ---------------------------------------- */

/* One query of one head with q = 0 and n keys of one value each; out and lse in binary32. */
static void one_row(const rt_problem *p, const double *v, double *out, double *lse, rt_certificate cert[2])
{
    t_tensors t;
    rt_run_stats stats;
    const t_how how = {RT_LAYOUT_CONTIGUOUS, 1, "single", 0};
    t_tensors_create(p, &t);
    for (int64_t j = 0; j < p->seqlen_k; j++) {
        t.x[RT_K][j] = 1;
        t.x[RT_V][j] = v[j];
    }
    exact_run(&t, &how, false, RT_F32, RT_F32, &stats);
    *out = t.x[RT_OUT][0];
    *lse = t.x[RT_LSE][0];
    cert[0] = stats.certificate[RT_OUT];
    cert[1] = stats.certificate[RT_LSE];
    assert_int_equal(cert[0].undecided + cert[1].undecided, 0);
    t_tensors_free(&t);
}

static void test_ties(void **state)
{
    (void)state;
    double out, lse, sink = 1 + 0x1p-24, far[3] = {0, 0, -5000};
    rt_certificate cert[2];
    rt_problem p = t_problem(1, 1, 3, 1, 1, 1, 1, RT_MASK_FULL);
    /* dropout 1/2 that drops none of three: O = (v0 + v1 + e v2) / (2 (1/2) (1 + e / 2)) beside v0 + v1, a midpoint, to the side of v2 - (v0 +
     * v1) / 2; the exponential e of the bias is below any precision's last place */
    p.bias = far;
    memcpy(p.bias_shape, (const int64_t[]){1, 1, 1, 3}, sizeof p.bias_shape);
    p.dropout = 0.5;
    while (!rt_dropout_keep(&p, 0, 0, 0, 0) || !rt_dropout_keep(&p, 0, 0, 0, 1) ||
           !rt_dropout_keep(&p, 0, 0, 0, 2))
        p.dropout_seed++;
    static const double up[] = {1, 0x1p-24, 0.75}, down[] = {1, 0x1p-24, 0.25},
                        below[] = {-1, -0x1p-24, -0.75};
    one_row(&p, up, &out, &lse, cert);
    t_assert_bits_eq(out, 1 + 0x1p-23);
    one_row(&p, down, &out, &lse, cert);
    t_assert_bits_eq(out, 1);
    one_row(&p, below, &out, &lse, cert);
    t_assert_bits_eq(out, -1 - 0x1p-23);
    /* the sink is a midpoint of binary32, and every key far below it */
    far[0] = far[1] = -5000;
    p.dropout = 0;
    p.sink = &sink;
    one_row(&p, up, &out, &lse, cert);
    t_assert_bits_eq(lse, 1 + 0x1p-23);
    /* sums of all kinds that are equal make one class: three keys and a sink of score 0 */
    far[0] = far[1] = far[2] = 0.5;
    sink = 0.5;
    static const double four[] = {1, 2, 3};
    one_row(&p, four, &out, &lse, cert);
    t_assert_bits_eq(out, 1.5);
    /* a softcap takes 0 to 0: the score is exact, and a lone key's L too */
    far[0] = 0;
    far[1] = far[2] = -(double)T_INF;
    p.sink = NULL;
    p.softcap = 30;
    one_row(&p, up, &out, &lse, cert);
    t_assert_bits_eq(lse, 0);
    t_assert_bits_eq(out, 1);
    /* the softcap bends what a huge bias would hide */
    far[0] = 0;
    far[1] = -1.7e308;
    far[2] = -1e200;
    p.softcap = 0.5;
    static const double apart[] = {0, 1, 1};
    one_row(&p, apart, &out, &lse, cert);
    assert_true(out > 0.5 && out < 0.6); /* 2 / (2 + e^0.5) = 0.548 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tanh), cmocka_unit_test(test_kernels),
                                       cmocka_unit_test(test_bounds), cmocka_unit_test(test_cancelling),
                                       cmocka_unit_test(test_ties)};
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
