/* exact_run.h: a problem in memory through rt_run in arithmetic exact. */
#ifndef RT_TESTS_EXACT_RUN_H
#define RT_TESTS_EXACT_RUN_H

#include <omp.h>

#include "runner.h"

static inline void exact_load(void *arg, rt_tensor_id id, int64_t b, int64_t pos, int64_t h, double *row)
{
    const t_tensors *t = arg;
    memcpy(row, t_row(t, id, b, pos, h), (size_t)t_width(t->p, id) * sizeof *row);
}

static inline void exact_store(void *arg, rt_tensor_id id, int32_t rank, int64_t slot, int64_t b,
                               int64_t pos, int64_t h, const double *row)
{
    const t_tensors *t = arg;
    (void)rank;
    (void)slot;
    memcpy(t_row(t, id, b, pos, h), row, (size_t)t_width(t->p, id) * sizeof *row);
}

/* Results in `format` and `lse_format`, this process alone. */
static inline void exact_run(t_tensors *t, const t_how *how, bool backward, rt_dtype format,
                             rt_dtype lse_format, rt_run_stats *stats)
{
    rt_context ctx = {0};
    rt_comm *comm = NULL;
    rt_layout l;
    rt_plan plan;
    t_assert_ok(&ctx, rt_comm_self(&ctx, &comm));
    t_assert_ok(&ctx, t_layout_create(&ctx, t->p, how, &l));
    t_assert_ok(&ctx, t_plan_create(&ctx, t->p, &l, how->plan, &plan));
    const int threads = omp_get_max_threads();
    omp_set_num_threads(how->threads > 0 ? how->threads : 1);
    const rt_run_io io = {.load = exact_load,
                          .store = exact_store,
                          .arg = t,
                          .backward = backward,
                          .result = format,
                          .lse_result = lse_format};
    memset(stats, 0, sizeof *stats);
    t_assert_ok(&ctx, rt_run(&ctx, comm, t->p, &l, &plan, rt_arithmetic_find("exact"), &io, stats));
    omp_set_num_threads(threads);
    rt_plan_reset(&plan);
    rt_layout_reset(&l);
    rt_comm_destroy(&comm);
}

#endif
