/* Arithmetic f32: binary32 tiles for previews and teaching: how states join and rows end.  Nothing is
 * promised about bits. */
#include "arithmetic/f32.h"
#include "arithmetic/score.h"

#include <string.h>

static int64_t packed(int64_t width)
{
    return (width + 1) / 2;
}

static int f32_parts(rt_payload payload, const rt_problem *p, int64_t width[RT_MAX_PARTS])
{
    width[0] = p->dim;
    width[1] = width[2] = width[3] = 1;
    switch (payload) {
    case RT_PAYLOAD_KV:
        width[1] = p->dim_v;
        return 2;
    case RT_PAYLOAD_DKV:
        width[0] = packed(p->dim);
        width[1] = packed(p->dim_v);
        return 2;
    case RT_PAYLOAD_STATE:
        width[0] = packed(p->dim_v);
        return 3;
    case RT_PAYLOAD_DO:
        width[0] = p->dim_v;
        return 4;
    case RT_PAYLOAD_DQ:
        width[0] = packed(p->dim);
        width[1] = p->seqlen_k;
        return rt_wants_dbias(p) ? 2 : 1;
    case RT_PAYLOAD_Q:
    case RT_PAYLOAD_COUNT:
    default:
        return 1;
    }
}

/* One row's share at a time goes through these, whatever the type that its storage last had. */
enum { CHUNK = 64 };

static void read_floats(const double *row, int64_t first, int64_t n, float *x)
{
    memcpy(x, (const char *)row + first * (int64_t)sizeof *x, (size_t)n * sizeof *x);
}

static void write_floats(double *row, int64_t first, int64_t n, const float *x)
{
    memcpy((char *)row + first * (int64_t)sizeof *x, x, (size_t)n * sizeof *x);
}

/* out <- a out + b in, of `doubles` pairs of floats */
static void combine(int64_t doubles, float a, const double *in, float b, double *out)
{
    float x[CHUNK], y[CHUNK];
    for (int64_t i = 0; i < 2 * doubles; i += CHUNK) {
        const int64_t n = rt_min64(CHUNK, 2 * doubles - i);
        read_floats(in, i, n, x);
        read_floats(out, i, n, y);
        for (int64_t k = 0; k < n; k++)
            y[k] = y[k] * a + x[k] * b;
        write_floats(out, i, n, y);
    }
}

static void fill(int64_t doubles, float value, double *out)
{
    const float pair[2] = {value, value};
    for (int64_t i = 0; i < doubles; i++)
        memcpy(out + i, pair, sizeof pair);
}

/* The raw join, as f64's: an empty side leaves the other as it is, NaN on either side makes the row NaN. */
void rt_f32_join(int64_t rows, int64_t width, const double *acc_in, const double *m_in, const double *l_in,
                 double *acc, double *m, double *l)
{
    const int64_t doubles = packed(width);
    for (int64_t i = 0; i < rows; i++) {
        if (rt_is_minus_inf(m_in[i]))
            continue;
        if (rt_is_minus_inf(m[i])) {
            memcpy(acc + i * doubles, acc_in + i * doubles, (size_t)doubles * sizeof *acc);
            m[i] = m_in[i];
            l[i] = l_in[i];
            continue;
        }
        if (isnan(m[i]) || isnan(m_in[i])) {
            m[i] = l[i] = RT_NAN;
            fill(doubles, (float)RT_NAN, acc + i * doubles);
            continue;
        }
        const double top = m_in[i] > m[i] ? m_in[i] : m[i];
        const double c = rt_exp_scalar(RT_F32_LN2 * (m[i] - top)),
                     c_in = rt_exp_scalar(RT_F32_LN2 * (m_in[i] - top));
        l[i] = l[i] * c + l_in[i] * c_in;
        combine(doubles, (float)c, acc_in + i * doubles, (float)c_in, acc + i * doubles);
        m[i] = top;
    }
}

