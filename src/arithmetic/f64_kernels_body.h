/* The passes of f64.h, compiled once for each instruction set.  The file that includes this defines
 * RT_F64_TABLE, the vector type rt_vd of RT_W doubles, and load, store, set, add, sub, mul, fma, max (the
 * second operand where one is NaN), two_to (2^n from n + 1.5 2^52, times p), far (some lane is below -708
 * or NaN) and patch (those lanes from SLEEF).
 *
 * exp(x) = 2^n exp(r), n nearest to x / ln 2, r = x - n ln 2 in two pieces (the first of 33 bits, so that n
 * times it is exact); exp(r) = 1 + r q(r), q of degree 10, interpolated at the Chebyshev points: 8.5e-18
 * relative.  The last operation rounds a sum in [0.7, 1.5] once, and what it adds to 1 is at most 0.42 with
 * an error of 2 roundings: below 1 ulp together. */
#include <string.h>

/* Four vectors at a time, step by step: one alone would wait for each of its own operations. */
#define RT_FOUR(step) step(0) step(1) step(2) step(3)

static inline __attribute__((always_inline)) void exp_near(const rt_vd x[4], rt_vd y[4])
{
    static const double c[11] = {2.5105206373957011116e-8,
                                 2.7626357241447222855e-7,
                                 2.7557255425746434282e-6,
                                 0.000024801504346997687255,
                                 0.00019841269874800491981,
                                 0.0013888888932488598181,
                                 0.008333333333326140884,
                                 0.041666666666573142611,
                                 0.16666666666666670986,
                                 0.50000000000000056169,
                                 1.0};
    const rt_vd big = v_set(0x1.8p52), per = v_set(0x1.71547652b82fep+0), high = v_set(-0x1.62e42feep-1),
                low = v_set(-0x1.a39ef35793c76p-33), one = v_set(1.0);
    rt_vd t[4], n[4], r[4], p[4];
#define STEP(k) t[k] = v_fma(x[k], per, big);
    RT_FOUR(STEP)
#undef STEP
#define STEP(k) n[k] = v_sub(t[k], big);
    RT_FOUR(STEP)
#undef STEP
#define STEP(k) r[k] = v_fma(n[k], low, v_fma(n[k], high, x[k]));
    RT_FOUR(STEP)
#undef STEP
#define STEP(k) p[k] = v_set(c[0]);
    RT_FOUR(STEP)
#undef STEP
    for (int i = 1; i < 11; i++) {
        const rt_vd next = v_set(c[i]);
#define STEP(k) p[k] = v_fma(p[k], r[k], next);
        RT_FOUR(STEP)
#undef STEP
    }
#define STEP(k) y[k] = v_two_to(t[k], v_fma(p[k], r[k], one));
    RT_FOUR(STEP)
#undef STEP
}

static inline __attribute__((always_inline)) void exp_four(const rt_vd x[4], rt_vd y[4])
{
    exp_near(x, y);
    if (__builtin_expect(v_far(x[0]) | v_far(x[1]) | v_far(x[2]) | v_far(x[3]), 0)) {
#define STEP(k) y[k] = v_patch(x[k], y[k]);
        RT_FOUR(STEP)
#undef STEP
    }
}

/* The vector that starts at element i of n: lanes beyond the end hold `fill`. */
static inline rt_vd get(const double *p, int64_t i, int64_t n, double fill)
{
    double a[RT_W];
    for (int k = 0; k < RT_W; k++)
        a[k] = i + k < n ? p[i + k] : fill;
    return v_load(a);
}

static inline void put(double *p, int64_t i, int64_t end, rt_vd v)
{
    double a[RT_W];
    v_store(a, v);
    memcpy(p + i, a, (size_t)(end - i) * sizeof a[0]);
}

static bool all_finite(const double *x, int64_t n)
{
    rt_vd odd[4], v[4]; /* x - x: NaN where x is not finite */
#define STEP(k) odd[k] = v_set(0.0);
    RT_FOUR(STEP)
#undef STEP
    int64_t i = 0;
    for (; i + 4 * RT_W <= n; i += 4 * RT_W) {
#define STEP(k)                                                                                            \
    v[k] = v_load(x + i + (k)*RT_W);                                                                       \
    odd[k] = v_add(odd[k], v_sub(v[k], v[k]));
        RT_FOUR(STEP)
#undef STEP
    }
    double lanes[RT_W], sum = 0;
    v_store(lanes, v_add(v_add(odd[0], odd[1]), v_add(odd[2], odd[3])));
    for (int k = 0; k < RT_W; k++)
        sum += lanes[k];
    for (; i < n; i++)
        sum += x[i] - x[i];
    return sum <= 0;
}

