/* Samples of rows and keys, what they cost, and what a sampled backward takes from the dump. */
#ifndef RT_JUDGE_SAMPLE_H
#define RT_JUDGE_SAMPLE_H

#include "judge/sweep.h"

/* n distinct positions of one side, ascending: one from each of n equal runs of the slots, rank after rank, so that ranks, halves and
 * documents are all visited; chosen by (seed, side, b, g). */
void rt_sample_positions(const rt_layout_side *side, int64_t n, uint64_t seed, int which, int64_t b,
                         int64_t g, int64_t *out);
/* Blocks of such a list (ascending positions). */
rt_status rt_cut_from_list(rt_context *ctx, const int64_t *positions, int64_t n, int64_t block,
                           rt_cut *out) RT_NODISCARD;

/* Nanoseconds per (row, key) pair of one head, all threads together: of rows, of keys, of their exact truths.  Measured on the first tokens
 * of this problem's first head. */
typedef struct {
    double rows, keys, exact_rows, exact_all;
} rt_cost;
rt_status rt_judge_cost(rt_context *ctx, const rt_sweep *like, rt_sweep_work *work,
                        rt_cost *out) RT_NODISCARD;

/* A sampled backward takes the records of rows from the dump's own lse and out, with the bounds of the sampled rows (in `queries`) carried
 * along: the largest of lse's, and of delta's in units of ||dO||. */
typedef struct {
    double det_l, var_l, sys_l, det_d, var_d, sys_d;
} rt_given;
/* The worst of the sampled rows, whose records are those of rt_sweep_rows; q_max and g_max begin at 0. */
rt_given rt_given_begin(rt_sweep *s);
/* The record of row i of query head h, whose q and dO are q and dout, 0 where they are not finite (bad).  seen: some sampled key lies in
 * its reach; then q_max and g_max grow.  out: room for Dv. */
void rt_given_row(const rt_sweep *s, const rt_given *worst, int64_t h, int64_t i, const double *q,
                  const double *dout, bool bad, bool seen, double *out, double *q_max, double *g_max);
/* All rows of the pair, by all threads. */
rt_status rt_given_records(rt_context *ctx, rt_sweep *s) RT_NODISCARD;

#endif
