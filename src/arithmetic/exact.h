/* Arithmetic exact, inside: a value in double-double with a bound of its error, from products that are exact and checked.
 *
 *  scores   q.k from integer slices: exact but for what slices.h leaves (err_s below);
 *  p        exp(alpha s - m) to 2^-72 relative, cut at 2^-25: its leading integer slice times V's slices is exact, the rest (below
 *           2^-25 of the largest weight) times V is rounded, which costs 2^-70 and less;
 *  sums     double-double.
 * Every row carries its error bounds with it (parts below), through joins and over the wire, so that the last step can tell whether the
 * rounding of the result is certain (Ziv's test); what is not goes to MPFR (exact_mpfr.c).
 *
 *  STATE  acc_hi[Dv] acc_lo[Dv] e_acc[Dv] m l_hi l_lo e_l   errors absolute
 *  DO     dout[Dv] L_hi L_lo e_L delta_hi delta_lo e_delta  L = m + ln l: P = exp(alpha s - L); e_L its absolute error
 *  DQ     hi[D] lo[D] e[D]                                  before the factor scale; where dBias is a result also
 *         b_hi[Sk] b_lo[Sk] b_e[Sk]
 *         (delta and all gradients before the division by keep, with dropout)
 *  DKV    k_hi[D] k_lo[D] k_e[D] v_hi[Dv] v_lo[Dv] v_e[Dv]  dK before the factor scale
 */
#ifndef RT_ARITHMETIC_EXACT_H
#define RT_ARITHMETIC_EXACT_H

#include "arithmetic/block.h"
#include "arithmetic/exact_kernels.h"
#include "arithmetic/slices.h"
#include "number/dd.h"

#include <ringtrue/tensor.h>

enum { RT_EXACT_STATE = 7, RT_EXACT_DO = 7, RT_EXACT_DQ = 3, RT_EXACT_DKV = 6 };

/* The score scale as double-double, and the relative error of that (0 where it is exact). */
rt_dd rt_exact_scale(const rt_problem *p, double *error);

/* Inputs (and a scale) beyond this, which only binary64 has, would overflow on the way.  A row that meets one has m = +infinity in its
 * STATE and L = +infinity in its DO, and infinite errors in the gradients that it reaches: MPFR computes these. */
#define RT_EXACT_RANGE 0x1p300
/* A row whose largest score (scaled) is beyond this is out of range too: the score minus its rounding to m must be far below 1. */
#define RT_EXACT_TOP 0x1p40

/* A dense copy of rows in which what is not finite or out of range is 0; flags by row; whether any is set. */
bool rt_exact_clean(const double *x, int64_t n, int64_t width, int64_t stride, bool *bad, bool *far,
                    double *out);

/* One (batch, key head)'s keys of a tile, cut. */
typedef struct {
    rt_slices k, v, kc;  /* K by key; V by column; K by column (backward: dQ = dS K) */
    bool *k_bad, *v_bad; /* what is not finite: cut as zero, answered for by its flag */
    bool *k_far, *v_far; /* finite, but beyond RT_EXACT_RANGE: the same */
    bool any_bad;        /* any of these */
    double *clean;       /* (n, D + Dv) K then V with what is not finite replaced by 0 */
    double *v_scaled;    /* (n, Dv) V / column scale */
    int64_t n;
    double *kc_scaled; /* (n, D) K / column scale, backward */
} rt_exact_keys;

rt_status rt_exact_keys_reserve(rt_context *ctx, rt_exact_keys *x, const rt_problem *p, int64_t n,
                                bool backward) RT_NODISCARD;
void rt_exact_keys_reset(rt_exact_keys *x);
void rt_exact_keys_cut(rt_exact_keys *x, const rt_problem *p, const double *k, const double *v, int64_t n,
                       bool backward);

/* Exact-or-nearly scores of rows against keys key0 .. key0 + nk - 1, as (hi, lo) matrices with row stride RT_BLOCK_K; q cut by row.
 * top[i]: largest visible hi.  Returns a bound of the error of every score. */
typedef struct {
    double *s[3], *hi, *lo, *extra; /* (RT_BLOCK_Q, RT_BLOCK_K) each */
    double *vis;                    /* RT_BLOCK_K */
} rt_exact_scores;

/* C = A B^T of two cut matrices (rows of each), into x->hi, x->lo. */
double rt_exact_products(rt_checked_gemm *g, const rt_exact_kernels *f, const rt_slices *a, int64_t na,
                         const rt_slices *b, int64_t b0, int64_t nb, const double *b_values,
                         const double *a_values, rt_exact_scores *x);

