/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Timers in the child of a fork().
 *
 * A timer that was not started yet, by its first timeout or by hwt_timer_start(), goes along: it is
 * as good as new in the child, with a descriptor of its own. Any other timer is the parent's: its
 * worker is not in the child, its wheel may be half-way through a step, and its descriptor is the
 * parent's, too. Such a timer is FORKED in the child: calls that arm or drive it are refused, a
 * handle may be asked and cancelled, and the timer may be destroyed.
 *
 * All timers are in a list, under the lock of the process: see process.h. A thread that ends goes
 * through the list, too. fork() does not wait for the lock. Linux copies all memory at one instant:
 * while it does, no store gets to memory that the child does not see, but for those of threads that
 * wait for its end. So a child has what each thread had stored until then. It goes by `next` alone,
 * which always leads to the end of the list: a timer is entered by one store, when it is whole, and
 * taken out by one. `previous` is made anew. A timer that is destroyed as FORKED stays in the list,
 * in reach of leak checkers.
 */

#include "hwt/base/process.h"
#include "hwt/timer/timer.h"

static hwt_timer *all;

/* A thread that ends gives back what it keeps of each timer. */
static void thread_ends(void)
{
    hwt_process_lock();
    for (hwt_timer *timer = all; timer; timer = timer->next) {
        if (!hwt_is_forked(&timer->shared))
            hwt_lane_thread_ends(&timer->shared.lanes);
    }
    pthread_mutex_unlock(&hwt_process.lock);
}

/* A thread of the parent may have held any of them. */
static void renew_locks(hwt_timer *timer)
{
    pthread_mutex_init(&timer->control, NULL);
    pthread_mutex_init(&timer->driving, NULL);
    pthread_mutex_init(&timer->shared.lanes.shared_lock, NULL);
}

/* In a time namespace of its own a child may have an earlier clock: ticks are counted from now. */
static void renew_clock(hwt_timer *timer)
{
    struct hwt_shared *shared = &timer->shared;
    uint64_t now = shared->time.clock ? UINT64_MAX : hwt_time_now(&shared->time);
    if (now >= atomic_load_explicit(&shared->time.last_pass, memory_order_relaxed))
        return;
    atomic_store_explicit(&shared->time.last_pass, now, memory_order_relaxed);
    shared->ticks = hwt_ticks_init(now, shared->ticks.duration);
    timer->worker.limit = 0;
    hwt_wheel_begin(&timer->worker.wheel, shared->ticks);
}

static void in_child(void)
{
    hwt_timer **previous = &all;
    for (hwt_timer *timer; (timer = *previous) != NULL; previous = &timer->next) {
        uint32_t bits = atomic_load_explicit(&timer->shared.slow_path_bits, memory_order_relaxed);
        timer->previous = previous;
        renew_locks(timer);
        (void)hwt_gate_open(&timer->shared.gate);
        timer->parked_until = 0;
        timer->thread_runs = false;
        if (bits & HWT_HALTED_UNSTARTED) {
            renew_clock(timer);
            hwt_gate_renew_fd(&timer->shared.gate);
            if (bits & HWT_HALTED_STOPPING)
                hwt_gate_quiet(&timer->shared.gate);
        } else {
            hwt_halt(timer, HWT_HALTED_FORKED);
            hwt_gate_destroy(&timer->shared.gate);
        }
    }
}

void hwt_fork_add(hwt_timer *timer)
{
    hwt_process_lock();
    hwt_process_child = in_child;
    atomic_store_explicit(&hwt_thread_ends, thread_ends, memory_order_relaxed);
    timer->next = all;
    timer->previous = &all;
    if (all)
        all->previous = &timer->next;
    atomic_thread_fence(memory_order_release); /* a child that finds it there finds it whole */
    all = timer;
    pthread_mutex_unlock(&hwt_process.lock);
}

void hwt_fork_remove(hwt_timer *timer)
{
    hwt_process_lock();
    *timer->previous = timer->next;
    if (timer->next)
        timer->next->previous = timer->previous;
    pthread_mutex_unlock(&hwt_process.lock);
}
