/* Dense masks: a bool or integer tensor of 0 and 1 (Sq, Sk), of the dump's own files or of an npy file. */
#include <inttypes.h>
#include <string.h>

#include "io/dump.h"
#include "io/file.h"

static int64_t value_at(const rt_view *v, int64_t i, int64_t j)
{
    const int64_t at[2] = {i, j};
    const void *x = rt_view_at(v, at);
    uint8_t b = 0;
    int32_t w = 0;
    int64_t l = 0;
    switch (rt_dtype_size(v->dtype)) {
    case 1:
        memcpy(&b, x, sizeof b);
        return v->dtype == RT_I8 && b > INT8_MAX ? (int64_t)b - 256 : b;
    case 4:
        memcpy(&w, x, sizeof w);
        return w;
    default:
        memcpy(&l, x, sizeof l);
        return l;
    }
}

static rt_status take(rt_context *ctx, const char *path, const rt_file_tensor *t, rt_problem *p)
{
    const rt_view *v = &t->view;
    const rt_dtype d = v->dtype;
    if ((d != RT_BOOL && d != RT_U8 && d != RT_I8 && d != RT_I32 && d != RT_I64) || v->ndim != 2 ||
        v->shape[0] != p->seqlen_q || v->shape[1] != p->seqlen_k)
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "%s: dense mask '%s' is %s %s; it must be bool, u8, i8, i32 or i64, (%" PRId64
                       ", %" PRId64 ")",
                       path, t->name, rt_dtype_name(v->dtype), rt_shape_print(v->ndim, v->shape).text,
                       p->seqlen_q, p->seqlen_k);
    uint8_t *dense = rt_alloc(ctx, p->seqlen_q * p->seqlen_k, 1);
    if (!dense)
        return RT_ERR_NOMEM;
    for (int64_t i = 0; i < p->seqlen_q; i++)
        for (int64_t j = 0; j < p->seqlen_k; j++) {
            const int64_t x = value_at(v, i, j);
            if (x != 0 && x != 1) {
                rt_free(dense);
                return rt_fail(ctx, RT_ERR_FORMAT,
                               "%s: dense mask '%s' [%" PRId64 ", %" PRId64 "] is %" PRId64
                               "; 0 (hidden) or 1 (visible)",
                               path, t->name, i, j, x);
            }
            dense[i * p->seqlen_k + j] = (uint8_t)x;
        }
    rt_free(p->dense);
    p->dense = dense;
    return RT_OK;
}

rt_status rt_dense_mask_read(rt_context *ctx, const char *path, rt_problem *p)
{
    rt_file f;
    RT_TRY(rt_file_open(ctx, path, &f));
    rt_status st = RT_OK;
    if (f.count != 1)
        st = rt_fail(ctx, RT_ERR_FORMAT, "%s: %" PRId64 " tensors; a dense mask is one", path, f.count);
    if (st == RT_OK)
        st = take(ctx, path, &f.tensors[0], p);
    rt_file_close(&f);
    return st;
}

static bool is_npy(const char *name)
{
    const size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".npy") == 0;
}

rt_status rt_dump_dense_mask(rt_dump_opener *o, const char *spec_path)
{
    rt_spec *s = &o->d.spec;
    const char *name = s->dense_mask;
    if (!name)
        return RT_OK;
    if (is_npy(name)) {
        const char *slash = spec_path ? strrchr(spec_path, '/') : NULL;
        char *path = name[0] == '/' ? rt_text_copy(o->ctx, name)
                     : !spec_path   ? rt_text_format(o->ctx, "%s/%s", o->src.folder, name)
                     : slash ? rt_text_format(o->ctx, "%.*s/%s", (int)(slash - spec_path), spec_path, name)
                             : rt_text_copy(o->ctx, name);
        const rt_status st = path ? rt_dense_mask_read(o->ctx, path, &s->problem) : RT_ERR_NOMEM;
        rt_free(path);
        return st;
    }
    for (int64_t i = 0; i < o->d.n_files; i++) {
        const rt_file_tensor *t = rt_file_find(&o->d.files[i], name);
        if (t)
            return take(o->ctx, o->d.files[i].path, t, &s->problem);
    }
    return rt_fail(
        o->ctx, RT_ERR_FORMAT,
        "%s: key \"dense_mask\" is %s, which no file of the dump has. Hint: a bool tensor of that "
        "name, or the name of a .npy file beside the spec",
        o->where, name);
}
