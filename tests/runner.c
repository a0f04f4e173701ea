/* runner.c: see runner.h. */
#include "runner.h"

#include <omp.h>

#include "masks.h"
#include "scratch.h"

static const rt_tensor_id results[] = {RT_LSE, RT_OUT, RT_DQ, RT_DK, RT_DV, RT_DSINK, RT_DBIAS};
enum { N_RESULTS = sizeof results / sizeof results[0] };

/* ---- tensors ----------------------------------------------------------------------------------------- */

static bool of_keys(rt_tensor_id id)
{
    return id == RT_K || id == RT_V || id == RT_DK || id == RT_DV;
}

int64_t t_batch(const rt_problem *p, rt_tensor_id id)
{
    return id == RT_DBIAS ? p->bias_shape[0] : id == RT_DSINK ? 1 : p->batch;
}

int64_t t_width(const rt_problem *p, rt_tensor_id id)
{
    if (id == RT_LSE || id == RT_DSINK)
        return 1;
    if (id == RT_DBIAS)
        return p->bias_shape[3];
    return id == RT_Q || id == RT_K || id == RT_DQ || id == RT_DK ? p->dim : p->dim_v;
}

int64_t t_length(const rt_problem *p, rt_tensor_id id)
{
    if (id >= RT_DSINK)
        return id == RT_DBIAS ? p->bias_shape[2] : 1;
    return of_keys(id) ? p->seqlen_k : p->seqlen_q;
}

int64_t t_heads(const rt_problem *p, rt_tensor_id id)
{
    if (id == RT_DBIAS)
        return p->bias_shape[1];
    return of_keys(id) ? p->heads_kv : p->heads_q;
}

int64_t t_rows(const rt_problem *p, rt_tensor_id id)
{
    if ((id == RT_DSINK && p->sink == NULL) || (id == RT_DBIAS && (p->bias == NULL || p->no_dbias)))
        return 0;
    return t_batch(p, id) * t_length(p, id) * t_heads(p, id);
}

static int64_t row_index(const rt_problem *p, rt_tensor_id id, int64_t b, int64_t pos, int64_t h)
{
    return (b * t_length(p, id) + pos) * t_heads(p, id) + h;
}

double *t_row(const t_tensors *t, rt_tensor_id id, int64_t b, int64_t pos, int64_t h)
{
    return t->x[id] + row_index(t->p, id, b, pos, h) * t_width(t->p, id);
}

void t_tensors_create(const rt_problem *p, t_tensors *t)
{
    memset(t, 0, sizeof *t);
    t->p = p;
    for (int id = 0; id < RT_RESULT_COUNT; id++) {
        const size_t rows = (size_t)t_rows(p, (rt_tensor_id)id);
        t->x[id] = calloc(rows * (size_t)t_width(p, (rt_tensor_id)id), sizeof(double));
        t->stored[id] = calloc(rows, sizeof(int32_t));
        assert_true(rows == 0 || (t->x[id] != NULL && t->stored[id] != NULL));
    }
}

void t_tensors_free(t_tensors *t)
{
    for (int id = 0; id < RT_RESULT_COUNT; id++) {
        free(t->x[id]);
        free(t->stored[id]);
    }
    memset(t, 0, sizeof *t);
}

void t_fill(t_tensors *t, rt_family family, uint64_t seed)
{
    const rt_problem *p = t->p;
    for (int id = RT_Q; id <= RT_DOUT; id++)
        for (int64_t b = 0; b < p->batch; b++)
            for (int64_t i = 0; i < t_length(p, (rt_tensor_id)id); i++)
                for (int64_t h = 0; h < t_heads(p, (rt_tensor_id)id); h++)
                    rt_generate_row(family, seed, (rt_tensor_id)id, RT_F64, b, i, h,
                                    t_width(p, (rt_tensor_id)id), t_length(p, (rt_tensor_id)id),
                                    t_row(t, (rt_tensor_id)id, b, i, h));
}

