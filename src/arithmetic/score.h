/* What joins and bends the scores, one row of a panel at a time: for the arithmetics that keep scores as doubles or
 * floats.  Keys are given by their original positions k_pos[0 .. n-1], the query by its own, i. */
#ifndef RT_ARITHMETIC_SCORE_H
#define RT_ARITHMETIC_SCORE_H

#include "arithmetic/ops.h"

/* Whether alibi, bias or softcap change a score. */
static inline bool rt_score_bends(const rt_problem *p)
{
    return p->alibi != NULL || p->bias != NULL || p->softcap > 0;
}
/* 1 - dropout, to nearest. */
static inline double rt_score_keep(const rt_problem *p)
{
    return 1.0 - p->dropout;
}
/* Whether the bias hides the pair. */
static inline bool rt_score_hides(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return p->bias != NULL && rt_is_minus_inf(rt_score_bias(p, b, h, i, j));
}

/* s[c] <- softcap(s[c] + alibi + bias), -infinity where the bias hides the pair.  slope: NULL, or d s' / d s of each (1
 * without a softcap).
 * Error (u = 2^-53, first order): alibi and bias each add u |s| and u |alibi|; the softcap keeps an error e of its
 * argument at e sech^2 and adds 4u |s'|; the slope is within (6 + 4 |s / softcap|) u of itself. */
void rt_score_row(const rt_problem *p, int64_t b, int64_t h, int64_t i, const int64_t *k_pos, int64_t n,
                  double *s, double *slope);

/* The same for scores in base 2, s log2 e, kept as floats: done in doubles, in place. */
void rt_score_row_floats(const rt_problem *p, int64_t b, int64_t h, int64_t i, const int64_t *k_pos,
                         int64_t n, float *s, double *slope);

/* The sink joins a row that sees keys, l = sum exp(s - m): m and l move on; what is returned scales acc. */
double rt_score_join_sink(double sink, double *m, double *l);

/* x[c] <- tanh(x[c]), each within 1 ulp (SLEEF u10), chosen as rt_exp_vector. */
void rt_tanh_vector(double *x, int64_t n);

#endif
