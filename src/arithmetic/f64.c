/* Arithmetic f64, forward: binary64 throughout, one tile at a time, in blocks of 128 rows x 256 keys.
 *
 * Shapes of a block: S (nq, nk) = scale Q K^T; P = exp(S - m); acc (nq, Dv) += P V.
 * A row's partial (m, l, acc) of this tile is made in scratch and then joined to what the destination
 * holds, so that the order of the sums is the order of the plan's listing and nothing else: a unit of work
 * is one (batch, head, row block), owned by one thread from start to end, with BLAS products of one thread.
 *
 * Error radius (first order, u = 2^-53, n keys): |dO| <= sum_j w_j rho_j |v_j - O| + (gamma_n + 4u) sum_j
 * w_j |v_j| with rho_j = gamma_(D+1) scale sum|q||k| + 2u|s_j - m| + 2u, plus a few u per join: the judge's
 * bound of bound.h with every roundoff at 2^-53 (numerics: Higham's gamma, exp within 1 ulp).
 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "arithmetic/f32.h"

typedef struct {
    double *s;   /* (RT_BLOCK_Q, RT_BLOCK_K) scores, then probabilities */
    double *acc; /* (RT_BLOCK_Q, Dv) */
    double m[RT_BLOCK_Q], l[RT_BLOCK_Q];
    double *q, *k, *v; /* clean copies of a block, used only when something is not finite */
    bool q_bad[RT_BLOCK_Q], k_bad[RT_BLOCK_K], v_bad[RT_BLOCK_K];
    bool row_nan[RT_BLOCK_Q];
} scratch;

static int64_t scratch_doubles(const rt_problem *p)
{
    return (int64_t)RT_BLOCK_Q * RT_BLOCK_K + (int64_t)RT_BLOCK_Q * (p->dim + p->dim_v) +
           (int64_t)RT_BLOCK_K * (p->dim + p->dim_v);
}

static void scratch_point(scratch *w, const rt_problem *p, double *store)
{
    w->s = store;
    w->acc = w->s + (int64_t)RT_BLOCK_Q * RT_BLOCK_K;
    w->q = w->acc + RT_BLOCK_Q * p->dim_v;
    w->k = w->q + RT_BLOCK_Q * p->dim;
    w->v = w->k + RT_BLOCK_K * p->dim;
}

/* Masked scores become -inf.  What a masked key's slot holds never gets further than here. */
static void mask_scores(const rt_blocks *b, int64_t row0, int64_t nq, int64_t key0, int64_t nk, double *s)
{
    for (int64_t i = 0; i < nq; i++)
        for (int64_t j = 0; j < nk; j++)
            if (!rt_blocks_visible(b, row0 + i, key0 + j))
                s[i * RT_BLOCK_K + j] = -RT_INF;
}

/* One online-softmax step for one row of scores: returns with P in place of S, m and l moved on, acc
 * rescaled. */
