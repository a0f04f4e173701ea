/* The numbered buffers of a plan's rank. */
#include "run/buffers.h"

#include <math.h>
#include <string.h>

rt_status rt_rank_buffers_create(rt_context *ctx, const int32_t count[RT_PAYLOAD_COUNT],
                                 rt_rank_buffers *out)
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

int64_t rt_piece_doubles(rt_payload payload, const rt_shape *s, const rt_piece *piece)
{
    int64_t width[RT_MAX_PARTS], sum = 0;
    const int parts = s->arith->parts(payload, s->p, width);
    for (int k = 0; k < parts; k++)
        sum += width[k];
    return s->p->batch * (piece->head1 - piece->head0) * rt_piece_slots(piece) * sum;
}

rt_status rt_buffer_hold(rt_context *ctx, rt_buffer *b, rt_payload payload, const rt_shape *s,
                         const rt_piece *piece)
{
    const int64_t need = rt_piece_doubles(payload, s, piece);
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

rt_part rt_buffer_part(const rt_buffer *b, rt_payload payload, const rt_shape *s, int part, int64_t slot0)
{
    int64_t width[RT_MAX_PARTS], before = 0;
    (void)s->arith->parts(payload, s->p, width);
    for (int k = 0; k < part; k++)
        before += width[k];
    const int64_t slots = rt_piece_slots(&b->piece), heads = b->piece.head1 - b->piece.head0;
    return (rt_part){.base = b->data + s->p->batch * heads * slots * before +
                             (slot0 - b->piece.slot0) * width[part],
                     .batch = heads * slots * width[part],
                     .head = slots * width[part],
                     .width = width[part],
                     .head0 = b->piece.head0};
}

/* The rows of `piece` (which the buffer holds) hold nothing: zeros, and m = -inf in a STATE. */
static void clear_rows(const rt_buffer *b, rt_payload payload, const rt_shape *s, const rt_piece *piece)
{
    int64_t width[RT_MAX_PARTS];
    const int parts = s->arith->parts(payload, s->p, width);
    const int64_t slots = rt_piece_slots(piece);
    for (int k = 0; k < parts; k++) {
        const rt_part part = rt_buffer_part(b, payload, s, k, piece->slot0);
        for (int64_t x = 0; x < s->p->batch; x++)
            for (int64_t h = piece->head0; h < piece->head1; h++) {
                double *rows = rt_part_at(&part, x, h, 0);
                for (int64_t i = 0; i < slots * width[k]; i++)
                    rows[i] = payload == RT_PAYLOAD_STATE && k == s->arith->state_m ? -RT_INF : 0.0;
            }
    }
}

rt_status rt_buffer_clear(rt_context *ctx, rt_buffer *b, rt_payload payload, const rt_shape *s,
                          const rt_piece *piece)
{
    RT_TRY(rt_buffer_hold(ctx, b, payload, s, piece));
    clear_rows(b, payload, s, piece);
    return RT_OK;
}

/* Rows of a slab of `piece` into the same rows of a buffer. */
static void put_rows(const rt_buffer *b, rt_payload payload, const rt_shape *s, const rt_piece *piece,
                     const double *in)
{
    int64_t width[RT_MAX_PARTS];
    const int parts = s->arith->parts(payload, s->p, width);
    for (int k = 0; k < parts; k++) {
        const rt_part to = rt_buffer_part(b, payload, s, k, piece->slot0);
        const int64_t run = rt_piece_slots(piece) * width[k];
        for (int64_t x = 0; x < s->p->batch; x++)
            for (int64_t h = piece->head0; h < piece->head1; h++, in += run)
                memcpy(rt_part_at(&to, x, h, 0), in, (size_t)run * sizeof *in);
    }
}

rt_status rt_buffer_extend(rt_context *ctx, rt_buffer *b, rt_payload payload, const rt_shape *s,
                           const rt_piece *piece)
{
    if (b->held && rt_piece_contains(&b->piece, piece))
        return RT_OK;
    if (!b->held || b->piece.side != piece->side || b->piece.shard != piece->shard)
        return rt_buffer_clear(ctx, b, payload, s, piece);
    rt_piece both = b->piece; /* the smallest piece that contains the two */
    both.slot0 = piece->slot0 < both.slot0 ? piece->slot0 : both.slot0;
    both.slot1 = piece->slot1 > both.slot1 ? piece->slot1 : both.slot1;
    both.head0 = piece->head0 < both.head0 ? piece->head0 : both.head0;
    both.head1 = piece->head1 > both.head1 ? piece->head1 : both.head1;
    rt_buffer grown = {.held = false};
    RT_TRY(rt_buffer_clear(ctx, &grown, payload, s, &both));
    put_rows(&grown, payload, s, &b->piece, b->data);
    rt_free(b->data);
    *b = grown;
    return RT_OK;
}

void rt_buffer_leave(rt_buffer *b, rt_payload payload, const rt_shape *s, const rt_piece *piece)
{
    if (!b->held || !rt_piece_contains(&b->piece, piece))
        return; /* nothing was there: an empty result was sent */
    if (rt_piece_equal(&b->piece, piece))
        b->held = false;
    else
        clear_rows(b, payload, s, piece);
}

void rt_buffer_extract(const rt_buffer *b, rt_payload payload, const rt_shape *s, const rt_piece *piece,
                       double *out)
{
    int64_t width[RT_MAX_PARTS];
    const int parts = s->arith->parts(payload, s->p, width);
    const int64_t slots = rt_piece_slots(piece);
    for (int k = 0; k < parts; k++) {
        const rt_part from = rt_buffer_part(b, payload, s, k, piece->slot0);
        for (int64_t x = 0; x < s->p->batch; x++)
            for (int64_t h = piece->head0; h < piece->head1; h++) {
                memcpy(out, rt_part_at(&from, x, h, 0), (size_t)(slots * width[k]) * sizeof *out);
                out += slots * width[k];
            }
    }
}

rt_status rt_buffer_land(rt_context *ctx, rt_buffer *b, rt_payload payload, const rt_shape *s,
                         const rt_piece *piece, rt_how how, const double *in)
{
    if (!b->held || b->piece.side != piece->side || b->piece.shard != piece->shard) {
        RT_TRY(rt_buffer_hold(ctx, b, payload, s, piece));
        how = RT_PUT; /* onto nothing: as it is */
    }
    RT_TRY(rt_buffer_extend(ctx, b, payload, s, piece));
    if (how == RT_PUT) {
        put_rows(b, payload, s, piece, in);
        return RT_OK;
    }
    int64_t width[RT_MAX_PARTS];
    const int parts = s->arith->parts(payload, s->p, width);
    const int64_t slots = rt_piece_slots(piece), rows = s->p->batch * (piece->head1 - piece->head0) * slots;
    const double *part_in[RT_MAX_PARTS];
    rt_part part[RT_MAX_PARTS];
    for (int k = 0; k < parts; k++) {
        part_in[k] = in;
        in += rows * width[k];
        part[k] = rt_buffer_part(b, payload, s, k, piece->slot0);
    }
    int64_t row = 0;
    for (int64_t x = 0; x < s->p->batch; x++)
        for (int64_t h = piece->head0; h < piece->head1; h++, row += slots) {
            const double *arriving[RT_MAX_PARTS] = {NULL};
            double *present[RT_MAX_PARTS] = {NULL};
            for (int k = 0; k < parts; k++) {
                arriving[k] = part_in[k] + row * width[k];
                present[k] = rt_part_at(&part[k], x, h, 0);
            }
            s->arith->land(payload, s->p, slots, arriving, present);
        }
    return RT_OK;
}
