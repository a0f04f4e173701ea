/* test_number.c: number formats against an independent reference.
 *
 * The reference knows a format as a sorted list of values built with ldexp, and rounds by looking for the
 * neighbours in it; where the format has too many values for a list (f32, tf32), by scaling and rint or by
 * the processor's own conversion. */
#include <fenv.h>
#include <float.h>
#include <math.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <ringtrue/number.h>

#include "check.h"

/* ---- the reference ----------------------------------------------------------------------------- */

typedef struct {
    rt_dtype t;
    int bits, exponent_bits, fraction_bits, bias;
    int64_t count;         /* finite magnitudes, 0 included */
    double value[1 << 15]; /* ascending; the index is the magnitude's pattern */
} list;

static list bf16 = {.t = RT_BF16, .bits = 16, .exponent_bits = 8, .fraction_bits = 7, .bias = 127};
static list f16 = {.t = RT_F16, .bits = 16, .exponent_bits = 5, .fraction_bits = 10, .bias = 15};
static list e4m3 = {.t = RT_E4M3, .bits = 8, .exponent_bits = 4, .fraction_bits = 3, .bias = 7};
static list e5m2 = {.t = RT_E5M2, .bits = 8, .exponent_bits = 5, .fraction_bits = 2, .bias = 15};
static list *const lists[] = {&bf16, &f16, &e4m3, &e5m2};
enum { LISTS = 4 };

static double pattern_value(const list *l, uint64_t pattern)
{
    int field = (int)(pattern >> l->fraction_bits);
    double fraction = (double)(pattern & ((UINT64_C(1) << l->fraction_bits) - 1));
    if (field == 0) {
        return ldexp(fraction, 1 - l->bias - l->fraction_bits);
    }
    return ldexp(fraction + ldexp(1.0, l->fraction_bits), field - l->bias - l->fraction_bits);
}

static int build_lists(void **state)
{
    (void)state;
    for (int i = 0; i < LISTS; i++) {
        list *l = lists[i];
        l->count = l->t == RT_E4M3 ? 0x7f : ((INT64_C(1) << l->exponent_bits) - 1) << l->fraction_bits;
        for (int64_t p = 0; p < l->count; p++) {
            l->value[p] = pattern_value(l, (uint64_t)p);
        }
    }
    return 0;
}

