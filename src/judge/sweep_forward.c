/* Rows: O, LSE, dQ of one block of queries of one head, with their bounds (budget.h). */
#include <string.h>

#include "judge/sweep.h"
#include "judge/sweep_vector.h"

enum { Q = RT_SWEEP_Q, K = RT_SWEEP_K };

typedef struct {
    int64_t h, nq, r0;
    const int64_t *pos;
    double top[Q], below[Q], l[Q], lse[Q]; /* the maximum with the sink, and without */
    double sum_rho[Q], sum_rho2[Q], sum_var[Q], max_var[Q], max_w[Q], sum_sys[Q], sum_sys2[Q];
    double max_rho[Q];           /* of the keys that matter, first order; infinite where sum_rho does */
    bool open[Q];                /* rt_row_record */
    double sum_e[Q], sum_y[Q];   /* of dS: det, sys */
    double over_e[Q], over_y[Q]; /* their squares over var */
    int64_t keys[Q];
    int32_t partials[Q], last_group[Q];
    double w_part[Q], w_top[Q],
        w_low[Q]; /* weight of the partial in hand; the largest, the smallest of any */
    bool in_part[Q];
    double q1[Q], q2[Q], g1[Q], g2[Q];
    uint8_t q_bad[Q], g_bad[Q], bad_p[Q], bad_s[Q];
} row_block;

typedef struct {
    int64_t nk;
    const int64_t *pos;
    double k1[K], k2[K], v1[K], v2[K];
} key_block;

/* A block of keys that some row of the block sees; false if none does. */
static bool gather(const rt_sweep *s, const rt_cut *c, const row_block *r, int64_t kb, bool values,
                   key_block *x, rt_sweep_work *w, bool *full)
{
    int64_t lo_min = INT64_MAX, hi_max = INT64_MIN;
    *full = s->interval;
    for (int64_t i = 0; i < r->nq; i++) {
        const int64_t lo = s->lo[r->pos[i]], hi = s->hi[r->pos[i]];
        if (lo < hi) {
            lo_min = rt_min64(lo_min, lo);
            hi_max = rt_max64(hi_max, hi);
        }
        *full = *full && lo <= c->low[kb] && c->high[kb] < hi;
    }
    if (hi_max == INT64_MIN || c->high[kb] < lo_min || c->low[kb] >= hi_max)
        return false;
    x->pos = c->order + c->first[kb];
    x->nk = c->first[kb + 1] - c->first[kb];
    const int64_t D = s->p->dim, Dv = s->p->dim_v;
    for (int64_t j = 0; j < x->nk; j++) {
        const int64_t y = x->pos[j];
        rt_sweep_key(s, y, w->k + j * D);
        x->k1[j] = s->k1[y];
        x->k2[j] = s->k2[y];
        if (values) {
            double *v = w->v + j * 2 * Dv;
            rt_sweep_value(s, y, v);
            rt_sweep_square(Dv, v, v + Dv);
            x->v1[j] = s->v1[y];
            x->v2[j] = s->v2[y];
        }
    }
    return true;
}

/* vis[j] = 1 where row i sees key j; how many it sees. */
static int64_t visible(const rt_sweep *s, const row_block *r, int64_t i, const key_block *x, bool full,
                       double *vis)
{
    if (!full)
        return rt_sweep_see(s, r->h, r->pos[i], x->pos, x->nk, vis);
    for (int64_t j = 0; j < x->nk; j++)
        vis[j] = 1.0;
    return x->nk - rt_sweep_hide(s, r->h, r->pos[i], x->pos, x->nk, vis);
}

