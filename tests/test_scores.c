/* What joins and bends the scores, alone and together, held to a plain triple loop in long double with code of its
 * own, and its gradients to differences of that loop's loss. */
#include "runner.h"

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

static rt_problem base(int which)
{
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
enum { BASES = 4 };

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
        if (!t_sees(p, i, j) || (p->bias != NULL && bias_at(p, b, h, i, j) < -DBL_MAX))
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
static void check_close(const t_tensors *got, const truth *want, const char *what, int mods)
{
    for (int id = RT_LSE; id < RT_RESULT_COUNT; id++)
        for (int64_t e = 0; e < count_of(got->p, id); e++) {
            const double g = got->x[id][e];
            const long double w = want->x[id][e], tol = 0x1p-53L * 400 * (want->mass[id][e] + 4);
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
    t_run(&t, how);
    char what[80];
    snprintf(what, sizeof what, "base %d, bias %s, %s P %d", which, shape, how->plan, (int)how->ranks);
    check_close(&t, &want, what, mods);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_alone_equals_the_triple_loop),
        cmocka_unit_test(all_together_equal_the_triple_loop),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
