/* Keys: dK and dV of one block of keys, over the query shards, the heads of the group and the rows that see
 * them.
 *
 * For dV the three readings are those of P: det w(rho + u_p + g(n)) + tau_p, var, sys; for dK those of dS,
 * the same as in dQ, and with each row's own common terms (det_L, delta) as part of them: rows are
 * independent of each other. Sums over |dO| and |q| use sqrt(sum c) sqrt(sum c x^2) >= sum c|x|
 * (Cauchy-Schwarz), so one product with x^2 serves all three. */
#include <string.h>

#include "judge/sample.h"

enum { Q = RT_SWEEP_Q, K = RT_SWEEP_K, SUMS = 11 };

/* Accumulators of one result: value, then the three readings times x^2; width doubles a key. */
typedef struct {
    double *value, *det, *var, *sys, *top;
    double *prev, *t_abs, *t_sq;   /* by partial */
    double *h_prev, *h_abs, *h_sq; /* by head of the group, where it has several */
} sums;

typedef struct {
    double *k, *v; /* (D, K), (Dv, K): transposed once, since products with what is not are quicker */
    sums dk, dv;
    int64_t nk, first;  /* keys.order[first .. first + nk - 1] */
    const int64_t *pos; /* their positions, ascending */
    double k1[K], k2[K], v1[K], v2[K];
    int64_t lo, hi;                            /* queries that see any of them: [lo, hi) */
    double keys[K];                            /* (query, head) pairs that see each key */
    double e_k[K], y_k[K], e_v[K], y_v[K];     /* column sums of the det and sys readings */
    double oe_k[K], oy_k[K], oe_v[K], oy_v[K]; /* of their squares over var, lean only */
    int64_t partials[K];
    bool in_partial[K];
    uint8_t bad_k[K], bad_v[K];
    bool open[K];                        /* some row that sees it has weights that binary64 does not know */
    bool bad_g;                          /* some row of dO that a key needs is not finite */
    double s_det[K], s_var[K], s_sys[K]; /* rounding P or dS and adding: by the rows that see the key */
} key_block;

typedef struct {
    int64_t nq;
    const int64_t *pos;
    uint8_t bad[Q];
} row_block;

/* The readings of one row against the block: P and dS in p and ds (which comes as dP), and their sums by key. */
RT_SWEEP_WIDE
static void readings(const rt_sweep *s, const rt_score_terms *t, const rt_grad_terms *g,
                     const rt_row_record *rec, const rt_pair_terms *pair, key_block *x,
                     const double *restrict score, const double *restrict visible, const double *restrict p,
                     double *restrict ds, double *restrict pe, double *restrict pv, double *restrict py,
                     double *restrict e, double *restrict var_ds, double *restrict y)
{
    const rt_budget *b = &s->budget;
    const double L = rec->lse, delta = rec->delta, tau = b->tau_p, tau2 = tau * tau, eta = b->eta;
    const double *restrict v1 = x->v1, *restrict v2 = x->v2, *restrict e_det = pair->det,
                           *restrict e_var = pair->var, *restrict e_sys = pair->sys;
    const double *restrict s_det = x->s_det, *restrict s_var = x->s_var, *restrict s_sys = x->s_sys;
    const int64_t n = x->nk;
    for (int64_t j = 0; j < n; j++) {
        const double vis = visible[j], dp = ds[j], u = dp - delta, au = fabs(u), a = fabs(score[j]),
                     z = fabs(score[j] - L);
        double rho = e_det[j] + t->u * (a + 2 * z) + g->det0;
        rho += rho * rho;
        const double var = e_var[j] + t->u2 * (a * a + 2 * z * z + 3) + rec->var_l;
        const double sys = e_sys[j] + g->sys0;
        const double grad = p[j] * u, ag = fabs(grad), p2 = p[j] * p[j];
        ds[j] = grad;
        pe[j] = p[j] * (rho + s_det[j]) + (tau + eta) * vis;
        pv[j] = p2 * (var + s_var[j]) + tau2 * vis;
        py[j] = p[j] * (sys + s_sys[j]) + eta * vis;
        e[j] =
            p[j] * (rho * au + g->g1 * v1[j] + rec->det_d) + s_det[j] * ag + (tau + eta * (1 + au)) * vis;
        var_ds[j] = p2 * (var * u * u + t->u2 * g->half_v * dp * dp + g->g2 * v2[j] + rec->var_d) +
                    s_var[j] * grad * grad + tau2 * vis;
        y[j] = p[j] * (sys * au + g->g_sys * v1[j] + rec->sys_d) + s_sys[j] * ag + eta * (1 + au) * vis;
    }
}

