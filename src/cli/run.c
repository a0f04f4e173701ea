/* ringtrue run: a plan on the inputs of a dump; writes a dump of one file per rank, or fingerprints. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "io/text_file.h"
#include "show/report.h"
#include "show/trace_file.h"

static const rt_tensor_id inputs[] = {RT_Q, RT_K, RT_V, RT_DOUT};
enum { MAX_TENSORS = RT_NAME_COUNT + 3 };

/* One rank's file while it is written. */
typedef struct {
    rt_file_writer file;
    bool open;
    void *data[RT_NAME_COUNT];
} rank_file;

typedef struct {
    const rt_dump *in;
    const rt_problem *p;
    const rt_layout *l;
    rt_dtype result, lse;
    rank_file *files; /* P; NULL without -o */
    uint64_t written; /* bytes of the files of this process */
    rt_fingerprint print[RT_RESULT_COUNT];
    unsigned char element[8];
    void *row; /* one encoded row */
} run_sink;

static void load(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row)
{
    const run_sink *s = arg;
    rt_dump_load(s->in, t, b, pos, h, row);
}

static void store(void *arg, rt_tensor_id t, int32_t rank, int64_t slot, int64_t b, int64_t pos, int64_t h,
                  const double *row)
{
    run_sink *s = arg;
    int64_t length, heads, width;
    rt_cli_shape(s->p, t, &length, &heads, &width);
    const rt_dtype dtype = t == RT_LSE ? s->lse : s->result;
    rt_store(dtype, row, width, s->row);
    rt_fingerprint_row(&s->print[t], t, b, pos, h, dtype, s->row, width);
    if (s->files == NULL)
        return;
    (void)slot;
    const rt_layout_side *side = &s->l->side[rt_cli_key_side(t) ? RT_SIDE_KV : RT_SIDE_Q];
    const bool whole = t == RT_DSINK || (t == RT_DBIAS && s->p->bias_shape[2] != s->p->seqlen_q);
    const int64_t n = whole ? length : side->rows[rank], place = whole ? pos : rt_layout_row(side, pos);
    const int64_t at = t == RT_LSE || t == RT_DBIAS
                           ? (b * heads + h) * n + place
                           : (b * n + place) * heads + h; /* lse and dbias (B, H, S), others (B, S, H, D) */
    memcpy((char *)s->files[rank].data[t] + (size_t)(at * width) * rt_dtype_size(dtype), s->row,
           (size_t)width * rt_dtype_size(dtype));
}

/* The tensors of the scores in rank r's file: sink, bias and their gradients. */
static int64_t score_decls(const run_sink *s, int32_t r, bool backward, rt_tensor_decl *decl,
                           rt_tensor_id *id)
{
    const rt_problem *p = s->p;
    const bool by_query = p->bias_shape[2] == p->seqlen_q;
    const int64_t *shape = p->bias_shape, rows = by_query ? s->l->side[RT_SIDE_Q].rows[r] : shape[2];
    int64_t n = 0;
    for (int t = RT_DSINK; t < RT_NAME_COUNT; t++) {
        const bool vector = t == RT_DSINK || t == RT_SINK, input = t == RT_SINK || t == RT_BIAS;
        if ((vector ? p->sink == NULL : p->bias == NULL) || (!input && !backward) ||
            (t == RT_DBIAS && p->no_dbias) || ((vector || !by_query) && r > 0))
            continue;
        id[n] = (rt_tensor_id)t;
        decl[n++] = (rt_tensor_decl){.name = rt_tensor_name((rt_tensor_id)t),
                                     .dtype = input ? RT_F64 : s->result,
                                     .ndim = vector ? 1 : 4,
                                     .shape = {vector ? p->heads_q : shape[0], shape[1], rows, shape[3]}};
    }
    return n;
}

