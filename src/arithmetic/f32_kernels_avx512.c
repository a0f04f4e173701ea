/* The elementwise passes of arithmetic f32 on sixteen floats; called only where the processor has AVX-512F
 * and DQ. */
#include "arithmetic/f32.h"

#if defined(RT_F32_AVX)
#include <immintrin.h>

typedef __m512 rt_vf;
enum { RT_W = 16 };
#define RT_F32_TABLE rt_f32_kernels_avx512

static inline rt_vf v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline void v_store(float *p, rt_vf v)
{
    _mm512_storeu_ps(p, v);
}
static inline rt_vf v_set(float x)
{
    return _mm512_set1_ps(x);
}
static inline rt_vf v_add(rt_vf a, rt_vf b)
{
    return _mm512_add_ps(a, b);
}
static inline rt_vf v_sub(rt_vf a, rt_vf b)
{
    return _mm512_sub_ps(a, b);
}
static inline rt_vf v_mul(rt_vf a, rt_vf b)
{
    return _mm512_mul_ps(a, b);
}
static inline rt_vf v_fma(rt_vf a, rt_vf b, rt_vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline rt_vf v_max(rt_vf a, rt_vf b)
{
    return _mm512_max_ps(a, b);
}
static inline rt_vf v_narrow(const double *p)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(_mm512_loadu_pd(p))),
                              _mm512_cvtpd_ps(_mm512_loadu_pd(p + 8)), 1);
}

#include "arithmetic/f32_kernels_body.h"

/* x less its reduction is the integer next to it, exactly.  The reduction of an infinity is 0, and scaling by
 * 2^-inf gives 0; a NaN stays one. */
static inline rt_vf v_exp2(rt_vf x)
{
    const rt_vf r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT);
    return _mm512_scalef_ps(two_to_fraction(r), x - r);
}
#endif
