/* Arithmetic f32, forward: one tile, in blocks of 256 rows x 512 keys.
 *
 * Shapes of a block: S (nq, nk) = alpha Q K^T; P = 2^(S - m); acc (nq, Dv) += P V.
 * The inputs become floats once a tile; a unit of work is one (batch, head, row block) from start to end.  In a block that the
 * mask cuts, rows go in panels of 128, each with the keys that one of its rows may see: near the diagonal half the work.
 */
#include <cblas.h>
#include <omp.h>
#include <string.h>

#include "arithmetic/f32.h"

enum { Q = RT_F32_BLOCK_Q, K = RT_F32_BLOCK_K };

typedef struct {
    const rt_tile_data *t;
    const rt_f32_kernels *kernels;
    rt_blocks blocks;
    rt_f32_rows q, k, v;
    float alpha;
} tile;

typedef struct {
    float *s;   /* (Q, K) scores, then weights */
    float *acc; /* (Q, Dv) */
    float m[Q];
    double l[Q];
    bool row_nan[Q];
} scratch;

/* One step of the online softmax for one row: P in place of S, m and l moved on, acc rescaled. */
static void softmax_row(const rt_f32_kernels *kernels, float *s, int64_t nk, int64_t width, float *m, double *l, float *acc)
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
static void poison(const tile *f, int64_t b, int64_t h, int64_t g, int64_t row0, int64_t nq, int64_t key0, int64_t nk, scratch *w)
{
    const int64_t Dv = f->v.width;
    for (int64_t i = 0; i < nq; i++)
        for (int64_t j = 0; j < nk; j++) {
            if (!rt_blocks_visible(&f->blocks, row0 + i, key0 + j))
                continue;
            if (rt_f32_bad(&f->q, b, h, row0 + i) || rt_f32_bad(&f->k, b, g, key0 + j))
                w->row_nan[i] = true;
            const double *v = rt_part_at(&f->t->v, b, g, key0 + j);
            for (int64_t d = 0; rt_f32_bad(&f->v, b, g, key0 + j) && d < Dv; d++)
                if (!isfinite((float)v[d]))
                    w->acc[i * Dv + d] = (float)RT_NAN;
        }
}

static void forward_unit(const tile *f, int64_t b, int64_t h, int64_t qb, scratch *w)
{
    const rt_tile_data *t = f->t;
    const int64_t g = h / (t->problem->heads_q / t->problem->heads_kv), D = f->q.width, Dv = f->v.width;
    const int64_t row0 = qb * Q, nq = rt_min64(Q, t->n_q - row0);
    for (int64_t i = 0; i < nq; i++) {
        w->m[i] = (float)-RT_INF;
        w->l[i] = 0;
        w->row_nan[i] = false;
    }
    memset(w->acc, 0, (size_t)(nq * Dv) * sizeof *w->acc);
    for (int64_t kb = 0; kb < f->blocks.n_kb; kb++) {
        const rt_block_class cls = rt_blocks_classify(&f->blocks, qb, kb);
        if (cls == RT_BLOCK_EMPTY)
            continue;
        const int64_t key0 = kb * K, nk = rt_min64(K, t->n_kv - key0), step = cls == RT_BLOCK_PARTIAL ? RT_PANEL : Q;
        for (int64_t i0 = 0; i0 < nq; i0 += step) {
            const int64_t n = rt_min64(step, nq - i0);
            int64_t j0 = 0, j1 = nk;
            if (cls == RT_BLOCK_PARTIAL)
                rt_panel_span(&f->blocks, row0 + i0, n, key0, nk, &j0, &j1);
            if (j0 >= j1)
                continue;
            float *s = w->s + i0 * K;
            const int m = (int)n, keys = (int)(j1 - j0), dim = (int)D, dim_v = (int)Dv;
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, keys, dim, f->alpha, rt_f32_at(&f->q, b, h, row0 + i0), dim,
                        rt_f32_at(&f->k, b, g, key0 + j0), dim, 0.0f, s, K);
            for (int64_t i = 0; i < n; i++) {
                if (cls == RT_BLOCK_PARTIAL)
                    rt_f32_mask_row(&f->blocks, row0 + i0 + i, key0 + j0, j1 - j0, s + i * K);
                softmax_row(f->kernels, s + i * K, j1 - j0, Dv, &w->m[i0 + i], &w->l[i0 + i], w->acc + (i0 + i) * Dv);
            }
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, dim_v, keys, 1.0f, s, K, rt_f32_at(&f->v, b, g, key0 + j0), dim_v,
                        1.0f, w->acc + i0 * Dv, dim_v);
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
        rt_f32_join_row(Dv, acc, m, l, t->fresh_q, rt_part_at(&t->state[0], b, h, row0 + i), rt_part_at(&t->state[1], b, h, row0 + i),
                        rt_part_at(&t->state[2], b, h, row0 + i));
    }
}

rt_status rt_f32_forward(rt_context *ctx, const rt_tile_data *t)
{
    const rt_problem *p = t->problem;
    const int64_t group = p->heads_q / p->heads_kv, g0 = t->q_head0 / group, g1 = (t->q_head1 - 1) / group + 1;
    tile f = {.t = t, .kernels = rt_f32_kernels_here(), .alpha = rt_f32_alpha(p)};
    RT_TRY(rt_blocks_create(ctx, p, t->q_pos, t->n_q, t->k_pos, t->n_kv, Q, K, &f.blocks));
    const int threads = omp_get_max_threads();
    const int64_t floats = (int64_t)Q * (K + p->dim_v);
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
        work[i].acc = work[i].s + Q * K;
    }
    const int64_t heads = t->q_head1 - t->q_head0, across = p->batch * heads, units = across * f.blocks.n_qb;
#pragma omp parallel for schedule(dynamic, 1) default(none) shared(f, t, work, units, heads, across)
    for (int64_t unit = 0; unit < units; unit++) {
        const int64_t qb = f.blocks.n_qb - 1 - unit / across, bh = unit % across; /* longest first under causal */
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