/* Pass 1: the maximum and the sum of exponentials of every row, hence L. */
static void pass_lse(const rt_sweep *s, row_block *r, rt_sweep_work *w)
{
    key_block x;
    bool full;
    for (int64_t i = 0; i < r->nq; i++) {
        r->top[i] = -RT_INF;
        r->l[i] = 0;
        r->keys[i] = 0;
        r->partials[i] = 0;
        r->last_group[i] = -1;
    }
    for (int64_t kb = 0; kb < s->key_groups.blocks; kb++) {
        if (!gather(s, &s->key_groups, r, kb, false, &x, w, &full))
            continue;
        rt_gemm_nt(r->nq, x.nk, s->p->dim, s->p->scale, w->q, s->p->dim, w->k, s->p->dim, 0.0, w->s, K);
        for (int64_t i = 0; i < r->nq; i++) {
            double *row = w->s + i * K;
            const int64_t n = visible(s, r, i, &x, full, w->vis);
            if (n == 0)
                continue;
            r->keys[i] += n;
            if (s->key_groups.group[kb] != r->last_group[i]) {
                r->last_group[i] = s->key_groups.group[kb];
                r->partials[i]++;
            }
            rt_sweep_score_values(s, r->h, r->pos[i], x.pos, x.nk, row);
            const double top = rt_sweep_top(x.nk, r->top[i], w->vis, row);
            rt_sweep_shift(x.nk, top, w->vis, row);
            rt_exp_vector(row, x.nk);
            const double sum = rt_sweep_sum(x.nk, row);
            r->l[i] = (rt_is_minus_inf(r->top[i]) ? 0 : r->l[i] * rt_exp_scalar(r->top[i] - top)) + sum;
            r->top[i] = top;
        }
    }
    for (int64_t i = 0; i < r->nq; i++) {
        r->below[i] = r->top[i];
        if (s->p->sink != NULL) { /* a key more, with v = 0 */
            const double sink = s->p->sink[r->h], top = fmax(r->top[i], sink);
            r->l[i] =
                (r->keys[i] > 0 ? r->l[i] * rt_exp_scalar(r->top[i] - top) : 0) + rt_exp_scalar(sink - top);
            r->top[i] = top;
        }
        r->lse[i] = r->l[i] > 0 ? r->top[i] + rt_log_scalar(r->l[i]) : -RT_INF;
    }
}

/* A row with large scores: what its keys' exponents are off by.  A key whose weight is nothing, however much it is off, does not count. */
static void reach(const rt_sweep *s, const rt_score_terms *c, const key_block *x, const double *vis,
                  const double *score, const double *s_det, double det0, double top, double *max_rho,
                  bool *open)
{
    for (int64_t j = 0; j < x->nk; j++) {
        const double d = top - score[j], rho = s_det[j] + 3 * c->u * fabs(d) + det0;
        if (!(vis[j] > 0) || rho - d < RT_SWEEP_NOTHING)
            continue;
        *max_rho = rho > *max_rho ? rho : *max_rho;
        const double mine = s->budget.radius * rho;
        *open = *open || (mine > RT_SWEEP_OPEN && mine - d > RT_SWEEP_NOTHING);
    }
}

/* Pass 2: O and the sums behind its bound.  acc is (nq, 2 Dv): O, then sum w v^2. */
static void pass_output(const rt_sweep *s, row_block *r, rt_sweep_work *w)
{
    const int64_t Dv = s->p->dim_v, nq = r->nq;
    const rt_budget *b = &s->budget;
    const rt_score_terms c = rt_sweep_score_terms(s);
    key_block x;
    bool full;
    memset(w->acc, 0, (size_t)(nq * 2 * Dv) * sizeof(double));
    memset(w->prev, 0, (size_t)(nq * Dv) * sizeof(double));
    memset(w->top, 0, (size_t)(nq * Dv) * sizeof(double));
    memset(w->t_abs, 0, (size_t)(nq * Dv) * sizeof(double));
    memset(w->t_sq, 0, (size_t)(nq * Dv) * sizeof(double));
    for (int64_t i = 0; i < nq; i++)
        r->sum_rho[i] = r->sum_rho2[i] = r->sum_var[i] = r->max_var[i] = r->max_w[i] = r->sum_sys[i] =
            r->sum_sys2[i] = 0;
    for (int64_t i = 0; i < nq; i++) {
        r->w_part[i] = r->w_top[i] = 0;
        r->w_low[i] = 1;
        r->in_part[i] = false;
        r->max_rho[i] = 0;
        r->open[i] = false;
    }
    for (int64_t kb = 0; kb < s->key_groups.blocks; kb++) {
        if (gather(s, &s->key_groups, r, kb, true, &x, w, &full)) {
            rt_gemm_nt(nq, x.nk, s->p->dim, s->p->scale, w->q, s->p->dim, w->k, s->p->dim, 0.0, w->s, K);
            for (int64_t i = 0; i < nq; i++) {
                double *restrict p = w->m2 + i * K;
                double *score = w->s + i * K;
                if (visible(s, r, i, &x, full, w->vis) == 0) {
                    memset(p, 0, (size_t)x.nk * sizeof *p);
                    continue;
                }
                rt_sweep_scores(s, &c, r->h, r->pos[i], r->q1[i], r->q2[i], x.pos, x.nk, x.k1, x.k2, score,
                                &w->pair);
                /* Not exp(score - lse): lse is rounded at |lse| u, and the weights' sum would miss 1 by as much. */
                memcpy(p, score, (size_t)x.nk * sizeof *p);
                rt_sweep_shift(x.nk, r->top[i], w->vis, p);
                rt_exp_vector(p, x.nk);
                const double blocks = rt_budget_blocks(b, r->keys[i], r->partials[i]),
                             sys0 = (1 + blocks) * b->exp_rel, det0 = sys0 + (1 + blocks) * b->u;
                const rt_weight_sums a =
                    rt_sweep_weights(x.nk, r->l[i], r->top[i], c.u, c.u2, det0, (1 + blocks) * c.u2, sys0,
                                     score, w->pair.det, w->pair.var, w->pair.sys, p);
                if (a.rho_max > 0.5) /* never with ordinary scores */
                    reach(s, &c, &x, w->vis, score, w->pair.det, det0, r->top[i], &r->max_rho[i],
                          &r->open[i]);
                else
                    r->max_rho[i] = fmax(r->max_rho[i], 0.5);
                r->w_part[i] += a.p;
                r->in_part[i] = true;
                r->sum_rho[i] += a.rho;
                r->sum_rho2[i] += a.rho2;
                r->sum_var[i] += a.var;
                r->max_var[i] = fmax(r->max_var[i], a.var_max);
                r->max_w[i] = fmax(r->max_w[i], a.w_max);
                r->sum_sys[i] += a.sys;
                r->sum_sys2[i] += a.sys2;
                for (int64_t j = 0; j < x.nk && s->drops; j++)
                    p[j] *= w->pair.mu[j];
            }
            /* in two: products of small matrices are not packed first */
            rt_gemm_nn(nq, Dv, x.nk, 1.0, w->m2, K, w->v, 2 * Dv, 1.0, w->acc, 2 * Dv);
            rt_gemm_nn(nq, Dv, x.nk, 1.0, w->m2, K, w->v + Dv, 2 * Dv, 1.0, w->acc + Dv, 2 * Dv);
            for (int64_t i = 0; i < nq; i++)
                rt_sweep_grow(Dv, w->acc + i * 2 * Dv, w->top + i * Dv);
        }
        if (kb + 1 == s->key_groups.blocks || s->key_groups.group[kb + 1] != s->key_groups.group[kb])
            for (int64_t i = 0; i < nq; i++) {
                rt_sweep_close_partial(Dv, w->acc + i * 2 * Dv, w->prev + i * Dv, w->t_abs + i * Dv,
                                       w->t_sq + i * Dv);
                if (r->in_part[i]) {
                    r->w_top[i] = fmax(r->w_top[i], r->w_part[i]);
                    r->w_low[i] = fmin(r->w_low[i], r->w_part[i]);
                }
                r->w_part[i] = 0;
                r->in_part[i] = false;
            }
    }
}

