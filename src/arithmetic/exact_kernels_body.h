/* The passes of exact_kernels.h, compiled once for each instruction set (RT_W lanes, RT_KERNELS the table's name).
 * A pass works on whole vectors; a row's tail goes through the same operations in a padded vector. */
#include "arithmetic/exact_kernels.h"
#include "number/dd_tanh.h"

/* The lanes of a vector that starts at element i of n: all, or the first n - i. */
static inline rt_v get(const double *p, int64_t i, int64_t n)
{
    if (i + RT_W <= n)
        return rt_v_load(p + i);
    double a[RT_W] = {0};
    memcpy(a, p + i, (size_t)(n - i) * sizeof a[0]);
    return rt_v_load(a);
}

static inline void put(double *p, int64_t i, int64_t n, rt_v v)
{
    if (i + RT_W <= n) {
        rt_v_store(p + i, v);
        return;
    }
    double a[RT_W];
    rt_v_store(a, v);
    memcpy(p + i, a, (size_t)(n - i) * sizeof a[0]);
}

static inline rt_v rt_v_max(rt_v a, rt_v b)
{
    return rt_v_select(a > b, a, b);
}

static double lanes_max(rt_v v)
{
    double a[RT_W], m;
    rt_v_store(a, v);
    m = a[0];
    for (int i = 1; i < RT_W; i++)
        m = a[i] > m ? a[i] : m;
    return m;
}

/* Fixed order whatever RT_W is not possible; the sums of integers are exact, the others enter error bounds or are bounded. */
static double lanes_sum(rt_v v)
{
    double a[RT_W], s = 0;
    rt_v_store(a, v);
    for (int i = 0; i < RT_W; i++)
        s += a[i];
    return s;
}

static double scores(int64_t n, const double *s0, const double *s1, const double *s2, double down,
                     const double *key_scale, double row_scale, const double *extra, const double *vis,
                     double *hi, double *lo)
{
    rt_v top = rt_v_set(-__builtin_inf());
    for (int64_t i = 0; i < n; i += RT_W) {
        const rt_v scale = get(key_scale, i, n) * row_scale;
        rt_v low = rt_v_set(0);
        if (s2 != NULL)
            low = get(s2, i, n) * down;
        if (s1 != NULL)
            low = (low + get(s1, i, n)) * down;
        low *= scale;
        if (extra != NULL)
            low += get(extra, i, n);
        const rt_vdd s = rt_vtwo_sum(get(s0, i, n) * scale, low);
        put(hi, i, n, s.hi);
        put(lo, i, n, s.lo);
        rt_v seen = s.hi;
        if (vis != NULL)
            seen = rt_v_select(get(vis, i, n) > 0.0, s.hi, rt_v_set(-__builtin_inf()));
        if (i + RT_W > n) { /* padding is not seen */
            double a[RT_W];
            rt_v_store(a, seen);
            for (int64_t x = n - i; x < RT_W; x++)
                a[x] = -__builtin_inf();
            seen = rt_v_load(a);
        }
        top = rt_v_max(seen, top);
    }
    return lanes_max(top);
}

static void bend(int64_t n, const double alpha[2], const double *add_hi, const double *add_lo, double cap,
                 const double inverse[2], double *hi, double *lo, double *slope_hi, double *slope_lo)
{
    const rt_vdd a = {rt_v_set(alpha[0]), rt_v_set(alpha[1])}, c = {rt_v_set(cap), rt_v_set(0)},
                 down = {rt_v_set(inverse[0]), rt_v_set(inverse[1])};
    for (int64_t i = 0; i < n; i += RT_W) {
        rt_vdd y = rt_vdd_mul((rt_vdd){get(hi, i, n), get(lo, i, n)}, a);
        if (add_hi != NULL)
            y = rt_vdd_add(y, (rt_vdd){get(add_hi, i, n), get(add_lo, i, n)});
        if (cap > 0) {
            rt_vdd slope;
            y = rt_vdd_mul(rt_vdd_tanh(rt_vdd_mul(y, down), &slope), c);
            if (slope_hi != NULL) {
                put(slope_hi, i, n, slope.hi);
                put(slope_lo, i, n, slope.lo);
            }
        }
        put(hi, i, n, y.hi);
        put(lo, i, n, y.lo);
    }
}

