/* Arithmetic f32, and the vector passes of f32 and f64: their exponentials against MPFR, what is not
 * finite, and tiles against arithmetic f64. */
#include <mpfr.h>
#include <omp.h>

#include "arithmetic/f32.h"
#include "arithmetic/f64.h"
#include "masks.h"
#include "runner.h"
#include "scratch.h"

static int kernels32(const rt_f32_kernels *list[3])
{
    int n = 0;
    list[n++] = &rt_f32_kernels_plain;
#if defined(RT_F32_AVX)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        list[n++] = &rt_f32_kernels_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        list[n++] = &rt_f32_kernels_avx512;
#endif
    return n;
}

static int kernels64(const rt_f64_kernels *list[3])
{
    int n = 0;
    list[n++] = &rt_f64_kernels_plain;
#if defined(RT_F64_AVX)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        list[n++] = &rt_f64_kernels_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        list[n++] = &rt_f64_kernels_avx512;
#endif
    return n;
}

static double uniform(uint64_t *seed, double lo, double hi)
{
    return lo + (hi - lo) * ((double)(t_random(seed) >> 11) * 0x1p-53);
}

/* |got / f(x) - 1|, f to 120 bits. */
static double relative(double got, double x, int (*f)(mpfr_t, const mpfr_t, mpfr_rnd_t))
{
    mpfr_t y;
    mpfr_init2(y, 120);
    mpfr_set_d(y, x, MPFR_RNDN);
    f(y, y, MPFR_RNDN);
    mpfr_d_div(y, got, y, MPFR_RNDN);
    mpfr_sub_ui(y, y, 1, MPFR_RNDN);
    const double r = fabs(mpfr_get_d(y, MPFR_RNDU));
    mpfr_clear(y);
    return r;
}

/* The declaration says 2^-22; the kernel itself stays below 2^-23 + 2^-25. */
static void weights_of_f32_are_as_accurate_as_declared(void **state)
{
    (void)state;
    enum { N = 4001 };
    static float x[N], p[N];
    const rt_f32_kernels *list[3];
    rt_declared d;
    assert_true(rt_declared_of("f32", &d));
    for (int k = kernels32(list) - 1; k >= 0; k--) {
        uint64_t seed = 3;
        for (int i = 0; i < N; i++)
            x[i] = i == 0 ? 0 : (float)uniform(&seed, i % 3 == 0 ? -1 : i % 3 == 1 ? -20 : -125.5, 0);
        memcpy(p, x, sizeof p);
        const float sum = list[k]->weights(p, N, 0);
        double total = 0, worst = 0;
        for (int i = 0; i < N; i++) {
            const double off = relative((double)p[i], (double)x[i], mpfr_exp2);
            worst = off > worst ? off : worst;
            total += (double)p[i];
        }
        t_assert_le(worst, 0x1p-23 + 0x1p-25);
        t_assert_le(worst, d.exp_rel);
        t_assert_bits_eq((double)p[0], 1.0);
        t_assert_le(fabs((double)sum - total), 0x1p-24 * (N / 4.0) * total);
    }
}

static void weights_of_f64_are_within_one_ulp(void **state)
{
    (void)state;
    enum { N = 6003 };
    static double x[N], p[N];
    const rt_f64_kernels *list[3];
    for (int k = kernels64(list) - 1; k >= 0; k--) {
        uint64_t seed = 4;
        for (int i = 0; i < N; i++)
            x[i] = i == 0 ? 0 : uniform(&seed, i % 3 == 0 ? -1 : i % 3 == 1 ? -40 : -745, 0);
        memcpy(p, x, sizeof p);
        const double sum = list[k]->weights(p, N, 0);
        double total = 0;
        mpfr_t y;
        mpfr_init2(y, 120);
        for (int i = 0; i < N; i++) {
            mpfr_set_d(y, x[i], MPFR_RNDN);
            mpfr_exp(y, y, MPFR_RNDN);
            const double near = mpfr_get_d(y, MPFR_RNDZ);
            mpfr_sub_d(y, y, p[i], MPFR_RNDN);
            t_assert_le(fabs(mpfr_get_d(y, MPFR_RNDU)), rt_ulp(RT_F64, near));
            total += p[i];
        }
        mpfr_clear(y);
        t_assert_bits_eq(p[0], 1.0);
        t_assert_le(fabs(sum - total), 0x1p-53 * (N / 2.0) * total);
    }
}

