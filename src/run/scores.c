/* The gradients of what joins the scores, from the rows of a finished backward.
 *
 *   dsink_h = - sum over (b, i) of exp(sink_h - L_bhi) delta_bhi        a share of every row of every query head
 *   dbias   = dS, summed over the axes of the bias that were broadcast    rows of Sk, which came with DQ
 *
 * Processes hold consecutive ranks, so that what they send to process 0, one after the other, is in the order of the
 * ranks; there it is added in the order of (batch, position), or (position, batch, head) for dbias: the same sums
 * in the same order, whoever held what.
 */
#include "run/scores.h"

#include <omp.h>
#include <string.h>

enum { BLOCK = 64, CHUNK = 1 << 23 }; /* rows finished together; doubles of a chunk of positions */

static const rt_buffer *home(const rt_score_run *r, int32_t rank, rt_payload y)
{
    return &r->ranks[rank - r->first].buffer[y][0];
}

/* ---- dsink ------------------------------------------------------------------------------------------- */

/* The shares of this process: (rank, slot, batch, head). */
static void collect_shares(const rt_score_run *r, double *out)
{
    const rt_problem *p = r->shape.p;
    const rt_arithmetic_ops *a = r->shape.arith;
    int64_t width[RT_MAX_PARTS];
    const int parts = a->parts(RT_PAYLOAD_DO, p, width);
    for (int32_t k = r->first; k < r->end; k++) {
        rt_part part[RT_MAX_PARTS];
        for (int x = 0; x < parts; x++)
            part[x] = rt_buffer_part(home(r, k, RT_PAYLOAD_DO), RT_PAYLOAD_DO, &r->shape, x, 0);
        for (int64_t i = 0; i < rt_layout_count(r->layout, RT_SIDE_Q, k); i++)
            for (int64_t b = 0; b < p->batch; b++)
                for (int64_t h = 0; h < p->heads_q; h++, out += a->sink_share) {
                    const double *row[RT_MAX_PARTS] = {NULL};
                    for (int x = 0; x < parts; x++)
                        row[x] = rt_part_at(&part[x], b, h, i);
                    a->share_sink(p, h, row, out);
                }
    }
}

/* On process 0, from the shares of all ranks. */
static rt_status finish_sink(const rt_score_run *r, const rt_finish *f, const double *all)
{
    const rt_problem *p = r->shape.p;
    const rt_arithmetic_ops *a = r->shape.arith;
    const rt_layout_side *side = &r->layout->side[RT_SIDE_Q];
    double *sum = rt_alloc(r->ctx, a->sink_share, sizeof *sum);
    if (sum == NULL)
        return RT_ERR_NOMEM;
    rt_status st = RT_OK;
    for (int64_t h = 0; h < p->heads_q && st == RT_OK; h++) {
        memset(sum, 0, (size_t)a->sink_share * sizeof *sum);
        for (int64_t b = 0; b < p->batch; b++)
            for (int64_t i = 0; i < p->seqlen_q; i++) {
                const int64_t at = side->first[side->rank_of[i]] + side->slot_of[i];
                const double *in[RT_MAX_PARTS] = {all +
                                                  ((at * p->batch + b) * p->heads_q + h) * a->sink_share};
                a->sum(RT_DSINK, p, in, (double *[RT_MAX_PARTS]){sum});
            }
        double value = 0;
        st = a->finish_gradient(f, RT_DSINK, 0, h, 0, (const double *[RT_MAX_PARTS]){sum}, &value);
        if (st == RT_OK)
            r->io->store(r->io->arg, RT_DSINK, 0, 0, 0, 0, h, &value);
    }
    rt_free(sum);
    return st;
}

