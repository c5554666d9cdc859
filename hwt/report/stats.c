/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Counters and the lateness histogram. See counters.h. */

#include "hwt/worker/counters.h"

#include <errno.h>
#include <string.h>

#include "hwt/timer/timer.h"

static uint64_t read_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_acquire);
}

/* The lanes' counters. The counters of ends are read before those of beginnings. */
static void read_lanes(const struct hwt_lanes *lanes, hwt_stats *stats)
{
    uint32_t count = hwt_lanes_count(lanes);
    for (uint32_t i = 0; i < count; i++) {
        const struct hwt_lane *lane = hwt_lane_at(lanes, i);
        if (lane)
            stats->cancelled += read_counter(&lane->cancelled_count);
    }
    count = hwt_lanes_count(lanes);
    for (uint32_t i = 0; i < count; i++) {
        const struct hwt_lane *lane = hwt_lane_at(lanes, i);
        if (!lane)
            continue;
        stats->added += read_counter(&lane->added);
        stats->rejected += read_counter(&lane->rejected);
        stats->rescheduled += read_counter(&lane->rescheduled);
    }
}

static void read_pending(const hwt_timer *timer, hwt_stats *stats)
{
    const struct hwt_run_stats *runs = &timer->shared.stats;
    for (unsigned i = 0; i < 64; i++) {
        stats->lateness[i] = read_counter(&runs->lateness[i]);
        stats->expired += stats->lateness[i];
    }
    stats->unprocessed = read_counter(&runs->unprocessed);
    read_lanes(&timer->shared.lanes, stats);
    uint64_t begun = stats->added + read_counter(&runs->rearmed);
    uint64_t ended = stats->expired + stats->cancelled + stats->unprocessed;
    stats->pending = begun > ended ? begun - ended : 0;
}

uint64_t hwt_timer_pending(const hwt_timer *timer)
{
    hwt_stats stats = HWT_STATS_INIT;
    if (!timer)
        return 0;
    read_pending(timer, &stats);
    return stats.pending;
}

int hwt_stats_init(hwt_stats *stats, size_t size)
{
    if (!stats || size < HWT_STATS_SIZE_MIN)
        return -EINVAL;
    memset(stats, 0, size);
    stats->size = size;
    return 0;
}

int hwt_timer_stats(const hwt_timer *timer, hwt_stats *ret_stats)
{
    if (!timer || !ret_stats || ret_stats->size < HWT_STATS_SIZE_MIN)
        return -EINVAL;
    const struct hwt_run_stats *runs = &timer->shared.stats;
    hwt_stats stats = HWT_STATS_INIT;
    read_pending(timer, &stats);
    stats.wakeups = read_counter(&runs->wakeups);
    stats.memory = sizeof(*timer) + hwt_pool_bytes(&timer->shared.pool) +
                   read_counter(&runs->wheel_bytes) + hwt_lanes_bytes(&timer->shared.lanes);
    stats.lateness_max = read_counter(&runs->lateness_max);
    stats.lateness_sum = read_counter(&runs->lateness_sum);
    stats.fast_clock = timer->shared.time.uses_counter && hwt_counter_is_used();

    size_t size = ret_stats->size;
    stats.size = size;
    if (size > sizeof(stats))
        memset((char *)ret_stats + sizeof(stats), 0, size - sizeof(stats));
    memcpy(ret_stats, &stats, size < sizeof(stats) ? size : sizeof(stats));
    return 0;
}
