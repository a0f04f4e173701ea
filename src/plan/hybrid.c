/* Hybrid of Ulysses and ring (USP, 2D attention): P = u x r ranks.  Inside a group of u ranks an all-to-all trades
 * tokens for heads; the r groups are a ring, lane by lane; an all-to-all trades back.  The backward keeps what the
 * all-to-all brought, and goes round again.  The ring may be a double one.  Which tokens a rank owns is the layout's affair, so every program's shard order works. */
#include "plan/rotate.h"

const rt_plan_parameter rt_hybrid_parameters[] = {
    {"ulysses", "a divisor of P", "ranks of a group, u (default: the largest up to the square root of P)"},
    {"order", "ulysses-low | ring-low",
     "the ranks of a group are neighbours (default), or those of a ring are"},
    {"heads", "spread | pad",
     "query heads as even as can be, splitting groups (default), or whole groups as if heads were padded"},
    {"window", "a divisor of P/u", "groups of an inner ring (default 1: one ring)"},
    {"backward", "own-first | own-last",
     "the same round again (default), or the way back, which ends with the group's own shards"},
    {"move", "all | needed", "KV and DKV make every hop (default), or none that no tile needs"},
    {"keep", "yes | no",
     "the backward begins with the Q and KV that the forward's all-to-all brought "
     "(default), or they are sent again"},
    {NULL, NULL, NULL}};

rt_status rt_plan_hybrid(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                         rt_plan *out)
{
    static const char *const orders[] = {"ulysses-low", "ring-low", NULL},
                             *const deals[] = {"spread", "pad", NULL},
                             *const ways[] = {"own-first", "own-last", NULL},
                             *const moves[] = {"all", "needed", NULL}, *const keeps[] = {"yes", "no", NULL};
    int64_t lanes, window;
    int order, deal, way, move, keep;
    RT_TRY(rt_plan_option_divisor(ctx, o, "ulysses", l->ranks, 0, &lanes));
    RT_TRY(rt_plan_option_divisor(ctx, o, "window", l->ranks / lanes, 1, &window));
    RT_TRY(rt_plan_option_choice(ctx, o, "order", orders, 0, &order));
    RT_TRY(rt_plan_option_choice(ctx, o, "heads", deals, RT_HEADS_SPREAD, &deal));
    RT_TRY(rt_plan_option_choice(ctx, o, "backward", ways, 0, &way));
    RT_TRY(rt_plan_option_choice(ctx, o, "move", moves, 0, &move));
    RT_TRY(rt_plan_option_choice(ctx, o, "keep", keeps, 0, &keep));
    const rt_rotation x = {.lanes = (int32_t)lanes,
                           .strided = order == 1,
                           .deal = (rt_head_deal)deal,
                           .window = (int32_t)window,
                           .own_last = way == 1,
                           .needed = move == 1,
                           .keep = keep == 0};
    return rt_plan_rotation(ctx, p, l, o, &x, out);
}
