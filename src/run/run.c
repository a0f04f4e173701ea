/* The executor: one loop over steps that runs every plan.
 *
 * Of a step's moves, those between two ranks of this process are copied when they land; the others are
 * posted before the tiles (receives first) and progressed while the tiles compute.  They land in the order
 * of the listing, so the order of every sum and join is the plan's, whichever process ran which rank and
 * whatever arrived first.
 */
#include <math.h>
#include <string.h>
#include <omp.h>
#include <time.h>

#include "run/buffers.h"
#include "run/comm.h"
#include "run/scores.h"

typedef struct {
    rt_context *ctx;
    rt_comm *comm;
    const rt_problem *p;
    const rt_layout *l;
    const rt_plan *plan;
    const rt_arithmetic_ops *arith;
    rt_shape shape;
    int32_t first, end;     /* plan ranks of this process */
    rt_rank_buffers *ranks; /* end - first */
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

static uint64_t mix_pair(uint64_t h, int32_t a, int32_t b)
{
    return mix(mix(h, (uint64_t)a), (uint64_t)b);
}

static uint64_t pass_digest(const rt_pass *a)
{
    uint64_t h = mix(mix(mix(1, (uint64_t)a->n_steps), (uint64_t)a->n_tiles), (uint64_t)a->n_moves);
    for (int64_t i = 0; i < a->n_steps; i++)
        h = mix(mix(mix(mix(h, (uint64_t)a->steps[i].tile0), (uint64_t)a->steps[i].tile1),
                    (uint64_t)a->steps[i].move0),
                (uint64_t)a->steps[i].move1);
    for (int64_t i = 0; i < a->n_tiles; i++) {
        const rt_tile *t = &a->tiles[i];
        h = mix_piece(mix_piece(mix(h, (uint64_t)t->rank), &t->q), &t->kv);
        h = mix(mix_pair(mix_pair(h, t->q_buf, t->kv_buf), t->dst_q, t->dst_kv), (uint64_t)t->call);
    }
    for (int64_t i = 0; i < a->n_moves; i++) {
        const rt_move *m = &a->moves[i];
        h = mix_pair(mix_pair(mix_piece(h, &m->piece), m->from, m->to), m->src_buf, m->dst_buf);
        h = mix_pair(h, (int32_t)m->payload, (int32_t)m->how);
    }
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
    const uint64_t plan = mix(pass_digest(&s->plan->forward), pass_digest(&s->plan->backward));
    RT_TRY(rt_comm_same(s->ctx, s->comm, mix(plan, (uint64_t)s->plan->ranks), "plan"));
    uint64_t h = backward ? 1 : 2;
    for (const char *c = s->arith->name; *c != '\0'; c++)
        h = mix(h, (uint64_t)*c);
    return rt_comm_same(s->ctx, s->comm, h, "arithmetic");
}

/* ---- inputs and results ------------------------------------------------------------------------------ */

static void load_part(const run_state *s, const rt_run_io *io, int32_t rank, rt_side side, rt_payload y,
                      int part, rt_tensor_id t)
{
    const rt_buffer *b = buffer_of(s, rank, y, 0);
    const rt_part to = rt_buffer_part(b, y, &s->shape, part, 0);
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
        RT_TRY(rt_buffer_hold(s->ctx, buffer_of(s, r, RT_PAYLOAD_Q, 0), RT_PAYLOAD_Q, &s->shape, &q));
        RT_TRY(rt_buffer_hold(s->ctx, buffer_of(s, r, RT_PAYLOAD_KV, 0), RT_PAYLOAD_KV, &s->shape, &kv));
        RT_TRY(
            rt_buffer_clear(s->ctx, buffer_of(s, r, RT_PAYLOAD_STATE, 0), RT_PAYLOAD_STATE, &s->shape, &q));
        load_part(s, io, r, RT_SIDE_Q, RT_PAYLOAD_Q, 0, RT_Q);
        load_part(s, io, r, RT_SIDE_KV, RT_PAYLOAD_KV, 0, RT_K);
        load_part(s, io, r, RT_SIDE_KV, RT_PAYLOAD_KV, 1, RT_V);
        if (io->backward) {
            RT_TRY(rt_buffer_hold(s->ctx, buffer_of(s, r, RT_PAYLOAD_DO, 0), RT_PAYLOAD_DO, &s->shape, &q));
            RT_TRY(
                rt_buffer_clear(s->ctx, buffer_of(s, r, RT_PAYLOAD_DQ, 0), RT_PAYLOAD_DQ, &s->shape, &q));
            RT_TRY(rt_buffer_clear(s->ctx, buffer_of(s, r, RT_PAYLOAD_DKV, 0), RT_PAYLOAD_DKV, &s->shape,
                                   &kv));
            load_part(s, io, r, RT_SIDE_Q, RT_PAYLOAD_DO, 0, RT_DOUT);
        }
    }
    return RT_OK;
}

