/* Arithmetic exact as the executor sees it: its parts, and the calls. */
#include <string.h>

#include "arithmetic/exact.h"

static int exact_parts(rt_payload payload, const rt_problem *p, int64_t width[RT_MAX_PARTS])
{
    const int64_t D = p->dim, Dv = p->dim_v;
    for (int k = 0; k < RT_MAX_PARTS; k++)
        width[k] = 1;
    switch (payload) {
    case RT_PAYLOAD_KV:
        width[0] = D;
        width[1] = Dv;
        return 2;
    case RT_PAYLOAD_STATE:
        width[0] = width[1] = width[2] = Dv;
        return RT_EXACT_STATE;
    case RT_PAYLOAD_DO:
        width[0] = Dv;
        return RT_EXACT_DO;
    case RT_PAYLOAD_DQ:
        width[0] = width[1] = width[2] = D;
        width[3] = width[4] = width[5] = p->seqlen_k;
        return rt_wants_dbias(p) ? 2 * RT_EXACT_DQ : RT_EXACT_DQ;
    case RT_PAYLOAD_DKV:
        width[0] = width[1] = width[2] = D;
        width[3] = width[4] = width[5] = Dv;
        return RT_EXACT_DKV;
    case RT_PAYLOAD_Q:
    case RT_PAYLOAD_COUNT:
    default:
        width[0] = D;
        return 1;
    }
}

static rt_status exact_forward(rt_context *ctx, const rt_tile_data *t)
{
    int64_t counts[2] = {0, 0};
    RT_TRY(rt_exact_forward_tile(ctx, t->problem, 0, t->n_q, t->q_pos, t->n_kv, t->k_pos, t->q_head0,
                                 t->q_head1, &t->q, &t->k, &t->v, t->state, t->fresh_q, rt_gemm_openblas,
                                 t->products != NULL ? t->products : counts, t->poke, t->poke_arg));
    return RT_OK;
}

static rt_status exact_backward(rt_context *ctx, const rt_tile_data *t)
{
    int64_t counts[2] = {0, 0};
    const rt_exact_grads x = {.q = &t->q,
                              .k = &t->k,
                              .v = &t->v,
                              .row = t->row,
                              .dq = t->dq,
                              .dkv = t->dkv,
                              .dbias = rt_wants_dbias(t->problem) ? t->dq + RT_EXACT_DQ : NULL,
                              .fresh_q = t->fresh_q,
                              .fresh_kv = t->fresh_kv};
    return rt_exact_backward_tile(ctx, t->problem, 0, t->n_q, t->q_pos, t->n_kv, t->k_pos, t->q_head0,
                                  t->q_head1, &x, rt_gemm_openblas,
                                  t->products != NULL ? t->products : counts, t->poke, t->poke_arg);
}

/* Gradients: (hi, lo, e) + (hi, lo, e), the sum's own rounding in e. */
static void add(int64_t n, const double *const in[], double *const present[])
{
    for (int64_t i = 0; i < n; i++) {
        const rt_dd a = {in[0][i], in[1][i]}, b = {present[0][i], present[1][i]};
        const bool both = (a.hi < 0 || a.hi > 0) && (b.hi < 0 || b.hi > 0);
        const rt_dd sum = rt_dd_add(a, b);
        present[2][i] =
            (in[2][i] + present[2][i]) * (1 + 0x1p-50) + (both ? 0x1p-100 * (fabs(a.hi) + fabs(b.hi)) : 0);
        present[0][i] = sum.hi;
        present[1][i] = sum.lo;
    }
}

static void exact_land(rt_payload payload, const rt_problem *p, int64_t rows,
                       const double *const in[RT_MAX_PARTS], double *const present[RT_MAX_PARTS])
{
    if (payload == RT_PAYLOAD_STATE) {
        rt_exact_join(rows, p->dim_v, in, present);
        return;
    }
    add(rows * p->dim, in, present);
    if (payload == RT_PAYLOAD_DKV)
        add(rows * p->dim_v, in + 3, present + 3);
    else if (rt_wants_dbias(p))
        add(rows * p->seqlen_k, in + 3, present + 3);
}

static rt_status exact_finish(const rt_finish *f, int64_t b, int64_t h, int64_t pos,
                              const double *const state[RT_MAX_PARTS], double *const row[RT_MAX_PARTS],
                              double *out, double *lse)
{
    const rt_exact_source s = {f->problem, f->load, f->arg};
    return rt_exact_finish_row(f->ctx, f->problem, &s, b, h, pos, state, f->format, f->lse_format, out, lse,
                               row, f->certificate, NULL, NULL);
}

static rt_status exact_finish_gradient(const rt_finish *f, rt_tensor_id t, int64_t b, int64_t head,
                                       int64_t pos, const double *const parts[RT_MAX_PARTS], double *out)
{
    const rt_exact_source s = {f->problem, f->load, f->arg};
    const double *const share[] = {parts[0], parts[0] + 1, parts[0] + 2}, *const *x =
                                                                              t == RT_DSINK ? share : parts;
    return rt_exact_finish_gradient(f->ctx, f->problem, &s, t, b, head, pos, x[0], x[1], x[2], f->format,
                                    out, &f->certificate[t], NULL);
}

/* - exp(sink - L) delta: value, its low part, its error.  L of +infinity: a row that only MPFR can compute. */
static void share_sink(const rt_problem *p, int64_t h, const double *const row[RT_MAX_PARTS], double *share)
{
    const double L = *row[1], e_L = *row[3];
    const rt_dd delta = {*row[4], *row[5]};
    share[0] = share[1] = share[2] = 0;
    if (L > DBL_MAX) {
        share[2] = RT_INF;
        return;
    }
    const rt_dd y = rt_dd_add((rt_dd){p->sink[h], 0}, (rt_dd){-L, -*row[2]}), weight = rt_dd_exp1(y);
    const rt_dd x = rt_dd_neg(rt_dd_mul(weight, delta));
    const double size = fabs(p->sink[h]) + fabs(L),
                 relative = y.hi < -600 ? 0 : RT_DD_EXP_ERROR + 0x1p-100 * size;
    share[0] = x.hi;
    share[1] = x.lo;
    share[2] = (e_L + relative + 0x1p-98) * (1 + 0x1p-20) * fabs(x.hi) +
               weight.hi * *row[6] * (1 + 0x1p-20) + RT_EXACT_FLOOR * (fabs(delta.hi) + *row[6]);
}

static void sum(rt_tensor_id t, const rt_problem *p, const double *const in[RT_MAX_PARTS],
                double *const present[RT_MAX_PARTS])
{
    if (t == RT_DBIAS)
        add(p->seqlen_k, in, present);
    else
        add(1, (const double *[]){in[0], in[0] + 1, in[0] + 2},
            (double *[]){present[0], present[0] + 1, present[0] + 2});
}

const rt_arithmetic_ops rt_arithmetic_exact = {.name = "exact",
                                               .scores = true,
                                               .result = RT_F32,
                                               .state_m = 3,
                                               .parts = exact_parts,
                                               .forward = exact_forward,
                                               .backward = exact_backward,
                                               .land = exact_land,
                                               .finish = exact_finish,
                                               .finish_gradient = exact_finish_gradient,
                                               .dbias_part = RT_EXACT_DQ,
                                               .sink_share = 3,
                                               .share_sink = share_sink,
                                               .sum = sum};
