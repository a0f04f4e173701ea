/* bench --ring: a ring step of the executor against plain MPI_Sendrecv, message by message. */
#include <jansson.h>

#include "cli/bench.h"
#include "run/ring_rate.h"

enum { LEAST = 1 << 20, SIZES = 5 };

static double rate(const rt_ring_rate *x, const rt_quartiles *time)
{
    return (double)x->bytes / time->median * 1e-9;
}

static void print(const rt_cli *c, const rt_ring_rate *x)
{
    printf("# ringtrue %s  bench --ring  %d processes  %lld rounds after %lld\n", RT_VERSION,
           (int)rt_comm_size(c->comm), (long long)c->o->iters, (long long)c->o->warmup);
    printf("# a hop: every process sends to the next while it receives from the one before; by "
           "MPI_Sendrecv, and as a\n"
           "# step of `run` that has nothing to compute. Times: median over all hops, in brackets the "
           "quartiles.\n"
           "# ratio: of the rates (1: a step costs no more than its message); its quartiles are over the "
           "rounds\n");
    printf("# %10s %6s  %-29s  %-29s %12s %9s  %s\n", "message", "hops", "MPI_Sendrecv", "ring step",
           "MPI_Sendrecv", "ring step", "ratio");
    printf("# %10s %6s  %-29s  %-29s %12s %9s\n", "(B)", "", "(us)", "(us)", "(GB/s)", "(GB/s)");
    for (int i = 0; i < SIZES; i++, x++)
        printf("  %10lld %6lld  %9.2f [%8.2f %8.2f]  %9.2f [%8.2f %8.2f] %12.3f %9.3f  %.3f [%.3f %.3f]\n",
               (long long)x->bytes, (long long)x->hops, 1e6 * x->plain.median, 1e6 * x->plain.low,
               1e6 * x->plain.high, 1e6 * x->step.median, 1e6 * x->step.low, 1e6 * x->step.high,
               rate(x, &x->plain), rate(x, &x->step), x->ratio.median, x->ratio.low, x->ratio.high);
}

static json_t *spread(const rt_quartiles *x)
{
    return json_pack("[f, f]", x->low, x->high);
}

static rt_status print_json(rt_context *ctx, const rt_cli *c, const rt_ring_rate *x)
{
    json_t *rows = json_array();
    int bad = rows == NULL;
    for (int i = 0; i < SIZES; i++, x++)
        bad |= json_array_append_new(
            rows, json_pack("{s:s, s:i, s:I, s:I, s:I, s:f, s:o, s:f, s:o, s:f, s:o}", "bench", "ring",
                            "processes", (int)rt_comm_size(c->comm), "rounds", (json_int_t)c->o->iters,
                            "bytes", (json_int_t)x->bytes, "hops", (json_int_t)x->hops, "sendrecv_seconds",
                            x->plain.median, "sendrecv_quartiles", spread(&x->plain), "step_seconds",
                            x->step.median, "step_quartiles", spread(&x->step), "ratio", x->ratio.median,
                            "ratio_quartiles", spread(&x->ratio)));
    if (bad == 0)
        bad = json_dumpf(rows, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17));
    json_decref(rows);
    return bad != 0 || putchar('\n') == EOF ? rt_fail(ctx, RT_ERR_IO, "the JSON rows could not be written")
                                            : RT_OK;
}

rt_status rt_bench_ring(rt_cli *c)
{
    rt_ring_rate rates[SIZES];
    if (rt_comm_size(c->comm) < 2)
        return rt_fail(
            c->ctx, RT_ERR_ARG,
            "bench --ring needs at least two processes. Hint: mpirun -n 2 ringtrue bench --ring");
    for (int i = 0; i < SIZES; i++) {
        rt_progress(c->ctx, "message sizes", i, SIZES);
        RT_TRY(rt_ring_rate_measure(c->ctx, c->comm, (int64_t)LEAST << i, c->o->warmup, c->o->iters,
                                    &rates[i]));
    }
    if (!c->root)
        return RT_OK;
    if (c->o->json)
        return print_json(c->ctx, c, rates);
    print(c, rates);
    return RT_OK;
}