/* The sink as a key more: what its exponential adds to the sums. */
static void add_sink(const rt_sweep *s, row_block *r)
{
    const rt_budget *b = &s->budget;
    const double u2 = b->u * b->u;
    for (int64_t i = 0; i < r->nq; i++) {
        const double sink = s->p->sink[r->h], weight = rt_exp_scalar(sink - r->lse[i]),
                     d = r->keys[i] > 0 ? fabs(sink - r->below[i]) : 0;
        const double blocks = rt_budget_blocks(b, r->keys[i], r->partials[i]),
                     sys = (1 + blocks) * b->exp_rel;
        double rho = b->u * (fabs(sink) + 3 * d) + sys + (1 + blocks) * b->u;
        r->max_rho[i] = fmax(r->max_rho[i], rho);
        rho += rho * rho;
        const double var = u2 * (sink * sink + 3 * d * d + 1 + blocks);
        r->sum_rho[i] += weight * rho;
        r->sum_rho2[i] += weight * rho * rho;
        r->sum_var[i] += weight * weight * var;
        r->max_var[i] = fmax(r->max_var[i], weight * var);
        r->sum_sys[i] += weight * sys;
        r->sum_sys2[i] += weight * sys * sys;
    }
}

/* Which rows depend on a NaN or an infinity of the inputs. */
static void mark_bad(const rt_sweep *s, row_block *r)
{
    for (int64_t i = 0; i < r->nq; i++) {
        const int64_t lo = s->lo[r->pos[i]], hi = s->hi[r->pos[i]];
        uint8_t p = r->keys[i] > 0 ? r->q_bad[i] : 0, v = 0;
        if (s->any_bad)
            for (int64_t j = lo; j < hi; j++) {
                if (s->k_bad[j] > p && rt_sweep_pair_counts(s, r->h, r->pos[i], j, false))
                    p = s->k_bad[j];
                if (s->v_bad[j] > v && rt_sweep_pair_counts(s, r->h, r->pos[i], j, true))
                    v = s->v_bad[j];
            }
        r->bad_p[i] = p;
        const uint8_t g = r->keys[i] > 0 ? r->g_bad[i] : 0, pv = p > v ? p : v;
        r->bad_s[i] = pv > g ? pv : g;
    }
}