void t_copy_inputs(t_tensors *to, const t_tensors *from)
{
    for (int id = RT_Q; id <= RT_DOUT; id++)
        memcpy(to->x[id], from->x[id],
               (size_t)(t_rows(to->p, (rt_tensor_id)id) * t_width(to->p, (rt_tensor_id)id)) *
                   sizeof(double));
}

rt_problem t_problem(int64_t batch, int64_t sq, int64_t sk, int64_t hq, int64_t hkv, int64_t d, int64_t dv,
                     rt_mask_kind mask)
{
    return (rt_problem){.batch = batch,
                        .seqlen_q = sq,
                        .seqlen_k = sk,
                        .heads_q = hq,
                        .heads_kv = hkv,
                        .dim = d,
                        .dim_v = dv,
                        .scale_kind = RT_SCALE_RSQRT_DIM,
                        .scale = rt_rsqrt_dim(d),
                        .mask = mask};
}

bool t_sees(const rt_problem *p, int64_t i, int64_t j)
{
    return t_mask_sees(p, 0, i, j);
}

/* ---- running ----------------------------------------------------------------------------------------- */

static void load(void *arg, rt_tensor_id id, int64_t b, int64_t pos, int64_t h, double *row)
{
    const t_tensors *t = arg;
    memcpy(row, t_row(t, id, b, pos, h), (size_t)t_width(t->p, id) * sizeof *row);
}

static void store(void *arg, rt_tensor_id id, int32_t rank, int64_t slot, int64_t b, int64_t pos, int64_t h,
                  const double *row)
{
    t_tensors *t = arg;
    (void)rank;
    (void)slot;
    memcpy(t_row(t, id, b, pos, h), row, (size_t)t_width(t->p, id) * sizeof *row);
    t->stored[id][row_index(t->p, id, b, pos, h)]++;
}

/* A permutation of 0 .. n-1, cut at random places into `ranks` runs, some of them empty now and then. */
static void random_side(int64_t n, int32_t ranks, uint64_t *seed, int64_t *count, int64_t *pos)
{
    for (int64_t i = 0; i < n; i++)
        pos[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = (int64_t)(t_random(seed) % (uint64_t)(i + 1)), x = pos[i];
        pos[i] = pos[j];
        pos[j] = x;
    }
    memset(count, 0, (size_t)ranks * sizeof *count);
    for (int64_t i = 0; i < n; i++)
        count[t_random(seed) % (uint64_t)ranks]++;
}

rt_status t_layout_create(rt_context *ctx, const rt_problem *p, const t_how *how, rt_layout *out)
{
    if (how->layout != RT_LAYOUT_POSITIONS)
        return rt_layout_create(ctx, p, how->layout, RT_REMAINDER_SPREAD, how->ranks, out);
    uint64_t seed = UINT64_C(0x51ed270b) + (uint64_t)how->ranks;
    int64_t *q = malloc((size_t)p->seqlen_q * sizeof *q), *k = malloc((size_t)p->seqlen_k * sizeof *k);
    int64_t n_q[64], n_k[64];
    random_side(p->seqlen_q, how->ranks, &seed, n_q, q);
    random_side(p->seqlen_k, how->ranks, &seed, n_k, k);
    const rt_status st = rt_layout_from_positions(ctx, p, how->ranks, n_q, q, n_k, k, out);
    free(q);
    free(k);
    return st;
}

typedef struct {
    rt_pass pass;
    int64_t step0_tile, step0_move; /* where the step being built starts */
} builder;

static void builder_create(rt_context *ctx, builder *w, int64_t steps, int64_t tiles, int64_t moves)
{
    memset(w, 0, sizeof *w);
    w->pass.steps = rt_alloc(ctx, steps, sizeof(rt_step));
    w->pass.tiles = rt_alloc(ctx, tiles, sizeof(rt_tile));
    w->pass.moves = rt_alloc(ctx, moves, sizeof(rt_move));
}

static void builder_step(builder *w)
{
    w->pass.steps[w->pass.n_steps++] =
        (rt_step){w->step0_tile, w->pass.n_tiles, w->step0_move, w->pass.n_moves};
    w->step0_tile = w->pass.n_tiles;
    w->step0_move = w->pass.n_moves;
}