static inline rt_vdd weight(int64_t i, int64_t n, const double *hi, const double *lo, const double alpha[2],
                            const double shift[2], const double *vis)
{
    const rt_vdd s = {get(hi, i, n), get(lo, i, n)}, a = {rt_v_set(alpha[0]), rt_v_set(alpha[1])};
    const rt_vdd y = rt_vdd_add(rt_vdd_mul(s, a), (rt_vdd){rt_v_set(-shift[0]), rt_v_set(-shift[1])});
    rt_vdd p = rt_vdd_exp(y.hi, y.lo);
    if (vis != NULL) {
        const rt_vi seen = get(vis, i, n) > 0.0;
        p.hi = rt_v_select(seen, p.hi, rt_v_set(0));
        p.lo = rt_v_select(seen, p.lo, rt_v_set(0));
    }
    return p;
}

static void probabilities(int64_t n, const double *hi, const double *lo, const double alpha[2],
                          const double shift[2], const double *vis, double *p1, double *p2, double sums[2])
{
    rt_v big = rt_v_set(0), small = rt_v_set(0);
    for (int64_t i = 0; i < n; i += RT_W) {
        const rt_vdd p = weight(i, n, hi, lo, alpha, shift, vis);
        const rt_v y = p.hi * 0x1p25, whole = (y + 0x1.8p52) - 0x1.8p52, rest = (y - whole) + p.lo * 0x1p25;
        put(p1, i, n, whole);
        put(p2, i, n, rest);
        if (i + RT_W <= n) {
            big += whole;
            small += rest;
        } else {
            for (int64_t x = i; x < n; x++) {
                sums[0] += p1[x];
                sums[1] += p2[x];
            }
        }
    }
    sums[0] += lanes_sum(big);
    sums[1] += lanes_sum(small);
}

static void weights(int64_t n, const double *hi, const double *lo, const double alpha[2],
                    const double shift[2], const double *vis, double *p_hi, double *p_lo)
{
    for (int64_t i = 0; i < n; i += RT_W) {
        const rt_vdd p = weight(i, n, hi, lo, alpha, shift, vis);
        put(p_hi, i, n, p.hi);
        put(p_lo, i, n, p.lo);
    }
}

static void gradient(int64_t n, const double *p_hi, const double *p_lo, const double *dp_hi,
                     const double *dp_lo, const double delta[2], double *ds_hi, double *ds_lo,
                     double *col_ds, double *col_p, double *top_ds, double *top_p, double row[3])
{
    rt_v top = rt_v_set(0), sum_ds = rt_v_set(0), sum_p = rt_v_set(0);
    for (int64_t i = 0; i < n; i += RT_W) {
        const rt_vdd p = {get(p_hi, i, n), get(p_lo, i, n)}, dp = {get(dp_hi, i, n), get(dp_lo, i, n)};
        const rt_vdd t = rt_vdd_add(dp, (rt_vdd){rt_v_set(-delta[0]), rt_v_set(-delta[1])});
        const rt_vdd ds = rt_vdd_mul(p, t);
        const rt_v a = rt_v_abs(ds.hi);
        put(ds_hi, i, n, ds.hi);
        put(ds_lo, i, n, ds.lo);
        put(col_ds, i, n, get(col_ds, i, n) + a);
        put(col_p, i, n, get(col_p, i, n) + p.hi);
        put(top_ds, i, n, rt_v_max(get(top_ds, i, n), a));
        put(top_p, i, n, rt_v_max(get(top_p, i, n), p.hi));
        sum_ds += a; /* padding has p = 0 */
        sum_p += p.hi;
        top = rt_v_max(a, top);
    }
    row[0] += lanes_sum(sum_ds);
    row[1] += lanes_sum(sum_p);
    const double m = lanes_max(top);
    row[2] = m > row[2] ? m : row[2];
}

static void cut(int64_t n, const double *hi, const double *lo, const double *scale, double *a1, double *a2)
{
    for (int64_t i = 0; i < n; i += RT_W) {
        const rt_v f = get(scale, i, n), y = get(hi, i, n) * f, whole = (y + 0x1.8p52) - 0x1.8p52;
        put(a1, i, n, whole);
        put(a2, i, n, (y - whole) + get(lo, i, n) * f);
    }
}

static void accumulate(int64_t n, const double *big, const double *small, const double *scale,
                       double row_scale, double *acc_hi, double *acc_lo)
{
    for (int64_t i = 0; i < n; i += RT_W) {
        const rt_v f = get(scale, i, n) * row_scale;
        const rt_vdd x = rt_vtwo_sum(get(big, i, n) * f, get(small, i, n) * f);
        const rt_vdd a = rt_vdd_add((rt_vdd){get(acc_hi, i, n), get(acc_lo, i, n)}, x);
        put(acc_hi, i, n, a.hi);
        put(acc_lo, i, n, a.lo);
    }
}