/* Elements of O that depend on a NaN or infinity: all of a bad row, else those of the dims in which a
 * visible v has one. */
static bool mark_output(const rt_sweep *s, const row_block *r, int64_t i, rt_sweep_work *w,
                        uint8_t *undefined)
{
    const int64_t Dv = s->p->dim_v;
    memset(undefined, r->bad_p[i], (size_t)Dv);
    if (!s->any_bad || r->bad_p[i] == 2)
        return r->bad_p[i] > 0;
    bool any = r->bad_p[i] > 0;
    for (int64_t j = s->lo[r->pos[i]]; j < s->hi[r->pos[i]]; j++) {
        if (s->v_bad[j] == 0 || !rt_sweep_pair_counts(s, r->h, r->pos[i], j, true))
            continue;
        double *v = w->row;
        s->in->load(s->in->arg, RT_V, s->b, j, s->g, v);
        for (int64_t d = 0; d < Dv; d++) {
            const uint8_t kind = rt_not_finite(v[d]);
            undefined[d] = kind > undefined[d] ? kind : undefined[d];
            any = any || kind > 0;
        }
    }
    return any;
}

/* The bounds of L and O of each row; what delta inherits; and the verdict on both. */
static void close_output(rt_sweep *s, row_block *r, rt_sweep_work *w)
{
    const rt_budget *b = &s->budget;
    const int64_t Dv = s->p->dim_v;
    const double u = b->u, u2 = u * u, us = b->u_s, us2 = us * us, uj = b->u_j, uj2 = uj * uj;
    const bool weights =
        b->join == RT_JOIN_TWO_PASS || b->join == RT_JOIN_SPLIT; /* they do not normalise themselves */
    const rt_dtype out_format = s->in->present[RT_OUT] ? s->in->dtype[RT_OUT] : s->in->dtype[RT_Q];
    rt_bounds *bounds = (rt_bounds *)(void *)w->big; /* Dv of them: big has room for 6 doubles a dim */
    uint8_t *undefined = (uint8_t *)(void *)w->vis;
    for (int64_t i = 0; i < r->nq; i++) {
        rt_row_record *rec =
            &s->rows[(r->h - s->g * (s->p->heads_q / s->p->heads_kv)) * s->p->seqlen_q + r->pos[i]];
        memset(rec, 0, sizeof *rec);
        const int64_t index = (r->h - s->g * (s->p->heads_q / s->p->heads_kv)) * s->queries.n + r->r0 + i;
        const bool sunk = s->p->sink != NULL;
        const double L = r->lse[i], joins = r->partials[i] > 0 ? r->partials[i] - 1 : 0, G = joins + 1,
                     n = (double)(r->keys[i] + sunk),
                     weight_s = sunk ? rt_exp_scalar(s->p->sink[r->h] - L) : 0;
        const bool joined = r->partials[i] > 1, nothing = r->keys[i] == 0, empty = nothing && !sunk;
        if (!empty) {
            const double big_l = 1 + fabs(L),
                         m = sunk && !nothing ? fmax(fabs(r->top[i]), fabs(r->below[i])) : r->top[i],
                         more = joins + sunk; /* the sink may join as a partial does */
            /* the average of exponents' errors over weights in between: no more than the largest */
            rec->det_l = fmin(r->sum_rho[i], r->max_rho[i] + n * 0x1p-80) + rt_gamma(n, u) +
                         2 * u * fabs(m) + 4 * u * big_l + more * uj * (8 + 2 * fabs(L));
            rec->var_l =
                r->sum_var[i] + u2 * (n + 2 * m * m + 4 * (1 + L * L)) + more * uj2 * (16 + 2 * L * L);
            rec->sys_l = r->sum_sys[i];
        }
        if (s->any[RT_LSE]) {
            rt_bounds bl = {0};
            double truth = L;
            if (!empty) {
                bl = rt_budget_close(b, rec->det_l, rec->var_l, rec->sys_l, s->lambda[RT_LSE],
                                     s->in->dtype[RT_LSE], L);
                if (s->in->lse_base2) { /* stored as log2: one more multiplication by log2(e) */
                    const double log2e = 0x1.71547652b82fep+0, more = 4 * u * fabs(L) * log2e;
                    bl = rt_budget_close(b, rec->det_l * log2e + more, rec->var_l * log2e * log2e,
                                         rec->sys_l * log2e + more, s->lambda[RT_LSE], s->in->dtype[RT_LSE],
                                         L * log2e);
                    truth = L * log2e;
                }
            }
            if (s->x_lse != NULL && !empty)
                (void)rt_sweep_take_exact(s->x_lse + index, s->open_lse[index], 1, &truth, &bl);
            rt_tally_row(s, w, RT_LSE, r->pos[i], r->h, 1, &truth, &bl,
                         r->bad_p[i] > 0 ? &r->bad_p[i] : NULL);
        }
        const double f2 = joined ? 2 : 1, rho = sqrt(f2 * r->sum_rho2[i]),
                     sys_rho = sqrt(f2 * r->sum_sys2[i]);
        const double blocks = rt_budget_blocks(b, r->keys[i], r->partials[i]);
        const double dot = rt_budget_dot(b, n, 1) + blocks * u, dot_sys = rt_budget_dot_sys(b, n, 1),
                     random_n = b->matrix_unit ? 0 : n;
        const bool rounds_partial = joined || b->u_b > rt_unit_roundoff(out_format);
        const double ub = rounds_partial ? b->u_b : 0, tb = rounds_partial ? b->tau_b : 0;
        double det_d = 0, var_d = 0, sys_d = 0, delta = 0, mass = 0, squares = 0;
        const double *dout = w->dout + i * Dv;
        double *truth = w->row + 2 * (Dv > s->p->dim ? Dv : s->p->dim);
        for (int64_t d = 0; d < Dv; d++) {
            const double O = w->acc[i * 2 * Dv + d], second = s->more * w->acc[i * 2 * Dv + Dv + d],
                         A = sqrt(second);
            const double sigma2 = second - O * O > 0 ? second - O * O : 0, sigma = sqrt(sigma2),
                         M = w->top[i * Dv + d];
            double det = rho * sigma + (b->u_p + dot) * A +
                         (rt_gamma(n, u) + (s->drops ? 5 : 3) * u) * fabs(O) + ub * w->t_abs[i * Dv + d] +
                         G * tb;
            double var = f2 * r->max_var[i] * sigma2 + b->u_p * b->u_p * r->max_w[i] * second +
                         u2 * (random_n + blocks) * (M * M + r->max_w[i] * second) +
                         u2 * (n + (s->drops ? 13 : 9)) * O * O + ub * ub * w->t_sq[i * Dv + d] +
                         G * tb * tb;
            double sys = sys_rho * sigma + dot_sys * A;
            if (sunk && !nothing) { /* O sigmoid(L' - sink), L' without the sink */
                det += fabs(O) * (uj * (4 + weight_s * (6 + 2 * fabs(L))) + (joined ? us : 0));
                var += O * O * (uj2 * (4 + weight_s * weight_s * (16 + 4 * L * L)) + (joined ? us2 : 0));
            }
            if (!nothing) { /* p is rounded, or flushed, before the division by the row sum */
                const double most = s->more * sqrt(s->v_max2[d]) / r->l[i], lost = b->tau_p * most,
                             flushed = b->eta * (n * most + n + 4);
                det += n * lost + flushed;
                var += n * lost * lost;
                sys += flushed;
            }
            if (joined) {
                const double weight = rt_gamma(n, u) + joins * uj * (6 + 2 * fabs(L)),
                             weight2 = u2 * n + joins * uj2 * (16 + 4 * L * L);
                const double t_abs = w->t_abs[i * Dv + d], any = fmax(M, 0.5 * (t_abs + fabs(O)));
                det += weight * (sigma + (weights ? fabs(O) : 0)) + joins * (6 * us * any + b->tau_s);
                var += weight2 * (sigma2 + (weights ? O * O : 0)) +
                       joins * (12 * us2 * any * any + b->tau_s * b->tau_s);
                if (b->join == RT_JOIN_SIGMOID) {
                    const double v_max = s->more * sqrt(s->v_max2[d]), low = r->w_low[i],
                                 y = any < v_max * low ? any / low : v_max;
                    det += 2 * us * (t_abs + y);
                    var += 2 * us2 * (w->t_sq[i * Dv + d] + r->w_top[i] * y * y);
                }
            }
            if (nothing)
                det = var = sys = 0;
            bounds[d] = rt_budget_close(b, det, var, sys, s->lambda[RT_OUT], out_format, O);
            truth[d] = O;
            if (s->backward) {
                const double a = fabs(dout[d]), half = bounds[d].rounding;
                delta += dout[d] * O;
                mass += a * fabs(O);
                squares += dout[d] * dout[d] * O * O;
                det_d += a * (det + half);
                var_d += a * a * (var + half * half);
                sys_d += a * sys;
            }
        }
        if (s->any[RT_OUT]) {
            const bool odd = mark_output(s, r, i, w, undefined);
            const bool known =
                s->x_out != NULL && !nothing &&
                rt_sweep_take_exact(s->x_out + index * Dv, s->open_out[index], Dv, truth, bounds);
            if (!known && r->open[i])
                rt_sweep_unknown(Dv, truth, bounds);
            rt_tally_row(s, w, RT_OUT, r->pos[i], r->h, Dv, truth, bounds, odd ? undefined : NULL);
        }
        rec->lse = L;
        rec->top = r->top[i];
        rec->delta = delta;
        rec->det_d = det_d + rt_gamma((double)Dv, u) * mass;
        rec->var_d = var_d + u2 * 0.5 * (double)Dv * (delta * delta + squares);
        rec->sys_d = sys_d;
        rec->q1 = r->q1[i];
        rec->q2 = r->q2[i];
        rec->g1 = r->g1[i];
        rec->g2 = r->g2[i];
        rec->keys = r->keys[i];
        rec->bad_p = r->bad_p[i];
        rec->bad_s = r->bad_s[i];
        rec->bad_g = r->g_bad[i];
        rec->open = r->open[i];
    }
}

