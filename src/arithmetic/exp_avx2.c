/* exp and tanh on four doubles at a time; compiled for AVX2 and FMA, called only where the processor has both. */
#include "arithmetic/exp.h"

#if defined(RT_EXP_AVX)
#include <immintrin.h>
#include <sleef.h>
#include <string.h>

void rt_exp_avx2(double *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        _mm256_storeu_pd(x + i, Sleef_expd4_u10avx2(_mm256_loadu_pd(x + i)));
    if (i < n) {
        double tail[4] = {0, 0, 0, 0};
        memcpy(tail, x + i, (size_t)(n - i) * sizeof tail[0]);
        _mm256_storeu_pd(tail, Sleef_expd4_u10avx2(_mm256_loadu_pd(tail)));
        memcpy(x + i, tail, (size_t)(n - i) * sizeof tail[0]);
    }
}

void rt_tanh_avx2(double *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        _mm256_storeu_pd(x + i, Sleef_tanhd4_u10avx2(_mm256_loadu_pd(x + i)));
    if (i < n) {
        double tail[4] = {0, 0, 0, 0};
        memcpy(tail, x + i, (size_t)(n - i) * sizeof tail[0]);
        _mm256_storeu_pd(tail, Sleef_tanhd4_u10avx2(_mm256_loadu_pd(tail)));
        memcpy(x + i, tail, (size_t)(n - i) * sizeof tail[0]);
    }
}
#endif
