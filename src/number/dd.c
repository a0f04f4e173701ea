/* Double-double functions: the choice of exp's kernel, and the logarithm. */
#include "number/dd.h"

#include <string.h>

#include "number/dd_exp.h"

void rt_dd_exp(const double *y_hi, const double *y_lo, double *p_hi, double *p_lo, int64_t n)
{
#if defined(RT_DD_AVX)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
        rt_dd_exp_avx512(y_hi, y_lo, p_hi, p_lo, n);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        rt_dd_exp_avx2(y_hi, y_lo, p_hi, p_lo, n);
        return;
    }
#endif
    rt_dd_exp_plain(y_hi, y_lo, p_hi, p_lo, n);
}

rt_dd rt_dd_exp1(rt_dd y)
{
    rt_dd p;
    rt_dd_exp(&y.hi, &y.lo, &p.hi, &p.lo, 1);
    return p;
}

/* ln x = e ln 2 + ln m, m in [sqrt(1/2), sqrt(2)); ln m = z + (m exp(-z) - 1) - ()^2/2 with z an approximation to 2^-40 or better
 * from the atanh series, so that the correction's cube is below 2^-110. */
rt_dd rt_dd_log(rt_dd x)
{
    uint64_t bits;
    memcpy(&bits, &x.hi, sizeof bits);
    int64_t e = (int64_t)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    const double scale_up = x.hi / m; /* a power of two */
    const rt_dd md = {m, x.lo / scale_up};
    /* z = 2 atanh(s), s = (m-1)/(m+1), |s| <= 0.1716: terms to s^31 */
    const double s = (m - 1) / (m + 1), s2 = s * s;
    double sum = 0;
    for (int k = 31; k >= 1; k -= 2)
        sum = sum * s2 + 1.0 / k;
    const double z = 2 * s * sum;
    /* w = m exp(-z) - 1 is tiny; ln m = z + w - w^2/2 */
    rt_dd w = rt_dd_add_d(rt_dd_mul(md, rt_dd_exp1((rt_dd){-z, 0})), -1.0);
    w = rt_dd_add_d(w, -0.5 * w.hi * w.hi);
    rt_dd r = rt_dd_add_d(w, z);
    const double l1 = 0x1.62e42feep-1, l2 = 0x1.a39ef35793c76p-33, l3 = 0x1.cc01f97b57a08p-87,
                 k = (double)e;
    r = rt_dd_add(r, rt_two_prod(k, l2));
    r = rt_dd_add_d(r, k * l1);
    return rt_dd_add_d(r, k * l3);
}
