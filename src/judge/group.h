/* Which keys of a row are one partial: the kernel calls of a plan, as a partition of the positions of a side. */
#ifndef RT_JUDGE_GROUP_H
#define RT_JUDGE_GROUP_H

#include <ringtrue/plan.h>

/* group_of[pos], in [0, *groups): two keys (side KV; queries for side Q) that some query (key) meets in two
 * calls have different groups, and those that it meets in one call have the same one, wherever such a
 * partition exists for all queries (keys) at once; else it is finer than the calls, never coarser.
 * again[pos] (NULL: not asked) for the positions of the other side: by how much the calls that touch it, all
 * heads of a key head's group together, outnumber the groups that it meets: where a group's query heads are
 * computed in calls of their own, each brings a contribution to the key's gradient. */
rt_status rt_call_groups(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_pass *pass,
                         rt_side side, int32_t *group_of, int32_t *groups, int32_t *again) RT_NODISCARD;

#endif
