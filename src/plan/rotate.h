/* KV that goes round while queries stay: what ring, double ring, Ulysses and their hybrids have in common.
 *
 * The P ranks are n = P/u groups of u.  Inside a group the tokens of its u shards are shared out by heads (an
 * all-to-all before the steps, and one back): lane a has its heads of all u shards.  Between the groups KV goes
 * round: at step t group m meets the KV of group meets(m, t).  Ring: u = 1.  Ulysses: one group, n = 1. */
#ifndef RT_PLAN_ROTATE_H
#define RT_PLAN_ROTATE_H

#include "plan/build.h"

typedef enum { RT_HEADS_SPREAD = 0, RT_HEADS_PAD } rt_head_deal;

typedef struct {
    int32_t lanes;     /* u, a divisor of P */
    bool strided;      /* the ranks of a group are P/u apart; otherwise they are neighbours */
    rt_head_deal deal; /* how a group shares out the heads */
    int32_t window;    /* w, a divisor of n: groups of an inner ring; 1: one ring over all */
    bool up;           /* m meets m, m + 1, ..; otherwise m, m - 1, .. */
    bool own_last;     /* the backward goes the forward's way back, and meets its own KV last */
    bool needed;       /* KV and DKV move no further than somebody needs them */
    bool extra_hop;    /* KV makes the last hop too, home, where nobody reads it (one ring only) */
    bool gather;       /* all KV comes from its owners in the first step */
    bool keep;         /* the backward begins with the Q and KV that the forward's all-to-all brought */
    bool late; /* forward: partials are kept, each in its buffer, and joined at the end (one ring only) */
    bool
        scatter; /* backward: gradients stay where they are computed, and go home after the last step (one ring
                        * only) */
} rt_rotation;

rt_status rt_plan_rotation(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                           const rt_plan_options *o, const rt_rotation *x, rt_plan *out) RT_NODISCARD;

/* The query heads and key heads of lane a of u; empty for a lane that has none.
 * spread: Hq/u query heads each, the first Hq mod u one more; a lane has the key heads that they use, so that a
 * group of query heads may be split, and its key head has a copy in each lane.
 * pad: as if heads were padded so that no lane needs more than its own groups.  u <= Hkv: ceil(Hkv/u) key heads
 * each.  u > Hkv: floor(u/Hkv) lanes to a key head, ceil of their part of its query heads each.  The last
 * lanes, whose heads would all be padding, are idle. */
void rt_lane_heads(const rt_problem *p, int32_t u, rt_head_deal deal, int32_t a, int64_t q[2],
                   int64_t kv[2]);

#endif
