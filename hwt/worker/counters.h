/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_COUNTERS_H
#define HWT_COUNTERS_H

/*
 * Counters. Each lane counts what its callers do. The threads that run tasks count the runs here.
 * Pending is what was added and re-armed, less what began, was cancelled or was left over. A
 * counter is written with release. A reader acquires, and reads the ends first, so it sees no end
 * without its beginning.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "hwt/hwt.h"

struct hwt_run_stats {
    _Atomic uint64_t rearmed;
    _Atomic uint64_t unprocessed;
    _Atomic uint64_t wakeups;
    _Atomic uint64_t wheel_bytes; /* the worker's */
    _Atomic uint64_t lateness_max;
    _Atomic uint64_t lateness_sum;
    _Atomic uint64_t lateness[64]; /* their sum is what expired */
};

/* Every caller's hwt_stats has these fields. */
#define HWT_STATS_SIZE_MIN (offsetof(hwt_stats, lateness) + sizeof(((hwt_stats *)NULL)->lateness))

/* Adds to a counter, and returns its value before. If others may write it at the same time, it is
 * `contended`, and the addition is a locked operation. */
static inline uint64_t hwt_count(_Atomic uint64_t *counter, uint64_t n, bool contended)
{
    if (contended)
        return atomic_fetch_add_explicit(counter, n, memory_order_release);
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + n, memory_order_release);
    return before;
}

/* A run begins, `lateness` ns after its deadline. */
static inline void hwt_stats_run(struct hwt_run_stats *stats, uint64_t lateness, bool contended)
{
    unsigned power = 63 - (unsigned)__builtin_clzll(lateness | 1);
    hwt_count(&stats->lateness[power], 1, contended);
    hwt_count(&stats->lateness_sum, lateness, contended);
    uint64_t max = atomic_load_explicit(&stats->lateness_max, memory_order_relaxed);
    if (!contended && lateness > max)
        atomic_store_explicit(&stats->lateness_max, lateness, memory_order_relaxed);
    while (contended && lateness > max &&
           !atomic_compare_exchange_weak_explicit(&stats->lateness_max, &max, lateness,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

#endif
