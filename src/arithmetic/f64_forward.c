/* Arithmetic f64, forward: one tile, in blocks of 768 rows x 384 keys.
 *
 * Shapes of a block: S (nq, nk) = scale Q K^T; P = exp(S - m); acc (nq, Dv) += P V.
 * A row's partial (m, l, acc) of this tile is made in scratch and then joined to what the destination
 * holds, so that the order of the sums is the order of the plan's listing and nothing else: a unit of work
 * is one (batch, head, row block), owned by one thread from start to end, with BLAS products of one thread.
 *
 * Error radius (first order, u = 2^-53, n keys): |dO| <= sum_j w_j rho_j |v_j - O| + (gamma_n + 4u) sum_j
 * w_j |v_j| with rho_j = gamma_(D+1) scale sum|q||k| + 2u|s_j - m| + 2u, plus a few u per join: the judge's
 * bound of bound.h with every roundoff at 2^-53 (numerics: Higham's gamma, exp within 1 ulp).  What joins and
 * bends the scores adds to rho_j what score.h says; a sink is one more join; dropout adds 3u |O|.
 */
#include <omp.h>
#include <string.h>

#include "arithmetic/f64.h"
#include "arithmetic/score.h"

enum {
    Q = 512,
    K = 256,
    LD = K + 8
}; /* many rows: a block's keys are packed by the BLAS for all of them once */

typedef struct {
    const rt_tile_data *t;
    const rt_f64_kernels *kernels;
    rt_blocks blocks;
    rt_f64_rows q, k, v;
    int64_t g0;
} tile;

typedef struct {
    double *s;   /* (Q, LD) scores, then probabilities */
    double *acc; /* (Q, Dv) */
    double m[Q], l[Q];
    bool row_nan[Q];
} scratch;

/* One online-softmax step for one row of scores: returns with P in place of S, m and l moved on, acc
 * rescaled. */
static void softmax_row(const rt_f64_kernels *kernels, double *s, int64_t nk, int64_t width, double *m,
                        double *l, double *acc)
{
    const double top = kernels->top(s, nk, *m);
    if (rt_is_minus_inf(top)) { /* nothing visible so far */
        memset(s, 0, (size_t)nk * sizeof *s);
        return;
    }
    if (top > *m && !rt_is_minus_inf(*m)) {
        const double c = rt_exp_scalar(*m - top);
        *l *= c;
        kernels->scale(acc, width, c);
    }
    *m = top;
    *l += kernels->weights(s, nk, top);
}

/* A NaN or an infinity in a visible q or k: the row is NaN.  In a visible v: that element of the row's
 * output. */
static void poison(const tile *f, int64_t b, int64_t h, int64_t g, int64_t row0, int64_t nq, int64_t key0,
                   int64_t nk, scratch *w)
{
    const int64_t Dv = f->t->v.width;
    for (int64_t i = 0; i < nq; i++)
        for (int64_t j = 0; j < nk; j++) {
            const int64_t i_pos = f->t->q_pos[row0 + i], j_pos = f->t->k_pos[key0 + j];
            if (!rt_blocks_visible(&f->blocks, b, row0 + i, key0 + j) ||
                rt_score_hides(f->t->problem, b, h, i_pos, j_pos))
                continue;
            if (rt_f64_bad(&f->q, b, h, f->t->q_head0, row0 + i) ||
                rt_f64_bad(&f->k, b, g, f->g0, key0 + j))
                w->row_nan[i] = true;
            if (!rt_f64_bad(&f->v, b, g, f->g0, key0 + j) ||
                !rt_dropout_keep(f->t->problem, b, h, i_pos, j_pos))
                continue;
            const double *v = rt_part_at(&f->t->v, b, g, key0 + j);
            for (int64_t d = 0; d < Dv; d++)
                if (!isfinite(v[d]))
                    w->acc[i * Dv + d] = RT_NAN;
        }
}

/* Weights of the keys that dropout takes out of a row become 0; the sum l keeps them. */
static void drop_row(const rt_problem *p, int64_t b, int64_t h, int64_t i, const int64_t *k_pos, int64_t n,
                     double *w)
{
    uint8_t keep[K];
    rt_dropout_row(p, b, h, i, k_pos, n, keep);
    for (int64_t j = 0; j < n; j++)
        w[j] = keep[j] != 0 ? w[j] : 0;
}

static void forward_block(const tile *f, int64_t b, int64_t h, int64_t g, int64_t qb, int64_t kb,
                          rt_block_class cls, scratch *w)
{
    const rt_tile_data *t = f->t;
    const int64_t D = t->q.width, Dv = t->v.width, row0 = qb * Q, nq = rt_min64(Q, t->n_q - row0);
    const int64_t key0 = kb * K, nk = rt_min64(K, t->n_kv - key0);
    const bool bends = rt_score_bends(t->problem), drops = t->problem->dropout > 0;
    for (int64_t at = row0; at < row0 + nq;) {
        const rt_panel x = rt_panel_next(&f->blocks, cls == RT_BLOCK_PARTIAL, at, row0 + nq, key0, nk);
        at += x.n;
        if (x.j0 >= x.j1)
            continue;
        const int64_t keys = x.j1 - x.j0, i0 = x.row0 - row0;
        rt_gemm_nt(x.n, keys, D, t->problem->scale, rt_part_at(&f->q.part, b, h, x.row0), D,
                   rt_part_at(&f->k.part, b, g, key0 + x.j0), D, 0.0, w->s, LD);
        const int64_t *k_pos = t->k_pos + key0 + x.j0;
        for (int64_t i = 0; i < x.n; i++) {
            if (bends)
                rt_score_row(t->problem, b, h, t->q_pos[x.row0 + i], k_pos, keys, w->s + i * LD, NULL);
            if (x.cut)
                rt_f64_mask_row(&f->blocks, b, x.row0 + i, key0 + x.j0, keys, -RT_INF, w->s + i * LD);
            softmax_row(f->kernels, w->s + i * LD, keys, Dv, &w->m[i0 + i], &w->l[i0 + i],
                        w->acc + (i0 + i) * Dv);
            if (drops)
                drop_row(t->problem, b, h, t->q_pos[x.row0 + i], k_pos, keys, w->s + i * LD);
        }
        rt_gemm_nn(x.n, Dv, keys, 1.0, w->s, LD, rt_part_at(&f->v.part, b, g, key0 + x.j0), Dv, 1.0,
                   w->acc + i0 * Dv, Dv);
    }
    if (f->q.any || f->k.any || f->v.any)
        poison(f, b, h, g, row0, nq, key0, nk, w);
}

