/* Making, copying and writing specs.  What is written parses back to the same spec: numbers have 17
 * digits, and an arithmetic's assumed fields stay unsaid. */
#include "io/file.h"
#include "io/json.h"
#include "io/spec.h"
#include "io/spec_mask.h"

#include <string.h>

const char *rt_order_name(rt_order o)
{
    static const char *const names[] = {"bshd", "sbhd", "bhsd"};
    return (unsigned)o < 3 ? names[o] : "?";
}

const char *rt_lse_shape_name(rt_lse_shape s)
{
    static const char *const names[] = {"bhs", "bsh", "sbh"};
    return (unsigned)s < 3 ? names[s] : "?";
}

const rt_spec_dtype_key rt_spec_dtype_keys[RT_SPEC_DTYPE_KEYS] = {{"probabilities", RT_DECL_PROBABILITIES},
                                                                  {"partial", RT_DECL_PARTIAL},
                                                                  {"state", RT_DECL_STATE},
                                                                  {"grad_partial", RT_DECL_GRAD_PARTIAL},
                                                                  {"grad_state", RT_DECL_GRAD_STATE}};

rt_dtype *rt_spec_declared_dtype(rt_declared *d, size_t i)
{
    rt_dtype *const fields[RT_SPEC_DTYPE_KEYS] = {&d->probabilities, &d->partial, &d->state,
                                                  &d->grad_partial, &d->grad_state};
    return fields[i];
}

/* ---- making ---- */

rt_status rt_spec_defaults(rt_context *ctx, rt_dtype input, rt_spec *out)
{
    rt_spec s = {0};
    s.ranks = 1;
    memcpy(s.algorithm, "single", sizeof "single");
    memcpy(s.layout, "contiguous", sizeof "contiguous");
    rt_declared_init(&s.declared, input);
    for (int i = 0; i < RT_RESULT_COUNT; i++) {
        s.names[i] = rt_text_copy(ctx, rt_tensor_name((rt_tensor_id)i));
        if (!s.names[i]) {
            rt_spec_reset(&s);
            return RT_ERR_NOMEM;
        }
    }
    *out = s;
    return RT_OK;
}

rt_status rt_spec_init(rt_context *ctx, const rt_problem *p, rt_dtype input, rt_spec *out)
{
    rt_spec s = {0};
    RT_TRY(rt_spec_defaults(ctx, input, &s));
    rt_status st = rt_problem_copy(ctx, p, &s.problem);
    for (int i = RT_SINK; i < RT_NAME_COUNT && st == RT_OK; i++)
        if (i == RT_SINK ? p->sink != NULL : p->bias != NULL) {
            s.names[i] = rt_text_copy(ctx, rt_tensor_name((rt_tensor_id)i));
            st = s.names[i] ? RT_OK : RT_ERR_NOMEM;
        }
    if (st == RT_OK)
        *out = s;
    else
        rt_spec_reset(&s);
    return st;
}

int64_t *rt_spec_list_copy(rt_context *ctx, const int64_t *from, int64_t n)
{
    int64_t *copy = rt_alloc(ctx, n, sizeof *copy);
    if (copy)
        memcpy(copy, from, (size_t)n * sizeof *copy);
    return copy;
}

rt_status rt_spec_copy(rt_context *ctx, const rt_spec *from, rt_spec *to)
{
    rt_spec s = *from;
    memset(&s.problem, 0, sizeof s.problem);
    memset(s.names, 0, sizeof s.names);
    s.positions = NULL;
    s.positions_k = NULL;
    s.padded_q = NULL;
    s.padded_k = NULL;
    s.dense_mask = NULL;
    rt_status st = rt_problem_copy(ctx, &from->problem, &s.problem);
    if (st != RT_OK)
        goto reset;
    st = RT_ERR_NOMEM;
    for (int i = 0; i < RT_NAME_COUNT; i++) {
        if (from->names[i] && !(s.names[i] = rt_text_copy(ctx, from->names[i])))
            goto reset;
    }
    if (from->positions && !(s.positions = rt_text_copy(ctx, from->positions)))
        goto reset;
    if (from->positions_k && !(s.positions_k = rt_text_copy(ctx, from->positions_k)))
        goto reset;
    if (from->dense_mask && !(s.dense_mask = rt_text_copy(ctx, from->dense_mask)))
        goto reset;
    if (from->padded_q &&
        !(s.padded_q = rt_spec_list_copy(ctx, from->padded_q, from->problem.documents + 1)))
        goto reset;
    if (from->padded_k &&
        !(s.padded_k = rt_spec_list_copy(ctx, from->padded_k, from->problem.documents + 1)))
        goto reset;
    *to = s;
    return RT_OK;
reset:
    rt_spec_reset(&s);
    return st;
}

void rt_spec_reset(rt_spec *s)
{
    if (!s)
        return;
    rt_problem_reset(&s->problem);
    for (int i = 0; i < RT_NAME_COUNT; i++)
        rt_free(s->names[i]);
    rt_free(s->positions);
    rt_free(s->positions_k);
    rt_free(s->padded_q);
    rt_free(s->padded_k);
    rt_free(s->dense_mask);
    memset(s, 0, sizeof *s);
}

/* ---- writing ---- */

/* Sets take NULL values (memory out, or text that is not UTF-8) and report them by a count. */
static int set(json_t *o, const char *key, json_t *v)
{
    return json_object_set_new(o, key, v) != 0;
}

