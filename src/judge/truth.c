/* Exact truths of one (batch, key head), tile by tile.
 *
 * The judge wants a double whose rounding to the tensor's format is the correct one: the double-double's leading part, moved by a last
 * place or two where it stands on the wrong side of a midpoint.  A gradient that the double-double pass leaves open would need MPFR over
 * every row that sees the key: the judge does without, and keeps the pass's error bound as the radius of that row.  Tiles may be cut anywhere without a change of a bit, so rows and
 * keys are taken in chunks that keep memory small. */
#include "judge/truth.h"

#include <omp.h>
#include <string.h>

enum {
    KEYS = 256,
    CHUNK = 256
}; /* keys of a tile; rows, or keys of a gradient, that one thread takes at a time */

static int64_t chunk(int64_t n, int64_t at, int64_t size)
{
    return rt_min64(size, n - at);
}

rt_status rt_truths_create(rt_context *ctx, const rt_sweep *s, bool whole, rt_truths *t)
{
    const rt_problem *p = s->p;
    const int64_t group = p->heads_q / p->heads_kv, n = group * s->queries.n, D = p->dim, Dv = p->dim_v;
    memset(t, 0, sizeof *t);
    t->whole = whole && s->backward;
    t->x_out = rt_alloc(ctx, n * (Dv + 1), sizeof *t->x_out);
    t->q = rt_alloc(ctx, n * D, sizeof *t->q);
    t->row = rt_alloc(ctx, n * (Dv + RT_EXACT_DO - 1), sizeof *t->row);
    t->x_dq = rt_alloc(ctx, s->backward ? n * D : 0, sizeof *t->x_dq);
    t->open = rt_calloc(ctx, 3 * n + (t->whole ? 2 * p->seqlen_k : 0), sizeof *t->open);
    t->x_dk = rt_alloc(ctx, t->whole ? p->seqlen_k * (D + Dv) : 0, sizeof *t->x_dk);
    if (t->x_out == NULL || t->q == NULL || t->row == NULL || t->x_dq == NULL || t->x_dk == NULL ||
        t->open == NULL) {
        rt_truths_reset(t);
        return RT_ERR_NOMEM;
    }
    t->x_lse = t->x_out + n * Dv;
    t->x_dv = t->x_dk + (t->whole ? p->seqlen_k * D : 0);
    return RT_OK;
}

void rt_truths_reset(rt_truths *t)
{
    rt_free(t->x_out);
    rt_free(t->q);
    rt_free(t->row);
    rt_free(t->x_dq);
    rt_free(t->x_dk);
    rt_free(t->open);
    memset(t, 0, sizeof *t);
}

double rt_truth_settle(rt_dtype format, double hi, double rounded)
{
    double x = hi;
    for (int i = 0; i < 8; i++) {
        const double r = rt_round_to(format, x);
        if ((r >= rounded && r <= rounded) || isnan(rounded))
            return x;
        x += (rounded > x ? 1 : -1) * rt_ulp(RT_F64, x);
    }
    return rounded;
}

typedef struct {
    rt_context *ctx;
    rt_sweep *s;
    rt_truths *t;
    rt_problem one; /* the problem with a batch of one: parts are addressed by b = 0 */
    rt_exact_source source;
    int64_t group, n; /* rows of queries.order */
    int64_t rows;     /* of a chunk */
    rt_status status;
    rt_certificate *certificate; /* by thread */
} job;

static void fail(job *j, rt_status st, const rt_context *mine)
{
#pragma omp critical(rt_judge_truth)
    if (j->status == RT_OK) {
        j->status = st;
        memcpy(j->ctx->message, mine->message, sizeof j->ctx->message);
    }
}

/* Parts laid one after the other for n rows of one head. */
static void lay(double *store, int64_t n, int64_t head, int parts, const int64_t *width, rt_part *out)
{
    for (int k = 0; k < parts; k++) {
        out[k] = (rt_part){.base = store, .batch = 0, .head = 0, .width = width[k], .head0 = head};
        store += n * width[k];
    }
}

