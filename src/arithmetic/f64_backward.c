/* Arithmetic f64, backward: one tile, in blocks of 256 rows x 384 keys.
 *
 * forward was  s = scale q.k, P = exp(s - m) / l, O = P V;  so now, with delta = dO.O of the whole row:
 *   dV += P^T dO      dP = dO V^T      dS = P o (dP - delta)      dQ += scale dS K      dK += scale dS^T Q
 * With dropout, P is M P / keep in the first and dP is M dP / keep; with a softcap, dS also has its slope; dS is
 * what a pair adds to dBias.
 * P is recomputed from the row's global (m, l), not from the rounded LSE: with summable inputs every
 * quantity here is exact, which is what makes layouts comparable to the bit.
 *
 * A unit of work is one (batch, key head, key block): it owns its dK and dV and takes turns at the dQ of
 * each row block, so that the order of every sum is (key block, head, row block) whatever the threads.
 */
#include <omp.h>
#include <string.h>

#include "arithmetic/f64.h"
#include "arithmetic/score.h"
#include "arithmetic/turns.h"

enum { Q = 256, K = 384, LD = K + 8 };

typedef struct {
    const rt_tile_data *t;
    const rt_f64_kernels *kernels;
    rt_blocks blocks;
    rt_f64_rows q, dout, k, v;
    int64_t group, g0, heads; /* key heads g0 .. g0 + heads - 1 */
    rt_turns turns;           /* a place: (batch, query head, row block) */
} tile;

typedef struct {
    double *p, *ds; /* (Q, LD) */
} scratch;

static void fill_nan(double *row, int64_t n)
{
    for (int64_t d = 0; d < n; d++)
        row[d] = RT_NAN;
}

/* What is not finite reaches what depends on it and nothing else.  A row that is NaN (a NaN or an infinity
 * in its q, in a k that it sees, or a score that overflowed) makes NaN of its dq and of dk and dv of every
 * key that it sees.  One whose dO or delta is not finite (delta: through a v that it sees) has P all the
 * same: its dq is NaN and so is dk of the keys that it sees, but dv only in the elements where dO is not
 * finite. */
static void poison(const tile *f, int64_t b, int64_t h, int64_t g, int64_t row0, int64_t nq, int64_t key0,
                   int64_t nk)
{
    const rt_tile_data *t = f->t;
    const rt_problem *p = t->problem;
    for (int64_t i = row0; i < row0 + nq; i++) {
        const bool p_bad = isnan(*rt_part_at(&t->row[1], b, h, i)),
                   dout_bad = rt_f64_bad(&f->dout, b, h, t->q_head0, i);
        if (!p_bad && !dout_bad && isfinite(*rt_part_at(&t->row[3], b, h, i)))
            continue;
        const double *dout = rt_part_at(&t->row[0], b, h, i);
        for (int64_t j = key0; j < key0 + nk; j++) {
            if (!rt_blocks_visible(&f->blocks, b, i, j) ||
                rt_score_hides(p, b, h, t->q_pos[i], t->k_pos[j]))
                continue;
            if (rt_wants_dbias(p))
                rt_part_at(&t->dq[1], b, h, i)[t->k_pos[j]] = RT_NAN;
            fill_nan(rt_part_at(&t->dq[0], b, h, i), t->q.width);
            fill_nan(rt_part_at(&t->dkv[0], b, g, j), t->q.width);
            if (!rt_dropout_keep(p, b, h, t->q_pos[i], t->k_pos[j]))
                continue;
            double *dv = rt_part_at(&t->dkv[1], b, g, j);
            for (int64_t d = 0; (p_bad || dout_bad) && d < t->v.width; d++)
                if (p_bad || !isfinite(dout[d]))
                    dv[d] = RT_NAN;
        }
    }
}

