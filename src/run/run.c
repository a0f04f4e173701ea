/* The executor: one loop over steps that runs every plan.
 *
 * Of a step's moves, those between two ranks of this process are copied when they land; the others are posted before
 * the tiles (receives first) and progressed while the tiles compute.  They land in the order of the listing, so the
 * order of every sum and join is the plan's, whichever process ran which rank and whatever arrived first.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "run/buffers.h"
#include "run/comm.h"

typedef struct {
    rt_context *ctx;
    rt_comm *comm;
    const rt_problem *p;
    const rt_layout *l;
    const rt_plan *plan;
    const rt_arithmetic_ops *arith;
    int32_t first, end;      /* plan ranks of this process */
    rt_rank_buffers *ranks;  /* end - first */
    rt_run_stats *stats;
    MPI_Request *requests;
    int64_t n_requests, cap_requests;
} run_state;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_local(const run_state *s, int32_t rank)
{
    return rank >= s->first && rank < s->end;
}

static rt_buffer *buffer_of(const run_state *s, int32_t rank, rt_payload y, int32_t index)
{
    return &s->ranks[rank - s->first].buffer[y][index];
}

static rt_piece whole_shard(const run_state *s, rt_side side, int32_t rank)
{
    return (rt_piece){.side = side,
                      .shard = rank,
                      .slot0 = 0,
                      .slot1 = rt_layout_count(s->l, side, rank),
                      .head0 = 0,
                      .head1 = side == RT_SIDE_Q ? s->p->heads_q : s->p->heads_kv};
}

/* ---- what all processes must have been given the same ------------------------------------------------ */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

static uint64_t mix_piece(uint64_t h, const rt_piece *x)
{
    h = mix(mix(mix(h, (uint64_t)x->side), (uint64_t)x->shard), (uint64_t)x->slot0);
    return mix(mix(mix(h, (uint64_t)x->slot1), (uint64_t)x->head0), (uint64_t)x->head1);
}

static uint64_t pass_digest(const rt_pass *a)
{
    uint64_t h = mix(mix(1, (uint64_t)a->n_tiles), (uint64_t)a->n_moves);
    for (int64_t i = 0; i < a->n_steps; i++)
        h = mix(mix(h, (uint64_t)a->steps[i].tile0), (uint64_t)a->steps[i].move0);
    for (int64_t i = 0; i < a->n_tiles; i++)
        h = mix_piece(mix_piece(mix(h, (uint64_t)a->tiles[i].rank), &a->tiles[i].q), &a->tiles[i].kv);
    for (int64_t i = 0; i < a->n_moves; i++)
        h = mix(mix_piece(mix(mix(h, (uint64_t)a->moves[i].from), (uint64_t)a->moves[i].to), &a->moves[i].piece),
                (uint64_t)a->moves[i].payload * 4 + (uint64_t)a->moves[i].how);
    return h;
}

static uint64_t layout_digest(const rt_layout *l)
{
    uint64_t h = mix(1, (uint64_t)l->ranks);
    for (int side = 0; side < 2; side++) {
        for (int32_t r = 0; r <= l->ranks; r++)
            h = mix(h, (uint64_t)l->side[side].first[r]);
        for (int64_t i = 0; i < l->side[side].length; i++)
            h = mix(h, (uint64_t)l->side[side].pos[i]);
    }
    return h;
}

static rt_status all_the_same(const run_state *s, bool backward)
{
    RT_TRY(rt_comm_same(s->ctx, s->comm, rt_problem_digest(s->p), "problem"));
    RT_TRY(rt_comm_same(s->ctx, s->comm, layout_digest(s->l), "layout"));
    RT_TRY(rt_comm_same(s->ctx, s->comm, mix(pass_digest(&s->plan->forward), pass_digest(&s->plan->backward)), "plan"));
    uint64_t h = backward ? 1 : 2;
    for (const char *c = s->arith->name; *c != '\0'; c++)
        h = mix(h, (uint64_t)*c);
    return rt_comm_same(s->ctx, s->comm, h, "arithmetic");
}

/* ---- inputs and results ------------------------------------------------------------------------------ */

