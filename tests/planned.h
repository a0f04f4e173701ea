/* planned.h: small problems, plans of them that are made and proved, and what these send. */
#ifndef RT_TESTS_PLANNED_H
#define RT_TESTS_PLANNED_H

#include <ringtrue/plan.h>

#include "check.h"

static inline rt_problem problem_make(int64_t sq, int64_t sk, int64_t hq, int64_t hkv, int64_t d,
                                      rt_mask_kind mask)
{
    rt_problem p;
    memset(&p, 0, sizeof p);
    p.batch = 1;
    p.seqlen_q = sq;
    p.seqlen_k = sk;
    p.heads_q = hq;
    p.heads_kv = hkv;
    p.dim = p.dim_v = d;
    p.scale = rt_rsqrt_dim(d);
    p.mask = mask;
    return p;
}

typedef struct {
    rt_layout l;
    rt_plan plan;
} made;

static inline made plan_make(const rt_problem *p, const char *name, rt_layout_kind kind, int32_t ranks)
{
    made m;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_layout_create(&ctx, p, kind, RT_REMAINDER_SPREAD, ranks, &m.l));
    t_assert_ok(&ctx, rt_plan_create(&ctx, name, p, &m.l, &m.plan));
    t_assert_ok(&ctx, rt_plan_verify(&ctx, &m.plan, p, &m.l));
    return m;
}

static inline void made_reset(made *m)
{
    rt_plan_reset(&m->plan);
    rt_layout_reset(&m->l);
}

static inline rt_counters plan_count(const rt_problem *p, const made *m, const rt_wire_sizes *w,
                                     bool backward)
{
    rt_counters c;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_plan_count(&ctx, backward ? &m->plan.backward : &m->plan.forward, p, &m->l, w,
                                    backward, &c));
    return c;
}

/* Bytes that every rank sends of a payload (the same on each, or the test fails). */
static inline double sent(const rt_problem *p, const made *m, const rt_wire_sizes *w, bool backward,
                          rt_payload y)
{
    rt_counters c = plan_count(p, m, w, backward);
    const double bytes = c.sent[y][0];
    for (int32_t r = 1; r < c.ranks; r++)
        t_assert_bits_eq(c.sent[y][r], bytes);
    rt_counters_reset(&c);
    return bytes;
}

/* Of all payloads. */
static inline double sent_all(const rt_problem *p, const made *m, const rt_wire_sizes *w, bool backward)
{
    double bytes = 0;
    for (int y = 0; y < RT_PAYLOAD_COUNT; y++)
        bytes += sent(p, m, w, backward, (rt_payload)y);
    return bytes;
}

#endif
