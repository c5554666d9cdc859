/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TIMER_H
#define HWT_TIMER_H

#include <pthread.h>

#include "hwt/worker/shared.h"
#include "hwt/worker/worker.h"

struct hwt_request;

struct hwt_timer {
    struct hwt_shared shared; /* first: see there */

    /* The worker's: its thread's, or the one's that calls hwt_timer_advance() and its like. */
    _Alignas(64) struct hwt_worker worker;
    /* The instant to which the descriptor that a loop watches is set; 0: it is not set to any. */
    uint64_t parked_until;

    /* Frozen after create. */
    uint32_t flags;
    int worker_cpu;
    char worker_name[16];

    /* Under `control`: start, stop and requests, one at a time. */
    pthread_mutex_t control;
    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t driving; /* HWT_NO_WORKER: held by the thread that drives */

    /* Set under `control`, cleared by the worker; see request.h. */
    _Atomic(struct hwt_request *) request;

    /* Under the lock of the process: see fork.c. */
    struct hwt_timer *next, **previous;
};

/* The timer whose first member is `shared`. */
static inline hwt_timer *hwt_timer_whole(struct hwt_shared *shared)
{
    return (hwt_timer *)(void *)shared;
}

static inline bool hwt_halted_by(const hwt_timer *timer, uint32_t reasons)
{
    hwt_process_enter();
    /* Relaxed: the bits may be old. Who must be sure looks after a barrier: see stop.c. */
    return atomic_load_explicit(&timer->shared.slow_path_bits, memory_order_relaxed) & reasons;
}

/* Sets bits of slow_path_bits, and clears them. */
static inline void hwt_halt(hwt_timer *timer, uint32_t reasons)
{
    /* Seq_cst: before the barrier of stop, and before the look at `parking`: see gate.h. */
    atomic_fetch_or_explicit(&timer->shared.slow_path_bits, reasons, memory_order_seq_cst);
}

static inline void hwt_unhalt(hwt_timer *timer, uint32_t reasons)
{
    /* Release: the worker that was started. */
    atomic_fetch_and_explicit(&timer->shared.slow_path_bits, ~reasons, memory_order_release);
}

/* Unlocks `control` or `driving`. A child that a callback has forked has new ones, not locked. */
static inline void hwt_unlock(const hwt_timer *timer, pthread_mutex_t *lock)
{
    if (!hwt_halted_by(timer, HWT_HALTED_FORKED))
        pthread_mutex_unlock(lock);
}

/* Starts the timer, unless another thread is about to: see create.c. 0 or a negative errno. */
int hwt_timer_start_to_arm(hwt_timer *timer);

/* Starts the worker's thread. 0 or a negative errno. */
int hwt_worker_thread_create(hwt_timer *timer);

/* Enters a timer into the list that fork() goes through, and takes it out. */
void hwt_fork_add(hwt_timer *timer);
void hwt_fork_remove(hwt_timer *timer);

#endif