static void load_part(const run_state *s, const rt_run_io *io, int32_t rank, rt_side side, rt_payload y, int part,
                      rt_tensor_id t)
{
    const rt_buffer *b = buffer_of(s, rank, y, 0);
    const rt_part to = rt_buffer_part(b, y, s->p, part, 0);
    const int64_t *pos = rt_layout_positions(s->l, side, rank);
    for (int64_t x = 0; x < s->p->batch; x++)
        for (int64_t h = b->piece.head0; h < b->piece.head1; h++)
            for (int64_t i = 0; i < rt_piece_slots(&b->piece); i++)
                io->load(io->arg, t, x, pos[i], h, rt_part_at(&to, x, h, i));
}

static rt_status load_inputs(const run_state *s, const rt_run_io *io)
{
    for (int32_t r = s->first; r < s->end; r++) {
        const rt_piece q = whole_shard(s, RT_SIDE_Q, r), kv = whole_shard(s, RT_SIDE_KV, r);
        RT_TRY(rt_buffer_hold(s->ctx, buffer_of(s, r, RT_PAYLOAD_Q, 0), RT_PAYLOAD_Q, s->p, &q));
        RT_TRY(rt_buffer_hold(s->ctx, buffer_of(s, r, RT_PAYLOAD_KV, 0), RT_PAYLOAD_KV, s->p, &kv));
        RT_TRY(rt_buffer_clear(s->ctx, buffer_of(s, r, RT_PAYLOAD_STATE, 0), RT_PAYLOAD_STATE, s->p, &q));
        load_part(s, io, r, RT_SIDE_Q, RT_PAYLOAD_Q, 0, RT_Q);
        load_part(s, io, r, RT_SIDE_KV, RT_PAYLOAD_KV, 0, RT_K);
        load_part(s, io, r, RT_SIDE_KV, RT_PAYLOAD_KV, 1, RT_V);
        if (io->backward) {
            RT_TRY(rt_buffer_hold(s->ctx, buffer_of(s, r, RT_PAYLOAD_DO, 0), RT_PAYLOAD_DO, s->p, &q));
            RT_TRY(rt_buffer_clear(s->ctx, buffer_of(s, r, RT_PAYLOAD_DQ, 0), RT_PAYLOAD_DQ, s->p, &q));
            RT_TRY(rt_buffer_clear(s->ctx, buffer_of(s, r, RT_PAYLOAD_DKV, 0), RT_PAYLOAD_DKV, s->p, &kv));
            load_part(s, io, r, RT_SIDE_Q, RT_PAYLOAD_DO, 0, RT_DOUT);
        }
    }
    return RT_OK;
}

/* Finish every row of this process's ranks, give it away, and prepare the backward's statistics. */
static rt_status finish_forward(const run_state *s, const rt_run_io *io)
{
    const int64_t Dv = s->p->dim_v;
    double *out = rt_alloc(s->ctx, Dv, sizeof *out);
    if (out == NULL)
        return RT_ERR_NOMEM;
    for (int32_t r = s->first; r < s->end; r++) {
        const rt_buffer *state = buffer_of(s, r, RT_PAYLOAD_STATE, 0), *grad = buffer_of(s, r, RT_PAYLOAD_DO, 0);
        const int64_t *pos = rt_layout_positions(s->l, RT_SIDE_Q, r);
        rt_part part[3], to[4];
        for (int k = 0; k < 3; k++)
            part[k] = rt_buffer_part(state, RT_PAYLOAD_STATE, s->p, k, 0);
        for (int k = 0; k < 4 && io->backward; k++)
            to[k] = rt_buffer_part(grad, RT_PAYLOAD_DO, s->p, k, 0);
        for (int64_t x = 0; x < s->p->batch; x++)
            for (int64_t h = 0; h < s->p->heads_q; h++)
                for (int64_t i = 0; i < rt_piece_slots(&state->piece); i++) {
                    const double m = *rt_part_at(&part[1], x, h, i), l = *rt_part_at(&part[2], x, h, i);
                    double lse;
                    s->arith->finish(Dv, rt_part_at(&part[0], x, h, i), m, l, out, &lse);
                    io->store(io->arg, RT_OUT, r, i, x, pos[i], h, out);
                    io->store(io->arg, RT_LSE, r, i, x, pos[i], h, &lse);
                    if (io->backward) {
                        const double *dout = rt_part_at(&to[0], x, h, i);
                        double delta = 0;
                        for (int64_t d = 0; d < Dv && !rt_is_minus_inf(m); d++)
                            delta += dout[d] * out[d];
                        if (isnan(m))
                            delta = RT_NAN;
                        *rt_part_at(&to[1], x, h, i) = m;
                        *rt_part_at(&to[2], x, h, i) = l;
                        *rt_part_at(&to[3], x, h, i) = delta;
                    }
                }
    }
    rt_free(out);
    return RT_OK;
}

