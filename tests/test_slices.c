/* Error-free slices, exact products against 128-bit integers, and checksums against wrong gemms. */
#include <math.h>

#include <mpfr.h>

#include "arithmetic/slices.h"
#include "check.h"
#include "ringtrue/number.h"
#include "scratch.h"

static double unit(uint64_t *s)
{
    return (double)(t_random(s) >> 11) * 0x1p-53;
}

/* ---- cutting
 * --------------------------------------------------------------------------------------------- */

/* slices + tails against the values: |difference| <= left 2^E, exactly summed; slices are integers in
 * range. */
static void check_cut(const rt_slices *s, const double *x, int64_t ld, const char *what)
{
    mpfr_t sum, t, bound;
    mpfr_inits2(4000, sum, t, bound, (mpfr_ptr)0);
    int64_t tail = 0;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t d = 0; d < s->width; d++) {
            const double scale = s->scale[s->by_column ? d : i];
            mpfr_set_zero(sum, 1);
            for (int k = 0; k < s->count; k++) {
                const double y = s->slice[k][i * s->width + d];
                t_assert_bits_eq(y, nearbyint(y));
                t_assert_le(fabs(y), ldexp(1, s->bits));
                mpfr_set_d(t, y, MPFR_RNDN);
                mpfr_mul_d(t, t, scale, MPFR_RNDN);
                mpfr_div_2ui(t, t, (unsigned long)(k * s->bits), MPFR_RNDN);
                mpfr_add(sum, sum, t, MPFR_RNDN);
            }
            if (tail < s->tails && s->tail[tail].row == i && s->tail[tail].column == d)
                mpfr_add_d(sum, sum, s->tail[tail++].value, MPFR_RNDN);
            mpfr_sub_d(sum, sum, x[i * ld + d], MPFR_RNDN);
            mpfr_set_d(bound, s->left, MPFR_RNDN);
            mpfr_mul_d(bound, bound, scale, MPFR_RNDN);
            mpfr_mul_2ui(bound, bound, (unsigned long)s->bits, MPFR_RNDN);
            if (mpfr_cmpabs(sum, bound) > 0) {
                print_error("%s: element %" PRId64 ", %" PRId64 " = %a is not what was cut: off by %g\n",
                            what, i, d, x[i * ld + d], mpfr_get_d(sum, MPFR_RNDN));
                fail();
            }
        }
    assert_int_equal(tail, s->tails); /* in order, each once */
    mpfr_clears(sum, t, bound, (mpfr_ptr)0);
}

static double value_of(rt_dtype t, int spread, uint64_t *s)
{
    const double x = ldexp((unit(s) - 0.5) * 4, (int)(t_random(s) % (uint64_t)(2 * spread + 1)) - spread);
    return rt_round_to(t, x);
}

