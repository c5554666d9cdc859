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
 * hwt_retry_start_now() goes from STARTING to ATTEMPT n at once. FIRST is set then: the timeout,
 * which is armed for HWT_NEVER, and all decisions are the starter's, not the task's. Answers and
 * cancels change the state and leave the timeout alone. When `attempt` has returned, the starter
 * does what a run would do: it arms the timeout for what comes next, or cancels it, so that
 * `cancelled` tells the end. The exchange that clears FIRST hands all of it over to the task. If
 * the timer is stopped before that, `cancelled` sets OVER and tells nothing, and the starter tells
 * the end.
 *
 * GROUND RULES
 *
 * state Number of the attempt that is under way or comes next, the phase, INSIDE, OVER and FIRST.
 *           Every start takes a new number, so a value that was left does not come back. Changed by
 *           compare-exchange by anyone; by exchange where an end is told. Acquire on every load,
 *           release on every change: the thread that starts it again comes after all that was done
 *           with it, and see below for a failure that meets a run. After an end is told, nothing is
 *           touched. An answer and a cancel touch nothing after their exchange either, for the end
 *           may be told at any time then: they use a copy of the timeout.
 *
 * INSIDE    In the state while `attempt` is being called: set and cleared by run() alone, kept by
 *           everyone else.
 *
 * FIRST     Not 0 from the start to the starter's last exchange: one more than the number
 *           (modulo 255) of the process whose thread has started it. In a child of that process the
 *           thread is not there, and must not be waited for.
 *
 * OVER      Set by `cancelled` while FIRST is set, together with an end if none was decided. The
 *           timeout has ended. Cleared by the starter with FIRST.
 *
 * line      Those who wait for the return of the starter's `attempt`; see line.h. The starter opens
 *           it while STARTING, and closes it before it clears FIRST. Others push themselves before
 *           their exchange of the state, while the object must be there.
 *
 * timeout   Written while STARTING, read by answers and cancels before their exchange of the
 *           state. Relaxed: that exchange has proved that the copy is of this life. The timeout
 *           is armed for HWT_NEVER, and moved when the state is WAITING, so no run meets
 *           STARTING. A stop may: its `cancelled` then sets ABORTED and tells nothing, and the
 *           starter returns -ESHUTDOWN.
 *
 * pen       A lock on `told`, had once for each number; see pen.h.
 *
 * told      A delay or a reason. Written with the pen in hand. Once the pen was taken for n it is
 *           not had for n or less, and for more only when attempt n is over. So from an exchange of
 *           ATTEMPT n for PUSHED_BACK n or FAILED_FOR_GOOD n until the next attempt nobody writes
 *           it: the winner has done so, and that exchange publishes it. Relaxed.
 *
 * the rest  The starter's, also while FIRST is set; then the task's, whose runs follow each other.
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
 * A run that meets a starter. The starter arms the timeout (A) before it clears FIRST (B), for the
 * reason above. So a run may find FIRST. It leaves all as it is and looks again in the next tick:
 * the starter is between A and B, where it calls nothing. A failure that comes before B makes the
 * starter's exchange fail, and one that comes after B moves the timeout, or meets that run.
 *
 * A move may come long after its exchange, in a later attempt or life (then it is refused). It
 * only ever moves the timeout to what was now: a run may find that it is early, and waits on.
 *
 * A synchronous cancel waits for the run only where its exchange has found INSIDE. Such a run has
 * re-armed the timeout, so it does not tell the end, and to wait for its return is to wait for
 * `attempt` alone. Any other run may tell the end, and must not be waited for: `ended` may take a
 * lock that the canceller holds. Nor need it be, for no attempt begins after the exchange. Where
 * FIRST is set, it waits in `line`, unless it is inside of that attempt itself: see `firsts`.
 */

#include <errno.h>

#include "hwt/base/own_task.h"
#include "hwt/base/process.h"
#include "hwt/net/line.h"
#include "hwt/net/options.h"
#include "hwt/net/pen.h"
#include "hwt/net/retry_state.h"

