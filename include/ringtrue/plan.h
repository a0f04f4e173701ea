/** @file plan.h  The algorithm as data: who computes which tile, who sends what to whom, step by step.
 *
 *  Each rank has, per payload, numbered buffers.  Buffer 0 is the rank's home: before the pass it holds
 *  the rank's own Q, KV (and DO in the backward) and, for results, it receives them: STATE (forward),
 *  DQ and DKV (backward).  Buffers 1, 2, .. are for what travels; they are empty when a pass begins, but for what
 *  the backward holds from the forward (rt_held).
 *
 *  Within a step: moves read their source as it stands at the start of the step and are in flight while
 *  the tiles compute; they land at its end, in the order of the listing.  A tile writes while moves are
 *  in flight; a move with RT_ADD or RT_JOIN therefore lands on top of what the tiles of the same
 *  step left in its destination (value = arriving + present, in this order); a destination that holds
 *  nothing takes the arriving value as it is.
 *  A tile accumulates: its partial STATE is joined to (DQ, DKV are added to) what its destination
 *  buffer holds for that same piece; a buffer that holds another piece, or was sent away, starts fresh.
 *  A buffer holds rows (slot, head) of one shard, and all of this holds row by row: a row of that shard
 *  that nothing was written to takes what comes as it is, rows of another shard start the buffer afresh.
 *  A result (STATE, DQ, DKV) that is moved leaves its source; Q, KV and DO are copied.  Result rows
 *  that nothing was written to may be moved: they carry zeros (the empty state), and add nothing.
 *  The order of the tiles and moves in the listing is the order of every sum and join.  All calls local. */
#ifndef RINGTRUE_PLAN_H
#define RINGTRUE_PLAN_H

#include <stdio.h>

#include <ringtrue/layout.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    RT_PAYLOAD_Q = 0,
    RT_PAYLOAD_KV,
    RT_PAYLOAD_STATE, /**< a partial result: output with its softmax statistics */
    RT_PAYLOAD_DO,    /**< dO with the softmax statistics and delta of its rows */
    RT_PAYLOAD_DQ,
    RT_PAYLOAD_DKV,
    RT_PAYLOAD_COUNT
} rt_payload;

typedef enum { RT_PUT = 0, RT_ADD, RT_JOIN } rt_how;

const char *rt_payload_name(rt_payload p); /**< Q KV STATE DO DQ DKV */
const char *rt_how_name(rt_how h);         /**< put add join */

/** The unit that moves and computes: a slot range and a head range of one rank's shard. */
typedef struct {
    rt_side side;
    int32_t shard;        /**< the rank that owns these slots */
    int64_t slot0, slot1; /**< [slot0, slot1) of the shard */
    int64_t head0, head1; /**< query heads for RT_SIDE_Q, key heads for RT_SIDE_KV */
} rt_piece;

/** Rank `rank` computes the attention of a q piece against a kv piece (heads of q belong to kv's).
 *  Forward: the partial goes to STATE buffer `dst_q`.  Backward: DQ to `dst_q`, DKV to `dst_kv`. */
typedef struct {
    int32_t rank;
    rt_piece q, kv;
    int32_t q_buf, kv_buf; /**< where Q (and DO: the same number) and KV are read */
    int32_t dst_q, dst_kv; /**< where the results go; dst_kv unused (0) in the forward */
    int64_t pairs;         /**< visible (query, key) pairs of one query head, summed over the batch */
    /** Tiles of one rank and step with the same number are one call of a kernel: the keys of them all
     *  are one softmax, and their queries have one partial from it.  Numbered from 0 within (rank,
     *  step) without a gap; tiles of one call for queries of one shard have the same q_buf and dst_q. */
    int32_t call;
} rt_tile;

typedef struct {
    rt_payload payload;
    rt_piece piece;
    int32_t from, to;
    int32_t src_buf, dst_buf;
    rt_how how;
} rt_move;

typedef struct {
    int64_t tile0, tile1; /**< range in the pass's tiles */
    int64_t move0, move1; /**< range in the pass's moves */
} rt_step;

/** Rows of Q or KV that came to a travelling buffer of a rank in the forward and stay there for the backward, as what
 *  autograd saves: they need not be sent again. */
typedef struct {
    rt_payload payload; /**< Q or KV */
    rt_piece piece;
    int32_t rank, buf; /**< buf >= 1: what is at home stays there anyway */
} rt_held;

/** Forward: `held` is what its ranks keep when it has ended.  Backward: the same list, what they have besides their
 *  homes when it begins. */
typedef struct {
    int64_t n_steps, n_tiles, n_moves, n_held;
    rt_step *steps;
    rt_tile *tiles;
    rt_move *moves;
    rt_held *held;
} rt_pass;

/** Consecutive ranks. */
typedef struct {
    int32_t first, end; /**< first .. end - 1 */
} rt_ranks;

typedef struct {
    char name[96]; /**< of the planner, with its parameters as given */
    int32_t ranks; /**< P */
    /** false: a whole plan.  true: all steps, moves and held pieces, but the tiles of the ranks `of` only, each with
     *  the same place among those of its rank: what a process needs that runs these ranks. */
    bool part;
    rt_ranks of;
    rt_pass forward, backward;
} rt_plan;

/** What a planner is told besides the problem and the layout: the text behind the colon of a plan's
 *  name, as in "double-ring:window=2,order=loongtrain".  "" or NULL: every parameter at its default. */
typedef struct {
    const char *parameters;
    const char *planner; /**< its name, for errors; may be NULL */
    const char *
        folder; /**< where files that parameters name without a leading slash lie; NULL: where the program runs */
    const rt_ranks *of; /**< NULL, or whose tiles are wanted */
} rt_plan_options;

