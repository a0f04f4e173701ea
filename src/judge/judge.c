/* The judge: deals (batch, key head) pairs to the processes, sweeps each, adds up the tallies. */
#include <omp.h>
#include <string.h>
#include <time.h>

#include "judge/sweep.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_key_side(rt_tensor_id t)
{
    return t == RT_K || t == RT_V || t == RT_DK || t == RT_DV;
}

static int64_t tensor_elements(const rt_problem *p, rt_tensor_id t)
{
    const int64_t rows = p->batch * (is_key_side(t) ? p->seqlen_k * p->heads_kv : p->seqlen_q * p->heads_q);
    const int64_t width = t == RT_LSE                                              ? 1
                          : t == RT_V || t == RT_DOUT || t == RT_OUT || t == RT_DV ? p->dim_v
                                                                                   : p->dim;
    return rows * width;
}

/* lambda for which N elements exceed it with probability below delta: Hoeffding, 2 N exp(-lambda^2 / 2) =
 * delta. */
static double lambda_for(int64_t elements, double delta)
{
    return sqrt(2 * (rt_log_scalar(2 * (double)elements) - rt_log_scalar(delta)));
}

/* Whether some row of the plan is joined from several partials: then a partial is what one kv shard brings.
 */
static int32_t partial_groups(const rt_plan *plan, const rt_pass *pass)
{
    int32_t first = -1;
    for (int64_t i = 0; i < pass->n_tiles; i++) {
        if (first < 0)
            first = pass->tiles[i].kv.shard;
        if (pass->tiles[i].kv.shard != first)
            return plan->ranks;
    }
    return 1;
}

static rt_status sweep_create(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan *plan,
                              const rt_declared *d, const rt_judge_input *in, const rt_judge_options *o,
                              double delta, rt_sweep *s)
{
    s->ctx = ctx;
    s->p = p;
    s->in = in;
    s->o = o;
    rt_budget_init(&s->budget, d);
    s->backward = in->present[RT_DOUT] && (in->present[RT_DQ] || in->present[RT_DK] || in->present[RT_DV]);
    for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++) {
        s->any[t] = in->present[t] && (t <= RT_OUT || s->backward);
        s->lambda[t] = lambda_for(tensor_elements(p, (rt_tensor_id)t), delta);
    }
    s->lambda[RT_OUT] = lambda_for(tensor_elements(p, RT_OUT), delta);
    const int32_t groups = partial_groups(plan, &plan->forward);
    const int64_t Sq = p->seqlen_q, Sk = p->seqlen_k;
    RT_TRY(rt_cut_create(ctx, Sk, groups > 1 ? l->side[RT_SIDE_KV].rank_of : NULL, groups, RT_BLOCK_K,
                         &s->key_groups));
    RT_TRY(rt_cut_create(ctx, Sq, groups > 1 ? l->side[RT_SIDE_Q].rank_of : NULL, groups, RT_BLOCK_Q,
                         &s->query_groups));
    RT_TRY(rt_cut_create(ctx, Sk, NULL, 1, RT_BLOCK_K, &s->keys));
    RT_TRY(rt_cut_create(ctx, Sq, NULL, 1, RT_BLOCK_Q, &s->queries));
    s->lo = rt_alloc(ctx, 2 * Sq + 2 * Sk, sizeof *s->lo);
    s->k = rt_alloc(ctx, Sk * p->dim, sizeof *s->k);
    s->v = rt_alloc(ctx, Sk * p->dim_v, sizeof *s->v);
    s->k1 = rt_alloc(ctx, 4 * Sk + p->dim_v, sizeof *s->k1);
    s->k_bad = rt_alloc(ctx, 2 * Sk, 1);
    s->rows = rt_alloc(ctx, p->heads_q / p->heads_kv * Sq, sizeof *s->rows);
    if (s->lo == NULL || s->k == NULL || s->v == NULL || s->k1 == NULL || s->k_bad == NULL ||
        s->rows == NULL)
        return RT_ERR_NOMEM;
    s->hi = s->lo + Sq;
    s->col_lo = s->hi + Sq;
    s->col_hi = s->col_lo + Sk;
    s->k2 = s->k1 + Sk;
    s->v1 = s->k2 + Sk;
    s->v2 = s->v1 + Sk;
    s->v_max2 = s->v2 + Sk;
    s->v_bad = s->k_bad + Sk;
    for (int64_t i = 0; i < Sq; i++)
        rt_mask_row(p, i, &s->lo[i], &s->hi[i]);
    for (int64_t j = 0; j < Sk; j++)
        rt_mask_column(p, j, &s->col_lo[j], &s->col_hi[j]);
    return RT_OK;
}

static void sweep_reset(rt_sweep *s)
{
    rt_cut_reset(&s->key_groups);
    rt_cut_reset(&s->query_groups);
    rt_cut_reset(&s->keys);
    rt_cut_reset(&s->queries);
    rt_free(s->lo);
    rt_free(s->k);
    rt_free(s->v);
    rt_free(s->k1);
    rt_free(s->k_bad);
    rt_free(s->rows);
}

