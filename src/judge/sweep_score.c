/* The scores of a row against a block of keys, and the errors of what joins and bends them (budget.h). */
#include <string.h>

#include "judge/sweep.h"

int64_t rt_sweep_hide(const rt_sweep *s, int64_t h, int64_t i, const int64_t *pos, int64_t n, double *vis)
{
    int64_t hidden = 0;
    if (s->p->bias == NULL)
        return 0;
    const double *bias = rt_score_bias_row(s->p, s->b, h, i);
    for (int64_t j = 0; j < n; j++)
        if (vis[j] > 0 && rt_is_minus_inf(bias[pos[j]])) {
            vis[j] = 0;
            hidden++;
        }
    return hidden;
}

int64_t rt_sweep_see(const rt_sweep *s, int64_t h, int64_t i, const int64_t *pos, int64_t n, double *vis)
{
    const int64_t seen = rt_sweep_visible(s, i, pos, n, vis);
    return seen > 0 ? seen - rt_sweep_hide(s, h, i, pos, n, vis) : 0;
}

bool rt_sweep_pair_counts(const rt_sweep *s, int64_t h, int64_t i, int64_t j, bool value)
{
    return rt_sweep_sees(s, i, j) && !rt_score_hides(s->p, s->b, h, i, j) &&
           !(value && !rt_dropout_keep(s->p, s->b, h, i, j));
}

void rt_sweep_score_values(const rt_sweep *s, int64_t h, int64_t i, const int64_t *pos, int64_t n,
                           double *score)
{
    if (s->bends)
        rt_score_row(s->p, s->b, h, i, pos, n, score, NULL);
}

/* The product with the scale. */
RT_SWEEP_WIDE
static void product(const rt_score_terms *c, double q1, double q2, int64_t n, const double *restrict k1,
                    const double *restrict k2, const double *restrict score, double *restrict det,
                    double *restrict var, double *restrict sys)
{
    const double det1 = c->det1 * q1, var1 = c->var1 * q2, sys1 = c->sys1 * q1,
                 var_s = c->u2 * (c->half_d + 1);
    for (int64_t j = 0; j < n; j++) {
        const double a = fabs(score[j]);
        det[j] = det1 * k1[j] + c->u * a;
        var[j] = var1 * k2[j] + var_s * a * a;
        sys[j] = sys1 * k1[j];
    }
}

/* ALiBi and bias: the magnitudes of what is added, and of any sum of them.  arg: the sum. */
static void join(const rt_sweep *s, const rt_score_terms *c, int64_t h, int64_t i, const int64_t *pos,
                 int64_t n, const double *score, double *arg, const rt_pair_terms *e)
{
    const rt_problem *p = s->p;
    const double *bias = p->bias == NULL ? NULL : rt_score_bias_row(p, s->b, h, i);
    const double steep = p->alibi == NULL ? 0 : -p->alibi[h];
    const int64_t zero = rt_score_diagonal(p, i);
    for (int64_t j = 0; j < n; j++) {
        const int64_t distance = pos[j] - zero;
        const double a = steep * (double)(distance < 0 ? -distance : distance);
        const double b = bias == NULL || rt_is_minus_inf(bias[pos[j]]) ? 0 : bias[pos[j]];
        const double size = fabs(score[j]) + fabs(a) + fabs(b);
        e->det[j] += c->u * (2 * fabs(a) + fabs(b) + c->adds * size);
        e->var[j] += c->u2 * (2 * a * a + b * b + c->adds * size * size);
        arg[j] = score[j] + a + b;
    }
}

/* s = c tanh(y / c), y in arg; its slope f = 1 - t^2. */
static void bend(const rt_score_terms *c, int64_t n, const double *score, const double *arg,
                 const rt_pair_terms *e)
{
    const double cap = c->cap, u = c->u, u2 = c->u2, near = cap * c->tanh_abs;
    for (int64_t j = 0; j < n; j++) {
        const double f = e->slope[j], a = fabs(score[j]), y = fabs(arg[j]), twice = 2 * (a / cap) / cap;
        const double moved = e->det[j] + u * y,
                     det = f * (moved + near) * (1 + 4 * moved / cap) + a * (c->tanh_rel + 6 * u);
        const double var = f * f * (e->var[j] + u2 * y * y) + 6 * u2 * a * a;
        const double sys = f * (e->sys[j] + near) + a * c->tanh_rel;
        e->det[j] = det;
        e->var[j] = var;
        e->sys[j] = sys;
        /* f moves by 2 t dt = (2 t / c) ds, and not independently of s: (f + 2 t / c)^2 in all */
        e->slope_det[j] = twice * det + 2 * u;
        e->slope_var[j] = twice * (2 * f + twice) * var + 2 * u2;
        e->slope_sys[j] = twice * sys;
    }
}

void rt_sweep_scores(const rt_sweep *s, const rt_score_terms *c, int64_t h, int64_t i, double q1, double q2,
                     const int64_t *pos, int64_t n, const double *k1, const double *k2, double *score,
                     const rt_pair_terms *e)
{
    product(c, q1, q2, n, k1, k2, score, e->det, e->var, e->sys);
    if (s->drops) {
        rt_dropout_row(s->p, s->b, h, i, pos, n, e->keep);
        for (int64_t j = 0; j < n; j++)
            e->mu[j] = e->keep[j] != 0 ? s->more : 0;
    }
    if (!s->bends)
        return;
    double *arg = e->sum;
    join(s, c, h, i, pos, n, score, arg, e);
    rt_score_row(s->p, s->b, h, i, pos, n, score, e->slope);
    for (int64_t j = 0; j < n; j++) /* hidden: no part of anything */
        score[j] = isinf(score[j]) ? 0 : score[j];
    if (c->cap > 0)
        bend(c, n, score, arg, e);
}
