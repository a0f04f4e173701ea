/* The gradients of what joins the scores: dSink and dBias.  Both are sums over rows, which the sweep of a (batch, key
 * head) pair has in its records; the sums of the pairs meet on process 0. */
#ifndef RT_JUDGE_SWEEP_GRADIENTS_H
#define RT_JUDGE_SWEEP_GRADIENTS_H

#include "judge/sweep.h"

struct rt_truths; /* truth.h */

/* What n terms added in any order and in `parts` parts (by rank, by kernel call) add to det and var; abs, sq: sums of
 * their moduli and squares; t_abs, t_sq: of the parts'. */
void rt_sum_of_parts(const rt_budget *b, rt_dtype format, double value, double n, double abs, double sq,
                     double parts, double t_abs, double t_sq, double *det, double *var);

/* Of one (batch, query head): - sum exp(sink - L) delta, its readings, and what its rounding takes. */
typedef struct {
    double value, det, var, sys, abs, sq, t_abs, t_sq;
    double exact[3]; /* the value as hi, lo, its error; NaN: not computed */
    int64_t parts, rows;
    uint8_t bad;
    bool open; /* binary64 does not know a row's weights */
} rt_sink_sums;

/* The pair in hand, all of whose row records are filled: sums[h] of its heads. */
void rt_sink_share(const rt_sweep *s, const rt_layout_side *side, rt_sink_sums *sums);
/* mine: (B, Hq), those of the pairs that this process swept.  Collective; process 0 judges. */
rt_status rt_sink_judge(rt_context *ctx, rt_comm *comm, rt_sweep *s, const rt_sink_sums *mine,
                        int32_t ranks, rt_sweep_work *w, rt_certificate *certificate) RT_NODISCARD;

/* The sums of dBias: arrays of (heads, rows, Sk), one after the other. */
typedef struct {
    bool by_query, shared;           /* rows are queries; an element has terms of several pairs */
    int64_t heads, rows, sums, size; /* of the pair: heads, rows; arrays; doubles of one array */
    int64_t
        plain; /* arrays of binary64; then, if sums is larger, three of the exact values: hi, lo, error */
    double *pair, *total; /* sums arrays of size; total: of the whole bias, on process 0 where shared */
    int64_t total_size;
    rt_cut sample;              /* queries, where they are others than s->queries: then its own */
    rt_certificate certificate; /* of the elements judged here */
} rt_bias_sums;

/* Whether each element has terms of one query and one pair alone: then a sample of rows can be judged. */
bool rt_bias_by_row(const rt_problem *p);
/* rows: queries of a pair that are judged, where the bias has rows of queries. */
rt_status rt_bias_create(rt_context *ctx, rt_comm *comm, const rt_sweep *s, int64_t rows, bool exact,
                         rt_bias_sums *x) RT_NODISCARD;
void rt_bias_reset(rt_bias_sums *x);
/* Sum over the pair in hand; judges what is complete with it.  t: the exact truths of its rows, or NULL. */
rt_status rt_bias_pair(rt_context *ctx, rt_sweep *s, rt_bias_sums *x, struct rt_truths *t,
                       rt_sweep_work *work) RT_NODISCARD;
/* Shared: the pairs of a round, pair `first` of process 0, the next of process 1, .., are added in this order. */
rt_status rt_bias_collect(rt_context *ctx, rt_comm *comm, const rt_sweep *s, int64_t first,
                          rt_bias_sums *x) RT_NODISCARD;
/* Shared: process 0 judges. */
rt_status rt_bias_judge(rt_context *ctx, rt_comm *comm, rt_sweep *s, rt_bias_sums *x,
                        rt_sweep_work *work) RT_NODISCARD;

#endif
