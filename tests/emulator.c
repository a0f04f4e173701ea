/* The emulator: see emulator.h.  Loops over single floats; the order of every sum is that of the listing.
 */
#include "emulator.h"

static bool key_side(rt_tensor_id t)
{
    return t == RT_K || t == RT_V || t == RT_DK || t == RT_DV;
}

int64_t emu_batch(const rt_problem *p, rt_tensor_id t)
{
    return t == RT_DSINK ? 1 : t == RT_DBIAS ? p->bias_shape[0] : p->batch;
}

int64_t emu_length(const rt_problem *p, rt_tensor_id t)
{
    return t == RT_DSINK ? 1 : t == RT_DBIAS ? p->bias_shape[2] : key_side(t) ? p->seqlen_k : p->seqlen_q;
}

int64_t emu_heads(const rt_problem *p, rt_tensor_id t)
{
    return t == RT_DBIAS ? p->bias_shape[1] : key_side(t) ? p->heads_kv : p->heads_q;
}

int64_t emu_width(const rt_problem *p, rt_tensor_id t)
{
    return t == RT_DBIAS                                            ? p->seqlen_k
           : t == RT_LSE || t == RT_DSINK                           ? 1
           : t == RT_V || t == RT_DOUT || t == RT_OUT || t == RT_DV ? p->dim_v
                                                                    : p->dim;
}

int64_t emu_elements(const rt_problem *p, rt_tensor_id t)
{
    return emu_batch(p, t) * emu_length(p, t) * emu_heads(p, t) * emu_width(p, t);
}

static int64_t row_at(const rt_problem *p, rt_tensor_id t, int64_t b, int64_t pos, int64_t h)
{
    return ((b * emu_length(p, t) + pos) * emu_heads(p, t) + h) * emu_width(p, t);
}

double *emu_row(const emu_case *c, rt_tensor_id t, int64_t b, int64_t pos, int64_t h)
{
    return c->t[t] + row_at(&c->p, t, b, pos, h);
}

static void load(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row)
{
    const emu_case *c = arg;
    memcpy(row, emu_row(c, t, b, pos, h), (size_t)emu_width(&c->p, t) * sizeof *row);
}

rt_problem emu_problem(int64_t sq, int64_t sk, int64_t hq, int64_t hkv, int64_t dim, rt_mask_kind mask)
{
    rt_problem p;
    memset(&p, 0, sizeof p);
    p.batch = 1;
    p.seqlen_q = sq;
    p.seqlen_k = sk;
    p.heads_q = hq;
    p.heads_kv = hkv;
    p.dim = p.dim_v = dim;
    p.scale_kind = RT_SCALE_F32;
    p.scale = (double)(float)rt_rsqrt_dim(dim);
    p.mask = mask;
    return p;
}

/* A number in [-1, 1) that i decides. */
static double noise(int64_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (double)(int32_t)x * 0x1p-31;
}

static double *numbers(int64_t n)
{
    rt_context ctx = {0};
    double *x = rt_calloc(&ctx, n, sizeof *x);
    assert_non_null(x);
    return x;
}

void emu_alibi(rt_problem *p)
{
    p->alibi = numbers(p->heads_q);
    for (int64_t h = 0; h < p->heads_q; h++)
        p->alibi[h] = rt_alibi_standard(h, p->heads_q);
}

void emu_bias(rt_problem *p, const char *shape, bool hides)
{
    assert_true(rt_bias_shape_parse(shape, p, p->bias_shape));
    const int64_t n = p->bias_shape[0] * p->bias_shape[1] * p->bias_shape[2] * p->bias_shape[3];
    p->bias = numbers(n);
    for (int64_t i = 0; i < n; i++)
        p->bias[i] = hides && noise(i + 77) > 0.7 ? -T_INF : rt_round_to(RT_BF16, 2 * noise(i));
}

void emu_sinks(rt_problem *p, double middle)
{
    p->sink = numbers(p->heads_q);
    for (int64_t h = 0; h < p->heads_q; h++)
        p->sink[h] = rt_round_to(RT_F32, middle + noise(h));
}

