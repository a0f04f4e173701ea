/* How fast the BLAS in use multiplies: what the arithmetics' speed is compared with. */
#ifndef RT_ARITHMETIC_BLAS_RATE_H
#define RT_ARITHMETIC_BLAS_RATE_H

#include <ringtrue/arithmetic.h>

/* Two n x n factors and a product; binary32 or binary64.  rt_blas_rate_reset frees. */
typedef struct {
    int64_t n;
    float *s;  /* 3 n^2, or NULL */
    double *d; /* the same */
} rt_blas_rate;

rt_status rt_blas_rate_create(rt_context *ctx, int64_t n, bool single, rt_blas_rate *out) RT_NODISCARD;
void rt_blas_rate_reset(rt_blas_rate *r);
/* One product (2 n^3 operations) on all threads: its wall time in seconds. */
double rt_blas_rate_once(const rt_blas_rate *r);

#endif
