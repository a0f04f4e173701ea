/* One (batch, key head) of the judge's sweep: truth in binary64 and the bounds of the declared arithmetic,
 * together, block by block, in memory O(S (D + Dv)).
 *
 * Rows and keys are visited in blocks that never straddle a partial: for O and dQ the keys are grouped by
 * the shard that a step of the plan brings, for dK and dV the queries are, so that what each partial
 * contributes (T_r) and the largest prefix of each sum (M) are seen as the sum grows.  What is not finite
 * is taken out, and what depends on it marked. */
#ifndef RT_JUDGE_SWEEP_H
#define RT_JUDGE_SWEEP_H

#include <string.h>

#include "arithmetic/block.h"
#include "arithmetic/score.h"
#include "judge/budget.h"
#include "judge/sweep_vector.h"

/* Rows and keys of a block: what it takes stays in the second-level cache of a core. */
enum { RT_SWEEP_Q = 64, RT_SWEEP_K = 64 };
/* Blocks of keys whose gradients are taken together, so that the rows are loaded once for all of them. */
enum { RT_SWEEP_KEY_BLOCKS = 4 };

/* A division of positions 0..n-1 into blocks; items of a block are positions order[first[k]] ..
 * order[first[k+1]-1]. */
typedef struct {
    int64_t n, blocks;
    int64_t *order;      /* positions, group after group, ascending inside a group */
    int64_t *first;      /* blocks + 1 */
    int32_t *group;      /* blocks: the partial it belongs to */
    int64_t *low, *high; /* blocks: extremes of the positions */
} rt_cut;

rt_status rt_cut_create(rt_context *ctx, int64_t n, const int32_t *group_of, int32_t groups, int64_t block,
                        rt_cut *out) RT_NODISCARD;
void rt_cut_reset(rt_cut *c);

/* What the backward of a key needs of each row. */
typedef struct {
    double lse, top, delta;
    double det_l, var_l, sys_l, det_d, var_d, sys_d;
    double q1, q2, g1, g2; /* ||q||, ||q^2||, ||dO||, ||dO^2|| */
    int64_t keys;          /* visible */
    uint8_t bad_p, bad_s;  /* 0, 1: depends on an infinity, 2: on a NaN; of P, of dS */
    uint8_t bad_g;         /* the same of the row of dO itself */
    bool open;             /* binary64 does not know the row's weights */
} rt_row_record;

typedef struct rt_sweep {
    rt_context *ctx;
    const rt_problem *p;
    const rt_judge_input *in;
    const rt_judge_options *o;
    rt_budget budget;
    double lambda[RT_RESULT_COUNT];
    bool backward, any[RT_RESULT_COUNT]; /* which tensors are judged */
    /* Grouped by kernel call (group.h): the keys of a row, forward and for dQ; the queries of a key; and plain blocks. */
    rt_cut key_groups, dq_groups, query_groups, keys, queries;
    int32_t *again;   /* Sk: contributions to a key's gradients beyond the groups; NULL: none */
    bool interval;    /* of the mask: lo, hi, col_lo and col_hi say all; else they hold what is visible */
    int64_t *lo, *hi; /* Sq: keys [lo, hi) of each query */
    int64_t *col_lo, *col_hi; /* Sk: queries that see each key */
    int64_t *keys_all;        /* 0, 1, 2, .. Sk - 1 */
    int64_t b, g;             /* the batch and key head in hand */
    double *k, *v;            /* (Sk, D), (Sk, Dv), what is not finite replaced by 0; NULL: narrow */
    float *k_narrow,
        *v_narrow; /* the same in binary32, where that holds every input: half the memory; else NULL */
    double *k1, *k2, *v1, *v2; /* Sk: ||k||, ||k^2||, ||v||, ||v^2|| */
    double *v_max2;            /* Dv: largest v^2 */
    uint8_t *k_bad, *v_bad;    /* Sk: 0, 1 infinity, 2 NaN */
    bool any_bad;
    /* samples of long sequences: det and sys of gradients without products of their own (budget.h) */
    bool lean;
    bool bends, drops;             /* scores (alibi, bias, softcap); dropout */
    double more;                   /* 1 / keep of dropout; 1 */
    double *k_max, *q_max, *g_max; /* largest |k_d|, |q_d|, |dO_d| of the pair: D, D, Dv; lean only */
    rt_row_record *rows;           /* (heads of the group, Sq) */
    /* Exact truths of the pair, NULL: binary64's.  By (head of the group, index in queries.order), by index in keys.order. */
    double *x_out, *x_lse, *x_dq, *x_dk, *x_dv;
    /* By row: 0, or the error bound of an element whose rounding was left open; infinity: no exact value. */
    const double *open_out, *open_lse, *open_dq, *open_dk, *open_dv;
} rt_sweep;

/* Of a row's pairs with a block of keys (budget.h): the three readings of the score's error; of bent scores the slope
 * d s / d (scale q.k) and the readings of its error; of dropout the factor m / keep; sum: scratch. */
