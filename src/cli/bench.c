/* ringtrue bench: the arithmetics against the BLAS, in the manner of nccl-tests; with --peer against
 * PyTorch.
 *
 * Every repetition takes each arithmetic's passes and a large product of the same BLAS in turn, so that
 * what disturbs the machine disturbs all alike; ratios are of the minima. */
#include <jansson.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "arithmetic/blas_rate.h"
#include "cli/bench.h"

enum { FORWARD, BACKWARD, PASSES, MOST = 8 };

typedef struct {
    double *seconds, least, median;
} series;

typedef struct {
    const rt_arithmetic_ops *arith;
    bool single;
    rt_bench_pass pass;
    series time[PASSES];
} entry;

typedef struct {
    const rt_cli *c;
    rt_problem p;
    int64_t iters;
    entry entries[MOST];
    int n;
    rt_blas_rate blas[2]; /* of binary64, of binary32: when an entry needs it */
    series gemm[2];
    rt_bench_peer peer;
    series peer_time[2]; /* forward, forward + backward */
    double *store;
} bench;

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void settle(series *s, int64_t n)
{
    qsort(s->seconds, (size_t)n, sizeof *s->seconds, ascending);
    s->least = s->seconds[0];
    s->median = (s->seconds[(n - 1) / 2] + s->seconds[n / 2]) / 2;
}

/* The larger square product that the problem's own work would pay for, up to 2048. */
static int64_t gemm_size(const rt_problem *p)
{
    const double work =
        (double)p->seqlen_q * (double)p->seqlen_k * (double)p->dim * (double)(p->batch * p->heads_q);
    int64_t n = 128;
    while (n < 2048 && (double)n * (double)n * (double)n * 2 < work)
        n *= 2;
    return n;
}

static double work(const rt_problem *p, int pass)
{
    const double all =
        (double)p->batch * (double)p->heads_q * (double)p->seqlen_q * (double)p->seqlen_k * (double)p->dim;
    return (pass == FORWARD ? 4 : 10) * all / (p->mask == RT_MASK_FULL ? 1 : 2);
}

static double gemm_rate(const bench *b, const entry *e)
{
    const double n = (double)b->blas[e->single].n;
    return 2 * n * n * n / b->gemm[e->single].least * 1e-9;
}

static double rate(const bench *b, const entry *e, int pass)
{
    return work(&b->p, pass) / e->time[pass].least * 1e-9;
}

static const entry *find(const bench *b, const char *name)
{
    for (int i = 0; i < b->n; i++)
        if (strcmp(rt_arithmetic_name(b->entries[i].arith), name) == 0)
            return &b->entries[i];
    return NULL;
}

static rt_status prepare(rt_context *ctx, bench *b)
{
    const rt_options *o = b->c->o;
    b->store = rt_alloc(ctx, b->iters * (PASSES * MOST + 4), sizeof *b->store);
    if (b->store == NULL)
        return RT_ERR_NOMEM;
    double *at = b->store;
    for (int i = 0; i < 2; i++) {
        b->gemm[i].seconds = at;
        b->peer_time[i].seconds = at + b->iters;
        at += 2 * b->iters;
    }
    for (const char *name = o->arith; *name != '\0'; name += strspn(name, ",")) {
        char one[32];
        const size_t length = strcspn(name, ",");
        snprintf(one, sizeof one, "%.*s", (int)length, name);
        name += length;
        if (find(b, one) != NULL || b->n == MOST)
            continue;
        entry *e = &b->entries[b->n++];
        e->arith = rt_arithmetic_find(one);
        e->single = strcmp(one, "f32") == 0;
        for (int k = 0; k < PASSES; k++, at += b->iters)
            e->time[k].seconds = at;
        RT_TRY(rt_bench_pass_create(ctx, &b->p, e->arith, 1, o->dtype, &e->pass));
        if (b->blas[e->single].n == 0)
            RT_TRY(rt_blas_rate_create(ctx, gemm_size(&b->p), e->single, &b->blas[e->single]));
    }
    if (o->peer && find(b, "f32") == NULL)
        return rt_fail(ctx, RT_ERR_ARG, "--peer is compared with f32. Hint: --arith f32");
    return o->peer ? rt_bench_peer_start(ctx, &b->p, omp_get_max_threads(), &b->peer) : RT_OK;
}