static void store_part(const run_state *s, const rt_run_io *io, rt_side side, rt_payload y, int part, rt_tensor_id t)
{
    for (int32_t r = s->first; r < s->end; r++) {
        const rt_buffer *b = buffer_of(s, r, y, 0);
        const rt_part from = rt_buffer_part(b, y, s->p, part, 0);
        const int64_t *pos = rt_layout_positions(s->l, side, r);
        for (int64_t x = 0; x < s->p->batch; x++)
            for (int64_t h = b->piece.head0; h < b->piece.head1; h++)
                for (int64_t i = 0; i < rt_piece_slots(&b->piece); i++)
                    io->store(io->arg, t, r, i, x, pos[i], h, rt_part_at(&from, x, h, i));
    }
}

/* ---- one step ---------------------------------------------------------------------------------------- */

enum { CHUNK = 1 << 30, TAGS = 30000 };

static rt_status post(run_state *s, bool send, double *data, int64_t doubles, int32_t peer, int64_t tag)
{
    char *bytes = (char *)data;
    const int64_t total = doubles * (int64_t)sizeof *data;
    for (int64_t at = 0; at < total; at += CHUNK) {
        const int n = (int)(total - at < CHUNK ? total - at : CHUNK);
        if (s->n_requests == s->cap_requests) {
            MPI_Request *more = rt_alloc(s->ctx, 2 * s->cap_requests + 16, sizeof *more);
            if (more == NULL)
                return RT_ERR_NOMEM;
            if (s->n_requests > 0)
                memcpy(more, s->requests, (size_t)s->n_requests * sizeof *more);
            rt_free(s->requests);
            s->requests = more;
            s->cap_requests = 2 * s->cap_requests + 16;
        }
        MPI_Request *r = &s->requests[s->n_requests++];
        *r = MPI_REQUEST_NULL;
        RT_TRY(rt_mpi_check(s->ctx,
                            send ? MPI_Isend(bytes + at, n, MPI_BYTE, peer, (int)(tag % TAGS), s->comm->comm, r)
                                 : MPI_Irecv(bytes + at, n, MPI_BYTE, peer, (int)(tag % TAGS), s->comm->comm, r),
                            send ? "MPI_Isend" : "MPI_Irecv"));
        if (send) {
            s->stats->bytes_sent += (uint64_t)n;
            s->stats->messages++;
        }
    }
    return RT_OK;
}

static void poke(void *arg)
{
    run_state *s = arg;
    int done = 0;
    if (s->n_requests > 0)
        (void)MPI_Testall((int)s->n_requests, s->requests, &done, MPI_STATUSES_IGNORE);
}

