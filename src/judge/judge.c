/* The judge: deals (batch, key head) pairs to the processes, sweeps each, adds up the tallies. */
#include <omp.h>
#include <string.h>
#include <time.h>

#include "judge/group.h"
#include "judge/sample.h"
#include "judge/sweep_gradients.h"
#include "judge/truth.h"

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
    if (t == RT_DSINK || t == RT_DBIAS) {
        const int64_t *n = p->bias_shape;
        return t == RT_DSINK ? p->heads_q : n[0] * n[1] * n[2] * n[3];
    }
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

/* The positions of a side, cut by the kernel calls of a pass. */
static rt_status cut_by_call(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_pass *pass,
                             rt_side side, int64_t block, int32_t *again, rt_cut *out)
{
    const int64_t n = l->side[side].length;
    int32_t *group_of = rt_alloc(ctx, n, sizeof *group_of), groups = 1;
    rt_status st =
        group_of == NULL ? RT_ERR_NOMEM : rt_call_groups(ctx, p, l, pass, side, group_of, &groups, again);
    if (st == RT_OK)
        st = rt_cut_create(ctx, n, groups > 1 ? group_of : NULL, groups, block, out);
    rt_free(group_of);
    return st;
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
    bool gradient = false;
    for (int t = RT_DQ; t < RT_RESULT_COUNT; t++)
        gradient = gradient || in->present[t];
    s->backward = in->present[RT_DOUT] && gradient;
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++) {
        s->any[t] = in->present[t] && (t <= RT_OUT || s->backward);
        if ((t == RT_DSINK && p->sink == NULL) || (t == RT_DBIAS && !rt_wants_dbias(p)))
            s->any[t] = false;
        else
            s->lambda[t] = lambda_for(tensor_elements(p, (rt_tensor_id)t), delta);
    }
    s->lambda[RT_OUT] = lambda_for(tensor_elements(p, RT_OUT), delta);
    s->again = rt_alloc(ctx, p->seqlen_k, sizeof *s->again);
    if (s->again == NULL)
        return RT_ERR_NOMEM;
    RT_TRY(cut_by_call(ctx, p, l, &plan->forward, RT_SIDE_KV, RT_SWEEP_K, NULL, &s->key_groups));
    RT_TRY(cut_by_call(ctx, p, l, &plan->backward, RT_SIDE_KV, RT_SWEEP_K, NULL, &s->dq_groups));
    RT_TRY(cut_by_call(ctx, p, l, &plan->backward, RT_SIDE_Q, RT_SWEEP_Q, s->again, &s->query_groups));
    return rt_sweep_memory(ctx, s);
}

/* How the work is to be done: everything; all rows and a sample of keys; or samples of both. */
typedef enum { ALL, SAMPLED_KEYS, SAMPLED_BOTH } extent;

typedef struct {
    extent extent;
    bool exact;
    int64_t n_rows, n_keys; /* per (batch, head), where sampled */
} decision;

static double total_pairs(const rt_sweep *s)
{
    double n = 0;
    for (int64_t i = 0; i < s->p->seqlen_q; i++)
        n += (double)(s->hi[i] - s->lo[i]);
    return n * (double)(s->p->batch * s->p->heads_q);
}

static int64_t per_head(int64_t samples, int64_t heads, int64_t most)
{
    const int64_t n = (samples + heads - 1) / heads;
    return n < most ? n : most;
}

