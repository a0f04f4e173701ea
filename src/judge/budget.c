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
    if (d->accumulate == RT_ACC_TC) {
        b->matrix_unit = true;
        /* Each step of L products and the accumulator truncates L + 1 terms at 2^-F of the largest, and the result at
         * 2^-bits; per product 1/L of that. */
        double ulp_f = 1, ulp_b = 1;
        for (int32_t i = 0; i < d->tc_fraction; i++)
            ulp_f /= 2;
        for (int32_t i = 0; i < d->tc_bits; i++)
            ulp_b /= 2;
        b->tc_unit = ((double)(d->tc_step + 1) * ulp_f + ulp_b) / (double)d->tc_step;
    }
    rounding(d->probabilities, b->u, &b->u_p, &b->tau_p);
    rounding(d->partial, b->u, &b->u_b, &b->tau_b);
    b->u_s = rt_unit_roundoff(d->state);
    b->join_weights = d->join == RT_JOIN_TWO_PASS || d->join == RT_JOIN_SPLIT;
    rounding(d->grad_partial, b->u, &b->u_gb, &b->tau_gb);
    b->u_gs = rt_unit_roundoff(d->grad_state);
    b->block_keys = d->block_keys;
    b->radius = 0x1p-53 / b->u;
}

double rt_gamma(double n, double u)
{
    return n * u < 0.5 ? n * u / (1 - n * u) : RT_INF;
}

double rt_budget_dot(const rt_budget *b, double n)
{
    return b->matrix_unit ? n * b->tc_unit : rt_gamma(n, b->u);
}

double rt_budget_dot_sys(const rt_budget *b, double n)
{
    return b->matrix_unit ? n * b->tc_unit : 0;
}

/* Half an ulp where a value as large as x is rounded to the format; overflow can cost everything. */
static double half_ulp(rt_dtype format, double x)
{
    return x < rt_max_finite(format) ? 0.5 * rt_ulp(format, x) : x;
}

rt_bounds rt_budget_close(const rt_budget *b, double det, double var, double sys, double lambda, rt_dtype format,
                          double truth)
{
    rt_bounds r = {.sys = sys, .random = lambda * sqrt(var), .det = det};
    const double likely = sys + r.random < det ? sys + r.random : det;
    const double all = det + half_ulp(format, fabs(truth) + det);
    r.rounding = half_ulp(format, fabs(truth) + likely);
    r.radius = b->radius * all;
    r.bound = all + r.radius;
    r.lambda = likely + r.rounding + r.radius;
    return r;
}
