/* Sampling.  The cost is measured, not guessed: a machine's BLAS and exp decide it. */
#include "judge/sample.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "judge/sweep_vector.h"
#include "judge/truth.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

void rt_sample_positions(const rt_layout_side *side, int64_t n, uint64_t seed, int which, int64_t b,
                         int64_t g, int64_t *out)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int64_t i = 0; i < n; i++) {
        const uint32_t counter[4] = {(uint32_t)i, (uint32_t)which, (uint32_t)b, (uint32_t)g};
        uint32_t word[4];
        rt_philox(key, counter, word);
        const int64_t first = side->length / n * i + side->length % n * i / n,
                      end = side->length / n * (i + 1) + side->length % n * (i + 1) / n;
        out[i] =
            side->pos[first + (int64_t)((((uint64_t)word[0] << 32) | word[1]) % (uint64_t)(end - first))];
    }
    qsort(out, (size_t)n, sizeof *out, ascending);
}

rt_status rt_cut_from_list(rt_context *ctx, const int64_t *positions, int64_t n, int64_t block, rt_cut *out)
{
    rt_cut c;
    RT_TRY(rt_cut_create(ctx, n, NULL, 1, block, &c));
    memcpy(c.order, positions, (size_t)n * sizeof *c.order);
    for (int64_t x = 0; x < c.blocks; x++) {
        c.low[x] = c.order[c.first[x]];
        c.high[x] = c.order[c.first[x + 1] - 1];
    }
    *out = c;
    return RT_OK;
}

/* A sweep of one head over the first tokens, full mask: every pair counts the same. */
static rt_status probe(rt_context *ctx, const rt_sweep *like, rt_sweep_work *work, rt_problem *p,
                       rt_sweep *s, int64_t n, rt_cost *out)
{
    s->ctx = ctx;
    s->p = p;
    s->in = like->in;
    s->o = like->o;
    s->budget = like->budget;
    s->backward = like->backward;
    memcpy(s->any, like->any, sizeof s->any);
    memcpy(s->lambda, like->lambda, sizeof s->lambda);
    const double pairs = (double)n * (double)n;
    RT_TRY(rt_sweep_memory(ctx, s));
    RT_TRY(rt_sweep_pair_memory(ctx, s, false));
    RT_TRY(rt_sweep_load_keys(ctx, s, 1));
    double t0 = now();
#pragma omp parallel for schedule(dynamic, 1) default(none) shared(s, work)
    for (int64_t i = 0; i < s->queries.blocks; i++) {
        rt_gemm_alone();
        rt_sweep_rows(s, 0, i, &work[omp_get_thread_num()]);
    }
    out->rows = (now() - t0) * 1e9 / pairs;
    t0 = now();
    if (s->any[RT_DK] || s->any[RT_DV]) {
#pragma omp parallel for schedule(dynamic, 1) default(none) shared(s, work)
        for (int64_t i = 0; i < s->keys.blocks; i += RT_SWEEP_KEY_BLOCKS) {
            rt_gemm_alone();
            rt_sweep_keys(s, i, rt_min64(RT_SWEEP_KEY_BLOCKS, s->keys.blocks - i), false,
                          &work[omp_get_thread_num()]);
        }
    }
    out->keys = (now() - t0) * 1e9 / pairs;
    for (int whole = 0; whole < 2; whole++) {
        rt_truths t;
        RT_TRY(rt_truths_create(ctx, s, whole == 1, &t));
        t0 = now();
        const rt_status st = rt_truths_compute(ctx, s, &t);
        *(whole == 1 ? &out->exact_all : &out->exact_rows) = (now() - t0) * 1e9 / pairs;
        rt_truths_reset(&t);
        if (st != RT_OK)
            return st;
    }
    return RT_OK;
}

rt_status rt_judge_cost(rt_context *ctx, const rt_sweep *like, rt_sweep_work *work, rt_cost *out)
{
    const int64_t n = rt_min64(1024, rt_min64(like->p->seqlen_q, like->p->seqlen_k));
    rt_problem p = *like->p;
    p.batch = p.heads_q = p.heads_kv = 1;
    p.seqlen_q = p.seqlen_k = n;
    p.mask = RT_MASK_FULL;
    p.documents = 0;
    p.cu_q = p.cu_k = NULL;
    p.has_window = false;
    p.prefix = p.n_slices = 0;
    p.slices = NULL;
    p.key_valid = p.dense = NULL;
    rt_sweep s = {0};
    rt_judge_options silent = *like->o; /* what is measured is not observed */
    silent.observe = NULL;
    rt_sweep quiet = *like;
    quiet.o = &silent;
    const rt_status st = probe(ctx, &quiet, work, &p, &s, n, out);
    rt_sweep_pair_reset(&s);
    rt_sweep_memory_reset(&s);
    for (int i = 0; i < omp_get_max_threads(); i++)
        memset(work[i].tally, 0, sizeof work[i].tally);
    return st;
}

rt_given rt_given_begin(rt_sweep *s)
{
    const rt_problem *p = s->p;
    const int64_t group = p->heads_q / p->heads_kv, Sq = p->seqlen_q;
    rt_given worst = {0};
    for (int64_t hl = 0; hl < group; hl++)
        for (int64_t i = 0; i < s->queries.n; i++) {
            const rt_row_record *r = &s->rows[hl * Sq + s->queries.order[i]];
            worst.det_l = fmax(worst.det_l, r->det_l);
            worst.var_l = fmax(worst.var_l, r->var_l);
            worst.sys_l = fmax(worst.sys_l, r->sys_l);
            if (r->g1 > 0) {
                worst.det_d = fmax(worst.det_d, r->det_d / r->g1);
                worst.var_d = fmax(worst.var_d, r->var_d / (r->g1 * r->g1));
                worst.sys_d = fmax(worst.sys_d, r->sys_d / r->g1);
            }
        }
    memset(s->q_max, 0, (size_t)(p->dim + p->dim_v) * sizeof *s->q_max); /* g_max lies behind q_max */
    return worst;
}

