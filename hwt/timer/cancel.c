/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Cancelling. The states are in entry.h.
 *
 * The cost of each step, if the system has membarrier and the processor a 16-byte exchange:
 *
 *                      locked operations    lines that another core writes or reads too
 *     new timeout      none                 the record, one of those that are read in order
 *     cancel           1                    none
 *     reschedule       1, of 16 bytes       none; to an earlier instant the record
 *     file             none                 the records; not the entry
 *     discard          none                 none, if the entry was used again since; else the entry
 *     fire             1 of 16 bytes, 1     the entry, once
 *
 * (There are a few more for every 62 records or 32 entries: a chunk, a batch.) The canceller owns
 * the entry from then on, and uses it for its next timeout while it is in its processor's cache.
 * The worker is not told: it throws the hint away when it meets it. Only a timeout whose task has
 * `cancelled` goes through the stream of cancelled ones, so that the worker calls that.
 */

#include <sched.h>

#include "hwt/base/probes.h"
#include "hwt/timer/timer.h"
#include "hwt/worker/task.h"

/* A cancelled timeout that is to be told holds its entry until then, and the worker may be one of
 * very many threads that wait for a processor. In a callback this thread may be the worker
 * itself. */
static void let_worker_on(const struct hwt_shared *shared)
{
    if (!shared->one_thread && !hwt_in_callback(shared))
        sched_yield();
}

/* After a cancel from `state`. The entry is the canceller's; or the teller's, if UNTOLD. */
static void finish_cancel(struct hwt_shared *shared, struct hwt_entry *entry, uint32_t id,
                          uint64_t state, bool untold)
{
    uint64_t generation = hwt_generation(state);
    struct hwt_lane *lane = hwt_shared_enter(shared);
    bool far_ahead = false;
    HWT_PROBE3(cancel, shared, entry, generation);
    hwt_count(&lane->cancelled_count, 1, false);
    /* A timeout that is to be told counts against max_pending until then. */
    if (!untold)
        hwt_unreserve(shared);
    HWT_SCHED_POINT(CANCEL_PUBLISH);
    /* The executor's thread tells and frees what it has. */
    if (untold && !(state & HWT_HANDED)) {
        hwt_shared_publish_cancelled(shared, lane, id, generation);
        far_ahead = hwt_lane_is_far_ahead(lane);
    }
    if (!untold)
        hwt_pool_give(&shared->pool, &lane->cache, entry);
    hwt_lane_leave(&shared->lanes, lane);
    if (__builtin_expect(far_ahead, 0))
        let_worker_on(shared);
}

__attribute__((noinline)) static bool cancel_slow(hwt_timeout timeout, struct hwt_shared *shared)
{
    struct hwt_entry *entry = timeout.entry;
    uint32_t id = hwt_entry_id(entry); /* it is read before others can use the entry: see slab.h */
    for (;;) {
        uint64_t state = hwt_entry_state(entry);
        if (__builtin_expect(hwt_state_queued(state, timeout.generation), 1)) {
            bool untold = state & (HWT_HANDED | HWT_HAS_CANCELLED);
            HWT_SCHED_POINT(CANCEL);
            if (!(untold ? hwt_entry_try_cancel_untold(entry, state)
                         : hwt_entry_try_cancel(entry, state, false)))
                continue;
            finish_cancel(shared, entry, id, state, untold);
            return true;
        }
        if (hwt_generation(state) != timeout.generation || hwt_phase(state) != HWT_PHASE_RUNNING ||
            state & HWT_BARRED)
            return false;
        HWT_SCHED_POINT(BAR);
        if (!hwt_entry_bar(entry, state))
            continue;
        if (!(state & HWT_REARMED))
            return false;
        finish_cancel(shared, entry, id, state | HWT_HANDED, true); /* the runner tells it */
        return true;
    }
}

__attribute__((noinline)) static bool cancel_single(hwt_timeout timeout, struct hwt_shared *shared,
                                                    uint64_t state)
{
    struct hwt_lane *lane = shared->lanes.shared;
    if (__builtin_expect(lane->cache.count == HWT_CACHE_BATCH, 0))
        return cancel_slow(timeout, shared);
    (void)hwt_entry_try_cancel(timeout.entry, state, true);
    HWT_PROBE3(cancel, shared, timeout.entry, timeout.generation);
    hwt_count(&lane->cancelled_count, 1, false);
    hwt_cache_add(&lane->cache, timeout.entry);
    return true;
}

bool hwt_timeout_cancel(hwt_timeout timeout)
{
    struct hwt_entry *entry = timeout.entry;
    if (__builtin_expect(!entry, 0))
        return false;
    struct hwt_shared *shared = hwt_shared_of(entry);
    uint64_t state = hwt_entry_state(entry);
    if (__builtin_expect(!hwt_state_quiet(state, timeout.generation), 0))
        return hwt_generation(state) == timeout.generation && cancel_slow(timeout, shared);
    uint32_t bits = atomic_load_explicit(&shared->slow_path_bits, memory_order_relaxed);
    HWT_SCHED_POINT(CANCEL);
    if (bits != hwt_process.fast)
        return bits == hwt_process.single ? cancel_single(timeout, shared, state)
                                          : cancel_slow(timeout, shared);
    /* The fast way with threads. */
    struct hwt_lane *lane = hwt_lane_own(&shared->lanes);
    if (__builtin_expect(!lane, 0) || __builtin_expect(lane->cache.count == HWT_CACHE_BATCH, 0) ||
        __builtin_expect(!hwt_entry_try_cancel(entry, state, false), 0))
        return cancel_slow(timeout, shared);
    HWT_PROBE3(cancel, shared, entry, timeout.generation);
    hwt_count(&lane->cancelled_count, 1, false);
    hwt_cache_add(&lane->cache, entry);
    return true;
}

bool hwt_timeout_cancel_sync(hwt_timeout timeout)
{
    bool was_pending = hwt_timeout_cancel(timeout);
    struct hwt_entry *entry = timeout.entry;
    if (!entry || hwt_own_task(timeout))
        return was_pending;
    struct hwt_shared *shared = hwt_shared_of(entry);
    for (;;) {
        uint64_t state = hwt_entry_state(entry);
        if (hwt_generation(state) != timeout.generation || !hwt_state_in_callback(state) ||
            hwt_halted_by(hwt_timer_whole(shared), HWT_HALTED_FORKED))
            return was_pending;
        HWT_SCHED_POINT(CANCEL_WAIT);
        if (state & HWT_WAITED || hwt_entry_await(entry, state)) {
            hwt_task_wait(shared, timeout);
            return was_pending;
        }
    }
}
