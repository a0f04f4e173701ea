/* The constants of a declared arithmetic, and the last step of every bound. */
#include "judge/budget.h"

#include <string.h>

/* Roundings to a format at least as fine as the accumulation are already counted by it. */
static void rounding(rt_dtype t, double u_acc, double *u, double *tau)
{
    *u = rt_unit_roundoff(t);
    *tau = rt_half_tiny(t);
    if (*u <= u_acc) {
        *u = 0;
        *tau = 0;
    }
}

void rt_budget_init(rt_budget *b, const rt_declared *d)
{
    memset(b, 0, sizeof *b);
    b->u = d->accumulate == RT_ACC_F64 ? 0x1p-53 : 0x1p-24;
    b->exp_rel = d->exp_rel;
    b->tanh_rel = d->tanh_rel;
    b->tanh_abs = (d->assumed & RT_DECL_TANH) != 0 ? d->exp_rel + 2 * b->u : 0;
    b->eta = d->accumulate == RT_ACC_F64 ? 0x1p-1022 : 0x1p-126;
    if (d->accumulate == RT_ACC_TC) {
        b->matrix_unit = true;
        /* Each step of L products and the accumulator truncates the terms that are there at 2^-F of the
         * largest, and its result at 2^-bits. */
        double ulp_f = 1, ulp_b = 1;
        for (int32_t i = 0; i < d->tc_fraction; i++)
            ulp_f /= 2;
        for (int32_t i = 0; i < d->tc_bits; i++)
            ulp_b /= 2;
        b->tc_products = (double)d->tc_step;
        b->tc_term = ulp_f;
        b->tc_step = ulp_f + ulp_b;
    }
    rounding(d->probabilities, b->u, &b->u_p, &b->tau_p);
    rounding(d->partial, b->u, &b->u_b, &b->tau_b);
    b->u_s = rt_unit_roundoff(d->state);
    b->tau_s = b->u_s > 0x1p-24 ? rt_half_tiny(d->state) : 0;
    /* LSE and weights are kept in binary32 where the output's state is coarser. */
    b->u_j = b->u_s < 0x1p-24 ? b->u_s : 0x1p-24;
    b->u_j = b->u_j > b->u ? b->u_j : b->u;
    b->join = d->join;
    rounding(d->grad_partial, b->u, &b->u_gb, &b->tau_gb);
    b->u_gs = rt_unit_roundoff(d->grad_state);
    b->tau_gs = b->u_gs > 0x1p-24 ? rt_half_tiny(d->grad_state) : 0;
    b->block_keys = d->block_keys;
    b->radius = 0x1p-53 / b->u;
}

double rt_gamma(double n, double u)
{
    return n * u < 0.5 ? n * u / (1 - n * u) : RT_INF;
}

double rt_budget_dot(const rt_budget *b, double n, double extra)
{
    return b->matrix_unit ? rt_budget_dot_sys(b, n, extra) : rt_gamma(n, b->u);
}

double rt_budget_dot_sys(const rt_budget *b, double n, double extra)
{
    return b->matrix_unit ? n * b->tc_term + (ceil(n / b->tc_products) + extra) * b->tc_step : 0;
}

double rt_budget_blocks(const rt_budget *b, int64_t keys, int64_t partials)
{
    const int64_t inside = keys > 0 ? (keys - 1) / b->block_keys : 0;
    return (double)(b->join == RT_JOIN_RAW && partials > 1 ? inside + partials - 1 : inside);
}

/* Half an ulp where a value as large as x is rounded to the format (to its largest value and no further: an
 * overflow is not a finite result). */
static double half_ulp(rt_dtype format, double x)
{
    const double top = rt_max_finite(format);
    return 0.5 * rt_ulp(format, x < top ? x : top);
}

rt_bounds rt_budget_close(const rt_budget *b, double det, double var, double sys, double lambda,
                          rt_dtype format, double truth)
{
    /* Squares below 2^-1022 are lost: what that takes from sqrt(var) is less than the root of this floor. */
    rt_bounds r = {.sys = sys, .random = lambda * sqrt(var + 0x1p-900), .det = det};
    const double likely = sys + r.random < det ? sys + r.random : det;
    r.last = half_ulp(format, fabs(truth) + det);
    r.rounding = half_ulp(format, fabs(truth) + likely);
    r.radius = b->radius * det + 0x1p-52 * fabs(truth); /* of the truth, in binary64 */
    rt_budget_know(&r, r.radius);
    return r;
}

void rt_budget_know(rt_bounds *b, double known)
{
    const double likely = b->sys + b->random < b->det ? b->sys + b->random : b->det;
    b->known = known;
    b->bound = b->det + b->last + known;
    b->lambda = likely + b->rounding + known;
}
