/* ringtrue run --relayout: a dump in another layout, its tensors bit by bit, one file per rank. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

enum { MOST = RT_NAME_COUNT + 3 }; /* with the lists of positions and a dense mask */

/* Where (B, S, H) stand among a stored tensor's axes, and how many axes it has. */
static int axes_of(const rt_spec *s, rt_tensor_id t, int axis[3])
{
    static const int by_order[3][3] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1}},
                     by_lse[3][3] = {{0, 2, 1}, {0, 1, 2}, {1, 0, 2}};
    memcpy(axis, t == RT_LSE ? by_lse[s->lse_shape] : by_order[s->order], 3 * sizeof *axis);
    return t == RT_LSE ? 3 : 4;
}

/* Rank r's tensor of that kind. */
static void declare(const rt_dump *in, const rt_layout *l, rt_tensor_id t, int32_t r, rt_tensor_decl *out)
{
    const rt_spec *s = &in->spec;
    int axis[3];
    int64_t length, heads, width;
    rt_cli_shape(&s->problem, t, &length, &heads, &width);
    const int64_t extent[3] = {s->problem.batch,
                               l->side[rt_cli_key_side(t) ? RT_SIDE_KV : RT_SIDE_Q].rows[r], heads};
    *out = (rt_tensor_decl){.name = s->names[t], .dtype = in->dtype[t], .ndim = axes_of(s, t, axis)};
    for (int a = 0; a < 3; a++)
        out->shape[axis[a]] = extent[a];
    if (out->ndim == 4)
        out->shape[3] = width;
}

static void copy_tensor(const rt_dump *in, const rt_layout *l, rt_tensor_id t, int32_t r,
                        const rt_tensor_decl *decl, char *data)
{
    const rt_side side = rt_cli_key_side(t) ? RT_SIDE_KV : RT_SIDE_Q;
    const int64_t *pos = rt_layout_positions(l, side, r);
    int axis[3];
    int64_t length, heads, width, stride[4] = {0};
    rt_cli_shape(&in->spec.problem, t, &length, &heads, &width);
    (void)axes_of(&in->spec, t, axis);
    stride[2] = width;
    for (int a = 1; a >= 0; a--)
        stride[a] = stride[a + 1] * decl->shape[a + 1];
    const size_t size = rt_dtype_size(decl->dtype);
    for (int64_t b = 0; b < in->spec.problem.batch; b++)
        for (int64_t i = 0; i < rt_layout_count(l, side, r); i++)
            for (int64_t h = 0; h < heads; h++) {
                const int64_t at = b * stride[axis[0]] +
                                   rt_layout_row(&l->side[side], pos[i]) * stride[axis[1]] +
                                   h * stride[axis[2]];
                memcpy(data + (size_t)at * size, rt_dump_row(in, t, b, pos[i], h), (size_t)width * size);
            }
}

/* ---- sink, bias and their gradients ---- */

static bool by_query(const rt_dump *in, rt_tensor_id t)
{
    const rt_problem *p = &in->spec.problem;
    return (t == RT_BIAS || t == RT_DBIAS) && p->bias_shape[2] == p->seqlen_q;
}

/* The name that a tensor of the scores keeps: one from a file of its own becomes part of the dump. */
static const char *score_name(const rt_spec *s, rt_tensor_id t)
{
    const size_t n = strlen(s->names[t]);
    return n > 4 && strcmp(s->names[t] + n - 4, ".npy") == 0 ? rt_tensor_name(t) : s->names[t];
}

static bool score_present(const rt_dump *in, rt_tensor_id t)
{
    return t < RT_RESULT_COUNT ? in->present[t] : in->spec.names[t] != NULL;
}

/* Its tensor in rank r's file; false if that has none. */
static bool declare_score(const rt_dump *in, const rt_layout *l, rt_tensor_id t, int32_t r,
                          rt_tensor_decl *out)
{
    const rt_problem *p = &in->spec.problem;
    if (!score_present(in, t) || (!by_query(in, t) && r > 0))
        return false;
    const rt_file_tensor *held =
        t < RT_RESULT_COUNT ? NULL : rt_file_find(&in->files[0], in->spec.names[t]);
    *out = (rt_tensor_decl){.name = score_name(&in->spec, t),
                            .dtype = t < RT_RESULT_COUNT ? in->dtype[t]
                                     : held != NULL      ? held->view.dtype
                                                         : RT_F64,
                            .ndim = 1,
                            .shape = {p->heads_q}};
    if (t == RT_BIAS || t == RT_DBIAS) {
        out->ndim = 4;
        memcpy(out->shape, p->bias_shape, 4 * sizeof *out->shape);
        if (by_query(in, t))
            out->shape[2] = l->side[RT_SIDE_Q].rows[r];
    }
    return true;
}