/* Index of the largest listed value <= x, x finite and >= 0. */
static int64_t below(const list *l, double x)
{
    int64_t lo = 0, hi = l->count;
    while (hi - lo > 1) {
        int64_t mid = (lo + hi) / 2;
        if (l->value[mid] <= x) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static uint64_t reference_encode(const list *l, double x)
{
    const uint64_t sign = UINT64_C(1) << (l->bits - 1);
    const uint64_t nan = l->t == RT_BF16 ? 0x7fc0 : l->t == RT_F16 ? 0x7e00 : l->t == RT_E4M3 ? 0x7f : 0x7e;
    if (isnan(x)) {
        return nan;
    }
    double a = fabs(x);
    int64_t i = isinf(a) ? l->count - 1 : below(l, a);
    /* The value after the last finite one, as if the format went on: where overflow starts. */
    double next = i + 1 < l->count ? l->value[i + 1] : pattern_value(l, (uint64_t)(i + 1));
    double middle = l->value[i] / 2 + next / 2;
    uint64_t r = (uint64_t)i;
    if (a > middle || (!(a < middle) && (i & 1) != 0)) {
        r++;
    }
    if (r >= (uint64_t)l->count && l->t == RT_E4M3) {
        return nan;
    }
    return r | (signbit(x) ? sign : 0);
}

static uint64_t random_state = UINT64_C(0x9e3779b97f4a7c15);
static uint64_t random_bits(void)
{
    uint64_t x = random_state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    random_state = x;
    return x;
}

/* A double whose exponent lies a little beyond the format's range at both ends. */
static double random_near(const list *l)
{
    int span = (1 << l->exponent_bits) + 2 * l->fraction_bits + 8;
    int e = (int)(random_bits() % (uint64_t)span) - l->bias - l->fraction_bits - 4;
    double m = 1.0 + (double)(random_bits() >> 12) * 0x1p-52;
    return ldexp((random_bits() & 1) != 0 ? m : -m, e);
}

/* ---- names and constants ----------------------------------------------------------------------- */

static void dtype_names_sizes_and_constants(void **state)
{
    (void)state;
    const struct {
        rt_dtype t;
        const char *name;
        size_t size;
        double roundoff, half_tiny, max;
        bool is_float;
    } want[] = {
        {RT_F64, "f64", 8, 0x1p-53, 0x1p-1074, DBL_MAX, true},
        {RT_F32, "f32", 4, 0x1p-24, 0x1p-150, (double)FLT_MAX, true},
        {RT_BF16, "bf16", 2, 0x1p-8, 0x1p-134, 0x1.fep127, true},
        {RT_F16, "f16", 2, 0x1p-11, 0x1p-25, 65504.0, true},
        {RT_E4M3, "e4m3", 1, 0x1p-4, 0x1p-10, 448.0, true},
        {RT_E5M2, "e5m2", 1, 0x1p-3, 0x1p-17, 57344.0, true},
        {RT_TF32, "tf32", 0, 0x1p-11, 0x1p-137, 0x1.ffcp127, true},
        {RT_I32, "i32", 4, 0.0, 0.0, 2147483647.0, false},
        {RT_I64, "i64", 8, 0.0, 0.0, 0x1.fffffffffffffp62, false},
        {RT_BOOL, "bool", 1, 0.0, 0.0, 1.0, false},
        {RT_U8, "u8", 1, 0.0, 0.0, 255.0, false},
        {RT_I8, "i8", 1, 0.0, 0.0, 127.0, false},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        rt_dtype t = RT_DTYPE_COUNT;
        assert_string_equal(rt_dtype_name(want[i].t), want[i].name);
        assert_true(rt_dtype_parse(want[i].name, &t));
        assert_int_equal(t, want[i].t);
        assert_int_equal(rt_dtype_size(t), want[i].size);
        assert_int_equal(rt_dtype_is_float(t), want[i].is_float);
        t_assert_bits_eq(rt_unit_roundoff(t), want[i].roundoff);
        t_assert_bits_eq(rt_half_tiny(t), want[i].half_tiny);
        t_assert_bits_eq(rt_max_finite(t), want[i].max);
    }
    rt_dtype t = RT_I64;
    assert_true(rt_dtype_parse("float16", &t) && t == RT_F16);
    assert_true(rt_dtype_parse("fp16", &t) && t == RT_F16);
    assert_true(rt_dtype_parse("fp32", &t) && t == RT_F32);
    assert_true(rt_dtype_parse("float32", &t) && t == RT_F32);
    assert_true(rt_dtype_parse("fp64", &t) && t == RT_F64);
    assert_true(rt_dtype_parse("float64", &t) && t == RT_F64);
    assert_true(rt_dtype_parse("bfloat16", &t) && t == RT_BF16);
    const char *const unknown[] = {"", "F32", "f8", "bf16 ", "int32", NULL};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_false(rt_dtype_parse(unknown[i], &t));
        assert_int_equal(t, RT_BF16);
    }
    assert_int_equal(rt_dtype_size(RT_DTYPE_COUNT), 0);
    assert_false(rt_dtype_is_float(RT_DTYPE_COUNT));
    assert_string_equal(rt_dtype_name((rt_dtype)99), "?");
}

/* ---- one number -------------------------------------------------------------------------------- */

static void decode_every_small_pattern_is_its_value_and_returns(void **state)
{
    (void)state;
    for (int i = 0; i < LISTS; i++) {
        const list *l = lists[i];
        const uint64_t half = UINT64_C(1) << (l->bits - 1);
        for (uint64_t p = 0; p < 2 * half; p++) {
            const uint64_t magnitude = p % half;
            double x = rt_decode(l->t, p);
            double want;
            if (magnitude < (uint64_t)l->count) {
                want = l->value[magnitude];
            } else {
                want = magnitude == (uint64_t)l->count && l->t != RT_E4M3 ? T_INF : T_NAN;
            }
            t_assert_bits_eq(x, p < half ? want : -want);
            if (isnan(x)) {
                assert_true(t_bits(x) == UINT64_C(0x7ff8000000000000)); /* canonical */
                assert_true(rt_encode(l->t, x) == reference_encode(l, x));
            } else if (!isinf(x) || l->t != RT_E4M3) {
                assert_true(rt_encode(l->t, x) == p);
                t_assert_bits_eq(rt_round_to(l->t, x), x);
            }
        }
        /* High bytes of the argument are not the element's. */
        t_assert_bits_eq(rt_decode(l->t, (UINT64_C(0xab) << l->bits) | 0x11), l->value[0x11]);
    }
}

static void check_encode(const list *l, double x)
{
    uint64_t got = rt_encode(l->t, x), want = reference_encode(l, x);
    if (got != want) {
        print_error("%s of %a: got %#" PRIx64 ", want %#" PRIx64 "\n", rt_dtype_name(l->t), x, got, want);
        fail();
    }
}

static void encode_small_formats_round_to_nearest_even(void **state)
{
    (void)state;
    for (int i = 0; i < LISTS; i++) {
        const list *l = lists[i];
        /* Every midpoint, and the doubles on either side of it; the last one is where overflow starts. */
        for (int64_t p = 0; p < l->count; p++) {
            double next = p + 1 < l->count ? l->value[p + 1] : pattern_value(l, (uint64_t)(p + 1));
            double middle = l->value[p] / 2 + next / 2;
            const double near[] = {middle, nextafter(middle, 0), nextafter(middle, T_INF),
                                   nextafter(next, 0), nextafter(l->value[p], T_INF)};
            for (size_t k = 0; k < sizeof near / sizeof near[0]; k++) {
                check_encode(l, near[k]);
                check_encode(l, -near[k]);
            }
        }
        for (int k = 0; k < 50000; k++) {
            check_encode(l, random_near(l));
        }
        const double special[] = {0.0,     -0.0,      T_NAN,      -T_NAN,
                                  T_INF,   -T_INF,    DBL_MAX,    -DBL_MAX,
                                  DBL_MIN, 0x1p-1074, -0x1p-1074, 0x1.fffffffffffffp-1023};
        for (size_t k = 0; k < sizeof special / sizeof special[0]; k++) {
            check_encode(l, special[k]);
        }
    }
    /* Signalling NaNs with payloads too. */
    assert_true(rt_encode(RT_BF16, t_from_bits(UINT64_C(0xfff4000000000001))) == 0x7fc0);
    assert_true(rt_encode(RT_F64, t_from_bits(UINT64_C(0xfff4000000000001))) ==
                UINT64_C(0x7ff8000000000000));
    assert_true(rt_encode(RT_F32, t_from_bits(UINT64_C(0x7ff0000000000001))) == UINT64_C(0x7fc00000));
}

static void overflow_follows_the_format(void **state)
{
    (void)state;
    t_assert_bits_eq(rt_round_to(RT_E4M3, 464.0), 448.0); /* tie, to the even neighbour */
    t_assert_bits_eq(rt_round_to(RT_E4M3, nextafter(464.0, 500.0)), T_NAN);
    t_assert_bits_eq(rt_round_to(RT_E4M3, -1e9), T_NAN);
    t_assert_bits_eq(rt_round_to(RT_E4M3, T_INF), T_NAN);
    t_assert_bits_eq(rt_round_to(RT_E5M2, 61440.0), T_INF); /* tie, to the even neighbour */
    t_assert_bits_eq(rt_round_to(RT_E5M2, nextafter(61440.0, 0)), 57344.0);
    t_assert_bits_eq(rt_round_to(RT_F16, 65520.0), T_INF);
    t_assert_bits_eq(rt_round_to(RT_F16, -nextafter(65520.0, 0)), -65504.0);
    t_assert_bits_eq(rt_round_to(RT_BF16, -0x1.ffp127), -T_INF);
    t_assert_bits_eq(rt_round_to(RT_F32, 0x1.ffffffp127), T_INF);
    t_assert_bits_eq(rt_round_to(RT_TF32, 0x1.ffep127), T_INF);
    t_assert_bits_eq(rt_round_to(RT_F64, DBL_MAX), DBL_MAX);
}

static void f32_agrees_with_the_processor(void **state)
{
    (void)state;
    for (int k = 0; k < 200000; k++) {
        int e = (int)(random_bits() % 310) - 160;
        double x = ldexp(1.0 + (double)(random_bits() >> 12) * 0x1p-52, e);
        float f = (float)x;
        double next = (double)nextafterf(f, INFINITY);
        const double near[] = {x, -x, (double)f / 2 + next / 2, nextafter((double)f / 2 + next / 2, 0)};
        for (int i = 0; i < 4; i++) {
            float want = (float)near[i];
            uint32_t bits;
            memcpy(&bits, &want, sizeof bits);
            assert_true(rt_encode(RT_F32, near[i]) == bits);
            t_assert_bits_eq(rt_decode(RT_F32, bits), (double)want);
        }
    }
}

static void tf32_agrees_with_scaling(void **state)
{
    (void)state;
    for (int k = 0; k < 100000; k++) {
        int e = (int)(random_bits() % 290) - 145;
        double x = ldexp(1.0 + (double)(random_bits() >> 12) * 0x1p-52, e);
        if ((k & 1) != 0) {
            x = ldexp(floor(ldexp(x, 11 - e)) + 0.5 * (k & 2), e - 11); /* on or near a tie */
        }
        double unit = ldexp(1.0, (e < -126 ? -126 : e) - 10);
        double want = rint(x / unit) * unit;
        if (want > rt_max_finite(RT_TF32)) {
            want = T_INF;
        }
        t_assert_bits_eq(rt_round_to(RT_TF32, x), want);
        t_assert_bits_eq(rt_round_to(RT_TF32, -x), -want);
        /* It is an f32 whose low 13 bits are zero. */
        assert_true(rt_encode(RT_TF32, x) == rt_encode(RT_F32, want));
        t_assert_bits_eq(rt_decode(RT_TF32, rt_encode(RT_TF32, x)), want);
    }
}

static void integers_clamp_and_round_to_even(void **state)
{
    (void)state;
    t_assert_bits_eq(rt_round_to(RT_I32, 2.5), 2.0);
    t_assert_bits_eq(rt_round_to(RT_I32, 3.5), 4.0);
    t_assert_bits_eq(rt_round_to(RT_I32, -2.5), -2.0);
    t_assert_bits_eq(rt_round_to(RT_I32, -2.6), -3.0);
    t_assert_bits_eq(rt_round_to(RT_I32, 0.49999999999999994), 0.0);
    t_assert_bits_eq(rt_round_to(RT_I32, 1e10), 2147483647.0);
    t_assert_bits_eq(rt_round_to(RT_I32, 2147483647.5), 2147483647.0);
    t_assert_bits_eq(rt_round_to(RT_I32, -1e10), -2147483648.0);
    t_assert_bits_eq(rt_round_to(RT_I32, T_NAN), 0.0);
    assert_true(rt_encode(RT_I32, -1.0) == 0xffffffff);
    assert_true(rt_encode(RT_I64, -1.0) == UINT64_MAX);
    assert_true(rt_encode(RT_I64, T_INF) == INT64_MAX);
    assert_true(rt_encode(RT_I64, -T_INF) == UINT64_C(1) << 63);
    t_assert_bits_eq(rt_decode(RT_I32, 0x80000000), -2147483648.0);
    t_assert_bits_eq(rt_decode(RT_I64, UINT64_MAX), -1.0);
    t_assert_bits_eq(rt_decode(RT_BOOL, 0), 0.0);
    t_assert_bits_eq(rt_decode(RT_BOOL, 1), 1.0);
    assert_true(rt_encode(RT_BOOL, 0.4) == 0 && rt_encode(RT_BOOL, 7.0) == 1 &&
                rt_encode(RT_BOOL, -3.0) == 0);
    t_assert_bits_eq(rt_decode(RT_U8, 255), 255.0);
    t_assert_bits_eq(rt_decode(RT_I8, 255), -1.0);
    t_assert_bits_eq(rt_decode(RT_I8, 0x80), -128.0);
    assert_true(rt_encode(RT_U8, -1.0) == 0 && rt_encode(RT_U8, 300.0) == 255 &&
                rt_encode(RT_I8, -2.5) == 0xfe && rt_encode(RT_I8, 128.0) == 0x7f);
    t_assert_bits_eq(rt_round_down(RT_I32, -0.5), -1.0);
    t_assert_bits_eq(rt_round_up(RT_I32, 0.5), 1.0);
    t_assert_bits_eq(rt_round_up(RT_I32, 2147483647.5), T_INF);
    t_assert_bits_eq(rt_round_down(RT_I32, 1e10), 2147483647.0);
    t_assert_bits_eq(rt_round_down(RT_I32, -1e10), -T_INF);
    t_assert_bits_eq(rt_round_up(RT_I64, 0x1p63), T_INF);
    assert_int_equal(rt_ulp_distance(RT_I32, -3.0, 4.0), 7);
    t_assert_bits_eq(rt_ulp(RT_I64, 5.0), 1.0);
}

/* ---- ulps and neighbours ----------------------------------------------------------------------- */

static void ulp_is_the_gap_to_the_next_value(void **state)
{
    (void)state;
    for (int i = 0; i < LISTS; i++) {
        const list *l = lists[i];
        for (int64_t p = 0; p + 1 < l->count; p++) {
            double gap = l->value[p + 1] - l->value[p];
            t_assert_bits_eq(rt_ulp(l->t, l->value[p]), gap);
            t_assert_bits_eq(rt_ulp(l->t, -nextafter(l->value[p + 1], 0)), gap);
        }
        t_assert_bits_eq(rt_ulp(l->t, 0.0), l->value[1]);
        t_assert_bits_eq(rt_ulp(l->t, 0x1p-1074), l->value[1]);
    }
    for (int k = 0; k < 20000; k++) {
        double x = t_from_bits(random_bits() & UINT64_C(0x7fffffffffffffff));
        if (x < DBL_MAX) {
            t_assert_bits_eq(rt_ulp(RT_F64, -x), nextafter(x, T_INF) - x);
        }
        float f =
            (float)ldexp(1.0 + (double)(random_bits() >> 12) * 0x1p-52, (int)(random_bits() % 270) - 145);
        t_assert_bits_eq(rt_ulp(RT_F32, (double)f), (double)nextafterf(f, INFINITY) - (double)f);
    }
    t_assert_bits_eq(rt_ulp(RT_TF32, 1.0), 0x1p-10);
    t_assert_bits_eq(rt_ulp(RT_TF32, 0x1p-130), 0x1p-136);
    t_assert_bits_eq(rt_ulp(RT_F64, 0.0), 0x1p-1074);
}

static void ulp_distance_counts_steps(void **state)
{
    (void)state;
    for (int i = 0; i < LISTS; i++) {
        const list *l = lists[i];
        for (int k = 0; k < 20000; k++) {
            int64_t a = (int64_t)(random_bits() % (uint64_t)l->count);
            int64_t b = (int64_t)(random_bits() % (uint64_t)l->count);
            assert_int_equal(rt_ulp_distance(l->t, l->value[a], l->value[b]), a > b ? a - b : b - a);
            assert_int_equal(rt_ulp_distance(l->t, -l->value[a], l->value[b]), a + b);
            assert_int_equal(rt_ulp_distance(l->t, l->value[a], -l->value[b]), a + b);
        }
        assert_int_equal(rt_ulp_distance(l->t, 0.0, -0.0), 0);
    }
    assert_int_equal(rt_ulp_distance(RT_F64, 1.0, 1.0 + 5 * DBL_EPSILON), 5);
    assert_int_equal(rt_ulp_distance(RT_F64, -0x1p-1074, 0x1p-1074), 2);
    assert_int_equal(rt_ulp_distance(RT_F64, -DBL_MAX, DBL_MAX), INT64_MAX);
    assert_int_equal(rt_ulp_distance(RT_F64, -1.0, 1.0), 2 * INT64_C(0x3ff0000000000000));
    assert_int_equal(rt_ulp_distance(RT_F64, -2.0, 2.0), INT64_MAX); /* 2^63: one more than fits */
    assert_int_equal(rt_ulp_distance(RT_F32, -1.0, 1.0), 2 * INT64_C(0x3f800000));
    assert_int_equal(rt_ulp_distance(RT_TF32, 1.0, 2.0), 1024);
    assert_int_equal(rt_ulp_distance(RT_TF32, -0x1p-136, 0x1p-136), 2);
    assert_int_equal(rt_ulp_distance(RT_BF16, T_NAN, 1.0), INT64_MAX);
}

static void directed_rounding_finds_the_neighbours(void **state)
{
    (void)state;
    for (int i = 0; i < LISTS; i++) {
        const list *l = lists[i];
        const double top = l->value[l->count - 1];
        for (int k = 0; k < 50000; k++) {
            double x = k % 3 != 0 ? random_near(l) : l->value[random_bits() % (uint64_t)l->count];
            double a = fabs(x);
            int64_t p = below(l, a);
            double inner = l->value[p];
            double outer = !(inner < a) ? inner : p + 1 < l->count ? l->value[p + 1] : T_INF;
            t_assert_bits_eq(rt_round_down(l->t, a), inner);
            t_assert_bits_eq(rt_round_up(l->t, a), outer);
            t_assert_bits_eq(rt_round_up(l->t, -a), -inner);
            t_assert_bits_eq(rt_round_down(l->t, -a), -outer);
        }
        t_assert_bits_eq(rt_round_down(l->t, DBL_MAX), top);
        t_assert_bits_eq(rt_round_up(l->t, DBL_MAX), T_INF);
        t_assert_bits_eq(rt_round_up(l->t, -DBL_MAX), -top);
        t_assert_bits_eq(rt_round_down(l->t, T_INF), l->t == RT_E4M3 ? top : T_INF);
        t_assert_bits_eq(rt_round_up(l->t, T_INF), T_INF);
        t_assert_bits_eq(rt_round_down(l->t, -T_INF), -T_INF);
        t_assert_bits_eq(rt_round_down(l->t, 0x1p-1074), 0.0);
        t_assert_bits_eq(rt_round_up(l->t, 0x1p-1074), l->value[1]);
        t_assert_bits_eq(rt_round_up(l->t, -0x1p-1074), -0.0);
        t_assert_bits_eq(rt_round_down(l->t, -0.0), -0.0);
        t_assert_bits_eq(rt_round_up(l->t, T_NAN), T_NAN);
    }
    t_assert_bits_eq(rt_round_down(RT_F64, 0.1), 0.1);
    t_assert_bits_eq(rt_round_down(RT_F32, 0.1), (double)nextafterf(0.1F, 0.0F));
    t_assert_bits_eq(rt_round_up(RT_F32, 0.1), (double)0.1F);
    t_assert_bits_eq(rt_round_up(RT_TF32, 1.0 + 0x1p-30), 1.0 + 0x1p-10);
    t_assert_bits_eq(rt_round_down(RT_TF32, -1.0 - 0x1p-30), -1.0 - 0x1p-10);
}

/* ---- arrays ------------------------------------------------------------------------------------ */

static void load_is_decode_for_every_pattern_at_any_address(void **state)
{
    (void)state;
    static unsigned char bytes[2 * 65536 + 1];
    static double got[65536];
    for (int i = 0; i < LISTS; i++) {
        const list *l = lists[i];
        const int64_t n = INT64_C(1) << l->bits;
        for (int64_t p = 0; p < n; p++) {
            uint16_t u = (uint16_t)p;
            memcpy(bytes + 1 + p * (l->bits / 8), &u, (size_t)l->bits / 8);
        }
        rt_load(l->t, bytes + 1, n, got);
        for (int64_t p = 0; p < n; p++) {
            double want = rt_decode(l->t, (uint64_t)p);
            assert_true(t_bits(got[p]) == t_bits(want));
        }
        /* And back: the same bytes, except that NaNs became the canonical one. */
        static unsigned char back[2 * 65536 + 1];
        rt_store(l->t, got, n, back + 1);
        for (int64_t p = 0; p < n; p++) {
            uint64_t u = 0;
            memcpy(&u, back + 1 + p * (l->bits / 8), (size_t)l->bits / 8);
            assert_true(u == (isnan(got[p]) ? rt_encode(l->t, T_NAN) : (uint64_t)p));
        }
    }
}

static void load_and_store_agree_with_one_element_conversions(void **state)
{
    (void)state;
    enum { N = 4099 };
    static const rt_dtype all[] = {RT_F64, RT_F32, RT_BF16, RT_F16, RT_E4M3, RT_E5M2,
                                   RT_I32, RT_I64, RT_BOOL, RT_U8,  RT_I8};
    static double x[N], y[N];
    static unsigned char bytes[8 * N + 4];
    const double special[] = {0.0,        -0.0,  T_NAN,  -T_NAN,  T_INF,   -T_INF, 0x1p-1074,
                              -0x1p-1074, 1e-40, -1e-45, 65520.0, 65519.0, 3e38,   3.5e38};
    for (int k = 0; k < N; k++) {
        x[k] = k < 14 ? special[k] : t_from_bits(random_bits());
        if (k >= N / 2) {
            x[k] = random_near(lists[k % LISTS]);
        }
    }
    x[20] = t_from_bits(UINT64_C(0x7ff0000000000123)); /* a NaN that only its low bits show */
    x[21] = t_from_bits(UINT64_C(0xfffabcdef0123456));
    for (size_t a = 0; a < sizeof all / sizeof all[0]; a++) {
        const size_t size = rt_dtype_size(all[a]);
        memset(bytes, 0xa5, sizeof bytes);
        rt_store(all[a], x, N, bytes + 1);
        assert_int_equal(bytes[0], 0xa5);
        assert_int_equal(bytes[1 + size * N], 0xa5);
        rt_load(all[a], bytes + 1, N, y);
        for (int k = 0; k < N; k++) {
            uint64_t u = 0;
            memcpy(&u, bytes + 1 + (size_t)k * size, size);
            assert_true(u == rt_encode(all[a], x[k]));
            assert_true(t_bits(y[k]) == t_bits(rt_decode(all[a], u)));
        }
    }
    /* f32 and f64 patterns as they come, NaN payloads included. */
    for (size_t k = 0; k < sizeof bytes; k++) {
        bytes[k] = (unsigned char)(random_bits() >> 32);
    }
    const uint32_t nan_f32 = 0xff800001;
    memcpy(bytes + 3, &nan_f32, sizeof nan_f32);
    for (int a = 0; a < 2; a++) {
        const size_t size = rt_dtype_size(all[a]);
        rt_load(all[a], bytes + 3, N, y);
        for (int k = 0; k < N; k++) {
            uint64_t u = 0;
            memcpy(&u, bytes + 3 + (size_t)k * size, size);
            assert_true(t_bits(y[k]) == t_bits(rt_decode(all[a], u)));
        }
    }
    /* n = 0 touches nothing; tf32 is never stored. */
    y[0] = 7.0;
    rt_load(RT_BF16, bytes, 0, y);
    t_assert_bits_eq(y[0], 7.0);
    bytes[0] = 0x11;
    rt_store(RT_TF32, x, 1, bytes);
    assert_int_equal(bytes[0], 0x11);
    rt_load(RT_TF32, bytes, 1, y);
    t_assert_bits_eq(y[0], T_NAN);
}

/* ---- random words, environment ------------------------------------------------------------------ */

static void philox_gives_the_published_answers(void **state)
{
    (void)state;
    const struct {
        uint32_t key[2], counter[4], want[4];
    } known[] = {
        {{0, 0}, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0xa4093822, 0x299f31d0},
         {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t got[4];
        rt_philox(known[i].key, known[i].counter, got);
        for (int w = 0; w < 4; w++) {
            assert_true(got[w] == known[i].want[w]);
        }
    }
}

static void environment_is_checked(void **state)
{
    (void)state;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_float_environment_check(&ctx));
    const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (int i = 0; i < 3; i++) {
        ctx.message[0] = '\0';
        assert_int_equal(fesetround(modes[i]), 0);
        rt_status got = rt_float_environment_check(&ctx);
        (void)fesetround(FE_TONEAREST);
        t_assert_status(&ctx, got, RT_ERR_SYSTEM);
        assert_non_null(strstr(ctx.message, "nearest"));
    }
#if defined(__SSE2__)
    const unsigned saved = _mm_getcsr();
    const struct {
        unsigned bits;
        const char *text;
    } changes[] = {
        {0x8000, "FTZ"}, {0x0040, "DAZ"}, {0x2000, "nearest"}, {0x4000, "nearest"}, {0x6000, "nearest"}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        ctx.message[0] = '\0';
        _mm_setcsr(saved | changes[i].bits);
        rt_status got = rt_float_environment_check(&ctx);
        _mm_setcsr(saved);
        t_assert_status(&ctx, got, RT_ERR_SYSTEM);
        assert_non_null(strstr(ctx.message, changes[i].text));
    }
#endif
    t_assert_ok(&ctx, rt_float_environment_check(&ctx));
}

/* Conversions are integers: they give the same bits in any rounding mode. */
static void encoding_ignores_the_rounding_mode(void **state)
{
    (void)state;
    const double x[] = {0.1, -0.1, 1.0 + 0x1p-9, 3.3e-39, 1e-7};
    uint64_t want[5][RT_DTYPE_COUNT];
    for (int i = 0; i < 5; i++) {
        for (int t = 0; t <= RT_TF32; t++) {
            want[i][t] = rt_encode((rt_dtype)t, x[i]);
        }
    }
    int wrong = 0;
    (void)fesetround(FE_UPWARD);
    for (int i = 0; i < 5; i++) {
        for (int t = 0; t <= RT_TF32; t++) {
            unsigned char stored[8] = {0};
            uint64_t u;
            rt_store((rt_dtype)t, &x[i], 1, stored);
            memcpy(&u, stored, sizeof u);
            wrong += rt_encode((rt_dtype)t, x[i]) != want[i][t] || (t != RT_TF32 && u != want[i][t]);
        }
    }
    (void)fesetround(FE_TONEAREST);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtype_names_sizes_and_constants),
        cmocka_unit_test(decode_every_small_pattern_is_its_value_and_returns),
        cmocka_unit_test(encode_small_formats_round_to_nearest_even),
        cmocka_unit_test(overflow_follows_the_format),
        cmocka_unit_test(f32_agrees_with_the_processor),
        cmocka_unit_test(tf32_agrees_with_scaling),
        cmocka_unit_test(integers_clamp_and_round_to_even),
        cmocka_unit_test(ulp_is_the_gap_to_the_next_value),
        cmocka_unit_test(ulp_distance_counts_steps),
        cmocka_unit_test(directed_rounding_finds_the_neighbours),
        cmocka_unit_test(load_is_decode_for_every_pattern_at_any_address),
        cmocka_unit_test(load_and_store_agree_with_one_element_conversions),
        cmocka_unit_test(philox_gives_the_published_answers),
        cmocka_unit_test(environment_is_checked),
        cmocka_unit_test(encoding_ignores_the_rounding_mode),
    };
    return cmocka_run_group_tests(tests, build_lists, NULL);
}
