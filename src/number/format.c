/* format.c: names and constants of the formats, and conversion of one number, in integers only.
 *
 * A magnitude's bit pattern is also its rank among the magnitudes of its format.  So rounding is a
 * shift with a decision, ulp distance is a difference of patterns, and a neighbour is a pattern +- 1. */
#include <ringtrue/number.h>

#include "number/format.h"

static const rt_format formats[] = {
    [RT_F64] = RT_FORMAT_F64,   [RT_F32] = RT_FORMAT_F32,   [RT_BF16] = RT_FORMAT_BF16,
    [RT_F16] = RT_FORMAT_F16,   [RT_E4M3] = RT_FORMAT_E4M3, [RT_E5M2] = RT_FORMAT_E5M2,
    [RT_TF32] = RT_FORMAT_TF32,
};

static const char *const names[RT_DTYPE_COUNT] = {
    [RT_F64] = "f64",   [RT_F32] = "f32",   [RT_BF16] = "bf16", [RT_F16] = "f16",
    [RT_E4M3] = "e4m3", [RT_E5M2] = "e5m2", [RT_TF32] = "tf32", [RT_I32] = "i32",
    [RT_I64] = "i64",   [RT_BOOL] = "bool", [RT_U8] = "u8",     [RT_I8] = "i8",
};

static const size_t sizes[RT_DTYPE_COUNT] = {
    [RT_F64] = 8,  [RT_F32] = 4, [RT_BF16] = 2, [RT_F16] = 2,  [RT_E4M3] = 1, [RT_E5M2] = 1,
    [RT_TF32] = 0, [RT_I32] = 4, [RT_I64] = 8,  [RT_BOOL] = 1, [RT_U8] = 1,   [RT_I8] = 1,
};

static const struct {
    const char *name;
    rt_dtype dtype;
} aliases[] = {
    {"fp64", RT_F64}, {"float64", RT_F64}, {"fp32", RT_F32},      {"float32", RT_F32},
    {"fp16", RT_F16}, {"float16", RT_F16}, {"bfloat16", RT_BF16},
};

static bool dtype_known(rt_dtype t)
{
    return (unsigned)t < RT_DTYPE_COUNT;
}

const char *rt_dtype_name(rt_dtype t)
{
    return dtype_known(t) ? names[t] : "?";
}