void emu_create(emu_case *c, rt_problem p, rt_layout_kind layout, int32_t ranks, rt_family family,
                uint64_t seed, rt_dtype t)
{
    rt_context ctx = {0};
    memset(c, 0, sizeof *c);
    c->p = p;
    c->in.load = load;
    c->in.arg = c;
    t_assert_ok(&ctx, rt_layout_create(&ctx, &c->p, layout, RT_REMAINDER_SPREAD, ranks, &c->l));
    t_assert_ok(&ctx, rt_plan_create(&ctx, ranks > 1 ? "ring" : "single", &c->p, &c->l, &c->plan));
    for (int i = 0; i < RT_RESULT_COUNT; i++) {
        const rt_tensor_id id = (rt_tensor_id)i;
        if ((id == RT_DSINK && p.sink == NULL) || (id == RT_DBIAS && (p.bias == NULL || p.no_dbias)))
            continue;
        c->in.present[i] = true;
        c->in.dtype[i] = (id == RT_LSE || id == RT_DSINK) && t != RT_F64 ? RT_F32 : t;
        c->t[i] = rt_calloc(&ctx, emu_elements(&c->p, id), sizeof(double));
        assert_non_null(c->t[i]);
        if (id > RT_DOUT)
            continue;
        for (int64_t b = 0; b < p.batch; b++)
            for (int64_t pos = 0; pos < emu_length(&p, id); pos++)
                for (int64_t h = 0; h < emu_heads(&p, id); h++)
                    rt_generate_row(family, seed, id, t, b, pos, h, emu_width(&p, id), emu_length(&p, id),
                                    emu_row(c, id, b, pos, h));
    }
}

void emu_reset(emu_case *c)
{
    for (int i = 0; i < RT_RESULT_COUNT; i++)
        rt_free(c->t[i]);
    rt_plan_reset(&c->plan);
    rt_layout_reset(&c->l);
    rt_problem_reset(&c->p);
}

emu_arithmetic emu_declared(rt_dtype kernel)
{
    emu_arithmetic a;
    memset(&a, 0, sizeof a);
    assert_true(rt_declared_accumulate(&a.d, "f32"));
    a.d.exp_rel = 0x1p-24;
    a.d.block_keys = 64;
    a.d.probabilities = a.d.partial = a.d.grad_partial = kernel;
    a.d.state = a.d.grad_state = RT_F32;
    a.d.join = RT_JOIN_SIGMOID;
    return a;
}

static float in_format(rt_dtype t, float x)
{
    return t == RT_F32 ? x : (float)rt_round_to(t, (double)x);
}

static float kernel_exp(const emu_arithmetic *a, float x)
{
    return (float)(exp((double)x) * (1 + a->exp_error));
}

/* One step of a matrix unit: products and the accumulator cut off below 2^-F of the largest term, the sum
 * cut off at `bits` fraction bits. */
static double fused_step(const emu_arithmetic *a, const double *x, const double *y, int64_t n,
                         int64_t stride, double acc)
{
    double term[33];
    int64_t terms = 0;
    int top = INT32_MIN, e;
    for (int64_t k = 0; k < n; k++) {
        const double product = x[k] * y[k * stride];
        if (fabs(product) > 0) {
            /* the exponent of a product is the sum of its factors' */
            const int at = ilogb(x[k]) + ilogb(y[k * stride]);
            top = at > top ? at : top;
            term[terms++] = product;
        }
    }
    if (fabs(acc) > 0) {
        top = ilogb(acc) > top ? ilogb(acc) : top;
        term[terms++] = acc;
    }
    double sum = 0;
    for (int64_t k = 0; k < terms; k++)
        sum += trunc(ldexp(term[k], a->d.tc_fraction - top));
    if (!(fabs(sum) > 0))
        return 0;
    const double m = frexp(sum, &e);
    return ldexp(trunc(ldexp(m, a->d.tc_bits + 1)), e - a->d.tc_bits - 1 + top - a->d.tc_fraction);
}

static float dot_onto(const emu_arithmetic *a, float acc, const double *x, const double *y, int64_t n,
                      int64_t stride)
{
    if (a->d.accumulate != RT_ACC_TC) {
        for (int64_t k = 0; k < n; k++)
            acc += (float)x[k] * (float)y[k * stride];
        return acc;
    }
    double sum = (double)acc;
    for (int64_t k = 0; k < n; k += a->d.tc_step)
        sum =
            fused_step(a, x + k, y + k * stride, n - k < a->d.tc_step ? n - k : a->d.tc_step, stride, sum);
    return (float)sum;
}

