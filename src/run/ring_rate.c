/* The rate of a ring step against plain MPI_Sendrecv. */
#include "run/ring_rate.h"

#include <string.h>

#include "arithmetic/ops.h"
#include "plan/build.h"
#include "run/comm.h"
#include "run/trace.h"

enum { TAG = 30001, DIM = 64, ROW = 2 * DIM * 8, ENOUGH = 64 << 20, COLD = 3 };

/* ---- a plan of hops and an arithmetic that computes nothing ------------------------------------------- */

static rt_status compute_nothing(rt_context *ctx, const rt_tile_data *t)
{
    (void)ctx, (void)t;
    return RT_OK;
}

static rt_status finish_nothing(const rt_finish *f, int64_t b, int64_t h, int64_t pos,
                                const double *const state[RT_MAX_PARTS], double *const row[RT_MAX_PARTS],
                                double *out, double *lse)
{
    (void)b, (void)h, (void)pos, (void)state, (void)row;
    memset(out, 0, (size_t)f->problem->dim_v * sizeof *out);
    *lse = 0;
    return RT_OK;
}

static void load_ones(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row)
{
    (void)arg, (void)t, (void)b, (void)pos, (void)h;
    for (int d = 0; d < DIM; d++)
        row[d] = 1;
}

static void store_nothing(void *arg, rt_tensor_id t, int32_t rank, int64_t slot, int64_t b, int64_t pos,
                          int64_t h, const double *row)
{
    (void)arg, (void)t, (void)rank, (void)slot, (void)b, (void)pos, (void)h, (void)row;
}

static int32_t hop_buffer(int64_t t)
{
    return t == 0 ? 0 : (int32_t)(1 + (t - 1) % 2);
}

/* Ring pass-KV whose keys go on travelling after every rank has seen them. */
static rt_status hops_plan(rt_context *ctx, const rt_problem *p, const rt_layout *l, int64_t hops,
                           rt_plan *out)
{
    const int32_t P = l->ranks;
    rt_builder b;
    memset(&b, 0, sizeof b);
    rt_status st = RT_OK;
    for (int64_t t = 0; t <= hops && st == RT_OK; t++) {
        st = rt_builder_step(ctx, &b);
        for (int32_t r = 0; r < P && st == RT_OK; r++) {
            const int32_t shard = (int32_t)((r - t % P + P) % P);
            rt_tile tile;
            memset(&tile, 0, sizeof tile);
            tile.rank = r;
            tile.q = rt_piece_whole(p, l, RT_SIDE_Q, r);
            tile.kv = rt_piece_whole(p, l, RT_SIDE_KV, shard);
            tile.kv_buf = hop_buffer(t);
            tile.pairs = tile.q.slot1 * tile.kv.slot1;
            const rt_move move = {RT_PAYLOAD_KV, tile.kv,           r,     (r + 1) % P,
                                  hop_buffer(t), hop_buffer(t + 1), RT_PUT};
            if (t < P)
                st = rt_builder_tile(ctx, &b, &tile);
            if (st == RT_OK && t < hops)
                st = rt_builder_move(ctx, &b, &move);
        }
    }
    if (st == RT_OK) /* for its backward: it is not run, but proved */
        st = rt_plan_create(ctx, "ring", p, l, out);
    if (st != RT_OK) {
        rt_pass_reset(&b.pass);
        return st;
    }
    rt_pass_reset(&out->forward);
    out->forward = b.pass;
    return RT_OK;
}

/* ---- the two measurements ----------------------------------------------------------------------------- */

static rt_status plain_once(rt_context *ctx, rt_comm *c, char *data, int64_t bytes, int64_t hops,
                            double *seconds)
{
    const int right = (c->rank + 1) % c->size, left = (c->rank + c->size - 1) % c->size;
    RT_TRY(rt_mpi_check(ctx, MPI_Barrier(c->comm), "MPI_Barrier"));
    double begin = 0;
    for (int64_t t = 0; t < hops; t++) {
        begin = t == COLD ? rt_run_now() : begin;
        RT_TRY(rt_mpi_check(ctx,
                            MPI_Sendrecv(data + t % 2 * bytes, (int)bytes, MPI_BYTE, right, TAG,
                                         data + (t + 1) % 2 * bytes, (int)bytes, MPI_BYTE, left, TAG,
                                         c->comm, MPI_STATUS_IGNORE),
                            "MPI_Sendrecv"));
    }
    *seconds = (rt_run_now() - begin) / (double)(hops - COLD);
    return RT_OK;
}

