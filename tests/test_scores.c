/* What joins and bends the scores, alone and together, held to a plain triple loop in long double with code of its
 * own, and its gradients to differences of that loop's loss. */
#include "runner.h"

#include "masks.h"
#include "scratch.h"

enum { ALIBI = 1, BIAS = 2, CAP = 4, SINK = 8, DROP = 16, ALL = 31 };

static const t_how hows[] = {
    {RT_LAYOUT_CONTIGUOUS, 1, "single", 0}, {RT_LAYOUT_ZIGZAG, 3, "ring", 0},
    {RT_LAYOUT_STRIPED, 4, "split", 2},     {RT_LAYOUT_POSITIONS, 3, "pass-q", 0},
    {RT_LAYOUT_CONTIGUOUS, 5, "ring", 3},   {RT_LAYOUT_STRIPED, 2, "ring", 0},
};
enum { HOWS = sizeof hows / sizeof hows[0] };

/* ---- problems ---------------------------------------------------------------------------------------- */

static int64_t cu_q[] = {0, 9, 12, 12, 26, 40}, cu_k[] = {0, 9, 12, 17, 17, 35};

static uint8_t key_valid[2 * 31], dense[31 * 31];
static rt_slice slices[] = {{0, 12, 0, 20, RT_SLICE_CAUSAL}, {12, 30, 5, 31, RT_SLICE_INV_CAUSAL}};

/* Every part of a mask. */
static rt_problem masked(void)
{
    rt_problem p = t_problem(2, 31, 31, 4, 2, 6, 5, RT_MASK_CAUSAL_BOTTOM_RIGHT);
    uint64_t seed = 77;
    for (size_t x = 0; x < sizeof key_valid; x++)
        key_valid[x] = t_random(&seed) % 8 > 0;
    for (size_t x = 0; x < sizeof dense; x++)
        dense[x] = t_random(&seed) % 4 > 0;
    p.has_window = true;
    p.window_left = 17;
    p.window_right = -1;
    p.prefix = 4;
    p.n_slices = 2;
    p.slices = slices;
    p.key_valid = key_valid;
    p.dense = dense;
    return p;
}

static rt_problem base(int which)
{
    if (which == 4)
        return masked();
    if (which == 0)
        return t_problem(2, 37, 37, 4, 2, 6, 5, RT_MASK_CAUSAL);
    if (which == 1)
        return t_problem(1, 29, 41, 2, 1, 5, 6, RT_MASK_FULL);
    if (which == 2)
        return t_problem(1, 50, 33, 3, 3, 4, 4, RT_MASK_CAUSAL_BOTTOM_RIGHT);
    rt_problem p = t_problem(2, 40, 35, 4, 2, 6, 5, RT_MASK_CAUSAL_BOTTOM_RIGHT);
    p.documents = 5;
    p.cu_q = cu_q;
    p.cu_k = cu_k;
    return p;
}
enum { BASES = 5 };

static const char *const shapes[] = {"bhss", "1hss", "11ss", "b1ss", "111s"};

static double draw(uint64_t *seed)
{
    return (double)(int64_t)(t_random(seed) >> 44) * 0x1p-20 * 4 - 2;
}

/* Every third element of a bias hides its pair when `hides`, and all of row 5. */
static void add_scores(rt_problem *p, int what, const char *shape, bool hides)
{
    uint64_t seed = 7 + (uint64_t)what;
    if ((what & ALIBI) != 0) {
        p->alibi = calloc((size_t)p->heads_q, sizeof *p->alibi);
        for (int64_t h = 0; h < p->heads_q; h++)
            p->alibi[h] = rt_alibi_standard(h, p->heads_q);
    }
    if ((what & BIAS) != 0) {
        assert_true(rt_bias_shape_parse(shape, p, p->bias_shape));
        const int64_t *n = p->bias_shape, count = n[0] * n[1] * n[2] * n[3];
        p->bias = calloc((size_t)count, sizeof *p->bias);
        for (int64_t x = 0; x < count; x++)
            p->bias[x] = hides && (t_random(&seed) % 3 == 0 || x / n[3] % n[2] == 5) ? -T_INF : draw(&seed);
    }
    if ((what & CAP) != 0)
        p->softcap = 1.5;
    if ((what & SINK) != 0) {
        p->sink = calloc((size_t)p->heads_q, sizeof *p->sink);
        for (int64_t h = 0; h < p->heads_q; h++)
            p->sink[h] = draw(&seed);
    }
    if ((what & DROP) != 0) {
        p->dropout = 0.3;
        p->dropout_seed = UINT64_C(0x123456789abcdef);
    }
}