/* The same with dropout and a softcap: P' = mu P, dP' = mu dP, dS = f dS'. */
static void bent_readings(const rt_sweep *s, const rt_score_terms *t, const rt_grad_terms *g,
                          const rt_row_record *rec, const rt_pair_terms *pair, const key_block *x,
                          const double *score, const double *visible, double *p, double *ds, double *pe,
                          double *pv, double *py, double *e, double *var_ds, double *y)
{
    const double tau = s->more * s->budget.tau_p, eta = s->more * s->budget.eta, times = s->drops ? 2 : 0;
    for (int64_t j = 0; j < x->nk; j++) {
        const double w = p[j], mw = pair->mu[j] * w, vis = visible[j], a = fabs(score[j]),
                     z = fabs(score[j] - rec->lse);
        const rt_bent_reading r =
            rt_sweep_bent(s, t, g, rec, pair, j, x->v1[j], x->v2[j], score[j], w, ds[j]);
        double rho = pair->det[j] + t->u * (a + 2 * z) + g->det0;
        rho += rho * rho;
        const double var = pair->var[j] + t->u2 * (a * a + 2 * z * z + 3 + times) + rec->var_l;
        pe[j] = mw * (rho + x->s_det[j] + times * t->u) + (tau + eta) * vis;
        pv[j] = mw * mw * (var + x->s_var[j]) + tau * tau * vis;
        py[j] = mw * (pair->sys[j] + g->sys0 + x->s_sys[j]) + eta * vis;
        p[j] = mw;
        const double grad = r.value, ag = fabs(grad), f2 = r.weight * r.weight;
        ds[j] = grad;
        e[j] = r.det + r.weight * rec->det_d + x->s_det[j] * ag + (tau + eta * (1 + r.size)) * vis;
        var_ds[j] = r.var + f2 * (rec->var_l * r.size * r.size + rec->var_d) + x->s_var[j] * grad * grad +
                    tau * tau * vis;
        y[j] = r.sys + r.weight * rec->sys_d + x->s_sys[j] * ag + eta * (1 + r.size) * vis;
    }
}

/* Their sums by key. */
RT_SWEEP_WIDE
static void add_columns(bool lean, key_block *x, const double *restrict visible, const double *restrict pe,
                        const double *restrict pv, const double *restrict py, const double *restrict e,
                        const double *restrict var_ds, const double *restrict y)
{
    const int64_t n = x->nk;
    for (int64_t j = 0; j < n; j++) {
        x->e_v[j] += pe[j];
        x->y_v[j] += py[j];
        x->e_k[j] += e[j];
        x->y_k[j] += y[j];
        x->keys[j] += visible[j];
    }
    for (int64_t j = 0; j < n && lean; j++) {
        x->oe_v[j] += rt_sweep_over(pe[j], pv[j]);
        x->oy_v[j] += rt_sweep_over(py[j], pv[j]);
        x->oe_k[j] += rt_sweep_over(e[j], var_ds[j]);
        x->oy_k[j] += rt_sweep_over(y[j], var_ds[j]);
    }
}

static bool meets(const rt_cut *c, int64_t qb, int64_t lo, int64_t hi)
{
    return c->high[qb] >= lo && c->low[qb] < hi;
}

