/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_SHARED_H
#define HWT_SHARED_H

/* The part of a timer that all threads share, grouped by which thread may write it. It is the
 * timer's first member, so the pointer in the head of a slab leads to both. */

#include "hwt/base/process.h"
#include "hwt/inbox/gate.h"
#include "hwt/inbox/lane.h"
#include "hwt/pool/pool.h"
#include "hwt/wheel/wheel.h"
#include "hwt/worker/clock.h"
#include "hwt/worker/counters.h"

/* Bits of `slow_path_bits`. While it is `fast` or `single` of process.h, as mostly, calls go a fast
 * way. */
enum {
    HWT_HALTED_UNSTARTED = 1, /* the first timeout starts the worker */
    HWT_HALTED_STOPPING = 2,
    HWT_HALTED_ENDING = 4, /* what is pending may run; nothing new */
    HWT_HALTED_FORKED = 8, /* this is a child of fork(), and the timer was in use */
    HWT_ONE_THREADED = 16,
    HWT_LIMITED = 32,          /* by max_pending */
    HWT_FENCED = 64,           /* the producers make their own barriers */
    HWT_HALTED_STARTING = 256, /* a thread starts the worker, and others arm already */
};

_Static_assert(HWT_PROCESS_FAST == 128, "it is none of the others");
_Static_assert(HWT_PROCESS_SINGLE == (HWT_PROCESS_FAST | HWT_ONE_THREADED),
               "a timer always has the bit of FAST");

/* The highest bit of `submitted`: stop waits until the executor has no entry. */
#define HWT_SUBMITTED_WAITED ((uint32_t)1 << 31)

struct hwt_shared {
    /* Frozen after create; `ticks` may begin anew in a child of fork(), see fork.c. */
    struct hwt_time time;
    struct hwt_ticks ticks;
    uint64_t max_pending;
    hwt_executor executor;
    void *executor_data;
    bool one_thread; /* HWT_ONE_THREAD: no exchanges, and one lane */

    /* The bits above. All threads read them, and change single bits atomically. */
    _Atomic uint32_t slow_path_bits;

    /* There was no memory for a record or a hint, so the worker must look at all entries. Any
     * thread sets it, the worker clears it. */
    _Atomic bool rescan_needed;

    struct hwt_gate gate;
    struct hwt_lanes lanes;
    struct hwt_pool pool;

    /* How many timeouts count against max_pending, if there is one. */
    _Alignas(64) _Atomic uint64_t reserved;

    /* Moves to an earlier instant, while the timer is ENDING; see end.c. */
    _Atomic uint64_t hastened;

    /* Written by the threads that run tasks; see counters.h. */
    _Alignas(64) struct hwt_run_stats stats;

    /* How many entries the executor has, and HWT_SUBMITTED_WAITED. Any thread: it acquires and
     * releases what was done to them. */
    _Atomic uint32_t submitted;

    /* Counts what a thread may wait for: the return of a task, a request that was done. Who waits
     * sleeps on it. */
    _Atomic uint32_t returns;
};

static inline struct hwt_shared *hwt_shared_of(const struct hwt_entry *entry)
{
    return (struct hwt_shared *)(void *)hwt_timer_of(entry);
}

/* In a forked child nothing is called back. Relaxed: this thread itself was in the callback. */
static inline bool hwt_is_forked(const struct hwt_shared *shared)
{
    return atomic_load_explicit(&shared->slow_path_bits, memory_order_relaxed) & HWT_HALTED_FORKED;
}

/* The calling thread's lane, until hwt_lane_leave(). */
static inline struct hwt_lane *hwt_shared_enter(struct hwt_shared *shared)
{
    return shared->one_thread ? shared->lanes.shared : hwt_lane_enter(&shared->lanes);
}

/* Counts one timeout against max_pending. False: there are as many already. Lock-free. */
static inline bool hwt_reserve(struct hwt_shared *shared)
{
    /* Relaxed, here and below: a number, it publishes nothing. */
    uint64_t reserved = atomic_load_explicit(&shared->reserved, memory_order_relaxed);
    do {
        if (reserved >= shared->max_pending)
            return false;
        HWT_SCHED_POINT(RESERVE);
    } while (!atomic_compare_exchange_weak_explicit(&shared->reserved, &reserved, reserved + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* The same for a re-arm, which is never refused. */
static inline void hwt_reserve_beyond(struct hwt_shared *shared)
{
    if (shared->max_pending > 0)
        atomic_fetch_add_explicit(&shared->reserved, 1, memory_order_relaxed);
}

static inline void hwt_unreserve(struct hwt_shared *shared)
{
    if (shared->max_pending > 0)
        atomic_fetch_sub_explicit(&shared->reserved, 1, memory_order_relaxed);
}

/* A record could not be written, or records were taken back, so the worker must look at all
 * entries. It may have gone to sleep meanwhile. */
static inline void hwt_shared_need_rescan(struct hwt_shared *shared)
{
    /* Release: the entries. An exchange, so that the release of an earlier thread stays. */
    atomic_exchange_explicit(&shared->rescan_needed, true, memory_order_release);
    hwt_full_barrier(); /* before the look at the gate, and at what stop has set */
    if (hwt_gate_is_long(&shared->gate))
        hwt_gate_wake(&shared->gate);
}

/* Producer: appends a record, so that the worker looks at the timeout for this deadline. */
static inline void hwt_shared_append_pending(struct hwt_shared *shared, struct hwt_lane *lane,
                                             uint64_t deadline, uint32_t id, uint64_t generation)
{
    bool published =
        shared->one_thread
            ? hwt_lane_publish_pending_single(&shared->lanes, lane, deadline, id, generation)
            : hwt_lane_publish_pending(&shared->lanes, lane, deadline, id, generation);
    if (!published)
        hwt_shared_need_rescan(shared);
}

/* The same, and wakes the worker if that cannot wait. */
static inline void hwt_shared_publish_pending(struct hwt_shared *shared, struct hwt_lane *lane,
                                              uint64_t deadline, uint32_t id, uint64_t generation)
{
    hwt_shared_append_pending(shared, lane, deadline, id, generation);
    HWT_SCHED_POINT(PUBLISHED);
    if (__builtin_expect(hwt_gate_asks(&shared->gate, deadline), 0))
        hwt_gate_wake(&shared->gate);
}

/* The same for a timeout that was cancelled, and is to be told. */
static inline void hwt_shared_publish_cancelled(struct hwt_shared *shared, struct hwt_lane *lane,
                                                uint32_t id, uint64_t generation)
{
    struct hwt_record record = { 0, id, (uint32_t)generation };
    bool published = shared->one_thread
                         ? hwt_lane_publish_cancelled_single(&shared->lanes, lane, record)
                         : hwt_lane_publish_cancelled(&shared->lanes, lane, record);
    if (!published)
        hwt_shared_need_rescan(shared);
    HWT_SCHED_POINT(PUBLISHED);
    if (hwt_gate_is_long(&shared->gate))
        hwt_gate_wake(&shared->gate);
}

#endif