static void free_scores(rt_problem *p)
{
    free(p->alibi);
    free(p->bias);
    free(p->sink);
}

/* ---- the triple loop --------------------------------------------------------------------------------- */

/* Results, and of each the sum of the magnitudes of what was added up. */
typedef struct {
    long double *x[RT_RESULT_COUNT], *mass[RT_RESULT_COUNT];
} truth;

static int64_t count_of(const rt_problem *p, int id)
{
    return t_rows(p, (rt_tensor_id)id) * t_width(p, (rt_tensor_id)id);
}

static void truth_create(const rt_problem *p, truth *t)
{
    for (int id = RT_LSE; id < RT_RESULT_COUNT; id++) {
        t->x[id] = calloc((size_t)count_of(p, id) + 1, sizeof(long double));
        t->mass[id] = calloc((size_t)count_of(p, id) + 1, sizeof(long double));
    }
}

static void truth_free(truth *t)
{
    for (int id = RT_LSE; id < RT_RESULT_COUNT; id++) {
        free(t->x[id]);
        free(t->mass[id]);
    }
}

static void add(const rt_problem *p, truth *t, rt_tensor_id id, int64_t b, int64_t pos, int64_t h,
                int64_t d, long double x)
{
    const int64_t at = ((b * t_length(p, id) + pos) * t_heads(p, id) + h) * t_width(p, id) + d;
    t->x[id][at] += x;
    t->mass[id][at] += fabsl(x);
}

/* The words of the documented counter. */
static bool kept(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const uint32_t key[2] = {(uint32_t)(p->dropout_seed & 0xffffffff), (uint32_t)(p->dropout_seed >> 32)};
    const uint64_t block = (uint64_t)(j / 4);
    const uint32_t counter[4] = {(uint32_t)(block & 0xffffffff), (uint32_t)(i & 0xffffffff),
                                 (uint32_t)(((uint64_t)i >> 32) << 24 | (uint64_t)h),
                                 (uint32_t)(UINT64_C(15) << 28 | (block >> 32) << 24 | (uint64_t)b)};
    uint32_t word[4];
    rt_philox(key, counter, word);
    return (double)word[j & 3] >= floor(ldexp(p->dropout, 32));
}

static long double distance(const rt_problem *p, int64_t i, int64_t j)
{
    int64_t shift = 0, len_q = p->seqlen_q, len_k = p->seqlen_k;
    for (int64_t n = 0; n < p->documents; n++)
        if (p->cu_q[n] <= i && i < p->cu_q[n + 1]) {
            shift = p->cu_k[n] - p->cu_q[n];
            len_q = p->cu_q[n + 1] - p->cu_q[n];
            len_k = p->cu_k[n + 1] - p->cu_k[n];
        }
    if (p->mask == RT_MASK_CAUSAL_BOTTOM_RIGHT)
        shift += len_k - len_q;
    return fabsl((long double)(i + shift - j));
}

static double bias_at(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t *n = p->bias_shape, at[4] = {b, h, i, j};
    int64_t x = 0;
    for (int k = 0; k < 4; k++)
        x = x * n[k] + (n[k] == 1 ? 0 : at[k]);
    return p->bias[x];
}

/* One row: the score of each visible key, its slope, and what dropout makes of it. */
typedef struct {
    int64_t n, key[64];
    long double s[64], slope[64], factor[64], w[64], lse, out[16];
} row;

