/* Arithmetic exact, backward: one tile.
 *
 * forward was  s = alpha q.k, P = exp(s - L), O = P V;  so now, with delta = dO.O:
 *   dV += P^T dO      dP = dO V^T      dS = P o (dP - delta)      dQ += dS K      dK += dS^T Q      (times alpha at the end)
 * s and dP come from exact products, P and dS are double-doubles; for the three sums P and dS are cut at 2^-25 of the largest entry of
 * their row (dQ) or column (dV, dK), so that the leading slices' products are exact.
 *
 * Errors: of P, relative, rho = alpha err_s + e_L + ..; of dP - delta, absolute, tau = err_dp + e_delta + ..; so of dS
 * rho |dS| + tau P: sums of |dS| and P over rows and columns bound what reaches dQ and dK; sums of P what reaches dV.
 * A row that sees one key, and no sink, has dS = 0, exactly.
 * With softcap dS has the factor 1 - tanh^2 = g as well, with dropout P and dP the mask m, 0 or 1, and delta, dQ, dK, dV are in units of
 * 1 / keep until the last step: dV += (P o m)^T dO, dS = P o g o (m dP - delta).
 *
 * A unit of work is one (batch, key head), as in f64. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "arithmetic/exact.h"

enum { Q = RT_BLOCK_Q, K = RT_BLOCK_K };

typedef struct {
    rt_slices q, dout, qc, doutc; /* by row; by column */
    rt_exact_scores s, dp;
    double *p[2], *ds[2], *a1, *a2; /* (Q, K) */
    double *big, *small, *more;     /* (K, max(D, Dv)) */
    double *q_clean, *dout_clean, *qc_scaled, *doutc_scaled;
    double *col_ds, *col_p, *top_ds, *top_p, *scale, *inverse, *unit; /* K, K, K, K, K, K, max(D, Dv) */
    double *add, *slope, *bent[2], *col_v, *top_v; /* modified scores: 3 K, 2 K, K, K, K, K */
    uint8_t keep[K];
    double row[Q][3], rho[Q], rho_v[Q], tau[Q];
    bool q_bad[Q], dout_bad[Q], q_far[Q], dout_far[Q];
    rt_exact_keys keys;
    rt_checked_gemm gemm;
    double *store;
} scratch;

static rt_status scratch_create(rt_context *ctx, const rt_problem *p, int64_t n_kv, rt_gemm_fn gemm,
                                scratch *w)
{
    const int64_t D = p->dim, Dv = p->dim_v, X = D > Dv ? D : Dv, QK = Q * K;
    const int64_t sizes[] = {QK,    QK,    QK,    QK,     QK,    QK,     K,
                             QK,    QK,    QK,    QK,     QK,    QK,     K,
                             QK,    QK,    QK,    QK,     QK,    QK,     K * X,
                             K * X, K * X, Q * D, Q * Dv, Q * D, Q * Dv, K,
                             K,     K,     K,     K,      K,     K + X,  9 * RT_CHECK_MAX,
                             3 * K, 2 * K, K,     K,      K,     K};
    double **const at[] = {
        &w->s.s[0],     &w->s.s[1],    &w->s.s[2],       &w->s.hi,    &w->s.lo,      &w->s.extra,
        &w->s.vis,      &w->dp.s[0],   &w->dp.s[1],      &w->dp.s[2], &w->dp.hi,     &w->dp.lo,
        &w->dp.extra,   &w->dp.vis,    &w->p[0],         &w->p[1],    &w->ds[0],     &w->ds[1],
        &w->a1,         &w->a2,        &w->big,          &w->small,   &w->more,      &w->q_clean,
        &w->dout_clean, &w->qc_scaled, &w->doutc_scaled, &w->col_ds,  &w->col_p,     &w->top_ds,
        &w->top_p,      &w->scale,     &w->inverse,      &w->unit,    &w->gemm.sums, &w->add,
        &w->slope,      &w->bent[0],   &w->bent[1],      &w->col_v,   &w->top_v};
    memset(w, 0, sizeof *w);
    w->store = rt_carve(ctx, (int)(sizeof sizes / sizeof sizes[0]), sizes, at);
    if (w->store == NULL)
        return RT_ERR_NOMEM;
    w->gemm.gemm = gemm;
    RT_TRY(rt_slices_reserve(ctx, &w->q, Q, D));
    RT_TRY(rt_slices_reserve(ctx, &w->qc, Q, D));
    RT_TRY(rt_slices_reserve(ctx, &w->dout, Q, Dv));
    RT_TRY(rt_slices_reserve(ctx, &w->doutc, Q, Dv));
    return rt_exact_keys_reserve(ctx, &w->keys, p, n_kv, true);
}

