/* dBias: dS of every pair, summed over what was broadcast, and its bounds (budget.h).  One more pass over the pairs,
 * with the rows' records.  A thread owns rows (queries) of the bias, or, where queries are broadcast, columns, and adds
 * their terms in one order: over the heads of the group, then over the queries, call by call. */
#include <omp.h>
#include <string.h>

#include "arithmetic/ops.h"
#include "judge/truth.h"

enum { Q = RT_SWEEP_Q, K = RT_SWEEP_K };
/* The arrays; those from T_ABS on only where queries are broadcast. */
enum { VALUE, DET, VAR, SYS, ABS, SQ, COUNT, BAD, BY_QUERY, T_ABS = BY_QUERY, T_SQ, T_COUNT, BY_COLUMN };

bool rt_bias_by_row(const rt_problem *p)
{
    const int64_t *shape = p->bias_shape;
    return shape[0] == p->batch && (shape[1] == p->heads_q || p->heads_kv == 1) &&
           shape[2] == p->seqlen_q && p->seqlen_q > 1;
}

rt_status rt_bias_create(rt_context *ctx, rt_comm *comm, const rt_sweep *s, int64_t rows, bool exact,
                         rt_bias_sums *x)
{
    const rt_problem *p = s->p;
    const int64_t *shape = p->bias_shape, group = p->heads_q / p->heads_kv;
    const bool batches = shape[0] == p->batch, heads = shape[1] == p->heads_q || p->heads_kv == 1;
    memset(x, 0, sizeof *x);
    x->by_query = shape[2] == p->seqlen_q && p->seqlen_q > 1;
    x->shared = !batches || !heads;
    x->heads = shape[1] > 1 ? group : 1;
    x->rows = x->by_query ? rows : 1;
    x->plain = x->by_query ? BY_QUERY : BY_COLUMN;
    x->sums = x->plain + (exact ? RT_EXACT_DQ : 0);
    x->size = x->heads * x->rows * shape[3];
    x->total_size = shape[0] * shape[1] * shape[2] * shape[3];
    x->pair = rt_calloc(ctx, x->sums * x->size, sizeof *x->pair);
    if (x->shared && rt_comm_rank(comm) == 0)
        x->total = rt_calloc(ctx, x->sums * x->total_size, sizeof *x->total);
    if (x->pair == NULL || (x->shared && rt_comm_rank(comm) == 0 && x->total == NULL)) {
        rt_bias_reset(x);
        return RT_ERR_NOMEM;
    }
    return RT_OK;
}

void rt_bias_reset(rt_bias_sums *x)
{
    rt_cut_reset(&x->sample);
    rt_free(x->pair);
    rt_free(x->total);
    memset(x, 0, sizeof *x);
}

/* The queries that are judged: row i of the pair's sums is that of order[i]. */
static const rt_cut *queries_of(const rt_sweep *s, const rt_bias_sums *x)
{
    return x->sample.order != NULL ? &x->sample : &s->queries;
}

