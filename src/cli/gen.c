/* ringtrue gen: inputs from a seed, as a global dump. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const rt_tensor_id inputs[] = {RT_Q, RT_K, RT_V, RT_DOUT};

static rt_status write_inputs(rt_cli *c, const rt_problem *p, const char *path, const char *spec)
{
    const rt_options *o = c->o;
    const int64_t n = o->forward_only ? 3 : 4;
    rt_tensor_decl decl[4];
    for (int64_t i = 0; i < n; i++) {
        int64_t s, h, w;
        rt_cli_shape(p, inputs[i], &s, &h, &w);
        decl[i] = (rt_tensor_decl){
            .name = rt_tensor_name(inputs[i]), .dtype = o->dtype, .ndim = 4, .shape = {p->batch, s, h, w}};
    }
    rt_file_writer file;
    RT_TRY(rt_file_create(c->ctx, path, decl, n, spec, &file));
    const int64_t widest = p->dim > p->dim_v ? p->dim : p->dim_v;
    double *row = rt_alloc(c->ctx, widest, sizeof *row);
    if (row == NULL) {
        rt_file_abandon(&file);
        return RT_ERR_NOMEM;
    }
    for (int64_t i = 0; i < n; i++) {
        char *at = file.data[i];
        const int64_t *shape = decl[i].shape;
        for (int64_t b = 0; b < shape[0]; b++)
            for (int64_t s = 0; s < shape[1]; s++) {
                for (int64_t h = 0; h < shape[2]; h++) {
                    rt_generate_row(o->family, o->seed, inputs[i], o->dtype, b, s, h, shape[3], shape[1],
                                    row);
                    rt_store(o->dtype, row, shape[3], at);
                    at += (size_t)shape[3] * rt_dtype_size(o->dtype);
                }
                rt_progress(c->ctx, decl[i].name, b * shape[1] + s + 1, shape[0] * shape[1]);
            }
    }
    rt_free(row);
    return rt_file_finish(c->ctx, &file);
}

rt_status rt_cli_gen(rt_cli *c)
{
    const rt_options *o = c->o;
    if (rt_comm_size(c->comm) > 1)
        return rt_fail(c->ctx, RT_ERR_ARG,
                       "gen runs in one process. Hint: without mpirun; run and check spread their work");
    if (o->output == NULL || o->n_arguments > 0)
        return rt_fail(c->ctx, RT_ERR_ARG, "gen needs -o FOLDER and no other argument%s%s",
                       o->n_arguments > 0 ? ", not " : "", o->n_arguments > 0 ? o->arguments[0] : "");
    rt_problem p;
    RT_TRY(rt_options_problem(c->ctx, o, &p));
    rt_spec spec = {0};
    char *text = NULL, *aside = NULL, path[4096];
    rt_status st = rt_generate_check(c->ctx, o->family, &p, o->dtype);
    if (st != RT_OK)
        goto reset_problem;
    st = rt_spec_init(c->ctx, &p, o->dtype, &spec);
    if (st != RT_OK)
        goto reset_problem;
    st = rt_spec_write(c->ctx, &spec, &text);
    if (st != RT_OK)
        goto reset_spec;
    st = rt_folder_begin(c->ctx, o->output, o->force, &aside);
    if (st != RT_OK)
        goto free_text;
    if (snprintf(path, sizeof path, "%s/global.safetensors", aside) >= (int)sizeof path)
        st = rt_fail(c->ctx, RT_ERR_ARG, "-o %.80s..: the path is too long", o->output);
    if (st == RT_OK)
        st = write_inputs(c, &p, path, text);
    if (st == RT_OK)
        st = rt_folder_commit(c->ctx, o->output, o->force, &aside);
    else
        rt_folder_abandon(&aside);
    if (st == RT_OK)
        printf("# ringtrue %s  gen %s  family %s  seed %llu  dtype %s\n", RT_VERSION, o->output,
               rt_family_name(o->family), (unsigned long long)o->seed, rt_dtype_name(o->dtype));
free_text:
    rt_free(text);
reset_spec:
    rt_spec_reset(&spec);
reset_problem:
    rt_problem_reset(&p);
    return st;
}