static void scratch_reset(scratch *w)
{
    rt_slices_reset(&w->q);
    rt_slices_reset(&w->qc);
    rt_slices_reset(&w->dout);
    rt_slices_reset(&w->doutc);
    rt_exact_keys_reset(&w->keys);
    rt_free(w->store);
}

typedef struct {
    const rt_problem *p;
    const rt_blocks *blocks;
    const rt_exact_grads *x;
    const rt_exact_kernels *f;
    rt_dd alpha;
    double alpha_error;
    rt_exact_bend bend;
    const int64_t *q_pos, *k_pos;
    int64_t b0; /* the batch that b = 0 stands for */
} job;

/* result rows (m, n) at part[0], part[1] += (big + small) row_scale_i unit_d; part[2] += e_i top_d.  */
static void add_rows(const job *j, scratch *w, const rt_part *part, int64_t b, int64_t h, int64_t row0,
                     int64_t m, int64_t n, const double *row_scale, const rt_slices *columns,
                     double units_error, const double *element_error)
{
    const double unit = ldexp(1.0, columns->bits);
    for (int64_t i = 0; i < m; i++) {
        double *hi = rt_part_at(&part[0], b, h, row0 + i), *lo = rt_part_at(&part[1], b, h, row0 + i),
               *e = rt_part_at(&part[2], b, h, row0 + i);
        j->f->accumulate(n, w->big + i * n, w->small + i * n, columns->scale, row_scale[i], hi, lo);
        /* units_error is in units of scale_d row_scale_i; the elements of A are off by element_error_i in sum, times |x_d| < 2^G_d */
        const double share = units_error * row_scale[i] / unit + element_error[i] * (1 + 0x1p-20);
        for (int64_t d = 0; d < n; d++)
            e[d] += share * (columns->scale[d] * unit) + 0x1p-100 * fabs(hi[d]) +
                    RT_EXACT_FLOOR * columns->scale[d] * unit;
    }
}

static double power_above(double x)
{
    if (!(x > 0x1p-901))
        return 0x1p-900;
    int e;
    (void)frexp(x, &e);
    return ldexp(1.0, e);
}

static void fill(const rt_part *part, int count, int64_t b, int64_t h, int64_t row, double x)
{
    for (int k = 0; k < count; k++)
        for (int64_t d = 0; d < part[k].width; d++)
            rt_part_at(&part[k], b, h, row)[d] = x;
}

/* As in f64: a row that is NaN makes NaN of every gradient it takes part in, and of no other; a dO that is not finite, only of its own
 * element of dv; a pair that is dropped hands nothing to dv.  The error is NaN with the value.  A row out of range makes their errors infinite. */