/* ---- the last step of the rows ------------------------------------------------------------------------ */

/* One head's rows at a time are finished by all threads, then given away by one, in order. */
typedef struct {
    const run_state *s;
    const rt_run_io *io;
    rt_finish finish;
    int32_t rank;
    int64_t x, h, width;
    const int64_t *pos;
    rt_part part[RT_MAX_PARTS], row[RT_MAX_PARTS];
    int parts, row_parts;        /* row_parts 0: no backward */
    double *out, *lse;           /* rows */
    rt_certificate *certificate; /* threads x RT_RESULT_COUNT */
} finisher;

static rt_status finish_one(const finisher *f, rt_context *ctx, rt_tensor_id t, int64_t i)
{
    rt_finish mine = f->finish;
    mine.ctx = ctx;
    mine.certificate = f->certificate + (int64_t)omp_get_thread_num() * RT_RESULT_COUNT;
    const double *in[RT_MAX_PARTS] = {NULL};
    double *row[RT_MAX_PARTS] = {NULL};
    for (int k = 0; k < f->parts; k++)
        in[k] = rt_part_at(&f->part[k], f->x, f->h, i);
    for (int k = 0; k < f->row_parts; k++)
        row[k] = rt_part_at(&f->row[k], f->x, f->h, i);
    if (t == RT_OUT)
        return f->s->arith->finish(&mine, f->x, f->h, f->pos[i], in, f->row_parts > 0 ? row : NULL,
                                   f->out + i * f->width, f->lse + i);
    return f->s->arith->finish_gradient(&mine, t, f->x, f->h, f->pos[i], in, f->out + i * f->width);
}

static rt_status finish_head(const finisher *f, rt_tensor_id t, int64_t rows)
{
    rt_status first = RT_OK;
    rt_context *ctx = f->s->ctx;
#pragma omp parallel for schedule(dynamic, 16) default(none) shared(f, t, rows, first, ctx)
    for (int64_t i = 0; i < rows; i++) {
        rt_context mine = {.message = ""};
        const rt_status st = finish_one(f, &mine, t, i);
        if (st != RT_OK) {
#pragma omp critical(rt_run_finish)
            if (first == RT_OK) {
                first = st;
                memcpy(ctx->message, mine.message, sizeof ctx->message);
            }
        }
    }
    if (first != RT_OK)
        return first;
    for (int64_t i = 0; i < rows; i++) {
        f->io->store(f->io->arg, t, f->rank, i, f->x, f->pos[i], f->h, f->out + i * f->width);
        if (t == RT_OUT)
            f->io->store(f->io->arg, RT_LSE, f->rank, i, f->x, f->pos[i], f->h, f->lse + i);
    }
    return RT_OK;
}

