/* The structure of a pass: what must hold before anything can be proved about it. */
#include "plan/grid.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    rt_context *ctx;
    const rt_problem *p;
    const rt_layout *l;
    bool backward;
    const char *kind; /* what is being looked at: "tile", "move", "held piece" */
    int64_t step, index;
    int32_t rank;
    char *text; /* room for 96: "backward step 3 rank 1: move 17" */
} structure;

/* Put into words only where something is wrong: there may be millions. */
static const char *where(const structure *s)
{
    const char *pass = s->backward ? "backward" : "forward";
    if (s->step < 0)
        (void)snprintf(s->text, 96, "%s rank %d: %s %lld", pass, (int)s->rank, s->kind,
                       (long long)s->index);
    else
        (void)snprintf(s->text, 96, "%s step %lld rank %d: %s %lld", pass, (long long)s->step, (int)s->rank,
                       s->kind, (long long)s->index);
    return s->text;
}

static void look_at(structure *s, const char *kind, int64_t step, int32_t rank, int64_t index)
{
    s->kind = kind;
    s->step = step;
    s->rank = rank;
    s->index = index;
}

static rt_status rank_check(const structure *s, const char *what, int32_t rank)
{
    if (rank >= 0 && rank < s->l->ranks)
        return RT_OK;
    return rt_fail(s->ctx, RT_ERR_FORMAT, "%s: %s is rank %d; ranks are 0 .. %d", where(s), what, (int)rank,
                   (int)s->l->ranks - 1);
}

static rt_status buffer_check(const structure *s, const char *what, int32_t buf)
{
    if (buf >= 0 && buf < RT_BUFFER_LIMIT)
        return RT_OK;
    return rt_fail(s->ctx, RT_ERR_FORMAT, "%s: %s is %d; buffers are 0 .. %d", where(s), what, (int)buf,
                   RT_BUFFER_LIMIT - 1);
}

static rt_status piece_check(const structure *s, rt_payload payload, const rt_piece *piece)
{
    char text[RT_PIECE_TEXT];
    if (piece->side != rt_payload_side(payload))
        return rt_fail(s->ctx, RT_ERR_FORMAT, "%s: a piece of %s is on the side of the %s", where(s),
                       rt_payload_name(payload), piece->side == RT_SIDE_Q ? "queries" : "keys");
    RT_TRY(rank_check(s, "the shard of a piece", piece->shard));
    const int64_t slots = rt_layout_count(s->l, piece->side, piece->shard);
    const int64_t heads = piece->side == RT_SIDE_Q ? s->p->heads_q : s->p->heads_kv;
    if (piece->slot0 < 0 || piece->slot0 >= piece->slot1 || piece->slot1 > slots || piece->head0 < 0 ||
        piece->head0 >= piece->head1 || piece->head1 > heads)
        return rt_fail(s->ctx, RT_ERR_FORMAT,
                       "%s: %s is empty or outside the shard's %lld slots and %lld heads", where(s),
                       rt_piece_text(text, payload, piece), (long long)slots, (long long)heads);
    return RT_OK;
}

static rt_status home_check(const structure *s, rt_payload payload, int32_t rank, int32_t buf,
                            int32_t shard)
{
    if (buf != 0 || rank == shard)
        return RT_OK;
    return rt_fail(
        s->ctx, RT_ERR_FORMAT,
        "%s: %s of shard %d would land in buffer 0 of rank %d, the home of shard %d's own results",
        where(s), rt_payload_name(payload), (int)shard, (int)rank, (int)rank);
}

