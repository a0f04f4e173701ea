/* The passes of f32.h, compiled once for each instruction set.  The file that includes this defines
 * RT_F32_TABLE, the vector type rt_vf of RT_W floats, and load, store, set, add, sub, mul, fma, max (the
 * second operand where one is NaN), exp2 and narrow.
 *
 * 2^x for x <= 0: x = n + r, |r| <= 1/2; 2^r = 1 + r q(r), q of degree 5 with relative error 5e-9
 * (interpolated at the Chebyshev points), times 2^n. */
#include <string.h>

#define RT_EXP2_C1 0.693147188f
#define RT_EXP2_C2 0.2402265076f
#define RT_EXP2_C3 0.05550357114f
#define RT_EXP2_C4 0.009618082557f
#define RT_EXP2_C5 0.001339086336f
#define RT_EXP2_C6 0.0001545316295f

/* Four vectors at a time: one alone would wait for each of its own operations. */
#define RT_FOUR(step) step(0) step(1) step(2) step(3)

static inline rt_vf two_to_fraction(rt_vf r)
{
    rt_vf p = v_set(RT_EXP2_C6);
    p = v_fma(p, r, v_set(RT_EXP2_C5));
    p = v_fma(p, r, v_set(RT_EXP2_C4));
    p = v_fma(p, r, v_set(RT_EXP2_C3));
    p = v_fma(p, r, v_set(RT_EXP2_C2));
    p = v_fma(p, r, v_set(RT_EXP2_C1));
    return v_fma(p, r, v_set(1.0f));
}

static inline rt_vf v_exp2(rt_vf x);

/* The vector that starts at element i of n: lanes beyond the end hold `fill`. */
static inline rt_vf get(const float *p, int64_t i, int64_t n, float fill)
{
    float a[RT_W];
    for (int k = 0; k < RT_W; k++)
        a[k] = i + k < n ? p[i + k] : fill;
    return v_load(a);
}

static inline void put(float *p, int64_t i, int64_t n, rt_vf v)
{
    float a[RT_W];
    v_store(a, v);
    memcpy(p + i, a, (size_t)(n - i) * sizeof a[0]);
}

static float top(const float *x, int64_t n, float m)
{
    rt_vf a[4];
#define STEP(k) a[k] = v_set(m);
    RT_FOUR(STEP)
#undef STEP
    int64_t i = 0;
    for (; i + 4 * RT_W <= n; i += 4 * RT_W) {
#define STEP(k) a[k] = v_max(v_load(x + i + (k)*RT_W), a[k]);
        RT_FOUR(STEP)
#undef STEP
    }
    for (; i + RT_W <= n; i += RT_W)
        a[0] = v_max(v_load(x + i), a[0]);
    float lanes[RT_W];
    v_store(lanes, v_max(v_max(a[0], a[1]), v_max(a[2], a[3])));
    for (int k = 0; k < RT_W; k++)
        m = lanes[k] > m ? lanes[k] : m;
    for (; i < n; i++)
        m = x[i] > m ? x[i] : m;
    return m;
}

static float weights(float *x, int64_t n, float m)
{
    const rt_vf shift = v_set(m);
    rt_vf sum[4], p[4];
#define STEP(k) sum[k] = v_set(0.0f);
    RT_FOUR(STEP)
#undef STEP
    int64_t i = 0;
    for (; i + 4 * RT_W <= n; i += 4 * RT_W) {
#define STEP(k) p[k] = v_exp2(v_sub(v_load(x + i + (k)*RT_W), shift));
        RT_FOUR(STEP)
#undef STEP
#define STEP(k)                                                                                            \
    v_store(x + i + (k)*RT_W, p[k]);                                                                       \
    sum[k] = v_add(sum[k], p[k]);
        RT_FOUR(STEP)
#undef STEP
    }
    for (; i < n; i += RT_W) {
        p[0] = v_exp2(v_sub(get(x, i, n, -__builtin_inff()), shift));
        put(x, i, i + RT_W < n ? i + RT_W : n, p[0]);
        sum[0] = v_add(sum[0], p[0]);
    }
    float lanes[RT_W], total = 0;
    v_store(lanes, v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
    for (int k = 0; k < RT_W; k++)
        total += lanes[k];
    return total;
}

static void scale(float *x, int64_t n, float c)
{
    const rt_vf f = v_set(c);
    int64_t i = 0;
    for (; i + RT_W <= n; i += RT_W)
        v_store(x + i, v_mul(v_load(x + i), f));
    for (; i < n; i++)
        x[i] *= c;
}

static void gradient(float *p, float *ds, int64_t n, float m, float r, float delta)
{
    const rt_vf shift = v_set(m), norm = v_set(r), less = v_set(delta);
    rt_vf w[4];
    int64_t i = 0;
    for (; i + 4 * RT_W <= n; i += 4 * RT_W) {
#define STEP(k) w[k] = v_mul(v_exp2(v_sub(v_load(p + i + (k)*RT_W), shift)), norm);
        RT_FOUR(STEP)
#undef STEP
#define STEP(k)                                                                                            \
    v_store(p + i + (k)*RT_W, w[k]);                                                                       \
    v_store(ds + i + (k)*RT_W, v_mul(w[k], v_sub(v_load(ds + i + (k)*RT_W), less)));
        RT_FOUR(STEP)
#undef STEP
    }
    for (; i < n; i += RT_W) {
        const int64_t end = i + RT_W < n ? i + RT_W : n;
        w[0] = v_mul(v_exp2(v_sub(get(p, i, n, m), shift)), norm);
        put(p, i, end, w[0]);
        put(ds, i, end, v_mul(w[0], v_sub(get(ds, i, n, 0), less)));
    }
}

static bool narrow(const double *in, int64_t n, float *out)
{
    rt_vf odd = v_set(0.0f); /* x - x: NaN where x is not finite */
    int64_t i = 0;
    for (; i + RT_W <= n; i += RT_W) {
        const rt_vf x = v_narrow(in + i);
        v_store(out + i, x);
        odd = v_add(odd, v_sub(x, x));
    }
    float lanes[RT_W], sum = 0;
    v_store(lanes, odd);
    for (int k = 0; k < RT_W; k++)
        sum += lanes[k];
    for (; i < n; i++) {
        out[i] = (float)in[i];
        sum += out[i] - out[i];
    }
    return sum <= 0;
}

const rt_f32_kernels RT_F32_TABLE = {narrow, top, weights, scale, gradient};