static void builder_tile(builder *w, const rt_problem *p, const rt_layout *l, rt_tile tile)
{
    if (tile.q.slot0 == tile.q.slot1 || tile.kv.slot0 == tile.kv.slot1)
        return;
    tile.pairs = rt_mask_pairs(
        p, rt_layout_positions(l, RT_SIDE_Q, tile.q.shard) + tile.q.slot0, tile.q.slot1 - tile.q.slot0,
        rt_layout_positions(l, RT_SIDE_KV, tile.kv.shard) + tile.kv.slot0, tile.kv.slot1 - tile.kv.slot0);
    if (tile.pairs > 0)
        w->pass.tiles[w->pass.n_tiles++] = tile;
}

/* Slots [0, cut) and [cut, n) of a piece, and for keys and values also its heads in two. */
static int cut_piece(const rt_piece *whole, rt_piece part[4])
{
    const int64_t slot = whole->slot0 + (whole->slot1 - whole->slot0) / 3;
    const int64_t head = whole->head0 + (whole->head1 - whole->head0) / 2;
    int n = 0;
    for (int s = 0; s < 2; s++)
        for (int h = 0; h < 2; h++) {
            rt_piece x = *whole;
            x.slot0 = s == 0 ? whole->slot0 : slot;
            x.slot1 = s == 0 ? slot : whole->slot1;
            x.head0 = h == 0 ? whole->head0 : head;
            x.head1 = h == 0 ? head : whole->head1;
            if (x.slot0 < x.slot1 && x.head0 < x.head1)
                part[n++] = x;
        }
    return n;
}

/* A pass with every tile and every move in pieces: rows of a shard, and heads, on their own. */
static rt_pass split_pass(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_pass *from)
{
    const int64_t group = p->heads_q / p->heads_kv;
    builder w;
    builder_create(ctx, &w, from->n_steps, 8 * from->n_tiles, 4 * from->n_moves);
    for (int64_t s = 0; s < from->n_steps; s++) {
        for (int64_t i = from->steps[s].tile0; i < from->steps[s].tile1; i++) {
            rt_piece part[4];
            const int n = cut_piece(&from->tiles[i].kv, part);
            const rt_piece q = from->tiles[i].q;
            const int64_t mid = q.slot0 + (q.slot1 - q.slot0) / 2;
            for (int x = 0; x < 2 * n; x++) {
                rt_tile tile = from->tiles[i];
                tile.kv = part[x / 2];
                tile.q.slot0 = x % 2 == 0 ? q.slot0 : mid;
                tile.q.slot1 = x % 2 == 0 ? mid : q.slot1;
                tile.q.head0 = tile.kv.head0 * group;
                tile.q.head1 = tile.kv.head1 * group;
                builder_tile(&w, p, l, tile);
            }
        }
        for (int64_t i = from->steps[s].move0; i < from->steps[s].move1; i++) {
            rt_piece part[4];
            const int n = cut_piece(&from->moves[i].piece, part);
            for (int x = 0; x < n; x++) {
                w.pass.moves[w.pass.n_moves] = from->moves[i];
                w.pass.moves[w.pass.n_moves++].piece = part[x];
            }
        }
        builder_step(&w);
    }
    return w.pass;
}

static rt_piece whole(const rt_problem *p, const rt_layout *l, rt_side side, int32_t r)
{
    return (rt_piece){
        side, r, 0, rt_layout_count(l, side, r), 0, side == RT_SIDE_Q ? p->heads_q : p->heads_kv};
}

static void pass_q_moves(builder *w, const rt_problem *p, const rt_layout *l, rt_payload y, bool home,
                         rt_how how)
{
    for (int32_t s = 0; s < l->ranks; s++)
        for (int32_t r = 0; r < l->ranks; r++)
            if (r != s && rt_layout_count(l, RT_SIDE_Q, s) > 0)
                w->pass.moves[w->pass.n_moves++] = (rt_move){y,
                                                             whole(p, l, RT_SIDE_Q, s),
                                                             home ? r : s,
                                                             home ? s : r,
                                                             home ? s + 1 : 0,
                                                             home ? 0 : s + 1,
                                                             how};
}

