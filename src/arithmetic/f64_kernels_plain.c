/* The elementwise passes of arithmetic f64 for any processor, and the choice among them. */
#include <sleef.h>

#include "arithmetic/f64.h"

typedef double rt_vd;
enum { RT_W = 1 };
#define RT_F64_TABLE rt_f64_kernels_plain

static inline rt_vd v_load(const double *p)
{
    return *p;
}
static inline void v_store(double *p, rt_vd v)
{
    *p = v;
}
static inline rt_vd v_set(double x)
{
    return x;
}
static inline rt_vd v_add(rt_vd a, rt_vd b)
{
    return a + b;
}
static inline rt_vd v_sub(rt_vd a, rt_vd b)
{
    return a - b;
}
static inline rt_vd v_mul(rt_vd a, rt_vd b)
{
    return a * b;
}
static inline rt_vd v_fma(rt_vd a, rt_vd b, rt_vd c)
{
    return a * b + c; /* overwritten by patch, which takes every lane: no fused operation is assumed here */
}
static inline rt_vd v_max(rt_vd a, rt_vd b)
{
    return a > b ? a : b;
}
static inline rt_vd v_two_to(rt_vd t, rt_vd p)
{
    return t + p;
}
static inline int v_far(rt_vd x)
{
    (void)x;
    return 1;
}
static inline rt_vd v_patch(rt_vd x, rt_vd y)
{
    (void)y;
    return Sleef_exp_u10(x);
}

#include "arithmetic/f64_kernels_body.h"

const rt_f64_kernels *rt_f64_kernels_here(void)
{
#if defined(RT_F64_AVX)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return &rt_f64_kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &rt_f64_kernels_avx2;
#endif
    return &rt_f64_kernels_plain;
}
