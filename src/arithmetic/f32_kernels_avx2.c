/* The elementwise passes of arithmetic f32 on eight floats; called only where the processor has AVX2 and
 * FMA. */
#include "arithmetic/f32.h"

#if defined(RT_F32_AVX)
#include <immintrin.h>

typedef __m256 rt_vf;
enum { RT_W = 8 };
#define RT_F32_TABLE rt_f32_kernels_avx2

static inline rt_vf v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
static inline void v_store(float *p, rt_vf v)
{
    _mm256_storeu_ps(p, v);
}
static inline rt_vf v_set(float x)
{
    return _mm256_set1_ps(x);
}
static inline rt_vf v_add(rt_vf a, rt_vf b)
{
    return _mm256_add_ps(a, b);
}
static inline rt_vf v_sub(rt_vf a, rt_vf b)
{
    return _mm256_sub_ps(a, b);
}
static inline rt_vf v_mul(rt_vf a, rt_vf b)
{
    return _mm256_mul_ps(a, b);
}
static inline rt_vf v_fma(rt_vf a, rt_vf b, rt_vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
static inline rt_vf v_max(rt_vf a, rt_vf b)
{
    return _mm256_max_ps(a, b);
}
static inline rt_vf v_narrow(const double *p)
{
    return _mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(p + 4)), _mm256_cvtpd_ps(_mm256_loadu_pd(p)));
}

#include "arithmetic/f32_kernels_body.h"

/* n by the trick of the large constant, whose sum's low bits are n; a NaN stays one. */
static inline rt_vf v_exp2(rt_vf x)
{
    const rt_vf low = v_set(-126.0f), big = v_set(0x1.8p23f);
    const rt_vf y = _mm256_max_ps(low, x), t = v_add(y, big), p = two_to_fraction(v_sub(y, v_sub(t, big)));
    const __m256i n = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    const rt_vf z = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), n));
    return _mm256_and_ps(z, _mm256_cmp_ps(x, low, _CMP_NLT_UQ));
}
#endif