static rt_status sink_gradient(const rt_score_run *r, const rt_finish *f)
{
    const rt_problem *p = r->shape.p;
    int64_t rows = 0;
    for (int32_t k = r->first; k < r->end; k++)
        rows += rt_layout_count(r->layout, RT_SIDE_Q, k);
    const int64_t doubles = rows * p->batch * p->heads_q * r->shape.arith->sink_share;
    double *mine = rt_alloc(r->ctx, doubles, sizeof *mine);
    rt_status st = rt_comm_agree(r->ctx, r->comm, mine == NULL ? RT_ERR_NOMEM : RT_OK);
    void *all = NULL;
    int64_t *offsets = NULL;
    if (st == RT_OK) {
        collect_shares(r, mine);
        st = rt_comm_gather(r->ctx, r->comm, mine, doubles * (int64_t)sizeof *mine, &all, &offsets);
    }
    if (st == RT_OK && all != NULL)
        st = finish_sink(r, f, all);
    rt_free(all);
    rt_free(offsets);
    rt_free(mine);
    return rt_comm_agree(r->ctx, r->comm, st);
}

/* ---- dbias ------------------------------------------------------------------------------------------- */

/* The parts of dBias in a DQ row, and of a row of its own (parts one after the other). */
typedef struct {
    const rt_score_run *r;
    const rt_finish *finish;
    const int64_t *shape; /* of the bias */
    int parts;
    int64_t width[RT_MAX_PARTS], doubles; /* of each part, of all */
} bias_run;

static void point(const bias_run *x, double *row, double *part[RT_MAX_PARTS])
{
    for (int k = 0; k < x->parts; k++) {
        part[k] = row;
        row += x->width[k];
    }
}

/* What the pairs of one query add to row (b, h) of the bias: over the batches, then the heads that share it. */
static void query_row(const bias_run *x, int32_t rank, int64_t slot, int64_t b, int64_t h, double *row)
{
    const rt_problem *p = x->r->shape.p;
    const rt_arithmetic_ops *a = x->r->shape.arith;
    const int64_t b0 = x->shape[0] == 1 ? 0 : b, b1 = x->shape[0] == 1 ? p->batch : b + 1;
    const int64_t h0 = x->shape[1] == 1 ? 0 : h, h1 = x->shape[1] == 1 ? p->heads_q : h + 1;
    double *sum[RT_MAX_PARTS] = {NULL};
    rt_part part[RT_MAX_PARTS];
    point(x, row, sum);
    for (int k = 0; k < x->parts; k++)
        part[k] = rt_buffer_part(home(x->r, rank, RT_PAYLOAD_DQ), RT_PAYLOAD_DQ, &x->r->shape,
                                 a->dbias_part + k, 0);
    for (int64_t bb = b0; bb < b1; bb++)
        for (int64_t hh = h0; hh < h1; hh++) {
            const double *in[RT_MAX_PARTS] = {NULL};
            for (int k = 0; k < x->parts; k++)
                in[k] = rt_part_at(&part[k], bb, hh, slot);
            if (bb > b0 || hh > h0) {
                a->sum(RT_DBIAS, p, in, sum);
                continue;
            }
            for (int k = 0; k < x->parts; k++)
                memcpy(sum[k], in[k], (size_t)x->width[k] * sizeof *sum[k]);
        }
}

static rt_status finish_row(const bias_run *x, rt_context *ctx, int64_t b, int64_t h, int64_t pos,
                            double *row, double *out, rt_certificate *certificate)
{
    double *part[RT_MAX_PARTS] = {NULL};
    const double *in[RT_MAX_PARTS] = {NULL};
    rt_finish f = *x->finish;
    f.ctx = ctx;
    f.certificate = certificate;
    point(x, row, part);
    for (int k = 0; k < x->parts; k++)
        in[k] = part[k];
    return x->r->shape.arith->finish_gradient(&f, RT_DBIAS, b, h, pos, in, out);
}

