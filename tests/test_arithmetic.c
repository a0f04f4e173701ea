/* What arithmetic f64 stands on: exp and log, the join of partial states, the BLAS, and the declarations.
 */
#include <mpfr.h>

#include <ringtrue/ringtrue.h>

#include "arithmetic/exp.h"
#include "arithmetic/ops.h"
#include "scratch.h"

/* ---- exp and log ------------------------------------------------------------------------------------- */

typedef void (*exp_kernel)(double *x, int64_t n);

static void exp_by_scalar(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = rt_exp_scalar(x[i]);
}

/* The one in use, and those of narrower vectors that this processor also has. */
static int kernels(exp_kernel list[4])
{
    int n = 0;
    list[n++] = rt_exp_vector;
    list[n++] = exp_by_scalar;
#if defined(RT_EXP_AVX)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        list[n++] = rt_exp_avx2;
    if (__builtin_cpu_supports("avx512f"))
        list[n++] = rt_exp_avx512;
#endif
    return n;
}

/* |got - f(x)| in ulps of binary64 at f(x), f evaluated to 120 bits. */
static double ulps_off(double got, double x, int (*f)(mpfr_t, const mpfr_t, mpfr_rnd_t))
{
    mpfr_t a, y;
    mpfr_inits2(120, a, y, (mpfr_ptr)0);
    mpfr_set_d(a, x, MPFR_RNDN);
    f(y, a, MPFR_RNDN);
    const double near = mpfr_get_d(y, MPFR_RNDZ);
    mpfr_sub_d(y, y, got, MPFR_RNDN);
    mpfr_div_d(y, y, rt_ulp(RT_F64, near), MPFR_RNDN);
    const double off = fabs(mpfr_get_d(y, MPFR_RNDU));
    mpfr_clears(a, y, (mpfr_ptr)0);
    return off;
}

static double uniform(uint64_t *seed, double lo, double hi)
{
    return lo + (hi - lo) * ((double)(t_random(seed) >> 11) * 0x1p-53);
}

static void exp_is_within_one_ulp(void **state)
{
    (void)state;
    /* Where the result turns subnormal, its last bits, small arguments, and the step before overflow. */
    static const double edges[] = {-0x1p-1074,
                                   0x1p-1074,
                                   -0x1p-60,
                                   0x1p-54,
                                   -0x1p-53,
                                   0x1p-27,
                                   -0x1p-27,
                                   -708.0,
                                   -708.3,
                                   -708.4,
                                   -709.0,
                                   -720.5,
                                   -740.0,
                                   -744.0,
                                   -744.44,
                                   -745.0,
                                   -745.13,
                                   709.0,
                                   709.78,
                                   0.34657359027997264,
                                   -0.34657359027997264,
                                   1.0,
                                   -1.0,
                                   -103.97,
                                   -87.33};
    static const double ranges[][2] = {{-1, 0}, {-40, 0}, {-708, 0}, {-745, -708}, {0, 709}, {-1e-8, 1e-8}};
    enum { EDGES = sizeof edges / sizeof edges[0], COUNT = 2000 };
    exp_kernel list[4];
    const int n = kernels(list);
    for (int k = 0; k < n; k++) {
        uint64_t seed = 5;
        double x[COUNT], y[COUNT];
        for (int i = 0; i < COUNT; i++)
            x[i] = i < EDGES ? edges[i] : uniform(&seed, ranges[i % 6][0], ranges[i % 6][1]);
        memcpy(y, x, sizeof y);
        list[k](y, COUNT);
        for (int i = 0; i < COUNT; i++)
            if (!(ulps_off(y[i], x[i], mpfr_exp) <= 1.0))
                fail_msg("kernel %d: exp(%a) = %a is %g ulps off", k, x[i], y[i],
                         ulps_off(y[i], x[i], mpfr_exp));
    }
}

static void exp_of_special_values_is_exact(void **state)
{
    (void)state;
    static const double pairs[][2] = {{0.0, 1.0},    {-0.0, 1.0}, {-1000.0, 0.0}, {-746.0, 0.0},
                                      {-1e308, 0.0}, {1000.0, 0}, {710.0, 0}};
    exp_kernel list[4];
    const int n = kernels(list);
    for (int k = 0; k < n; k++) {
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            double x = pairs[i][0];
            list[k](&x, 1);
            t_assert_bits_eq(x, pairs[i][0] > 1 ? T_INF : pairs[i][1]);
        }
        double special[] = {-T_INF, T_INF, T_NAN, -1024.0};
        list[k](special, 4);
        t_assert_bits_eq(special[0], 0.0);
        t_assert_bits_eq(special[1], T_INF);
        t_assert_bits_eq(special[2], T_NAN);
        t_assert_bits_eq(special[3], 0.0);
    }
}

