/* The last step of exact: the rounding test of every element, MPFR for what it leaves open, and what the backward needs. */
#include <math.h>
#include <string.h>

#include "arithmetic/exact.h"

void rt_exact_count_fast(rt_certificate *c, double radius, double top)
{
    c->fast++;
    const double relative = top > 0 ? radius / top : 0;
    c->radius = relative > c->radius ? relative : c->radius;
}

rt_interval rt_exact_interval(double hi, double r)
{
    const double off = r * (1 + 0x1p-40) + 0x1p-51 * fabs(hi) + 0x1p-1073;
    return (rt_interval){hi - off, hi + off};
}

/* The last approximation is the interval's middle: MPFR's, which no plan changes, where there is one. */
static void leave_open(rt_certificate *c, int64_t b, int64_t pos, int64_t head, int64_t dim,
                       rt_dtype format, rt_interval between, double *out)
{
    const double middle = 0.5 * between.low + 0.5 * between.high;
    if (isfinite(middle))
        *out = rt_round_to(format, middle) + 0.0;
    rt_certificate_undecided(c, &(rt_undecided){b, pos, head, dim, between.low, between.high});
}

static void all_nan(double *x, int64_t n)
{
    for (int64_t d = 0; d < n; d++)
        x[d] = RT_NAN;
}

