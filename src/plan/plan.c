/* The list of planners, and plans as objects. */
#include "plan/build.h"

#include "base/parameters.h"

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
         NULL, rt_plan_single},
        {"ring", "KV travels around the ring while queries stay; DKV travels with it and one hop more",
         rt_ring_parameters, rt_plan_ring},
        {"double-ring",
         "KV goes round inside windows of ranks, while what starts a window goes to the next",
         rt_double_ring_parameters, rt_plan_double_ring},
        {"all-gather", "every rank gathers all KV; DKV is added at its owner's", rt_all_gather_parameters,
         rt_plan_all_gather},
        {"ulysses", "all-to-all: each rank computes some of the heads over all tokens",
         rt_ulysses_parameters, rt_plan_ulysses},
        {"hybrid", "Ulysses inside groups of ranks, a ring between the groups", rt_hybrid_parameters,
         rt_plan_hybrid},
        {"pass-q", "queries travel around the ring while KV stays; partial results go home and are joined",
         NULL, rt_plan_pass_q},
        {"balanced", "DistFlashAttn: ranks whose own pairs are masked help others, and return the partial",
         NULL, rt_plan_balanced},
        {"burst",
         "BurstAttention: the ring forward; backward Q and dO go round, dQ follows, dK and dV stay", NULL,
         rt_plan_burst},
        {"adaptive", "MindSpeed: greedy rounds over the tiles that the mask needs, within a budget",
         rt_adaptive_parameters, rt_plan_adaptive},
        {"groupcast", "MagiAttention: keys go only to ranks that see them, gradients back from those",
         rt_groupcast_parameters, rt_plan_groupcast},
        {"decode",
         "few queries, a KV cache that stays: queries go out, partials are joined on the way home",
         rt_decode_parameters, rt_plan_decode},
        {"prefill", "a chunk of new queries on cached and new keys: a ring of keys or of queries",
         rt_prefill_parameters, rt_plan_prefill},
        {NULL, NULL, NULL, NULL}};
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

enum { WHAT = 96 };

/* Whose parameter it is, in errors. */
static const char *what_of(char what[WHAT], const rt_plan_options *o)
{
    const bool named = o != NULL && o->planner != NULL;
    (void)snprintf(what, WHAT, "plan%s%s", named ? " " : "", named ? o->planner : "");
    return what;
}

rt_status rt_plan_option_number(rt_context *ctx, const rt_plan_options *o, const char *key, int64_t least,
                                int64_t most, int64_t otherwise, int64_t *out)
{
    char what[WHAT];
    return rt_parameters_number(ctx, what_of(what, o), o != NULL ? o->parameters : NULL, key, least, most,
                                otherwise, out);
}

rt_status rt_plan_option_divisor(rt_context *ctx, const rt_plan_options *o, const char *key, int64_t total,
                                 int64_t otherwise, int64_t *out)
{
    int64_t n;
    int64_t standard = otherwise;
    for (int64_t d = 1; otherwise == 0 && d * d <= total; d++)
        standard = total % d == 0 ? d : standard;
    RT_TRY(rt_plan_option_number(ctx, o, key, 1, total, standard, &n));
    if (total % n == 0) {
        *out = n;
        return RT_OK;
    }
    char divisors[64] = "";
    for (int64_t d = 1; d <= total; d++) {
        const size_t used = strlen(divisors);
        if (total % d == 0 && used + 24 < sizeof divisors)
            (void)snprintf(divisors + used, sizeof divisors - used, "%s%lld", used > 0 ? ", " : "",
                           (long long)d);
    }
    char what[WHAT];
    return rt_fail(ctx, RT_ERR_ARG, "%s: %s is \"%lld\"; it must divide %lld: %s are allowed",
                   what_of(what, o), key, (long long)n, (long long)total, divisors);
}

rt_status rt_plan_option_choice(rt_context *ctx, const rt_plan_options *o, const char *key,
                                const char *const *names, int otherwise, int *out)
{
    char what[WHAT];
    return rt_parameters_choice(ctx, what_of(what, o), o != NULL ? o->parameters : NULL, key, names,
                                otherwise, out);
}

static rt_status create(rt_context *ctx, const char *folder, const char *name, const rt_problem *p,
                        const rt_layout *l, const rt_ranks *of, rt_plan *out)
{
    char known[512] = "";
    const size_t n = strcspn(name, ":");
    RT_TRY(layout_matches(ctx, p, l));
    if (strlen(name) >= sizeof out->name)
        return rt_fail(ctx, RT_ERR_ARG, "plan \"%s\" is too long: at most %zu characters", name,
                       sizeof out->name - 1);
    RT_TRY(rt_parameters_check_text(ctx, "plan", name));
    for (const rt_planner *each = rt_planners(); each->name != NULL; each++) {
        if (strlen(each->name) == n && strncmp(each->name, name, n) == 0) {
            char what[WHAT];
            const rt_plan_options options = {.parameters = name[n] == ':' ? name + n + 1 : "",
                                             .planner = each->name,
                                             .folder = folder,
                                             .of = of};
            RT_TRY(rt_parameters_check(ctx, what_of(what, &options), each->parameters, options.parameters));
            RT_TRY(each->make(ctx, p, l, &options, out));
            (void)snprintf(out->name, sizeof out->name, "%s", name);
            out->part = of != NULL;
            out->of = of != NULL ? *of : (rt_ranks){0, l->ranks};
            return RT_OK;
        }
        size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", each->name);
    }
    return rt_fail(ctx, RT_ERR_ARG, "plan %.*s is unknown; known plans: %s", (int)n, name, known);
}

rt_status rt_plan_create(rt_context *ctx, const char *name, const rt_problem *p, const rt_layout *l,
                         rt_plan *out)
{
    return create(ctx, NULL, name, p, l, NULL, out);
}

rt_status rt_plan_create_in(rt_context *ctx, const char *folder, const char *name, const rt_problem *p,
                            const rt_layout *l, rt_plan *out)
{
    return create(ctx, folder, name, p, l, NULL, out);
}

rt_status rt_plan_create_part(rt_context *ctx, const char *folder, const char *name, const rt_problem *p,
                              const rt_layout *l, rt_ranks of, rt_plan *out)
{
    if (of.first < 0 || of.first > of.end || of.end > l->ranks)
        return rt_fail(ctx, RT_ERR_ARG, "the part of a plan is of ranks [%d, %d); the layout has %d",
                       (int)of.first, (int)of.end, (int)l->ranks);
    return create(ctx, folder, name, p, l, &of, out);
}

void rt_plan_reset(rt_plan *plan)
{
    if (plan == NULL)
        return;
    rt_pass_reset(&plan->forward);
    rt_pass_reset(&plan->backward);
    memset(plan, 0, sizeof *plan);
}
