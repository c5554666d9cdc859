/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Handle functions, and the state word of a timeout.
 *
 *                         .------------- re-armed: the task has returned -------------.
 *                         v                                                           |
 *     new_timeout --> QUEUED --> ARMED --> [SUBMITTED, with an executor] --> RUNNING --+--> EXPIRED
 *                       | ^        |            |                              |
 *                       | '--------|---- moved earlier (its link was free)     | cancelled after
 *                       v          v            v                              v it re-armed
 *                       '---------------------- CANCELLED --------------------'
 *
 * (what the worker ran itself and has re-armed itself goes to ARMED at once, if nothing that the
 * worker added before waits in a queue). Then the entry goes back to the pool, keeping its state
 * word: an old handle still reads how it ended, until the next use of the entry raises the
 * generation.
 *
 * GROUND RULES
 *
 * state     Changed by compare-exchange only, by anyone who finds his generation and phase
 *           in it; but for the adder, who stores it while the entry is his alone. An entry that
 *           is not pending has no phase in which a handle function changes anything but
 *           BARRED and WAITED of a running one. Acquire on every load that decides, release on
 *           every exchange: what was written before a transition (deadline, task, arg, slot) is
 *           seen by who acts on it.
 *
 *           REARMED stays from one run to the next, so that the word of a timeout that has run is
 *           never again the one that its adder stored, by which alone he may withdraw it.
 *
 * link      QUEUED: of the pending queue, from before the push until the worker has drained it.
 *           ARMED, SUBMITTED, RUNNING: free. Who takes a timeout from ARMED to CANCELLED or to
 *           QUEUED has thereby got the link, and must push: on the cancelled or the pending
 *           queue. Who takes it from QUEUED to CANCELLED has not: the worker finds it when it
 *           drains it. From SUBMITTED: nor has he, it is the executor's. So it is on one queue
 *           at most, and on its way to one after every transition that needs the worker.
 *
 * task, arg Written by the adder before the push; read by the worker, and who runs.
 *
 * slot,     The worker's, from drained until ended; HWT_SLOT_FRESH until then, and never again:
 * index     so that an adder who salvages knows that the worker does not hold the entry. Between
 *           the push-to-be of another thread and its arrival the entry may be in no bucket:
 *           HWT_SLOT_TRANSIT, counted, so that stop knows to wait for it.
 *
 * deadline  Written by the adder; by the timeout's own task when it re-arms, before REARMED
 *           shows it; else by the one thread that has set MOVING. The worker compares it
 *           with what it filed by:
 *
 *             MOVED is set with the end of each move, and cleared by the worker (or the thread
 *             an executor runs it on) before it reads the deadline. So an exchange to RUNNING
 *             from a state without MOVING and MOVED proves that no move has ended since the
 *             deadline was read: there is no early start, and no ABA, for only the reader
 *             clears MOVED.
 *
 *             Of two overlapping moves the second returns true and changes nothing: as if it
 *             had come just before the first. Hence a move never waits.
 *
 *             An entry does not return to the pool while MOVING is set, so a move that was
 *             overtaken by cancel and discard still writes into its own timeout: the worker
 *             leaves it ABANDONED, and the mover pushes it once more when it is done.
 *
 * An ARMED timeout is filed at or before the tick of its deadline, or somebody MOVING will see
 * to that: a move to later need not tell the worker, who finds the timeout not due when the
 * old tick comes, and files it anew. A move to earlier takes it to QUEUED and pushes it; the
 * worker first makes a hole of its old place. While QUEUED it needs no push: the worker reads
 * the deadline when it drains it, and if it did so too early, MOVED or a changed state makes
 * its exchange to ARMED fail.
 */

#include "hwt/timeout.h"

#include "hwt/probes.h"
#include "hwt/task.h"

static bool same(uint64_t state, hwt_timeout timeout)
{
    return state >> HWT_GENERATION_SHIFT == timeout.generation;
}

static uint64_t load(const struct hwt_entry *entry)
{
    return atomic_load_explicit(&entry->state, memory_order_acquire);
}

