/* What all processes must have been given the same. */
#ifndef RT_RUN_SAME_H
#define RT_RUN_SAME_H

#include "run/comm.h"

typedef struct {
    rt_context *ctx;
    rt_comm *comm;
    const rt_problem *p;
    const rt_layout *l;
    const rt_plan *plan; /* whole on process 0; elsewhere it may be a part with the ranks `of` in it */
    rt_ranks of;         /* the plan ranks of this process */
    bool backward;
    rt_transport transport;
    const char *arithmetic;
} rt_same;

/* RT_ERR_MPI on every process, naming what differs; RT_ERR_ARG where the plan of one lacks tiles that it needs.
 * Collective. */
rt_status rt_run_same(const rt_same *s) RT_NODISCARD;

#endif
