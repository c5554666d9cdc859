/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_NET_RANDOM_H
#define HWT_NET_RANDOM_H

/*
 * Random numbers, to spread attempts that would come together; not for secrets. The state of a
 * sequence is one word. Each thread has a sequence of its own, which a child of fork() begins anew.
 */

#include <stdint.h>

/* The next number of splitmix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
 * Generators", OOPSLA 2014. Any state is fine. */
static inline uint64_t hwt_random_next(uint64_t *sequence)
{
    *sequence += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t mixed = *sequence;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

/* From 0 to `most`, all equally likely: what is over `most` is drawn again. */
static inline uint64_t hwt_random_up_to(uint64_t *sequence, uint64_t most)
{
    uint64_t mask = UINT64_MAX >> __builtin_clzll(most | 1);
    uint64_t drawn;
    do {
        drawn = hwt_random_next(sequence) & mask;
    } while (drawn > most);
    return drawn;
}

/*
 * The calling thread's own sequence, to be used at once and not kept. The first call in a thread,
 * or in a child of fork(), asks the system for a seed.
 */
uint64_t *hwt_random_own(void);

#endif