static rt_part from_row(const rt_part *p, int64_t row)
{
    rt_part x = *p;
    x.base += row * x.width;
    return x;
}

void rt_truths_rows(const rt_sweep *s, const rt_truths *t, int64_t hl, rt_part row[RT_EXACT_DO])
{
    const int64_t Dv = s->p->dim_v, n = s->queries.n, width[RT_EXACT_DO] = {Dv, 1, 1, 1, 1, 1, 1};
    lay(t->row + hl * n * (Dv + RT_EXACT_DO - 1), n, s->g * (s->p->heads_q / s->p->heads_kv) + hl,
        RT_EXACT_DO, width, row);
}

static rt_part key_part(const job *j, double *base, int64_t first, int64_t width)
{
    return (rt_part){.base = base + first * width, .batch = 0, .head = 0, .width = width, .head0 = j->s->g};
}

static rt_status finish_rows(job *j, rt_context *ctx, int64_t hl, int64_t row0, int64_t nq,
                             const rt_part *state, double *near)
{
    const rt_sweep *s = j->s;
    const int64_t Dv = j->one.dim_v, h = s->g * j->group + hl;
    const rt_dtype out = s->in->present[RT_OUT] ? s->in->dtype[RT_OUT] : s->in->dtype[RT_Q],
                   lse = s->in->present[RT_LSE] ? s->in->dtype[RT_LSE] : RT_F32;
    rt_part row[RT_EXACT_DO];
    rt_truths_rows(s, j->t, hl, row);
    for (int64_t i = 0; i < nq; i++) {
        const double *in[RT_EXACT_STATE];
        double *grad[RT_EXACT_DO], open[2];
        for (int k = 0; k < RT_EXACT_STATE; k++)
            in[k] = rt_part_at(&state[k], 0, h, i);
        for (int k = 0; k < RT_EXACT_DO; k++)
            grad[k] = rt_part_at(&row[k], 0, h, row0 + i);
        double *x = j->t->x_out + (hl * j->n + row0 + i) * Dv, *L = j->t->x_lse + hl * j->n + row0 + i;
        /* double-double leaves most binary64 results open, and MPFR for all of them would take for ever: they keep a radius */
        const rt_exact_source *resolve = out == RT_F64 || lse == RT_F64 ? NULL : &j->source;
        RT_TRY(rt_exact_finish_row(
            ctx, s->p, resolve, s->b, h, s->queries.order[row0 + i], in, out, lse, x, L, grad,
            j->certificate + (int64_t)omp_get_thread_num() * RT_TENSOR_COUNT, open, near));
        j->t->open[hl * j->n + row0 + i] = open[0];
        j->t->open[(j->group + hl) * j->n + row0 + i] = open[1];
        for (int64_t d = 0; d < Dv && isfinite(in[3][0]); d++)
            x[d] = rt_truth_settle(out, near[d], x[d]);
        if (isfinite(in[3][0]))
            *L = rt_truth_settle(lse, *grad[1], *L);
    }
    return RT_OK;
}

/* The keys that rows pos[0 .. n) see lie in [*lo, *hi). */
static void seen(const rt_sweep *s, const int64_t *pos, int64_t n, int64_t *lo, int64_t *hi)
{
    *lo = s->p->seqlen_k;
    *hi = 0;
    for (int64_t i = 0; i < n; i++) {
        *lo = s->lo[pos[i]] < s->hi[pos[i]] ? rt_min64(*lo, s->lo[pos[i]]) : *lo;
        *hi = rt_max64(*hi, s->hi[pos[i]]);
    }
}

