/* The keys of a spec that speak of scores: alibi, bias, softcap, sink, dropout.  Numbers are taken as the binary64
 * values that their text names; what a tensor holds is read when the dump is opened. */
#include "io/file.h"
#include "io/spec.h"

#include <math.h>
#include <string.h>

/* Hq numbers. */
static rt_status read_list(const rt_spec_reader *r, const char *key, const json_t *v, const char *allowed,
                           int64_t n, double **out)
{
    if (!json_is_array(v) || (int64_t)json_array_size(v) != n)
        return rt_spec_refuse(r, key, v, allowed);
    double *list = rt_alloc(r->ctx, n, sizeof *list);
    if (!list)
        return RT_ERR_NOMEM;
    bool good = true;
    for (int64_t i = 0; i < n; i++) {
        const json_t *x = json_array_get(v, (size_t)i);
        good = good && json_is_number(x);
        list[i] = json_number_value(x);
    }
    if (!good) {
        rt_free(list);
        return rt_spec_refuse(r, key, v, allowed);
    }
    *out = list;
    return RT_OK;
}

static rt_status read_alibi(const rt_spec_reader *r, rt_problem *p)
{
    const json_t *v = json_object_get(r->object, "alibi");
    if (!v)
        return RT_OK;
    if (!json_is_string(v) || strcmp(json_string_value(v), "standard") != 0)
        return read_list(r, "alibi", v, "\"standard\", or one slope for each of the heads", p->heads_q,
                         &p->alibi);
    p->alibi = rt_alloc(r->ctx, p->heads_q, sizeof *p->alibi);
    if (!p->alibi)
        return RT_ERR_NOMEM;
    for (int64_t h = 0; h < p->heads_q; h++)
        p->alibi[h] = rt_alibi_standard(h, p->heads_q);
    return RT_OK;
}

static rt_status read_name(const rt_spec_reader *r, const char *key, const json_t *v, char **out)
{
    char *copy = rt_text_copy(r->ctx, json_string_value(v));
    if (!copy)
        return RT_ERR_NOMEM;
    rt_free(*out);
    *out = copy;
    return *copy != '\0' ? RT_OK : rt_spec_refuse(r, key, v, "the name of a tensor, or of a file NAME.npy");
}

static rt_status read_sink(const rt_spec_reader *r, rt_spec *s)
{
    const json_t *v = json_object_get(r->object, "sink");
    if (!v)
        return RT_OK;
    if (json_is_string(v))
        return read_name(r, "sink", v, &s->names[RT_SINK]);
    return read_list(r, "sink", v,
                     "the name of a tensor or of a file NAME.npy, or one logit for each of the heads",
                     s->problem.heads_q, &s->problem.sink);
}

static rt_status read_bias(const rt_spec_reader *r, rt_spec *s)
{
    static const char *const known[] = {"shape", "tensor", "gradient", NULL};
    const json_t *v = json_object_get(r->object, "bias");
    if (!v)
        return RT_OK;
    if (!json_is_object(v))
        return rt_spec_refuse(r, "bias", v, "an object like {\"shape\": \"1hss\", \"tensor\": \"bias\"}");
    rt_spec_reader b = {r->ctx, r->where, "bias.", json_object_get(r->object, "bias")};
    RT_TRY(rt_spec_check_keys(&b, known));
    const json_t *shape = json_object_get(v, "shape"), *tensor = json_object_get(v, "tensor"),
                 *gradient = json_object_get(v, "gradient");
    if (!shape)
        return rt_fail(r->ctx, RT_ERR_FORMAT, "%s: key \"bias.shape\" is missing", r->where);
    if (!json_is_string(shape) ||
        !rt_bias_shape_parse(json_string_value(shape), &s->problem, s->problem.bias_shape))
        return rt_spec_refuse(&b, "shape", shape,
                              "bhss, or with 1 for b, h or the first s: 1hss 11ss b1ss 111s ..");
    if (gradient && !json_is_boolean(gradient))
        return rt_spec_refuse(&b, "gradient", gradient, "true (default) or false");
    s->problem.no_dbias = json_is_false(gradient);
    if (tensor && !json_is_string(tensor))
        return rt_spec_refuse(&b, "tensor", tensor, "the name of a tensor, or of a file NAME.npy");
    if (tensor)
        return read_name(&b, "tensor", tensor, &s->names[RT_BIAS]);
    s->names[RT_BIAS] = rt_text_copy(r->ctx, "bias");
    return s->names[RT_BIAS] ? RT_OK : RT_ERR_NOMEM;
}

