/* Error-free slices, and products that are checked. */
#include "arithmetic/slices.h"

#include <cblas.h>
#include <string.h>

#include "arithmetic/block.h"

rt_status rt_slices_reserve(rt_context *ctx, rt_slices *s, int64_t rows, int64_t width)
{
    const int64_t need = RT_MAX_SLICES * rows * width + (rows > width ? rows : width);
    const int64_t tails = rows * width / 16 + 64;
    if (need > s->capacity) {
        double *store = rt_alloc(ctx, need, sizeof *store);
        if (store == NULL)
            return RT_ERR_NOMEM;
        rt_free(s->store);
        s->store = store;
        s->capacity = need;
    }
    if (tails > s->tail_capacity) {
        rt_tail *tail = rt_alloc(ctx, tails, sizeof *tail);
        if (tail == NULL)
            return RT_ERR_NOMEM;
        rt_free(s->tail);
        s->tail = tail;
        s->tail_capacity = tails;
    }
    return RT_OK;
}

void rt_slices_reset(rt_slices *s)
{
    rt_free(s->store);
    rt_free(s->tail);
    memset(s, 0, sizeof *s);
}

int rt_slices_bits(int64_t inner, int left)
{
    int log = 0;
    while ((INT64_C(1) << log) < inner)
        log++;
    return left > 0 ? 53 - log - left : (53 - log) / 2;
}

/* The power of two above |x|: x < 2^E; for zero, and what is near it, one so small that errors in its units do not count, and whose
 * inverse is finite. */
static double power_above(double x)
{
    if (!(x > 0x1p-901))
        return 0x1p-900;
    int e;
    (void)frexp(x, &e);
    return ldexp(1.0, e);
}

void rt_slices_cut(rt_slices *s, const double *x, int64_t ld, int64_t rows, int64_t width, int bits,
                   bool by_column)
{
    s->rows = rows;
    s->width = width;
    s->bits = bits;
    s->by_column = by_column;
    for (int k = 0; k < RT_MAX_SLICES; k++)
        s->slice[k] = s->store + k * rows * width;
    s->scale = s->store + RT_MAX_SLICES * rows * width;
    const int64_t scales = by_column ? width : rows;
    const double up = ldexp(1.0, bits), magic = 0x1.8p52;
    memset(s->scale, 0, (size_t)scales * sizeof *s->scale);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < width; d++) {
            double *top = &s->scale[by_column ? d : i];
            const double a = fabs(x[i * ld + d]);
            *top = a > *top ? a : *top;
        }
    for (int64_t i = 0; i < scales; i++)
        s->scale[i] = power_above(s->scale[i]) / up; /* 2^(E - b) */
    /* slice 0, and the remainders in slice 1's place for the time being */
    int64_t left = 0;
    for (int64_t i = 0; i < rows; i++) {
        double *a = s->slice[0] + i * width, *r = s->slice[1] + i * width;
        const double *row = x + i * ld;
        const double inverse = by_column ? 0 : 1 / s->scale[i];
        for (int64_t d = 0; d < width; d++) {
            const double y = row[d] * (by_column ? 1 / s->scale[d] : inverse);
            a[d] = (y + magic) - magic;
            r[d] = y - a[d];
        }
        for (int64_t d = 0; d < width; d++)
            left += r[d] > 0 || r[d] < 0;
    }
    s->count = 1;
    s->tails = 0;
    s->left = 0;
    while (left > 0 && left * 25 > rows * width && s->count < RT_MAX_SLICES) { /* dense: another slice */
        left = 0;
        double *a = s->slice[s->count], *r = s->count + 1 < RT_MAX_SLICES ? s->slice[s->count + 1] : NULL;
        for (int64_t i = 0; i < rows * width; i++) {
            const double y = a[i] * up, whole = (y + magic) - magic, rest = y - whole;
            a[i] = whole;
            if (r != NULL)
                r[i] = rest;
            left += rest > 0 || rest < 0;
        }
        s->count++;
        if (r == NULL) { /* nowhere to keep it: an error of half a unit of the last slice */
            s->left = left > 0 ? 0.5 * ldexp(1.0, -bits * s->count) : 0;
            left = 0;
        }
    }
    if (left == 0)
        return;
    /* short: a list of elements */
    const double *r = s->slice[s->count];
    const double unit = ldexp(1.0, -bits * (s->count - 1));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < width; d++) {
            const double v = r[i * width + d];
            if (v > 0 || v < 0)
                s->tail[s->tails++] =
                    (rt_tail){(int32_t)i, (int32_t)d, v * unit * s->scale[by_column ? d : i]};
        }
}