/* out and lse of rows row0 .. of one head, by one thread. */
static rt_status output_rows(job *j, rt_context *ctx, int64_t hl, int64_t row0, int64_t products[2])
{
    rt_sweep *s = j->s;
    const int64_t D = j->one.dim, Dv = j->one.dim_v, h = s->g * j->group + hl, Sk = s->p->seqlen_k;
    const int64_t nq = chunk(j->n, row0, j->rows), *pos = s->queries.order + row0,
                  width[RT_EXACT_STATE] = {Dv, Dv, Dv, 1, 1, 1, 1};
    double *store =
        rt_calloc(ctx, nq * (3 * Dv + 4) + Dv, sizeof *store); /* states, and a row of doubles */
    if (store == NULL)
        return RT_ERR_NOMEM;
    rt_part state[RT_EXACT_STATE];
    lay(store, nq, h, RT_EXACT_STATE, width, state);
    for (int64_t i = 0; i < nq; i++)
        *rt_part_at(&state[3], 0, h, i) = -RT_INF;
    const rt_part q = {
        .base = j->t->q + (hl * j->n + row0) * D, .batch = 0, .head = 0, .width = D, .head0 = h};
    int64_t lo, hi;
    seen(s, pos, nq, &lo, &hi);
    rt_status st = RT_OK;
    for (int64_t key0 = lo / KEYS * KEYS; key0 < hi && st == RT_OK; key0 += KEYS) {
        const rt_part k = key_part(j, s->k, key0, D), v = key_part(j, s->v, key0, Dv);
        st =
            rt_exact_forward_tile(ctx, &j->one, s->b, nq, pos, chunk(Sk, key0, KEYS), s->keys_all + key0, h,
                                  h + 1, &q, &k, &v, state, false, rt_gemm_openblas, products, NULL, NULL);
    }
    if (st == RT_OK)
        st = finish_rows(j, ctx, hl, row0, nq, state, store + nq * (3 * Dv + 4));
    rt_free(store);
    return st;
}

/* dq of rows row0 .. of one head, by one thread. */
static rt_status gradient_rows(job *j, rt_context *ctx, int64_t hl, int64_t row0, int64_t products[2])
{
    rt_sweep *s = j->s;
    const int64_t D = j->one.dim, Dv = j->one.dim_v, h = s->g * j->group + hl, Sk = s->p->seqlen_k;
    const int64_t nq = chunk(j->n, row0, j->rows), *pos = s->queries.order + row0,
                  width[RT_EXACT_DQ] = {D, D, D};
    double *store = rt_calloc(ctx, nq * 3 * D, sizeof *store);
    if (store == NULL)
        return RT_ERR_NOMEM;
    rt_part dq[RT_EXACT_DQ], all[RT_EXACT_DO], row[RT_EXACT_DO];
    lay(store, nq, h, RT_EXACT_DQ, width, dq);
    rt_truths_rows(s, j->t, hl, all);
    for (int k = 0; k < RT_EXACT_DO; k++)
        row[k] = from_row(&all[k], row0);
    int64_t lo, hi;
    seen(s, pos, nq, &lo, &hi);
    const rt_part q = {
        .base = j->t->q + (hl * j->n + row0) * D, .batch = 0, .head = 0, .width = D, .head0 = h};
    rt_status st = RT_OK;
    for (int64_t key0 = lo / KEYS * KEYS; key0 < hi && st == RT_OK; key0 += KEYS) {
        const rt_part k = key_part(j, s->k, key0, D), v = key_part(j, s->v, key0, Dv);
        const rt_exact_grads x = {.q = &q, .k = &k, .v = &v, .row = row, .dq = dq};
        st = rt_exact_backward_tile(ctx, &j->one, s->b, nq, pos, chunk(Sk, key0, KEYS), s->keys_all + key0,
                                    h, h + 1, &x, rt_gemm_openblas, products, NULL, NULL);
    }
    const rt_dtype format = s->in->present[RT_DQ] ? s->in->dtype[RT_DQ] : RT_F32;
    for (int64_t i = 0; i < nq && st == RT_OK; i++) {
        double *x = j->t->x_dq + (hl * j->n + row0 + i) * D;
        const double *hi_part = rt_part_at(&dq[0], 0, h, i);
        st = rt_exact_finish_gradient(
            ctx, s->p, NULL, RT_DQ, s->b, h, pos[i], hi_part, rt_part_at(&dq[1], 0, h, i),
            rt_part_at(&dq[2], 0, h, i), format, x,
            &j->certificate[(int64_t)omp_get_thread_num() * RT_TENSOR_COUNT + RT_DQ],
            &j->t->open[(2 * j->group + hl) * j->n + row0 + i]);
        for (int64_t d = 0; d < D; d++)
            x[d] = rt_truth_settle(format, hi_part[d] * s->p->scale / (1 - s->p->dropout), x[d]);
    }
    rt_free(store);
    return st;
}

