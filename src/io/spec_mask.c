/* Masks in a spec: windows, prefixes, slices and key padding as JSON, a dense mask as a name. */
#include "io/spec_mask.h"

#include <inttypes.h>
#include <string.h>

#include "io/file.h"
#include "io/json.h"

static rt_status refuse(rt_context *ctx, const char *where, const char *key, const json_t *v,
                        const char *allowed)
{
    return rt_fail(ctx, RT_ERR_FORMAT, "%s: key \"%s\" is %s; allowed: %s", where, key,
                   rt_json_excerpt(v).text, allowed);
}

/* An array of n integers. */
static bool integers(const json_t *v, size_t n, int64_t *out)
{
    bool good = json_is_array(v) && json_array_size(v) == n;
    for (size_t i = 0; i < n && good; i++) {
        good = json_is_integer(json_array_get(v, i));
        out[i] = (int64_t)json_integer_value(json_array_get(v, i));
    }
    return good;
}

static rt_status read_slices(rt_context *ctx, const char *where, const json_t *v, rt_problem *p)
{
    static const char *const allowed =
        "a list of [q0, q1, k0, k1, KIND]: queries [q0, q1), keys [k0, k1), KIND full causal inv-causal "
        "bi-causal";
    const size_t n = json_array_size(v);
    if (!json_is_array(v) || n == 0)
        return refuse(ctx, where, "slices", v, allowed);
    p->slices = rt_alloc(ctx, (int64_t)n, sizeof *p->slices);
    if (!p->slices)
        return RT_ERR_NOMEM;
    p->n_slices = (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(v, i);
        int64_t at[4];
        bool good = json_is_array(e) && json_array_size(e) == 5;
        for (size_t k = 0; k < 4 && good; k++) {
            good = json_is_integer(json_array_get(e, k));
            at[k] = (int64_t)json_integer_value(json_array_get(e, k));
        }
        rt_slice *s = &p->slices[i];
        if (!good || !rt_slice_parse(json_string_value(json_array_get(e, 4)), &s->kind))
            return refuse(ctx, where, "slices", e, allowed);
        s->q0 = at[0];
        s->q1 = at[1];
        s->k0 = at[2];
        s->k1 = at[3];
    }
    return RT_OK;
}

static rt_status valid_create(rt_context *ctx, rt_problem *p)
{
    p->key_valid = rt_calloc(ctx, p->batch * p->seqlen_k, 1);
    return p->key_valid ? RT_OK : RT_ERR_NOMEM;
}

static rt_status read_lengths(rt_context *ctx, const char *where, const json_t *v, rt_problem *p)
{
    char allowed[120];
    (void)snprintf(allowed, sizeof allowed, "%" PRId64 " lengths, one per batch, from 0 to %" PRId64,
                   p->batch, p->seqlen_k);
    if (!json_is_array(v) || json_array_size(v) != (size_t)p->batch)
        return refuse(ctx, where, "key_lengths", v, allowed);
    RT_TRY(valid_create(ctx, p));
    for (int64_t b = 0; b < p->batch; b++) {
        const json_t *e = json_array_get(v, (size_t)b);
        const int64_t n = (int64_t)json_integer_value(e);
        if (!json_is_integer(e) || n < 0 || n > p->seqlen_k)
            return refuse(ctx, where, "key_lengths", e, allowed);
        memset(p->key_valid + b * p->seqlen_k, 1, (size_t)n);
    }
    return RT_OK;
}

static rt_status read_ranges(rt_context *ctx, const char *where, const json_t *v, rt_problem *p)
{
    char allowed[140];
    (void)snprintf(allowed, sizeof allowed,
                   "%" PRId64 " lists, one per batch, of [k0, k1]: keys [k0, k1), within [0, %" PRId64 ")",
                   p->batch, p->seqlen_k);
    if (!json_is_array(v) || json_array_size(v) != (size_t)p->batch)
        return refuse(ctx, where, "key_ranges", v, allowed);
    RT_TRY(valid_create(ctx, p));
    for (int64_t b = 0; b < p->batch; b++) {
        const json_t *list = json_array_get(v, (size_t)b);
        if (!json_is_array(list))
            return refuse(ctx, where, "key_ranges", list, allowed);
        for (size_t i = 0; i < json_array_size(list); i++) {
            int64_t r[2];
            if (!integers(json_array_get(list, i), 2, r) || r[0] < 0 || r[0] > r[1] || r[1] > p->seqlen_k)
                return refuse(ctx, where, "key_ranges", json_array_get(list, i), allowed);
            memset(p->key_valid + b * p->seqlen_k + r[0], 1, (size_t)(r[1] - r[0]));
        }
    }
    return RT_OK;
}

