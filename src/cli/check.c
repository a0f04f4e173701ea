/* ringtrue check: the main job.  Reads a dump, derives the bounds, gives the verdict. */
#include <omp.h>
#include <stdio.h>
#include <sys/resource.h>

#include "cli/cli.h"
#include "show/report.h"

static void load(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row)
{
    rt_dump_load(arg, t, b, pos, h, row);
}

static void release(void *arg)
{
    rt_dump_release(arg);
}

rt_status rt_cli_check(rt_cli *c)
{
    const rt_options *o = c->o;
    rt_dump d;
    RT_TRY(rt_cli_open_together(c, &d));
    rt_plan plan = {.name = ""};
    rt_verdict v;
    rt_status st = rt_options_declare(c->ctx, o, &d.spec.declared);
    if (st == RT_OK)
        st = rt_cli_plan_create(c, &d, &d.layout, &plan);
    bool any = false;
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++)
        any = any || (d.present[t] && (t <= RT_OUT || d.present[RT_DOUT]));
    if (st == RT_OK && !any)
        st = rt_fail(c->ctx, RT_ERR_FORMAT, "%s: nothing to judge: it has none of lse, out, dq, dk, dv%s",
                     o->arguments[0],
                     d.present[RT_DOUT] ? "" : " (and no dout, without which gradients cannot be judged)");
    st = rt_comm_agree(c->ctx, c->comm, st);
    if (st != RT_OK)
        goto reset_plan;
    rt_judge_input in = {.load = load, .arg = &d, .lse_base2 = d.spec.lse_base2, .release = release};
    for (int t = 0; t < RT_RESULT_COUNT; t++) {
        in.present[t] = d.present[t];
        in.dtype[t] = d.dtype[t];
    }
    st = rt_judge(c->ctx, c->comm, &d.spec.problem, &d.layout, &plan, &d.spec.declared, &in,
                  &(rt_judge_options){.truth = o->truth,
                                      .budget_seconds = o->full ? 0 : o->budget,
                                      .sampling = o->full ? RT_SAMPLE_AUTO : o->sampling,
                                      .samples = o->samples,
                                      .seed = o->seed,
                                      .delta = o->delta},
                  &v);
    if (st != RT_OK)
        goto reset_plan;
    c->code = v.pass ? 0 : 1;
    if (c->root) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        const rt_report r = {.name = o->arguments[0],
                             .replay = c->replay,
                             .spec = &d.spec,
                             .layout = &d.layout,
                             .plan = &plan,
                             .declared = &d.spec.declared,
                             .present = d.present,
                             .processes = rt_comm_size(c->comm),
                             .threads = omp_get_max_threads(),
                             .peak_mib = (double)usage.ru_maxrss / 1024};
        if (o->json)
            st = rt_show_verdict_json(c->ctx, stdout, &r, &v);
        else
            rt_show_verdict(stdout, &r, &v);
    }
reset_plan:
    rt_plan_reset(&plan);
    rt_dump_close(&d);
    return st;
}
