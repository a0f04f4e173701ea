/* Double-double against MPFR: sums, products, quotients, exp on every instruction set, the logarithm. */
#include <math.h>

#include <mpfr.h>

#include "check.h"
#include "number/dd.h"
#include "number/dd_exp.h"
#include "scratch.h"

enum { N = 20000, BITS = 400 };

static double unit(uint64_t *s)
{
    return (double)(t_random(s) >> 11) * 0x1p-53;
}

/* A normalised pair with hi in 2^[-range, range]; half of the low parts are far below, or zero. */
static rt_dd random_dd(uint64_t *s, int range)
{
    const double hi = ldexp((1 + unit(s)) * (t_random(s) & 1 ? 1 : -1),
                            (int)(t_random(s) % (uint64_t)(2 * range + 1)) - range);
    const uint64_t kind = t_random(s) % 4;
    const double lo = kind == 0 ? 0 : hi * ldexp(unit(s) - 0.5, kind == 1 ? -90 : -53);
    return rt_quick_two_sum(hi, lo);
}

static void set_dd(mpfr_t x, rt_dd a)
{
    mpfr_set_d(x, a.hi, MPFR_RNDN);
    mpfr_add_d(x, x, a.lo, MPFR_RNDN);
}

/* |got - want| / |scale| */
static double error_of(rt_dd got, const mpfr_t want, const mpfr_t scale)
{
    mpfr_t e;
    mpfr_init2(e, BITS);
    set_dd(e, got);
    mpfr_sub(e, e, want, MPFR_RNDN);
    mpfr_div(e, e, scale, MPFR_RNDN);
    const double r = fabs(mpfr_get_d(e, MPFR_RNDU));
    mpfr_clear(e);
    return r;
}

