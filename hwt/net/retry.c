/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Attempts with exponential backoff. See retry.h for what they do; this is written on the public
 * header alone.
 *
 *     IDLE --> STARTING --> WAITING n --> ATTEMPT n --> FAILED n --> WAITING n + 1
 *      ^                        |             |             |
 *      |                        v             v             v
 *      '------- told ------ SUCCEEDED, EXHAUSTED, OUT_OF_TIME, CANCELLED
 *
 * One timeout lives from the start to the end, and is always pending or running: it is armed for
 * when the attempt may begin, for when it is timed out, or for now when an answer has come. All
 * decisions but the answers and the cancel are its task's, run(). Answers and cancels from any
 * thread change the state first, then see to it that the task notices:
 *
 *     failed                 moves the timeout to now
 *     succeeded, cancelled   cancel the timeout; `cancelled` tells the end
 *
 * The end is told by `cancelled`, or by a run that has not re-armed the timeout: exactly
 * one of the two comes for every timeout, and it comes last.
 *
 * GROUND RULES
 *
 * state     Number of the attempt that is under way or comes next, and the phase. Every start
 *           takes a new number, so a value that was left does not come back. Changed by
 *           compare-exchange by anyone; by exchange where an end is told. Acquire on every load,
 *           release on every change: who starts it again comes after all that was done with it,
 *           and see below for a failure that meets a run. After an end is told, nothing is
 *           touched. An answer and a cancel touch nothing after their exchange either, for the
 *           end may be told at any time then: they use a copy of the timeout.
 *
 * timeout   Written while STARTING, read by answers and cancels before their exchange of the
 *           state. Relaxed: that exchange has proved that the copy is of this life. The timeout
 *           is armed for HWT_NEVER, and moved when the state is WAITING, so no run meets
 *           STARTING. A stop may: its `cancelled` then sets ABORTED and tells nothing, and the
 *           starter returns -ESHUTDOWN.
 *
 * the rest  The starter's, then the task's, whose runs follow each other.
 *
 * A failure that meets a run. The timeout cannot be moved by others while it runs and is not yet
 * re-armed, so who moves it to now may be refused:
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
 */

#include "hwt/retry.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define FACTOR_MAX 1000
#define SIZE_OF_FIRST_RELEASE (offsetof(hwt_retry_options, jitter) + sizeof(hwt_jitter))

enum phase {
    IDLE, /* zeroed, or the end was told */
    STARTING,
    ABORTED, /* the timer was stopped during the start */
    WAITING,
    ATTEMPT,
    FAILED,
    SUCCEEDED, /* an end to be told, as all after it */
    EXHAUSTED,
    OUT_OF_TIME,
    CANCELLED,
    PHASE_MASK = 15,
    ONE_ATTEMPT = 16
};

_Static_assert(CANCELLED - SUCCEEDED == HWT_RETRY_CANCELLED, "the ends have one order");

/* ---- options ---- */

/* Copies what the caller's options have; the others keep their defaults. */
static int read_options(const hwt_retry_options *options, hwt_retry_options *ret_options)
{
    if (!options)
        return 0;
    size_t size = options->size;
    if (size < SIZE_OF_FIRST_RELEASE)
        return -EINVAL;
    for (size_t i = sizeof(*options); i < size; i++) {
        if (((const char *)options)[i] != 0)
            return -EINVAL;
    }
    memcpy(ret_options, options, size < sizeof(*options) ? size : sizeof(*options));
    return 0;
}

static int check_options(const hwt_retry_options *options)
{
    if (options->first_delay > options->max_delay)
        return -EINVAL;
    if (!(options->factor >= 1 && options->factor <= FACTOR_MAX)) /* nor is it not a number */
        return -EINVAL;
    if (options->attempt_timeout == 0 || options->total_timeout == 0)
        return -EINVAL;
    if ((unsigned)options->jitter > HWT_JITTER_DECORRELATED)
        return -EINVAL;
    return 0;
}

static int known_options(const hwt_retry_options *options, hwt_retry_options *ret_options)
{
    hwt_retry_options known = HWT_RETRY_OPTIONS_INIT;
    if (read_options(options, &known) < 0 || check_options(&known) < 0)
        return -EINVAL;
    *ret_options = known;
    return 0;
}

/* ---- delays ---- */

/* The next number of splitmix64. */
static uint64_t next_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t mixed = *random;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

/* From 0 to `most`, all equally likely: what is over `most` is drawn again. */
static uint64_t draw(uint64_t *random, uint64_t most)
{
    uint64_t mask = UINT64_MAX >> __builtin_clzll(most | 1);
    uint64_t drawn;
    do {
        drawn = next_random(random) & mask;
    } while (drawn > most);
    return drawn;
}

/* Rounded up, so that the smallest delay grows too; never less than it was, nor over `most`. */
static uint64_t grow(uint64_t delay, double factor, uint64_t most)
{
    double product = (double)delay * factor;
    if (product >= (double)most)
        return most;
    uint64_t whole = (uint64_t)product;
    uint64_t grown = (double)whole < product ? whole + 1 : whole;
    return grown > delay ? grown : delay;
}