static rt_status tile_check(const structure *s, const rt_tile *t)
{
    RT_TRY(rank_check(s, "the computing rank", t->rank));
    RT_TRY(piece_check(s, RT_PAYLOAD_Q, &t->q));
    RT_TRY(piece_check(s, RT_PAYLOAD_KV, &t->kv));
    RT_TRY(buffer_check(s, "q_buf", t->q_buf));
    RT_TRY(buffer_check(s, "kv_buf", t->kv_buf));
    RT_TRY(buffer_check(s, "dst_q", t->dst_q));
    RT_TRY(buffer_check(s, "dst_kv", t->dst_kv));
    const int64_t group = s->p->heads_q / s->p->heads_kv;
    if (t->q.head0 / group != t->kv.head0 || (t->q.head1 - 1) / group != t->kv.head1 - 1)
        return rt_fail(
            s->ctx, RT_ERR_FORMAT,
            "%s: query heads [%lld, %lld) do not belong to key heads [%lld, %lld), %lld to a key head",
            where(s), (long long)t->q.head0, (long long)t->q.head1, (long long)t->kv.head0,
            (long long)t->kv.head1, (long long)group);
    RT_TRY(home_check(s, s->backward ? RT_PAYLOAD_DQ : RT_PAYLOAD_STATE, t->rank, t->dst_q, t->q.shard));
    if (s->backward)
        return home_check(s, RT_PAYLOAD_DKV, t->rank, t->dst_kv, t->kv.shard);
    if (t->dst_kv != 0)
        return rt_fail(s->ctx, RT_ERR_FORMAT, "%s: dst_kv is %d; the forward has no DKV, so it must be 0",
                       where(s), (int)t->dst_kv);
    return RT_OK;
}

/* A tile's place in the order in which those of one kernel call are neighbours, by the shard of their queries. */
typedef struct {
    const rt_tile *tile;
    int64_t index;
} call_place;

