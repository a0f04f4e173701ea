/* BurstAttention.  Forward: the ring, KV goes round.  Backward: the other side goes round, Q with dO, LSE and
 * delta, and dQ one hop behind it; dK and dV stay.  Bytes sent per rank with e-byte elements and T = S/P:
 * (P - 1) T H (2 D e + 8) and P T H D e of dQ, less than the ring's unless several query heads share a key head. */
#include "plan/chunked.h"

static rt_status burst_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                            const void *arg)
{
    return backward ? rt_chunked_q_pass(ctx, b, c, true, arg) : rt_chunked_kv_pass(ctx, b, c, false, arg);
}

rt_status rt_plan_burst(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                        rt_plan *out)
{
    const rt_chunked whole = {0};
    return rt_plan_passes(ctx, p, l, o, burst_pass, &whole, out);
}
