/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The worker's loop: wait for a tick, drain, expire, cancelled.
 *
 * A pass works on a snapshot of the pending queues. It files at most 100000 timeouts at a
 * time and looks at the cancelled ones between; the ticks that are over are handled when the
 * whole snapshot is filed, so that what was added before the pass runs in the order of its
 * ticks, however much it is. What was added since is the next pass's.
 */

#include "hwt/worker.h"

#include <stdlib.h>

#include "hwt/dump.h"
#include "hwt/probes.h"
#include "hwt/task.h"

#define DRAIN_MAX 100000
#define SPLICE_TRIES 256
#define AHEAD 4

int hwt_worker_init(hwt_timer *timer, uint64_t start, uint32_t ticks_per_wheel)
{
    struct hwt_worker *worker = &timer->worker;
    worker->recycler.chains = calloc(timer->lane_count, sizeof(*worker->recycler.chains));
    if (!worker->recycler.chains)
        return -ENOMEM;
    int r =
        hwt_wheel_init(&worker->wheel, &timer->pool, start, timer->tick_duration, ticks_per_wheel);
    if (r < 0) {
        free(worker->recycler.chains);
        return r;
    }
    atomic_init(&worker->now, start);
    atomic_init(&worker->transit, 0);
    atomic_init(&timer->run_stats.wheel_bytes, worker->wheel.bytes);
    return 0;
}

void hwt_worker_destroy(hwt_timer *timer)
{
    hwt_wheel_destroy(&timer->worker.wheel);
    free(timer->worker.recycler.chains);
}

uint64_t hwt_worker_now(const hwt_timer *timer)
{
    uint64_t now = hwt_timer_now(timer);
    uint64_t told = atomic_load_explicit(&timer->worker.now, memory_order_relaxed);
    return now > told ? now : told;
}

uint64_t hwt_worker_tick_begin(const hwt_timer *timer, uint64_t now)
{
    const struct hwt_wheel *wheel = &timer->worker.wheel;
    return hwt_wheel_instant(wheel, hwt_wheel_ticks(wheel, now));
}

void hwt_worker_enter_transit(hwt_timer *timer, struct hwt_entry *entry)
{
    atomic_store_explicit(&entry->slot, HWT_SLOT_TRANSIT, memory_order_relaxed);
    atomic_fetch_add_explicit(&timer->worker.transit, 1, memory_order_relaxed);
}

void hwt_worker_leave_transit(hwt_timer *timer, struct hwt_entry *entry)
{
    atomic_store_explicit(&entry->slot, HWT_SLOT_NONE, memory_order_relaxed);
    atomic_fetch_sub_explicit(&timer->worker.transit, 1, memory_order_relaxed);
}

/* Relaxed: a pass may see it late; who sleeps looks again, see hwt_worker_park(). */
static bool stopping(const hwt_timer *timer)
{
    return atomic_load_explicit(&timer->stopping, memory_order_relaxed);
}

void hwt_worker_leave_place(hwt_timer *timer, struct hwt_entry *entry)
{
    uint32_t slot = atomic_load_explicit(&entry->slot, memory_order_relaxed);
    if (slot == HWT_SLOT_TRANSIT)
        hwt_worker_leave_transit(timer, entry);
    else if (slot == HWT_SLOT_FRESH)
        atomic_store_explicit(&entry->slot, HWT_SLOT_NONE, memory_order_relaxed);
    else if (slot != HWT_SLOT_NONE)
        hwt_wheel_drop(&timer->worker.wheel, entry);
}

static void discard(hwt_timer *timer, struct hwt_entry *entry)
{
    struct hwt_recycler *recycler = &timer->worker.recycler;
    if (timer->executor && hwt_entry_tells(entry))
        hwt_task_submit(timer, entry, recycler);
    else
        hwt_task_discard(timer, entry, recycler);
}

/* The instant at which a tick can be handled. */
static uint64_t end_of(const struct hwt_wheel *wheel, uint64_t tick)
{
    return tick == HWT_NEVER ? HWT_NEVER : hwt_wheel_instant(wheel, tick + 1);
}

/* ---- expire ---- */

static void file_again(hwt_timer *timer, struct hwt_entry *entry, uint64_t earliest)
{
    struct hwt_worker *worker = &timer->worker;
    uint64_t deadline = atomic_load_explicit(&entry->deadline, memory_order_relaxed);
    if (hwt_wheel_file(&worker->wheel, entry, deadline, earliest) == 0)
        return;
    worker->unfiled = true;
    if (hwt_timeout_disarm(entry))
        hwt_lane_push_pending(&timer->lanes[timer->lane_count], entry);
    else
        hwt_worker_enter_transit(timer, entry);
}

