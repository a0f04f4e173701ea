/* The sweep's blocks, loads and memory. */
#include "judge/sweep.h"
#include "judge/sweep_vector.h"

#include <omp.h>
#include <string.h>

rt_status rt_cut_create(rt_context *ctx, int64_t n, const int32_t *group_of, int32_t groups, int64_t block,
                        rt_cut *out)
{
    rt_cut c = {.n = n};
    rt_status st = RT_ERR_NOMEM;
    int64_t *start = rt_calloc(ctx, groups + 1, sizeof *start);
    if (start == NULL)
        return RT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++)
        start[group_of == NULL ? 1 : group_of[i] + 1]++;
    for (int32_t r = 0; r < groups; r++) {
        c.blocks += (start[r + 1] + block - 1) / block;
        start[r + 1] += start[r];
    }
    c.order = rt_alloc(ctx, n, sizeof *c.order);
    c.first = rt_alloc(ctx, c.blocks + 1, sizeof *c.first);
    c.group = rt_alloc(ctx, c.blocks, sizeof *c.group);
    c.low = rt_alloc(ctx, c.blocks, sizeof *c.low);
    c.high = rt_alloc(ctx, c.blocks, sizeof *c.high);
    if (c.order == NULL || c.first == NULL || c.group == NULL || c.low == NULL || c.high == NULL)
        goto free_start;
    int64_t at = 0;
    for (int32_t r = 0; r < groups; r++)
        for (int64_t i = start[r]; i < start[r + 1]; i += block) {
            c.first[at] = i;
            c.group[at++] = r;
        }
    c.first[at] = n;
    for (int64_t i = 0; i < n; i++)
        c.order[start[group_of == NULL ? 0 : group_of[i]]++] = i;
    for (int64_t x = 0; x < c.blocks; x++) { /* ascending inside a block */
        c.low[x] = c.order[c.first[x]];
        c.high[x] = c.order[c.first[x + 1] - 1];
    }
    *out = c;
    st = RT_OK;
free_start:
    rt_free(start);
    if (st != RT_OK)
        rt_cut_reset(&c);
    return st;
}

void rt_cut_reset(rt_cut *c)
{
    rt_free(c->order);
    rt_free(c->first);
    rt_free(c->group);
    rt_free(c->low);
    rt_free(c->high);
    memset(c, 0, sizeof *c);
}

rt_status rt_sweep_work_create(rt_context *ctx, const rt_problem *p, rt_sweep_work *w)
{
    const int64_t D = p->dim, Dv = p->dim_v, X = D > Dv ? D : Dv, Q = RT_SWEEP_Q, K = RT_SWEEP_K,
                  QK = Q * K, widest = rt_wants_dbias(p) ? rt_max64(X, p->seqlen_k) : X;
    const int64_t sizes[] = {Q * D,
                             Q * Dv,
                             K * D,
                             K * 2 * Dv,
                             (Q > K ? Q : K) * D,
                             Q * Dv,
                             QK,
                             2 * QK,
                             rt_max64(3 * QK, X * (int64_t)(sizeof(rt_bounds) / sizeof(double))),
                             2 * K * X,
                             6 * K * X,
                             2 * K * X,
                             2 * K * X,
                             2 * K * X,
                             2 * K * X,
                             K + X,
                             4 * X + K,
                             3 * QK,
                             12 * K * (D + Dv) * RT_SWEEP_KEY_BLOCKS,
                             3 * widest,
                             K,
                             K,
                             K,
                             K,
                             K,
                             K,
                             K,
                             K,
                             K,
                             K / 8};
    rt_pair_terms *e = &w->pair;
    double *keep;
    double **const at[] = {&w->q,         &w->dout,      &w->k,         &w->v,   &w->kk,  &w->vv,
                           &w->s,         &w->m2,        &w->m5,        &w->acc, &w->big, &w->prev,
                           &w->top,       &w->t_abs,     &w->t_sq,      &w->vis, &w->row, &w->three,
                           &w->keys,      &w->got,       &e->det,       &e->var, &e->sys, &e->slope,
                           &e->slope_det, &e->slope_var, &e->slope_sys, &e->mu,  &e->sum, &keep};
    memset(w, 0, sizeof *w);
    w->store = rt_carve(ctx, (int)(sizeof sizes / sizeof sizes[0]), sizes, at);
    if (w->store == NULL)
        return RT_ERR_NOMEM;
    e->keep = (uint8_t *)(void *)keep;
    for (int64_t j = 0; j < K; j++) { /* as they stay where nothing bends or drops */
        e->slope[j] = e->mu[j] = 1;
        e->slope_det[j] = e->slope_var[j] = e->slope_sys[j] = 0;
    }
    return RT_OK;
}