static hwt_timeout timeout_of(const hwt_retry *retry)
{
    return (hwt_timeout){ __atomic_load_n(&retry->timeout.entry, __ATOMIC_RELAXED),
                          __atomic_load_n(&retry->timeout.generation, __ATOMIC_RELAXED) };
}

/* The timeout that an answer or a cancel may touch. It may touch none while the timeout is the
 * starter's. */
static hwt_timeout timeout_to_touch(const hwt_retry *retry, uint64_t state)
{
    return is_first(state) ? (hwt_timeout){ NULL, 0 } : timeout_of(retry);
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

/* The state that follows now, or the same. If the retry waits in it, `wake` says until when. */
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

    if (is_first(state)) {
        if (hwt_timeout_reschedule(timeout, 0))
            return;
        state = load(retry); /* false: the starter has told it to be the end */
    }
    while (!is_end(state)) {
        uint64_t next = next_state(retry, state, hwt_timer_now(retry->timer));
        if (is_waited_in(next)) {
            /* False: cancelled, by a thread that has set an end before that; or this is a child
             * that `attempt` has forked. */
            if (!hwt_timeout_reschedule_at(timeout, retry->wake)) {
                state = load(retry);
                if (!is_end(state))
                    return;
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
    while (is_first(state) || !is_end(state)) {
        uint64_t next = state | (is_first(state) ? OVER : 0);
        if (!is_end(state))
            next = with_phase(next, phase_of(state) == STARTING ? ABORTED : CANCELLED);
        if (become(retry, &state, next))
            break;
    }
    if (is_end(state) && !is_first(state))
        tell(retry, state);
}

const hwt_task hwt_retry_own_task = { run, cancelled };

/* ---- start ---- */

/* Sets it up while it is STARTING, with the state in *ret_state. */
static int begin(hwt_retry *retry, hwt_timer *timer, const hwt_retry_options *options,
                 const hwt_retry_task *task, void *arg, uint64_t *ret_state)
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
    uint64_t now = hwt_timer_now(timer);
    retry->timer = timer;
    retry->task = task;
    retry->arg = arg;
    hwt_backoff_init(&retry->backoff, &known);
    retry->attempt_timeout = known.attempt_timeout;
    retry->deadline = saturating_add(now, known.total_timeout);
    retry->attempts_left = known.max_attempts ? known.max_attempts : UINT64_MAX;
    retry->wake = now;
    retry->budget = known.budget;
    *ret_state = state;
    return 0;
}

/* Arms its timeout, for HWT_NEVER, and goes on from STARTING to `next`. */
static int take_timeout(hwt_retry *retry, uint64_t state, uint64_t next, hwt_timeout *ret_timeout)
{
    int r =
        hwt_timer_new_timeout_at(retry->timer, &hwt_retry_own_task, retry, HWT_NEVER, ret_timeout);
    if (r == 0) {
        set_timeout(retry, *ret_timeout);
        if (become(retry, &state, next))
            return 0;
        r = -ESHUTDOWN;
    }
    __atomic_store_n(&retry->state, with_phase(state, IDLE), __ATOMIC_RELEASE);
    return r;
}

int hwt_retry_start(hwt_retry *retry, hwt_timer *timer, const hwt_retry_options *options,
                    const hwt_retry_task *task, void *arg)
{
    uint64_t state;
    hwt_timeout timeout;
    int r = begin(retry, timer, options, task, arg, &state);
    if (r == 0)
        r = take_timeout(retry, state, with_phase(state, WAITING), &timeout);
    if (r == 0)
        hwt_timeout_reschedule(timeout, 0);
    return r;
}

/* ---- the first attempt, by the starter ---- */

/* One that this thread is making, and the one that it makes that inside of. */
struct first {
    hwt_retry *retry;
    struct first *outer;
};

static _Thread_local struct first *firsts;

static uint64_t first_of_this_process(void)
{
    return (uint64_t)(1 + hwt_process_number() % 255) * FIRST_ONE;
}

static bool is_made_elsewhere(const hwt_retry *retry, uint64_t state)
{
    const struct first *first = firsts;
    while (first && first->retry != retry)
        first = first->outer;
    return !first && (state & FIRST_MASK) == first_of_this_process();
}

/* `attempt` has returned. The task does what comes next, or this tells the end. */
static void hand_over(hwt_retry *retry)
{
    hwt_timeout timeout = timeout_of(retry);
    uint64_t state = load(retry), next;
    bool over, done;
    do {
        next = is_end(state) ? state : next_state(retry, state, hwt_timer_now(retry->timer));
        if (is_waited_in(next))
            hwt_timeout_reschedule_at(timeout, retry->wake);
        done = is_waited_in(next) || is_end(next);
        over = next & OVER;
        if (done)
            next &= ~(uint64_t)(FIRST_MASK | OVER);
    } while (!become(retry, &state, next) || !done);
    if (over)
        tell(retry, state);
    else if (is_end(state))
        hwt_timeout_cancel(timeout);
}

/* As `attempt` returns, or its thread ends in it. */
static void leave_first(struct first *first)
{
    firsts = first->outer;
    line_close(&first->retry->line);
    hand_over(first->retry);
}

static void make_first(hwt_retry *retry, uint64_t attempt)
{
    __attribute__((cleanup(leave_first))) struct first first = { retry, firsts };
    firsts = &first;
    retry->task->attempt(retry, attempt, retry->arg);
}

int hwt_retry_start_now(hwt_retry *retry, hwt_timer *timer, const hwt_retry_options *options,
                        const hwt_retry_task *task, void *arg)
{
    uint64_t state;
    hwt_timeout timeout;
    int r = begin(retry, timer, options, task, arg, &state);
    if (r < 0)
        return r;
    uint64_t next = begin_attempt(retry, state, retry->wake) | first_of_this_process();
    line_open(&retry->line);
    r = take_timeout(retry, state, next, &timeout);
    if (r == 0)
        make_first(retry, state / ONE_ATTEMPT);
    else
        line_close(&retry->line);
    return r;
}

/* ---- answers ---- */

static bool answer(hwt_retry *retry, uint64_t attempt, enum phase phase, hwt_timeout *ret_timeout)
{
    if (!retry)
        return false;
    uint64_t state = load(retry);
    do {
        if (!is_under_way(state, attempt))
            return false;
        *ret_timeout = timeout_to_touch(retry, state);
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

static bool answer_telling(hwt_retry *retry, uint64_t attempt, uint64_t told, enum phase phase,
                           hwt_timeout *ret_timeout)
{
    if (!retry || !take_pen(retry, attempt))
        return false;
    __atomic_store_n(&retry->told, told, __ATOMIC_RELAXED);
    put_pen_down(retry, attempt);
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

/* An end that is decided but not told is exchanged for itself, so its timeout is sound then. */
static bool cancel(hwt_retry *retry, bool waits)
{
    struct waiter waiter;
    hwt_timeout timeout = { NULL, 0 };
    bool in_line = false, decides = false, inside = false;
    uint64_t state = retry ? load(retry) : IDLE;
    while (is_started(state)) {
        if (waits && !in_line)
            in_line = is_made_elsewhere(retry, state) && line_join(&retry->line, &waiter);
        hwt_timeout seen = timeout_to_touch(retry, state);
        bool is_live = !is_end(state);
        if (become(retry, &state, is_live ? with_phase(state, CANCELLED) : state)) {
            timeout = seen;
            decides = is_live;
            inside = state & INSIDE;
            break;
        }
    }
    if (waits && inside)
        hwt_timeout_cancel_sync(timeout);
    else
        hwt_timeout_cancel(timeout);
    if (in_line)
        waiter_wait(&waiter);
    return decides;
}

bool hwt_retry_cancel(hwt_retry *retry)
{
    return cancel(retry, false);
}

bool hwt_retry_cancel_sync(hwt_retry *retry)
{
    return cancel(retry, true);
}
