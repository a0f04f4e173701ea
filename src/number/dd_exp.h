/* The kernels behind rt_dd_exp. */
#ifndef RT_NUMBER_DD_EXP_H
#define RT_NUMBER_DD_EXP_H

#include <stdint.h>

void rt_dd_exp_plain(const double *y_hi, const double *y_lo, double *p_hi, double *p_lo, int64_t n);
#if defined(__x86_64__)
#define RT_DD_AVX 1
void rt_dd_exp_avx2(const double *y_hi, const double *y_lo, double *p_hi, double *p_lo, int64_t n);
void rt_dd_exp_avx512(const double *y_hi, const double *y_lo, double *p_hi, double *p_lo, int64_t n);
#endif

#endif