bool hwt_worker_file_rearmed(hwt_timer *timer, struct hwt_entry *entry)
{
    struct hwt_worker *worker = &timer->worker;
    if (!(atomic_load_explicit(&entry->state, memory_order_relaxed) & HWT_REARMED) ||
        worker->short_of_memory || !hwt_lane_is_empty(hwt_lane_own(timer)))
        return false;
    for (;;) {
        HWT_MEET(FILE_REARMED);
        uint64_t state = hwt_timeout_note(entry);
        if (!(state & HWT_REARMED) || (state & HWT_BARRED))
            return false;
        uint64_t deadline = atomic_load_explicit(&entry->deadline, memory_order_relaxed);
        if (deadline < worker->horizon || hwt_wheel_file(&worker->wheel, entry, deadline, 0) < 0)
            return false;
        if (hwt_timeout_arm_again(entry, state))
            return true;
        hwt_wheel_drop(&worker->wheel, entry);
    }
}

/* A timeout that was taken from its bucket; due if its deadline is before `horizon`. */
static void expire_one(hwt_timer *timer, struct hwt_entry *entry, uint64_t horizon)
{
    struct hwt_worker *worker = &timer->worker;
    unsigned phase = timer->executor ? HWT_PHASE_SUBMITTED : HWT_PHASE_RUNNING;
    HWT_MEET(EXPIRE);
    switch (hwt_timeout_begin(entry, horizon, phase)) {
    case HWT_BEGUN:
        worker->runs++;
        if (timer->executor)
            hwt_task_submit(timer, entry, &worker->recycler);
        else
            hwt_task_run(timer, entry, &worker->recycler);
        break;
    case HWT_NOT_DUE:
        file_again(timer, entry, 0);
        break;
    case HWT_HELD:
        file_again(timer, entry, worker->limit);
        break;
    case HWT_ELSEWHERE:
    case HWT_DEAD:
        HWT_MEET(TRANSIT);
        hwt_worker_enter_transit(timer, entry);
        break;
    }
}

/* ---- drain ---- */

/* There is no memory to file it. It stays QUEUED; unless it is due: then it runs, ahead of its
 * turn. */
static void keep_unfiled(hwt_timer *timer, struct hwt_entry *entry, uint64_t state,
                         uint64_t deadline)
{
    if (deadline < timer->worker.horizon && hwt_timeout_arm(entry, state)) {
        expire_one(timer, entry, timer->worker.horizon);
        return;
    }
    timer->worker.unfiled = true;
    hwt_lane_push_pending(&timer->lanes[timer->lane_count], entry);
}

/* Where timeouts are cancelled while they are pending, their entries stay with the lane that
 * uses them: were they sent home, a lane that once took another's would have to do so for ever. */
static void recycle_to(hwt_timer *timer, struct hwt_lane *lane, struct hwt_entry *entry)
{
    struct hwt_recycler *recycler = &timer->worker.recycler;
    if (lane < &timer->lanes[timer->lane_count])
        hwt_recycled_add(&recycler->chains[lane - timer->lanes], entry);
    else
        hwt_recycler_add(timer, recycler, entry);
}

/*
 * Files what came out of a pending queue: first in the bucket, then ARMED, for once it is
 * ARMED it must have a place. Where the exchange fails, it was cancelled or moved meanwhile.
 */
static void file_drained(hwt_timer *timer, struct hwt_lane *lane, struct hwt_entry *entry)
{
    struct hwt_wheel *wheel = &timer->worker.wheel;
    HWT_MEET(DRAIN);
    if (hwt_timeout_salvageable(entry)) {
        recycle_to(timer, lane, entry);
        return;
    }
    hwt_worker_leave_place(timer, entry);
    for (;;) {
        uint64_t state = hwt_timeout_note(entry);
        if (hwt_phase(state) == HWT_PHASE_CANCELLED) {
            discard(timer, entry);
            return;
        }
        if (hwt_phase(state) == HWT_PHASE_NEW) {
            hwt_recycler_add(timer, &timer->worker.recycler, entry);
            return;
        }
        HWT_MEET(FILE);
        uint64_t deadline = atomic_load_explicit(&entry->deadline, memory_order_relaxed);
        /* What comes later is not filed before what there was no memory for, unless it is due. */
        if ((timer->worker.short_of_memory && deadline >= timer->worker.horizon) ||
            hwt_wheel_file(wheel, entry, deadline, timer->worker.earliest) < 0) {
            timer->worker.short_of_memory = true;
            keep_unfiled(timer, entry, state, deadline);
            return;
        }
        if (hwt_timeout_arm(entry, state))
            return;
        hwt_wheel_drop(wheel, entry);
    }
}

