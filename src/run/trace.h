/* Recording what happens in a run. */
#ifndef RT_RUN_TRACE_H
#define RT_RUN_TRACE_H

#include <ringtrue/run.h>

/* Seconds of a clock that only goes forward. */
double rt_run_now(void);
/* Append an event; trace may be NULL. */
rt_status rt_trace_add(rt_context *ctx, rt_trace *trace, const rt_event *event) RT_NODISCARD;

#endif