static rt_status compute_tile(run_state *s, const rt_tile *tile, bool backward)
{
    const rt_problem *p = s->p;
    const rt_buffer *q = buffer_of(s, tile->rank, RT_PAYLOAD_Q, tile->q_buf);
    const rt_buffer *kv = buffer_of(s, tile->rank, RT_PAYLOAD_KV, tile->kv_buf);
    rt_tile_data t = {.problem = p,
                      .n_q = rt_piece_slots(&tile->q),
                      .n_kv = rt_piece_slots(&tile->kv),
                      .q_pos = rt_layout_positions(s->l, RT_SIDE_Q, tile->q.shard) + tile->q.slot0,
                      .k_pos = rt_layout_positions(s->l, RT_SIDE_KV, tile->kv.shard) + tile->kv.slot0,
                      .q_head0 = tile->q.head0,
                      .q_head1 = tile->q.head1,
                      .q = rt_buffer_part(q, RT_PAYLOAD_Q, p, 0, tile->q.slot0),
                      .k = rt_buffer_part(kv, RT_PAYLOAD_KV, p, 0, tile->kv.slot0),
                      .v = rt_buffer_part(kv, RT_PAYLOAD_KV, p, 1, tile->kv.slot0),
                      .poke = s->comm->size > 1 ? poke : NULL,
                      .poke_arg = s};
    /* A destination that holds another piece starts fresh, with the whole shard: what arrives later may cover more
     * of it than this tile does. */
    const rt_payload result = backward ? RT_PAYLOAD_DQ : RT_PAYLOAD_STATE;
    rt_buffer *dst = buffer_of(s, tile->rank, result, tile->dst_q);
    if (!dst->held || !rt_piece_contains(&dst->piece, &tile->q)) {
        const rt_piece whole = whole_shard(s, RT_SIDE_Q, tile->q.shard);
        RT_TRY(rt_buffer_clear(s->ctx, dst, result, p, &whole));
    }
    if (!backward) {
        t.acc = rt_buffer_part(dst, result, p, 0, tile->q.slot0);
        t.m = rt_buffer_part(dst, result, p, 1, tile->q.slot0);
        t.l = rt_buffer_part(dst, result, p, 2, tile->q.slot0);
        return s->arith->forward(s->ctx, &t);
    }
    rt_buffer *dkv = buffer_of(s, tile->rank, RT_PAYLOAD_DKV, tile->dst_kv);
    if (!dkv->held || !rt_piece_contains(&dkv->piece, &tile->kv)) {
        const rt_piece whole = whole_shard(s, RT_SIDE_KV, tile->kv.shard);
        RT_TRY(rt_buffer_clear(s->ctx, dkv, RT_PAYLOAD_DKV, p, &whole));
    }
    const rt_buffer *grad = buffer_of(s, tile->rank, RT_PAYLOAD_DO, tile->q_buf);
    t.dout = rt_buffer_part(grad, RT_PAYLOAD_DO, p, 0, tile->q.slot0);
    t.row_m = rt_buffer_part(grad, RT_PAYLOAD_DO, p, 1, tile->q.slot0);
    t.row_l = rt_buffer_part(grad, RT_PAYLOAD_DO, p, 2, tile->q.slot0);
    t.delta = rt_buffer_part(grad, RT_PAYLOAD_DO, p, 3, tile->q.slot0);
    t.dq = rt_buffer_part(dst, result, p, 0, tile->q.slot0);
    t.dk = rt_buffer_part(dkv, RT_PAYLOAD_DKV, p, 0, tile->kv.slot0);
    t.dv = rt_buffer_part(dkv, RT_PAYLOAD_DKV, p, 1, tile->kv.slot0);
    return s->arith->backward(s->ctx, &t);
}

static bool is_result(rt_payload y)
{
    return y == RT_PAYLOAD_STATE || y == RT_PAYLOAD_DQ || y == RT_PAYLOAD_DKV;
}

/* The slab of a move that starts here: the buffer itself when it holds just this piece, else a copy (*owned). */
static rt_status slab_of(run_state *s, const rt_move *m, double **slab, double **owned)
{
    const rt_buffer *src = buffer_of(s, m->from, m->payload, m->src_buf);
    *owned = NULL;
    if (!src->held || !rt_piece_contains(&src->piece, &m->piece)) {
        /* Nothing was computed for it: an empty result travels all the same. */
        if (!is_result(m->payload))
            return rt_fail(s->ctx, RT_ERR_FORMAT, "plan: rank %d moves a piece of shard %d that it does not hold", m->from,
                           m->piece.shard);
        rt_buffer empty = {.held = false};
        RT_TRY(rt_buffer_clear(s->ctx, &empty, m->payload, s->p, &m->piece));
        *slab = *owned = empty.data;
        return RT_OK;
    }
    if (rt_piece_equal(&src->piece, &m->piece)) {
        *slab = src->data;
        return RT_OK;
    }
    *owned = rt_alloc(s->ctx, rt_piece_doubles(m->payload, s->p, &m->piece), sizeof **owned);
    if (*owned == NULL)
        return RT_ERR_NOMEM;
    rt_buffer_extract(src, m->payload, s->p, &m->piece, *owned);
    *slab = *owned;
    return RT_OK;
}

