/* A verdict as text. */
#include "show/report.h"

#include <string.h>

void rt_show_problem(FILE *f, const rt_problem *p)
{
    static const char *const kinds[] = {"1/sqrt(D)", "f32", "f64"};
    char mask[RT_MASK_TEXT];
    fprintf(f, "# problem   B %lld  Sq %lld  Sk %lld  heads %lld/%lld  D %lld  Dv %lld  mask %s",
            (long long)p->batch, (long long)p->seqlen_q, (long long)p->seqlen_k, (long long)p->heads_q,
            (long long)p->heads_kv, (long long)p->dim, (long long)p->dim_v, rt_mask_text(mask, p));
    if (p->documents > 0)
        fprintf(f, " in %lld documents", (long long)p->documents);
    fprintf(f, "  scale %s %.9g\n", kinds[p->scale_kind], p->scale);
    char scores[RT_SCORE_TEXT];
    if (rt_problem_has_scores(p))
        fprintf(f, "# scores    %s\n", rt_score_text(scores, p));
}

void rt_show_certificates(FILE *f, const rt_certificate certificate[RT_RESULT_COUNT],
                          const int64_t products[2])
{
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++) {
        const rt_certificate *c = &certificate[t];
        if (c->fast + c->exact_case + c->mpfr + c->undecided == 0)
            continue;
        fprintf(f,
                "# certificate %-4s decided %lld: %lld by error bound (largest %.3g of the row's largest), "
                "%lld rational, %lld by MPFR (to %lld bits);  undecided %lld\n",
                rt_tensor_name((rt_tensor_id)t), (long long)(c->fast + c->exact_case + c->mpfr),
                (long long)c->fast, c->radius, (long long)c->exact_case, (long long)c->mpfr,
                (long long)c->precision, (long long)c->undecided);
        if (c->undecided > 0)
            fprintf(f,
                    "#   undecided: the first is b %lld, token %lld, head %lld, %s %lld, between %.17g and "
                    "%.17g;  half "
                    "the widest interval %.3g\n",
                    (long long)c->first.b, (long long)c->first.pos, (long long)c->first.head,
                    t == RT_DBIAS ? "key" : "dim", (long long)c->first.dim, c->first.low, c->first.high,
                    c->widest);
    }
    fprintf(f, "# products   %lld from %s, each checked by row and column sums: %lld wrong%s\n",
            (long long)products[0], rt_blas_description(), (long long)products[1],
            products[1] > 0 ? " and computed again without it. Hint: this BLAS is wrong on this processor; "
                              "set OPENBLAS_CORETYPE=Haswell"
                            : "");
}

void rt_show_declared(FILE *f, const rt_declared *d, bool softcap)
{
    const uint32_t assumed = softcap ? d->assumed : d->assumed & ~(uint32_t)RT_DECL_TANH;
    static const char *const names[] = {"accumulate", "exp",  "block_keys",   "probabilities", "partial",
                                        "state",      "join", "grad_partial", "grad_state",    "tanh"};
    fprintf(f,
            "# declared  accumulate %s  exp %.3g  block_keys %lld  probabilities %s  partial %s  state %s  "
            "join %s  grad_partial %s  grad_state %s",
            d->accumulate_name, d->exp_rel, (long long)d->block_keys, rt_dtype_name(d->probabilities),
            rt_dtype_name(d->partial), rt_dtype_name(d->state), rt_join_name(d->join),
            rt_dtype_name(d->grad_partial), rt_dtype_name(d->grad_state));
    if (softcap)
        fprintf(f, "  tanh %.3g", d->tanh_rel);
    fprintf(f, "\n");
    if (assumed == 0)
        return;
    fprintf(f, "# not declared, assumed at the least accurate in use:");
    for (int i = 0; i < 10; i++)
        if ((assumed & (1u << i)) != 0)
            fprintf(f, " %s", names[i]);
    fprintf(f, "\n");
}

static void show_element(FILE *f, const rt_report *r, rt_tensor_id t, const char *what, const rt_element *e)
{
    char place[400];
    rt_element_place(&r->spec->problem, r->layout, r->plan, t, e, place, sizeof place);
    fprintf(f, "#   %s %s %s[", what, rt_class_name(e->found), rt_tensor_name(t));
    if (t == RT_DSINK)
        fprintf(f, "head %lld", (long long)e->head);
    else
        fprintf(f, "b %lld, token %lld, head %lld", (long long)e->b, (long long)e->pos, (long long)e->head);
    if (t != RT_LSE && t != RT_DSINK)
        fprintf(f, ", %s %lld", t == RT_DBIAS ? "key" : "dim", (long long)e->dim);
    fprintf(f, "]: got %.9g, truth %.9g", e->got, e->truth);
    if (e->found != RT_CLASS_SPECIAL)
        fprintf(f, ", err %.3g = %.3g B (B %.3g, B_lambda %.3g)", fabs(e->got - e->truth), e->ratio,
                e->bound, e->bound_lambda);
    fprintf(f, "\n#     %s\n", place);
}

