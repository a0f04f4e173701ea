/* Exact truths of one (batch, key head) for the sweep. */
#ifndef RT_JUDGE_TRUTH_H
#define RT_JUDGE_TRUTH_H

#include "arithmetic/exact.h"
#include "judge/sweep_gradients.h"

/* Memory for the exact truths of a pair: rows of `queries`, and (whole) of all keys. */
typedef struct rt_truths {
    double *x_out, *x_lse, *x_dq, *x_dk, *x_dv; /* as in the sweep */
    double *open;                               /* n x 3, then Sk x 2 */
    double *q, *row;                            /* (heads of the group, n, D), DO parts of the same rows */
    bool whole;                                 /* dk, dv too: queries are all there are */
    rt_certificate certificate[RT_TENSOR_COUNT];
    int64_t products[2];
} rt_truths;

rt_status rt_truths_create(rt_context *ctx, const rt_sweep *s, bool whole, rt_truths *t) RT_NODISCARD;
void rt_truths_reset(rt_truths *t);
/* Fill them for the pair in hand (s->b, s->g, s->k, s->v) and point the sweep at them. */
rt_status rt_truths_compute(rt_context *ctx, rt_sweep *s, rt_truths *t) RT_NODISCARD;

/* The parts of DO that row i of queries.order has in head hl of the group. */
void rt_truths_rows(const rt_sweep *s, const rt_truths *t, int64_t hl, rt_part row[RT_EXACT_DO]);
/* The double next to hi whose rounding to a format is `rounded`. */
double rt_truth_settle(rt_dtype format, double hi, double rounded);

/* truth_scores.c: the sinks' shares of all rows of the pair in hand, into sums[h].exact of its heads. */
void rt_truth_sink(const rt_sweep *s, const rt_truths *t, rt_sink_sums *sums);
/* dS of the rows in hand into the exact sums of x->pair, which are 0 before. */
rt_status rt_truth_bias(rt_context *ctx, rt_sweep *s, rt_truths *t, rt_bias_sums *x) RT_NODISCARD;
/* An element's truth and bounds from its exact sum (hi, lo, error): false, and binary64's stay, where that is NaN, or its error infinite.  top: the
 * largest result of its row; where: its place. */
bool rt_truth_element(rt_exact_factor f, rt_dtype format, const double sum[3], double top,
                      const rt_undecided *where, double *truth, rt_bounds *bounds,
                      rt_certificate *certificate);

#endif
