/** @file grid.h  Process grids: which ranks of the world form a group.  All calls are local: they say what a
 *  framework's groups are, and make none.  Sources: Megatron-LM's rank generator, Paddle's topology, the groups of
 *  MindSpeed, InternEvo and USP. */
#ifndef RINGTRUE_GRID_H
#define RINGTRUE_GRID_H

#include <ringtrue/layout.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RT_GRID_MAX_AXES 8

/** Axes of a grid, the fastest first: rank = x0 + size0 (x1 + size1 (x2 + ..)). */
typedef struct {
    int32_t n_axes;
    char name[RT_GRID_MAX_AXES][16];
    int64_t size[RT_GRID_MAX_AXES]; /**< >= 1 */
    int64_t world;                  /**< their product */
} rt_grid;

/** Groups of ranks; group i has ranks[first[i] .. first[i+1]). */
typedef struct {
    int64_t count;
    int64_t *first; /**< count + 1 */
    int64_t *ranks;
} rt_groups;
void rt_groups_reset(rt_groups *g);

/** A grid from an order string, the fastest axis first ("tp-cp-ep-dp-pp"), and the sizes of `n` named axes.
 *  An axis of the string without a size has 1; a size above 1 whose axis is not in the string is RT_ERR_ARG,
 *  as are axes that are repeated, sizes below 1 and a world beyond 2^31. */
rt_status rt_grid_init(rt_context *ctx, const char *order, const char *const *names, const int64_t *sizes,
                       int64_t n, rt_grid *out) RT_NODISCARD;
/** The groups along some axes ("cp", "dp-cp"): ranks that differ in these alone.  Within a group the grid's
 *  order; the groups by their first rank.  Axes that the grid lacks count as size 1. */
rt_status rt_grid_groups(rt_context *ctx, const rt_grid *g, const char *axes, rt_groups *out) RT_NODISCARD;

/** Level `level` (0: innermost) of a hierarchy of `n_sizes` sizes over each group of `from`; their product
 *  must be the groups' size (RT_ERR_ARG).  Megatron's hierarchical_context_parallel_sizes. */
rt_status rt_groups_level(rt_context *ctx, const rt_groups *from, const int64_t *sizes, int64_t n_sizes,
                          int64_t level, rt_groups *out) RT_NODISCARD;

/** The groups of a hybrid: within each group of `from`, Ulysses groups of `ulysses` ranks and rings of the
 *  others.  ring_low false: Ulysses ranks are neighbours (Megatron, MindSpeed, USP's default); true: those of
 *  a ring are. */
rt_status rt_groups_hybrid(rt_context *ctx, const rt_groups *from, int64_t ulysses, bool ring_low,
                           rt_groups *rings, rt_groups *ulysses_groups) RT_NODISCARD;

typedef enum {
    RT_DOUBLE_RING_INTRA = 0, /**< the windows: rings of `window` neighbours */
    RT_DOUBLE_RING_KV,        /**< KV goes from window to window to the same place in it */
    RT_DOUBLE_RING_DKV /**< MindSpeed: dKV goes to the next window and one place on, until it is home */
} rt_double_ring;
/** The double ring of MindSpeed and LoongTrain (InternEvo) over each group of `from`; `window` must divide its size.
 *  LoongTrain's dKV has the rings of KV once more: round a window back to where it began, then to the next one. */
rt_status rt_groups_double_ring(rt_context *ctx, const rt_groups *from, int64_t window,
                                rt_double_ring which, rt_groups *out) RT_NODISCARD;
/** LoongTrain's interleaved placement: of every 2 window ranks of a group those at even places, then those at odd
 *  ones; its double ring is then over these.  2 window must divide the groups' size (RT_ERR_ARG). */
rt_status rt_groups_interleave(rt_context *ctx, const rt_groups *from, int64_t window,
                               rt_groups *out) RT_NODISCARD;
/** The places (0 .. n-1) whose KV place `me` sees in the forward, in order; MindSpeed's backward has the reverse,
 *  LoongTrain's the same again. */
void rt_double_ring_order(int64_t n, int64_t window, int64_t me, int64_t *order);

/** Megatron's hybrid (dynamic) context parallelism: ranks for a sequence of `length` tokens, the smallest
 *  power of two that leaves a rank at most `most` of them. */
int64_t rt_hybrid_cp_size(int64_t length, int64_t most);
/** Its groups of `size` ranks: consecutive slices of each group of `from` (the last may be shorter). */
rt_status rt_groups_slices(rt_context *ctx, const rt_groups *from, int64_t size,
                           rt_groups *out) RT_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
