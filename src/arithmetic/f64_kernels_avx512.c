/* The elementwise passes of arithmetic f64 on eight doubles; called only where the processor has AVX-512F
 * and DQ. */
#include "arithmetic/f64.h"

#if defined(RT_F64_AVX)
#include <immintrin.h>
#include <sleef.h>

typedef __m512d rt_vd;
enum { RT_W = 8 };
#define RT_F64_TABLE rt_f64_kernels_avx512

static inline rt_vd v_load(const double *p)
{
    return _mm512_loadu_pd(p);
}
static inline void v_store(double *p, rt_vd v)
{
    _mm512_storeu_pd(p, v);
}
static inline rt_vd v_set(double x)
{
    return _mm512_set1_pd(x);
}
static inline rt_vd v_add(rt_vd a, rt_vd b)
{
    return _mm512_add_pd(a, b);
}
static inline rt_vd v_sub(rt_vd a, rt_vd b)
{
    return _mm512_sub_pd(a, b);
}
static inline rt_vd v_mul(rt_vd a, rt_vd b)
{
    return _mm512_mul_pd(a, b);
}
static inline rt_vd v_fma(rt_vd a, rt_vd b, rt_vd c)
{
    return _mm512_fmadd_pd(a, b, c);
}
static inline rt_vd v_max(rt_vd a, rt_vd b)
{
    return _mm512_max_pd(a, b);
}
static inline rt_vd v_two_to(rt_vd t, rt_vd p)
{
    return _mm512_castsi512_pd(
        _mm512_add_epi64(_mm512_castpd_si512(p), _mm512_slli_epi64(_mm512_castpd_si512(t), 52)));
}
static inline int v_far(rt_vd x)
{
    return _mm512_cmp_pd_mask(x, _mm512_set1_pd(-708.0), _CMP_NGE_UQ) != 0;
}
static inline rt_vd v_patch(rt_vd x, rt_vd y)
{
    return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(x, _mm512_set1_pd(-708.0), _CMP_NGE_UQ), y,
                                Sleef_expd8_u10avx512f(x));
}

#include "arithmetic/f64_kernels_body.h"
#endif
