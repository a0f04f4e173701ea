/* The elementwise passes of arithmetic f64 on four doubles; called only where the processor has AVX2 and
 * FMA. */
#include "arithmetic/f64.h"

#if defined(RT_F64_AVX)
#include <immintrin.h>
#include <sleef.h>

typedef __m256d rt_vd;
enum { RT_W = 4 };
#define RT_F64_TABLE rt_f64_kernels_avx2

static inline rt_vd v_load(const double *p)
{
    return _mm256_loadu_pd(p);
}
static inline void v_store(double *p, rt_vd v)
{
    _mm256_storeu_pd(p, v);
}
static inline rt_vd v_set(double x)
{
    return _mm256_set1_pd(x);
}
static inline rt_vd v_add(rt_vd a, rt_vd b)
{
    return _mm256_add_pd(a, b);
}
static inline rt_vd v_sub(rt_vd a, rt_vd b)
{
    return _mm256_sub_pd(a, b);
}
static inline rt_vd v_mul(rt_vd a, rt_vd b)
{
    return _mm256_mul_pd(a, b);
}
static inline rt_vd v_fma(rt_vd a, rt_vd b, rt_vd c)
{
    return _mm256_fmadd_pd(a, b, c);
}
static inline rt_vd v_max(rt_vd a, rt_vd b)
{
    return _mm256_max_pd(a, b);
}
static inline rt_vd v_two_to(rt_vd t, rt_vd p)
{
    return _mm256_castsi256_pd(
        _mm256_add_epi64(_mm256_castpd_si256(p), _mm256_slli_epi64(_mm256_castpd_si256(t), 52)));
}
static inline int v_far(rt_vd x)
{
    return _mm256_movemask_pd(_mm256_cmp_pd(x, _mm256_set1_pd(-708.0), _CMP_NGE_UQ)) != 0;
}
static inline rt_vd v_patch(rt_vd x, rt_vd y)
{
    return _mm256_blendv_pd(y, Sleef_expd4_u10avx2(x),
                            _mm256_cmp_pd(x, _mm256_set1_pd(-708.0), _CMP_NGE_UQ));
}

#include "arithmetic/f64_kernels_body.h"
#endif
