/* Error-free slices: matrices of integers held in doubles, whose products any dgemm gets exactly right, in any order, with or
 * without fma, because every partial sum is an integer of at most 53 bits (Ozaki's scheme).
 *
 * A row x with |x_d| < 2^E is written as x = 2^(E - b) (i0 + 2^-b i1 + 2^-2b i2 + ..), integers |i| <= 2^b; what is left after
 * the last slice is kept as a list of single elements where that is short, else its size enters the error bound. */
#ifndef RT_ARITHMETIC_SLICES_H
#define RT_ARITHMETIC_SLICES_H

#include <ringtrue/arithmetic.h>

enum { RT_MAX_SLICES = 3 };

/* One element of a remainder: row i, column d, value in natural units. */
typedef struct {
    int32_t row, column;
    double value;
} rt_tail;

/* rows x width doubles, row-major and dense. */
typedef struct {
    int64_t rows, width;
    int bits;                     /* b */
    int count;                    /* slices in use, 1 .. RT_MAX_SLICES */
    double *slice[RT_MAX_SLICES]; /* (rows, width) integers */
    double *scale;                /* 2^(E - b): of each row, or of each column */
    bool by_column;
    rt_tail *tail; /* ascending by row */
    int64_t tails, tail_capacity;
    double left; /* largest |remainder| / 2^E that is in no slice and no tail: an error */
    double *store;
    int64_t capacity;
} rt_slices;

rt_status rt_slices_reserve(rt_context *ctx, rt_slices *s, int64_t rows, int64_t width) RT_NODISCARD;
void rt_slices_reset(rt_slices *s);
/* Cut x (rows, width; row stride ld); finite values. */
void rt_slices_cut(rt_slices *s, const double *x, int64_t ld, int64_t rows, int64_t width, int bits,
                   bool by_column);
/* Bits b with inner 2^(2b) <= 2^53, or for a left factor of `left` bits: inner 2^(left + b) <= 2^53. */
int rt_slices_bits(int64_t inner, int left);

/* The dgemm behind the exact products: row-major; a test puts a wrong one in its place. */
typedef void (*rt_gemm_fn)(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a, int64_t lda,
                           const double *b, int64_t ldb, double *c, int64_t ldc);
void rt_gemm_plain(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a, int64_t lda,
                   const double *b, int64_t ldb, double *c, int64_t ldc);
void rt_gemm_openblas(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a, int64_t lda,
                      const double *b, int64_t ldb, double *c, int64_t ldc);

/* What a worker needs to take products from a BLAS and not trust it. */
typedef struct {
    rt_gemm_fn gemm;
    int64_t products, wrong; /* taken; found wrong by a checksum and computed again by plain loops */
    double *sums;            /* scratch, 9 * RT_CHECK_MAX */
} rt_checked_gemm;
enum { RT_CHECK_MAX = 4096 }; /* no dimension of a checked product is larger */

/* C = op(A) op(B), integers; inner * max|a| * max|b| <= 2^53 is the caller's proof.  Row and column sums of C are compared with
 * those of the factors, exactly; a mismatch is counted and C computed again without the BLAS. */
void rt_gemm_exact(rt_checked_gemm *g, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a,
                   int64_t lda, const double *b, int64_t ldb, double *c, int64_t ldc);
/* C = op(A) op(B) rounded.  Every element is right to the returned bound (rounding, and what the sums would not show);
 * a_max, b_max bound the moduli. */
double rt_gemm_rounded(rt_checked_gemm *g, bool ta, bool tb, int64_t m, int64_t n, int64_t k,
                       const double *a, int64_t lda, const double *b, int64_t ldb, double *c, int64_t ldc,
                       double a_max, double b_max);

#endif