/* Files up to `budget` of a lane's snapshot, and returns how many. */
static size_t drain_lane(hwt_timer *timer, struct hwt_lane *lane, size_t budget)
{
    for (size_t n = 0; n < budget; n++) {
        bool stalled;
        struct hwt_entry *entry = hwt_lane_pop_drained(lane, &stalled);
        if (!entry) {
            timer->worker.unfiled |= stalled;
            return n;
        }
        file_drained(timer, lane, entry);
    }
    return budget;
}

/* Who salvages is soon done, if he runs. */
static bool splice_patiently(struct hwt_lane *lane)
{
    for (int tries = 0; tries < SPLICE_TRIES; tries++) {
        if (hwt_lane_splice_pending(lane))
            return true;
        caa_cpu_relax();
    }
    return false;
}

static void splice_pending(hwt_timer *timer)
{
    for (uint32_t i = 0; i <= timer->lane_count; i++)
        timer->worker.unfiled |= !splice_patiently(&timer->lanes[i]);
}

/* Files up to DRAIN_MAX of the snapshot, beginning with what could not be filed before. True: that
 * was not all. */
static bool drain(hwt_timer *timer)
{
    uint32_t own = timer->lane_count;
    size_t budget = DRAIN_MAX;
    for (uint32_t i = 0; i <= own && budget > 0; i++)
        budget -= drain_lane(timer, &timer->lanes[i > 0 ? i - 1 : own], budget);
    HWT_PROBE2(drain, timer, (uint64_t)(DRAIN_MAX - budget));
    hwt_recycler_flush(timer, &timer->worker.recycler);
    return budget == 0;
}

/* ---- cancelled ---- */

static void reap(hwt_timer *timer)
{
    for (uint32_t i = 0; i < timer->lane_count; i++) {
        struct hwt_lane *lane = &timer->lanes[i];
        struct hwt_entry *entry;
        bool stalled;
        timer->worker.unfiled |= !hwt_lane_splice_cancelled(lane);
        while ((entry = hwt_lane_pop_reaped(lane, &stalled)) != NULL) {
            HWT_MEET(REAP);
            hwt_worker_leave_place(timer, entry);
            discard(timer, entry);
        }
        timer->worker.unfiled |= stalled;
    }
    hwt_recycler_flush(timer, &timer->worker.recycler);
}

/* ---- a pass ---- */

void hwt_worker_publish_bytes(hwt_timer *timer)
{
    atomic_store_explicit(&timer->run_stats.wheel_bytes, timer->worker.wheel.bytes,
                          memory_order_relaxed);
}

void hwt_worker_tidy(hwt_timer *timer)
{
    timer->worker.short_of_memory = false;
    splice_pending(timer);
    bool backlog;
    do {
        backlog = drain(timer);
        reap(timer);
    } while (backlog);
}

/* What all lanes gave the worker to do, ever. */
static uint64_t given(const hwt_timer *timer)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < timer->lane_count; i++)
        sum += atomic_load_explicit(&timer->lanes[i].given, memory_order_relaxed);
    return sum;
}

/*
 * Between two batches: a backlog does not wait until all that is due has run, or it would grow
 * without bound beside many slow tasks. What is filed now is for the ticks after this pass. Not
 * within a batch: what is taken and has not run is in no bucket, and must not be discarded.
 */
static void keep_up(hwt_timer *timer)
{
    struct hwt_worker *worker = &timer->worker;
    uint64_t now = given(timer);
    if (now - worker->given < HWT_BACKLOG)
        return;
    worker->given = now;
    worker->earliest = worker->limit;
    hwt_worker_tidy(timer);
}

static void expire(hwt_timer *timer)
{
    struct hwt_worker *worker = &timer->worker;
    struct hwt_entry *batch[HWT_BATCH];
    size_t n, since = 0;
    while (!stopping(timer) &&
           (n = hwt_wheel_take(&worker->wheel, worker->limit, batch, HWT_BATCH)) > 0) {
        /* The end of this tick, not of the last: what was pushed back to a later one, though
         * that is over too, takes its turn there. */
        uint64_t horizon = end_of(&worker->wheel, worker->wheel.tick);
        for (size_t i = 0; i < n; i++) {
            /* The entries come since they were taken; what their tasks will look at, from here. */
            if (i + AHEAD < n)
                __builtin_prefetch(batch[i + AHEAD]->arg);
            if (stopping(timer))
                file_again(timer, batch[i], 0);
            else
                expire_one(timer, batch[i], horizon);
        }
        since += n;
        if (since >= HWT_BATCH) { /* not after each tick, where each has but one */
            hwt_recycler_flush(timer, &worker->recycler);
            since = 0;
        }
        keep_up(timer);
    }
    hwt_recycler_flush(timer, &worker->recycler);
}

