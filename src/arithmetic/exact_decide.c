/* Ziv's rounding test on a double-double and its error bound. */
#include <string.h>

#include "arithmetic/exact.h"

static double next_up(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (bits == INT64_MIN || bits == 0)
        bits = 1;
    else
        bits += bits > 0 ? 1 : -1;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

void rt_exact_candidate(rt_dtype format, double x, double *value, double *gap_below, double *gap_above)
{
    const double max = rt_max_finite(format);
    double c = rt_round_to(format, x);
    if (!isfinite(c)) /* judged from the largest finite value on */
        c = x > 0 ? max : -max;
    c = c < 0 || c > 0 ? c : 0.0;
    const double up = format == RT_F64 ? next_up(c) : rt_round_up(format, next_up(c));
    const double down = format == RT_F64 ? -next_up(-c) : rt_round_down(format, -next_up(-c));
    *value = c;
    *gap_above = isfinite(up) ? up - c : rt_ulp(format, max);
    *gap_below = isfinite(down) ? c - down : rt_ulp(format, max);
}

/* rt_round_to; to binary32 by the processor, whose rounding mode is checked at start. */
static double round_fast(rt_dtype format, double x)
{
    return format == RT_F32 ? (double)(float)x : rt_round_to(format, x);
}

bool rt_exact_decide(rt_dtype format, double hi, double lo, double r, double *out)
{
    if (!isfinite(hi) || !isfinite(lo) || !(r >= 0))
        return false;
    /* Nearly always numbers a little outside of the interval round alike, and so does all between them. */
    const double wide = r + fabs(lo) + 0x1p-51 * fabs(hi) + 0x1p-1000;
    const double least = round_fast(format, hi - wide), most = round_fast(format, hi + wide);
    if (least <= most && least >= most) {
        *out = least < 0 || least > 0 ? least : 0.0;
        return true;
    }
    double c, gap_below, gap_above;
    rt_exact_candidate(format, hi, &c, &gap_below, &gap_above);
    const double max = rt_max_finite(format);
    for (int turn = 0; turn < 2; turn++) {
        const double above = 0.5 * gap_above,
                     below = 0.5 * gap_below; /* 0 for binary64's subnormals: never certain */
        const rt_dd d = rt_dd_add_d(rt_two_sum(hi, -c), lo); /* x - c */
        const double slack = r * (1 + 0x1p-40) + 0x1p-1000, distance = d.hi + d.lo;
        /* strictly between the midpoints; d.hi - above is nearly exact near the midpoint, where it matters */
        const double to_above = (above - d.hi) - d.lo, to_below = (below + d.hi) + d.lo;
        if (to_above > slack && to_below > slack) {
            *out = c;
            return true;
        }
        if (c >= max && -to_above > slack) { /* overflow */
            *out = rt_round_to(format, 2 * max);
            return true;
        }
        if (c <= -max && -to_below > slack) {
            *out = rt_round_to(format, -2 * max);
            return true;
        }
        /* hi alone was nearest to c, but hi + lo lies beyond a midpoint: try that neighbour */
        if (!(fabs(distance) > 0))
            return false;
        rt_exact_candidate(format, distance > 0 ? next_up(c + above) : -next_up(-(c - below)), &c,
                           &gap_below, &gap_above);
    }
    return false;
}
