/* What the flags say about scores: --alibi --bias --softcap --sink --dropout --dropout-seed. */
#include "cli/options.h"

/* Values of the generator: sinks in binary32 (binary64 for f64 inputs), a bias in the inputs' dtype. */
static void draw_sink(const rt_options *o, rt_problem *p)
{
    const rt_dtype t = o->dtype == RT_F64 ? RT_F64 : RT_F32;
    for (int64_t h = 0; h < p->heads_q; h++)
        rt_generate_row(o->family, o->seed, RT_SINK, t, 0, 0, h, 1, 1, &p->sink[h]);
}

static void draw_bias(const rt_options *o, rt_problem *p)
{
    const int64_t *n = p->bias_shape;
    for (int64_t b = 0; b < n[0]; b++)
        for (int64_t h = 0; h < n[1]; h++)
            for (int64_t i = 0; i < n[2]; i++)
                rt_generate_row(o->family, o->seed, RT_BIAS, o->dtype, b, i, h, n[3], n[2],
                                p->bias + ((b * n[1] + h) * n[2] + i) * n[3]);
}

rt_status rt_options_scores(rt_context *ctx, const rt_options *o, bool values, rt_problem *p)
{
    if (!(o->dropout > 0) && rt_options_given(o, "dropout-seed"))
        return rt_fail(ctx, RT_ERR_ARG, "--dropout-seed goes with --dropout, a probability above 0");
    p->softcap = o->softcap;
    p->dropout = o->dropout;
    p->dropout_seed = o->dropout_seed;
    if (o->alibi) {
        p->alibi = rt_alloc(ctx, p->heads_q, sizeof *p->alibi);
        if (p->alibi == NULL)
            return RT_ERR_NOMEM;
        for (int64_t h = 0; h < p->heads_q; h++)
            p->alibi[h] = rt_alibi_standard(h, p->heads_q);
    }
    if (o->sink) {
        p->sink = rt_calloc(ctx, p->heads_q, sizeof *p->sink);
        if (p->sink == NULL)
            return RT_ERR_NOMEM;
        if (values)
            draw_sink(o, p);
    }
    if (o->bias == NULL)
        return RT_OK;
    if (!rt_bias_shape_parse(o->bias, p, p->bias_shape))
        return rt_fail(ctx, RT_ERR_ARG,
                       "--bias %s: bhss, or with 1 for b, h or the first s: 1hss 11ss b1ss 111s ..",
                       o->bias);
    const int64_t *n = p->bias_shape;
    int64_t count = 0;
    if (__builtin_mul_overflow(n[0] * n[1], n[2], &count) || __builtin_mul_overflow(count, n[3], &count) ||
        count >= INT64_C(1) << 40)
        return rt_fail(ctx, RT_ERR_ARG, "--bias %s: %lld x %lld x %lld x %lld elements are too many",
                       o->bias, (long long)n[0], (long long)n[1], (long long)n[2], (long long)n[3]);
    p->bias = rt_calloc(ctx, count, sizeof *p->bias);
    if (p->bias == NULL)
        return RT_ERR_NOMEM;
    if (values)
        draw_bias(o, p);
    return RT_OK;
}
