/* tanh on vectors of double-doubles, and its derivative, by the operations of dd_vector.h: the same bits on every instruction set.
 *
 * With y = -2|x|, p = exp(y) and m = p - 1:   tanh|x| = -m / (2 + m),   1 - tanh^2 = p (2 / (2 + m))^2.
 *
 * y = k ln 2 + r, |r| <= 0.347, k <= 0; E = exp(r) - 1 by the series of r / 32 and five times E <- 2 E + E^2; p = 2^k (1 + E).
 * Errors.  The series to (r/32)^11 is cut at 2^-100 of E; its terms from 1/24 on are one double, an error of 2^-52 (r/32)^3 / 24 < 2^-76
 * of E; a doubling multiplies E's relative error by (2 + 2E) / (2 + E), all five by less than 1.3; so E is right to 2^-75, relative.  For
 * k = 0, r is y and m is E.  For k < 0, r is right to 2^-96, p to 2^-75, relative, and m = p - 1 with p <= 0.708 to 0.708 2^-75 / 0.292 <
 * 2^-73.7.  2 + m lies in (1, 2] and is as good.  tanh is a product of two numbers right to 2^-73.7: 2^-72.7; the derivative one of p and two
 * such: 2^-75 + 2^-72.7.  Every other operation errs by 2^-100.  So both are right to RT_DD_TANH_ERROR, relative; below y = -600 p is
 * 0, tanh 1 (an error of 2^-864) and the derivative 0 (an absolute error of 2^-863). */
#ifndef RT_NUMBER_DD_TANH_H
#define RT_NUMBER_DD_TANH_H

#include "number/dd.h"
#include "number/dd_vector.h"

static inline rt_vdd rt_vdd_select(rt_vi mask, rt_vdd a, rt_vdd b)
{
    return (rt_vdd){rt_v_select(mask, a.hi, b.hi), rt_v_select(mask, a.lo, b.lo)};
}

/* 2 / b: the steps of rt_dd_div. */
static inline rt_vdd rt_vdd_two_over(rt_vdd b)
{
    const rt_v q1 = 2.0 / b.hi;
    rt_vdd r = rt_vdd_add((rt_vdd){rt_v_set(2), rt_v_set(0)}, rt_vdd_mul(b, (rt_vdd){-q1, rt_v_set(0)}));
    const rt_v q2 = r.hi / b.hi;
    r = rt_vdd_add(r, rt_vdd_mul(b, (rt_vdd){-q2, rt_v_set(0)}));
    return rt_vdd_add_d(rt_vquick(q1, q2), r.hi / b.hi);
}

/* *derivative = 1 - tanh^2. */
static inline rt_vdd rt_vdd_tanh(rt_vdd x, rt_vdd *derivative)
{
    const rt_vi negative = x.hi < 0.0;
    const rt_v sign = rt_v_select(negative, rt_v_set(2), rt_v_set(-2));
    const rt_v y_hi = x.hi * sign, y_lo = x.lo * sign;
    const rt_vi dead = y_hi < -600.0;
    const rt_v yh = rt_v_select(dead, rt_v_set(-600), y_hi), yl = rt_v_select(dead, rt_v_set(0), y_lo);
    const rt_v shifted = yh * 0x1.71547652b82fep+0 + 0x1.8p52, k = shifted - 0x1.8p52;
    const rt_vdd kl2 = rt_vtwo_prod(k, rt_v_set(0x1.a39ef35793c76p-33));
    rt_vdd r = rt_vtwo_sum(yh - k * 0x1.62e42feep-1, -kl2.hi);
    r = rt_vquick(r.hi, r.lo + (yl - kl2.lo - k * 0x1.cc01f97b57a08p-87));
    const rt_vdd t = {r.hi * 0x1p-5, r.lo * 0x1p-5};
    rt_v q = rt_v_set(0x1.ae64567f544e4p-26); /* 1/11!, .. 1/4! */
    q = 0x1.27e4fb7789f5cp-22 + t.hi * q;
    q = 0x1.71de3a556c734p-19 + t.hi * q;
    q = 0x1.a01a01a01a01ap-16 + t.hi * q;
    q = 0x1.a01a01a01a01ap-13 + t.hi * q;
    q = 0x1.6c16c16c16c17p-10 + t.hi * q;
    q = 0x1.1111111111111p-7 + t.hi * q;
    q = 0x1.5555555555555p-5 + t.hi * q;
    const rt_vdd third = rt_vquick(rt_v_set(0x1.5555555555555p-3), 0x1.5555555555555p-57 + t.hi * q);
    rt_vdd e = rt_vdd_add_d(rt_vdd_mul(t, third), rt_v_set(0.5));
    e = rt_vdd_add(t, rt_vdd_mul(rt_vdd_mul(t, t), e));
    for (int s = 0; s < 5; s++)
        e = rt_vdd_add((rt_vdd){2 * e.hi, 2 * e.lo}, rt_vdd_mul(e, e));
    const rt_v two_k = rt_v_select(dead, rt_v_set(0), (rt_v)(((rt_vi)shifted + 1023) << 52));
    rt_vdd p = rt_vdd_add_d(e, rt_v_set(1));
    p = (rt_vdd){p.hi * two_k, p.lo * two_k};
    const rt_vdd m = rt_vdd_select(k < 0.0, rt_vdd_add_d(p, rt_v_set(-1)), e);
    const rt_vdd w = rt_vdd_two_over(rt_vdd_add_d(m, rt_v_set(2)));
    *derivative = rt_vdd_mul(p, rt_vdd_mul(w, w));
    const rt_v half = rt_v_select(negative, rt_v_set(0.5), rt_v_set(-0.5));
    return rt_vdd_mul((rt_vdd){m.hi * half, m.lo * half}, w);
}

#endif
