/* A step's messages as one collective operation of MPI.
 *
 * All-to-all (also for gathers, scatters and reductions: sums are ours, in the order of the listing):
 * MPI_Ialltoallw, whose types name the slabs where they lie, so nothing is packed.  All-gather, when every slab that
 * leaves a process goes to all others: MPI_Iallgatherv, each slab sent once to a process however many of its ranks
 * want it.  What is longer than a piece goes in rounds, as many for all processes: from the plan alone each knows
 * how many. */
#include "run/exchange.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t rounds;
    int size;
} shape;

struct rt_collective {
    shape s;
    /* alltoallw: rounds x size */
    int *count[2], *zero; /* [0] receive, [1] send: 0 or 1 */
    MPI_Datatype *type[2];
    int64_t *bytes; /* sent in a round */
    /* allgatherv */
    int64_t *order; /* moves between processes, equal sources together */
    int64_t n_order;
    int64_t *from; /* size + 1: bytes of the processes before */
    char *mine, *area, *stage;
    bool packed; /* `mine` is ours */
    int *counts, *displs;
};

static int owner(const rt_exchange *x, int32_t rank)
{
    return rt_comm_owner(x->comm, rank, x->plan->ranks);
}

static bool crosses(const rt_exchange *x, const rt_move *m)
{
    return owner(x, m->from) != owner(x, m->to);
}

static int64_t bytes_of(const rt_exchange *x, const rt_move *m)
{
    return rt_piece_doubles(m->payload, &x->shape, &m->piece) * (int64_t)sizeof(double);
}

static bool is_result(rt_payload y)
{
    return y == RT_PAYLOAD_STATE || y == RT_PAYLOAD_DQ || y == RT_PAYLOAD_DKV;
}

/* ---- which way ---------------------------------------------------------------------------------------- */

/* At least three quarters of all ordered pairs of n exchange something. */
static bool most_pairs(int64_t pairs, int64_t n)
{
    return 4 * pairs >= 3 * n * (n - 1);
}

static rt_status dense(const rt_exchange *x, bool *out)
{
    const int64_t P = x->plan->ranks, N = rt_comm_size(x->comm);
    *out = false;
    if (P < 3 || !most_pairs(x->n, P)) /* two swap at best; and there are no more pairs than moves */
        return RT_OK;
    bool *ranks = rt_calloc(x->ctx, P, (size_t)P * sizeof *ranks),
         *processes = rt_calloc(x->ctx, N, (size_t)N * sizeof *processes);
    rt_status st = ranks == NULL || processes == NULL ? RT_ERR_NOMEM : RT_OK;
    int64_t n_ranks = 0, n_processes = 0;
    for (int64_t i = 0; i < x->n && st == RT_OK; i++) {
        const rt_move *m = &x->moves[i];
        bool *r = &ranks[m->from * P + m->to],
             *p = &processes[(int64_t)owner(x, m->from) * N + owner(x, m->to)];
        n_ranks += m->from != m->to && !*r;
        n_processes += crosses(x, m) && !*p;
        *r = *p = true;
    }
    *out = st == RT_OK && most_pairs(n_ranks, P) && most_pairs(n_processes, N);
    rt_free(ranks);
    rt_free(processes);
    return st;
}

/* The order of sources: by sender first, and so by process. */
static int source_compare(const rt_move *a, const rt_move *b)
{
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->payload != b->payload)
        return a->payload < b->payload ? -1 : 1;
    if (a->src_buf != b->src_buf)
        return a->src_buf < b->src_buf ? -1 : 1;
    const int64_t u[5] = {a->piece.shard, a->piece.slot0, a->piece.slot1, a->piece.head0, a->piece.head1};
    const int64_t v[5] = {b->piece.shard, b->piece.slot0, b->piece.slot1, b->piece.head0, b->piece.head1};
    for (int k = 0; k < 5; k++)
        if (u[k] != v[k])
            return u[k] < v[k] ? -1 : 1;
    return 0;
}

/* A place in the order, with what is compared. */
typedef struct {
    const rt_move *move;
    int64_t index;
} place;