static void poison(const job *j, const scratch *w, int64_t b, int64_t h, int64_t g, int64_t row0,
                   int64_t nq, int64_t key0, int64_t nk)
{
    for (int64_t i = 0; i < nq; i++) {
        const bool p_bad = isnan(*rt_part_at(&j->x->row[1], b, h, row0 + i));
        const bool s_bad = p_bad || w->dout_bad[i] || isnan(*rt_part_at(&j->x->row[4], b, h, row0 + i));
        const double *dout = rt_part_at(&j->x->row[0], b, h, row0 + i);
        const bool far = w->dout_far[i] || *rt_part_at(&j->x->row[1], b, h, row0 + i) > DBL_MAX;
        for (int64_t k = 0; k < nk && (s_bad || far); k++) {
            if (!rt_blocks_visible(j->blocks, j->b0 + b, row0 + i, key0 + k) ||
                rt_exact_hidden(&j->bend, j->b0 + b, h, j->q_pos[row0 + i], j->k_pos[key0 + k]))
                continue;
            if (far && j->x->dq != NULL)
                fill(j->x->dq + 2, 1, b, h, row0 + i, RT_INF);
            if (far && j->x->dkv != NULL) {
                fill(j->x->dkv + 2, 1, b, g, key0 + k, RT_INF);
                fill(j->x->dkv + 5, 1, b, g, key0 + k, RT_INF);
            }
            if (far) {
                if (j->x->dbias != NULL)
                    rt_part_at(&j->x->dbias[2], b, h, row0 + i)[j->k_pos[key0 + k]] = RT_INF;
            }
            if (!s_bad || j->x->dq == NULL || j->x->dkv == NULL) /* a part alone is for finite inputs */
                continue;
            fill(j->x->dq, 3, b, h, row0 + i, RT_NAN);
            fill(j->x->dkv, 3, b, g, key0 + k, RT_NAN);
            for (int z = 0; z < 3 && j->x->dbias != NULL; z++)
                rt_part_at(&j->x->dbias[z], b, h, row0 + i)[j->k_pos[key0 + k]] = RT_NAN;
            if ((!p_bad && !w->dout_bad[i]) ||
                !rt_dropout_keep(j->p, j->b0 + b, h, j->q_pos[row0 + i], j->k_pos[key0 + k]))
                continue;
            for (int z = 3; z < 6; z++) {
                double *dv = rt_part_at(&j->x->dkv[z], b, g, key0 + k);
                for (int64_t d = 0; d < j->p->dim_v; d++)
                    dv[d] = p_bad || !isfinite(dout[d]) ? RT_NAN : dv[d];
            }
        }
    }
}

/* Cut P or dS (hi, lo) into a1 + a2: by row (scale[i]) or by column (scale[j]); scales are top 2^-25. */
static void cut_matrix(const job *j, scratch *w, double *const m[2], int64_t nq, int64_t nk, bool by_row,
                       const double *top)
{
    const int64_t n = by_row ? nq : nk;
    for (int64_t i = 0; i < n; i++)
        w->scale[i] = power_above(top[i]) * 0x1p-25;
    if (!by_row)
        for (int64_t k = 0; k < nk; k++)
            w->inverse[k] = 1 / w->scale[k];
    for (int64_t i = 0; i < nq; i++) {
        if (by_row)
            for (int64_t k = 0; k < nk; k++)
                w->inverse[k] = 1 / w->scale[i];
        j->f->cut(nk, m[0] + i * K, m[1] + i * K, w->inverse, w->a1 + i * K, w->a2 + i * K);
    }
}

/* (hi, lo) = (a_hi, a_lo) (b_hi, b_lo) */
static void times(int64_t n, const double *a_hi, const double *a_lo, const double *b_hi, const double *b_lo,
                  double *hi, double *lo)
{
    for (int64_t k = 0; k < n; k++) {
        const rt_dd x = rt_dd_mul((rt_dd){a_hi[k], a_lo[k]}, (rt_dd){b_hi[k], b_lo[k]});
        hi[k] = x.hi;
        lo[k] = x.lo;
    }
}

