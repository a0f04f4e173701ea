/* A run's trace as Chrome's JSON trace events. */
#include "show/trace_file.h"

#include <string.h>

/* What a plan rank did in the step that is being read. */
typedef struct {
    int64_t tiles, pairs, bytes, messages;
    double compute;
} share;

typedef struct {
    FILE *f;
    const rt_plan *plan;
    const rt_layout *l;
    bool begun;
    share *ranks;        /* P */
    int64_t *order[2];   /* tiles of each pass, those of a rank together */
    int64_t *of_rank[2]; /* P + 1: where a rank's begin in it */
} writer;

double rt_show_overlap(const rt_run_stats *s)
{
    return s->comm_seconds > 0 ? s->hidden_seconds / s->comm_seconds : 0;
}

static const char *pass_name(const rt_event *e)
{
    return e->backward ? "backward" : "forward";
}

static const rt_pass *pass_of(const writer *w, const rt_event *e)
{
    return e->backward ? &w->plan->backward : &w->plan->forward;
}

static void comma(writer *w)
{
    fputs(w->begun ? ",\n" : "\n", w->f);
    w->begun = true;
}

static void name_track(writer *w, const char *what, int32_t process, int64_t track, const char *format,
                       int n)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s %d", format, n);
    comma(w);
    fprintf(
        w->f,
        "{\"ph\": \"M\", \"name\": \"%s_name\", \"pid\": %d, \"tid\": %lld, \"args\": {\"name\": \"%s\"}}",
        what, (int)process, (long long)track, strcmp(format, "messages") == 0 ? format : name);
}

/* A slice: begin and length; the caller closes args and the event. */
static void slice(writer *w, const rt_event *e, int64_t track, const char *category, const char *name)
{
    comma(w);
    fprintf(w->f,
            "{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %d, \"tid\": %lld, \"ts\": %.3f, "
            "\"dur\": %.3f, \"args\": {\"pass\": \"%s\", \"step\": %lld",
            category, name, (int)e->process, (long long)track, 1e6 * e->begin, 1e6 * (e->end - e->begin),
            pass_name(e), (long long)e->step);
}

static void slice_end(writer *w)
{
    fputs("}}", w->f);
}

static void tile(writer *w, const rt_event *e)
{
    const int64_t number = w->order[e->backward][w->of_rank[e->backward][e->rank] + e->index];
    const rt_tile *t = &pass_of(w, e)->tiles[number];
    char name[64];
    (void)snprintf(name, sizeof name, "tile q%d k%d", (int)t->q.shard, (int)t->kv.shard);
    slice(w, e, 1 + e->rank, "compute", name);
    fprintf(
        w->f,
        ", \"rank\": %d, \"tile\": %lld, \"pairs\": %lld, \"q_slots\": [%lld, %lld], \"k_slots\": [%lld, "
        "%lld], \"heads\": [%lld, %lld], \"call\": %d",
        (int)e->rank, (long long)number, (long long)e->pairs, (long long)t->q.slot0, (long long)t->q.slot1,
        (long long)t->kv.slot0, (long long)t->kv.slot1, (long long)t->q.head0, (long long)t->q.head1,
        (int)t->call);
    slice_end(w);
    share *s = &w->ranks[e->rank];
    s->tiles++;
    s->pairs += e->pairs;
    s->compute += e->end - e->begin;
}

/* One end of an asynchronous event. */
static void end_of_flight(writer *w, const rt_event *e, const char *phase, const char *name, double at)
{
    const char *side = e->kind == RT_EVENT_SEND ? "s" : "r";
    comma(w);
    fprintf(w->f,
            "{\"ph\": \"%s\", \"cat\": \"message\", \"name\": \"%s\", \"id\": \"%s%d.%d.%lld.%lld\", "
            "\"pid\": %d, "
            "\"tid\": 0, \"ts\": %.3f",
            phase, name, side, (int)e->process, e->backward ? 1 : 0, (long long)e->step,
            (long long)e->index, (int)e->process, 1e6 * at);
}

static void flight(writer *w, const rt_event *e)
{
    char name[80] = "collective";
    if (e->index >= 0)
        (void)snprintf(name, sizeof name, "%s %s rank %d %s %d", rt_payload_name(e->payload),
                       e->kind == RT_EVENT_SEND ? "from" : "to", (int)e->rank,
                       e->kind == RT_EVENT_SEND ? "to" : "from", (int)e->peer);
    end_of_flight(w, e, "b", name, e->begin);
    fprintf(w->f,
            ", \"args\": {\"pass\": \"%s\", \"step\": %lld, \"move\": %lld, \"bytes\": %lld, \"messages\": "
            "%lld}}",
            pass_name(e), (long long)e->step, (long long)e->index, (long long)e->bytes,
            (long long)e->messages);
    end_of_flight(w, e, "e", name, e->end);
    fputs("}", w->f);
    if (e->kind == RT_EVENT_SEND && e->rank >= 0) {
        w->ranks[e->rank].bytes += e->bytes;
        w->ranks[e->rank].messages++;
    }
}

/* Whether plan rank r is run by this process: consecutive ranks are. */
static bool runs(const writer *w, const rt_trace_head *head, int32_t process, int32_t r)
{
    return (int64_t)r * head->processes / w->plan->ranks == process;
}

