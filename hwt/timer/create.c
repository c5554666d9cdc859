/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Create, start and destroy a timer. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/base/shield.h"
#include "hwt/timer/options.h"
#include "hwt/timer/timer.h"
#include "hwt/worker/task.h"

#define COUNTER_TICK_MIN (64 * HWT_COUNTER_LATE)

/* ---- create ---- */

/* Whether the processor's counter may be read instead of the clock: a tick is so long that the
 * counter's lateness does not matter. */
static bool may_use_counter(const hwt_options *options)
{
    return !options->clock && options->clock_id == CLOCK_MONOTONIC &&
           !(options->flags & HWT_EXACT_CLOCK) && options->tick_duration >= COUNTER_TICK_MIN &&
           hwt_counter_is_trusted();
}

static void freeze_options(hwt_timer *timer, const hwt_options *options)
{
    struct hwt_shared *shared = &timer->shared;
    shared->time.clock = options->clock;
    shared->time.clock_data = options->clock_data;
    shared->time.clock_id = options->clock_id;
    shared->time.uses_counter = may_use_counter(options);
    uint64_t start = hwt_time_now(&shared->time);
    atomic_init(&shared->time.last_pass, start);
    shared->ticks = hwt_ticks_init(start, options->tick_duration);
    shared->max_pending = options->max_pending;
    shared->executor = options->executor;
    shared->executor_data = options->executor_data;
    shared->one_thread = options->flags & HWT_ONE_THREAD;
    atomic_init(&shared->slow_path_bits, HWT_PROCESS_FAST | HWT_HALTED_UNSTARTED |
                                             (shared->one_thread ? HWT_ONE_THREADED : 0) |
                                             (shared->max_pending > 0 ? HWT_LIMITED : 0));
    timer->flags = options->flags;
    timer->worker_cpu = options->worker_cpu;
    if (options->worker_name)
        strncpy(timer->worker_name, options->worker_name, sizeof(timer->worker_name) - 1);
}

/* How many chunks may wait for a worker that sleeps: as many as it reads in half a tick. */
static uint32_t backlog_of(const hwt_timer *timer)
{
    uint64_t chunks =
        timer->shared.ticks.duration / (UINT64_C(2) * HWT_READ_NS * HWT_CHUNK_RECORDS);
    return chunks < UINT32_MAX ? (uint32_t)chunks : UINT32_MAX;
}

/* Does everything that can fail, in order. If a step fails, it undoes those before. */
static int set_up(hwt_timer *timer, uint32_t ticks_per_wheel)
{
    struct hwt_shared *shared = &timer->shared;
    bool fences = !shared->one_thread && hwt_gate_needs_fences();
    if (fences)
        atomic_fetch_or_explicit(&shared->slow_path_bits, HWT_FENCED, memory_order_relaxed);
    /* With one thread, ONE_THREADED stands for FENCED, so that no membarrier is made. */
    hwt_gate_init(&shared->gate, shared->time.clock_id, &shared->slow_path_bits,
                  shared->one_thread ? HWT_ONE_THREADED : HWT_FENCED);
    int r = hwt_pool_init(&shared->pool, timer, HWT_LANE_SEATS_SIZE);
    if (r < 0)
        return r;
    r = hwt_lanes_init(&shared->lanes, &shared->pool, &shared->gate, backlog_of(timer),
                       shared->one_thread);
    if (r < 0)
        goto destroy_pool;
    r = hwt_worker_init(&timer->worker, shared, ticks_per_wheel);
    if (r < 0)
        goto destroy_pool;
    return 0;

destroy_pool:
    hwt_pool_destroy(&shared->pool, false);
    return r;
}

int hwt_timer_create(const hwt_options *options, hwt_timer **ret_timer)
{
    hwt_options known;
    if (!ret_timer || hwt_options_read(options, &known) < 0)
        return -EINVAL;
    hwt_timer *timer = aligned_alloc(64, (sizeof(*timer) + 63) / 64 * 64);
    if (!timer)
        return -ENOMEM;
    memset(timer, 0, sizeof(*timer));
    freeze_options(timer, &known);
    int r = set_up(timer, known.ticks_per_wheel);
    if (r < 0) {
        free(timer);
        return r;
    }
    pthread_mutex_init(&timer->control, NULL);
    pthread_mutex_init(&timer->driving, NULL);
    hwt_fork_add(timer);
    *ret_timer = timer;
    return 0;
}

/* ---- start ---- */