/* Tensor t of every rank of this process: its parts are those of payload y from `first` on. */
static rt_status finish_tensor(const run_state *s, const rt_run_io *io, rt_tensor_id t, rt_payload y,
                               int first)
{
    const rt_side side = t == RT_DK || t == RT_DV ? RT_SIDE_KV : RT_SIDE_Q;
    const int threads = omp_get_max_threads();
    finisher f = {.s = s, .io = io, .width = t == RT_OUT || t == RT_DV ? s->p->dim_v : s->p->dim};
    f.finish = (rt_finish){.problem = s->p,
                           .load = io->load,
                           .arg = io->arg,
                           .format = io->result,
                           .lse_format = io->lse_result};
    int64_t most = 0, widths[RT_MAX_PARTS];
    for (int32_t r = s->first; r < s->end; r++)
        most = rt_layout_count(s->l, side, r) > most ? rt_layout_count(s->l, side, r) : most;
    f.out = rt_alloc(s->ctx, most * (f.width + 1), sizeof *f.out);
    f.certificate = rt_calloc(s->ctx, (int64_t)threads * RT_RESULT_COUNT, sizeof *f.certificate);
    rt_status st = f.out == NULL || f.certificate == NULL ? RT_ERR_NOMEM : RT_OK;
    f.lse = f.out + most * f.width;
    for (f.rank = s->first; f.rank < s->end && st == RT_OK; f.rank++) {
        const rt_buffer *b = buffer_of(s, f.rank, y, 0), *row = buffer_of(s, f.rank, RT_PAYLOAD_DO, 0);
        f.pos = rt_layout_positions(s->l, side, f.rank);
        f.parts = s->arith->parts(y, s->p, widths) - first;
        for (int k = 0; k < f.parts; k++)
            f.part[k] = rt_buffer_part(b, y, &s->shape, first + k, 0);
        f.row_parts = t == RT_OUT && io->backward ? s->arith->parts(RT_PAYLOAD_DO, s->p, widths) : 0;
        for (int k = 0; k < f.row_parts; k++)
            f.row[k] = rt_buffer_part(row, RT_PAYLOAD_DO, &s->shape, k, 0);
        for (f.x = 0; f.x < s->p->batch && st == RT_OK; f.x++)
            for (f.h = b->piece.head0; f.h < b->piece.head1 && st == RT_OK; f.h++)
                st = finish_head(&f, t, rt_piece_slots(&b->piece));
    }
    for (int i = 0; i < threads && st == RT_OK; i++)
        for (int k = 0; k < RT_RESULT_COUNT; k++)
            rt_certificate_add(&s->stats->certificate[k], &f.certificate[i * RT_RESULT_COUNT + k]);
    rt_free(f.certificate);
    rt_free(f.out);
    return st;
}

static rt_status finish_backward(const run_state *s, const rt_run_io *io)
{
    int64_t width[RT_MAX_PARTS];
    RT_TRY(finish_tensor(s, io, RT_DQ, RT_PAYLOAD_DQ, 0));
    RT_TRY(finish_tensor(s, io, RT_DK, RT_PAYLOAD_DKV, 0));
    return finish_tensor(s, io, RT_DV, RT_PAYLOAD_DKV,
                         s->arith->parts(RT_PAYLOAD_DKV, s->p, width) / 2); /* first half dK, second dV */
}

/* ---- one step ---------------------------------------------------------------------------------------- */

enum { CHUNK = 1 << 30, TAGS = 30000 };

