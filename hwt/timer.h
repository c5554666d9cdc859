/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TIMER_H
#define HWT_TIMER_H

/* The timer's whole, grouped by who may write what. */

#include <errno.h>
#include <pthread.h>
#include <sys/types.h>
#include <time.h>

#include "hwt/clock.h"
#include "hwt/lane.h"

#include "hwt/wheel.h"
#include "hwt/worker.h"

struct hwt_text;

/* A task that is running on this thread, and the one it runs inside of. */
struct hwt_frame {
    hwt_timer *timer;
    struct hwt_entry *entry; /* NULL: `cancelled` or `unprocessed` */
    uint64_t generation;
    uint64_t deadline; /* of this run */
    struct hwt_frame *outer;
};

struct hwt_timer {
    /* Frozen after create. */
    uint64_t tick_duration;
    uint64_t max_pending;
    hwt_executor executor;
    void *executor_data;
    hwt_clock clock;
    void *clock_data;
    clockid_t clock_id;
    uint32_t flags;
    int worker_cpu;
    char worker_name[16];
    pid_t pid;
    uint32_t lanes_owned; /* the first so many have an owner, the rest are shared */
    uint32_t lane_count;
    struct hwt_lane *lanes; /* lane_count, and one more for what the worker puts off */

    /* Written at start and stop, under `control`; read by every adder. */
    _Atomic bool started;
    _Atomic bool stopping;

    /* Set under `control`, cleared by the worker under `runs`; see dump.h. */
    _Atomic(struct hwt_text *) dump;

    /* The worker's and, but for its descriptor, the wakers'; see clock.h. */
    _Alignas(HWT_CACHE_LINE) struct hwt_gate gate;

    /* Adders, cancellers and runners, with max_pending only. */
    _Alignas(HWT_CACHE_LINE) _Atomic uint64_t reserved;

    /* Whoever runs tasks; see stats.h. */
    _Alignas(HWT_CACHE_LINE) struct hwt_run_stats run_stats;

    /* The worker: its thread, or who calls hwt_timer_advance() and its like. */
    _Alignas(HWT_CACHE_LINE) struct hwt_worker worker;
    struct hwt_pool pool; /* see there */

    /* Under `control`. */
    pthread_mutex_t control; /* start, stop and dumps, one at a time */
    pthread_t thread;
    bool stopped;
    pthread_mutex_t driving; /* HWT_NO_WORKER: held by who drives */

    /* Under `runs`: tasks handed to the executor, waiters for a task's return or for a dump. */
    pthread_mutex_t runs;
    pthread_cond_t returned;
    uint64_t submitted;
};

/* The calling thread's lane. Wait-free. */
static inline struct hwt_lane *hwt_lane_own(hwt_timer *timer)
{
    uint32_t number = hwt_thread_number;
    if (number == 0)
        number = hwt_lane_number_thread();
    if (number > timer->lanes_owned)
        number = timer->lanes_owned + 1 + number % HWT_LANES_SHARED;
    return &timer->lanes[number - 1];
}

/* One place under max_pending: false: none left. Lock-free. */
bool hwt_timer_reserve(hwt_timer *timer);
void hwt_timer_reserve_beyond(hwt_timer *timer); /* a re-arm, which is never refused */

static inline void hwt_timer_release(hwt_timer *timer)
{
    /* Relaxed: a number, it publishes nothing. */
    if (timer->max_pending > 0)
        atomic_fetch_sub_explicit(&timer->reserved, 1, memory_order_relaxed);
}

#endif