/* Decide by cost; alike on every process, since process 0's clock counts. */
static rt_status decide(rt_context *ctx, rt_comm *comm, const rt_sweep *s, rt_sweep_work *work, decision *d,
                        double *estimate)
{
    const rt_problem *p = s->p;
    const double pairs = total_pairs(s), processes = rt_comm_size(comm), budget = s->o->budget_seconds;
    const int64_t samples = s->o->samples > 0 ? s->o->samples : 1024;
    *d = (decision){.extent = ALL, .exact = s->o->truth == RT_TRUTH_EXACT};
    *estimate = 0;
    d->n_rows = per_head(samples, p->batch * p->heads_q, p->seqlen_q);
    d->n_keys = per_head(samples, p->batch * p->heads_kv, p->seqlen_k);
    if (s->o->sampling != RT_SAMPLE_AUTO) {
        d->extent = s->o->sampling == RT_SAMPLE_KEYS ? SAMPLED_KEYS : SAMPLED_BOTH;
        d->exact = d->exact && d->extent == SAMPLED_BOTH;
        return RT_OK;
    }
    if (!(budget > 0) || pairs * 400e-9 < 0.25 * budget) /* sure to fit: no need to measure */
        return RT_OK;
    rt_cost cost = {0};
    rt_status st = rt_comm_rank(comm) == 0 ? rt_judge_cost(ctx, s, work, &cost) : RT_OK;
    RT_TRY(rt_comm_agree(ctx, comm, st));
    RT_TRY(rt_comm_broadcast(ctx, comm, &cost, sizeof cost));
    /* dbias: a pass like that of the keys, of both truths */
    const double unit = 1e-9 / processes, exact_keys = cost.exact_all - cost.exact_rows,
                 dbias = s->any[RT_DBIAS] ? cost.keys : 0, exact_dbias = s->any[RT_DBIAS] ? exact_keys : 0,
                 plain = pairs * (cost.rows + cost.keys + dbias) * unit;
    *estimate = plain + (d->exact ? pairs * (cost.exact_all + exact_dbias) * unit : 0);
    if (*estimate <= budget)
        return RT_OK;
    const bool gradients = s->any[RT_DK] || s->any[RT_DV];
    const double row_part = (double)d->n_rows / (double)p->seqlen_q,
                 key_part = (double)d->n_keys / (double)p->seqlen_k;
    const double by_row = s->any[RT_DBIAS] && rt_bias_by_row(p) ? row_part : 0,
                 keys =
                     (gradients ? pairs * key_part * cost.keys * unit : 0) + pairs * by_row * dbias * unit;
    if (gradients &&
        pairs * cost.rows * unit + keys <= budget) { /* every query's lse and delta can be had */
        d->extent = SAMPLED_KEYS;
        d->exact = false;
        return RT_OK;
    }
    d->extent = SAMPLED_BOTH;
    d->exact = d->exact && pairs * row_part * (cost.rows + cost.exact_rows) * unit +
                                   pairs * by_row * exact_dbias * unit + keys <=
                               budget;
    return RT_OK;
}

/* The blocks of a pair's sample in place of all of them, for so many threads. */
static rt_status cut_sample(rt_context *ctx, const rt_sweep *s, const rt_layout *l, rt_side side, int64_t n,
                            int64_t threads, rt_cut *cut)
{
    int64_t *list = rt_alloc(ctx, n, sizeof *list);
    if (list == NULL)
        return RT_ERR_NOMEM;
    rt_sample_positions(&l->side[side], n, s->o->seed, (int)side, s->b, s->g, list);
    rt_cut_reset(cut);
    /* as many blocks as threads, where the sample is small */
    const int64_t most = side == RT_SIDE_Q ? RT_SWEEP_Q : RT_SWEEP_K;
    const rt_status st =
        rt_cut_from_list(ctx, list, n, rt_max64(16, rt_min64(most, (n + threads - 1) / threads)), cut);
    rt_free(list);
    return st;
}

/* Progress, and memory given back, from the calling thread. */
static void block_done(rt_sweep *s, int64_t *done, int64_t total)
{
    int64_t now_done;
#pragma omp atomic capture
    now_done = ++*done;
    if (omp_get_thread_num() != 0)
        return;
    rt_progress(s->ctx, "judging, blocks", now_done, total);
    if (s->in->release != NULL)
        s->in->release(s->in->arg);
}

/* How many pairs to have in hand at once: blocks of many rows make better products than those that share one head's sample
 * among the threads.  Only of samples, where a pair's work is small; and only as memory allows. */
static int64_t pairs_at_once(const rt_sweep *s, const decision *d, bool narrow, int64_t mine)
{
    if (d->extent != SAMPLED_BOTH || d->exact || s->any[RT_DBIAS])
        return 1;
    const int64_t fit = (INT64_C(5) << 29) / rt_sweep_pair_bytes(s, narrow);
    return rt_max64(
        1, rt_min64(rt_min64(fit, RT_SWEEP_PAIRS), rt_min64((int64_t)omp_get_max_threads(), mine)));
}

