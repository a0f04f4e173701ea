/* Double-double arithmetic: a number is an unevaluated sum hi + lo with |lo| <= ulp(hi)/2, about 106 bits.
 *
 * Error-free transformations of Knuth and Dekker; products by fma where the file is compiled for it, else by Veltkamp's
 * splitting, which gives the same bits.  Every operation below has a relative error of at most 2^-102 (Joldes, Muller, Popescu,
 * ACM TOMS 44, 2017: 2^-104 for products and quotients within a few units; sums of numbers of one sign 2^-104), sums of opposite
 * signs 2^-102 of the sum of the moduli. */
#ifndef RT_NUMBER_DD_H
#define RT_NUMBER_DD_H

#include <math.h>
#include <stdint.h>

typedef struct {
    double hi, lo;
} rt_dd;

static inline rt_dd rt_two_sum(double a, double b)
{
    const double s = a + b, t = s - a;
    return (rt_dd){s, (a - (s - t)) + (b - t)};
}

/* |a| >= |b| or a = 0. */
static inline rt_dd rt_quick_two_sum(double a, double b)
{
    const double s = a + b;
    return (rt_dd){s, b - (s - a)};
}

static inline rt_dd rt_two_prod(double a, double b)
{
    const double p = a * b;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return (rt_dd){p, __builtin_fma(a, b, -p)};
#else
    const double split = 134217729.0; /* 2^27 + 1; |a|, |b| < 2^990 here */
    const double ta = split * a, ah = ta - (ta - a), al = a - ah;
    const double tb = split * b, bh = tb - (tb - b), bl = b - bh;
    return (rt_dd){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
#endif
}

static inline rt_dd rt_dd_add(rt_dd a, rt_dd b)
{
    rt_dd s = rt_two_sum(a.hi, b.hi);
    const rt_dd t = rt_two_sum(a.lo, b.lo);
    s = rt_quick_two_sum(s.hi, s.lo + t.hi);
    return rt_quick_two_sum(s.hi, s.lo + t.lo);
}

static inline rt_dd rt_dd_add_d(rt_dd a, double b)
{
    const rt_dd s = rt_two_sum(a.hi, b);
    return rt_quick_two_sum(s.hi, s.lo + a.lo);
}

static inline rt_dd rt_dd_neg(rt_dd a)
{
    return (rt_dd){-a.hi, -a.lo};
}

static inline rt_dd rt_dd_mul(rt_dd a, rt_dd b)
{
    const rt_dd p = rt_two_prod(a.hi, b.hi);
    return rt_quick_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

static inline rt_dd rt_dd_mul_d(rt_dd a, double b)
{
    const rt_dd p = rt_two_prod(a.hi, b);
    return rt_quick_two_sum(p.hi, p.lo + a.lo * b);
}

static inline rt_dd rt_dd_div(rt_dd a, rt_dd b)
{
    const double q1 = a.hi / b.hi;
    rt_dd r = rt_dd_add(a, rt_dd_neg(rt_dd_mul_d(b, q1)));
    const double q2 = r.hi / b.hi;
    r = rt_dd_add(r, rt_dd_neg(rt_dd_mul_d(b, q2)));
    const double q3 = r.hi / b.hi;
    return rt_dd_add_d(rt_quick_two_sum(q1, q2), q3);
}

/* exp of n numbers y <= 1, in double-double.  y < -600 gives 0, an absolute error below 2^-865; else the relative error is below
 * RT_DD_EXP_ERROR.  y and p may be the same arrays. */
#define RT_DD_EXP_ERROR 0x1p-72
#define RT_DD_EXP_FLOOR 0x1p-865
/* Of tanh and of its derivative 1 - tanh^2 (dd_tanh.h), relative. */
#define RT_DD_TANH_ERROR 0x1p-72
void rt_dd_exp(const double *y_hi, const double *y_lo, double *p_hi, double *p_lo, int64_t n);
rt_dd rt_dd_exp1(rt_dd y);
/* ln of a positive normal number, relative error 2^-70 of max(|ln x|, 2^-20) .. absolute 2^-90 near 1. */
rt_dd rt_dd_log(rt_dd x);

#endif
