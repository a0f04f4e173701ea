/* The messages of a step.
 *
 * Moves between two ranks of this process are copied when they land; the others travel while the tiles compute.
 * They land in the order of the listing, so the order of every sum and join is the plan's, whichever process ran
 * which rank and whatever arrived first.
 *
 * Large messages are not copied on their way: a piece that fills its buffer is sent from there, and what arrives
 * becomes the buffer's memory where it is put into an empty one or replaces the same piece.  Memory is kept from
 * step to step: new pages would cost as much as the message. */
#include "run/exchange.h"

#include <string.h>

enum { TAGS = 30000 };

bool rt_exchange_is_local(const rt_exchange *x, int32_t rank)
{
    return rank >= x->first && rank < x->end;
}

rt_buffer *rt_exchange_buffer(const rt_exchange *x, int32_t rank, rt_payload y, int32_t index)
{
    return &x->ranks[rank - x->first].buffer[y][index];
}

static bool is_result(rt_payload y)
{
    return y == RT_PAYLOAD_STATE || y == RT_PAYLOAD_DQ || y == RT_PAYLOAD_DKV;
}

/* ---- memory ------------------------------------------------------------------------------------------- */

rt_status rt_exchange_take(rt_exchange *x, int64_t doubles, rt_slab *out)
{
    for (int i = 0; i < RT_SPARES; i++)
        if (x->spare[i].data != NULL && x->spare[i].capacity >= doubles &&
            x->spare[i].capacity / 2 <= doubles) {
            *out = (rt_slab){x->spare[i].data, x->spare[i].capacity};
            x->spare[i] = (rt_spare){NULL, 0};
            return RT_OK;
        }
    double *data = rt_alloc(x->ctx, doubles, sizeof *data);
    if (data == NULL)
        return RT_ERR_NOMEM;
    *out = (rt_slab){data, doubles > 0 ? doubles : 1};
    return RT_OK;
}

/* The smallest spare makes room. */
static void give(rt_exchange *x, rt_slab *slab)
{
    if (slab->capacity > 0) {
        int least = 0;
        for (int i = 1; i < RT_SPARES; i++)
            least = x->spare[i].capacity < x->spare[least].capacity ? i : least;
        rt_spare mine = {slab->data, slab->capacity};
        if (mine.capacity > x->spare[least].capacity) {
            const rt_spare other = x->spare[least];
            x->spare[least] = mine;
            mine = other;
        }
        rt_free(mine.data);
    }
    *slab = (rt_slab){NULL, 0};
}

rt_status rt_exchange_room(rt_exchange *x, int64_t flights)
{
    if (flights <= x->cap_flights)
        return RT_OK;
    rt_free(x->flights);
    rt_free(x->requests);
    rt_free(x->done);
    x->cap_flights = 0;
    x->flights = rt_alloc(x->ctx, flights, sizeof *x->flights);
    x->requests = rt_alloc(x->ctx, flights, sizeof(MPI_Request));
    x->done = rt_alloc(x->ctx, flights, sizeof *x->done);
    if (x->flights == NULL || x->requests == NULL || x->done == NULL)
        return RT_ERR_NOMEM;
    x->cap_flights = flights;
    return RT_OK;
}

/* ---- what travels ------------------------------------------------------------------------------------- */

/* The slab of a move that starts here: the buffer itself when it holds just this piece, else a copy. */
static rt_status slab_of(rt_exchange *x, const rt_move *m, rt_slab *out)
{
    const rt_buffer *src = rt_exchange_buffer(x, m->from, m->payload, m->src_buf);
    const bool same = src->held && src->piece.side == m->piece.side && src->piece.shard == m->piece.shard;
    if (same && rt_piece_equal(&src->piece, &m->piece)) {
        *out = (rt_slab){src->data, 0};
        return RT_OK;
    }
    rt_buffer wide = {.held =
                          false}; /* for a result whose rows are not all there: the rest travels empty */
    rt_status st = RT_OK;
    if (!same || !rt_piece_contains(&src->piece, &m->piece)) {
        if (!is_result(m->payload))
            return rt_fail(x->ctx, RT_ERR_FORMAT,
                           "plan: rank %d moves a piece of shard %d that it does not hold", m->from,
                           m->piece.shard);
        if (same) {
            st = rt_buffer_hold(x->ctx, &wide, m->payload, &x->shape, &src->piece);
            if (st == RT_OK)
                rt_buffer_extract(src, m->payload, &x->shape, &src->piece, wide.data);
        }
        if (st == RT_OK)
            st = rt_buffer_extend(x->ctx, &wide, m->payload, &x->shape, &m->piece);
        src = &wide;
    }
    if (st == RT_OK)
        st = rt_exchange_take(x, rt_piece_doubles(m->payload, &x->shape, &m->piece), out);
    if (st == RT_OK)
        rt_buffer_extract(src, m->payload, &x->shape, &m->piece, out->data);
    rt_free(wide.data);
    return st;
}