/* The pairs s[0 .. pairs), of which several only where both sides are samples. */
static rt_status sweep_pairs(rt_sweep *s, int64_t pairs, const rt_layout *l, const decision *d,
                             rt_sweep_work *work, rt_sink_sums *sink, rt_bias_sums *bias, rt_verdict *v,
                             int64_t *done, int64_t total)
{
    const int64_t group = s->p->heads_q / s->p->heads_kv,
                  threads = (omp_get_max_threads() + pairs - 1) / pairs;
    rt_truths truths = {0};
    rt_status st = RT_OK;
    RT_TRY(rt_sweep_load_keys(s->ctx, s, pairs));
    for (int64_t x = 0; x < pairs; x++) {
        s[x].x_out = s[x].x_lse = s[x].x_dq = s[x].x_dk = s[x].x_dv = NULL;
        if (d->extent == SAMPLED_BOTH)
            RT_TRY(cut_sample(s->ctx, &s[x], l, RT_SIDE_Q, d->n_rows, threads, &s[x].queries));
        if (d->extent != ALL)
            RT_TRY(cut_sample(s->ctx, &s[x], l, RT_SIDE_KV, d->n_keys, threads, &s[x].keys));
    }
    const bool exact = d->exact && !s->any_bad;
    if (exact) {
        st = rt_truths_create(s->ctx, s, d->extent == ALL, &truths);
        if (st == RT_OK)
            st = rt_truths_compute(s->ctx, s, &truths);
        if (st != RT_OK)
            goto reset_truths;
    }
    const int64_t n = pairs * group * s->queries.blocks;
#pragma omp parallel for schedule(dynamic, 1) default(none) shared(s, work, group, pairs, n, done, total)
    for (int64_t i = 0; i < n;
         i++) { /* the last rows see the most keys under a causal mask: they come first */
        rt_gemm_alone();
        rt_sweep *x = &s[i % pairs];
        rt_sweep_rows(x, x->g * group + i / pairs % group, x->queries.blocks - 1 - i / pairs / group,
                      &work[omp_get_thread_num()]);
        block_done(s, done, total);
    }
    if (s->any[RT_DBIAS]) { /* by the rows' own records */
        if (d->extent == SAMPLED_KEYS)
            st = cut_sample(s->ctx, s, l, RT_SIDE_Q, d->n_rows, threads, &bias->sample);
        if (st == RT_OK)
            st = rt_bias_pair(s->ctx, s, bias, exact ? &truths : NULL, work);
        if (st != RT_OK)
            goto reset_truths;
    }
    /* A thread that has all sampled keys of a head takes the rows' records as the rows pass by; else they come first. */
    const bool keys = s->any[RT_DK] || s->any[RT_DV];
    const int64_t at_once = keys ? rt_max64(1, rt_min64(RT_SWEEP_KEY_BLOCKS,
                                                        pairs * s->keys.blocks / omp_get_max_threads()))
                                 : 1,
                  m = (s->keys.blocks + at_once - 1) / at_once;
    const bool sampled = d->extent == SAMPLED_BOTH, given = sampled && keys && !s->any[RT_DSINK] && m == 1;
    for (int64_t x = 0; x < pairs && st == RT_OK; x++) {
        if (sampled && !given && (keys || s->any[RT_DSINK]))
            st = rt_given_records(s->ctx, &s[x]);
        if (st == RT_OK && s->any[RT_DSINK])
            rt_sink_share(&s[x], &l->side[RT_SIDE_Q], sink + s[x].b * s->p->heads_q);
        if (st == RT_OK && s->any[RT_DSINK] && exact && d->extent == ALL)
            rt_truth_sink(s, &truths, sink + s->b * s->p->heads_q);
    }
    if (st == RT_OK && keys) {
#pragma omp parallel for schedule(dynamic, 1) default(none)                                                \
    shared(s, work, pairs, m, at_once, given, done, total)
        for (int64_t i = 0; i < pairs * m; i++) {
            rt_gemm_alone();
            rt_sweep *x = &s[i % pairs];
            const int64_t kb = i / pairs * at_once;
            rt_sweep_keys(x, kb, rt_min64(at_once, x->keys.blocks - kb), given,
                          &work[omp_get_thread_num()]);
            for (int64_t y = kb; y < kb + at_once && y < x->keys.blocks; y++)
                block_done(s, done, total);
        }
    }
reset_truths:
    for (size_t t = 0; t < sizeof truths.certificate / sizeof truths.certificate[0]; t++)
        rt_certificate_add(&v->certificate[t], &truths.certificate[t]);
    v->products[0] += truths.products[0];
    v->products[1] += truths.products[1];
    rt_truths_reset(&truths);
    s->x_out = s->x_lse = s->x_dq = s->x_dk = s->x_dv = NULL;
    return st;
}

/* What the processes found, added in their order, to all. */
typedef struct {
    rt_tally tensor[RT_RESULT_COUNT];
    rt_certificate certificate[RT_RESULT_COUNT];
    int64_t products[2];
} findings;

