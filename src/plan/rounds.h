/* Schedules by rounds.  In a round each rank computes at most one pair of shards, one of which is its own: it
 * fetches the keys of others for its own queries, or it helps: fetches the queries of others for its own keys
 * and returns their partial one step later.  Balanced and adaptive plans are such schedules. */
#ifndef RT_PLAN_ROUNDS_H
#define RT_PLAN_ROUNDS_H

#include "plan/build.h"

typedef struct {
    int32_t q, kv; /* shards; q < 0: the rank is idle */
} rt_task;

/* Zero is empty; released by rt_schedule_reset. */
typedef struct {
    int32_t ranks;
    int64_t rounds, cap;
    rt_task *task; /* rounds x ranks */
} rt_schedule;

/* One more round, of idle ranks; *row (ranks long) is valid until the next one is added. */
rt_status rt_schedule_round(rt_context *ctx, rt_schedule *s, rt_task **row) RT_NODISCARD;
void rt_schedule_reset(rt_schedule *s);

/* The pass of a schedule (arg: rt_schedule).  What a round needs moves during the round before it; a step of
 * moves goes ahead where the first round needs something, one follows where the last leaves something. */
rt_status rt_rounds_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                         const void *arg) RT_NODISCARD;

#endif
