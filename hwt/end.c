/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The end of a timer: what its last pass has left. See worker.h. */

#include <sched.h>

#include "hwt/task.h"
#include "hwt/worker.h"

struct visitor {
    void (*unprocessed)(const hwt_task *task, void *arg, uint64_t remaining, void *data);
    void *data;
    uint64_t left;
};

/* Ends one timeout that came out of a bucket or a queue. It may come once more, where a thread
 * that cancels or moves it pushes it late. */
static void end_one(hwt_timer *timer, struct hwt_entry *entry, struct visitor *visitor)
{
    if (atomic_load_explicit(&entry->slot, memory_order_relaxed) == HWT_SLOT_ENDED)
        return;
    hwt_worker_leave_place(timer, entry);
    atomic_store_explicit(&entry->slot, HWT_SLOT_ENDED, memory_order_relaxed);
    if (hwt_timeout_abandon(entry)) {
        hwt_count(&timer->run_stats.unprocessed, 1, false);
        hwt_timer_release(timer);
        hwt_task_leave(timer, entry, visitor->unprocessed, visitor->data);
        visitor->left++;
    } else if (hwt_phase(atomic_load_explicit(&entry->state, memory_order_acquire)) ==
               HWT_PHASE_CANCELLED) {
        hwt_task_leave(timer, entry, NULL, NULL);
    }
}

/* Ends what is in a lane's queues. False: a thread is half-way through a push. */
static bool end_lane(hwt_timer *timer, struct hwt_lane *lane, struct visitor *visitor)
{
    struct hwt_entry *entry;
    bool stalled, stalled_too;
    bool whole = hwt_lane_splice_pending(lane);
    whole &= hwt_lane_splice_cancelled(lane);
    while ((entry = hwt_lane_pop_drained(lane, &stalled)) != NULL)
        end_one(timer, entry, visitor);
    while ((entry = hwt_lane_pop_reaped(lane, &stalled_too)) != NULL)
        end_one(timer, entry, visitor);
    return whole && !stalled && !stalled_too;
}

uint64_t hwt_worker_abandon(hwt_timer *timer,
                            void (*unprocessed)(const hwt_task *task, void *arg, uint64_t remaining,
                                                void *data),
                            void *data)
{
    struct hwt_worker *worker = &timer->worker;
    struct visitor visitor = { unprocessed, data, 0 };
    bool whole;
    /* The queues first: what is in transit comes through them, and is nowhere else. */
    do {
        whole = true;
        for (uint32_t i = 0; i <= timer->lane_count; i++)
            whole &= end_lane(timer, &timer->lanes[i], &visitor);
        whole &= atomic_load_explicit(&worker->transit, memory_order_relaxed) == 0;
        HWT_MEET(STOP_AGAIN);
        if (!whole)
            sched_yield();
    } while (!whole);

    HWT_MEET(STOP_TAKE);
    struct hwt_entry *batch[HWT_BATCH];
    size_t n;
    while ((n = hwt_wheel_take_any(&worker->wheel, batch, HWT_BATCH)) > 0) {
        for (size_t i = 0; i < n; i++)
            end_one(timer, batch[i], &visitor);
    }
    hwt_worker_publish_bytes(timer);
    return visitor.left;
}
