/* The spec's reader.  Strict: a key that is not in the schema, a value of another type or outside its
 * range is an error that names key, value and what is allowed, because a spec that is half understood gives
 * a verdict on another question than the user's. */
#include "io/file.h"
#include "io/json.h"
#include "io/spec.h"
#include "io/spec_mask.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <ringtrue/plan.h>

#define LENGTH_MAX ((int64_t)1 << 40) /* tokens */
#define COUNT_MAX ((int64_t)1 << 24)  /* batch, heads, dims */
#define RANKS_MAX ((int64_t)1 << 20)

typedef rt_spec_reader reader;

rt_status rt_spec_refuse(const reader *r, const char *key, const json_t *v, const char *allowed)
{
    return rt_fail(r->ctx, RT_ERR_FORMAT, "%s: key \"%s%s\" is %s; allowed: %s", r->where, r->inside, key,
                   rt_json_excerpt(v).text, allowed);
}

rt_status rt_spec_check_keys(const reader *r, const char *const *known)
{
    const char *key;
    json_t *value;
    char list[480];
    size_t used = 0;
    for (const char *const *k = known; *k && used < sizeof list; k++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", k == known ? "" : " ", *k);
    for (void *i = json_object_iter(r->object); i; i = json_object_iter_next(r->object, i)) {
        key = json_object_iter_key(i);
        value = json_object_iter_value(i);
        const char *const *k = known;
        while (*k && strcmp(*k, key) != 0)
            k++;
        if (!*k)
            return rt_fail(r->ctx, RT_ERR_FORMAT, "%s: unknown key %s (value %s); known%s%s: %s", r->where,
                           rt_text_excerpt(key).text, rt_json_excerpt(value).text, *r->inside ? " in " : "",
                           r->inside, list);
    }
    return RT_OK;
}

static rt_status open_object(const reader *r, const char *key, json_t *v, const char *inside,
                             const char *const *known, reader *out)
{
    if (!json_is_object(v))
        return rt_spec_refuse(r, key, v, "an object {...}");
    *out = (reader){r->ctx, r->where, inside, v};
    return rt_spec_check_keys(out, known);
}

/* An absent key leaves *out as it is, unless it is required. */
typedef enum { OPTIONAL, REQUIRED } need;

static rt_status get(const reader *r, const char *key, need needed, json_t **v)
{
    *v = json_object_get(r->object, key);
    if (!*v && needed == REQUIRED)
        return rt_fail(r->ctx, RT_ERR_FORMAT, "%s: key \"%s%s\" is missing", r->where, r->inside, key);
    return RT_OK;
}

static rt_status read_int(const reader *r, const char *key, need needed, int64_t lo, int64_t hi,
                          int64_t *out)
{
    json_t *v;
    RT_TRY(get(r, key, needed, &v));
    if (!v)
        return RT_OK;
    if (!json_is_integer(v) || json_integer_value(v) < lo || json_integer_value(v) > hi) {
        char allowed[80];
        (void)snprintf(allowed, sizeof allowed, "an integer from %" PRId64 " to %" PRId64, lo, hi);
        return rt_spec_refuse(r, key, v, allowed);
    }
    *out = (int64_t)json_integer_value(v);
    return RT_OK;
}

static rt_status read_dtype(const reader *r, const char *key, rt_dtype *out, bool *found)
{
    json_t *v;
    rt_dtype t;
    *found = false;
    RT_TRY(get(r, key, OPTIONAL, &v));
    if (!v)
        return RT_OK;
    if (!json_is_string(v) || !rt_dtype_parse(json_string_value(v), &t) || !rt_dtype_is_float(t))
        return rt_spec_refuse(r, key, v, "f64 f32 tf32 bf16 f16 e4m3 e5m2");
    *out = t;
    *found = true;
    return RT_OK;
}

/* A name out of n; `allowed` lists them for the error. */
static rt_status read_name(const reader *r, const char *key, need needed, const char *(*name)(int i), int n,
                           const char *allowed, int *out)
{
    json_t *v;
    RT_TRY(get(r, key, needed, &v));
    if (!v)
        return RT_OK;
    for (int i = 0; json_is_string(v) && i < n; i++) {
        if (strcmp(json_string_value(v), name(i)) == 0) {
            *out = i;
            return RT_OK;
        }
    }
    return rt_spec_refuse(r, key, v, allowed);
}

static const char *mask_name(int i)
{
    return rt_mask_name((rt_mask_kind)i);
}
static const char *order_name(int i)
{
    return rt_order_name((rt_order)i);
}
static const char *lse_shape_name(int i)
{
    return rt_lse_shape_name((rt_lse_shape)i);
}
static const char *base_name(int i)
{
    return i ? "2" : "e";
}
static const char *remainder_name(int i)
{
    return rt_remainder_name((rt_remainder)i);
}
static const char *join_name(int i)
{
    return rt_join_name((rt_join_form)i);
}

static rt_status read_text(const reader *r, const char *key, const json_t *v, char **out)
{
    if (!json_is_string(v) || json_string_length(v) == 0)
        return rt_spec_refuse(r, key, v, "the name of a tensor");
    char *copy = rt_text_copy(r->ctx, json_string_value(v));
    if (!copy)
        return RT_ERR_NOMEM;
    rt_free(*out);
    *out = copy;
    return RT_OK;
}

/* ---- the problem ---- */

static rt_status read_scale(const reader *r, rt_problem *p)
{
    static const char *const allowed =
        "\"rsqrt_dim\", or {\"f32\": x} or {\"f64\": x} where x is a finite number or \"rsqrt_dim\"";
    json_t *v;
    RT_TRY(get(r, "scale", OPTIONAL, &v));
    p->scale_kind = RT_SCALE_RSQRT_DIM;
    p->scale = rt_rsqrt_dim(p->dim);
    if (!v || (json_is_string(v) && strcmp(json_string_value(v), "rsqrt_dim") == 0))
        return RT_OK;
    const json_t *f32 = json_object_get(v, "f32"), *f64 = json_object_get(v, "f64");
    const json_t *x = f32 ? f32 : f64;
    if (json_object_size(v) != 1 || !x)
        return rt_spec_refuse(r, "scale", v, allowed);
    if (json_is_number(x))
        p->scale = json_number_value(x);
    else if (!json_is_string(x) || strcmp(json_string_value(x), "rsqrt_dim") != 0)
        return rt_spec_refuse(r, "scale", v, allowed);
    p->scale_kind = f32 ? RT_SCALE_F32 : RT_SCALE_F64;
    if (f32)
        p->scale = rt_round_to(RT_F32, p->scale);
    if (!isfinite(p->scale))
        return rt_spec_refuse(r, "scale", v, allowed);
    return RT_OK;
}

static rt_status read_boundaries(const reader *r, const char *key, int64_t length, int64_t **out,
                                 int64_t *n)
{
    json_t *v;
    RT_TRY(get(r, key, OPTIONAL, &v));
    if (!v)
        return RT_OK;
    char allowed[120] = "ascending integers from 0, two or more";
    if (length >= 0)
        (void)snprintf(allowed, sizeof allowed,
                       "ascending integers from 0 to the length %" PRId64 ", two or more", length);
    int64_t count = (int64_t)json_array_size(v);
    if (count < 2)
        return rt_spec_refuse(r, key, v, allowed);
    int64_t *cu = rt_alloc(r->ctx, count, sizeof *cu);
    if (!cu)
        return RT_ERR_NOMEM;
    int64_t before = 0;
    bool good = true;
    for (int64_t i = 0; good && i < count; i++) {
        const json_t *e = json_array_get(v, (size_t)i);
        cu[i] = (int64_t)json_integer_value(e);
        good = json_is_integer(e) && cu[i] >= before && (i > 0 || cu[i] == 0);
        before = cu[i];
    }
    if (!good || (length >= 0 ? before != length : before > LENGTH_MAX)) {
        rt_free(cu);
        return rt_spec_refuse(r, key, v, allowed);
    }
    *out = cu;
    *n = count - 1;
    return RT_OK;
}

static rt_status read_documents(const reader *r, rt_problem *p)
{
    int64_t n_k = -1;
    RT_TRY(read_boundaries(r, "cu_seqlens", p->seqlen_q, &p->cu_q, &p->documents));
    RT_TRY(read_boundaries(r, "cu_seqlens_k", p->seqlen_k, &p->cu_k, &n_k));
    const json_t *v = json_object_get(r->object, "cu_seqlens_k");
    if (!v && p->documents > 0) {
        if (p->seqlen_q != p->seqlen_k)
            return rt_fail(r->ctx, RT_ERR_FORMAT,
                           "%s: key \"cu_seqlens_k\" is missing: seqlen_k %" PRId64
                           " differs from seqlen %" PRId64,
                           r->where, p->seqlen_k, p->seqlen_q);
        p->cu_k = rt_alloc(r->ctx, p->documents + 1, sizeof *p->cu_k);
        if (!p->cu_k)
            return RT_ERR_NOMEM;
        memcpy(p->cu_k, p->cu_q, (size_t)(p->documents + 1) * sizeof *p->cu_k);
    } else if (v && n_k != p->documents) {
        return rt_spec_refuse(r, "cu_seqlens_k", v, "as many boundaries as cu_seqlens has");
    }
    return RT_OK;
}

static rt_status read_problem(const reader *r, rt_spec *s)
{
    rt_problem *p = &s->problem;
    RT_TRY(read_int(r, "batch", REQUIRED, 1, COUNT_MAX, &p->batch));
    RT_TRY(read_int(r, "seqlen", REQUIRED, 1, LENGTH_MAX, &p->seqlen_q));
    p->seqlen_k = p->seqlen_q;
    RT_TRY(read_int(r, "seqlen_k", OPTIONAL, 1, LENGTH_MAX, &p->seqlen_k));
    RT_TRY(read_int(r, "heads", REQUIRED, 1, COUNT_MAX, &p->heads_q));
    p->heads_kv = p->heads_q;
    RT_TRY(read_int(r, "kv_heads", OPTIONAL, 1, COUNT_MAX, &p->heads_kv));
    if (p->heads_q % p->heads_kv != 0)
        return rt_spec_refuse(r, "kv_heads", json_object_get(r->object, "kv_heads"), "a divisor of heads");
    RT_TRY(read_int(r, "dim", REQUIRED, 1, COUNT_MAX, &p->dim));
    p->dim_v = p->dim;
    RT_TRY(read_int(r, "dim_v", OPTIONAL, 1, COUNT_MAX, &p->dim_v));
    RT_TRY(read_scale(r, p));
    int mask = 0;
    RT_TRY(read_name(r, "mask", REQUIRED, mask_name, RT_MASK_CAUSAL_BOTTOM_RIGHT + 1,
                     "full causal causal-bottom-right", &mask));
    p->mask = (rt_mask_kind)mask;
    RT_TRY(read_documents(r, p));
    RT_TRY(rt_spec_read_mask(r->ctx, r->where, r->object, s));

    rt_context inner = {0}; /* the problem's own rules, said as what they are here: an error of the file */
    rt_status st = rt_problem_check(&inner, p);
    if (st != RT_OK)
        return rt_fail(r->ctx, st == RT_ERR_ARG ? RT_ERR_FORMAT : st, "%s: %s", r->where, inner.message);
    return RT_OK;
}

/* ---- the files ---- */

static rt_status read_tensors(const reader *r, rt_spec *s)
{
    json_t *v;
    const char *known[RT_RESULT_COUNT + 1] = {NULL};
    reader t;
    for (int i = 0; i < RT_RESULT_COUNT; i++)
        known[i] = rt_tensor_name((rt_tensor_id)i);
    RT_TRY(get(r, "tensors", OPTIONAL, &v));
    if (!v)
        return RT_OK;
    RT_TRY(open_object(r, "tensors", v, "tensors.", known, &t));
    for (int i = 0; i < RT_RESULT_COUNT; i++) {
        const json_t *name = json_object_get(v, known[i]);
        if (name)
            RT_TRY(read_text(&t, known[i], name, &s->names[i]));
    }
    for (int i = 1; i < RT_RESULT_COUNT; i++) {
        for (int j = 0; j < i; j++) {
            if (strcmp(s->names[i], s->names[j]) == 0)
                return rt_fail(
                    r->ctx, RT_ERR_FORMAT,
                    "%s: key \"tensors.%s\" is %s, which is also the name of %s; allowed: names that "
                    "differ",
                    r->where, known[i], rt_text_excerpt(s->names[i]).text, known[j]);
        }
    }
    return RT_OK;
}

static rt_status read_lse(const reader *r, rt_spec *s)
{
    static const char *const known[] = {"shape", "base", NULL};
    json_t *v;
    reader l;
    RT_TRY(get(r, "lse", OPTIONAL, &v));
    if (!v)
        return RT_OK;
    RT_TRY(open_object(r, "lse", v, "lse.", known, &l));
    int shape = RT_LSE_BHS, base = 0;
    RT_TRY(read_name(&l, "shape", OPTIONAL, lse_shape_name, RT_LSE_SBH + 1, "bhs bsh sbh", &shape));
    RT_TRY(read_name(&l, "base", OPTIONAL, base_name, 2, "\"e\" \"2\"", &base));
    s->lse_shape = (rt_lse_shape)shape;
    s->lse_base2 = base != 0;
    return RT_OK;
}

static rt_status read_layout(const reader *r, rt_spec *s)
{
    static const char *const known[] = {"positions", "positions_k", NULL};
    json_t *v;
    reader l;
    RT_TRY(get(r, "layout", OPTIONAL, &v));
    if (!v)
        return RT_OK;
    if (!json_is_object(v)) {
        const char *name = json_is_string(v) ? json_string_value(v) : "";
        rt_context inner = {0};
        if (strcmp(name, "positions") == 0)
            return rt_spec_refuse(r, "layout", v,
                                  "{\"positions\": NAME OF AN INTEGER TENSOR} \"positions:file=PATH\"");
        if (rt_layout_check_name(&inner, name) != RT_OK)
            return rt_fail(r->ctx, RT_ERR_FORMAT,
                           "%s: key \"layout\" is %s: %s, or {\"positions\": NAME OF AN INTEGER TENSOR}",
                           r->where, rt_json_excerpt(v).text, inner.message);
        memcpy(s->layout, name, strlen(name) + 1);
        return RT_OK;
    }
    RT_TRY(open_object(r, "layout", v, "layout.", known, &l));
    memcpy(s->layout, "positions", sizeof "positions");
    json_t *pos, *pos_k;
    RT_TRY(get(&l, "positions", REQUIRED, &pos));
    RT_TRY(read_text(&l, "positions", pos, &s->positions));
    RT_TRY(get(&l, "positions_k", OPTIONAL, &pos_k));
    if (pos_k)
        RT_TRY(read_text(&l, "positions_k", pos_k, &s->positions_k));
    else if (s->problem.seqlen_q != s->problem.seqlen_k)
        return rt_fail(r->ctx, RT_ERR_FORMAT,
                       "%s: key \"layout.positions_k\" is missing: one list cannot serve seqlen %" PRId64
                       " and seqlen_k %" PRId64,
                       r->where, s->problem.seqlen_q, s->problem.seqlen_k);
    return RT_OK;
}

/* The offsets of the documents in padded tensors: theirs, or those of the queries for both sides. */
static rt_status read_padding(const reader *r, rt_spec *s)
{
    static const char *const keys[2] = {"cu_seqlens_padded", "cu_seqlens_k_padded"};
    const rt_problem *p = &s->problem;
    int64_t *lists[2] = {NULL, NULL};
    rt_status st = RT_OK;
    for (int side = 0; side < 2 && st == RT_OK; side++) {
        const bool own = json_object_get(r->object, keys[side]) != NULL;
        int64_t n = -1;
        rt_context inner = {0};
        if (own)
            st = read_boundaries(r, keys[side], -1, &lists[side], &n);
        else if (side == 1 && lists[0] && json_object_get(r->object, "cu_seqlens_k"))
            st = rt_fail(r->ctx, RT_ERR_FORMAT, "%s: key \"%s\" is missing: the keys have cu_seqlens_k",
                         r->where, keys[1]);
        else if (side == 1 && lists[0] &&
                 !(lists[1] = rt_spec_list_copy(r->ctx, lists[0], p->documents + 1)))
            st = RT_ERR_NOMEM;
        if (st == RT_OK && side == 1 && own && !lists[0])
            st = rt_fail(r->ctx, RT_ERR_FORMAT, "%s: key \"%s\" is given without \"%s\"", r->where, keys[1],
                         keys[0]);
        if (st == RT_OK && own && n != p->documents)
            st = rt_spec_refuse(r, keys[side], json_object_get(r->object, keys[side]),
                                "as many offsets as cu_seqlens has boundaries");
        if (st == RT_OK && lists[side] &&
            rt_layout_check_padding(&inner, p, (rt_side)side, lists[side]) != RT_OK)
            st = rt_fail(r->ctx, RT_ERR_FORMAT, "%s: %s", r->where, inner.message);
    }
    if (st == RT_OK && lists[0] && s->positions)
        st = rt_fail(r->ctx, RT_ERR_FORMAT,
                     "%s: key \"%s\" has no place beside a position list, which says -1 for padding",
                     r->where, keys[0]);
    if (st != RT_OK) {
        rt_free(lists[0]);
        rt_free(lists[1]);
        return st;
    }
    s->padded_q = lists[0];
    s->padded_k = lists[1];
    return RT_OK;
}

static rt_status read_algorithm(const reader *r, rt_spec *s)
{
    json_t *v;
    RT_TRY(get(r, "algorithm", OPTIONAL, &v));
    if (!v)
        return RT_OK;
    char list[500] = "";
    size_t used = 0;
    for (const rt_planner *p = rt_planners(); p->name; p++) {
        const char *name = json_is_string(v) ? json_string_value(v) : "";
        const size_t n = strlen(p->name); /* what follows a colon is the planner's to read */
        if (strncmp(name, p->name, n) == 0 && (name[n] == '\0' || name[n] == ':') &&
            strlen(name) < sizeof s->algorithm) {
            memcpy(s->algorithm, name, strlen(name) + 1);
            return RT_OK;
        }
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? " " : "", p->name);
    }
    return rt_spec_refuse(r, "algorithm", v, list);
}

