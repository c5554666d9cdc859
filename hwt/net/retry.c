/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Attempts with exponential backoff. See retry.h for what they do; this is written on the public
 * headers alone.
 *
 *     IDLE --> STARTING --> WAITING n --> ATTEMPT n --> FAILED n, PUSHED_BACK n --> WAITING n + 1
 *      ^                        |             |             |
 *      |                        v             v             v
 *      '------- told ------ SUCCEEDED, EXHAUSTED, OUT_OF_TIME, CANCELLED, FAILED_FOR_GOOD,
 *                          THROTTLED
 *
 * One timeout lives from the start to the end, and is always pending or running: it is armed for
 * when the attempt may begin, for when it is timed out, or for now when an answer has come. All
 * decisions but the answers and the cancel are its task's, run(). Answers and cancels from any
 * thread change the state first, then see to it that the task notices:
 *
 *     failed, pushed back                    move the timeout to now
 *     succeeded, failed for good, cancelled  cancel the timeout; `cancelled` tells the end
 *
 * The end is told by `cancelled`, or by a run that has not re-armed the timeout: exactly
 * one of the two comes for every timeout, and it comes last.
 *
 * GROUND RULES
 *
 * state     Number of the attempt that is under way or comes next, the phase, and INSIDE. Every
 *           start takes a new number, so a value that was left does not come back. Changed by
 *           compare-exchange by anyone; by exchange where an end is told. Acquire on every load,
 *           release on every change: the thread that starts it again comes after all that was done
 *           with it, and see below for a failure that meets a run. After an end is told, nothing is
 *           touched. An answer and a cancel touch nothing after their exchange either, for the
 *           end may be told at any time then: they use a copy of the timeout.
 *
 * INSIDE    In the state while `attempt` is being called: set and cleared by run() alone, kept by
 *           everyone else.
 *
 * timeout   Written while STARTING, read by answers and cancels before their exchange of the
 *           state. Relaxed: that exchange has proved that the copy is of this life. The timeout
 *           is armed for HWT_NEVER, and moved when the state is WAITING, so no run meets
 *           STARTING. A stop may: its `cancelled` then sets ABORTED and tells nothing, and the
 *           starter returns -ESHUTDOWN.
 *
 * pen       A lock on `told`, and the number of the attempt that it was last taken for. Taken by
 *           compare-exchange, given back by a store (release), both by the threads that have
 *           something to tell with their answer. It is given back before the answer's exchange of
 *           the state, and is not had for the same number again. Acquire on every load: a thread
 *           that has seen it given back for n then finds the state at n or later, and does not
 *           take it for less.
 *
 * told      A delay or a reason. Written with the pen in hand. Once the pen was taken for n it is
 *           not had for n or less, and for more only when attempt n is over. So from an exchange of
 *           ATTEMPT n for PUSHED_BACK n or FAILED_FOR_GOOD n until the next attempt nobody writes
 *           it: the winner has done so, and that exchange publishes it. Relaxed.
 *
 * the rest  The starter's, then the task's, whose runs follow each other.
 *
 * A failure that meets a run. The timeout cannot be moved by others while it runs and is not yet
 * re-armed, so a thread that moves it to now may be refused:
 *
 *     run()                                  hwt_retry_failed()
 *     A: re-arms the timeout                 C: exchanges the state for FAILED
 *     B: exchanges the state,                D: moves the timeout
 *        even for the same
 *
 * If B comes before C, then A comes before D, by B's release and C's acquire, and D is not
 * refused. If C comes before B, then B fails, and the run goes on with FAILED. A cancel needs no
 * such care: one that meets a run bars its re-arming, or undoes it.
 *
 * A move may come long after its exchange, in a later attempt or life (then it is refused). It
 * only ever moves the timeout to what was now: a run may find that it is early, and waits on.
 *
 * A synchronous cancel waits for the run only where its exchange has found INSIDE. Such a run has
 * re-armed the timeout, so it does not tell the end, and to wait for its return is to wait for
 * `attempt` alone. Any other run may tell the end, and must not be waited for: `ended` may take a
 * lock that the canceller holds. Nor need it be, for no attempt begins after the exchange.
 */

#include <errno.h>
#include <sched.h>