static bool exchange(struct hwt_entry *entry, uint64_t *seen, uint64_t state)
{
    return atomic_compare_exchange_strong_explicit(&entry->state, seen, state, memory_order_acq_rel,
                                                   memory_order_acquire);
}

/* Relaxed, here and below: ordered by the state word. */
static uint64_t deadline_of(const struct hwt_entry *entry)
{
    return atomic_load_explicit(&entry->deadline, memory_order_relaxed);
}

static void set_deadline(struct hwt_entry *entry, uint64_t deadline)
{
    atomic_store_explicit(&entry->deadline, deadline, memory_order_relaxed);
}

/*
 * Pushes what has become QUEUED again. Who moved or cancelled it between that and the push told
 * a worker that could not find it yet, so what to announce is looked up after the push. If the
 * worker has drained it by then, and the entry serves another timeout even, the worst is to be
 * woken for nothing. Seq_cst: after the push.
 */
static void push_again(hwt_timer *timer, struct hwt_entry *entry)
{
    HWT_MEET(AGAIN_PUSH);
    hwt_lane_push_pending(hwt_lane_own(timer), entry);
    HWT_MEET(AGAIN_ANNOUNCE);
    uint64_t state = atomic_load_explicit(&entry->state, memory_order_seq_cst);
    uint64_t deadline = atomic_load_explicit(&entry->deadline, memory_order_seq_cst);
    if (hwt_phase(state) == HWT_PHASE_CANCELLED ? hwt_gate_asks_cancelled(&timer->gate)
                                                : hwt_gate_asks(&timer->gate, deadline))
        hwt_gate_wake(timer);
}

/* ---- cancelling ---- */

/* The state a cancel leaves, or `state` itself where there is nothing to cancel. */
static uint64_t cancelled_state(uint64_t state)
{
    if (hwt_phase(state) == HWT_PHASE_RUNNING)
        return state | HWT_BARRED;
    return hwt_state_pending(state) ? hwt_with_phase(state, HWT_PHASE_CANCELLED) : state;
}

bool hwt_timeout_cancel(hwt_timeout timeout)
{
    struct hwt_entry *entry = timeout.entry;
    if (!entry)
        return false;
    uint64_t state = load(entry);
    uint64_t next;
    do {
        next = cancelled_state(state);
        if (!same(state, timeout) || next == state)
            return false;
        HWT_MEET(CANCEL);
    } while (!exchange(entry, &state, next));
    if (!hwt_state_pending(state))
        return false;
    HWT_MEET(CANCEL_PUSH);

    hwt_timer *timer = hwt_timer_of(entry);
    HWT_PROBE3(cancel, timer, entry, timeout.generation);
    struct hwt_lane *lane = hwt_lane_own(timer);
    hwt_count(&lane->cancelled, 1, lane->shared);
    hwt_timer_release(timer);
    if (hwt_phase(state) == HWT_PHASE_ARMED) {
        hwt_lane_push_cancelled(lane, entry);
        hwt_gate_announce_given(timer, lane, 1);
    }
    HWT_MEET(CANCEL_ANNOUNCE);
    if ((hwt_phase(state) == HWT_PHASE_ARMED || hwt_phase(state) == HWT_PHASE_QUEUED) &&
        hwt_gate_asks_cancelled(&timer->gate))
        hwt_gate_wake(timer);
    return true;
}

bool hwt_timeout_cancel_sync(hwt_timeout timeout)
{
    bool was_pending = hwt_timeout_cancel(timeout);
    struct hwt_entry *entry = timeout.entry;
    if (!entry || hwt_own_task(timeout))
        return was_pending;

    uint64_t state = load(entry);
    while (same(state, timeout) && hwt_phase(state) == HWT_PHASE_RUNNING) {
        HWT_MEET(CANCEL_WAIT);
        if (state & HWT_WAITED || exchange(entry, &state, state | HWT_WAITED)) {
            hwt_task_wait(hwt_timer_of(entry), timeout);
            break;
        }
    }
    return was_pending;
}

