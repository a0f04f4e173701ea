/* referee.h: attention and its gradients by brute force in MPFR.  It shares no code with the library: its
 * own masks, its own rounding to every format; of the library's headers it takes types only. */
#ifndef RT_TESTS_REFEREE_H
#define RT_TESTS_REFEREE_H

#include <stdio.h>

#include <mpfr.h>

#include <ringtrue/ringtrue.h>

/* Inputs, dense (B, S, H, width) by original position; indexed by RT_Q, RT_K, RT_V, RT_DOUT (NULL: no
 * gradients). */
typedef struct {
    const rt_problem *p;
    const double *x[RT_DOUT + 1];
} referee_inputs;

/* Results as MPFR numbers of `bits` bits, (B, S, H, width), lse with width 1, dsink (Hq), dbias of the bias's own
 * shape, each with the sum of the moduli of what was added up to it.  seen: keys of each row of lse, and the sink. */
typedef struct {
    mpfr_prec_t bits;
    double spread; /* largest |score - largest of its row| */
    double finest; /* -log2 of the smallest one that is not 0, or 0 */
    int64_t n[RT_RESULT_COUNT];
    mpfr_t *value[RT_RESULT_COUNT], *mass[RT_RESULT_COUNT];
    int64_t *seen;
} referee_truth;

void referee_evaluate(const referee_inputs *in, mpfr_prec_t bits, referee_truth *out);
void referee_reset(referee_truth *t);

/* x rounded to nearest even in a format; a number within `tolerance` of a midpoint is one.  False, if doubt
 * is not NULL and x is that near: *doubt is set.  Zeros are +0. */
double referee_round(rt_dtype format, const mpfr_t x, const mpfr_t tolerance, bool *doubt);
/* The same of a double, which is itself. */
double referee_round_d(rt_dtype format, double x);

/* Every result rounded once; got[RT_LSE], got[RT_OUT] and, with dout, got[RT_DQ..RT_DV], and got[RT_DSINK] and
 * got[RT_DBIAS] where the problem has them, are filled. Returns
 * how many elements were taken for exact ties or exact zeros at the high precision.  Where a spread beyond
 * 20,000, or scores that a softcap presses together to 2^-12,000, could hide what breaks a tie, the element is REFEREE_UNKNOWN, a NaN of its own. */
#define REFEREE_UNKNOWN UINT64_C(0x7ff8000000dead00)
int64_t referee_results(const referee_inputs *in, rt_dtype format, rt_dtype lse_format,
                        double *const got[RT_RESULT_COUNT]);

/* Sizes of a tensor: rows in all, and elements of a row. */
int64_t referee_rows(const rt_problem *p, rt_tensor_id t);
int64_t referee_width(const rt_problem *p, rt_tensor_id t);

#endif