/* Rows of Q and dO, and their squares (kk, vv); where they are given (sample.h), their records too. */
static void load_rows(rt_sweep *s, int64_t h, int64_t qb, const rt_given *given, int64_t lo, int64_t hi,
                      row_block *r, rt_sweep_work *w)
{
    const rt_cut *c = &s->query_groups;
    const int64_t D = s->p->dim, Dv = s->p->dim_v;
    uint8_t g_bad[Q];
    r->pos = c->order + c->first[qb];
    r->nq = c->first[qb + 1] - c->first[qb];
    rt_sweep_load(s, RT_Q, h, r->pos, r->nq, D, w->q, r->bad);
    rt_sweep_load(s, RT_DOUT, h, r->pos, r->nq, Dv, w->dout, g_bad);
    for (int64_t i = 0; i < r->nq && given != NULL; i++)
        rt_given_row(s, given, h, r->pos[i], w->q + i * D, w->dout + i * Dv, (r->bad[i] | g_bad[i]) != 0,
                     r->pos[i] >= lo && r->pos[i] < hi, w->got, s->q_max, s->g_max);
    rt_sweep_square(r->nq * D, w->q, w->kk);
    rt_sweep_square(r->nq * Dv, w->dout, w->vv);
}

/* The matrices of a row block against the key block.
 * m2: P, then dS.  m5: det, var, sys of P; s5 (a second set, in `three`): det, var, sys of dS. */
static void matrices(rt_sweep *s, int64_t h, key_block *x, const row_block *r, rt_sweep_work *w,
                     double *three)
{
    const int64_t D = s->p->dim, Dv = s->p->dim_v;
    const rt_score_terms t = rt_sweep_score_terms(s);
    rt_gemm_nn(r->nq, x->nk, D, s->p->scale, w->q, D, x->k, K, 0.0, w->s, K);
    rt_gemm_nn(r->nq, x->nk, Dv, 1.0, w->dout, Dv, x->v, K, 0.0, w->m2 + r->nq * K, K);
    const rt_row_record *records = s->rows + (h - s->g * (s->p->heads_q / s->p->heads_kv)) * s->p->seqlen_q;
    for (int64_t i = 0; i < r->nq; i++) {
        double *restrict p = w->m2 + i * K, *restrict ds = w->m2 + (r->nq + i) * K;
        double *restrict pe = w->m5 + i * K, *restrict pv = w->m5 + (r->nq + i) * K,
                         *restrict py = w->m5 + (2 * r->nq + i) * K;
        double *restrict e = three + i * K, *restrict var_ds = three + (r->nq + i) * K,
                         *restrict y = three + (2 * r->nq + i) * K;
        double *score = w->s + i * K;
        const rt_row_record *rec = &records[r->pos[i]];
        const int64_t lo = s->lo[r->pos[i]], hi = s->hi[r->pos[i]];
        if (rec->keys == 0 || hi <= x->pos[0] || lo > x->pos[x->nk - 1] ||
            rt_sweep_see(s, h, r->pos[i], x->pos, x->nk, w->vis) == 0) {
            for (int64_t j = 0; j < x->nk; j++)
                p[j] = ds[j] = pe[j] = pv[j] = py[j] = e[j] = var_ds[j] = y[j] = 0;
            continue;
        }
        rt_sweep_scores(s, &t, h, r->pos[i], rec->q1, rec->q2, x->pos, x->nk, x->k1, x->k2, score,
                        &w->pair);
        memcpy(p, score, (size_t)x->nk * sizeof *p);
        rt_sweep_shift(x->nk, rec->lse, w->vis, p);
        rt_exp_vector(p, x->nk);
        const rt_grad_terms g = rt_sweep_grad_terms(s, rec);
        if (s->drops || t.cap > 0)
            bent_readings(s, &t, &g, rec, &w->pair, x, score, w->vis, p, ds, pe, pv, py, e, var_ds, y);
        else
            readings(s, &t, &g, rec, &w->pair, x, score, w->vis, p, ds, pe, pv, py, e, var_ds, y);
        add_columns(s->lean, x, w->vis, pe, pv, py, e, var_ds, y);
        for (int64_t j = 0; j < x->nk; j++)
            x->in_partial[j] |= w->vis[j] > 0;
        for (int64_t j = 0; j < x->nk && (rec->open || (rec->bad_s | rec->bad_p | rec->bad_g) != 0); j++) {
            if (!(w->vis[j] > 0))
                continue;
            x->bad_k[j] = rec->bad_s > x->bad_k[j] ? rec->bad_s : x->bad_k[j];
            x->bad_v[j] = rec->bad_p > x->bad_v[j] && w->pair.mu[j] > 0 ? rec->bad_p : x->bad_v[j];
            x->bad_g = x->bad_g || rec->bad_g > 0;
            x->open[j] = x->open[j] || rec->open;
        }
    }
}

