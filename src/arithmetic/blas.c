/* The BLAS in use: its name for the report, and a test of what it computes on this processor. */
#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include <ringtrue/arithmetic.h>

/* The text is the calling thread's own. */
const char *rt_blas_description(void)
{
    static _Thread_local char text[160];
    const char *config = openblas_get_config(); /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH .." */
    char version[48];
    if (sscanf(config, "OpenBLAS %40s", version) != 1)
        strcpy(version, "of unknown version");
    const char *flavour[] = {"sequential", "pthread", "OpenMP"};
    const int parallel = openblas_get_parallel();
    snprintf(text, sizeof text, "OpenBLAS %s %s kernels, %s, %d thread%s", version, openblas_get_corename(),
             parallel >= 0 && parallel <= 2 ? flavour[parallel] : "unknown flavour",
             openblas_get_num_threads(), openblas_get_num_threads() == 1 ? "" : "s");
    return text;
}

/* Products of small integers are exact in any order, so every element must match.  The sizes straddle the edges of
 * the kernels' own tiles. */
static rt_status test_size(rt_context *ctx, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b)
{
    double *a = rt_alloc(ctx, m * k, sizeof *a), *b = rt_alloc(ctx, k * n, sizeof *b),
           *c = rt_alloc(ctx, m * n, sizeof *c);
    rt_status st = RT_ERR_NOMEM;
    if (a == NULL || b == NULL || c == NULL)
        goto free_matrices;
    for (int64_t i = 0; i < m * k; i++)
        a[i] = (double)((i * 7 + i / 5) % 31 - 15);
    for (int64_t i = 0; i < k * n; i++)
        b[i] = (double)((i * 11 + i / 3) % 29 - 14);
    for (int64_t i = 0; i < m * n; i++)
        c[i] = (double)(i % 5);
    const int64_t lda = trans_a ? m : k, ldb = trans_b ? k : n;
    cblas_dgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans, trans_b ? CblasTrans : CblasNoTrans,
                (blasint)m, (blasint)n, (blasint)k, 2.0, a, (blasint)lda, b, (blasint)ldb, 1.0, c,
                (blasint)n);
    st = RT_OK;
    for (int64_t i = 0; i < m && st == RT_OK; i++)
        for (int64_t j = 0; j < n && st == RT_OK; j++) {
            double want = (double)((i * n + j) % 5);
            for (int64_t x = 0; x < k; x++)
                want += 2.0 * a[trans_a ? x * m + i : i * k + x] * b[trans_b ? j * k + x : x * n + j];
            if (!(c[i * n + j] >= want && c[i * n + j] <= want))
                st = rt_fail(ctx, RT_ERR_SYSTEM,
                             "%s: dgemm %lldx%lldx%lld is wrong on this processor: element (%lld,%lld) is "
                             "%g, exactly "
                             "%g. Hint: set OPENBLAS_CORETYPE=Haswell, or use a newer OpenBLAS",
                             rt_blas_description(), (long long)m, (long long)n, (long long)k, (long long)i,
                             (long long)j, c[i * n + j], want);
        }
free_matrices:
    rt_free(a);
    rt_free(b);
    rt_free(c);
    return st;
}

rt_status rt_blas_self_test(rt_context *ctx)
{
    /* pthread: it would start its threads inside our parallel regions */
    if (openblas_get_parallel() == 1) {
        openblas_set_num_threads(1);
        if (openblas_get_num_threads() != 1)
            return rt_fail(ctx, RT_ERR_SYSTEM,
                           "%s: this flavour cannot be driven with one thread. Hint: apt-get install "
                           "libopenblas-openmp-dev, or run with OPENBLAS_NUM_THREADS=1",
                           rt_blas_description());
    }
    static const int64_t sizes[][3] = {{1, 1, 1},     {3, 5, 7},      {8, 24, 64},
                                       {33, 65, 129}, {128, 256, 96}, {64, 64, 257}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int t = 0; t < 3; t++) /* nn, nt, tn: the products that are used */
            RT_TRY(test_size(ctx, sizes[i][0], sizes[i][1], sizes[i][2], t == 2, t == 1));
    return RT_OK;
}
