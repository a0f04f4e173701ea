/* bench --ring: a ring step of the executor against plain MPI_Sendrecv, message by message. */
#include <jansson.h>

#include "cli/bench.h"
#include "run/ring_rate.h"

enum { LEAST = 1 << 20, SIZES = 5 };

static void print(const rt_cli *c, const rt_ring_rate *rate)
{
    printf("# ringtrue %s  bench --ring  %d processes  %lld repetitions\n", RT_VERSION,
           (int)rt_comm_size(c->comm), (long long)c->o->iters);
    printf("# a hop: every process sends to the next while it receives from the one before\n");
    printf("# %12s %6s %14s %14s %12s %12s %8s\n", "message", "hops", "MPI_Sendrecv", "ring step",
           "MPI_Sendrecv", "ring step", "ratio");
    printf("# %12s %6s %14s %14s %12s %12s %8s\n", "(B)", "", "(us, min)", "(us, min)", "(GB/s)", "(GB/s)",
           "of rates");
    for (int i = 0; i < SIZES; i++)
        printf("  %12lld %6lld %14.2f %14.2f %12.3f %12.3f %8.3f\n", (long long)rate[i].bytes,
               (long long)rate[i].hops, 1e6 * rate[i].plain, 1e6 * rate[i].step,
               (double)rate[i].bytes / rate[i].plain * 1e-9, (double)rate[i].bytes / rate[i].step * 1e-9,
               rate[i].plain / rate[i].step);
}

static rt_status print_json(rt_context *ctx, const rt_cli *c, const rt_ring_rate *rate)
{
    json_t *rows = json_array();
    int bad = rows == NULL;
    for (int i = 0; i < SIZES; i++)
        bad |= json_array_append_new(
            rows, json_pack("{s:s, s:i, s:I, s:I, s:f, s:f, s:f}", "bench", "ring", "processes",
                            (int)rt_comm_size(c->comm), "bytes", (json_int_t)rate[i].bytes, "hops",
                            (json_int_t)rate[i].hops, "sendrecv_seconds", rate[i].plain, "step_seconds",
                            rate[i].step, "ratio", rate[i].plain / rate[i].step));
    if (bad == 0)
        bad = json_dumpf(rows, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17));
    json_decref(rows);
    return bad != 0 || putchar('\n') == EOF ? rt_fail(ctx, RT_ERR_IO, "the JSON rows could not be written")
                                            : RT_OK;
}

rt_status rt_bench_ring(rt_cli *c)
{
    rt_ring_rate rate[SIZES];
    if (rt_comm_size(c->comm) < 2)
        return rt_fail(
            c->ctx, RT_ERR_ARG,
            "bench --ring needs at least two processes. Hint: mpirun -n 2 ringtrue bench --ring");
    for (int i = 0; i < SIZES; i++) {
        rt_progress(c->ctx, "message sizes", i, SIZES);
        RT_TRY(rt_ring_rate_measure(c->ctx, c->comm, (int64_t)LEAST << i, c->o->iters, &rate[i]));
    }
    if (!c->root)
        return RT_OK;
    if (c->o->json)
        return print_json(c->ctx, c, rate);
    print(c, rate);
    return RT_OK;
}
