/* ringtrue VERB: finds the verb, prepares the environment, maps a status to the exit code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

/* Progress on a terminal, from the second second on, at most five times a second. */
typedef struct {
    double start, last;
    bool shown;
} progress_state;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void progress(void *arg, const char *what, int64_t done, int64_t total)
{
    progress_state *p = arg;
    const double t = now();
    if (t - p->start < 1 || (t - p->last < 0.2 && done < total))
        return;
    p->last = t;
    p->shown = true;
    fprintf(stderr, "\r# %s: %lld of %lld (%.0f %%), %.0f s ", what, (long long)done, (long long)total,
            100.0 * (double)done / (double)(total > 0 ? total : 1), t - p->start);
    fflush(stderr);
}

void rt_cli_list(const char *name, const rt_parameter *parameters, const char *summary)
{
    printf("%s", name);
    for (const rt_parameter *each = parameters; each != NULL && each->key != NULL; each++) {
        printf("%s%s=(", each == parameters ? ":" : ",", each->key);
        for (const char *c = each->values; *c != '\0'; c++) /* choices without the spaces around the bar */
            if (strncmp(c, " | ", 3) != 0 && !(c > each->values && strncmp(c - 1, "| ", 2) == 0))
                printf("%c", *c);
        printf(")");
    }
    printf("  %s\n", summary);
    for (const rt_parameter *each = parameters; each != NULL && each->key != NULL; each++)
        printf("#   %s: %s\n", each->key, each->summary);
}

rt_tensor_decl rt_cli_mask_decl(const rt_problem *p)
{
    return (rt_tensor_decl){
        .name = RT_DENSE_MASK_NAME, .dtype = RT_BOOL, .ndim = 2, .shape = {p->seqlen_q, p->seqlen_k}};
}

bool rt_cli_key_side(rt_tensor_id t)
{
    return t == RT_K || t == RT_V || t == RT_DK || t == RT_DV;
}

int64_t rt_cli_batch(const rt_problem *p, rt_tensor_id t)
{
    return t == RT_DBIAS ? p->bias_shape[0] : t == RT_DSINK ? 1 : p->batch;
}

void rt_cli_shape(const rt_problem *p, rt_tensor_id t, int64_t *seqlen, int64_t *heads, int64_t *width)
{
    if (t >= RT_DSINK) {
        *seqlen = t == RT_DBIAS ? p->bias_shape[2] : 1;
        *heads = t == RT_DBIAS ? p->bias_shape[1] : p->heads_q;
        *width = t == RT_DBIAS ? p->bias_shape[3] : 1;
        return;
    }
    *seqlen = rt_cli_key_side(t) ? p->seqlen_k : p->seqlen_q;
    *heads = rt_cli_key_side(t) ? p->heads_kv : p->heads_q;
    *width = t == RT_LSE ? 1 : t == RT_V || t == RT_DOUT || t == RT_OUT || t == RT_DV ? p->dim_v : p->dim;
}

void rt_cli_print_fingerprint(FILE *f, rt_tensor_id t, rt_dtype dtype, const rt_fingerprint *x)
{
    fprintf(f, "fingerprint %-4s %-4s %016llx%016llx\n", rt_tensor_name(t), rt_dtype_name(dtype),
            (unsigned long long)x->lane[0], (unsigned long long)x->lane[1]);
}

rt_status rt_cli_open(rt_cli *c, int64_t first, int64_t count, rt_dump *out)
{
    if (count <= 0)
        return rt_fail(c->ctx, RT_ERR_ARG,
                       "%s needs a dump: a folder, a file, or one file per rank. Hint: ringtrue %s --help",
                       c->o->verb, c->o->verb);
    return rt_dump_open(c->ctx, c->o->arguments + first, count, c->o->spec, out);
}

