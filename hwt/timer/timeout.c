/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Handle functions. The states are in entry.h.
 *
 * What each costs, where the system has membarrier and the processor a 16-byte exchange:
 *
 *                      locked operations    lines that another core writes or reads too
 *     new timeout      none                 the record, of those that are read in order
 *     cancel           1                    none
 *     reschedule       1, of 16 bytes       none; to an earlier instant the record
 *     file             none                 the records; not the entry
 *     discard          none                 none, if the entry was used again since; else the entry
 *     fire             1 of 16 bytes, 1     the entry, once
 *
 * (and a few for every 62 records or 32 entries: a chunk, a batch.) The canceller has the
 * entry from then on, and uses it for its next timeout while it is in its processor's cache. The
 * worker is not told: what it has filed is a hint, which it throws away when it meets it. Only a
 * timeout whose task has `cancelled` goes through the stream of cancelled ones, to be told there.
 */

#include <errno.h>

#include "hwt/base/probes.h"
#include "hwt/timer/timer.h"
#include "hwt/worker/task.h"

static hwt_timer *timer_of(struct hwt_shared *shared)
{
    return (hwt_timer *)(void *)shared;
}

/* ---- cancelling ---- */

/* After it was cancelled from `state`. The entry is the canceller's, or, UNTOLD, the teller's. */
static void dismiss(struct hwt_shared *shared, struct hwt_entry *entry, uint32_t id, uint64_t state,
                    bool untold)
{
    uint64_t generation = hwt_generation(state);
    struct hwt_lane *lane = hwt_shared_enter(shared);
    HWT_PROBE3(cancel, shared, entry, generation);
    hwt_count(&lane->cancelled_count, 1, false);
    /* What is to be told keeps its place until then: so there is not more of it than places. */
    if (!untold)
        hwt_unreserve(shared);
    HWT_SCHED_POINT(CANCEL_SAY);
    /* What the executor has is told and freed there. */
    if (untold && !(state & HWT_HANDED))
        hwt_shared_publish_cancelled(shared, lane, id, generation);
    if (!untold)
        hwt_pool_give(&shared->pool, &lane->cache, entry);
    hwt_shared_leave(shared, lane);
}

/* Whatever there is to mind. */
__attribute__((noinline)) static bool cancel_slow(hwt_timeout timeout, struct hwt_shared *shared)
{
    struct hwt_entry *entry = timeout.entry;
    uint32_t id = hwt_entry_id(entry); /* before it may be another's: see slab.h */
    for (;;) {
        uint64_t state = hwt_entry_state(entry);
        if (__builtin_expect(hwt_state_queued(state, timeout.generation), 1)) {
            bool untold = state & (HWT_HANDED | HWT_HAS_CANCELLED);
            HWT_SCHED_POINT(CANCEL);
            if (!(untold ? hwt_entry_try_cancel_untold(entry, state)
                         : hwt_entry_try_cancel(entry, state, false)))
                continue;
            dismiss(shared, entry, id, state, untold);
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
        dismiss(shared, entry, id, state | HWT_HANDED, true); /* to the one that runs it */
        return true;
    }
}

/* With one thread: of a task that has no `cancelled`. */
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
    uint32_t slow_path_bits = atomic_load_explicit(&shared->slow_path_bits, memory_order_relaxed);
    HWT_SCHED_POINT(CANCEL);
    if (slow_path_bits != 0)
        return slow_path_bits == HWT_ONE_THREADED ? cancel_single(timeout, shared, state)
                                                  : cancel_slow(timeout, shared);
    /* The short way, where there is nothing to mind. */
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
            hwt_halted_by(timer_of(shared), HWT_HALTED_FORKED))
            return was_pending;
        HWT_SCHED_POINT(CANCEL_WAIT);
        if (state & HWT_WAITED || hwt_entry_await(entry, state)) {
            hwt_task_wait(shared, timeout);
            return was_pending;
        }
    }
}

/* ---- moving ---- */

/* In its own task, not re-armed yet. */
static bool rearm(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t state,
                  uint64_t deadline)
{
    HWT_PROBE4(reschedule, shared, entry, hwt_generation(state), deadline);
    /* Counted before it can be cancelled. */
    hwt_reserve_beyond(shared);
    hwt_count(&shared->stats.rearmed, 1, shared->executor != NULL);
    while (!(state & HWT_BARRED)) {
        HWT_SCHED_POINT(REARM);
        if (hwt_entry_rearm(entry, state, hwt_entry_deadline(entry), deadline, shared->one_thread))
            return true;
        state = hwt_entry_state(entry);
    }
    hwt_unreserve(shared);
    hwt_count(&shared->stats.rearmed, UINT64_MAX, shared->executor != NULL);
    return false;
}

/* With one thread. It is unread, or in the worker's hands; or it is filed, and then it leaves a place
 * that is too late, unless it has a turn there in the pass that goes on or was cut short. */