static void row_forward(const t_tensors *in, int64_t b, int64_t h, int64_t i, row *r)
{
    const rt_problem *p = in->p;
    const int64_t g = h / (p->heads_q / p->heads_kv);
    long double max = p->sink != NULL ? (long double)p->sink[h] : -(long double)T_INF, z;
    r->n = 0;
    for (int64_t j = 0; j < p->seqlen_k; j++) {
        if (!t_mask_sees(p, b, i, j) || (p->bias != NULL && bias_at(p, b, h, i, j) < -DBL_MAX))
            continue;
        long double s = 0, slope = 1;
        for (int64_t d = 0; d < p->dim; d++)
            s += (long double)t_row(in, RT_Q, b, i, h)[d] * (long double)t_row(in, RT_K, b, j, g)[d];
        s *= 1 / sqrtl((long double)p->dim);
        if (p->alibi != NULL)
            s -= (long double)p->alibi[h] * distance(p, i, j);
        if (p->bias != NULL)
            s += (long double)bias_at(p, b, h, i, j);
        if (p->softcap > 0) {
            const long double t = tanhl(s / (long double)p->softcap);
            s = (long double)p->softcap * t;
            slope = 1 - t * t;
        }
        r->s[r->n] = s;
        r->slope[r->n] = slope;
        r->factor[r->n] = !(p->dropout > 0)     ? 1
                          : kept(p, b, h, i, j) ? 1 / (1 - (long double)p->dropout)
                                                : 0;
        max = s > max ? s : max;
        r->key[r->n++] = j;
    }
    z = p->sink != NULL ? expl((long double)p->sink[h] - max) : 0;
    for (int64_t x = 0; x < r->n; x++)
        z += expl(r->s[x] - max);
    r->lse = r->n == 0 && p->sink == NULL ? -(long double)T_INF : max + logl(z);
    memset(r->out, 0, sizeof r->out);
    for (int64_t x = 0; x < r->n; x++) {
        r->w[x] = expl(r->s[x] - r->lse);
        for (int64_t d = 0; d < p->dim_v; d++)
            r->out[d] += r->w[x] * r->factor[x] * (long double)t_row(in, RT_V, b, r->key[x], g)[d];
    }
}

static void row_backward(const t_tensors *in, int64_t b, int64_t h, int64_t i, const row *r, truth *t)
{
    const rt_problem *p = in->p;
    const int64_t g = h / (p->heads_q / p->heads_kv);
    const double *dout = t_row(in, RT_DOUT, b, i, h);
    const long double scale = 1 / sqrtl((long double)p->dim);
    long double delta = 0;
    for (int64_t d = 0; d < p->dim_v; d++)
        delta += (long double)dout[d] * r->out[d];
    if (p->sink != NULL)
        add(p, t, RT_DSINK, 0, 0, h, 0, -expl((long double)p->sink[h] - r->lse) * delta);
    for (int64_t x = 0; x < r->n; x++) {
        const int64_t j = r->key[x];
        long double dp = 0;
        for (int64_t d = 0; d < p->dim_v; d++) {
            dp += r->factor[x] * (long double)dout[d] * (long double)t_row(in, RT_V, b, j, g)[d];
            add(p, t, RT_DV, b, j, g, d, r->w[x] * r->factor[x] * (long double)dout[d]);
        }
        const long double ds = r->w[x] * (dp - delta) * r->slope[x];
        for (int64_t d = 0; d < p->dim; d++) {
            add(p, t, RT_DQ, b, i, h, d, scale * ds * (long double)t_row(in, RT_K, b, j, g)[d]);
            add(p, t, RT_DK, b, j, g, d, scale * ds * (long double)t_row(in, RT_Q, b, i, h)[d]);
        }
        if (p->bias != NULL)
            add(p, t, RT_DBIAS, p->bias_shape[0] == 1 ? 0 : b, p->bias_shape[2] == 1 ? 0 : i,
                p->bias_shape[1] == 1 ? 0 : h, j, ds);
    }
}

static void reference(const t_tensors *in, truth *t)
{
    const rt_problem *p = in->p;
    static row r;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->seqlen_q; i++)
            for (int64_t h = 0; h < p->heads_q; h++) {
                row_forward(in, b, h, i, &r);
                add(p, t, RT_LSE, b, i, h, 0, r.lse);
                for (int64_t d = 0; d < p->dim_v; d++)
                    add(p, t, RT_OUT, b, i, h, d, r.out[d]);
                row_backward(in, b, h, i, &r, t);
            }
}

/* The inputs are below 6: with scores below 60 an error of a score is below 200 u, of a weight likewise. */
static void check_close(const t_tensors *got, const truth *want, long double u, const char *what, int mods)
{
    for (int id = RT_LSE; id < RT_RESULT_COUNT; id++)
        for (int64_t e = 0; e < count_of(got->p, id); e++) {
            const double g = got->x[id][e];
            const long double w = want->x[id][e], tol = u * 400 * (want->mass[id][e] + 4);
            if (!(fabsl((long double)g - w) <= tol) && !(isinf(g) && isinf((double)w) && g < 0 && w < 0))
                fail_msg("%s, scores %d: %s[%lld] is %.17g, not %.17Lg", what, mods,
                         rt_tensor_name((rt_tensor_id)id), (long long)e, g, w);
        }
}

