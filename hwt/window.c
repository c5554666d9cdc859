/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Timeouts that may fire anywhere in a window: gathered, to wake the worker less often, or
 * spread, so that no herd thunders.
 */

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

/* splitmix64, by Sebastiano Vigna; each thread has its own sequence. */
static uint64_t next_random(void)
{
    static _Thread_local uint64_t state __attribute__((tls_model("initial-exec")));
    if (state == 0) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        state = (uintptr_t)&state ^ (HWT_SEC(now.tv_sec) + (uint64_t)now.tv_nsec);
    }
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t spread(const struct window *window)
{
    uint64_t width = window->latest - window->earliest;
    return window->earliest + (width == UINT64_MAX ? next_random() : next_random() % (width + 1));
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