/* P and dS of one row of a panel, from scores and dP; whether something of the row is not finite. */
static bool gradient_row(const tile *f, int64_t b, int64_t h, int64_t row, bool cut, int64_t key0,
                         int64_t nk, double *p, double *ds)
{
    const rt_tile_data *t = f->t;
    const double m = *rt_part_at(&t->row[1], b, h, row), l = *rt_part_at(&t->row[2], b, h, row);
    const double delta = *rt_part_at(&t->row[3], b, h, row);
    const rt_problem *problem = t->problem;
    const int64_t *k_pos = t->k_pos + key0, i = t->q_pos[row];
    const bool bends = rt_score_bends(problem), drops = problem->dropout > 0;
    double slope[K];
    uint8_t keep[K];
    if (!isfinite(m)) { /* an empty row, or one that poison() answers for */
        memset(p, 0, (size_t)nk * sizeof *p);
        memset(ds, 0, (size_t)nk * sizeof *ds);
        return isnan(m);
    }
    if (bends)
        rt_score_row(problem, b, h, i, k_pos, nk, p, slope);
    if (cut) {
        rt_f64_mask_row(&f->blocks, b, row, key0, nk, -RT_INF, p);
        /* where dP overflowed, P = 0 alone would not keep a hidden key out */
        rt_f64_mask_row(&f->blocks, b, row, key0, nk, 0, ds);
    }
    for (int64_t j = 0; problem->bias != NULL && j < nk; j++) /* likewise */
        ds[j] = rt_is_minus_inf(p[j]) ? 0 : ds[j];
    const double more = 1.0 / rt_score_keep(problem);
    if (drops)
        rt_dropout_row(problem, b, h, i, k_pos, nk, keep);
    for (int64_t j = 0; drops && j < nk; j++)
        ds[j] = keep[j] != 0 ? ds[j] * more : 0;
    f->kernels->gradient(p, ds, nk, m, 1.0 / l, isfinite(delta) ? delta : 0);
    for (int64_t j = 0; drops && j < nk; j++)
        p[j] = keep[j] != 0 ? p[j] * more : 0;
    for (int64_t j = 0; bends && j < nk; j++)
        ds[j] *= slope[j];
    if (!isfinite(delta))
        memset(ds, 0, (size_t)nk * sizeof *ds);
    double *dbias = rt_wants_dbias(problem) ? rt_part_at(&t->dq[1], b, h, row) : NULL;
    for (int64_t j = 0; dbias != NULL && j < nk; j++) /* these keys are no other thread's */
        dbias[k_pos[j]] += ds[j];
    return !isfinite(delta);
}

static void backward_block(tile *f, int64_t b, int64_t h, int64_t g, int64_t qb, int64_t kb,
                           rt_block_class cls, scratch *w)
{
    const rt_tile_data *t = f->t;
    const int64_t row0 = qb * Q, nq = rt_min64(Q, t->n_q - row0), key0 = kb * K,
                  nk = rt_min64(K, t->n_kv - key0);
    const int64_t place = ((b * (t->q_head1 - t->q_head0) + h - t->q_head0) * f->blocks.n_qb) + qb;
    const int64_t D = t->q.width, Dv = t->v.width;
    const double scale = t->problem->scale;
    bool odd = f->dout.any, waited = false;
    for (int64_t at = row0; cls != RT_BLOCK_EMPTY && at < row0 + nq;) {
        const rt_panel x = rt_panel_next(&f->blocks, cls == RT_BLOCK_PARTIAL, at, row0 + nq, key0, nk);
        const int64_t row = at, j0 = x.j0;
        at += x.n;
        if (j0 >= x.j1)
            continue;
        const int64_t n = x.n, keys = x.j1 - j0;
        const double *q = rt_part_at(&f->q.part, b, h, row), *dout = rt_part_at(&f->dout.part, b, h, row);
        const double *k = rt_part_at(&f->k.part, b, g, key0 + j0),
                     *v = rt_part_at(&f->v.part, b, g, key0 + j0);
        rt_gemm_nt(n, keys, D, scale, q, D, k, D, 0.0, w->p, LD);
        rt_gemm_nt(n, keys, Dv, 1.0, dout, Dv, v, Dv, 0.0, w->ds, LD);
        for (int64_t i = 0; i < n; i++)
            odd |= gradient_row(f, b, h, row + i, x.cut, key0 + j0, keys, w->p + i * LD, w->ds + i * LD);
        rt_gemm_tn(keys, Dv, n, 1.0, w->p, LD, dout, Dv, 1.0, rt_part_at(&t->dkv[1], b, g, key0 + j0), Dv);
        rt_gemm_tn(keys, D, n, scale, w->ds, LD, q, D, 1.0, rt_part_at(&t->dkv[0], b, g, key0 + j0), D);
        if (!waited)
            rt_turns_wait(&f->turns, place, kb);
        waited = true;
        rt_gemm_nn(n, D, keys, scale, w->ds, LD, k, D, 1.0, rt_part_at(&t->dq[0], b, h, row), D);
    }
    if (!waited)
        rt_turns_wait(&f->turns, place, kb);
    if (odd && cls != RT_BLOCK_EMPTY)
        poison(f, b, h, g, row0, nq, key0, nk);
    rt_turns_pass(&f->turns, place, kb);
}

