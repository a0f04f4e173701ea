/* Recording what happens in a run. */
#include "run/trace.h"
#include "run/comm.h"

#include <string.h>
#include <time.h>

double rt_run_now(void)
{
#ifdef RT_SMPI
    return MPI_Wtime(); /* simulated */
#endif
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

rt_status rt_trace_add(rt_context *ctx, rt_trace *trace, const rt_event *event)
{
    if (trace == NULL)
        return RT_OK;
    if (trace->count == trace->capacity) {
        const int64_t capacity = trace->capacity > 0 ? 2 * trace->capacity : 256;
        rt_event *events = rt_alloc(ctx, capacity, sizeof *events);
        if (events == NULL)
            return RT_ERR_NOMEM;
        if (trace->count > 0)
            memcpy(events, trace->events, (size_t)trace->count * sizeof *events);
        rt_free(trace->events);
        trace->events = events;
        trace->capacity = capacity;
    }
    trace->events[trace->count++] = *event;
    return RT_OK;
}

void rt_trace_reset(rt_trace *t)
{
    rt_free(t->events);
    memset(t, 0, sizeof *t);
}

rt_status rt_trace_gather(rt_context *ctx, rt_comm *c, const rt_trace *mine, rt_trace *out)
{
    void *all = NULL;
    int64_t *offsets = NULL;
    static const rt_event none;
    RT_TRY(rt_comm_gather(ctx, c, mine->count > 0 ? mine->events : &none,
                          mine->count * (int64_t)sizeof *mine->events, &all, &offsets));
    *out = (rt_trace){.events = all};
    if (all != NULL)
        out->count = out->capacity = offsets[rt_comm_size(c)] / (int64_t)sizeof *out->events;
    rt_free(offsets);
    return RT_OK;
}

static const char *const transport_names[] = {"auto", "p2p", "collective"};

const char *rt_transport_name(rt_transport t)
{
    return (int)t >= 0 && (int)t < 3 ? transport_names[t] : NULL;
}

bool rt_transport_parse(const char *name, rt_transport *out)
{
    for (int t = 0; t < 3; t++)
        if (strcmp(name, transport_names[t]) == 0) {
            *out = (rt_transport)t;
            return true;
        }
    return false;
}