bool hwt_timeout_discardable(hwt_timer *timer, struct hwt_entry *entry)
{
    HWT_MEET(DISCARD);
    uint64_t state = load(entry);
    if (!(state & HWT_MOVING))
        return true;
    /* Before the exchange: after it, the mover pushes it and the worker finds it. */
    hwt_worker_enter_transit(timer, entry);
    while (state & HWT_MOVING) {
        HWT_MEET(LEAVE_TO_MOVER);
        if (exchange(entry, &state, hwt_with_phase(state, HWT_PHASE_ABANDONED)))
            return false;
    }
    hwt_worker_leave_transit(timer, entry);
    return true;
}

bool hwt_timeout_withdraw(struct hwt_entry *entry, uint64_t state)
{
    HWT_MEET(WITHDRAW);
    return exchange(entry, &state, hwt_with_phase(state, HWT_PHASE_NEW));
}

bool hwt_timeout_abandon(struct hwt_entry *entry)
{
    uint64_t state = load(entry);
    while (hwt_state_pending(state)) {
        HWT_MEET(ABANDON);
        if (exchange(entry, &state, hwt_with_phase(state, HWT_PHASE_CANCELLED)))
            return true;
    }
    return false;
}

/* ---- moving ---- */

enum move { MOVE_REFUSED, MOVE_OVERLAPS, MOVE_BEGUN };

/* *state is what was loaded first, and then with MOVING. */
static enum move begin_move(hwt_timeout timeout, uint64_t *state)
{
    uint64_t first = *state;
    do {
        if (!same(*state, timeout) || !hwt_state_pending(*state))
            return MOVE_REFUSED;
        /* Another one goes on, or has ended since the first look. */
        if (*state & HWT_MOVING || (*state & ~first & HWT_MOVED))
            return MOVE_OVERLAPS;
        HWT_MEET(MOVE);
    } while (!exchange(timeout.entry, state, *state | HWT_MOVING));
    *state |= HWT_MOVING;
    return MOVE_BEGUN;
}

static void end_move(hwt_timer *timer, struct hwt_entry *entry, uint64_t state, uint64_t deadline,
                     bool earlier)
{
    uint64_t next;
    do {
        next = (state & ~(uint64_t)HWT_MOVING) | HWT_MOVED;
        if (hwt_phase(state) == HWT_PHASE_ABANDONED)
            next = hwt_with_phase(next, HWT_PHASE_CANCELLED);
        else if (hwt_phase(state) == HWT_PHASE_ARMED && earlier)
            next = hwt_with_phase(next, HWT_PHASE_QUEUED);
        HWT_MEET(MOVE_END);
    } while (!exchange(entry, &state, next));

    HWT_MEET(MOVE_TELL);
    if (hwt_phase(state) == HWT_PHASE_ABANDONED) {
        hwt_lane_push_cancelled(hwt_lane_own(timer), entry);
        if (hwt_gate_asks_cancelled(&timer->gate))
            hwt_gate_wake(timer);
    } else if (hwt_phase(state) == HWT_PHASE_ARMED && earlier) {
        push_again(timer, entry);
    } else if (hwt_phase(state) == HWT_PHASE_QUEUED && earlier) {
        if (hwt_gate_asks(&timer->gate, deadline))
            hwt_gate_wake(timer);
    }
}

/* In its own task, not re-armed yet: the deadline is this thread's to write. */
static bool rearm(hwt_timer *timer, hwt_timeout timeout, uint64_t deadline)
{
    struct hwt_entry *entry = timeout.entry;
    uint64_t state = load(entry);
    HWT_PROBE4(reschedule, timer, entry, state >> HWT_GENERATION_SHIFT, deadline);
    set_deadline(entry, deadline);
    hwt_timer_reserve_beyond(timer);
    hwt_count(&timer->run_stats.rearmed, 1, timer->run_stats.shared);
    do {
        if (state & HWT_BARRED) {
            hwt_timer_release(timer);
            hwt_count(&timer->run_stats.rearmed, UINT64_MAX, timer->run_stats.shared);
            return false;
        }
        HWT_MEET(REARM);
    } while (!exchange(entry, &state, state | HWT_REARMED));
    return true;
}