/* The readings of one row against the block: dS in ds (which comes as dP). */
RT_SWEEP_WIDE
static void gradient_readings(const rt_sweep *s, const rt_score_terms *c, const rt_grad_terms *g,
                              const rt_sum_terms *sum, const rt_row_record *rec, const key_block *x,
                              const rt_pair_terms *pair, const double *restrict score,
                              const double *restrict vis, const double *restrict p, double *restrict ds,
                              double *restrict e, double *restrict v, double *restrict y)
{
    const rt_budget *b = &s->budget;
    const double L = rec->lse, delta = rec->delta, tau = s->more * b->tau_p, tau2 = tau * tau,
                 eta = s->more * b->eta;
    const double *restrict v1 = x->v1, *restrict v2 = x->v2, *restrict s_det = pair->det,
                           *restrict s_var = pair->var, *restrict s_sys = pair->sys;
    const int64_t n = x->nk;
    for (int64_t j = 0; j < n; j++) {
        const double dp = ds[j], t = dp - delta, at = fabs(t), a = fabs(score[j]), z = fabs(score[j] - L);
        double rho = s_det[j] + c->u * (a + 2 * z) + g->det0;
        rho += rho * rho;
        const double var = s_var[j] + c->u2 * (a * a + 2 * z * z + 3);
        const double grad = p[j] * t, ag = fabs(grad);
        ds[j] = grad;
        e[j] = p[j] * (rho * at + g->g1 * v1[j] + rec->det_d) + sum->det * ag +
               (tau + eta * (1 + at)) * vis[j];
        v[j] = p[j] * p[j] * (var * t * t + c->u2 * g->half_v * dp * dp + g->g2 * v2[j]) +
               sum->var * grad * grad + tau2 * vis[j];
        y[j] = p[j] * ((s_sys[j] + g->sys0) * at + g->g_sys * v1[j] + rec->sys_d) + sum->sys * ag +
               eta * (1 + at) * vis[j];
    }
}