static rt_status add_up(rt_context *ctx, rt_comm *comm, rt_verdict *v)
{
    findings *mine = rt_calloc(ctx, 2, sizeof *mine), *other = mine + 1;
    void *all = NULL;
    int64_t *offsets = NULL;
    RT_TRY(rt_comm_agree(ctx, comm, mine == NULL ? RT_ERR_NOMEM : RT_OK));
    memcpy(mine->tensor, v->tensor, sizeof mine->tensor);
    memcpy(mine->certificate, v->certificate, sizeof mine->certificate);
    memcpy(mine->products, v->products, sizeof mine->products);
    rt_status st = rt_comm_gather(ctx, comm, mine, (int64_t)sizeof *mine, &all, &offsets);
    for (int32_t r = 1; st == RT_OK && all != NULL && r < rt_comm_size(comm); r++) {
        memcpy(other, (char *)all + offsets[r], sizeof *other);
        for (int t = 0; t < RT_RESULT_COUNT; t++) {
            rt_tally_merge(&mine->tensor[t], &other->tensor[t]);
            rt_certificate_add(&mine->certificate[t], &other->certificate[t]);
        }
        mine->products[0] += other->products[0];
        mine->products[1] += other->products[1];
    }
    rt_free(all);
    rt_free(offsets);
    if (st == RT_OK)
        st = rt_comm_broadcast(ctx, comm, mine, (int64_t)sizeof *mine);
    if (st == RT_OK) {
        memcpy(v->tensor, mine->tensor, sizeof v->tensor);
        memcpy(v->certificate, mine->certificate, sizeof v->certificate);
        memcpy(v->products, mine->products, sizeof v->products);
    }
    rt_free(mine);
    return st;
}

/* How much of each tensor was judged, against which truth. */
static void describe(const rt_sweep *s, const decision *d, rt_verdict *v)
{
    const rt_problem *p = s->p;
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++) {
        const bool key = is_key_side((rt_tensor_id)t);
        if (t == RT_DSINK || t == RT_DBIAS) {
            const int64_t *shape = p->bias_shape, rows = t == RT_DSINK ? p->heads_q : shape[0] * shape[1];
            v->total[t] = rows * (t == RT_DSINK ? 1 : shape[2]);
            v->judged[t] = !v->tensor[t].judged                ? 0
                           : t == RT_DSINK || d->extent == ALL ? v->total[t]
                                                               : rows * d->n_rows;
            v->truth[t] = d->exact && (t == RT_DBIAS || d->extent == ALL) ? RT_TRUTH_EXACT : RT_TRUTH_F64;
            continue;
        }
        const int64_t heads = p->batch * (key ? p->heads_kv : p->heads_q),
                      length = key ? p->seqlen_k : p->seqlen_q;
        const bool sampled = key ? d->extent != ALL : d->extent == SAMPLED_BOTH;
        v->total[t] = heads * length;
        v->judged[t] = v->tensor[t].judged ? heads * (!sampled ? length : key ? d->n_keys : d->n_rows) : 0;
        v->truth[t] = d->exact && !(key && d->extent != ALL) && !(t == RT_LSE && s->in->lse_base2)
                          ? RT_TRUTH_EXACT
                          : RT_TRUTH_F64;
    }
    v->given_lse = d->extent == SAMPLED_BOTH &&
                   (v->tensor[RT_DK].judged || v->tensor[RT_DV].judged || v->tensor[RT_DSINK].judged);
}

