/* score_cases.h: random alibi, bias, softcap, sink and dropout for a small problem, ordinary and adversarial: equal scores by other
 * ways than equal products, sinks that equal a score, scores that a softcap takes to 0, biases that hide or all but hide. */
#ifndef RT_TESTS_SCORE_CASES_H
#define RT_TESTS_SCORE_CASES_H

#include <math.h>

#include "runner.h"
#include "scratch.h"

static inline int64_t score_below(uint64_t *s, int64_t n)
{
    return (int64_t)(t_random(s) % (uint64_t)n);
}

static inline double score_unit(uint64_t *s)
{
    return (double)(int64_t)(t_random(s) >> 11) * 0x1p-53 * 2 - 1;
}

/* One logit: coarse numbers often, so that sums meet. */
static inline double score_logit(uint64_t *s, int kind)
{
    switch (kind) {
    case 0:
        return 0.25 * (double)(score_below(s, 9) - 4);
    case 1:
        return 4 * score_unit(s);
    case 2:
        return score_below(s, 3) ? score_unit(s) : ldexp(score_unit(s), (int)score_below(s, 60) - 50);
    case 3: { /* a mask of large numbers, and now and then one beyond all others */
        static const double far[] = {-1e30, -1e9, -0x1.fffffep127, -1.7e308, -1e200, 1e100, 1e305};
        const int64_t which = score_below(s, 24);
        return which < 12 ? 0 : which < 22 ? far[which % 5] : far[which - 17];
    }
    case 4:
        return score_below(s, 3) ? score_unit(s) : (double)-T_INF;
    default:
        return 0;
    }
}

enum { SCORE_ALIBI = 1, SCORE_BIAS = 2, SCORE_CAP = 4, SCORE_SINK = 8, SCORE_DROP = 16, SCORE_ALL = 31 };

/* `what`: which of them; they are the problem's own (rt_problem_reset, or score_cases_free of
 * a problem that borrows the rest). */
static inline void score_cases_add(rt_problem *p, int what, uint64_t *s)
{
    static const char *const shapes[] = {"bhss", "1hss", "b1ss", "11ss", "111s", "b11s", "1h1s"};
    static const double caps[] = {1, 1.5, 30, 50, 0.0625, 1e-3, 1e5};
    static const double drops[] = {0.5, 0.25, 0.1, 0.9, 0.3, 1 - 0x1p-20};
    if ((what & SCORE_ALIBI) != 0) {
        p->alibi = rt_calloc(NULL, p->heads_q, sizeof *p->alibi);
        const bool usual = score_below(s, 2) == 0;
        for (int64_t h = 0; h < p->heads_q; h++)
            p->alibi[h] = usual ? rt_alibi_standard(h, p->heads_q) : score_logit(s, (int)score_below(s, 2));
    }
    if ((what & SCORE_BIAS) != 0) {
        assert_true(rt_bias_shape_parse(shapes[score_below(s, sizeof shapes / sizeof shapes[0])], p,
                                        p->bias_shape));
        const int64_t *n = p->bias_shape, count = n[0] * n[1] * n[2] * n[3];
        const int kind = (int)score_below(s, 6);
        p->bias = rt_calloc(NULL, count, sizeof *p->bias);
        for (int64_t x = 0; x < count; x++)
            p->bias[x] = score_logit(s, kind);
        p->no_dbias = score_below(s, 4) == 0;
    }
    if ((what & SCORE_CAP) != 0)
        p->softcap = caps[score_below(s, sizeof caps / sizeof caps[0])];
    if ((what & SCORE_SINK) != 0) {
        p->sink = rt_calloc(NULL, p->heads_q, sizeof *p->sink);
        const int kind = (int)score_below(s, 7);
        for (int64_t h = 0; h < p->heads_q; h++)
            p->sink[h] = kind == 5   ? 0
                         : kind == 6 ? 300 * score_unit(s)
                         : kind == 4 ? 1 + 0x1p-24 * (double)score_below(s, 9)
                                     : score_logit(s, kind);
    }
    if ((what & SCORE_DROP) != 0) {
        p->dropout = drops[score_below(s, sizeof drops / sizeof drops[0])];
        p->dropout_seed = t_random(s);
    }
}

static inline void score_cases_free(rt_problem *p)
{
    rt_free(p->alibi);
    rt_free(p->bias);
    rt_free(p->sink);
    p->alibi = p->bias = p->sink = NULL;
}

#endif
