/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_STATS_H
#define HWT_STATS_H

/*
 * Counters. What callers do is counted in their lane, what runs is counted here. All are
 * relaxed but for this: pending is what was added and re-armed less what began, was
 * cancelled or was left over; whoever takes away releases, the reader acquires that first,
 * so it never sees an end without its beginning.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "hwt/hwt.h"

struct hwt_run_stats {
    _Atomic uint64_t expired;
    _Atomic uint64_t rearmed;
    _Atomic uint64_t unprocessed;
    _Atomic uint64_t wakeups;
    _Atomic uint64_t wheel_bytes; /* the worker's */
    _Atomic uint64_t lateness_max;
    _Atomic uint64_t lateness[64];
};

static inline void hwt_count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_release);
}

/* A run begins, `lateness` ns after its deadline. */
void hwt_stats_run(struct hwt_run_stats *stats, uint64_t lateness);

#endif