/* A value of the exponential depends on its argument alone, wherever it lies and whoever its neighbours
 * are. */
static void weights_do_not_depend_on_the_place(void **state)
{
    (void)state;
    const rt_f32_kernels *s[3];
    const rt_f64_kernels *d[3];
    for (int k = kernels32(s) - 1; k >= 0; k--)
        for (int64_t n = 1; n < 150; n += 7) {
            float x[150], one = -3.7f;
            for (int i = 0; i < 150; i++)
                x[i] = i % 2 == 0 ? -3.7f : (float)-T_INF;
            (void)s[k]->weights(&one, 1, 0.25f);
            (void)s[k]->weights(x, n, 0.25f);
            for (int i = 0; i < 150; i++)
                t_assert_bits_eq((double)x[i], i % 2 != 0 ? (i < n ? 0.0 : -T_INF)
                                               : i < n    ? (double)one
                                                          : (double)-3.7f);
        }
    for (int k = kernels64(d) - 1; k >= 0; k--)
        for (int64_t n = 1; n < 150; n += 7) {
            double x[150], one = -3.7;
            for (int i = 0; i < 150; i++)
                x[i] = i % 2 == 0 ? -3.7 : -T_INF;
            (void)d[k]->weights(&one, 1, 0.25);
            (void)d[k]->weights(x, n, 0.25);
            for (int i = 0; i < 150; i++)
                t_assert_bits_eq(x[i], i % 2 != 0 ? (i < n ? 0.0 : -T_INF) : i < n ? one : -3.7);
        }
}

/* Every place of a row, in the body and in the tail. */
static void passes_see_what_is_not_finite(void **state)
{
    (void)state;
    enum { N = 77 };
    const double odd[] = {T_NAN, T_INF, -T_INF};
    const rt_f32_kernels *s[3];
    const rt_f64_kernels *d[3];
    for (int k = kernels32(s) - 1; k >= 0; k--)
        for (int i = -1; i < N; i++)
            for (int o = 0; o < 4; o++) {
                double in[N];
                float x[N];
                for (int j = 0; j < N; j++)
                    in[j] = j == i ? (o < 3 ? odd[o] : 1e300) : 1.0 / (j + 1);
                assert_int_equal(s[k]->narrow(in, N, x), i < 0);
                for (int j = 0; j < N; j++)
                    t_assert_bits_eq((double)x[j], (double)(float)in[j]);
                for (int j = 0; j < N; j++)
                    x[j] = j == i ? (float)odd[0] : -1.0f - (float)j;
                t_assert_bits_eq((double)s[k]->top(x, N, (float)-T_INF), i == 0 ? -2.0 : -1.0);
                assert_int_equal(isnan(s[k]->weights(x, N, -1.0f)), i >= 0);
            }
    for (int k = kernels64(d) - 1; k >= 0; k--)
        for (int i = -1; i < N; i++)
            for (int o = 0; o < 3; o++) {
                double x[N];
                for (int j = 0; j < N; j++)
                    x[j] = j == i ? odd[o] : 1.0 / (j + 1);
                assert_int_equal(d[k]->all_finite(x, N), i < 0);
                for (int j = 0; j < N; j++)
                    x[j] = j == i ? odd[0] : -1.0 - j;
                t_assert_bits_eq(d[k]->top(x, N, -T_INF), i == 0 ? -2.0 : -1.0);
                assert_int_equal(isnan(d[k]->weights(x, N, -1.0)), i >= 0);
            }
}

