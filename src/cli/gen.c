/* ringtrue gen: inputs from a seed, and with --results the results that have a closed form, as a global dump or one
 * file per rank of a layout. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const rt_tensor_id order[] = {RT_Q, RT_K, RT_V, RT_DOUT, RT_OUT, RT_LSE, RT_DQ, RT_DK, RT_DV};

/* The file while it is written: rows by (tensor, batch, position, head). */
typedef struct {
    const rt_problem *p;
    void *data[RT_TENSOR_COUNT];
    rt_dtype dtype[RT_TENSOR_COUNT];
} gen_file;

static void *address(const gen_file *f, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, int64_t *width)
{
    int64_t length, heads;
    rt_cli_shape(f->p, t, &length, &heads, width);
    const int64_t at = t == RT_LSE ? (b * heads + h) * length + pos : (b * length + pos) * heads + h;
    return (char *)f->data[t] + (size_t)(at * *width) * rt_dtype_size(f->dtype[t]);
}

static void load(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row)
{
    int64_t width;
    const void *at = address(arg, t, b, pos, h, &width);
    rt_load(((const gen_file *)arg)->dtype[t], at, width, row);
}

static void store(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, const double *row)
{
    int64_t width;
    void *at = address(arg, t, b, pos, h, &width);
    rt_store(((const gen_file *)arg)->dtype[t], row, width, at);
}

static rt_status fill_input(rt_cli *c, gen_file *f, rt_tensor_id t)
{
    const rt_options *o = c->o;
    int64_t length, heads, width;
    rt_cli_shape(f->p, t, &length, &heads, &width);
    const int threads = omp_get_max_threads();
    double *rows = rt_alloc(c->ctx, threads * width, sizeof *rows);
    if (rows == NULL)
        return RT_ERR_NOMEM;
    const int64_t tokens = f->p->batch * length;
    rt_context *ctx = c->ctx;
#pragma omp parallel for schedule(static, 64) default(none)                                                \
    shared(o, f, t, rows, tokens, length, heads, width, ctx)
    for (int64_t i = 0; i < tokens; i++) {
        double *row = rows + omp_get_thread_num() * width;
        for (int64_t h = 0; h < heads; h++) {
            rt_generate_row(o->family, o->seed, t, o->dtype, i / length, i % length, h, width, length, row);
            store(f, t, i / length, i % length, h, row);
        }
        if (omp_get_thread_num() == 0)
            rt_progress(ctx, rt_tensor_name(t), i + 1, tokens);
    }
    rt_free(rows);
    return RT_OK;
}