/* Queries go to every rank, keys stay; partial results come home and are joined (backward: added). */
static rt_pass pass_q(rt_context *ctx, const rt_problem *p, const rt_layout *l, bool backward)
{
    const int64_t P = l->ranks;
    builder w;
    builder_create(ctx, &w, 3, P * P, 4 * P * P);
    for (int32_t r = 0; r < P; r++)
        builder_tile(
            &w, p, l,
            (rt_tile){.rank = r, .q = whole(p, l, RT_SIDE_Q, r), .kv = whole(p, l, RT_SIDE_KV, r)});
    pass_q_moves(&w, p, l, RT_PAYLOAD_Q, false, RT_PUT);
    if (backward)
        pass_q_moves(&w, p, l, RT_PAYLOAD_DO, false, RT_PUT);
    builder_step(&w);
    for (int32_t r = 0; r < P; r++)
        for (int32_t s = 0; s < P; s++)
            if (s != r)
                builder_tile(&w, p, l,
                             (rt_tile){.rank = r,
                                       .q = whole(p, l, RT_SIDE_Q, s),
                                       .kv = whole(p, l, RT_SIDE_KV, r),
                                       .q_buf = s + 1,
                                       .dst_q = s + 1});
    builder_step(&w);
    pass_q_moves(&w, p, l, backward ? RT_PAYLOAD_DQ : RT_PAYLOAD_STATE, true, backward ? RT_ADD : RT_JOIN);
    builder_step(&w);
    return w.pass;
}

rt_status t_plan_create(rt_context *ctx, const rt_problem *p, const rt_layout *l, const char *name,
                        rt_plan *out)
{
    if (strcmp(name, "pass-q") == 0) {
        *out = (rt_plan){.name = "pass-q",
                         .ranks = l->ranks,
                         .forward = pass_q(ctx, p, l, false),
                         .backward = pass_q(ctx, p, l, true)};
        return RT_OK;
    }
    if (strcmp(name, "split") != 0)
        return rt_plan_create(ctx, name, p, l, out);
    rt_plan ring;
    RT_TRY(rt_plan_create(ctx, "ring", p, l, &ring));
    *out = (rt_plan){.name = "split",
                     .ranks = l->ranks,
                     .forward = split_pass(ctx, p, l, &ring.forward),
                     .backward = split_pass(ctx, p, l, &ring.backward)};
    rt_plan_reset(&ring);
    return RT_OK;
}

static rt_transport run_transport;
static rt_trace *run_trace;
static const char *run_arithmetic = "f64";

void t_run_with(rt_transport transport, rt_trace *trace)
{
    run_transport = transport;
    run_trace = trace;
}

void t_run_in(const char *arithmetic)
{
    run_arithmetic = arithmetic;
}

/* Process 0 has the whole plan, the others the part that they run, where a planner makes it. */
static rt_status plan_of_process(rt_context *ctx, rt_comm *comm, const rt_problem *p, const rt_layout *l,
                                 const char *name, rt_plan *out)
{
    const bool ours = strcmp(name, "split") == 0 || strcmp(name, "pass-q") == 0;
    return comm == NULL || rt_comm_rank(comm) == 0 || ours
               ? t_plan_create(ctx, p, l, name, out)
               : rt_plan_create_part(ctx, NULL, name, p, l, rt_comm_ranks(comm, l->ranks), out);
}