static rt_status run_step(run_state *s, const rt_pass *pass, const rt_step *step, bool backward)
{
    const int64_t n = step->move1 - step->move0;
    rt_status st = RT_ERR_NOMEM;
    double **slab = rt_calloc(s->ctx, n, sizeof *slab), **owned = rt_calloc(s->ctx, n, sizeof *owned);
    if (slab == NULL || owned == NULL)
        goto free_slabs;
    st = RT_OK;
    s->n_requests = 0;
    for (int send = 0; send <= 1; send++) /* all receives are posted before the first send */
        for (int64_t i = 0; i < n && st == RT_OK; i++) {
            const rt_move *m = &pass->moves[step->move0 + i];
            const bool from = is_local(s, m->from), to = is_local(s, m->to);
            if (from && send)
                st = slab_of(s, m, &slab[i], &owned[i]);
            if (st == RT_OK && from && !to && send)
                st = post(s, true, slab[i], rt_piece_doubles(m->payload, s->p, &m->piece),
                          rt_comm_owner(s->comm, m->to, s->plan->ranks), i);
            if (!from && to && !send) {
                slab[i] = owned[i] = rt_alloc(s->ctx, rt_piece_doubles(m->payload, s->p, &m->piece), sizeof *owned[i]);
                st = slab[i] == NULL ? RT_ERR_NOMEM
                                     : post(s, false, slab[i], rt_piece_doubles(m->payload, s->p, &m->piece),
                                            rt_comm_owner(s->comm, m->from, s->plan->ranks), i);
            }
        }
    for (int64_t i = step->tile0; i < step->tile1 && st == RT_OK; i++)
        if (is_local(s, pass->tiles[i].rank))
            st = compute_tile(s, &pass->tiles[i], backward);
    const double t0 = now();
    if (s->n_requests > 0) {
        const rt_status w = rt_mpi_check(s->ctx, MPI_Waitall((int)s->n_requests, s->requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
        st = st == RT_OK ? w : st;
    }
    s->stats->wait_seconds += now() - t0;
    for (int64_t i = 0; i < n && st == RT_OK; i++) {
        const rt_move *m = &pass->moves[step->move0 + i];
        if (is_local(s, m->to))
            st = rt_buffer_land(s->ctx, buffer_of(s, m->to, m->payload, m->dst_buf), m->payload, s->p, &m->piece, m->how,
                                s->arith, slab[i]);
    }
    /* A result that was sent away is no longer here. */
    for (int64_t i = 0; i < n && st == RT_OK; i++) {
        const rt_move *m = &pass->moves[step->move0 + i];
        if (is_local(s, m->from) && is_result(m->payload) && !(m->from == m->to && m->src_buf == m->dst_buf))
            buffer_of(s, m->from, m->payload, m->src_buf)->held = false;
    }
free_slabs:
    for (int64_t i = 0; owned != NULL && i < n; i++)
        rt_free(owned[i]);
    rt_free(owned);
    rt_free(slab);
    return st;
}

static rt_status run_pass(run_state *s, const rt_pass *pass, bool backward)
{
    for (int64_t i = 0; i < pass->n_steps; i++) {
        rt_progress(s->ctx, backward ? "backward, steps" : "forward, steps", i, pass->n_steps);
        RT_TRY(run_step(s, pass, &pass->steps[i], backward));
    }
    rt_progress(s->ctx, backward ? "backward, steps" : "forward, steps", pass->n_steps, pass->n_steps);
    return RT_OK;
}

/* How many buffers of each payload the plan numbers. */
static void count_buffers(const rt_plan *plan, int32_t count[RT_PAYLOAD_COUNT])
{
    for (int y = 0; y < RT_PAYLOAD_COUNT; y++)
        count[y] = 1;
#define RT_COUNT_AT_LEAST(y, i) (count[y] = count[y] > (i) + 1 ? count[y] : (i) + 1)
    const rt_pass *pass[2] = {&plan->forward, &plan->backward};
    for (int b = 0; b < 2; b++) {
        for (int64_t i = 0; i < pass[b]->n_tiles; i++) {
            const rt_tile *t = &pass[b]->tiles[i];
            RT_COUNT_AT_LEAST(RT_PAYLOAD_Q, t->q_buf);
            RT_COUNT_AT_LEAST(RT_PAYLOAD_KV, t->kv_buf);
            if (b == 0) {
                RT_COUNT_AT_LEAST(RT_PAYLOAD_STATE, t->dst_q);
            } else {
                RT_COUNT_AT_LEAST(RT_PAYLOAD_DO, t->q_buf);
                RT_COUNT_AT_LEAST(RT_PAYLOAD_DQ, t->dst_q);
                RT_COUNT_AT_LEAST(RT_PAYLOAD_DKV, t->dst_kv);
            }
        }
        for (int64_t i = 0; i < pass[b]->n_moves; i++) {
            const rt_move *m = &pass[b]->moves[i];
            RT_COUNT_AT_LEAST(m->payload, m->src_buf);
            RT_COUNT_AT_LEAST(m->payload, m->dst_buf);
        }
    }
#undef RT_COUNT_AT_LEAST
}

/* What travelled in the forward is not what the backward's buffers hold at its start. */
static void forget_travelling(const run_state *s)
{
    for (int32_t r = 0; r < s->end - s->first; r++)
        for (int y = 0; y < RT_PAYLOAD_COUNT; y++)
            for (int32_t i = 1; i < s->ranks[r].count[y]; i++)
                s->ranks[r].buffer[y][i].held = false;
}

rt_status rt_run(rt_context *ctx, rt_comm *comm, const rt_problem *p, const rt_layout *l, const rt_plan *plan,
                 const rt_arithmetic_ops *arith, const rt_run_io *io, rt_run_stats *stats)
{
    rt_run_stats mine = {0};
    run_state s = {.ctx = ctx, .comm = comm, .p = p, .l = l, .plan = plan, .arith = arith, .stats = &mine};
    if (comm->size > plan->ranks)
        return rt_fail(ctx, RT_ERR_ARG, "%d processes for %d plan ranks: at most as many processes as ranks. Hint: "
                       "mpirun -n %d, or --ranks %d", comm->size, plan->ranks, plan->ranks, comm->size);
    RT_TRY(all_the_same(&s, io->backward));
    rt_status st = rt_plan_verify(ctx, plan, p, l);
    /* Process n runs the ranks r with owner(r) == n, a run of consecutive ones. */
    while (s.first < plan->ranks && rt_comm_owner(comm, s.first, plan->ranks) < comm->rank)
        s.first++;
    s.end = s.first;
    while (s.end < plan->ranks && rt_comm_owner(comm, s.end, plan->ranks) == comm->rank)
        s.end++;
    if (st == RT_OK) {
        s.ranks = rt_calloc(ctx, s.end - s.first, sizeof *s.ranks);
        st = s.ranks == NULL ? RT_ERR_NOMEM : RT_OK;
    }
    int32_t count[RT_PAYLOAD_COUNT];
    count_buffers(plan, count);
    for (int32_t r = 0; r < s.end - s.first && st == RT_OK; r++)
        st = rt_rank_buffers_create(ctx, count, &s.ranks[r]);
    if (st == RT_OK)
        st = load_inputs(&s, io);
    st = rt_comm_agree(ctx, comm, st); /* nobody starts to wait for a process that has given up */
    if (st != RT_OK)
        goto free_ranks;

    const double t0 = now();
    st = rt_comm_agree(ctx, comm, run_pass(&s, &plan->forward, false));
    if (st == RT_OK)
        st = rt_comm_agree(ctx, comm, finish_forward(&s, io));
    if (st == RT_OK && io->backward) {
        forget_travelling(&s);
        st = rt_comm_agree(ctx, comm, run_pass(&s, &plan->backward, true));
        if (st == RT_OK) {
            store_part(&s, io, RT_SIDE_Q, RT_PAYLOAD_DQ, 0, RT_DQ);
            store_part(&s, io, RT_SIDE_KV, RT_PAYLOAD_DKV, 0, RT_DK);
            store_part(&s, io, RT_SIDE_KV, RT_PAYLOAD_DKV, 1, RT_DV);
        }
    }
    mine.seconds = now() - t0;
    if (st == RT_OK && stats != NULL)
        *stats = mine;
free_ranks:
    for (int32_t r = 0; s.ranks != NULL && r < s.end - s.first; r++)
        rt_rank_buffers_reset(&s.ranks[r]);
    rt_free(s.ranks);
    rt_free(s.requests);
    return st;
}
