/* The vector kernels behind rt_exp_vector and rt_tanh_vector; each file is compiled for its own instruction set. */
#ifndef RT_ARITHMETIC_EXP_H
#define RT_ARITHMETIC_EXP_H

#include <stdint.h>

#if defined(__x86_64__)
#define RT_EXP_AVX 1
void rt_exp_avx2(double *x, int64_t n);
void rt_exp_avx512(double *x, int64_t n);
void rt_tanh_avx2(double *x, int64_t n);
void rt_tanh_avx512(double *x, int64_t n);
#endif

#endif
