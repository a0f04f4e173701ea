/* Error-free slices, and products that are checked. */
#include "arithmetic/slices.h"

#include <cblas.h>
#include <string.h>

#include "arithmetic/block.h"
#include "arithmetic/exact_kernels.h"

rt_status rt_slices_reserve(rt_context *ctx, rt_slices *s, int64_t rows, int64_t width)
{
    const int64_t need = RT_MAX_SLICES * rows * width + 2 * (rows > width ? rows : width);
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

/* Loops that are compiled for AVX2 too and chosen at run time; the same operations, so the same bits. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&   \
    !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

static const double magic = 0x1.8p52; /* x + magic - magic: the integer nearest to x */

/* top[d] = max(top[d], |x[d]|) */
WIDE static void raise_each(int64_t n, const double *restrict x, double *restrict top)
{
    for (int64_t d = 0; d < n; d++) {
        const double a = fabs(x[d]);
        top[d] = a > top[d] ? a : top[d];
    }
}

/* The largest |x[d]|, by independent lanes. */
WIDE static double raise_one(int64_t n, const double *restrict x)
{
    enum { LANES = 8 };
    double top[LANES] = {0};
    int64_t d = 0;
    for (; d + LANES <= n; d += LANES)
        for (int z = 0; z < LANES; z++) {
            const double a = fabs(x[d + z]);
            top[z] = a > top[z] ? a : top[z];
        }
    for (; d < n; d++)
        top[0] = fabs(x[d]) > top[0] ? fabs(x[d]) : top[0];
    for (int z = 1; z < LANES; z++)
        top[0] = top[z] > top[0] ? top[z] : top[0];
    return top[0];
}

/* a + r = x inverse, a an integer; how many r are not zero. */
WIDE static int64_t cut_each(int64_t n, const double *restrict x, const double *restrict inverse,
                             double *restrict a, double *restrict r)
{
    int64_t left = 0;
    for (int64_t d = 0; d < n; d++) {
        const double y = x[d] * inverse[d], whole = (y + magic) - magic, rest = y - whole;
        a[d] = whole;
        r[d] = rest;
        left += fabs(rest) > 0;
    }
    return left;
}

WIDE static int64_t cut_one(int64_t n, const double *restrict x, double inverse, double *restrict a,
                            double *restrict r)
{
    int64_t left = 0;
    for (int64_t d = 0; d < n; d++) {
        const double y = x[d] * inverse, whole = (y + magic) - magic, rest = y - whole;
        a[d] = whole;
        r[d] = rest;
        left += fabs(rest) > 0;
    }
    return left;
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
    const double up = ldexp(1.0, bits);
    double *inverse = s->scale + scales; /* powers of two: exact */
    memset(s->scale, 0, (size_t)scales * sizeof *s->scale);
    for (int64_t i = 0; i < rows; i++) {
        if (by_column)
            raise_each(width, x + i * ld, s->scale);
        else
            s->scale[i] = raise_one(width, x + i * ld);
    }
    for (int64_t i = 0; i < scales; i++) {
        s->scale[i] = power_above(s->scale[i]) / up; /* 2^(E - b) */
        inverse[i] = 1 / s->scale[i];
    }
    /* slice 0, and the remainders in slice 1's place for the time being */
    int64_t left = 0;
    for (int64_t i = 0; i < rows; i++) {
        double *a = s->slice[0] + i * width, *r = s->slice[1] + i * width;
        if (by_column)
            left += cut_each(width, x + i * ld, inverse, a, r);
        else
            left += cut_one(width, x + i * ld, inverse[i], a, r);
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
                       const double *a, int64_t lda, const double *b, int64_t ldb, const double *c,
                       int64_t ldc)
{
    const rt_exact_kernels *f = rt_exact_kernels_here();
    double *w = g->sums, *w_high = w + RT_CHECK_MAX, *w_low = w_high + RT_CHECK_MAX,
           *c_high = w_low + RT_CHECK_MAX, *c_low = c_high + RT_CHECK_MAX, *r_high = c_low + RT_CHECK_MAX,
           *r_low = r_high + RT_CHECK_MAX, *high = r_low + RT_CHECK_MAX, *low = high + RT_CHECK_MAX;
    f->sums_apart(m, n, c, ldc, r_high, r_low, c_high, c_low);
    /* rows of C against A (B 1): B 1 are the row sums of op(B), (k, n) */
    f->sum_rows(tb, k, n, b, ldb, w);
    split(k, w, w_high, w_low);
    f->times(ta, m, k, a, lda, w_high, w_low, high, low);
    for (int64_t i = 0; i < m; i++)
        if (!same_integer(r_high[i], r_low[i], high[i], low[i]))
            return false;
    /* columns of C against (1 A) B: 1 A are the column sums of op(A), (m, k) */
    f->sum_rows(!ta, k, m, a, lda, w);
    split(k, w, w_high, w_low);
    f->times(!tb, n, k, b, ldb, w_high, w_low, high, low);
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

static double largest(const double *x, int64_t n)
{
    double m = 0;
    for (int64_t i = 0; i < n; i++)
        m = x[i] > m ? x[i] : m;
    return m;
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
    const rt_exact_kernels *f = rt_exact_kernels_here();
    double *w = g->sums, *want = w + RT_CHECK_MAX, *got = want + RT_CHECK_MAX, *across = got + RT_CHECK_MAX,
           *along = across + RT_CHECK_MAX;
    /* The terms of a row of C total at most T = a_max sum |b|, those of a column j m a_max sum over x of |b_xj|.  The sum of a row and its
     * counterpart are each rounded at most k + n + 1 times (of a column: k + m + 1), so they differ by less than `tolerance`; an element
     * that is off by more than twice the smaller of the two tolerances shows, in its row or its column. */
    f->sums_abs(tb ? n : k, tb ? k : n, b, ldb, across, along);
    double total = 0;
    for (int64_t j = 0; j < n; j++)
        total += tb ? across[j] : along[j];
    const double per = 2 * (1 + 0x1p-30) * 0x1p-53 * a_max;
    const double row_tolerance = per * (double)(k + n + 1) * total,
                 column_tolerance = per * (double)(k + m + 1) * (double)m * largest(tb ? across : along, n);
    bool right = true;
    f->sum_rows(tb, k, n, b, ldb, w);
    f->times(ta, m, k, a, lda, w, NULL, want, NULL);
    f->sum_rows(false, m, n, c, ldc, got);
    for (int64_t i = 0; i < m; i++)
        right = right && fabs(got[i] - want[i]) <= row_tolerance;
    f->sum_rows(!ta, k, m, a, lda, w);
    f->times(!tb, n, k, b, ldb, w, NULL, want, NULL);
    f->sum_rows(true, n, m, c, ldc, got);
    for (int64_t j = 0; j < n; j++)
        right = right && fabs(got[j] - want[j]) <= column_tolerance;
    if (!right) {
        g->wrong++;
        rt_gemm_plain(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
    }
    return 2 * (row_tolerance < column_tolerance ? row_tolerance : column_tolerance);
}