/* A row of the bias for each query: rows of a rank are finished by all threads, then given away by one. */
static rt_status rows_of_rank(const bias_run *x, int32_t rank, int64_t b, int64_t h, int64_t slot0,
                              int64_t n, double *rows, double *out, rt_certificate *certificate)
{
    const int64_t Sk = x->r->shape.p->seqlen_k, *pos = rt_layout_positions(x->r->layout, RT_SIDE_Q, rank);
    rt_context *ctx = x->r->ctx;
    rt_status first = RT_OK;
#pragma omp parallel for schedule(dynamic, 4) default(none)                                                \
    shared(x, rank, b, h, slot0, n, rows, out, certificate, Sk, pos, ctx, first)
    for (int64_t i = 0; i < n; i++) {
        rt_context mine = {.message = ""};
        double *row = rows + omp_get_thread_num() * x->doubles;
        query_row(x, rank, slot0 + i, b, h, row);
        const rt_status st = finish_row(x, &mine, b, h, pos[slot0 + i], row, out + i * Sk,
                                        certificate + (int64_t)omp_get_thread_num() * RT_RESULT_COUNT);
        if (st != RT_OK) {
#pragma omp critical(rt_scores_finish)
            if (first == RT_OK) {
                first = st;
                memcpy(ctx->message, mine.message, sizeof ctx->message);
            }
        }
    }
    for (int64_t i = 0; i < n && first == RT_OK; i++)
        x->r->io->store(x->r->io->arg, RT_DBIAS, rank, slot0 + i, b, pos[slot0 + i], h, out + i * Sk);
    return first;
}

static rt_status bias_by_query(const bias_run *x)
{
    const int64_t threads = omp_get_max_threads(), Sk = x->r->shape.p->seqlen_k;
    double *rows = rt_alloc(x->r->ctx, threads * x->doubles + BLOCK * Sk, sizeof *rows);
    rt_certificate *certificate = rt_calloc(x->r->ctx, threads * RT_RESULT_COUNT, sizeof *certificate);
    rt_status st = rows == NULL || certificate == NULL ? RT_ERR_NOMEM : RT_OK;
    for (int32_t k = x->r->first; k < x->r->end; k++)
        for (int64_t b = 0; b < x->shape[0]; b++)
            for (int64_t h = 0; h < x->shape[1]; h++) {
                const int64_t slots = rt_layout_count(x->r->layout, RT_SIDE_Q, k);
                for (int64_t i = 0; i < slots && st == RT_OK; i += BLOCK)
                    st = rows_of_rank(x, k, b, h, i, slots - i < BLOCK ? slots - i : BLOCK, rows,
                                      rows + threads * x->doubles, certificate);
            }
    for (int64_t i = 0; i < threads * RT_RESULT_COUNT && st == RT_OK; i++)
        rt_certificate_add(&x->r->certificate[i % RT_RESULT_COUNT], &certificate[i]);
    rt_free(certificate);
    rt_free(rows);
    return rt_comm_agree(x->r->ctx, x->r->comm, st);
}

/* The queries [i0, i1) that this process holds, ascending: (query, batch, head) of the bias. */
static int64_t collect_queries(const bias_run *x, int64_t i0, int64_t i1, double *out)
{
    const rt_layout_side *side = &x->r->layout->side[RT_SIDE_Q];
    int64_t at = 0;
    for (int64_t i = i0; i < i1; i++) {
        const int32_t rank = (int32_t)side->rank_of[i];
        if (rank < x->r->first || rank >= x->r->end)
            continue;
        for (int64_t b = 0; b < x->shape[0]; b++)
            for (int64_t h = 0; h < x->shape[1]; h++, at += x->doubles)
                query_row(x, rank, side->slot_of[i], b, h, out + at);
    }
    return at;
}