float emu_dot(const emu_arithmetic *a, const double *x, const double *y, int64_t n, int64_t stride)
{
    return dot_onto(a, 0, x, y, n, stride);
}

enum { MOST_KEYS = 1024, MOST_DIMS = 128, MOST_RANKS = 8 };

/* The bias that a pair gets. */
static double bias_of(const emu_case *c, const emu_arithmetic *a, int64_t b, int64_t h, int64_t i,
                      int64_t j)
{
    const int64_t head = (a->faults & EMU_BIAS_HEAD) != 0 ? (h + 1) % c->p.heads_q : h;
    return rt_score_bias(&c->p, b, head, i, j);
}

/* The keys of shard r that query i of head h sees, in the order of their slots. */
static int64_t seen_keys(const emu_case *c, const emu_arithmetic *a, int32_t r, int64_t b, int64_t h,
                         int64_t i, int64_t *keys)
{
    int64_t n = 0;
    const int64_t *pos = rt_layout_positions(&c->l, RT_SIDE_KV, r);
    for (int64_t j = 0; j < rt_layout_count(&c->l, RT_SIDE_KV, r); j++)
        if (t_mask_sees(&c->p, b, i, pos[j]) && bias_of(c, a, b, h, i, pos[j]) > -T_INF)
            keys[n++] = pos[j];
    return n;
}

static float kernel_tanh(const emu_arithmetic *a, float x)
{
    if (a->raw_tanh) {
        const float up = kernel_exp(a, x), down = kernel_exp(a, -x);
        return (up - down) / (up + down);
    }
    return (float)(tanh((double)x) * (1 + a->tanh_error));
}

/* The score of a pair; slope: NULL, or the softcap's derivative there. */
static float score_of(const emu_case *c, const emu_arithmetic *a, int64_t b, int64_t h, int64_t i,
                      int64_t j, float *slope)
{
    const rt_problem *p = &c->p;
    const int64_t g = h / (p->heads_q / p->heads_kv);
    float s = (float)p->scale * emu_dot(a, emu_row(c, RT_Q, b, i, h), emu_row(c, RT_K, b, j, g), p->dim, 1);
    if (p->alibi != NULL) {
        int64_t distance = rt_score_diagonal(p, i) - j;
        if ((a->faults & EMU_LOCAL_ALIBI) != 0)
            distance = c->l.side[RT_SIDE_Q].slot_of[i] - c->l.side[RT_SIDE_KV].slot_of[j];
        s -= (float)p->alibi[h] * (float)(distance < 0 ? -distance : distance);
    }
    if (p->bias != NULL)
        s += (float)bias_of(c, a, b, h, i, j);
    if (slope != NULL)
        *slope = 1;
    if (p->softcap > 0 && (a->faults & EMU_NO_SOFTCAP) == 0) {
        const float cap = (float)p->softcap, t = kernel_tanh(a, s / cap);
        s = cap * t;
        if (slope != NULL && (a->faults & EMU_NO_SLOPE) == 0)
            *slope = 1 - t * t;
    }
    return s;
}

static bool kept(const emu_case *c, const emu_arithmetic *a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    if ((a->faults & EMU_LOCAL_DROPOUT) != 0)
        return rt_dropout_keep(&c->p, b, h, c->l.side[RT_SIDE_Q].slot_of[i],
                               c->l.side[RT_SIDE_KV].slot_of[j]);
    return rt_dropout_keep(&c->p, b, h, i, j);
}

/* 1 / keep as the kernel holds it. */
static float dropout_scale(const emu_case *c, const emu_arithmetic *a)
{
    return (a->faults & EMU_NO_DROPOUT_SCALE) != 0 ? 1 : (float)(1 / (1 - c->p.dropout));
}

static bool has_sink(const emu_case *c, const emu_arithmetic *a)
{
    return c->p.sink != NULL && (a->faults & EMU_NO_SINK) == 0;
}

/* A partial result: normalised output with LSE, or (raw) unnormalised with maximum and sum. */
typedef struct {
    float o[MOST_DIMS], lse, m, l;
} partial;