/* dBias += dS, at the keys' positions; a weight that vanished leaves FLOOR (|dP| + |delta|). */
static void add_bias_row(const job *j, const scratch *w, int64_t b, int64_t h, int64_t row, int64_t i,
                         const int64_t *k_pos, int64_t nk, const double *vis, const double *weight,
                         double delta)
{
    double *hi = rt_part_at(&j->x->dbias[0], b, h, row), *lo = rt_part_at(&j->x->dbias[1], b, h, row),
           *e = rt_part_at(&j->x->dbias[2], b, h, row);
    for (int64_t k = 0; k < nk; k++) {
        if (vis != NULL && !(vis[k] > 0))
            continue;
        const int64_t at = k_pos[k];
        const double ds = w->ds[0][i * K + k], size = fabs(w->dp.hi[i * K + k]) + delta;
        const rt_dd sum = rt_dd_add((rt_dd){hi[at], lo[at]}, (rt_dd){ds, w->ds[1][i * K + k]});
        hi[at] = sum.hi;
        lo[at] = sum.lo;
        e[at] += (w->rho[i] * fabs(ds) + w->tau[i] * weight[k]) * (1 + 0x1p-20) +
                 0x1p-99 * (fabs(sum.hi) + fabs(ds)) + RT_EXACT_FLOOR * size;
    }
}

