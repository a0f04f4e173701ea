/* The executor: one loop over steps that runs every plan.  A step's messages are posted before its tiles and
 * progressed while these compute (exchange.c); then they land, in the order of the listing. */
#include <math.h>
#include <string.h>
#include <omp.h>

#include "plan/build.h"
#include "run/exchange.h"
#include "run/same.h"
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
    int64_t *ran;           /* end - first: tiles that a rank has computed in the pass */
    rt_run_stats *stats;
    rt_exchange x;
} run_state;

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
#pragma omp parallel for schedule(dynamic, 16) if (rows > 16) default(none) shared(f, t, rows, first, ctx)
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
                      .poke = s->comm->size > 1 ? rt_exchange_poke : NULL,
                      .poke_arg = &s->x};
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

static rt_status timed_tile(run_state *s, const rt_pass *pass, int64_t i, bool backward)
{
    const rt_tile *tile = &pass->tiles[i];
    const double begin = rt_run_now(), progress = s->x.progress;
    RT_TRY(compute_tile(s, tile, backward));
#ifdef RT_SMPI /* time stands still while we compute; the simulated host takes this long */
    smpi_execute_flops((double)tile->pairs * (double)(tile->q.head1 - tile->q.head0) *
                       rt_plan_pair_flops(s->p, backward));
#endif
    const double end = rt_run_now();
    s->stats->compute_seconds += end - begin - (s->x.progress - progress);
    rt_event e = rt_exchange_event(&s->x, RT_EVENT_TILE, begin, end);
    e.rank = tile->rank;
    e.index = s->ran[tile->rank - s->first]++;
    e.pairs = tile->pairs * (tile->q.head1 - tile->q.head0);
    return rt_trace_add(s->ctx, s->x.trace, &e);
}

/* One step.  `before` is what became of the steps before it on this process: all processes learn of a
 * failure here, before anyone starts to wait for a message that will not come.  *agreed says that all gave
 * up together. */
static rt_status run_step(run_state *s, const rt_pass *pass, int64_t number, bool backward,
                          rt_status before, bool *agreed)
{
    const rt_step *step = &pass->steps[number];
    const double begin = rt_run_now();
    rt_status st = before;
    if (st == RT_OK)
        st = rt_exchange_prepare(&s->x, pass, backward, number);
    st = rt_comm_agree(s->ctx, s->comm, st);
    if (st != RT_OK) {
        *agreed = true;
        goto clear_exchange;
    }
    st = rt_exchange_post(&s->x);
    for (int64_t i = step->tile0; i < step->tile1 && st == RT_OK; i++)
        if (is_local(s, pass->tiles[i].rank))
            st = timed_tile(s, pass, i, backward);
    const rt_status w = rt_exchange_wait(&s->x);
    st = st == RT_OK ? w : st;
    if (st == RT_OK)
        st = rt_exchange_land(&s->x);
    if (st == RT_OK) {
        rt_event e = rt_exchange_event(&s->x, RT_EVENT_STEP, begin, rt_run_now());
        e.bytes = (int64_t)(s->stats->bytes_sent - s->x.bytes0);
        e.messages = (int64_t)(s->stats->messages - s->x.messages0);
        st = rt_trace_add(s->ctx, s->x.trace, &e);
    }
clear_exchange:
    rt_exchange_clear(&s->x);
    return st;
}

