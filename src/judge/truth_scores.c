/* Exact truths of dSink and dBias: the sums of the shares, and of dS, of a (batch, key head) in double-double, with the bounds of their
 * errors; and an element of either, rounded.
 *
 * dBias takes a pass of its own over the pairs, whose tiles add straight to the bias's elements.  A thread owns rows of these (queries of
 * the bias) or, where queries are broadcast, columns, and adds their terms in one order: the bits do not depend on the threads. */
#include <omp.h>
#include <string.h>

#include "arithmetic/ops.h"
#include "judge/sweep_gradients.h"
#include "judge/truth.h"

enum { CHUNK = 256 }; /* keys, and rows, of a tile */

void rt_truth_sink(const rt_sweep *s, const rt_truths *t, rt_sink_sums *sums)
{
    const rt_problem *p = s->p;
    const int64_t group = p->heads_q / p->heads_kv;
    for (int64_t hl = 0; hl < group; hl++) {
        const int64_t h = s->g * group + hl;
        rt_part row[RT_EXACT_DO];
        rt_truths_rows(s, t, hl, row);
        double *sum = sums[h].exact;
        memset(sum, 0, sizeof sums[h].exact);
        for (int64_t i = 0; i < s->queries.n; i++) {
            const double *at[RT_MAX_PARTS] = {NULL};
            double share[3];
            for (int k = 0; k < RT_EXACT_DO; k++)
                at[k] = rt_part_at(&row[k], 0, h, i);
            rt_arithmetic_exact.share_sink(p, h, at, share);
            rt_arithmetic_exact.sum(RT_DSINK, p, (const double *[RT_MAX_PARTS]){share},
                                    (double *[RT_MAX_PARTS]){sum});
        }
    }
}

typedef struct {
    rt_sweep *s;
    const rt_truths *t;
    const rt_bias_sums *x;
    rt_problem one;    /* a batch of one: parts are addressed by b = 0 */
    int64_t rows, cut; /* of a chunk; all rows or keys are cut in chunks of: */
} job;

/* Rows row0 .. of all heads of the group against keys [lo, hi), tile by tile. */
static rt_status tiles(const job *j, rt_context *ctx, int64_t row0, int64_t n, int64_t lo, int64_t hi,
                       int64_t products[2])
{
    const rt_sweep *s = j->s;
    const rt_bias_sums *x = j->x;
    const int64_t group = j->one.heads_q / j->one.heads_kv, D = j->one.dim, Dv = j->one.dim_v,
                  Sk = j->one.seqlen_k, *pos = s->queries.order + row0;
    rt_status st = RT_OK;
    for (int64_t hl = 0; hl < group && st == RT_OK; hl++) {
        const int64_t h = s->g * group + hl;
        rt_part all[RT_EXACT_DO], row[RT_EXACT_DO], to[RT_EXACT_DQ];
        rt_truths_rows(s, j->t, hl, all);
        for (int k = 0; k < RT_EXACT_DO; k++) {
            row[k] = all[k];
            row[k].base += row0 * all[k].width;
        }
        for (int k = 0; k < RT_EXACT_DQ; k++) /* a row of the bias for each row, or one for all of them */
            to[k] = (rt_part){.base = x->pair + (x->plain + k) * x->size +
                                      ((x->heads > 1 ? hl : 0) * x->rows + (x->by_query ? row0 : 0)) * Sk,
                              .width = x->by_query ? Sk : 0,
                              .head0 = h};
        const rt_part q = {.base = j->t->q + (hl * s->queries.n + row0) * D, .width = D, .head0 = h};
        for (int64_t key0 = lo; key0 < hi && st == RT_OK; key0 += CHUNK) {
            const rt_part k = {.base = s->k + key0 * D, .width = D, .head0 = s->g},
                          v = {.base = s->v + key0 * Dv, .width = Dv, .head0 = s->g};
            const rt_exact_grads y = {.q = &q, .k = &k, .v = &v, .row = row, .dbias = to};
            st = rt_exact_backward_tile(ctx, &j->one, s->b, n, pos, rt_min64(CHUNK, hi - key0),
                                        s->keys_all + key0, h, h + 1, &y, rt_gemm_openblas, products, NULL,
                                        NULL);
        }
    }
    return st;
}

