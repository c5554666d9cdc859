/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_RETRY_FIXTURE_H
#define HWT_TESTS_RETRY_FIXTURE_H

/*
 * What the tests of retries on a set clock share: a timer with ticks of a millisecond, and a
 * trial that replies to its attempts as it is told, and notes when they began and how it
 * ended. All instants are since the start of the timer.
 */

#include "api_fixture.h"

#include <hwt/retry.h>

enum { NOTED_MAX = 64 };

#define TICK HWT_MS(1)
#define WHEEL 64

/* What `attempt` does about its own attempt before it returns. */
enum reply { LATER, SUCCEED, FAIL, GIVE_UP, GIVE_UP_SYNC, PUSH_BACK, FAIL_FOR_GOOD };

/* Of PUSH_BACK and FAIL_FOR_GOOD. */
#define PUSHED_BACK_BY HWT_MS(7)
#define REASON (-404)

typedef struct trial {
    hwt_retry retry;
    hwt_retry_options options;
    manual *m;
    enum reply reply;
    bool answered; /* what that said */
    bool inside;   /* of a callback */
    size_t begun;
    uint64_t numbers[NOTED_MAX], instants[NOTED_MAX];
    size_t ends, restarts;
    hwt_retry_end end;
    int reason; /* where it failed for good */
    uint64_t ended_at;
} trial;

static inline uint64_t since_start(const manual *m)
{
    return atomic_load(&m->now) - m->start;
}

static inline bool give_reply(hwt_retry *retry, uint64_t attempt, enum reply reply)
{
    switch (reply) {
    case SUCCEED:
        return hwt_retry_succeeded(retry, attempt);
    case FAIL:
        return hwt_retry_failed(retry, attempt);
    case GIVE_UP:
        return hwt_retry_cancel(retry);
    case GIVE_UP_SYNC:
        return hwt_retry_cancel_sync(retry);
    case PUSH_BACK:
        return hwt_retry_failed_with_delay(retry, attempt, PUSHED_BACK_BY);
    case FAIL_FOR_GOOD:
        return hwt_retry_failed_for_good(retry, attempt, REASON);
    default:
        return false;
    }
}

static inline void trial_attempt(hwt_retry *retry, uint64_t attempt, void *arg)
{
    trial *t = arg;
    must(retry == &t->retry && !t->inside && t->begun < NOTED_MAX);
    t->inside = true;
    t->numbers[t->begun] = attempt;
    t->instants[t->begun++] = since_start(t->m);
    t->answered = give_reply(retry, attempt, t->reply);
    t->inside = false;
}

static inline void trial_ended(hwt_retry *retry, hwt_retry_end end, void *arg);

static const hwt_retry_task trial_task = { trial_attempt, trial_ended };

static inline int trial_start(trial *t)
{
    return hwt_retry_start(&t->retry, t->m->timer, &t->options, &trial_task, t);
}

static inline void trial_ended(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    trial *t = arg;
    must(retry == &t->retry && !t->inside);
    t->inside = true;
    t->ends++;
    t->end = end;
    t->reason = end == HWT_RETRY_FAILED ? hwt_retry_reason(retry) : 0;
    t->ended_at = since_start(t->m);
    if (t->restarts > 0) {
        t->restarts--;
        must(trial_start(t) == 0);
    }
    t->inside = false;
}

/* Delays of 10, 20, 40, 40, ... ms, and no limits. */
static inline trial trial_of(manual *m, enum reply reply)
{
    trial t;
    memset(&t, 0, sizeof(t));
    t.options = (hwt_retry_options)HWT_RETRY_OPTIONS_INIT;
    t.options.first_delay = HWT_MS(10);
    t.options.max_delay = HWT_MS(40);
    t.options.jitter = HWT_JITTER_NONE;
    t.m = m;
    t.reply = reply;
    return t;
}

/* Tick by tick, so that what happens is noted at its instant. */
static inline void go(manual *m, uint64_t until)
{
    while (since_start(m) < until) {
        uint64_t next = (since_start(m) / TICK + 1) * TICK;
        manual_go(m, next < until ? next : until);
    }
}

static inline uint64_t current(const trial *t)
{
    return t->begun ? t->numbers[t->begun - 1] : 0;
}

static inline void check_begun(const trial *t, const uint64_t *instants, size_t count)
{
    ck_assert_uint_eq(t->begun, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(t->instants[i], instants[i]);
}

/* All attempts began at these instants. */
#define CHECK_BEGUN(trial, ...)                                                                    \
    check_begun(trial, (const uint64_t[]){ __VA_ARGS__ },                                          \
                sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

/* It ended once, so and then, and nothing of it is left in the timer. */
static inline void check_ended(trial *t, hwt_retry_end end, uint64_t instant)
{
    ck_assert_uint_eq(t->ends, 1);
    ck_assert_int_eq(t->end, end);
    ck_assert_uint_eq(t->ended_at, instant);
    ck_assert_uint_eq(hwt_timer_pending(t->m->timer), 0);
    size_t begun = t->begun;
    ck_assert(!hwt_retry_succeeded(&t->retry, current(t)));
    ck_assert(!hwt_retry_failed(&t->retry, current(t)));
    ck_assert(!hwt_retry_failed_with_delay(&t->retry, current(t), 0));
    ck_assert(!hwt_retry_failed_for_good(&t->retry, current(t), 1));
    ck_assert(!hwt_retry_cancel(&t->retry));
    ck_assert(!hwt_retry_cancel_sync(&t->retry));
    go(t->m, since_start(t->m) + HWT_SEC(1));
    ck_assert_uint_eq(t->ends, 1);
    ck_assert_uint_eq(t->begun, begun);
}

#endif