/* big + small = op(A) B in units: A = a1 + a2 (m, k; trans: stored (k, m)), a1 integers of RT_P_BITS, |a2| <= 0.51 rounded to 2^-53
 * (not used if !rounded: it is zero); B the rows b0 .. b0 + k - 1 of a matrix cut by column, b_scaled the same divided by the columns'
 * scales.  more: scratch (m, n).  Returns a bound of the error of an element of big + small. */
double rt_exact_apply(rt_checked_gemm *g, bool trans, int64_t m, int64_t n, int64_t k, const double *a1,
                      const double *a2, int64_t lda, const rt_slices *b, int64_t b0, const double *b_scaled,
                      bool rounded, double *big, double *small, double *more);

/* What joins and bends the scores: s = alpha q.k + alibi + bias, then softcap.  A row's (hi, lo) become these, in natural units. */
typedef struct {
    const rt_problem *p;
    bool any;   /* alibi, bias or softcap */
    bool hides; /* a bias of -infinity may hide a pair */
    bool drops;
    rt_dd inverse; /* 1 / softcap */
} rt_exact_bend;
void rt_exact_bend_init(const rt_problem *p, rt_exact_bend *x);
/* The visible keys of n (vis: NULL, all) without those that the bias of row i hides; store: n. */
const double *rt_exact_hide(const rt_exact_bend *x, int64_t b, int64_t h, int64_t i, const int64_t *k_pos,
                            int64_t n, const double *vis, double *store);
static inline bool rt_exact_hidden(const rt_exact_bend *x, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return x->hides && rt_is_minus_inf(rt_score_bias(x->p, b, h, i, j));
}
/* (hi, lo), q.k with an error of err_s, become the scores; returns the bound of their error.  add: scratch, 3 n; slope: NULL, or 2 n for
 * 1 - tanh^2 (hi, lo), whose relative error is below *slope_error (with softcap only).  *far is set for a row that is out of range. */
double rt_exact_bend_row(const rt_exact_bend *x, const rt_exact_kernels *f, int64_t b, int64_t h, int64_t i,
                         const int64_t *k_pos, int64_t n, rt_dd alpha, double alpha_error, double err_s,
                         const double *vis, double *hi, double *lo, double *add, double *slope,
                         double *slope_error, bool *far);
/* keep[k], and 0 in both rows where a key is dropped. */
void rt_exact_drop(const rt_exact_bend *x, int64_t b, int64_t h, int64_t i, const int64_t *k_pos, int64_t n,
                   uint8_t *keep, double *a, double *c);
/* 1 - dropout, by which O, the gradients and delta are divided in the last step: until then they are in units of 1 / keep. */
rt_dd rt_exact_keep(const rt_problem *p);
/* to <- a row's state with the sink of head h joined; store: 2 (3 Dv + 4). */
void rt_exact_sink(const rt_problem *p, int64_t h, const double *const state[RT_EXACT_STATE], double *store,
                   double *to[RT_EXACT_STATE]);

/* What the backward of a tile reads and adds to, beyond the forward's. */
typedef struct {
    const rt_part *q, *k, *v;
    const rt_part *row; /* DO: RT_EXACT_DO parts */
    /* RT_EXACT_DQ, RT_EXACT_DKV parts; either may be NULL: not wanted (then for finite inputs only) */
    const rt_part *dq, *dkv;
    const rt_part *dbias; /* NULL, or three parts of DQ */
    bool fresh_q, fresh_kv;
} rt_exact_grads;

/* Tiles; b0: the batch of the problem that the parts' first stands for. */
rt_status rt_exact_backward_tile(rt_context *ctx, const rt_problem *p, int64_t b0, int64_t n_q,
                                 const int64_t *q_pos, int64_t n_kv, const int64_t *k_pos, int64_t head0,
                                 int64_t head1, const rt_exact_grads *x, rt_gemm_fn gemm, int64_t counts[2],
                                 void (*poke)(void *), void *poke_arg) RT_NODISCARD;

rt_status rt_exact_forward_tile(rt_context *ctx, const rt_problem *p, int64_t b0, int64_t n_q,
                                const int64_t *q_pos, int64_t n_kv, const int64_t *k_pos, int64_t head0,
                                int64_t head1, const rt_part *q, const rt_part *k, const rt_part *v,
                                const rt_part state[RT_EXACT_STATE], bool fresh, rt_gemm_fn gemm,
                                int64_t counts[2], void (*poke)(void *), void *poke_arg) RT_NODISCARD;