rt_status t_run_status(rt_context *ctx, rt_comm *comm, t_tensors *t, const t_how *how, bool backward,
                       rt_run_stats *stats)
{
    rt_comm *alone = NULL;
    rt_layout l;
    rt_plan plan;
    for (int x = 0; x < N_RESULTS; x++)
        if (t_rows(t->p, results[x]) > 0)
            memset(t->stored[results[x]], 0, (size_t)t_rows(t->p, results[x]) * sizeof(int32_t));
    RT_TRY(rt_comm_self(ctx, &alone));
    rt_status st = t_layout_create(ctx, t->p, how, &l);
    if (st != RT_OK)
        goto destroy_comm;
    st = plan_of_process(ctx, comm, t->p, &l, how->plan, &plan);
    if (st != RT_OK)
        goto reset_layout;
    const int threads = omp_get_max_threads();
    omp_set_num_threads(how->threads > 0 ? how->threads : 1);
    const rt_run_io io = {.load = load,
                          .store = store,
                          .arg = t,
                          .backward = backward,
                          .transport = run_transport,
                          .trace = run_trace};
    st = rt_run(ctx, comm != NULL ? comm : alone, t->p, &l, &plan, rt_arithmetic_find(run_arithmetic), &io,
                stats);
    omp_set_num_threads(threads);
    rt_plan_reset(&plan);
reset_layout:
    rt_layout_reset(&l);
destroy_comm:
    rt_comm_destroy(&alone);
    return st;
}

void t_run(t_tensors *t, const t_how *how)
{
    rt_context ctx = {0};
    t_assert_ok(&ctx, t_run_status(&ctx, NULL, t, how, true, NULL));
    for (int x = 0; x < N_RESULTS; x++)
        for (int64_t r = 0; r < t_rows(t->p, results[x]); r++)
            assert_int_equal(t->stored[results[x]][r], 1);
}

/* ---- truth ------------------------------------------------------------------------------------------- */

/* One row of the triple loop, and the bound of what f64 may make of it.
 *
 * u = 2^-53, n visible keys, N = Sq Hq / Hkv rows that a key may serve, R roundings of a weight or of a sum
 * on its way through blocks and joins: at most 8 tiles and 2 blocks each here, so R = 20 stands for them.
 * First order in u; the factor at the end covers the second order and this loop's own 64-bit roundings.
 * - score, |ds_j| <= (D+3) u a_j, a_j = scale sum |q k|: D products and sums, the scale and its rounding
 * - weight, relative to exp(s_j - m): eta_j = (D+3) u a_j + u (max - s_j) + 2u + 3u R; what exp subtracts
 *   telescopes to max - s_j, exp is good to 2u, and a rescaling is one exp and one product
 * - l, relative: lam = sum w eta + (n + R) u
 * - O: sum w eta (|v| + |O|) + (n + R + 1) u (sum w |v| + |O|)
 * - LSE: lam + 2u |ln l| + u |LSE|, where |ln l| <= |LSE - max|
 * - P, relative: rho_j = (D+3) u a_j + u (max - s_j) + 4u + lam
 * - delta: eps = sum |dO| bound(O) + Dv u sum |dO| |O|
 * - dS: E = w (rho |dP - delta| + Dv u sum |dO| |v| + eps + 2u |dP - delta|)
 * - dQ: scale sum_j (E + (n + R + 4) u |dS|) |k|
 * - dK: scale sum_i (E + (N + R + 4) u |dS|) |q|
 * - dV: sum_i w (rho + (N + R + 4) u) |dO|
 * - a weight below 2^-1022 is wrong by 2^-1074; times |dP - delta| < 2^11, |q| < 2^9 and N < 2^12 that
 *   stays below TINY */
typedef struct {
    long double *s, *a, *w, *out, *err; /* keys, keys, keys, Dv, Dv */
    int64_t *key;
} reference_scratch;

static const long double U = 0x1p-53L, R = 20, TINY = 0x1p-1040L;

