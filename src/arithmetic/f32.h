/* Arithmetic f32: what its files share.
 *
 * Scores are kept in base 2: s = (scale log2 e) q.k, so that a weight is 2^(s - m), one subtraction and a
 * short polynomial. Parts of a payload, in doubles (a part marked * holds two floats a double, padded with
 * zeros): STATE  acc[Dv]*  m[1]  l[1]     unnormalised output, running maximum (base 2), sum of 2^(s - m)
 *   DO     dout[Dv]  m[1]  l[1]  delta[1]
 *   DQ     dq[D]*  dbias[Sk]      the second only where dBias is a result
 *   DKV    dk[D]*  dv[Dv]*
 * so that a state or a gradient weighs on the wire what its floats weigh. */
#ifndef RT_ARITHMETIC_F32_H
#define RT_ARITHMETIC_F32_H

#include "arithmetic/panel.h"

#define RT_F32_LN2 0.69314718055994530942

/* The elementwise passes, for the processor at hand.  Rows may have any alignment. */
typedef struct {
    /* out[i] = (float)in[i]; false if one of the floats is not finite */
    bool (*narrow)(const double *in, int64_t n, float *out);
    /* the largest of x[0..n), at least m; NaN never wins */
    float (*top)(const float *x, int64_t n, float m);
    /* x[j] <- 2^(x[j] - m), 0 below 2^-126 and for -infinity; returns their sum */
    float (*weights)(float *x, int64_t n, float m);
    void (*scale)(float *x, int64_t n, float c);
    /* p[j] <- 2^(p[j] - m) r;  ds[j] <- p[j] (ds[j] - delta) */
    void (*gradient)(float *p, float *ds, int64_t n, float m, float r, float delta);
} rt_f32_kernels;

const rt_f32_kernels *rt_f32_kernels_here(void);
extern const rt_f32_kernels rt_f32_kernels_plain;
#if defined(__x86_64__)
#define RT_F32_AVX 1
extern const rt_f32_kernels rt_f32_kernels_avx2, rt_f32_kernels_avx512;
#endif

/* A payload's rows (batch, head, row) as floats, dense, with what is not finite replaced by 0 and its row
 * marked. */
typedef struct {
    float *x;
    bool *bad; /* one per row */
    bool any;
    int64_t head0, heads, rows, width;
} rt_f32_rows;

static inline float *rt_f32_at(const rt_f32_rows *r, int64_t b, int64_t h, int64_t row)
{
    return r->x + ((b * r->heads + h - r->head0) * r->rows + row) * r->width;
}
static inline bool rt_f32_bad(const rt_f32_rows *r, int64_t b, int64_t h, int64_t row)
{
    return r->bad[(b * r->heads + h - r->head0) * r->rows + row];
}

rt_status rt_f32_rows_create(rt_context *ctx, const rt_part *part, int64_t batch, int64_t head0,
                             int64_t head1, int64_t rows, const rt_f32_kernels *kernels,
                             rt_f32_rows *out) RT_NODISCARD;
void rt_f32_rows_reset(rt_f32_rows *r);

/* The floats of a packed row. */
static inline float *rt_f32_packed(const rt_part *part, int64_t b, int64_t h, int64_t row)
{
    return (float *)(void *)rt_part_at(part, b, h, row);
}

/* What a row's hidden keys hold in s becomes `hidden`. */
void rt_f32_mask_row(const rt_blocks *b, int64_t batch, int64_t row, int64_t key0, int64_t nk, float hidden,
                     float *s);

float rt_f32_alpha(const rt_problem *p); /* scale log2 e */

extern const rt_arithmetic_ops rt_arithmetic_f32;
rt_status rt_f32_forward(rt_context *ctx, const rt_tile_data *t) RT_NODISCARD;
rt_status rt_f32_backward(rt_context *ctx, const rt_tile_data *t) RT_NODISCARD;
/* Join of states, rows one after the other (acc packed, of `width` floats). */
void rt_f32_join(int64_t rows, int64_t width, const double *acc_in, const double *m_in, const double *l_in,
                 double *acc, double *m, double *l);
/* A tile's own row, its acc as floats, joined to a state, or written over it (fresh). */
void rt_f32_join_row(int64_t width, const float *acc_in, double m_in, double l_in, bool fresh, double *acc,
                     double *m, double *l);

#endif
