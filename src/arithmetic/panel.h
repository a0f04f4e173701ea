/* A block that the mask cuts is done in panels of rows, each with the keys that one of its rows may see: near the diagonal of a
 * causal mask half the work. */
#ifndef RT_ARITHMETIC_PANEL_H
#define RT_ARITHMETIC_PANEL_H

#include "arithmetic/block.h"

enum { RT_PANEL = 128 };

/* Of keys key0 .. key0 + nk - 1, the range [*j0, *j1) (from key0) between the first and the last that one of n rows may see;
 * empty if none. */
static inline void rt_panel_span(const rt_blocks *b, int64_t row0, int64_t n, int64_t key0, int64_t nk, int64_t *j0, int64_t *j1)
{
    int64_t lo = INT64_MAX, hi = INT64_MIN;
    for (int64_t i = row0; i < row0 + n; i++)
        if (b->lo[i] < b->hi[i]) {
            lo = rt_min64(lo, b->lo[i]);
            hi = rt_max64(hi, b->hi[i]);
        }
    const int64_t *pos = b->k_pos + key0;
    *j0 = 0;
    *j1 = nk;
    while (*j0 < nk && (pos[*j0] < lo || pos[*j0] >= hi))
        (*j0)++;
    while (*j1 > *j0 && (pos[*j1 - 1] < lo || pos[*j1 - 1] >= hi))
        (*j1)--;
}

#endif