/* The value at a place depends on the argument alone: not on the length, the place or the neighbours. */
static void exp_does_not_depend_on_position(void **state)
{
    (void)state;
    exp_kernel list[4];
    const int n = kernels(list);
    uint64_t seed = 6;
    for (int k = 0; k < n; k++)
        for (int trial = 0; trial < 200; trial++) {
            const double x = trial % 10 == 0 ? uniform(&seed, -745, -708) : uniform(&seed, -30, 1);
            double alone = x, many[40];
            list[k](&alone, 1);
            const int64_t start = (int64_t)(t_random(&seed) % 7),
                          length = 1 + (int64_t)(t_random(&seed) % 33);
            const int64_t place = start + (int64_t)(t_random(&seed) % (uint64_t)length);
            for (int64_t i = 0; i < 40; i++)
                many[i] = i % 5 == 0 ? -T_INF : i % 7 == 0 ? T_NAN : uniform(&seed, -800, 800);
            many[place] = x;
            double before[40];
            memcpy(before, many, sizeof before);
            list[k](many + start, length);
            t_assert_bits_eq(many[place], alone);
            for (int64_t i = 0; i < 40; i++) /* and nothing outside is touched */
                if (i < start || i >= start + length)
                    t_assert_bits_eq(many[i], before[i]);
        }
    double untouched = 3;
    rt_exp_vector(&untouched, 0);
    t_assert_bits_eq(untouched, 3);
}

static void log_is_within_one_ulp(void **state)
{
    (void)state;
    uint64_t seed = 7;
    t_assert_bits_eq(rt_log_scalar(1.0), 0.0);
    for (int i = 0; i < 3000; i++) {
        const double x = i < 1000 ? (double)(i + 2) : uniform(&seed, 1, i % 2 == 0 ? 2 : 1e6);
        t_assert_le(ulps_off(rt_log_scalar(x), x, mpfr_log), 1.0);
    }
    t_assert_bits_eq(rt_log_scalar(T_NAN), T_NAN);
}

/* ---- joins ------------------------------------------------------------------------------------------- */

enum { WIDTH = 3 };

typedef struct {
    double acc[WIDTH], m, l;
} partial;

static void join(const partial *in, partial *present)
{
    rt_f64_join(1, WIDTH, in->acc, &in->m, &in->l, present->acc, &present->m, &present->l);
}

static void check_partial(const partial *got, const partial *want)
{
    for (int d = 0; d < WIDTH; d++)
        t_assert_bits_eq(got->acc[d], want->acc[d]);
    t_assert_bits_eq(got->m, want->m);
    t_assert_bits_eq(got->l, want->l);
}

static partial random_partial(uint64_t *seed, double spread)
{
    partial x = {.m = uniform(seed, -spread, spread), .l = uniform(seed, 1, 50)};
    for (int d = 0; d < WIDTH; d++)
        x.acc[d] = uniform(seed, -50, 50);
    return x;
}

/* Each part is scaled at most twice, by exp of a rounded difference and a product, and added twice:
 * relative error u (top - m) + 2 (2u + u) + 2u of what it brings to l and acc. */
static void check_joined(const partial *got, const partial part[3])
{
    const long double u = 0x1p-53L * (1 + 0x1p-10L);
    const double top = fmax(part[0].m, fmax(part[1].m, part[2].m));
    long double l = 0, l_tol = 0, acc[WIDTH] = {0}, tol[WIDTH] = {0};
    for (int x = 0; x < 3; x++) {
        const long double drop = (long double)top - (long double)part[x].m, c = expl(-drop);
        l += c * (long double)part[x].l;
        l_tol += c * (long double)part[x].l * u * (drop + 8);
        for (int d = 0; d < WIDTH; d++) {
            acc[d] += c * (long double)part[x].acc[d];
            tol[d] += c * fabsl((long double)part[x].acc[d]) * u * (drop + 8);
        }
    }
    t_assert_bits_eq(got->m, top);
    t_assert_le((double)fabsl((long double)got->l - l), (double)l_tol);
    for (int d = 0; d < WIDTH; d++)
        t_assert_le((double)fabsl((long double)got->acc[d] - acc[d]), (double)tol[d]);
}

