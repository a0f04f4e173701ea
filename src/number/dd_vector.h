/* Double-double on vectors of RT_W doubles, by the compiler's vector extension: the operations of dd.h, lane by lane, so that every
 * instruction set gives the same bits.  A file that includes this defines RT_W, and is compiled for its instruction set. */
#ifndef RT_NUMBER_DD_VECTOR_H
#define RT_NUMBER_DD_VECTOR_H

#include <stdint.h>
#include <string.h>

/* 2^(j/32), nearest double and the rest (dd.c). */
extern const double rt_exp2_32nds[2][32];

typedef double rt_v __attribute__((vector_size(8 * RT_W)));
typedef int64_t rt_vi __attribute__((vector_size(8 * RT_W)));
typedef struct {
    rt_v hi, lo;
} rt_vdd;

#if defined(__AVX512F__) && RT_W == 8
#include <immintrin.h>
#define RT_V_FMS(a, b, c) ((rt_v)_mm512_fmsub_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif defined(__FMA__) && RT_W == 4
#include <immintrin.h>
#define RT_V_FMS(a, b, c) ((rt_v)_mm256_fmsub_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#endif

static inline rt_v rt_v_set(double x)
{
    return x - (rt_v){0};
}

static inline rt_v rt_v_load(const double *p)
{
    rt_v v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void rt_v_store(double *p, rt_v v)
{
    memcpy(p, &v, sizeof v);
}

/* mask ? a : b, lane by lane */
static inline rt_v rt_v_select(rt_vi mask, rt_v a, rt_v b)
{
    return (rt_v)((mask & (rt_vi)a) | (~mask & (rt_vi)b));
}

static inline rt_v rt_v_abs(rt_v a)
{
    return (rt_v)((rt_vi)a & INT64_MAX);
}

static inline rt_vdd rt_vtwo_sum(rt_v a, rt_v b)
{
    const rt_v s = a + b, t = s - a;
    return (rt_vdd){s, (a - (s - t)) + (b - t)};
}

static inline rt_vdd rt_vquick(rt_v a, rt_v b)
{
    const rt_v s = a + b;
    return (rt_vdd){s, b - (s - a)};
}

static inline rt_vdd rt_vtwo_prod(rt_v a, rt_v b)
{
    const rt_v p = a * b;
#if defined(RT_V_FMS)
    return (rt_vdd){p, RT_V_FMS(a, b, p)};
#else
    const rt_v ta = 134217729.0 * a, ah = ta - (ta - a), al = a - ah;
    const rt_v tb = 134217729.0 * b, bh = tb - (tb - b), bl = b - bh;
    return (rt_vdd){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
#endif
}

static inline rt_vdd rt_vdd_add(rt_vdd a, rt_vdd b)
{
    rt_vdd s = rt_vtwo_sum(a.hi, b.hi);
    const rt_vdd t = rt_vtwo_sum(a.lo, b.lo);
    s = rt_vquick(s.hi, s.lo + t.hi);
    return rt_vquick(s.hi, s.lo + t.lo);
}

static inline rt_vdd rt_vdd_add_d(rt_vdd a, rt_v b)
{
    const rt_vdd s = rt_vtwo_sum(a.hi, b);
    return rt_vquick(s.hi, s.lo + a.lo);
}

static inline rt_vdd rt_vdd_mul(rt_vdd a, rt_vdd b)
{
    const rt_vdd p = rt_vtwo_prod(a.hi, b.hi);
    return rt_vquick(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

/* table[bits & 31], lane by lane */
static inline rt_v rt_v_lookup32(const double *table, rt_vi bits)
{
#if defined(__AVX512F__) && RT_W == 8
    const __m512i at = (__m512i)bits;
    const __m512d low = _mm512_permutex2var_pd(_mm512_loadu_pd(table), at, _mm512_loadu_pd(table + 8)),
                  high =
                      _mm512_permutex2var_pd(_mm512_loadu_pd(table + 16), at, _mm512_loadu_pd(table + 24));
    return (rt_v)_mm512_mask_blend_pd(_mm512_test_epi64_mask(at, _mm512_set1_epi64(16)), low, high);
#elif defined(__AVX2__) && RT_W == 4
    return (rt_v)_mm256_i64gather_pd(table, (__m256i)(bits & 31), 8);
#else
    rt_v v;
    for (int i = 0; i < RT_W; i++)
        v[i] = table[bits[i] & 31];
    return v;
#endif
}

/* exp: the steps and the proof are in dd_exp_body.h. */
static inline rt_vdd rt_vdd_exp(rt_v y_hi, rt_v y_lo)
{
    const rt_vi dead = y_hi < -600.0;
    const rt_v yh = rt_v_select(dead, rt_v_set(-600), y_hi), yl = rt_v_select(dead, rt_v_set(0), y_lo);
    const rt_v shifted = yh * 0x1.71547652b82fep+5 + 0x1.8p52, k = shifted - 0x1.8p52;
    const rt_vdd kl2 = rt_vtwo_prod(k, rt_v_set(0x1.cf79abc9e3b3ap-45));
    rt_vdd r = rt_vtwo_sum(yh - k * 0x1.62e42fefap-6, -kl2.hi);
    r = rt_vquick(r.hi, r.lo + (yl - kl2.lo + k * 0x1.ff0342542fc33p-99));
    const rt_v x = r.hi;
    const rt_vdd square = rt_vtwo_prod(x, x);
    const rt_v cubic =
        (square.hi * x) *
        (0x1.5555555555555p-3 +
         x * (0x1.5555555555555p-5 +
              x * (0x1.1111111111111p-7 +
                   x * (0x1.6c16c16c16c17p-10 + x * (0x1.a01a01a01a01ap-13 + x * 0x1.a01a01a01a01ap-16)))));
    rt_vdd e = rt_vquick(x, 0.5 * square.hi);
    e = rt_vquick(e.hi, e.lo + ((r.lo + (0.5 * square.lo + x * r.lo)) + cubic));
    const rt_v t_hi = rt_v_lookup32(rt_exp2_32nds[0], (rt_vi)shifted),
               t_lo = rt_v_lookup32(rt_exp2_32nds[1], (rt_vi)shifted);
    const rt_vdd te = rt_vtwo_prod(t_hi, e.hi);
    rt_vdd p = rt_vquick(t_hi, te.hi);
    p = rt_vquick(p.hi, p.lo + (te.lo + (t_lo + (t_hi * e.lo + t_lo * e.hi))));
    /* k = 32 n + j: n in the exponent's place (the bits above it drop out) */
    const rt_v two_n = rt_v_select(dead, rt_v_set(0), (rt_v)((((rt_vi)shifted >> 5) + 1023) << 52));
    return (rt_vdd){p.hi * two_n, p.lo * two_n};
}

#endif
