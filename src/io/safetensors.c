/* The safetensors reader: 8 bytes of header length, a JSON header, raw little-endian data.
 *
 * The format's rules are checked one by one, each with its own text, because a dump that breaks one was
 * written by a broken program and its user wants to know in which way. */
#include "io/file.h"
#include "io/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX 100000000 /* as the format's own library limits it */
#define DTYPES_READ "BF16 F16 F32 F64 F8_E4M3 F8_E5M2 I32 I64 BOOL U8 I8"

static const struct {
    const char *name;
    rt_dtype dtype;
} dtype_names[] = {
    {"BF16", RT_BF16},    {"F16", RT_F16},      {"F32", RT_F32}, {"F64", RT_F64},
    {"F8_E4M3", RT_E4M3}, {"F8_E5M2", RT_E5M2}, {"I32", RT_I32}, {"I64", RT_I64},
    {"BOOL", RT_BOOL},    {"U8", RT_U8},        {"I8", RT_I8},
};

static bool dtype_find(const char *name, rt_dtype *out)
{
    for (size_t i = 0; i < sizeof dtype_names / sizeof dtype_names[0]; i++) {
        if (strcmp(dtype_names[i].name, name) == 0) {
            *out = dtype_names[i].dtype;
            return true;
        }
    }
    return false;
}

const char *rt_safetensors_dtype(rt_dtype t)
{
    for (size_t i = 0; i < sizeof dtype_names / sizeof dtype_names[0]; i++) {
        if (dtype_names[i].dtype == t)
            return dtype_names[i].name;
    }
    return NULL;
}

/* Where a tensor lies in the data section. */
typedef struct {
    int64_t begin, end;
    const char *name;
} extent;

static int extent_order(const void *a, const void *b)
{
    const extent *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static rt_status read_metadata(rt_context *ctx, rt_file *f, json_t *meta)
{
    if (!json_is_object(meta))
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: __metadata__ must be a map of strings, is %s", f->path,
                       rt_json_excerpt(meta).text);
    const char *key;
    json_t *value;
    json_object_foreach(meta, key, value)
    {
        if (!json_is_string(value))
            return rt_fail(ctx, RT_ERR_FORMAT, "%s: __metadata__ must be a map of strings; %s is %s",
                           f->path, rt_text_excerpt(key).text, rt_json_excerpt(value).text);
    }
    const json_t *ours = json_object_get(meta, "ringtrue");
    if (ours) {
        f->metadata = rt_text_copy(ctx, json_string_value(ours));
        if (!f->metadata)
            return RT_ERR_NOMEM;
    }
    return RT_OK;
}

static rt_status read_shape(rt_context *ctx, const char *path, const char *name, const json_t *shape,
                            rt_view *v)
{
    bool good = json_is_array(shape);
    size_t n = good ? json_array_size(shape) : 0;
    if (n > RT_MAX_DIMS)
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: tensor %s has %zu dimensions; at most %d are read", path,
                       rt_text_excerpt(name).text, n, RT_MAX_DIMS);
    for (size_t i = 0; i < n; i++) {
        const json_t *extent_json = json_array_get(shape, i);
        good = good && json_is_integer(extent_json) && json_integer_value(extent_json) >= 0;
        v->shape[i] = good ? (int64_t)json_integer_value(extent_json) : 0;
    }
    if (!good)
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "%s: tensor %s: shape must be a list of non-negative integers, is %s", path,
                       rt_text_excerpt(name).text, rt_json_excerpt(shape).text);
    v->ndim = (int32_t)n;
    return RT_OK;
}

/* One entry of the header.  Its data is located relative to the data section; `view->data` is set later. */
static rt_status read_tensor(rt_context *ctx, const char *path, const char *name, const json_t *entry,
                             rt_view *view, extent *where)
{
    rt_excerpt quoted = rt_text_excerpt(name);
    const char *shown = quoted.text;
    if (!json_is_object(entry))
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: tensor %s must be an object, is %s", path, shown,
                       rt_json_excerpt(entry).text);
    const json_t *dtype = json_object_get(entry, "dtype");
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!dtype || !shape || !offsets || json_object_size(entry) != 3)
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "%s: tensor %s must have exactly the keys dtype, shape and data_offsets, is %s",
                       path, shown, rt_json_excerpt(entry).text);

    rt_view v = {0};
    if (!json_is_string(dtype) || !dtype_find(json_string_value(dtype), &v.dtype))
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: tensor %s: unknown dtype %s; read are " DTYPES_READ, path,
                       shown, rt_json_excerpt(dtype).text);
    RT_TRY(read_shape(ctx, path, name, shape, &v));
    int64_t bytes;
    if (!rt_dense_bytes(v.dtype, v.ndim, v.shape, &bytes))
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: tensor %s: the size of shape %s overflows 64 bits", path,
                       shown, rt_json_excerpt(shape).text);

    const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(second) ||
        json_integer_value(first) < 0 || json_integer_value(second) < json_integer_value(first))
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "%s: tensor %s: data_offsets must be [begin, end] with 0 <= begin <= end, is %s",
                       path, shown, rt_json_excerpt(offsets).text);
    where->begin = (int64_t)json_integer_value(first);
    where->end = (int64_t)json_integer_value(second);
    where->name = name;
    if (where->end - where->begin != bytes)
        return rt_fail(
            ctx, RT_ERR_FORMAT,
            "%s: tensor %s: data_offsets span %" PRId64 " bytes but shape %s of %s takes %" PRId64, path,
            shown, where->end - where->begin, rt_json_excerpt(shape).text, json_string_value(dtype), bytes);
    rt_view_set_strides(&v, false);
    *view = v;
    return RT_OK;
}

