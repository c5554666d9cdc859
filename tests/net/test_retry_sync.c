/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hwt_retry_cancel_sync() waits for `attempt`, and for nothing else: its caller holds a lock that
 * `ended` takes, wherever it meets the run. The run is halted where it reads the timer's clock,
 * which is the test's.
 */

#include "api_fixture.h"

#include <hwt/retry.h>

#define TICK HWT_MS(1)

static struct subject {
    hwt_retry retry;
    hwt_timer *timer;
    shared_count now;
    pthread_mutex_t lock;
    gate in_clock, in_attempt;
    _Atomic(gate *) halt; /* the gate that is closed, of those two */
    shared_count number, attempts, ends, returned, answer;
    shared_count passed_at_return;
    hwt_retry_end end;
} s;

static _Thread_local bool drives;

/* On the thread that drives, the retry's run alone reads the clock. */
static uint64_t read_clock(void *data)
{
    (void)data;
    if (drives && s.halt == &s.in_clock)
        gate_pass(&s.in_clock);
    return s.now;
}

static void attempt(hwt_retry *retry, uint64_t number, void *arg)
{
    (void)retry;
    (void)arg;
    s.number = number;
    if (s.halt == &s.in_attempt)
        gate_pass(&s.in_attempt);
    s.attempts++;
}

static void ended(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    (void)retry;
    (void)arg;
    pthread_mutex_lock(&s.lock);
    s.end = end;
    s.ends++;
    pthread_mutex_unlock(&s.lock);
}

static const hwt_retry_task task = { attempt, ended };

static void open_subject(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_retry_options retry_options = HWT_RETRY_OPTIONS_INIT;
    memset(&s, 0, sizeof(s));
    pthread_mutex_init(&s.lock, NULL);
    options.tick_duration = TICK;
    options.flags = HWT_NO_WORKER;
    options.clock = read_clock;
    s.timer = create(&options);
    retry_options.attempt_timeout = HWT_MS(5);
    ck_assert_int_eq(hwt_retry_start(&s.retry, s.timer, &retry_options, &task, NULL), 0);
}

static void go(uint64_t until)
{
    while (s.now < until) {
        s.now += TICK;
        hwt_timer_advance(s.timer, s.now);
    }
}

static void *drive(void *arg)
{
    (void)arg;
    drives = true;
    go(s.now + TICK);
    return NULL;
}

static void *cancel_locked(void *arg)
{
    bool (*cancel)(hwt_retry *) = *(bool (**)(hwt_retry *))arg;
    pthread_mutex_lock(&s.lock);
    s.answer = cancel(&s.retry);
    s.passed_at_return = s.in_attempt.passed;
    s.returned++;
    pthread_mutex_unlock(&s.lock);
    return NULL;
}

/* The next tick's run is to be halted there. */
static pthread_t drive_to(gate *halt)
{
    s.halt = halt;
    pthread_t driver = spawn(drive, NULL);
    ck_assert(await_count(&halt->reached, 1));
    return driver;
}

static void let_go(pthread_t driver, pthread_t canceller)
{
    s.halt->open = 1;
    join(driver);
    join(canceller);
    go(s.now + HWT_MS(20));
    ck_assert_uint_eq(s.ends, 1);
    ck_assert_int_eq(s.end, HWT_RETRY_CANCELLED);
    ck_assert_uint_eq(hwt_timer_pending(s.timer), 0);
    hwt_timer_destroy(s.timer);
    pthread_mutex_destroy(&s.lock);
}

/* ---- Runs of which none is inside of `attempt` ---- */

static void at_begin(void)
{
}

static void at_timeout(void)
{
    go(HWT_MS(6)); /* the attempt began at 1 */
}

static void after_failure(void)
{
    go(HWT_MS(3));
    ck_assert(hwt_retry_failed(&s.retry, s.number));
}

static void after_given_delay(void)
{
    go(HWT_MS(3));
    ck_assert(hwt_retry_failed_with_delay(&s.retry, s.number, HWT_MS(1)));
}

