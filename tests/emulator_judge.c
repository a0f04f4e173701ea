/* The emulator's bench: verdicts, truths and bounds of its results. */
#include "emulator.h"

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
    const int64_t at = emu_row(e->c, t, b, pos, h) - e->c->t[t];
    memcpy(e->truth[t] + at, truth, (size_t)n * sizeof *truth);
    memcpy(e->bound[t] + at, bound, (size_t)n * sizeof *bound);
    memcpy(e->lambda[t] + at, lambda, (size_t)n * sizeof *lambda);
    e->rows++;
}

void emu_observe(emu_case *c, const rt_declared *d, emu_truth *out)
{
    emu_observe_with(c, d, RT_TRUTH_F64, out);
}

void emu_observe_with(emu_case *c, const rt_declared *d, rt_truth truth, emu_truth *out)
{
    rt_context ctx = {0};
    memset(out, 0, sizeof *out);
    out->c = c;
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++) {
        const int64_t n = c->t[t] == NULL ? 0 : emu_elements(&c->p, (rt_tensor_id)t);
        out->truth[t] = rt_calloc(&ctx, n, sizeof(double));
        out->bound[t] = rt_calloc(&ctx, n, sizeof(double));
        out->lambda[t] = rt_calloc(&ctx, n, sizeof(double));
        assert_true(out->truth[t] != NULL && out->bound[t] != NULL && out->lambda[t] != NULL);
    }
    (void)emu_judge_with(c, d, &(rt_judge_options){.truth = truth, .observe = observe, .observe_arg = out});
}

void emu_truth_reset(emu_truth *t)
{
    for (int i = RT_LSE; i < RT_RESULT_COUNT; i++) {
        rt_free(t->truth[i]);
        rt_free(t->bound[i]);
        rt_free(t->lambda[i]);
    }
}

void emu_fill(emu_case *c, const emu_truth *t)
{
    for (int i = RT_LSE; i < RT_RESULT_COUNT; i++)
        for (int64_t e = 0; c->t[i] != NULL && e < emu_elements(&c->p, (rt_tensor_id)i); e++)
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
    for (int t = 0; t < RT_RESULT_COUNT; t++) {
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
