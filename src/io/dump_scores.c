/* A dump's tensors of the scores: sink and bias, read into the problem, and their gradients.
 *
 *   sink, dsink  (Hq)                in rank 0's file
 *   bias, dbias  (Bb, Hb, Sb, Sk)    Sb = Sq: each rank's file holds its own queries, keys by original position;
 *                                    Sb = 1: in rank 0's file
 */
#include <inttypes.h>
#include <string.h>

#include "io/dump.h"
#include "io/file.h"

static bool by_query(const rt_problem *p, rt_tensor_id t)
{
    return (t == RT_BIAS || t == RT_DBIAS) && rt_dump_by_query(p);
}

static int64_t files_with(const rt_dump_opener *o, rt_tensor_id t)
{
    return o->d.per_rank && by_query(&o->d.spec.problem, t) ? o->d.spec.ranks : 1;
}

/* The tensor of rank r as (B, S, H, D), its shape held against the problem's; `whole`: not cut by queries. */
static rt_status view_of(const rt_dump_opener *o, rt_tensor_id t, int64_t r, bool whole,
                         const rt_file_tensor *f, const char *path, rt_view *out)
{
    const rt_problem *p = &o->d.spec.problem;
    const bool vector = t == RT_SINK || t == RT_DSINK;
    const int64_t *n = p->bias_shape;
    int64_t want[4] = {p->heads_q, 0, 0, 0};
    if (!vector) {
        memcpy(want, n, sizeof want);
        const rt_layout_side *side = &o->d.layout.side[RT_SIDE_Q];
        if (!whole && by_query(p, t))
            want[2] = o->d.per_rank ? side->rows[r] : side->padded;
    }
    const rt_view *v = &f->view;
    const int32_t ndim = vector ? 1 : 4;
    bool good = v->ndim == ndim && rt_dtype_is_float(v->dtype);
    for (int32_t a = 0; good && a < ndim; a++)
        good = v->shape[a] == want[a];
    if (!good)
        return rt_fail(o->ctx, RT_ERR_FORMAT,
                       "%s: tensor '%s' is %s %s; the spec gives %s in a floating format", path,
                       o->d.spec.names[t], rt_dtype_name(v->dtype), rt_shape_print(v->ndim, v->shape).text,
                       rt_shape_print(ndim, want).text);
    *out = (rt_view){v->data, v->dtype, 4, {1, 1, 1, 1}, {0}};
    static const int from[4] = {0, 2, 1, 3};
    for (int a = 0; a < 4 && !vector; a++) {
        out->shape[a] = v->shape[from[a]];
        out->stride[a] = v->stride[from[a]];
    }
    if (vector) {
        out->shape[2] = v->shape[0];
        out->stride[2] = v->stride[0];
    }
    return RT_OK;
}

/* Row (b, row, h) of a view as doubles. */
static void load_row(const rt_view *v, int64_t b, int64_t row, int64_t h, double *out)
{
    if (v->stride[3] == 1)
        rt_load(v->dtype, rt_view_at(v, (int64_t[]){b, row, h, 0}), v->shape[3], out);
    for (int64_t x = 0; x < v->shape[3] && v->stride[3] != 1; x++)
        rt_load(v->dtype, rt_view_at(v, (int64_t[]){b, row, h, x}), 1, out + x);
}

/* The position `pos` of the bias (or the sinks), which is row `row` of the view. */
static void load_position(const rt_view *v, int64_t row, int64_t pos, const int64_t shape[4], double *out)
{
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t h = 0; h < shape[1]; h++)
            load_row(v, b, row, h, out + ((b * shape[1] + h) * shape[2] + pos) * shape[3]);
}

static rt_status load_file(const rt_dump_opener *o, rt_tensor_id t, const int64_t shape[4], double *out)
{
    const char *name = o->d.spec.names[t];
    char *path = rt_text_format(o->ctx, "%s/%s", o->src.folder, name);
    if (!path)
        return RT_ERR_NOMEM;
    rt_file f;
    rt_view v;
    rt_status st = rt_file_open(o->ctx, path, &f);
    if (st == RT_OK) {
        st = view_of(o, t, 0, true, &f.tensors[0], path, &v);
        for (int64_t i = 0; i < shape[2] && st == RT_OK; i++)
            load_position(&v, i, i, shape, out);
        rt_file_close(&f);
    }
    rt_free(path);
    return st;
}

