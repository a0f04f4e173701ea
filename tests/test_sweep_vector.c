/* The sweep's loops over a row against their definitions, for every length: whole vectors, and what is left of a row behind them.
 * The numbers are small integers and powers of two, so that sums are exact in any order. */
#include <math.h>

#include "check.h"
#include "judge/sweep_vector.h"

enum { MOST = 41 };

static bool same(double a, double b)
{
    return a >= b && a <= b;
}

static double number(int64_t i)
{
    return (double)((i * 37 + 11) % 23 - 11);
}

static void row(int64_t n, int64_t from, double *x)
{
    for (int64_t j = 0; j < n; j++)
        x[j] = number(from + j);
}

static void sums_and_maxima_miss_nothing(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= MOST; n++) {
        double x[MOST], y[MOST], v[MOST], top[MOST], vis[MOST];
        row(n, n, x);
        row(n, 5 * n + 1, y);
        double sum = 0, dot = 0, over = 0, one = 0, two = 0;
        for (int64_t j = 0; j < n; j++) {
            v[j] = j % 2 == 0 ? 0.5 : 4;
            sum += x[j];
            dot += x[j] * y[j];
            over += x[j] * x[j] / v[j];
            one += x[j] * x[j];
            two += x[j] * x[j] * x[j] * x[j];
        }
        double norm1, norm2;
        rt_sweep_norms(x, n, &norm1, &norm2);
        assert_true(same(rt_sweep_sum(n, x), sum) && same(rt_sweep_dot(n, x, y), dot));
        assert_true(same(rt_sweep_sum_over(n, x, v), over));
        assert_true(same(norm1, sqrt(one)) && same(norm2, sqrt(two)));
        row(n, 2 * n, top);
        rt_sweep_grow(n, x, top);
        for (int64_t j = 0; j < n; j++)
            assert_true(same(top[j], fmax(number(2 * n + j), fabs(x[j]))));
        /* each place in turn is the largest that is seen, and the one before it is larger but hidden */
        for (int64_t at = 0; at < n; at++) {
            double z[MOST];
            for (int64_t j = 0; j < n; j++) {
                vis[j] = j + 1 == at ? 0 : 1;
                z[j] = j == at ? 50 : j + 1 == at ? 60 : x[j];
            }
            assert_true(same(rt_sweep_top(n, 12, vis, z), 50) && same(z[at], 50));
            assert_true(same(rt_sweep_top(n, 70, vis, z), 70));
            assert_true(at == 0 || same(z[at - 1], -RT_INF));
            rt_sweep_shift(n, 50, vis, z);
            assert_true(same(z[at], 0) && (at == 0 || same(z[at - 1], -RT_INF)));
        }
    }
}

static void rows_are_widened_squared_and_seen(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= MOST; n++) {
        double wide[2 * MOST], out[MOST], square[MOST], vis[MOST];
        float narrow[2 * MOST];
        int64_t pos[MOST];
        row(2 * MOST, 3, wide);
        for (int64_t j = 0; j < 2 * MOST; j++)
            narrow[j] = (float)(wide[j] + 100);
        for (int which = 0; which < 2; which++) {
            rt_sweep_widen(wide, which == 0 ? NULL : narrow, 7, n, out);
            for (int64_t j = 0; j < n; j++)
                assert_true(same(out[j], wide[7 + j] + (which == 0 ? 0 : 100)));
        }
        rt_sweep_square(n, out, square);
        for (int64_t j = 0; j < n; j++) {
            assert_true(same(square[j], out[j] * out[j]));
            pos[j] = 3 * j;
        }
        rt_sweep_inside(9, 3 * n - 3, pos, n, vis);
        for (int64_t j = 0; j < n; j++)
            assert_true(same(vis[j], j >= 3 && j < n - 1 ? 1 : 0));
    }
}

/* T = x - prev of two partials in a row. */
static void partials_are_told_apart(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= MOST; n++) {
        double x[MOST], prev[MOST] = {0}, t_abs[MOST] = {0}, t_sq[MOST] = {0};
        row(n, 1, x);
        rt_sweep_close_partial(n, x, prev, t_abs, t_sq);
        row(n, 9, x);
        rt_sweep_close_partial(n, x, prev, t_abs, t_sq);
        for (int64_t j = 0; j < n; j++) {
            const double a = number(1 + j), b = number(9 + j) - a;
            assert_true(same(prev[j], x[j]) && same(t_abs[j], fabs(a) + fabs(b)) &&
                        same(t_sq[j], a * a + b * b));
        }
    }
}

static void weights_and_their_readings_are_those_of_the_formulas(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= MOST; n++) {
        double score[MOST], det[MOST], var[MOST], sys[MOST], p[MOST], want[MOST];
        rt_weight_sums w = {0};
        for (int64_t j = 0; j < n; j++) {
            score[j] = number(j);
            det[j] = (double)(j % 3 + 1);
            var[j] = (double)(j % 5 + 1);
            sys[j] = (double)(j % 2 + 1);
            p[j] = (double)(j * j % 7 + 1);
            want[j] = p[j] / 0.5;
            const double d = fabs(score[j] - 11), rho1 = det[j] + 3 * 2 * d + 1, rho = rho1 + rho1 * rho1,
                         v = var[j] + 3 * 4 * d * d + 2, y = sys[j] + 4;
            w.p += want[j];
            w.rho += want[j] * rho;
            w.rho2 += want[j] * rho * rho;
            w.var += want[j] * want[j] * v;
            w.sys += want[j] * y;
            w.sys2 += want[j] * y * y;
            w.var_max = fmax(w.var_max, want[j] * v);
            w.w_max = fmax(w.w_max, want[j]);
            w.rho_max = fmax(w.rho_max, rho1);
        }
        const rt_weight_sums got = rt_sweep_weights(n, 0.5, 11, 2, 4, 1, 2, 4, score, det, var, sys, p);
        assert_true(same(got.p, w.p) && same(got.rho, w.rho) && same(got.rho2, w.rho2) &&
                    same(got.var, w.var));
        assert_true(same(got.sys, w.sys) && same(got.sys2, w.sys2));
        assert_true(same(got.var_max, w.var_max) && same(got.w_max, w.w_max) &&
                    same(got.rho_max, w.rho_max));
        for (int64_t j = 0; j < n; j++)
            assert_true(same(p[j], want[j]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_maxima_miss_nothing), cmocka_unit_test(rows_are_widened_squared_and_seen),
        cmocka_unit_test(partials_are_told_apart),
        cmocka_unit_test(weights_and_their_readings_are_those_of_the_formulas)};
    return cmocka_run_group_tests_name("sweep vectors", tests, NULL, t_teardown_memory);
}