static void one_problem(int which, int mods, const char *shape, bool hides, const t_how *how)
{
    rt_problem p = base(which);
    add_scores(&p, mods, shape, hides);
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_problem_check(&ctx, &p));
    t_tensors t;
    t_tensors_create(&p, &t);
    t_fill(&t, RT_FAMILY_GAUSSIAN, 11);
    truth want;
    truth_create(&p, &want);
    reference(&t, &want);
    for (int x = 0; x < 2; x++) {
        const char *arith = x == 0 ? "f64" : "f32";
        char what[80];
        snprintf(what, sizeof what, "%s, base %d, bias %s, %s P %d", arith, which, shape, how->plan,
                 (int)how->ranks);
        t_run_in(arith);
        t_run(&t, how);
        check_close(&t, &want, x == 0 ? 0x1p-53L : 0x1p-24L, what, mods);
    }
    t_run_in("f64");
    truth_free(&want);
    t_tensors_free(&t);
    free_scores(&p);
}

static void each_alone_equals_the_triple_loop(void **state)
{
    (void)state;
    for (int which = 0; which < BASES; which++)
        for (int bit = 1; bit <= DROP; bit *= 2)
            for (int x = 0; x < (bit == BIAS ? 5 : 1); x++)
                one_problem(which, bit, shapes[x], false, &hows[(which + bit + x) % HOWS]);
}

static void all_together_equal_the_triple_loop(void **state)
{
    (void)state;
    for (int which = 0; which < BASES; which++)
        for (int x = 0; x < 5; x++)
            one_problem(which, ALL, shapes[x], true, &hows[(2 * which + x) % HOWS]);
    for (int mods = 3; mods < ALL; mods++)
        one_problem(mods % BASES, mods, shapes[mods % 5], mods % 2 == 0, &hows[mods % HOWS]);
}

/* ---- differences of the loss ------------------------------------------------------------------------- */

/* sum of dout.out, by the loop. */
static long double loss(const t_tensors *in)
{
    const rt_problem *p = in->p;
    static row r;
    long double sum = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->seqlen_q; i++)
            for (int64_t h = 0; h < p->heads_q; h++) {
                row_forward(in, b, h, i, &r);
                for (int64_t d = 0; d < p->dim_v; d++)
                    sum += (long double)t_row(in, RT_DOUT, b, i, h)[d] * r.out[d];
            }
    return sum;
}

static void check_difference(const t_tensors *in, double *x, double gradient, const char *what)
{
    const double h = 0x1p-14, old = *x;
    *x = old + h;
    const long double up = loss(in);
    *x = old - h;
    const long double down = loss(in);
    *x = old;
    const long double slope = (up - down) / (2 * (long double)h);
    if (!(fabsl(slope - (long double)gradient) <= 1e-6L * (fabsl(slope) + 1)))
        fail_msg("%s: gradient %.12g, difference %.12Lg", what, gradient, slope);
}

static void gradients_are_differences_of_the_loss(void **state)
{
    (void)state;
    for (int x = 0; x < 5; x++) {
        rt_problem p = base(x % BASES);
        add_scores(&p, ALL, shapes[x], false);
        t_tensors t;
        t_tensors_create(&p, &t);
        t_fill(&t, RT_FAMILY_GAUSSIAN, 5);
        t_run(&t, &hows[x]);
        uint64_t seed = 3;
        for (int n = 0; n < 12; n++) {
            const rt_tensor_id from[] = {RT_Q, RT_K, RT_V}, to[] = {RT_DQ, RT_DK, RT_DV};
            const int which = n % 3;
            const uint64_t at =
                t_random(&seed) % (uint64_t)(t_rows(&p, from[which]) * t_width(&p, from[which]));
            check_difference(&t, &t.x[from[which]][at], t.x[to[which]][at], rt_tensor_name(to[which]));
            const uint64_t e = t_random(&seed) % (uint64_t)count_of(&p, RT_DBIAS);
            /* dbias has its rows by (b, pos, head), the bias its own by (b, head, pos) */
            const int64_t *s = p.bias_shape, j = (int64_t)e % s[3], i = (int64_t)e / s[3] % s[2],
                          h = (int64_t)e / s[3] / s[2] % s[1], b = (int64_t)e / s[3] / s[2] / s[1];
            check_difference(&t, &p.bias[e], t_row(&t, RT_DBIAS, b, i, h)[j], "dbias");
        }
        for (int64_t h = 0; h < p.heads_q; h++)
            check_difference(&t, &p.sink[h], t.x[RT_DSINK][h], "dsink");
        t_tensors_free(&t);
        free_scores(&p);
    }
}