/* sink and bias as the problem holds them: binary64, in which every input format is exact. */
static void write_scores(const run_sink *s, int32_t r, const rank_file *f)
{
    const rt_problem *p = s->p;
    const int64_t *shape = p->bias_shape;
    const rt_layout_side *x = &s->l->side[RT_SIDE_Q];
    if (f->data[RT_SINK] != NULL)
        memcpy(f->data[RT_SINK], p->sink, (size_t)p->heads_q * sizeof *p->sink);
    for (int64_t k = 0; f->data[RT_BIAS] != NULL && k < shape[0] * shape[1]; k++)
        for (int64_t i = 0; i < shape[2]; i++) {
            const bool by_query = shape[2] == p->seqlen_q;
            if (by_query && x->rank_of[i] != r)
                continue;
            const int64_t n = by_query ? x->rows[r] : 1, row = by_query ? rt_layout_row(x, i) : 0;
            memcpy((double *)f->data[RT_BIAS] + (k * n + row) * shape[3],
                   p->bias + (k * shape[2] + i) * shape[3], (size_t)shape[3] * sizeof *p->bias);
        }
}

/* Create rank r's file: inputs copied as they are, results to come, positions of its slots. */
static rt_status create_file(rt_cli *c, run_sink *s, int32_t r, bool backward, const char *aside,
                             const char *spec)
{
    const rt_problem *p = s->p;
    rt_tensor_decl decl[MAX_TENSORS];
    rt_tensor_id id[MAX_TENSORS];
    int64_t n = 0;
    for (int t = 0; t < RT_TENSOR_COUNT; t++) {
        const bool input = t <= RT_DOUT;
        if ((input && !s->in->present[t]) || (t >= RT_DQ && !backward))
            continue;
        int64_t length, heads, width;
        rt_cli_shape(p, (rt_tensor_id)t, &length, &heads, &width);
        const int64_t count = s->l->side[rt_cli_key_side((rt_tensor_id)t) ? RT_SIDE_KV : RT_SIDE_Q].rows[r];
        id[n] = (rt_tensor_id)t;
        decl[n] = (rt_tensor_decl){.name = rt_tensor_name((rt_tensor_id)t),
                                   .dtype = input         ? s->in->dtype[t]
                                            : t == RT_LSE ? s->lse
                                                          : s->result,
                                   .ndim = t == RT_LSE ? 3 : 4,
                                   .shape = {p->batch, count, heads, width}};
        if (t == RT_LSE) {
            decl[n].shape[1] = heads;
            decl[n].shape[2] = count;
        }
        n++;
    }
    n += score_decls(s, r, backward, decl + n, id + n);
    const int64_t n_tensors = n;
    const int64_t n_lists = rt_cli_position_decls(s->l, r, decl + n);
    n += n_lists;
    if (r == 0 && p->dense != NULL)
        decl[n++] = rt_cli_mask_decl(p);
    char path[4096];
    if (snprintf(path, sizeof path, "%s/rank%d.safetensors", aside, r) >= (int)sizeof path)
        return rt_fail(c->ctx, RT_ERR_ARG, "-o %.80s..: the path is too long", c->o->output);
    rank_file *f = &s->files[r];
    RT_TRY(rt_file_create(c->ctx, path, decl, n, spec, &f->file));
    f->open = true;
    for (int64_t i = 0; i < n_tensors; i++)
        f->data[id[i]] = f->file.data[i];
    if (r == 0 && p->dense != NULL)
        memcpy(f->file.data[n - 1], p->dense, (size_t)(p->seqlen_q * p->seqlen_k));
    for (int64_t k = n_tensors; k < n_tensors + n_lists; k++)
        rt_cli_positions(s->l, k == n_tensors ? RT_SIDE_Q : RT_SIDE_KV, r, f->file.data[k]);
    write_scores(s, r, f);
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        const rt_tensor_id t = inputs[i];
        if (!s->in->present[t])
            continue;
        int64_t length, heads, width;
        rt_cli_shape(p, t, &length, &heads, &width);
        const rt_side side = rt_cli_key_side(t) ? RT_SIDE_KV : RT_SIDE_Q;
        const rt_layout_side *x = &s->l->side[side];
        const int64_t *pos = rt_layout_positions(s->l, side, r);
        const size_t bytes = (size_t)width * rt_dtype_size(s->in->dtype[t]);
        for (int64_t b = 0; b < p->batch; b++)
            for (int64_t k = 0; k < rt_layout_count(s->l, side, r); k++) {
                const int64_t row = b * x->rows[r] + rt_layout_row(x, pos[k]);
                for (int64_t h = 0; h < heads; h++)
                    memcpy((char *)f->data[t] + (size_t)(row * heads + h) * bytes,
                           rt_dump_row(s->in, t, b, pos[k], h), bytes);
            }
    }
    return RT_OK;
}

