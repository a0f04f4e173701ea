/* The sweep's loops over a row of n elements. */
#ifndef RT_JUDGE_SWEEP_VECTOR_H
#define RT_JUDGE_SWEEP_VECTOR_H

#include "arithmetic/block.h"

/* The elementwise loops are compiled for AVX2 and AVX-512 too and chosen at run time; the operations, and so the bits, are the same:
 * sums over a row are taken in eight lanes, the rest of a row in the first. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&   \
    !defined(__SANITIZE_THREAD__)
#define RT_SWEEP_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define RT_SWEEP_WIDE
#endif

/* The sum of eight lanes. */
static inline double rt_sweep_lanes(const double x[8])
{
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}
/* x[j] = x[j] - top where vis[j] > 0, else -infinity. */
void rt_sweep_shift(int64_t n, double top, const double *vis, double *x);
/* y = x^2; y may be x */
void rt_sweep_square(int64_t n, const double *x, double *y);
/* out = elements at .. at + n - 1 of the one that is there. */
void rt_sweep_widen(const double *wide, const float *narrow, int64_t at, int64_t n, double *out);
/* ||x|| and ||x^2|| of a row. */
void rt_sweep_norms(const double *x, int64_t n, double *norm1, double *norm2);

/* A sum has grown by a block: top[d] = max(top[d], |x[d]|).  A partial has ended: T = x - prev goes to
 * t_abs, t_sq. */
void rt_sweep_grow(int64_t n, const double *x, double *top);
void rt_sweep_close_partial(int64_t n, const double *x, double *prev, double *t_abs, double *t_sq);

/* vis[k] = 1.0 where lo <= pos[k] < hi, else 0.0. */
void rt_sweep_inside(int64_t lo, int64_t hi, const int64_t *pos, int64_t n, double *vis);
/* What the row does not see (vis 0) becomes -infinity; the maximum of it and `top`. */
double rt_sweep_top(int64_t n, double top, const double *vis, double *row);
double rt_sweep_sum(int64_t n, const double *row);
double rt_sweep_dot(int64_t n, const double *x, const double *y);
/* c^2 / v; and the sum of them over a row. */
static inline double rt_sweep_over(double c, double v)
{
    return v > 0x1p-900 ? c * c / v : c > 0 ? RT_INF : 0; /* below, the squares may have underflowed */
}
double rt_sweep_sum_over(int64_t n, const double *c, const double *v);

/* One row's weights p, from exponentials, and the readings of their errors. */
typedef struct {
    double p, rho, rho2, var, sys, sys2, var_max, w_max, rho_max; /* rho_max: of its linear part */
} rt_weight_sums;

rt_weight_sums rt_sweep_weights(int64_t n, double l, double top, double u, double u2, double det0,
                                double var0, double sys0, const double *score, const double *s_det,
                                const double *s_var, const double *s_sys, double *p);

#endif