/* ---- what reaches what ------------------------------------------------------------------------------- */

static void rows_that_see_nothing_have_the_sink(void **state)
{
    (void)state;
    rt_problem p = base(0);
    add_scores(&p, BIAS | SINK, "11ss", true); /* row 5 is hidden */
    t_tensors t;
    t_tensors_create(&p, &t);
    t_fill(&t, RT_FAMILY_GAUSSIAN, 5);
    t_run(&t, &hows[1]);
    for (int64_t h = 0; h < p.heads_q; h++) {
        t_assert_bits_eq(*t_row(&t, RT_LSE, 1, 5, h), p.sink[h]);
        for (int64_t d = 0; d < p.dim_v; d++)
            t_assert_bits_eq(t_row(&t, RT_OUT, 1, 5, h)[d], 0.0);
        for (int64_t d = 0; d < p.dim; d++)
            t_assert_bits_eq(t_row(&t, RT_DQ, 1, 5, h)[d], 0.0);
    }
    free(p.sink);
    p.sink = NULL;
    t_run(&t, &hows[1]);
    t_assert_bits_eq(*t_row(&t, RT_LSE, 1, 5, 0), -T_INF);
    t_tensors_free(&t);
    free_scores(&p);
}

/* A NaN in v of a key: the outputs of the queries that see and keep it are NaN in that element, no other. */
static void nan_in_v(const char *arith)
{
    rt_problem p = base(0);
    add_scores(&p, BIAS | DROP | CAP, "bhss", true);
    t_tensors t;
    t_tensors_create(&p, &t);
    t_fill(&t, RT_FAMILY_GAUSSIAN, 5);
    const int64_t b = 1, g = 1, j = 3, group = p.heads_q / p.heads_kv;
    t_row(&t, RT_V, b, j, g)[2] = T_NAN;
    t_run_in(arith);
    t_run(&t, &hows[1]);
    t_run_in("f64");
    int64_t reached = 0;
    for (int64_t i = 0; i < p.seqlen_q; i++)
        for (int64_t h = 0; h < p.heads_q; h++)
            for (int64_t d = 0; d < p.dim_v; d++) {
                const bool want = h / group == g && d == 2 && t_sees(&p, i, j) &&
                                  bias_at(&p, b, h, i, j) > -DBL_MAX && kept(&p, b, h, i, j);
                assert_true(isnan(t_row(&t, RT_OUT, b, i, h)[d]) == want);
                reached += want;
                /* and through delta the gradients of the pairs of such a row */
                if (d == 2 && h / group == g) {
                    assert_true(isnan(t_row(&t, RT_DQ, b, i, h)[0]) == want);
                    for (int64_t c = 0; c < p.seqlen_k; c++)
                        assert_true(isnan(t_row(&t, RT_DBIAS, b, i, h)[c]) ==
                                    (want && t_sees(&p, i, c) && bias_at(&p, b, h, i, c) > -DBL_MAX));
                }
            }
    assert_true(reached > 5);
    for (int64_t h = 0; h < p.heads_q; h++)
        assert_true(!isnan(*t_row(&t, RT_LSE, b, 7, h)));
    for (int64_t e = 0; e < count_of(&p, RT_DV); e++) /* dv does not know v */
        assert_true(!isnan(t.x[RT_DV][e]));
    t_tensors_free(&t);
    free_scores(&p);
}

static void a_nan_in_v_reaches_what_keeps_it(void **state)
{
    (void)state;
    nan_in_v("f64");
    nan_in_v("f32");
}