typedef struct {
    double *det, *var, *sys, *slope, *slope_det, *slope_var, *slope_sys, *mu, *sum;
    uint8_t *keep;
} rt_pair_terms;

typedef struct {
    double *store;
    double *q, *dout, *k, *v, *kk, *vv; /* blocks of inputs, and squares */
    double *s, *m2, *m5;                /* (Q, K); 2 and 3 matrices one under the other */
    double *acc, *big;                  /* results */
    double *prev, *top, *t_abs, *t_sq;  /* (max(Q,K), max(D,Dv)) twice: for two results at a time */
    double *vis, *row, *got;
    double *three, *keys; /* 3 (Q, K); key blocks with their sums: 12 (K, D + Dv) each */
    rt_pair_terms pair;   /* K each */
    rt_tally tally[RT_RESULT_COUNT];
} rt_sweep_work;

/* What all pairs share: the grouped cuts (where unset, plain ones) and what the mask says of each row and key (p and in are
 * set). */
rt_status rt_sweep_memory(rt_context *ctx, rt_sweep *s) RT_NODISCARD;
void rt_sweep_memory_reset(rt_sweep *s);
/* What one pair in hand has of its own: its keys and values, records, and plain cuts of all positions. */
rt_status rt_sweep_pair_memory(rt_context *ctx, rt_sweep *s, bool narrow) RT_NODISCARD;
void rt_sweep_pair_reset(rt_sweep *s);
/* Bytes of that, and whether binary32 holds the keys and values. */
int64_t rt_sweep_pair_bytes(const rt_sweep *s, bool narrow);
bool rt_sweep_may_narrow(const rt_sweep *s);
/* Load the keys and values of the n pairs in hand, at most 64, by all threads. */
enum { RT_SWEEP_PAIRS = 64 };
rt_status rt_sweep_load_keys(rt_context *ctx, rt_sweep *s, int64_t n) RT_NODISCARD;
/* Row j of the pair's keys or values. */
static inline void rt_sweep_key(const rt_sweep *s, int64_t j, double *out)
{
    rt_sweep_widen(s->k, s->k_narrow, j * s->p->dim, s->p->dim, out);
}
static inline void rt_sweep_value(const rt_sweep *s, int64_t j, double *out)
{
    rt_sweep_widen(s->v, s->v_narrow, j * s->p->dim_v, s->p->dim_v, out);
}

rt_status rt_sweep_work_create(rt_context *ctx, const rt_problem *p, rt_sweep_work *w) RT_NODISCARD;
void rt_sweep_work_reset(rt_sweep_work *w);

/* Rows [queries block qb] of query head h: O, LSE, dQ.  Fills the row records. */
void rt_sweep_rows(rt_sweep *s, int64_t h, int64_t qb, rt_sweep_work *w);
/* Keys [keys blocks kb .. kb + blocks - 1], at most RT_SWEEP_KEY_BLOCKS: dK, dV.  given: of a sample that these are all of, the rows'
 * records come from the dump (sample.h) as the rows pass by. */
void rt_sweep_keys(rt_sweep *s, int64_t kb, int64_t blocks, bool given, rt_sweep_work *w);

/* Load the rows of a block, zero the elements that are not finite; bad[i] = 0, 1 or 2. */
void rt_sweep_load(const rt_sweep *s, rt_tensor_id t, int64_t head, const int64_t *pos, int64_t n,
                   int64_t width, double *out, uint8_t *bad);
/* vis[k] = 1.0 where query i sees key pos[k] (n of them, at most RT_SWEEP_K), else 0.0; how many it sees. */
int64_t rt_sweep_visible(const rt_sweep *s, int64_t i, const int64_t *pos, int64_t n, double *vis);
/* Whether query i sees key j, which lies in [lo, hi) of i. */
static inline bool rt_sweep_sees(const rt_sweep *s, int64_t i, int64_t j)
{
    return s->interval || rt_mask_visible(s->p, s->b, i, j);
}
/* 0 for a finite value, 1 for an infinity, 2 for a NaN. */
static inline uint8_t rt_not_finite(double x)
{
    return (uint8_t)(isnan(x) ? 2 : isinf(x) ? 1 : 0);
}
/* Constants of a score's error (budget.h): det1 ||q|| ||k|| + u |s|; var1 ||q^2|| ||k^2|| + u2 (half_d + 1) s^2; how
 * many additions join it; the softcap and the errors of its tanh. */
typedef struct {
    double det1, var1, u, u2, half_d, sys1, adds, cap, tanh_rel, tanh_abs;
} rt_score_terms;
rt_score_terms rt_sweep_score_terms(const rt_sweep *s);