static void zero_rows(const rt_part *part, int64_t b, int64_t h, int64_t row0, int64_t rows)
{
    for (int64_t i = row0; i < row0 + rows; i++)
        memset(rt_part_at(part, b, h, i), 0, (size_t)part->width * sizeof(double));
}

static void backward_unit(tile *f, int64_t unit, scratch *w)
{
    const rt_tile_data *t = f->t;
    const int64_t across = t->problem->batch * f->heads;
    const int64_t kb = unit / across, b = unit % across / f->heads,
                  g = f->g0 + unit % f->heads; /* longest first under causal */
    const int64_t h0 = rt_max64(t->q_head0, g * f->group), h1 = rt_min64(t->q_head1, (g + 1) * f->group);
    if (t->fresh_kv)
        for (int k = 0; k < 2; k++)
            zero_rows(&t->dkv[k], b, g, kb * K, rt_min64(K, t->n_kv - kb * K));
    for (int64_t h = h0; h < h1; h++)
        for (int64_t qb = 0; qb < f->blocks.n_qb; qb++) {
            if (t->fresh_q && kb == 0) /* the first unit of its turn */
                zero_rows(&t->dq[0], b, h, qb * Q, rt_min64(Q, t->n_q - qb * Q));
            backward_block(f, b, h, g, qb, kb, rt_blocks_classify(&f->blocks, b, qb, kb), w);
            if (t->poke != NULL && omp_get_thread_num() == 0)
                t->poke(t->poke_arg);
        }
}

static rt_status scan(rt_context *ctx, tile *f)
{
    const rt_tile_data *t = f->t;
    const int64_t B = t->problem->batch, g1 = f->g0 + f->heads;
    RT_TRY(rt_f64_rows_create(ctx, &t->q, B, t->q_head0, t->q_head1, t->n_q, f->kernels, &f->q));
    RT_TRY(rt_f64_rows_create(ctx, &t->row[0], B, t->q_head0, t->q_head1, t->n_q, f->kernels, &f->dout));
    RT_TRY(rt_f64_rows_create(ctx, &t->k, B, f->g0, g1, t->n_kv, f->kernels, &f->k));
    return rt_f64_rows_create(ctx, &t->v, B, f->g0, g1, t->n_kv, f->kernels, &f->v);
}

rt_status rt_f64_backward(rt_context *ctx, const rt_tile_data *t)
{
    const rt_problem *p = t->problem;
    tile f = {.t = t, .kernels = rt_f64_kernels_here()};
    f.group = p->heads_q / p->heads_kv;
    f.g0 = t->q_head0 / f.group;
    f.heads = (t->q_head1 - 1) / f.group + 1 - f.g0;
    RT_TRY(rt_blocks_create(ctx, p, 0, t->q_pos, t->n_q, t->k_pos, t->n_kv, Q, K, &f.blocks));
    const int threads = omp_get_max_threads();
    const int64_t doubles = 2 * (int64_t)Q * LD,
                  places = p->batch * (t->q_head1 - t->q_head0) * f.blocks.n_qb;
    double *store = rt_alloc(ctx, threads * doubles, sizeof *store);
    f.turns.turn = rt_calloc(ctx, places, sizeof *f.turns.turn);
    rt_status st = store == NULL || f.turns.turn == NULL ? RT_ERR_NOMEM : scan(ctx, &f);
    if (st != RT_OK)
        goto free_rows;
    for (int64_t b = 0; b < p->batch && t->fresh_q && rt_wants_dbias(p); b++)
        for (int64_t h = t->q_head0; h < t->q_head1; h++)
            zero_rows(&t->dq[1], b, h, 0, t->n_q);
    const int64_t units = p->batch * f.heads * f.blocks.n_kb;
    const bool team = units > 1 && rt_worth_a_team(p, t->n_q, t->n_kv, t->q_head1 - t->q_head0);
#pragma omp parallel if (team) default(none) shared(f, store, units, doubles)
    {
        rt_gemm_alone();
        scratch w = {.p = store + omp_get_thread_num() * doubles};
        w.ds = w.p + Q * LD;
        for (int64_t unit = rt_turns_next(&f.turns); unit < units; unit = rt_turns_next(&f.turns))
            backward_unit(&f, unit, &w);
    }
free_rows:
    rt_f64_rows_reset(&f.v);
    rt_f64_rows_reset(&f.k);
    rt_f64_rows_reset(&f.dout);
    rt_f64_rows_reset(&f.q);
    rt_free(f.turns.turn);
    rt_free(store);
    rt_blocks_reset(&f.blocks);
    return st;
}