/* The sink, if there is one, is part of the state, or the state is empty. */
static rt_status finish_row(rt_context *ctx, const rt_problem *p, const rt_exact_source *resolve, int64_t b,
                            int64_t h, int64_t pos, const double *const state[RT_EXACT_STATE],
                            rt_dtype format, rt_dtype lse_format, double *out, double *lse,
                            double *const row[RT_EXACT_DO], rt_certificate cert[RT_TENSOR_COUNT],
                            double open[2], double *near)
{
    double unused[2];
    open = open != NULL ? open : unused;
    open[0] = open[1] = 0;
    const int64_t Dv = p->dim_v;
    const double m = *state[3];
    const rt_dd l = {*state[4], *state[5]};
    if (m > DBL_MAX) { /* out of range: all of it by MPFR, or not at all */
        bool *all = rt_alloc(ctx, Dv, sizeof *all), lse_too = true;
        rt_interval *between = rt_alloc(ctx, Dv, sizeof *between), lse_between = {-RT_INF, RT_INF};
        if (all == NULL || between == NULL) {
            rt_free(all);
            rt_free(between);
            return RT_ERR_NOMEM;
        }
        for (int64_t d = 0; d < Dv; d++) {
            all[d] = true;
            between[d] = (rt_interval){-RT_INF, RT_INF};
        }
        all_nan(out, Dv);
        *lse = RT_NAN;
        const rt_status st = resolve == NULL
                                 ? RT_OK
                                 : rt_exact_resolve_row(ctx, resolve, b, h, pos, format, lse_format, all,
                                                        &lse_too, out, lse, between, &lse_between, cert);
        for (int64_t d = 0; d < Dv; d++) {
            if (all[d])
                leave_open(&cert[RT_OUT], b, pos, h, d, format, between[d], &out[d]);
            open[0] = all[d] ? RT_INF : open[0];
        }
        rt_free(between);
        if (lse_too)
            leave_open(&cert[RT_LSE], b, pos, h, 0, lse_format, lse_between, lse);
        open[1] = lse_too ? RT_INF : 0;
        for (int k = 1; row != NULL && k < RT_EXACT_DO; k++)
            *row[k] = k == 1 ? RT_INF : 0;
        rt_free(all);
        return st;
    }
    if (!isfinite(m)) { /* empty, or NaN */
        const bool empty = rt_is_minus_inf(m);
        open[0] = open[1] = empty ? 0 : RT_INF;
        if (empty)
            memset(out, 0, (size_t)Dv * sizeof *out);
        else
            all_nan(out, Dv);
        const double L = !empty ? RT_NAN : p->sink != NULL ? p->sink[h] : -RT_INF;
        *lse = isfinite(L) ? rt_round_to(lse_format, L) + 0.0 : L;
        cert[RT_OUT].exact_case += Dv;
        cert[RT_LSE].exact_case++;
        for (int k = 1; row != NULL && k < RT_EXACT_DO; k++)
            *row[k] = k == 1 ? L : empty ? 0 : RT_NAN;
        return RT_OK;
    }
    const double e_l = *state[6] / l.hi;
    const rt_dd keep = rt_exact_keep(p);
    rt_dd delta = {0, 0};
    double e_delta = 0, mass = 0, top = 0;
    bool any = false, todo_lse = false, far = false, nan = false;
    double widest = 0;
    bool *todo = rt_calloc(ctx, Dv, sizeof *todo);
    rt_interval *between = rt_alloc(ctx, Dv, sizeof *between);
    if (todo == NULL || between == NULL) {
        rt_free(todo);
        rt_free(between);
        return RT_ERR_NOMEM;
    }
    for (int64_t d = 0; d < Dv; d++)
        top = fabs(state[0][d]) / l.hi > top ? fabs(state[0][d]) / l.hi : top;
    top /= keep.hi;
    for (int64_t d = 0; d < Dv; d++) {
        rt_dd o = rt_dd_div((rt_dd){state[0][d], state[1][d]}, l);
        double r = (state[2][d] / l.hi + fabs(o.hi) * e_l) * (1 + 0x1p-30) + 0x1p-98 * fabs(o.hi);
        if (row != NULL) {
            delta = rt_dd_add(delta, rt_dd_mul_d(o, row[0][d]));
            e_delta += fabs(row[0][d]) * r;
            mass += fabs(row[0][d] * o.hi);
            far = far || (fabs(row[0][d]) > RT_EXACT_RANGE && isfinite(row[0][d]));
        }
        nan = nan || isnan(o.hi);
        if (p->dropout > 0) { /* delta stays in units of 1 / keep */
            o = rt_dd_div(o, keep);
            r = r / keep.hi * (1 + 0x1p-30) + 0x1p-98 * fabs(o.hi);
        }
        if (near != NULL)
            near[d] = o.hi;
        if (isnan(o.hi)) { /* a NaN or an infinity in a visible v */
            out[d] = RT_NAN;
            cert[RT_OUT].exact_case++;
        } else if (rt_exact_decide(format, o.hi, o.lo, r, &out[d])) {
            rt_exact_count_fast(&cert[RT_OUT], r, top);
        } else {
            out[d] = rt_round_to(format, o.hi);
            todo[d] = any = true;
            between[d] = rt_exact_interval(o.hi, r);
            widest = r > widest ? r : widest;
        }
    }
    const rt_dd log_l = rt_dd_log(l), L = rt_dd_add_d(log_l, m);
    const double e_L = e_l * (1 + 0x1p-30) + 0x1p-68 * (fabs(log_l.hi) + 0x1p-20) + 0x1p-100 * fabs(m);
    if (rt_exact_decide(lse_format, L.hi, L.lo, e_L, lse)) {
        rt_exact_count_fast(&cert[RT_LSE], e_L, fabs(L.hi));
    } else {
        *lse = rt_round_to(lse_format, L.hi);
        todo_lse = true;
    }
    if (row != NULL) {
        *row[1] = L.hi;
        *row[2] = L.lo;
        *row[3] = e_L;
        *row[4] = delta.hi;
        *row[5] = delta.lo;
        *row[6] = e_delta + 0x1p-98 * mass;
        if (far) { /* of dO: L says so */
            *row[1] = RT_INF;
            *row[4] = nan ? RT_NAN : 0;
            *row[2] = *row[3] = *row[5] = *row[6] = 0;
        }
    }
    rt_status st = RT_OK;
    rt_interval lse_between = rt_exact_interval(L.hi, e_L);
    if (resolve != NULL && (any || todo_lse))
        st = rt_exact_resolve_row(ctx, resolve, b, h, pos, format, lse_format, todo, &todo_lse, out, lse,
                                  between, &lse_between, cert);
    for (int64_t d = 0; d < Dv; d++) {
        if (todo[d])
            leave_open(&cert[RT_OUT], b, pos, h, d, format, between[d], &out[d]);
        open[0] = todo[d] ? widest : open[0];
    }
    rt_free(between);
    if (todo_lse)
        leave_open(&cert[RT_LSE], b, pos, h, 0, lse_format, lse_between, lse);
    open[1] = todo_lse ? e_L : 0;
    rt_free(todo);
    return st;
}