static void copy_score(const rt_dump *in, const rt_layout *l, rt_tensor_id t, int32_t r,
                       const rt_tensor_decl *decl, char *data)
{
    const rt_problem *p = &in->spec.problem;
    const rt_layout_side *x = &l->side[RT_SIDE_Q];
    const bool vector = t == RT_SINK || t == RT_DSINK;
    const int64_t batches = vector ? 1 : decl->shape[0], heads = vector ? p->heads_q : decl->shape[1],
                  rows = vector ? 1 : decl->shape[2], width = vector ? 1 : decl->shape[3],
                  n = by_query(in, t) ? rt_layout_count(l, RT_SIDE_Q, r) : rows;
    const size_t size = rt_dtype_size(decl->dtype);
    for (int64_t b = 0; b < batches; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < n; i++) {
                const int64_t pos = by_query(in, t) ? rt_layout_positions(l, RT_SIDE_Q, r)[i] : i,
                              row = by_query(in, t) ? rt_layout_row(x, pos) : i;
                char *to = data + (size_t)(((b * heads + h) * rows + row) * width) * size;
                if (t == RT_SINK)
                    rt_store(decl->dtype, p->sink + h, 1, to);
                else if (t == RT_BIAS) /* exact: every format's values are binary64's */
                    rt_store(decl->dtype, p->bias + ((b * heads + h) * p->bias_shape[2] + pos) * width,
                             width, to);
                else
                    memcpy(to, rt_dump_row(in, t, b, pos, h), (size_t)width * size);
            }
}

/* ---- the files ---- */

static rt_status write_rank(rt_cli *c, const rt_dump *in, const rt_layout *l, int32_t r, const char *aside,
                            const char *spec, uint64_t *written)
{
    rt_tensor_decl decl[MOST];
    rt_tensor_id id[RT_NAME_COUNT];
    int64_t n = 0;
    for (int t = 0; t < RT_TENSOR_COUNT; t++) {
        if (!in->present[t])
            continue;
        id[n] = (rt_tensor_id)t;
        declare(in, l, (rt_tensor_id)t, r, &decl[n++]);
    }
    for (int t = RT_TENSOR_COUNT; t < RT_NAME_COUNT; t++)
        if (declare_score(in, l, (rt_tensor_id)t, r, &decl[n]))
            id[n++] = (rt_tensor_id)t;
    const int64_t lists = rt_cli_position_decls(l, r, decl + n);
    const bool mask = r == 0 && in->spec.problem.dense != NULL;
    if (mask)
        decl[n + lists] = rt_cli_mask_decl(&in->spec.problem);
    char path[4096];
    if (snprintf(path, sizeof path, "%s/rank%d.safetensors", aside, r) >= (int)sizeof path)
        return rt_fail(c->ctx, RT_ERR_ARG, "-o %.80s..: the path is too long", c->o->output);
    rt_file_writer file;
    RT_TRY(rt_file_create(c->ctx, path, decl, n + lists + mask, spec, &file));
    for (int64_t i = 0; i < n; i++)
        (id[i] < RT_TENSOR_COUNT ? copy_tensor : copy_score)(in, l, id[i], r, &decl[i], file.data[i]);
    for (int64_t i = 0; i < lists; i++)
        rt_cli_positions(l, i == 0 ? RT_SIDE_Q : RT_SIDE_KV, r, file.data[n + i]);
    if (mask)
        memcpy(file.data[n + lists], in->spec.problem.dense,
               (size_t)(in->spec.problem.seqlen_q * in->spec.problem.seqlen_k));
    *written += file.map_size;
    return rt_file_finish(c->ctx, &file);
}

/* Whether a list of positions or the dense mask will have that name. */
static bool own_name(const rt_spec *s, const char *name)
{
    return strcmp(name, "pos") == 0 || strcmp(name, "pos_k") == 0 ||
           (s->problem.dense != NULL && strcmp(name, RT_DENSE_MASK_NAME) == 0);
}