static void gradients_are_products(void **state)
{
    (void)state;
    enum { N = 83 };
    const rt_f32_kernels *s[3];
    const rt_f64_kernels *d[3];
    for (int k = kernels32(s) - 1; k >= 0; k--) {
        float p[N], ds[N], w[N];
        for (int j = 0; j < N; j++) {
            w[j] = p[j] = -0.1f * (float)j;
            ds[j] = (float)(j % 7) - 3;
        }
        (void)s[k]->weights(w, N, 0.5f);
        s[k]->gradient(p, ds, N, 0.5f, 0.25f, 1.5f);
        for (int j = 0; j < N; j++) {
            t_assert_bits_eq((double)p[j], (double)(w[j] * 0.25f));
            t_assert_bits_eq((double)ds[j], (double)(p[j] * ((float)(j % 7) - 4.5f)));
        }
    }
    for (int k = kernels64(d) - 1; k >= 0; k--) {
        double p[N], ds[N], w[N];
        for (int j = 0; j < N; j++) {
            w[j] = p[j] = -0.1 * j;
            ds[j] = j % 7 - 3;
        }
        (void)d[k]->weights(w, N, 0.5);
        d[k]->gradient(p, ds, N, 0.5, 0.25, 1.5);
        for (int j = 0; j < N; j++) {
            t_assert_bits_eq(p[j], w[j] * 0.25);
            t_assert_bits_eq(ds[j], p[j] * (j % 7 - 4.5));
        }
    }
}

/* ---- whole runs: f32 judged, as a dump would be
 * ----------------------------------------------------------------- */

static void load_row(void *arg, rt_tensor_id id, int64_t b, int64_t pos, int64_t h, double *row)
{
    const t_tensors *t = arg;
    memcpy(row, t_row(t, id, b, pos, h), (size_t)t_width(t->p, id) * sizeof *row);
}

static void store_row(void *arg, rt_tensor_id id, int32_t rank, int64_t slot, int64_t b, int64_t pos,
                      int64_t h, const double *row)
{
    const t_tensors *t = arg;
    (void)rank, (void)slot;
    double *to = t_row(t, id, b, pos, h);
    for (int64_t d = 0; d < t_width(t->p, id); d++)
        to[d] = rt_round_to(RT_F32, row[d]);
}

static void run_in(const char *arith, t_tensors *t, const t_how *how, rt_layout *l, rt_plan *plan)
{
    rt_context ctx = {0};
    rt_comm *alone;
    t_assert_ok(&ctx, rt_comm_self(&ctx, &alone));
    t_assert_ok(&ctx, t_layout_create(&ctx, t->p, how, l));
    t_assert_ok(&ctx, t_plan_create(&ctx, t->p, l, how->plan, plan));
    const rt_run_io io = {.load = load_row,
                          .store = store_row,
                          .arg = t,
                          .backward = true,
                          .result = RT_F32,
                          .lse_result = RT_F32};
    t_assert_ok(&ctx, rt_run(&ctx, alone, t->p, l, plan, rt_arithmetic_find(arith), &io, NULL));
    rt_comm_destroy(&alone);
}

static bool judged(t_tensors *t, const rt_layout *l, const rt_plan *plan)
{
    rt_context ctx = {0};
    rt_comm *alone;
    rt_declared d;
    assert_true(rt_declared_of("f32", &d));
    t_assert_ok(&ctx, rt_comm_self(&ctx, &alone));
    rt_judge_input in = {.load = load_row, .arg = t};
    for (int id = 0; id < RT_TENSOR_COUNT; id++) {
        in.present[id] = true;
        in.dtype[id] = RT_F32;
    }
    rt_judge_options o = {.delta = 1e-6, .truth = RT_TRUTH_F64};
    rt_verdict v;
    t_assert_ok(&ctx, rt_judge(&ctx, alone, t->p, l, plan, &d, &in, &o, &v));
    rt_comm_destroy(&alone);
    return v.pass;
}

