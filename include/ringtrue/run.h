/** @file run.h  The executor: one function that runs every plan in every arithmetic, in one process or over MPI. */
#ifndef RINGTRUE_RUN_H
#define RINGTRUE_RUN_H

#include <ringtrue/arithmetic.h>
#include <ringtrue/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The processes that share the work: one, or the MPI processes of a job.  Opaque. */
typedef struct rt_comm rt_comm;

/** Join the MPI job that this process was started in (mpirun, srun), on a communicator of our own; without a job,
 *  a communicator of one process for which MPI is not even initialised.  Collective over the job.  RT_ERR_MPI. */
rt_status rt_comm_create(rt_context *ctx, rt_comm **out) RT_NODISCARD;
/** A communicator of this process alone, inside or outside a job: what runs over it touches no other process.  Local. */
rt_status rt_comm_self(rt_context *ctx, rt_comm **out) RT_NODISCARD;
/** Leave; finalises MPI if rt_comm_create initialised it.  Collective.  NULL allowed. */
void rt_comm_destroy(rt_comm **comm);
int32_t rt_comm_rank(const rt_comm *c);
int32_t rt_comm_size(const rt_comm *c);
/** The worst status of all processes, and in ctx the message of the lowest rank that has it.  Collective. */
rt_status rt_comm_agree(rt_context *ctx, rt_comm *c, rt_status mine) RT_NODISCARD;
/** Whether all processes gave the same 64-bit value.  Collective. */
rt_status rt_comm_same(rt_context *ctx, rt_comm *c, uint64_t value, const char *what) RT_NODISCARD;
/** Sum of 64-bit words modulo 2^64, in place, to all.  Collective. */
rt_status rt_comm_sum_words(rt_context *ctx, rt_comm *c, uint64_t *words, int64_t count) RT_NODISCARD;
/** Bytes from every process to process 0, one after the other (counts may differ).  On process 0 *all (rt_alloc)
 *  and offsets (size + 1, rt_alloc) are set; elsewhere NULL.  Collective. */
rt_status rt_comm_gather(rt_context *ctx, rt_comm *c, const void *mine, int64_t bytes, void **all,
                         int64_t **offsets) RT_NODISCARD;
/** Bytes from process 0 to all.  Collective. */
rt_status rt_comm_broadcast(rt_context *ctx, rt_comm *c, void *data, int64_t bytes) RT_NODISCARD;
/** Which process runs plan rank r of P: floor(r N / P), so that N <= P processes hold consecutive ranks. */
int32_t rt_comm_owner(const rt_comm *c, int32_t rank, int32_t ranks);
/** The plan ranks of this process, of P; none where more processes than ranks have joined. */
rt_ranks rt_comm_ranks(const rt_comm *c, int32_t ranks);

/** How messages between processes travel.  The bits are the same. */
typedef enum {
    RT_TRANSPORT_AUTO = 0,  /**< what serves the step: see rt_run_stats.steps */
    RT_TRANSPORT_P2P,       /**< every message by itself */
    RT_TRANSPORT_COLLECTIVE /**< all messages of a step in one collective operation */
} rt_transport;

const char *rt_transport_name(rt_transport t); /**< auto p2p collective */
bool rt_transport_parse(const char *name, rt_transport *out);

/** What happened when in a run. */
typedef enum {
    RT_EVENT_STEP = 0, /**< a step of this process; bytes and messages that it sent */
    RT_EVENT_POST,     /**< its messages are handed to MPI */
    RT_EVENT_TILE, /**< a tile of plan rank `rank`; index is its number among those of the rank in the pass */
    RT_EVENT_WAIT, /**< nothing is left to compute and messages are awaited */
    RT_EVENT_LAND, /**< what has come is put, added or joined */
    RT_EVENT_SEND, /**< move `index` of the pass from `rank` to `peer`, from its posting to its completion */
    RT_EVENT_RECEIVE, /**< the same at the receiver: `rank` receives from `peer` */
    RT_EVENT_COUNT
} rt_event_kind;

