/* Units of a backward pass: each owns the gradients of one block of keys and adds to those of every row
 * block, where units must take turns: block after block of keys, whatever thread is ready first, so that a
 * sum's order is fixed.
 *
 * Units are started in their order (next) and a unit waits only for an earlier one, so the earliest never
 * waits. */
#ifndef RT_ARITHMETIC_TURNS_H
#define RT_ARITHMETIC_TURNS_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct {
    atomic_llong next;  /* the next unit to start */
    atomic_llong *turn; /* per place: how many units have passed there */
} rt_turns;

static inline int64_t rt_turns_next(rt_turns *t)
{
    return (int64_t)atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);
}

/* Wait until `before` units have passed the place. */
static inline void rt_turns_wait(const rt_turns *t, int64_t place, int64_t before)
{
    for (int spins = 0; atomic_load_explicit(&t->turn[place], memory_order_acquire) != (long long)before;
         spins++)
        if (spins > 1000)
            (void)sched_yield();
}

static inline void rt_turns_pass(rt_turns *t, int64_t place, int64_t before)
{
    atomic_store_explicit(&t->turn[place], (long long)before + 1, memory_order_release);
}

#endif