bool rt_dtype_parse(const char *name, rt_dtype *out)
{
    if (name == NULL) {
        return false;
    }
    for (int t = 0; t < RT_DTYPE_COUNT; t++) {
        if (strcmp(name, names[t]) == 0) {
            *out = (rt_dtype)t;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (strcmp(name, aliases[i].name) == 0) {
            *out = aliases[i].dtype;
            return true;
        }
    }
    return false;
}

size_t rt_dtype_size(rt_dtype t)
{
    return dtype_known(t) ? sizes[t] : 0;
}

bool rt_dtype_is_float(rt_dtype t)
{
    return (unsigned)t <= RT_TF32;
}

const rt_format *rt_format_of(rt_dtype t)
{
    return rt_dtype_is_float(t) ? &formats[t] : NULL;
}

/* 2^e for e >= -1074; below that, the smallest subnormal. */
static double power_of_two(int32_t e)
{
    if (e >= RT_F64_EMIN) {
        return rt_f64_from_bits((uint64_t)(e + RT_F64_BIAS) << RT_F64_FRACTION);
    }
    int32_t place = e - (RT_F64_EMIN - RT_F64_FRACTION);
    return rt_f64_from_bits(UINT64_C(1) << (place < 0 ? 0 : place));
}

double rt_unit_roundoff(rt_dtype t)
{
    const rt_format *f = rt_format_of(t);
    return f != NULL ? power_of_two(-f->fraction - 1) : 0.0;
}

/* Half of binary64's smallest subnormal is no binary64: the next above, 2^-1074, stands for it. */
double rt_half_tiny(rt_dtype t)
{
    const rt_format *f = rt_format_of(t);
    return f != NULL ? power_of_two(f->emin - f->fraction - 1) : 0.0;
}

/* ---- integers: nearest with ties to even, clamped to the type's range, NaN as 0 ---------------- */

typedef struct {
    int64_t min, max;
} integer_range;

static integer_range range_of(rt_dtype t)
{
    if (t == RT_I32) {
        return (integer_range){INT32_MIN, INT32_MAX};
    }
    if (t == RT_U8 || t == RT_I8) {
        return t == RT_U8 ? (integer_range){0, UINT8_MAX} : (integer_range){INT8_MIN, INT8_MAX};
    }
    return t == RT_BOOL ? (integer_range){0, 1} : (integer_range){INT64_MIN, INT64_MAX};
}

/* floor(x) as an integer within the range, and whether x was above it: beyond the range the nearest
 * end.  x is not NaN. */
static int64_t integer_floor(integer_range r, double x, bool *above)
{
    const double two63 = 9223372036854775808.0;
    *above = false;
    int64_t i;
    if (x >= two63) {
        i = INT64_MAX;
    } else if (x < -two63) {
        i = INT64_MIN;
    } else {
        i = (int64_t)x; /* toward zero, in hardware and by definition */
        if ((double)i > x) {
            i--;
        }
        *above = x > (double)i;
    }
    if (i > r.max || i < r.min) {
        i = i > r.max ? r.max : r.min;
        *above = false;
    }
    return i;
}

static int64_t integer_nearest(rt_dtype t, double x)
{
    if ((rt_f64_bits(x) & RT_F64_MAGNITUDE) > RT_F64_INF) {
        return 0;
    }
    integer_range r = range_of(t);
    bool above;
    int64_t i = integer_floor(r, x, &above);
    if (above) {
        /* A fraction exists only where |x| < 2^52, and there the difference is exact. */
        double past = x - (double)i;
        if ((past > 0.5 || (!(past < 0.5) && (i & 1) != 0)) && i < r.max) {
            i++;
        }
    }
    return i;
}

static uint64_t integer_bits(rt_dtype t, int64_t i)
{
    return t == RT_I64                ? (uint64_t)i
           : t == RT_I32              ? (uint64_t)i & UINT32_MAX
           : t == RT_U8 || t == RT_I8 ? (uint64_t)i & UINT8_MAX
                                      : (uint64_t)i & 1;
}

static double integer_decode(rt_dtype t, uint64_t bits)
{
    if (t == RT_I64) {
        int64_t i;
        memcpy(&i, &bits, sizeof i);
        return (double)i;
    }
    if (t == RT_I32) {
        const uint32_t low = (uint32_t)bits;
        int32_t i;
        memcpy(&i, &low, sizeof i);
        return (double)i;
    }
    if (t == RT_U8 || t == RT_I8) {
        const uint8_t low = (uint8_t)bits;
        return t == RT_I8 && low > INT8_MAX ? (double)low - 256.0 : (double)low;
    }
    return (bits & 0xff) != 0 ? 1.0 : 0.0;
}

/* The largest integer of the type <= x, or (up) the smallest >= x. */
static double integer_directed(rt_dtype t, double x, bool up)
{
    integer_range r = range_of(t);
    const double inf = rt_f64_from_bits(RT_F64_INF);
    /* i64's own maximum is no binary64: every x up to 2^63 - 1024 has an i64 above it, 2^63 has none. */
    if (up && x > rt_max_finite(t)) {
        return inf;
    }
    if (!up && x < (double)r.min) {
        return -inf;
    }
    bool above;
    int64_t i = integer_floor(r, x, &above);
    return (double)(up && above ? i + 1 : i);
}

/* ---- the public conversions -------------------------------------------------------------------- */

double rt_max_finite(rt_dtype t)
{
    const rt_format *f = rt_format_of(t);
    if (f != NULL) {
        return rt_f64_from_bits(rt_format_decode(f, f->max << f->shift));
    }
    /* i64: the largest binary64 that is an i64. */
    return t == RT_I64 ? 9223372036854774784.0 : (double)range_of(t).max;
}

double rt_decode(rt_dtype t, uint64_t bits)
{
    const rt_format *f = rt_format_of(t);
    return f != NULL ? rt_f64_from_bits(rt_format_decode(f, bits)) : integer_decode(t, bits);
}

uint64_t rt_encode(rt_dtype t, double x)
{
    const rt_format *f = rt_format_of(t);
    return f != NULL ? rt_format_encode(f, rt_f64_bits(x)) : integer_bits(t, integer_nearest(t, x));
}

double rt_round_to(rt_dtype t, double x)
{
    return t == RT_F64 ? x : rt_decode(t, rt_encode(t, x));
}

double rt_ulp(rt_dtype t, double x)
{
    const rt_format *f = rt_format_of(t);
    if (f == NULL) {
        return 1.0;
    }
    uint64_t m = rt_f64_bits(x) & RT_F64_MAGNITUDE;
    int32_t e = (int32_t)(m >> RT_F64_FRACTION) - RT_F64_BIAS; /* of a subnormal: below every emin */
    return power_of_two((e < f->emin ? f->emin : e) - f->fraction);
}

/* Rank of a value among those of its format: ..., -1, 0 (both zeros), 1, ... */
static int64_t rank_of(const rt_format *f, uint64_t element)
{
    uint64_t b = element >> f->shift;
    int64_t magnitude = (int64_t)(b & (f->sign - 1));
    return (b & f->sign) != 0 ? -magnitude : magnitude;
}

int64_t rt_ulp_distance(rt_dtype t, double a, double b)
{
    const rt_format *f = rt_format_of(t);
    int64_t i, j, gap;
    if (f != NULL) {
        uint64_t x = rt_encode(t, a), y = rt_encode(t, b);
        const uint64_t nan = f->nan << f->shift;
        if (x == nan || y == nan) {
            return x == y ? 0 : INT64_MAX;
        }
        i = rank_of(f, x);
        j = rank_of(f, y);
    } else {
        i = integer_nearest(t, a);
        j = integer_nearest(t, b);
    }
    if (__builtin_sub_overflow(i, j, &gap) || gap == INT64_MIN) {
        return INT64_MAX;
    }
    return gap < 0 ? -gap : gap;
}

static double round_directed(rt_dtype t, double x, bool up)
{
    const uint64_t u = rt_f64_bits(x), m = u & RT_F64_MAGNITUDE;
    if (m > RT_F64_INF) {
        return rt_f64_from_bits(RT_F64_NAN);
    }
    if (t == RT_F64) {
        return x;
    }
    const rt_format *f = rt_format_of(t);
    if (f == NULL) {
        return integer_directed(t, x, up);
    }
    const bool negative = m != u;
    const bool outward = negative != up;
    if (m == RT_F64_INF && (f->infinity || outward)) {
        return x;
    }
    const uint64_t sign = u ^ m;
    uint64_t r = m == RT_F64_INF ? f->max : rt_format_magnitude(f, m, outward ? RT_FROM_ZERO : RT_TO_ZERO);
    if (r > f->max) {
        if (outward) {
            return rt_f64_from_bits(RT_F64_INF | sign);
        }
        r = f->max;
    }
    return rt_f64_from_bits(rt_format_decode(f, r << f->shift) | sign);
}

double rt_round_down(rt_dtype t, double x)
{
    return round_directed(t, x, false);
}

double rt_round_up(rt_dtype t, double x)
{
    return round_directed(t, x, true);
}
