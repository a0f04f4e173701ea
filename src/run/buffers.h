/* The numbered buffers of a plan's rank: what each holds, where its parts lie, how a message lands. */
#ifndef RT_RUN_BUFFERS_H
#define RT_RUN_BUFFERS_H

#include "arithmetic/ops.h"

/* What gives a payload its shape. */
typedef struct {
    const rt_problem *p;
    const rt_arithmetic_ops *arith;
} rt_shape;

typedef struct {
    bool held; /* holds `piece`; otherwise the memory is only capacity */
    bool kept; /* from the forward to the backward */
    rt_piece piece;
    double *data;
    int64_t capacity; /* doubles */
} rt_buffer;

/* Buffers of one plan rank: [payload][index]. */
typedef struct {
    int32_t count[RT_PAYLOAD_COUNT];
    rt_buffer *buffer[RT_PAYLOAD_COUNT];
} rt_rank_buffers;

rt_status rt_rank_buffers_create(rt_context *ctx, const int32_t count[RT_PAYLOAD_COUNT],
                                 rt_rank_buffers *out) RT_NODISCARD;
void rt_rank_buffers_reset(rt_rank_buffers *r);

int64_t rt_piece_slots(const rt_piece *piece);
bool rt_piece_equal(const rt_piece *a, const rt_piece *b);
bool rt_piece_contains(const rt_piece *outer, const rt_piece *inner);
/* Doubles of a piece of that payload. */
int64_t rt_piece_doubles(rt_payload payload, const rt_shape *s, const rt_piece *piece);

/* Hold `piece`, contents undefined. */
rt_status rt_buffer_hold(rt_context *ctx, rt_buffer *b, rt_payload payload, const rt_shape *s,
                         const rt_piece *piece) RT_NODISCARD;
/* Hold `piece` with nothing in it: zeros, and m = -inf for a STATE. */
rt_status rt_buffer_clear(rt_context *ctx, rt_buffer *b, rt_payload payload, const rt_shape *s,
                          const rt_piece *piece) RT_NODISCARD;
/* Part number `part`, addressed from slot0 on. */
rt_part rt_buffer_part(const rt_buffer *b, rt_payload payload, const rt_shape *s, int part, int64_t slot0);
/* Make room for `piece` beside the rows of its shard that the buffer holds; new rows hold nothing (zeros, m
 * = -inf).  Rows of another shard are dropped. */
rt_status rt_buffer_extend(rt_context *ctx, rt_buffer *b, rt_payload payload, const rt_shape *s,
                           const rt_piece *piece) RT_NODISCARD;
/* The rows of `piece` were moved away: they hold nothing any more. */
void rt_buffer_leave(rt_buffer *b, rt_payload payload, const rt_shape *s, const rt_piece *piece);
/* Copy a piece out of a buffer that contains it, parts one after the other, as a slab of its own. */
void rt_buffer_extract(const rt_buffer *b, rt_payload payload, const rt_shape *s, const rt_piece *piece,
                       double *out);
/* Let a slab land: put, add (arriving + present) or join. */
rt_status rt_buffer_land(rt_context *ctx, rt_buffer *b, rt_payload payload, const rt_shape *s,
                         const rt_piece *piece, rt_how how, const double *in) RT_NODISCARD;

#endif