static void show_tensor(FILE *f, const rt_verdict *v, rt_tensor_id id)
{
    const rt_tally *t = &v->tensor[id];
    double z;
    const double bias = rt_tally_bias(t, &z);
    fprintf(f,
            "  %-6s %-5s %10lld %10lld %10lld %10lld %8lld %8lld %8lld %8lld %9.3g %12.3g %12.3g %+9.2e "
            "%7.1f  %s\n",
            rt_tensor_name(id), rt_dtype_name(t->dtype), (long long)t->elements,
            (long long)t->count[RT_CLASS_ROUNDED], (long long)t->count[RT_CLASS_FAITHFUL],
            (long long)t->count[RT_CLASS_EXPLAINED], (long long)t->count[RT_CLASS_SUSPECT],
            (long long)t->count[RT_CLASS_WRONG], (long long)t->count[RT_CLASS_SPECIAL],
            (long long)t->count[RT_CLASS_UNDEFINED], t->max_ratio, t->max_ratio_lambda,
            rt_tally_ratio_quantile(t, 0.9999), bias, z, rt_tally_pass(t) ? "PASS" : "FAIL");
}

/* The same widths as the rows of show_tensor. */
static void show_header(FILE *f)
{
    static const char *const rows[2][16] = {
        {"tensor", "dtype", "elements", "rounded", "faithful", "explained", "suspect", "wrong", "special",
         "undef", "err/B", "err/B_lambda", "err/B_lambda", "bias", "bias", "verdict"},
        {"", "", "(count)", "(count)", "(count)", "(count)", "(count)", "(count)", "(count)", "(count)",
         "(max)", "(max)", "(p99.99)", "(ulp)", "(z)", ""}};
    for (int i = 0; i < 2; i++) {
        const char *const *n = rows[i];
        fprintf(f, "# %-6s %-5s %10s %10s %10s %10s %8s %8s %8s %8s %9s %12s %12s %9s %7s%s%s\n", n[0],
                n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11], n[12], n[13], n[14],
                *n[15] != '\0' ? "  " : "", n[15]);
    }
}

static void show_details(FILE *f, const rt_report *r, const rt_verdict *v, rt_tensor_id id)
{
    const rt_tally *t = &v->tensor[id];
    fprintf(
        f, "# %-4s ulps 0: %lld, to 1: %lld, to 2: %lld, to 4: %lld, to 16: %lld, to 256: %lld, more: %lld",
        rt_tensor_name(id), (long long)t->ulp_bins[0], (long long)t->ulp_bins[1], (long long)t->ulp_bins[2],
        (long long)t->ulp_bins[3], (long long)t->ulp_bins[4], (long long)t->ulp_bins[5],
        (long long)t->ulp_bins[6]);
    if (t->ulp_bins[7] > 0)
        fprintf(f, ", not finite: %lld", (long long)t->ulp_bins[7]);
    fprintf(f, "\n");
    if (t->part[RT_PART_BOUND_LAMBDA] > 0)
        fprintf(f,
                "#   where err/B_lambda is largest: B_lambda %.3g; not random %.3g, random %.3g (%.2f "
                "sigma), last rounding %.3g, truth %.3g, and no more than B %.3g\n",
                t->part[RT_PART_BOUND_LAMBDA], t->part[RT_PART_SYS], t->part[RT_PART_RANDOM], v->lambda[id],
                t->part[RT_PART_ROUNDING], t->part[RT_PART_TRUTH], t->part[RT_PART_BOUND]);
    if (t->empty_minus_inf + t->empty_plus_inf + t->empty_zero > 0)
        fprintf(f,
                "#   empty rows: lse is -inf in %lld, +inf (FlashAttention-2's convention) in %lld, 0 in "
                "%lld\n",
                (long long)t->empty_minus_inf, (long long)t->empty_plus_inf, (long long)t->empty_zero);
    if (t->unknown > 0)
        fprintf(f,
                "#   undecided: %lld elements depend on rows with scores beyond 2^40, which neither truth "
                "resolves; they "
                "count as undef\n",
                (long long)t->unknown);
    if (t->has_first && t->first.found != RT_CLASS_ROUNDED)
        show_element(f, r, id, "first", &t->first);
    if (t->has_worst)
        show_element(f, r, id, "worst", &t->worst);
}