rt_status rt_spec_read_mask(rt_context *ctx, const char *where, const json_t *root, rt_spec *s)
{
    rt_problem *p = &s->problem;
    const json_t *window = json_object_get(root, "window"), *prefix = json_object_get(root, "prefix"),
                 *slices = json_object_get(root, "slices"), *lengths = json_object_get(root, "key_lengths"),
                 *ranges = json_object_get(root, "key_ranges"),
                 *dense = json_object_get(root, "dense_mask");
    if (window) {
        int64_t w[2];
        if (!integers(window, 2, w))
            return refuse(ctx, where, "window", window, "[left, right], each -1 (no limit) or more");
        p->has_window = true;
        p->window_left = w[0];
        p->window_right = w[1];
    }
    if (prefix) {
        if (!json_is_integer(prefix))
            return refuse(ctx, where, "prefix", prefix, "how many keys, an integer");
        p->prefix = (int64_t)json_integer_value(prefix);
    }
    if (slices)
        RT_TRY(read_slices(ctx, where, slices, p));
    if (lengths && ranges)
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: keys \"key_lengths\" and \"key_ranges\" exclude each other",
                       where);
    if (lengths)
        RT_TRY(read_lengths(ctx, where, lengths, p));
    if (ranges)
        RT_TRY(read_ranges(ctx, where, ranges, p));
    if (dense) {
        if (!json_is_string(dense) || json_string_length(dense) == 0)
            return refuse(
                ctx, where, "dense_mask", dense,
                "the name of a bool tensor (Sq, Sk) of the dump, or of a .npy file beside the spec");
        s->dense_mask = rt_text_copy(ctx, json_string_value(dense));
        if (!s->dense_mask)
            return RT_ERR_NOMEM;
    }
    return RT_OK;
}

/* ---- writing ---- */

static int set(json_t *o, const char *key, json_t *v)
{
    return json_object_set_new(o, key, v) != 0;
}

static json_t *ranges_of(const uint8_t *valid, int64_t n)
{
    json_t *list = json_array();
    int bad = list == NULL;
    for (int64_t j = 0; j < n && !bad; j++) {
        const int64_t first = j;
        while (j < n && valid[j])
            j++;
        if (j > first)
            bad = json_array_append_new(list, json_pack("[I,I]", (json_int_t)first, (json_int_t)j)) != 0;
    }
    if (!bad)
        return list;
    json_decref(list);
    return NULL;
}

/* How many keys are valid if those come first; -1 if they do not. */
static int64_t length_of(const uint8_t *valid, int64_t n)
{
    int64_t length = 0;
    while (length < n && valid[length])
        length++;
    for (int64_t j = length; j < n; j++)
        if (valid[j])
            return -1;
    return length;
}

static int write_keys(json_t *root, const rt_problem *p)
{
    bool lengths = true;
    for (int64_t b = 0; b < p->batch; b++)
        lengths = lengths && length_of(p->key_valid + b * p->seqlen_k, p->seqlen_k) >= 0;
    json_t *list = json_array();
    int bad = list == NULL;
    for (int64_t b = 0; b < p->batch && !bad; b++) {
        const uint8_t *valid = p->key_valid + b * p->seqlen_k;
        bad = json_array_append_new(list, lengths ? json_integer(length_of(valid, p->seqlen_k))
                                                  : ranges_of(valid, p->seqlen_k)) != 0;
    }
    if (bad) {
        json_decref(list);
        return 1;
    }
    return set(root, lengths ? "key_lengths" : "key_ranges", list);
}

int rt_spec_write_mask(json_t *root, const rt_spec *s)
{
    const rt_problem *p = &s->problem;
    int bad = 0;
    if (p->has_window)
        bad |= set(root, "window",
                   json_pack("[I,I]", (json_int_t)p->window_left, (json_int_t)p->window_right));
    if (p->prefix > 0)
        bad |= set(root, "prefix", json_integer(p->prefix));
    if (p->n_slices > 0) {
        json_t *list = json_array();
        for (int64_t n = 0; n < p->n_slices; n++) {
            const rt_slice *x = &p->slices[n];
            bad |= json_array_append_new(list, json_pack("[I,I,I,I,s]", (json_int_t)x->q0,
                                                         (json_int_t)x->q1, (json_int_t)x->k0,
                                                         (json_int_t)x->k1, rt_slice_name(x->kind))) != 0;
        }
        bad |= set(root, "slices", list);
    }
    if (p->key_valid)
        bad |= write_keys(root, p);
    if (s->dense_mask || p->dense)
        bad |= set(root, "dense_mask", json_string(s->dense_mask ? s->dense_mask : RT_DENSE_MASK_NAME));
    return bad;
}
