/* Ring attention, pass-Q: keys stay, queries go round.  Forward: at step t rank r computes the queries of shard
 * r - t against its own keys and keeps that partial STATE; after the last step all partials go home at once
 * and are joined there, in the order in which they were computed.
 * Backward: Q and DO go round; DQ of a shard follows one step behind, picks up each rank's contribution where
 * it arrives, and needs one hop more to be home.  DKV never leaves home. */
#include "plan/chunked.h"

rt_status rt_plan_pass_q(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                         rt_plan *out)
{
    const rt_chunked whole = {0};
    return rt_plan_passes(ctx, p, l, o, rt_chunked_q_pass, &whole, out);
}