bool rt_show_has(const rt_report *r, rt_tensor_id t)
{
    const rt_problem *p = &r->spec->problem;
    return t == RT_DSINK ? p->sink != NULL : t == RT_DBIAS ? p->bias != NULL && !p->no_dbias : true;
}

const char *rt_show_why_not(const rt_report *r, rt_tensor_id t)
{
    if (!r->present[t])
        return "not in the dump";
    if (r->present[RT_DOUT] && t == RT_DBIAS)
        return "its bias is broadcast, so that each of its elements is a sum over rows that are not "
               "sampled. "
               "Hint: --full";
    return r->present[RT_DOUT]
               ? "sampled without lse and out in the dump, which its sample needs. Hint: --full"
               : "dout is not in the dump";
}

/* Which truth each tensor was held against, and how much of it was judged. */
static void show_truth(FILE *f, const rt_verdict *v)
{
    static const char *const kinds[] = {"# truth     exact, correctly rounded:",
                                        "# truth     double-double, its radius of 2^-52 in both bounds:",
                                        "# truth     f64, its radius of B * 2^-53 / u in both bounds:"};
    for (int kind = 0; kind < 3; kind++) {
        int n = 0;
        for (int t = RT_LSE; t < RT_RESULT_COUNT; t++) {
            const int is = v->truth[t] == RT_TRUTH_F64 ? 2 : v->tensor[t].dtype == RT_F64 ? 1 : 0;
            if (v->tensor[t].judged && is == kind)
                fprintf(f, "%s %s", n++ == 0 ? kinds[kind] : "", rt_tensor_name((rt_tensor_id)t));
        }
        if (n > 0)
            fprintf(f, "\n");
    }
    int n = 0;
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++)
        if (v->tensor[t].judged && v->judged[t] < v->total[t])
            fprintf(f, "%s %s %lld of %lld", n++ == 0 ? "# sampled   (token, head) rows:" : ",",
                    rt_tensor_name((rt_tensor_id)t), (long long)v->judged[t], (long long)v->total[t]);
    if (n > 0) {
        if (v->estimate > 0)
            fprintf(f, ";  all would take about %.0f s. Hint: --budget TIME, or --full\n", v->estimate);
        else
            fprintf(f, ";  --full judges all\n");
    }
    if (v->given_lse)
        fprintf(f,
                "# dk and dv%s are judged given the dump's LSE and out, whose bounds are carried along\n",
                v->tensor[RT_DSINK].judged ? " and dsink" : "");
}

void rt_show_verdict(FILE *f, const rt_report *r, const rt_verdict *v)
{
    fprintf(f, "# ringtrue %s  check %s\n", RT_VERSION, r->name);
    rt_show_problem(f, &r->spec->problem);
    fprintf(f, "# layout    %s, P %d, remainder %s;  algorithm %s\n", r->layout->name, r->layout->ranks,
            rt_remainder_name(r->layout->remainder), r->plan->name);
    if (r->layout->note[0] != '\0')
        fprintf(f, "# note      %s\n", r->layout->note);
    rt_show_declared(f, r->declared, r->spec->problem.softcap > 0);
    fprintf(f, "# run       %s; %d process%s, %d thread%s;  delta %.3g\n", rt_blas_description(),
            r->processes, r->processes == 1 ? "" : "es", r->threads, r->threads == 1 ? "" : "s", v->delta);
    show_truth(f, v);
    show_header(f);
    int judged = 0, passed = 0;
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++)
        if (v->tensor[t].judged) {
            show_tensor(f, v, (rt_tensor_id)t);
            judged++;
            passed += rt_tally_pass(&v->tensor[t]);
        }
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++)
        if (v->tensor[t].judged)
            show_details(f, r, v, (rt_tensor_id)t);
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++)
        if (!v->tensor[t].judged && rt_show_has(r, (rt_tensor_id)t))
            fprintf(f, "# %s not judged: %s\n", rt_tensor_name((rt_tensor_id)t),
                    rt_show_why_not(r, (rt_tensor_id)t));
    if (v->products[0] > 0) {
        rt_certificate shown[RT_RESULT_COUNT] = {{0}};
        for (int t = RT_LSE; t < RT_RESULT_COUNT; t++) /* binary64 is not decided, it has a radius */
            if (v->tensor[t].judged && v->tensor[t].dtype != RT_F64)
                shown[t] = v->certificate[t];
        rt_show_certificates(f, shown, v->products);
    }
    if (!v->pass)
        fprintf(f, "# replay: %s\n", r->replay);
    fprintf(f, "# %d tensor%s judged: %d pass, %d fail;  %.2f s, peak memory %.0f MiB;  %s\n", judged,
            judged == 1 ? "" : "s", passed, judged - passed, v->seconds, r->peak_mib,
            v->pass ? "PASS" : "FAIL");
}