rt_status rt_exact_finish_row(rt_context *ctx, const rt_problem *p, const rt_exact_source *resolve,
                              int64_t b, int64_t h, int64_t pos, const double *const state[RT_EXACT_STATE],
                              rt_dtype format, rt_dtype lse_format, double *out, double *lse,
                              double *const row[RT_EXACT_DO], rt_certificate cert[RT_TENSOR_COUNT],
                              double open[2], double *near)
{
    if (p->sink == NULL || !(*state[3] <= DBL_MAX) || rt_is_minus_inf(*state[3]))
        return finish_row(ctx, p, resolve, b, h, pos, state, format, lse_format, out, lse, row, cert, open,
                          near);
    double *to[RT_EXACT_STATE], *store = rt_alloc(ctx, 2 * (3 * p->dim_v + 4), sizeof *store);
    if (store == NULL)
        return RT_ERR_NOMEM;
    rt_exact_sink(p, h, state, store, to);
    const double *joined[RT_EXACT_STATE];
    for (int k = 0; k < RT_EXACT_STATE; k++)
        joined[k] = to[k];
    const rt_status st =
        finish_row(ctx, p, resolve, b, h, pos, joined, format, lse_format, out, lse, row, cert, open, near);
    rt_free(store);
    return st;
}

rt_exact_factor rt_exact_gradient_factor(const rt_problem *p, rt_tensor_id t)
{
    rt_exact_factor f = {{1, 0}, 0};
    if (t == RT_DQ || t == RT_DK)
        f.value = rt_exact_scale(p, &f.error);
    if (p->dropout > 0)
        f.value = rt_dd_div(f.value, rt_exact_keep(p));
    return f;
}

rt_dd rt_exact_gradient_value(rt_exact_factor f, rt_dd sum, double error, double *radius)
{
    const rt_dd x = rt_dd_mul(sum, f.value);
    *radius = error * fabs(f.value.hi) * (1 + 0x1p-30) + (f.error + 0x1p-100) * fabs(x.hi);
    return x;
}

rt_status rt_exact_finish_gradient(rt_context *ctx, const rt_problem *p, const rt_exact_source *resolve,
                                   rt_tensor_id t, int64_t b, int64_t head, int64_t pos, const double *hi,
                                   const double *lo, const double *error, rt_dtype format, double *out,
                                   rt_certificate *cert, double *open)
{
    double unused;
    open = open != NULL ? open : &unused;
    *open = 0;
    const int64_t n = rt_exact_width(p, t);
    const rt_exact_factor f = rt_exact_gradient_factor(p, t);
    double top = 0, widest = 0;
    bool *todo = rt_calloc(ctx, n, sizeof *todo), any = false;
    rt_interval *between = rt_alloc(ctx, n, sizeof *between);
    if (todo == NULL || between == NULL) {
        rt_free(todo);
        rt_free(between);
        return RT_ERR_NOMEM;
    }
    for (int64_t d = 0; d < n; d++)
        top = fabs(hi[d] * f.value.hi) > top ? fabs(hi[d] * f.value.hi) : top;
    for (int64_t d = 0; d < n; d++) {
        double r;
        const rt_dd x = rt_exact_gradient_value(f, (rt_dd){hi[d], lo[d]}, error[d], &r);
        if (isnan(x.hi)) {
            out[d] = RT_NAN;
            *open = RT_INF;
            cert->exact_case++;
        } else if (rt_exact_decide(format, x.hi, x.lo, r, &out[d])) {
            rt_exact_count_fast(cert, r, top);
        } else {
            out[d] = rt_round_to(format, x.hi);
            todo[d] = any = true;
            between[d] = rt_exact_interval(x.hi, r);
            widest = r > widest ? r : widest;
        }
    }
    rt_status st = RT_OK;
    if (resolve != NULL && any)
        st = rt_exact_resolve_gradient(ctx, resolve, t, b, head, pos, format, todo, out, between, cert);
    for (int64_t d = 0; d < n; d++) {
        if (todo[d])
            leave_open(cert, b, pos, head, d, format, between[d], &out[d]);
        *open = todo[d] && widest > *open ? widest : *open;
    }
    rt_free(between);
    rt_free(todo);
    return st;
}
