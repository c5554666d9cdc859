/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_SCAN_H
#define HWT_SCAN_H

/* Scans of a shelf's rounds, which look at nothing else. See bucket.h. */

#include <stdbool.h>
#include <stdint.h>

struct hwt_shelf {
    uint32_t *rounds; /* capacity of them; then as many ids */
    uint32_t used;    /* timeouts and holes */
    uint32_t live;    /* timeouts */
    uint32_t capacity;
    uint32_t holes_since; /* with holes: none was made before this round */
};

/* Four rounds at a time, by the compilers' vector types: on any machine, with its own
 * instructions where it has them. The arrays are aligned for a uint32_t only. */
typedef uint32_t hwt_four __attribute__((vector_size(16), aligned(4), may_alias));

static inline bool hwt_scan_any(hwt_four has)
{
    typedef uint64_t two __attribute__((vector_size(16)));
    two halves = (two)has;
    return halves[0] | halves[1];
}

/* The first place from `at` on that has the round, or `used`. */
static inline uint32_t hwt_scan_find(const struct hwt_shelf *shelf, uint32_t at, uint32_t round)
{
    const uint32_t *rounds = shelf->rounds;
    for (; at < shelf->used && at % 8 != 0; at++) {
        if (rounds[at] == round)
            return at;
    }
    for (; at + 8 <= shelf->used; at += 8) {
        const hwt_four *rows = (const hwt_four *)(rounds + at);
        if (hwt_scan_any((hwt_four)((rows[0] == round) | (rows[1] == round))))
            break;
    }
    for (; at < shelf->used && rounds[at] != round; at++)
        ;
    return at;
}

/* The least of round - now, modulo 2^32: holes come out greatest. */
static inline uint32_t hwt_scan_least(const struct hwt_shelf *shelf, uint32_t now)
{
    const uint32_t *rounds = shelf->rounds;
    uint32_t i = 0;
    hwt_four leasts = ~(hwt_four){ 0 };
    for (; i + 4 <= shelf->used; i += 4) {
        hwt_four its = *(const hwt_four *)(rounds + i) - now;
        hwt_four less = (hwt_four)(its < leasts);
        leasts = (its & less) | (leasts & ~less);
    }
    uint32_t least = UINT32_MAX;
    for (unsigned lane = 0; lane < 4; lane++)
        least = leasts[lane] < least ? leasts[lane] : least;
    for (; i < shelf->used; i++)
        least = rounds[i] - now < least ? rounds[i] - now : least;
    return least;
}

/* How many there are from `from` on. */
static inline uint32_t hwt_scan_count(const struct hwt_shelf *shelf, uint32_t from, uint32_t round)
{
    uint32_t i = from;
    hwt_four counts = { 0 };
    for (; i + 4 <= shelf->used; i += 4)
        counts -=
            (hwt_four)(*(const hwt_four *)(shelf->rounds + i) == round); /* true is all ones */
    uint32_t count = counts[0] + counts[1] + counts[2] + counts[3];
    for (; i < shelf->used; i++)
        count += shelf->rounds[i] == round;
    return count;
}

/* The timeouts whose remaining rounds are fewer: holes have more, see bucket.h. */
static inline uint32_t hwt_scan_count_within(const struct hwt_shelf *shelf, uint32_t now,
                                             uint32_t reach)
{
    uint32_t i = 0;
    hwt_four counts = { 0 };
    for (; i + 4 <= shelf->used; i += 4)
        counts -= (hwt_four)(*(const hwt_four *)(shelf->rounds + i) - now < reach);
    uint32_t count = counts[0] + counts[1] + counts[2] + counts[3];
    for (; i < shelf->used; i++)
        count += shelf->rounds[i] - now < reach;
    return count;
}

/* The first place from `at` on whose remaining rounds are fewer, or `used`. */
static inline uint32_t hwt_scan_within(const struct hwt_shelf *shelf, uint32_t at, uint32_t now,
                                       uint32_t reach)
{
    const uint32_t *rounds = shelf->rounds;
    for (; at + 4 <= shelf->used; at += 4) {
        if (hwt_scan_any((hwt_four)(*(const hwt_four *)(rounds + at) - now < reach)))
            break;
    }
    for (; at < shelf->used && rounds[at] - now >= reach; at++)
        ;
    return at;
}

#endif
