/* Ring attention, pass-KV.  Forward: at step t rank r computes its queries against the KV shard of rank
 * r - t, while that shard goes on to rank r + 1.  Backward: KV goes round again; the gradient of a shard
 * follows it one step behind, picks up each rank's contribution where it arrives, and needs one hop more
 * to be home.
 *
 * TransformerEngine and MindSpeed begin the backward with the KV that they had last and go the same way back:
 * then a rank meets its own KV last, where it is at home, and so is its gradient: a hop less.  (A pass begins
 * with everything at home, so what those programs still hold is sent first here: as many messages.)
 * TransformerEngine also keeps the partial outputs of all steps and joins them when the last is there: P T H (Dv + 1)
 * elements instead of T H (Dv + 1).  In FP8 with delayed scaling it does so with the gradients of keys too, which
 * one all-to-all takes home. */
#include "plan/rotate.h"

const rt_plan_parameter rt_ring_parameters[] = {
    {"order", "down | up", "a rank meets KV of shards r, r - 1, .. (default) or r, r + 1, .."},
    {"backward", "own-first | own-last",
     "the same round again (default), or the way back, which ends with the rank's own shard"},
    {"move", "all | needed", "KV and DKV make every hop (default), or none that no tile needs"},
    {"last-hop", "no | yes", "KV makes one hop more, home, where nobody reads it (JAX)"},
    {"join", "each | end",
     "forward: a partial is joined as it is computed (default), or all are kept and joined at the end "
     "(TransformerEngine)"},
    {"gradient", "follows | end",
     "backward: DKV goes round behind its KV (default), or stays and goes home at the end, all to all "
     "(TransformerEngine in FP8)"},
    {NULL, NULL, NULL}};

rt_status rt_plan_ring(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                       rt_plan *out)
{
    static const char *const orders[] = {"down", "up", NULL},
                             *const ways[] = {"own-first", "own-last", NULL},
                             *const moves[] = {"all", "needed", NULL}, *const hops[] = {"no", "yes", NULL},
                             *const joins[] = {"each", "end", NULL},
                             *const gradients[] = {"follows", "end", NULL};
    int order, way, move, hop, join, gradient;
    RT_TRY(rt_plan_option_choice(ctx, o, "order", orders, 0, &order));
    RT_TRY(rt_plan_option_choice(ctx, o, "backward", ways, 0, &way));
    RT_TRY(rt_plan_option_choice(ctx, o, "move", moves, 0, &move));
    RT_TRY(rt_plan_option_choice(ctx, o, "last-hop", hops, 0, &hop));
    RT_TRY(rt_plan_option_choice(ctx, o, "join", joins, 0, &join));
    RT_TRY(rt_plan_option_choice(ctx, o, "gradient", gradients, 0, &gradient));
    if (hop == 1 && move == 1)
        return rt_fail(ctx, RT_ERR_ARG,
                       "plan ring: last-hop=yes is a hop that nobody needs; move=all goes with it");
    const rt_rotation ring = {.lanes = 1,
                              .window = 1,
                              .up = order == 1,
                              .own_last = way == 1,
                              .needed = move == 1,
                              .extra_hop = hop == 1,
                              .late = join == 1,
                              .scatter = gradient == 1};
    return rt_plan_rotation(ctx, p, l, o, &ring, out);
}