static int64_t bytes_of(const rt_exchange *x, const rt_move *m)
{
    return rt_piece_doubles(m->payload, &x->shape, &m->piece) * (int64_t)sizeof(double);
}

/* Memory for what arrives: that of the buffer which it replaces, as long as the buffer has any (nothing reads it in
 * this step, which is proved); it gets it back when the move lands. */
rt_status rt_exchange_take_for(rt_exchange *x, int64_t i)
{
    const rt_move *m = &x->moves[i];
    const int64_t doubles = rt_piece_doubles(m->payload, &x->shape, &m->piece);
    rt_buffer *b = rt_exchange_buffer(x, m->to, m->payload, m->dst_buf);
    const bool other = !b->held || b->piece.side != m->piece.side || b->piece.shard != m->piece.shard;
    if (m->how != RT_PUT || b->data == NULL || b->capacity < doubles ||
        !(other || rt_piece_equal(&b->piece, &m->piece)))
        return rt_exchange_take(x, doubles, &x->slab[i]);
    x->slab[i] = (rt_slab){b->data, b->capacity};
    b->data = NULL;
    b->capacity = 0;
    b->held = false;
    return RT_OK;
}

/* Point to point: memory for what arrives, and requests. */
static rt_status single_prepare(rt_exchange *x)
{
    int64_t posts = 0;
    for (int64_t i = 0; i < x->n; i++) {
        const rt_move *m = &x->moves[i];
        if (rt_exchange_is_local(x, m->from) == rt_exchange_is_local(x, m->to))
            continue;
        if (rt_exchange_is_local(x, m->to))
            RT_TRY(rt_exchange_take_for(x, i));
        posts += bytes_of(x, m) / x->comm->piece + 1;
    }
    return rt_exchange_room(x, posts);
}

rt_status rt_exchange_prepare(rt_exchange *x, const rt_pass *pass, bool backward, int64_t step)
{
    x->pass = pass;
    x->backward = backward;
    x->step = step;
    x->moves = pass->moves + pass->steps[step].move0;
    x->n = pass->steps[step].move1 - pass->steps[step].move0;
    x->n_flights = x->n_open = 0;
    x->progress = 0;
    x->bytes0 = x->stats->bytes_sent;
    x->messages0 = x->stats->messages;
    x->slab = rt_calloc(x->ctx, x->n, sizeof *x->slab);
    if (x->slab == NULL)
        return RT_ERR_NOMEM;
    for (int64_t i = 0; i < x->n; i++)
        if (rt_exchange_is_local(x, x->moves[i].from))
            RT_TRY(slab_of(x, &x->moves[i], &x->slab[i]));
    RT_TRY(rt_collective_choose(x));
    return x->way > 0 ? rt_collective_prepare(x) : single_prepare(x);
}

/* ---- travelling --------------------------------------------------------------------------------------- */

static rt_status post(rt_exchange *x, bool send, int64_t i)
{
    const rt_move *m = &x->moves[i];
    char *data = (char *)x->slab[i].data;
    const int64_t total = bytes_of(x, m);
    const int peer = rt_comm_owner(x->comm, send ? m->to : m->from, x->plan->ranks), tag = (int)(i % TAGS);
    for (int64_t at = 0; at < total; at += x->comm->piece) {
        const int n = (int)(total - at < x->comm->piece ? total - at : x->comm->piece);
        MPI_Request *r = &x->requests[x->n_flights];
        *r = MPI_REQUEST_NULL;
        RT_TRY(rt_mpi_check(x->ctx,
                            send ? MPI_Isend(data + at, n, MPI_BYTE, peer, tag, x->comm->comm, r)
                                 : MPI_Irecv(data + at, n, MPI_BYTE, peer, tag, x->comm->comm, r),
                            send ? "MPI_Isend" : "MPI_Irecv"));
        x->flights[x->n_flights++] = (rt_flight){i, send, n, rt_run_now()};
        x->n_open++;
        if (send) {
            x->stats->bytes_sent += (uint64_t)n;
            x->stats->messages++;
        }
    }
    return RT_OK;
}

