/* What the planners and the verifier share: a growing pass, whole pieces, and the counting of the visible
 * pairs of two pieces. */
#ifndef RT_PLAN_BUILD_H
#define RT_PLAN_BUILD_H

#include <ringtrue/plan.h>

/* A pass under construction; zero is empty. */
typedef struct {
    rt_pass pass;
    int64_t cap_steps, cap_tiles, cap_moves;
} rt_builder;

/* Begin the next step; the tiles and moves that follow belong to it. */
rt_status rt_builder_step(rt_context *ctx, rt_builder *b) RT_NODISCARD;
rt_status rt_builder_tile(rt_context *ctx, rt_builder *b, const rt_tile *tile) RT_NODISCARD;
rt_status rt_builder_move(rt_context *ctx, rt_builder *b, const rt_move *move) RT_NODISCARD;
void rt_pass_reset(rt_pass *pass);

/* All slots and all heads of a rank's shard. */
rt_piece rt_piece_whole(const rt_problem *p, const rt_layout *l, rt_side side, int32_t shard);
/* "KV shard 3 slots [0, 64) heads [0, 8)" */
#define RT_PIECE_TEXT 120
const char *rt_piece_text(char text[RT_PIECE_TEXT], rt_payload payload, const rt_piece *piece);
rt_side rt_payload_side(rt_payload payload);
/* STATE, DQ and DKV: what tiles write; the others are only read. */
bool rt_payload_is_result(rt_payload payload);

/* Counts visible pairs of pieces.  A layout by positions may list a shard in any order; only the set
 * counts, so whole shards are counted on an ascending copy. */
typedef struct {
    const rt_problem *p;
    const rt_layout *l;
    int64_t *sorted_kv; /* like side[KV].pos, ascending in each shard; NULL when that already is */
} rt_pair_counter;

rt_status rt_pair_counter_init(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                               rt_pair_counter *out) RT_NODISCARD;
void rt_pair_counter_reset(rt_pair_counter *c);
int64_t rt_pair_counter_count(const rt_pair_counter *c, const rt_piece *q, const rt_piece *kv);

/* The step that holds tile (or move) number i of the pass; -1 if none does. */
int64_t rt_pass_step_of_tile(const rt_pass *pass, int64_t i);

/* A parameter of the plan's name; `otherwise` where it is not given.  RT_ERR_ARG names what is allowed. */
rt_status rt_plan_option_number(rt_context *ctx, const rt_plan_options *o, const char *key, int64_t least,
                                int64_t most, int64_t otherwise, int64_t *out) RT_NODISCARD;
/* The index of the value in `names` (ended by NULL). */
rt_status rt_plan_option_choice(rt_context *ctx, const rt_plan_options *o, const char *key,
                                const char *const *names, int otherwise, int *out) RT_NODISCARD;

/* The planners. */
rt_status rt_plan_single(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                         rt_plan *out);
rt_status rt_plan_ring(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                       rt_plan *out);

#endif