/* One kernel call: query row i against n keys, online over blocks; first: of this row. */
static void attend(const emu_case *c, const emu_arithmetic *a, int64_t b, int64_t i, int64_t h, bool first,
                   const int64_t *keys, int64_t n, partial *out)
{
    const int64_t Dv = c->p.dim_v, g = h / (c->p.heads_q / c->p.heads_kv);
    static float p[MOST_KEYS];
    static double rounded[MOST_KEYS], column[MOST_KEYS];
    float m = -HUGE_VALF, l = 0;
    memset(out, 0, sizeof *out);
    if (has_sink(c, a) && a->sink_is_key && (first || (a->faults & EMU_SINK_EACH_CALL) != 0)) {
        m = (float)c->p.sink[h];
        l = 1;
    }
    for (int64_t j0 = 0; j0 < n; j0 += a->d.block_keys) {
        const int64_t w = n - j0 < a->d.block_keys ? n - j0 : a->d.block_keys;
        float top = m, sum = 0;
        for (int64_t j = 0; j < w; j++) {
            p[j] = score_of(c, a, b, h, i, keys[j0 + j], NULL);
            top = p[j] > top ? p[j] : top;
        }
        const float fade = m > -HUGE_VALF ? kernel_exp(a, m - top) : 0;
        for (int64_t j = 0; j < w; j++) {
            p[j] = kernel_exp(a, p[j] - top);
            sum += p[j];
            rounded[j] = (double)in_format(a->d.probabilities, p[j]);
            if (!kept(c, a, b, h, i, keys[j0 + j]))
                rounded[j] = 0;
        }
        l = l * fade + sum;
        for (int64_t d = 0; d < Dv; d++) {
            for (int64_t j = 0; j < w; j++)
                column[j] = emu_row(c, RT_V, b, keys[j0 + j], g)[d];
            out->o[d] = dot_onto(a, out->o[d] * fade, rounded, column, w, 1);
        }
        m = top;
    }
    out->m = m;
    out->l = l;
    out->lse = m + logf(l);
    for (int64_t d = 0; d < Dv && c->p.dropout > 0; d++)
        out->o[d] *= dropout_scale(c, a);
    if (a->d.join != RT_JOIN_RAW)
        for (int64_t d = 0; d < Dv; d++)
            out->o[d] = in_format(a->d.partial, out->o[d] / l);
}

/* The sink joins a row at its end. */
static void join_sink(const emu_arithmetic *a, int64_t dims, float sink, partial *x)
{
    const float gap = x->lse - sink, weight = 1 / (1 + expf(-gap));
    for (int64_t d = 0; d < dims; d++)
        x->o[d] = in_format(a->d.state, x->o[d] * weight);
    x->lse = fmaxf(x->lse, sink) + log1pf(expf(-fabsf(gap)));
}

/* Joins n partials, in order, into part[0]. */
static void join(const emu_arithmetic *a, int64_t dims, partial *part, int64_t n)
{
    partial *x = &part[0];
    const rt_dtype state = a->d.state;
    if (a->d.join == RT_JOIN_SIGMOID)
        for (int64_t r = 1; r < n; r++) {
            const float gap = part[r].lse - x->lse, w = 1 / (1 + expf(-gap));
            for (int64_t d = 0; d < dims; d++)
                x->o[d] = in_format(state, x->o[d] - w * (x->o[d] - part[r].o[d]));
            x->lse = x->lse - (gap > 0 ? -gap - log1pf(expf(-gap)) : -log1pf(expf(gap)));
        }
    if (a->d.join == RT_JOIN_TWO_PASS || a->d.join == RT_JOIN_SPLIT) {
        float lse = x->lse, top = x->lse, sum = 0;
        for (int64_t r = 1; r < n; r++) {
            const float hi = fmaxf(lse, part[r].lse), lo = fminf(lse, part[r].lse);
            lse = hi + log1pf(expf(lo - hi));
            top = fmaxf(top, part[r].lse);
        }
        for (int64_t r = 0; r < n; r++)
            sum += expf(part[r].lse - top);
        if (a->d.join == RT_JOIN_SPLIT && n > 1)
            lse = top + logf(sum);
        for (int64_t d = 0; d < dims && n > 1; d++) {
            float o = 0;
            for (int64_t r = 0; r < n; r++)
                o = in_format(state, o + part[r].o[d] * expf(part[r].lse - lse));
            x->o[d] = o;
        }
        x->lse = lse;
    }
    if (a->d.join == RT_JOIN_RAW) {
        for (int64_t r = 1; r < n; r++) {
            const float top = fmaxf(x->m, part[r].m), f = kernel_exp(a, x->m - top),
                        g = kernel_exp(a, part[r].m - top);
            for (int64_t d = 0; d < dims; d++)
                x->o[d] = in_format(state, x->o[d] * f + part[r].o[d] * g);
            x->l = x->l * f + part[r].l * g;
            x->m = top;
        }
        for (int64_t d = 0; d < dims; d++)
            x->o[d] /= x->l;
        x->lse = x->m + logf(x->l);
    }
}

