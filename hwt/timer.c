/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Life of a timer: create, start, stop, destroy; new timeouts; driving without a worker. */

#include "hwt/timer.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hwt/core/options.h"
#include "hwt/probes.h"
#include "hwt/task.h"

/* ---- create ---- */

static void freeze_options(hwt_timer *timer, const hwt_options *options)
{
    timer->tick_duration = options->tick_duration;
    timer->max_pending = options->max_pending;
    timer->executor = options->executor;
    timer->executor_data = options->executor_data;
    timer->clock = options->clock;
    timer->clock_data = options->clock_data;
    timer->clock_id = options->clock_id;
    timer->flags = options->flags;
    timer->worker_cpu = options->worker_cpu;
    if (options->worker_name)
        strncpy(timer->worker_name, options->worker_name, sizeof(timer->worker_name) - 1);
    timer->pid = getpid();
    timer->gate.fd = -1;
    timer->run_stats.shared = options->executor != NULL;
    atomic_init(&timer->started, options->flags & HWT_NO_WORKER);
}

static int create_lanes(hwt_timer *timer)
{
    timer->lanes_owned = hwt_lanes_owned();
    timer->lane_count = timer->lanes_owned + HWT_LANES_SHARED;
    size_t size = (timer->lane_count + 1) * sizeof(*timer->lanes);
    timer->lanes = aligned_alloc(HWT_CACHE_LINE, size);
    if (!timer->lanes)
        return -ENOMEM;
    memset(timer->lanes, 0, size);
    for (uint32_t i = 0; i <= timer->lane_count; i++)
        hwt_lane_init(&timer->lanes[i], i >= timer->lanes_owned);
    return 0;
}

/* Everything that can fail, in order; what was done is undone. */
static int set_up(hwt_timer *timer, uint32_t ticks_per_wheel)
{
    int r = create_lanes(timer);
    if (r < 0)
        return r;
    r = hwt_worker_init(timer, hwt_timer_now(timer), ticks_per_wheel);
    if (r < 0)
        goto free_lanes;
    if (!(timer->flags & HWT_NO_WORKER)) {
        r = hwt_gate_open_fd(timer);
        if (r < 0)
            goto destroy_worker;
    }
    return 0;

destroy_worker:
    hwt_worker_destroy(timer);
free_lanes:
    free(timer->lanes);
    return r;
}

int hwt_timer_create(const hwt_options *options, hwt_timer **ret_timer)
{
    hwt_options known;
    if (!ret_timer || hwt_options_read(options, &known) < 0)
        return -EINVAL;
    hwt_timer *timer = aligned_alloc(HWT_CACHE_LINE, sizeof(*timer));
    if (!timer)
        return -ENOMEM;
    memset(timer, 0, sizeof(*timer));
    freeze_options(timer, &known);
    hwt_pool_init(&timer->pool);
    int r = set_up(timer, known.ticks_per_wheel);
    if (r < 0) {
        free(timer);
        return r;
    }
    pthread_mutex_init(&timer->control, NULL);
    pthread_mutex_init(&timer->driving, NULL);
    pthread_mutex_init(&timer->runs, NULL);
    pthread_cond_init(&timer->returned, NULL);
    *ret_timer = timer;
    return 0;
}

/* ---- start ---- */

static int pin(const hwt_timer *timer, pthread_attr_t *attributes)
{
    cpu_set_t processors;
    CPU_ZERO(&processors);
    if (timer->worker_cpu < 0)
        return 0;
    CPU_SET((size_t)timer->worker_cpu, &processors);
    return pthread_attr_setaffinity_np(attributes, sizeof(processors), &processors);
}

/* Starts the worker with all signals blocked. */
static int create_thread(hwt_timer *timer)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int r = pthread_attr_init(&attributes);
    if (r != 0)
        return -r;
    r = pin(timer, &attributes);
    if (r == 0) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&timer->thread, &attributes, hwt_worker_main, timer);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    return -r;
}

int hwt_timer_start(hwt_timer *timer)
{
    if (!timer)
        return -EINVAL;
    /* Relaxed, both: a quick answer; under the mutex they are certain. */
    if (atomic_load_explicit(&timer->stopping, memory_order_relaxed))
        return -ESHUTDOWN;
    if (atomic_load_explicit(&timer->started, memory_order_relaxed))
        return 0;

    int r = 0;
    HWT_MEET(START);
    pthread_mutex_lock(&timer->control);
    if (atomic_load_explicit(&timer->stopping, memory_order_relaxed))
        r = -ESHUTDOWN;
    else if (!atomic_load_explicit(&timer->started, memory_order_relaxed))
        r = create_thread(timer);
    if (r == 0)
        atomic_store_explicit(&timer->started, true, memory_order_release);
    pthread_mutex_unlock(&timer->control);
    return r;
}

