/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TIMER_H
#define HWT_TIMER_H

/* The timer's whole. */

#include "hwt/worker/shared.h"
#include "hwt/worker/worker.h"

struct hwt_request;

struct hwt_timer {
    struct hwt_shared shared; /* first: see there */

    /* The worker: its thread, or the one that calls hwt_timer_advance() and its like. */
    _Alignas(64) struct hwt_worker worker;
    /* What the descriptor that a loop watches is set to; 0: nothing. */
    uint64_t parked_until;
    /* HWT_NO_WORKER: where on its stack a thread is in a call that drives; 0: none is. Read by those
     * that are about to be. */
    _Atomic uintptr_t driven_from;

    /* Frozen after create. */
    uint32_t flags;
    int worker_cpu;
    char worker_name[16];

    /* Under `control`: start, stop and requests, one at a time. */
    pthread_mutex_t control;
    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t driving; /* HWT_NO_WORKER: held by the thread that drives */

    /* Set under `control`, cleared by the worker under `run_lock`; see request.h. */
    _Atomic(struct hwt_request *) request;

    /* Under the lock of all timers: see fork.c. */
    struct hwt_timer *next, **previous;
};

/* The timer, of which `shared` is the first member. */
static inline hwt_timer *hwt_timer_whole(struct hwt_shared *shared)
{
    return (hwt_timer *)(void *)shared;
}

static inline bool hwt_halted_by(const hwt_timer *timer, uint32_t reasons)
{
    /* Relaxed: it may be old. A caller that must be sure looks after a barrier: see stop.c. */
    return atomic_load_explicit(&timer->shared.slow_path_bits, memory_order_relaxed) & reasons;
}

/* Begins or ends reasons for not accepting timeouts. */
static inline void hwt_halt(hwt_timer *timer, uint32_t reasons)
{
    /* Seq_cst: before the barrier of stop, and before the look at `parking`: see gate.h. */
    atomic_fetch_or_explicit(&timer->shared.slow_path_bits, reasons, memory_order_seq_cst);
}

static inline void hwt_unhalt(hwt_timer *timer, uint32_t reasons)
{
    /* Release: what starting has made. */
    atomic_fetch_and_explicit(&timer->shared.slow_path_bits, ~reasons, memory_order_release);
}

/* `control` or `driving`. In the child of a fork() by a callback they are new, and not held. */
static inline void hwt_unlock(const hwt_timer *timer, pthread_mutex_t *lock)
{
    if (!hwt_halted_by(timer, HWT_HALTED_FORKED))
        pthread_mutex_unlock(lock);
}

/* HWT_NO_WORKER. False: not to be driven now. Else, hwt_timer_leave() must follow. */
bool hwt_timer_enter(hwt_timer *timer);
void hwt_timer_leave(hwt_timer *timer);

/* The worker's thread. */
int hwt_worker_thread_create(hwt_timer *timer);

/* A timer is known to fork(), or is not any more. */
void hwt_fork_add(hwt_timer *timer);
void hwt_fork_remove(hwt_timer *timer);

/* Nobody's any more, and not freed. */
void hwt_fork_keep(hwt_timer *timer);

#endif