/* Queries pos[0 .. nq) of head h against the block of keys; at[i]: where row i's elements of these keys are added. */
static void tile(const rt_sweep *s, int64_t h, const int64_t *pos, int64_t nq, int64_t key0, int64_t nk,
                 rt_sweep_work *w, int64_t stride, double *const at[Q])
{
    const rt_problem *p = s->p;
    const int64_t D = p->dim, Dv = p->dim_v, *k_pos = s->keys_all + key0,
                  hl = h - s->g * (p->heads_q / p->heads_kv);
    const rt_score_terms c = rt_sweep_score_terms(s);
    uint8_t bad[Q];
    rt_sweep_load(s, RT_Q, h, pos, nq, D, w->q, bad);
    rt_sweep_load(s, RT_DOUT, h, pos, nq, Dv, w->dout, bad);
    rt_gemm_nt(nq, nk, D, p->scale, w->q, D, s->k + key0 * D, D, 0.0, w->s, K);
    rt_gemm_nt(nq, nk, Dv, 1.0, w->dout, Dv, s->v + key0 * Dv, Dv, 0.0, w->m2, K);
    for (int64_t i = 0; i < nq; i++) {
        const rt_row_record *rec = &s->rows[hl * p->seqlen_q + pos[i]];
        double *score = w->s + i * K, *dp = w->m2 + i * K, *P = w->m5, *sum = at[i];
        if (rt_sweep_see(s, h, pos[i], k_pos, nk, w->vis) == 0)
            continue;
        rt_sweep_scores(s, &c, h, pos[i], rec->q1, rec->q2, k_pos, nk, s->k1 + key0, s->k2 + key0, score,
                        &w->pair);
        for (int64_t j = 0; j < nk; j++)
            P[j] = w->vis[j] > 0 ? score[j] - rec->lse : -RT_INF;
        rt_exp_vector(P, nk);
        const rt_grad_terms g = rt_sweep_grad_terms(s, rec);
        for (int64_t j = 0; j < nk; j++) {
            if (!(w->vis[j] > 0))
                continue;
            const rt_bent_reading r = rt_sweep_bent(s, &c, &g, rec, &w->pair, j, s->v1[key0 + j],
                                                    s->v2[key0 + j], score[j], P[j], dp[j]);
            const double f2 = r.weight * r.weight, flushed = s->more * s->budget.eta * (1 + r.size);
            sum[VALUE * stride + j] += r.value;
            sum[DET * stride + j] += rec->open ? RT_INF : r.det + r.weight * rec->det_d + flushed;
            sum[VAR * stride + j] += r.var + f2 * (rec->var_l * r.size * r.size + rec->var_d);
            sum[SYS * stride + j] += r.sys + r.weight * rec->sys_d + flushed;
            sum[ABS * stride + j] += fabs(r.value);
            sum[SQ * stride + j] += r.value * r.value;
            sum[COUNT * stride + j] += 1;
            sum[BAD * stride + j] += rec->bad_s == 2 ? 0x1p20 : rec->bad_s;
        }
    }
}

/* One row of elements: bounds, and the verdict on them. */
static void judge_row(const rt_sweep *s, const rt_bias_sums *x, rt_sweep_work *w, int64_t pos, int64_t head,
                      const double *sum, int64_t stride, double *truth, rt_bounds *bounds,
                      uint8_t *undefined, rt_certificate *certificate)
{
    const rt_budget *b = &s->budget;
    const rt_dtype format = s->in->dtype[RT_DBIAS];
    const int64_t Sk = s->p->seqlen_k;
    const double tau = s->more * b->tau_p;
    const rt_exact_factor f = rt_exact_gradient_factor(s->p, RT_DBIAS);
    const double *exact = x->sums > x->plain ? sum + x->plain * stride : NULL;
    bool odd = false;
    double top = 0;
    for (int64_t j = 0; j < Sk && exact != NULL; j++)
        top = fmax(top, fabs(exact[j] * f.value.hi));
    for (int64_t j = 0; j < Sk; j++) {
        const double n = sum[COUNT * stride + j], value = sum[VALUE * stride + j],
                     abs = sum[ABS * stride + j], sq = sum[SQ * stride + j];
        double det = sum[DET * stride + j], var = sum[VAR * stride + j];
        if (n > 1 || b->u_p > rt_unit_roundoff(format)) { /* dS as the other products take it */
            det += b->u_p * abs + n * tau;
            var += b->u_p * b->u_p * sq + n * tau * tau;
        }
        if (x->by_query)
            rt_sum_of_parts(b, format, value, n, abs, sq, n, abs, sq, &det, &var);
        else
            rt_sum_of_parts(b, format, value, n, abs, sq, sum[T_COUNT * stride + j],
                            sum[T_ABS * stride + j], sum[T_SQ * stride + j], &det, &var);
        truth[j] = value;
        bounds[j] =
            n > 0 ? rt_budget_close(b, det, var, sum[SYS * stride + j], s->lambda[RT_DBIAS], format, value)
                  : (rt_bounds){0};
        const bool known =
            exact != NULL &&
            rt_truth_element(f, format,
                             (const double[]){exact[j], exact[stride + j], exact[2 * stride + j]}, top,
                             &(rt_undecided){.b = s->b, .pos = pos, .head = head, .dim = j}, &truth[j],
                             &bounds[j], certificate);
        if (!known && isinf(sum[DET * stride + j]))
            rt_sweep_unknown(1, &truth[j], &bounds[j]);
        const double bad = sum[BAD * stride + j];
        undefined[j] = bad >= 0x1p20 ? 2 : bad > 0 ? 1 : 0;
        odd = odd || bad > 0;
    }
    rt_tally_row(s, w, RT_DBIAS, pos, head, Sk, truth, bounds, odd ? undefined : NULL);
}