/* A unit of work: rows of the bias against the keys that they see, or columns against all queries. */
static rt_status unit(const job *j, rt_context *ctx, int64_t u, int64_t products[2])
{
    const rt_sweep *s = j->s;
    const int64_t Sk = j->one.seqlen_k, n = s->queries.n;
    if (j->x->by_query) {
        const int64_t row0 = u * j->rows, m = rt_min64(j->rows, n - row0);
        int64_t lo = Sk, hi = 0;
        for (int64_t i = row0; i < row0 + m; i++) {
            const int64_t pos = s->queries.order[i];
            lo = s->lo[pos] < s->hi[pos] ? rt_min64(lo, s->lo[pos]) : lo;
            hi = rt_max64(hi, s->hi[pos]);
        }
        return tiles(j, ctx, row0, m, lo / CHUNK * CHUNK, hi, products);
    }
    rt_status st = RT_OK;
    for (int64_t row0 = 0; row0 < n && st == RT_OK; row0 += j->rows)
        st = tiles(j, ctx, row0, rt_min64(j->rows, n - row0), u * CHUNK, rt_min64((u + 1) * CHUNK, Sk),
                   products);
    return st;
}

rt_status rt_truth_bias(rt_context *ctx, rt_sweep *s, rt_truths *t, rt_bias_sums *x)
{
    job j = {.s = s, .t = t, .x = x, .one = *s->p};
    j.one.batch = 1;
    /* of the problem alone: the radius of a row depends on its tile */
    j.rows = x->by_query ? rt_max64(16, rt_min64(CHUNK, (s->queries.n + 7) / 8)) : CHUNK;
    const int64_t units =
        x->by_query ? (s->queries.n + j.rows - 1) / j.rows : (s->p->seqlen_k + CHUNK - 1) / CHUNK;
    rt_status first = RT_OK;
    int64_t wrong = 0, taken = 0;
#pragma omp parallel for schedule(dynamic, 1) default(none) shared(j, units, ctx, first)                   \
    reduction(+ : taken, wrong)
    for (int64_t u = 0; u < units; u++) {
        rt_gemm_alone();
        rt_context mine = {.message = ""};
        int64_t products[2] = {0, 0};
        const rt_status st = unit(&j, &mine, u, products);
        taken += products[0];
        wrong += products[1];
#pragma omp critical(rt_judge_truth_bias)
        if (st != RT_OK && first == RT_OK) {
            first = st;
            memcpy(ctx->message, mine.message, sizeof ctx->message);
        }
    }
    t->products[0] += taken;
    t->products[1] += wrong;
    return first;
}

bool rt_truth_element(rt_exact_factor f, rt_dtype format, const double sum[3], double top,
                      const rt_undecided *where, double *truth, rt_bounds *bounds,
                      rt_certificate *certificate)
{
    double radius, rounded;
    const rt_dd x = rt_exact_gradient_value(f, (rt_dd){sum[0], sum[1]}, sum[2], &radius);
    if (isnan(x.hi)) /* no exact value: binary64 stays */
        return false;
    double exact = x.hi;
    if (rt_exact_decide(format, x.hi, x.lo, radius, &rounded)) {
        rt_exact_count_fast(certificate, radius, top);
        exact = rt_truth_settle(format, x.hi, rounded);
        radius = 0;
    } else {
        const rt_interval between = rt_exact_interval(x.hi, radius);
        rt_certificate_undecided(certificate, &(rt_undecided){where->b, where->pos, where->head, where->dim,
                                                              between.low, between.high});
    }
    return rt_sweep_take_exact(&exact, radius, 1, truth, bounds);
}