static sums point(double *store, int64_t n)
{
    return (sums){store,         store + n,     store + 2 * n, store + 3 * n, store + 4 * n, store + 5 * n,
                  store + 6 * n, store + 7 * n, store + 8 * n, store + 9 * n, store + 10 * n};
}

/* Elements of dV that depend on a NaN or an infinity in dO: those of its dims only. */
static bool mark_dims(const rt_sweep *s, int64_t key, double *row, uint8_t *undefined)
{
    const int64_t group = s->p->heads_q / s->p->heads_kv, Dv = s->p->dim_v;
    bool any = false;
    for (int64_t h = 0; h < group; h++)
        for (int64_t i = s->col_lo[key]; i < s->col_hi[key]; i++) {
            if (s->rows[h * s->p->seqlen_q + i].bad_g == 0 ||
                !rt_sweep_pair_counts(s, s->g * group + h, i, key, true))
                continue;
            s->in->load(s->in->arg, RT_DOUT, s->b, i, s->g * group + h, row);
            for (int64_t d = 0; d < Dv; d++) {
                const uint8_t kind = rt_not_finite(row[d]);
                undefined[d] = kind > undefined[d] ? kind : undefined[d];
                any = any || kind > 0;
            }
        }
    return any;
}

static void close_keys(rt_sweep *s, const key_block *x, const sums *a, int64_t width, rt_tensor_id t,
                       double factor, const double *e, const double *y, const double *over_e,
                       const double *over_y, const double *x_max, const uint8_t *bad, rt_sweep_work *w)
{
    const rt_budget *b = &s->budget;
    const double u2 = b->u * b->u, gs2 = b->u_gs * b->u_gs, f = fabs(factor), f2 = f * f;
    const double heads = (double)(s->p->heads_q / s->p->heads_kv);
    rt_bounds *bounds = (rt_bounds *)(void *)w->m5;
    double *truth = w->row;
    uint8_t *undefined = (uint8_t *)(void *)w->vis;
    for (int64_t j = 0; j < x->nk; j++) {
        const double n = b->matrix_unit ? rt_budget_blocks(b, (int64_t)x->keys[j], 1) : x->keys[j],
                     joins = (double)(x->partials[j] - 1 +
                                      (s->again != NULL && x->partials[j] > 0 ? s->again[x->pos[j]] : 0));
        const bool rounds = joins > 0 || b->u_gb > rt_unit_roundoff(s->in->dtype[t]);
        const double ub = rounds ? b->u_gb : 0, tb = rounds ? b->tau_gb : 0,
                     flushed = b->eta * (x->keys[j] + 4);
        const double more =
            heads > 1 ? heads * (joins + 1) : 0; /* a group's heads may be rounded before they are added */
        for (int64_t d = 0; d < width; d++) {
            const int64_t at = j * width + d;
            const double v = factor * a->value[at], steps = 0.5 * (f * a->t_abs[at] + fabs(v));
            const double M = fmax(fmax(f * a->top[at], steps), 0.5 * (f * a->h_abs[at] + fabs(v)));
            const double det =
                f * rt_sweep_spread(s->lean, e[j], over_e[j], a->det[at], a->var[at], x_max[d]) +
                2 * b->u * fabs(v) + (heads - 1) * b->u * 2 * M + ub * f * a->t_abs[at] + (joins + 1) * tb +
                (joins > 0 ? joins * (2 * b->u_gs * M + b->tau_gs) : 0) + b->u_gb * f * a->h_abs[at] +
                more * b->tau_gb + flushed;
            const double var = f2 * a->var[at] + u2 * (n + 4 * (heads - 1)) * M * M + 3 * u2 * v * v +
                               ub * ub * f2 * a->t_sq[at] + (joins + 1) * tb * tb +
                               (joins > 0 ? joins * (4 * gs2 * M * M + b->tau_gs * b->tau_gs) : 0) +
                               b->u_gb * b->u_gb * f2 * a->h_sq[at] + more * b->tau_gb * b->tau_gb;
            const double sys =
                f * rt_sweep_spread(s->lean, y[j], over_y[j], a->sys[at], a->var[at], x_max[d]) + flushed;
            truth[d] = v;
            bounds[d] = x->keys[j] > 0 ? rt_budget_close(b, det, var, sys, s->lambda[t], s->in->dtype[t], v)
                                       : (rt_bounds){0};
        }
        memset(undefined, bad[j], (size_t)width);
        const bool some = t == RT_DV && x->bad_g && mark_dims(s, x->pos[j], w->got, undefined);
        const double *exact = t == RT_DK ? s->x_dk : s->x_dv;
        const bool known =
            exact != NULL && x->keys[j] > 0 &&
            rt_sweep_take_exact(exact + (x->first + j) * width,
                                (t == RT_DK ? s->open_dk : s->open_dv)[x->first + j], width, truth, bounds);
        if (!known && x->open[j])
            rt_sweep_unknown(width, truth, bounds);
        rt_tally_row(s, w, t, x->pos[j], s->g, width, truth, bounds, bad[j] > 0 || some ? undefined : NULL);
    }
}

