/* A verdict as JSON, schema 1.  Numbers have 17 digits; NaN and infinities are strings. */
#include <jansson.h>
#include <string.h>

#include "show/report.h"

static json_t *number(double x)
{
    return isnan(x) ? json_string("nan") : isinf(x) ? json_string(x > 0 ? "inf" : "-inf") : json_real(x);
}

static json_t *element(const rt_report *r, rt_tensor_id t, const rt_element *e)
{
    char place[400];
    rt_element_place(&r->spec->problem, r->layout, r->plan, t, e, place, sizeof place);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:s}", "class",
                     rt_class_name(e->found), "batch", (json_int_t)e->b, "token", (json_int_t)e->pos,
                     "head", (json_int_t)e->head, "dim", (json_int_t)e->dim, "got", number(e->got), "truth",
                     number(e->truth), "bound", number(e->bound), "bound_lambda", number(e->bound_lambda),
                     "ratio", number(e->ratio), "place", place);
}

static json_t *tensor(const rt_report *r, const rt_verdict *v, rt_tensor_id id)
{
    const rt_tally *t = &v->tensor[id];
    if (!t->judged)
        return json_pack("{s:b, s:s}", "judged", 0, "why", rt_show_why_not(r, id));
    double z;
    const double bias = rt_tally_bias(t, &z);
    json_t *counts = json_object(), *ulps = json_array();
    for (int i = 0; i < RT_CLASS_COUNT; i++)
        json_object_set_new(counts, rt_class_name((rt_class)i), json_integer(t->count[i]));
    for (int i = 0; i < RT_ULP_BINS; i++)
        json_array_append_new(ulps, json_integer(t->ulp_bins[i]));
    json_t *o = json_pack("{s:b, s:b, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "judged", 1,
                          "pass", rt_tally_pass(t), "dtype", rt_dtype_name(t->dtype), "elements",
                          (json_int_t)t->elements, "count", counts, "max_ratio", number(t->max_ratio),
                          "max_ratio_lambda", number(t->max_ratio_lambda), "p9999_ratio_lambda",
                          number(rt_tally_ratio_quantile(t, 0.9999)), "ulp_bins", ulps, "bias_ulp",
                          number(bias), "bias_z", number(z), "lambda", number(v->lambda[id]));
    json_object_set_new(
        o, "bound_parts",
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "not_random", number(t->part[RT_PART_SYS]), "random",
                  number(t->part[RT_PART_RANDOM]), "last_rounding", number(t->part[RT_PART_ROUNDING]),
                  "truth", number(t->part[RT_PART_TRUTH]), "bound_lambda",
                  number(t->part[RT_PART_BOUND_LAMBDA]), "bound", number(t->part[RT_PART_BOUND])));
    json_object_set_new(o, "empty_rows",
                        json_pack("{s:I, s:I, s:I}", "minus_inf", (json_int_t)t->empty_minus_inf,
                                  "plus_inf", (json_int_t)t->empty_plus_inf, "zero",
                                  (json_int_t)t->empty_zero));
    json_object_set_new(o, "unknown", json_integer(t->unknown));
    const rt_certificate *c = &v->certificate[id];
    json_object_set_new(o, "truth", json_string(v->truth[id] == RT_TRUTH_EXACT ? "exact" : "f64"));
    json_object_set_new(
        o, "rows",
        json_pack("{s:I, s:I}", "judged", (json_int_t)v->judged[id], "total", (json_int_t)v->total[id]));
    json_object_set_new(o, "certificate",
                        json_pack("{s:I, s:I, s:I, s:I}", "error_bound", (json_int_t)c->fast, "rational",
                                  (json_int_t)c->exact_case, "mpfr", (json_int_t)c->mpfr, "undecided",
                                  (json_int_t)c->undecided));
    if (c->undecided > 0)
        json_object_set_new(o, "first_undecided",
                            json_pack("{s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "b", (json_int_t)c->first.b,
                                      "token", (json_int_t)c->first.pos, "head", (json_int_t)c->first.head,
                                      "dim", (json_int_t)c->first.dim, "low", number(c->first.low), "high",
                                      number(c->first.high), "widest", number(c->widest)));
    if (t->has_first)
        json_object_set_new(o, "first", element(r, id, &t->first));
    if (t->has_worst)
        json_object_set_new(o, "worst", element(r, id, &t->worst));
    return o;
}

rt_status rt_show_verdict_json(rt_context *ctx, FILE *f, const rt_report *r, const rt_verdict *v)
{
    char *spec_text = NULL;
    RT_TRY(rt_spec_write(ctx, r->spec, &spec_text));
    json_t *tensors = json_object();
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++)
        if (rt_show_has(r, (rt_tensor_id)t))
            json_object_set_new(tensors, rt_tensor_name((rt_tensor_id)t), tensor(r, v, (rt_tensor_id)t));
    json_t *all = json_pack("{s:i, s:s, s:s, s:s, s:b, s:o, s:b, s:i, s:i, s:f, s:f, s:f, s:o, s:s}",
                            "schema", 1, "ringtrue", RT_VERSION, "verb", "check", "dump", r->name, "pass",
                            v->pass, "spec", json_loads(spec_text, 0, NULL), "given_lse", v->given_lse,
                            "processes", r->processes, "threads", r->threads, "delta", v->delta, "seconds",
                            v->seconds, "peak_mib", r->peak_mib, "tensors", tensors, "replay", r->replay);
    rt_free(spec_text);
    if (all == NULL)
        return rt_fail(ctx, RT_ERR_NOMEM, "no memory for the JSON report");
    const int bad = json_dumpf(all, f, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17));
    json_decref(all);
    if (bad != 0 || fputc('\n', f) == EOF)
        return rt_fail(ctx, RT_ERR_IO, "the JSON report could not be written");
    return RT_OK;
}