static void a_plan_gives_the_same_bits_with_any_threads(void **state)
{
    (void)state;
    for (int x = 0; x < 5; x++) {
        rt_problem p = base(x % BASES);
        add_scores(&p, ALL, shapes[x], x % 2 == 0);
        t_tensors t, u;
        t_tensors_create(&p, &t);
        t_tensors_create(&p, &u);
        t_fill(&t, RT_FAMILY_GAUSSIAN, 9);
        t_copy_inputs(&u, &t);
        t_how one = hows[x], three = hows[x];
        one.threads = 1;
        three.threads = 3;
        t_run(&t, &one);
        t_run(&u, &three);
        t_check_same(&u, &t, "threads");
        t_tensors_free(&t);
        t_tensors_free(&u);
        free_scores(&p);
    }
}

/* ---- values and rules -------------------------------------------------------------------------------- */

static void slopes_are_the_usual_ones(void **state)
{
    (void)state;
    for (int64_t h = 0; h < 8; h++)
        t_assert_bits_eq(rt_alibi_standard(h, 8), ldexp(1, -(int)h - 1));
    const int64_t heads[] = {1, 2, 12, 16, 32, 40, 64};
    for (size_t n = 0; n < sizeof heads / sizeof heads[0]; n++)
        for (int64_t h = 0; h < heads[n]; h++) {
            int64_t m = 1;
            while (2 * m <= heads[n])
                m *= 2;
            const long double power = h < m ? -8.0L * (long double)(h + 1) / (long double)m
                                            : -8.0L * (long double)(2 * (h - m) + 1) / (long double)(2 * m);
            t_assert_bits_eq(rt_alibi_standard(h, heads[n]), (double)(float)exp2l(power));
        }
}

static void alibi_is_an_exact_sum_of_two(void **state)
{
    (void)state;
    double slopes[3] = {0.1, 0x1.fffffffffffffp-3, 0};
    rt_problem p = t_problem(1, INT64_C(1) << 40, INT64_C(1) << 40, 3, 3, 1, 1, RT_MASK_CAUSAL);
    p.alibi = slopes;
    for (int h = 0; h < 3; h++) {
        const int64_t i = (INT64_C(1) << 40) - 3, j = 5;
        double low = 1;
        const double high = rt_score_alibi(&p, h, i, j, &low);
        /* both factors in pieces of 27 bits: every product and sum below is exact in 64 bits */
        const double top = (double)(float)slopes[h], rest = slopes[h] - top;
        const long double a = -(long double)top * (long double)(i - j),
                          c = -(long double)rest * (long double)(i - j);
        assert_true(fabsl((a - (long double)high) + c - (long double)low) <= 0);
    }
}