static bool move(hwt_timer *timer, hwt_timeout timeout, uint64_t state, uint64_t deadline)
{
    enum move move = begin_move(timeout, &state);
    if (move == MOVE_BEGUN) {
        HWT_PROBE4(reschedule, timer, timeout.entry, timeout.generation, deadline);
        HWT_MEET(MOVE_WRITE);
        bool earlier = deadline < deadline_of(timeout.entry);
        set_deadline(timeout.entry, deadline);
        end_move(timer, timeout.entry, state, deadline, earlier);
    }
    return move != MOVE_REFUSED;
}

bool hwt_timeout_reschedule_at(hwt_timeout timeout, uint64_t deadline)
{
    if (!timeout.entry)
        return false;
    hwt_timer *timer = hwt_timer_of(timeout.entry);
    uint64_t state = load(timeout.entry);
    bool in_own_task = same(state, timeout) && hwt_phase(state) == HWT_PHASE_RUNNING &&
                       !(state & HWT_REARMED) && hwt_own_task(timeout);
    if (!(in_own_task ? rearm(timer, timeout, deadline) : move(timer, timeout, state, deadline)))
        return false;
    struct hwt_lane *lane = hwt_lane_own(timer);
    hwt_count(&lane->rescheduled, 1, lane->shared);
    return true;
}

bool hwt_timeout_reschedule(hwt_timeout timeout, uint64_t delay)
{
    if (!timeout.entry)
        return false;
    __builtin_prefetch(&timeout.entry->state, 1); /* comes while the clock is read */
    return hwt_timeout_reschedule_at(timeout, hwt_clock_after(hwt_timer_of(timeout.entry), delay));
}

/*
 * The last deadline + period, or where that has passed, the first of the series to come. Only
 * a run in time, in the very tick after its deadline, keeps a next one that belongs to the
 * tick that has just begun: else a period of one tick would be every second tick.
 */
static uint64_t next_of(const struct hwt_frame *frame, uint64_t period)
{
    uint64_t now = hwt_worker_now(frame->timer);
    uint64_t current = hwt_worker_tick_begin(frame->timer, now);
    uint64_t next = hwt_saturating_add(frame->deadline, period);
    bool in_time = hwt_saturating_add(frame->deadline, frame->timer->tick_duration) >= current;
    if (next > now || (in_time && next >= current))
        return next;
    return hwt_saturating_add(now, period - (now - frame->deadline) % period);
}

bool hwt_timeout_repeat(hwt_timeout timeout, uint64_t period)
{
    const struct hwt_frame *frame = hwt_own_task(timeout);
    if (!frame || period == 0)
        return false;
    return hwt_timeout_reschedule_at(timeout, next_of(frame, period));
}

/* ---- asking ---- */

hwt_state hwt_timeout_state(hwt_timeout timeout)
{
    if (!timeout.entry)
        return HWT_GONE;
    uint64_t state = load(timeout.entry);
    if (!same(state, timeout) || hwt_phase(state) == HWT_PHASE_NEW)
        return HWT_GONE;
    if (hwt_state_pending(state))
        return HWT_PENDING;
    if (hwt_phase(state) == HWT_PHASE_EXPIRED ||
        (hwt_phase(state) == HWT_PHASE_RUNNING && !(state & HWT_REARMED)))
        return HWT_EXPIRED;
    return HWT_CANCELLED;
}

uint64_t hwt_timeout_remaining(hwt_timeout timeout)
{
    if (hwt_timeout_state(timeout) != HWT_PENDING)
        return 0;
    /* Acquire: the state read next is not older than this deadline. */
    uint64_t deadline = atomic_load_explicit(&timeout.entry->deadline, memory_order_acquire);
    HWT_MEET(ASK_AGAIN);
    if (hwt_timeout_state(timeout) != HWT_PENDING)
        return 0;
    return hwt_clock_until(hwt_timer_of(timeout.entry), deadline);
}

/* ---- the worker's and the runners' transitions ---- */