static void f32_is_what_it_declares(void **state)
{
    (void)state;
    int64_t cu[] = {0, 9, 9, 130, 200};
    rt_problem problems[] = {t_problem(1, 200, 200, 4, 2, 32, 32, RT_MASK_CAUSAL),
                             t_problem(2, 130, 200, 2, 1, 33, 17, RT_MASK_FULL),
                             t_problem(1, 200, 130, 2, 2, 16, 16, RT_MASK_CAUSAL_BOTTOM_RIGHT),
                             t_problem(1, 200, 200, 4, 1, 24, 31, RT_MASK_CAUSAL)};
    problems[3].documents = 4;
    problems[3].cu_q = problems[3].cu_k = cu;
    const t_how hows[] = {{RT_LAYOUT_CONTIGUOUS, 1, "single", 0},
                          {RT_LAYOUT_ZIGZAG, 2, "ring", 0},
                          {RT_LAYOUT_STRIPED, 3, "split", 0},
                          {RT_LAYOUT_POSITIONS, 4, "pass-q", 0},
                          {RT_LAYOUT_CONTIGUOUS, 5, "ring", 0}};
    for (int x = 0; x < 4; x++)
        for (int y = x % 2; y < 5; y += 2) { /* each how with two problems or more */
            t_tensors t;
            t_tensors_create(&problems[x], &t);
            t_fill(&t, RT_FAMILY_GAUSSIAN, 31 + (uint64_t)x);
            for (int id = RT_Q; id <= RT_DOUT; id++)
                for (int64_t e = 0; e < t_rows(t.p, (rt_tensor_id)id) * t_width(t.p, (rt_tensor_id)id); e++)
                    t.x[id][e] = rt_round_to(RT_F32, t.x[id][e]);
            rt_layout l;
            rt_plan plan;
            run_in("f32", &t, &hows[y], &l, &plan);
            if (!judged(&t, &l, &plan))
                fail_msg("problem %d, plan %s, P %d", x, hows[y].plan, hows[y].ranks);
            /* The judge would see a result that is a little off. */
            double *dq = t_row(&t, RT_DQ, 0, 100, 1);
            dq[3] += 0.01;
            assert_false(judged(&t, &l, &plan));
            rt_plan_reset(&plan);
            rt_layout_reset(&l);
            t_tensors_free(&t);
        }
}

/* Long enough for several blocks in both directions, with and without a fresh destination. */
static void f32_agrees_with_f64_over_many_blocks(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++) {
        const rt_problem p = t_problem(1, 1300, 1300, 2, 1, 16, 16, m == 0 ? RT_MASK_CAUSAL : RT_MASK_FULL);
        t_tensors a, b;
        t_tensors_create(&p, &a);
        t_tensors_create(&p, &b);
        t_fill(&a, RT_FAMILY_GAUSSIAN, 41);
        t_fill(&b, RT_FAMILY_GAUSSIAN, 41);
        rt_layout l;
        rt_plan plan;
        const t_how how = {RT_LAYOUT_CONTIGUOUS, 1, "single", 0};
        run_in("f32", &a, &how, &l, &plan);
        rt_plan_reset(&plan);
        rt_layout_reset(&l);
        run_in("f64", &b, &how, &l, &plan);
        rt_plan_reset(&plan);
        rt_layout_reset(&l);
        double off = 0;
        for (int id = RT_LSE; id < RT_TENSOR_COUNT; id++)
            for (int64_t e = 0; e < t_rows(&p, (rt_tensor_id)id) * t_width(&p, (rt_tensor_id)id); e++) {
                const double d = fabs(a.x[id][e] - b.x[id][e]);
                t_assert_le(d, 3e-5);
                off = d > off ? d : off;
            }
        assert_true(off > 1e-8); /* they are not one and the same */
        t_tensors_free(&a);
        t_tensors_free(&b);
    }
}