/* ---- stop and destroy ---- */

static int64_t stop(hwt_timer *timer,
                    void (*unprocessed)(const hwt_task *task, void *arg, uint64_t remaining,
                                        void *data),
                    void *data)
{
    bool has_worker = !(timer->flags & HWT_NO_WORKER) &&
                      atomic_load_explicit(&timer->started, memory_order_relaxed);
    HWT_MEET(STOP);
    /* Seq_cst: adders push, then read it; here, it is set before the queues are emptied. */
    atomic_store_explicit(&timer->stopping, true, memory_order_seq_cst);
    HWT_MEET(STOP_WAKE);
    hwt_gate_wake(timer);
    HWT_MEET(STOP_JOIN);
    if (has_worker)
        pthread_join(timer->thread, NULL);
    pthread_mutex_lock(&timer->driving);
    hwt_task_wait_all(timer);
    HWT_MEET(STOP_COLLECT);
    uint64_t left = hwt_worker_abandon(timer, unprocessed, data);
    if (timer->gate.fd >= 0)
        hwt_gate_quiet(timer); /* a loop that still watches it has nothing to dispatch */
    pthread_mutex_unlock(&timer->driving);
    return (int64_t)left;
}

int64_t hwt_timer_stop(hwt_timer *timer,
                       void (*unprocessed)(const hwt_task *task, void *arg, uint64_t remaining,
                                           void *data),
                       void *data)
{
    if (!timer)
        return -EINVAL;
    if (hwt_in_callback(timer))
        return -EDEADLK;
    int64_t left = 0;
    pthread_mutex_lock(&timer->control);
    if (!timer->stopped)
        left = stop(timer, unprocessed, data);
    timer->stopped = true;
    pthread_mutex_unlock(&timer->control);
    return left;
}

void hwt_timer_destroy(hwt_timer *timer)
{
    if (!timer || hwt_in_callback(timer))
        return;
    /* In the child of a fork() there is no worker to stop, and any mutex may be held. */
    if (timer->pid == getpid()) {
        hwt_timer_stop(timer, NULL, NULL);
        pthread_cond_destroy(&timer->returned);
        pthread_mutex_destroy(&timer->runs);
        pthread_mutex_destroy(&timer->driving);
        pthread_mutex_destroy(&timer->control);
    }
    if (timer->gate.fd >= 0)
        close(timer->gate.fd);
    hwt_worker_destroy(timer);
    hwt_pool_destroy(&timer->pool);
    free(timer->lanes);
    free(timer);
}

/* ---- max_pending ---- */