static int place_compare(const void *a, const void *b)
{
    const place *x = a, *y = b;
    const int c = source_compare(x->move, y->move);
    if (c != 0)
        return c;
    if (x->move->to != y->move->to)
        return x->move->to < y->move->to ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Whether every source that crosses goes to all other processes; then c->order and c->from say what and how much. */
static rt_status gathers(const rt_exchange *x, struct rt_collective *c, bool *out)
{
    const int N = rt_comm_size(x->comm);
    *out = false;
    place *places = rt_alloc(x->ctx, x->n, sizeof *places);
    c->order = rt_alloc(x->ctx, x->n, sizeof *c->order);
    c->from = rt_calloc(x->ctx, (int64_t)N + 1, sizeof *c->from);
    rt_status st = places == NULL || c->order == NULL || c->from == NULL ? RT_ERR_NOMEM : RT_OK;
    bool all = st == RT_OK;
    c->n_order = 0;
    for (int64_t i = 0; i < x->n && all; i++) {
        all = !is_result(x->moves[i].payload);
        if (crosses(x, &x->moves[i]))
            places[c->n_order++] = (place){&x->moves[i], i};
    }
    if (all)
        qsort(places, (size_t)c->n_order, sizeof *places, place_compare);
    for (int64_t i = 0, end; i < c->n_order && all; i = end) {
        int reached = 0, last = -1; /* a source's receivers ascend, and so do their processes */
        for (end = i; end < c->n_order && source_compare(places[i].move, places[end].move) == 0; end++) {
            reached += owner(x, places[end].move->to) != last;
            last = owner(x, places[end].move->to);
            c->order[end] = places[end].index;
        }
        all = reached == N - 1;
        c->from[owner(x, places[i].move->from) + 1] += bytes_of(x, places[i].move);
    }
    for (int p = 0; p < N && st == RT_OK; p++)
        c->from[p + 1] += c->from[p];
    *out = all;
    rt_free(places);
    return st;
}

rt_status rt_collective_choose(rt_exchange *x)
{
    x->way = -1;
    for (int64_t i = 0; i < x->n && x->way < 0 && rt_comm_size(x->comm) > 1; i++)
        x->way = crosses(x, &x->moves[i]) ? 0 : -1;
    if (x->way < 0 || x->transport == RT_TRANSPORT_P2P)
        return RT_OK;
    bool serves = x->transport == RT_TRANSPORT_COLLECTIVE;
    /* Of all ranks' tiles, not of those that this process holds: all must choose alike. */
    if (!serves && !x->computes[(x->backward ? x->plan->forward.n_steps : 0) + x->step])
        RT_TRY(dense(x, &serves));
    if (!serves)
        return RT_OK;
    x->collective = rt_calloc(x->ctx, 1, sizeof *x->collective);
    if (x->collective == NULL)
        return RT_ERR_NOMEM;
    bool gather = false;
    RT_TRY(gathers(x, x->collective, &gather));
    x->way = gather ? 2 : 1;
    return RT_OK;
}

/* ---- all-to-all --------------------------------------------------------------------------------------- */

/* The most bytes between two processes. */
static rt_status longest(const rt_exchange *x, int64_t *out)
{
    const int64_t N = rt_comm_size(x->comm);
    int64_t *total = rt_calloc(x->ctx, N, (size_t)N * sizeof *total);
    if (total == NULL)
        return RT_ERR_NOMEM;
    *out = 0;
    for (int64_t i = 0; i < x->n; i++) {
        const rt_move *m = &x->moves[i];
        int64_t *t = &total[(int64_t)owner(x, m->from) * N + owner(x, m->to)];
        *t += crosses(x, m) ? bytes_of(x, m) : 0;
        *out = *t > *out ? *t : *out;
    }
    rt_free(total);
    return RT_OK;
}

/* The moves of this process with others, bucket by bucket: bucket d * N + p holds those received from (d 0) or
 * sent to (d 1) process p, in the order of the listing. */
static rt_status buckets(const rt_exchange *x, int64_t **moves, int64_t **first)
{
    const int N = rt_comm_size(x->comm);
    int64_t *at = rt_calloc(x->ctx, 2 * (int64_t)N + 1, sizeof *at);
    int64_t *list = rt_alloc(x->ctx, x->n, sizeof *list);
    *first = at;
    *moves = list;
    if (at == NULL || list == NULL)
        return RT_ERR_NOMEM;
    for (int fill = 0; fill < 2; fill++) {
        for (int64_t i = 0; i < x->n; i++) {
            const rt_move *m = &x->moves[i];
            const bool send = rt_exchange_is_local(x, m->from);
            if (send == rt_exchange_is_local(x, m->to))
                continue;
            const int64_t bucket = (send ? N : 0) + owner(x, send ? m->to : m->from);
            if (fill == 0)
                at[bucket + 1]++;
            else
                list[at[bucket]++] = i;
        }
        for (int b = 0; b < 2 * N && fill == 0; b++)
            at[b + 1] += at[b];
        for (int b = 2 * N; b > 0 && fill == 1; b--) /* they have moved on by one bucket */
            at[b] = at[b - 1];
    }
    at[0] = 0;
    return RT_OK;
}

/* The types of one bucket in every round: its slabs in a row are a stream of bytes, and round k takes the k-th
 * piece of it. */
static rt_status bucket_types(const rt_exchange *x, const int64_t *moves, int64_t n, bool send, int peer,
                              MPI_Aint *address, int *length)
{
    struct rt_collective *c = x->collective;
    const int64_t piece = x->comm->piece;
    int64_t i = 0, inside = 0; /* move, and bytes of it that are dealt with */
    for (int64_t k = 0; k < c->s.rounds && i < n; k++) {
        int blocks = 0;
        int64_t room = piece;
        while (room > 0 && i < n) {
            const int64_t left = bytes_of(x, &x->moves[moves[i]]) - inside,
                          take = left < room ? left : room;
            if (take > 0) {
                RT_TRY(rt_mpi_check(
                    x->ctx, MPI_Get_address((char *)x->slab[moves[i]].data + inside, &address[blocks]),
                    "MPI_Get_address"));
                length[blocks++] = (int)take;
            }
            room -= take;
            inside += take;
            if (take == left) {
                i++;
                inside = 0;
            }
        }
        if (blocks == 0)
            continue;
        const int64_t at = k * c->s.size + peer;
        RT_TRY(rt_mpi_check(x->ctx,
                            MPI_Type_create_hindexed(blocks, length, address, MPI_BYTE, &c->type[send][at]),
                            "MPI_Type_create_hindexed"));
        c->count[send][at] = 1;
        RT_TRY(rt_mpi_check(x->ctx, MPI_Type_commit(&c->type[send][at]), "MPI_Type_commit"));
        if (send)
            c->bytes[k] += piece - room;
    }
    return RT_OK;
}

static rt_status all_to_all_prepare(rt_exchange *x)
{
    struct rt_collective *c = x->collective;
    c->s.size = rt_comm_size(x->comm);
    int64_t most = 0;
    RT_TRY(longest(x, &most));
    c->s.rounds = (most + x->comm->piece - 1) / x->comm->piece;
    const int64_t n = c->s.rounds * c->s.size;
    c->zero = rt_calloc(x->ctx, c->s.size, sizeof *c->zero);
    c->bytes = rt_calloc(x->ctx, c->s.rounds, sizeof *c->bytes);
    for (int d = 0; d < 2; d++) {
        c->count[d] = rt_calloc(x->ctx, n, sizeof *c->count[d]);
        c->type[d] = rt_alloc(x->ctx, n, sizeof(MPI_Datatype));
        if (c->count[d] == NULL || c->type[d] == NULL || c->zero == NULL || c->bytes == NULL)
            return RT_ERR_NOMEM;
        for (int64_t i = 0; i < n; i++)
            c->type[d][i] = MPI_BYTE;
    }
    for (int64_t i = 0; i < x->n; i++)
        if (rt_exchange_is_local(x, x->moves[i].to) && !rt_exchange_is_local(x, x->moves[i].from))
            RT_TRY(rt_exchange_take_for(x, i));
    RT_TRY(rt_exchange_room(x, c->s.rounds));
    int64_t *moves = NULL, *first = NULL;
    rt_status st = buckets(x, &moves, &first);
    MPI_Aint *address = rt_alloc(x->ctx, x->n, sizeof *address);
    int *length = rt_alloc(x->ctx, x->n, sizeof *length);
    if (address == NULL || length == NULL)
        st = RT_ERR_NOMEM;
    for (int b = 0; b < 2 * c->s.size && st == RT_OK; b++)
        st = bucket_types(x, moves + first[b], first[b + 1] - first[b], b >= c->s.size, b % c->s.size,
                          address, length);
    rt_free(address);
    rt_free(length);
    rt_free(moves);
    rt_free(first);
    return st;
}

static rt_status all_to_all_post(rt_exchange *x)
{
    const struct rt_collective *c = x->collective;
    for (int64_t k = 0; k < c->s.rounds; k++) {
        const int64_t at = k * c->s.size;
        MPI_Request *r = &x->requests[x->n_flights];
        *r = MPI_REQUEST_NULL;
        RT_TRY(
            rt_mpi_check(x->ctx,
                         MPI_Ialltoallw(MPI_BOTTOM, c->count[1] + at, c->zero, c->type[1] + at, MPI_BOTTOM,
                                        c->count[0] + at, c->zero, c->type[0] + at, x->comm->comm, r),
                         "MPI_Ialltoallw"));
        x->flights[x->n_flights++] = (rt_flight){-1, true, c->bytes[k], rt_run_now()};
        x->n_open++;
        x->stats->bytes_sent += (uint64_t)c->bytes[k];
        for (int p = 0; p < c->s.size; p++)
            x->stats->messages += (uint64_t)c->count[1][at + p];
    }
    return RT_OK;
}

/* ---- all-gather --------------------------------------------------------------------------------------- */

/* Bytes of process p in round k, rounds of `piece` bytes. */
static int64_t part(const struct rt_collective *c, int p, int64_t k, int64_t piece)
{
    const int64_t left = c->from[p + 1] - c->from[p] - k * piece;
    return left < 0 ? 0 : left < piece ? left : piece;
}

/* A round's receive counts and offsets are int. */
static int64_t gather_piece(const rt_exchange *x)
{
    const int64_t fits = INT_MAX / rt_comm_size(x->comm);
    return x->comm->piece < fits ? x->comm->piece : fits;
}

static rt_status gather_prepare(rt_exchange *x)
{
    struct rt_collective *c = x->collective;
    const int N = rt_comm_size(x->comm), me = rt_comm_rank(x->comm);
    const int64_t piece = gather_piece(x), mine = c->from[me + 1] - c->from[me];
    c->s.size = N;
    for (int p = 0; p < N; p++) {
        const int64_t rounds = (c->from[p + 1] - c->from[p] + piece - 1) / piece;
        c->s.rounds = rounds > c->s.rounds ? rounds : c->s.rounds;
    }
    c->counts = rt_alloc(x->ctx, 2 * c->s.rounds, (size_t)N * sizeof *c->counts);
    c->area = rt_alloc(x->ctx, c->from[N], 1);
    c->stage = c->s.rounds > 1 ? rt_alloc(x->ctx, c->from[N], 1) : NULL;
    if (c->counts == NULL || c->area == NULL || (c->s.rounds > 1 && c->stage == NULL))
        return RT_ERR_NOMEM;
    c->displs = c->counts + c->s.rounds * N;
    int64_t at = 0; /* of a source in all that is gathered */
    for (int64_t i = 0; i < c->n_order; i++) {
        const rt_move *m = &x->moves[c->order[i]];
        const bool first = i == 0 || source_compare(&x->moves[c->order[i - 1]], m) != 0;
        if (first && i > 0)
            at += bytes_of(x, &x->moves[c->order[i - 1]]);
        if (rt_exchange_is_local(x, m->to))
            x->slab[c->order[i]] = (rt_slab){(void *)(c->area + at), 0};
        if (!first || !rt_exchange_is_local(x, m->from))
            continue;
        char *data = (char *)x->slab[c->order[i]].data;
        if (bytes_of(x, m) == mine) { /* the only one */
            c->mine = data;
            continue;
        }
        if (c->mine == NULL) {
            c->mine = rt_alloc(x->ctx, mine, 1);
            c->packed = true;
            if (c->mine == NULL)
                return RT_ERR_NOMEM;
        }
        memcpy(c->mine + at - c->from[me], data, (size_t)bytes_of(x, m));
    }
    return rt_exchange_room(x, c->s.rounds);
}

static rt_status gather_post(rt_exchange *x)
{
    struct rt_collective *c = x->collective;
    const int N = c->s.size, me = rt_comm_rank(x->comm);
    const int64_t piece = gather_piece(x);
    char *to = c->stage != NULL ? c->stage : c->area;
    for (int64_t k = 0; k < c->s.rounds; k++) {
        int *counts = c->counts + k * N, *displs = c->displs + k * N;
        int64_t sum = 0;
        for (int p = 0; p < N; p++) {
            counts[p] = (int)part(c, p, k, piece);
            displs[p] = (int)sum;
            sum += counts[p];
        }
        MPI_Request *r = &x->requests[x->n_flights];
        *r = MPI_REQUEST_NULL;
        RT_TRY(rt_mpi_check(x->ctx,
                            MPI_Iallgatherv(counts[me] > 0 ? c->mine + k * piece : c->mine, counts[me],
                                            MPI_BYTE, to, counts, displs, MPI_BYTE, x->comm->comm, r),
                            "MPI_Iallgatherv"));
        x->flights[x->n_flights++] = (rt_flight){-1, true, (int64_t)counts[me] * (N - 1), rt_run_now()};
        x->n_open++;
        x->stats->bytes_sent += (uint64_t)counts[me] * (uint64_t)(N - 1);
        x->stats->messages += counts[me] > 0 ? (uint64_t)(N - 1) : 0;
        to += sum;
    }
    return RT_OK;
}

/* Rounds are put together: what a process sent lies in one piece. */
static void gather_finish(const rt_exchange *x)
{
    const struct rt_collective *c = x->collective;
    const int64_t piece = gather_piece(x);
    const char *from = c->stage;
    for (int64_t k = 0; k < c->s.rounds && from != NULL; k++)
        for (int p = 0; p < c->s.size; p++) {
            const int64_t n = part(c, p, k, piece);
            memcpy(c->area + c->from[p] + k * piece, from, (size_t)n);
            from += n;
        }
}

/* ---- for the exchange --------------------------------------------------------------------------------- */

rt_status rt_collective_prepare(rt_exchange *x)
{
    return x->way == 1 ? all_to_all_prepare(x) : gather_prepare(x);
}

rt_status rt_collective_post(rt_exchange *x)
{
    return x->way == 1 ? all_to_all_post(x) : gather_post(x);
}

rt_status rt_collective_finish(rt_exchange *x)
{
    if (x->way == 2)
        gather_finish(x);
    return RT_OK;
}

void rt_collective_clear(rt_exchange *x)
{
    struct rt_collective *c = x->collective;
    if (c == NULL)
        return;
    for (int d = 0; d < 2; d++) {
        for (int64_t i = 0; c->count[d] != NULL && c->type[d] != NULL && i < c->s.rounds * c->s.size; i++)
            if (c->type[d][i] != MPI_BYTE)
                (void)MPI_Type_free(&c->type[d][i]);
        rt_free(c->count[d]);
        rt_free(c->type[d]);
    }
    rt_free(c->zero);
    rt_free(c->bytes);
    rt_free(c->order);
    rt_free(c->from);
    if (c->packed)
        rt_free(c->mine);
    rt_free(c->area);
    rt_free(c->stage);
    rt_free(c->counts);
    rt_free(c);
    x->collective = NULL;
}