static rt_status load_tensor(rt_dump_opener *o, rt_tensor_id t, double **out)
{
    const rt_problem *p = &o->d.spec.problem;
    const int64_t sinks[4] = {1, p->heads_q, 1, 1}, *shape = t == RT_SINK ? sinks : p->bias_shape;
    const char *name = o->d.spec.names[t];
    *out = rt_alloc(o->ctx, shape[0] * shape[1] * shape[2] * shape[3], sizeof **out);
    if (!*out)
        return RT_ERR_NOMEM;
    const size_t length = strlen(name);
    if (length > 4 && strcmp(name + length - 4, ".npy") == 0)
        return load_file(o, t, shape, *out);
    for (int64_t r = 0; r < files_with(o, t); r++) {
        const rt_file_tensor *f = rt_dump_lookup(o, r, name);
        rt_view v;
        if (!f)
            return rt_dump_absent(o, r, name);
        RT_TRY(view_of(o, t, r, false, f, rt_dump_file_of(o, r, name)->path, &v));
        const rt_layout_side *side = &o->d.layout.side[RT_SIDE_Q];
        for (int64_t i = 0; i < shape[2]; i++)
            if (!by_query(p, t))
                load_position(&v, i, i, shape, *out);
            else if (!o->d.per_rank)
                load_position(&v, rt_layout_global_row(side, i), i, shape, *out);
            else if (side->rank_of[i] == r)
                load_position(&v, rt_layout_row(side, i), i, shape, *out);
    }
    return RT_OK;
}

/* A gradient that is there in all of its files. */
static rt_status find_gradient(rt_dump_opener *o, rt_tensor_id t)
{
    const char *name = o->d.spec.names[t];
    const int64_t n = files_with(o, t);
    int64_t have = 0, lacking = -1;
    for (int64_t r = 0; r < n; r++) {
        const rt_file_tensor *f = rt_dump_lookup(o, r, name);
        have += f != NULL;
        if (!f && lacking < 0)
            lacking = r;
        rt_view *v = &o->d.views[(int64_t)t * o->d.spec.ranks + r];
        if (f)
            RT_TRY(view_of(o, t, r, false, f, rt_dump_file_of(o, r, name)->path, v));
        if (f && r > 0 && v->dtype != o->d.views[(int64_t)t * o->d.spec.ranks].dtype && lacking < 0)
            return rt_fail(o->ctx, RT_ERR_FORMAT,
                           "%s: tensor '%s' is %s, but rank 0 has it in another format",
                           rt_dump_file_of(o, r, name)->path, name, rt_dtype_name(v->dtype));
    }
    if (have < n && (have > 0 || strcmp(name, rt_tensor_name(t)) != 0))
        return rt_dump_absent(o, lacking, name);
    o->d.present[t] = have > 0;
    if (have > 0)
        o->d.dtype[t] = o->d.views[(int64_t)t * o->d.spec.ranks].dtype;
    return RT_OK;
}

rt_status rt_dump_check_scores(rt_dump_opener *o)
{
    rt_problem *p = &o->d.spec.problem;
    if (o->d.spec.names[RT_SINK])
        RT_TRY(load_tensor(o, RT_SINK, &p->sink));
    if (o->d.spec.names[RT_BIAS])
        RT_TRY(load_tensor(o, RT_BIAS, &p->bias));
    if (p->sink)
        RT_TRY(find_gradient(o, RT_DSINK));
    if (p->bias && !p->no_dbias)
        RT_TRY(find_gradient(o, RT_DBIAS));
    rt_context inner = {0};
    const rt_status st = rt_problem_check(&inner, p);
    return st == RT_OK
               ? st
               : rt_fail(o->ctx, st == RT_ERR_ARG ? RT_ERR_FORMAT : st, "%s: %s", o->where, inner.message);
}
