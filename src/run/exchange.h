/* The messages of a step: from buffers of this process to those of others and back, point to point or by a
 * collective operation, while the tiles compute. */
#ifndef RT_RUN_EXCHANGE_H
#define RT_RUN_EXCHANGE_H

#include "run/buffers.h"
#include "run/comm.h"
#include "run/trace.h"

/* A slab that belongs to nobody at the moment: memory whose pages are there already. */
typedef struct {
    double *data;
    int64_t capacity; /* doubles */
} rt_spare;

typedef struct {
    double *data;     /* of a move: what travels; NULL: neither end is here */
    int64_t capacity; /* > 0: the slab is ours, of so many doubles; 0: it lies in a buffer or in `area` */
} rt_slab;

/* What a request is for. */
typedef struct {
    int64_t move; /* of the step; -1: of a collective operation */
    bool send;
    int64_t bytes;
    double begin;
} rt_flight;

enum { RT_SPARES = 8 };

typedef struct {
    rt_context *ctx;
    rt_comm *comm;
    const rt_plan *plan;
    rt_shape shape;
    int32_t first, end;     /* plan ranks of this process */
    rt_rank_buffers *ranks; /* end - first */
    rt_run_stats *stats;
    rt_trace *trace; /* or NULL */
    rt_transport transport;
    const uint8_t *computes; /* by step, forward then backward: some rank has tiles, of whichever process */
    double t0;               /* of the trace */

    /* the step in progress */
    const rt_pass *pass;
    bool backward;
    int64_t step;
    const rt_move *moves;
    int64_t n;
    rt_slab *slab;
    int way; /* index of rt_run_stats.steps; -1: nothing goes to another process */
    rt_flight *flights;
    MPI_Request *requests;
    int *done; /* indices of completed requests */
    int64_t n_flights, n_open, cap_flights;
    double posted, last; /* when posting began, and the last completion */
    double progress;     /* seconds spent on posting and on progress */
    rt_status status;    /* of progress between the blocks of a tile */
    uint64_t bytes0, messages0;
    struct rt_collective *collective;

    rt_spare spare[RT_SPARES];
} rt_exchange;

bool rt_exchange_is_local(const rt_exchange *x, int32_t rank);
rt_buffer *rt_exchange_buffer(const rt_exchange *x, int32_t rank, rt_payload y, int32_t index);

/* Everything of a step that can fail for one process alone and would leave the others waiting: memory,
 * first of all. */
rt_status rt_exchange_prepare(rt_exchange *x, const rt_pass *pass, bool backward,
                              int64_t step) RT_NODISCARD;
/* Receives first, then sends; nothing is waited for. */
rt_status rt_exchange_post(rt_exchange *x) RT_NODISCARD;
/* Progress, between blocks of a tile; arg is the rt_exchange. */
void rt_exchange_poke(void *arg);
/* Until everything has come and gone. */
rt_status rt_exchange_wait(rt_exchange *x) RT_NODISCARD;
/* What has come is put, added or joined, in the order of the listing; results that left are no longer here. */
rt_status rt_exchange_land(rt_exchange *x) RT_NODISCARD;
/* Whatever the step left: after success or failure. */
void rt_exchange_clear(rt_exchange *x);
void rt_exchange_reset(rt_exchange *x);

/* ---- collective.c ---- */

/* Which way the messages of the step take: the same answer on every process. */
rt_status rt_collective_choose(rt_exchange *x) RT_NODISCARD;
/* For way 1 and 2, in place of the slabs of received moves and of single messages. */
rt_status rt_collective_prepare(rt_exchange *x) RT_NODISCARD;
rt_status rt_collective_post(rt_exchange *x) RT_NODISCARD;
rt_status rt_collective_finish(rt_exchange *x) RT_NODISCARD;
void rt_collective_clear(rt_exchange *x);

/* An event of the step in progress, of no rank. */
rt_event rt_exchange_event(const rt_exchange *x, rt_event_kind kind, double begin, double end);
/* Used by both: room for so many requests; memory for a slab; for move i, which arrives. */
rt_status rt_exchange_room(rt_exchange *x, int64_t flights) RT_NODISCARD;
rt_status rt_exchange_take(rt_exchange *x, int64_t doubles, rt_slab *out) RT_NODISCARD;
rt_status rt_exchange_take_for(rt_exchange *x, int64_t i) RT_NODISCARD;

#endif