/* The dump's spec with the new layout in it. */
static rt_status new_spec(rt_cli *c, const rt_dump *in, const rt_layout *l, const char *aside, char **text)
{
    rt_spec spec;
    RT_TRY(rt_spec_copy(c->ctx, &in->spec, &spec));
    rt_status st = rt_cli_layout_spec(c, in, l, &spec);
    if (st == RT_OK)
        st = rt_cli_plan_files(c, in->folder, in->spec.algorithm, aside, &spec);
    rt_free(spec.dense_mask); /* it is written under its usual name */
    spec.dense_mask = NULL;
    for (int t = RT_SINK; t < RT_NAME_COUNT && st == RT_OK; t++)
        if (spec.names[t] != NULL && score_name(&spec, (rt_tensor_id)t) != spec.names[t])
            strcpy(spec.names[t], rt_tensor_name((rt_tensor_id)t)); /* shorter than any name with .npy */
    for (int t = 0; t < RT_NAME_COUNT && st == RT_OK; t++) {
        const char *name = spec.names[t];
        if (name != NULL && (t < RT_TENSOR_COUNT ? in->present[t] : score_present(in, (rt_tensor_id)t)) &&
            own_name(&spec, name))
            st = rt_fail(c->ctx, RT_ERR_ARG, "the dump's tensor '%s' has the name that its %s will have",
                         name, strcmp(name, RT_DENSE_MASK_NAME) == 0 ? "dense mask" : "positions");
    }
    if (st == RT_OK)
        st = rt_spec_write(c->ctx, &spec, text);
    rt_spec_reset(&spec);
    return st;
}

/* Tensors that the spec does not speak of have no known token axis. */
static void left_out(const rt_dump *in)
{
    const rt_file *f = &in->files[0];
    bool any = false;
    for (int64_t i = 0; i < f->count; i++) {
        const char *mask = in->spec.dense_mask;
        bool known = strcmp(f->tensors[i].name, "pos") == 0 || strcmp(f->tensors[i].name, "pos_k") == 0 ||
                     (mask != NULL && strcmp(f->tensors[i].name, mask) == 0);
        for (int t = 0; t < RT_NAME_COUNT; t++)
            known =
                known || (in->spec.names[t] != NULL && strcmp(f->tensors[i].name, in->spec.names[t]) == 0);
        known =
            known || (in->spec.dense_mask != NULL && strcmp(f->tensors[i].name, in->spec.dense_mask) == 0);
        if (known)
            continue;
        printf("%s%s", any ? " " : "# left out: ", f->tensors[i].name);
        any = true;
    }
    if (any)
        printf("\n");
}

rt_status rt_cli_write_ranks(rt_cli *c, const rt_dump *in, const rt_layout *l, uint64_t *written)
{
    char *text = NULL, *aside = NULL;
    rt_status st = rt_folder_begin(c->ctx, c->o->output, c->o->force, &aside);
    if (st == RT_OK)
        st = new_spec(c, in, l, aside, &text);
    for (int32_t r = 0; r < l->ranks && st == RT_OK; r++) {
        st = write_rank(c, in, l, r, aside, text, written);
        rt_progress(c->ctx, "ranks", r + 1, l->ranks);
    }
    if (st == RT_OK)
        st = rt_folder_commit(c->ctx, c->o->output, c->o->force, &aside);
    else if (aside != NULL)
        rt_folder_abandon(&aside);
    rt_free(text);
    return st;
}

rt_status rt_cli_relayout(rt_cli *c)
{
    const rt_options *o = c->o;
    if (rt_comm_size(c->comm) > 1)
        return rt_fail(c->ctx, RT_ERR_ARG, "--relayout runs in one process. Hint: without mpirun");
    if (o->output == NULL)
        return rt_fail(c->ctx, RT_ERR_ARG, "--relayout needs -o FOLDER: where should the dump go?");
    static const char *const idle[] = {"plan",  "forward-only", "fingerprint", "out-dtype",
                                       "trace", "arith",        "transport",   NULL};
    for (int i = 0; idle[i] != NULL; i++)
        if (rt_options_given(o, idle[i]))
            return rt_fail(c->ctx, RT_ERR_ARG, "--%s goes with a run: --relayout computes nothing",
                           idle[i]);
    if (rt_options_given(o, "layout"))
        return rt_fail(c->ctx, RT_ERR_ARG, "--relayout names the new layout; no --layout beside it");
    rt_dump in;
    rt_layout l;
    uint64_t written = 0;
    RT_TRY(rt_cli_open(c, 0, o->n_arguments, &in));
    rt_status st = rt_cli_layout(c, &in.spec.problem, &in, &l);
    if (st != RT_OK)
        goto close_dump;
    st = rt_cli_write_ranks(c, &in, &l, &written);
    if (st == RT_OK) {
        printf("# ringtrue %s  run %s  relayout %s  P %d -> %s  P %d\n", RT_VERSION, o->arguments[0],
               in.per_rank ? in.layout.name : "global", in.per_rank ? (int)in.spec.ranks : 1, l.name,
               (int)l.ranks);
        if (l.note[0] != '\0')
            printf("# note: %s\n", l.note);
        left_out(&in);
        printf("# wrote %s: %d file%s, %.1f MiB\n", o->output, (int)l.ranks, l.ranks == 1 ? "" : "s",
               (double)written / 1048576.0);
    }
    rt_layout_reset(&l);
close_dump:
    rt_dump_close(&in);
    return st;
}
