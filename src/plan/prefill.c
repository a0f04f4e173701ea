/* Chunked prefill with persistent KV: the queries are the T new tokens, the keys are the Pc cached ones and the
 * new ones.  The cache stays where it is, sharded; a ring in which the keys go round, or the queries: pass-KV moves
 * 2 (T + Pc) Hkv D elements where pass-Q moves T H D, so the first is chosen when T / (T + Pc) >= 2 Hkv / H (the rule
 * of Meta's inference CP; it does not count the partials that pass-Q sends home).
 *
 * Every prefill of a sequence in pieces is such a plan (layout chunked says which keys are old).  `chunk` puts several
 * into one: it takes the queries of every rank so many slots at a time, a whole ring for each.  No rank keeps keys of
 * others from one chunk to the next, which would be the whole sequence, so those of earlier chunks are sent again
 * from home; those of later chunks are not there yet and stay. */
#include "plan/chunked.h"

#include <string.h>

const rt_plan_parameter rt_prefill_parameters[] = {
    {"pass", "auto | pass-kv | pass-q",
     "what goes round; auto (default): keys if Sq / Sk >= 2 Hkv / Hq, else queries"},
    {"chunk", "0 ..", "slots of a rank's queries that go round at once; 0 (default): all"},
    {NULL, NULL, NULL}};

rt_status rt_plan_prefill(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                          const rt_plan_options *o, rt_plan *out)
{
    static const char *const passes[] = {"auto", "pass-kv", "pass-q", NULL};
    enum { AUTO, PASS_KV, PASS_Q };
    rt_chunked x;
    int pass = AUTO;
    RT_TRY(rt_plan_option_choice(ctx, o, "pass", passes, AUTO, &pass));
    RT_TRY(rt_plan_option_number(ctx, o, "chunk", 0, INT64_MAX, 0, &x.chunk));
    if (pass == AUTO) {
        const double fresh = (double)p->seqlen_q, keys = (double)p->seqlen_k;
        pass = fresh * (double)p->heads_q >= (keys > fresh ? keys : fresh) * 2.0 * (double)p->heads_kv
                   ? PASS_KV
                   : PASS_Q;
    }
    return rt_plan_passes(ctx, p, l, o, pass == PASS_KV ? rt_chunked_kv_pass : rt_chunked_q_pass, &x, out);
}
