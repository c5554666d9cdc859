/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Timeouts that may fire at any instant of a window. They are gathered, to wake the worker less
 * often. */

#include <errno.h>

#include "hwt/timer/timer.h"

struct window {
    uint64_t earliest, latest; /* instants */
};

static int open_window(const struct hwt_shared *shared, uint64_t earliest, uint64_t latest,
                       struct window *ret_window)
{
    if (earliest > latest)
        return -EINVAL;
    uint64_t now = hwt_time_from(&shared->time);
    ret_window->earliest = hwt_saturating_add(now, earliest);
    ret_window->latest = hwt_saturating_add(now, latest);
    return 0;
}

/* The number from `first` to `last` that is divisible by the greatest power of two. Windows that
 * overlap come to the same number, though they know nothing of each other. */
static uint64_t roundest(uint64_t first, uint64_t last)
{
    if (first == 0)
        return 0;
    unsigned highest = 63 - (unsigned)__builtin_clzll((first - 1) ^ last);
    return last >> highest << highest;
}

/* The instant at which a parked worker wakes next, if in the window; else its roundest tick. */
static uint64_t gathered(const struct hwt_shared *shared, const struct window *window)
{
    const struct hwt_ticks *ticks = &shared->ticks;
    /* Relaxed: if it is old by now, one wake-up was not spared. */
    uint64_t wakes = atomic_load_explicit(&shared->gate.wake_before, memory_order_relaxed);
    if (wakes == HWT_GATE_OPEN || wakes > window->latest ||
        hwt_ticks_at(ticks, wakes) < hwt_ticks_at(ticks, window->earliest))
        wakes = hwt_ticks_instant(ticks, roundest(hwt_ticks_at(ticks, window->earliest),
                                                  hwt_ticks_at(ticks, window->latest)));
    return wakes > window->earliest ? wakes : window->earliest;
}

int hwt_timer_new_timeout_within(hwt_timer *timer, const hwt_task *task, void *arg,
                                 uint64_t earliest, uint64_t latest, hwt_timeout *ret_timeout)
{
    struct window window;
    if (!timer || open_window(&timer->shared, earliest, latest, &window) < 0)
        return -EINVAL;
    return hwt_timer_new_timeout_at(timer, task, arg, gathered(&timer->shared, &window),
                                    ret_timeout);
}

bool hwt_timeout_reschedule_within(hwt_timeout timeout, uint64_t earliest, uint64_t latest)
{
    struct window window;
    if (!timeout.entry)
        return false;
    struct hwt_shared *shared = hwt_shared_of(timeout.entry);
    /* A handle that is gone may be of a slab that is empty. */
    if (!hwt_state_live(hwt_entry_state(timeout.entry), timeout.generation) ||
        open_window(shared, earliest, latest, &window) < 0)
        return false;
    return hwt_timeout_reschedule_at(timeout, gathered(shared, &window));
}
