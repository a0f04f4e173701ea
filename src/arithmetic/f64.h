/* Arithmetic f64: what its forward and backward share. */
#ifndef RT_ARITHMETIC_F64_H
#define RT_ARITHMETIC_F64_H

#include "arithmetic/panel.h"

/* The elementwise passes, for the processor at hand.  exp is within 1 ulp, exp(0) = 1 and exp(-inf) = 0;
 * its value at a place depends on the argument alone. */
typedef struct {
    bool (*all_finite)(const double *x, int64_t n);
    /* the largest of x[0..n), at least m; NaN never wins */
    double (*top)(const double *x, int64_t n, double m);
    /* x[j] <- exp(x[j] - m); returns their sum */
    double (*weights)(double *x, int64_t n, double m);
    void (*scale)(double *x, int64_t n, double c);
    /* p[j] <- exp(p[j] - m) r;  ds[j] <- p[j] (ds[j] - delta) */
    void (*gradient)(double *p, double *ds, int64_t n, double m, double r, double delta);
} rt_f64_kernels;

const rt_f64_kernels *rt_f64_kernels_here(void);
extern const rt_f64_kernels rt_f64_kernels_plain;
#if defined(__x86_64__)
#define RT_F64_AVX 1
extern const rt_f64_kernels rt_f64_kernels_avx2, rt_f64_kernels_avx512;
#endif

/* A payload's rows as they are, or, where one holds a NaN or an infinity, a copy with zeros in their place
 * and the row marked: they must not reach a product, and the finite elements of the same row must. */
typedef struct {
    rt_part part;
    double *copy; /* NULL: as they are */
    bool *bad;    /* one per (batch, head, row) */
    bool any;
    int64_t heads, rows;
} rt_f64_rows;

rt_status rt_f64_rows_create(rt_context *ctx, const rt_part *part, int64_t batch, int64_t head0,
                             int64_t head1, int64_t rows, const rt_f64_kernels *kernels,
                             rt_f64_rows *out) RT_NODISCARD;
void rt_f64_rows_reset(rt_f64_rows *r);
/* Row `row` of head h is marked; h0: the head that the rows begin with. */
static inline bool rt_f64_bad(const rt_f64_rows *r, int64_t b, int64_t h, int64_t h0, int64_t row)
{
    return r->bad[(b * r->heads + h - h0) * r->rows + row];
}

/* What a row's hidden keys hold in s becomes `hidden`. */
void rt_f64_mask_row(const rt_blocks *b, int64_t batch, int64_t row, int64_t key0, int64_t nk,
                     double hidden, double *s);

rt_status rt_f64_forward(rt_context *ctx, const rt_tile_data *t) RT_NODISCARD;
rt_status rt_f64_backward(rt_context *ctx, const rt_tile_data *t) RT_NODISCARD;

#endif
