/* Blocks of rows and keys; the products of blocks by OpenBLAS, one thread each. */
#include "arithmetic/block.h"

#include <cblas.h>
#include <omp.h>
#include <string.h>

/* Looks until it has seen both a visible pair and a hidden one. */
static rt_block_class look(const rt_blocks *b, int64_t batch, int64_t qb, int64_t kb)
{
    const int64_t row1 = rt_min64(b->n_q, (qb + 1) * b->block_q);
    const int64_t key0 = kb * b->block_k, nk = rt_min64(b->n_k, key0 + b->block_k) - key0;
    uint8_t seen[RT_BLOCK_SEEN];
    bool some = false, all = true;
    for (int64_t i = qb * b->block_q; i < row1 && !(some && !all); i++) {
        if (b->hi[i] <= b->k_min[kb] || b->lo[i] > b->k_max[kb]) {
            all = false;
            continue;
        }
        for (int64_t j = 0; j < nk && !(some && !all); j += RT_BLOCK_SEEN) {
            const int64_t n = rt_min64(RT_BLOCK_SEEN, nk - j),
                          got = rt_mask_row_keys(b->p, batch, b->q_pos[i], b->k_pos + key0 + j, n, seen);
            some = some || got > 0;
            all = all && got == n;
        }
    }
    return !some ? RT_BLOCK_EMPTY : all ? RT_BLOCK_FULL : RT_BLOCK_PARTIAL;
}

static rt_status classes_create(rt_context *ctx, rt_blocks *b)
{
    b->batches = b->p->key_valid != NULL ? b->p->batch : 1;
    const int64_t n = b->batches * b->n_qb * b->n_kb;
    b->classes = rt_alloc(ctx, n, 1);
    if (b->classes == NULL)
        return RT_ERR_NOMEM;
#pragma omp parallel for schedule(dynamic, 16) if (n > 64) default(none) shared(b, n)
    for (int64_t x = 0; x < n; x++)
        b->classes[x] =
            (uint8_t)look(b, b->batch0 + x / (b->n_qb * b->n_kb), x / b->n_kb % b->n_qb, x % b->n_kb);
    return RT_OK;
}

rt_status rt_blocks_create(rt_context *ctx, const rt_problem *p, int64_t batch0, const int64_t *q_pos,
                           int64_t n_q, const int64_t *k_pos, int64_t n_k, int64_t block_q, int64_t block_k,
                           rt_blocks *out)
{
    rt_blocks b = {.p = p,
                   .interval = rt_mask_is_interval(p),
                   .n_q = n_q,
                   .n_k = n_k,
                   .q_pos = q_pos,
                   .batch0 = batch0,
                   .k_pos = k_pos,
                   .block_q = block_q,
                   .block_k = block_k};
    b.n_qb = (n_q + block_q - 1) / block_q;
    b.n_kb = (n_k + block_k - 1) / block_k;
    b.store = rt_alloc(ctx, 2 * n_q + 4 * b.n_qb + 2 * b.n_kb, sizeof *b.store);
    b.store_flags = rt_alloc(ctx, b.n_qb, sizeof *b.store_flags);
    if (b.store == NULL || b.store_flags == NULL) {
        rt_free(b.store);
        rt_free(b.store_flags);
        return RT_ERR_NOMEM;
    }
    b.lo = b.store;
    b.hi = b.lo + n_q;
    b.lo_min = b.hi + n_q;
    b.lo_max = b.lo_min + b.n_qb;
    b.hi_min = b.lo_max + b.n_qb;
    b.hi_max = b.hi_min + b.n_qb;
    b.k_min = b.hi_max + b.n_qb;
    b.k_max = b.k_min + b.n_kb;
    b.any_empty = b.store_flags;
    for (int64_t q = 0; q < b.n_qb; q++) {
        b.lo_min[q] = b.hi_min[q] = INT64_MAX;
        b.lo_max[q] = b.hi_max[q] = INT64_MIN;
        b.any_empty[q] = false;
        for (int64_t i = q * block_q; i < rt_min64(n_q, (q + 1) * block_q); i++) {
            rt_mask_row(p, q_pos[i], &b.lo[i], &b.hi[i]);
            if (b.lo[i] >= b.hi[i]) {
                b.any_empty[q] = true;
                continue;
            }
            b.lo_min[q] = rt_min64(b.lo_min[q], b.lo[i]);
            b.lo_max[q] = rt_max64(b.lo_max[q], b.lo[i]);
            b.hi_min[q] = rt_min64(b.hi_min[q], b.hi[i]);
            b.hi_max[q] = rt_max64(b.hi_max[q], b.hi[i]);
        }
    }
    for (int64_t k = 0; k < b.n_kb; k++) {
        b.k_min[k] = INT64_MAX;
        b.k_max[k] = INT64_MIN;
        for (int64_t j = k * block_k; j < rt_min64(n_k, (k + 1) * block_k); j++) {
            b.k_min[k] = rt_min64(b.k_min[k], k_pos[j]);
            b.k_max[k] = rt_max64(b.k_max[k], k_pos[j]);
        }
    }
    if (!b.interval && classes_create(ctx, &b) != RT_OK) {
        rt_blocks_reset(&b);
        return RT_ERR_NOMEM;
    }
    *out = b;
    return RT_OK;
}

