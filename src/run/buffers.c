/* The numbered buffers of a plan's rank. */
#include "run/buffers.h"

#include <math.h>
#include <string.h>

int rt_payload_parts(rt_payload payload, const rt_problem *p, int64_t width[RT_MAX_PARTS])
{
    width[1] = width[2] = width[3] = 1;
    switch (payload) {
    case RT_PAYLOAD_KV:
    case RT_PAYLOAD_DKV:
        width[0] = p->dim;
        width[1] = p->dim_v;
        return 2;
    case RT_PAYLOAD_STATE:
        width[0] = p->dim_v;
        return 3;
    case RT_PAYLOAD_DO:
        width[0] = p->dim_v;
        return 4;
    case RT_PAYLOAD_Q:
    case RT_PAYLOAD_DQ:
    case RT_PAYLOAD_COUNT:
    default:
        width[0] = p->dim;
        return 1;
    }
}

rt_status rt_rank_buffers_create(rt_context *ctx, const int32_t count[RT_PAYLOAD_COUNT], rt_rank_buffers *out)
{
    memset(out, 0, sizeof *out);
    for (int y = 0; y < RT_PAYLOAD_COUNT; y++) {
        out->buffer[y] = rt_calloc(ctx, count[y], sizeof *out->buffer[y]);
        if (out->buffer[y] == NULL) {
            rt_rank_buffers_reset(out);
            return RT_ERR_NOMEM;
        }
        out->count[y] = count[y];
    }
    return RT_OK;
}

void rt_rank_buffers_reset(rt_rank_buffers *r)
{
    for (int y = 0; y < RT_PAYLOAD_COUNT; y++) {
        for (int32_t i = 0; i < r->count[y]; i++)
            rt_free(r->buffer[y][i].data);
        rt_free(r->buffer[y]);
        r->buffer[y] = NULL;
        r->count[y] = 0;
    }
}

int64_t rt_piece_slots(const rt_piece *piece)
{
    return piece->slot1 - piece->slot0;
}

bool rt_piece_equal(const rt_piece *a, const rt_piece *b)
{
    return a->side == b->side && a->shard == b->shard && a->slot0 == b->slot0 && a->slot1 == b->slot1 &&
           a->head0 == b->head0 && a->head1 == b->head1;
}

bool rt_piece_contains(const rt_piece *o, const rt_piece *i)
{
    return o->side == i->side && o->shard == i->shard && o->slot0 <= i->slot0 && i->slot1 <= o->slot1 &&
           o->head0 <= i->head0 && i->head1 <= o->head1;
}

int64_t rt_piece_doubles(rt_payload payload, const rt_problem *p, const rt_piece *piece)
{
    int64_t width[RT_MAX_PARTS], sum = 0;
    const int parts = rt_payload_parts(payload, p, width);
    for (int k = 0; k < parts; k++)
        sum += width[k];
    return p->batch * (piece->head1 - piece->head0) * rt_piece_slots(piece) * sum;
}

rt_status rt_buffer_hold(rt_context *ctx, rt_buffer *b, rt_payload payload, const rt_problem *p, const rt_piece *piece)
{
    const int64_t need = rt_piece_doubles(payload, p, piece);
    if (need > b->capacity || b->data == NULL) {
        double *data = rt_alloc(ctx, need, sizeof *data);
        if (data == NULL)
            return RT_ERR_NOMEM;
        rt_free(b->data);
        b->data = data;
        b->capacity = need;
    }
    b->piece = *piece;
    b->held = true;
    return RT_OK;
}

rt_status rt_buffer_clear(rt_context *ctx, rt_buffer *b, rt_payload payload, const rt_problem *p, const rt_piece *piece)
{
    RT_TRY(rt_buffer_hold(ctx, b, payload, p, piece));
    memset(b->data, 0, (size_t)rt_piece_doubles(payload, p, piece) * sizeof *b->data);
    if (payload == RT_PAYLOAD_STATE) {
        const int64_t rows = p->batch * (piece->head1 - piece->head0) * rt_piece_slots(piece);
        double *m = b->data + rows * p->dim_v;
        for (int64_t i = 0; i < rows; i++)
            m[i] = -RT_INF;
    }
    return RT_OK;
}