static uint64_t seed_of(const void *object)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t seed = HWT_SEC(now.tv_sec) + (uint64_t)now.tv_nsec;
    return next_random(&seed) ^ (uint64_t)(uintptr_t)object;
}

static void begin_delays(hwt_backoff *backoff, const hwt_retry_options *options)
{
    backoff->first_delay = options->first_delay;
    backoff->max_delay = options->max_delay;
    backoff->factor = options->factor;
    backoff->jitter = options->jitter;
    backoff->delay = options->first_delay;
    backoff->random = options->seed ? options->seed : seed_of(backoff);
}

int hwt_backoff_init(hwt_backoff *backoff, const hwt_retry_options *options)
{
    hwt_retry_options known;
    if (!backoff || known_options(options, &known) < 0)
        return -EINVAL;
    begin_delays(backoff, &known);
    return 0;
}

static uint64_t next_decorrelated(hwt_backoff *backoff)
{
    uint64_t most = grow(backoff->delay, backoff->factor, UINT64_MAX);
    uint64_t first = backoff->first_delay;
    uint64_t delay = first + draw(&backoff->random, most - first);
    backoff->delay = delay < backoff->max_delay ? delay : backoff->max_delay;
    return backoff->delay;
}

uint64_t hwt_backoff_next(hwt_backoff *backoff)
{
    if (backoff->jitter == HWT_JITTER_DECORRELATED)
        return next_decorrelated(backoff);
    uint64_t base = backoff->delay;
    backoff->delay = grow(base, backoff->factor, backoff->max_delay);
    switch (backoff->jitter) {
    case HWT_JITTER_FULL:
        return draw(&backoff->random, base);
    case HWT_JITTER_EQUAL:
        return base / 2 + draw(&backoff->random, base - base / 2);
    default:
        return base;
    }
}

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

static uint64_t after_failure(hwt_retry *retry, uint64_t state, uint64_t now)
{
    if (retry->attempts_left == 0)
        return with_phase(state, EXHAUSTED);
    retry->wake = saturating_add(now, hwt_backoff_next(&retry->backoff));
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
    if (phase_of(state) == FAILED)
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
    __atomic_exchange_n(&retry->state, with_phase(state, IDLE), __ATOMIC_ACQ_REL);
    task->ended(retry, (hwt_retry_end)(phase_of(state) - SUCCEEDED), arg);
}

static void run(hwt_timeout timeout, void *arg)
{
    hwt_retry *retry = arg;
    uint64_t state = load(retry);
    bool armed = false;

    while (!is_end(state)) {
        uint64_t next = next_state(retry, state, hwt_timer_now(retry->timer));
        if (is_waited_in(next)) {
            /* False: cancelled, by who has set an end before that. */
            if (!hwt_timeout_reschedule_at(timeout, retry->wake)) {
                state = load(retry);
                continue;
            }
            armed = true;
        }
        bool begins = next != state && phase_of(next) == ATTEMPT;
        if (!become(retry, &state, next))
            continue;
        if (begins) {
            retry->task->attempt(retry, state / ONE_ATTEMPT, retry->arg);
            state = load(retry);
        }
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

static const hwt_task retry_task = { run, cancelled };

/* ---- start ---- */

static void set_up(hwt_retry *retry, hwt_timer *timer, const hwt_retry_options *options,
                   const hwt_retry_task *task, void *arg)
{
    retry->timer = timer;
    retry->task = task;
    retry->arg = arg;
    begin_delays(&retry->backoff, options);
    retry->attempt_timeout = options->attempt_timeout;
    retry->deadline = saturating_add(hwt_timer_now(timer), options->total_timeout);
    retry->attempts_left = options->max_attempts ? options->max_attempts : UINT64_MAX;
    retry->wake = 0;
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
        known_options(options, &known) < 0)
        return -EINVAL;
    uint64_t state = load(retry);
    do {
        if (phase_of(state) != IDLE)
            return -EALREADY;
    } while (!become(retry, &state, with_phase(state + ONE_ATTEMPT, STARTING)));
    set_up(retry, timer, &known, task, arg);
    return start(retry, state);
}

/* ---- answers and cancels ---- */

static bool answer(hwt_retry *retry, uint64_t attempt, enum phase phase, hwt_timeout *ret_timeout)
{
    uint64_t state = with_phase(attempt * ONE_ATTEMPT, ATTEMPT);
    if (!retry || load(retry) != state)
        return false;
    *ret_timeout = timeout_of(retry);
    return become(retry, &state, with_phase(state, phase));
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

/* An end that is decided but not told is exchanged for itself: its timeout is sound then. */
static bool cancel(hwt_retry *retry, bool (*cancel_timeout)(hwt_timeout))
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
    cancel_timeout(timeout);
    return first;
}

bool hwt_retry_cancel(hwt_retry *retry)
{
    return cancel(retry, hwt_timeout_cancel);
}

bool hwt_retry_cancel_sync(hwt_retry *retry)
{
    return cancel(retry, hwt_timeout_cancel_sync);
}
