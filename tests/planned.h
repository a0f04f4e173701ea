/* planned.h: small problems, and plans of them that are made and proved. */
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

#endif