/* The spec of what is written. */
static rt_status output_spec(rt_cli *c, const rt_dump *in, const rt_layout *l, const rt_plan *plan,
                             const char *aside, char **text)
{
    rt_spec spec;
    RT_TRY(rt_spec_init(c->ctx, &in->spec.problem, in->dtype[RT_Q], &spec));
    rt_status st = rt_cli_layout_spec(c, in, l, &spec);
    if (st == RT_OK)
        st = rt_cli_plan_files(c, c->o->has_plan ? NULL : in->folder, plan->name, aside, &spec);
    (void)rt_declared_of(c->o->arith, &spec.declared);
    if (st == RT_OK)
        st = rt_spec_write(c->ctx, &spec, text);
    rt_spec_reset(&spec);
    return st;
}

static rt_status open_files(rt_cli *c, run_sink *s, const rt_plan *plan, bool backward, char **aside)
{
    const rt_options *o = c->o;
    char *text = NULL, shared[4096] = "";
    rt_status st = RT_OK;
    if (c->root) {
        st = rt_folder_begin(c->ctx, o->output, o->force, aside);
        if (st == RT_OK && snprintf(shared, sizeof shared, "%s", *aside) >= (int)sizeof shared)
            st = rt_fail(c->ctx, RT_ERR_ARG, "-o %.80s..: the path is too long", o->output);
    }
    RT_TRY(rt_comm_agree(c->ctx, c->comm, st));
    RT_TRY(rt_comm_broadcast(c->ctx, c->comm, shared, sizeof shared));
    st = output_spec(c, s->in, s->l, plan, shared, &text);
    s->files = st == RT_OK ? rt_calloc(c->ctx, s->l->ranks, sizeof *s->files) : NULL;
    if (st == RT_OK && s->files == NULL)
        st = RT_ERR_NOMEM;
    for (int32_t r = 0; r < s->l->ranks && st == RT_OK; r++)
        if (rt_comm_owner(c->comm, r, s->l->ranks) == rt_comm_rank(c->comm))
            st = create_file(c, s, r, backward, shared, text);
    rt_free(text);
    return rt_comm_agree(c->ctx, c->comm, st);
}

/* Finish every file, or give all of them up; then the folder appears, or does not. */
static rt_status close_files(rt_cli *c, run_sink *s, rt_status st, char **aside)
{
    for (int32_t r = 0; s->files != NULL && r < s->l->ranks; r++) {
        if (!s->files[r].open)
            continue;
        s->written += s->files[r].file.map_size;
        if (st == RT_OK)
            st = rt_file_finish(c->ctx, &s->files[r].file);
        else
            rt_file_abandon(&s->files[r].file);
    }
    rt_free(s->files);
    st = rt_comm_agree(c->ctx, c->comm, st);
    if (c->root && *aside != NULL) {
        if (st == RT_OK)
            st = rt_folder_commit(c->ctx, c->o->output, c->o->force, aside);
        else
            rt_folder_abandon(aside);
    }
    return rt_comm_agree(c->ctx, c->comm, st);
}

rt_status rt_cli_total_certificates(rt_cli *c, rt_run_stats *stats)
{
    void *all = NULL;
    int64_t *offsets = NULL;
    RT_TRY(rt_comm_gather(c->ctx, c->comm, stats, (int64_t)sizeof *stats, &all, &offsets));
    for (int32_t r = 1; all != NULL && r < rt_comm_size(c->comm); r++) {
        rt_run_stats other;
        memcpy(&other, (char *)all + offsets[r], sizeof other);
        for (int t = 0; t < RT_RESULT_COUNT; t++)
            rt_certificate_add(&stats->certificate[t], &other.certificate[t]);
        stats->seconds = other.seconds > stats->seconds ? other.seconds : stats->seconds;
        stats->compute_seconds += other.compute_seconds;
        stats->wait_seconds += other.wait_seconds;
        stats->comm_seconds += other.comm_seconds;
        stats->hidden_seconds += other.hidden_seconds;
        stats->bytes_sent += other.bytes_sent;
        stats->messages += other.messages;
        stats->products[0] += other.products[0];
        stats->products[1] += other.products[1];
    }
    rt_free(all);
    rt_free(offsets);
    return RT_OK;
}

