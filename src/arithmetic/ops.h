/* The operations of an arithmetic, as the executor calls them.
 *
 * A buffer holds one piece as a "slab": (B, heads, slots, width) doubles, row-major, several parts one after the
 * other.  The parts of each payload:
 *   Q      q[D]
 *   KV     k[D]  v[Dv]
 *   STATE  acc[Dv]  m[1]  l[1]           unnormalised output, running maximum, sum of exp(s - m)
 *   DO     dout[Dv]  m[1]  l[1]  delta[1]
 *   DQ     dq[D]
 *   DKV    dk[D]  dv[Dv]
 * Every part of an arithmetic of this version is binary64; on the wire a slab travels as it lies.
 */
#ifndef RT_ARITHMETIC_OPS_H
#define RT_ARITHMETIC_OPS_H

#include <ringtrue/arithmetic.h>

/* One part of a slab, addressed by (b, head, row): base + b*batch + (head - head0)*head_ + row*width. */
typedef struct {
    double *base;
    int64_t batch, head, width;
    int64_t head0;
} rt_part;

static inline double *rt_part_at(const rt_part *s, int64_t b, int64_t h, int64_t row)
{
    return s->base + b * s->batch + (h - s->head0) * s->head + row * s->width;
}

/* What a tile works on.  Rows 0..n_q-1 and keys 0..n_kv-1 are the tile's own. */
typedef struct {
    const rt_problem *problem;
    int64_t n_q, n_kv;
    const int64_t *q_pos, *k_pos;      /* original positions */
    int64_t q_head0, q_head1;          /* query heads; the key heads follow from the group */
    rt_part q, k, v;                   /* read */
    rt_part dout, row_m, row_l, delta; /* read, backward */
    rt_part acc, m, l;                 /* STATE, joined to */
    rt_part dq, dk, dv;                /* added to */
    bool fresh_q, fresh_kv;            /* the destination holds nothing yet: it is written, not added to */
    void (*poke)(void *arg);           /* called now and then from the calling thread: progress of messages */
    void *poke_arg;
} rt_tile_data;

struct rt_arithmetic_ops {
    const char *name;
    rt_dtype result;  /* the natural dtype of its results */
    rt_status (*forward)(rt_context *ctx, const rt_tile_data *t);
    rt_status (*backward)(rt_context *ctx, const rt_tile_data *t);
    /* present <- join(arriving, present), row by row: acc[width], m, l */
    void (*join)(int64_t rows, int64_t width, const double *acc_in, const double *m_in, const double *l_in,
                 double *acc, double *m, double *l);
    /* out[width] and lse of a complete row */
    void (*finish)(int64_t width, const double *acc, double m, double l, double *out, double *lse);
};

extern const rt_arithmetic_ops rt_arithmetic_f64;

/* x[i] <- exp(x[i]), each within 1 ulp (SLEEF u10), exp(0) = 1 and exp(-inf) = 0 exactly.  The vector width
 * follows the processor; the result does not depend on i or n for a given processor. */
void rt_exp_vector(double *x, int64_t n);
double rt_exp_scalar(double x);
double rt_log_scalar(double x);

#endif