/* The same with dropout and a softcap: dP' = mu dP, dS = f dS'.  p becomes f p, which is what delta is multiplied
 * with. */
static void bent_readings(const rt_sweep *s, const rt_score_terms *c, const rt_grad_terms *g,
                          const rt_sum_terms *sum, const rt_row_record *rec, const key_block *x,
                          const rt_pair_terms *pair, const double *score, const double *vis, double *p,
                          double *ds, double *e, double *v, double *y)
{
    for (int64_t j = 0; j < x->nk; j++) {
        const rt_bent_reading r =
            rt_sweep_bent(s, c, g, rec, pair, j, x->v1[j], x->v2[j], score[j], p[j], ds[j]);
        const double ag = fabs(r.value), tau = s->more * s->budget.tau_p,
                     eta = s->more * s->budget.eta * (1 + r.size);
        ds[j] = r.value;
        p[j] = r.weight;
        e[j] = r.det + r.weight * rec->det_d + sum->det * ag + (tau + eta) * vis[j];
        v[j] = r.var + sum->var * r.value * r.value + tau * tau * vis[j];
        y[j] = r.sys + r.weight * rec->sys_d + sum->sys * ag + eta * vis[j];
    }
}

/* Pass 3: dQ.  m2 = dS over P; m5 = det, var, sys of dS.  acc (2 nq, D) = them times K; big (3 nq, D) =
 * them times K^2. */