uint64_t hwt_worker_pass(hwt_timer *timer, uint64_t now)
{
    struct hwt_worker *worker = &timer->worker;
    if (now < atomic_load_explicit(&worker->now, memory_order_relaxed))
        now = atomic_load_explicit(&worker->now, memory_order_relaxed);
    atomic_store_explicit(&worker->now, now, memory_order_relaxed);
    worker->limit = hwt_wheel_ticks(&worker->wheel, now);
    worker->horizon = hwt_wheel_instant(&worker->wheel, worker->limit);
    worker->runs = 0;
    worker->unfiled = false;

    worker->given = given(timer);
    hwt_worker_tidy(timer);
    expire(timer);
    reap(timer);
    worker->horizon = 0; /* nothing runs outside of a pass */
    worker->earliest = 0;
    hwt_worker_publish_bytes(timer);
    return worker->runs;
}

/* ---- waiting ---- */

uint64_t hwt_worker_next_tick(hwt_timer *timer)
{
    struct hwt_wheel *wheel = &timer->worker.wheel;
    timer->worker.unfiled = false;
    hwt_worker_tidy(timer);
    uint64_t next = hwt_wheel_next(wheel);
    hwt_worker_publish_bytes(timer);
    return end_of(wheel, timer->worker.unfiled ? wheel->tick : next);
}

/* Whether anything was cancelled since the last call. */
static bool cancels_go_on(hwt_timer *timer)
{
    uint64_t cancelled = 0;
    for (uint32_t i = 0; i < timer->lane_count; i++)
        cancelled += atomic_load_explicit(&timer->lanes[i].cancelled, memory_order_relaxed);
    bool more = cancelled != timer->worker.cancelled;
    timer->worker.cancelled = cancelled;
    return more;
}

bool hwt_worker_park(hwt_timer *timer)
{
    struct hwt_worker *worker = &timer->worker;
    struct hwt_wheel *wheel = &worker->wheel;
    /* Where timeouts were cancelled, more will be: sleep for a tick, rather than be woken by
     * each of them. */
    bool briefly = cancels_go_on(timer);
    uint64_t next = hwt_wheel_next(wheel);
    uint64_t promised = briefly ? wheel->tick : next;
    HWT_MEET(PARK_A);
    hwt_gate_close(timer,
                   promised <= wheel->tick ? HWT_GATE_SHORT : hwt_wheel_instant(wheel, promised));

    HWT_MEET(PARK_B);
    /* Step B of clock.h. From here on, producers look at the gate. */
    hwt_worker_tidy(timer);
    next = hwt_wheel_next(wheel);
    hwt_worker_publish_bytes(timer);
    /* A stalled lane or want of memory is looked at again in a tick. */
    if (worker->unfiled)
        next = wheel->tick;
    /* No longer than the gate says, though the tidying has put off what it was closed for. */
    if (next > promised)
        next = promised;
    if (next <= wheel->tick)
        hwt_gate_shorten(timer);
    HWT_MEET(PARK_CHECK);
    /* Seq_cst: stop sets the flag, and who asks for a dump the text, then looks at the gate. */
    if (atomic_load_explicit(&timer->stopping, memory_order_seq_cst) ||
        atomic_load_explicit(&timer->dump, memory_order_seq_cst))
        return false;
    HWT_PROBE2(park, timer, end_of(wheel, next));
    return hwt_gate_arm(timer, end_of(wheel, next));
}

void *hwt_worker_main(void *arg)
{
    hwt_timer *timer = arg;
    HWT_MEET(WORKER);
    pthread_setname_np(pthread_self(), timer->worker_name);
    while (!stopping(timer)) {
        hwt_worker_pass(timer, hwt_timer_now(timer));
        hwt_dump_answer(timer);
        if (hwt_worker_park(timer)) {
            HWT_MEET(SLEEP);
            hwt_gate_sleep(timer);
            atomic_fetch_add_explicit(&timer->run_stats.wakeups, 1, memory_order_relaxed);
            HWT_PROBE1(wake, timer);
        }
        HWT_MEET(AWAKE);
        hwt_gate_awake(timer);
    }
    return NULL;
}
