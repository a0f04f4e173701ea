/* What problem.c takes from score.c. */
#ifndef RT_PROBLEM_SCORE_H
#define RT_PROBLEM_SCORE_H

#include <ringtrue/problem.h>

/* The rules of alibi, bias, softcap, sink and dropout. */
rt_status rt_score_check(rt_context *ctx, const rt_problem *p) RT_NODISCARD;
/* h with these fields mixed in; h itself when none is set. */
uint64_t rt_score_digest(uint64_t h, const rt_problem *p);

#endif