static void pass_dq(rt_sweep *s, row_block *r, rt_sweep_work *w)
{
    const int64_t D = s->p->dim, Dv = s->p->dim_v, nq = r->nq;
    const rt_budget *b = &s->budget;
    const rt_score_terms c = rt_sweep_score_terms(s);
    const rt_row_record *records =
        s->rows + (r->h - s->g * (s->p->heads_q / s->p->heads_kv)) * s->p->seqlen_q;
    const rt_cut *cut = &s->dq_groups;
    key_block x;
    bool full;
    memset(w->acc, 0, (size_t)(2 * nq * D) * sizeof(double));
    memset(w->big, 0, (size_t)(3 * nq * D) * sizeof(double));
    memset(w->prev, 0, (size_t)(nq * D) * sizeof(double));
    memset(w->top, 0, (size_t)(nq * D) * sizeof(double));
    memset(w->t_abs, 0, (size_t)(nq * D) * sizeof(double));
    memset(w->t_sq, 0, (size_t)(nq * D) * sizeof(double));
    for (int64_t i = 0; i < nq; i++)
        r->sum_e[i] = r->sum_y[i] = r->over_e[i] = r->over_y[i] = 0;
    for (int64_t i = 0; i < nq; i++) {
        r->partials[i] = 0; /* from here on those of dQ */
        r->last_group[i] = -1;
    }
    for (int64_t kb = 0; kb < cut->blocks; kb++) {
        if (gather(s, cut, r, kb, true, &x, w, &full)) {
            rt_sweep_square(x.nk * D, w->k, w->kk);
            rt_gemm_nt(nq, x.nk, D, s->p->scale, w->q, D, w->k, D, 0.0, w->s, K);
            rt_gemm_nt(nq, x.nk, Dv, 1.0, w->dout, Dv, w->v, 2 * Dv, 0.0, w->m2, K); /* dP, becomes dS */
            for (int64_t i = 0; i < nq; i++) {
                double *restrict ds = w->m2 + i * K, *restrict p = w->m2 + (nq + i) * K;
                double *restrict e = w->m5 + i * K, *restrict v = w->m5 + (nq + i) * K,
                                 *restrict y = w->m5 + (2 * nq + i) * K;
                double *score = w->s + i * K;
                const double *restrict vis = w->vis;
                const rt_row_record *rec = &records[r->pos[i]];
                if (visible(s, r, i, &x, full, w->vis) == 0) {
                    for (int64_t j = 0; j < x.nk; j++)
                        ds[j] = p[j] = e[j] = v[j] = y[j] = 0;
                    continue;
                }
                if (cut->group[kb] != r->last_group[i]) {
                    r->last_group[i] = cut->group[kb];
                    r->partials[i]++;
                }
                rt_sweep_scores(s, &c, r->h, r->pos[i], r->q1[i], r->q2[i], x.pos, x.nk, x.k1, x.k2, score,
                                &w->pair);
                memcpy(p, score, (size_t)x.nk * sizeof *p);
                rt_sweep_shift(x.nk, rec->lse, vis, p);
                rt_exp_vector(p, x.nk);
                const rt_grad_terms g = rt_sweep_grad_terms(s, rec);
                const rt_sum_terms sum = rt_sweep_sum_terms(b, rec->keys);
                if (s->drops || c.cap > 0)
                    bent_readings(s, &c, &g, &sum, rec, &x, &w->pair, score, vis, p, ds, e, v, y);
                else
                    gradient_readings(s, &c, &g, &sum, rec, &x, &w->pair, score, vis, p, ds, e, v, y);
                r->sum_e[i] += rt_sweep_sum(x.nk, e);
                r->sum_y[i] += rt_sweep_sum(x.nk, y);
                if (s->lean) {
                    r->over_e[i] += rt_sweep_sum_over(x.nk, e, v);
                    r->over_y[i] += rt_sweep_sum_over(x.nk, y, v);
                }
            }
            rt_gemm_nn(nq, D, x.nk, 1.0, w->m2, K, w->k, D, 1.0, w->acc, D);
            rt_gemm_nn(nq, D, x.nk, 1.0, w->m2 + nq * K, K, w->k, D, 1.0, w->acc + nq * D, D);
            if (s->lean)
                rt_gemm_nn(nq, D, x.nk, 1.0, w->m5 + nq * K, K, w->kk, D, 1.0, w->big + nq * D, D);
            else
                rt_gemm_nn(3 * nq, D, x.nk, 1.0, w->m5, K, w->kk, D, 1.0, w->big, D);
            for (int64_t i = 0; i < nq; i++)
                rt_sweep_grow(D, w->acc + i * D, w->top + i * D);
        }
        if (kb + 1 == cut->blocks || cut->group[kb + 1] != cut->group[kb])
            rt_sweep_close_partial(nq * D, w->acc, w->prev, w->t_abs, w->t_sq);
    }
}