void rt_f32_join_row(int64_t width, const float *acc_in, double m_in, double l_in, bool fresh, double *acc,
                     double *m, double *l)
{
    if (!fresh && !rt_is_minus_inf(m_in) && !rt_is_minus_inf(*m) && !isnan(*m) && !isnan(m_in)) {
        const double top = m_in > *m ? m_in : *m;
        const double c = rt_exp_scalar(RT_F32_LN2 * (*m - top)),
                     c_in = rt_exp_scalar(RT_F32_LN2 * (m_in - top));
        *l = *l * c + l_in * c_in;
        *m = top;
        float y[CHUNK];
        for (int64_t i = 0; i < width; i += CHUNK) {
            const int64_t n = rt_min64(CHUNK, width - i);
            read_floats(acc, i, n, y);
            for (int64_t k = 0; k < n; k++)
                y[k] = y[k] * (float)c + acc_in[i + k] * (float)c_in;
            write_floats(acc, i, n, y);
        }
    } else if (fresh || rt_is_minus_inf(*m)) {
        write_floats(acc, 0, width, acc_in);
        if (width % 2 != 0)
            write_floats(acc, width, 1, &(float){0});
        *m = m_in;
        *l = l_in;
    } else if (!rt_is_minus_inf(m_in)) {
        *m = *l = RT_NAN;
        fill(packed(width), (float)RT_NAN, acc);
    }
}

static void f32_land(rt_payload payload, const rt_problem *p, int64_t rows,
                     const double *const in[RT_MAX_PARTS], double *const present[RT_MAX_PARTS])
{
    int64_t width[RT_MAX_PARTS];
    const int parts = f32_parts(payload, p, width);
    if (payload == RT_PAYLOAD_STATE) {
        rt_f32_join(rows, p->dim_v, in[0], in[1], in[2], present[0], present[1], present[2]);
        return;
    }
    for (int k = 0; k < (payload == RT_PAYLOAD_DQ ? 1 : parts); k++)
        combine(rows * width[k], 1.0f, in[k], 1.0f, present[k]);
    for (int64_t i = 0; payload == RT_PAYLOAD_DQ && parts == 2 && i < rows * width[1]; i++)
        present[1][i] = in[1][i] + present[1][i];
}