/* dk, dv of keys key0 .., all queries and heads, by one thread. */
static rt_status gradient_keys(job *j, rt_context *ctx, int64_t key0, int64_t products[2])
{
    rt_sweep *s = j->s;
    const int64_t D = j->one.dim, Dv = j->one.dim_v, nk = chunk(s->p->seqlen_k, key0, CHUNK);
    const int64_t width[RT_EXACT_DKV] = {D, D, D, Dv, Dv, Dv};
    double *store = rt_calloc(ctx, nk * 3 * (D + Dv), sizeof *store);
    if (store == NULL)
        return RT_ERR_NOMEM;
    rt_part dkv[RT_EXACT_DKV];
    lay(store, nk, s->g, RT_EXACT_DKV, width, dkv);
    const rt_part k = key_part(j, s->k, key0, D), v = key_part(j, s->v, key0, Dv);
    rt_status st = RT_OK;
    for (int64_t hl = 0; hl < j->group && st == RT_OK; hl++) {
        const int64_t h = s->g * j->group + hl;
        rt_part row[RT_EXACT_DO];
        rt_truths_rows(s, j->t, hl, row);
        const rt_part q = {.base = j->t->q + hl * j->n * D, .batch = 0, .head = 0, .width = D, .head0 = h};
        const rt_exact_grads x = {.q = &q, .k = &k, .v = &v, .row = row, .dkv = dkv};
        st = rt_exact_backward_tile(ctx, &j->one, s->b, j->n, s->queries.order, nk, s->keys_all + key0, h,
                                    h + 1, &x, rt_gemm_openblas, products, NULL, NULL);
    }
    for (int64_t i = 0; i < nk && st == RT_OK; i++)
        for (int part = 0; part < 2 && st == RT_OK; part++) {
            const rt_tensor_id t = part == 0 ? RT_DK : RT_DV;
            const rt_dtype format = s->in->present[t] ? s->in->dtype[t] : RT_F32;
            double *x = part == 0 ? j->t->x_dk + (key0 + i) * D : j->t->x_dv + (key0 + i) * Dv;
            const double *hi = rt_part_at(&dkv[3 * part], 0, s->g, i);
            st = rt_exact_finish_gradient(
                ctx, s->p, NULL, t, s->b, s->g, key0 + i, hi, rt_part_at(&dkv[3 * part + 1], 0, s->g, i),
                rt_part_at(&dkv[3 * part + 2], 0, s->g, i), format, x,
                &j->certificate[(int64_t)omp_get_thread_num() * RT_TENSOR_COUNT + t],
                &j->t->open[3 * j->group * j->n + part * s->p->seqlen_k + key0 + i]);
            for (int64_t d = 0; d < (part == 0 ? D : Dv); d++)
                x[d] = rt_truth_settle(format, hi[d] * (part == 0 ? s->p->scale : 1) / (1 - s->p->dropout),
                                       x[d]);
        }
    rt_free(store);
    return st;
}