static double largest(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

static void test_operations(void **state)
{
    (void)state;
    uint64_t s = 1;
    mpfr_t x, y, z, scale;
    mpfr_inits2(BITS, x, y, z, scale, (mpfr_ptr)0);
    double add = 0, add_d = 0, mul = 0, mul_d = 0, quotient = 0;
    for (int i = 0; i < N; i++) {
        const rt_dd a = random_dd(&s, 60);
        rt_dd b = random_dd(&s, 60);
        if (i % 4 == 0) /* cancellation */
            b = (rt_dd){-a.hi * (1 + ldexp((double)(t_random(&s) % 8), -50)),
                        b.lo * 0x1p-60 * fabs(a.hi / b.hi)};
        set_dd(x, a);
        set_dd(y, b);
        mpfr_add(z, x, y, MPFR_RNDN);
        mpfr_set_d(scale, fabs(a.hi) + fabs(b.hi), MPFR_RNDN);
        add = largest(error_of(rt_dd_add(a, b), z, scale), add);
        mpfr_add_d(z, x, b.hi, MPFR_RNDN);
        add_d = largest(error_of(rt_dd_add_d(a, b.hi), z, scale), add_d);
        mpfr_mul(z, x, y, MPFR_RNDN);
        mul = largest(error_of(rt_dd_mul(a, b), z, z), mul);
        mpfr_mul_d(z, x, b.hi, MPFR_RNDN);
        mul_d = largest(error_of(rt_dd_mul_d(a, b.hi), z, z), mul_d);
        mpfr_div(z, x, y, MPFR_RNDN);
        quotient = largest(error_of(rt_dd_div(a, b), z, z), quotient);
        /* error-free */
        const rt_dd sum = rt_two_sum(a.hi, b.hi), product = rt_two_prod(a.hi, b.hi);
        mpfr_set_d(z, a.hi, MPFR_RNDN);
        mpfr_add_d(z, z, b.hi, MPFR_RNDN);
        set_dd(y, sum);
        assert_true(mpfr_equal_p(y, z));
        mpfr_set_d(z, a.hi, MPFR_RNDN);
        mpfr_mul_d(z, z, b.hi, MPFR_RNDN);
        set_dd(y, product);
        assert_true(mpfr_equal_p(y, z));
        t_assert_bits_eq(product.hi, a.hi * b.hi);
    }
    mpfr_clears(x, y, z, scale, (mpfr_ptr)0);
    t_assert_le(add, 0x1p-102);
    t_assert_le(add_d, 0x1p-102);
    t_assert_le(mul, 0x1p-102);
    t_assert_le(mul_d, 0x1p-102);
    t_assert_le(quotient, 0x1p-102);
}

/* Arguments of exp: random over the range, near 0, near multiples of ln 2 and of the reduction's halves,
 * near the floor. */
static int64_t arguments(double *hi, double *lo)
{
    uint64_t s = 7;
    for (int64_t i = 0; i < N; i++) {
        double y = 0, low = 0;
        switch (t_random(&s) % 6) {
        case 0:
            y = 1 - 601 * unit(&s);
            break;
        case 1:
            y = ldexp(unit(&s) - 0.5, -(int)(t_random(&s) % 90));
            break;
        case 2:
            y = -0x1.62e42fefa39efp-2 * (double)(t_random(&s) % 1730) * (1 + 0x1p-50 * (unit(&s) - 0.5));
            break;
        case 3:
            y = -40 * unit(&s);
            break;
        case 4:
            y = -600 + 0x1p-40 * (double)(t_random(&s) % 3);
            break;
        default:
            y = unit(&s) - (double)(t_random(&s) % 8);
            break;
        }
        low = t_random(&s) % 3 == 0 ? 0 : y * 0x1p-53 * (unit(&s) - 0.5);
        const rt_dd z = rt_quick_two_sum(y > 1 ? 1 : y, low);
        hi[i] = z.hi;
        lo[i] = z.lo;
    }
    hi[0] = lo[0] = 0;
    hi[1] = -600;
    hi[2] = 1;
    lo[1] = lo[2] = 0;
    return N;
}

typedef void (*exp_fn)(const double *y_hi, const double *y_lo, double *p_hi, double *p_lo, int64_t n);

static void test_exp(void **state)
{
    (void)state;
    static double yh[N], yl[N], ph[N], pl[N];
    const int64_t n = arguments(yh, yl);
    rt_dd_exp(yh, yl, ph, pl, n);
    mpfr_t x, e;
    mpfr_inits2(BITS, x, e, (mpfr_ptr)0);
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        set_dd(x, (rt_dd){yh[i], yl[i]});
        mpfr_exp(e, x, MPFR_RNDN);
        const double err = error_of((rt_dd){ph[i], pl[i]}, e, e);
        if (!(err <= RT_DD_EXP_ERROR))
            print_error("exp(%a + %a): relative error %g\n", yh[i], yl[i], err);
        worst = largest(err, worst);
    }
    mpfr_clears(x, e, (mpfr_ptr)0);
    print_message("# exp: relative error 2^%.2f\n", log2(worst));
    t_assert_le(worst, RT_DD_EXP_ERROR);
    /* exp(0) = 1 exactly, of either zero */
    const rt_dd one = rt_dd_exp1((rt_dd){0, 0}), other = rt_dd_exp1((rt_dd){-0.0, -0.0});
    t_assert_bits_eq(one.hi, 1);
    t_assert_bits_eq(other.hi, 1);
    assert_true(one.lo <= 0 && one.lo >= 0 && other.lo <= 0 && other.lo >= 0);
    /* below the floor */
    static const double deep[] = {-600.0000001, -601, -745, -1e4, -1e300, -(double)INFINITY};
    for (size_t i = 0; i < sizeof deep / sizeof deep[0]; i++) {
        const rt_dd p = rt_dd_exp1((rt_dd){deep[i], 0});
        t_assert_bits_eq(p.hi, 0);
        t_assert_bits_eq(fabs(p.lo), 0);
    }
    t_assert_le(exp(-600.0), RT_DD_EXP_FLOOR);
}

