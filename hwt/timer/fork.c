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
 * All timers are in a list. fork() takes its lock, and gives it back on both sides. A thread that
 * ends goes through the list, too.
 */

#include <pthread.h>

#include "hwt/base/shield.h"
#include "hwt/timer/timer.h"

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static hwt_timer *all;
static hwt_timer *kept; /* also under all_lock */

/* A thread that ends gives back what it keeps of each timer. */
static void thread_ends(void)
{
    pthread_mutex_lock(&all_lock);
    for (hwt_timer *timer = all; timer; timer = timer->next)
        hwt_lane_thread_ends(&timer->shared.lanes);
    pthread_mutex_unlock(&all_lock);
}

static void before(void)
{
    pthread_mutex_lock(&all_lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&all_lock);
}

/* A thread of the parent may have held any of them. */
static void renew_locks(hwt_timer *timer)
{
    pthread_mutex_init(&timer->control, NULL);
    pthread_mutex_init(&timer->driving, NULL);
    pthread_mutex_init(&timer->shared.run_lock, NULL);
    pthread_cond_init(&timer->shared.returned, NULL);
    pthread_mutex_init(&timer->shared.lanes.shared_lock, NULL);
}

static void in_child(void)
{
    int shield = hwt_shield(); /* descriptors are closed */
    hwt_word_renew_locks();
    for (hwt_timer *timer = all; timer; timer = timer->next) {
        renew_locks(timer);
        (void)hwt_gate_open(&timer->shared.gate);
        timer->parked_until = 0;
        timer->thread_runs = false;
        if (hwt_halted_by(timer, HWT_HALTED_UNSTARTED)) {
            hwt_gate_renew_fd(&timer->shared.gate, timer->flags & HWT_NO_WORKER);
            if (hwt_halted_by(timer, HWT_HALTED_STOPPING))
                hwt_gate_quiet(&timer->shared.gate);
        } else {
            hwt_halt(timer, HWT_HALTED_FORKED);
            hwt_gate_destroy(&timer->shared.gate);
        }
    }
    pthread_mutex_unlock(&all_lock);
    hwt_unshield(shield);
}

static void begin(void)
{
    (void)pthread_atfork(before, in_parent, in_child); /* only fails for want of memory */
    atomic_store_explicit(&hwt_thread_ends, thread_ends, memory_order_relaxed);
}

/* Runs when the library is loaded. A program that is linked statically may make a timer earlier,
 * from a constructor of its own. */
__attribute__((constructor)) static void begin_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
}

void hwt_fork_add(hwt_timer *timer)
{
    begin_once();
    pthread_mutex_lock(&all_lock);
    timer->next = all;
    timer->previous = &all;
    if (all)
        all->previous = &timer->next;
    all = timer;
    pthread_mutex_unlock(&all_lock);
}

void hwt_fork_remove(hwt_timer *timer)
{
    pthread_mutex_lock(&all_lock);
    *timer->previous = timer->next;
    if (timer->next)
        timer->next->previous = timer->previous;
    pthread_mutex_unlock(&all_lock);
}

void hwt_fork_keep(hwt_timer *timer)
{
    pthread_mutex_lock(&all_lock);
    timer->next = kept;
    kept = timer;
    pthread_mutex_unlock(&all_lock);
}
