/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A look at all that is pending, without stopping; and an end that waits for what is due soon. */

#include <errno.h>

#include "hwt/base/shield.h"
#include "hwt/core/request.h"
#include "hwt/core/task.h"

int64_t hwt_timer_visit(hwt_timer *timer,
                        bool (*visit)(hwt_timeout timeout, const hwt_task *task, void *arg,
                                      uint64_t remaining, void *data),
                        void *data)
{
    struct hwt_entry *entry;
    uint32_t number = 0, place = 0;
    int64_t visited = 0;
    if (!timer || !visit)
        return -EINVAL;
    while ((entry = hwt_pool_walk(&timer->shared.pool, &number, &place)) != NULL) {
        hwt_timeout timeout = { entry, hwt_generation(hwt_entry_state(entry)) };
        const hwt_task *task;
        uint64_t deadline;
        void *arg;
        if (hwt_timeout_get(timeout, &deadline, &task, &arg) < 0)
            continue;
        visited++;
        if (!visit(timeout, task, arg, hwt_time_until(&timer->shared.time, deadline), data))
            break;
    }
    return visited;
}

/* ---- a graceful end ---- */

/* Whether anything but HWT_NEVER is due before `until`. */
static bool any_due(const hwt_timer *timer, uint64_t until)
{
    struct hwt_entry *entry;
    uint32_t number = 0, seat = 0;
    uint64_t deadline;
    while ((entry = hwt_pool_walk(&timer->shared.pool, &number, &seat)) != NULL) {
        hwt_timeout timeout = { entry, hwt_generation(hwt_entry_state(entry)) };
        if (hwt_timeout_get(timeout, &deadline, NULL, NULL) == 0 && deadline < until)
            return true;
    }
    return false;
}

int64_t hwt_timer_end(hwt_timer *timer, uint64_t until,
                      void (*unprocessed)(const hwt_task *task, void *arg, uint64_t remaining,
                                          void *data),
                      void *data)
{
    if (!timer)
        return -EINVAL;
    if (hwt_in_callback(&timer->shared))
        return -EDEADLK;
    if (hwt_halted_by(timer, HWT_HALTED_FORKED))
        return 0;
    struct hwt_time *time = &timer->shared.time;
    uint64_t tick = timer->shared.ticks.duration;
    struct timespec pause = hwt_timespec(tick < HWT_MS(10) ? tick : HWT_MS(10));
    int shield = hwt_shield();
    hwt_halt(timer, HWT_HALTED_ENDING);
    if (timer->flags & HWT_NO_WORKER && time->clock)
        (void)hwt_timer_advance(timer, hwt_saturating_add(until, tick));
    while (!time->clock && !hwt_is_forked(&timer->shared) && any_due(timer, until) &&
           hwt_time_now(time) < hwt_saturating_add(until, 2 * tick)) {
        if (timer->flags & HWT_NO_WORKER)
            (void)hwt_timer_dispatch(timer);
        nanosleep(&pause, NULL);
    }
    int64_t left = hwt_timer_stop(timer, unprocessed, data);
    hwt_unshield(shield);
    return left;
}

/* ---- arming, whatever the state ---- */

int hwt_timer_set_at(hwt_timer *timer, const hwt_task *task, void *arg, uint64_t deadline,
                     hwt_timeout *timeout)
{
    if (!timer || !task || !task->run || !timeout)
        return -EINVAL;
    if (timeout->entry && hwt_timeout_reschedule_at(*timeout, deadline))
        return 0;
    int r = hwt_timer_new_timeout_at(timer, task, arg, deadline, timeout);
    return r < 0 ? r : 1;
}

int hwt_timer_set(hwt_timer *timer, const hwt_task *task, void *arg, uint64_t delay,
                  hwt_timeout *timeout)
{
    if (!timer)
        return -EINVAL;
    uint64_t deadline = hwt_saturating_add(hwt_time_from(&timer->shared.time), delay);
    return hwt_timer_set_at(timer, task, arg, deadline, timeout);
}
