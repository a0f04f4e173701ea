/* Arithmetic f64: binary64 throughout: how states join and rows end. */
#include "arithmetic/f64.h"

#include <math.h>
#include <string.h>

#include "arithmetic/f32.h"
#include "arithmetic/score.h"

rt_status rt_f64_rows_create(rt_context *ctx, const rt_part *part, int64_t batch, int64_t head0,
                             int64_t head1, int64_t rows, const rt_f64_kernels *kernels, rt_f64_rows *out)
{
    rt_f64_rows r = {.part = *part, .heads = head1 - head0, .rows = rows};
    const int64_t total = batch * r.heads * rows, width = part->width;
    r.bad = rt_alloc(ctx, total, sizeof *r.bad);
    if (r.bad == NULL)
        return RT_ERR_NOMEM;
    int any = 0;
#pragma omp parallel for schedule(static) default(none) shared(r, part, total, head0, width, kernels)      \
    reduction(|                                                                                            \
              : any) if (total > 256)
    for (int64_t i = 0; i < total; i++) {
        r.bad[i] = !kernels->all_finite(
            rt_part_at(part, i / (r.rows * r.heads), head0 + i / r.rows % r.heads, i % r.rows), width);
        any |= r.bad[i];
    }
    r.any = any != 0;
    if (r.any) {
        r.copy = rt_alloc(ctx, total * width, sizeof *r.copy);
        if (r.copy == NULL) {
            rt_free(r.bad);
            return RT_ERR_NOMEM;
        }
        r.part = (rt_part){.base = r.copy,
                           .batch = r.heads * rows * width,
                           .head = rows * width,
                           .width = width,
                           .head0 = head0};
        for (int64_t i = 0; i < total; i++)
            rt_rows_clean(rt_part_at(part, i / (rows * r.heads), head0 + i / rows % r.heads, i % rows), 1,
                          width, width, &r.bad[i], r.copy + i * width);
    }
    *out = r;
    return RT_OK;
}

void rt_f64_rows_reset(rt_f64_rows *r)
{
    rt_free(r->copy);
    rt_free(r->bad);
    r->copy = NULL;
    r->bad = NULL;
}

/* What a masked key's slot holds never gets further than here. */
void rt_f64_mask_row(const rt_blocks *b, int64_t batch, int64_t row, int64_t key0, int64_t nk,
                     double hidden, double *s)
{
    const int64_t lo = b->lo[row], hi = b->hi[row], *pos = b->k_pos + key0;
    if (b->interval) {
        for (int64_t j = 0; j < nk; j++)
            s[j] = pos[j] >= lo && pos[j] < hi ? s[j] : hidden;
        return;
    }
    uint8_t seen[RT_BLOCK_SEEN];
    rt_blocks_seen(b, batch, row, key0, nk, seen);
    for (int64_t j = 0; j < nk; j++)
        s[j] = seen[j] ? s[j] : hidden;
}

/* M-raw: m' = max; l' = l c + l_in c_in; acc' likewise, with c = exp(m - m').  An empty side leaves the
 * other as it is, bit for bit.  NaN on either side makes the row NaN. */
void rt_f64_join(int64_t rows, int64_t width, const double *acc_in, const double *m_in, const double *l_in,
                 double *acc, double *m, double *l)
{
    for (int64_t i = 0; i < rows; i++) {
        const double *in = acc_in + i * width;
        double *out = acc + i * width;
        if (rt_is_minus_inf(m_in[i]))
            continue;
        if (rt_is_minus_inf(m[i])) {
            memcpy(out, in, (size_t)width * sizeof *out);
            m[i] = m_in[i];
            l[i] = l_in[i];
            continue;
        }
        if (isnan(m[i]) || isnan(m_in[i])) {
            m[i] = l[i] = RT_NAN;
            for (int64_t d = 0; d < width; d++)
                out[d] = RT_NAN;
            continue;
        }
        const double top = m_in[i] > m[i] ? m_in[i] : m[i];
        const double c = rt_exp_scalar(m[i] - top), c_in = rt_exp_scalar(m_in[i] - top);
        l[i] = l[i] * c + l_in[i] * c_in;
        for (int64_t d = 0; d < width; d++)
            out[d] = out[d] * c + in[d] * c_in;
        m[i] = top;
    }
}

void rt_f64_finish(int64_t width, const double *acc, double m, double l, double *out, double *lse)
{
    if (rt_is_minus_inf(m)) { /* an empty row */
        memset(out, 0, (size_t)width * sizeof *out);
        *lse = -RT_INF;
        return;
    }
    for (int64_t d = 0; d < width; d++)
        out[d] = acc[d] / l;
    *lse = m + rt_log_scalar(l);
}