/* All rows (and, whole, all keys) by all threads: those with the most to do under a causal mask, the last rows and the first keys, first. */
static rt_status spread(job *j, bool gradients)
{
    const int64_t rows = (j->n + j->rows - 1) / j->rows, units = j->group * rows;
    const int64_t keys = gradients && j->t->whole ? (j->s->p->seqlen_k + CHUNK - 1) / CHUNK : 0;
#pragma omp parallel for schedule(dynamic, 1) default(none) shared(j, rows, units, keys, gradients)
    for (int64_t u = 0; u < units + keys; u++) {
        rt_gemm_alone();
        rt_context mine = {.message = ""};
        int64_t products[2] = {0, 0};
        const int64_t hl = (u - keys) % j->group, row0 = (rows - 1 - (u - keys) / j->group) * j->rows;
        const rt_status st = u < keys    ? gradient_keys(j, &mine, u * CHUNK, products)
                             : gradients ? gradient_rows(j, &mine, hl, row0, products)
                                         : output_rows(j, &mine, hl, row0, products);
        if (st != RT_OK)
            fail(j, st, &mine);
#pragma omp critical(rt_judge_products)
        {
            j->t->products[0] += products[0];
            j->t->products[1] += products[1];
        }
    }
    return j->status;
}

rt_status rt_truths_compute(rt_context *ctx, rt_sweep *s, rt_truths *t)
{
    const int threads = omp_get_max_threads();
    job j = {.ctx = ctx,
             .s = s,
             .t = t,
             .one = *s->p,
             .group = s->p->heads_q / s->p->heads_kv,
             .n = s->queries.n,
             .status = RT_OK};
    /* Of the problem alone: the radius of a row depends on its tile, and a report must not depend on the threads. */
    j.rows = rt_max64(16, rt_min64(CHUNK, (j.group * j.n + 7) / 8));
    j.one.batch = 1;
    j.source = (rt_exact_source){s->p, s->in->load, s->in->arg};
    j.certificate = rt_calloc(ctx, (int64_t)threads * RT_TENSOR_COUNT, sizeof *j.certificate);
    uint8_t *bad = rt_alloc(ctx, j.n, 1);
    rt_status st = j.certificate == NULL || bad == NULL ? RT_ERR_NOMEM : RT_OK;
    for (int64_t hl = 0; hl < j.group && st == RT_OK; hl++) {
        const int64_t h = s->g * j.group + hl;
        rt_part row[RT_EXACT_DO];
        rt_truths_rows(s, t, hl, row);
        rt_sweep_load(s, RT_Q, h, s->queries.order, j.n, s->p->dim, t->q + hl * j.n * s->p->dim, bad);
        if (s->backward)
            rt_sweep_load(s, RT_DOUT, h, s->queries.order, j.n, s->p->dim_v, row[0].base, bad);
        else
            memset(row[0].base, 0, (size_t)(j.n * s->p->dim_v) * sizeof(double));
    }
    if (st == RT_OK)
        st = spread(&j, false);
    if (st == RT_OK && s->backward)
        st = spread(&j, true);
    for (int i = 0; i < threads && st == RT_OK; i++)
        for (int k = 0; k < RT_TENSOR_COUNT; k++)
            rt_certificate_add(&t->certificate[k], &j.certificate[i * RT_TENSOR_COUNT + k]);
    rt_free(j.certificate);
    rt_free(bad);
    const int64_t n = j.group * j.n;
    s->open_out = t->open;
    s->open_lse = t->open + n;
    s->open_dq = t->open + 2 * n;
    s->open_dk = t->open + 3 * n;
    s->open_dv = s->open_dk + (t->whole ? s->p->seqlen_k : 0);
    s->x_out = t->x_out;
    s->x_lse = s->in->lse_base2 ? NULL : t->x_lse;
    s->x_dq = s->backward ? t->x_dq : NULL;
    s->x_dk = t->whole ? t->x_dk : NULL;
    s->x_dv = t->whole ? t->x_dv : NULL;
    return st;
}