static json_t *list_make(const int64_t *x, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; list && i < n; i++) {
        if (json_array_append_new(list, json_integer(x[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int write_problem(json_t *o, const rt_problem *p)
{
    int bad = set(o, "batch", json_integer(p->batch));
    bad |= set(o, "seqlen", json_integer(p->seqlen_q));
    bad |= set(o, "seqlen_k", json_integer(p->seqlen_k));
    bad |= set(o, "heads", json_integer(p->heads_q));
    bad |= set(o, "kv_heads", json_integer(p->heads_kv));
    bad |= set(o, "dim", json_integer(p->dim));
    bad |= set(o, "dim_v", json_integer(p->dim_v));
    if (p->scale_kind == RT_SCALE_RSQRT_DIM)
        bad |= set(o, "scale", json_string("rsqrt_dim"));
    else
        bad |= set(o, "scale", json_pack("{s:f}", p->scale_kind == RT_SCALE_F32 ? "f32" : "f64", p->scale));
    bad |= set(o, "mask", json_string(rt_mask_name(p->mask)));
    if (p->documents > 0) {
        bad |= set(o, "cu_seqlens", list_make(p->cu_q, p->documents + 1));
        bad |= set(o, "cu_seqlens_k", list_make(p->cu_k, p->documents + 1));
    }
    return bad;
}

static int write_files(json_t *o, const rt_spec *s)
{
    int bad = set(o, "order", json_string(rt_order_name(s->order)));
    json_t *names = json_object();
    for (int i = 0; i < RT_RESULT_COUNT; i++) {
        const char *usual = rt_tensor_name((rt_tensor_id)i);
        if (s->names[i] && strcmp(s->names[i], usual) != 0)
            bad |= set(names, usual, json_string(s->names[i]));
    }
    if (json_object_size(names) > 0)
        bad |= set(o, "tensors", names);
    else
        json_decref(names);
    bad |= set(o, "lse",
               json_pack("{s:s, s:s}", "shape", rt_lse_shape_name(s->lse_shape), "base",
                         s->lse_base2 ? "2" : "e"));
    bad |= set(o, "ranks", json_integer(s->ranks));
    if (s->positions) {
        json_t *l = json_pack("{s:s}", "positions", s->positions);
        if (l && s->positions_k)
            bad |= set(l, "positions_k", json_string(s->positions_k));
        bad |= set(o, "layout", l);
    } else {
        bad |= set(o, "layout", json_string(s->layout));
    }
    if (s->padded_q) {
        bad |= set(o, "cu_seqlens_padded", list_make(s->padded_q, s->problem.documents + 1));
        bad |= set(o, "cu_seqlens_k_padded", list_make(s->padded_k, s->problem.documents + 1));
    }
    bad |= set(o, "remainder", json_string(rt_remainder_name(s->remainder)));
    bad |= set(o, "algorithm", json_string(s->algorithm));
    return bad;
}

static int write_arithmetic(json_t *o, const rt_declared *declared)
{
    rt_declared d = *declared;
    json_t *a = json_object();
    int bad = a == NULL;
    if (!(d.assumed & RT_DECL_ACCUMULATE))
        bad |= set(a, "accumulate", json_string(d.accumulate_name));
    if (!(d.assumed & RT_DECL_EXP))
        bad |= set(a, "exp", json_real(d.exp_rel));
    if (!(d.assumed & RT_DECL_TANH))
        bad |= set(a, "tanh", json_real(d.tanh_rel));
    if (!(d.assumed & RT_DECL_BLOCK))
        bad |= set(a, "block_keys", json_integer(d.block_keys));
    if (!(d.assumed & RT_DECL_JOIN))
        bad |= set(a, "join", json_string(rt_join_name(d.join)));
    for (size_t i = 0; i < RT_SPEC_DTYPE_KEYS; i++) {
        if (!(d.assumed & rt_spec_dtype_keys[i].bit))
            bad |= set(a, rt_spec_dtype_keys[i].key,
                       json_string(rt_dtype_name(*rt_spec_declared_dtype(&d, i))));
    }
    if (json_object_size(a) > 0)
        bad |= set(o, "arithmetic", a);
    else
        json_decref(a);
    return bad;
}

rt_status rt_spec_write(rt_context *ctx, const rt_spec *s, char **text)
{
    rt_status st = RT_OK;
    char *dump = NULL, *copy = NULL;
    json_t *root = json_object();
    int bad = set(root, "ringtrue", json_integer(1));
    bad |= write_problem(root, &s->problem);
    bad |= rt_spec_write_mask(root, s);
    bad |= rt_spec_write_scores(root, s);
    bad |= write_files(root, s);
    bad |= write_arithmetic(root, &s->declared);
    if (bad) {
        st = rt_fail(ctx, RT_ERR_ARG,
                     "the spec cannot be written as JSON: a name is not UTF-8, or a number is not "
                     "finite");
        goto free_root;
    }
    dump = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (!dump) {
        st = rt_fail(ctx, RT_ERR_NOMEM, "no memory to write the spec");
        goto free_root;
    }
    copy = rt_text_copy(ctx, dump);
    if (copy)
        *text = copy;
    else
        st = RT_ERR_NOMEM;
    free(dump);
free_root:
    json_decref(root);
    return st;
}