void rt_sweep_work_reset(rt_sweep_work *w)
{
    rt_free(w->store);
    w->store = NULL;
}

void rt_sweep_load(const rt_sweep *s, rt_tensor_id t, int64_t head, const int64_t *pos, int64_t n,
                   int64_t width, double *out, uint8_t *bad)
{
    if (s->in->release != NULL && n > 16) /* a block of rows: pages that were read may go */
        s->in->release(s->in->arg);
    for (int64_t i = 0; i < n; i++) {
        double *row = out + i * width, sum = 0;
        s->in->load(s->in->arg, t, s->b, pos[i], head, row);
        for (int64_t d = 0; d < width; d++)
            sum += row[d] - row[d]; /* 0 if every one is finite */
        bad[i] = 0;
        if (!isnan(sum))
            continue;
        for (int64_t d = 0; d < width; d++) {
            const uint8_t kind = rt_not_finite(row[d]);
            bad[i] = kind > bad[i] ? kind : bad[i];
            row[d] = kind > 0 ? 0 : row[d];
        }
    }
}

int64_t rt_sweep_visible(const rt_sweep *s, int64_t i, const int64_t *pos, int64_t n, double *vis)
{
    const int64_t lo = s->lo[i], hi = s->hi[i];
    int64_t count = 0;
    uint8_t seen[RT_SWEEP_K];
    if (!s->interval) {
        count = rt_mask_row_keys(s->p, s->b, i, pos, n, seen);
        for (int64_t k = 0; k < n; k++)
            vis[k] = seen[k] ? 1.0 : 0.0;
        return count;
    }
    rt_sweep_inside(lo, hi, pos, n, vis);
    /* pos ascends inside a block */
    while (count < n && pos[n - 1 - count] >= hi)
        count++;
    int64_t first = 0;
    while (first < n && pos[first] < lo)
        first++;
    return rt_max64(0, n - count - first);
}

rt_score_terms rt_sweep_score_terms(const rt_sweep *s)
{
    const rt_budget *b = &s->budget;
    const double alpha = fabs(s->p->scale), D = (double)s->p->dim;
    const double half_d = b->matrix_unit ? 0 : 0.5 * D;
    return (rt_score_terms){.det1 = rt_budget_dot(b, D, 0) * alpha,
                            .var1 = b->u * b->u * half_d * alpha * alpha,
                            .u = b->u,
                            .u2 = b->u * b->u,
                            .half_d = half_d,
                            .sys1 = rt_budget_dot_sys(b, D, 0) * alpha,
                            .adds = (s->p->alibi != NULL) + (s->p->bias != NULL),
                            .cap = s->p->softcap,
                            .tanh_rel = b->tanh_rel,
                            .tanh_abs = b->tanh_abs};
}

rt_grad_terms rt_sweep_grad_terms(const rt_sweep *s, const rt_row_record *rec)
{
    const rt_budget *b = &s->budget;
    const double Dv = (double)s->p->dim_v, half_v = b->matrix_unit ? 0 : 0.5 * Dv;
    return (rt_grad_terms){.det0 = b->exp_rel + 3 * b->u + rec->det_l,
                           .sys0 = b->exp_rel + rec->sys_l,
                           .g1 = rt_budget_dot(b, Dv, 0) * rec->g1,
                           .g2 = b->u * b->u * half_v * rec->g2,
                           .g_sys = rt_budget_dot_sys(b, Dv, 0) * rec->g1,
                           .half_v = half_v};
}

rt_sum_terms rt_sweep_sum_terms(const rt_budget *b, int64_t n)
{
    /* A matrix unit's blocks are added one to the other elsewhere, to nearest. */
    const double adds = b->matrix_unit ? rt_budget_blocks(b, n, 1) : (double)n;
    return (rt_sum_terms){.det =
                              b->u_p + rt_budget_dot(b, (double)n, 1) + (b->matrix_unit ? adds * b->u : 0),
                          .var = b->u_p * b->u_p + b->u * b->u * adds,
                          .sys = rt_budget_dot_sys(b, (double)n, 1)};
}

