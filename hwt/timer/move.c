/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Moving a pending timeout, and re-arming one from its own task. */

#include "hwt/base/probes.h"
#include "hwt/timer/timer.h"
#include "hwt/worker/task.h"

/* In the timeout's own task, which has not re-armed it yet. */
static bool rearm(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t state,
                  uint64_t deadline)
{
    HWT_PROBE4(reschedule, shared, entry, hwt_generation(state), deadline);
    /* It is counted before others can cancel it. */
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

/* With one thread. A timeout that is not filed has an unread record, or is in the worker's hands.
 * One that is filed too late is filed again. Then the later hint does not count any more, unless
 * its turn is in the pass that goes on or was cut short. */
static void publish_earlier_single(struct hwt_shared *shared, struct hwt_lane *lane, uint32_t id,
                                   hwt_timeout timeout, uint64_t deadline)
{
    const struct hwt_worker *worker = &hwt_timer_whole(shared)->worker;
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

/* After a move to an earlier instant, which the hint or the record of the timeout may miss. */
static void publish_earlier(struct hwt_shared *shared, struct hwt_lane *lane, uint32_t id,
                            hwt_timeout timeout, uint64_t deadline)
{
    HWT_SCHED_POINT(MOVE_PUBLISH);
    if (shared->one_thread)
        publish_earlier_single(shared, lane, id, timeout, deadline);
    else
        hwt_shared_publish_pending(shared, lane, deadline, id, timeout.generation);
    /* After a barrier, see gate.h. Relaxed: see end.c. */
    if (hwt_halted_by(hwt_timer_whole(shared), HWT_HALTED_ENDING))
        atomic_fetch_add_explicit(&shared->hastened, 1, memory_order_relaxed);
}

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
            hwt_halted_by(hwt_timer_whole(shared), HWT_HALTED_FORKED))
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
    hwt_lane_leave(&shared->lanes, lane);
    return true;
}

/* With one thread: a move to an earlier instant, which more must be done for. */
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

/* The fast way is a move to a later instant: it tells nobody. */
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
    uint32_t bits = atomic_load_explicit(&shared->slow_path_bits, memory_order_relaxed);
    HWT_SCHED_POINT(MOVE);
    if (bits != hwt_process.fast)
        return bits == hwt_process.single ? move_single(shared, timeout, state, before, deadline)
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
 * The next instant of a series: the last deadline + period; or if that has passed, the first one
 * that is still to come. But a run in time, in the very tick after its deadline, may have a next
 * instant in the tick that has just begun. Without that, a period of one tick would become two.
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
