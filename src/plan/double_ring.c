/* Double ring: windows of w neighbouring ranks.  KV goes round inside a window; what started the window goes on
 * to the next window meanwhile, in one message that has the whole inner ring to arrive.  Rank (window i, place j)
 * meets (i, j), (i, j - 1), .., then (i - 1, j), (i - 1, j - 1), ..
 *
 * MindSpeed's backward goes the forward's way back and ends with the rank's own shard; DKV goes from each rank that
 * meets a shard to the one that meets it next.  That of LoongTrain (InternEvo) goes the same way again, and DKV goes
 * on the rings of KV: round the window back to where it began, a hop during which nobody computes, then to the same
 * place in the next window; with move=needed it takes MindSpeed's short cut. */
#include "plan/rotate.h"

const rt_plan_parameter rt_double_ring_parameters[] = {
    {"window", "a divisor of P",
     "ranks of an inner ring (default: the largest up to the square root of P)"},
    {"order", "mindspeed | loongtrain",
     "the backward: the way back, own shard last (default), or the same round again"},
    {"move", "all | needed", "KV and DKV make every hop (default), or none that no tile needs"},
    {NULL, NULL, NULL}};

rt_status rt_plan_double_ring(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                              const rt_plan_options *o, rt_plan *out)
{
    static const char *const orders[] = {"mindspeed", "loongtrain", NULL}, *const moves[] = {
                                                                               "all", "needed", NULL};
    int64_t window;
    int order, move;
    RT_TRY(rt_plan_option_divisor(ctx, o, "window", l->ranks, 0, &window));
    RT_TRY(rt_plan_option_choice(ctx, o, "order", orders, 0, &order));
    RT_TRY(rt_plan_option_choice(ctx, o, "move", moves, 0, &move));
    const rt_rotation x = {
        .lanes = 1, .window = (int32_t)window, .own_last = order == 0, .needed = move == 1};
    return rt_plan_rotation(ctx, p, l, o, &x, out);
}