bool rt_sweep_take_exact(const double *exact, double open, int64_t n, double *truth, rt_bounds *bounds)
{
    if (!(open < RT_INF)) /* beyond the range of the fast pass: binary64 stays */
        return false;
    for (int64_t d = 0; d < n; d++) {
        rt_budget_know(&bounds[d], 0x1p-52 * fabs(exact[d]) + open);
        bounds[d].radius =
            open > 0 ? bounds[d].known : 0; /* decided: exact[d] rounds to what the true value rounds to */
        truth[d] = exact[d];
    }
    return true;
}

void rt_sweep_unknown(int64_t n, double *truth, rt_bounds *bounds)
{
    for (int64_t d = 0; d < n; d++) {
        truth[d] = 0;
        bounds[d] = (rt_bounds){.bound = RT_INF, .lambda = RT_INF, .radius = RT_INF, .known = RT_INF};
    }
}

rt_status rt_sweep_memory(rt_context *ctx, rt_sweep *s)
{
    const rt_problem *p = s->p;
    const int64_t Sq = p->seqlen_q, Sk = p->seqlen_k;
    s->bends = rt_score_bends(p);
    s->drops = p->dropout > 0;
    s->more = 1 / rt_score_keep(p);
    if (s->key_groups.order == NULL)
        RT_TRY(rt_cut_create(ctx, Sk, NULL, 1, RT_SWEEP_K, &s->key_groups));
    if (s->dq_groups.order == NULL)
        RT_TRY(rt_cut_create(ctx, Sk, NULL, 1, RT_SWEEP_K, &s->dq_groups));
    if (s->query_groups.order == NULL)
        RT_TRY(rt_cut_create(ctx, Sq, NULL, 1, RT_SWEEP_Q, &s->query_groups));
    s->lo = rt_alloc(ctx, 2 * Sq + 3 * Sk, sizeof *s->lo);
    if (s->lo == NULL)
        return RT_ERR_NOMEM;
    s->hi = s->lo + Sq;
    s->col_lo = s->hi + Sq;
    s->col_hi = s->col_lo + Sk;
    s->keys_all = s->col_hi + Sk;
    s->interval = rt_mask_is_interval(p);
    for (int64_t i = 0; i < Sq; i++)
        rt_mask_row(p, i, &s->lo[i], &s->hi[i]);
    for (int64_t j = 0; j < Sk; j++) {
        rt_mask_column(p, j, &s->col_lo[j], &s->col_hi[j]);
        s->keys_all[j] = j;
    }
    return RT_OK;
}

void rt_sweep_memory_reset(rt_sweep *s)
{
    rt_cut_reset(&s->key_groups);
    rt_cut_reset(&s->dq_groups);
    rt_cut_reset(&s->query_groups);
    rt_free(s->lo);
    rt_free(s->again);
}

bool rt_sweep_may_narrow(const rt_sweep *s)
{
    return s->in->dtype[RT_K] != RT_F64 && s->in->dtype[RT_V] != RT_F64;
}

int64_t rt_sweep_pair_bytes(const rt_sweep *s, bool narrow)
{
    const rt_problem *p = s->p;
    return p->seqlen_k * ((p->dim + p->dim_v) * (narrow ? 4 : 8) + 4 * 8 + 2 + 8) +
           p->seqlen_q * (p->heads_q / p->heads_kv * (int64_t)sizeof *s->rows + 8);
}

rt_status rt_sweep_pair_memory(rt_context *ctx, rt_sweep *s, bool narrow)
{
    const rt_problem *p = s->p;
    const int64_t Sq = p->seqlen_q, Sk = p->seqlen_k;
    RT_TRY(rt_cut_create(ctx, Sk, NULL, 1, RT_SWEEP_K, &s->keys));
    RT_TRY(rt_cut_create(ctx, Sq, NULL, 1, RT_SWEEP_Q, &s->queries));
    if (narrow) {
        s->k_narrow = rt_alloc(ctx, Sk * p->dim, sizeof *s->k_narrow);
        s->v_narrow = rt_alloc(ctx, Sk * p->dim_v, sizeof *s->v_narrow);
    } else {
        s->k = rt_alloc(ctx, Sk * p->dim, sizeof *s->k);
        s->v = rt_alloc(ctx, Sk * p->dim_v, sizeof *s->v);
    }
    s->k1 = rt_alloc(ctx, 4 * Sk + 2 * p->dim_v + 2 * p->dim, sizeof *s->k1);
    s->k_bad = rt_alloc(ctx, 2 * Sk, 1);
    s->rows = rt_alloc(ctx, p->heads_q / p->heads_kv * Sq, sizeof *s->rows);
    if ((narrow ? s->k_narrow == NULL || s->v_narrow == NULL : s->k == NULL || s->v == NULL) ||
        s->k1 == NULL || s->k_bad == NULL || s->rows == NULL)
        return RT_ERR_NOMEM;
    s->k2 = s->k1 + Sk;
    s->v1 = s->k2 + Sk;
    s->v2 = s->v1 + Sk;
    s->v_max2 = s->v2 + Sk;
    s->v_bad = s->k_bad + Sk;
    s->k_max = s->v_max2 + p->dim_v;
    s->q_max = s->k_max + p->dim;
    s->g_max = s->q_max + p->dim;
    return RT_OK;
}

