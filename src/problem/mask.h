/* The mask's share of a problem's rules and digest. */
#ifndef RT_PROBLEM_MASK_H
#define RT_PROBLEM_MASK_H

#include <ringtrue/problem.h>

/* Window, prefix, slices, key_valid, dense; the sizes of the problem are known to be good. */
rt_status rt_mask_check(rt_context *ctx, const rt_problem *p) RT_NODISCARD;
/* Of the same fields; h as it is where none is set. */
uint64_t rt_mask_digest(uint64_t h, const rt_problem *p);
uint64_t rt_digest_mix(uint64_t h, uint64_t field);

#endif