static int f64_parts(rt_payload payload, const rt_problem *p, int64_t width[RT_MAX_PARTS])
{
    width[0] = p->dim;
    width[1] = width[2] = width[3] = 1;
    switch (payload) {
    case RT_PAYLOAD_KV:
    case RT_PAYLOAD_DKV:
        width[1] = p->dim_v;
        return 2;
    case RT_PAYLOAD_STATE:
        width[0] = p->dim_v;
        return 3;
    case RT_PAYLOAD_DO:
        width[0] = p->dim_v;
        return 4;
    case RT_PAYLOAD_DQ:
        width[1] = p->seqlen_k;
        return rt_wants_dbias(p) ? 2 : 1;
    case RT_PAYLOAD_Q:
    case RT_PAYLOAD_COUNT:
    default:
        return 1;
    }
}

static void f64_land(rt_payload payload, const rt_problem *p, int64_t rows,
                     const double *const in[RT_MAX_PARTS], double *const present[RT_MAX_PARTS])
{
    int64_t width[RT_MAX_PARTS];
    const int parts = f64_parts(payload, p, width);
    if (payload == RT_PAYLOAD_STATE) {
        rt_f64_join(rows, width[0], in[0], in[1], in[2], present[0], present[1], present[2]);
        return;
    }
    for (int k = 0; k < parts; k++)
        for (int64_t i = 0; i < rows * width[k]; i++)
            present[k][i] = in[k][i] + present[k][i];
}

static rt_status f64_finish_row(const rt_finish *f, int64_t b, int64_t h, int64_t pos,
                                const double *const state[RT_MAX_PARTS], double *const row[RT_MAX_PARTS],
                                double *out, double *lse)
{
    (void)b, (void)pos;
    const rt_problem *p = f->problem;
    const int64_t Dv = p->dim_v;
    double m = *state[1], l = *state[2], c = 1;
    const bool empty = rt_is_minus_inf(m);
    if (p->sink != NULL && !empty)
        c = rt_score_join_sink(p->sink[h], &m, &l);
    rt_f64_finish(Dv, state[0], m, l, out, lse);
    if (p->sink != NULL && empty)
        *lse = p->sink[h];
    if (!empty && (c < 1 || p->dropout > 0)) {
        c /= rt_score_keep(p);
        for (int64_t d = 0; d < Dv; d++)
            out[d] *= c;
    }
    if (row == NULL)
        return RT_OK;
    double delta = 0; /* of an empty row: 0 */
    for (int64_t d = 0; d < Dv && !empty; d++)
        delta += row[0][d] * out[d];
    *row[1] = m;
    *row[2] = l;
    *row[3] = isnan(m) ? RT_NAN : delta;
    return RT_OK;
}

static rt_status f64_finish_gradient(const rt_finish *f, rt_tensor_id t, int64_t b, int64_t head,
                                     int64_t pos, const double *const parts[RT_MAX_PARTS], double *out)
{
    (void)b, (void)head, (void)pos;
    const rt_problem *p = f->problem;
    const int64_t width = t == RT_DV ? p->dim_v : t == RT_DBIAS ? p->seqlen_k : t == RT_DSINK ? 1 : p->dim;
    memcpy(out, parts[0], (size_t)width * sizeof *out);
    return RT_OK;
}

/* - exp(sink - L) delta, from the row's m and l, which the sink has joined. */
static void f64_share_sink(const rt_problem *p, int64_t h, const double *const row[RT_MAX_PARTS],
                           double *share)
{
    const double m = *row[1];
    *share = rt_is_minus_inf(m) ? 0 : -(rt_exp_scalar(p->sink[h] - m) / *row[2] * *row[3]);
}

static void f64_sum(rt_tensor_id t, const rt_problem *p, const double *const in[RT_MAX_PARTS],
                    double *const sum[RT_MAX_PARTS])
{
    for (int64_t i = 0; i < (t == RT_DSINK ? 1 : p->seqlen_k); i++)
        sum[0][i] += in[0][i];
}

const rt_arithmetic_ops rt_arithmetic_f64 = {.name = "f64",
                                             .result = RT_F64,
                                             .state_m = 1,
                                             .parts = f64_parts,
                                             .forward = rt_f64_forward,
                                             .backward = rt_f64_backward,
                                             .land = f64_land,
                                             .finish = f64_finish_row,
                                             .finish_gradient = f64_finish_gradient,
                                             .scores = true,
                                             .dbias_part = 1,
                                             .sink_share = 1,
                                             .share_sink = f64_share_sink,
                                             .sum = f64_sum};

static const rt_arithmetic_ops *const all[] = {&rt_arithmetic_exact, &rt_arithmetic_f64, &rt_arithmetic_f32,
                                               NULL};

const rt_arithmetic_ops *const *rt_arithmetics(void)
{
    return all;
}

const rt_arithmetic_ops *rt_arithmetic_find(const char *name)
{
    for (int64_t i = 0; all[i] != NULL; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

const char *rt_arithmetic_name(const rt_arithmetic_ops *a)
{
    return a->name;
}

rt_dtype rt_arithmetic_result(const rt_arithmetic_ops *a)
{
    return a->result;
}