static rt_status print_results(rt_cli *c, run_sink *s, const rt_plan *plan, bool backward,
                               const rt_run_stats *stats, const rt_run_stats *total)
{
    const rt_options *o = c->o;
    enum { WRITTEN = 2 * RT_RESULT_COUNT, N_WORDS };
    uint64_t words[N_WORDS];
    for (int t = 0; t < RT_RESULT_COUNT; t++) {
        words[2 * t] = s->print[t].lane[0];
        words[2 * t + 1] = s->print[t].lane[1];
    }
    words[WRITTEN] = s->written;
    RT_TRY(rt_comm_sum_words(c->ctx, c->comm, words, N_WORDS));
    if (!c->root)
        return RT_OK;
    printf("# ringtrue %s  run %s  plan %s  layout %s  P %d  arith %s  %d process%s  %d thread%s  %s\n",
           RT_VERSION, o->arguments[0], plan->name, s->l->name, s->l->ranks, o->arith,
           rt_comm_size(c->comm), rt_comm_size(c->comm) == 1 ? "" : "es", omp_get_max_threads(),
           omp_get_max_threads() == 1 ? "" : "s", rt_blas_description());
    if (s->l->note[0] != '\0')
        printf("# note: %s\n", s->l->note);
    for (int t = RT_LSE; t < (backward ? RT_RESULT_COUNT : RT_DQ) && o->fingerprint; t++) {
        if ((t == RT_DSINK && s->p->sink == NULL) ||
            (t == RT_DBIAS && (s->p->bias == NULL || s->p->no_dbias)))
            continue;
        const rt_fingerprint f = {{words[2 * t], words[2 * t + 1]}};
        rt_cli_print_fingerprint(stdout, (rt_tensor_id)t, t == RT_LSE ? s->lse : s->result, &f);
    }
    if (strcmp(o->arith, "exact") == 0)
        rt_show_certificates(stdout, total->certificate, total->products);
    printf("# %s  %.3f s, waited %.3f s on process 0;  %llu messages, %.3f MiB between processes\n",
           backward ? "forward and backward" : "forward", stats->seconds, stats->wait_seconds,
           (unsigned long long)total->messages, (double)total->bytes_sent / 1048576.0);
    if (total->messages > 0)
        printf("# steps with messages: %lld point to point, %lld all-to-all, %lld all-gather;  %.6f s of "
               "communication over all processes, %.6f s waited;  overlap %.1f %% (measured)\n"
               "# overlap: the share of the communication time (in each step from the first posting to the "
               "last "
               "completion)\n#   that is left without the time spent on posting, on progress calls and on "
               "waiting\n",
               (long long)total->steps[0], (long long)total->steps[1], (long long)total->steps[2],
               total->comm_seconds, total->wait_seconds, 100 * rt_show_overlap(total));
    if (o->output != NULL)
        printf("# wrote %s: %d file%s, %.1f MiB\n", o->output, s->l->ranks, s->l->ranks == 1 ? "" : "s",
               (double)words[WRITTEN] / 1048576.0);
    return RT_OK;
}

/* The events of all processes in one file, by process 0. */
static rt_status write_trace(rt_cli *c, const run_sink *s, const rt_plan *plan, const rt_trace *mine,
                             const rt_run_stats *total, rt_text_file *file)
{
    rt_trace all;
    RT_TRY(rt_trace_gather(c->ctx, c->comm, mine, &all));
    const rt_trace_head head = {.processes = rt_comm_size(c->comm),
                                .threads = omp_get_max_threads(),
                                .arithmetic = c->o->arith,
                                .total = *total};
    rt_status st = RT_OK;
    if (c->root)
        st = rt_show_trace(c->ctx, file->file, &all, plan, s->l, &head);
    rt_trace_reset(&all);
    return st;
}