static void join_in_any_order_is_within_bound(void **state)
{
    (void)state;
    static const int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const double spreads[] = {0, 1e-3, 1, 20, 300};
    uint64_t seed = 8;
    for (int trial = 0; trial < 500; trial++) {
        partial part[3];
        for (int x = 0; x < 3; x++)
            part[x] = random_partial(&seed, spreads[trial % 5]);
        for (int o = 0; o < 6; o++) {
            partial left = part[order[o][0]], right = part[order[o][1]];
            join(&part[order[o][1]], &left);
            join(&part[order[o][2]], &left); /* (a b) c */
            join(&part[order[o][2]], &right);
            join(&part[order[o][0]], &right); /* (b c) a */
            check_joined(&left, part);
            check_joined(&right, part);
        }
    }
}

static void join_with_an_empty_side_keeps_the_other(void **state)
{
    (void)state;
    const partial empty = {.m = -T_INF};
    partial x = {.acc = {-0.0, 0x1p-1074, -3.5}, .m = -700.25, .l = 1.0 / 3};
    const partial want = x;
    join(&empty, &x);
    check_partial(&x, &want);
    partial y = empty;
    join(&x, &y);
    check_partial(&y, &want);
    y = empty;
    join(&empty, &y);
    check_partial(&y, &empty);
    /* What an empty side's accumulator holds does not matter. */
    const partial dirty = {.acc = {T_NAN, 1, 2}, .m = -T_INF, .l = T_NAN};
    join(&dirty, &x);
    check_partial(&x, &want);
}

static void join_with_nan_is_nan(void **state)
{
    (void)state;
    const partial bad = {.acc = {1, 2, 3}, .m = T_NAN, .l = 1}, good = {.acc = {1, 2, 3}, .m = 5, .l = 2};
    const partial all = {.acc = {T_NAN, T_NAN, T_NAN}, .m = T_NAN, .l = T_NAN}, empty = {.m = -T_INF};
    partial x = good;
    join(&bad, &x);
    check_partial(&x, &all);
    x = bad;
    join(&good, &x);
    check_partial(&x, &all);
    x = bad; /* an empty side does not hide it */
    join(&empty, &x);
    t_assert_bits_eq(x.m, T_NAN);
    x = empty;
    join(&bad, &x);
    t_assert_bits_eq(x.m, T_NAN);
    /* One element that is NaN (a NaN in v) stays one, even where its side weighs nothing. */
    const partial one = {.acc = {1, T_NAN, 3}, .m = -2000, .l = 2};
    x = good;
    join(&one, &x);
    t_assert_bits_eq(x.acc[0], 1);
    t_assert_bits_eq(x.acc[1], T_NAN);
    t_assert_bits_eq(x.acc[2], 3);
    t_assert_bits_eq(x.l, 2);
}

static void finish_divides_and_knows_an_empty_row(void **state)
{
    (void)state;
    double out[WIDTH], lse;
    const double acc[WIDTH] = {3, -1.5, 0.75};
    rt_f64_finish(WIDTH, acc, 10, 3, out, &lse);
    for (int d = 0; d < WIDTH; d++)
        t_assert_bits_eq(out[d], acc[d] / 3);
    t_assert_bits_eq(lse, 10 + rt_log_scalar(3));
    rt_f64_finish(WIDTH, acc, -T_INF, 0, out, &lse);
    for (int d = 0; d < WIDTH; d++)
        t_assert_bits_eq(out[d], 0.0);
    t_assert_bits_eq(lse, -T_INF);
    rt_f64_finish(WIDTH, acc, T_NAN, T_NAN, out, &lse);
    t_assert_bits_eq(out[0], T_NAN);
    t_assert_bits_eq(lse, T_NAN);
}

/* ---- names ------------------------------------------------------------------------------------------- */

static void arithmetics_are_found_by_name(void **state)
{
    (void)state;
    int count = 0;
    for (const rt_arithmetic_ops *const *a = rt_arithmetics(); *a != NULL; a++, count++)
        assert_ptr_equal(rt_arithmetic_find(rt_arithmetic_name(*a)), *a);
    assert_true(count >= 1);
    assert_ptr_equal(rt_arithmetic_find("f64"), &rt_arithmetic_f64);
    assert_int_equal(rt_arithmetic_result(&rt_arithmetic_f64), RT_F64);
    assert_null(rt_arithmetic_find("f65"));
    assert_null(rt_arithmetic_find(""));
}

static void blas_passes_its_test_and_is_named(void **state)
{
    (void)state;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_blas_self_test(&ctx));
    const char *text = rt_blas_description();
    assert_non_null(strstr(text, "OpenBLAS "));
    assert_non_null(strstr(text, "kernels"));
    assert_non_null(strstr(text, "thread"));
    assert_null(strstr(text, "unknown"));
}

