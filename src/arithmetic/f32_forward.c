/* Arithmetic f32, forward: one tile, in blocks of up to 1024 rows x 256 keys.
 *
 * Shapes of a block: S (nq, nk) = alpha Q K^T; P = 2^(S - m); acc (nq, Dv) += P V.
 * The inputs become floats once a tile; a unit of work is one (batch, head, row block) from start to end,
 * shorter where there would be too few of them for the threads.
 */
#include <cblas.h>
#include <omp.h>
#include <string.h>

#include "arithmetic/f32.h"
#include "arithmetic/score.h"

enum {
    Q = 1024,
    K = 256,
    LD = K + 16
}; /* many rows: a block's keys are packed by the BLAS for all of them once */

typedef struct {
    const rt_tile_data *t;
    const rt_f32_kernels *kernels;
    rt_blocks blocks;
    rt_f32_rows q, k, v;
    float alpha;
    int64_t rows; /* of a unit */
} tile;

typedef struct {
    float *s;   /* (Q, LD) scores, then weights */
    float *acc; /* (Q, Dv) */
    float m[Q];
    double l[Q];
    bool row_nan[Q];
} scratch;

/* One step of the online softmax for one row: P in place of S, m and l moved on, acc rescaled. */
static void softmax_row(const rt_f32_kernels *kernels, float *s, int64_t nk, int64_t width, float *m,
                        double *l, float *acc)
{
    const float top = kernels->top(s, nk, *m);
    if (rt_is_minus_inf((double)top)) { /* nothing visible so far */
        memset(s, 0, (size_t)nk * sizeof *s);
        return;
    }
    if (top > *m && !rt_is_minus_inf((double)*m)) {
        float c = *m;
        (void)kernels->weights(&c, 1, top);
        *l *= (double)c;
        kernels->scale(acc, width, c);
    }
    *m = top;
    *l += (double)kernels->weights(s, nk, top);
}

/* What is not finite in a visible q or k makes NaN of the row, in a visible v of its element. */
static void poison(const tile *f, int64_t b, int64_t h, int64_t g, int64_t row0, int64_t nq, int64_t key0,
                   int64_t nk, scratch *w)
{
    const int64_t Dv = f->v.width;
    for (int64_t i = 0; i < nq; i++)
        for (int64_t j = 0; j < nk; j++) {
            const int64_t i_pos = f->t->q_pos[row0 + i], j_pos = f->t->k_pos[key0 + j];
            if (!rt_blocks_visible(&f->blocks, b, row0 + i, key0 + j) ||
                rt_score_hides(f->t->problem, b, h, i_pos, j_pos))
                continue;
            if (rt_f32_bad(&f->q, b, h, row0 + i) || rt_f32_bad(&f->k, b, g, key0 + j))
                w->row_nan[i] = true;
            if (!rt_f32_bad(&f->v, b, g, key0 + j) || !rt_dropout_keep(f->t->problem, b, h, i_pos, j_pos))
                continue;
            const double *v = rt_part_at(&f->t->v, b, g, key0 + j);
            for (int64_t d = 0; d < Dv; d++)
                if (!isfinite((float)v[d]))
                    w->acc[i * Dv + d] = (float)RT_NAN;
        }
}

/* Weights of the keys that dropout takes out of a row become 0; the sum l keeps them. */
static void drop_row(const rt_problem *p, int64_t b, int64_t h, int64_t i, const int64_t *k_pos, int64_t n,
                     float *w)
{
    uint8_t keep[K];
    rt_dropout_row(p, b, h, i, k_pos, n, keep);
    for (int64_t j = 0; j < n; j++)
        w[j] = keep[j] != 0 ? w[j] : 0;
}