static rt_status f32_finish(const rt_finish *f, int64_t b, int64_t h, int64_t pos,
                            const double *const state[RT_MAX_PARTS], double *const row[RT_MAX_PARTS],
                            double *out, double *lse)
{
    (void)b, (void)pos;
    const rt_problem *p = f->problem;
    const int64_t Dv = p->dim_v;
    double m = *state[1], l = *state[2], c = 1;
    const bool empty = rt_is_minus_inf(m);
    if (p->sink != NULL && !empty) {
        double natural = RT_F32_LN2 * m;
        c = rt_score_join_sink(p->sink[h], &natural, &l);
        m = natural / RT_F32_LN2;
    }
    const double inverse = c / (l * rt_score_keep(p));
    float x[CHUNK];
    for (int64_t i = 0; i < Dv; i += CHUNK) {
        const int64_t n = rt_min64(CHUNK, Dv - i);
        read_floats(state[0], i, n, x);
        for (int64_t d = 0; d < n; d++)
            out[i + d] = empty ? 0.0 : (double)x[d] * inverse;
    }
    *lse = !empty ? RT_F32_LN2 * m + rt_log_scalar(l) : p->sink != NULL ? p->sink[h] : -RT_INF;
    if (row == NULL)
        return RT_OK;
    double sum[4] = {0, 0, 0, 0};
    int64_t d = 0;
    for (; d + 4 <= Dv; d += 4)
        for (int64_t k = 0; k < 4; k++)
            sum[k] += row[0][d + k] * out[d + k];
    for (; d < Dv; d++)
        sum[0] += row[0][d] * out[d];
    *row[1] = m;
    *row[2] = l;
    *row[3] = isnan(m) ? RT_NAN : empty ? 0.0 : (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return RT_OK;
}

static rt_status f32_finish_gradient(const rt_finish *f, rt_tensor_id t, int64_t b, int64_t head,
                                     int64_t pos, const double *const parts[RT_MAX_PARTS], double *out)
{
    (void)b, (void)head, (void)pos;
    const int64_t width = t == RT_DV ? f->problem->dim_v : f->problem->dim;
    if (t >= RT_DSINK) {
        memcpy(out, parts[0], (size_t)(t == RT_DBIAS ? f->problem->seqlen_k : 1) * sizeof *out);
        return RT_OK;
    }
    float x[CHUNK];
    for (int64_t i = 0; i < width; i += CHUNK) {
        const int64_t n = rt_min64(CHUNK, width - i);
        read_floats(parts[0], i, n, x);
        for (int64_t d = 0; d < n; d++)
            out[i + d] = (double)x[d];
    }
    return RT_OK;
}

static void f32_share_sink(const rt_problem *p, int64_t h, const double *const row[RT_MAX_PARTS],
                           double *share)
{
    const double m = *row[1];
    *share = rt_is_minus_inf(m) ? 0 : -(rt_exp_scalar(p->sink[h] - RT_F32_LN2 * m) / *row[2] * *row[3]);
}

static void f32_sum(rt_tensor_id t, const rt_problem *p, const double *const in[RT_MAX_PARTS],
                    double *const sum[RT_MAX_PARTS])
{
    for (int64_t i = 0; i < (t == RT_DSINK ? 1 : p->seqlen_k); i++)
        sum[0][i] += in[0][i];
}

/* ---- what forward and backward share
 * -------------------------------------------------------------------------------------- */

float rt_f32_alpha(const rt_problem *p)
{
    return (float)(p->scale / RT_F32_LN2);
}

rt_status rt_f32_rows_create(rt_context *ctx, const rt_part *part, int64_t batch, int64_t head0,
                             int64_t head1, int64_t rows, const rt_f32_kernels *kernels, rt_f32_rows *out)
{
    rt_f32_rows r = {.head0 = head0, .heads = head1 - head0, .rows = rows, .width = part->width};
    const int64_t total = batch * r.heads * rows;
    r.x = rt_alloc(ctx, total * r.width, sizeof *r.x);
    r.bad = rt_alloc(ctx, total, sizeof *r.bad);
    if (r.x == NULL || r.bad == NULL) {
        rt_f32_rows_reset(&r);
        return RT_ERR_NOMEM;
    }
    int any = 0;
#pragma omp parallel for schedule(static) default(none) shared(r, part, total, kernels)                    \
    reduction(|                                                                                            \
              : any) if (total > 4096)
    for (int64_t i = 0; i < total; i++) {
        float *x = r.x + i * r.width;
        const int64_t head = i / r.rows % r.heads;
        r.bad[i] = !kernels->narrow(rt_part_at(part, i / (r.rows * r.heads), r.head0 + head, i % r.rows),
                                    r.width, x);
        any |= r.bad[i];
        for (int64_t d = 0; r.bad[i] && d < r.width; d++)
            x[d] = isfinite(x[d]) ? x[d] : 0;
    }
    r.any = any != 0;
    *out = r;
    return RT_OK;
}

void rt_f32_rows_reset(rt_f32_rows *r)
{
    rt_free(r->x);
    rt_free(r->bad);
    r->x = NULL;
    r->bad = NULL;
}

void rt_f32_mask_row(const rt_blocks *b, int64_t batch, int64_t row, int64_t key0, int64_t nk, float hidden,
                     float *s)
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

const rt_arithmetic_ops rt_arithmetic_f32 = {.name = "f32",
                                             .result = RT_F32,
                                             .state_m = 1,
                                             .parts = f32_parts,
                                             .forward = rt_f32_forward,
                                             .backward = rt_f32_backward,
                                             .land = f32_land,
                                             .finish = f32_finish,
                                             .finish_gradient = f32_finish_gradient,
                                             .scores = true,
                                             .dbias_part = 1,
                                             .sink_share = 1,
                                             .share_sink = f32_share_sink,
                                             .sum = f32_sum};
