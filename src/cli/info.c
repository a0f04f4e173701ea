/* ringtrue info: what a dump holds, and its spec. */
#include <jansson.h>
#include <stdio.h>

#include "cli/cli.h"
#include "show/report.h"

static void show_files(const rt_dump *d)
{
    for (int64_t i = 0; i < d->n_files; i++) {
        printf("# %s\n", d->files[i].path);
        for (int64_t k = 0; k < d->files[i].count; k++) {
            const rt_file_tensor *t = &d->files[i].tensors[k];
            printf("  %-12s %-5s [", t->name, rt_dtype_name(t->view.dtype));
            for (int32_t x = 0; x < t->view.ndim; x++)
                printf("%s%lld", x == 0 ? "" : ", ", (long long)t->view.shape[x]);
            printf("]\n");
        }
    }
}

static rt_fingerprint fingerprint(rt_cli *c, const rt_dump *d, rt_tensor_id t)
{
    int64_t length, heads, width;
    rt_cli_shape(&d->spec.problem, t, &length, &heads, &width);
    rt_fingerprint f = {{0, 0}};
    const int64_t batch = rt_cli_batch(&d->spec.problem, t);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t s = 0; s < length; s++) {
            for (int64_t h = 0; h < heads; h++)
                rt_fingerprint_row(&f, t, b, s, h, d->dtype[t], rt_dump_row(d, t, b, s, h), width);
            rt_progress(c->ctx, rt_tensor_name(t), b * length + s + 1, batch * length);
        }
    return f;
}

static void show_text(rt_cli *c, const rt_dump *d, const char *spec)
{
    printf("# ringtrue %s  info %s\n", RT_VERSION, c->o->arguments[0]);
    rt_show_problem(stdout, &d->spec.problem);
    rt_show_declared(stdout, &d->spec.declared, d->spec.problem.softcap > 0);
    printf("# layout    %s, P %d, %s\n", d->layout.name, d->layout.ranks,
           d->per_rank ? "one file per rank" : "global");
    if (d->layout.note[0] != '\0')
        printf("# note      %s\n", d->layout.note);
    show_files(d);
    for (int t = 0; t < RT_RESULT_COUNT && c->o->fingerprint; t++)
        if (d->present[t]) {
            const rt_fingerprint f = fingerprint(c, d, (rt_tensor_id)t);
            rt_cli_print_fingerprint(stdout, (rt_tensor_id)t, d->dtype[t], &f);
        }
    printf("# spec\n%s\n", spec);
}

static json_t *json_file(const rt_file *f)
{
    json_t *tensors = json_array();
    for (int64_t k = 0; k < f->count; k++) {
        const rt_file_tensor *t = &f->tensors[k];
        json_t *shape = json_array();
        for (int32_t x = 0; x < t->view.ndim; x++)
            json_array_append_new(shape, json_integer(t->view.shape[x]));
        json_array_append_new(tensors, json_pack("{s:s, s:s, s:o}", "name", t->name, "dtype",
                                                 rt_dtype_name(t->view.dtype), "shape", shape));
    }
    return json_pack("{s:s, s:o}", "path", f->path, "tensors", tensors);
}

static rt_status show_json(rt_cli *c, const rt_dump *d, const char *spec)
{
    json_t *files = json_array(), *prints = json_object();
    for (int64_t i = 0; i < d->n_files; i++)
        json_array_append_new(files, json_file(&d->files[i]));
    for (int t = 0; t < RT_RESULT_COUNT && c->o->fingerprint; t++)
        if (d->present[t]) {
            const rt_fingerprint f = fingerprint(c, d, (rt_tensor_id)t);
            json_object_set_new(prints, rt_tensor_name((rt_tensor_id)t),
                                json_sprintf("%016llx%016llx", (unsigned long long)f.lane[0],
                                             (unsigned long long)f.lane[1]));
        }
    json_t *all = json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:o}", "schema", 1, "ringtrue", RT_VERSION,
                            "verb", "info", "dump", c->o->arguments[0], "spec", json_loads(spec, 0, NULL),
                            "files", files, "fingerprints", prints);
    if (all == NULL)
        return rt_fail(c->ctx, RT_ERR_NOMEM, "no memory for the JSON, or a name in the dump is not UTF-8");
    const int bad = json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    json_decref(all);
    if (bad != 0 || putchar('\n') == EOF)
        return rt_fail(c->ctx, RT_ERR_IO, "standard output could not be written");
    return RT_OK;
}

rt_status rt_cli_info(rt_cli *c)
{
    if (!c->root)
        return RT_OK;
    rt_dump d;
    RT_TRY(rt_cli_open(c, 0, c->o->n_arguments, &d));
    char *text = NULL;
    rt_status st = rt_spec_write(c->ctx, &d.spec, &text);
    if (st == RT_OK && c->o->json)
        st = show_json(c, &d, text);
    else if (st == RT_OK)
        show_text(c, &d, text);
    rt_free(text);
    rt_dump_close(&d);
    return st;
}