void rt_gemm_openblas(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a, int64_t lda,
                      const double *b, int64_t ldb, double *c, int64_t ldc)
{
    cblas_dgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (blasint)m,
                (blasint)n, (blasint)k, 1.0, a, (blasint)lda, b, (blasint)ldb, 0.0, c, (blasint)ldc);
}

void rt_gemm_plain(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a, int64_t lda,
                   const double *b, int64_t ldb, double *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++) {
        memset(c + i * ldc, 0, (size_t)n * sizeof *c);
        for (int64_t x = 0; x < k; x++) {
            const double y = ta ? a[x * lda + i] : a[i * lda + x];
            for (int64_t j = 0; j < n; j++)
                c[i * ldc + j] += y * (tb ? b[j * ldb + x] : b[x * ldb + j]);
        }
    }
}

/* An integer of up to 62 bits as a sum of doubles: high parts (multiples of 2^27) and low parts sum exactly on their own. */
static const double high_magic = 0x1.8p79;

enum {
    LANES = 8
}; /* independent sums, so that the compiler may use vectors; exact ones, so their order is free */

/* out[i] = sum over x of op(M)(i, x): row sums of a (rows, inner) matrix; trans: it is stored (inner, rows). */
static void sum_rows(bool trans, int64_t rows, int64_t inner, const double *restrict a, int64_t lda,
                     double *restrict out)
{
    memset(out, 0, (size_t)rows * sizeof *out);
    if (trans) {
        for (int64_t x = 0; x < inner; x++)
            for (int64_t i = 0; i < rows; i++)
                out[i] += a[x * lda + i];
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        double s[LANES] = {0};
        const double *row = a + i * lda;
        int64_t x = 0;
        for (; x + LANES <= inner; x += LANES)
            for (int z = 0; z < LANES; z++)
                s[z] += row[x + z];
        for (; x < inner; x++)
            s[0] += row[x];
        out[i] = ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
    }
}

/* high[i], low[i] = sum over x of op(M)(i, x) w[x], w = w_high + w_low. */
static void times(bool trans, int64_t rows, int64_t inner, const double *restrict a, int64_t lda,
                  const double *restrict w_high, const double *restrict w_low, double *restrict high,
                  double *restrict low)
{
    memset(high, 0, (size_t)rows * sizeof *high);
    memset(low, 0, (size_t)rows * sizeof *low);
    if (trans) {
        for (int64_t x = 0; x < inner; x++) {
            const double wh = w_high[x], wl = w_low[x];
            for (int64_t i = 0; i < rows; i++) {
                high[i] += a[x * lda + i] * wh;
                low[i] += a[x * lda + i] * wl;
            }
        }
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        double h[LANES] = {0}, l[LANES] = {0};
        const double *row = a + i * lda;
        int64_t x = 0;
        for (; x + LANES <= inner; x += LANES)
            for (int z = 0; z < LANES; z++) {
                h[z] += row[x + z] * w_high[x + z];
                l[z] += row[x + z] * w_low[x + z];
            }
        for (; x < inner; x++) {
            h[0] += row[x] * w_high[x];
            l[0] += row[x] * w_low[x];
        }
        high[i] = ((h[0] + h[4]) + (h[1] + h[5])) + ((h[2] + h[6]) + (h[3] + h[7]));
        low[i] = ((l[0] + l[4]) + (l[1] + l[5])) + ((l[2] + l[6]) + (l[3] + l[7]));
    }
}

/* w = w_high + w_low, w_high a multiple of 2^16 */
static void split(int64_t n, const double *restrict w, double *restrict w_high, double *restrict w_low)
{
    for (int64_t x = 0; x < n; x++) {
        w_high[x] = (w[x] + 0x1.8p68) - 0x1.8p68;
        w_low[x] = w[x] - w_high[x];
    }
}

/* Whether two integers, each in a high and a low part, are the same; false for a NaN or nonsense. */
static bool same_integer(double high, double low, double other_high, double other_low)
{
    if (!(fabs(high) < 0x1p62) || !(fabs(low) < 0x1p62))
        return false;
    return (int64_t)high + (int64_t)low == (int64_t)other_high + (int64_t)other_low;
}

