/* ringtrue diff: bits and ulps between two files (tensors of the same name), or two dumps (by original
 * position). */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

typedef struct {
    int64_t elements, differ, nan_mismatch, max_ulp;
    double max_abs, got, want;
    int64_t at; /* linear index of the first difference, -1 if none */
} difference;

/* Compare n elements of one format. */
static void compare(difference *d, rt_dtype t, const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        d->elements++;
        const bool nan_a = isnan(a[i]), nan_b = isnan(b[i]);
        const bool same =
            (nan_a && nan_b) || (a[i] >= b[i] && a[i] <= b[i] && signbit(a[i]) == signbit(b[i]));
        if (same)
            continue;
        if (d->at < 0) {
            d->at = d->elements - 1;
            d->got = a[i];
            d->want = b[i];
        }
        d->differ++;
        if (nan_a || nan_b || isinf(a[i]) || isinf(b[i])) {
            d->nan_mismatch++;
            d->max_ulp = INT64_MAX;
            continue;
        }
        const int64_t ulp =
            rt_dtype_is_float(t) ? rt_ulp_distance(t, a[i], b[i]) : (int64_t)fabs(a[i] - b[i]);
        d->max_ulp = ulp > d->max_ulp ? ulp : d->max_ulp;
        const double err = fabs(a[i] - b[i]);
        d->max_abs = err > d->max_abs ? err : d->max_abs;
    }
}

static void show_header(const rt_cli *c)
{
    if (c->o->json) {
        printf("{\"schema\": 1, \"verb\": \"diff\", \"tensors\": [");
        return;
    }
    printf("# ringtrue %s  diff %s %s\n", RT_VERSION, c->o->arguments[0], c->o->arguments[1]);
    printf("# %-16s %-5s %10s %10s %11s %10s %10s  %s\n", "tensor", "dtype", "elements", "differ",
           "not finite", "max_ulp", "max_abs", "first difference");
}

static void show(const rt_cli *c, const char *name, rt_dtype t, const difference *d, const char *where,
                 bool first)
{
    char ulp[32];
    if (d->max_ulp == INT64_MAX)
        snprintf(ulp, sizeof ulp, "inf");
    else
        snprintf(ulp, sizeof ulp, "%lld", (long long)d->max_ulp);
    if (c->o->json) {
        json_t *quoted = json_string(name);
        printf("%s{\"tensor\": ", first ? "" : ",\n ");
        json_dumpf(quoted, stdout, JSON_ENCODE_ANY);
        json_decref(quoted);
        printf(", \"dtype\": \"%s\", \"elements\": %lld, \"differ\": %lld, \"not_finite\": %lld, "
               "\"max_ulp\": %s%s%s, "
               "\"max_abs\": %.17g, \"first\": \"%s\"}",
               rt_dtype_name(t), (long long)d->elements, (long long)d->differ, (long long)d->nan_mismatch,
               d->max_ulp == INT64_MAX ? "\"" : "", ulp, d->max_ulp == INT64_MAX ? "\"" : "", d->max_abs,
               d->at >= 0 ? where : "");
        return;
    }
    printf("  %-16s %-5s %10lld %10lld %11lld %10s %10.3g", name, rt_dtype_name(t), (long long)d->elements,
           (long long)d->differ, (long long)d->nan_mismatch, ulp, d->max_abs);
    if (d->at >= 0)
        printf("  %s: %.17g, %.17g", where, d->got, d->want);
    printf("\n");
}

static bool same_shape(const rt_view *x, const rt_view *y)
{
    bool same = x->dtype == y->dtype && x->ndim == y->ndim;
    for (int32_t d = 0; same && d < x->ndim; d++)
        same = x->shape[d] == y->shape[d];
    return same;
}

/* The same names, formats and shapes; before anything is printed. */
static rt_status check_files(rt_context *ctx, const rt_file *a, const rt_file *b)
{
    for (int64_t i = 0; i < b->count; i++)
        if (rt_file_find(a, b->tensors[i].name) == NULL)
            return rt_fail(ctx, RT_ERR_FORMAT, "%s has tensor %s, %s has not", b->path, b->tensors[i].name,
                           a->path);
    for (int64_t i = 0; i < a->count; i++) {
        const rt_file_tensor *x = &a->tensors[i], *y = rt_file_find(b, x->name);
        if (y == NULL)
            return rt_fail(ctx, RT_ERR_FORMAT, "%s has tensor %s, %s has not", a->path, x->name, b->path);
        if (!same_shape(&x->view, &y->view))
            return rt_fail(ctx, RT_ERR_FORMAT, "%s: dtype or shape of tensor %s is not that of %s", b->path,
                           x->name, a->path);
    }
    return RT_OK;
}

static void diff_files(rt_cli *c, const rt_file *a, const rt_file *b, int64_t *differing)
{
    for (int64_t i = 0; i < a->count; i++) {
        const rt_view *x = &a->tensors[i].view, *y = &rt_file_find(b, a->tensors[i].name)->view;
        difference d = {.at = -1};
        int64_t index[RT_MAX_DIMS] = {0}, n = 1;
        for (int32_t k = 0; k < x->ndim; k++)
            n *= x->shape[k];
        for (int64_t e = 0; e < n; e++) {
            double va, vb;
            rt_load(x->dtype, rt_view_at(x, index), 1, &va);
            rt_load(y->dtype, rt_view_at(y, index), 1, &vb);
            compare(&d, x->dtype, &va, &vb, 1);
            for (int32_t k = x->ndim - 1; k >= 0 && ++index[k] == x->shape[k]; k--)
                index[k] = 0;
        }
        char where[64];
        snprintf(where, sizeof where, "element %lld", (long long)d.at);
        show(c, a->tensors[i].name, x->dtype, &d, where, i == 0);
        *differing += d.differ > 0;
    }
}