static void (*const scenes[])(void) = { at_begin, at_timeout, after_failure, after_given_delay };

enum { SCENES = sizeof(scenes) / sizeof(scenes[0]) };

START_TEST(it_does_not_wait_for_a_run_without_attempt)
{
    bool (*cancel)(hwt_retry *) = hwt_retry_cancel_sync;
    open_subject();
    scenes[_i]();
    uint64_t attempts = s.attempts;
    pthread_t driver = drive_to(&s.in_clock);
    pthread_t canceller = spawn(cancel_locked, &cancel);
    bool returned = await_within(HWT_SEC(10), &s.returned, 1);
    ck_assert(returned);
    ck_assert(s.answer);
    ck_assert_uint_eq(s.ends, 0);
    let_go(driver, canceller);
    ck_assert_uint_eq(s.attempts, attempts); /* none began after it */
}
END_TEST

/* The end is another's, decided but not told. */
START_TEST(nor_does_one_that_comes_too_late)
{
    bool (*cancel)(hwt_retry *) = hwt_retry_cancel_sync;
    open_subject();
    scenes[_i]();
    pthread_t driver = drive_to(&s.in_clock);
    ck_assert(hwt_retry_cancel(&s.retry));
    pthread_t canceller = spawn(cancel_locked, &cancel);
    ck_assert(await_within(HWT_SEC(10), &s.returned, 1));
    ck_assert(!s.answer);
    let_go(driver, canceller);
}
END_TEST

/* ---- A run inside of `attempt` ---- */

START_TEST(it_waits_for_attempt_and_not_for_ended)
{
    bool (*cancel)(hwt_retry *) = hwt_retry_cancel_sync;
    open_subject();
    pthread_t driver = drive_to(&s.in_attempt);
    switch (_i) { /* false: that decides the end, or does not */
    case 1:
        ck_assert(hwt_retry_succeeded(&s.retry, s.number));
        break;
    case 2:
        ck_assert(hwt_retry_failed(&s.retry, s.number));
        break;
    case 3:
        ck_assert(hwt_retry_cancel(&s.retry));
        break;
    }
    pthread_t canceller = spawn(cancel_locked, &cancel);
    give_others_a_chance();
    ck_assert_uint_eq(s.returned, 0);
    s.in_attempt.open = 1;
    ck_assert(await_within(HWT_SEC(10), &s.returned, 1));
    ck_assert_uint_eq(s.passed_at_return, 1);
    ck_assert_uint_eq(s.answer, _i == 0 || _i == 2);
    join(driver);
    join(canceller);
    go(s.now + HWT_MS(20));
    ck_assert_uint_eq(s.ends, 1);
    ck_assert_int_eq(s.end, _i == 1 ? HWT_RETRY_SUCCEEDED : HWT_RETRY_CANCELLED);
    ck_assert_uint_eq(s.attempts, 1);
    hwt_timer_destroy(s.timer);
}
END_TEST

START_TEST(a_plain_cancel_waits_for_nothing)
{
    bool (*cancel)(hwt_retry *) = hwt_retry_cancel;
    open_subject();
    pthread_t driver = drive_to(_i ? &s.in_attempt : &s.in_clock);
    pthread_t canceller = spawn(cancel_locked, &cancel);
    ck_assert(await_within(HWT_SEC(10), &s.returned, 1));
    ck_assert(s.answer);
    ck_assert_uint_eq(s.passed_at_return, 0);
    let_go(driver, canceller);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("retry_sync");
    TCase *sync = add_case(suite, "sync");
    tcase_add_loop_test(sync, it_does_not_wait_for_a_run_without_attempt, 0, SCENES);
    tcase_add_loop_test(sync, nor_does_one_that_comes_too_late, 0, SCENES);
    tcase_add_loop_test(sync, it_waits_for_attempt_and_not_for_ended, 0, 4);
    tcase_add_loop_test(sync, a_plain_cancel_waits_for_nothing, 0, 2);
    return run_suite(suite);
}
