/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* New timeouts: the fast way, the slow way, and the way of one thread. */

#include <errno.h>

#include "hwt/base/probes.h"
#include "hwt/timer/timer.h"
#include "hwt/worker/task.h"

#define UNTOLD 1 /* accepted, but perhaps cancelled, and then this thread must tell it */

static bool is_renewal(uint64_t generation)
{
    return generation % HWT_RENEWAL == 0;
}

/* Sends an entry that was used 2^28 times through the worker. False: the entry can be used now. */
static bool renew(hwt_timer *timer, struct hwt_lane *lane, struct hwt_entry *entry)
{
    uint64_t generation = hwt_generation(hwt_entry_state(entry)) + 1;
    if (!is_renewal(generation))
        return false;
    if (timer->shared.one_thread) {
        /* The generation before this one: the worker may still have that in its hands. */
        hwt_worker_outdate(&timer->worker, hwt_entry_id(entry), (uint32_t)generation - 1);
        return false;
    }
    uint32_t id = hwt_entry_id(entry); /* it is read before the entry is the worker's */
    hwt_entry_renew(entry, generation);
    if (!hwt_lane_publish_cancelled(&timer->shared.lanes, lane,
                                    (struct hwt_record){ 0, id, (uint32_t)generation }))
        hwt_shared_need_rescan(&timer->shared);
    return true;
}

/* -ESHUTDOWN: the adder has ended the timeout, and refuses it. UNTOLD: another thread has. */
static int take_back(struct hwt_shared *shared, struct hwt_lane *lane, struct hwt_entry *entry,
                     uint64_t state)
{
    if (!hwt_entry_withdraw(entry, state))
        return hwt_in_callback(shared)
                   ? 0
                   : UNTOLD; /* stop waits for callbacks before it looks at entries */
    hwt_count(&lane->added, UINT64_MAX, false);
    hwt_pool_give(&shared->pool, &lane->cache, entry);
    return -ESHUTDOWN;
}

/*
 * After the timeout was published: takes it back if stop has begun. Stop sets STOPPING, makes all
 * threads pass a barrier, and only then looks at the entries. So stop sees this entry, or this
 * thread sees the bit. Then the exchange decides which thread ends the timeout. -ESHUTDOWN: the
 * adder has, and refuses it. UNTOLD: another thread has. If that was a canceller, the adder must
 * tell it, because stop may be past the entry already.
 */
static int withdraw(struct hwt_shared *shared, struct hwt_lane *lane, struct hwt_entry *entry,
                    uint64_t state)
{
    /* Relaxed: after a barrier, see gate.h. */
    uint32_t halted = atomic_load_explicit(&shared->slow_path_bits, memory_order_relaxed);
    if (__builtin_expect(!(halted & HWT_HALTED_STOPPING), 1))
        return 0;
    HWT_SCHED_POINT(WITHDRAW);
    return take_back(shared, lane, entry, state);
}

/* After publishing: wakes the worker if that must be, and takes the timeout back after a stop. */
static int announce(hwt_timer *timer, struct hwt_lane *lane, struct hwt_entry *entry,
                    uint64_t state, uint64_t deadline, hwt_timeout *ret_timeout)
{
    struct hwt_shared *shared = &timer->shared;
    HWT_SCHED_POINT(PUBLISHED);
    if (hwt_gate_asks(&shared->gate, deadline))
        hwt_gate_wake(&shared->gate);
    HWT_SCHED_POINT(ADD_CHECK);
    int r = withdraw(shared, lane, entry, state);
    if (r >= 0 && ret_timeout)
        *ret_timeout = (hwt_timeout){ entry, hwt_generation(state) };
    return r;
}

/* The same where the stream with its record is on no list yet. */
__attribute__((noinline)) static int list_and_announce(hwt_timer *timer, struct hwt_lane *lane,
                                                       struct hwt_entry *entry, uint64_t state,
                                                       uint64_t deadline, hwt_timeout *ret_timeout)
{
    hwt_full_barrier(); /* with FENCED this thread makes the barrier itself: see gate.h */
    hwt_streams_list(&timer->shared.lanes.pending, &lane->pending);
    int r = announce(timer, lane, entry, state, deadline, ret_timeout);
    if (r == UNTOLD)
        hwt_task_tell(&timer->shared, entry, hwt_generation(state));
    return r < 0 ? r : 0;
}

