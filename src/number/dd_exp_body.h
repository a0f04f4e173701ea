/* The loop of rt_dd_exp, compiled once for each instruction set (RT_DD_EXP_NAME, RT_W).
 *
 * y = k ln 2 + 32 t, |t| <= 0.0109 (ln 2 in three pieces, the first with 32 bits so that its product with k is exact);
 * E = exp(t) - 1 by its series to t^11 (cut at 2^-100), of which 1/24 t^4 and smaller are summed in one double (2^-77);
 * five times E <- 2 E + E^2, which keeps E's relative accuracy; exp(y) = 2^k (1 + E). */
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
