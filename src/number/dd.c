/* Double-double functions: the choice of exp's kernel, and the logarithm. */
#include "number/dd.h"

#include <string.h>

#include "number/dd_exp.h"

/* 2^(j/32) as double-double: nearest double, nearest double of the rest. */
const double rt_exp2_32nds[2][32] = {
    {0x1.0000000000000p+0, 0x1.059b0d3158574p+0, 0x1.0b5586cf9890fp+0, 0x1.11301d0125b51p+0,
     0x1.172b83c7d517bp+0, 0x1.1d4873168b9aap+0, 0x1.2387a6e756238p+0, 0x1.29e9df51fdee1p+0,
     0x1.306fe0a31b715p+0, 0x1.371a7373aa9cbp+0, 0x1.3dea64c123422p+0, 0x1.44e086061892dp+0,
     0x1.4bfdad5362a27p+0, 0x1.5342b569d4f82p+0, 0x1.5ab07dd485429p+0, 0x1.6247eb03a5585p+0,
     0x1.6a09e667f3bcdp+0, 0x1.71f75e8ec5f74p+0, 0x1.7a11473eb0187p+0, 0x1.82589994cce13p+0,
     0x1.8ace5422aa0dbp+0, 0x1.93737b0cdc5e5p+0, 0x1.9c49182a3f090p+0, 0x1.a5503b23e255dp+0,
     0x1.ae89f995ad3adp+0, 0x1.b7f76f2fb5e47p+0, 0x1.c199bdd85529cp+0, 0x1.cb720dcef9069p+0,
     0x1.d5818dcfba487p+0, 0x1.dfc97337b9b5fp+0, 0x1.ea4afa2a490dap+0, 0x1.f50765b6e4540p+0},
    {0x0.0p+0,
     0x1.d73e2a475b465p-55,
     0x1.8a62e4adc610bp-54,
     -0x1.6c51039449b3ap-54,
     -0x1.19041b9d78a76p-55,
     0x1.e016e00a2643cp-54,
     0x1.9b07eb6c70573p-54,
     0x1.612e8afad1255p-55,
     0x1.6f46ad23182e4p-55,
     -0x1.63aeabf42eae2p-54,
     0x1.ada0911f09ebcp-55,
     0x1.89b7a04ef80d0p-59,
     0x1.d4397afec42e2p-56,
     -0x1.07abe1db13cadp-55,
     0x1.6324c054647adp-54,
     -0x1.383c17e40b497p-54,
     -0x1.bdd3413b26456p-54,
     -0x1.16e4786887a99p-55,
     -0x1.41577ee04992fp-55,
     -0x1.d4c1dd41532d8p-54,
     0x1.6e9f156864b27p-54,
     -0x1.75fc781b57ebcp-57,
     0x1.c7c46b071f2bep-56,
     -0x1.d2f6edb8d41e1p-54,
     0x1.7a1cd345dcc81p-54,
     -0x1.5584f7e54ac3bp-56,
     0x1.11065895048ddp-55,
     0x1.503cbd1e949dbp-56,
     0x1.2ed02d75b3707p-55,
     -0x1.1a5cd4f184b5cp-54,
     -0x1.e9c23179c2893p-54,
     0x1.9d3e12dd8a18bp-54}};

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

/* exp(z) - 1, |z| <= 0.35, relative error 2^-75: t = z / 32, E = exp(t) - 1 by its series to t^11 (cut at 2^-100), of which 1/24 t^4 and
 * smaller are summed in one double (2^-77 of t), then five times E <- 2 E + E^2, which keeps its relative accuracy. */
static rt_dd expm1_small(double z)
{
    const double t = z * 0x1p-5;
    const double q = 0x1.1111111111111p-7 +
                     t * (0x1.6c16c16c16c17p-10 +
                          t * (0x1.a01a01a01a01ap-13 +
                               t * (0x1.a01a01a01a01ap-16 +
                                    t * (0x1.71de3a556c734p-19 +
                                         t * (0x1.27e4fb7789f5cp-22 + t * 0x1.ae64567f544e4p-26)))));
    const rt_dd third =
        rt_quick_two_sum(0x1.5555555555555p-3, 0x1.5555555555555p-57 + t * (0x1.5555555555555p-5 + t * q));
    const rt_dd rest = rt_dd_add_d(rt_dd_mul_d(third, t), 0.5);
    rt_dd e = rt_dd_add_d(rt_dd_mul(rt_two_prod(t, t), rest), t);
    for (int i = 0; i < 5; i++)
        e = rt_dd_add((rt_dd){2 * e.hi, 2 * e.lo}, rt_dd_mul(e, e));
    return e;
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
    /* w = m exp(-z) - 1 = (m - 1) + m (exp(-z) - 1) is tiny; ln m = z + w - w^2/2 */
    rt_dd w = rt_dd_add(rt_dd_add_d(md, -1.0), rt_dd_mul(md, expm1_small(-z)));
    w = rt_dd_add_d(w, -0.5 * w.hi * w.hi);
    rt_dd r = rt_dd_add_d(w, z);
    const double l1 = 0x1.62e42feep-1, l2 = 0x1.a39ef35793c76p-33, l3 = 0x1.cc01f97b57a08p-87,
                 k = (double)e;
    r = rt_dd_add(r, rt_two_prod(k, l2));
    r = rt_dd_add_d(r, k * l1);
    return rt_dd_add_d(r, k * l3);
}
