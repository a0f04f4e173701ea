/* bench: the passes of one arithmetic, timed without files, layouts and messages. */
#include <omp.h>
#include <string.h>
#include <time.h>

#include "cli/bench.h"

double rt_bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void load(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row)
{
    const rt_bench_pass *x = arg;
    int64_t length, heads, width;
    rt_cli_shape(x->p, t, &length, &heads, &width);
    rt_generate_row(RT_FAMILY_GAUSSIAN, x->seed, t, x->dtype, b, pos, h, width, length, row);
}

static rt_part part_of(const rt_bench_pass *x, rt_payload y, int part)
{
    return rt_buffer_part(&x->buffer[y], y, &x->shape, part, 0);
}

static void fill(rt_bench_pass *x, rt_tensor_id t, rt_payload y, int part)
{
    int64_t length, heads, width;
    rt_cli_shape(x->p, t, &length, &heads, &width);
    const rt_part to = part_of(x, y, part);
    const int64_t rows = x->p->batch * heads * length;
#pragma omp parallel for schedule(static) default(none) shared(x, t, to, rows, heads, length)
    for (int64_t i = 0; i < rows; i++) {
        const int64_t b = i / (heads * length), h = i / length % heads, pos = i % length;
        load(x, t, b, pos, h, rt_part_at(&to, b, h, pos));
    }
}

rt_status rt_bench_pass_create(rt_context *ctx, const rt_problem *p, const rt_arithmetic_ops *arith,
                               uint64_t seed, rt_dtype dtype, rt_bench_pass *out)
{
    rt_bench_pass x = {.p = p, .arith = arith, .seed = seed, .dtype = dtype, .shape = {p, arith}};
    const int64_t longest = p->seqlen_q > p->seqlen_k ? p->seqlen_q : p->seqlen_k,
                  widest = p->dim > p->dim_v ? p->dim : p->dim_v;
    x.positions = rt_alloc(ctx, longest, sizeof *x.positions);
    x.out = rt_alloc(ctx, omp_get_max_threads() * (widest + 1), sizeof *x.out);
    rt_status st = x.positions == NULL || x.out == NULL ? RT_ERR_NOMEM : RT_OK;
    for (int y = 0; y < RT_PAYLOAD_COUNT && st == RT_OK; y++) {
        const bool keys = y == RT_PAYLOAD_KV || y == RT_PAYLOAD_DKV;
        const rt_piece piece = {.side = keys ? RT_SIDE_KV : RT_SIDE_Q,
                                .slot1 = keys ? p->seqlen_k : p->seqlen_q,
                                .head1 = keys ? p->heads_kv : p->heads_q};
        st = rt_buffer_clear(ctx, &x.buffer[y], (rt_payload)y, &x.shape, &piece);
    }
    if (st != RT_OK) {
        rt_bench_pass_reset(&x);
        return st;
    }
    for (int64_t i = 0; i < longest; i++)
        x.positions[i] = i;
    fill(&x, RT_Q, RT_PAYLOAD_Q, 0);
    fill(&x, RT_K, RT_PAYLOAD_KV, 0);
    fill(&x, RT_V, RT_PAYLOAD_KV, 1);
    fill(&x, RT_DOUT, RT_PAYLOAD_DO, 0);
    x.tile = (rt_tile_data){.problem = p,
                            .n_q = p->seqlen_q,
                            .n_kv = p->seqlen_k,
                            .q_pos = x.positions,
                            .k_pos = x.positions,
                            .q_head1 = p->heads_q,
                            .q = part_of(&x, RT_PAYLOAD_Q, 0),
                            .k = part_of(&x, RT_PAYLOAD_KV, 0),
                            .v = part_of(&x, RT_PAYLOAD_KV, 1),
                            .fresh_q = true,
                            .fresh_kv = true};
    int64_t width[RT_MAX_PARTS];
    for (int k = arith->parts(RT_PAYLOAD_STATE, p, width) - 1; k >= 0; k--)
        x.tile.state[k] = part_of(&x, RT_PAYLOAD_STATE, k);
    for (int k = arith->parts(RT_PAYLOAD_DO, p, width) - 1; k >= 0; k--)
        x.tile.row[k] = part_of(&x, RT_PAYLOAD_DO, k);
    for (int k = arith->parts(RT_PAYLOAD_DQ, p, width) - 1; k >= 0; k--)
        x.tile.dq[k] = part_of(&x, RT_PAYLOAD_DQ, k);
    for (int k = arith->parts(RT_PAYLOAD_DKV, p, width) - 1; k >= 0; k--)
        x.tile.dkv[k] = part_of(&x, RT_PAYLOAD_DKV, k);
    *out = x;
    return RT_OK;
}