/* A NaN, an infinity, or what is finite in binary64 alone: what depends on it is NaN, and what does not is
 * as it was. */
static void f32_spreads_what_is_not_finite_as_f64_does(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 40, 40, 4, 2, 6, 5, RT_MASK_CAUSAL);
    const double bad[] = {T_NAN, -T_INF, 1e300};
    const t_how hows[] = {{RT_LAYOUT_CONTIGUOUS, 1, "single", 0}, {RT_LAYOUT_ZIGZAG, 3, "ring", 0}};
    for (int id = RT_Q; id <= RT_DOUT; id++)
        for (int y = 0; y < 2; y++)
            for (int o = 0; o < 3; o++) {
                t_tensors clean, f32, f64;
                t_tensors_create(&p, &clean);
                t_tensors_create(&p, &f32);
                t_tensors_create(&p, &f64);
                t_fill(&clean, RT_FAMILY_GAUSSIAN, 51);
                t_copy_inputs(&f32, &clean);
                t_copy_inputs(&f64, &clean);
                t_row(&f32, (rt_tensor_id)id, 0, 20, 1)[2] = bad[o];
                t_row(&f64, (rt_tensor_id)id, 0, 20, 1)[2] = o < 2 ? bad[o] : T_INF;
                t_tensors *all[] = {&clean, &f32, &f64};
                for (int r = 0; r < 3; r++) {
                    rt_layout l;
                    rt_plan plan;
                    run_in(r == 2 ? "f64" : "f32", all[r], &hows[y], &l, &plan);
                    rt_plan_reset(&plan);
                    rt_layout_reset(&l);
                }
                int64_t spoiled = 0;
                for (int z = RT_LSE; z < RT_TENSOR_COUNT; z++)
                    for (int64_t e = 0; e < t_rows(&p, (rt_tensor_id)z) * t_width(&p, (rt_tensor_id)z);
                         e++) {
                        const bool nan = isnan(f64.x[z][e]);
                        spoiled += nan;
                        t_assert_bits_eq(f32.x[z][e], nan ? T_NAN : clean.x[z][e]);
                    }
                assert_true(spoiled > 0);
                t_tensors_free(&clean);
                t_tensors_free(&f32);
                t_tensors_free(&f64);
            }
}

/* Many key blocks take turns at the dQ of one head: the same bits for any number of threads. */
static void turns_keep_the_order_of_f64(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 600, 1700, 2, 1, 8, 8, RT_MASK_FULL);
    t_tensors one, t;
    t_tensors_create(&p, &one);
    t_tensors_create(&p, &t);
    t_fill(&one, RT_FAMILY_GAUSSIAN, 61);
    t_fill(&t, RT_FAMILY_GAUSSIAN, 61);
    t_how how = {RT_LAYOUT_CONTIGUOUS, 1, "single", 1};
    t_run(&one, &how);
    for (how.threads = 2; how.threads <= 7; how.threads += how.threads == 2 ? 1 : 4)
        for (int again = 0; again < 3; again++) {
            t_run(&t, &how);
            t_check_same(&t, &one, "threads");
        }
    t_tensors_free(&one);
    t_tensors_free(&t);
}