/* The same problem, and the same format of each tensor that both have; before anything is printed. */
static rt_status check_dumps(rt_context *ctx, const rt_dump *a, const rt_dump *b)
{
    const rt_problem *p = &a->spec.problem, *q = &b->spec.problem;
    if (p->batch != q->batch || p->seqlen_q != q->seqlen_q || p->seqlen_k != q->seqlen_k ||
        p->heads_q != q->heads_q || p->heads_kv != q->heads_kv || p->dim != q->dim || p->dim_v != q->dim_v)
        return rt_fail(ctx, RT_ERR_FORMAT, "%s and %s are dumps of problems of different sizes", a->path,
                       b->path);
    for (int k = 0; k < 4 && a->present[RT_DBIAS] && b->present[RT_DBIAS]; k++)
        if (p->bias_shape[k] != q->bias_shape[k])
            return rt_fail(ctx, RT_ERR_FORMAT, "the biases of %s and %s have different shapes", a->path,
                           b->path);
    for (int t = 0; t < RT_RESULT_COUNT; t++)
        if (a->present[t] && b->present[t] && a->dtype[t] != b->dtype[t])
            return rt_fail(ctx, RT_ERR_FORMAT, "%s is %s in %s and %s in %s: ulps need one format",
                           rt_tensor_name((rt_tensor_id)t), rt_dtype_name(a->dtype[t]), a->path,
                           rt_dtype_name(b->dtype[t]), b->path);
    return RT_OK;
}

static rt_status diff_dumps(rt_cli *c, const rt_dump *a, const rt_dump *b, int64_t *differing)
{
    const rt_problem *p = &a->spec.problem;
    int64_t widest = p->dim > p->dim_v ? p->dim : p->dim_v;
    if (a->present[RT_DBIAS] && p->seqlen_k > widest)
        widest = p->seqlen_k;
    double *rows = rt_alloc(c->ctx, 2 * widest, sizeof *rows);
    if (rows == NULL)
        return RT_ERR_NOMEM;
    show_header(c);
    bool first = true;
    for (int t = 0; t < RT_RESULT_COUNT; t++) {
        if (!a->present[t] || !b->present[t])
            continue;
        int64_t length, heads, width;
        rt_cli_shape(p, (rt_tensor_id)t, &length, &heads, &width);
        difference d = {.at = -1};
        for (int64_t x = 0; x < rt_cli_batch(p, (rt_tensor_id)t); x++)
            for (int64_t s = 0; s < length; s++)
                for (int64_t h = 0; h < heads; h++) {
                    rt_dump_load(a, (rt_tensor_id)t, x, s, h, rows);
                    rt_dump_load(b, (rt_tensor_id)t, x, s, h, rows + widest);
                    compare(&d, a->dtype[t], rows, rows + widest, width);
                }
        char where[128] = "";
        if (d.at >= 0)
            snprintf(where, sizeof where, "b %lld, token %lld, head %lld, dim %lld",
                     (long long)(d.at / width / heads / length), (long long)(d.at / width / heads % length),
                     (long long)(d.at / width % heads), (long long)(d.at % width));
        show(c, rt_tensor_name((rt_tensor_id)t), a->dtype[t], &d, where, first);
        first = false;
        *differing += d.differ > 0;
    }
    rt_free(rows);
    bool more = false;
    if (c->o->json)
        printf("],\n \"only_in_one\": [");
    for (int t = 0; t < RT_RESULT_COUNT; t++) {
        if (a->present[t] == b->present[t])
            continue;
        if (c->o->json)
            printf("%s\"%s\"", more ? ", " : "", rt_tensor_name((rt_tensor_id)t));
        else
            printf("# %s is only in %s\n", rt_tensor_name((rt_tensor_id)t),
                   a->present[t] ? a->path : b->path);
        more = true;
    }
    return RT_OK;
}

static bool is_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

rt_status rt_cli_diff(rt_cli *c)
{
    const rt_options *o = c->o;
    if (!c->root)
        return RT_OK;
    if (o->n_arguments != 2)
        return rt_fail(c->ctx, RT_ERR_ARG, "diff needs two files or two dumps, not %lld arguments",
                       (long long)o->n_arguments);
    int64_t differing = 0;
    rt_status st;
    if (is_file(o->arguments[0]) && is_file(o->arguments[1])) {
        rt_file a, b;
        RT_TRY(rt_file_open(c->ctx, o->arguments[0], &a));
        st = rt_file_open(c->ctx, o->arguments[1], &b);
        if (st == RT_OK) {
            st = check_files(c->ctx, &a, &b);
            if (st == RT_OK) {
                show_header(c);
                diff_files(c, &a, &b, &differing);
            }
            rt_file_close(&b);
        }
        rt_file_close(&a);
    } else {
        rt_dump a, b;
        RT_TRY(rt_cli_open(c, 0, 1, &a));
        st = rt_cli_open(c, 1, 1, &b);
        if (st == RT_OK) {
            st = check_dumps(c->ctx, &a, &b);
            if (st == RT_OK)
                st = diff_dumps(c, &a, &b, &differing);
            rt_dump_close(&b);
        }
        rt_dump_close(&a);
    }
    if (st != RT_OK)
        return st;
    if (c->o->json)
        printf("],\n \"differing\": %lld}\n", (long long)differing);
    else
        printf("# %lld tensor%s differ%s;  %s\n", (long long)differing, differing == 1 ? "" : "s",
               differing == 1 ? "s" : "", differing == 0 ? "SAME BITS" : "DIFFERENT");
    c->code = differing == 0 ? 0 : 1;
    return RT_OK;
}
