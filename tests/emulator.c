/* The emulator: see emulator.h.  Loops over single floats; the order of every sum is that of the listing.
 */
#include "emulator.h"

static bool key_side(rt_tensor_id t)
{
    return t == RT_K || t == RT_V || t == RT_DK || t == RT_DV;
}

int64_t emu_length(const rt_problem *p, rt_tensor_id t)
{
    return key_side(t) ? p->seqlen_k : p->seqlen_q;
}

int64_t emu_heads(const rt_problem *p, rt_tensor_id t)
{
    return key_side(t) ? p->heads_kv : p->heads_q;
}

int64_t emu_width(const rt_problem *p, rt_tensor_id t)
{
    return t == RT_LSE ? 1 : t == RT_V || t == RT_DOUT || t == RT_OUT || t == RT_DV ? p->dim_v : p->dim;
}

int64_t emu_elements(const rt_problem *p, rt_tensor_id t)
{
    return p->batch * emu_length(p, t) * emu_heads(p, t) * emu_width(p, t);
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
    for (int i = 0; i < RT_TENSOR_COUNT; i++) {
        const rt_tensor_id id = (rt_tensor_id)i;
        c->in.present[i] = true;
        c->in.dtype[i] = id == RT_LSE && t != RT_F64 ? RT_F32 : t;
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
    for (int i = 0; i < RT_TENSOR_COUNT; i++)
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

/* The keys of shard r that query i sees, in the order of their slots. */
static int64_t seen_keys(const emu_case *c, int32_t r, int64_t b, int64_t i, int64_t *keys)
{
    int64_t n = 0;
    const int64_t *pos = rt_layout_positions(&c->l, RT_SIDE_KV, r);
    for (int64_t j = 0; j < rt_layout_count(&c->l, RT_SIDE_KV, r); j++)
        if (t_mask_sees(&c->p, b, i, pos[j]))
            keys[n++] = pos[j];
    return n;
}

/* A partial result: normalised output with LSE, or (raw) unnormalised with maximum and sum. */
typedef struct {
    float o[MOST_DIMS], lse, m, l;
} partial;

/* One kernel call: query row q against n keys, online over blocks. */
static void attend(const emu_case *c, const emu_arithmetic *a, int64_t b, int64_t g, const double *q,
                   const int64_t *keys, int64_t n, partial *out)
{
    const int64_t D = c->p.dim, Dv = c->p.dim_v;
    static float p[MOST_KEYS];
    static double rounded[MOST_KEYS], column[MOST_KEYS];
    float m = -HUGE_VALF, l = 0;
    memset(out, 0, sizeof *out);
    for (int64_t j0 = 0; j0 < n; j0 += a->d.block_keys) {
        const int64_t w = n - j0 < a->d.block_keys ? n - j0 : a->d.block_keys;
        float top = m, sum = 0;
        for (int64_t j = 0; j < w; j++) {
            p[j] = (float)c->p.scale * emu_dot(a, q, emu_row(c, RT_K, b, keys[j0 + j], g), D, 1);
            top = p[j] > top ? p[j] : top;
        }
        const float fade = j0 > 0 ? kernel_exp(a, m - top) : 0;
        for (int64_t j = 0; j < w; j++) {
            p[j] = kernel_exp(a, p[j] - top);
            sum += p[j];
            rounded[j] = (double)in_format(a->d.probabilities, p[j]);
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
    if (a->d.join != RT_JOIN_RAW)
        for (int64_t d = 0; d < Dv; d++)
            out->o[d] = in_format(a->d.partial, out->o[d] / l);
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
    const int64_t g = h / (c->p.heads_q / c->p.heads_kv);
    const int32_t me = c->l.side[RT_SIDE_Q].rank_of[i];
    int64_t n = 0;
    for (int32_t t = 0; t < c->l.ranks; t++) {
        const int64_t seen = seen_keys(c, source(c, me, t), b, i, keys);
        if (seen > 0)
            attend(c, a, b, g, emu_row(c, RT_Q, b, i, h), keys, seen, &part[n++]);
    }
    double *out = emu_row(c, RT_OUT, b, i, h), *lse = emu_row(c, RT_LSE, b, i, h);
    if (n > 0)
        join(a, c->p.dim_v, part, n);
    for (int64_t d = 0; d < c->p.dim_v; d++)
        out[d] = n > 0 ? rt_round_to(c->in.dtype[RT_OUT], (double)part[0].o[d]) : 0;
    *lse = n > 0 ? rt_round_to(c->in.dtype[RT_LSE], (double)part[0].lse) : -T_INF;
}

/* P and dS of one pair, rounded to what the products take. */
static void pair(const emu_case *c, const emu_arithmetic *a, int64_t b, int64_t i, int64_t j, int64_t h,
                 float delta, float *p, float *ds)
{
    const int64_t g = h / (c->p.heads_q / c->p.heads_kv);
    const float s =
        (float)c->p.scale * emu_dot(a, emu_row(c, RT_Q, b, i, h), emu_row(c, RT_K, b, j, g), c->p.dim, 1);
    const float w = kernel_exp(a, s - (float)*emu_row(c, RT_LSE, b, i, h));
    const float dp = emu_dot(a, emu_row(c, RT_DOUT, b, i, h), emu_row(c, RT_V, b, j, g), c->p.dim_v, 1);
    *p = in_format(a->d.probabilities, w);
    *ds = in_format(a->d.probabilities, w * (dp - delta));
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
        const int64_t n = seen_keys(c, source(c, me, t), b, i, keys);
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
        int64_t n = 0;
        for (int64_t x = 0; x < rt_layout_count(&c->l, RT_SIDE_Q, r); x++)
            if (t_mask_sees(&c->p, b, pos[x], j))
                rows[n++] = pos[x];
        for (int64_t h = g * group; h < (g + 1) * group && n > 0; h++) {
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
                step_v[d] += in_format(cast, one[d]);
        }
        if (n == 0)
            continue;
        add_step(a, D, step_k, dk, first);
        add_step(a, Dv, step_v, dv, first);
        first = false;
    }
    store(c, RT_DK, D, dk, emu_row(c, RT_DK, b, j, g));
    store(c, RT_DV, Dv, dv, emu_row(c, RT_DV, b, j, g));
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
}

rt_verdict emu_judge_with(emu_case *c, const rt_declared *d, const rt_judge_options *o)
{
    rt_context ctx = {0};
    rt_comm *comm = NULL;
    rt_verdict v;
    c->in.arg = c;
    t_assert_ok(&ctx, rt_comm_self(&ctx, &comm));
    t_assert_ok(&ctx, rt_judge(&ctx, comm, &c->p, &c->l, &c->plan, d, &c->in, o, &v));
    rt_comm_destroy(&comm);
    return v;
}

rt_verdict emu_judge(emu_case *c, const rt_declared *d)
{
    return emu_judge_with(c, d, NULL);
}

static void observe(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, int64_t n,
                    const double *truth, const double *bound, const double *lambda)
{
    emu_truth *e = arg;
    const int64_t at = row_at(&e->c->p, t, b, pos, h);
    memcpy(e->truth[t] + at, truth, (size_t)n * sizeof *truth);
    memcpy(e->bound[t] + at, bound, (size_t)n * sizeof *bound);
    memcpy(e->lambda[t] + at, lambda, (size_t)n * sizeof *lambda);
    e->rows++;
}

void emu_observe(emu_case *c, const rt_declared *d, emu_truth *out)
{
    rt_context ctx = {0};
    memset(out, 0, sizeof *out);
    out->c = c;
    for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++) {
        const int64_t n = emu_elements(&c->p, (rt_tensor_id)t);
        out->truth[t] = rt_calloc(&ctx, n, sizeof(double));
        out->bound[t] = rt_calloc(&ctx, n, sizeof(double));
        out->lambda[t] = rt_calloc(&ctx, n, sizeof(double));
        assert_true(out->truth[t] != NULL && out->bound[t] != NULL && out->lambda[t] != NULL);
    }
    (void)emu_judge_with(c, d, &(rt_judge_options){.observe = observe, .observe_arg = out});
}

void emu_truth_reset(emu_truth *t)
{
    for (int i = RT_LSE; i < RT_TENSOR_COUNT; i++) {
        rt_free(t->truth[i]);
        rt_free(t->bound[i]);
        rt_free(t->lambda[i]);
    }
}

void emu_fill(emu_case *c, const emu_truth *t)
{
    for (int i = RT_LSE; i < RT_TENSOR_COUNT; i++)
        for (int64_t e = 0; e < emu_elements(&c->p, (rt_tensor_id)i); e++)
            c->t[i][e] = rt_round_to(c->in.dtype[i], t->truth[i][e]);
}

static bool same_element(const rt_element *a, const rt_element *b)
{
    return a->b == b->b && a->pos == b->pos && a->head == b->head && a->dim == b->dim &&
           a->found == b->found && t_same(a->got, b->got) && t_same(a->truth, b->truth) &&
           t_same(a->bound, b->bound) && t_same(a->bound_lambda, b->bound_lambda);
}

bool emu_same(const rt_verdict *a, const rt_verdict *b)
{
    bool same = a->pass == b->pass;
    for (int t = 0; t < RT_TENSOR_COUNT; t++) {
        const rt_tally *x = &a->tensor[t], *y = &b->tensor[t];
        same = same && x->judged == y->judged && x->elements == y->elements &&
               t_same(a->lambda[t], b->lambda[t]) && memcmp(x->count, y->count, sizeof x->count) == 0 &&
               memcmp(x->ratio_bins, y->ratio_bins, sizeof x->ratio_bins) == 0 &&
               memcmp(x->ulp_bins, y->ulp_bins, sizeof x->ulp_bins) == 0 &&
               memcmp(x->part, y->part, sizeof x->part) == 0 && x->bias_sum == y->bias_sum &&
               x->bias_squares == y->bias_squares && x->empty_minus_inf == y->empty_minus_inf &&
               x->empty_plus_inf == y->empty_plus_inf && x->empty_zero == y->empty_zero &&
               t_same(x->max_ratio, y->max_ratio) && t_same(x->max_ratio_lambda, y->max_ratio_lambda) &&
               x->has_first == y->has_first && x->has_worst == y->has_worst &&
               same_element(&x->first, &y->first) && same_element(&x->worst, &y->worst) &&
               same_element(&x->peak, &y->peak);
    }
    return same;
}