static void test_cut(void **state)
{
    (void)state;
    enum { ROWS = 37, WIDTH = 29, LD = 31 };
    static double x[ROWS * LD];
    static const struct {
        rt_dtype type;
        int spread, offset;
        const char *what;
    } data[] = {{RT_BF16, 0, 0, "bf16"},
                {RT_BF16, 30, 0, "bf16, wide"},
                {RT_BF16, 3, -128, "bf16, subnormal"},
                {RT_F16, 0, 0, "f16"},
                {RT_F16, 12, 0, "f16, wide"},
                {RT_F16, 3, -22, "f16, subnormal"},
                {RT_E4M3, 5, 0, "e4m3"},
                {RT_F32, 0, 0, "f32"},
                {RT_F32, 40, 0, "f32, wide"},
                {RT_F32, 4, -146, "f32, subnormal"},
                {RT_F64, 0, 0, "f64"},
                {RT_F64, 60, 0, "f64, wide"},
                {RT_F64, 4, -1070, "f64, subnormal"},
                {RT_F64, 300, 0, "f64, very wide"}};
    rt_context ctx = {0};
    rt_slices s = {.rows = 0};
    uint64_t seed = 11;
    t_assert_ok(&ctx, rt_slices_reserve(&ctx, &s, ROWS, WIDTH));
    for (size_t c = 0; c < sizeof data / sizeof data[0]; c++)
        for (int turn = 0; turn < 4; turn++) {
            const bool by_column = turn & 1;
            const int bits = turn & 2 ? rt_slices_bits(256, 25) : rt_slices_bits(128, 0);
            for (int64_t i = 0; i < ROWS * LD; i++)
                x[i] = rt_round_to(data[c].type,
                                   ldexp(value_of(data[c].type, data[c].spread, &seed), data[c].offset));
            for (int64_t d = 0; d < WIDTH; d++) { /* rows and columns of zeros, one element alone */
                x[3 * LD + d] = x[4 * LD + d] = 0;
                for (int64_t i = 0; d == 5 && i < ROWS; i++)
                    x[i * LD + d] = 0;
            }
            x[4 * LD + 7] = rt_round_to(data[c].type, 1.375);
            x[5 * LD + 5] = -0.0;
            rt_slices_cut(&s, x, LD, ROWS, WIDTH, bits, by_column);
            check_cut(&s, x, LD, data[c].what);
            assert_in_range(s.count, 1, RT_MAX_SLICES);
            /* formats of few bits and one magnitude leave nothing behind */
            if (data[c].type != RT_F64)
                t_assert_le(s.left, data[c].spread > 20 ? 1 : 0);
        }
    rt_slices_reset(&s);
}

static void test_bits(void **state)
{
    (void)state;
    for (int64_t inner = 1; inner <= 5000; inner++) {
        const int both = rt_slices_bits(inner, 0), right = rt_slices_bits(inner, 25);
        t_assert_le((double)inner * ldexp(1, 2 * both), 0x1p53);
        t_assert_le((double)inner * ldexp(1, 25 + right), 0x1p53);
        assert_true((double)inner * ldexp(1, 2 * both + 3) > 0x1p53 || inner > 1);
    }
}

/* ---- products
 * -------------------------------------------------------------------------------------------- */

enum { M = 45, NN = 37, KK = 53, LDC = 41, BITS = 23 };

static double sums[9 * RT_CHECK_MAX];

static void integers(double *a, int64_t n, int bits, uint64_t *s)
{
    for (int64_t i = 0; i < n; i++) {
        const double top = ldexp(1, bits);
        a[i] = t_random(s) % 16 == 0 ? (t_random(s) & 1 ? top : -top) : floor((unit(s) - 0.5) * 2 * top);
    }
}

__extension__ typedef __int128 wide;

static void multiply(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                     double *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            wide sum = 0;
            for (int64_t x = 0; x < k; x++)
                sum += (wide)(int64_t)(ta ? a[x * m + i] : a[i * k + x]) *
                       (int64_t)(tb ? b[j * k + x] : b[x * n + j]);
            c[i * ldc + j] = (double)(int64_t)sum;
            assert_true((int64_t)c[i * ldc + j] == (int64_t)sum && sum == (int64_t)sum);
        }
}

static void check_product(rt_gemm_fn gemm, bool expect_wrong, const char *what)
{
    static double a[M * KK], b[KK * NN], c[M * LDC], want[M * LDC];
    uint64_t s = 5;
    rt_checked_gemm g = {.gemm = gemm, .sums = sums};
    for (int form = 0; form < 4; form++) {
        const bool ta = form & 1, tb = form & 2;
        integers(a, M * KK, BITS, &s);
        integers(b, KK * NN, BITS, &s);
        multiply(ta, tb, M, NN, KK, a, b, want, LDC);
        memset(c, 0xff, sizeof c);
        rt_gemm_exact(&g, ta, tb, M, NN, KK, a, ta ? M : KK, b, tb ? KK : NN, c, LDC);
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < NN; j++)
                if (!t_same(c[i * LDC + j] + 0.0, want[i * LDC + j])) {
                    print_error("%s, form %d: element %" PRId64 ", %" PRId64 ": got %.17g, want %.17g\n",
                                what, form, i, j, c[i * LDC + j], want[i * LDC + j]);
                    fail();
                }
    }
    assert_int_equal(g.products, 4);
    if (g.wrong != (expect_wrong ? 4 : 0)) {
        print_error("%s: %" PRId64 " products were found wrong\n", what, g.wrong);
        fail();
    }
}

