/* The loop of rt_dd_exp, compiled once for each instruction set (RT_DD_EXP_NAME, RT_W).
 *
 * y = k (ln 2)/32 + r, |r| <= 0.01084 < 2^-6.52: (ln 2)/32 in three pieces, the first with 36 bits so that its product with k < 2^17 is
 * exact (and so is its difference from y_hi), the second's product in double-double, the third's rounded.
 * E = exp(r) - 1 = r + r^2/2 + c: r^2 in double-double, c = r^3 (1/6 + .. + r^5/8!) in plain doubles.  |c| < 2^-22.1; its relative
 * error is at most 3.5 x 2^-53 (half a unit each for r^2's leading part, the two products, the sum and 1/6, one for r's low part), so
 * 2^-73.3; adding it to the low part costs twice 2^-76, what the series leaves out, r^9/9!, 2^-77.
 * exp(y) = 2^(k/32) (1 + E): k = 32 n + j, 2^(j/32) from a table in double-double, its product with E with errors below 2^-105.
 * Together less than 2^-72.8 < RT_DD_EXP_ERROR.  y = 0 gives 1: r, E = 0 and the table's entry is 1. */
#include "number/dd_vector.h"

void RT_DD_EXP_NAME(const double *y_hi, const double *y_lo, double *p_hi, double *p_lo, int64_t n)
{
    int64_t i = 0;
    for (; i + RT_W <= n; i += RT_W) {
        const rt_vdd p = rt_vdd_exp(rt_v_load(y_hi + i), rt_v_load(y_lo + i));
        rt_v_store(p_hi + i, p.hi);
        rt_v_store(p_lo + i, p.lo);
    }
    if (i < n) {
        double a[RT_W] = {0}, b[RT_W] = {0};
        const size_t bytes = (size_t)(n - i) * sizeof a[0];
        memcpy(a, y_hi + i, bytes);
        memcpy(b, y_lo + i, bytes);
        const rt_vdd p = rt_vdd_exp(rt_v_load(a), rt_v_load(b));
        rt_v_store(a, p.hi);
        rt_v_store(b, p.lo);
        memcpy(p_hi + i, a, bytes);
        memcpy(p_lo + i, b, bytes);
    }
}