rt_status rt_judge(rt_context *ctx, rt_comm *comm, const rt_problem *p, const rt_layout *l,
                   const rt_plan *plan, const rt_declared *declared, const rt_judge_input *in,
                   const rt_judge_options *options, rt_verdict *out)
{
    const double t0 = now();
    const rt_judge_options o = options != NULL ? *options : (rt_judge_options){0};
    const double delta = o.delta > 0 ? o.delta : 1e-6;
    rt_verdict v = {.delta = delta};
    rt_sweep *s =
        rt_calloc(ctx, RT_SWEEP_PAIRS, sizeof *s); /* the pairs in hand; what they share in the first */
    int64_t at_once = 1;
    rt_sink_sums *sink = NULL;
    rt_bias_sums bias = {0};
    const int threads = omp_get_max_threads();
    rt_sweep_work *work = rt_calloc(ctx, threads, sizeof *work);
    rt_status st = work == NULL || s == NULL ? RT_ERR_NOMEM : RT_OK;
    for (int i = 0; i < threads && st == RT_OK; i++)
        st = rt_sweep_work_create(ctx, p, &work[i]);
    if (st == RT_OK)
        st = sweep_create(ctx, p, l, plan, declared, in, &o, delta, s);
    st = rt_comm_agree(ctx, comm, st);
    if (st != RT_OK)
        goto free_work;

    decision d = {.extent = ALL};
    st = decide(ctx, comm, s, work, &d, &v.estimate);
    if (st != RT_OK)
        goto free_work;
    s->lean = d.extent == SAMPLED_BOTH;
    if (d.extent == SAMPLED_BOTH && !(in->present[RT_LSE] && in->present[RT_OUT]))
        s->any[RT_DK] = s->any[RT_DV] = s->any[RT_DSINK] =
            false;                           /* nothing to be given: report them as not judged */
    if (d.extent != ALL && s->any[RT_DBIAS]) /* else every element wants rows that are not sampled */
        s->any[RT_DBIAS] = rt_bias_by_row(p);
    sink = rt_calloc(ctx, p->batch * p->heads_q, sizeof *sink);
    st = sink == NULL ? RT_ERR_NOMEM : RT_OK;
    if (st == RT_OK && s->any[RT_DBIAS])
        st = rt_bias_create(ctx, comm, s, d.extent == ALL ? p->seqlen_q : d.n_rows, d.exact, &bias);
    st = rt_comm_agree(ctx, comm, st);
    if (st != RT_OK)
        goto free_work;
    const int64_t pairs = p->batch * p->heads_kv,
                  mine = (pairs + rt_comm_size(comm) - 1 - rt_comm_rank(comm)) / rt_comm_size(comm);
    const int64_t row_blocks =
                      ((d.extent == SAMPLED_BOTH ? d.n_rows : p->seqlen_q) + RT_SWEEP_Q - 1) / RT_SWEEP_Q,
                  key_blocks = ((d.extent != ALL ? d.n_keys : p->seqlen_k) + RT_SWEEP_K - 1) / RT_SWEEP_K;
    const int64_t blocks =
        p->heads_q / p->heads_kv * row_blocks + (s->any[RT_DK] || s->any[RT_DV] ? key_blocks : 0);
    const bool narrow = d.extent == SAMPLED_BOTH && !d.exact && !s->any[RT_DBIAS] && rt_sweep_may_narrow(s);
    at_once = pairs_at_once(s, &d, narrow, mine);
    const rt_sweep shared = *s;
    for (int64_t x = 0; x < at_once && st == RT_OK; x++) {
        s[x] = shared;
        st = rt_sweep_pair_memory(ctx, &s[x], narrow);
    }
    st = rt_comm_agree(ctx, comm, st);
    if (st != RT_OK)
        goto free_work;
    int64_t done = 0;
    for (int64_t first = 0; first < pairs && st == RT_OK; first += at_once * rt_comm_size(comm)) {
        int64_t n = 0;
        for (int64_t i = first + rt_comm_rank(comm); n < at_once && i < pairs;
             i += rt_comm_size(comm), n++) {
            s[n].b = i / p->heads_kv;
            s[n].g = i % p->heads_kv;
        }
        if (n > 0)
            st = sweep_pairs(s, n, l, &d, work, sink, &bias, &v, &done, mine * blocks);
        if (!bias.shared)
            continue;
        st = rt_comm_agree(ctx, comm, st);
        if (st == RT_OK)
            st = rt_bias_collect(ctx, comm, s, first, &bias);
    }
    st = rt_comm_agree(ctx, comm, st);
    if (st == RT_OK && s->any[RT_DSINK])
        st = rt_sink_judge(ctx, comm, s, sink, l->ranks, work, &v.certificate[RT_DSINK]);
    if (st == RT_OK && bias.shared)
        st = rt_bias_judge(ctx, comm, s, &bias, work);
    rt_certificate_add(&v.certificate[RT_DBIAS], &bias.certificate);
    if (st != RT_OK)
        goto free_work;
    for (int i = 0; i < threads; i++)
        for (int t = 0; t < RT_RESULT_COUNT; t++)
            rt_tally_merge(&v.tensor[t], &work[i].tally[t]);
    st = add_up(ctx, comm, &v);
    if (st != RT_OK)
        goto free_work;
    describe(s, &d, &v);
    bool any = false;
    v.pass = true;
    for (int t = 0; t < RT_RESULT_COUNT; t++) {
        v.lambda[t] = s->lambda[t];
        any = any || v.tensor[t].judged;
        v.pass = v.pass && (!v.tensor[t].judged || rt_tally_pass(&v.tensor[t]));
    }
    v.pass = v.pass && any;
    v.seconds = now() - t0;
    *out = v;
free_work:
    rt_bias_reset(&bias);
    rt_free(sink);
    for (int64_t x = 0; s != NULL && x < at_once; x++)
        rt_sweep_pair_reset(&s[x]);
    if (s != NULL)
        rt_sweep_memory_reset(s);
    rt_free(s);
    for (int i = 0; work != NULL && i < threads; i++)
        rt_sweep_work_reset(&work[i]);
    rt_free(work);
    return st;
}
