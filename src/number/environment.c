/* environment.c: is binary floating-point arithmetic what the promises of bits assume?
 *
 * Each property is tried, on values that the compiler cannot see through, rather than read from a control
 * word: x86 has one word for the old unit (that is what fegetround reads, through libm) and one for SSE,
 * which does the arithmetic and which other libraries set. */
#include <ringtrue/number.h>

#include <float.h>

#include "number/format.h"

_Static_assert(FLT_EVAL_METHOD == 0, "every operation must round to the format of its type");
_Static_assert(FLT_RADIX == 2 && DBL_MANT_DIG == 53 && FLT_MANT_DIG == 24, "binary64 and binary32");

static uint32_t f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* 1 + 3/4 ulp goes up only to nearest or upward, 1 + 1/4 ulp stays except upward; and mirrored. */
static bool rounds_to_nearest(void)
{
    volatile double one = 1.0, quarter = 0x1p-54, three_quarters = 0x3p-54;
    volatile float one_f = 1.0F, quarter_f = 0x1p-25F, three_quarters_f = 0x3p-25F;
    return rt_f64_bits(one + three_quarters) == rt_f64_bits(1.0 + DBL_EPSILON) &&
           rt_f64_bits(one + quarter) == rt_f64_bits(1.0) &&
           rt_f64_bits(-one - three_quarters) == rt_f64_bits(-1.0 - DBL_EPSILON) &&
           rt_f64_bits(-one - quarter) == rt_f64_bits(-1.0) &&
           f32_bits(one_f + three_quarters_f) == f32_bits(1.0F + FLT_EPSILON) &&
           f32_bits(one_f + quarter_f) == f32_bits(1.0F) &&
           f32_bits(-one_f - three_quarters_f) == f32_bits(-1.0F - FLT_EPSILON) &&
           f32_bits(-one_f - quarter_f) == f32_bits(-1.0F);
}

/* The smallest normal number halved has a subnormal result. */
static bool keeps_subnormal_results(void)
{
    volatile double tiny = DBL_MIN, half = 0.5;
    volatile float tiny_f = FLT_MIN, half_f = 0.5F;
    return rt_f64_bits(tiny * half) == UINT64_C(0x0008000000000000) &&
           f32_bits(tiny_f * half_f) == UINT32_C(0x00400000);
}

/* The smallest subnormal, scaled up to a normal number. */
static bool reads_subnormal_operands(void)
{
    volatile double least = rt_f64_from_bits(1), up = 0x1p74;
    volatile float least_f = f32_from_bits(1), up_f = 0x1p49F;
    return rt_f64_bits(least * up) == rt_f64_bits(0x1p-1000) &&
           f32_bits(least_f * up_f) == f32_bits(0x1p-100F);
}

rt_status rt_float_environment_check(rt_context *ctx)
{
    if (!rounds_to_nearest()) {
        return rt_fail(ctx, RT_ERR_SYSTEM,
                       "floating-point rounding mode: not to nearest, which every result here assumes. "
                       "Hint: look for a library or a loader setting that changes it");
    }
    if (!reads_subnormal_operands()) {
        return rt_fail(ctx, RT_ERR_SYSTEM,
                       "floating-point environment: subnormal operands are read as zero (DAZ). "
                       "Hint: a library linked with -ffast-math sets this at start");
    }
    if (!keeps_subnormal_results()) {
        return rt_fail(ctx, RT_ERR_SYSTEM,
                       "floating-point environment: subnormal results are flushed to zero (FTZ). "
                       "Hint: a library linked with -ffast-math sets this at start");
    }
    return RT_OK;
}