rt_part rt_buffer_part(const rt_buffer *b, rt_payload payload, const rt_problem *p, int part, int64_t slot0)
{
    int64_t width[RT_MAX_PARTS], before = 0;
    (void)rt_payload_parts(payload, p, width);
    for (int k = 0; k < part; k++)
        before += width[k];
    const int64_t slots = rt_piece_slots(&b->piece), heads = b->piece.head1 - b->piece.head0;
    return (rt_part){.base = b->data + p->batch * heads * slots * before + (slot0 - b->piece.slot0) * width[part],
                     .batch = heads * slots * width[part],
                     .head = slots * width[part],
                     .width = width[part],
                     .head0 = b->piece.head0};
}

void rt_buffer_extract(const rt_buffer *b, rt_payload payload, const rt_problem *p, const rt_piece *piece, double *out)
{
    int64_t width[RT_MAX_PARTS];
    const int parts = rt_payload_parts(payload, p, width);
    const int64_t slots = rt_piece_slots(piece);
    for (int k = 0; k < parts; k++) {
        const rt_part from = rt_buffer_part(b, payload, p, k, piece->slot0);
        for (int64_t x = 0; x < p->batch; x++)
            for (int64_t h = piece->head0; h < piece->head1; h++) {
                memcpy(out, rt_part_at(&from, x, h, 0), (size_t)(slots * width[k]) * sizeof *out);
                out += slots * width[k];
            }
    }
}

rt_status rt_buffer_land(rt_context *ctx, rt_buffer *b, rt_payload payload, const rt_problem *p, const rt_piece *piece,
                         rt_how how, const rt_arithmetic_ops *arith, const double *in)
{
    if (how == RT_PUT || !b->held || !rt_piece_contains(&b->piece, piece)) {
        if (how == RT_PUT && b->held && rt_piece_contains(&b->piece, piece) && !rt_piece_equal(&b->piece, piece)) {
            how = RT_PUT; /* a part of what is held: the rest stays */
        } else {
            RT_TRY(rt_buffer_hold(ctx, b, payload, p, piece));
            memcpy(b->data, in, (size_t)rt_piece_doubles(payload, p, piece) * sizeof *b->data);
            return RT_OK;
        }
    }
    int64_t width[RT_MAX_PARTS];
    const int parts = rt_payload_parts(payload, p, width);
    const int64_t slots = rt_piece_slots(piece), rows = p->batch * (piece->head1 - piece->head0) * slots;
    const double *part_in[RT_MAX_PARTS];
    for (int k = 0; k < parts; k++) {
        part_in[k] = in;
        in += rows * width[k];
    }
    rt_part part[RT_MAX_PARTS];
    for (int k = 0; k < parts; k++)
        part[k] = rt_buffer_part(b, payload, p, k, piece->slot0);
    int64_t row = 0;
    for (int64_t x = 0; x < p->batch; x++)
        for (int64_t h = piece->head0; h < piece->head1; h++, row += slots) {
            if (how == RT_JOIN) {
                arith->join(slots, width[0], part_in[0] + row * width[0], part_in[1] + row, part_in[2] + row,
                            rt_part_at(&part[0], x, h, 0), rt_part_at(&part[1], x, h, 0), rt_part_at(&part[2], x, h, 0));
                continue;
            }
            for (int k = 0; k < parts; k++) {
                double *to = rt_part_at(&part[k], x, h, 0);
                const double *from = part_in[k] + row * width[k];
                if (how == RT_PUT)
                    memcpy(to, from, (size_t)(slots * width[k]) * sizeof *to);
                else
                    for (int64_t i = 0; i < slots * width[k]; i++)
                        to[i] = from[i] + to[i];
            }
        }
    return RT_OK;
}
