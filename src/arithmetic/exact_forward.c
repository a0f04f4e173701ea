/* Arithmetic exact, forward: one tile.  exact.h says what is computed; this file keeps the errors.
 *
 * Units of the accumulation: weights p = (p1 + p2) 2^-25, values v = (v0 + v1 2^-b + ..) c_d with c_d the column's power of two.
 *   big    p1 v0: an integer, exact
 *   small  p1 (v1 2^-b + v2 2^-2b) + p1 v's tails + p2 v: rounded
 * acc_d += (big + small) c_d 2^-25 in double-double. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "arithmetic/exact.h"

enum { Q = RT_BLOCK_Q, K = RT_BLOCK_K };

typedef struct {
    rt_slices q;
    rt_exact_scores s;
    double *p1, *p2;            /* (Q, K) */
    double *big, *small, *more; /* (Q, Dv) */
    double *q_clean, *unit;     /* (Q, D); Dv: c_d 2^-25 */
    double *acc;                /* (3, Q, Dv): hi, lo, error */
    double *v_top;              /* Dv: 2^G of a column */
    double *add;                /* 3 K: what joins the scores of a row */
    uint8_t keep[Q * K];        /* dropout: what a row keeps of a block */
    double m[Q], l[2][Q], e_l[Q], rho[Q];
    bool q_bad[Q], q_far[Q], row_nan[Q], row_far[Q];
    rt_checked_gemm gemm;
    double *store;
} scratch;

static rt_status scratch_create(rt_context *ctx, const rt_problem *p, rt_gemm_fn gemm, scratch *w)
{
    const int64_t D = p->dim, Dv = p->dim_v;
    const int64_t sizes[] = {Q * K,  Q * K,  Q * K,  Q * K, Q * K, Q * K,      K,  Q * K, Q * K,
                             Q * Dv, Q * Dv, Q * Dv, Q * D, Dv,    3 * Q * Dv, Dv, 3 * K, 9 * RT_CHECK_MAX};
    double **const at[] = {&w->s.s[0],  &w->s.s[1], &w->s.s[2], &w->s.hi,  &w->s.lo,  &w->s.extra,
                           &w->s.vis,   &w->p1,     &w->p2,     &w->big,   &w->small, &w->more,
                           &w->q_clean, &w->unit,   &w->acc,    &w->v_top, &w->add,   &w->gemm.sums};
    memset(w, 0, sizeof *w);
    w->store = rt_carve(ctx, (int)(sizeof sizes / sizeof sizes[0]), sizes, at);
    if (w->store == NULL)
        return RT_ERR_NOMEM;
    w->gemm.gemm = gemm;
    return rt_slices_reserve(ctx, &w->q, Q, D);
}

static void scratch_reset(scratch *w)
{
    rt_slices_reset(&w->q);
    rt_free(w->store);
}

typedef struct {
    const rt_problem *p;
    const rt_blocks *blocks;
    const rt_exact_keys *keys;
    const rt_exact_kernels *f;
    rt_dd alpha;
    double alpha_error;
    bool simple_scale; /* a power of two */
    bool far_scale;    /* out of range */
    rt_exact_bend bend;
    const int64_t *q_pos, *k_pos;
    int64_t b0; /* of the problem, where b is 0 */
    int64_t b, g;
    const rt_part *q, *v_raw, *state;
    bool fresh;
} job;

/* A row's maximum has risen: acc and l shrink by c = exp(old - new). */
static void rescale(scratch *w, int64_t i, int64_t Dv, double top)
{
    const rt_dd y = rt_two_sum(w->m[i], -top);
    const rt_dd c = rt_dd_exp1(y);
    double *hi = w->acc + i * Dv, *lo = w->acc + (Q + i) * Dv;
    for (int64_t d = 0; d < Dv; d++) {
        const rt_dd a = rt_dd_mul((rt_dd){hi[d], lo[d]}, c);
        hi[d] = a.hi;
        lo[d] = a.lo;
    }
    const rt_dd l = rt_dd_mul((rt_dd){w->l[0][i], w->l[1][i]}, c);
    w->l[0][i] = l.hi;
    w->l[1][i] = l.lo;
    /* the factor's error is common to all that came before: part of rho */
    if (y.hi > -600)
        w->rho[i] += RT_DD_EXP_ERROR;
    double *error = w->acc + (2 * Q + i) * Dv;
    for (int64_t d = 0; d < Dv; d++)
        error[d] = error[d] * c.hi * (1 + 0x1p-50) + RT_EXACT_FLOOR * w->v_top[d];
    w->e_l[i] = w->e_l[i] * c.hi * (1 + 0x1p-50) + RT_EXACT_FLOOR;
    w->m[i] = top;
}

