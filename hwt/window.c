/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Timeouts that may fire anywhere in a window: gathered, to wake the worker less often, or
 * spread, so that no herd thunders.
 */

#include "hwt/base/random.h"
#include "hwt/timer.h"

struct window {
    uint64_t earliest, latest; /* instants */
};

static int open_window(const hwt_timer *timer, uint64_t earliest, uint64_t latest,
                       struct window *ret_window)
{
    if (!timer || earliest > latest)
        return -EINVAL;
    uint64_t now = hwt_timer_now(timer);
    ret_window->earliest = hwt_saturating_add(now, earliest);
    ret_window->latest = hwt_saturating_add(now, latest);
    return 0;
}

/* The number from `first` to `last` that is divisible by the greatest power of two: windows that
 * overlap come to the same one, though they know nothing of each other. */
static uint64_t roundest(uint64_t first, uint64_t last)
{
    if (first == 0)
        return 0;
    unsigned highest = 63 - (unsigned)__builtin_clzll((first - 1) ^ last);
    return last >> highest << highest;
}

/* Where a parked worker wakes next, if that is in the window, for the tick that begins there; else
 * in the roundest tick of it. */
static uint64_t gathered(const hwt_timer *timer, const struct window *window)
{
    const struct hwt_wheel *wheel = &timer->worker.wheel;
    /* Relaxed: if it is old by now, one wake-up was not spared. */
    uint64_t wakes = atomic_load_explicit(&timer->gate.wake_before, memory_order_relaxed);
    if (wakes <= HWT_GATE_SHORT || wakes > window->latest ||
        hwt_wheel_ticks(wheel, wakes) < hwt_wheel_ticks(wheel, window->earliest))
        wakes = hwt_wheel_instant(wheel, roundest(hwt_wheel_ticks(wheel, window->earliest),
                                                  hwt_wheel_ticks(wheel, window->latest)));
    return wakes > window->earliest ? wakes : window->earliest;
}

static uint64_t spread(const struct window *window)
{
    return window->earliest + hwt_random_up_to(hwt_random_own(), window->latest - window->earliest);
}

int hwt_timer_new_timeout_within(hwt_timer *timer, const hwt_task *task, void *arg,
                                 uint64_t earliest, uint64_t latest, hwt_timeout *ret_timeout)
{
    struct window window;
    int r = open_window(timer, earliest, latest, &window);
    if (r < 0)
        return r;
    return hwt_timer_new_timeout_at(timer, task, arg, gathered(timer, &window), ret_timeout);
}

int hwt_timer_new_timeout_spread(hwt_timer *timer, const hwt_task *task, void *arg,
                                 uint64_t earliest, uint64_t latest, hwt_timeout *ret_timeout)
{
    struct window window;
    int r = open_window(timer, earliest, latest, &window);
    if (r < 0)
        return r;
    return hwt_timer_new_timeout_at(timer, task, arg, spread(&window), ret_timeout);
}