/* Scratch of one thread for judge_row. */
typedef struct {
    double *truth;
    rt_bounds *bounds;
    uint8_t *undefined;
} row_scratch;

static row_scratch row_scratch_of(rt_context *ctx, int64_t n)
{
    row_scratch y = {rt_alloc(ctx, n, sizeof *y.truth), rt_alloc(ctx, n, sizeof *y.bounds),
                     rt_alloc(ctx, n, 1)};
    return y;
}

static void row_scratch_reset(row_scratch *y)
{
    rt_free(y->truth);
    rt_free(y->bounds);
    rt_free(y->undefined);
}

/* The first element of head hl's row i, by its index among the queries (0: broadcast). */
static double *element(const rt_bias_sums *x, int64_t hl, int64_t i, int64_t Sk)
{
    return x->pair + ((x->heads > 1 ? hl : 0) * x->rows + i) * Sk;
}

/* Rows of a block of queries, all heads of the group and all keys. */
static void query_block(const rt_sweep *s, const rt_bias_sums *x, int64_t qb, rt_sweep_work *w)
{
    const rt_cut *cut = queries_of(s, x);
    const int64_t group = s->p->heads_q / s->p->heads_kv, Sk = s->p->seqlen_k, first = cut->first[qb],
                  nq = cut->first[qb + 1] - first, *pos = cut->order + first;
    for (int64_t hl = 0; hl < group; hl++)
        for (int64_t key0 = 0; key0 < Sk; key0 += K) {
            double *at[Q];
            for (int64_t i = 0; i < nq; i++)
                at[i] = element(x, hl, first + i, Sk) + key0;
            tile(s, s->g * group + hl, pos, nq, key0, rt_min64(K, Sk - key0), w, x->size, at);
        }
}

/* Columns of a block of keys: all heads of the group and all queries, a kernel call being a part. */
static void key_block(const rt_sweep *s, const rt_bias_sums *x, int64_t key0, rt_sweep_work *w)
{
    const int64_t group = s->p->heads_q / s->p->heads_kv, Sk = s->p->seqlen_k, nk = rt_min64(K, Sk - key0);
    const rt_cut *cut = &s->query_groups;
    for (int64_t hl = 0; hl < group; hl++) {
        double *sum = element(x, hl, 0, Sk) + key0, *at[Q], before[K], seen[K];
        for (int64_t i = 0; i < Q; i++)
            at[i] = sum;
        for (int64_t qb = 0; qb < cut->blocks; qb++) {
            if (qb == 0 || cut->group[qb] != cut->group[qb - 1])
                for (int64_t j = 0; j < nk; j++) {
                    before[j] = sum[VALUE * x->size + j];
                    seen[j] = sum[COUNT * x->size + j];
                }
            tile(s, s->g * group + hl, cut->order + cut->first[qb], cut->first[qb + 1] - cut->first[qb],
                 key0, nk, w, x->size, at);
            if (qb + 1 < cut->blocks && cut->group[qb + 1] == cut->group[qb])
                continue;
            for (int64_t j = 0; j < nk; j++) {
                const double t = sum[VALUE * x->size + j] - before[j];
                sum[T_ABS * x->size + j] += fabs(t);
                sum[T_SQ * x->size + j] += t * t;
                sum[T_COUNT * x->size + j] += sum[COUNT * x->size + j] > seen[j];
            }
        }
    }
}

/* The rows of `sum` (heads, rows, Sk) by all threads; head 0 and batch of the tensor. */
static rt_status judge_rows(rt_context *ctx, const rt_sweep *s, rt_bias_sums *x, int64_t head0,
                            int64_t heads, const double *sum, int64_t stride, rt_sweep_work *work)
{
    const int64_t Sk = s->p->seqlen_k, n = heads * x->rows, *pos = queries_of(s, x)->order;
    int failed = 0;
#pragma omp parallel default(none) shared(ctx, s, x, head0, sum, stride, work, Sk, n, pos, failed)
    {
        row_scratch y = row_scratch_of(ctx, Sk);
        rt_certificate certificate = {0};
        const bool can = y.truth != NULL && y.bounds != NULL && y.undefined != NULL;
        if (!can) {
#pragma omp atomic write
            failed = 1;
        }
#pragma omp for schedule(dynamic, 16)
        for (int64_t r = 0; r < n; r++)
            if (can)
                judge_row(s, x, &work[omp_get_thread_num()], x->by_query ? pos[r % x->rows] : 0,
                          head0 + r / x->rows, sum + r * Sk, stride, y.truth, y.bounds, y.undefined,
                          &certificate);
#pragma omp critical(rt_judge_bias)
        rt_certificate_add(&x->certificate, &certificate);
        row_scratch_reset(&y);
    }
    return failed ? RT_ERR_NOMEM : RT_OK;
}

