/* How fast messages go round a ring of processes: by themselves, and as steps of a plan in the executor. */
#ifndef RT_RUN_RING_RATE_H
#define RT_RUN_RING_RATE_H

#include <ringtrue/run.h>

typedef struct {
    double low, median, high; /* a quarter of the values lies below low, a quarter above high */
} rt_quartiles;

typedef struct {
    int64_t bytes,      /* of a message */
        hops;           /* how many hops were timed, of each kind */
    rt_quartiles plain, /* seconds of a hop by MPI_Sendrecv, over all hops */
        step,           /* of a step of the executor with that one hop and nothing to compute */
        ratio;          /* median of plain / median of step in one round, over the rounds */
} rt_ring_rate;

/* Measure with a message of at least `bytes` (a whole number of KiB), in `rounds` rounds after `warmup` that do not count.
 * A round is MPI_Sendrecv, steps, steps, MPI_Sendrecv, each a row of hops of which the first six do not count: their
 * memory is new.  The slowest process counts, hop by hop.  Collective, over at least two processes.  RT_ERR_ARG for
 * one process. */
rt_status rt_ring_rate_measure(rt_context *ctx, rt_comm *comm, int64_t bytes, int64_t warmup,
                               int64_t rounds, rt_ring_rate *out) RT_NODISCARD;

#endif