rt_status rt_cli_open_together(rt_cli *c, rt_dump *out)
{
    const rt_status mine = rt_cli_open(c, 0, c->o->n_arguments, out);
    rt_status st = rt_comm_agree(c->ctx, c->comm, mine);
    if (st == RT_OK) /* what is opened for all is opened to compute on it: is the BLAS fit? */
        st = rt_comm_agree(c->ctx, c->comm, rt_blas_self_test(c->ctx));
    if (st != RT_OK && mine == RT_OK)
        rt_dump_close(out);
    return st;
}

static char *command_line(int argc, char **argv)
{
    size_t size = 1;
    for (int i = 0; i < argc; i++)
        size += strlen(argv[i]) + 1;
    char *text = malloc(size);
    if (text == NULL)
        return NULL;
    text[0] = '\0';
    for (int i = 0; i < argc; i++) {
        strcat(text, argv[i]);
        if (i + 1 < argc)
            strcat(text, " ");
    }
    return text;
}

static rt_status dispatch(rt_cli *c)
{
    static const struct {
        const char *name;
        rt_status (*verb)(rt_cli *c);
    } verbs[] = {{"gen", rt_cli_gen},   {"run", rt_cli_run},     {"plan", rt_cli_plan},
                 {"grid", rt_cli_grid}, {"check", rt_cli_check}, {"diff", rt_cli_diff},
                 {"info", rt_cli_info}, {"bench", rt_cli_bench}};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(verbs[i].name, c->o->verb) == 0)
            return verbs[i].verb(c);
    return rt_fail(c->ctx, RT_ERR_ARG, "%s: unknown verb", c->o->verb);
}

/* Texts that need no verb; whether that was all. */
static bool answer(const rt_cli *c, const char *word)
{
    const bool help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
    if (help && c->root)
        rt_options_help(stdout, NULL);
    const bool version = strcmp(word, "--version") == 0;
    if (version && c->root)
        printf("ringtrue %s, %s\n", RT_VERSION, rt_blas_description());
    return help || version;
}

static rt_status perform(rt_cli *c)
{
    RT_TRY(rt_comm_agree(c->ctx, c->comm, rt_float_environment_check(c->ctx)));
    return dispatch(c);
}

int main(int argc, char **argv)
{
    rt_context ctx = {.message = ""};
    rt_options o = {.verb = argc > 1 ? argv[1] : ""};
    rt_comm *comm = NULL; /* before all else: process 0 alone speaks, also when the flags are wrong */
    rt_status st = rt_comm_create(&ctx, &comm);
    char *replay = command_line(argc, argv);
    rt_cli c = {.ctx = &ctx,
                .comm = comm,
                .o = &o,
                .replay = replay != NULL ? replay : o.verb,
                .root = comm == NULL || rt_comm_rank(comm) == 0};
    progress_state shown = {.start = now()};
    if (st == RT_OK && argc < 2)
        st = rt_fail(&ctx, RT_ERR_ARG, "no verb is given. Hint: ringtrue --help lists them");
    if (st == RT_OK && !answer(&c, argv[1])) {
        st = rt_options_parse(&ctx, argc - 1, argv + 1, &o);
        if (c.root && !o.quiet && isatty(STDERR_FILENO)) {
            ctx.progress = progress;
            ctx.progress_arg = &shown;
        }
        if (st == RT_OK && !o.help)
            st = perform(&c);
        else if (st == RT_OK && c.root)
            rt_options_help(stdout, o.verb);
    }
    if (shown.shown)
        fprintf(stderr, "\r%*s\r", 78, "");
    if (st == RT_OK && (fflush(stdout) != 0 || ferror(stdout) != 0))
        st = rt_fail(&ctx, RT_ERR_IO, "standard output could not be written");
    if (st != RT_OK && c.root)
        fprintf(stderr, "ringtrue%s%s: %s\n", o.verb[0] != '\0' ? " " : "", o.verb,
                ctx.message[0] != '\0' ? ctx.message : "failed");
    const int code = st != RT_OK ? rt_status_exit_code(st) : c.code;
    rt_comm_destroy(&comm);
    rt_options_reset(&o);
    free(replay);
    return code;
}