/* Whether every visible weight is exactly 1 (y = 0) or 0 (y < -600); the scale is a power of two. */
static bool trivial(const double *hi, const double *lo, const double *vis, int64_t n, double alpha,
                    double top)
{
    for (int64_t x = 0; x < n; x++) {
        const double y = hi[x] * alpha - top;
        if ((vis == NULL || vis[x] > 0) && !(y < -600) && (y < 0 || y > 0 || lo[x] < 0 || lo[x] > 0))
            return false;
    }
    return true;
}

static void block(const job *j, int64_t h, int64_t qb, scratch *w)
{
    const rt_problem *p = j->p;
    const int64_t D = p->dim, Dv = p->dim_v, row0 = qb * Q, nq = rt_min64(Q, j->blocks->n_q - row0);
    const double *q = rt_part_at(j->q, j->b, h, row0);
    const bool any_q = rt_exact_clean(q, nq, D, j->q->width, w->q_bad, w->q_far, w->q_clean);
    rt_slices_cut(&w->q, w->q_clean, D, nq, D, rt_slices_bits(D, 0), false);
    const double unit_q = ldexp(1.0, w->q.bits), c_unit = ldexp(1.0, j->keys->v.bits);
    for (int64_t d = 0; d < Dv; d++) {
        w->unit[d] = j->keys->v.scale[d] * 0x1p-25;
        w->v_top[d] = j->keys->v.scale[d] * c_unit;
    }
    double q_top = 0;
    for (int64_t i = 0; i < nq; i++) {
        w->m[i] = -RT_INF;
        w->l[0][i] = w->l[1][i] = w->e_l[i] = w->rho[i] = 0;
        w->row_nan[i] = w->row_far[i] = false;
        q_top = w->q.scale[i] * unit_q > q_top ? w->q.scale[i] * unit_q : q_top;
    }
    memset(w->acc, 0, (size_t)(3 * Q * Dv) * sizeof(double));
    /* bent scores are in natural units */
    const bool bent = j->bend.any;
    const rt_dd unit_scale = bent ? (rt_dd){1, 0} : j->alpha;
    const double alpha[2] = {unit_scale.hi, unit_scale.lo}, a = fabs(alpha[0]),
                 alpha_error = bent ? 0 : j->alpha_error;
    const bool simple_scale = j->simple_scale && !bent;

    for (int64_t kb = 0; kb < j->blocks->n_kb; kb++) {
        const rt_block_class cls = rt_blocks_classify(j->blocks, j->b0 + j->b, qb, kb);
        if (cls == RT_BLOCK_EMPTY)
            continue;
        const int64_t key0 = kb * K, nk = rt_min64(K, j->keys->n - key0);
        const double err_products = rt_exact_products(&w->gemm, j->f, &w->q, nq, &j->keys->k, key0, nk,
                                                      j->keys->clean, w->q_clean, &w->s);
        bool rounded = false; /* some weight of the block is not 0 or 1 */
        for (int64_t i = 0; i < nq; i++) {
            double *hi = w->s.hi + i * K, *lo = w->s.lo + i * K, top = -RT_INF, low = RT_INF;
            const double *vis = NULL;
            if (cls == RT_BLOCK_PARTIAL) {
                rt_blocks_vis(j->blocks, j->b0 + j->b, row0 + i, key0, nk, w->s.vis);
                vis = w->s.vis;
            }
            vis = rt_exact_hide(&j->bend, j->b0 + j->b, h, j->q_pos[row0 + i], j->k_pos + key0, nk, vis,
                                w->s.vis);
            double err_s = err_products;
            if (bent)
                err_s = rt_exact_bend_row(&j->bend, j->f, j->b0 + j->b, h, j->q_pos[row0 + i],
                                          j->k_pos + key0, nk, j->alpha, j->alpha_error, err_products, vis,
                                          hi, lo, w->add, NULL, NULL, &w->row_far[i]);
            for (int64_t x = 0; x < nk; x++) {
                const double y = vis == NULL || vis[x] > 0 ? hi[x] * alpha[0] : -RT_INF;
                top = y > top ? y : top;
                low = y < low && y > -RT_INF ? y : low;
            }
            if (rt_is_minus_inf(top)) {
                memset(w->p1 + i * K, 0, (size_t)nk * sizeof(double));
                memset(w->p2 + i * K, 0, (size_t)nk * sizeof(double));
                continue;
            }
            if (bent && low < top - 1000) /* below, a weight is 0 */
                low = top - 1000;
            if (!(fabs(top) < RT_EXACT_TOP))
                w->row_far[i] = true;
            if (top > w->m[i]) {
                if (rt_is_minus_inf(w->m[i]))
                    w->m[i] = top;
                else
                    rescale(w, i, Dv, top);
            }
            double sums[2] = {0, 0};
            const double shift[2] = {w->m[i], 0};
            j->f->probabilities(nk, hi, lo, alpha, shift, vis, w->p1 + i * K, w->p2 + i * K, sums);
            if (j->bend.drops)
                rt_exact_drop(&j->bend, j->b0 + j->b, h, j->q_pos[row0 + i], j->k_pos + key0, nk,
                              w->keep + i * K, w->p1 + i * K, w->p2 + i * K);
            rt_dd l = rt_dd_add((rt_dd){w->l[0][i], w->l[1][i]},
                                rt_two_sum(sums[0] * 0x1p-25, sums[1] * 0x1p-25));
            w->l[0][i] = l.hi;
            w->l[1][i] = l.lo;
            /* the exponent's error: of the scores, of alpha, of double-double on numbers as large as |y| and |m| */
            const double size = fabs(top) > fabs(low) ? fabs(top) : fabs(low);
            if (simple_scale && !(err_s > 0) && trivial(hi, lo, vis, nk, alpha[0], w->m[i])) {
                w->e_l[i] += (double)nk * RT_EXACT_FLOOR; /* weights 1 and 0 */
                continue;
            }
            const double rho =
                a * err_s + alpha_error * size + 0x1p-100 * (size + fabs(w->m[i])) + RT_DD_EXP_ERROR;
            w->rho[i] = rho > w->rho[i] ? rho : w->rho[i];
            w->e_l[i] += 0x1p-78 * (double)nk * (double)nk + (double)nk * RT_EXACT_FLOOR + 0x1p-100 * l.hi;
            rounded = true;
        }
        const double error = rt_exact_apply(&w->gemm, false, nq, Dv, nk, w->p1, w->p2, K, &j->keys->v, key0,
                                            j->keys->v_scaled, rounded, w->big, w->small, w->more);
        for (int64_t i = 0; i < nq; i++) {
            j->f->accumulate(Dv, w->big + i * Dv, w->small + i * Dv, w->unit, 1.0, w->acc + i * Dv,
                             w->acc + (Q + i) * Dv);
            const double e = error / c_unit * 0x1p-25 + (double)nk * RT_EXACT_FLOOR +
                             (rounded ? 0x1p-98 * w->l[0][i] : 0);
            double *sum = w->acc + (2 * Q + i) * Dv;
            for (int64_t d = 0; d < Dv; d++)
                sum[d] += e * w->v_top[d];
        }
        if (any_q || j->keys->any_bad || j->far_scale)
            for (int64_t i = 0; i < nq; i++)
                for (int64_t x = 0; x < nk; x++) {
                    if (!rt_blocks_visible(j->blocks, j->b0 + j->b, row0 + i, key0 + x) ||
                        rt_exact_hidden(&j->bend, j->b0 + j->b, h, j->q_pos[row0 + i], j->k_pos[key0 + x]))
                        continue;
                    if (w->q_bad[i] || j->keys->k_bad[key0 + x])
                        w->row_nan[i] = true;
                    if (w->q_far[i] || j->keys->k_far[key0 + x] || j->keys->v_far[key0 + x] || j->far_scale)
                        w->row_far[i] = true;
                    if (j->bend.drops && !w->keep[i * K + x])
                        continue;
                    const double *raw = rt_part_at(j->v_raw, j->b, j->g, key0 + x);
                    for (int64_t d = 0; d < Dv && j->keys->v_bad[key0 + x]; d++)
                        if (!isfinite(raw[d]))
                            w->acc[i * Dv + d] = w->acc[(Q + i) * Dv + d] = RT_NAN;
                }
    }
    for (int64_t i = 0; i < nq; i++) {
        double *hi = w->acc + i * Dv, *lo = w->acc + (Q + i) * Dv;
        if (w->row_nan[i]) {
            w->m[i] = w->l[0][i] = w->l[1][i] = RT_NAN;
            for (int64_t d = 0; d < Dv; d++)
                hi[d] = lo[d] = RT_NAN;
        }
        if (w->row_far[i] && !w->row_nan[i]) {
            w->m[i] = RT_INF;
            w->l[0][i] = 1;
            w->l[1][i] = w->e_l[i] = w->rho[i] = 0;
            memset(hi, 0, (size_t)Dv * sizeof *hi);
            memset(lo, 0, (size_t)Dv * sizeof *lo);
            memset(w->acc + (2 * Q + i) * Dv, 0, (size_t)Dv * sizeof *lo);
        }
        /* what all weights share becomes absolute: sum p |v_d| <= l 2^G_d */
        const double shared = w->rho[i] * (1 + 0x1p-20) * w->l[0][i];
        double *error = w->acc + (2 * Q + i) * Dv;
        for (int64_t d = 0; d < Dv; d++)
            error[d] += shared * w->v_top[d];
        w->e_l[i] += shared;
        const double *const in[RT_EXACT_STATE] = {hi,          lo,          error,     &w->m[i],
                                                  &w->l[0][i], &w->l[1][i], &w->e_l[i]};
        double *to[RT_EXACT_STATE];
        for (int k = 0; k < RT_EXACT_STATE; k++)
            to[k] = rt_part_at(&j->state[k], j->b, h, row0 + i);
        if (!j->fresh) {
            rt_exact_join(1, Dv, in, to);
            continue;
        }
        for (int k = 0; k < RT_EXACT_STATE; k++)
            memcpy(to[k], in[k], (size_t)(k < 3 ? Dv : 1) * sizeof(double));
    }
}