/* On process 0: what all hold of the queries [i0, i1) joins the sums, query by query. */
static void add_queries(const bias_run *x, int64_t i0, int64_t i1, double *all, int64_t *offsets,
                        double *sums)
{
    const rt_layout_side *side = &x->r->layout->side[RT_SIDE_Q];
    for (int64_t i = i0; i < i1; i++) {
        int64_t *at = &offsets[rt_comm_owner(x->r->comm, (int32_t)side->rank_of[i], x->r->layout->ranks)];
        for (int64_t k = 0; k < x->shape[0] * x->shape[1]; k++) {
            double *row = all + *at / (int64_t)sizeof *all, *part[RT_MAX_PARTS] = {NULL},
                   *sum[RT_MAX_PARTS] = {NULL};
            const double *in[RT_MAX_PARTS] = {NULL};
            point(x, row, part);
            point(x, sums + k * x->doubles, sum);
            for (int y = 0; y < x->parts; y++)
                in[y] = part[y];
            x->r->shape.arith->sum(RT_DBIAS, x->r->shape.p, in, sum);
            *at += x->doubles * (int64_t)sizeof *all;
        }
    }
}

/* A bias that all queries share. */
static rt_status bias_of_all(const bias_run *x)
{
    rt_context *ctx = x->r->ctx;
    rt_comm *comm = x->r->comm;
    const int64_t rows = x->shape[0] * x->shape[1], Sq = x->r->shape.p->seqlen_q;
    const int64_t fit = CHUNK / (rows * x->doubles), step = fit < 1 ? 1 : fit < Sq ? fit : Sq;
    double *mine = rt_alloc(ctx, step * rows * x->doubles, sizeof *mine);
    double *sums = rt_calloc(ctx, rows * x->doubles, sizeof *sums),
           *out = rt_alloc(ctx, x->r->shape.p->seqlen_k, sizeof *out);
    rt_status st =
        rt_comm_agree(ctx, comm, mine == NULL || sums == NULL || out == NULL ? RT_ERR_NOMEM : RT_OK);
    for (int64_t i = 0; i < Sq && st == RT_OK; i += step) {
        const int64_t end = i + step < Sq ? i + step : Sq;
        const int64_t doubles = collect_queries(x, i, end, mine);
        void *all = NULL;
        int64_t *offsets = NULL;
        st = rt_comm_gather(ctx, comm, mine, doubles * (int64_t)sizeof *mine, &all, &offsets);
        if (st == RT_OK && all != NULL)
            add_queries(x, i, end, all, offsets, sums);
        rt_free(all);
        rt_free(offsets);
    }
    for (int64_t k = 0; k < rows && st == RT_OK && rt_comm_rank(comm) == 0; k++) {
        const int64_t b = k / x->shape[1], h = k % x->shape[1];
        st = finish_row(x, ctx, b, h, 0, sums + k * x->doubles, out, x->r->certificate);
        if (st == RT_OK)
            x->r->io->store(x->r->io->arg, RT_DBIAS, 0, 0, b, 0, h, out);
    }
    rt_free(out);
    rt_free(sums);
    rt_free(mine);
    return rt_comm_agree(ctx, comm, st);
}

rt_status rt_score_gradients(const rt_score_run *r)
{
    const rt_problem *p = r->shape.p;
    const rt_finish f = {.ctx = r->ctx,
                         .problem = p,
                         .load = r->io->load,
                         .arg = r->io->arg,
                         .format = r->io->result,
                         .lse_format = r->io->lse_result,
                         .certificate = r->certificate};
    if (p->sink != NULL)
        RT_TRY(sink_gradient(r, &f));
    if (!rt_wants_dbias(p))
        return RT_OK;
    bias_run x = {.r = r, .finish = &f, .shape = p->bias_shape};
    int64_t width[RT_MAX_PARTS];
    x.parts = r->shape.arith->parts(RT_PAYLOAD_DQ, p, width) - r->shape.arith->dbias_part;
    for (int k = 0; k < x.parts; k++) {
        x.width[k] = width[r->shape.arith->dbias_part + k];
        x.doubles += x.width[k];
    }
    return p->bias_shape[2] == p->seqlen_q ? bias_by_query(&x) : bias_of_all(&x);
}