static rt_status steps_once(rt_context *ctx, rt_comm *c, const rt_problem *p, const rt_layout *l,
                            const rt_plan *plan, int64_t hops, double *seconds)
{
    rt_arithmetic_ops ops = rt_arithmetic_f64;
    ops.forward = compute_nothing;
    ops.finish = finish_nothing;
    rt_trace trace = {0};
    const rt_run_io io = {.load = load_ones, .store = store_nothing, .trace = &trace};
    rt_status st = rt_run(ctx, c, p, l, plan, &ops, &io, NULL);
    double begin = 0, end = 0;
    for (int64_t i = 0; i < trace.count && st == RT_OK; i++)
        if (trace.events[i].kind == RT_EVENT_STEP && trace.events[i].step < hops) {
            begin = trace.events[i].step == COLD ? trace.events[i].begin : begin;
            end = trace.events[i].end;
        }
    *seconds = (end - begin) / (double)(hops - COLD);
    rt_trace_reset(&trace);
    return st;
}

static rt_status slowest(rt_context *ctx, rt_comm *c, double *seconds)
{
    double most = *seconds;
    RT_TRY(
        rt_mpi_check(ctx, MPI_Allreduce(seconds, &most, 1, MPI_DOUBLE, MPI_MAX, c->comm), "MPI_Allreduce"));
    *seconds = most;
    return RT_OK;
}

rt_status rt_ring_rate_measure(rt_context *ctx, rt_comm *comm, int64_t bytes, int64_t repeats,
                               rt_ring_rate *out)
{
    if (comm->size < 2)
        return rt_fail(ctx, RT_ERR_ARG, "a ring of one process has no messages. Hint: mpirun -n 2");
    const int64_t tokens = (bytes + ROW - 1) / ROW;
    rt_ring_rate rate = {.bytes = tokens * ROW};
    rate.hops = ENOUGH / rate.bytes < 16 ? 16 : ENOUGH / rate.bytes > 256 ? 256 : ENOUGH / rate.bytes;
    rate.hops = rate.hops > comm->size ? rate.hops : comm->size;
    const rt_problem p = {.batch = 1,
                          .seqlen_q = tokens * comm->size,
                          .seqlen_k = tokens * comm->size,
                          .heads_q = 1,
                          .heads_kv = 1,
                          .dim = DIM,
                          .dim_v = DIM,
                          .scale = 1,
                          .scale_kind = RT_SCALE_F64};
    rt_layout l = {0};
    rt_plan plan = {.name = ""};
    rt_status st = rt_layout_create(ctx, &p, RT_LAYOUT_CONTIGUOUS, RT_REMAINDER_SPREAD, comm->size, &l);
    if (st == RT_OK)
        st = hops_plan(ctx, &p, &l, rate.hops, &plan);
    char *data = rt_calloc(ctx, 2, (size_t)rate.bytes);
    st = rt_comm_agree(ctx, comm, st == RT_OK && data == NULL ? RT_ERR_NOMEM : st);
    for (int64_t i = 0; i < repeats && st == RT_OK; i++) {
        double plain = 0, step = 0;
        st = plain_once(ctx, comm, data, rate.bytes, rate.hops, &plain);
        if (st == RT_OK)
            st = steps_once(ctx, comm, &p, &l, &plan, rate.hops, &step);
        if (st == RT_OK)
            st = slowest(ctx, comm, &plain);
        if (st == RT_OK)
            st = slowest(ctx, comm, &step);
        rate.plain = i == 0 || plain < rate.plain ? plain : rate.plain;
        rate.step = i == 0 || step < rate.step ? step : rate.step;
    }
    rt_free(data);
    rt_plan_reset(&plan);
    rt_layout_reset(&l);
    if (st == RT_OK)
        *out = rate;
    return st;
}
