/* The rate of a ring step against plain MPI_Sendrecv. */
#include "run/ring_rate.h"

#include <stdlib.h>
#include <string.h>

#include "arithmetic/ops.h"
#include "plan/build.h"
#include "run/comm.h"
#include "run/trace.h"

enum { TAG = 30001, DIM = 64, ROW = 2 * DIM * 8, ENOUGH = 32 << 20, FEW = 16, MANY = 256, COLD = 6 };

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

enum { WAYS = 2 }; /* MPI_Sendrecv, steps of the executor */

typedef struct {
    const rt_problem *p;
    const rt_layout *l;
    const rt_plan *plan;
    char *data; /* two messages */
    int64_t bytes, hops;
} ring;

/* Seconds of hop t into seconds[t - COLD]: from the end of the hop before it to its own end, so that whatever
 * happens between two hops counts. */
static rt_status plain_once(rt_context *ctx, rt_comm *c, const ring *x, double *seconds)
{
    const int right = (c->rank + 1) % c->size, left = (c->rank + c->size - 1) % c->size, n = (int)x->bytes;
    RT_TRY(rt_mpi_check(ctx, MPI_Barrier(c->comm), "MPI_Barrier"));
    double before = 0;
    for (int64_t t = 0; t < x->hops; t++) {
        RT_TRY(rt_mpi_check(ctx,
                            MPI_Sendrecv(x->data + t % 2 * x->bytes, n, MPI_BYTE, right, TAG,
                                         x->data + (t + 1) % 2 * x->bytes, n, MPI_BYTE, left, TAG, c->comm,
                                         MPI_STATUS_IGNORE),
                            "MPI_Sendrecv"));
        const double end = rt_run_now();
        if (t >= COLD)
            seconds[t - COLD] = end - before;
        before = end;
    }
    return RT_OK;
}

static rt_status steps_once(rt_context *ctx, rt_comm *c, const ring *x, double *seconds)
{
    rt_arithmetic_ops ops = rt_arithmetic_f64;
    ops.forward = compute_nothing;
    ops.finish = finish_nothing;
    rt_trace trace = {0};
    const rt_run_io io = {.load = load_ones, .store = store_nothing, .trace = &trace};
    const rt_status st = rt_run(ctx, c, x->p, x->l, x->plan, &ops, &io, NULL);
    double before = 0;
    for (int64_t i = 0; i < trace.count && st == RT_OK; i++) {
        const rt_event *e = &trace.events[i];
        if (e->kind != RT_EVENT_STEP || e->step >= x->hops)
            continue;
        if (e->step >= COLD)
            seconds[e->step - COLD] = e->end - before;
        before = e->end;
    }
    rt_trace_reset(&trace);
    return st;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. */
static rt_quartiles quartiles(double *x, int64_t n)
{
    qsort(x, (size_t)n, sizeof *x, ascending);
    return (rt_quartiles){x[n / 4], (x[(n - 1) / 2] + x[n / 2]) / 2, x[n - 1 - n / 4]};
}

/* Both, `rounds` times, the second half of a round in the other order: what slows one for a while slows the other.  The
 * slowest process counts, hop by hop.  time[way]: 2 rounds x counted hops; ratio: rounds. */
static rt_status rounds_of(rt_context *ctx, rt_comm *c, const ring *x, int64_t warmup, int64_t rounds,
                           double *const time[WAYS], double *ratio)
{
    static const int order[2 * WAYS] = {0, 1, 1, 0};
    const int64_t n = x->hops - COLD;
    for (int64_t i = -warmup; i < rounds; i++) {
        double *at[WAYS] = {NULL};
        int64_t done[WAYS] = {0};
        for (int k = 0; k < 2 * WAYS; k++) {
            const int way = order[k];
            at[way] = time[way] + (i < 0 ? 0 : i) * 2 * n;
            double *mine = at[way] + done[way]++ * n;
            RT_TRY(way == 0 ? plain_once(ctx, c, x, mine) : steps_once(ctx, c, x, mine));
            RT_TRY(rt_mpi_check(ctx,
                                MPI_Allreduce(MPI_IN_PLACE, mine, (int)n, MPI_DOUBLE, MPI_MAX, c->comm),
                                "MPI_Allreduce"));
        }
        if (i >= 0)
            ratio[i] = quartiles(at[0], 2 * n).median / quartiles(at[1], 2 * n).median;
    }
    return RT_OK;
}

static rt_status measure(rt_context *ctx, rt_comm *c, const ring *x, int64_t warmup, int64_t rounds,
                         rt_ring_rate *out)
{
    const int64_t n = 2 * rounds * (x->hops - COLD);
    double *times = rt_alloc(ctx, WAYS * n + rounds, sizeof *times);
    rt_status st = rt_comm_agree(ctx, c, times == NULL ? RT_ERR_NOMEM : RT_OK);
    if (st == RT_OK)
        st =
            rounds_of(ctx, c, x, warmup, rounds, (double *const[WAYS]){times, times + n}, times + WAYS * n);
    if (st == RT_OK)
        *out = (rt_ring_rate){.bytes = x->bytes,
                              .hops = n,
                              .plain = quartiles(times, n),
                              .step = quartiles(times + n, n),
                              .ratio = quartiles(times + WAYS * n, rounds)};
    rt_free(times);
    return st;
}

rt_status rt_ring_rate_measure(rt_context *ctx, rt_comm *comm, int64_t bytes, int64_t warmup,
                               int64_t rounds, rt_ring_rate *out)
{
    if (comm->size < 2)
        return rt_fail(ctx, RT_ERR_ARG, "a ring of one process has no messages. Hint: mpirun -n 2");
    const int64_t tokens = (bytes + ROW - 1) / ROW, some = ENOUGH / (tokens * ROW);
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
    ring x = {.p = &p, .l = &l, .plan = &plan, .bytes = tokens * ROW};
    x.hops = some < FEW ? FEW : some > MANY ? MANY : some;
    x.hops = x.hops > comm->size + COLD ? x.hops : comm->size + COLD;
    rt_status st = rt_layout_create(ctx, &p, RT_LAYOUT_CONTIGUOUS, RT_REMAINDER_SPREAD, comm->size, &l);
    if (st == RT_OK)
        st = hops_plan(ctx, &p, &l, x.hops, &plan);
    x.data = rt_calloc(ctx, 2, (size_t)x.bytes);
    st = rt_comm_agree(ctx, comm, st == RT_OK && x.data == NULL ? RT_ERR_NOMEM : st);
    if (st == RT_OK)
        st = measure(ctx, comm, &x, warmup, rounds, out);
    rt_free(x.data);
    rt_plan_reset(&plan);
    rt_layout_reset(&l);
    return st;
}
