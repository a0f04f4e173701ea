/* Vector exponentials from SLEEF, chosen by the processor at run time.
 *
 * A given processor always takes the same kernel, and the tail of a vector goes through the same kernel as its
 * body (padded), so that the value of exp at a place does not depend on where the place lies in the vector.
 */
#include "arithmetic/exp.h"

#include <sleef.h>

#include "arithmetic/score.h"

double rt_exp_scalar(double x)
{
    rt_exp_vector(&x, 1);
    return x;
}

double rt_log_scalar(double x)
{
    return Sleef_log_u10(x);
}

static void exp_plain(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = Sleef_exp_u10(x[i]);
}

void rt_exp_vector(double *x, int64_t n)
{
#if defined(RT_EXP_AVX)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
        rt_exp_avx512(x, n);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        rt_exp_avx2(x, n);
        return;
    }
#endif
    exp_plain(x, n);
}

void rt_tanh_vector(double *x, int64_t n)
{
#if defined(RT_EXP_AVX)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
        rt_tanh_avx512(x, n);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        rt_tanh_avx2(x, n);
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++)
        x[i] = Sleef_tanh_u10(x[i]);
}