/* How many queries see each key. */
static void count_rows(const rt_sweep *s, const key_block *x, int64_t *rows)
{
    uint8_t seen[K];
    for (int64_t j = 0; j < x->nk; j++)
        rows[j] = s->interval ? s->col_hi[x->pos[j]] - s->col_lo[x->pos[j]] : 0;
    for (int64_t i = x->lo; i < x->hi && !s->interval; i++) {
        (void)rt_mask_row_keys(s->p, s->b, i, x->pos, x->nk, seen);
        for (int64_t j = 0; j < x->nk; j++)
            rows[j] += seen[j];
    }
}

/* The keys of a block, and room for their sums. */
static void begin(const rt_sweep *s, int64_t kb, double *store, key_block *x, rt_sweep_work *w)
{
    const int64_t D = s->p->dim, Dv = s->p->dim_v, group = s->p->heads_q / s->p->heads_kv;
    x->first = s->keys.first[kb];
    x->nk = s->keys.first[kb + 1] - x->first;
    x->pos = s->keys.order + x->first;
    x->lo = INT64_MAX;
    x->hi = INT64_MIN;
    x->k = store;
    x->v = store + K * D;
    store += K * (D + Dv);
    for (int64_t j = 0; j < x->nk; j++) {
        const int64_t y = x->pos[j], lo = s->col_lo[y], hi = s->col_hi[y];
        rt_sweep_key(s, y, w->row);
        for (int64_t d = 0; d < D; d++)
            x->k[d * K + j] = w->row[d];
        rt_sweep_value(s, y, w->row);
        for (int64_t d = 0; d < Dv; d++)
            x->v[d * K + j] = w->row[d];
        x->k1[j] = s->k1[y];
        x->k2[j] = s->k2[y];
        x->v1[j] = s->v1[y];
        x->v2[j] = s->v2[y];
        if (lo < hi) {
            x->lo = rt_min64(x->lo, lo);
            x->hi = rt_max64(x->hi, hi);
        }
    }
    int64_t rows[K];
    count_rows(s, x, rows);
    for (int64_t j = 0; j < x->nk; j++) {
        const rt_sum_terms sum = rt_sweep_sum_terms(&s->budget, rows[j] * group);
        x->s_det[j] = sum.det;
        x->s_var[j] = sum.var;
        x->s_sys[j] = sum.sys;
    }
    const int64_t nd = x->nk * D, nv = x->nk * Dv;
    memset(store, 0, (size_t)(SUMS * (nd + nv)) * sizeof *store);
    x->dk = point(store, nd);
    x->dv = point(store + SUMS * nd, nv);
}