static void declared_defaults_are_the_least_accurate(void **state)
{
    (void)state;
    const rt_dtype inputs[] = {RT_BF16, RT_F16, RT_F32, RT_F64}, low[] = {RT_BF16, RT_F16, RT_F32, RT_F32};
    for (int i = 0; i < 4; i++) {
        rt_declared d;
        memset(&d, 0xff, sizeof d);
        rt_declared_init(&d, inputs[i]);
        assert_int_equal(d.assumed, RT_DECL_ALL);
        assert_int_equal(d.accumulate, RT_ACC_F32);
        assert_string_equal(d.accumulate_name, "f32");
        t_assert_bits_eq(d.exp_rel, 0x1p-13);
        assert_int_equal(d.block_keys, 16);
        assert_int_equal(d.join, RT_JOIN_TWO_PASS);
        assert_true(d.probabilities == low[i] && d.partial == low[i] && d.state == low[i]);
        assert_true(d.grad_partial == low[i] && d.grad_state == low[i]);
    }
}

static void declared_of_names_our_own(void **state)
{
    (void)state;
    rt_declared d;
    assert_true(rt_declared_of("f64", &d));
    assert_int_equal(d.assumed, 0);
    assert_int_equal(d.accumulate, RT_ACC_F64);
    assert_string_equal(d.accumulate_name, "f64");
    t_assert_bits_eq(d.exp_rel, 0x1p-52);
    assert_int_equal(d.join, RT_JOIN_RAW);
    assert_true(d.probabilities == RT_F64 && d.partial == RT_F64 && d.state == RT_F64);
    assert_true(d.grad_partial == RT_F64 && d.grad_state == RT_F64);
    d.block_keys = 7;
    assert_false(rt_declared_of("f63", &d));
    assert_int_equal(d.block_keys, 7); /* untouched */
}

static void accumulators_are_those_that_are_listed(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        rt_acc_kind kind;
        int32_t step, fraction, bits;
    } want[] = {
        {"f32", RT_ACC_F32, 0, 0, 0},
        {"f64", RT_ACC_F64, 0, 0, 0},
        {"tc-volta", RT_ACC_TC, 4, 23, 23},
        {"tc-ampere", RT_ACC_TC, 8, 24, 23},
        {"tc-ada-fp8", RT_ACC_TC, 16, 13, 13},
        {"tc-hopper", RT_ACC_TC, 16, 25, 23},
        {"tc-hopper-fp8", RT_ACC_TC, 32, 13, 13},
        {"tc-blackwell", RT_ACC_TC, 16, 25, 23},
        {"tc-blackwell-fp8", RT_ACC_TC, 32, 25, 23},
    };
    char names[400] = "";
    rt_declared d;
    rt_declared_init(&d, RT_BF16);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        assert_true(rt_declared_accumulate(&d, want[i].name));
        assert_string_equal(d.accumulate_name, want[i].name);
        assert_int_equal(d.accumulate, want[i].kind);
        assert_true(d.tc_step == want[i].step && d.tc_fraction == want[i].fraction &&
                    d.tc_bits == want[i].bits);
        (void)snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i == 0 ? "" : " ",
                       want[i].name);
    }
    assert_string_equal(names, rt_declared_accumulate_names());
    assert_false(rt_declared_accumulate(&d, "tc"));
    assert_string_equal(d.accumulate_name, "tc-blackwell-fp8");
}

static void joins_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"sigmoid", "two-pass", "split", "raw"};
    for (int j = 0; j < 4; j++) {
        rt_join_form got = RT_JOIN_SIGMOID;
        assert_string_equal(rt_join_name((rt_join_form)j), names[j]);
        assert_true(rt_join_parse(names[j], &got));
        assert_int_equal(got, j);
    }
    rt_join_form got = RT_JOIN_RAW;
    assert_false(rt_join_parse("twopass", &got));
    assert_int_equal(got, RT_JOIN_RAW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_one_ulp),
        cmocka_unit_test(exp_of_special_values_is_exact),
        cmocka_unit_test(exp_does_not_depend_on_position),
        cmocka_unit_test(log_is_within_one_ulp),
        cmocka_unit_test(join_in_any_order_is_within_bound),
        cmocka_unit_test(join_with_an_empty_side_keeps_the_other),
        cmocka_unit_test(join_with_nan_is_nan),
        cmocka_unit_test(finish_divides_and_knows_an_empty_row),
        cmocka_unit_test(arithmetics_are_found_by_name),
        cmocka_unit_test(blas_passes_its_test_and_is_named),
        cmocka_unit_test(declared_defaults_are_the_least_accurate),
        cmocka_unit_test(declared_of_names_our_own),
        cmocka_unit_test(accumulators_are_those_that_are_listed),
        cmocka_unit_test(joins_have_names),
    };
    return cmocka_run_group_tests_name("arithmetic", tests, NULL, t_teardown_memory);
}