static void block(const job *j, int64_t b, int64_t g, int64_t h, int64_t qb, int64_t kb, rt_block_class cls,
                  scratch *w)
{
    const rt_problem *p = j->p;
    const int64_t D = p->dim, Dv = p->dim_v, row0 = qb * Q, nq = rt_min64(Q, j->blocks->n_q - row0);
    const int64_t key0 = kb * K, nk = rt_min64(K, w->keys.n - key0);
    const double *ck = w->keys.clean, *cv = ck + w->keys.n * D;
    const double err_products =
        rt_exact_products(&w->gemm, j->f, &w->q, nq, &w->keys.k, key0, nk, ck, w->q_clean, &w->s);
    const double err_dp =
        rt_exact_products(&w->gemm, j->f, &w->dout, nq, &w->keys.v, key0, nk, cv, w->dout_clean, &w->dp);
    /* bent scores are in natural units; P and dS then differ in what they are made of */
    const bool bent = j->bend.any, apart = j->bend.drops || p->softcap > 0;
    const rt_dd unit_scale = bent ? (rt_dd){1, 0} : j->alpha;
    const double alpha[2] = {unit_scale.hi, unit_scale.lo}, a = fabs(alpha[0]),
                 alpha_error = bent ? 0 : j->alpha_error;
    double *const col_v = apart ? w->col_v : w->col_p, *const top_v = apart ? w->top_v : w->top_p;
    bool odd = w->keys.any_bad;
    for (int64_t k = 0; k < nk; k++)
        w->col_ds[k] = w->col_p[k] = w->top_ds[k] = w->top_p[k] = w->col_v[k] = w->top_v[k] = 0;
    double rho_top = 0, rho_v_top = 0, tau_top = 0;
    for (int64_t i = 0; i < nq; i++) {
        double *ph = w->p[0] + i * K, *pl = w->p[1] + i * K, *dh = w->ds[0] + i * K, *dl = w->ds[1] + i * K;
        const double L[2] = {*rt_part_at(&j->x->row[1], b, h, row0 + i),
                             *rt_part_at(&j->x->row[2], b, h, row0 + i)};
        const double delta[2] = {*rt_part_at(&j->x->row[4], b, h, row0 + i),
                                 *rt_part_at(&j->x->row[5], b, h, row0 + i)};
        w->row[i][0] = w->row[i][1] = w->row[i][2] = w->rho[i] = w->rho_v[i] = w->tau[i] = 0;
        odd =
            odd || w->q_bad[i] || w->dout_bad[i] || w->dout_far[i] || !(L[0] <= DBL_MAX) || isnan(delta[0]);
        if (!isfinite(L[0])) {
            memset(ph, 0, (size_t)nk * sizeof(double));
            memset(pl, 0, (size_t)nk * sizeof(double));
            memset(dh, 0, (size_t)nk * sizeof(double));
            memset(dl, 0, (size_t)nk * sizeof(double));
            continue;
        }
        const double *vis = NULL;
        if (cls == RT_BLOCK_PARTIAL) {
            rt_blocks_vis(j->blocks, j->b0 + b, row0 + i, key0, nk, w->s.vis);
            vis = w->s.vis;
        }
        const int64_t pos = j->q_pos[row0 + i], *k_pos = j->k_pos + key0;
        vis = rt_exact_hide(&j->bend, j->b0 + b, h, pos, k_pos, nk, vis, w->s.vis);
        double err_s = err_products, slope_error = 0;
        bool far = false; /* then L would have said so */
        if (bent)
            err_s = rt_exact_bend_row(&j->bend, j->f, j->b0 + b, h, pos, k_pos, nk, j->alpha,
                                      j->alpha_error, err_products, vis, w->s.hi + i * K, w->s.lo + i * K,
                                      w->add, w->slope, &slope_error, &far);
        j->f->weights(nk, w->s.hi + i * K, w->s.lo + i * K, alpha, L, vis, ph, pl);
        const double *gh = ph, *gl = pl; /* dS = g (dP - delta) */
        if (p->softcap > 0) {
            times(nk, ph, pl, w->slope, w->slope + nk, w->bent[0], w->bent[1]);
            gh = w->bent[0];
            gl = w->bent[1];
        }
        if (j->bend.drops)
            rt_exact_drop(&j->bend, j->b0 + b, h, pos, k_pos, nk, w->keep, w->dp.hi + i * K,
                          w->dp.lo + i * K);
        double size = 0, dp_size = 0;
        for (int64_t k = 0; k < nk; k++) {
            const double y = fabs(w->s.hi[i * K + k]) * a, z = fabs(w->dp.hi[i * K + k]);
            size = ph[k] > 0 && y > size ? y : size;
            dp_size = ph[k] > 0 && z > dp_size ? z : dp_size;
        }
        w->rho_v[i] = a * err_s + alpha_error * size + 0x1p-100 * (size + fabs(L[0])) + RT_DD_EXP_ERROR +
                      *rt_part_at(&j->x->row[3], b, h, row0 + i);
        w->rho[i] = p->softcap > 0 ? w->rho_v[i] + slope_error + 0x1p-100 : w->rho_v[i];
        w->tau[i] =
            err_dp + *rt_part_at(&j->x->row[6], b, h, row0 + i) + 0x1p-100 * (dp_size + fabs(delta[0]));
        const double zero[2] = {0, 0};
        const bool alone = p->sink == NULL && rt_blocks_alone(j->blocks, j->b0 + b, row0 + i),
                   none = alone || isnan(delta[0]);
        j->f->gradient(nk, gh, gl, w->dp.hi + i * K, w->dp.lo + i * K, none ? zero : delta, dh, dl,
                       w->col_ds, w->col_p, w->top_ds, w->top_p, w->row[i]);
        if (none) { /* dS is exactly 0 (or NaN, which poison answers for) */
            memset(dh, 0, (size_t)nk * sizeof(double));
            memset(dl, 0, (size_t)nk * sizeof(double));
            w->row[i][0] = w->row[i][1] = w->row[i][2] = w->tau[i] = 0;
        }
        for (int64_t k = 0; k < nk && apart; k++) { /* P as dV meets it */
            if (j->bend.drops && !w->keep[k])
                ph[k] = pl[k] = 0;
            col_v[k] += ph[k];
            top_v[k] = ph[k] > top_v[k] ? ph[k] : top_v[k];
        }
        if (j->x->dbias != NULL && !none)
            add_bias_row(j, w, b, h, row0 + i, i, k_pos, nk, vis, gh, fabs(delta[0]));
        rho_top = w->rho[i] > rho_top ? w->rho[i] : rho_top;
        rho_v_top = w->rho_v[i] > rho_v_top ? w->rho_v[i] : rho_v_top;
        tau_top = w->tau[i] > tau_top ? w->tau[i] : tau_top;
    }
    double row_error[Q], row_top[Q];
    for (int64_t i = 0; i < nq; i++) {
        row_error[i] = w->rho[i] * w->row[i][0] + w->tau[i] * w->row[i][1];
        row_top[i] = w->row[i][2];
    }
    double e;
    if (j->x->dq == NULL)
        goto keys;
    /* dQ += dS K */
    cut_matrix(j, w, w->ds, nq, nk, true, row_top);
    e = rt_exact_apply(&w->gemm, false, nq, D, nk, w->a1, w->a2, K, &w->keys.kc, key0, w->keys.kc_scaled,
                       true, w->big, w->small, w->more);
    add_rows(j, w, j->x->dq, b, h, row0, nq, D, w->scale, &w->keys.kc, e, row_error);
keys:
    if (j->x->dkv == NULL) {
        if (odd)
            poison(j, w, b, h, g, row0, nq, key0, nk);
        return;
    }
    /* dK += dS^T Q */
    double *column_error = w->unit; /* K of them */
    cut_matrix(j, w, w->ds, nq, nk, false, w->top_ds);
    for (int64_t k = 0; k < nk; k++)
        column_error[k] = rho_top * w->col_ds[k] + tau_top * w->col_p[k];
    e = rt_exact_apply(&w->gemm, true, nk, D, nq, w->a1, w->a2, K, &w->qc, 0, w->qc_scaled, true, w->big,
                       w->small, w->more);
    add_rows(j, w, j->x->dkv, b, g, key0, nk, D, w->scale, &w->qc, e, column_error);
    /* dV += P^T dO */
    cut_matrix(j, w, w->p, nq, nk, false, top_v);
    for (int64_t k = 0; k < nk; k++)
        column_error[k] = rho_v_top * col_v[k];
    e = rt_exact_apply(&w->gemm, true, nk, Dv, nq, w->a1, w->a2, K, &w->doutc, 0, w->doutc_scaled, true,
                       w->big, w->small, w->more);
    add_rows(j, w, j->x->dkv + 3, b, g, key0, nk, Dv, w->scale, &w->doutc, e, column_error);
    if (odd)
        poison(j, w, b, h, g, row0, nq, key0, nk);
}

