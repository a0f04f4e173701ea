/* The elementwise passes of arithmetic f32 for any processor, and the choice among them. */
#include "arithmetic/f32.h"

typedef float rt_vf;
enum { RT_W = 1 };
#define RT_F32_TABLE rt_f32_kernels_plain

static inline rt_vf v_load(const float *p)
{
    return *p;
}
static inline void v_store(float *p, rt_vf v)
{
    *p = v;
}
static inline rt_vf v_set(float x)
{
    return x;
}
static inline rt_vf v_add(rt_vf a, rt_vf b)
{
    return a + b;
}
static inline rt_vf v_sub(rt_vf a, rt_vf b)
{
    return a - b;
}
static inline rt_vf v_mul(rt_vf a, rt_vf b)
{
    return a * b;
}
static inline rt_vf v_fma(rt_vf a, rt_vf b, rt_vf c)
{
    return a * b + c; /* two roundings: no processor is asked for a fused one here */
}
static inline rt_vf v_max(rt_vf a, rt_vf b)
{
    return a > b ? a : b;
}
static inline rt_vf v_narrow(const double *p)
{
    return (float)*p;
}

#include "arithmetic/f32_kernels_body.h"

static inline rt_vf v_exp2(rt_vf x)
{
    if (x < -126.0f)
        return 0;
    const float t = x + 0x1.8p23f, p = two_to_fraction(x - (t - 0x1.8p23f));
    uint32_t n, bits;
    memcpy(&n, &t, sizeof n);
    memcpy(&bits, &p, sizeof bits);
    bits += n << 23;
    float y;
    memcpy(&y, &bits, sizeof y);
    return isnan(x) ? x : y;
}

const rt_f32_kernels *rt_f32_kernels_here(void)
{
#if defined(RT_F32_AVX)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return &rt_f32_kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &rt_f32_kernels_avx2;
#endif
    return &rt_f32_kernels_plain;
}