/* What a block of rows adds to the sums of the keys. */
static void add_rows(const rt_sweep *s, const row_block *r, key_block *x, rt_sweep_work *w)
{
    const int64_t D = s->p->dim, Dv = s->p->dim_v, nq = r->nq;
    const sums *a = &x->dk, *c = &x->dv;
    /* P^T dO and the readings of P against dO^2 */
    rt_gemm_tn(x->nk, Dv, nq, 1.0, w->m2, K, w->dout, Dv, 1.0, c->value, Dv);
    if (!s->lean)
        rt_gemm_tn(x->nk, Dv, nq, 1.0, w->m5, K, w->vv, Dv, 1.0, c->det, Dv);
    rt_gemm_tn(x->nk, Dv, nq, 1.0, w->m5 + nq * K, K, w->vv, Dv, 1.0, c->var, Dv);
    if (!s->lean)
        rt_gemm_tn(x->nk, Dv, nq, 1.0, w->m5 + 2 * nq * K, K, w->vv, Dv, 1.0, c->sys, Dv);
    rt_sweep_grow(x->nk * Dv, c->value, c->top);
    /* dS^T Q and the readings of dS against Q^2 */
    rt_gemm_tn(x->nk, D, nq, 1.0, w->m2 + nq * K, K, w->q, D, 1.0, a->value, D);
    if (!s->lean)
        rt_gemm_tn(x->nk, D, nq, 1.0, w->three, K, w->kk, D, 1.0, a->det, D);
    rt_gemm_tn(x->nk, D, nq, 1.0, w->three + nq * K, K, w->kk, D, 1.0, a->var, D);
    if (!s->lean)
        rt_gemm_tn(x->nk, D, nq, 1.0, w->three + 2 * nq * K, K, w->kk, D, 1.0, a->sys, D);
    rt_sweep_grow(x->nk * D, a->value, a->top);
}

void rt_sweep_keys(rt_sweep *s, int64_t kb, int64_t blocks, bool given, rt_sweep_work *w)
{
    const int64_t D = s->p->dim, Dv = s->p->dim_v, group = s->p->heads_q / s->p->heads_kv;
    key_block part[RT_SWEEP_KEY_BLOCKS];
    int64_t lo = INT64_MAX, hi = INT64_MIN;
    memset(part, 0, sizeof part);
    for (int64_t y = 0; y < blocks; y++) {
        begin(s, kb + y, w->keys + y * K * (SUMS + 1) * (D + Dv), &part[y], w);
        lo = rt_min64(lo, part[y].lo);
        hi = rt_max64(hi, part[y].hi);
    }
    const rt_given worst = given ? rt_given_begin(s) : (rt_given){0};
    const rt_cut *cut = &s->query_groups;
    for (int64_t qb = 0, end; qb < cut->blocks; qb = end) {
        for (end = qb + 1; end < cut->blocks && cut->group[end] == cut->group[qb]; end++)
            ;
        for (int64_t h = s->g * group; h < (s->g + 1) * group; h++) {
            for (int64_t q = qb; q < end; q++) {
                row_block r;
                if (!meets(cut, q, lo, hi))
                    continue;
                load_rows(s, h, q, given ? &worst : NULL, lo, hi, &r, w);
                for (key_block *x = part; x < part + blocks; x++)
                    if (meets(cut, q, x->lo, x->hi)) {
                        matrices(s, h, x, &r, w, w->three);
                        add_rows(s, &r, x, w);
                    }
            }
            for (const key_block *x = part; group > 1 && x < part + blocks; x++) {
                rt_sweep_close_partial(x->nk * D, x->dk.value, x->dk.h_prev, x->dk.h_abs, x->dk.h_sq);
                rt_sweep_close_partial(x->nk * Dv, x->dv.value, x->dv.h_prev, x->dv.h_abs, x->dv.h_sq);
            }
        }
        for (key_block *x = part; x < part + blocks; x++) {
            rt_sweep_close_partial(x->nk * D, x->dk.value, x->dk.prev, x->dk.t_abs, x->dk.t_sq);
            rt_sweep_close_partial(x->nk * Dv, x->dv.value, x->dv.prev, x->dv.t_abs, x->dv.t_sq);
            for (int64_t j = 0; j < x->nk; j++) {
                x->partials[j] += x->in_partial[j];
                x->in_partial[j] = false;
            }
        }
    }
    /* An infinity or a NaN in a key's own slot reaches its dK through the rows that see it, and only
     * through them. */
    for (const key_block *x = part; x < part + blocks; x++) {
        if (s->any[RT_DK])
            close_keys(s, x, &x->dk, D, RT_DK, s->p->scale, x->e_k, x->y_k, x->oe_k, x->oy_k, s->q_max,
                       x->bad_k, w);
        if (s->any[RT_DV])
            close_keys(s, x, &x->dv, Dv, RT_DV, 1.0, x->e_v, x->y_v, x->oe_v, x->oy_v, s->g_max, x->bad_v,
                       w);
    }
}