void rt_bench_pass_reset(rt_bench_pass *x)
{
    for (int y = 0; y < RT_PAYLOAD_COUNT; y++)
        rt_free(x->buffer[y].data);
    rt_free(x->positions);
    rt_free(x->out);
    memset(x, 0, sizeof *x);
}

/* The last step of every row of one result, as the executor does it; first: the parts of the tensor begin
 * there. */
static rt_status finish(rt_context *ctx, rt_bench_pass *x, rt_tensor_id t, const rt_part *parts,
                        int n_parts)
{
    int64_t length, heads, width;
    rt_cli_shape(x->p, t, &length, &heads, &width);
    const int64_t rows = x->p->batch * heads * length;
    int64_t widths[RT_MAX_PARTS];
    const int row_parts = x->arith->parts(RT_PAYLOAD_DO, x->p, widths);
    rt_status first = RT_OK;
#pragma omp parallel for schedule(dynamic, 64) default(none)                                               \
    shared(ctx, x, t, parts, n_parts, row_parts, length, heads, width, rows, first)
    for (int64_t i = 0; i < rows; i++) {
        const int64_t b = i / (heads * length), h = i / length % heads, pos = i % length;
        rt_context mine = {.message = ""};
        rt_certificate certificate[RT_TENSOR_COUNT] = {{0}};
        const rt_finish f = {.ctx = &mine,
                             .problem = x->p,
                             .load = load,
                             .arg = x,
                             .format = rt_arithmetic_result(x->arith),
                             .lse_format = rt_arithmetic_result(x->arith),
                             .certificate = certificate};
        const double *in[RT_MAX_PARTS] = {NULL};
        double *row[RT_MAX_PARTS] = {NULL}, *out = x->out + omp_get_thread_num() * (width + 1);
        for (int k = 0; k < n_parts; k++)
            in[k] = rt_part_at(&parts[k], b, h, pos);
        for (int k = 0; k < row_parts && t == RT_OUT; k++)
            row[k] = rt_part_at(&x->tile.row[k], b, h, pos);
        const rt_status st = t == RT_OUT ? x->arith->finish(&f, b, h, pos, in, row, out, out + width)
                                         : x->arith->finish_gradient(&f, t, b, h, pos, in, out);
        if (st != RT_OK) {
#pragma omp critical(rt_bench_finish)
            {
                first = st;
                memcpy(ctx->message, mine.message, sizeof ctx->message);
            }
        }
    }
    return first;
}

rt_status rt_bench_forward(rt_context *ctx, rt_bench_pass *x, double *seconds)
{
    int64_t width[RT_MAX_PARTS];
    const double start = rt_bench_now();
    RT_TRY(x->arith->forward(ctx, &x->tile));
    RT_TRY(finish(ctx, x, RT_OUT, x->tile.state, x->arith->parts(RT_PAYLOAD_STATE, x->p, width)));
    *seconds = rt_bench_now() - start;
    return RT_OK;
}

rt_status rt_bench_backward(rt_context *ctx, rt_bench_pass *x, double *seconds)
{
    int64_t width[RT_MAX_PARTS];
    const int n_dq = x->arith->parts(RT_PAYLOAD_DQ, x->p, width),
              n_dkv = x->arith->parts(RT_PAYLOAD_DKV, x->p, width);
    const double start = rt_bench_now();
    RT_TRY(x->arith->backward(ctx, &x->tile));
    RT_TRY(finish(ctx, x, RT_DQ, x->tile.dq, n_dq));
    RT_TRY(finish(ctx, x, RT_DK, x->tile.dkv, n_dkv / 2));
    RT_TRY(finish(ctx, x, RT_DV, x->tile.dkv + n_dkv / 2, n_dkv / 2));
    *seconds = rt_bench_now() - start;
    return RT_OK;
}
