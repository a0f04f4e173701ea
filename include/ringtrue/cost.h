/** @file cost.h  What a plan would take on a described machine, by a simple model.
 *
 *  Every rank computes F operations a second and has a link that sends and receives at the same time, each at
 *  beta bytes a second; a message costs alpha seconds besides its bytes, and the messages of a rank go one after the
 *  other (Hockney's alpha-beta model).  In step t, for rank r:
 *
 *      compute(t, r) = operations(t, r) / F            2 (D + Dv) a visible pair forward, 2 (3 D + 2 Dv) backward
 *      comm(t, r)    = max(sum over moves from r of (alpha + bytes / beta), the same over moves to r)
 *      compute(t)    = max over r, comm(t) = max over r
 *      time(t)       = max(compute(t), comm(t))        moves are in flight while the tiles compute
 *      exposed(t)    = max(0, comm(t) - compute(t))
 *
 *  and a pass takes the sum over its steps: a step ends when its last rank has ended it.  Ranks that wait for their
 *  neighbours only are never slower than that.  A move from a rank to itself is free.  All calls local. */
#ifndef RINGTRUE_COST_H
#define RINGTRUE_COST_H

#include <ringtrue/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rt_machine {
    double bandwidth; /**< beta, bytes a second in each direction of a rank's link, > 0 */
    double latency;   /**< alpha, seconds a message, >= 0 */
    double flops;     /**< F, operations a second of a rank, > 0 */
    double element;   /**< bytes of every element on the wire; 0: as rt_wire_sizes says */
} rt_machine;

/** Seconds. */
typedef struct {
    double compute, comm, time, exposed;
} rt_step_cost;

typedef struct {
    int64_t steps;
    rt_step_cost *step; /**< rt_alloc */
    rt_step_cost total; /**< the sums */
} rt_pass_cost;

/** Price a pass.  RT_ERR_ARG for a machine outside of the ranges above. */
rt_status rt_plan_cost(rt_context *ctx, const rt_pass *pass, const rt_problem *p, const rt_layout *l,
                       const rt_wire_sizes *w, const rt_machine *machine, bool backward,
                       rt_pass_cost *out) RT_NODISCARD;
void rt_pass_cost_reset(rt_pass_cost *c);

/** Read "bandwidth=25GB/s,latency=2us,flops=100TF": bandwidth and flops must be given, latency is 0 if it is not.
 *  Units: B/s, and s, and F (or FLOP/s), with the prefixes k M G T P (powers of 1000), Ki Mi Gi Ti (of 1024, bandwidth)
 *  and m u n (seconds); without a unit the number is in B/s, s and FLOP/s.  element=8 may follow: the bytes of an
 *  element, as in a run in binary64.  RT_ERR_ARG names what is wrong. */
rt_status rt_machine_parse(rt_context *ctx, const char *text, rt_machine *out) RT_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