static rt_status repetition(rt_context *ctx, bench *b, int64_t at)
{
    for (int i = 0; i < b->n; i++) {
        entry *e = &b->entries[i];
        b->gemm[e->single].seconds[at] = rt_blas_rate_once(&b->blas[e->single]);
        RT_TRY(rt_bench_forward(ctx, &e->pass, &e->time[FORWARD].seconds[at]));
        RT_TRY(rt_bench_backward(ctx, &e->pass, &e->time[BACKWARD].seconds[at]));
        if (e->single && b->peer.pid > 0)
            RT_TRY(rt_bench_peer_once(ctx, &b->peer, &b->peer_time[0].seconds[at],
                                      &b->peer_time[1].seconds[at]));
    }
    return RT_OK;
}

static rt_status measure(rt_context *ctx, bench *b)
{
    const int64_t warmup = b->c->o->warmup, total = warmup + b->iters;
    for (int64_t i = 0; i < total; i++) {
        rt_progress(ctx, "repetitions", i, total);
        RT_TRY(repetition(ctx, b, i < warmup ? 0 : i - warmup));
    }
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < PASSES; k++)
            settle(&b->entries[i].time[k], b->iters);
    for (int i = 0; i < 2; i++) {
        if (b->blas[i].n > 0)
            settle(&b->gemm[i], b->iters);
        if (b->peer.pid > 0)
            settle(&b->peer_time[i], b->iters);
    }
    return RT_OK;
}

static double both(const entry *e)
{
    return e->time[FORWARD].least + e->time[BACKWARD].least;
}

static void print(const bench *b)
{
    const rt_problem *p = &b->p;
    const rt_options *o = b->c->o;
    printf("# ringtrue %s  bench  B %lld  S %lld  heads %lld/%lld  D %lld  mask %s  inputs %s  %lld "
           "repetitions after %lld  %d threads\n",
           RT_VERSION, (long long)p->batch, (long long)p->seqlen_q, (long long)p->heads_q,
           (long long)p->heads_kv, (long long)p->dim, rt_mask_name(p->mask), rt_dtype_name(o->dtype),
           (long long)b->iters, (long long)o->warmup, omp_get_max_threads());
    char scores[RT_SCORE_TEXT];
    if (rt_problem_has_scores(p))
        printf("# scores %s\n", rt_score_text(scores, p));
    printf("# %s\n# operations: %s S^2 D H forward, %s backward\n", rt_blas_description(),
           p->mask == RT_MASK_FULL ? "4" : "2", p->mask == RT_MASK_FULL ? "10" : "5");
    printf("# %-6s %-9s %12s %12s %10s %12s %10s\n", "arith", "pass", "time", "time", "rate", "gemm",
           "rate/gemm");
    printf("# %-6s %-9s %12s %12s %10s %12s %10s\n", "", "", "(s, min)", "(s, median)", "(GFLOP/s)",
           "(GFLOP/s)", "");
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < PASSES; k++) {
            const entry *e = &b->entries[i];
            printf("  %-6s %-9s %12.6f %12.6f %10.2f %5s %6.1f %10.3f\n", rt_arithmetic_name(e->arith),
                   k == FORWARD ? "forward" : "backward", e->time[k].least, e->time[k].median,
                   rate(b, e, k), e->single ? "sgemm" : "dgemm", gemm_rate(b, e),
                   rate(b, e, k) / gemm_rate(b, e));
        }
    const entry *exact = find(b, "exact"), *f64 = find(b, "f64"), *f32 = find(b, "f32");
    if (exact != NULL && f64 != NULL)
        printf("# exact / f64 time: forward %.2f, backward %.2f\n",
               exact->time[FORWARD].least / f64->time[FORWARD].least,
               exact->time[BACKWARD].least / f64->time[BACKWARD].least);
    if (b->peer.pid > 0 && f32 != NULL)
        printf("# %s: forward %.6f s, forward + backward %.6f s;  its time / that of f32: forward %.2f, "
               "forward + backward %.2f\n",
               b->peer.name, b->peer_time[0].least, b->peer_time[1].least,
               b->peer_time[0].least / f32->time[FORWARD].least, b->peer_time[1].least / both(f32));
}