rt_status rt_exact_forward_tile(rt_context *ctx, const rt_problem *p, int64_t b0, int64_t n_q,
                                const int64_t *q_pos, int64_t n_kv, const int64_t *k_pos, int64_t head0,
                                int64_t head1, const rt_part *q, const rt_part *k, const rt_part *v,
                                const rt_part state[RT_EXACT_STATE], bool fresh, rt_gemm_fn gemm,
                                int64_t counts[2], void (*poke)(void *), void *poke_arg)
{
    rt_blocks blocks;
    RT_TRY(rt_blocks_create(ctx, p, b0, q_pos, n_q, k_pos, n_kv, Q, K, &blocks));
    const int threads = omp_get_max_threads();
    rt_exact_keys keys = {.n = 0};
    scratch *work = rt_calloc(ctx, threads, sizeof *work);
    rt_status st = work == NULL ? RT_ERR_NOMEM : rt_exact_keys_reserve(ctx, &keys, p, n_kv, false);
    for (int i = 0; i < threads && st == RT_OK; i++)
        st = scratch_create(ctx, p, gemm, &work[i]);
    if (st != RT_OK)
        goto free_scratch;
    const int64_t group = p->heads_q / p->heads_kv;
    job j = {.p = p,
             .blocks = &blocks,
             .keys = &keys,
             .f = rt_exact_kernels_here(),
             .q = q,
             .v_raw = v,
             .state = state,
             .fresh = fresh,
             .q_pos = q_pos,
             .k_pos = k_pos,
             .b0 = b0};
    rt_exact_bend_init(p, &j.bend);
    j.alpha = rt_exact_scale(p, &j.alpha_error);
    j.far_scale = fabs(j.alpha.hi) > RT_EXACT_RANGE;
    int exponent;
    const double mantissa = fabs(frexp(j.alpha.hi, &exponent));
    j.simple_scale =
        j.alpha_error <= 0 && mantissa >= 0.5 && mantissa <= 0.5 && j.alpha.lo >= 0 && j.alpha.lo <= 0;
    for (j.b = 0; j.b < p->batch; j.b++)
        for (j.g = head0 / group; j.g <= (head1 - 1) / group; j.g++) {
            rt_exact_keys_cut(&keys, p, rt_part_at(k, j.b, j.g, 0), rt_part_at(v, j.b, j.g, 0), n_kv,
                              false);
            const int64_t h0 = rt_max64(head0, j.g * group),
                          heads = rt_min64(head1, (j.g + 1) * group) - h0, units = heads * blocks.n_qb;
            const bool team = units > 1 && rt_worth_a_team(p, n_q, n_kv, heads);
#pragma omp parallel for schedule(dynamic, 1) if (team) default(none)                                      \
    shared(j, blocks, work, units, heads, h0, poke, poke_arg)
            for (int64_t u = 0; u < units; u++) {
                rt_gemm_alone();
                block(&j, h0 + u % heads, blocks.n_qb - 1 - u / heads, &work[omp_get_thread_num()]);
                if (poke != NULL && omp_get_thread_num() == 0)
                    poke(poke_arg);
            }
        }
    for (int i = 0; i < threads; i++) {
        counts[0] += work[i].gemm.products;
        counts[1] += work[i].gemm.wrong;
    }
free_scratch:
    for (int i = 0; work != NULL && i < threads; i++)
        scratch_reset(&work[i]);
    rt_free(work);
    rt_exact_keys_reset(&keys);
    rt_blocks_reset(&blocks);
    return st;
}