static rt_status write_file(rt_cli *c, const rt_problem *p, const char *path, const char *spec)
{
    const rt_options *o = c->o;
    const int64_t inputs = o->forward_only ? 3 : 4, n = o->results ? 9 : inputs;
    rt_tensor_decl decl[RT_TENSOR_COUNT + 3];
    gen_file f = {.p = p};
    for (int64_t i = 0; i < n; i++) {
        int64_t s, h, w;
        rt_cli_shape(p, order[i], &s, &h, &w);
        f.dtype[order[i]] = order[i] == RT_LSE ? (o->dtype == RT_F64 ? RT_F64 : RT_F32) : o->dtype;
        decl[i] = (rt_tensor_decl){.name = rt_tensor_name(order[i]),
                                   .dtype = f.dtype[order[i]],
                                   .ndim = 4,
                                   .shape = {p->batch, s, h, w}};
        if (order[i] == RT_LSE)
            decl[i] = (rt_tensor_decl){
                .name = "lse", .dtype = f.dtype[RT_LSE], .ndim = 3, .shape = {p->batch, h, s}};
    }
    const int64_t *shape = p->bias_shape;
    int64_t all = n;
    if (p->sink != NULL)
        decl[all++] = (rt_tensor_decl){.name = "sink",
                                       .dtype = o->dtype == RT_F64 ? RT_F64 : RT_F32,
                                       .ndim = 1,
                                       .shape = {p->heads_q}};
    if (p->bias != NULL)
        decl[all++] = (rt_tensor_decl){.name = "bias",
                                       .dtype = o->dtype,
                                       .ndim = 4,
                                       .shape = {shape[0], shape[1], shape[2], shape[3]}};
    rt_file_writer file;
    if (p->dense != NULL) /* behind all others */
        decl[all] = rt_cli_mask_decl(p);
    RT_TRY(rt_file_create(c->ctx, path, decl, all + (p->dense != NULL), spec, &file));
    if (p->dense != NULL)
        memcpy(file.data[all], p->dense, (size_t)(p->seqlen_q * p->seqlen_k));
    for (int64_t i = 0; i < n; i++)
        f.data[order[i]] = file.data[i];
    if (p->sink != NULL)
        rt_store(decl[n].dtype, p->sink, p->heads_q, file.data[n]);
    if (p->bias != NULL)
        rt_store(o->dtype, p->bias, shape[0] * shape[1] * shape[2] * shape[3], file.data[all - 1]);
    rt_status st = RT_OK;
    for (int64_t i = 0; i < inputs && st == RT_OK; i++)
        st = fill_input(c, &f, order[i]);
    if (st == RT_OK && o->results)
        st = rt_generate_results(c->ctx, o->family, p,
                                 &(rt_result_io){.load = load, .store = store, .arg = &f});
    if (st != RT_OK) {
        rt_file_abandon(&file);
        return st;
    }
    return rt_file_finish(c->ctx, &file);
}

/* The global dump in `folder`, by ranks in -o. */
static rt_status spread(rt_cli *c, const char *folder)
{
    rt_dump d;
    rt_layout l;
    uint64_t written = 0;
    RT_TRY(rt_dump_open(c->ctx, &folder, 1, NULL, &d));
    rt_status st = rt_cli_layout(c, &d.spec.problem, &d, &l);
    if (st == RT_OK) {
        st = rt_cli_write_ranks(c, &d, &l, &written);
        rt_layout_reset(&l);
    }
    rt_dump_close(&d);
    return st;
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
    const bool by_ranks = o->has_layout || o->has_ranks;
    rt_layout l = {0};
    rt_status st = rt_generate_check(c->ctx, o->family, &p, o->dtype);
    if (st == RT_OK) /* before anything is written */
        st = rt_cli_layout(c, &p, NULL, &l);
    rt_layout_reset(&l);
    if (st != RT_OK)
        goto reset_problem;
    if (!by_ranks && (o->has_remainder || o->n_padded_q > 0 || o->n_padded_k > 0)) {
        st = rt_fail(c->ctx, RT_ERR_ARG,
                     "--remainder and --cu-seqlens-padded need --layout or --ranks: gen writes tokens in "
                     "order else");
        goto reset_problem;
    }
    st = rt_spec_init(c->ctx, &p, o->dtype, &spec);
    if (st != RT_OK)
        goto reset_problem;
    if (o->results) {
        (void)rt_declared_of("f64", &spec.declared);
        if (o->forward_only)
            st = rt_fail(
                c->ctx, RT_ERR_ARG,
                "--results makes gradients, for which --forward-only leaves no dout. Hint: one of the two");
    }
    if (st == RT_OK)
        st = rt_spec_write(c->ctx, &spec, &text);
    if (st != RT_OK)
        goto reset_spec;
    st = rt_folder_begin(c->ctx, o->output, o->force, &aside);
    if (st != RT_OK)
        goto free_text;
    if (snprintf(path, sizeof path, "%s/global.safetensors", aside) >= (int)sizeof path)
        st = rt_fail(c->ctx, RT_ERR_ARG, "-o %.80s..: the path is too long", o->output);
    if (st == RT_OK)
        st = write_file(c, &p, path, text);
    if (st == RT_OK && by_ranks)
        st = spread(c, aside);
    if (st == RT_OK && !by_ranks)
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
