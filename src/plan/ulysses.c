/* Ulysses: an all-to-all trades tokens for heads, every rank computes its heads over the whole sequence in one
 * call of a kernel, an all-to-all trades back.  Any number of heads: see rt_lane_heads.
 * Backward: DO goes out to the Q and KV that the forward brought and programs keep (keep=no: all three go out), DQ
 * and DKV come back; a key head that several ranks had a copy of is added up at home. */
#include "plan/rotate.h"

const rt_plan_parameter rt_ulysses_parameters[] = {
    {"heads", "spread | pad",
     "query heads as even as can be, splitting groups (default), or whole groups as if heads were padded"},
    {"keep", "yes | no",
     "the backward begins with the Q and KV that the forward's all-to-all brought "
     "(default), or they are sent again"},
    {NULL, NULL, NULL}};

rt_status rt_plan_ulysses(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                          const rt_plan_options *o, rt_plan *out)
{
    static const char *const deals[] = {"spread", "pad", NULL}, *const keeps[] = {"yes", "no", NULL};
    int deal, keep;
    RT_TRY(rt_plan_option_choice(ctx, o, "heads", deals, RT_HEADS_SPREAD, &deal));
    RT_TRY(rt_plan_option_choice(ctx, o, "keep", keeps, 0, &keep));
    const rt_rotation x = {.lanes = l->ranks, .deal = (rt_head_deal)deal, .window = 1, .keep = keep == 0};
    return rt_plan_rotation(ctx, p, l, o, &x, out);
}