static rt_status read_dropout(const rt_spec_reader *r, rt_problem *p)
{
    static const char *const known[] = {"p", "seed", NULL};
    const json_t *v = json_object_get(r->object, "dropout");
    if (!v)
        return RT_OK;
    if (!json_is_object(v))
        return rt_spec_refuse(r, "dropout", v, "an object like {\"p\": 0.1, \"seed\": 7}");
    rt_spec_reader d = {r->ctx, r->where, "dropout.", json_object_get(r->object, "dropout")};
    RT_TRY(rt_spec_check_keys(&d, known));
    const json_t *x = json_object_get(v, "p"), *seed = json_object_get(v, "seed");
    if (!x || !seed)
        return rt_fail(r->ctx, RT_ERR_FORMAT, "%s: key \"dropout.%s\" is missing", r->where,
                       x ? "seed" : "p");
    if (!json_is_number(x) || !(json_number_value(x) >= 0 && json_number_value(x) < 1))
        return rt_spec_refuse(&d, "p", x, "a probability, from 0 to below 1");
    if (!json_is_integer(seed) || json_integer_value(seed) < 0)
        return rt_spec_refuse(&d, "seed", seed, "an integer from 0 to 2^63 - 1");
    p->dropout = json_number_value(x);
    p->dropout_seed = (uint64_t)json_integer_value(seed);
    return RT_OK;
}

rt_status rt_spec_read_scores(const rt_spec_reader *r, rt_spec *s)
{
    const json_t *cap = json_object_get(r->object, "softcap");
    if (cap && (!json_is_number(cap) || !(json_number_value(cap) > 0 && isfinite(json_number_value(cap)))))
        return rt_spec_refuse(r, "softcap", cap, "a positive number");
    s->problem.softcap = cap ? json_number_value(cap) : 0;
    RT_TRY(read_alibi(r, &s->problem));
    RT_TRY(read_bias(r, s));
    RT_TRY(read_sink(r, s));
    RT_TRY(read_dropout(r, &s->problem));
    rt_context inner = {0};
    const rt_status st = rt_problem_check(&inner, &s->problem);
    return st == RT_OK
               ? st
               : rt_fail(r->ctx, st == RT_ERR_ARG ? RT_ERR_FORMAT : st, "%s: %s", r->where, inner.message);
}

/* ---- writing ----------------------------------------------------------------------------------------- */

static json_t *list_make(const double *x, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, json_real(x[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static bool is_standard(const rt_problem *p)
{
    bool same = true;
    for (int64_t h = 0; h < p->heads_q; h++) {
        const double want = rt_alibi_standard(h, p->heads_q);
        same = same && p->alibi[h] >= want && p->alibi[h] <= want;
    }
    return same;
}

int rt_spec_write_scores(json_t *o, const rt_spec *s)
{
    const rt_problem *p = &s->problem;
    int bad = 0;
    if (p->alibi)
        bad |= json_object_set_new(
            o, "alibi", is_standard(p) ? json_string("standard") : list_make(p->alibi, p->heads_q));
    if (s->names[RT_BIAS]) {
        char shape[5];
        rt_bias_shape_name(p, shape);
        json_t *b = json_pack("{s:s, s:s}", "shape", shape, "tensor", s->names[RT_BIAS]);
        if (b && p->no_dbias)
            bad |= json_object_set_new(b, "gradient", json_false());
        bad |= json_object_set_new(o, "bias", b);
    }
    if (p->softcap > 0)
        bad |= json_object_set_new(o, "softcap", json_real(p->softcap));
    if (s->names[RT_SINK])
        bad |= json_object_set_new(o, "sink", json_string(s->names[RT_SINK]));
    else if (p->sink)
        bad |= json_object_set_new(o, "sink", list_make(p->sink, p->heads_q));
    if (p->dropout > 0)
        bad |= json_object_set_new(
            o, "dropout", json_pack("{s:f, s:I}", "p", p->dropout, "seed", (json_int_t)p->dropout_seed));
    return bad != 0;
}
