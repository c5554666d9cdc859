/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* HWT_NO_WORKER: the calls by which a thread, mostly an event loop's, acts as the worker. */

#include <errno.h>

#include "hwt/timer/timer.h"
#include "hwt/worker/task.h"

/* Begins a call that drives, which leave() ends. False: the timer cannot be driven now. */
static bool enter(hwt_timer *timer)
{
    const uint32_t over = HWT_HALTED_STOPPING | HWT_HALTED_FORKED;
    if (!timer || !(timer->flags & HWT_NO_WORKER) || hwt_in_callback(&timer->shared) ||
        hwt_halted_by(timer, over))
        return false;
    if (!timer->shared.one_thread)
        pthread_mutex_lock(&timer->driving);
    if (!hwt_halted_by(timer, over))
        return true;
    if (!timer->shared.one_thread)
        pthread_mutex_unlock(&timer->driving);
    return false;
}

/* Sets the instant from which on the descriptor is readable. 0: at once. */
static void set_fd(hwt_timer *timer, uint64_t until)
{
    struct hwt_shared *shared = &timer->shared;
    timer->parked_until = until;
    HWT_SCHED_POINT(SET_FD);
    if (until == 0)
        hwt_gate_set_fd(&shared->gate, 1, true);
    else if (shared->time.clock && until != HWT_NEVER)
        hwt_gate_set_fd(&shared->gate, hwt_saturating_sub(until, hwt_time_now(&shared->time)),
                        true);
    else
        hwt_gate_set_fd(&shared->gate, until, false);
}

/* The loop that watches the descriptor may sleep after this. If the gate is closed for the right
 * instant already, and nobody has called, it stays as it is. */
static void leave(hwt_timer *timer)
{
    struct hwt_shared *shared = &timer->shared;
    struct hwt_gate *gate = &shared->gate;
    if (atomic_load_explicit(&gate->fd, memory_order_relaxed) >= 0) {
        bool as_set = hwt_gate_fd_is_as_set(gate);
        bool closed = as_set && hwt_gate_is_asleep(gate);
        if (!closed || timer->shared.time.clock ||
            hwt_worker_next(&timer->worker) != timer->parked_until)
            set_fd(timer, hwt_worker_park(&timer->worker));
        timer->worker.parked_for =
            0; /* until the next pass, records for an earlier tick may come */
        HWT_SCHED_POINT(LEAVE);
        /* A waker that came meanwhile has set the descriptor to now, which was overwritten. */
        if (!hwt_gate_is_asleep(gate))
            set_fd(timer, 0);
    }
    if (!shared->one_thread)
        hwt_unlock(timer, &timer->driving);
}

uint64_t hwt_timer_advance_some(hwt_timer *timer, uint64_t now, uint64_t most)
{
    if (most == 0 || !enter(timer))
        return 0;
    uint64_t runs = hwt_worker_pass(&timer->worker, now, most);
    leave(timer);
    return runs;
}

uint64_t hwt_timer_advance(hwt_timer *timer, uint64_t now)
{
    return hwt_timer_advance_some(timer, now, UINT64_MAX);
}

uint64_t hwt_timer_dispatch(hwt_timer *timer)
{
    return hwt_timer_advance(timer, hwt_timer_now(timer));
}

uint64_t hwt_timer_next_tick(hwt_timer *timer)
{
    if (!enter(timer))
        return HWT_NEVER;
    uint64_t next;
    do
        next = hwt_worker_next(&timer->worker);
    while (next == 0);
    leave(timer);
    return next;
}

int hwt_timer_fd(hwt_timer *timer)
{
    if (!timer || !(timer->flags & HWT_NO_WORKER))
        return -EINVAL;
    struct hwt_gate *gate = &timer->shared.gate;
    int r = -ESHUTDOWN;
    if (enter(timer)) {
        r = hwt_gate_open_fd(gate);
        leave(timer);
    }
    /* Acquire: opened by another thread. */
    int fd = atomic_load_explicit(&gate->fd, memory_order_acquire);
    return fd >= 0 ? fd : r;
}