static void forward_unit(const tile *f, int64_t b, int64_t h, int64_t qb, scratch *w)
{
    const rt_tile_data *t = f->t;
    const int64_t g = h / (t->problem->heads_q / t->problem->heads_kv), D = f->q.width, Dv = f->v.width;
    const int64_t row0 = qb * f->rows, nq = rt_min64(f->rows, t->n_q - row0);
    const bool bends = rt_score_bends(t->problem), drops = t->problem->dropout > 0;
    for (int64_t i = 0; i < nq; i++) {
        w->m[i] = (float)-RT_INF;
        w->l[i] = 0;
        w->row_nan[i] = false;
    }
    memset(w->acc, 0, (size_t)(nq * Dv) * sizeof *w->acc);
    for (int64_t kb = 0; kb < f->blocks.n_kb; kb++) {
        const rt_block_class cls = rt_blocks_classify(&f->blocks, b, qb, kb);
        if (cls == RT_BLOCK_EMPTY)
            continue;
        const int64_t key0 = kb * K, nk = rt_min64(K, t->n_kv - key0);
        for (int64_t at = row0; at < row0 + nq;) {
            const rt_panel x = rt_panel_next(&f->blocks, cls == RT_BLOCK_PARTIAL, at, row0 + nq, key0, nk);
            at += x.n;
            if (x.j0 >= x.j1)
                continue;
            const int n = (int)x.n, keys = (int)(x.j1 - x.j0), dim = (int)D, dim_v = (int)Dv;
            const int64_t i0 = x.row0 - row0;
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, keys, dim, f->alpha,
                        rt_f32_at(&f->q, b, h, x.row0), dim, rt_f32_at(&f->k, b, g, key0 + x.j0), dim, 0.0f,
                        w->s, LD);
            const int64_t *k_pos = t->k_pos + key0 + x.j0;
            for (int64_t i = 0; i < n; i++) {
                if (bends)
                    rt_score_row_floats(t->problem, b, h, t->q_pos[x.row0 + i], k_pos, keys, w->s + i * LD,
                                        NULL);
                if (x.cut)
                    rt_f32_mask_row(&f->blocks, b, x.row0 + i, key0 + x.j0, keys, (float)-RT_INF,
                                    w->s + i * LD);
                softmax_row(f->kernels, w->s + i * LD, keys, Dv, &w->m[i0 + i], &w->l[i0 + i],
                            w->acc + (i0 + i) * Dv);
                if (drops)
                    drop_row(t->problem, b, h, t->q_pos[x.row0 + i], k_pos, keys, w->s + i * LD);
            }
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, dim_v, keys, 1.0f, w->s, LD,
                        rt_f32_at(&f->v, b, g, key0 + x.j0), dim_v, 1.0f, w->acc + i0 * Dv, dim_v);
        }
        if (f->q.any || f->k.any || f->v.any)
            poison(f, b, h, g, row0, nq, key0, nk, w);
    }
    for (int64_t i = 0; i < nq; i++) {
        float *acc = w->acc + i * Dv;
        double m = (double)w->m[i], l = w->l[i];
        if (w->row_nan[i] || isnan(l)) { /* a score that overflowed leaves no weights */
            m = l = RT_NAN;
            for (int64_t d = 0; d < Dv; d++)
                acc[d] = (float)RT_NAN;
        }
        rt_f32_join_row(Dv, acc, m, l, t->fresh_q, rt_part_at(&t->state[0], b, h, row0 + i),
                        rt_part_at(&t->state[1], b, h, row0 + i), rt_part_at(&t->state[2], b, h, row0 + i));
    }
}

rt_status rt_f32_forward(rt_context *ctx, const rt_tile_data *t)
{
    const rt_problem *p = t->problem;
    const int64_t group = p->heads_q / p->heads_kv, g0 = t->q_head0 / group,
                  g1 = (t->q_head1 - 1) / group + 1;
    const int64_t heads = t->q_head1 - t->q_head0, across = p->batch * heads;
    const int threads = omp_get_max_threads();
    tile f = {.t = t, .kernels = rt_f32_kernels_here(), .alpha = rt_f32_alpha(p), .rows = Q};
    while (f.rows > RT_PANEL && across * ((t->n_q + f.rows - 1) / f.rows) < 8 * (int64_t)threads)
        f.rows /= 2;
    const int64_t floats = f.rows * (LD + p->dim_v);
    RT_TRY(rt_blocks_create(ctx, p, 0, t->q_pos, t->n_q, t->k_pos, t->n_kv, f.rows, K, &f.blocks));
    scratch *work = rt_alloc(ctx, threads, sizeof *work);
    float *store = rt_alloc(ctx, threads * floats, sizeof *store);
    rt_status st = work == NULL || store == NULL ? RT_ERR_NOMEM : RT_OK;
    if (st == RT_OK)
        st = rt_f32_rows_create(ctx, &t->q, p->batch, t->q_head0, t->q_head1, t->n_q, f.kernels, &f.q);
    if (st == RT_OK)
        st = rt_f32_rows_create(ctx, &t->k, p->batch, g0, g1, t->n_kv, f.kernels, &f.k);
    if (st == RT_OK)
        st = rt_f32_rows_create(ctx, &t->v, p->batch, g0, g1, t->n_kv, f.kernels, &f.v);
    if (st != RT_OK)
        goto free_rows;
    for (int i = 0; i < threads; i++) {
        work[i].s = store + i * floats;
        work[i].acc = work[i].s + f.rows * LD;
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
    rt_f32_rows_reset(&f.v);
    rt_f32_rows_reset(&f.k);
    rt_f32_rows_reset(&f.q);
    rt_free(store);
    rt_free(work);
    rt_blocks_reset(&f.blocks);
    return st;
}