static rt_status single_post(rt_exchange *x)
{
    for (int send = 0; send <= 1; send++) /* all receives are posted before the first send */
        for (int64_t i = 0; i < x->n; i++) {
            const bool from = rt_exchange_is_local(x, x->moves[i].from);
            if (from != rt_exchange_is_local(x, x->moves[i].to) && from == (send == 1))
                RT_TRY(post(x, send == 1, i));
        }
    return RT_OK;
}

rt_event rt_exchange_event(const rt_exchange *x, rt_event_kind kind, double begin, double end)
{
    return (rt_event){.kind = kind,
                      .process = rt_comm_rank(x->comm),
                      .backward = x->backward,
                      .rank = -1,
                      .peer = -1,
                      .step = x->step,
                      .index = -1,
                      .begin = begin - x->t0,
                      .end = end - x->t0};
}

rt_status rt_exchange_post(rt_exchange *x)
{
    x->posted = x->last = rt_run_now();
    if (x->way < 0)
        return RT_OK;
    RT_TRY(x->way > 0 ? rt_collective_post(x) : single_post(x));
    const double end = rt_run_now();
    x->stats->steps[x->way]++;
    x->progress += end - x->posted;
    rt_event e = rt_exchange_event(x, RT_EVENT_POST, x->posted, end);
    e.bytes = (int64_t)(x->stats->bytes_sent - x->bytes0);
    e.messages = (int64_t)(x->stats->messages - x->messages0);
    return rt_trace_add(x->ctx, x->trace, &e);
}

/* A message of the step. */
static rt_event message_event(const rt_exchange *x, bool send, int64_t i, double begin, double end)
{
    const rt_move *m = &x->moves[i];
    rt_event e = rt_exchange_event(x, send ? RT_EVENT_SEND : RT_EVENT_RECEIVE, begin, end);
    e.rank = send ? m->from : m->to;
    e.peer = send ? m->to : m->from;
    e.payload = m->payload;
    e.index = x->pass->steps[x->step].move0 + i;
    return e;
}

/* So many requests were found complete. */
static rt_status completed(rt_exchange *x, int count)
{
    const double end = rt_run_now();
    for (int k = 0; k < count; k++) {
        const rt_flight *f = &x->flights[x->done[k]];
        rt_event e = f->move >= 0 ? message_event(x, f->send, f->move, f->begin, end)
                                  : rt_exchange_event(x, RT_EVENT_SEND, f->begin, end);
        x->n_open--;
        x->last = end;
        e.bytes = f->bytes;
        e.messages = 1;
        RT_TRY(rt_trace_add(x->ctx, x->trace, &e));
    }
    return RT_OK;
}

void rt_exchange_poke(void *arg)
{
    rt_exchange *x = arg;
#ifdef RT_SMPI /* simulated messages need no help, and a thread team must not be left for another process */
    return;
#endif
    if (x->n_open == 0 || x->status != RT_OK)
        return;
    const double begin = rt_run_now();
    int count = 0;
    x->status = rt_mpi_check(
        x->ctx, MPI_Testsome((int)x->n_flights, x->requests, &count, x->done, MPI_STATUSES_IGNORE),
        "MPI_Testsome");
    if (x->status == RT_OK && count > 0)
        x->status = completed(x, count);
    x->progress += rt_run_now() - begin;
}

