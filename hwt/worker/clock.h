/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_CLOCK_H
#define HWT_CLOCK_H

/* The present instant, for a timer. */

#include <stdatomic.h>

#include "hwt/base/counter.h"
#include "hwt/base/time.h"
#include "hwt/hwt.h"

/* Frozen, but for `last_pass`. */
struct hwt_time {
    hwt_clock clock; /* NULL: clock_id */
    void *clock_data;
    clockid_t clock_id;
    bool uses_counter;          /* the processor's counter may be read instead of the clock */
    _Atomic uint64_t last_pass; /* the worker's: the instant of the last pass */
};

static inline uint64_t hwt_time_now(const struct hwt_time *time)
{
    if (time->clock)
        return time->clock(time->clock_data);
    struct timespec now;
    clock_gettime(time->clock_id, &now); /* cannot fail: create has tried the clock */
    return hwt_from_timespec(now);
}

/* The instant at which a delay begins: now, or up to HWT_COUNTER_LATE later. */
static inline uint64_t hwt_time_from(const struct hwt_time *time)
{
    return time->uses_counter ? hwt_counter_now() : hwt_time_now(time);
}

/* The clock, or the instant that hwt_timer_advance() was given, whichever is later. */
static inline uint64_t hwt_time_reached(const struct hwt_time *time)
{
    uint64_t now = hwt_time_now(time);
    /* Relaxed: a number, it publishes nothing. */
    uint64_t last_pass = atomic_load_explicit(&time->last_pass, memory_order_relaxed);
    return now > last_pass ? now : last_pass;
}

/* Whether the deadline has passed. HWT_NEVER does not, whatever a clock or a caller says. */
static inline bool hwt_time_has_passed(const struct hwt_time *time, uint64_t deadline)
{
    return deadline < HWT_NEVER && deadline <= hwt_time_reached(time);
}

/* The instant reached, for figures: up to HWT_COUNTER_LATE earlier. */
static inline uint64_t hwt_time_reached_about(const struct hwt_time *time)
{
    if (!time->uses_counter)
        return hwt_time_reached(time);
    uint64_t now = hwt_saturating_sub(hwt_counter_now(), HWT_COUNTER_LATE);
    uint64_t last_pass = atomic_load_explicit(&time->last_pass, memory_order_relaxed);
    return now > last_pass ? now : last_pass;
}

/* How long it is until the deadline, at least 0; HWT_NEVER for HWT_NEVER. */
static inline uint64_t hwt_time_until(const struct hwt_time *time, uint64_t deadline)
{
    return deadline == HWT_NEVER ? HWT_NEVER : hwt_saturating_sub(deadline, hwt_time_from(time));
}

#endif