/* vis[j] = 0 where the bias hides the pair; how many that were visible it hides. */
int64_t rt_sweep_hide(const rt_sweep *s, int64_t h, int64_t i, const int64_t *pos, int64_t n, double *vis);
/* vis[j] = 1 where query i of head h sees key pos[j], else 0; how many it sees. */
int64_t rt_sweep_see(const rt_sweep *s, int64_t h, int64_t i, const int64_t *pos, int64_t n, double *vis);
/* Whether pair (i, j), j in [lo, hi) of i, is one for mask and bias and, if what v_j or dO_i holds is asked for, dropout keeps
 * it. */
bool rt_sweep_pair_counts(const rt_sweep *s, int64_t h, int64_t i, int64_t j, bool value);
/* score comes as scale q.k of row i and keys pos[0 .. n): what joins and bends it; -infinity where the bias hides. */
void rt_sweep_score_values(const rt_sweep *s, int64_t h, int64_t i, const int64_t *pos, int64_t n,
                           double *score);
/* The same with the readings; q1, q2, k1, k2: norms.  Where the bias hides, the score becomes 0. */
void rt_sweep_scores(const rt_sweep *s, const rt_score_terms *c, int64_t h, int64_t i, double q1, double q2,
                     const int64_t *pos, int64_t n, const double *k1, const double *k2, double *score,
                     const rt_pair_terms *e);

/* Constants of one row's errors in dS (budget.h). */
typedef struct {
    double det0, sys0, g1, g2, g_sys, half_v;
} rt_grad_terms;
rt_grad_terms rt_sweep_grad_terms(const rt_sweep *s, const rt_row_record *rec);

/* One pair's dS with dropout and a softcap: its value, f w, |dS / (f w)|, and the readings of all but delta, the rounding
 * of dS and what is common to a row. */
typedef struct {
    double value, weight, size, det, var, sys;
} rt_bent_reading;
/* w: P; dp: dO.v without dropout. */
static inline rt_bent_reading rt_sweep_bent(const rt_sweep *s, const rt_score_terms *c,
                                            const rt_grad_terms *g, const rt_row_record *rec,
                                            const rt_pair_terms *e, int64_t j, double v1, double v2,
                                            double score, double w, double dp)
{
    const double mu = e->mu[j], f = e->slope[j], x = mu * dp, t = x - rec->delta, at = fabs(t),
                 a = fabs(score), z = fabs(score - rec->lse), times = s->drops ? 2 : 0,
                 bent = c->cap > 0 ? 1 : 0;
    double rho = e->det[j] + c->u * (a + 2 * z) + g->det0;
    rho += rho * rho;
    const double f2 = f * f, own = c->u2 * (a * a + 2 * z * z + 3 + bent);
    return (rt_bent_reading){
        .value = f * w * t,
        .weight = f * w,
        .size = at,
        .det = w * (f * (rho * at + mu * g->g1 * v1 + times * c->u * fabs(x)) +
                    at * (e->slope_det[j] + bent * c->u * f)),
        .var =
            w * w *
            (f2 * ((e->var[j] + own) * t * t + c->u2 * (g->half_v + times) * x * x + mu * mu * g->g2 * v2) +
             t * t * e->slope_var[j]),
        .sys = w * (f * ((e->sys[j] + g->sys0) * at + mu * g->g_sys * v1) + at * e->slope_sys[j])};
}
/* Rounding P or dS and adding n products with it: the factors of the three readings. */
typedef struct {
    double det, var, sys;
} rt_sum_terms;
rt_sum_terms rt_sweep_sum_terms(const rt_budget *b, int64_t n);

/* sum c|x| <= where no product with x^2 was made for c (lean): sum c x_max, and, by Cauchy-Schwarz with the random reading v, whose product
 * is there, sqrt(sum c^2 / v) sqrt(sum v x^2); else sqrt(sum c) sqrt(sum c x^2). */
static inline double rt_sweep_spread(bool lean, double sum, double sum_over_var, double product,
                                     double var_product, double x_max)
{
    /* a root of each: the product of two tiny sums may underflow (weights of 1e-160) */
    return lean ? fmin(sum * x_max, sqrt(sum_over_var) * sqrt(var_product)) : sqrt(sum) * sqrt(product);
}
/* An exponent that is off by more than this says little about its weight; one below the second, nothing. */
#define RT_SWEEP_OPEN 0x1p-4
#define RT_SWEEP_NOTHING (-60)

/* The exact truth in place of binary64's: truth[d] = exact[d], whose radius is its last place and what was left open.  False: there is
 * none. */
bool rt_sweep_take_exact(const double *exact, double open, int64_t n, double *truth, rt_bounds *bounds);
/* Neither truth is known: the elements are not judged. */
void rt_sweep_unknown(int64_t n, double *truth, rt_bounds *bounds);

/* Judge one row of a tensor: `undefined` per element (NULL: none; 1 infinity, 2 NaN behind it). */
void rt_tally_row(const rt_sweep *s, rt_sweep_work *w, rt_tensor_id t, int64_t pos, int64_t head, int64_t n,
                  const double *truth, const rt_bounds *bounds, const uint8_t *undefined);
void rt_tally_merge(rt_tally *into, const rt_tally *from);

#endif