static void sum_rows(bool trans, int64_t rows, int64_t inner, const double *a, int64_t lda, double *out)
{
    if (!trans) {
        for (int64_t i = 0; i < rows; i++) {
            rt_v s = rt_v_set(0);
            for (int64_t x = 0; x < inner; x += RT_W)
                s += get(a + i * lda, x, inner);
            out[i] = lanes_sum(s);
        }
        return;
    }
    for (int64_t i = 0; i < rows; i += RT_W) {
        rt_v s = rt_v_set(0);
        for (int64_t x = 0; x < inner; x++)
            s += get(a + x * lda, i, rows);
        put(out, i, rows, s);
    }
}

enum { AT_ONCE = 4 }; /* rows of a matrix that share what is loaded of a vector */

static void times(bool trans, int64_t rows, int64_t inner, const double *a, int64_t lda,
                  const double *w_high, const double *w_low, double *high, double *low)
{
    if (trans) {
        for (int64_t i = 0; i < rows; i += RT_W) {
            rt_v h = rt_v_set(0), l = rt_v_set(0);
            for (int64_t x = 0; x < inner; x++) {
                const rt_v y = get(a + x * lda, i, rows);
                h += y * w_high[x];
                if (w_low != NULL)
                    l += y * w_low[x];
            }
            put(high, i, rows, h);
            if (w_low != NULL)
                put(low, i, rows, l);
        }
        return;
    }
    for (int64_t i = 0; i < rows; i += AT_ONCE) {
        const int64_t n = rows - i < AT_ONCE ? rows - i : AT_ONCE;
        rt_v h[AT_ONCE], l[AT_ONCE];
        for (int64_t r = 0; r < AT_ONCE; r++)
            h[r] = l[r] = rt_v_set(0);
        for (int64_t x = 0; x < inner; x += RT_W) {
            const rt_v wh = get(w_high, x, inner), wl = w_low != NULL ? get(w_low, x, inner) : rt_v_set(0);
            for (int64_t r = 0; r < n; r++) {
                const rt_v y = get(a + (i + r) * lda, x, inner);
                h[r] += y * wh;
                l[r] += y * wl;
            }
        }
        for (int64_t r = 0; r < n; r++) {
            high[i + r] = lanes_sum(h[r]);
            if (w_low != NULL)
                low[i + r] = lanes_sum(l[r]);
        }
    }
}

static void sums_apart(int64_t m, int64_t n, const double *c, int64_t ldc, double *row_high,
                       double *row_low, double *column_high, double *column_low)
{
    const rt_v magic = rt_v_set(0x1.8p79);
    memset(column_high, 0, (size_t)n * sizeof *column_high);
    memset(column_low, 0, (size_t)n * sizeof *column_low);
    for (int64_t i = 0; i < m; i += AT_ONCE) {
        const int64_t rows = m - i < AT_ONCE ? m - i : AT_ONCE;
        rt_v h[AT_ONCE], l[AT_ONCE];
        for (int64_t r = 0; r < AT_ONCE; r++)
            h[r] = l[r] = rt_v_set(0);
        for (int64_t j = 0; j < n; j += RT_W) {
            rt_v ch = get(column_high, j, n), cl = get(column_low, j, n);
            for (int64_t r = 0; r < rows; r++) {
                const rt_v x = get(c + (i + r) * ldc, j, n), xh = (x + magic) - magic, xl = x - xh;
                h[r] += xh;
                l[r] += xl;
                ch += xh;
                cl += xl;
            }
            put(column_high, j, n, ch);
            put(column_low, j, n, cl);
        }
        for (int64_t r = 0; r < rows; r++) {
            row_high[i + r] = lanes_sum(h[r]);
            row_low[i + r] = lanes_sum(l[r]);
        }
    }
}

static void sums_abs(int64_t rows, int64_t inner, const double *a, int64_t lda, double *row, double *column)
{
    memset(column, 0, (size_t)inner * sizeof *column);
    for (int64_t i = 0; i < rows; i++) {
        rt_v s = rt_v_set(0);
        for (int64_t x = 0; x < inner; x += RT_W) {
            const rt_v y = rt_v_abs(get(a + i * lda, x, inner));
            s += y;
            put(column, x, inner, get(column, x, inner) + y);
        }
        row[i] = lanes_sum(s);
    }
}

const rt_exact_kernels RT_KERNELS = {scores,     bend,     probabilities, weights,    gradient, cut,
                                     accumulate, sum_rows, times,         sums_apart, sums_abs};