static void softmax_row(double *s, int64_t nk, int64_t width, double *m, double *l, double *acc)
{
    double top = *m;
    for (int64_t j = 0; j < nk; j++)
        top = s[j] > top ? s[j] : top;
    if (rt_is_minus_inf(top)) { /* nothing visible so far */
        memset(s, 0, (size_t)nk * sizeof *s);
        return;
    }
    if (top > *m) {
        const double c = rt_is_minus_inf(*m) ? 0.0 : rt_exp_scalar(*m - top);
        *l *= c;
        for (int64_t d = 0; d < width; d++)
            acc[d] *= c;
        *m = top;
    }
    for (int64_t j = 0; j < nk; j++)
        s[j] -= top;
    rt_exp_vector(s, nk);
    double sum[4] = {0, 0, 0, 0};
    int64_t j = 0;
    for (; j + 4 <= nk; j += 4)
        for (int64_t c = 0; c < 4; c++)
            sum[c] += s[j + c];
    for (; j < nk; j++)
        sum[0] += s[j];
    *l += (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The partial of one row block against every key of the tile. */
static void forward_block(const rt_tile_data *t, const rt_blocks *blocks, int64_t b, int64_t h, int64_t qb,
                          scratch *w)
{
    const rt_problem *p = t->problem;
    const int64_t g = h / (p->heads_q / p->heads_kv), D = p->dim, Dv = p->dim_v;
    const int64_t row0 = qb * RT_BLOCK_Q, nq = rt_min64(RT_BLOCK_Q, t->n_q - row0);
    const double *q = rt_part_at(&t->q, b, h, row0);
    int64_t ldq = t->q.width;
    const bool any_q = rt_rows_not_finite(q, nq, D, ldq, w->q_bad);
    if (any_q) {
        rt_rows_clean(q, nq, D, ldq, w->q_bad, w->q);
        q = w->q;
        ldq = D;
    }
    for (int64_t i = 0; i < nq; i++) {
        w->m[i] = -RT_INF;
        w->l[i] = 0;
        w->row_nan[i] = false;
    }
    memset(w->acc, 0, (size_t)(nq * Dv) * sizeof(double));

    for (int64_t kb = 0; kb < blocks->n_kb; kb++) {
        const rt_block_class cls = rt_blocks_classify(blocks, qb, kb);
        if (cls == RT_BLOCK_EMPTY)
            continue;
        const int64_t key0 = kb * RT_BLOCK_K, nk = rt_min64(RT_BLOCK_K, t->n_kv - key0);
        const double *k = rt_part_at(&t->k, b, g, key0), *v = rt_part_at(&t->v, b, g, key0);
        int64_t ldk = t->k.width, ldv = t->v.width;
        const bool any_k = rt_rows_not_finite(k, nk, D, ldk, w->k_bad);
        const bool any_v = rt_rows_not_finite(v, nk, Dv, ldv, w->v_bad);
        if (any_k) {
            rt_rows_clean(k, nk, D, ldk, w->k_bad, w->k);
            k = w->k;
            ldk = D;
        }
        if (any_v) {
            rt_rows_clean(v, nk, Dv, ldv, w->v_bad, w->v);
            v = w->v;
            ldv = Dv;
        }
        rt_gemm_nt(nq, nk, D, p->scale, q, ldq, k, ldk, 0.0, w->s, RT_BLOCK_K);
        if (cls == RT_BLOCK_PARTIAL)
            mask_scores(blocks, row0, nq, key0, nk, w->s);
        for (int64_t i = 0; i < nq; i++)
            softmax_row(w->s + i * RT_BLOCK_K, nk, Dv, &w->m[i], &w->l[i], w->acc + i * Dv);
        rt_gemm_nn(nq, Dv, nk, 1.0, w->s, RT_BLOCK_K, v, ldv, 1.0, w->acc, Dv);

        if (any_q || any_k) /* a NaN or an infinity in a visible q or k: the row is NaN */
            for (int64_t i = 0; i < nq; i++)
                for (int64_t j = 0; j < nk; j++)
                    if ((w->q_bad[i] || w->k_bad[j]) && rt_blocks_visible(blocks, row0 + i, key0 + j))
                        w->row_nan[i] = true;
        if (any_v) { /* in a visible v: that element of the row's output is NaN */
            const double *raw = rt_part_at(&t->v, b, g, key0);
            for (int64_t i = 0; i < nq; i++)
                for (int64_t j = 0; j < nk; j++)
                    if (w->v_bad[j] && rt_blocks_visible(blocks, row0 + i, key0 + j))
                        for (int64_t d = 0; d < Dv; d++)
                            if (!isfinite(raw[j * t->v.width + d]))
                                w->acc[i * Dv + d] = RT_NAN;
        }
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

static rt_status f64_forward(rt_context *ctx, const rt_tile_data *t)
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

    const int64_t heads = t->q_head1 - t->q_head0, units = p->batch * heads * blocks.n_qb;
#pragma omp parallel default(none) shared(t, blocks, work, units, heads)
    {
        rt_gemm_alone();
#pragma omp for schedule(dynamic, 1)
        for (int64_t unit = 0; unit < units; unit++) {
            const int64_t qb =
                blocks.n_qb - 1 - unit / (t->problem->batch * heads); /* longest first under causal */
            const int64_t bh = unit % (t->problem->batch * heads);
            forward_block(t, &blocks, bh / heads, t->q_head0 + bh % heads, qb, &work[omp_get_thread_num()]);
            if (t->poke != NULL && omp_get_thread_num() == 0)
                t->poke(t->poke_arg);
        }
    }
    st = RT_OK;
free_scratch:
    rt_free(store);
    rt_free(work);
    rt_blocks_reset(&blocks);
    return st;
}

/* M-raw: m' = max; l' = l c + l_in c_in; acc' likewise, with c = exp(m - m').  An empty side leaves the
 * other as it is, bit for bit.  NaN on either side makes the row NaN. */
void rt_f64_join(int64_t rows, int64_t width, const double *acc_in, const double *m_in, const double *l_in,
                 double *acc, double *m, double *l)
{
    for (int64_t i = 0; i < rows; i++) {
        const double *in = acc_in + i * width;
        double *out = acc + i * width;
        if (rt_is_minus_inf(m_in[i]))
            continue;
        if (rt_is_minus_inf(m[i])) {
            memcpy(out, in, (size_t)width * sizeof *out);
            m[i] = m_in[i];
            l[i] = l_in[i];
            continue;
        }
        if (isnan(m[i]) || isnan(m_in[i])) {
            m[i] = l[i] = RT_NAN;
            for (int64_t d = 0; d < width; d++)
                out[d] = RT_NAN;
            continue;
        }
        const double top = m_in[i] > m[i] ? m_in[i] : m[i];
        const double c = rt_exp_scalar(m[i] - top), c_in = rt_exp_scalar(m_in[i] - top);
        l[i] = l[i] * c + l_in[i] * c_in;
        for (int64_t d = 0; d < width; d++)
            out[d] = out[d] * c + in[d] * c_in;
        m[i] = top;
    }
}

void rt_f64_finish(int64_t width, const double *acc, double m, double l, double *out, double *lse)
{
    if (rt_is_minus_inf(m)) { /* an empty row */
        memset(out, 0, (size_t)width * sizeof *out);
        *lse = -RT_INF;
        return;
    }
    for (int64_t d = 0; d < width; d++)
        out[d] = acc[d] / l;
    *lse = m + rt_log_scalar(l);
}

rt_status rt_f64_backward(rt_context *ctx, const rt_tile_data *t); /* f64_backward.c */

static int f64_parts(rt_payload payload, const rt_problem *p, int64_t width[RT_MAX_PARTS])
{
    width[0] = p->dim;
    width[1] = width[2] = width[3] = 1;
    switch (payload) {
    case RT_PAYLOAD_KV:
    case RT_PAYLOAD_DKV:
        width[1] = p->dim_v;
        return 2;
    case RT_PAYLOAD_STATE:
        width[0] = p->dim_v;
        return 3;
    case RT_PAYLOAD_DO:
        width[0] = p->dim_v;
        return 4;
    case RT_PAYLOAD_Q:
    case RT_PAYLOAD_DQ:
    case RT_PAYLOAD_COUNT:
    default:
        return 1;
    }
}

static void f64_land(rt_payload payload, const rt_problem *p, int64_t rows,
                     const double *const in[RT_MAX_PARTS], double *const present[RT_MAX_PARTS])
{
    int64_t width[RT_MAX_PARTS];
    const int parts = f64_parts(payload, p, width);
    if (payload == RT_PAYLOAD_STATE) {
        rt_f64_join(rows, width[0], in[0], in[1], in[2], present[0], present[1], present[2]);
        return;
    }
    for (int k = 0; k < parts; k++)
        for (int64_t i = 0; i < rows * width[k]; i++)
            present[k][i] = in[k][i] + present[k][i];
}

static rt_status f64_finish_row(const rt_finish *f, int64_t b, int64_t h, int64_t pos,
                                const double *const state[RT_MAX_PARTS], double *const row[RT_MAX_PARTS],
                                double *out, double *lse)
{
    (void)b, (void)h, (void)pos;
    const int64_t Dv = f->problem->dim_v;
    const double m = *state[1], l = *state[2];
    rt_f64_finish(Dv, state[0], m, l, out, lse);
    if (row == NULL)
        return RT_OK;
    double delta = 0; /* of an empty row: 0 */
    for (int64_t d = 0; d < Dv && !rt_is_minus_inf(m); d++)
        delta += row[0][d] * out[d];
    *row[1] = m;
    *row[2] = l;
    *row[3] = isnan(m) ? RT_NAN : delta;
    return RT_OK;
}

static rt_status f64_finish_gradient(const rt_finish *f, rt_tensor_id t, int64_t b, int64_t head,
                                     int64_t pos, const double *const parts[RT_MAX_PARTS], double *out)
{
    (void)b, (void)head, (void)pos;
    memcpy(out, parts[0], (size_t)(t == RT_DV ? f->problem->dim_v : f->problem->dim) * sizeof *out);
    return RT_OK;
}

const rt_arithmetic_ops rt_arithmetic_f64 = {.name = "f64",
                                             .result = RT_F64,
                                             .state_m = 1,
                                             .parts = f64_parts,
                                             .forward = f64_forward,
                                             .backward = rt_f64_backward,
                                             .land = f64_land,
                                             .finish = f64_finish_row,
                                             .finish_gradient = f64_finish_gradient};

static const rt_arithmetic_ops *const all[] = {&rt_arithmetic_exact, &rt_arithmetic_f64, &rt_arithmetic_f32,
                                               NULL};

const rt_arithmetic_ops *const *rt_arithmetics(void)
{
    return all;
}

const rt_arithmetic_ops *rt_arithmetic_find(const char *name)
{
    for (int64_t i = 0; all[i] != NULL; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

const char *rt_arithmetic_name(const rt_arithmetic_ops *a)
{
    return a->name;
}

rt_dtype rt_arithmetic_result(const rt_arithmetic_ops *a)
{
    return a->result;
}