/* Process 0 proves the whole plan and says what the events of all were; the others need the tiles of their ranks. */
static rt_status make_plan(rt_cli *c, const rt_dump *in, const rt_layout *l, rt_plan *plan)
{
    if (c->root)
        return rt_cli_plan_create(c, in, l, plan);
    const bool flag = c->o->has_plan;
    return rt_plan_create_part(c->ctx, flag ? NULL : in->folder, flag ? c->o->plan : in->spec.algorithm,
                               &in->spec.problem, l, rt_comm_ranks(c->comm, l->ranks), plan);
}

rt_status rt_cli_run(rt_cli *c)
{
    const rt_options *o = c->o;
    if (o->relayout)
        return rt_cli_relayout(c);
    if (o->output == NULL && !o->fingerprint && o->trace == NULL)
        return rt_fail(c->ctx, RT_ERR_ARG,
                       "run needs -o FOLDER, --fingerprint or --trace FILE: where should the result go?");
    rt_dump in;
    RT_TRY(rt_cli_open_together(c, &in));
    const rt_arithmetic_ops *arith = rt_arithmetic_find(o->arith);
    const bool backward = in.present[RT_DOUT] && !o->forward_only;
    rt_layout layout = {0};
    rt_plan plan = {.name = ""};
    char *aside = NULL;
    run_sink s = {.in = &in, .p = &in.spec.problem, .l = &layout};
    s.result = o->has_out_dtype ? o->out_dtype : rt_arithmetic_result(arith);
    s.lse = s.result == RT_F64 ? RT_F64 : RT_F32;
    int64_t widest = s.p->dim > s.p->dim_v ? s.p->dim : s.p->dim_v;
    if (s.p->bias != NULL && s.p->seqlen_k > widest)
        widest = s.p->seqlen_k;
    rt_status st = rt_cli_layout(c, s.p, &in, &layout);
    if (st == RT_OK)
        st = make_plan(c, &in, &layout, &plan);
    if (st == RT_OK) {
        s.row = rt_alloc(c->ctx, widest, 8);
        st = s.row == NULL ? RT_ERR_NOMEM : RT_OK;
    }
    rt_trace trace = {0};
    rt_text_file trace_file = {0};
    if (st == RT_OK && o->trace != NULL && c->root)
        st = rt_text_file_begin(c->ctx, o->trace, o->force, &trace_file);
    st = rt_comm_agree(c->ctx, c->comm, st);
    if (st != RT_OK)
        goto reset_plan;
    if (o->output != NULL)
        st = open_files(c, &s, &plan, backward, &aside);
    rt_run_stats stats = {0}, total = {0};
    const rt_run_io io = {.load = load,
                          .store = store,
                          .arg = &s,
                          .backward = backward,
                          .result = s.result,
                          .lse_result = s.lse,
                          .transport = o->transport,
                          .trace = o->trace != NULL ? &trace : NULL};
    if (st == RT_OK)
        st = rt_run(c->ctx, c->comm, s.p, &layout, &plan, arith, &io, &stats);
    st = close_files(c, &s, st, &aside);
    total = stats;
    if (st == RT_OK)
        st = rt_cli_total_certificates(c, &total);
    if (st == RT_OK && o->trace != NULL)
        st = write_trace(c, &s, &plan, &trace, &total, &trace_file);
    if (o->trace != NULL)
        st = rt_comm_agree(c->ctx, c->comm, rt_text_file_end(c->ctx, &trace_file, st));
    if (st == RT_OK)
        st = print_results(c, &s, &plan, backward, &stats, &total);
reset_plan:
    st = rt_text_file_end(c->ctx, &trace_file, st); /* if it is still open */
    rt_trace_reset(&trace);
    rt_free(s.row);
    rt_plan_reset(&plan);
    rt_layout_reset(&layout);
    rt_dump_close(&in);
    return st;
}