void rt_given_row(const rt_sweep *s, const rt_given *worst, int64_t h, int64_t i, const double *q,
                  const double *dout, bool bad, bool seen, double *out, double *q_max, double *g_max)
{
    const rt_problem *p = s->p;
    const int64_t group = p->heads_q / p->heads_kv, D = p->dim, Dv = p->dim_v;
    const double to_natural = s->in->lse_base2 ? 0x1.62e42fefa39efp-1 : 1;
    rt_row_record *r = &s->rows[(h - s->g * group) * p->seqlen_q + i];
    memset(r, 0, sizeof *r);
    r->keys = s->interval ? s->hi[i] - s->lo[i] : rt_mask_row_count(p, s->b, i, 1);
    r->lse = -RT_INF;
    if (r->keys == 0)
        return;
    s->in->load(s->in->arg, RT_OUT, s->b, i, h, out);
    s->in->load(s->in->arg, RT_LSE, s->b, i, h, &r->lse);
    r->lse *= to_natural;
    if (rt_is_minus_inf(r->lse) && p->bias != NULL) { /* the bias may hide the row's last key */
        bool any = false;
        for (int64_t k = s->lo[i]; k < s->hi[i] && !any; k++)
            any = rt_sweep_pair_counts(s, h, i, k, false);
        r->keys = any ? r->keys : 0;
    }
    if (r->keys == 0)
        return;
    rt_sweep_norms(q, D, &r->q1, &r->q2);
    rt_sweep_norms(dout, Dv, &r->g1, &r->g2);
    r->delta = rt_sweep_dot(Dv, dout, out);
    if (bad || !isfinite(r->delta + r->lse + r->q1 + r->g1)) {
        /* what hangs on it is not judged here; the row itself is, where it is sampled */
        r->bad_p = r->bad_s = r->bad_g = 1;
        r->lse = r->delta = r->q1 = r->q2 = r->g1 = r->g2 = 0;
    }
    if (seen) {
        rt_sweep_grow(D, q, q_max);
        rt_sweep_grow(Dv, dout, g_max);
    }
    r->top = r->lse;
    /* the kernel may have used it before it was rounded to what is stored */
    const double half = 0.5 * rt_ulp(s->in->dtype[RT_LSE], r->lse / to_natural) * to_natural;
    r->det_l = worst->det_l + half;
    r->var_l = worst->var_l + half * half;
    r->sys_l = worst->sys_l;
    r->det_d = worst->det_d * r->g1;
    r->var_d = worst->var_d * r->g1 * r->g1;
    r->sys_d = worst->sys_d * r->g1;
    /* weights from an lse that is off by more than this are not known, nor are scores of its size in binary64 */
    r->open = r->det_l > 1 || 0x1p-49 * fabs(r->lse) > RT_SWEEP_OPEN;
}

rt_status rt_given_records(rt_context *ctx, rt_sweep *s)
{
    const rt_problem *p = s->p;
    const int64_t group = p->heads_q / p->heads_kv, Sq = p->seqlen_q, D = p->dim, Dv = p->dim_v,
                  each = 2 * D + 3 * Dv;
    const rt_given worst = rt_given_begin(s);
    double *scratch = rt_calloc(ctx, omp_get_max_threads() * each, sizeof *scratch);
    if (scratch == NULL)
        return RT_ERR_NOMEM;
    int64_t lo = INT64_MAX, hi = INT64_MIN; /* the reach of the sampled keys */
    for (int64_t j = 0; j < s->keys.n; j++) {
        const int64_t y = s->keys.order[j];
        if (s->col_lo[y] < s->col_hi[y]) {
            lo = rt_min64(lo, s->col_lo[y]);
            hi = rt_max64(hi, s->col_hi[y]);
        }
    }
#pragma omp parallel default(none) shared(s, group, Sq, D, Dv, each, worst, scratch, lo, hi)
    {
        double *q = scratch + omp_get_thread_num() * each, *dout = q + D, *out = dout + Dv,
               *q_max = out + Dv, *g_max = q_max + D;
#pragma omp for schedule(static, 256)
        for (int64_t x = 0; x < group * Sq; x++) {
            const int64_t h = s->g * group + x / Sq, i = x % Sq;
            uint8_t q_bad, g_bad;
            if (s->in->release != NULL && x % 1024 == 0)
                s->in->release(s->in->arg);
            rt_sweep_load(s, RT_Q, h, &i, 1, D, q, &q_bad);
            rt_sweep_load(s, RT_DOUT, h, &i, 1, Dv, dout, &g_bad);
            rt_given_row(s, &worst, h, i, q, dout, (q_bad | g_bad) != 0, i >= lo && i < hi, out, q_max,
                         g_max);
        }
#pragma omp critical(rt_judge_given)
        for (int64_t d = 0; d < D + Dv; d++) /* g_max lies behind q_max */
            s->q_max[d] = fmax(s->q_max[d], q_max[d]);
    }
    rt_free(scratch);
    return RT_OK;
}
