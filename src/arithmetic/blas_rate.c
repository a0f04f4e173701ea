/* How fast the BLAS in use multiplies. */
#include "arithmetic/blas_rate.h"

#include <cblas.h>
#include <string.h>
#include <time.h>

rt_status rt_blas_rate_create(rt_context *ctx, int64_t n, bool single, rt_blas_rate *out)
{
    rt_blas_rate r = {.n = n};
    if (single)
        r.s = rt_alloc(ctx, 3 * n * n, sizeof *r.s);
    else
        r.d = rt_alloc(ctx, 3 * n * n, sizeof *r.d);
    if (r.s == NULL && r.d == NULL)
        return RT_ERR_NOMEM;
    for (int64_t i = 0; i < 3 * n * n; i++) {
        const double x = i < 2 * n * n ? (double)(i * 7 % 31 - 15) / 16 : 0;
        if (single)
            r.s[i] = (float)x;
        else
            r.d[i] = x;
    }
    *out = r;
    return RT_OK;
}

void rt_blas_rate_reset(rt_blas_rate *r)
{
    rt_free(r->s);
    rt_free(r->d);
    memset(r, 0, sizeof *r);
}

double rt_blas_rate_once(const rt_blas_rate *r)
{
    const int n = (int)r->n;
    const int64_t size = r->n * r->n;
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    if (r->s != NULL)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0f, r->s, n, r->s + size, n, 0.0f,
                    r->s + 2 * size, n);
    else
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0, r->d, n, r->d + size, n, 0.0,
                    r->d + 2 * size, n);
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}
