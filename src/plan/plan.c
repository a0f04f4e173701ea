/* The list of planners, and plans as objects. */
#include "plan/build.h"

#include <stdio.h>
#include <string.h>

const char *rt_payload_name(rt_payload p)
{
    static const char *const names[RT_PAYLOAD_COUNT] = {"Q", "KV", "STATE", "DO", "DQ", "DKV"};
    return (int)p >= 0 && p < RT_PAYLOAD_COUNT ? names[p] : NULL;
}

const char *rt_how_name(rt_how h)
{
    static const char *const names[] = {"put", "add", "join"};
    return (int)h >= 0 && h <= RT_JOIN ? names[h] : NULL;
}

const rt_planner *rt_planners(void)
{
    static const rt_planner planners[] = {
        {"single", "rank 0 computes everything; other ranks' shards travel to it and the results home",
         rt_plan_single},
        {"ring", "KV travels around the ring while queries stay; DKV travels with it and one hop more",
         rt_plan_ring},
        {NULL, NULL, NULL}};
    return planners;
}

static rt_status layout_matches(rt_context *ctx, const rt_problem *p, const rt_layout *l)
{
    if (l->side[RT_SIDE_Q].length == p->seqlen_q && l->side[RT_SIDE_KV].length == p->seqlen_k)
        return RT_OK;
    return rt_fail(ctx, RT_ERR_ARG, "the layout is for Sq %lld, Sk %lld; the problem has Sq %lld, Sk %lld",
                   (long long)l->side[RT_SIDE_Q].length, (long long)l->side[RT_SIDE_KV].length,
                   (long long)p->seqlen_q, (long long)p->seqlen_k);
}

rt_status rt_plan_create(rt_context *ctx, const char *name, const rt_problem *p, const rt_layout *l,
                         const rt_plan_options *o, rt_plan *out)
{
    static const rt_plan_options defaults = {false};
    char known[256] = "";
    RT_TRY(layout_matches(ctx, p, l));
    for (const rt_planner *each = rt_planners(); each->name != NULL; each++) {
        if (strcmp(each->name, name) == 0)
            return each->make(ctx, p, l, o != NULL ? o : &defaults, out);
        size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", each->name);
    }
    return rt_fail(ctx, RT_ERR_ARG, "plan %s is unknown; known plans: %s", name, known);
}

void rt_plan_reset(rt_plan *plan)
{
    if (plan == NULL)
        return;
    rt_pass_reset(&plan->forward);
    rt_pass_reset(&plan->backward);
    memset(plan, 0, sizeof *plan);
}
