/* Blocks of rows and keys: which pairs of a block are visible, and rows that hold a NaN or an infinity. */
#ifndef RT_ARITHMETIC_BLOCK_H
#define RT_ARITHMETIC_BLOCK_H

#include <math.h>

#include "arithmetic/ops.h"

enum { RT_BLOCK_Q = 128, RT_BLOCK_K = 256 };

typedef enum { RT_BLOCK_EMPTY, RT_BLOCK_PARTIAL, RT_BLOCK_FULL } rt_block_class;

/* Positions of a tile with what each query sees, and the extremes of each block. */
typedef struct {
    const rt_problem *p;
    bool interval; /* rt_mask_is_interval: then lo and hi say all */
    int64_t n_q, n_k;
    const int64_t *q_pos, *k_pos;
    int64_t *lo, *hi; /* n_q: keys [lo, hi) that hold what each row sees in any batch */
    int64_t n_qb, n_kb;
    int64_t *lo_min, *lo_max, *hi_min, *hi_max; /* n_qb: extremes over the rows that see any key */
    bool *any_empty;                            /* n_qb: some row of the block sees no key at all */
    uint8_t *classes;        /* unless interval: (batches, n_qb, n_kb), found by looking at every pair */
    int64_t batch0, batches; /* the first batch and how many; one where all see the same */
    int64_t *k_min, *k_max;  /* n_kb */
    int64_t block_q, block_k;
    int64_t *store;
    bool *store_flags;
} rt_blocks;

/* batch0: the batch of the mask with which those that are classified, p->batch of them, begin. */
rt_status rt_blocks_create(rt_context *ctx, const rt_problem *p, int64_t batch0, const int64_t *q_pos,
                           int64_t n_q, const int64_t *k_pos, int64_t n_k, int64_t block_q, int64_t block_k,
                           rt_blocks *out) RT_NODISCARD;
void rt_blocks_reset(rt_blocks *b);
rt_block_class rt_blocks_classify(const rt_blocks *b, int64_t batch, int64_t qb, int64_t kb);

static inline bool rt_blocks_visible(const rt_blocks *b, int64_t batch, int64_t row, int64_t key)
{
    return b->k_pos[key] >= b->lo[row] && b->k_pos[key] < b->hi[row] &&
           (b->interval || rt_mask_visible(b->p, batch, b->q_pos[row], b->k_pos[key]));
}
/* Whether the row sees exactly one key, of all keys of the problem. */
bool rt_blocks_alone(const rt_blocks *b, int64_t batch, int64_t row);
/* seen[j] = 1 where the row sees key key0 + j, else 0; nk <= RT_BLOCK_SEEN. */
enum { RT_BLOCK_SEEN = 1024 };
void rt_blocks_seen(const rt_blocks *b, int64_t batch, int64_t row, int64_t key0, int64_t nk,
                    uint8_t *seen);
/* The same as 1.0 and 0.0. */
void rt_blocks_vis(const rt_blocks *b, int64_t batch, int64_t row, int64_t key0, int64_t nk, double *vis);
static inline int64_t rt_min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t rt_max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* flags[i] = row i (width doubles, `stride` apart) holds a NaN or an infinity; true if any does. */
bool rt_rows_not_finite(const double *rows, int64_t n, int64_t width, int64_t stride, bool *flags);

/* A dense copy of n rows in which the elements that are not finite are zero: they must not reach a product,
 * and the finite ones of the same row must. */
void rt_rows_clean(const double *rows, int64_t n, int64_t width, int64_t stride, const bool *flags,
                   double *out);

/* Whether a tile of so many rows, keys and heads is work enough to wake a team of threads for: below some tens of microseconds the team
 * costs more than it gives.  No bit depends on it. */
static inline bool rt_worth_a_team(const rt_problem *p, int64_t n_q, int64_t n_kv, int64_t heads)
{
    return (double)(p->batch * heads) * (double)n_q * (double)n_kv * (double)(p->dim + p->dim_v) > 0x1p20;
}

/* Called by each thread of a team before its products: the BLAS then computes with that thread alone.  In a
 * team of several it would anyway; in a team of one that was meant to be larger (a thread limit,
 * OMP_DYNAMIC) it would start threads of its own, which changes the bits, or wait for ever for threads that
 * it does not get.  The number that is set here is the implicit task's and ends with the parallel region.
 */
void rt_gemm_alone(void);

/* C (m x n, row stride ldc) = alpha A B + beta C, with B transposed (nt: stored n x k), none (nn), or A
 * (tn: stored k x m). */
void rt_gemm_nt(int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                const double *b, int64_t ldb, double beta, double *c, int64_t ldc);
void rt_gemm_nn(int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                const double *b, int64_t ldb, double beta, double *c, int64_t ldc);
void rt_gemm_tn(int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                const double *b, int64_t ldb, double beta, double *c, int64_t ldc);

/* One allocation for many arrays: *at[i] points at sizes[i] doubles, each 64-byte aligned.  Returns the store (rt_free), NULL without memory. */
double *rt_carve(rt_context *ctx, int count, const int64_t *sizes, double **const *at) RT_NODISCARD;

#endif