/* The keys and values of the pair in hand. */
static void load_keys(rt_sweep *s)
{
    const int64_t D = s->p->dim, Dv = s->p->dim_v, Sk = s->p->seqlen_k;
    const int64_t *pos = s->keys.order; /* 0, 1, 2, .. */
#pragma omp parallel for schedule(static) default(none) shared(s, D, Dv, Sk, pos)
    for (int64_t j = 0; j < Sk; j++) {
        rt_sweep_load(s, RT_K, s->g, pos + j, 1, D, s->k + j * D, s->k_bad + j);
        rt_sweep_load(s, RT_V, s->g, pos + j, 1, Dv, s->v + j * Dv, s->v_bad + j);
        rt_sweep_norms(s->k + j * D, D, &s->k1[j], &s->k2[j]);
        rt_sweep_norms(s->v + j * Dv, Dv, &s->v1[j], &s->v2[j]);
    }
    memset(s->v_max2, 0, (size_t)Dv * sizeof *s->v_max2);
    s->any_bad = false;
    for (int64_t j = 0; j < Sk; j++) {
        s->any_bad = s->any_bad || s->k_bad[j] > 0 || s->v_bad[j] > 0;
        for (int64_t d = 0; d < Dv; d++) {
            const double y = s->v[j * Dv + d] * s->v[j * Dv + d];
            s->v_max2[d] = y > s->v_max2[d] ? y : s->v_max2[d];
        }
    }
}

static void sweep_pair(rt_sweep *s, rt_sweep_work *work, int64_t *done, int64_t total)
{
    const int64_t group = s->p->heads_q / s->p->heads_kv, n = group * s->queries.blocks;
    load_keys(s);
#pragma omp parallel for schedule(dynamic, 1) default(none) shared(s, work, group, n, done, total)
    for (int64_t i = 0; i < n;
         i++) { /* the last rows see the most keys under a causal mask: they come first */
        rt_sweep_rows(s, s->g * group + i % group, s->queries.blocks - 1 - i / group,
                      &work[omp_get_thread_num()]);
#pragma omp atomic
        ++*done;
        if (omp_get_thread_num() == 0)
            rt_progress(s->ctx, "judging, blocks", *done, total);
    }
    if (s->any[RT_DK] || s->any[RT_DV]) {
        const int64_t m = s->keys.blocks;
#pragma omp parallel for schedule(dynamic, 1) default(none) shared(s, work, m, done, total)
        for (int64_t i = 0; i < m; i++) {
            rt_sweep_keys(s, i, &work[omp_get_thread_num()]);
#pragma omp atomic
            ++*done;
            if (omp_get_thread_num() == 0)
                rt_progress(s->ctx, "judging, blocks", *done, total);
        }
    }
}

/* Tallies of all processes, added in the order of the processes, to all. */
static rt_status add_up(rt_context *ctx, rt_comm *comm, rt_tally tally[RT_TENSOR_COUNT])
{
    void *all = NULL;
    int64_t *offsets = NULL;
    RT_TRY(rt_comm_gather(ctx, comm, tally, (int64_t)(RT_TENSOR_COUNT * sizeof *tally), &all, &offsets));
    for (int32_t r = 1; all != NULL && r < rt_comm_size(comm); r++) {
        rt_tally other[RT_TENSOR_COUNT];
        memcpy(other, (char *)all + offsets[r], sizeof other);
        for (int t = 0; t < RT_TENSOR_COUNT; t++)
            rt_tally_merge(&tally[t], &other[t]);
    }
    rt_free(all);
    rt_free(offsets);
    return rt_comm_broadcast(ctx, comm, tally, (int64_t)(RT_TENSOR_COUNT * sizeof *tally));
}

rt_status rt_judge(rt_context *ctx, rt_comm *comm, const rt_problem *p, const rt_layout *l,
                   const rt_plan *plan, const rt_declared *d, const rt_judge_input *in,
                   const rt_judge_options *options, rt_verdict *out)
{
    const double t0 = now();
    const rt_judge_options o = options != NULL ? *options : (rt_judge_options){0};
    const double delta = o.delta > 0 ? o.delta : 1e-6;
    rt_verdict v = {.delta = delta};
    rt_sweep s = {0};
    const int threads = omp_get_max_threads();
    rt_sweep_work *work = rt_calloc(ctx, threads, sizeof *work);
    rt_status st = work == NULL ? RT_ERR_NOMEM : RT_OK;
    for (int i = 0; i < threads && st == RT_OK; i++)
        st = rt_sweep_work_create(ctx, p, &work[i]);
    if (st == RT_OK)
        st = sweep_create(ctx, p, l, plan, d, in, &o, delta, &s);
    st = rt_comm_agree(ctx, comm, st);
    if (st != RT_OK)
        goto free_work;

    const int64_t pairs = p->batch * p->heads_kv,
                  mine = (pairs + rt_comm_size(comm) - 1 - rt_comm_rank(comm)) / rt_comm_size(comm);
    const int64_t blocks =
        p->heads_q / p->heads_kv * s.queries.blocks + (s.any[RT_DK] || s.any[RT_DV] ? s.keys.blocks : 0);
    int64_t done = 0;
    for (int64_t i = rt_comm_rank(comm); i < pairs; i += rt_comm_size(comm)) {
        s.b = i / p->heads_kv;
        s.g = i % p->heads_kv;
        sweep_pair(&s, work, &done, mine * blocks);
    }
    for (int i = 0; i < threads; i++)
        for (int t = 0; t < RT_TENSOR_COUNT; t++)
            rt_tally_merge(&v.tensor[t], &work[i].tally[t]);
    st = add_up(ctx, comm, v.tensor);
    if (st != RT_OK)
        goto free_work;
    bool any = false;
    v.pass = true;
    for (int t = 0; t < RT_TENSOR_COUNT; t++) {
        v.lambda[t] = s.lambda[t];
        any = any || v.tensor[t].judged;
        v.pass = v.pass && (!v.tensor[t].judged || rt_tally_pass(&v.tensor[t]));
    }
    v.pass = v.pass && any;
    v.seconds = now() - t0;
    *out = v;
free_work:
    sweep_reset(&s);
    for (int i = 0; work != NULL && i < threads; i++)
        rt_sweep_work_reset(&work[i]);
    rt_free(work);
    return st;
}
