/* ringtrue info: what a dump holds, and its spec. */
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

static rt_status show_fingerprints(rt_cli *c, const rt_dump *d)
{
    for (int t = 0; t < RT_TENSOR_COUNT; t++) {
        if (!d->present[t])
            continue;
        int64_t length, heads, width;
        rt_cli_shape(&d->spec.problem, (rt_tensor_id)t, &length, &heads, &width);
        rt_fingerprint f = {{0, 0}};
        for (int64_t b = 0; b < d->spec.problem.batch; b++)
            for (int64_t s = 0; s < length; s++) {
                for (int64_t h = 0; h < heads; h++)
                    rt_fingerprint_row(&f, (rt_tensor_id)t, b, s, h, d->dtype[t], rt_dump_row(d, (rt_tensor_id)t, b, s, h), width);
                rt_progress(c->ctx, rt_tensor_name((rt_tensor_id)t), s + 1, length);
            }
        rt_cli_print_fingerprint(stdout, (rt_tensor_id)t, d->dtype[t], &f);
    }
    return RT_OK;
}

rt_status rt_cli_info(rt_cli *c)
{
    if (!c->root)
        return RT_OK;
    if (c->o->n_arguments == 0) {
        printf("# ringtrue %s, %s\n", RT_VERSION, rt_blas_description());
        return RT_OK;
    }
    rt_dump d;
    RT_TRY(rt_cli_open(c, 0, c->o->n_arguments, &d));
    char *text = NULL;
    rt_status st = rt_spec_write(c->ctx, &d.spec, &text);
    if (st == RT_OK && c->o->json) {
        printf("%s\n", text);
    } else if (st == RT_OK) {
        printf("# ringtrue %s  info %s\n", RT_VERSION, c->o->arguments[0]);
        rt_show_problem(stdout, &d.spec.problem);
        rt_show_declared(stdout, &d.spec.declared);
        printf("# layout    %s, P %d, %s\n", rt_layout_name(d.layout.kind), d.layout.ranks, d.per_rank ? "one file per rank" : "global");
        if (d.layout.note[0] != '\0')
            printf("# note      %s\n", d.layout.note);
        show_files(&d);
        if (c->o->fingerprint)
            st = show_fingerprints(c, &d);
        printf("# spec      %s\n", text);
    }
    rt_free(text);
    rt_dump_close(&d);
    return st;
}
