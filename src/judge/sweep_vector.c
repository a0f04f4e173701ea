/* The sweep's loops over a row. */
#include "judge/sweep_vector.h"

#include <string.h>

RT_SWEEP_WIDE void rt_sweep_inside(int64_t lo, int64_t hi, const int64_t *restrict pos, int64_t n,
                                   double *restrict vis)
{
    for (int64_t k = 0; k < n; k++)
        vis[k] = pos[k] >= lo && pos[k] < hi ? 1.0 : 0.0;
}

RT_SWEEP_WIDE void rt_sweep_shift(int64_t n, double top, const double *restrict vis, double *restrict x)
{
    for (int64_t j = 0; j < n; j++)
        x[j] = vis[j] > 0 ? x[j] - top : -RT_INF;
}

RT_SWEEP_WIDE void rt_sweep_widen(const double *wide, const float *restrict narrow, int64_t at, int64_t n,
                                  double *restrict out)
{
    if (narrow == NULL) {
        memcpy(out, wide + at, (size_t)n * sizeof *out);
        return;
    }
    for (int64_t d = 0; d < n; d++)
        out[d] = (double)narrow[at + d];
}

RT_SWEEP_WIDE void rt_sweep_square(int64_t n, const double *x, double *y)
{
    for (int64_t d = 0; d < n; d++)
        y[d] = x[d] * x[d];
}

RT_SWEEP_WIDE void rt_sweep_norms(const double *x, int64_t n, double *norm1, double *norm2)
{
    double one[8] = {0}, two[8] = {0}; /* sums in eight lanes, which vectors may hold */
    int64_t d = 0;
    for (; d + 8 <= n; d += 8)
        for (int lane = 0; lane < 8; lane++) {
            const double y = x[d + lane] * x[d + lane];
            one[lane] += y;
            two[lane] += y * y;
        }
    for (; d < n; d++) {
        const double y = x[d] * x[d];
        one[0] += y;
        two[0] += y * y;
    }
    *norm1 = sqrt(rt_sweep_lanes(one));
    *norm2 = sqrt(rt_sweep_lanes(two));
}

RT_SWEEP_WIDE void rt_sweep_grow(int64_t n, const double *restrict x, double *restrict top)
{
    for (int64_t d = 0; d < n; d++) {
        const double a = fabs(x[d]);
        top[d] = a > top[d] ? a : top[d];
    }
}

RT_SWEEP_WIDE void rt_sweep_close_partial(int64_t n, const double *restrict x, double *restrict prev,
                                          double *restrict t_abs, double *restrict t_sq)
{
    for (int64_t d = 0; d < n; d++) {
        const double t = x[d] - prev[d];
        t_abs[d] += fabs(t);
        t_sq[d] += t * t;
        prev[d] = x[d];
    }
}

RT_SWEEP_WIDE
double rt_sweep_top(int64_t n, double top, const double *restrict vis, double *restrict row)
{
    double lane[8];
    int64_t j = 0;
    for (int i = 0; i < 8; i++)
        lane[i] = top;
    for (; j + 8 <= n; j += 8)
        for (int i = 0; i < 8; i++) {
            const double x = vis[j + i] > 0 ? row[j + i] : -RT_INF;
            row[j + i] = x;
            lane[i] = x > lane[i] ? x : lane[i];
        }
    for (; j < n; j++) {
        row[j] = vis[j] > 0 ? row[j] : -RT_INF;
        lane[0] = row[j] > lane[0] ? row[j] : lane[0];
    }
    for (int i = 1; i < 8; i++)
        lane[0] = lane[i] > lane[0] ? lane[i] : lane[0];
    return lane[0];
}

RT_SWEEP_WIDE
double rt_sweep_sum(int64_t n, const double *restrict row)
{
    double lane[8] = {0};
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (int i = 0; i < 8; i++)
            lane[i] += row[j + i];
    for (; j < n; j++)
        lane[0] += row[j];
    return rt_sweep_lanes(lane);
}

RT_SWEEP_WIDE
double rt_sweep_sum_over(int64_t n, const double *restrict c, const double *restrict v)
{
    double lane[8] = {0};
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (int i = 0; i < 8; i++)
            lane[i] += rt_sweep_over(c[j + i], v[j + i]);
    for (; j < n; j++)
        lane[0] += rt_sweep_over(c[j], v[j]);
    return rt_sweep_lanes(lane);
}

RT_SWEEP_WIDE double rt_sweep_dot(int64_t n, const double *restrict x, const double *restrict y)
{
    double lane[8] = {0};
    int64_t d = 0;
    for (; d + 8 <= n; d += 8)
        for (int i = 0; i < 8; i++)
            lane[i] += x[d + i] * y[d + i];
    for (; d < n; d++)
        lane[0] += x[d] * y[d];
    return rt_sweep_lanes(lane);
}

RT_SWEEP_WIDE
rt_weight_sums rt_sweep_weights(int64_t n, double l, double top, double u, double u2, double det0,
                                double var0, double sys0, const double *restrict score,
                                const double *restrict s_det, const double *restrict s_var,
                                const double *restrict s_sys, double *restrict p)
{
    double sum[9][8] = {{0}}; /* by what, and lane */
    for (int64_t j0 = 0; j0 < n; j0 += 8) {
        const int64_t m = n - j0 < 8 ? n - j0 : 8;
        double x[8] = {0}, linear[8] = {0}, var[8] = {0}, sys[8] = {0};
        for (int64_t i = 0; i < m; i++) {
            const int64_t j = j0 + i;
            const double d = fabs(score[j] - top);
            x[i] = p[j] / l;
            linear[i] = s_det[j] + 3 * u * d + det0;
            var[i] = s_var[j] + 3 * u2 * d * d + var0;
            sys[i] = s_sys[j] + sys0;
            p[j] = x[i];
        }
        for (int i = 0; i < 8; i++) {
            const double r = linear[i], rho = r + r * r, pr = x[i] * rho, pv = x[i] * var[i],
                         ps = x[i] * sys[i];
            sum[0][i] += x[i];
            sum[1][i] += pr;
            sum[2][i] += pr * rho;
            sum[3][i] += x[i] * pv;
            sum[4][i] += ps;
            sum[5][i] += ps * sys[i];
            sum[6][i] = pv > sum[6][i] ? pv : sum[6][i];
            sum[7][i] = x[i] > sum[7][i] ? x[i] : sum[7][i];
            sum[8][i] = r > sum[8][i] ? r : sum[8][i];
        }
    }
    for (int i = 1; i < 8; i++) {
        sum[6][0] = fmax(sum[6][0], sum[6][i]);
        sum[7][0] = fmax(sum[7][0], sum[7][i]);
        sum[8][0] = fmax(sum[8][0], sum[8][i]);
    }
    return (rt_weight_sums){.p = rt_sweep_lanes(sum[0]),
                            .rho = rt_sweep_lanes(sum[1]),
                            .rho2 = rt_sweep_lanes(sum[2]),
                            .var = rt_sweep_lanes(sum[3]),
                            .sys = rt_sweep_lanes(sum[4]),
                            .sys2 = rt_sweep_lanes(sum[5]),
                            .var_max = sum[6][0],
                            .w_max = sum[7][0],
                            .rho_max = sum[8][0]};
}