/* The partial of one row block against every key of the tile. */
static void forward_unit(const tile *f, int64_t b, int64_t h, int64_t qb, scratch *w)
{
    const rt_tile_data *t = f->t;
    const int64_t g = h / (t->problem->heads_q / t->problem->heads_kv), Dv = t->v.width;
    const int64_t row0 = qb * Q, nq = rt_min64(Q, t->n_q - row0);
    for (int64_t i = 0; i < nq; i++) {
        w->m[i] = -RT_INF;
        w->l[i] = 0;
        w->row_nan[i] = false;
    }
    memset(w->acc, 0, (size_t)(nq * Dv) * sizeof(double));
    for (int64_t kb = 0; kb < f->blocks.n_kb; kb++) {
        const rt_block_class cls = rt_blocks_classify(&f->blocks, b, qb, kb);
        if (cls != RT_BLOCK_EMPTY)
            forward_block(f, b, h, g, qb, kb, cls, w);
    }
    for (int64_t i = 0; i < nq; i++) {
        /* A score that overflowed leaves no weights: the row is NaN, like one that saw a NaN. */
        if (w->row_nan[i] || isnan(w->l[i])) {
            w->m[i] = w->l[i] = RT_NAN;
            for (int64_t d = 0; d < Dv; d++)
                w->acc[i * Dv + d] = RT_NAN;
        }
        double *acc = rt_part_at(&t->state[0], b, h, row0 + i);
        double *m = rt_part_at(&t->state[1], b, h, row0 + i), *l = rt_part_at(&t->state[2], b, h, row0 + i);
        if (t->fresh_q) {
            memcpy(acc, w->acc + i * Dv, (size_t)Dv * sizeof *acc);
            *m = w->m[i];
            *l = w->l[i];
        } else {
            rt_f64_join(1, Dv, w->acc + i * Dv, &w->m[i], &w->l[i], acc, m, l);
        }
    }
}

rt_status rt_f64_forward(rt_context *ctx, const rt_tile_data *t)
{
    const rt_problem *p = t->problem;
    const int64_t group = p->heads_q / p->heads_kv, g1 = (t->q_head1 - 1) / group + 1;
    const int64_t heads = t->q_head1 - t->q_head0, across = p->batch * heads, most = rt_min64(Q, t->n_q),
                  doubles = most * (LD + p->dim_v);
    tile f = {.t = t, .kernels = rt_f64_kernels_here(), .g0 = t->q_head0 / group};
    RT_TRY(rt_blocks_create(ctx, p, 0, t->q_pos, t->n_q, t->k_pos, t->n_kv, Q, K, &f.blocks));
    const int threads = omp_get_max_threads();
    scratch *work = rt_alloc(ctx, threads, sizeof *work);
    double *store = rt_alloc(ctx, threads * doubles, sizeof *store);
    rt_status st = work == NULL || store == NULL ? RT_ERR_NOMEM : RT_OK;
    if (st == RT_OK)
        st = rt_f64_rows_create(ctx, &t->q, p->batch, t->q_head0, t->q_head1, t->n_q, f.kernels, &f.q);
    if (st == RT_OK)
        st = rt_f64_rows_create(ctx, &t->k, p->batch, f.g0, g1, t->n_kv, f.kernels, &f.k);
    if (st == RT_OK)
        st = rt_f64_rows_create(ctx, &t->v, p->batch, f.g0, g1, t->n_kv, f.kernels, &f.v);
    if (st != RT_OK)
        goto free_rows;
    for (int i = 0; i < threads; i++) {
        work[i].s = store + i * doubles;
        work[i].acc = work[i].s + most * LD;
    }
    const int64_t units = across * f.blocks.n_qb;
    const bool team = units > 1 && rt_worth_a_team(p, t->n_q, t->n_kv, t->q_head1 - t->q_head0);
#pragma omp parallel for schedule(dynamic, 1) if (team) default(none)                                      \
    shared(f, t, work, units, heads, across)
    for (int64_t unit = 0; unit < units; unit++) {
        rt_gemm_alone();
        const int64_t qb = f.blocks.n_qb - 1 - unit / across,
                      bh = unit % across; /* longest first under causal */
        forward_unit(&f, bh / heads, t->q_head0 + bh % heads, qb, &work[omp_get_thread_num()]);
        if (t->poke != NULL && omp_get_thread_num() == 0)
            t->poke(t->poke_arg);
    }
free_rows:
    rt_f64_rows_reset(&f.v);
    rt_f64_rows_reset(&f.k);
    rt_f64_rows_reset(&f.q);
    rt_free(store);
    rt_free(work);
    rt_blocks_reset(&f.blocks);
    return st;
}
