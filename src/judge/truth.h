/* Exact truths of one (batch, key head) for the sweep. */
#ifndef RT_JUDGE_TRUTH_H
#define RT_JUDGE_TRUTH_H

#include "arithmetic/exact.h"
#include "judge/sweep.h"

/* Memory for the exact truths of a pair: rows of `queries`, and (whole) of all keys. */
typedef struct {
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

#endif