void rt_sweep_pair_reset(rt_sweep *s)
{
    rt_cut_reset(&s->keys);
    rt_cut_reset(&s->queries);
    rt_free(s->k);
    rt_free(s->v);
    rt_free(s->k_narrow);
    rt_free(s->v_narrow);
    rt_free(s->k1);
    rt_free(s->k_bad);
    rt_free(s->rows);
}

/* Load row j of the pair and take its norms; the largest elements of the thread's rows so far. */
static bool load_key(rt_sweep *s, int64_t j, double *row, double *k_max, double *v_max2)
{
    const int64_t D = s->p->dim, Dv = s->p->dim_v, X = D > Dv ? D : Dv;
    double *k = s->k != NULL ? s->k + j * D : row, *v = s->v != NULL ? s->v + j * Dv : row + X;
    rt_sweep_load(s, RT_K, s->g, &j, 1, D, k, s->k_bad + j);
    rt_sweep_load(s, RT_V, s->g, &j, 1, Dv, v, s->v_bad + j);
    rt_sweep_norms(k, D, &s->k1[j], &s->k2[j]);
    rt_sweep_norms(v, Dv, &s->v1[j], &s->v2[j]);
    if (s->k == NULL)
        for (int64_t d = 0; d < D; d++)
            s->k_narrow[j * D + d] = (float)k[d];
    if (s->v == NULL)
        for (int64_t d = 0; d < Dv; d++)
            s->v_narrow[j * Dv + d] = (float)v[d];
    for (int64_t d = 0; d < D && s->lean; d++)
        k_max[d] = fabs(k[d]) > k_max[d] ? fabs(k[d]) : k_max[d];
    for (int64_t d = 0; d < Dv; d++) {
        const double y = v[d] * v[d];
        v_max2[d] = y > v_max2[d] ? y : v_max2[d];
    }
    return s->k_bad[j] > 0 || s->v_bad[j] > 0;
}

rt_status rt_sweep_load_keys(rt_context *ctx, rt_sweep *s, int64_t n)
{
    const int64_t D = s->p->dim, Dv = s->p->dim_v, X = D > Dv ? D : Dv, Sk = s->p->seqlen_k,
                  each = 2 * X + n * (D + Dv);
    double *scratch = rt_calloc(ctx, omp_get_max_threads() * each, sizeof *scratch);
    if (scratch == NULL)
        return RT_ERR_NOMEM;
    for (int64_t x = 0; x < n; x++) {
        memset(s[x].v_max2, 0, (size_t)Dv * sizeof *s->v_max2);
        memset(s[x].k_max, 0, (size_t)D * sizeof *s->k_max);
        s[x].any_bad = false;
    }
#pragma omp parallel default(none) shared(s, n, D, Dv, X, Sk, each, scratch)
    {
        double *row = scratch + omp_get_thread_num() * each, *top = row + 2 * X;
        uint64_t bad = 0; /* a bit for each of the pairs */
        /* The heads of a token lie side by side: all pairs at once read what lies together. */
#pragma omp for schedule(static, 64)
        for (int64_t j = 0; j < Sk; j++) {
            for (int64_t x = 0; x < n; x++)
                if (load_key(&s[x], j, row, top + x * (D + Dv), top + x * (D + Dv) + D))
                    bad |= UINT64_C(1) << x;
            if (s->in->release != NULL && j % 4096 == 0) /* pages that were read may go */
                s->in->release(s->in->arg);
        }
#pragma omp critical(rt_judge_keys)
        for (int64_t x = 0; x < n; x++) {
            const double *mine = top + x * (D + Dv);
            for (int64_t d = 0; d < D; d++)
                s[x].k_max[d] = fmax(s[x].k_max[d], mine[d]);
            for (int64_t d = 0; d < Dv; d++)
                s[x].v_max2[d] = fmax(s[x].v_max2[d], mine[D + d]);
            s[x].any_bad = s[x].any_bad || (bad >> x & 1) > 0;
        }
    }
    rt_free(scratch);
    return RT_OK;
}