/* ---- wrong gemms
 * ----------------------------------------------------------------------------------------- */

static int fault, at_row, at_column;
enum {
    LAST_BIT,
    SWAPPED,
    ZERO_ROW,
    ZERO_COLUMN,
    NOT_A_NUMBER,
    INFINITE,
    TRANSPOSED,
    LOST_TERM,
    BALANCED_ROW,
    BALANCED_COLUMN,
    NOTHING,
    FAULTS
};

static void wrong_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a, int64_t lda,
                       const double *b, int64_t ldb, double *c, int64_t ldc)
{
    rt_gemm_plain(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
    const int64_t i = at_row % m, j = at_column % n;
    double *e = &c[i * ldc + j];
    switch (fault) {
    case LAST_BIT:
        *e += 1;
        break;
    case SWAPPED: { /* two elements of a row, both in place of the other */
        const int64_t other = (j + 1) % n;
        const double x = *e;
        *e = c[i * ldc + other];
        c[i * ldc + other] = x;
        break;
    }
    case ZERO_ROW:
        memset(c + i * ldc, 0, (size_t)n * sizeof *c);
        break;
    case ZERO_COLUMN:
        for (int64_t x = 0; x < m; x++)
            c[x * ldc + j] = 0;
        break;
    case NOT_A_NUMBER:
        *e = T_NAN;
        break;
    case INFINITE:
        *e = T_INF;
        break;
    case TRANSPOSED: /* a block of 8 x 8, as an edge kernel would */
        for (int64_t x = 0; x < 8; x++)
            for (int64_t y = 0; y < x; y++) {
                const double t = c[x * ldc + y];
                c[x * ldc + y] = c[y * ldc + x];
                c[y * ldc + x] = t;
            }
        break;
    case LOST_TERM:
        *e -= (ta ? a[i] : a[i * lda]) * (tb ? b[j * ldb] : b[j]) + 1;
        break;
    case BALANCED_ROW: /* the row's sum stays: the columns' sums tell */
        *e += 3;
        c[i * ldc + (j + 1) % n] -= 3;
        break;
    case BALANCED_COLUMN:
        *e += 3;
        c[(i + 1) % m * ldc + j] -= 3;
        break;
    case NOTHING: /* as if it had not run */
    default:
        for (int64_t x = 0; x < m; x++)
            memset(c + x * ldc, 0, (size_t)n * sizeof *c);
        break;
    }
}

static void test_products(void **state)
{
    (void)state;
    check_product(rt_gemm_plain, false, "plain loops");
    check_product(rt_gemm_openblas, false, "the BLAS");
}

static void test_wrong(void **state)
{
    (void)state;
    for (fault = 0; fault < FAULTS; fault++)
        for (at_row = 0; at_row < M; at_row += 11)
            for (at_column = 0; at_column < NN; at_column += 9) {
                char what[64];
                (void)snprintf(what, sizeof what, "fault %d at %d, %d", fault, at_row, at_column);
                check_product(wrong_gemm, true, what);
            }
}

/* Any single element, any change of it: each position once, from the last bit to the first. */
static void test_every_element(void **state)
{
    (void)state;
    enum { m = 9, n = 19, k = 17 };
    static double a[m * k], b[k * n], c[m * n], want[m * n];
    uint64_t s = 9;
    rt_checked_gemm g = {.gemm = wrong_gemm, .sums = sums};
    integers(a, m * k, 24, &s);
    integers(b, k * n, 24, &s);
    rt_gemm_plain(false, false, m, n, k, a, k, b, n, want, n);
    fault = LAST_BIT;
    for (at_row = 0; at_row < m; at_row++)
        for (at_column = 0; at_column < n; at_column++) {
            const int64_t before = g.wrong;
            rt_gemm_exact(&g, false, false, m, n, k, a, k, b, n, c, n);
            assert_int_equal(g.wrong, before + 1);
            for (int x = 0; x < m * n; x++)
                t_assert_bits_eq(c[x] + 0.0, want[x] + 0.0);
        }
}

/* ---- rounded products
 * ------------------------------------------------------------------------------------ */

static void rounded(rt_gemm_fn gemm, int64_t wrong, double a_max, double b_max)
{
    static double a[M * KK], b[KK * NN], c[M * LDC];
    uint64_t s = 21;
    rt_checked_gemm g = {.gemm = gemm, .sums = sums};
    for (int form = 0; form < 4; form++) {
        const bool ta = form & 1, tb = form & 2;
        for (int64_t i = 0; i < M * KK; i++)
            a[i] = a_max * (2 * unit(&s) - 1);
        for (int64_t i = 0; i < KK * NN; i++)
            b[i] = b_max * (2 * unit(&s) - 1);
        const double bound =
            rt_gemm_rounded(&g, ta, tb, M, NN, KK, a, ta ? M : KK, b, tb ? KK : NN, c, LDC, a_max, b_max);
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < NN; j++) {
                long double sum = 0;
                for (int64_t x = 0; x < KK; x++)
                    sum += (long double)(ta ? a[x * M + i] : a[i * KK + x]) *
                           (long double)(tb ? b[j * KK + x] : b[x * NN + j]);
                t_assert_le(fabs((double)(sum - (long double)c[i * LDC + j])), bound);
            }
        /* of use: a small part of one product */
        t_assert_le(bound, 0x1p-30 * a_max * b_max);
    }
    assert_int_equal(g.products, 4);
    assert_int_equal(g.wrong, wrong);
}