/* ---- the declared arithmetic ---- */

static rt_status read_arithmetic_object(const reader *a, rt_declared *d)
{
    json_t *v;
    bool found;
    RT_TRY(get(a, "accumulate", OPTIONAL, &v));
    if (v) {
        if (!json_is_string(v) || !rt_declared_accumulate(d, json_string_value(v)))
            return rt_spec_refuse(a, "accumulate", v, rt_declared_accumulate_names());
        d->assumed &= ~(uint32_t)RT_DECL_ACCUMULATE;
    }
    RT_TRY(get(a, "exp", OPTIONAL, &v));
    if (v) {
        double x = json_number_value(v);
        if (!json_is_number(v) || !(x >= 0 && x < 1))
            return rt_spec_refuse(a, "exp", v, "a relative accuracy, a number from 0 to below 1");
        d->exp_rel = x;
        d->assumed &= ~(uint32_t)RT_DECL_EXP;
    }
    RT_TRY(get(a, "tanh", OPTIONAL, &v));
    if (v) {
        double x = json_number_value(v);
        if (!json_is_number(v) || !(x >= 0 && x < 1))
            return rt_spec_refuse(a, "tanh", v, "a relative accuracy, a number from 0 to below 1");
        d->tanh_rel = x;
        d->assumed &= ~(uint32_t)RT_DECL_TANH;
    }
    if (json_object_get(a->object, "block_keys")) {
        RT_TRY(read_int(a, "block_keys", OPTIONAL, 1, INT64_MAX, &d->block_keys));
        d->assumed &= ~(uint32_t)RT_DECL_BLOCK;
    }
    if (json_object_get(a->object, "join")) {
        int join = 0;
        RT_TRY(read_name(a, "join", OPTIONAL, join_name, RT_JOIN_RAW + 1, "sigmoid two-pass split raw",
                         &join));
        d->join = (rt_join_form)join;
        d->assumed &= ~(uint32_t)RT_DECL_JOIN;
    }
    for (size_t i = 0; i < RT_SPEC_DTYPE_KEYS; i++) {
        RT_TRY(read_dtype(a, rt_spec_dtype_keys[i].key, rt_spec_declared_dtype(d, i), &found));
        if (found)
            d->assumed &= ~rt_spec_dtype_keys[i].bit;
    }
    return RT_OK;
}