void rt_blocks_reset(rt_blocks *b)
{
    rt_free(b->store);
    rt_free(b->store_flags);
    rt_free(b->classes);
    memset(b, 0, sizeof *b);
}

bool rt_blocks_alone(const rt_blocks *b, int64_t batch, int64_t row)
{
    return b->interval ? b->hi[row] - b->lo[row] == 1
                       : rt_mask_row_count(b->p, batch, b->q_pos[row], 2) == 1;
}

void rt_blocks_seen(const rt_blocks *b, int64_t batch, int64_t row, int64_t key0, int64_t nk, uint8_t *seen)
{
    const int64_t lo = b->lo[row], hi = b->hi[row], *pos = b->k_pos + key0;
    if (!b->interval)
        (void)rt_mask_row_keys(b->p, batch, b->q_pos[row], pos, nk, seen);
    for (int64_t j = 0; j < nk && b->interval; j++)
        seen[j] = pos[j] >= lo && pos[j] < hi;
}

void rt_blocks_vis(const rt_blocks *b, int64_t batch, int64_t row, int64_t key0, int64_t nk, double *vis)
{
    uint8_t seen[RT_BLOCK_SEEN];
    rt_blocks_seen(b, batch, row, key0, nk, seen);
    for (int64_t j = 0; j < nk; j++)
        vis[j] = seen[j] ? 1 : 0;
}

rt_block_class rt_blocks_classify(const rt_blocks *b, int64_t batch, int64_t qb, int64_t kb)
{
    if (!b->interval)
        return (rt_block_class)
            b->classes[((b->batches > 1 ? batch - b->batch0 : 0) * b->n_qb + qb) * b->n_kb + kb];
    if (b->hi_max[qb] == INT64_MIN || b->k_max[kb] < b->lo_min[qb] || b->k_min[kb] >= b->hi_max[qb])
        return RT_BLOCK_EMPTY;
    if (!b->any_empty[qb] && b->k_min[kb] >= b->lo_max[qb] && b->k_max[kb] < b->hi_min[qb])
        return RT_BLOCK_FULL;
    return RT_BLOCK_PARTIAL;
}

bool rt_rows_not_finite(const double *rows, int64_t n, int64_t width, int64_t stride, bool *flags)
{
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        /* x - x is 0 for every finite x and NaN otherwise, and NaN stays NaN in a sum. */
        double s = 0;
        for (int64_t d = 0; d < width; d++)
            s += rows[i * stride + d] - rows[i * stride + d];
        flags[i] = isnan(s);
        any = any || flags[i];
    }
    return any;
}

void rt_rows_clean(const double *rows, int64_t n, int64_t width, int64_t stride, const bool *flags,
                   double *out)
{
    for (int64_t i = 0; i < n; i++) {
        memcpy(out + i * width, rows + i * stride, (size_t)width * sizeof *out);
        for (int64_t d = 0; flags[i] && d < width; d++)
            if (!isfinite(out[i * width + d]))
                out[i * width + d] = 0;
    }
}

void rt_gemm_alone(void)
{
    omp_set_num_threads(1);
}

void rt_gemm_nt(int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                const double *b, int64_t ldb, double beta, double *c, int64_t ldc)
{
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)m, (blasint)n, (blasint)k, alpha, a,
                (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}

void rt_gemm_nn(int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                const double *b, int64_t ldb, double beta, double *c, int64_t ldc)
{
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, alpha, a,
                (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}

void rt_gemm_tn(int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                const double *b, int64_t ldb, double beta, double *c, int64_t ldc)
{
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, alpha, a,
                (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}

double *rt_carve(rt_context *ctx, int count, const int64_t *sizes, double **const *at)
{
    int64_t total = 0;
    for (int i = 0; i < count; i++)
        total += (sizes[i] + 7) / 8 * 8;
    double *store = rt_alloc(ctx, total, sizeof *store), *next = store;
    for (int i = 0; i < count && store != NULL; i++) {
        *at[i] = next;
        next += (sizes[i] + 7) / 8 * 8;
    }
    return store;
}