/* The step is over: on the track of each rank of the process, what it did. */
static void step(writer *w, const rt_event *e, const rt_trace_head *head, double waited)
{
    char name[48];
    (void)snprintf(name, sizeof name, "%s step %lld", pass_name(e), (long long)e->step);
    slice(w, e, 0, "step", name);
    fprintf(w->f, ", \"bytes\": %lld, \"messages\": %lld, \"wait_us\": %.3f", (long long)e->bytes,
            (long long)e->messages, 1e6 * waited);
    slice_end(w);
    for (int32_t r = 0; r < w->plan->ranks; r++) {
        if (!runs(w, head, e->process, r))
            continue;
        share *s = &w->ranks[r];
        slice(w, e, 1 + r, "rank", name);
        fprintf(
            w->f,
            ", \"rank\": %d, \"compute_us\": %.3f, \"wait_us\": %.3f, \"tiles\": %lld, \"pairs\": %lld, "
            "\"bytes\": %lld, \"messages\": %lld",
            (int)r, 1e6 * s->compute, 1e6 * waited, (long long)s->tiles, (long long)s->pairs,
            (long long)s->bytes, (long long)s->messages);
        slice_end(w);
        *s = (share){0};
    }
}

static void head_write(FILE *f, const rt_plan *plan, const rt_layout *l, const rt_trace_head *head)
{
    const rt_run_stats *t = &head->total;
    fprintf(
        f,
        "{\"displayTimeUnit\": \"ms\",\n\"otherData\": {\"schema\": 1, \"kind\": \"trace\", \"version\": "
        "\"%s\", \"plan\": \"%s\", \"layout\": \"%s\", \"ranks\": %d, \"processes\": %d, \"threads\": %d, "
        "\"arithmetic\": \"%s\",\n",
        RT_VERSION, plan->name, rt_layout_name(l->kind), (int)plan->ranks, head->processes, head->threads,
        head->arithmetic);
    fprintf(f,
            "  \"seconds\": %.9g, \"compute_seconds\": %.9g, \"wait_seconds\": %.9g, "
            "\"communication_seconds\": "
            "%.9g, \"hidden_seconds\": %.9g, \"overlap\": %.9g,\n",
            t->seconds, t->compute_seconds, t->wait_seconds, t->comm_seconds, t->hidden_seconds,
            rt_show_overlap(t));
    fprintf(f,
            "  \"bytes\": %llu, \"messages\": %llu, \"steps\": {\"p2p\": %lld, \"alltoallw\": %lld, "
            "\"allgatherv\": %lld}},\n\"traceEvents\": [",
            (unsigned long long)t->bytes_sent, (unsigned long long)t->messages, (long long)t->steps[0],
            (long long)t->steps[1], (long long)t->steps[2]);
}

/* The number in its pass of each tile of a rank, which an event counts by its rank. */
static rt_status order_create(rt_context *ctx, writer *w)
{
    const int32_t ranks = w->plan->ranks;
    for (int backward = 0; backward < 2; backward++) {
        const rt_pass *pass = backward ? &w->plan->backward : &w->plan->forward;
        int64_t *order = rt_alloc(ctx, pass->n_tiles, sizeof *order),
                *first = rt_calloc(ctx, (int64_t)ranks + 2, sizeof *first);
        w->order[backward] = order;
        w->of_rank[backward] = first;
        if (order == NULL || first == NULL)
            return RT_ERR_NOMEM;
        for (int64_t i = 0; i < pass->n_tiles; i++)
            first[pass->tiles[i].rank + 2]++;
        for (int32_t r = 0; r <= ranks; r++)
            first[r + 1] += first[r];
        for (int64_t i = 0; i < pass->n_tiles; i++) /* first[r + 1] is where rank r's next one goes */
            order[first[pass->tiles[i].rank + 1]++] = i;
    }
    return RT_OK;
}

rt_status rt_show_trace(rt_context *ctx, FILE *f, const rt_trace *t, const rt_plan *plan,
                        const rt_layout *l, const rt_trace_head *head)
{
    writer w = {.f = f, .plan = plan, .l = l};
    w.ranks = rt_calloc(ctx, plan->ranks, sizeof *w.ranks);
    const rt_status st = w.ranks != NULL ? order_create(ctx, &w) : RT_ERR_NOMEM;
    if (st != RT_OK)
        goto free_writer;
    head_write(f, plan, l, head);
    for (int32_t p = 0; p < head->processes; p++) {
        name_track(&w, "process", p, 0, "process", p);
        name_track(&w, "thread", p, 0, "messages", 0);
        for (int32_t r = 0; r < plan->ranks; r++)
            if (runs(&w, head, p, r))
                name_track(&w, "thread", p, 1 + r, "rank", r);
    }
    double waited = 0;
    for (int64_t i = 0; i < t->count; i++) {
        const rt_event *e = &t->events[i];
        switch (e->kind) {
        case RT_EVENT_STEP:
            step(&w, e, head, waited);
            waited = 0;
            break;
        case RT_EVENT_TILE:
            tile(&w, e);
            break;
        case RT_EVENT_SEND:
        case RT_EVENT_RECEIVE:
            flight(&w, e);
            break;
        case RT_EVENT_WAIT:
            waited += e->end - e->begin;
            slice(&w, e, 0, "wait", "wait");
            slice_end(&w);
            break;
        case RT_EVENT_POST:
            slice(&w, e, 0, "post", "post");
            fprintf(f, ", \"bytes\": %lld, \"messages\": %lld", (long long)e->bytes,
                    (long long)e->messages);
            slice_end(&w);
            break;
        case RT_EVENT_LAND:
            slice(&w, e, 0, "land", "land");
            slice_end(&w);
            break;
        case RT_EVENT_COUNT:
            break;
        }
    }
    fputs("\n]}\n", f);
free_writer:
    for (int backward = 0; backward < 2; backward++) {
        rt_free(w.order[backward]);
        rt_free(w.of_rank[backward]);
    }
    rt_free(w.ranks);
    return st;
}
