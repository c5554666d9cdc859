/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The state, deadline, task and arg of a timeout, by its handle. */

#include <errno.h>

#include "hwt/timer/timer.h"

hwt_state hwt_timeout_state(hwt_timeout timeout)
{
    if (!timeout.entry)
        return HWT_GONE;
    uint64_t state = hwt_entry_state(timeout.entry);
    if (hwt_generation(state) != timeout.generation || hwt_phase(state) == HWT_PHASE_NEW)
        return HWT_GONE;
    if (hwt_state_pending(state))
        return HWT_PENDING;
    if (hwt_phase(state) == HWT_PHASE_EXPIRED ||
        (hwt_phase(state) == HWT_PHASE_RUNNING && !(state & HWT_REARMED)))
        return HWT_EXPIRED;
    return HWT_CANCELLED;
}

int hwt_timeout_get(hwt_timeout timeout, uint64_t *ret_deadline, const hwt_task **ret_task,
                    void **ret_arg)
{
    if (hwt_timeout_state(timeout) != HWT_PENDING)
        return -ENOENT;
    struct hwt_entry *entry = timeout.entry;
    uint64_t deadline = hwt_entry_deadline(entry);
    const hwt_task *task = hwt_entry_task(entry);
    void *arg = hwt_entry_arg(entry);
    HWT_SCHED_POINT(ASK_AGAIN);
    /* This state is not older than the fields that were read before it. */
    if (hwt_timeout_state(timeout) != HWT_PENDING)
        return -ENOENT;
    if (ret_deadline)
        *ret_deadline = deadline;
    if (ret_task)
        *ret_task = task;
    if (ret_arg)
        *ret_arg = arg;
    return 0;
}

uint64_t hwt_timeout_remaining(hwt_timeout timeout)
{
    uint64_t deadline;
    struct hwt_shared *shared = timeout.entry ? hwt_shared_of(timeout.entry) : NULL;
    if (!shared || hwt_timeout_get(timeout, &deadline, NULL, NULL) < 0)
        return 0;
    return hwt_time_until(&shared->time, deadline);
}
