/* What the files of the verb bench share: one arithmetic's passes, and the peer. */
#ifndef RT_CLI_BENCH_H
#define RT_CLI_BENCH_H

#include <sys/types.h>

#include "cli/cli.h"
#include "run/buffers.h"

double rt_bench_now(void); /* seconds */

/* One arithmetic with its inputs in place: the whole problem is one tile of one rank. */
typedef struct {
    const rt_problem *p;
    const rt_arithmetic_ops *arith;
    uint64_t seed;
    rt_dtype dtype;
    rt_shape shape;
    rt_buffer buffer[RT_PAYLOAD_COUNT];
    int64_t *positions;
    double *out; /* rows of results: threads x (widest + 1) */
    rt_tile_data tile;
} rt_bench_pass;

rt_status rt_bench_pass_create(rt_context *ctx, const rt_problem *p, const rt_arithmetic_ops *arith,
                               uint64_t seed, rt_dtype dtype, rt_bench_pass *out) RT_NODISCARD;
void rt_bench_pass_reset(rt_bench_pass *x);
/* Forward: scores to rounded out and lse; backward: to rounded dq, dk, dv, after a forward.  *seconds: wall
 * time. */
rt_status rt_bench_forward(rt_context *ctx, rt_bench_pass *x, double *seconds) RT_NODISCARD;
rt_status rt_bench_backward(rt_context *ctx, rt_bench_pass *x, double *seconds) RT_NODISCARD;

/* PyTorch's attention in a process of its own, which computes when it is asked and sleeps otherwise. */
typedef struct {
    pid_t pid;
    FILE *to, *from;
    char name[128]; /* "torch 2.9.1 .." */
} rt_bench_peer;

rt_status rt_bench_peer_start(rt_context *ctx, const rt_problem *p, int threads,
                              rt_bench_peer *out) RT_NODISCARD;
/* One forward, and one forward with backward. */
rt_status rt_bench_peer_once(rt_context *ctx, rt_bench_peer *x, double *forward, double *both) RT_NODISCARD;
void rt_bench_peer_stop(rt_bench_peer *x);

/* bench --ring.  Collective. */
rt_status rt_bench_ring(rt_cli *c) RT_NODISCARD;

#endif
