/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A look at all pending timeouts, without a stop; and arming or moving in one call. */

#include <errno.h>

#include "hwt/timer/timer.h"

int64_t hwt_timer_visit(hwt_timer *timer,
                        bool (*visit)(hwt_timeout timeout, const hwt_task *task, void *arg,
                                      uint64_t remaining, void *data),
                        void *data)
{
    struct hwt_entry *entry;
    uint32_t number = 0, seat = 0;
    int64_t visited = 0;
    if (!timer || !visit)
        return -EINVAL;
    while ((entry = hwt_pool_walk(&timer->shared.pool, &number, &seat)) != NULL) {
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

/* ---- arming or moving ---- */

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
