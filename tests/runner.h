/* runner.h: problems in memory run through rt_run, and the plain triple loop in long double that they are
 * held to. */
#ifndef RT_TESTS_RUNNER_H
#define RT_TESTS_RUNNER_H

#include <ringtrue/ringtrue.h>

#include "check.h"

/* All tensors of a problem, dense, (B, S, H, width) by original position; LSE has width 1. */
typedef struct {
    const rt_problem *p;
    double *x[RT_RESULT_COUNT]; /* dsink and dbias have no rows where the problem has no sink and no bias */
    int32_t *stored[RT_RESULT_COUNT]; /* rows: how often the run stored each */
} t_tensors;

/* Extents of a result's rows: batches, positions, heads, elements. */
int64_t t_batch(const rt_problem *p, rt_tensor_id id);
int64_t t_width(const rt_problem *p, rt_tensor_id id);
int64_t t_length(const rt_problem *p, rt_tensor_id id);
int64_t t_heads(const rt_problem *p, rt_tensor_id id);
int64_t t_rows(const rt_problem *p, rt_tensor_id id);
double *t_row(const t_tensors *t, rt_tensor_id id, int64_t b, int64_t pos, int64_t h);

void t_tensors_create(const rt_problem *p, t_tensors *t);
void t_tensors_free(t_tensors *t);
/* q, k, v and dout of a family, as binary64. */
void t_fill(t_tensors *t, rt_family family, uint64_t seed);
/* Inputs of one set to another of the same problem. */
void t_copy_inputs(t_tensors *to, const t_tensors *from);

/* A problem by value; boundaries (documents + 1 of each, or NULL) are borrowed: never reset it. */
rt_problem t_problem(int64_t batch, int64_t sq, int64_t sk, int64_t hq, int64_t hkv, int64_t d, int64_t dv,
                     rt_mask_kind mask);

/* Whether query i sees key j in the first batch, straight from the definition (masks.h). */
bool t_sees(const rt_problem *p, int64_t i, int64_t j);

typedef struct {
    rt_layout_kind layout; /* positions: random permutations, random counts per rank */
    int32_t ranks;
    /* a planner's name, "split" (ring in quarters) or "pass-q" (states come home by joins) */
    const char *plan;
    int threads; /* 0: as it is */
} t_how;

rt_status t_layout_create(rt_context *ctx, const rt_problem *p, const t_how *how,
                          rt_layout *out) RT_NODISCARD;
rt_status t_plan_create(rt_context *ctx, const rt_problem *p, const rt_layout *l, const char *name,
                        rt_plan *out) RT_NODISCARD;
/* Run over comm (NULL: this process alone) in arithmetic f64; results of the rows that this process holds.
 */
rt_status t_run_status(rt_context *ctx, rt_comm *comm, t_tensors *t, const t_how *how, bool backward,
                       rt_run_stats *stats) RT_NODISCARD;
/* How the runs that follow send their messages, and where they are recorded (NULL: nowhere). */
void t_run_with(rt_transport transport, rt_trace *trace);
/* The same, alone, which must succeed and store every row of every result exactly once. */
void t_run(t_tensors *t, const t_how *how);

/* The arithmetic of the runs from now on, "f64" at first. */
void t_run_in(const char *arithmetic);

/* Truth, and how far from it arithmetic f64 may be (runner.c derives it). */
void t_reference(const t_tensors *in, t_tensors *want, t_tensors *bound);
/* The largest |got - want| / bound over a result; infinite where a NaN, an infinity or an empty row is not
 * as wanted. */
double t_worst(const t_tensors *got, const t_tensors *want, const t_tensors *bound, rt_tensor_id id);
/* Results of a run, all within the bound; *worst (NULL allowed) keeps the largest ratio. */
void t_check_close(const t_tensors *got, const t_tensors *want, const t_tensors *bound, const char *what,
                   double *worst);
/* The same bits in every result. */
void t_check_same(const t_tensors *got, const t_tensors *want, const char *what);

#endif