static void publish_earlier_single(struct hwt_shared *shared, struct hwt_lane *lane, uint32_t id,
                                   hwt_timeout timeout, uint64_t deadline)
{
    const struct hwt_worker *worker = &timer_of(shared)->worker;
    struct hwt_place *place = hwt_entry_place(timeout.entry);
    if (!hwt_worker_is_filed(timeout)) {
        hwt_lane_hasten(lane, deadline);
        if (hwt_gate_asks(&shared->gate, deadline))
            hwt_gate_wake(&shared->gate);
    } else if (hwt_wheel_is_after(&worker->wheel, place,
                                  hwt_ticks_at(&worker->wheel.ticks, deadline))) {
        if (hwt_wheel_is_after(&worker->wheel, place, worker->limit))
            place->where = 0;
        hwt_shared_publish_pending(shared, lane, deadline, id, timeout.generation);
    }
}

/* The place or the record that it has may be too late now. */
static void publish_earlier(struct hwt_shared *shared, struct hwt_lane *lane, uint32_t id,
                            hwt_timeout timeout, uint64_t deadline)
{
    HWT_SCHED_POINT(MOVE_SAY);
    if (shared->one_thread)
        publish_earlier_single(shared, lane, id, timeout, deadline);
    else
        hwt_shared_publish_pending(shared, lane, deadline, id, timeout.generation);
    /* After a barrier, see gate.h. Relaxed: see end.c. */
    if (hwt_halted_by(timer_of(shared), HWT_HALTED_ENDING))
        atomic_fetch_add_explicit(&shared->hastened, 1, memory_order_relaxed);
}

/* Whatever there is to mind. */
__attribute__((noinline)) static bool move_slow(hwt_timeout timeout, uint64_t deadline)
{
    struct hwt_entry *entry = timeout.entry;
    struct hwt_shared *shared = hwt_shared_of(entry);
    uint32_t id = hwt_entry_id(entry);
    uint64_t state, before;
    for (;;) {
        state = hwt_entry_state(entry);
        before = hwt_entry_deadline(entry);
        if (!hwt_state_live(state, timeout.generation) ||
            hwt_halted_by(timer_of(shared), HWT_HALTED_FORKED))
            return false;
        if (__builtin_expect(!hwt_state_pending(state), 0)) {
            if (hwt_phase(state) != HWT_PHASE_RUNNING || !hwt_own_task(timeout) ||
                !rearm(shared, entry, state, deadline))
                return false;
            before = 0;
            break;
        }
        HWT_SCHED_POINT(MOVE);
        if (hwt_entry_move(entry, state, before, deadline, false)) {
            HWT_PROBE4(reschedule, shared, entry, timeout.generation, deadline);
            break;
        }
    }
    struct hwt_lane *lane = hwt_shared_enter(shared);
    hwt_count(&lane->rescheduled, 1, false);
    if (deadline < before && hwt_phase(state) == HWT_PHASE_PENDING)
        publish_earlier(shared, lane, id, timeout, deadline);
    hwt_shared_leave(shared, lane);
    return true;
}

/* With one thread: to an earlier instant. */
__attribute__((noinline)) static bool move_earlier_single(struct hwt_shared *shared,
                                                          hwt_timeout timeout, uint64_t deadline)
{
    struct hwt_lane *lane = shared->lanes.shared;
    hwt_count(&lane->rescheduled, 1, false);
    publish_earlier(shared, lane, hwt_entry_id(timeout.entry), timeout, deadline);
    return true;
}

static inline bool move_single(struct hwt_shared *shared, hwt_timeout timeout, uint64_t state,
                               uint64_t before, uint64_t deadline)
{
    (void)hwt_entry_move(timeout.entry, state, before, deadline, true);
    HWT_PROBE4(reschedule, shared, timeout.entry, timeout.generation, deadline);
    struct hwt_lane *lane = shared->lanes.shared;
    if (deadline < before) {
        if (hwt_entry_place(timeout.entry)->where != 0 ||
            __builtin_expect(hwt_gate_asks(&shared->gate, deadline), 0))
            return move_earlier_single(shared, timeout, deadline);
        hwt_lane_hasten(lane, deadline);
    }
    hwt_count(&lane->rescheduled, 1, false);
    return true;
}