/* The shard that the ring brings to rank r at step t. */
static int32_t source(const emu_case *c, int32_t r, int32_t t)
{
    return (r - t + c->l.ranks) % c->l.ranks;
}

static void forward_row(emu_case *c, const emu_arithmetic *a, int64_t b, int64_t i, int64_t h)
{
    static partial part[MOST_RANKS];
    static int64_t keys[MOST_KEYS];
    const int32_t me = c->l.side[RT_SIDE_Q].rank_of[i];
    int64_t n = 0;
    for (int32_t t = 0; t < c->l.ranks; t++) {
        const int64_t seen = seen_keys(c, a, source(c, me, t), b, h, i, keys);
        if (seen > 0) {
            attend(c, a, b, i, h, n == 0, keys, seen, &part[n]);
            n++;
        }
    }
    double *out = emu_row(c, RT_OUT, b, i, h), *lse = emu_row(c, RT_LSE, b, i, h);
    if (n > 0)
        join(a, c->p.dim_v, part, n);
    if (n > 0 && has_sink(c, a) && !a->sink_is_key)
        join_sink(a, c->p.dim_v, (float)c->p.sink[h], part);
    for (int64_t d = 0; d < c->p.dim_v; d++)
        out[d] = n > 0 ? rt_round_to(c->in.dtype[RT_OUT], (double)part[0].o[d]) : 0;
    *lse = n > 0            ? rt_round_to(c->in.dtype[RT_LSE], (double)part[0].lse)
           : has_sink(c, a) ? c->p.sink[h]
                            : -T_INF;
}

/* P (without 1 / keep) and dS of one pair, rounded to what the products take. */
static void pair(const emu_case *c, const emu_arithmetic *a, int64_t b, int64_t i, int64_t j, int64_t h,
                 float delta, float *p, float *ds)
{
    const int64_t g = h / (c->p.heads_q / c->p.heads_kv);
    float slope;
    const float s = score_of(c, a, b, h, i, j, &slope);
    const float w = kernel_exp(a, s - (float)*emu_row(c, RT_LSE, b, i, h));
    float dp = emu_dot(a, emu_row(c, RT_DOUT, b, i, h), emu_row(c, RT_V, b, j, g), c->p.dim_v, 1);
    const bool keep = kept(c, a, b, h, i, j);
    if (c->p.dropout > 0)
        dp = keep ? dp * dropout_scale(c, a) : 0;
    *p = keep ? in_format(a->d.probabilities, w) : 0;
    *ds = in_format(a->d.probabilities, w * (dp - delta) * slope);
}

static float delta_of(const emu_case *c, int64_t b, int64_t i, int64_t h)
{
    const double *dout = emu_row(c, RT_DOUT, b, i, h), *out = emu_row(c, RT_OUT, b, i, h);
    float sum = 0;
    for (int64_t d = 0; d < c->p.dim_v; d++)
        sum += (float)dout[d] * (float)out[d];
    return sum;
}

/* What one step of a gradient brings is rounded, then added to what there is. */
static void add_step(const emu_arithmetic *a, int64_t n, const float *step, float *total, bool first)
{
    for (int64_t d = 0; d < n; d++) {
        const float x = in_format(a->d.grad_partial, step[d]);
        total[d] = in_format(a->d.grad_state, first ? x : total[d] + x);
    }
}

static void store(const emu_case *c, rt_tensor_id t, int64_t n, const float *from, double *to)
{
    for (int64_t d = 0; d < n; d++)
        to[d] = rt_round_to(c->in.dtype[t], (double)from[d]);
}