static void zero_rows(const rt_part *part, int count, int64_t b, int64_t h, int64_t rows)
{
    for (int k = 0; k < count; k++)
        for (int64_t i = 0; i < rows; i++)
            memset(rt_part_at(&part[k], b, h, i), 0, (size_t)part[k].width * sizeof(double));
}

/* A row block of one head: cut once, then met with every block of keys. */
static void rows(const job *j, int64_t b, int64_t g, int64_t h, int64_t qb, scratch *w)
{
    const rt_problem *p = j->p;
    const int64_t D = p->dim, Dv = p->dim_v, row0 = qb * Q, nq = rt_min64(Q, j->blocks->n_q - row0);
    const double *q = rt_part_at(j->x->q, b, h, row0), *dout = rt_part_at(&j->x->row[0], b, h, row0);
    (void)rt_exact_clean(q, nq, D, D, w->q_bad, w->q_far, w->q_clean);
    (void)rt_exact_clean(dout, nq, Dv, Dv, w->dout_bad, w->dout_far, w->dout_clean);
    rt_slices_cut(&w->q, w->q_clean, D, nq, D, rt_slices_bits(D, 0), false);
    rt_slices_cut(&w->qc, w->q_clean, D, nq, D, rt_slices_bits(Q, RT_P_BITS), true);
    rt_slices_cut(&w->dout, w->dout_clean, Dv, nq, Dv, rt_slices_bits(Dv, 0), false);
    rt_slices_cut(&w->doutc, w->dout_clean, Dv, nq, Dv, rt_slices_bits(Q, RT_P_BITS), true);
    for (int64_t i = 0; i < nq; i++) {
        for (int64_t d = 0; d < D; d++)
            w->qc_scaled[i * D + d] = w->q_clean[i * D + d] / w->qc.scale[d];
        for (int64_t d = 0; d < Dv; d++)
            w->doutc_scaled[i * Dv + d] = w->dout_clean[i * Dv + d] / w->doutc.scale[d];
    }
    for (int64_t kb = 0; kb < j->blocks->n_kb; kb++) {
        const rt_block_class cls = rt_blocks_classify(j->blocks, j->b0 + b, qb, kb);
        if (cls != RT_BLOCK_EMPTY)
            block(j, b, g, h, qb, kb, cls, w);
    }
}