/* To a later instant, where there is nothing to mind: nobody need be told. */
bool hwt_timeout_reschedule_at(hwt_timeout timeout, uint64_t deadline)
{
    struct hwt_entry *entry = timeout.entry;
    if (__builtin_expect(!entry, 0))
        return false;
    struct hwt_shared *shared = hwt_shared_of(entry);
    uint64_t state = hwt_entry_state(entry);
    uint64_t before = hwt_entry_deadline(entry);
    if (__builtin_expect(!hwt_state_queued(state, timeout.generation), 0))
        return hwt_generation(state) == timeout.generation && move_slow(timeout, deadline);
    uint32_t slow_path_bits = atomic_load_explicit(&shared->slow_path_bits, memory_order_relaxed);
    HWT_SCHED_POINT(MOVE);
    if (slow_path_bits != 0)
        return slow_path_bits == HWT_ONE_THREADED
                   ? move_single(shared, timeout, state, before, deadline)
                   : move_slow(timeout, deadline);
    struct hwt_lane *lane = hwt_lane_own(&shared->lanes);
    if (__builtin_expect(deadline < before || !lane, 0) ||
        __builtin_expect(!hwt_entry_move(entry, state, before, deadline, false), 0))
        return move_slow(timeout, deadline);
    HWT_PROBE4(reschedule, shared, entry, timeout.generation, deadline);
    hwt_count(&lane->rescheduled, 1, false);
    return true;
}

bool hwt_timeout_reschedule(hwt_timeout timeout, uint64_t delay)
{
    if (!timeout.entry)
        return false;
    __builtin_prefetch(timeout.entry, 1); /* comes while the clock is read */
    struct hwt_shared *shared = hwt_shared_of(timeout.entry);
    if (!hwt_state_live(hwt_entry_state(timeout.entry), timeout.generation))
        return false;
    return hwt_timeout_reschedule_at(timeout,
                                     hwt_saturating_add(hwt_time_from(&shared->time), delay));
}

/*
 * The last deadline + period, or where that has passed, the first of the series to come. Only
 * a run in time, in the very tick after its deadline, keeps a next one that belongs to the
 * tick that has just begun: else a period of one tick would be every second tick.
 */
static uint64_t next_of(struct hwt_frame *frame, uint64_t period)
{
    const struct hwt_ticks *ticks = &frame->shared->ticks;
    uint64_t now = hwt_time_reached(&frame->shared->time);
    uint64_t current = hwt_ticks_instant(ticks, hwt_ticks_at(ticks, now));
    uint64_t next = hwt_saturating_add(frame->deadline, period);
    bool in_time = hwt_saturating_add(frame->deadline, ticks->duration) >= current;
    frame->missed = 0;
    if (next > now || (in_time && next >= current))
        return next;
    frame->missed = (now - frame->deadline) / period;
    return hwt_saturating_add(now, period - (now - frame->deadline) % period);
}

bool hwt_timeout_repeat(hwt_timeout timeout, uint64_t period)
{
    struct hwt_frame *frame = hwt_own_task(timeout);
    if (!frame || period == 0)
        return false;
    return hwt_timeout_reschedule_at(timeout, next_of(frame, period));
}

uint64_t hwt_timeout_missed(hwt_timeout timeout)
{
    const struct hwt_frame *frame = hwt_own_task(timeout);
    return frame ? frame->missed : 0;
}

/* ---- asking ---- */

hwt_state hwt_timeout_state(hwt_timeout timeout)
{
    if (!timeout.entry)
        return HWT_GONE;
    uint64_t state = hwt_entry_state(timeout.entry);
    if (hwt_generation(state) != timeout.generation || hwt_phase(state) == HWT_PHASE_NEW)
        return HWT_GONE;
    if (hwt_state_pending(state))
        return HWT_PENDING;
    if (hwt_phase(state) == HWT_PHASE_EXPIRED ||
        (hwt_phase(state) == HWT_PHASE_RUNNING && !(state & HWT_REARMED)))
        return HWT_EXPIRED;
    return HWT_CANCELLED;
}

int hwt_timeout_get(hwt_timeout timeout, uint64_t *ret_deadline, const hwt_task **ret_task,
                    void **ret_arg)
{
    if (hwt_timeout_state(timeout) != HWT_PENDING)
        return -ENOENT;
    struct hwt_entry *entry = timeout.entry;
    uint64_t deadline = hwt_entry_deadline(entry);
    const hwt_task *task = hwt_entry_task(entry);
    void *arg = hwt_entry_arg(entry);
    HWT_SCHED_POINT(ASK_AGAIN);
    /* The state that is read last is not older than what was read between. */
    if (hwt_timeout_state(timeout) != HWT_PENDING)
        return -ENOENT;
    if (ret_deadline)
        *ret_deadline = deadline;
    if (ret_task)
        *ret_task = task;
    if (ret_arg)
        *ret_arg = arg;
    return 0;
}

uint64_t hwt_timeout_remaining(hwt_timeout timeout)
{
    uint64_t deadline;
    struct hwt_shared *shared = timeout.entry ? hwt_shared_of(timeout.entry) : NULL;
    if (!shared || hwt_timeout_get(timeout, &deadline, NULL, NULL) < 0)
        return 0;
    return hwt_time_until(&shared->time, deadline);
}
