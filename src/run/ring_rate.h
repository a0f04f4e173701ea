/* How fast messages go round a ring of processes: by themselves, and as steps of a plan in the executor. */
#ifndef RT_RUN_RING_RATE_H
#define RT_RUN_RING_RATE_H

#include <ringtrue/run.h>

typedef struct {
    int64_t bytes,
        hops;     /* of a message; how many in a row make one repetition, of which the first three are not
                            counted: their memory is new */
    double plain; /* seconds of a hop by MPI_Sendrecv, the least over the repetitions */
    double step;  /* seconds of a step of the executor with that one hop and nothing to compute */
} rt_ring_rate;

/* Measure, the two in turn `repeats` times, with a message of at least `bytes` (a whole number of KiB).  Collective, over at least
 * two processes; the slowest process counts.  RT_ERR_ARG for one process. */
rt_status rt_ring_rate_measure(rt_context *ctx, rt_comm *comm, int64_t bytes, int64_t repeats,
                               rt_ring_rate *out) RT_NODISCARD;

#endif
