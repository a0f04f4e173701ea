/* Rows of a problem in MPFR, for what the double-double pass left open. */
#ifndef RT_ARITHMETIC_EXACT_MPFR_H
#define RT_ARITHMETIC_EXACT_MPFR_H

#include <mpfr.h>

#include "arithmetic/exact.h"

enum { RT_EXACT_BITS = 4400 }; /* holds any sum of products of doubles; inputs of 32 bits need 700 */

typedef struct {
    const rt_problem *p;
    int64_t head;
    int64_t n;     /* visible keys, and the sink after them */
    int64_t *key;  /* their positions, ascending; -1: the sink */
    mpfr_t *score; /* q.k, exact; the sink's is 0 */
    mpfr_t
        *add;  /* alibi + bias, exact; the sink's logit; NULL: scores are not bent, and there is no sink */
    double *v; /* (n, Dv); 0 where dropped, and of the sink */
    int64_t *class_of; /* by equal scores; ascending from 0 */
    int64_t classes;
    int64_t top; /* a key of the highest class */
} rt_mpfr_row;

rt_status rt_mpfr_row_load(rt_context *ctx, const rt_exact_source *s, int64_t b, int64_t h, int64_t pos,
                           rt_mpfr_row *r) RT_NODISCARD;
void rt_mpfr_row_reset(rt_mpfr_row *r);
/* out = a.b, each addition rounded to out's precision; term: 110 bits. */
void rt_mpfr_dot(mpfr_t out, mpfr_t term, const double *a, const double *b, int64_t n);
void rt_mpfr_scale(mpfr_t x, const rt_problem *p);
/* w[j] = exp(z_j - z_top), their sum, shift = z_top.  Returns a size: every weight is right to (4 size + 4) units of the last place, z_top
 * absolutely to 4 of them times |z_top| + *shift_size; infinite where the precision does not do. */
double rt_mpfr_weights(const rt_mpfr_row *r, mpfr_t *w, mpfr_t sum, mpfr_t alpha, mpfr_t shift,
                       double *shift_size);

/* Whether exp(y), y a gap with rt_mpfr_gap's number off, is 0 to any precision in use. */
bool rt_mpfr_vanishes(const rt_mpfr_row *r, const mpfr_t y, double off);

/* exact_mpfr_score.c: scores z, bent as the problem says.  alpha has the precision of out. */
bool rt_mpfr_bends(const rt_problem *p);
/* out = alibi + bias of a pair, exactly, in RT_EXACT_BITS. */
void rt_mpfr_added(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t j, mpfr_t out);
/* class_of, classes and top. */
rt_status rt_mpfr_classes(rt_context *ctx, rt_mpfr_row *r) RT_NODISCARD;
/* out = z_j, z_j - z_k; within 4 units of the last place of the number returned. */
double rt_mpfr_value(const rt_mpfr_row *r, int64_t j, const mpfr_t alpha, mpfr_t out);
double rt_mpfr_gap(const rt_mpfr_row *r, int64_t j, int64_t k, const mpfr_t alpha, mpfr_t out);
/* out = 1 - tanh^2 of a softcap, relative error within 4 units of the last place times what is returned. */
double rt_mpfr_slope(const rt_mpfr_row *r, int64_t j, const mpfr_t alpha, mpfr_t out);
/* out = z_j exactly, in 2 RT_EXACT_BITS; false: it is no binary fraction. */
bool rt_mpfr_exact_value(const rt_mpfr_row *r, int64_t j, mpfr_t out);

/* The rounding of x with error at most r; exact: r = 0, and ties go to even.  False: undecided. */
bool rt_mpfr_decide(rt_dtype format, const mpfr_t x, const mpfr_t r, bool exact, double *out);

/* Narrow what x, with an error of r at most, lies between; r is NaN where a precision says nothing. */
void rt_mpfr_narrow(rt_interval *between, const mpfr_t x, const mpfr_t r);

/* out = scale * score (2 RT_EXACT_BITS wide); whether that is exact. */
bool rt_mpfr_scaled(const rt_problem *p, const mpfr_t score, mpfr_t out);
/* The highest class's own O_d, or L, is a midpoint of the format, and the others, however small, decide on which side of it the
 * result lies: whether that was the case and could be told.  No precision within reach would show a weight of exp(-100000). */
bool rt_mpfr_leading_output(const rt_mpfr_row *r, int64_t d, rt_dtype format, double *out);
bool rt_mpfr_leading_lse(const rt_mpfr_row *r, rt_dtype format, double *lse);

#endif
