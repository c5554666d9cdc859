/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Stopping a timer.
 *
 * Stop sets STOPPING, waits for the worker, or the thread that drives, and for the executor, makes
 * all threads pass a barrier (see gate.h), and then walks through the slabs. It ends what is
 * PENDING there, and tells what is UNTOLD. It looks at no stream and no bucket, because the entries
 * alone say what is true.
 *
 *     stop                                    adder
 *     1  sets STOPPING                        a  the entry is PENDING
 *     2  barrier                              b  (barrier)
 *     3  walks through the slabs              c  loads `slow_path_bits`: STOPPING? takes its
 *                                                timeout back, by an exchange, unless stop has
 *                                                ended it
 *
 * So c sees 1, or 3 sees a. A canceller needs none of this. Its exchange may come before the walk
 * gets to the entry, which then finds it UNTOLD; or after it, and then it fails. If it cancels what
 * was published behind the walk, the adder tells that at c.
 */

#include <errno.h>

#include "hwt/base/own_task.h"
#include "hwt/base/shield.h"
#include "hwt/timer/timer.h"
#include "hwt/worker/task.h"

typedef void (*unprocessed_function)(const hwt_task *task, void *arg, uint64_t remaining,
                                     void *data);

struct visitor {
    unprocessed_function unprocessed;
    void *data;
    uint64_t left;
};

/* The visitor has the timeout's arg, so cancel_sync waits for it as for a run. */
static void visit(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t generation,
                  struct visitor *visitor)
{
    struct hwt_frame frame = { .shared = shared, .entry = entry, .generation = generation };
    uint64_t state;
    uint64_t remaining = hwt_time_until(&shared->time, hwt_entry_deadline(entry));
    hwt_frame_enter(&frame);
    visitor->unprocessed(hwt_entry_task(entry), hwt_entry_arg(entry), remaining, visitor->data);
    hwt_frame_leave(&frame);
    HWT_SCHED_POINT(VISITED);
    do
        state = hwt_entry_state(entry);
    while (!hwt_entry_end_visit(entry, state));
    if (state & HWT_WAITED)
        hwt_task_returned(shared);
    hwt_task_free(shared, entry);
}

/* Ends one timeout, if it is PENDING, and tells it, if it is UNTOLD. */
static void end_one(struct hwt_shared *shared, struct hwt_entry *entry, struct visitor *visitor)
{
    uint64_t state;
    for (;;) {
        state = hwt_entry_state(entry);
        if (hwt_phase(state) != HWT_PHASE_PENDING)
            break;
        /* The library's own timeouts are told instead: the visitor does not know them. */
        bool visits = visitor->unprocessed && !hwt_task_is_own(hwt_entry_task(entry));
        HWT_SCHED_POINT(END);
        if (!(visits ? hwt_entry_begin_visit(entry, state) : hwt_entry_leave_over(entry, state)))
            continue;
        hwt_count(&shared->stats.unprocessed, 1, false);
        hwt_unreserve(shared);
        visitor->left++;
        if (visits)
            visit(shared, entry, hwt_generation(state), visitor);
        else
            hwt_task_end(shared, entry, state);
        return;
    }
    if (hwt_phase(state) == HWT_PHASE_UNTOLD)
        hwt_task_tell(shared, entry, hwt_generation(state));
}

static uint64_t end_all(hwt_timer *timer, unprocessed_function unprocessed, void *data)
{
    struct hwt_shared *shared = &timer->shared;
    struct visitor visitor = { unprocessed, data, 0 };
    struct hwt_entry *entry;
    uint32_t number = 0, seat = 0;
    while (!hwt_is_forked(shared) && (entry = hwt_pool_walk(&shared->pool, &number, &seat))) {
        HWT_SCHED_POINT(STOP_WALK);
        end_one(shared, entry, &visitor);
    }
    hwt_wheel_clear(&timer->worker.wheel);
    hwt_worker_publish_bytes(&timer->worker);
    return visitor.left;
}

static uint64_t stop(hwt_timer *timer, unprocessed_function unprocessed, void *data)
{
    HWT_SCHED_POINT(STOP);
    hwt_halt(timer, HWT_HALTED_STOPPING);
    HWT_SCHED_POINT(STOP_WAKE);
    hwt_gate_wake(&timer->shared.gate);
    if (timer->thread_runs)
        pthread_join(timer->thread, NULL);
    pthread_mutex_lock(&timer->driving);
    hwt_task_wait_all(&timer->shared);
    HWT_SCHED_POINT(STOP_BARRIER);
    hwt_gate_barrier(&timer->shared.gate);
    uint64_t left = end_all(timer, unprocessed, data);
    hwt_gate_quiet(&timer->shared.gate);
    hwt_unlock(timer, &timer->driving);
    return left;
}

int64_t hwt_timer_stop(hwt_timer *timer, unprocessed_function unprocessed, void *data)
{
    uint64_t left = 0;
    if (!timer)
        return -EINVAL;
    if (hwt_in_callback(&timer->shared))
        return -EDEADLK;
    if (hwt_halted_by(timer, HWT_HALTED_FORKED))
        return 0;
    int shield = hwt_shield();
    pthread_mutex_lock(&timer->control);
    if (!hwt_halted_by(timer, HWT_HALTED_STOPPING))
        left = stop(timer, unprocessed, data);
    hwt_unlock(timer, &timer->control);
    hwt_unshield(shield);
    return (int64_t)left;
}