static rt_status post(run_state *s, bool send, double *data, int64_t doubles, int32_t peer, int64_t tag)
{
    char *bytes = (char *)data;
    const int64_t total = doubles * (int64_t)sizeof *data;
    for (int64_t at = 0; at < total; at += CHUNK) {
        const int n = (int)(total - at < CHUNK ? total - at : CHUNK);
        MPI_Request *r = &s->requests[s->n_requests++];
        *r = MPI_REQUEST_NULL;
        RT_TRY(rt_mpi_check(
            s->ctx,
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
                      .q = rt_buffer_part(q, RT_PAYLOAD_Q, &s->shape, 0, tile->q.slot0),
                      .k = rt_buffer_part(kv, RT_PAYLOAD_KV, &s->shape, 0, tile->kv.slot0),
                      .v = rt_buffer_part(kv, RT_PAYLOAD_KV, &s->shape, 1, tile->kv.slot0),
                      .products = s->stats->products,
                      .poke = s->comm->size > 1 ? poke : NULL,
                      .poke_arg = s};
    /* A destination that holds another piece starts fresh, with the whole shard: what arrives later may
     * cover more of it than this tile does. */
    const rt_payload result = backward ? RT_PAYLOAD_DQ : RT_PAYLOAD_STATE;
    rt_buffer *dst = buffer_of(s, tile->rank, result, tile->dst_q);
    const rt_piece q_whole = whole_shard(s, RT_SIDE_Q, tile->q.shard);
    RT_TRY(rt_buffer_extend(s->ctx, dst, result, &s->shape, &q_whole));
    int64_t width[RT_MAX_PARTS];
    const int parts = s->arith->parts(result, p, width);
    for (int k = 0; k < parts; k++)
        (backward ? t.dq : t.state)[k] = rt_buffer_part(dst, result, &s->shape, k, tile->q.slot0);
    if (!backward)
        return s->arith->forward(s->ctx, &t);
    rt_buffer *dkv = buffer_of(s, tile->rank, RT_PAYLOAD_DKV, tile->dst_kv);
    const rt_piece kv_whole = whole_shard(s, RT_SIDE_KV, tile->kv.shard);
    RT_TRY(rt_buffer_extend(s->ctx, dkv, RT_PAYLOAD_DKV, &s->shape, &kv_whole));
    const rt_buffer *grad = buffer_of(s, tile->rank, RT_PAYLOAD_DO, tile->q_buf);
    const int row_parts = s->arith->parts(RT_PAYLOAD_DO, p, width);
    for (int k = 0; k < row_parts; k++)
        t.row[k] = rt_buffer_part(grad, RT_PAYLOAD_DO, &s->shape, k, tile->q.slot0);
    const int dkv_parts = s->arith->parts(RT_PAYLOAD_DKV, p, width);
    for (int k = 0; k < dkv_parts; k++)
        t.dkv[k] = rt_buffer_part(dkv, RT_PAYLOAD_DKV, &s->shape, k, tile->kv.slot0);
    return s->arith->backward(s->ctx, &t);
}

static bool is_result(rt_payload y)
{
    return y == RT_PAYLOAD_STATE || y == RT_PAYLOAD_DQ || y == RT_PAYLOAD_DKV;
}

/* The slab of a move that starts here: the buffer itself when it holds just this piece, else a copy
 * (*owned). */
static rt_status slab_of(run_state *s, const rt_move *m, double **slab, double **owned)
{
    const rt_buffer *src = buffer_of(s, m->from, m->payload, m->src_buf);
    const bool same = src->held && src->piece.side == m->piece.side && src->piece.shard == m->piece.shard;
    if (same && rt_piece_equal(&src->piece, &m->piece)) {
        *slab = src->data;
        return RT_OK;
    }
    rt_buffer wide = {.held =
                          false}; /* for a result whose rows are not all there: the rest travels empty */
    rt_status st = RT_OK;
    if (!same || !rt_piece_contains(&src->piece, &m->piece)) {
        if (!is_result(m->payload))
            return rt_fail(s->ctx, RT_ERR_FORMAT,
                           "plan: rank %d moves a piece of shard %d that it does not hold", m->from,
                           m->piece.shard);
        if (same) {
            st = rt_buffer_hold(s->ctx, &wide, m->payload, &s->shape, &src->piece);
            if (st == RT_OK)
                rt_buffer_extract(src, m->payload, &s->shape, &src->piece, wide.data);
        }
        if (st == RT_OK)
            st = rt_buffer_extend(s->ctx, &wide, m->payload, &s->shape, &m->piece);
        src = &wide;
    }
    if (st == RT_OK) {
        *owned = rt_alloc(s->ctx, rt_piece_doubles(m->payload, &s->shape, &m->piece), sizeof **owned);
        st = *owned == NULL ? RT_ERR_NOMEM : RT_OK;
    }
    if (st == RT_OK)
        rt_buffer_extract(src, m->payload, &s->shape, &m->piece, *owned);
    *slab = *owned;
    rt_free(wide.data);
    return st;
}

/* Everything of a step that can fail for one process alone and would leave the others waiting: memory,
 * first of all. */
static rt_status prepare_moves(run_state *s, const rt_move *moves, int64_t n, double **slab, double **owned)
{
    int64_t posts = 0;
    for (int64_t i = 0; i < n; i++) {
        const rt_move *m = &moves[i];
        const int64_t doubles = rt_piece_doubles(m->payload, &s->shape, &m->piece);
        if (is_local(s, m->from)) {
            RT_TRY(slab_of(s, m, &slab[i], &owned[i]));
        } else if (is_local(s, m->to)) {
            slab[i] = owned[i] = rt_alloc(s->ctx, doubles, sizeof *owned[i]);
            if (owned[i] == NULL)
                return RT_ERR_NOMEM;
        }
        if (is_local(s, m->from) != is_local(s, m->to))
            posts += doubles * (int64_t)sizeof(double) / CHUNK + 1;
    }
    s->n_requests = 0;
    if (posts > s->cap_requests) {
        rt_free(s->requests);
        s->cap_requests = 0;
        s->requests = rt_alloc(s->ctx, posts, sizeof(MPI_Request));
        if (s->requests == NULL)
            return RT_ERR_NOMEM;
        s->cap_requests = posts;
    }
    return RT_OK;
}

static rt_status post_moves(run_state *s, const rt_move *moves, int64_t n, double *const *slab)
{
    for (int send = 0; send <= 1; send++) /* all receives are posted before the first send */
        for (int64_t i = 0; i < n; i++) {
            const rt_move *m = &moves[i];
            if (is_local(s, m->from) == is_local(s, m->to) || is_local(s, m->from) != (send == 1))
                continue;
            RT_TRY(post(s, send == 1, slab[i], rt_piece_doubles(m->payload, &s->shape, &m->piece),
                        rt_comm_owner(s->comm, send == 1 ? m->to : m->from, s->plan->ranks), i));
        }
    return RT_OK;
}

/* One step.  `before` is what became of the steps before it on this process: all processes learn of a
 * failure here, before anyone starts to wait for a message that will not come.  *agreed says that all gave
 * up together. */
static rt_status run_step(run_state *s, const rt_pass *pass, const rt_step *step, bool backward,
                          rt_status before, bool *agreed)
{
    const rt_move *moves = pass->moves + step->move0;
    const int64_t n = step->move1 - step->move0;
    double **slab = rt_calloc(s->ctx, n, sizeof *slab), **owned = rt_calloc(s->ctx, n, sizeof *owned);
    rt_status st = before;
    if (st == RT_OK)
        st = slab == NULL || owned == NULL ? RT_ERR_NOMEM : prepare_moves(s, moves, n, slab, owned);
    st = rt_comm_agree(s->ctx, s->comm, st);
    if (st != RT_OK) {
        *agreed = true;
        goto free_slabs;
    }
    st = post_moves(s, moves, n, slab);
    for (int64_t i = step->tile0; i < step->tile1 && st == RT_OK; i++)
        if (is_local(s, pass->tiles[i].rank))
            st = compute_tile(s, &pass->tiles[i], backward);
    const double t0 = now();
    if (s->n_requests > 0) {
        const rt_status w = rt_mpi_check(
            s->ctx, MPI_Waitall((int)s->n_requests, s->requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
        st = st == RT_OK ? w : st;
        s->n_requests = 0;
    }
    s->stats->wait_seconds += now() - t0;
    for (int64_t i = 0; i < n && st == RT_OK; i++)
        if (is_local(s, moves[i].to))
            st = rt_buffer_land(s->ctx, buffer_of(s, moves[i].to, moves[i].payload, moves[i].dst_buf),
                                moves[i].payload, &s->shape, &moves[i].piece, moves[i].how, slab[i]);
    /* A result that was sent away is no longer here. */
    for (int64_t i = 0; i < n && st == RT_OK; i++) {
        const rt_move *m = &moves[i];
        if (is_local(s, m->from) && is_result(m->payload) &&
            !(m->from == m->to && m->src_buf == m->dst_buf))
            rt_buffer_leave(buffer_of(s, m->from, m->payload, m->src_buf), m->payload, &s->shape,
                            &m->piece);
    }
free_slabs:
    for (int64_t i = 0; owned != NULL && i < n; i++)
        rt_free(owned[i]);
    rt_free(owned);
    rt_free(slab);
    return st;
}

/* A whole pass; every process returns the same status. */
static rt_status run_pass(run_state *s, const rt_pass *pass, bool backward)
{
    const char *what = backward ? "backward, steps" : "forward, steps";
    rt_status st = RT_OK;
    for (int64_t i = 0; i < pass->n_steps; i++) {
        bool agreed = false;
        rt_progress(s->ctx, what, i, pass->n_steps);
        st = run_step(s, pass, &pass->steps[i], backward, st, &agreed);
        if (agreed)
            return st;
    }
    rt_progress(s->ctx, what, pass->n_steps, pass->n_steps);
    return rt_comm_agree(s->ctx, s->comm, st);
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

rt_status rt_run(rt_context *ctx, rt_comm *comm, const rt_problem *p, const rt_layout *l,
                 const rt_plan *plan, const rt_arithmetic_ops *arith, const rt_run_io *io,
                 rt_run_stats *stats)
{
    rt_run_stats mine = {0};
    run_state s = {.ctx = ctx,
                   .comm = comm,
                   .p = p,
                   .l = l,
                   .plan = plan,
                   .arith = arith,
                   .stats = &mine,
                   .shape = {p, arith}};
    RT_TRY(all_the_same(&s, io->backward));
    if (rt_problem_has_scores(p) && !arith->scores)
        return rt_fail(ctx, RT_ERR_ARG,
                       "arithmetic %s does not compute alibi, bias, softcap, sinks or dropout. Hint: --arith f64",
                       arith->name);
    if (comm->size > plan->ranks) /* everywhere, since the plans are the same */
        return rt_fail(ctx, RT_ERR_ARG,
                       "%d processes for %d plan ranks: at most as many processes as ranks. Hint: "
                       "mpirun -n %d, or --ranks %d",
                       comm->size, plan->ranks, plan->ranks, comm->size);
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
    st = run_pass(&s, &plan->forward, false);
    if (st == RT_OK)
        st = rt_comm_agree(ctx, comm, finish_tensor(&s, io, RT_OUT, RT_PAYLOAD_STATE, 0));
    if (st == RT_OK && io->backward) {
        forget_travelling(&s);
        st = run_pass(&s, &plan->backward, true);
        if (st == RT_OK)
            st = rt_comm_agree(ctx, comm, finish_backward(&s, io));
        if (st == RT_OK)
            st = rt_score_gradients(&(rt_score_run){.ctx = ctx,
                                                    .comm = comm,
                                                    .shape = s.shape,
                                                    .layout = l,
                                                    .first = s.first,
                                                    .end = s.end,
                                                    .ranks = s.ranks,
                                                    .io = io,
                                                    .certificate = mine.certificate});
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