/* A whole pass; every process returns the same status. */
static rt_status run_pass(run_state *s, const rt_pass *pass, bool backward)
{
    const char *what = backward ? "backward, steps" : "forward, steps";
    rt_status st = RT_OK;
    memset(s->ran, 0, (size_t)(s->end - s->first) * sizeof *s->ran);
    for (int64_t i = 0; i < pass->n_steps; i++) {
        bool agreed = false;
        rt_progress(s->ctx, what, i, pass->n_steps);
        st = run_step(s, pass, i, backward, st, &agreed);
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

/* What travelled in the forward is not what the backward's buffers hold at its start, but for what the plan says
 * they keep. */
static void forget_travelling(const run_state *s)
{
    const rt_pass *pass = &s->plan->backward;
    for (int64_t i = 0; i < pass->n_held; i++)
        if (is_local(s, pass->held[i].rank))
            buffer_of(s, pass->held[i].rank, pass->held[i].payload, pass->held[i].buf)->kept = true;
    for (int32_t r = 0; r < s->end - s->first; r++)
        for (int y = 0; y < RT_PAYLOAD_COUNT; y++)
            for (int32_t i = 1; i < s->ranks[r].count[y]; i++) {
                rt_buffer *b = &s->ranks[r].buffer[y][i];
                b->held = b->held && b->kept;
            }
}

/* Which steps compute, on any rank: process 0 has the whole plan, and all hear it. */
static rt_status who_computes(rt_context *ctx, rt_comm *comm, const rt_plan *plan, uint8_t *out)
{
    const rt_pass *pass[2] = {&plan->forward, &plan->backward};
    int64_t at = 0;
    for (int b = 0; b < 2; b++)
        for (int64_t i = 0; i < pass[b]->n_steps; i++)
            out[at++] = pass[b]->steps[i].tile0 < pass[b]->steps[i].tile1;
    return rt_comm_broadcast(ctx, comm, out, at);
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
    const rt_ranks of = rt_comm_ranks(comm, plan->ranks);
    s.first = of.first;
    s.end = of.end;
    RT_TRY(rt_run_same(&(rt_same){.ctx = ctx,
                                  .comm = comm,
                                  .p = p,
                                  .l = l,
                                  .plan = plan,
                                  .of = of,
                                  .backward = io->backward,
                                  .transport = io->transport,
                                  .arithmetic = arith->name}));
    if (rt_problem_has_scores(p) && !arith->scores)
        return rt_fail(
            ctx, RT_ERR_ARG,
            "arithmetic %s does not compute alibi, bias, softcap, sinks or dropout. Hint: --arith f64",
            arith->name);
    if (comm->size > plan->ranks) /* everywhere, since the plans are the same */
        return rt_fail(ctx, RT_ERR_ARG,
                       "%d processes for %d plan ranks: at most as many processes as ranks. Hint: "
                       "mpirun -n %d, or --ranks %d",
                       comm->size, plan->ranks, plan->ranks, comm->size);
    rt_status st = RT_OK;
    if (comm->rank == 0) /* the plans are the same */
        st = rt_plan_verify(ctx, plan, p, l);
    RT_TRY(rt_comm_agree(ctx, comm, st));
    s.ranks = rt_calloc(ctx, s.end - s.first, sizeof *s.ranks);
    s.ran = rt_calloc(ctx, s.end - s.first, sizeof *s.ran);
    uint8_t *computes = rt_calloc(ctx, plan->forward.n_steps + plan->backward.n_steps + 1, 1);
    if (s.ranks == NULL || s.ran == NULL || computes == NULL)
        st = RT_ERR_NOMEM;
    int32_t count[RT_PAYLOAD_COUNT];
    count_buffers(plan, count);
    for (int32_t r = 0; r < s.end - s.first && st == RT_OK; r++)
        st = rt_rank_buffers_create(ctx, count, &s.ranks[r]);
    s.x = (rt_exchange){.ctx = ctx,
                        .comm = comm,
                        .plan = plan,
                        .shape = s.shape,
                        .first = s.first,
                        .end = s.end,
                        .ranks = s.ranks,
                        .stats = &mine,
                        .trace = io->trace,
                        .transport = io->transport,
                        .computes = computes};
    if (st == RT_OK)
        st = load_inputs(&s, io);
    st = rt_comm_agree(ctx, comm, st); /* nobody starts to wait for a process that has given up */
    if (st == RT_OK)
        st = rt_comm_agree(ctx, comm, who_computes(ctx, comm, plan, computes));
    if (st != RT_OK)
        goto free_ranks;

    s.x.t0 = rt_run_now();
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
    mine.seconds = rt_run_now() - s.x.t0;
    if (st == RT_OK && stats != NULL)
        *stats = mine;
free_ranks:
    for (int32_t r = 0; s.ranks != NULL && r < s.end - s.first; r++)
        rt_rank_buffers_reset(&s.ranks[r]);
    rt_free(s.ranks);
    rt_free(s.ran);
    rt_free(computes);
    rt_exchange_reset(&s.x);
    return st;
}