static void reference_row(const t_tensors *in, long double scale, int64_t b, int64_t h, int64_t i,
                          reference_scratch *c, long double *sum[], long double *tol[])
{
    const rt_problem *p = in->p;
    const int64_t g = h / (p->heads_q / p->heads_kv), D = p->dim, Dv = p->dim_v;
    const double *q = t_row(in, RT_Q, b, i, h), *dout = t_row(in, RT_DOUT, b, i, h);
    const int64_t at = row_index(p, RT_OUT, b, i, h);
    const long double N = (long double)(p->seqlen_q * (p->heads_q / p->heads_kv));
    long double max = -(long double)RT_INF, l = 0, lam = 0, delta = 0, eps = 0;
    int64_t n = 0;
    for (int64_t j = 0; j < p->seqlen_k; j++) {
        if (!t_mask_sees(p, b, i, j))
            continue;
        const double *k = t_row(in, RT_K, b, j, g);
        long double s = 0, a = 0;
        for (int64_t d = 0; d < D; d++) {
            const long double x = (long double)q[d] * (long double)k[d];
            s += x;
            a += fabsl(x);
        }
        c->s[n] = scale * s;
        c->a[n] = fabsl(scale) * a;
        max = c->s[n] > max ? c->s[n] : max;
        c->key[n++] = j;
    }
    if (n == 0) {
        sum[RT_LSE][at] = -(long double)RT_INF;
        return;
    }
    for (int64_t j = 0; j < n; j++)
        l += expl(c->s[j] - max);
    const long double lse = max + logl(l);
    for (int64_t d = 0; d < Dv; d++)
        c->out[d] = c->err[d] = 0;
    for (int64_t j = 0; j < n; j++) {
        const double *v = t_row(in, RT_V, b, c->key[j], g);
        c->w[j] = expl(c->s[j] - lse);
        lam += c->w[j] * U * ((long double)(D + 3) * c->a[j] + (max - c->s[j]) + 2 + 3 * R);
        for (int64_t d = 0; d < Dv; d++)
            c->out[d] += c->w[j] * (long double)v[d];
    }
    for (int64_t j = 0; j < n; j++) {
        const double *v = t_row(in, RT_V, b, c->key[j], g);
        const long double eta = U * ((long double)(D + 3) * c->a[j] + (max - c->s[j]) + 2 + 3 * R);
        for (int64_t d = 0; d < Dv; d++) {
            const long double size = fabsl((long double)v[d]) + fabsl(c->out[d]);
            c->err[d] += c->w[j] * (eta + U * ((long double)n + R + 1)) * size;
        }
    }
    lam += U * ((long double)n + R);
    sum[RT_LSE][at] = lse;
    tol[RT_LSE][at] = lam + 2 * U * fabsl(lse - max) + U * fabsl(lse);
    for (int64_t d = 0; d < Dv; d++) {
        const long double o = (long double)dout[d];
        sum[RT_OUT][at * Dv + d] = c->out[d];
        tol[RT_OUT][at * Dv + d] = c->err[d];
        delta += o * c->out[d];
        eps += fabsl(o) * (c->err[d] + (long double)Dv * U * fabsl(c->out[d]));
    }
    for (int64_t j = 0; j < n; j++) {
        const double *k = t_row(in, RT_K, b, c->key[j], g), *v = t_row(in, RT_V, b, c->key[j], g);
        const int64_t to = row_index(p, RT_DK, b, c->key[j], g);
        const long double rho = U * ((long double)(D + 3) * c->a[j] + (max - c->s[j]) + 4) + lam;
        long double dp = 0, size = 0;
        for (int64_t d = 0; d < Dv; d++) {
            const long double x = (long double)dout[d] * (long double)v[d];
            dp += x;
            size += fabsl(x);
            sum[RT_DV][to * Dv + d] += c->w[j] * (long double)dout[d];
            tol[RT_DV][to * Dv + d] += c->w[j] * (rho + (N + R + 4) * U) * fabsl((long double)dout[d]);
        }
        const long double ds = c->w[j] * (dp - delta), gap = fabsl(dp - delta);
        const long double e = c->w[j] * ((rho + 2 * U) * gap + (long double)Dv * U * size + eps);
        const long double eq = fabsl(scale) * (e + ((long double)n + R + 4) * U * fabsl(ds));
        const long double ek = fabsl(scale) * (e + (N + R + 4) * U * fabsl(ds));
        for (int64_t d = 0; d < D; d++) {
            sum[RT_DQ][at * D + d] += scale * ds * (long double)k[d];
            tol[RT_DQ][at * D + d] += eq * fabsl((long double)k[d]);
            sum[RT_DK][to * D + d] += scale * ds * (long double)q[d];
            tol[RT_DK][to * D + d] += ek * fabsl((long double)q[d]);
        }
    }
}