static double top(const double *x, int64_t n, double m)
{
    rt_vd a[4];
#define STEP(k) a[k] = v_set(m);
    RT_FOUR(STEP)
#undef STEP
    int64_t i = 0;
    for (; i + 4 * RT_W <= n; i += 4 * RT_W) {
#define STEP(k) a[k] = v_max(v_load(x + i + (k)*RT_W), a[k]);
        RT_FOUR(STEP)
#undef STEP
    }
    double lanes[RT_W];
    v_store(lanes, v_max(v_max(a[0], a[1]), v_max(a[2], a[3])));
    for (int k = 0; k < RT_W; k++)
        m = lanes[k] > m ? lanes[k] : m;
    for (; i < n; i++)
        m = x[i] > m ? x[i] : m;
    return m;
}

static double weights(double *x, int64_t n, double m)
{
    const rt_vd shift = v_set(m), nothing = v_set(-__builtin_inf());
    rt_vd sum[4], d[4], p[4];
#define STEP(k) sum[k] = v_set(0.0);
    RT_FOUR(STEP)
#undef STEP
    int64_t i = 0;
    for (; i + 4 * RT_W <= n; i += 4 * RT_W) {
#define STEP(k) d[k] = v_sub(v_load(x + i + (k)*RT_W), shift);
        RT_FOUR(STEP)
#undef STEP
        exp_four(d, p);
#define STEP(k)                                                                                            \
    v_store(x + i + (k)*RT_W, p[k]);                                                                       \
    sum[k] = v_add(sum[k], p[k]);
        RT_FOUR(STEP)
#undef STEP
    }
    for (; i < n; i += RT_W) { /* the tail: one vector, and three that weigh nothing */
        d[0] = v_sub(get(x, i, n, -__builtin_inf()), shift);
        d[1] = d[2] = d[3] = nothing;
        exp_four(d, p);
        put(x, i, i + RT_W < n ? i + RT_W : n, p[0]);
        sum[0] = v_add(sum[0], p[0]);
    }
    double lanes[RT_W], total = 0;
    v_store(lanes, v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
    for (int k = 0; k < RT_W; k++)
        total += lanes[k];
    return total;
}

static void scale(double *x, int64_t n, double c)
{
    const rt_vd f = v_set(c);
    int64_t i = 0;
    for (; i + RT_W <= n; i += RT_W)
        v_store(x + i, v_mul(v_load(x + i), f));
    for (; i < n; i++)
        x[i] *= c;
}

static void gradient(double *p, double *ds, int64_t n, double m, double r, double delta)
{
    const rt_vd shift = v_set(m), norm = v_set(r), less = v_set(delta);
    rt_vd d[4], w[4];
    int64_t i = 0;
    for (; i + 4 * RT_W <= n; i += 4 * RT_W) {
#define STEP(k) d[k] = v_sub(v_load(p + i + (k)*RT_W), shift);
        RT_FOUR(STEP)
#undef STEP
        exp_four(d, w);
#define STEP(k)                                                                                            \
    w[k] = v_mul(w[k], norm);                                                                              \
    v_store(p + i + (k)*RT_W, w[k]);                                                                       \
    v_store(ds + i + (k)*RT_W, v_mul(w[k], v_sub(v_load(ds + i + (k)*RT_W), less)));
        RT_FOUR(STEP)
#undef STEP
    }
    for (; i < n; i += RT_W) {
        const int64_t end = i + RT_W < n ? i + RT_W : n;
        d[0] = d[1] = d[2] = d[3] = v_sub(get(p, i, n, m), shift);
        exp_four(d, w);
        w[0] = v_mul(w[0], norm);
        put(p, i, end, w[0]);
        put(ds, i, end, v_mul(w[0], v_sub(get(ds, i, n, 0), less)));
    }
}

const rt_f64_kernels RT_F64_TABLE = {all_finite, top, weights, scale, gradient};