static void rows_of_dropout_are_its_pairs(void **state)
{
    (void)state;
    rt_problem p = t_problem(3, 4000, 5000, 4, 4, 1, 1, RT_MASK_FULL);
    int64_t pos[1000], count = 0, all = 0;
    uint64_t seed = 1;
    p.dropout = 0.2;
    p.dropout_seed = UINT64_C(0xfedcba9876543210);
    for (int n = 0; n < 1000; n++)
        pos[n] = n < 600 ? n + 3 : (int64_t)(t_random(&seed) % 5000);
    uint8_t keep[1000];
    for (int64_t i = 0; i < 4000; i += 117) {
        rt_dropout_row(&p, i % 3, i % 4, i, pos, 1000, keep);
        for (int n = 0; n < 1000; n++) {
            assert_int_equal(keep[n], rt_dropout_keep(&p, i % 3, i % 4, i, pos[n]));
            assert_int_equal(keep[n], kept(&p, i % 3, i % 4, i, pos[n]));
            count += keep[n];
            all++;
        }
    }
    t_assert_le(fabs((double)count / (double)all - 0.8), 0.01); /* 35,000 draws: 5 sigma */
    p.dropout = 0;
    rt_dropout_row(&p, 0, 0, 0, pos, 10, keep);
    for (int n = 0; n < 10; n++)
        assert_int_equal(keep[n], 1);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    rt_context ctx = {0};
    double two[2] = {0.5, 0.25}, bias[4] = {0, 1, 2, 3};
    const rt_problem good = {.batch = 1,
                             .seqlen_q = 2,
                             .seqlen_k = 2,
                             .heads_q = 2,
                             .heads_kv = 1,
                             .dim = 1,
                             .dim_v = 1,
                             .scale_kind = RT_SCALE_F64,
                             .scale = 1,
                             .alibi = two,
                             .sink = two,
                             .bias = bias,
                             .bias_shape = {1, 1, 2, 2},
                             .softcap = 1,
                             .dropout = 0.5};
    t_assert_ok(&ctx, rt_problem_check(&ctx, &good));
    const double bad[] = {T_NAN, T_INF, -T_INF, -1, 1};
    for (int x = 0; x < 5; x++) {
        rt_problem p = good;
        if (x < 4) {
            p.softcap = bad[x];
            t_assert_status(&ctx, rt_problem_check(&ctx, &p), RT_ERR_ARG);
        }
        p = good;
        p.dropout = bad[x];
        t_assert_status(&ctx, rt_problem_check(&ctx, &p), RT_ERR_ARG);
        double one[2] = {0.5, bad[x]};
        for (int y = 0; y < 2 && x < 3; y++) {
            p = good;
            *(y == 0 ? &p.sink : &p.alibi) = one;
            t_assert_status(&ctx, rt_problem_check(&ctx, &p), RT_ERR_ARG);
        }
        double four[4] = {0, 0, 0, bad[x]};
        p = good;
        p.bias = four;
        t_assert_status(&ctx, rt_problem_check(&ctx, &p), x < 2 ? RT_ERR_ARG : RT_OK);
    }
    for (int k = 0; k < 4; k++) {
        rt_problem p = good;
        p.bias_shape[k] = k == 3 ? 1 : 3;
        t_assert_status(&ctx, rt_problem_check(&ctx, &p), RT_ERR_ARG);
    }
    double tiny[2] = {1, 0x1p-600};
    rt_problem p = good;
    p.alibi = tiny;
    t_assert_status(&ctx, rt_problem_check(&ctx, &p), RT_ERR_ARG);
    p = good;
    p.seqlen_k = (INT64_C(1) << 38) + 1;
    p.bias = NULL;
    t_assert_status(&ctx, rt_problem_check(&ctx, &p), RT_ERR_ARG);
}

static void every_field_counts_in_the_digest(void **state)
{
    (void)state;
    double two[2] = {0.5, 0.25}, other[2] = {0.5, 0.125}, bias[4] = {0, 1, 2, 3};
    rt_problem plain = t_problem(1, 2, 2, 2, 1, 1, 1, RT_MASK_FULL), list[12];
    int n = 0;
    list[n++] = plain;
    for (int k = 0; k < 2; k++) {
        list[n] = plain;
        list[n++].alibi = k == 0 ? two : other;
        list[n] = plain;
        list[n++].sink = k == 0 ? two : other;
        list[n] = plain;
        list[n++].softcap = 1 + k;
        list[n] = plain;
        list[n].dropout = 0.25;
        list[n++].dropout_seed = (uint64_t)k;
        list[n] = plain;
        list[n].bias = bias;
        list[n].no_dbias = k == 1;
        memcpy(list[n++].bias_shape, (int64_t[]){1, 1, 2, 2}, sizeof plain.bias_shape);
    }
    list[n] = list[n - 1];
    memcpy(list[n++].bias_shape, (int64_t[]){1, 2, 1, 2}, sizeof plain.bias_shape);
    for (int x = 0; x < n; x++)
        for (int y = 0; y < x; y++)
            assert_true(rt_problem_digest(&list[x]) != rt_problem_digest(&list[y]));
    rt_context ctx = {0};
    rt_problem copy;
    t_assert_ok(&ctx, rt_problem_copy(&ctx, &list[n - 1], &copy));
    assert_true(rt_problem_digest(&copy) == rt_problem_digest(&list[n - 1]) && copy.bias != bias);
    rt_problem_reset(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_alone_equals_the_triple_loop),
        cmocka_unit_test(all_together_equal_the_triple_loop),
        cmocka_unit_test(gradients_are_differences_of_the_loss),
        cmocka_unit_test(rows_that_see_nothing_have_the_sink),
        cmocka_unit_test(a_nan_in_v_reaches_what_keeps_it),
        cmocka_unit_test(a_plan_gives_the_same_bits_with_any_threads),
        cmocka_unit_test(slopes_are_the_usual_ones),
        cmocka_unit_test(alibi_is_an_exact_sum_of_two),
        cmocka_unit_test(rows_of_dropout_are_its_pairs),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(every_field_counts_in_the_digest),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
