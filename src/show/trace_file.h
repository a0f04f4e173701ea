/* A run's trace as a file for Perfetto (ui.perfetto.dev) and chrome://tracing. */
#ifndef RT_SHOW_TRACE_FILE_H
#define RT_SHOW_TRACE_FILE_H

#include <stdio.h>

#include <ringtrue/ringtrue.h>

/* Of all processes together. */
typedef struct {
    int processes, threads;
    const char *arithmetic;
    rt_run_stats total; /* seconds: of the slowest; the other times, bytes and messages: sums */
} rt_trace_head;

/* The share of the communication time that was hidden under computation; 0 where there was none. */
double rt_show_overlap(const rt_run_stats *s);
/* Write the events, those of a process following each other in the order of their ends, as Chrome's JSON trace
 * events: a process each; in it a track "messages" (posting, waiting, landing, each message from its posting to
 * its completion) and a track per plan rank (its steps, and in them its tiles).  Times in microseconds. */
rt_status rt_show_trace(rt_context *ctx, FILE *f, const rt_trace *t, const rt_plan *plan,
                        const rt_layout *l, const rt_trace_head *head) RT_NODISCARD;

#endif