/* The coefficients of n rows times those rows, dim by dim. */
static void product(const emu_arithmetic *a, const emu_case *c, rt_tensor_id t, int64_t b, int64_t h,
                    const int64_t *rows, int64_t n, const double *coefficient, float *out)
{
    static double column[MOST_KEYS];
    for (int64_t d = 0; d < emu_width(&c->p, t); d++) {
        for (int64_t x = 0; x < n; x++)
            column[x] = emu_row(c, t, b, rows[x], h)[d];
        out[d] = emu_dot(a, coefficient, column, n, 1);
    }
}

static void backward_row(emu_case *c, const emu_arithmetic *a, int64_t b, int64_t i, int64_t h)
{
    static int64_t keys[MOST_KEYS];
    static double coefficient[MOST_KEYS];
    const int64_t D = c->p.dim, g = h / (c->p.heads_q / c->p.heads_kv);
    const int32_t me = c->l.side[RT_SIDE_Q].rank_of[i];
    const float delta = delta_of(c, b, i, h);
    float total[MOST_DIMS] = {0}, step[MOST_DIMS];
    bool first = true;
    for (int32_t t = 0; t < c->l.ranks; t++) {
        const int64_t n = seen_keys(c, a, source(c, me, t), b, h, i, keys);
        for (int64_t x = 0; x < n; x++) {
            float p, ds;
            pair(c, a, b, i, keys[x], h, delta, &p, &ds);
            coefficient[x] = (double)ds;
        }
        if (n == 0)
            continue;
        product(a, c, RT_K, b, g, keys, n, coefficient, step);
        for (int64_t d = 0; d < D; d++)
            step[d] *= (float)c->p.scale;
        add_step(a, D, step, total, first);
        first = false;
    }
    store(c, RT_DQ, D, total, emu_row(c, RT_DQ, b, i, h));
}

static void backward_key(emu_case *c, const emu_arithmetic *a, int64_t b, int64_t j, int64_t g)
{
    static int64_t rows[MOST_KEYS];
    static double weight[MOST_KEYS], gradient[MOST_KEYS];
    const int64_t D = c->p.dim, Dv = c->p.dim_v, group = c->p.heads_q / c->p.heads_kv;
    const int32_t me = c->l.side[RT_SIDE_KV].rank_of[j];
    float dk[MOST_DIMS] = {0}, dv[MOST_DIMS] = {0}, one[MOST_DIMS];
    bool first = true;
    for (int32_t t = 0; t < c->l.ranks; t++) {
        const int32_t r = (me + t) % c->l.ranks;
        const int64_t *pos = rt_layout_positions(&c->l, RT_SIDE_Q, r);
        float step_k[MOST_DIMS] = {0}, step_v[MOST_DIMS] = {0};
        int64_t any = 0;
        for (int64_t h = g * group; h < (g + 1) * group; h++) {
            int64_t n = 0;
            for (int64_t x = 0; x < rt_layout_count(&c->l, RT_SIDE_Q, r); x++)
                if (t_mask_sees(&c->p, b, pos[x], j) && bias_of(c, a, b, h, pos[x], j) > -T_INF)
                    rows[n++] = pos[x];
            any += n;
            if (n == 0)
                continue;
            for (int64_t x = 0; x < n; x++) {
                float p, ds;
                pair(c, a, b, rows[x], j, h, delta_of(c, b, rows[x], h), &p, &ds);
                weight[x] = (double)p;
                gradient[x] = (double)ds;
            }
            const rt_dtype cast = a->head_casts ? a->d.grad_partial : RT_F32;
            product(a, c, RT_Q, b, h, rows, n, gradient, one);
            for (int64_t d = 0; d < D; d++)
                step_k[d] += in_format(cast, one[d] * (float)c->p.scale);
            product(a, c, RT_DOUT, b, h, rows, n, weight, one);
            for (int64_t d = 0; d < Dv; d++)
                step_v[d] += in_format(cast, c->p.dropout > 0 ? one[d] * dropout_scale(c, a) : one[d]);
        }
        if (any == 0)
            continue;
        add_step(a, D, step_k, dk, first);
        add_step(a, Dv, step_v, dv, first);
        first = false;
    }
    store(c, RT_DK, D, dk, emu_row(c, RT_DK, b, j, g));
    store(c, RT_DV, Dv, dv, emu_row(c, RT_DV, b, j, g));
}