/* The data section must be covered exactly once, from its first byte to its last. */
static rt_status check_cover(rt_context *ctx, const char *path, extent *e, int64_t n, int64_t data_size)
{
    qsort(e, (size_t)n, sizeof *e, extent_order);
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        if (e[i].begin < at)
            return rt_fail(ctx, RT_ERR_FORMAT,
                           "%s: tensors overlap: %s begins at byte %" PRId64
                           ", inside %s, which ends at %" PRId64,
                           path, rt_text_excerpt(e[i].name).text, e[i].begin,
                           rt_text_excerpt(e[i ? i - 1 : 0].name).text, at);
        if (e[i].begin > at)
            return rt_fail(ctx, RT_ERR_FORMAT,
                           "%s: hole: bytes %" PRId64 " to %" PRId64
                           " of the data, before %s, belong to no tensor",
                           path, at, e[i].begin, rt_text_excerpt(e[i].name).text);
        at = e[i].end;
    }
    if (at > data_size)
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "%s: data shorter than its header says: %" PRId64 " bytes of %" PRId64
                       " (truncated file?)",
                       path, data_size, at);
    if (at < data_size)
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "%s: data longer than its header says: %" PRId64 " bytes, described are %" PRId64,
                       path, data_size, at);
    return RT_OK;
}

static rt_status read_entries(rt_context *ctx, rt_file *f, json_t *header, const char *data,
                              int64_t data_size)
{
    int64_t count = (int64_t)json_object_size(header);
    rt_status st = RT_ERR_NOMEM;
    extent *where = rt_alloc(ctx, count, sizeof *where);
    if (!where)
        return RT_ERR_NOMEM;
    f->tensors = rt_calloc(ctx, count, sizeof *f->tensors);
    if (!f->tensors)
        goto free_where;
    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) {
            st = read_metadata(ctx, f, entry);
            if (st != RT_OK)
                goto free_where;
            continue;
        }
        rt_file_tensor *t = &f->tensors[f->count];
        st = read_tensor(ctx, f->path, name, entry, &t->view, &where[f->count]);
        if (st != RT_OK)
            goto free_where;
        /* an offset past the end gets no pointer; check_cover refuses the file */
        t->view.data = where[f->count].begin <= data_size ? data + where[f->count].begin : NULL;
        t->name = rt_text_copy(ctx, name);
        if (!t->name) {
            st = RT_ERR_NOMEM;
            goto free_where;
        }
        f->count++;
    }
    st = check_cover(ctx, f->path, where, f->count, data_size);
free_where:
    rt_free(where);
    return st;
}

rt_status rt_safetensors_parse(rt_context *ctx, rt_file *f)
{
    const char *bytes = f->map;
    if (f->map_size < 8 || !bytes)
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "%s: %zu bytes, but a safetensors file begins with 8 bytes of header length",
                       f->path, f->map_size);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | (unsigned char)bytes[i];
    if (length > HEADER_MAX)
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "%s: header length %" PRIu64
                       " is over the format's limit of %d bytes (not a safetensors file?)",
                       f->path, length, HEADER_MAX);
    if (length > f->map_size - 8)
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "%s: header of %" PRIu64
                       " bytes is longer than the file, which has %zu after the length",
                       f->path, length, f->map_size - 8);
    const char *text = bytes + 8;
    if (length == 0 || text[0] != '{')
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: header does not start with '{'", f->path);

    char *where = rt_text_format(ctx, "%s: header", f->path);
    if (!where)
        return RT_ERR_NOMEM;
    json_t *header = NULL;
    rt_status st = rt_json_load(ctx, where, text, (size_t)length, &header);
    rt_free(where);
    if (st != RT_OK)
        return st;
    st = read_entries(ctx, f, header, text + length, (int64_t)(f->map_size - 8 - (size_t)length));
    json_decref(header);
    return st;
}