static void same_bits(exp_fn kernel, const double *yh, const double *yl, const double *ph, const double *pl,
                      int64_t n)
{
    static double qh[N], ql[N];
    kernel(yh, yl, qh, ql, n);
    for (int64_t i = 0; i < n; i++) {
        t_assert_bits_eq(qh[i], ph[i]);
        t_assert_bits_eq(ql[i], pl[i]);
    }
    /* tails: any length, from any element, and nothing beyond is written; in place too */
    for (int64_t length = 0; length < 20; length++)
        for (int64_t first = 0; first < 9; first++) {
            double a[32], b[32];
            for (int i = 0; i < 32; i++)
                a[i] = b[i] = 77;
            kernel(yh + first, yl + first, a, b, length);
            for (int64_t i = 0; i < 32; i++) {
                t_assert_bits_eq(a[i], i < length ? ph[first + i] : 77);
                t_assert_bits_eq(b[i], i < length ? pl[first + i] : 77);
            }
            memcpy(a, yh + first, sizeof a);
            memcpy(b, yl + first, sizeof b);
            kernel(a, b, a, b, length);
            for (int64_t i = 0; i < length; i++) {
                t_assert_bits_eq(a[i], ph[first + i]);
                t_assert_bits_eq(b[i], pl[first + i]);
            }
        }
}

static void test_exp_kernels(void **state)
{
    (void)state;
    static double yh[N], yl[N], ph[N], pl[N];
    const int64_t n = arguments(yh, yl);
    for (int64_t i = 3; i < n; i += 97)
        yh[i] = -700 - (double)i; /* the floor within a vector */
    rt_dd_exp_plain(yh, yl, ph, pl, n);
    same_bits(rt_dd_exp_plain, yh, yl, ph, pl, n);
    same_bits(rt_dd_exp, yh, yl, ph, pl, n);
#if defined(RT_DD_AVX)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        same_bits(rt_dd_exp_avx2, yh, yl, ph, pl, n);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        same_bits(rt_dd_exp_avx512, yh, yl, ph, pl, n);
#endif
}

static void test_log(void **state)
{
    (void)state;
    uint64_t s = 3;
    mpfr_t x, l, scale;
    mpfr_inits2(BITS, x, l, scale, (mpfr_ptr)0);
    double worst = 0;
    for (int i = 0; i < N; i++) {
        rt_dd a = random_dd(&s, i % 3 == 0 ? 900 : 12);
        if (a.hi < 0)
            a = rt_dd_neg(a);
        if (i % 3 == 1) /* near 1, both sides */
            a = rt_quick_two_sum(1 + ldexp(unit(&s) - 0.5, -(int)(t_random(&s) % 60)),
                                 0x1p-54 * (unit(&s) - 0.5));
        set_dd(x, a);
        mpfr_log(l, x, MPFR_RNDN);
        /* the promise: relative to |ln x|, or to 2^-20 where that is larger */
        mpfr_abs(scale, l, MPFR_RNDN);
        if (mpfr_cmp_d(scale, 0x1p-20) < 0)
            mpfr_set_d(scale, 0x1p-20, MPFR_RNDN);
        const double err = error_of(rt_dd_log(a), l, scale);
        if (!(err <= 0x1p-70))
            print_error("log(%a + %a): relative error 2^%.1f\n", a.hi, a.lo, log2(err));
        worst = largest(err, worst);
    }
    mpfr_clears(x, l, scale, (mpfr_ptr)0);
    print_message("# log: relative error 2^%.2f\n", log2(worst));
    t_assert_le(worst, 0x1p-70);
    const rt_dd zero = rt_dd_log((rt_dd){1, 0});
    t_assert_bits_eq(fabs(zero.hi) + fabs(zero.lo), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_operations), cmocka_unit_test(test_exp),
                                       cmocka_unit_test(test_exp_kernels), cmocka_unit_test(test_log)};
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