/* Each rank adds its rows; the ranks' sums are rounded and added. */
static void sink_gradient(emu_case *c, const emu_arithmetic *a, int64_t h)
{
    float total = 0;
    for (int32_t r = 0; r < c->l.ranks; r++) {
        const int64_t *pos = rt_layout_positions(&c->l, RT_SIDE_Q, r);
        float step = 0;
        for (int64_t b = 0; b < c->p.batch; b++)
            for (int64_t x = 0; x < rt_layout_count(&c->l, RT_SIDE_Q, r); x++)
                step -= kernel_exp(a, (float)c->p.sink[h] - (float)*emu_row(c, RT_LSE, b, pos[x], h)) *
                        delta_of(c, b, pos[x], h);
        add_step(a, 1, &step, &total, r == 0);
    }
    if ((a->faults & EMU_DSINK_SIGN) != 0)
        total = -total;
    store(c, RT_DSINK, 1, &total, emu_row(c, RT_DSINK, 0, 0, h));
}

/* One element: each (batch, head) that shares it is a kernel's result, of the rows of each rank. */
static void bias_element(emu_case *c, const emu_arithmetic *a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t *n = c->p.bias_shape;
    float total = 0;
    bool first = true;
    for (int64_t bb = n[0] > 1 ? b : 0; bb < (n[0] > 1 ? b + 1 : c->p.batch); bb++)
        for (int64_t hh = n[1] > 1 ? h : 0; hh < (n[1] > 1 ? h + 1 : c->p.heads_q); hh++)
            for (int32_t r = 0; r < c->l.ranks; r++) {
                const int64_t *pos = rt_layout_positions(&c->l, RT_SIDE_Q, r);
                float step = 0;
                bool any = false;
                for (int64_t x = 0; x < rt_layout_count(&c->l, RT_SIDE_Q, r); x++) {
                    float p, ds;
                    if ((n[2] > 1 && pos[x] != i) || !t_mask_sees(&c->p, bb, pos[x], j) ||
                        !(bias_of(c, a, bb, hh, pos[x], j) > -T_INF))
                        continue;
                    pair(c, a, bb, pos[x], j, hh, delta_of(c, bb, pos[x], hh), &p, &ds);
                    step += ds;
                    any = true;
                }
                if (any) {
                    add_step(a, 1, &step, &total, first);
                    first = false;
                }
            }
    emu_row(c, RT_DBIAS, b, i, h)[j] = rt_round_to(c->in.dtype[RT_DBIAS], (double)total);
}

static void bias_gradient(emu_case *c, const emu_arithmetic *a)
{
    const int64_t *n = c->p.bias_shape;
    for (int64_t b = 0; b < n[0]; b++)
        for (int64_t h = 0; h < n[1]; h++)
            for (int64_t i = 0; i < n[2]; i++)
                for (int64_t j = 0; j < n[3]; j++)
                    bias_element(c, a, b, h, i, j);
}

void emu_run(emu_case *c, const emu_arithmetic *a)
{
    assert_true(c->p.seqlen_q <= MOST_KEYS && c->p.seqlen_k <= MOST_KEYS && c->l.ranks <= MOST_RANKS &&
                c->p.dim_v <= MOST_DIMS);
    for (int64_t b = 0; b < c->p.batch; b++)
        for (int64_t i = 0; i < c->p.seqlen_q; i++)
            for (int64_t h = 0; h < c->p.heads_q; h++)
                forward_row(c, a, b, i, h);
    if (!c->in.present[RT_DOUT])
        return;
    assert_true(c->p.dim <= MOST_DIMS);
    for (int64_t b = 0; b < c->p.batch; b++) {
        for (int64_t i = 0; i < c->p.seqlen_q; i++)
            for (int64_t h = 0; h < c->p.heads_q; h++)
                backward_row(c, a, b, i, h);
        for (int64_t j = 0; j < c->p.seqlen_k; j++)
            for (int64_t g = 0; g < c->p.heads_kv; g++)
                backward_key(c, a, b, j, g);
    }
    for (int64_t h = 0; h < c->p.heads_q && c->in.present[RT_DSINK]; h++)
        sink_gradient(c, a, h);
    if (c->in.present[RT_DBIAS])
        bias_gradient(c, a);
}
