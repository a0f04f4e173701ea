/* A block that the mask cuts is done in panels of rows, each with the keys that one of its rows may see:
 * near the diagonal of a causal mask half the work. */
#ifndef RT_ARITHMETIC_PANEL_H
#define RT_ARITHMETIC_PANEL_H

#include "arithmetic/block.h"

enum { RT_PANEL = 128 };

/* Rows row0 .. row0 + n - 1 that are done together with keys key0 + j0 .. key0 + j1 - 1; `cut`: the mask
 * hides some of the pairs. */
typedef struct {
    int64_t row0, n, j0, j1;
    bool cut;
} rt_panel;

/* The keys between the first and the last that one of the panel's rows may see. */
static inline void rt_panel_span(const rt_blocks *b, int64_t key0, int64_t nk, rt_panel *p)
{
    int64_t lo_min = INT64_MAX, hi_max = INT64_MIN, lo_max = INT64_MIN, hi_min = INT64_MAX;
    for (int64_t i = p->row0; i < p->row0 + p->n; i++) {
        lo_max = rt_max64(lo_max, b->lo[i]);
        hi_min = rt_min64(hi_min, b->hi[i]);
        if (b->lo[i] < b->hi[i]) {
            lo_min = rt_min64(lo_min, b->lo[i]);
            hi_max = rt_max64(hi_max, b->hi[i]);
        }
    }
    const int64_t *pos = b->k_pos + key0;
    p->j0 = 0;
    p->j1 = nk;
    while (p->j0 < nk && (pos[p->j0] < lo_min || pos[p->j0] >= hi_max))
        p->j0++;
    while (p->j1 > p->j0 && (pos[p->j1 - 1] < lo_min || pos[p->j1 - 1] >= hi_max))
        p->j1--;
    p->cut = !b->interval && p->j0 < p->j1;
    for (int64_t j = p->j0; j < p->j1 && !p->cut; j++)
        p->cut = pos[j] < lo_max || pos[j] >= hi_min;
}

/* The next panel of rows row0 .. end - 1 of a block: all of them where the mask cuts nothing, else a few,
 * with neighbours that see the same keys whole. */
static inline rt_panel rt_panel_next(const rt_blocks *b, bool cut, int64_t row0, int64_t end, int64_t key0,
                                     int64_t nk)
{
    rt_panel p = {.row0 = row0, .n = end - row0, .j0 = 0, .j1 = nk, .cut = false};
    if (!cut)
        return p;
    p.n = rt_min64(RT_PANEL, end - row0);
    rt_panel_span(b, key0, nk, &p);
    while (!p.cut && p.row0 + p.n < end) {
        rt_panel more = {.row0 = p.row0 + p.n, .n = rt_min64(RT_PANEL, end - p.row0 - p.n)};
        rt_panel_span(b, key0, nk, &more);
        if (more.cut || more.j0 != p.j0 || more.j1 != p.j1)
            break;
        p.n += more.n;
    }
    return p;
}

#endif