typedef struct {
    rt_event_kind kind;
    int32_t process;
    bool backward;
    int32_t rank, peer; /**< plan ranks; -1: none */
    rt_payload payload; /**< of a move */
    int64_t step, index;
    /** pairs: visible pairs of a tile, over its heads and the batch.  A collective operation is a SEND with index
     *  -1 and the bytes that this process gave to it; the moves in it then have messages 0. */
    int64_t bytes, messages, pairs;
    double begin,
        end; /**< seconds since all processes agreed to start; the end of a message is seen when progress
                          is made: between the blocks of a tile, or while waiting */
} rt_event;

/** Events in the order in which they ended; zero is empty. */
typedef struct {
    rt_event *events; /**< rt_alloc */
    int64_t count, capacity;
} rt_trace;

void rt_trace_reset(rt_trace *t);
/** The events of all processes on process 0, process by process (elsewhere *out is empty).  Collective. */
rt_status rt_trace_gather(rt_context *ctx, rt_comm *c, const rt_trace *mine, rt_trace *out) RT_NODISCARD;

/** Where a run takes its inputs and puts its results.  A row is all dims of (tensor, batch, original position, head);
 *  calls to store come for the ranks of this process only, from one thread.  load may be asked for any row, by several
 *  threads at once: exact reads again what it must compute again. */
typedef struct {
    void (*load)(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row);
    /** lse: one value per row.  rank and slot say where the plan's rank holds it.  In the backward of a problem with
     *  a sink also dsink (rank 0, slot 0, batch 0, position 0), and with a bias dbias: rows of Sk by (b, pos, h) of the
     *  bias's shape, from the rank and slot that hold query pos, or rank 0, slot 0 where queries are broadcast. */
    void (*store)(void *arg, rt_tensor_id t, int32_t rank, int64_t slot, int64_t b, int64_t pos, int64_t h,
                  const double *row);
    void *arg;
    bool backward; /**< there is a dout, and dq dk dv are wanted */
    /** formats that out, dq, dk, dv and lse are meant for: `exact` rounds to them, once; f64 gives binary64
     *  whatever they are */
    rt_dtype result, lse_result;
    rt_transport transport;
    rt_trace *trace; /**< NULL, or where to record (empty before) */
} rt_run_io;

/** Of this process. */
typedef struct {
    double seconds; /**< wall time of the passes */
    double
        compute_seconds; /**< of which in tiles, without the progress made on messages between their blocks */
    double wait_seconds; /**< of which waiting for messages with nothing to compute */
    /** Communication, summed over the steps: from the first posting to the last completion.  The part that is hidden
     *  is what is left when the time spent on posting, on progress and on waiting is taken off: the process
     *  computed meanwhile.  Measured; a completion is seen when progress is made. */
    double comm_seconds, hidden_seconds;
    uint64_t bytes_sent; /**< to other processes */
    uint64_t
        messages; /**< to other processes: sends, or for a collective operation the processes that got something */
    /** Steps with messages between processes: [0] point to point, [1] MPI_Ialltoallw, [2] MPI_Iallgatherv.  AUTO
     *  takes a collective operation for a step without tiles of three or more ranks in which at least three quarters
     *  of all pairs of ranks, and of processes, exchange something: allgatherv where each sends the same to all, else
     *  alltoallw. */
    int64_t steps[3];
    /** of this process's elements; zero unless the arithmetic is exact */
    rt_certificate certificate[RT_RESULT_COUNT];
    /** products that exact took from the BLAS, and how many a checksum found wrong (computed again) */
    int64_t products[2];
} rt_run_stats;

/** Run the plan: forward, and backward if io says so.  Collective over comm; P plan ranks over N <= P processes, the
 *  same bits for every N and any number of threads.  Every process must give the same problem, layout, plan and
 *  arithmetic: checked at start (RT_ERR_MPI names what differs).  Process 0 gives the whole plan and verifies it; the
 *  others may give the part that they run (rt_plan_create_part of rt_comm_ranks): its tiles are checked against the
 *  whole by digests. */
rt_status rt_run(rt_context *ctx, rt_comm *comm, const rt_problem *p, const rt_layout *l,
                 const rt_plan *plan, const rt_arithmetic_ops *arith, const rt_run_io *io,
                 rt_run_stats *stats) RT_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