static rt_status read_arithmetic(const reader *r, rt_declared *d)
{
    static const char *const known[] = {"accumulate", "exp",   "block_keys", "probabilities",
                                        "partial",    "state", "join",       "grad_partial",
                                        "grad_state", "tanh",  NULL};
    json_t *v;
    reader a;
    RT_TRY(get(r, "arithmetic", OPTIONAL, &v));
    if (!v)
        return RT_OK;
    if (json_is_string(v)) {
        if (!rt_declared_of(json_string_value(v), d))
            return rt_spec_refuse(r, "arithmetic", v,
                                  "\"f64\", or an object with the fields of the arithmetic");
        return RT_OK;
    }
    RT_TRY(open_object(r, "arithmetic", v, "arithmetic.", known, &a));
    return read_arithmetic_object(&a, d);
}

static rt_status read_spec(const reader *r, rt_spec *s)
{
    static const char *const known[] = {"ringtrue",
                                        "comment",
                                        "batch",
                                        "seqlen",
                                        "seqlen_k",
                                        "heads",
                                        "kv_heads",
                                        "dim",
                                        "dim_v",
                                        "scale",
                                        "mask",
                                        "order",
                                        "lse",
                                        "tensors",
                                        "ranks",
                                        "cu_seqlens",
                                        "cu_seqlens_k",
                                        "layout",
                                        "remainder",
                                        "algorithm",
                                        "arithmetic",
                                        "cu_seqlens_padded",
                                        "cu_seqlens_k_padded",
                                        "alibi",
                                        "bias",
                                        "softcap",
                                        "sink",
                                        "dropout",
                                        RT_SPEC_MASK_KEYS,
                                        NULL};
    int64_t version = 0, ranks = 1;
    int choice = 0;
    RT_TRY(rt_spec_check_keys(r, known));
    RT_TRY(read_int(r, "ringtrue", REQUIRED, 1, 1, &version));
    const json_t *comment = json_object_get(r->object, "comment");
    if (comment && !json_is_string(comment))
        return rt_spec_refuse(r, "comment", comment, "a string");
    RT_TRY(read_problem(r, s));
    RT_TRY(rt_spec_read_scores(r, s));
    RT_TRY(read_name(r, "order", OPTIONAL, order_name, RT_ORDER_BHSD + 1, "bshd sbhd bhsd", &choice));
    s->order = (rt_order)choice;
    RT_TRY(read_tensors(r, s));
    RT_TRY(read_lse(r, s));
    RT_TRY(read_int(r, "ranks", OPTIONAL, 1, RANKS_MAX, &ranks));
    s->ranks = (int32_t)ranks;
    RT_TRY(read_layout(r, s));
    RT_TRY(read_padding(r, s));
    choice = RT_REMAINDER_SPREAD;
    RT_TRY(read_name(r, "remainder", OPTIONAL, remainder_name, RT_REMAINDER_REFUSE + 1,
                     "spread ceil last refuse", &choice));
    s->remainder = (rt_remainder)choice;
    RT_TRY(read_algorithm(r, s));
    return read_arithmetic(r, &s->declared);
}

rt_status rt_spec_parse(rt_context *ctx, const char *text, size_t length, const char *where, rt_dtype input,
                        rt_spec *out)
{
    json_t *root = NULL;
    RT_TRY(rt_json_load(ctx, where, text, length, &root));
    rt_spec s = {0};
    reader r = {ctx, where, "", root};
    rt_status st = rt_spec_defaults(ctx, input, &s);
    if (st == RT_OK)
        st = read_spec(&r, &s);
    if (st == RT_OK)
        *out = s;
    else
        rt_spec_reset(&s);
    json_decref(root);
    return st;
}
