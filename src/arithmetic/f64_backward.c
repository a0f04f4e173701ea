/* Arithmetic f64, backward: one tile, in the same blocks as the forward.
 *
 * forward was  s = scale q.k, P = exp(s - m) / l, O = P V;  so now, with delta = dO.O of the whole row:
 *   dV += P^T dO      dP = dO V^T      dS = P o (dP - delta)      dQ += scale dS K      dK += scale dS^T Q
 * P is recomputed from the row's global (m, l), not from the rounded LSE: with summable inputs every
 * quantity here is exact, which is what makes layouts comparable to the bit.
 *
 * A unit of work is one (batch, key head): it owns its dK, dV and the dQ of the heads of its group, so no
 * two threads add to one place and the order of every sum is (key block, head, row block).
 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "arithmetic/block.h"

rt_status rt_f64_backward(rt_context *ctx, const rt_tile_data *t);

typedef struct {
    double *p, *ds;           /* (RT_BLOCK_Q, RT_BLOCK_K) */
    double *q, *k, *v, *dout; /* clean copies of a block, used only when something is not finite */
    bool q_bad[RT_BLOCK_Q], k_bad[RT_BLOCK_K], v_bad[RT_BLOCK_K], dout_bad[RT_BLOCK_Q];
} scratch;

static int64_t scratch_doubles(const rt_problem *p)
{
    return 2 * (int64_t)RT_BLOCK_Q * RT_BLOCK_K + (int64_t)(RT_BLOCK_Q + RT_BLOCK_K) * (p->dim + p->dim_v);
}

static void scratch_point(scratch *w, const rt_problem *p, double *store)
{
    w->p = store;
    w->ds = w->p + (int64_t)RT_BLOCK_Q * RT_BLOCK_K;
    w->q = w->ds + (int64_t)RT_BLOCK_Q * RT_BLOCK_K;
    w->k = w->q + RT_BLOCK_Q * p->dim;
    w->v = w->k + RT_BLOCK_K * p->dim;
    w->dout = w->v + RT_BLOCK_K * p->dim_v;
}

/* A block with what is not finite taken out; rows points at the block to use, *ld at its stride. */
static bool clean(const double **rows, int64_t *ld, int64_t n, int64_t width, bool *flags, double *copy)
{
    if (!rt_rows_not_finite(*rows, n, width, *ld, flags))
        return false;
    rt_rows_clean(*rows, n, width, *ld, flags, copy);
    *rows = copy;
    *ld = width;
    return true;
}

static void fill_nan(double *row, int64_t n)
{
    for (int64_t d = 0; d < n; d++)
        row[d] = RT_NAN;
}

/* What is not finite reaches what depends on it and nothing else.  A row that is NaN (a NaN or an infinity
 * in its q, in a k that it sees, or a score that overflowed) makes NaN of its dq and of dk and dv of every
 * key that it sees.  One whose dO or delta is not finite (delta: through a v that it sees) has P all the
 * same: its dq is NaN and so is dk of the keys that it sees, but dv only in the elements where dO is not
 * finite. */
static void poison(const rt_tile_data *t, const rt_blocks *blocks, int64_t b, int64_t h, int64_t g,
                   int64_t row0, int64_t nq, int64_t key0, int64_t nk, const scratch *w)
{
    for (int64_t i = 0; i < nq; i++) {
        const bool p_bad = isnan(*rt_part_at(&t->row[1], b, h, row0 + i));
        const bool s_bad = p_bad || w->dout_bad[i] || !isfinite(*rt_part_at(&t->row[3], b, h, row0 + i));
        if (!s_bad)
            continue;
        const double *dout = rt_part_at(&t->row[0], b, h, row0 + i);
        for (int64_t j = 0; j < nk; j++) {
            if (!rt_blocks_visible(blocks, row0 + i, key0 + j))
                continue;
            fill_nan(rt_part_at(&t->dq[0], b, h, row0 + i), t->problem->dim);
            fill_nan(rt_part_at(&t->dkv[0], b, g, key0 + j), t->problem->dim);
            double *dv = rt_part_at(&t->dkv[1], b, g, key0 + j);
            for (int64_t d = 0; (p_bad || w->dout_bad[i]) && d < t->problem->dim_v; d++)
                if (p_bad || !isfinite(dout[d]))
                    dv[d] = RT_NAN;
        }
    }
}

