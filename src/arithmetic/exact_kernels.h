/* Elementwise passes of the exact arithmetic over a row of n keys, in double-double, for the processor at hand; every instruction
 * set gives the same bits.  "Units": a product of slices is an integer; a row's and a key's power of two scale it. */
#ifndef RT_ARITHMETIC_EXACT_KERNELS_H
#define RT_ARITHMETIC_EXACT_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

enum { RT_P_BITS = 25 }; /* of the leading slice of a probability */

typedef struct {
    /* (hi, lo) = (s0 + s1 down + s2 down^2) key_scale row_scale + extra, normalised; s1, s2, extra may be NULL.  Returns the largest hi
     * where vis is not 0 (NULL: everywhere), -infinity if nowhere. */
    double (*scores)(int64_t n, const double *s0, const double *s1, const double *s2, double down,
                     const double *key_scale, double row_scale, const double *extra, const double *vis,
                     double *hi, double *lo);
    /* (hi, lo) <- y = alpha (hi, lo) + add (NULL: 0), and with cap > 0 then cap tanh(y / cap), inverse = 1 / cap; slope (NULL: not wanted):
     * 1 - tanh^2, where there is a cap. */
    void (*bend)(int64_t n, const double alpha[2], const double *add_hi, const double *add_lo, double cap,
                 const double inverse[2], double *hi, double *lo, double *slope_hi, double *slope_lo);
    /* p = exp(alpha (hi, lo) - shift) vis, cut at 2^-25: p = (p1 + p2) 2^-25, p1 an integer, |p2| <= 0.51.  sums: of p1, of p2. */
    void (*probabilities)(int64_t n, const double *hi, const double *lo, const double alpha[2],
                          const double shift[2], const double *vis, double *p1, double *p2, double sums[2]);
    /* The same, whole: p as double-double. */
    void (*weights)(int64_t n, const double *hi, const double *lo, const double alpha[2],
                    const double shift[2], const double *vis, double *p_hi, double *p_lo);
    /* ds = p (dp - delta).  Added to: col_ds[j] |ds|, col_p[j] p, row[0] sum |ds|, row[1] sum p; raised: top_ds[j], top_p[j], row[2] to the
     * largest |ds|, p, |ds|.  (Leading parts only: for bounds and scales.) */
    void (*gradient)(int64_t n, const double *p_hi, const double *p_lo, const double *dp_hi,
                     const double *dp_lo, const double delta[2], double *ds_hi, double *ds_lo,
                     double *col_ds, double *col_p, double *top_ds, double *top_p, double row[3]);
    /* (hi, lo) 2^25 / top_j = a1 + a2, a1 an integer: scale[j] = 2^25 / top_j, a power of two, per element. */
    void (*cut)(int64_t n, const double *hi, const double *lo, const double *scale, double *a1, double *a2);
    /* acc += (big + small) scale row_scale, scale per element; big an integer, small rounded. */
    void (*accumulate)(int64_t n, const double *big, const double *small, const double *scale,
                       double row_scale, double *acc_hi, double *acc_lo);

    /* Sums for checks of products, in any order: the caller knows that they are exact, or bounds their rounding.
     * out[i] = sum over x of op(A)(i, x), A (rows, inner); trans: stored (inner, rows). */
    void (*sum_rows)(bool trans, int64_t rows, int64_t inner, const double *a, int64_t lda, double *out);
    /* high[i], low[i] = sum over x of op(A)(i, x) w[x] for w = w_high, w_low; w_low (and low) may be NULL. */
    void (*times)(bool trans, int64_t rows, int64_t inner, const double *a, int64_t lda,
                  const double *w_high, const double *w_low, double *high, double *low);
    /* Row and column sums of C (m, n), each in a high part (of multiples of 2^27) and a low part. */
    void (*sums_apart)(int64_t m, int64_t n, const double *c, int64_t ldc, double *row_high,
                       double *row_low, double *column_high, double *column_low);
    /* Row and column sums of |A|, A (rows, inner). */
    void (*sums_abs)(int64_t rows, int64_t inner, const double *a, int64_t lda, double *row,
                     double *column);
} rt_exact_kernels;

const rt_exact_kernels *rt_exact_kernels_here(void);

extern const rt_exact_kernels rt_exact_kernels_plain;
#if defined(__x86_64__)
#define RT_EXACT_AVX 1
extern const rt_exact_kernels rt_exact_kernels_avx2, rt_exact_kernels_avx512;
#endif

#endif
