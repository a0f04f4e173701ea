/* bent.h: problems with ALiBi, bias, softcap, sinks and dropout for the judge's tests. */
#ifndef RT_TESTS_BENT_H
#define RT_TESTS_BENT_H

#include "emulator.h"

enum { ALIBI = 1, BIAS = 2, SOFTCAP = 4, SINK = 8, DROPOUT = 16 };

static const char *const shapes[] = {"bhss", "1hss", "b1ss", "11ss", "111s", "bh1s", "1h1s", "b11s"};

static inline rt_problem bent(rt_problem p, unsigned what, const char *shape, bool hides)
{
    if ((what & ALIBI) != 0)
        emu_alibi(&p);
    if ((what & BIAS) != 0)
        emu_bias(&p, shape, hides);
    p.softcap = (what & SOFTCAP) != 0 ? 2.5 : 0;
    if ((what & SINK) != 0)
        emu_sinks(&p, 2);
    if ((what & DROPOUT) != 0) {
        p.dropout = 0.25;
        p.dropout_seed = 41;
    }
    return p;
}

static const rt_layout_kind kinds[] = {RT_LAYOUT_CONTIGUOUS, RT_LAYOUT_ZIGZAG, RT_LAYOUT_STRIPED};

#endif