static void close_dq(rt_sweep *s, row_block *r, rt_sweep_work *w)
{
    const rt_budget *b = &s->budget;
    const int64_t D = s->p->dim, nq = r->nq;
    const double u2 = b->u * b->u, alpha = fabs(s->p->scale), alpha2 = alpha * alpha,
                 gs2 = b->u_gs * b->u_gs;
    const rt_row_record *records =
        s->rows + (r->h - s->g * (s->p->heads_q / s->p->heads_kv)) * s->p->seqlen_q;
    const rt_dtype format = s->in->dtype[RT_DQ];
    rt_bounds *bounds = (rt_bounds *)(void *)w->m5; /* the matrices are done with */
    double *truth = w->row;
    uint8_t *undefined = (uint8_t *)(void *)w->vis;
    for (int64_t i = 0; i < nq; i++) {
        const rt_row_record *rec = &records[r->pos[i]];
        const double joins = (double)(r->partials[i] - 1),
                     n = b->matrix_unit ? rt_budget_blocks(b, rec->keys, 1) : (double)rec->keys;
        const bool rounds = joins > 0 || b->u_gb > rt_unit_roundoff(format);
        const double ub = rounds ? b->u_gb : 0, tb = rounds ? b->tau_gb : 0,
                     flushed = b->eta * ((double)rec->keys + 4);
        for (int64_t d = 0; d < D; d++) {
            const int64_t at = i * D + d;
            const double t = s->p->scale * w->acc[at], mean = w->acc[nq * D + at], M = alpha * w->top[at];
            const double any = fmax(M, 0.5 * (alpha * w->t_abs[at] + fabs(t)));
            const double v_product = w->big[nq * D + at], k_max = s->k_max[d];
            const double det =
                alpha * rt_sweep_spread(s->lean, r->sum_e[i], r->over_e[i], w->big[at], v_product, k_max) +
                2 * b->u * fabs(t) + ub * alpha * w->t_abs[at] + (joins + 1) * tb +
                (joins > 0 ? joins * (2 * b->u_gs * any + b->tau_gs) : 0) + flushed;
            const double var = alpha2 * (w->big[nq * D + at] + rec->var_d * mean * mean) +
                               rec->var_l * t * t + u2 * n * M * M + 3 * u2 * t * t +
                               ub * ub * alpha2 * w->t_sq[at] + (joins + 1) * tb * tb +
                               (joins > 0 ? joins * (4 * gs2 * any * any + b->tau_gs * b->tau_gs) : 0);
            const double sys = alpha * rt_sweep_spread(s->lean, r->sum_y[i], r->over_y[i],
                                                       w->big[2 * nq * D + at], v_product, k_max) +
                               flushed;
            truth[d] = t;
            bounds[d] = rec->keys > 0 ? rt_budget_close(b, det, var, sys, s->lambda[RT_DQ], format, t)
                                      : (rt_bounds){0};
        }
        memset(undefined, r->bad_s[i], (size_t)D);
        const int64_t index = (r->h - s->g * (s->p->heads_q / s->p->heads_kv)) * s->queries.n + r->r0 + i;
        const bool known = s->x_dq != NULL && rec->keys > 0 &&
                           rt_sweep_take_exact(s->x_dq + index * D, s->open_dq[index], D, truth, bounds);
        if (!known && rec->open)
            rt_sweep_unknown(D, truth, bounds);
        rt_tally_row(s, w, RT_DQ, r->pos[i], r->h, D, truth, bounds, r->bad_s[i] > 0 ? undefined : NULL);
    }
}

void rt_sweep_rows(rt_sweep *s, int64_t h, int64_t qb, rt_sweep_work *w)
{
    row_block r = {.h = h, .r0 = s->queries.first[qb]};
    r.nq = s->queries.first[qb + 1] - r.r0;
    r.pos = s->queries.order + r.r0;
    rt_sweep_load(s, RT_Q, h, r.pos, r.nq, s->p->dim, w->q, r.q_bad);
    memset(r.g_bad, 0, sizeof r.g_bad);
    if (s->backward)
        rt_sweep_load(s, RT_DOUT, h, r.pos, r.nq, s->p->dim_v, w->dout, r.g_bad);
    for (int64_t i = 0; i < r.nq; i++) {
        rt_sweep_norms(w->q + i * s->p->dim, s->p->dim, &r.q1[i], &r.q2[i]);
        r.g1[i] = r.g2[i] = 0;
        if (s->backward)
            rt_sweep_norms(w->dout + i * s->p->dim_v, s->p->dim_v, &r.g1[i], &r.g2[i]);
    }
    pass_lse(s, &r, w);
    mark_bad(s, &r);
    pass_output(s, &r, w);
    if (s->p->sink != NULL)
        add_sink(s, &r);
    close_output(s, &r, w);
    if (s->any[RT_DQ]) {
        pass_dq(s, &r, w);
        close_dq(s, &r, w);
    }
}