/* Both checksums of C (m, n) = op(A) op(B). */
static bool sums_agree(const rt_checked_gemm *g, bool ta, bool tb, int64_t m, int64_t n, int64_t k,
                       const double *a, int64_t lda, const double *b, int64_t ldb, const double *restrict c,
                       int64_t ldc)
{
    double *w = g->sums, *w_high = w + RT_CHECK_MAX, *w_low = w_high + RT_CHECK_MAX,
           *restrict c_high = w_low + RT_CHECK_MAX, *restrict c_low = c_high + RT_CHECK_MAX,
           *high = c_low + RT_CHECK_MAX, *low = high + RT_CHECK_MAX;
    /* rows of C against A (B 1): B 1 are the row sums of op(B), (k, n) */
    sum_rows(tb, k, n, b, ldb, w);
    split(k, w, w_high, w_low);
    times(ta, m, k, a, lda, w_high, w_low, high, low);
    memset(c_high, 0, (size_t)n * sizeof *c_high);
    memset(c_low, 0, (size_t)n * sizeof *c_low);
    for (int64_t i = 0; i < m; i++) {
        double rh[LANES] = {0}, rl[LANES] = {0};
        const double *row = c + i * ldc;
        int64_t j = 0;
        for (; j + LANES <= n; j += LANES)
            for (int z = 0; z < LANES; z++) {
                const double h = (row[j + z] + high_magic) - high_magic, l = row[j + z] - h;
                rh[z] += h;
                rl[z] += l;
                c_high[j + z] += h;
                c_low[j + z] += l;
            }
        for (; j < n; j++) {
            const double h = (row[j] + high_magic) - high_magic, l = row[j] - h;
            rh[0] += h;
            rl[0] += l;
            c_high[j] += h;
            c_low[j] += l;
        }
        for (int z = 1; z < LANES; z++) {
            rh[0] += rh[z];
            rl[0] += rl[z];
        }
        if (!same_integer(rh[0], rl[0], high[i], low[i]))
            return false;
    }
    /* columns of C against (1 A) B: 1 A are the column sums of op(A), (m, k) */
    sum_rows(!ta, k, m, a, lda, w);
    split(k, w, w_high, w_low);
    times(!tb, n, k, b, ldb, w_high, w_low, high, low);
    for (int64_t j = 0; j < n; j++)
        if (!same_integer(c_high[j], c_low[j], high[j], low[j]))
            return false;
    return true;
}

void rt_gemm_exact(rt_checked_gemm *g, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a,
                   int64_t lda, const double *b, int64_t ldb, double *c, int64_t ldc)
{
    if (m > RT_CHECK_MAX || n > RT_CHECK_MAX || k > RT_CHECK_MAX) {
        rt_gemm_plain(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
        return;
    }
    g->gemm(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
    g->products++;
    if (sums_agree(g, ta, tb, m, n, k, a, lda, b, ldb, c, ldc))
        return;
    g->wrong++;
    rt_gemm_plain(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
}

double rt_gemm_rounded(rt_checked_gemm *g, bool ta, bool tb, int64_t m, int64_t n, int64_t k,
                       const double *a, int64_t lda, const double *b, int64_t ldb, double *c, int64_t ldc,
                       double a_max, double b_max)
{
    const bool large = m > RT_CHECK_MAX || n > RT_CHECK_MAX || k > RT_CHECK_MAX;
    (large ? rt_gemm_plain : g->gemm)(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
    if (large)
        return 2 * (double)k * 0x1p-53 * (double)k * a_max * b_max;
    g->products++;
    /* Each sum of n (or m) elements, and its counterpart, is rounded at most k + n times on terms that total at most
     * k n a_max b_max; an element that is off by more than twice that shows in its row. */
    const double wide = (double)(n > m ? n : m),
                 tolerance = 2 * (double)(k + n + m) * 0x1p-53 * (double)k * wide * a_max * b_max;
    double *w = g->sums, *want = w + RT_CHECK_MAX, *got = want + RT_CHECK_MAX, *none = got + RT_CHECK_MAX,
           *zero = none + RT_CHECK_MAX;
    bool right = true;
    memset(zero, 0, (size_t)k * sizeof *zero);
    sum_rows(tb, k, n, b, ldb, w);
    times(ta, m, k, a, lda, w, zero, want, none);
    sum_rows(false, m, n, c, ldc, got);
    for (int64_t i = 0; i < m; i++)
        right = right && fabs(got[i] - want[i]) <= tolerance;
    sum_rows(!ta, k, m, a, lda, w);
    times(!tb, n, k, b, ldb, w, zero, want, none);
    sum_rows(true, n, m, c, ldc, got);
    for (int64_t j = 0; j < n; j++)
        right = right && fabs(got[j] - want[j]) <= tolerance;
    if (!right) {
        g->wrong++;
        rt_gemm_plain(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
    }
    return 2 * tolerance;
}
