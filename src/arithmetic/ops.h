/* The operations of an arithmetic, as the executor calls them.
 *
 * A buffer holds one piece as a "slab": (B, heads, slots, width) doubles, row-major, several parts one after the other.  An arithmetic
 * says which parts its payloads have.  Q is q[D] and KV is k[D] v[Dv] in all of them; DO begins with dout[Dv]; f64 has
 *   STATE  acc[Dv]  m[1]  l[1]           unnormalised output, running maximum, sum of exp(s - m)
 *   DO     dout[Dv]  m[1]  l[1]  delta[1]
 *   DQ     dq[D]  dbias[Sk]              the second only where dBias is a result (rt_wants_dbias)
 *   DKV    dk[D]  dv[Dv]
 * and exact.h lists those of exact.  On the wire a slab travels as it lies.
 */
#ifndef RT_ARITHMETIC_OPS_H
#define RT_ARITHMETIC_OPS_H

#include <ringtrue/arithmetic.h>
#include <ringtrue/tensor.h>

enum { RT_MAX_PARTS = 8 };

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
    const int64_t *q_pos, *k_pos;                /* original positions */
    int64_t q_head0, q_head1;                    /* query heads; the key heads follow from the group */
    rt_part q, k, v;                             /* read */
    rt_part row[RT_MAX_PARTS];                   /* DO, read in the backward */
    rt_part state[RT_MAX_PARTS];                 /* joined to */
    rt_part dq[RT_MAX_PARTS], dkv[RT_MAX_PARTS]; /* added to */
    bool fresh_q, fresh_kv;  /* the destination holds nothing yet: it is written, not added to */
    void (*poke)(void *arg); /* called now and then from the calling thread: progress of messages */
    void *poke_arg;
    int64_t *products; /* NULL, or two counts: BLAS products taken, and found wrong */
} rt_tile_data;

/* The last step of a row: what it needs besides the row. */
typedef struct {
    rt_context *ctx;
    const rt_problem *problem;
    /* any row of the inputs, by original position: for what must be computed again; may be called from several threads */
    void (*load)(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row);
    void *arg;
    rt_dtype format, lse_format; /* of the results: exact rounds to them, once */
    rt_certificate
        *certificate; /* RT_RESULT_COUNT where sinks or biases are finished, else RT_TENSOR_COUNT */
} rt_finish;

/* Whether DQ carries rows of dBias: what the row's pairs add to it, by original key position. */
static inline bool rt_wants_dbias(const rt_problem *p)
{
    return p->bias != NULL && !p->no_dbias;
}

struct rt_arithmetic_ops {
    const char *name;
    bool
        scores; /* computes alibi, bias, softcap, sinks and dropout; else rt_run refuses a problem with them */
    rt_dtype result; /* the natural dtype of its results */
    int state_m;     /* the part of STATE that is -infinity in an empty row */
    /* widths of a payload's parts; returns how many */
    int (*parts)(rt_payload payload, const rt_problem *p, int64_t width[RT_MAX_PARTS]);
    rt_status (*forward)(rt_context *ctx, const rt_tile_data *t);
    rt_status (*backward)(rt_context *ctx, const rt_tile_data *t);
    /* present <- arriving + present (DQ, DKV) or join(arriving, present) (STATE), of consecutive rows */
    void (*land)(rt_payload payload, const rt_problem *p, int64_t rows,
                 const double *const in[RT_MAX_PARTS], double *const present[RT_MAX_PARTS]);
    /* out[Dv] and lse of a complete row of STATE; row: NULL, or the parts of DO, the first of which holds dout, the others to be filled */
    rt_status (*finish)(const rt_finish *f, int64_t b, int64_t h, int64_t pos,
                        const double *const state[RT_MAX_PARTS], double *const row[RT_MAX_PARTS],
                        double *out, double *lse);
    /* a complete row of dq, dk or dv; parts from the first that belongs to it.  RT_DBIAS: a row of Sk, its parts
     * those of DQ behind dq, summed over what was broadcast; b, head, pos are those of the bias's own shape.
     * RT_DSINK: parts[0] is the sum of the shares of head's rows; out[1] */
    rt_status (*finish_gradient)(const rt_finish *f, rt_tensor_id t, int64_t b, int64_t head, int64_t pos,
                                 const double *const parts[RT_MAX_PARTS], double *out);
    int dbias_part; /* DQ's parts from here on are dBias's */
    int sink_share; /* doubles of a share */
    /* the share of a finished row (its parts of DO) in dSink_h = - sum over (b, i) exp(sink_h - L_i) delta_i */
    void (*share_sink)(const rt_problem *p, int64_t h, const double *const row[RT_MAX_PARTS],
                       double *share);
    /* sum <- sum + in, in this order: a share (RT_DSINK: parts[0] alone), or the dBias parts of a DQ row */
    void (*sum)(rt_tensor_id t, const rt_problem *p, const double *const in[RT_MAX_PARTS],
                double *const sum[RT_MAX_PARTS]);
};

extern const rt_arithmetic_ops rt_arithmetic_f64, rt_arithmetic_exact;

/* f64's join and finish of rows, for its own ops and for tests. */
void rt_f64_join(int64_t rows, int64_t width, const double *acc_in, const double *m_in, const double *l_in,
                 double *acc, double *m, double *l);
void rt_f64_finish(int64_t width, const double *acc, double m, double l, double *out, double *lse);

/* x[i] <- exp(x[i]), each within 1 ulp (SLEEF u10), exp(0) = 1 and exp(-inf) = 0 exactly.  The vector width
 * follows the processor; the result does not depend on i or n for a given processor. */
void rt_exp_vector(double *x, int64_t n);
double rt_exp_scalar(double x);
double rt_log_scalar(double x);

#endif
