/* Results of family TRACER by closed form: q = 0, so every visible key weighs 1/n.
 *
 *   out_i = mean of v over the visible keys     lse_i = ln n     dk = 0 (q = 0)
 *   dv_j  = sum of dout_i / n_i over the queries (and heads of the group) that see j
 *   dq_i  = scale / n_i [ sum_j (dout_i.v_j) k_j - (dout_i.out_i) sum_j k_j ] = scale / n_i [ M^T dout_i - a_i K_i ]
 * with M = sum_j v_j k_j^T and K = sum_j k_j.  v's dim d holds bit d mod 20 of the position, so M has 20 distinct rows.  Under a causal mask
 * the sums run along the sequence: one pass forward, one backward, O(S D) memory of nothing but a few rows. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include <ringtrue/generate.h>

enum { BITS = 20 };

typedef struct {
    const rt_problem *p;
    const rt_result_io *io;
    int64_t b, g;
    double *m, *k_sum, *v_sum, *row_k, *row_v, *dout, *bits, *out, *dq, *dv;
} closed;

static int64_t scratch_doubles(const rt_problem *p)
{
    return BITS * p->dim + 4 * p->dim + 6 * p->dim_v + BITS;
}

static void point(closed *c, double *x)
{
    const int64_t D = c->p->dim, Dv = c->p->dim_v;
    c->m = x;
    c->k_sum = c->m + BITS * D;
    c->row_k = c->k_sum + D;
    c->dq = c->row_k + D;
    c->v_sum = c->dq + 2 * D;
    c->row_v = c->v_sum + Dv;
    c->dout = c->row_v + Dv;
    c->out = c->dout + Dv;
    c->dv = c->out + Dv;
    c->bits = c->dv + 2 * Dv;
}

/* Key j joins the sums. */
static void add_key(closed *c, int64_t j)
{
    const int64_t D = c->p->dim, Dv = c->p->dim_v;
    c->io->load(c->io->arg, RT_K, c->b, j, c->g, c->row_k);
    c->io->load(c->io->arg, RT_V, c->b, j, c->g, c->row_v);
    for (int64_t d = 0; d < D; d++)
        c->k_sum[d] += c->row_k[d];
    for (int64_t d = 0; d < Dv; d++)
        c->v_sum[d] += c->row_v[d];
    for (int64_t bit = 0; bit < BITS && bit < Dv; bit++)
        if (c->row_v[bit] > 0)
            for (int64_t d = 0; d < D; d++)
                c->m[bit * D + d] += c->row_k[d];
}

/* Query i of head h, which sees n keys. */
static void query(closed *c, int64_t h, int64_t i, double n)
{
    const int64_t D = c->p->dim, Dv = c->p->dim_v;
    double a = 0;
    const double lse = log(n);
    c->io->load(c->io->arg, RT_DOUT, c->b, i, h, c->dout);
    memset(c->bits, 0, BITS * sizeof *c->bits);
    for (int64_t d = 0; d < Dv; d++) {
        c->out[d] = c->v_sum[d] / n;
        a += c->dout[d] * c->out[d];
        c->bits[d % BITS] += c->dout[d];
    }
    for (int64_t d = 0; d < D; d++)
        c->dq[d] = -a * c->k_sum[d];
    for (int64_t bit = 0; bit < BITS && bit < Dv; bit++)
        for (int64_t d = 0; d < D; d++)
            c->dq[d] += c->bits[bit] * c->m[bit * D + d];
    for (int64_t d = 0; d < D; d++)
        c->dq[d] *= c->p->scale / n;
    c->io->store(c->io->arg, RT_OUT, c->b, i, h, c->out);
    c->io->store(c->io->arg, RT_LSE, c->b, i, h, &lse);
    c->io->store(c->io->arg, RT_DQ, c->b, i, h, c->dq);
}

