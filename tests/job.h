/* The processes of a test over MPI: made once, since MPI starts once.  Each test program includes it once. */
#ifndef RT_TESTS_JOB_H
#define RT_TESTS_JOB_H

#include <ringtrue/run.h>

#include "check.h"

static rt_comm *job;
static int32_t size, me; /* how many processes, and which of them this is */

static int job_setup(void **state)
{
    (void)state;
    rt_context ctx = {0};
    if (rt_comm_create(&ctx, &job) != RT_OK) {
        print_error("%s\n", ctx.message);
        return -1;
    }
    size = rt_comm_size(job);
    me = rt_comm_rank(job);
    return 0;
}

static int job_teardown(void **state)
{
    rt_comm_destroy(&job);
    return job == NULL ? t_teardown_memory(state) : -1;
}

#endif
