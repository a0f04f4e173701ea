/* What the planners and the verifier share: a growing pass, whole pieces, and the counting of the visible
 * pairs of two pieces. */
#ifndef RT_PLAN_BUILD_H
#define RT_PLAN_BUILD_H

#include <ringtrue/plan.h>

/* A pass under construction; zero is empty. */
typedef struct {
    rt_pass pass;
    int64_t cap_steps, cap_tiles, cap_moves, cap_held;
    const rt_ranks
        *of; /* NULL, or the ranks whose tiles are wanted: others are left out, so nothing may follow
                         * from the tiles of a pass but their own order */
} rt_builder;

/* Begin the next step; the tiles and moves that follow belong to it. */
rt_status rt_builder_step(rt_context *ctx, rt_builder *b) RT_NODISCARD;
rt_status rt_builder_tile(rt_context *ctx, rt_builder *b, const rt_tile *tile) RT_NODISCARD;
rt_status rt_builder_move(rt_context *ctx, rt_builder *b, const rt_move *move) RT_NODISCARD;
/* A move of `piece`, unless it has no slots or no heads. */
rt_status rt_builder_send(rt_context *ctx, rt_builder *b, rt_payload payload, rt_piece piece, int32_t from,
                          int32_t to, int32_t src_buf, int32_t dst_buf, rt_how how) RT_NODISCARD;
/* `piece` stays in that buffer from the forward to the backward (said in both passes), unless it is empty. */
rt_status rt_builder_hold(rt_context *ctx, rt_builder *b, rt_payload payload, rt_piece piece, int32_t rank,
                          int32_t buf) RT_NODISCARD;
/* Within the last step: ranks ascending; of a rank the call with the most pairs (over its heads) first, of a
 * call the tile with the most; what is equal keeps its order.  Calls are then numbered as they stand. */
rt_status rt_builder_longest_first(rt_context *ctx, rt_builder *b) RT_NODISCARD;
void rt_pass_reset(rt_pass *pass);

/* The buffer in which a rank keeps a shard when it gathers those of others: its own is at home. */
int32_t rt_shard_buffer(int32_t rank, int32_t shard);

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

/* The tile with its pairs counted, unless nothing in it is visible.  In a layout whose shards have two halves
 * (zigzag) a mask often empties the block of two of them: the tile is then the smallest rectangle of whole
 * halves that holds every visible pair. */
rt_status rt_builder_compute(rt_context *ctx, rt_builder *b, const rt_pair_counter *c,
                             rt_tile tile) RT_NODISCARD;
/* The same without a builder: shrinks tile->q and tile->kv, sets tile->pairs and returns it. */
int64_t rt_tile_shrink(const rt_pair_counter *c, rt_tile *tile);

/* Both passes of a plan, each by `make`.  The name is written by rt_plan_create. */
typedef rt_status (*rt_pass_fn)(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                                const void *arg);
rt_status rt_plan_passes(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                         rt_pass_fn make, const void *arg, rt_plan *out) RT_NODISCARD;

/* P x P bytes, rt_alloc: 1 where queries of shard q see keys of shard kv, at q * P + kv. */
rt_status rt_shard_grid(rt_context *ctx, const rt_pair_counter *c, uint8_t **out) RT_NODISCARD;

/* Bytes of one row (a token of a head) of a payload; operations of one visible pair of a query head. */
double rt_plan_row_bytes(rt_payload payload, const rt_problem *p, const rt_wire_sizes *w);
double rt_plan_pair_flops(const rt_problem *p, bool backward);

/* The step that holds tile (or move) number i of the pass; -1 if none does. */
int64_t rt_pass_step_of_tile(const rt_pass *pass, int64_t i);

/* The pass as a table of rows of steps and columns of ranks (src/plan/table.c); `name` begins each row. */
rt_status rt_pass_table(rt_context *ctx, FILE *f, const rt_pass *pass, int32_t ranks,
                        const char *name) RT_NODISCARD;

/* A parameter of the plan's name; `otherwise` where it is not given.  RT_ERR_ARG names what is allowed. */
rt_status rt_plan_option_number(rt_context *ctx, const rt_plan_options *o, const char *key, int64_t least,
                                int64_t most, int64_t otherwise, int64_t *out) RT_NODISCARD;
/* The index of the value in `names` (ended by NULL). */
rt_status rt_plan_option_choice(rt_context *ctx, const rt_plan_options *o, const char *key,
                                const char *const *names, int otherwise, int *out) RT_NODISCARD;

/* A divisor of `total`; `otherwise` 0: without the key the largest whose square is not above `total`. */
rt_status rt_plan_option_divisor(rt_context *ctx, const rt_plan_options *o, const char *key, int64_t total,
                                 int64_t otherwise, int64_t *out) RT_NODISCARD;

/* The planners. */
rt_status rt_plan_single(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                         rt_plan *out);
rt_status rt_plan_ring(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                       rt_plan *out);
rt_status rt_plan_double_ring(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                              const rt_plan_options *o, rt_plan *out);
rt_status rt_plan_all_gather(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                             const rt_plan_options *o, rt_plan *out);
rt_status rt_plan_ulysses(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                          const rt_plan_options *o, rt_plan *out);
rt_status rt_plan_hybrid(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                         rt_plan *out);
rt_status rt_plan_pass_q(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                         rt_plan *out);
rt_status rt_plan_balanced(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                           const rt_plan_options *o, rt_plan *out);
rt_status rt_plan_burst(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                        rt_plan *out);
rt_status rt_plan_adaptive(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                           const rt_plan_options *o, rt_plan *out);
rt_status rt_plan_groupcast(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                            const rt_plan_options *o, rt_plan *out);
rt_status rt_plan_decode(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                         rt_plan *out);
rt_status rt_plan_prefill(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                          const rt_plan_options *o, rt_plan *out);
extern const rt_plan_parameter rt_ring_parameters[], rt_double_ring_parameters[],
    rt_all_gather_parameters[], rt_ulysses_parameters[], rt_hybrid_parameters[], rt_adaptive_parameters[],
    rt_groupcast_parameters[], rt_decode_parameters[], rt_prefill_parameters[];

#endif