rt_status rt_bias_pair(rt_context *ctx, rt_sweep *s, rt_bias_sums *x, struct rt_truths *t,
                       rt_sweep_work *work)
{
    const int64_t blocks = x->by_query ? queries_of(s, x)->blocks : (s->p->seqlen_k + K - 1) / K;
    memset(x->pair, 0, (size_t)(x->sums * x->size) * sizeof *x->pair);
#pragma omp parallel for schedule(dynamic, 1) default(none) shared(s, x, work, blocks)
    for (int64_t i = 0; i < blocks; i++) {
        rt_gemm_alone();
        if (x->by_query)
            query_block(s, x, i, &work[omp_get_thread_num()]);
        else
            key_block(s, x, i * K, &work[omp_get_thread_num()]);
    }
    if (x->sums > x->plain && t != NULL)
        RT_TRY(rt_truth_bias(ctx, s, t, x));
    for (int64_t e = x->plain * x->size; e < x->sums * x->size && t == NULL; e++)
        x->pair[e] = RT_NAN; /* a pair without exact truths */
    if (x->shared)
        return RT_OK;
    const int64_t b = s->b, head0 = s->p->bias_shape[1] > 1 ? s->g * (s->p->heads_q / s->p->heads_kv) : 0;
    const rt_status st = judge_rows(ctx, s, x, head0, x->heads, x->pair, x->size, work);
    s->b = b;
    return st;
}

rt_status rt_bias_collect(rt_context *ctx, rt_comm *comm, const rt_sweep *s, int64_t first, rt_bias_sums *x)
{
    const rt_problem *p = s->p;
    const int64_t *shape = p->bias_shape, pairs = p->batch * p->heads_kv, mine = first + rt_comm_rank(comm);
    const int64_t doubles = x->sums * x->size, row = x->rows * shape[3];
    void *all = NULL;
    int64_t *offsets = NULL;
    RT_TRY(rt_comm_gather(ctx, comm, x->pair, mine < pairs ? doubles * (int64_t)sizeof *x->pair : 0, &all,
                          &offsets));
    for (int32_t r = 0; all != NULL && r < rt_comm_size(comm) && first + r < pairs; r++) {
        const int64_t b = (first + r) / p->heads_kv, g = (first + r) % p->heads_kv;
        const double *from = (const double *)(const void *)((char *)all + offsets[r]);
        const int64_t at = ((shape[0] > 1 ? b : 0) * shape[1] + (shape[1] > 1 ? g * x->heads : 0)) * row;
        for (int64_t k = 0; k < x->plain; k++)
            for (int64_t e = 0; e < x->size; e++)
                x->total[k * x->total_size + at + e] += from[k * x->size + e];
        for (int64_t e = 0; e < x->size && x->sums > x->plain; e += shape[3]) { /* in double-double */
            const double *in = from + x->plain * x->size + e;
            double *to = x->total + x->plain * x->total_size + at + e;
            rt_arithmetic_exact.sum(
                RT_DBIAS, p, (const double *[RT_MAX_PARTS]){in, in + x->size, in + 2 * x->size},
                (double *[RT_MAX_PARTS]){to, to + x->total_size, to + 2 * x->total_size});
        }
    }
    rt_free(all);
    rt_free(offsets);
    return RT_OK;
}

rt_status rt_bias_judge(rt_context *ctx, rt_comm *comm, rt_sweep *s, rt_bias_sums *x, rt_sweep_work *work)
{
    const int64_t *shape = s->p->bias_shape;
    rt_status st = RT_OK;
    for (int64_t b = 0; b < shape[0] && st == RT_OK && rt_comm_rank(comm) == 0; b++) {
        s->b = b;
        st = judge_rows(ctx, s, x, 0, shape[1], x->total + b * shape[1] * x->rows * shape[3], x->total_size,
                        work);
    }
    return rt_comm_agree(ctx, comm, st);
}