static json_t *row(const bench *b, const entry *e, int k)
{
    const rt_problem *p = &b->p;
    json_t *j =
        json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:i, s:s}",
                  "arith", rt_arithmetic_name(e->arith), "pass", k == FORWARD ? "forward" : "backward",
                  "seconds", e->time[k].least, "median_seconds", e->time[k].median, "gflops", rate(b, e, k),
                  "gemm_gflops", gemm_rate(b, e), "gemm_ratio", rate(b, e, k) / gemm_rate(b, e), "batch",
                  (json_int_t)p->batch, "seqlen", (json_int_t)p->seqlen_q, "heads", (json_int_t)p->heads_q,
                  "kv_heads", (json_int_t)p->heads_kv, "dim", (json_int_t)p->dim, "mask",
                  rt_mask_name(p->mask), "dtype", rt_dtype_name(b->c->o->dtype), "iters",
                  (json_int_t)b->iters, "threads", omp_get_max_threads(), "blas", rt_blas_description());
    const entry *f64 = find(b, "f64");
    if (j != NULL && f64 != NULL && strcmp(rt_arithmetic_name(e->arith), "exact") == 0)
        json_object_set_new(j, "f64_ratio", json_real(e->time[k].least / f64->time[k].least));
    if (j != NULL && e->single &&
        b->peer.pid > 0) { /* a backward row speaks of forward and backward together */
        json_object_set_new(j, "peer", json_string(b->peer.name));
        json_object_set_new(j, k == FORWARD ? "peer_forward_ratio" : "peer_forward_backward_ratio",
                            json_real(b->peer_time[k].least / (k == FORWARD ? e->time[k].least : both(e))));
    }
    return j;
}

static rt_status print_json(rt_context *ctx, const bench *b)
{
    json_t *rows = json_array();
    int bad = rows == NULL;
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < PASSES; k++)
            bad |= json_array_append_new(rows, row(b, &b->entries[i], k));
    if (bad == 0)
        bad = json_dumpf(rows, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17));
    json_decref(rows);
    return bad != 0 || putchar('\n') == EOF ? rt_fail(ctx, RT_ERR_IO, "the JSON rows could not be written")
                                            : RT_OK;
}

rt_status rt_cli_bench(rt_cli *c)
{
    const rt_options *o = c->o;
    if (o->ring && o->n_arguments == 0)
        return rt_bench_ring(c);
    if (rt_comm_size(c->comm) > 1)
        return rt_fail(c->ctx, RT_ERR_ARG,
                       "bench runs in one process. Hint: without mpirun; OMP_NUM_THREADS sets the threads");
    if (o->n_arguments > 0)
        return rt_fail(c->ctx, RT_ERR_ARG, "bench takes no argument, not %s", o->arguments[0]);
#if defined(                                                                                               \
    __GLIBC__) /* memory stays with the process from one repetition to the next, as it does        \
                          between the tiles of a run */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 30);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
    bench b = {.c = c, .iters = o->iters};
    RT_TRY(rt_options_problem(c->ctx, o, &b.p));
    rt_status st = rt_blas_self_test(c->ctx);
    if (st == RT_OK && o->peer && rt_problem_has_scores(&b.p))
        st = rt_fail(c->ctx, RT_ERR_ARG, "--peer: it computes no alibi, bias, softcap, sink or dropout");
    if (st == RT_OK)
        st = prepare(c->ctx, &b);
    if (st == RT_OK)
        st = measure(c->ctx, &b);
    if (st == RT_OK && o->json)
        st = print_json(c->ctx, &b);
    else if (st == RT_OK)
        print(&b);
    rt_bench_peer_stop(&b.peer);
    for (int i = 0; i < b.n; i++)
        rt_bench_pass_reset(&b.entries[i].pass);
    for (int i = 0; i < 2; i++)
        rt_blas_rate_reset(&b.blas[i]);
    rt_free(b.store);
    rt_problem_reset(&b.p);
    return st;
}
