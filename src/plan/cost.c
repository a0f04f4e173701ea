/* The price of a plan by the alpha-beta model: include/ringtrue/cost.h has the formula. */
#include <ringtrue/cost.h>

#include "plan/build.h"

#include <string.h>

void rt_pass_cost_reset(rt_pass_cost *c)
{
    rt_free(c->step);
    memset(c, 0, sizeof *c);
}

static rt_status machine_check(rt_context *ctx, const rt_machine *m)
{
    if (m->bandwidth > 0 && m->bandwidth <= 1e30 && m->latency >= 0 && m->latency <= 1e30 && m->flops > 0 &&
        m->flops <= 1e30 && m->element >= 0 && m->element <= 1024)
        return RT_OK;
    return rt_fail(
        ctx, RT_ERR_ARG,
        "a machine with bandwidth %g B/s, latency %g s, %g FLOP/s: bandwidth and FLOP/s above 0, "
        "latency 0 or more",
        m->bandwidth, m->latency, m->flops);
}

/* What a rank does in the step in hand. */
typedef struct {
    double compute, out, in;
} load;

static rt_step_cost step_price(const rt_pass *pass, int64_t t, const rt_problem *p, const rt_wire_sizes *w,
                               const rt_machine *m, double per_pair, int32_t ranks, load *loads)
{
    const rt_step *step = &pass->steps[t];
    rt_step_cost c = {0, 0, 0, 0};
    memset(loads, 0, (size_t)ranks * sizeof *loads);
    for (int64_t i = step->tile0; i < step->tile1; i++) {
        const rt_tile *x = &pass->tiles[i];
        loads[x->rank].compute +=
            (double)x->pairs * (double)(x->q.head1 - x->q.head0) * per_pair / m->flops;
    }
    for (int64_t i = step->move0; i < step->move1; i++) {
        const rt_move *x = &pass->moves[i];
        const double rows = (double)p->batch * (double)(x->piece.slot1 - x->piece.slot0) *
                            (double)(x->piece.head1 - x->piece.head0);
        const double seconds = m->latency + rows * rt_plan_row_bytes(x->payload, p, w) / m->bandwidth;
        if (x->from == x->to)
            continue;
        loads[x->from].out += seconds;
        loads[x->to].in += seconds;
    }
    for (int32_t r = 0; r < ranks; r++) {
        const double comm = loads[r].out > loads[r].in ? loads[r].out : loads[r].in;
        c.compute = loads[r].compute > c.compute ? loads[r].compute : c.compute;
        c.comm = comm > c.comm ? comm : c.comm;
    }
    c.time = c.compute > c.comm ? c.compute : c.comm;
    c.exposed = c.time - c.compute;
    return c;
}

rt_status rt_plan_cost(rt_context *ctx, const rt_pass *pass, const rt_problem *p, const rt_layout *l,
                       const rt_wire_sizes *w, const rt_machine *machine, bool backward, rt_pass_cost *out)
{
    RT_TRY(machine_check(ctx, machine));
    rt_pass_cost c = {.steps = pass->n_steps};
    const rt_wire_sizes even = {machine->element, machine->element, machine->element};
    if (machine->element > 0)
        w = &even;
    c.step = rt_alloc(ctx, pass->n_steps, sizeof *c.step);
    load *loads = rt_alloc(ctx, l->ranks, sizeof *loads);
    if (c.step == NULL || loads == NULL) {
        rt_free(loads);
        rt_free(c.step);
        return RT_ERR_NOMEM;
    }
    for (int64_t t = 0; t < pass->n_steps; t++) {
        c.step[t] = step_price(pass, t, p, w, machine, rt_plan_pair_flops(p, backward), l->ranks, loads);
        c.total.compute += c.step[t].compute;
        c.total.comm += c.step[t].comm;
        c.total.time += c.step[t].time;
        c.total.exposed += c.step[t].exposed;
    }
    rt_free(loads);
    *out = c;
    return RT_OK;
}