static void backward_block(const rt_tile_data *t, const rt_blocks *blocks, int64_t b, int64_t h, int64_t qb,
                           int64_t kb, rt_block_class cls, scratch *w)
{
    const rt_problem *p = t->problem;
    const int64_t g = h / (p->heads_q / p->heads_kv), D = p->dim, Dv = p->dim_v;
    const int64_t row0 = qb * RT_BLOCK_Q, nq = rt_min64(RT_BLOCK_Q, t->n_q - row0);
    const int64_t key0 = kb * RT_BLOCK_K, nk = rt_min64(RT_BLOCK_K, t->n_kv - key0);
    const double *q = rt_part_at(&t->q, b, h, row0), *dout = rt_part_at(&t->row[0], b, h, row0);
    const double *k = rt_part_at(&t->k, b, g, key0), *v = rt_part_at(&t->v, b, g, key0);
    int64_t ldq = t->q.width, ldo = t->row[0].width, ldk = t->k.width, ldv = t->v.width;
    bool odd = clean(&q, &ldq, nq, D, w->q_bad, w->q);
    odd |= clean(&k, &ldk, nk, D, w->k_bad, w->k);
    odd |= clean(&v, &ldv, nk, Dv, w->v_bad, w->v);
    odd |= clean(&dout, &ldo, nq, Dv, w->dout_bad, w->dout);

    /* P, with zero where the mask hides the key (and in rows that are NaN, which poison() answers for) */
    rt_gemm_nt(nq, nk, D, p->scale, q, ldq, k, ldk, 0.0, w->p, RT_BLOCK_K);
    for (int64_t i = 0; i < nq; i++) {
        double *row = w->p + i * RT_BLOCK_K;
        const double m = *rt_part_at(&t->row[1], b, h, row0 + i);
        if (!isfinite(m)) {
            memset(row, 0, (size_t)nk * sizeof *row);
            odd |= isnan(m);
            continue;
        }
        for (int64_t j = 0; j < nk; j++)
            row[j] -= m;
        if (cls == RT_BLOCK_PARTIAL)
            for (int64_t j = 0; j < nk; j++)
                if (!rt_blocks_visible(blocks, row0 + i, key0 + j))
                    row[j] = -RT_INF;
        rt_exp_vector(row, nk);
        const double scale = 1.0 / *rt_part_at(&t->row[2], b, h, row0 + i);
        for (int64_t j = 0; j < nk; j++)
            row[j] *= scale;
    }
    /* dV += P^T dO */
    rt_gemm_tn(nk, Dv, nq, 1.0, w->p, RT_BLOCK_K, dout, ldo, 1.0, rt_part_at(&t->dkv[1], b, g, key0),
               t->dkv[1].width);
    /* dS = P o (dO V^T - delta) */
    rt_gemm_nt(nq, nk, Dv, 1.0, dout, ldo, v, ldv, 0.0, w->ds, RT_BLOCK_K);
    for (int64_t i = 0; i < nq; i++) {
        const double delta = *rt_part_at(&t->row[3], b, h, row0 + i);
        double *ds = w->ds + i * RT_BLOCK_K, *row = w->p + i * RT_BLOCK_K;
        if (!isfinite(delta)) {
            memset(ds, 0, (size_t)nk * sizeof *ds);
            odd = true;
            continue;
        }
        for (int64_t j = 0; j < nk; j++)
            ds[j] = row[j] * (ds[j] - delta);
        if (cls == RT_BLOCK_PARTIAL) /* where dP overflowed, P = 0 alone would not keep a hidden key out */
            for (int64_t j = 0; j < nk; j++)
                if (!rt_blocks_visible(blocks, row0 + i, key0 + j))
                    ds[j] = 0;
    }
    /* dQ += scale dS K,  dK += scale dS^T Q */
    rt_gemm_nn(nq, D, nk, p->scale, w->ds, RT_BLOCK_K, k, ldk, 1.0, rt_part_at(&t->dq[0], b, h, row0),
               t->dq[0].width);
    rt_gemm_tn(nk, D, nq, p->scale, w->ds, RT_BLOCK_K, q, ldq, 1.0, rt_part_at(&t->dkv[0], b, g, key0),
               t->dkv[0].width);
    if (odd)
        poison(t, blocks, b, h, g, row0, nq, key0, nk, w);
}

static void zero_rows(const rt_part *part, int64_t b, int64_t h, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        memset(rt_part_at(part, b, h, i), 0, (size_t)part->width * sizeof(double));
}

static void backward_unit(const rt_tile_data *t, const rt_blocks *blocks, int64_t b, int64_t g, scratch *w)
{
    const rt_problem *p = t->problem;
    const int64_t group = p->heads_q / p->heads_kv;
    const int64_t h0 = rt_max64(t->q_head0, g * group), h1 = rt_min64(t->q_head1, (g + 1) * group);
    if (t->fresh_kv) {
        zero_rows(&t->dkv[0], b, g, t->n_kv);
        zero_rows(&t->dkv[1], b, g, t->n_kv);
    }
    if (t->fresh_q)
        for (int64_t h = h0; h < h1; h++)
            zero_rows(&t->dq[0], b, h, t->n_q);
    for (int64_t kb = 0; kb < blocks->n_kb; kb++)
        for (int64_t h = h0; h < h1; h++)
            for (int64_t qb = 0; qb < blocks->n_qb; qb++) {
                const rt_block_class cls = rt_blocks_classify(blocks, qb, kb);
                if (cls != RT_BLOCK_EMPTY)
                    backward_block(t, blocks, b, h, qb, kb, cls, w);
                if (t->poke != NULL && omp_get_thread_num() == 0)
                    t->poke(t->poke_arg);
            }
}

rt_status rt_f64_backward(rt_context *ctx, const rt_tile_data *t)
{
    const rt_problem *p = t->problem;
    rt_blocks blocks;
    RT_TRY(rt_blocks_create(ctx, p, t->q_pos, t->n_q, t->k_pos, t->n_kv, RT_BLOCK_Q, RT_BLOCK_K, &blocks));
    const int threads = omp_get_max_threads();
    rt_status st = RT_ERR_NOMEM;
    scratch *work = rt_alloc(ctx, threads, sizeof *work);
    double *store = rt_alloc(ctx, threads * scratch_doubles(p), sizeof *store);
    if (work == NULL || store == NULL)
        goto free_scratch;
    for (int i = 0; i < threads; i++)
        scratch_point(&work[i], p, store + i * scratch_doubles(p));

    const int64_t group = p->heads_q / p->heads_kv;
    const int64_t g0 = t->q_head0 / group, heads = (t->q_head1 - 1) / group + 1 - g0,
                  units = p->batch * heads;
#pragma omp parallel default(none) shared(t, blocks, work, units, heads, g0)
    {
        rt_gemm_alone();
#pragma omp for schedule(dynamic, 1)
        for (int64_t unit = 0; unit < units; unit++)
            backward_unit(t, &blocks, unit / heads, g0 + unit % heads, &work[omp_get_thread_num()]);
    }
    st = RT_OK;
free_scratch:
    rt_free(store);
    rt_free(work);
    rt_blocks_reset(&blocks);
    return st;
}