static int call_compare(const void *a, const void *b)
{
    const call_place *x = a, *y = b;
    const int64_t key[3][2] = {{x->tile->rank, y->tile->rank},
                               {x->tile->call, y->tile->call},
                               {x->tile->q.shard, y->tile->q.shard}};
    for (int k = 0; k < 3; k++)
        if (key[k][0] != key[k][1])
            return key[k][0] < key[k][1] ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* The calls of a rank in a step are numbered 0, 1, .. without a gap, and a call has one partial per query: its
 * tiles of one shard's queries have one destination. */
static rt_status calls_check(structure *s, const rt_pass *pass, int64_t t, call_place *order)
{
    const int64_t first = pass->steps[t].tile0, n = pass->steps[t].tile1 - first;
    for (int64_t i = 0; i < n; i++)
        order[i] = (call_place){&pass->tiles[first + i], first + i};
    qsort(order, (size_t)n, sizeof *order, call_compare);
    for (int64_t i = 0; i < n; i++) {
        const rt_tile *x = order[i].tile, *before = i > 0 ? order[i - 1].tile : NULL;
        const bool same_rank = before != NULL && before->rank == x->rank;
        const int64_t next = same_rank ? (int64_t)before->call + 1 : 0;
        look_at(s, "tile", t, x->rank, order[i].index);
        if (!(same_rank && x->call == before->call) && x->call != next)
            return rt_fail(
                s->ctx, RT_ERR_FORMAT,
                "%s is of kernel call %d; the calls of a rank in a step are numbered from 0 without "
                "a gap, and %lld is missing",
                where(s), (int)x->call, (long long)next);
        if (same_rank && x->call == before->call && x->q.shard == before->q.shard &&
            (x->dst_q != before->dst_q || x->q_buf != before->q_buf))
            return rt_fail(
                s->ctx, RT_ERR_FORMAT,
                "%s and tile %lld are one kernel call (%d) for Q shard %d, but read buffers %d and "
                "%d, write buffers %d and %d",
                where(s), (long long)order[i - 1].index, (int)x->call, (int)x->q.shard, (int)x->q_buf,
                (int)before->q_buf, (int)x->dst_q, (int)before->dst_q);
    }
    return RT_OK;
}

static bool payload_allowed(rt_payload payload, bool backward)
{
    switch (payload) {
    case RT_PAYLOAD_Q:
    case RT_PAYLOAD_KV:
        return true;
    case RT_PAYLOAD_STATE:
        return !backward;
    case RT_PAYLOAD_DO:
    case RT_PAYLOAD_DQ:
    case RT_PAYLOAD_DKV:
        return backward;
    case RT_PAYLOAD_COUNT:
        break;
    }
    return false;
}

static rt_status move_check(const structure *s, const rt_move *m)
{
    if (!payload_allowed(m->payload, s->backward))
        return rt_fail(s->ctx, RT_ERR_FORMAT, "%s: payload %d does not belong in the %s", where(s),
                       (int)m->payload, s->backward ? "backward" : "forward");
    const rt_how accumulate = m->payload == RT_PAYLOAD_STATE ? RT_JOIN : RT_ADD;
    if (m->how != RT_PUT && (!rt_payload_is_result(m->payload) || m->how != accumulate))
        return rt_fail(s->ctx, RT_ERR_FORMAT, "%s: %s cannot be moved with %s", where(s),
                       rt_payload_name(m->payload),
                       rt_how_name(m->how) != NULL ? rt_how_name(m->how) : "?");
    RT_TRY(rank_check(s, "the sender", m->from));
    RT_TRY(rank_check(s, "the receiver", m->to));
    RT_TRY(piece_check(s, m->payload, &m->piece));
    RT_TRY(buffer_check(s, "src_buf", m->src_buf));
    RT_TRY(buffer_check(s, "dst_buf", m->dst_buf));
    if (rt_payload_is_result(m->payload))
        return home_check(s, m->payload, m->to, m->dst_buf, m->piece.shard);
    if (m->dst_buf == 0)
        return rt_fail(s->ctx, RT_ERR_FORMAT,
                       "%s: %s lands in buffer 0 of rank %d, the home of that rank's own %s", where(s),
                       rt_payload_name(m->payload), (int)m->to, rt_payload_name(m->payload));
    return RT_OK;
}

static rt_status held_check(const structure *s, const rt_held *x)
{
    if (x->payload != RT_PAYLOAD_Q && x->payload != RT_PAYLOAD_KV)
        return rt_fail(s->ctx, RT_ERR_FORMAT,
                       "%s: %s cannot be held from the forward to the backward; Q and KV can", where(s),
                       rt_payload_name(x->payload) != NULL ? rt_payload_name(x->payload) : "?");
    RT_TRY(rank_check(s, "the holding rank", x->rank));
    RT_TRY(piece_check(s, x->payload, &x->piece));
    RT_TRY(buffer_check(s, "its buffer", x->buf));
    if (x->buf == 0)
        return rt_fail(
            s->ctx, RT_ERR_FORMAT,
            "%s: it is in buffer 0 of rank %d, the home of that rank's own %s, which stays there "
            "anyway",
            where(s), (int)x->rank, rt_payload_name(x->payload));
    return RT_OK;
}

rt_status rt_pass_structure_check(rt_context *ctx, const rt_pass *pass, const rt_problem *p,
                                  const rt_layout *l, bool backward)
{
    char text[96];
    structure s = {.ctx = ctx, .p = p, .l = l, .backward = backward, .text = text};
    const char *name = backward ? "backward" : "forward";
    int64_t tile = 0, move = 0;
    for (int64_t t = 0; t < pass->n_steps; t++) {
        const rt_step *step = &pass->steps[t];
        if (step->tile0 != tile || step->tile1 < tile || step->tile1 > pass->n_tiles ||
            step->move0 != move || step->move1 < move || step->move1 > pass->n_moves)
            return rt_fail(ctx, RT_ERR_FORMAT,
                           "%s step %lld: its tiles and moves do not follow those of the step before", name,
                           (long long)t);
        for (; tile < step->tile1; tile++) {
            look_at(&s, "tile", t, pass->tiles[tile].rank, tile);
            RT_TRY(tile_check(&s, &pass->tiles[tile]));
        }
        for (; move < step->move1; move++) {
            look_at(&s, "move", t, pass->moves[move].from, move);
            RT_TRY(move_check(&s, &pass->moves[move]));
        }
    }
    if (tile != pass->n_tiles || move != pass->n_moves)
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: %lld tiles and %lld moves are in no step", name,
                       (long long)(pass->n_tiles - tile), (long long)(pass->n_moves - move));
    for (int64_t i = 0; i < pass->n_held; i++) {
        look_at(&s, "held piece", -1, pass->held[i].rank, i);
        RT_TRY(held_check(&s, &pass->held[i]));
    }
    call_place *order = rt_alloc(ctx, pass->n_tiles, sizeof *order);
    rt_status status = order != NULL ? RT_OK : RT_ERR_NOMEM;
    for (int64_t t = 0; t < pass->n_steps && status == RT_OK; t++)
        status = calls_check(&s, pass, t, order);
    rt_free(order);
    return status;
}