/* What a weight below e^-600 (taken as 0) can amount to, times any finite v of 32 bits and any number of keys. */
#define RT_EXACT_FLOOR 0x1p-600

/* Ziv's test: the value of `format` nearest to hi + lo, if no number within r of it rounds to another; zeros are +0, what overflows is an
 * infinity (NaN in e4m3).  False: undecided. */
bool rt_exact_decide(rt_dtype format, double hi, double lo, double r, double *out);
/* The candidate for a number near x and the distances to its neighbours, below and above (twice those to the midpoints). */
void rt_exact_candidate(rt_dtype format, double x, double *value, double *gap_below, double *gap_above);

/* Where the rows of a problem come from, for what must be computed again. */
typedef struct {
    const rt_problem *p;
    void (*load)(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row);
    void *arg;
} rt_exact_source;

/* What a true value lies between. */
typedef struct {
    double low, high;
} rt_interval;
/* That of hi + lo with an error of r at most. */
rt_interval rt_exact_interval(double hi, double r);

/* O (the dims with todo[d]) and L (if todo_lse) of one row by MPFR: exact cases first, then rising precision.  What is still open at
 * the cap keeps todo set; between (Dv), lse_between: what is known of an element, narrowed. */
rt_status rt_exact_resolve_row(rt_context *ctx, const rt_exact_source *s, int64_t b, int64_t h, int64_t pos,
                               rt_dtype format, rt_dtype lse_format, bool *todo, bool *todo_lse,
                               double *out, double *lse, rt_interval *between, rt_interval *lse_between,
                               rt_certificate *cert) RT_NODISCARD;

/* Elements (todo[d]) of one row of a gradient, by MPFR up to a cap of precision and of work; what is still open keeps todo. */
rt_status rt_exact_resolve_gradient(rt_context *ctx, const rt_exact_source *s, rt_tensor_id t, int64_t b,
                                    int64_t head, int64_t pos, rt_dtype format, bool *todo, double *out,
                                    rt_interval *between, rt_certificate *cert) RT_NODISCARD;

/* The last step of a row: O and L rounded once to their formats, certain or not; with row (DO parts from 1 on filled, row[0] holds dO) what
 * the backward needs.  resolve NULL: nothing is computed again, an open element counts as undecided. */
/* open: NULL, or what stays open: of out, of lse, the largest error bound of an undecided element; 0 where none is, infinity where there is no
 * value at all.  near: NULL, or Dv: the double next to each element, where the row's m is finite. */
rt_status rt_exact_finish_row(rt_context *ctx, const rt_problem *p, const rt_exact_source *resolve,
                              int64_t b, int64_t h, int64_t pos, const double *const state[RT_EXACT_STATE],
                              rt_dtype format, rt_dtype lse_format, double *out, double *lse,
                              double *const row[RT_EXACT_DO], rt_certificate cert[RT_TENSOR_COUNT],
                              double open[2], double *near) RT_NODISCARD;
/* Elements of a row of dq, dk, dv, dbias (b, head, pos: of the bias's own shape) or dsink (head). */
static inline int64_t rt_exact_width(const rt_problem *p, rt_tensor_id t)
{
    return t == RT_DSINK ? 1 : t == RT_DBIAS ? p->seqlen_k : t == RT_DV ? p->dim_v : p->dim;
}
/* What the sums of a gradient are multiplied with in the last step (the scale, 1 / keep), and its relative error. */
typedef struct {
    rt_dd value;
    double error;
} rt_exact_factor;
rt_exact_factor rt_exact_gradient_factor(const rt_problem *p, rt_tensor_id t);
/* An element from its sum with an error of `error`, within *radius. */
rt_dd rt_exact_gradient_value(rt_exact_factor f, rt_dd sum, double error, double *radius);
/* One more element that its radius decided; top: the row's largest. */
void rt_exact_count_fast(rt_certificate *c, double radius, double top);
/* The same for a row of these: value, error. */
rt_status rt_exact_finish_gradient(rt_context *ctx, const rt_problem *p, const rt_exact_source *resolve,
                                   rt_tensor_id t, int64_t b, int64_t head, int64_t pos, const double *hi,
                                   const double *lo, const double *error, rt_dtype format, double *out,
                                   rt_certificate *cert, double *open) RT_NODISCARD;

/* present <- join(in, present) of rows of STATE. */
void rt_exact_join(int64_t rows, int64_t width, const double *const in[RT_EXACT_STATE],
                   double *const present[RT_EXACT_STATE]);

#endif