/*
 * One thread starts a timer: who has exchanged UNSTARTED for STARTING. Threads that arm meanwhile do
 * not wait for it. Their records are in their lanes, and the worker reads all lanes first. If the
 * start fails, UNSTARTED is back.
 *
 *     starter                                  adder
 *     UNSTARTED becomes STARTING
 *     makes the worker's thread                sees STARTING, publishes its timeout
 *     clears STARTING; or, on failure,         is UNSTARTED back? Then it tries to start, and takes
 *     STARTING becomes UNSTARTED               its timeout back if that fails, too
 *
 * An adder that has looked before the failure has returned. Its timeout is pending, and so is run as
 * soon as the next call that arms has started the worker.
 */

static const uint32_t over = HWT_HALTED_STOPPING | HWT_HALTED_FORKED | HWT_HALTED_ENDING;

/* In a child of fork() the descriptor may be lost. A loop that watches it must ask for it again,
 * because it knows a number. */
static int begin(hwt_timer *timer)
{
    return timer->flags & HWT_NO_WORKER ? hwt_gate_loss(&timer->shared.gate)
                                        : hwt_worker_thread_create(timer);
}

/* True: the caller is the starter. */
static bool becomes_starter(hwt_timer *timer)
{
    _Atomic uint32_t *bits = &timer->shared.slow_path_bits;
    uint32_t seen = atomic_load_explicit(bits, memory_order_relaxed);
    while (seen & HWT_HALTED_UNSTARTED) {
        /* Acquire: what the last starter did, which has failed. */
        if (atomic_compare_exchange_weak_explicit(
                bits, &seen, seen ^ (HWT_HALTED_UNSTARTED | HWT_HALTED_STARTING),
                memory_order_acquire, memory_order_relaxed))
            return true;
    }
    return false;
}

static int start(hwt_timer *timer)
{
    int r = -ESHUTDOWN, shield = hwt_shield();
    HWT_SCHED_POINT(START);
    pthread_mutex_lock(&timer->control);
    if (!hwt_halted_by(timer, over))
        r = begin(timer);
    HWT_SCHED_POINT(STARTED);
    /* Release: the worker that was started; or what this starter did. */
    if (r < 0)
        atomic_fetch_xor_explicit(&timer->shared.slow_path_bits,
                                  HWT_HALTED_UNSTARTED | HWT_HALTED_STARTING, memory_order_release);
    else
        hwt_unhalt(timer, HWT_HALTED_STARTING);
    hwt_unlock(timer, &timer->control);
    hwt_unshield(shield);
    return r;
}

int hwt_timer_start_to_arm(hwt_timer *timer)
{
    if (hwt_halted_by(timer, over))
        return -ESHUTDOWN;
    return becomes_starter(timer) ? start(timer) : 0;
}

/* The caller wants to know whether the worker runs. So it waits for another starter, if need be. */
int hwt_timer_start(hwt_timer *timer)
{
    const struct timespec pause = { 0, 100000 };
    if (!timer)
        return -EINVAL;
    int r = hwt_timer_start_to_arm(timer);
    while (r == 0 && hwt_halted_by(timer, HWT_HALTED_STARTING | HWT_HALTED_UNSTARTED)) {
        nanosleep(&pause, NULL);
        r = hwt_timer_start_to_arm(timer);
    }
    return r;
}

/* ---- destroy ---- */

void hwt_timer_destroy(hwt_timer *timer)
{
    if (!timer || hwt_in_callback(&timer->shared))
        return;
    int shield = hwt_shield();
    /* In the child of a fork() there is no worker to stop. */
    hwt_timer_stop(timer, NULL, NULL);
    bool forked = hwt_halted_by(timer, HWT_HALTED_FORKED);
    /* In a forked child any mutex may be held, and a bucket or a stream may be half-way through a
     * step. So the child keeps their memory, in reach of leak checkers. */
    if (!forked) {
        hwt_fork_remove(timer); /* until here, a child of a task that forks finds it in the list */
        pthread_mutex_destroy(&timer->driving);
        pthread_mutex_destroy(&timer->control);
        pthread_mutex_destroy(&timer->shared.lanes.shared_lock);
        hwt_wheel_destroy(&timer->worker.wheel);
    }
    hwt_gate_destroy(&timer->shared.gate);
    hwt_pool_destroy(&timer->shared.pool, forked);
    if (!forked)
        free(timer);
    hwt_unshield(shield);
}

uint64_t hwt_timer_now(const hwt_timer *timer)
{
    return timer ? hwt_time_now(&timer->shared.time) : 0;
}

const char *hwt_version(void)
{
    return HWT_VERSION;
}
