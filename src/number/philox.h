/* Philox for many counters at once. */
#ifndef RT_NUMBER_PHILOX_H
#define RT_NUMBER_PHILOX_H

#include <stdint.h>

enum { RT_PHILOX_LANES = 8 };

/* Eight counters, x[word][lane], become their words: each lane is rt_philox of its counter. */
void rt_philox_lanes(const uint32_t key[2], uint32_t x[4][RT_PHILOX_LANES]);

#endif