static int accept_timeout(hwt_timer *timer, struct hwt_lane *lane, const hwt_task *task, void *arg,
                          uint64_t deadline, hwt_timeout *ret_timeout)
{
    struct hwt_shared *shared = &timer->shared;
    struct hwt_entry *entry;
    do {
        entry = hwt_pool_take(&shared->pool, &lane->cache);
        if (!entry)
            return -ENOMEM;
    } while (renew(timer, lane, entry));
    hwt_count(&lane->added, 1, false);
    uint32_t id =
        hwt_entry_id(entry); /* it is read before others can end the timeout: see slab.h */
    uint64_t state = hwt_entry_begin(entry, task, arg, deadline);
    HWT_PROBE4(add, timer, entry, hwt_generation(state), deadline);
    HWT_SCHED_POINT(ADD_PUBLISH);
    hwt_shared_append_pending(shared, lane, deadline, id, hwt_generation(state));
    return announce(timer, lane, entry, state, deadline, ret_timeout);
}

/* The start on which this arm has relied has failed meanwhile: tries it, and takes the timeout back
 * if that fails, too. If another thread has ended the timeout, it was accepted. */
static int start_late(hwt_timer *timer, hwt_timeout added)
{
    struct hwt_shared *shared = &timer->shared;
    int r = hwt_timer_start_to_arm(timer);
    if (r == 0)
        return 0;
    struct hwt_lane *lane = hwt_shared_enter(shared);
    uint64_t state = hwt_entry_state(added.entry);
    if (state & HWT_HANDED || !hwt_state_queued(state, added.generation) ||
        take_back(shared, lane, added.entry, state) != -ESHUTDOWN)
        r = 0;
    if (r < 0)
        hwt_unreserve(shared);
    if (r < 0 && r != -ESHUTDOWN && r != -EINVAL)
        hwt_count(&lane->rejected, 1, false);
    hwt_lane_leave(&shared->lanes, lane);
    return r;
}

__attribute__((noinline)) static int new_timeout_slow(hwt_timer *timer, const hwt_task *task,
                                                      void *arg, uint64_t deadline,
                                                      hwt_timeout *ret_timeout)
{
    struct hwt_shared *shared = &timer->shared;
    int r = hwt_timer_start_to_arm(timer);
    if (r == -ESHUTDOWN || r == -EINVAL)
        return r;
    struct hwt_lane *lane = hwt_shared_enter(shared);
    hwt_timeout added = { NULL, 0 };
    if (r == 0 && shared->max_pending > 0 && !hwt_reserve(shared))
        r = -ENOBUFS;
    if (r == 0) {
        r = accept_timeout(timer, lane, task, arg, deadline, &added);
        if (r < 0)
            hwt_unreserve(shared);
    }
    if (r < 0 && r != -ESHUTDOWN)
        hwt_count(&lane->rejected, 1, false);
    hwt_lane_leave(&shared->lanes, lane);
    if (r == 0 && __builtin_expect(hwt_halted_by(timer, HWT_HALTED_UNSTARTED), 0))
        r = start_late(timer, added);
    if (r >= 0 && ret_timeout)
        *ret_timeout = added;
    if (r == UNTOLD)
        hwt_task_tell(shared, added.entry, added.generation);
    return r < 0 ? r : 0;
}

/* Takes an entry from the cache of the lane, counts it, and fills it in. The caller publishes it in
 * *ret_state. NULL: there is no entry, no room for a record, or the entry must be renewed, and
 * nothing was done. */
static inline struct hwt_entry *take_fast(struct hwt_lane *lane, const hwt_task *task, void *arg,
                                          uint64_t deadline, uint64_t *ret_state)
{
    struct hwt_entry *entry = lane->cache.first;
    if (__builtin_expect(!entry, 0) || __builtin_expect(hwt_stream_is_full(&lane->pending), 0))
        return NULL;
    uint64_t state = hwt_entry_next_state(entry, task);
    if (__builtin_expect(is_renewal(hwt_generation(state)), 0))
        return NULL;
    hwt_cache_drop(&lane->cache, entry);
    hwt_entry_set(entry, task, arg, deadline);
    hwt_count(&lane->added, 1, false); /* it is counted before others can end it */
    *ret_state = state;
    return entry;
}

