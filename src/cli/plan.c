/* ringtrue plan: a plan as text or JSON, from a dump's spec or from flags. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "io/text_file.h"
#include "show/plan_svg.h"

static rt_status draw(rt_cli *c, const rt_problem *p, const rt_layout *l, const rt_plan *plan)
{
    rt_text_file out;
    RT_TRY(rt_text_file_begin(c->ctx, c->o->svg, c->o->force, &out));
    const bool proved = true; /* nothing is drawn that print_plan has not proved */
    return rt_text_file_end(c->ctx, &out, rt_show_plan_svg(c->ctx, out.file, plan, p, l, proved));
}

static rt_status show(rt_cli *c, const rt_problem *p, const rt_layout *l, const rt_plan *plan)
{
    if (c->o->svg != NULL)
        RT_TRY(draw(c, p, l, plan));
    const rt_plan_print_options how = {.summary = c->o->summary,
                                       .verified =
                                           c->o->verify || c->o->json, /* print_plan has proved it */
                                       .table = c->o->table,
                                       .machine = c->o->has_cost ? &c->o->cost : NULL};
    return c->o->json ? rt_plan_print_json(c->ctx, stdout, plan, p, l, &how)
                      : rt_plan_print(c->ctx, stdout, plan, p, l, &how);
}

static rt_status print_plan(rt_cli *c, const rt_problem *p, const rt_dump *from, const char *name)
{
    rt_layout l;
    rt_plan plan = {.name = ""};
    RT_TRY(rt_cli_layout(c, p, from, &l));
    rt_status st =
        name == NULL ? rt_cli_plan_create(c, from, &l, &plan) : rt_plan_create(c->ctx, name, p, &l, &plan);
    if (st == RT_OK)
        st = rt_plan_verify(c->ctx, &plan, p, &l);
    if (st == RT_OK)
        st = show(c, p, &l, &plan);
    rt_plan_reset(&plan);
    rt_layout_reset(&l);
    return st;
}

rt_status rt_cli_plan(rt_cli *c)
{
    const rt_options *o = c->o;
    if (!c->root)
        return RT_OK;
    if (o->list) {
        for (const rt_planner *x = rt_planners(); x->name != NULL; x++)
            rt_cli_list(x->name, x->parameters, x->summary);
        return RT_OK;
    }
    if (o->table && o->json)
        return rt_fail(c->ctx, RT_ERR_ARG,
                       "--table: the table is text; --json has every tile. Hint: leave one of the two out");
    if (o->n_arguments > 0) {
        const char *flag = rt_options_problem_flag(o);
        if (flag != NULL)
            return rt_fail(
                c->ctx, RT_ERR_ARG,
                "--%s: the dump '%s' says this itself. Hint: plan takes a dump, or flags of the problem",
                flag, o->arguments[0]);
        rt_dump d;
        RT_TRY(rt_cli_open(c, 0, o->n_arguments, &d));
        const rt_status st = print_plan(c, &d.spec.problem, &d, NULL);
        rt_dump_close(&d);
        return st;
    }
    rt_problem p;
    RT_TRY(rt_options_problem(c->ctx, o, &p));
    const rt_status st = print_plan(c, &p, NULL, o->has_plan ? o->plan : o->ranks > 1 ? "ring" : "single");
    rt_problem_reset(&p);
    return st;
}
