/* exp and tanh on eight doubles at a time; compiled for AVX-512F, called only where the processor has it. */
#include "arithmetic/exp.h"

#if defined(RT_EXP_AVX)
#include <immintrin.h>
#include <sleef.h>
#include <string.h>

void rt_exp_avx512(double *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm512_storeu_pd(x + i, Sleef_expd8_u10avx512f(_mm512_loadu_pd(x + i)));
    if (i < n) {
        double tail[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        memcpy(tail, x + i, (size_t)(n - i) * sizeof tail[0]);
        _mm512_storeu_pd(tail, Sleef_expd8_u10avx512f(_mm512_loadu_pd(tail)));
        memcpy(x + i, tail, (size_t)(n - i) * sizeof tail[0]);
    }
}

void rt_tanh_avx512(double *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm512_storeu_pd(x + i, Sleef_tanhd8_u10avx512f(_mm512_loadu_pd(x + i)));
    if (i < n) {
        double tail[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        memcpy(tail, x + i, (size_t)(n - i) * sizeof tail[0]);
        _mm512_storeu_pd(tail, Sleef_tanhd8_u10avx512f(_mm512_loadu_pd(tail)));
        memcpy(x + i, tail, (size_t)(n - i) * sizeof tail[0]);
    }
}
#endif