/** A parameter that a planner takes. */
typedef rt_parameter rt_plan_parameter;

/** A planner: a pure function. */
typedef rt_status (*rt_planner_fn)(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                                   const rt_plan_options *o, rt_plan *out);
typedef struct {
    const char *name;
    const char *summary;                 /**< one line */
    const rt_plan_parameter *parameters; /**< ended by a NULL key; NULL: none */
    rt_planner_fn make;
} rt_planner;

/** The planners, ended by an entry whose name is NULL; `ringtrue plan --list` prints them. */
const rt_planner *rt_planners(void);
/** Make a plan by name, with the planner's parameters behind a colon: "ring", "double-ring:window=2".
 *  RT_ERR_ARG for an unknown name or parameter (the message lists the known). */
rt_status rt_plan_create(rt_context *ctx, const char *name, const rt_problem *p, const rt_layout *l,
                         rt_plan *out) RT_NODISCARD;
/** The same for a name that came with a dump: files that its parameters name lie in `folder` (rt_dump.folder). */
rt_status rt_plan_create_in(rt_context *ctx, const char *folder, const char *name, const rt_problem *p,
                            const rt_layout *l, rt_plan *out) RT_NODISCARD;
/** The part of that plan with the tiles of some ranks, in memory for these: of Ulysses, 1/P of P^3.  It can be run by
 *  processes that run no other ranks (run.h), and not be proved.  folder: as there, or NULL. */
rt_status rt_plan_create_part(rt_context *ctx, const char *folder, const char *name, const rt_problem *p,
                              const rt_layout *l, rt_ranks of, rt_plan *out) RT_NODISCARD;
void rt_plan_reset(rt_plan *plan);

/** Prove the plan: every visible (query, key, head) computed exactly once forward and once backward; a
 *  rank reads only what it holds at that moment; what the backward holds from the forward is there when that has
 *  ended; every STATE, DQ and DKV ends, complete, in buffer 0 of its owner; no buffer is overwritten while it is
 *  read or in flight.  The plan must be whole.  RT_ERR_FORMAT, with the step, the rank and the damage named, when one
 *  fails. */
rt_status rt_plan_verify(rt_context *ctx, const rt_plan *plan, const rt_problem *p,
                         const rt_layout *l) RT_NODISCARD;

/** Sizes of one element on the wire, bytes.  Rows of dBias, which travel with DQ here, are not counted: programs keep them
 *  where they are made. */
typedef struct {
    double kv;    /**< an element of K or V (also Q, dO) */
    double dkv;   /**< an element of a travelling gradient */
    double state; /**< an element of a travelling partial output; its statistics count 4 bytes a row */
} rt_wire_sizes;

/** Counters of one pass, all arrays P long (rt_alloc, released by rt_counters_reset). */
typedef struct {
    int32_t ranks;
    int64_t steps;
    int64_t *pairs;                 /**< visible pairs computed by rank, summed over heads of q and batch */
    double *flops;                  /**< 2 (D + Dv) per pair forward, 2 (3 D + 2 Dv) backward */
    double *sent[RT_PAYLOAD_COUNT]; /**< bytes sent by rank, per payload (a move to oneself sends none) */
    int64_t *messages;              /**< moves sent by rank */
    int64_t *buffers; /**< largest number of travelling buffers (KV, Q, DO, DQ, DKV, STATE) held */
    int64_t
        *elements; /**< largest number of elements in them; a row of a STATE is Dv + 1, of a DO Dv + 2 */
    int64_t *held; /**< of which Q and KV that stay from the forward to the backward, elements */
    int64_t *step_pairs;    /**< (steps, P): pairs of each rank in each step, as in `pairs` */
    int64_t slots;          /**< P times the steps in which somebody computes */
    int64_t idle_slots;     /**< of which a rank has nothing to compute in */
    int64_t critical_pairs; /**< sum over steps of the largest rank's pairs, all heads and batches */
    int64_t max_partials;   /**< largest number of partials joined into one row (kernel calls per query) */
    double max_over_mean;   /**< work balance: max pairs / mean pairs (1 when there is no work) */
} rt_counters;

rt_status rt_plan_count(rt_context *ctx, const rt_pass *pass, const rt_problem *p, const rt_layout *l,
                        const rt_wire_sizes *w, bool backward, rt_counters *out) RT_NODISCARD;
void rt_counters_reset(rt_counters *c);
/** Bytes that each rank sends out of its node, of `node` consecutive ranks: across[P], the caller's.  With the
 *  window of a double ring for node: what goes between windows. */
rt_status rt_plan_sent_across(rt_context *ctx, const rt_pass *pass, const rt_problem *p, int32_t ranks,
                              const rt_wire_sizes *w, int32_t node, double *across) RT_NODISCARD;

typedef struct {
    bool summary;  /**< counters only, no tiles and moves */
    bool verified; /**< say that rt_plan_verify has proved the plan */
    bool table;    /**< text: who computes which pair of shards at which step, instead of tiles and moves */
    const struct rt_machine *machine; /**< NULL, or what prices the plan (cost.h): with the same bytes */
} rt_plan_print_options;

/** Print the plan as text: `#` lines, then one row per tile and move.  And as a JSON object. */
rt_status rt_plan_print(rt_context *ctx, FILE *f, const rt_plan *plan, const rt_problem *p,
                        const rt_layout *l, const rt_plan_print_options *o) RT_NODISCARD;
rt_status rt_plan_print_json(rt_context *ctx, FILE *f, const rt_plan *plan, const rt_problem *p,
                             const rt_layout *l, const rt_plan_print_options *o) RT_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
