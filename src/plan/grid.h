/* Structure checks of a pass, and the grid of its cells: the slots and heads of a shard, cut wherever a
 * piece of the pass begins or ends, so that every piece is a rectangle of whole cells. */
#ifndef RT_PLAN_GRID_H
#define RT_PLAN_GRID_H

#include "plan/build.h"

/* Buffer numbers are below this; the proofs keep a table of the buffers of each rank. */
#define RT_BUFFER_LIMIT (1 << 20)

/* What must hold before anything can be proved: ranges, sides, payloads, home buffers.  RT_ERR_FORMAT. */
rt_status rt_pass_structure_check(rt_context *ctx, const rt_pass *pass, const rt_problem *p,
                                  const rt_layout *l, bool backward) RT_NODISCARD;

typedef struct {
    const rt_layout *l;
    int32_t *slot_cell[2]; /* (length + P): cell that begins at slot x of shard r, at first[r] + r + x */
    int32_t *head_cell[2]; /* (P, heads + 1): the same for heads */
    int64_t heads[2];
    int64_t *offset[2];   /* P + 1: cells of the shards before r */
    int64_t max_cells[2]; /* of one shard */
} rt_grid;

/* The cells of a piece: rows [s0, s1) and columns [h0, h1) of a shard whose rows are `width` wide. */
typedef struct {
    int64_t s0, s1, h0, h1, width;
} rt_cells;

/* The pass must have a sound structure. */
rt_status rt_grid_create(rt_context *ctx, const rt_pass *pass, const rt_problem *p, const rt_layout *l,
                         rt_grid *out) RT_NODISCARD;
void rt_grid_reset(rt_grid *g);
rt_cells rt_grid_cells(const rt_grid *g, const rt_piece *piece);
/* The piece that cell number `cell` of a shard is. */
rt_piece rt_grid_piece(const rt_grid *g, rt_side side, int32_t shard, int64_t cell);

/* Rows (slots times heads) of every cell of a side, shard after shard at the shards' offsets.  rt_free. */
rt_status rt_grid_rows_create(rt_context *ctx, const rt_grid *g, rt_side side, int64_t **out) RT_NODISCARD;

/* Buffers of (payload, rank) are numbered from first[rt_buffer_row()]: home, and as many as the pass names;
 * first[RT_PAYLOAD_COUNT * P] is their number.  Released by rt_free. */
rt_status rt_buffer_table_create(rt_context *ctx, const rt_pass *pass, const rt_layout *l,
                                 int64_t **out) RT_NODISCARD;
int64_t rt_buffer_row(const rt_layout *l, rt_payload payload, int32_t rank);

/* Every payload of the pass ends where it belongs, and is where it is read (src/plan/deliver.c). */
rt_status rt_pass_deliver_check(rt_context *ctx, const rt_pass *pass, const rt_problem *p,
                                const rt_layout *l, bool backward) RT_NODISCARD;

/* The most travelling buffers, and elements in them, that each rank holds at a time (src/plan/peak.c); P of each,
 * raised where they are lower. */
rt_status rt_peak_count(rt_context *ctx, const rt_pass *pass, const rt_problem *p, const rt_layout *l,
                        bool backward, int64_t *buffers, int64_t *elements) RT_NODISCARD;

#endif