#include "hwt/base/own_task.h"
#include "hwt/net/options.h"

enum phase {
    IDLE, /* zeroed, or the end was told */
    STARTING,
    ABORTED, /* the timer was stopped during the start */
    WAITING,
    ATTEMPT,
    FAILED,
    PUSHED_BACK, /* failed, and `told` has the delay */
    SUCCEEDED,   /* an end to be told, as all after it */
    EXHAUSTED,
    OUT_OF_TIME,
    CANCELLED,
    FAILED_FOR_GOOD,
    THROTTLED,
    PHASE_MASK = 15,
    INSIDE = 16,
    ONE_ATTEMPT = 32
};

_Static_assert(CANCELLED - SUCCEEDED == HWT_RETRY_CANCELLED &&
                   THROTTLED - SUCCEEDED == HWT_RETRY_THROTTLED,
               "the ends have one order");

/* ---- the state word ---- */

static uint64_t load(const hwt_retry *retry)
{
    return __atomic_load_n(&retry->state, __ATOMIC_ACQUIRE);
}

/* True: *state is `next` now; false: it is what was found instead. */
static bool become(hwt_retry *retry, uint64_t *state, uint64_t next)
{
    if (!__atomic_compare_exchange_n(&retry->state, state, next, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return false;
    *state = next;
    return true;
}

static enum phase phase_of(uint64_t state)
{
    return (enum phase)(state & PHASE_MASK);
}

static uint64_t with_phase(uint64_t state, enum phase phase)
{
    return (state & ~(uint64_t)PHASE_MASK) | phase;
}

static bool is_end(uint64_t state)
{
    return phase_of(state) >= SUCCEEDED;
}

static bool is_started(uint64_t state)
{
    return phase_of(state) >= WAITING;
}

static hwt_timeout timeout_of(const hwt_retry *retry)
{
    return (hwt_timeout){ __atomic_load_n(&retry->timeout.entry, __ATOMIC_RELAXED),
                          __atomic_load_n(&retry->timeout.generation, __ATOMIC_RELAXED) };
}

static void set_timeout(hwt_retry *retry, hwt_timeout timeout)
{
    __atomic_store_n(&retry->timeout.entry, timeout.entry, __ATOMIC_RELAXED);
    __atomic_store_n(&retry->timeout.generation, timeout.generation, __ATOMIC_RELAXED);
}

/* ---- the task ---- */

static uint64_t saturating_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* How long to wait after a failure; what the other side has said begins the drawn delays anew. */
static uint64_t delay_after(hwt_retry *retry, uint64_t state)
{
    if (phase_of(state) == FAILED)
        return hwt_backoff_next(&retry->backoff);
    retry->backoff.delay = retry->backoff.first_delay;
    return __atomic_load_n(&retry->told, __ATOMIC_RELAXED);
}

static uint64_t after_failure(hwt_retry *retry, uint64_t state, uint64_t now)
{
    bool allowed = hwt_retry_budget_failed(retry->budget);
    if (retry->attempts_left == 0)
        return with_phase(state, EXHAUSTED);
    if (!allowed)
        return with_phase(state, THROTTLED);
    retry->wake = saturating_add(now, delay_after(retry, state));
    if (retry->wake >= retry->deadline)
        return with_phase(state, OUT_OF_TIME);
    return with_phase(state + ONE_ATTEMPT, WAITING);
}

static uint64_t begin_attempt(hwt_retry *retry, uint64_t state, uint64_t now)
{
    uint64_t limit = saturating_add(now, retry->attempt_timeout);
    retry->wake = limit < retry->deadline ? limit : retry->deadline;
    retry->attempts_left--;
    return with_phase(state, ATTEMPT);
}

/* What comes of the state now, or itself. Where it is to be waited in, `wake` says until when. */
static uint64_t next_state(hwt_retry *retry, uint64_t state, uint64_t now)
{
    if (phase_of(state) == FAILED || phase_of(state) == PUSHED_BACK)
        return after_failure(retry, state, now);
    if (now >= retry->deadline)
        return with_phase(state, OUT_OF_TIME);
    if (now < retry->wake)
        return state;
    if (phase_of(state) == ATTEMPT)
        return with_phase(state, FAILED);
    return begin_attempt(retry, state, now);
}

static bool is_waited_in(uint64_t state)
{
    return phase_of(state) == WAITING || phase_of(state) == ATTEMPT;
}

static void tell(hwt_retry *retry, uint64_t state)
{
    const hwt_retry_task *task = retry->task;
    void *arg = retry->arg;
    if (phase_of(state) == SUCCEEDED)
        hwt_retry_budget_succeeded(retry->budget);
    __atomic_exchange_n(&retry->state, with_phase(state, IDLE), __ATOMIC_ACQ_REL);
    task->ended(retry, (hwt_retry_end)(phase_of(state) - SUCCEEDED), arg);
}

/* Calls `attempt`, in a state that has INSIDE; what has become of it without. */
static uint64_t call_attempt(hwt_retry *retry, uint64_t state)
{
    retry->task->attempt(retry, state / ONE_ATTEMPT, retry->arg);
    return __atomic_and_fetch(&retry->state, ~(uint64_t)INSIDE, __ATOMIC_ACQ_REL);
}

static void run(hwt_timeout timeout, void *arg)
{
    hwt_retry *retry = arg;
    uint64_t state = load(retry);
    bool armed = false;

    while (!is_end(state)) {
        uint64_t next = next_state(retry, state, hwt_timer_now(retry->timer));
        if (is_waited_in(next)) {
            /* False: cancelled, by a thread that has set an end before that. */
            if (!hwt_timeout_reschedule_at(timeout, retry->wake)) {
                state = load(retry);
                continue;
            }
            armed = true;
        }
        bool begins = next != state && phase_of(next) == ATTEMPT;
        if (!become(retry, &state, begins ? next | INSIDE : next))
            continue;
        if (begins)
            state = call_attempt(retry, state);
        if (is_waited_in(state))
            return;
    }
    if (armed)
        hwt_timeout_cancel(timeout);
    else
        tell(retry, state);
}

static void cancelled(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    hwt_retry *retry = arg;
    uint64_t state = load(retry);
    uint64_t next;
    do {
        next = with_phase(state, phase_of(state) == STARTING ? ABORTED : CANCELLED);
    } while (!is_end(state) && !become(retry, &state, next));
    if (is_end(state))
        tell(retry, state);
}

static const hwt_task retry_task HWT_OWN_TASK = { run, cancelled };

/* ---- start ---- */

static void set_up(hwt_retry *retry, hwt_timer *timer, const hwt_retry_options *options,
                   const hwt_retry_task *task, void *arg)
{
    retry->timer = timer;
    retry->task = task;
    retry->arg = arg;
    hwt_backoff_init(&retry->backoff, options);
    retry->attempt_timeout = options->attempt_timeout;
    retry->deadline = saturating_add(hwt_timer_now(timer), options->total_timeout);
    retry->attempts_left = options->max_attempts ? options->max_attempts : UINT64_MAX;
    retry->wake = 0;
    retry->budget = options->budget;
}

static int start(hwt_retry *retry, uint64_t state)
{
    hwt_timeout timeout;
    int r = hwt_timer_new_timeout_at(retry->timer, &retry_task, retry, HWT_NEVER, &timeout);
    if (r == 0) {
        set_timeout(retry, timeout);
        if (become(retry, &state, with_phase(state, WAITING))) {
            hwt_timeout_reschedule(timeout, 0);
            return 0;
        }
        r = -ESHUTDOWN;
    }
    __atomic_store_n(&retry->state, with_phase(state, IDLE), __ATOMIC_RELEASE);
    return r;
}

int hwt_retry_start(hwt_retry *retry, hwt_timer *timer, const hwt_retry_options *options,
                    const hwt_retry_task *task, void *arg)
{
    hwt_retry_options known;
    if (!retry || !timer || !task || !task->attempt || !task->ended ||
        hwt_retry_options_read(options, &known) < 0)
        return -EINVAL;
    uint64_t state = load(retry);
    do {
        if (phase_of(state) != IDLE)
            return -EALREADY;
    } while (!become(retry, &state, with_phase(state + ONE_ATTEMPT, STARTING)));
    set_up(retry, timer, &known, task, arg);
    return start(retry, state);
}

/* ---- answers ---- */

static bool is_under_way(uint64_t state, uint64_t attempt)
{
    return phase_of(state) == ATTEMPT && state / ONE_ATTEMPT == attempt;
}

static bool answer(hwt_retry *retry, uint64_t attempt, enum phase phase, hwt_timeout *ret_timeout)
{
    if (!retry)
        return false;
    uint64_t state = load(retry);
    do {
        if (!is_under_way(state, attempt))
            return false;
        *ret_timeout = timeout_of(retry);
    } while (!become(retry, &state, with_phase(state, phase)));
    return true;
}

bool hwt_retry_succeeded(hwt_retry *retry, uint64_t attempt)
{
    hwt_timeout timeout;
    if (!answer(retry, attempt, SUCCEEDED, &timeout))
        return false;
    hwt_timeout_cancel(timeout);
    return true;
}

bool hwt_retry_failed(hwt_retry *retry, uint64_t attempt)
{
    hwt_timeout timeout;
    if (!answer(retry, attempt, FAILED, &timeout))
        return false;
    hwt_timeout_reschedule(timeout, 0);
    return true;
}

/* ---- answers that tell something ---- */

enum { HELD = 1, PEN_SHIFT = 1 };

/* False: this attempt is not under way, or another thread has had the pen for it. True: what was
 * told is of no more use: no later attempt has had the pen, and the earlier ones are over. */
static bool take_pen(hwt_retry *retry, uint64_t attempt)
{
    uint64_t taken = attempt << PEN_SHIFT | HELD;
    uint64_t seen = __atomic_load_n(&retry->pen, __ATOMIC_ACQUIRE);
    while (is_under_way(load(retry), attempt) && seen >> PEN_SHIFT != attempt) {
        if (seen & HELD) {
            sched_yield();
            seen = __atomic_load_n(&retry->pen, __ATOMIC_ACQUIRE);
        } else if (__atomic_compare_exchange_n(&retry->pen, &seen, taken, false, __ATOMIC_ACQUIRE,
                                               __ATOMIC_ACQUIRE)) {
            return true;
        }
    }
    return false;
}

static bool answer_telling(hwt_retry *retry, uint64_t attempt, uint64_t told, enum phase phase,
                           hwt_timeout *ret_timeout)
{
    if (!retry || !take_pen(retry, attempt))
        return false;
    __atomic_store_n(&retry->told, told, __ATOMIC_RELAXED);
    __atomic_store_n(&retry->pen, attempt << PEN_SHIFT, __ATOMIC_RELEASE);
    return answer(retry, attempt, phase, ret_timeout);
}

bool hwt_retry_failed_with_delay(hwt_retry *retry, uint64_t attempt, uint64_t delay)
{
    hwt_timeout timeout;
    if (!answer_telling(retry, attempt, delay, PUSHED_BACK, &timeout))
        return false;
    hwt_timeout_reschedule(timeout, 0);
    return true;
}

bool hwt_retry_failed_for_good(hwt_retry *retry, uint64_t attempt, int reason)
{
    hwt_timeout timeout;
    if (!answer_telling(retry, attempt, (uint64_t)reason, FAILED_FOR_GOOD, &timeout))
        return false;
    hwt_timeout_cancel(timeout);
    return true;
}

int hwt_retry_reason(const hwt_retry *retry)
{
    return retry ? (int)(int64_t)__atomic_load_n(&retry->told, __ATOMIC_RELAXED) : 0;
}

/* ---- cancels ---- */

/* An end that is decided but not told is exchanged for itself: its timeout is sound then. */
static bool cancel(hwt_retry *retry, bool waits)
{
    if (!retry)
        return false;
    uint64_t state = load(retry);
    hwt_timeout timeout;
    bool first;
    do {
        if (!is_started(state))
            return false;
        timeout = timeout_of(retry);
        first = !is_end(state);
    } while (!become(retry, &state, first ? with_phase(state, CANCELLED) : state));
    if (waits && (state & INSIDE))
        hwt_timeout_cancel_sync(timeout);
    else
        hwt_timeout_cancel(timeout);
    return first;
}

bool hwt_retry_cancel(hwt_retry *retry)
{
    return cancel(retry, false);
}

bool hwt_retry_cancel_sync(hwt_retry *retry)
{
    return cancel(retry, true);
}