static void panels_hold_every_visible_pair(void **state)
{
    (void)state;
    int64_t cu[] = {0, 40, 300, 520, 600};
    rt_problem p = t_problem(1, 600, 600, 1, 1, 4, 4, RT_MASK_CAUSAL);
    p.documents = 4;
    p.cu_q = p.cu_k = cu;
    int64_t q_pos[600], k_pos[600];
    rt_slice slices[] = {{0, 250, 0, 300, RT_SLICE_FULL}, {250, 600, 100, 600, RT_SLICE_CAUSAL}};
    uint8_t valid[600] = {0};
    memset(valid, 1, 450);
    for (int turn = 0; turn < 5; turn++) {
        const bool shuffled = turn == 1;
        if (turn >= 3) { /* not one run of keys to each query */
            p.documents = 0;
            p.slices = slices;
            p.n_slices = 2;
            p.key_valid = turn == 4 ? valid : NULL;
        }

        if (turn == 2) { /* a panel with the span of the one before, which not all of its rows see */
            cu[1] = 200;
            p.documents = 2;
            cu[2] = 600;
            p.mask = RT_MASK_FULL;
        }
        for (int64_t i = 0; i < 600; i++) {
            q_pos[i] = shuffled ? (i * 7 + 3) % 600 : i;
            k_pos[i] = shuffled ? (i * 11 + 5) % 600 : i;
        }
        rt_context ctx = {0};
        rt_blocks b;
        t_assert_ok(&ctx, rt_blocks_create(&ctx, &p, 0, q_pos, 600, k_pos, 600, 256, 200, &b));
        static int8_t seen[600][600];
        memset(seen, 0, sizeof seen);
        int64_t work = 0;
        for (int64_t qb = 0; qb < b.n_qb; qb++)
            for (int64_t kb = 0; kb < b.n_kb; kb++) {
                const rt_block_class cls = rt_blocks_classify(&b, 0, qb, kb);
                const int64_t end = rt_min64(600, (qb + 1) * 256);
                int64_t visible_here = 0;
                for (int64_t i = qb * 256; i < end; i++)
                    for (int64_t j = kb * 200; j < (kb + 1) * 200; j++)
                        visible_here += t_mask_sees(&p, 0, q_pos[i], k_pos[j]);
                assert_true(turn < 3 || (cls == RT_BLOCK_EMPTY) == (visible_here == 0));
                assert_true(turn < 3 || (cls == RT_BLOCK_FULL) == (visible_here == (end - qb * 256) * 200));
                for (int64_t at = qb * 256; cls != RT_BLOCK_EMPTY && at < end;) {
                    const rt_panel x = rt_panel_next(&b, cls == RT_BLOCK_PARTIAL, at, end, kb * 200, 200);
                    assert_true(x.row0 == at && x.n > 0 && at + x.n <= end);
                    at += x.n;
                    for (int64_t i = x.row0; i < x.row0 + x.n; i++)
                        for (int64_t j = kb * 200 + x.j0; j < kb * 200 + x.j1; j++, work++) {
                            const bool visible = rt_blocks_visible(&b, 0, i, j);
                            assert_true(visible || x.cut);
                            seen[i][j] = (int8_t)(seen[i][j] + visible);
                        }
                }
            }
        for (int64_t i = 0; i < 600; i++)
            for (int64_t j = 0; j < 600; j++)
                assert_int_equal(seen[i][j], rt_blocks_visible(&b, 0, i, j));
        assert_true(turn > 0 || work < 150000); /* whole blocks would be 216,000 */
        for (int64_t i = 0; i < 600; i++)
            for (int64_t j = 0; j < 600; j++)
                assert_int_equal(seen[i][j], t_mask_sees(&p, 0, q_pos[i], k_pos[j]));
        rt_blocks_reset(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_of_f32_are_as_accurate_as_declared),
        cmocka_unit_test(weights_of_f64_are_within_one_ulp),
        cmocka_unit_test(weights_do_not_depend_on_the_place),
        cmocka_unit_test(passes_see_what_is_not_finite),
        cmocka_unit_test(gradients_are_products),
        cmocka_unit_test(f32_is_what_it_declares),
        cmocka_unit_test(f32_agrees_with_f64_over_many_blocks),
        cmocka_unit_test(f32_spreads_what_is_not_finite_as_f64_does),
        cmocka_unit_test(turns_keep_the_order_of_f64),
        cmocka_unit_test(panels_hold_every_visible_pair),
    };
    return cmocka_run_group_tests_name("f32", tests, NULL, t_teardown_memory);
}
