/* Ulysses: an all-to-all trades tokens for heads, every rank computes its heads over the whole sequence in one
 * call of a kernel, an all-to-all trades back.  Any number of heads: see rt_lane_heads.
 * Backward: Q, KV and DO go out, DQ and DKV come back; a key head that several ranks had a copy of is
 * added up at home.  (Programs keep the Q and KV that the forward brought; a pass begins with everything at home.) */
#include "plan/rotate.h"

const rt_plan_parameter rt_ulysses_parameters[] = {
    {"heads", "spread | pad",
     "query heads as even as can be, splitting groups (default), or whole groups as if heads were padded"},
    {NULL, NULL, NULL}};

rt_status rt_plan_ulysses(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                          const rt_plan_options *o, rt_plan *out)
{
    static const char *const deals[] = {"spread", "pad", NULL};
    int deal;
    RT_TRY(rt_plan_option_choice(ctx, o, "heads", deals, RT_HEADS_SPREAD, &deal));
    const rt_rotation x = {.lanes = l->ranks, .deal = (rt_head_deal)deal, .window = 1};
    return rt_plan_rotation(ctx, p, l, &x, out);
}