rt_status rt_exact_backward_tile(rt_context *ctx, const rt_problem *p, int64_t b0, int64_t n_q,
                                 const int64_t *q_pos, int64_t n_kv, const int64_t *k_pos, int64_t head0,
                                 int64_t head1, const rt_exact_grads *x, rt_gemm_fn gemm, int64_t counts[2],
                                 void (*poke)(void *), void *poke_arg)
{
    rt_blocks blocks;
    RT_TRY(rt_blocks_create(ctx, p, b0, q_pos, n_q, k_pos, n_kv, Q, K, &blocks));
    const int threads = omp_get_max_threads();
    rt_status st = RT_ERR_NOMEM;
    scratch *work = rt_calloc(ctx, threads, sizeof *work);
    if (work == NULL)
        goto reset_blocks;
    st = RT_OK;
    for (int i = 0; i < threads && st == RT_OK; i++)
        st = scratch_create(ctx, p, n_kv, gemm, &work[i]);
    if (st != RT_OK)
        goto free_scratch;
    const int64_t group = p->heads_q / p->heads_kv, g0 = head0 / group,
                  heads = (head1 - 1) / group + 1 - g0, units = p->batch * heads;
    job j = {.p = p,
             .blocks = &blocks,
             .x = x,
             .f = rt_exact_kernels_here(),
             .q_pos = q_pos,
             .k_pos = k_pos,
             .b0 = b0};
    rt_exact_bend_init(p, &j.bend);
    j.alpha = rt_exact_scale(p, &j.alpha_error);
    const bool team = units > 1 && rt_worth_a_team(p, n_q, n_kv, head1 - head0);
#pragma omp parallel for schedule(dynamic, 1) if (team) default(none)                                      \
    shared(j, blocks, work, units, heads, g0, group, head0, head1, n_q, n_kv, p, poke, poke_arg)
    for (int64_t u = 0; u < units; u++) {
        rt_gemm_alone();
        const int64_t b = u / heads, g = g0 + u % heads;
        scratch *w = &work[omp_get_thread_num()];
        rt_exact_keys_cut(&w->keys, p, rt_part_at(j.x->k, b, g, 0), rt_part_at(j.x->v, b, g, 0), n_kv,
                          true);
        if (j.x->dkv != NULL && j.x->fresh_kv)
            zero_rows(j.x->dkv, RT_EXACT_DKV, b, g, n_kv);
        for (int64_t h = rt_max64(head0, g * group); h < rt_min64(head1, (g + 1) * group); h++) {
            if (j.x->dq != NULL && j.x->fresh_q)
                zero_rows(j.x->dq, RT_EXACT_DQ, b, h, n_q);
            if (j.x->dbias != NULL && j.x->fresh_q)
                zero_rows(j.x->dbias, RT_EXACT_DQ, b, h, n_q);
            for (int64_t qb = 0; qb < blocks.n_qb; qb++) {
                rows(&j, b, g, h, qb, w);
                if (poke != NULL && omp_get_thread_num() == 0)
                    poke(poke_arg);
            }
        }
    }
    for (int i = 0; i < threads; i++) {
        counts[0] += work[i].gemm.products;
        counts[1] += work[i].gemm.wrong;
    }
free_scratch:
    for (int i = 0; i < threads; i++)
        scratch_reset(&work[i]);
    rt_free(work);
reset_blocks:
    rt_blocks_reset(&blocks);
    return st;
}
