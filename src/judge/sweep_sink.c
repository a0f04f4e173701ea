/* dSink: the shares of every row in the gradient of its head's sink, and their bounds (budget.h). */
#include "arithmetic/ops.h"
#include "judge/truth.h"

void rt_sink_share(const rt_sweep *s, const rt_layout_side *side, rt_sink_sums *sums)
{
    const rt_budget *b = &s->budget;
    const double u = b->u, u2 = u * u;
    const int64_t group = s->p->heads_q / s->p->heads_kv;
    for (int64_t hl = 0; hl < group; hl++) {
        const int64_t h = s->g * group + hl;
        const double sink = s->p->sink[h];
        rt_sink_sums x = {.rows = s->p->seqlen_q, .exact = {RT_NAN, RT_NAN, RT_NAN}};
        double before = 0;
        for (int64_t at = 0; at < s->p->seqlen_q; at++) {
            const rt_row_record *r = &s->rows[hl * s->p->seqlen_q + side->pos[at]];
            const int32_t rank = side->rank_of[side->pos[at]];
            if (r->keys > 0) {
                const double z = fabs(sink - r->lse), w = rt_exp_scalar(sink - r->lse),
                             share = -w * r->delta, a = fabs(r->delta);
                double rho = u * (2 * fabs(sink) + 2 * z) + b->exp_rel + 3 * u + r->det_l;
                rho += rho * rho;
                x.value += share;
                x.det += w * (rho * a + r->det_d) + b->eta * (1 + a);
                x.var += w * w * ((u2 * (2 * sink * sink + 2 * z * z + 3) + r->var_l) * a * a + r->var_d);
                x.sys += w * ((b->exp_rel + r->sys_l) * a + r->sys_d) + b->eta * (1 + a);
                x.abs += fabs(share);
                x.sq += share * share;
                x.bad = r->bad_s > x.bad ? r->bad_s : x.bad;
                x.open = x.open || r->open;
            }
            if (at + 1 == s->p->seqlen_q || side->rank_of[side->pos[at + 1]] != rank) { /* a rank's part */
                const double t = x.value - before;
                x.t_abs += fabs(t);
                x.t_sq += t * t;
                x.parts++;
                before = x.value;
            }
        }
        sums[h] = x;
    }
}

/* One head, from its sums over the batches, in their order. */
static void judge_head(rt_sweep *s, const rt_sink_sums *sums, int64_t h, int32_t ranks, rt_sweep_work *w,
                       rt_certificate *certificate)
{
    const rt_budget *b = &s->budget;
    rt_sink_sums x = {0};
    for (int64_t i = 0; i < s->p->batch; i++) {
        const rt_sink_sums *y = &sums[i * s->p->heads_q + h];
        x.value += y->value;
        x.det += y->det;
        x.var += y->var;
        x.sys += y->sys;
        x.abs += y->abs;
        x.sq += y->sq;
        x.t_abs += y->t_abs;
        x.t_sq += y->t_sq;
        x.parts += y->parts;
        x.rows += y->rows;
        x.bad = y->bad > x.bad ? y->bad : x.bad;
        x.open = x.open || y->open;
        rt_arithmetic_exact.sum(RT_DSINK, s->p, (const double *[RT_MAX_PARTS]){y->exact},
                                (double *[RT_MAX_PARTS]){x.exact});
    }
    rt_sum_of_parts(b, s->in->dtype[RT_DSINK], x.value, (double)x.rows, x.abs, x.sq,
                    ranks > 1 ? (double)x.parts : 1, x.t_abs, x.t_sq, &x.det, &x.var);
    const rt_dtype format = s->in->dtype[RT_DSINK];
    rt_bounds bounds = rt_budget_close(b, x.det, x.var, x.sys, s->lambda[RT_DSINK], format, x.value);
    if (!rt_truth_element(rt_exact_gradient_factor(s->p, RT_DSINK), format, x.exact, fabs(x.exact[0]),
                          &(rt_undecided){.head = h}, &x.value, &bounds, certificate) &&
        x.open)
        rt_sweep_unknown(1, &x.value, &bounds);
    rt_tally_row(s, w, RT_DSINK, 0, h, 1, &x.value, &bounds, x.bad > 0 ? &x.bad : NULL);
}

void rt_sum_of_parts(const rt_budget *b, rt_dtype format, double value, double n, double abs, double sq,
                     double parts, double t_abs, double t_sq, double *det, double *var)
{
    const double joins = parts - 1, M = 0.5 * (t_abs + fabs(value)), gs2 = b->u_gs * b->u_gs;
    if (n > 1) {
        *det += rt_gamma(n, b->u) * abs;
        *var += b->u * b->u * 0.5 * n * (value * value + sq);
    }
    if (joins > 0 || b->u_gb > rt_unit_roundoff(format)) {
        *det += b->u_gb * t_abs + parts * b->tau_gb;
        *var += b->u_gb * b->u_gb * t_sq + parts * b->tau_gb * b->tau_gb;
    }
    if (joins > 0) {
        *det += joins * (2 * b->u_gs * M + b->tau_gs);
        *var += joins * (4 * gs2 * M * M + b->tau_gs * b->tau_gs);
    }
}

rt_status rt_sink_judge(rt_context *ctx, rt_comm *comm, rt_sweep *s, const rt_sink_sums *mine,
                        int32_t ranks, rt_sweep_work *w, rt_certificate *certificate)
{
    const int64_t n = s->p->batch * s->p->heads_q, group = s->p->heads_q / s->p->heads_kv;
    void *all = NULL;
    int64_t *offsets = NULL;
    rt_sink_sums *sums = rt_alloc(ctx, n, sizeof *sums);
    rt_status st = rt_comm_agree(ctx, comm, sums == NULL ? RT_ERR_NOMEM : RT_OK);
    if (st == RT_OK)
        st = rt_comm_gather(ctx, comm, mine, n * (int64_t)sizeof *mine, &all, &offsets);
    if (st == RT_OK && all != NULL) {
        for (int64_t i = 0; i < n; i++) { /* who swept the pair of head i % Hq in batch i / Hq */
            const int64_t pair = i / s->p->heads_q * s->p->heads_kv + i % s->p->heads_q / group;
            sums[i] =
                ((const rt_sink_sums *)(const void *)((char *)all + offsets[pair % rt_comm_size(comm)]))[i];
        }
        s->b = 0;
        for (int64_t h = 0; h < s->p->heads_q; h++)
            judge_head(s, sums, h, ranks, w, certificate);
    }
    rt_free(all);
    rt_free(offsets);
    rt_free(sums);
    return st;
}