/* A collective operation tells nothing of its single messages: each took as long as the whole. */
static rt_status trace_moves(rt_exchange *x)
{
    for (int64_t i = 0; i < x->n && x->trace != NULL && x->way > 0; i++) {
        const bool send = rt_exchange_is_local(x, x->moves[i].from);
        if (send == rt_exchange_is_local(x, x->moves[i].to))
            continue;
        rt_event e = message_event(x, send, i, x->posted, x->last);
        e.bytes = bytes_of(x, &x->moves[i]);
        RT_TRY(rt_trace_add(x->ctx, x->trace, &e));
    }
    return RT_OK;
}

rt_status rt_exchange_wait(rt_exchange *x)
{
    const double begin = rt_run_now();
    rt_status st = x->status;
    x->status = RT_OK;
    if (x->n_open == 0 && x->way < 0)
        return st;
    const bool waits = x->n_open > 0;
    while (x->n_open > 0) {
        int count = 0;
        const rt_status w = rt_mpi_check(
            x->ctx, MPI_Waitsome((int)x->n_flights, x->requests, &count, x->done, MPI_STATUSES_IGNORE),
            "MPI_Waitsome");
        st = st == RT_OK ? w : st;
        if (w != RT_OK || count == MPI_UNDEFINED)
            break;
        const rt_status c = completed(x, count);
        st = st == RT_OK ? c : st;
    }
    const double end = rt_run_now(), wait = waits ? end - begin : 0;
    const double comm = x->last - x->posted, hidden = comm - x->progress - wait;
    x->stats->wait_seconds += wait;
    x->stats->comm_seconds += comm;
    x->stats->hidden_seconds += hidden > 0 ? hidden : 0;
    const rt_event e = rt_exchange_event(x, RT_EVENT_WAIT, begin, begin + wait);
    if (st == RT_OK)
        st = rt_trace_add(x->ctx, x->trace, &e);
    if (st == RT_OK)
        st = trace_moves(x);
    return st == RT_OK && x->way > 0 ? rt_collective_finish(x) : st;
}

/* ---- landing ------------------------------------------------------------------------------------------ */

static rt_status land(rt_exchange *x, int64_t i)
{
    const rt_move *m = &x->moves[i];
    rt_buffer *b = rt_exchange_buffer(x, m->to, m->payload, m->dst_buf);
    const bool fresh = !b->held || b->piece.side != m->piece.side || b->piece.shard != m->piece.shard;
    if (x->slab[i].capacity > 0 && (fresh || (m->how == RT_PUT && rt_piece_equal(&b->piece, &m->piece)))) {
        const rt_slab old = {b->data, b->data != NULL ? b->capacity : 0};
        b->data = x->slab[i].data;
        b->capacity = x->slab[i].capacity;
        b->piece = m->piece;
        b->held = true;
        x->slab[i] = old;
        return RT_OK;
    }
    return rt_buffer_land(x->ctx, b, m->payload, &x->shape, &m->piece, m->how, x->slab[i].data);
}

rt_status rt_exchange_land(rt_exchange *x)
{
    const double begin = rt_run_now();
    for (int64_t i = 0; i < x->n; i++)
        if (rt_exchange_is_local(x, x->moves[i].to))
            RT_TRY(land(x, i));
    for (int64_t i = 0; i < x->n; i++) {
        const rt_move *m = &x->moves[i];
        if (rt_exchange_is_local(x, m->from) && is_result(m->payload) &&
            !(m->from == m->to && m->src_buf == m->dst_buf))
            rt_buffer_leave(rt_exchange_buffer(x, m->from, m->payload, m->src_buf), m->payload, &x->shape,
                            &m->piece);
    }
    if (x->n == 0)
        return RT_OK;
    const rt_event e = rt_exchange_event(x, RT_EVENT_LAND, begin, rt_run_now());
    return rt_trace_add(x->ctx, x->trace, &e);
}

void rt_exchange_clear(rt_exchange *x)
{
    for (int64_t i = 0; x->slab != NULL && i < x->n; i++)
        give(x, &x->slab[i]);
    rt_free(x->slab);
    x->slab = NULL;
    rt_collective_clear(x);
}

void rt_exchange_reset(rt_exchange *x)
{
    rt_exchange_clear(x);
    for (int i = 0; i < RT_SPARES; i++)
        rt_free(x->spare[i].data);
    rt_free(x->flights);
    rt_free(x->requests);
    rt_free(x->done);
    memset(x, 0, sizeof *x);
}