uint64_t hwt_timeout_note(struct hwt_entry *entry)
{
    uint64_t state = load(entry);
    while (state & HWT_MOVED) {
        HWT_MEET(NOTE);
        uint64_t noted = state & ~(uint64_t)HWT_MOVED;
        if (exchange(entry, &state, noted))
            return noted;
    }
    return state;
}

bool hwt_timeout_arm(struct hwt_entry *entry, uint64_t state)
{
    HWT_MEET(ARM);
    return exchange(entry, &state, hwt_with_phase(state, HWT_PHASE_ARMED));
}

bool hwt_timeout_arm_again(struct hwt_entry *entry, uint64_t state)
{
    HWT_MEET(ARM_AGAIN);
    return exchange(entry, &state, hwt_with_phase(state, HWT_PHASE_ARMED));
}

bool hwt_timeout_disarm(struct hwt_entry *entry)
{
    uint64_t state = load(entry);
    while (hwt_phase(state) == HWT_PHASE_ARMED) {
        HWT_MEET(DISARM);
        if (exchange(entry, &state, hwt_with_phase(state, HWT_PHASE_QUEUED)))
            return true;
    }
    return false;
}

static uint64_t begun_state(uint64_t state, unsigned phase)
{
    uint64_t kept = phase == HWT_PHASE_RUNNING ? state & ~(uint64_t)HWT_REARMED : state;
    return hwt_with_phase(kept, phase);
}

enum hwt_begun hwt_timeout_begin(struct hwt_entry *entry, uint64_t horizon, unsigned phase)
{
    for (;;) {
        uint64_t state = hwt_timeout_note(entry);
        if (hwt_phase(state) != HWT_PHASE_ARMED)
            return HWT_ELSEWHERE;
        if (state & HWT_MOVING)
            return HWT_HELD;
        if (deadline_of(entry) >= horizon)
            return HWT_NOT_DUE;
        HWT_MEET(BEGIN);
        if (exchange(entry, &state, begun_state(state, phase)))
            return HWT_BEGUN;
    }
}

enum hwt_begun hwt_timeout_begin_submitted(struct hwt_entry *entry, uint64_t now)
{
    for (;;) {
        uint64_t state = hwt_timeout_note(entry);
        if (hwt_phase(state) != HWT_PHASE_SUBMITTED)
            return HWT_DEAD;
        if (state & HWT_MOVING)
            return HWT_HELD;
        if (deadline_of(entry) > now)
            return HWT_NOT_DUE;
        HWT_MEET(BEGIN_SUBMITTED);
        if (exchange(entry, &state, begun_state(state, HWT_PHASE_RUNNING)))
            return HWT_BEGUN;
    }
}

bool hwt_timeout_requeue(hwt_timer *timer, struct hwt_entry *entry)
{
    uint64_t state = load(entry);
    do {
        if (hwt_phase(state) != HWT_PHASE_SUBMITTED)
            return false;
        HWT_MEET(REQUEUE);
    } while (!exchange(entry, &state, hwt_with_phase(state, HWT_PHASE_QUEUED)));
    push_again(timer, entry);
    return true;
}

static uint64_t finished_state(uint64_t state)
{
    uint64_t ended = state & ~(uint64_t)(HWT_BARRED | HWT_WAITED);
    if (!(state & HWT_REARMED))
        return hwt_with_phase(ended, HWT_PHASE_EXPIRED);
    return hwt_with_phase(ended, state & HWT_BARRED ? HWT_PHASE_CANCELLED : HWT_PHASE_QUEUED);
}

enum hwt_finished hwt_timeout_finish(hwt_timer *timer, struct hwt_entry *entry)
{
    uint64_t state = load(entry);
    HWT_MEET(FINISH);
    while (!exchange(entry, &state, finished_state(state)))
        ;
    HWT_MEET(RETURNED);
    if (state & HWT_WAITED)
        hwt_task_returned(timer);
    if (!(state & HWT_REARMED))
        return HWT_ENDED;
    if (state & HWT_BARRED)
        return HWT_DROPPED;
    push_again(timer, entry);
    return HWT_AGAIN;
}