void t_reference(const t_tensors *in, t_tensors *want, t_tensors *bound)
{
    const rt_problem *p = in->p;
    const long double scale =
        p->scale_kind == RT_SCALE_RSQRT_DIM ? 1 / sqrtl((long double)p->dim) : (long double)p->scale;
    const size_t n = (size_t)(p->seqlen_k > p->dim_v ? p->seqlen_k : p->dim_v);
    long double *store_, *sum[RT_RESULT_COUNT] = {NULL}, *tol[RT_RESULT_COUNT] = {NULL};
    store_ = calloc(5 * n, sizeof *store_);
    reference_scratch c = {store_,         store_ + n,     store_ + 2 * n,
                           store_ + 3 * n, store_ + 4 * n, calloc(n, sizeof(int64_t))};
    for (int x = 0; x < N_RESULTS; x++) {
        const size_t count = (size_t)(t_rows(p, results[x]) * t_width(p, results[x]));
        sum[results[x]] = calloc(count, sizeof(long double));
        tol[results[x]] = calloc(count, sizeof(long double));
    }
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < p->seqlen_q; i++)
                reference_row(in, scale, b, h, i, &c, sum, tol);
    for (int x = 0; x < N_RESULTS; x++) {
        const rt_tensor_id id = results[x];
        for (int64_t e = 0; e < t_rows(p, id) * t_width(p, id); e++) {
            want->x[id][e] = (double)sum[id][e];
            bound->x[id][e] = tol[id][e] > 0 ? (double)(tol[id][e] * (1 + 0x1p-10L) + TINY) : 0;
        }
        free(sum[id]);
        free(tol[id]);
    }
    free(c.key);
    free(store_);
}

double t_worst(const t_tensors *got, const t_tensors *want, const t_tensors *bound, rt_tensor_id id)
{
    double worst = 0;
    for (int64_t e = 0; e < t_rows(got->p, id) * t_width(got->p, id); e++) {
        const double g = got->x[id][e], w = want->x[id][e], tol = bound->x[id][e];
        if (t_same(g, w))
            continue;
        /* `want` was rounded to binary64 itself. */
        const double err = fabs(g - w), ratio = err / (tol + 0x1p-53 * fabs(w));
        if (!(err <= DBL_MAX) || !(tol > 0))
            return RT_INF;
        worst = ratio > worst ? ratio : worst;
    }
    return worst;
}

void t_check_close(const t_tensors *got, const t_tensors *want, const t_tensors *bound, const char *what,
                   double *worst)
{
    for (int x = 0; x < N_RESULTS; x++) {
        const double ratio = t_worst(got, want, bound, results[x]);
        if (!(ratio <= 1))
            fail_msg("%s: %s is off by %g times its bound", what, rt_tensor_name(results[x]), ratio);
        if (worst != NULL && ratio > *worst)
            *worst = ratio;
    }
}

void t_check_same(const t_tensors *got, const t_tensors *want, const char *what)
{
    for (int x = 0; x < N_RESULTS; x++) {
        const rt_tensor_id id = results[x];
        for (int64_t e = 0; e < t_rows(got->p, id) * t_width(got->p, id); e++)
            if (!t_same(got->x[id][e], want->x[id][e])) {
                const int64_t row = e / t_width(got->p, id), h = row % t_heads(got->p, id);
                const int64_t pos = row / t_heads(got->p, id) % t_length(got->p, id);
                fail_msg("%s: %s at token %lld, head %lld, dim %lld: %a, not %a", what, rt_tensor_name(id),
                         (long long)pos, (long long)h, (long long)(e % t_width(got->p, id)), got->x[id][e],
                         want->x[id][e]);
            }
    }
}
