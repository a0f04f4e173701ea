/* Rows of a problem in MPFR, for what the double-double pass left open. */
#ifndef RT_ARITHMETIC_EXACT_MPFR_H
#define RT_ARITHMETIC_EXACT_MPFR_H

#include <mpfr.h>

#include "arithmetic/exact.h"

enum { RT_EXACT_BITS = 4400 }; /* holds any sum of products of doubles; inputs of 32 bits need 700 */

typedef struct {
    int64_t n;         /* visible keys */
    int64_t *key;      /* their positions */
    mpfr_t *score;     /* q.k, exact */
    double *v;         /* (n, Dv) */
    int64_t *class_of; /* by equal scores; ascending from 0 */
    int64_t classes;
} rt_mpfr_row;

rt_status rt_mpfr_row_load(rt_context *ctx, const rt_exact_source *s, int64_t b, int64_t h, int64_t pos,
                           rt_mpfr_row *r) RT_NODISCARD;
void rt_mpfr_row_reset(rt_mpfr_row *r);
/* out = a.b, each addition rounded to out's precision; term: 110 bits. */
void rt_mpfr_dot(mpfr_t out, mpfr_t term, const double *a, const double *b, int64_t n);
void rt_mpfr_scale(mpfr_t x, const rt_problem *p);
/* w[j] = exp(scale (score_j - largest)), their sum, shift = scale * largest; returns the largest |scale (score_j - largest)|. */
double rt_mpfr_weights(const rt_problem *p, const rt_mpfr_row *r, mpfr_t *w, mpfr_t sum, mpfr_t alpha,
                       mpfr_t shift);
/* The rounding of x with error at most r; exact: r = 0, and ties go to even.  False: undecided. */
bool rt_mpfr_decide(rt_dtype format, const mpfr_t x, const mpfr_t r, bool exact, double *out);

/* out = scale * score (2 RT_EXACT_BITS wide); whether that is exact. */
bool rt_mpfr_scaled(const rt_problem *p, const mpfr_t score, mpfr_t out);
/* The highest class's own O_d, or L, is a midpoint of the format, and the others, however small, decide on which side of it the
 * result lies: whether that was the case and could be told.  No precision within reach would show a weight of exp(-100000). */
bool rt_mpfr_leading_output(const rt_problem *p, const rt_mpfr_row *r, int64_t d, rt_dtype format,
                            double *out);
bool rt_mpfr_leading_lse(const rt_problem *p, const rt_mpfr_row *r, rt_dtype format, double *lse);

#endif
