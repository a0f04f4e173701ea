/* Rings that take the queries chunk by chunk: the keys travel, or the queries do. */
#ifndef RT_PLAN_CHUNKED_H
#define RT_PLAN_CHUNKED_H

#include "plan/build.h"

typedef struct {
    int64_t chunk; /* slots of a shard that go round at once; 0: all */
} rt_chunked;

/* Passes for rt_plan_passes; arg: rt_chunked.
 * KV goes round, the queries stay; in the backward DKV follows it and comes home one hop later. */
rt_status rt_chunked_kv_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                             const void *arg) RT_NODISCARD;
/* Q goes round, the keys stay.  Forward: every rank's STATE goes straight to the owner of the queries, joined in
 * the order of the ring.  Backward: DO goes with Q, DQ follows one hop behind and comes home one hop later. */
rt_status rt_chunked_q_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                            const void *arg) RT_NODISCARD;

#endif