__attribute__((noinline)) static int new_timeout_single(hwt_timer *timer, const hwt_task *task,
                                                        void *arg, uint64_t deadline,
                                                        hwt_timeout *ret_timeout)
{
    struct hwt_shared *shared = &timer->shared;
    struct hwt_lane *lane = shared->lanes.shared;
    uint64_t state;
    struct hwt_entry *entry;
    if (__builtin_expect(hwt_gate_asks(&shared->gate, deadline), 0) ||
        (entry = take_fast(lane, task, arg, deadline, &state)) == NULL)
        return new_timeout_slow(timer, task, arg, deadline, ret_timeout);
    uint64_t generation = hwt_generation(state);
    hwt_entry_publish(entry, state);
    HWT_PROBE4(add, timer, entry, generation, deadline);
    hwt_lane_append_pending(lane, deadline, entry, generation);
    if (ret_timeout)
        *ret_timeout = (hwt_timeout){ entry, generation };
    return 0;
}

__attribute__((noinline)) static int new_timeout_fast(hwt_timer *timer, const hwt_task *task,
                                                      void *arg, uint64_t deadline,
                                                      hwt_timeout *ret_timeout)
{
    struct hwt_shared *shared = &timer->shared;
    struct hwt_lane *lane = hwt_lane_own(&shared->lanes);
    uint64_t state;
    struct hwt_entry *entry;
    if (__builtin_expect(!lane, 0) ||
        (entry = take_fast(lane, task, arg, deadline, &state)) == NULL)
        return new_timeout_slow(timer, task, arg, deadline, ret_timeout);
    uint64_t generation = hwt_generation(state);
    uint32_t id = hwt_entry_id(entry); /* it is read before others can end the timeout */
    hwt_entry_publish(entry, state);
    HWT_PROBE4(add, timer, entry, generation, deadline);
    HWT_SCHED_POINT(ADD_PUBLISH);
    hwt_stream_append(&lane->pending, (struct hwt_record){ deadline, id, (uint32_t)generation });
    /* All these looks come after the append: see gate.h. */
    if (__builtin_expect(!hwt_stream_is_listed(&lane->pending), 0) ||
        __builtin_expect(hwt_gate_asks(&shared->gate, deadline), 0) ||
        __builtin_expect(atomic_load_explicit(&shared->slow_path_bits, memory_order_relaxed) !=
                             hwt_process.fast,
                         0))
        return list_and_announce(timer, lane, entry, state, deadline, ret_timeout);
    if (ret_timeout)
        *ret_timeout = (hwt_timeout){ entry, generation };
    return 0;
}

int hwt_timer_new_timeout_at(hwt_timer *timer, const hwt_task *task, void *arg, uint64_t deadline,
                             hwt_timeout *ret_timeout)
{
    if (!timer || !task || !task->run)
        return -EINVAL;
    /* Acquire: the worker that was started. */
    uint32_t bits = atomic_load_explicit(&timer->shared.slow_path_bits, memory_order_acquire);
    if (bits == hwt_process.fast)
        return new_timeout_fast(timer, task, arg, deadline, ret_timeout);
    if (bits == hwt_process.single)
        return new_timeout_single(timer, task, arg, deadline, ret_timeout);
    return new_timeout_slow(timer, task, arg, deadline, ret_timeout);
}

int hwt_timer_new_timeout(hwt_timer *timer, const hwt_task *task, void *arg, uint64_t delay,
                          hwt_timeout *ret_timeout)
{
    if (!timer || !task || !task->run)
        return -EINVAL;
    uint64_t deadline = hwt_saturating_add(hwt_time_from(&timer->shared.time), delay);
    return hwt_timer_new_timeout_at(timer, task, arg, deadline, ret_timeout);
}