static void test_rounded(void **state)
{
    (void)state;
    rounded(rt_gemm_plain, 0, 0.51, 0x1p20);
    rounded(rt_gemm_openblas, 0, 0.51, 0x1p20);
    rounded(rt_gemm_openblas, 0, 0x1p-300, 0x1p200);
    at_row = 7;
    at_column = 11;
    for (fault = 0; fault < FAULTS; fault++)
        rounded(wrong_gemm, 4, 0.5, 0.5);
    /* what the sums do not show, the bound covers: an error of the last bits */
    fault = LAST_BIT;
    rounded(wrong_gemm, 0, 0x1p30, 0x1p30);
}

/* Dimensions beyond the checksums' scratch are computed by plain loops, not by the BLAS. */
static void test_large(void **state)
{
    (void)state;
    enum { LARGE = RT_CHECK_MAX + 3 };
    double *a = calloc(LARGE, sizeof *a), c[4] = {7, 7, 7, 7};
    assert_non_null(a);
    for (int64_t i = 0; i < LARGE; i++)
        a[i] = (double)(i % 7);
    fault = NOTHING;
    rt_checked_gemm g = {.gemm = wrong_gemm, .sums = sums};
    double want = 0;
    for (int64_t i = 0; i < LARGE; i++)
        want += a[i] * a[i];
    rt_gemm_exact(&g, false, true, 1, 1, LARGE, a, LARGE, a, LARGE, c, 1);
    t_assert_bits_eq(c[0], want);
    const double bound = rt_gemm_rounded(&g, false, true, 1, 1, LARGE, a, LARGE, a, LARGE, c + 2, 1, 6, 6);
    t_assert_le(fabs(c[2] - want), bound);
    assert_int_equal(g.products, 0);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cut),           cmocka_unit_test(test_bits),
                                       cmocka_unit_test(test_products),      cmocka_unit_test(test_wrong),
                                       cmocka_unit_test(test_every_element), cmocka_unit_test(test_rounded),
                                       cmocka_unit_test(test_large)};
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