bool hwt_timer_reserve(hwt_timer *timer)
{
    /* Relaxed, here and below: a number, it publishes nothing. */
    uint64_t reserved = atomic_load_explicit(&timer->reserved, memory_order_relaxed);
    do {
        if (reserved >= timer->max_pending)
            return false;
        HWT_MEET(RESERVE);
    } while (!atomic_compare_exchange_weak_explicit(&timer->reserved, &reserved, reserved + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void hwt_timer_reserve_beyond(hwt_timer *timer)
{
    if (timer->max_pending > 0)
        atomic_fetch_add_explicit(&timer->reserved, 1, memory_order_relaxed);
}

/* ---- new timeouts ---- */

static int accept_timeout(hwt_timer *timer, struct hwt_lane *lane, struct hwt_entry *entry,
                          uint64_t deadline, hwt_timeout *ret_timeout)
{
    uint64_t generation =
        (atomic_load_explicit(&entry->state, memory_order_relaxed) >> HWT_GENERATION_SHIFT) + 1;
    uint64_t state = generation << HWT_GENERATION_SHIFT | HWT_PHASE_QUEUED;

    atomic_store_explicit(&entry->deadline, deadline, memory_order_relaxed);
    atomic_store_explicit(&entry->slot, HWT_SLOT_FRESH, memory_order_relaxed);
    /* Release: who finds another generation in it knows that the runs before it are over. The
     * push publishes it to the worker, and the caller his handle. */
    atomic_store_explicit(&entry->state, state, memory_order_release);
    hwt_count(&lane->added, 1, lane->shared);
    HWT_PROBE4(add, timer, entry, generation, deadline);
    hwt_lane_push_pending(lane, entry);

    HWT_MEET(ADD_CHECK);
    /* Seq_cst: after the push. */
    if (atomic_load_explicit(&timer->stopping, memory_order_seq_cst) &&
        hwt_timeout_withdraw(entry, state)) {
        hwt_count(&lane->added, UINT64_MAX, lane->shared);
        return -ESHUTDOWN;
    }
    HWT_MEET(ADD_ANNOUNCE);
    if (hwt_gate_asks(&timer->gate, deadline))
        hwt_gate_wake(timer);
    if (ret_timeout)
        *ret_timeout = (hwt_timeout){ entry, generation };
    return 0;
}

static int new_timeout(hwt_timer *timer, const hwt_task *task, void *arg, uint64_t deadline,
                       hwt_timeout *ret_timeout)
{
    struct hwt_lane *lane = hwt_lane_own(timer);
    int r;
    if (!atomic_load_explicit(&timer->started, memory_order_acquire)) {
        r = hwt_timer_start(timer);
        if (r < 0)
            goto rejected;
    }
    r = -ENOBUFS;
    if (timer->max_pending > 0 && !hwt_timer_reserve(timer))
        goto rejected;
    struct hwt_entry *entry = hwt_pool_take(timer, lane);
    r = -ENOMEM;
    if (!entry)
        goto release;
    hwt_entry_set_task(entry, task);
    entry->arg = arg;
    r = accept_timeout(timer, lane, entry, deadline, ret_timeout);
    if (r == 0)
        return 0;
release:
    hwt_timer_release(timer);
rejected:
    if (r != -ESHUTDOWN && r != -EINVAL)
        hwt_count(&lane->rejected, 1, lane->shared);
    return r;
}

static int check_new(hwt_timer *timer, const hwt_task *task)
{
    if (!timer || !task || !task->run)
        return -EINVAL;
    /* Relaxed: only the early answer; accept_timeout() looks again. */
    return atomic_load_explicit(&timer->stopping, memory_order_relaxed) ? -ESHUTDOWN : 0;
}

int hwt_timer_new_timeout_at(hwt_timer *timer, const hwt_task *task, void *arg, uint64_t deadline,
                             hwt_timeout *ret_timeout)
{
    int r = check_new(timer, task);
    return r < 0 ? r : new_timeout(timer, task, arg, deadline, ret_timeout);
}

int hwt_timer_new_timeout(hwt_timer *timer, const hwt_task *task, void *arg, uint64_t delay,
                          hwt_timeout *ret_timeout)
{
    int r = check_new(timer, task);
    return r < 0 ? r : new_timeout(timer, task, arg, hwt_clock_after(timer, delay), ret_timeout);
}

/* ---- without a worker ---- */

/* False: not to be driven now. Else, leave() must follow. */
static bool enter(hwt_timer *timer)
{
    if (!timer || !(timer->flags & HWT_NO_WORKER) || hwt_in_callback(timer))
        return false;
    pthread_mutex_lock(&timer->driving);
    if (!atomic_load_explicit(&timer->stopping, memory_order_relaxed)) {
        hwt_gate_awake(timer);
        return true;
    }
    pthread_mutex_unlock(&timer->driving);
    return false;
}

/* Who watches the descriptor sleeps from here on. */
static void leave(hwt_timer *timer)
{
    if (timer->gate.fd >= 0 && !hwt_worker_park(timer))
        hwt_gate_fire(timer);
    pthread_mutex_unlock(&timer->driving);
}

uint64_t hwt_timer_advance(hwt_timer *timer, uint64_t now)
{
    if (!enter(timer))
        return 0;
    uint64_t runs = hwt_worker_pass(timer, now);
    leave(timer);
    return runs;
}

uint64_t hwt_timer_dispatch(hwt_timer *timer)
{
    return hwt_timer_advance(timer, hwt_timer_now(timer));
}

uint64_t hwt_timer_next_tick(hwt_timer *timer)
{
    if (!enter(timer))
        return HWT_NEVER;
    uint64_t next = hwt_worker_next_tick(timer);
    leave(timer);
    return next;
}

int hwt_timer_fd(hwt_timer *timer)
{
    if (!timer || !(timer->flags & HWT_NO_WORKER))
        return -EINVAL;
    if (!enter(timer))
        return timer->gate.fd >= 0 ? timer->gate.fd : -ESHUTDOWN;
    int r = timer->gate.fd >= 0 ? 0 : hwt_gate_open_fd(timer);
    leave(timer);
    return r < 0 ? r : timer->gate.fd;
}

const char *hwt_version(void)
{
    return HWT_VERSION;
}