static void pair(closed *c)
{
    const rt_problem *p = c->p;
    const int64_t group = p->heads_q / p->heads_kv;
    const bool causal = p->mask != RT_MASK_FULL;
    memset(c->m, 0, (size_t)(BITS * p->dim) * sizeof *c->m);
    memset(c->k_sum, 0, (size_t)p->dim * sizeof *c->k_sum);
    memset(c->v_sum, 0, (size_t)p->dim_v * sizeof *c->v_sum);
    for (int64_t j = 0; j < p->seqlen_k && !causal; j++)
        add_key(c, j);
    for (int64_t i = 0; i < p->seqlen_q; i++) {
        if (causal)
            add_key(c, i);
        for (int64_t h = c->g * group; h < (c->g + 1) * group; h++)
            query(c, h, i, (double)(causal ? i + 1 : p->seqlen_k));
    }
    /* dv: the queries from the last on */
    memset(c->dv, 0, (size_t)p->dim_v * sizeof *c->dv);
    memset(c->dq, 0, (size_t)p->dim * sizeof *c->dq);
    for (int64_t i = p->seqlen_q - 1; i >= 0; i--) {
        const double n = (double)(causal ? i + 1 : p->seqlen_k);
        for (int64_t h = c->g * group; h < (c->g + 1) * group; h++) {
            c->io->load(c->io->arg, RT_DOUT, c->b, i, h, c->dout);
            for (int64_t d = 0; d < p->dim_v; d++)
                c->dv[d] += c->dout[d] / n;
        }
        if (causal)
            c->io->store(c->io->arg, RT_DV, c->b, i, c->g, c->dv);
    }
    for (int64_t j = 0; j < p->seqlen_k; j++) {
        if (!causal)
            c->io->store(c->io->arg, RT_DV, c->b, j, c->g, c->dv);
        c->io->store(c->io->arg, RT_DK, c->b, j, c->g, c->dq);
    }
}

rt_status rt_generate_results(rt_context *ctx, rt_family f, const rt_problem *p, const rt_result_io *io)
{
    if (rt_problem_has_scores(p))
        return rt_fail(ctx, RT_ERR_ARG,
                       "results by closed form: without alibi, bias, softcap, sink and dropout. Hint: "
                       "`run` computes them");
    const bool plain =
        !p->has_window && p->prefix == 0 && p->n_slices == 0 && p->key_valid == NULL && p->dense == NULL;
    char mask[RT_MASK_TEXT];
    if (f != RT_FAMILY_TRACER || p->documents > 0 || !plain ||
        (p->mask != RT_MASK_FULL && p->seqlen_q != p->seqlen_k))
        return rt_fail(
            ctx, RT_ERR_ARG,
            "results by closed form: family tracer without documents, full or causal with Sq = Sk "
            "(family %s, mask %s, %lld documents, Sq %lld, Sk "
            "%lld). Hint: `run` computes any other",
            rt_family_name(f), rt_mask_text(mask, p), (long long)p->documents, (long long)p->seqlen_q,
            (long long)p->seqlen_k);
    const int threads = omp_get_max_threads();
    double *store = rt_alloc(ctx, threads * scratch_doubles(p), sizeof *store);
    if (store == NULL)
        return RT_ERR_NOMEM;
    const int64_t pairs = p->batch * p->heads_kv;
    int64_t done = 0;
#pragma omp parallel for schedule(dynamic, 1) default(none) shared(ctx, p, io, store, pairs, done)
    for (int64_t x = 0; x < pairs; x++) {
        closed c = {.p = p, .io = io, .b = x / p->heads_kv, .g = x % p->heads_kv};
        point(&c, store + omp_get_thread_num() * scratch_doubles(p));
        pair(&c);
        int64_t now_done;
#pragma omp atomic capture
        now_done = ++done;
        if (omp_get_thread_num() == 0)
            rt_progress(ctx, "results, key heads", now_done, pairs);
    }
    rt_free(store);
    return RT_OK;
}