/* m' = max; acc' = acc c + acc_in c_in, c = exp(m - m'); errors move along.  An empty side leaves the other untouched. */
void rt_exact_join(int64_t rows, int64_t width, const double *const in[RT_EXACT_STATE],
                   double *const present[RT_EXACT_STATE])
{
    for (int64_t i = 0; i < rows; i++) {
        const double m_in = in[3][i], m = present[3][i];
        if (rt_is_minus_inf(m_in))
            continue;
        if (rt_is_minus_inf(m)) {
            for (int k = 0; k < RT_EXACT_STATE; k++)
                memcpy(present[k] + (k < 3 ? i * width : i), in[k] + (k < 3 ? i * width : i),
                       (size_t)(k < 3 ? width : 1) * sizeof(double));
            continue;
        }
        double *hi = present[0] + i * width, *lo = present[1] + i * width, *error = present[2] + i * width;
        if (isnan(m) || isnan(m_in)) {
            present[3][i] = present[4][i] = present[5][i] = RT_NAN;
            for (int64_t d = 0; d < width; d++)
                hi[d] = lo[d] = RT_NAN;
            continue;
        }
        if (m_in > DBL_MAX || m > DBL_MAX) { /* out of range: a later step computes the row */
            present[3][i] = RT_INF;
            present[4][i] = 1;
            present[5][i] = present[6][i] = 0;
            for (int64_t d = 0; d < width; d++)
                hi[d] = lo[d] = error[d] = 0;
            continue;
        }
        const double top = m_in > m ? m_in : m;
        const rt_dd y = rt_two_sum(m, -top), y_in = rt_two_sum(m_in, -top);
        const rt_dd c = rt_dd_exp1(y), c_in = rt_dd_exp1(y_in);
        /* relative error of a factor: none where it is 1; where it vanished, the floor stands for what was lost */
        const double f = y.hi < 0 && y.hi > -600 ? RT_DD_EXP_ERROR + 0x1p-98 : 0,
                     f_in = y_in.hi < 0 && y_in.hi > -600 ? RT_DD_EXP_ERROR + 0x1p-98 : 0;
        for (int64_t d = 0; d < width; d++) {
            const rt_dd b = {in[0][i * width + d], in[1][i * width + d]};
            const rt_dd a = rt_dd_add(rt_dd_mul((rt_dd){hi[d], lo[d]}, c), rt_dd_mul(b, c_in));
            const double part = fabs(hi[d]) * c.hi, part_in = fabs(b.hi) * c_in.hi;
            const double sum = part > 0 && part_in > 0 ? 0x1p-100 * (part + part_in) : 0;
            error[d] = (error[d] * c.hi + in[2][i * width + d] * c_in.hi) * (1 + 0x1p-50) + part * f +
                       part_in * f_in + sum +
                       RT_EXACT_FLOOR * (fabs(hi[d]) + fabs(b.hi) + error[d] + in[2][i * width + d]);
            hi[d] = a.hi;
            lo[d] = a.lo;
        }
        const rt_dd before = {present[4][i], present[5][i]}, l_in = {in[4][i], in[5][i]};
        const rt_dd l = rt_dd_add(rt_dd_mul(before, c), rt_dd_mul(l_in, c_in));
        present[6][i] = (present[6][i] * c.hi + in[6][i] * c_in.hi) * (1 + 0x1p-50) + before.hi * c.hi * f +
                        l_in.hi * c_in.hi * f_in + (f + f_in > 0 ? 0x1p-100 * l.hi : 0) +
                        RT_EXACT_FLOOR * (before.hi + l_in.hi + 1);
        present[3][i] = top;
        present[4][i] = l.hi;
        present[5][i] = l.lo;
    }
}
