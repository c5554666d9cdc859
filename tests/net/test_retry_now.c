/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hwt_retry_start_now(): the first attempt begins within the call, on its thread, and the end is
 * told by the timer. The clock is set: nothing here waits for time. The races are forced, step by
 * step, in test_retry_races.c.
 */

#include "retry_manual.h"
#include "children.h"

#include <unistd.h>

static int start_now(trial *t)
{
    return hwt_retry_start_now(&t->retry, m.timer, &t->options, &trial_task, t);
}

/* ---- The first attempt ---- */

static pthread_t attempt_thread;

static void note_thread(hwt_retry *retry, uint64_t attempt, void *arg)
{
    attempt_thread = pthread_self();
    trial_attempt(retry, attempt, arg);
}

START_TEST(the_first_attempt_is_made_at_once_on_this_thread)
{
    static const hwt_retry_task noting = { note_thread, trial_ended };
    trial t = trial_of(&m, LATER);
    go(&m, HWT_US(300));
    ck_assert_int_eq(hwt_retry_start_now(&t.retry, m.timer, NULL, &noting, &t), 0);
    CHECK_BEGUN(&t, HWT_US(300));
    ck_assert(pthread_equal(attempt_thread, pthread_self()));
    ck_assert_uint_eq(t.numbers[0], 1);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
    go(&m, HWT_SEC(1));
    ck_assert_uint_eq(t.begun, 1);
    ck_assert_uint_eq(t.ends, 0);
    ck_assert(hwt_retry_succeeded(&t.retry, 1));
    go(&m, HWT_SEC(1) + HWT_MS(1));
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_SEC(1) + HWT_MS(1));
}
END_TEST

START_TEST(an_answer_within_the_call_is_told_by_the_next_pass)
{
    static const struct {
        enum reply reply;
        hwt_retry_end end;
    } cases[] = { { SUCCEED, HWT_RETRY_SUCCEEDED }, { FAIL_FOR_GOOD, HWT_RETRY_FAILED },
                  { GIVE_UP, HWT_RETRY_CANCELLED }, { GIVE_UP_SYNC, HWT_RETRY_CANCELLED },
                  { FAIL, HWT_RETRY_EXHAUSTED },    { PUSH_BACK, HWT_RETRY_EXHAUSTED } };
    trial t = trial_of(&m, cases[_i].reply);
    t.options.max_attempts = 1;
    ck_assert_int_eq(start_now(&t), 0);
    ck_assert(t.answered);
    ck_assert_uint_eq(t.ends, 0);
    ck_assert_int_eq(start_now(&t), -EALREADY);
    go(&m, HWT_MS(1));
    CHECK_BEGUN(&t, 0);
    ck_assert_int_eq(t.reason, cases[_i].reply == FAIL_FOR_GOOD ? REASON : 0);
    check_ended(&t, cases[_i].end, HWT_MS(1));
    ck_assert_uint_eq(stats_of(m.timer).added, 1);
}
END_TEST

START_TEST(the_delay_counts_from_the_return_of_an_attempt_that_failed)
{
    trial t = trial_of(&m, _i ? PUSH_BACK : FAIL);
    go(&m, HWT_US(300));
    t.options.max_attempts = 3;
    ck_assert_int_eq(start_now(&t), 0);
    go(&m, HWT_MS(100));
    if (_i) /* 0.3 + 7 -> 8, + 7 -> 16 */
        CHECK_BEGUN(&t, HWT_US(300), HWT_MS(8), HWT_MS(16));
    else /* 0.3 + 10 -> 11, + 20 -> 32 */
        CHECK_BEGUN(&t, HWT_US(300), HWT_MS(11), HWT_MS(32));
    for (size_t i = 0; i < t.begun; i++)
        ck_assert_uint_eq(t.numbers[i], i + 1);
    check_ended(&t, HWT_RETRY_EXHAUSTED, _i ? HWT_MS(16) : HWT_MS(32));
}
END_TEST

/* The first delay is over at once: the second attempt is the timer's all the same. */
START_TEST(one_attempt_at_most_is_made_within_the_call)
{
    trial t = trial_of(&m, FAIL);
    t.options.first_delay = 0;
    t.options.max_attempts = 3;
    ck_assert_int_eq(start_now(&t), 0);
    ck_assert_uint_eq(t.begun, 1);
    go(&m, HWT_MS(10));
    CHECK_BEGUN(&t, 0, HWT_MS(1), HWT_MS(2));
    check_ended(&t, HWT_RETRY_EXHAUSTED, HWT_MS(2));
}
END_TEST

START_TEST(it_is_timed_out_from_the_call_on)
{
    trial t = trial_of(&m, LATER);
    go(&m, HWT_US(300));
    t.options.attempt_timeout = HWT_MS(5);
    t.options.max_attempts = 2;
    ck_assert_int_eq(start_now(&t), 0);
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, HWT_US(300), HWT_MS(17)); /* 0.3 + 5 -> 6, + 10 -> 17, + 5 -> 23 */
    check_ended(&t, HWT_RETRY_EXHAUSTED, HWT_MS(23));
}
END_TEST

START_TEST(the_deadline_counts_from_the_call_on)
{
    trial t = trial_of(&m, LATER);
    t.options.total_timeout = 1; /* the first attempt is made: it has not run out */
    ck_assert_int_eq(start_now(&t), 0);
    go(&m, HWT_MS(10));
    CHECK_BEGUN(&t, 0);
    check_ended(&t, HWT_RETRY_OUT_OF_TIME, HWT_MS(1));
}
END_TEST

/* ---- An attempt during which time goes by ---- */

static uint64_t takes;

static void take_long(hwt_retry *retry, uint64_t attempt, void *arg)
{
    trial_attempt(retry, attempt, arg);
    if (attempt == 1)
        manual_go(&m, since_start(&m) + takes);
}

static const hwt_retry_task slow_task = { take_long, trial_ended };

static void start_slow(trial *t, uint64_t span)
{
    takes = span;
    ck_assert_int_eq(hwt_retry_start_now(&t->retry, m.timer, &t->options, &slow_task, t), 0);
}

START_TEST(it_is_not_timed_out_before_it_has_returned)
{
    trial t = trial_of(&m, LATER);
    t.options.attempt_timeout = HWT_MS(5);
    t.options.max_attempts = 2;
    start_slow(&t, HWT_MS(30));
    CHECK_BEGUN(&t, 0);
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, 0, HWT_MS(41)); /* 30: failed, + 10 */
    check_ended(&t, HWT_RETRY_EXHAUSTED, HWT_MS(47));
}
END_TEST

START_TEST(an_answer_meanwhile_is_seen_when_it_has_returned)
{
    trial t = trial_of(&m, _i ? SUCCEED : FAIL);
    t.options.max_attempts = 1;
    start_slow(&t, HWT_MS(30));
    ck_assert_uint_eq(t.ends, 0);
    go(&m, HWT_MS(31));
    CHECK_BEGUN(&t, 0);
    check_ended(&t, _i ? HWT_RETRY_SUCCEEDED : HWT_RETRY_EXHAUSTED, HWT_MS(31));
}
END_TEST

START_TEST(it_is_out_of_time_when_it_has_returned)
{
    trial t = trial_of(&m, LATER);
    t.options.total_timeout = HWT_MS(20);
    start_slow(&t, HWT_MS(30));
    go(&m, HWT_MS(31));
    CHECK_BEGUN(&t, 0);
    check_ended(&t, HWT_RETRY_OUT_OF_TIME, HWT_MS(31));
}
END_TEST

/* ---- Starts that are refused ---- */

START_TEST(a_start_that_is_refused_calls_nothing)
{
    hwt_options options = HWT_OPTIONS_INIT;
    ends e = { 0 };
    close_manual();
    options.tick_duration = TICK;
    options.max_pending = 1;
    manual_open_with(&m, 0, options);
    trial t = trial_of(&m, SUCCEED);
    hwt_timeout other = arm(m.timer, &counting, &e, HWT_SEC(10));
    ck_assert_int_eq(start_now(&t), -ENOBUFS);
    ck_assert_int_eq(hwt_retry_start_now(NULL, m.timer, NULL, &trial_task, &t), -EINVAL);
    ck_assert_int_eq(hwt_retry_start_now(&t.retry, NULL, NULL, &trial_task, &t), -EINVAL);
    ck_assert_int_eq(hwt_retry_start_now(&t.retry, m.timer, NULL, NULL, &t), -EINVAL);
    ck_assert(!hwt_retry_cancel_sync(&t.retry));
    ck_assert_uint_eq(t.begun, 0);
    ck_assert(hwt_timeout_cancel(other));
    go(&m, HWT_MS(1));
    ck_assert_int_eq(start_now(&t), 0);
    go(&m, HWT_MS(2));
    CHECK_BEGUN(&t, HWT_MS(1));
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_MS(2));
    hwt_timer_stop(m.timer, NULL, NULL);
    ck_assert_int_eq(start_now(&t), -ESHUTDOWN);
    ck_assert_uint_eq(t.begun, 1);
    ck_assert_uint_eq(t.ends, 1);
}
END_TEST

/* ---- From within callbacks ---- */

static int restarts_left;

static void start_again(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    trial_ended(retry, end, arg);
    if (restarts_left-- > 0)
        ck_assert_int_eq(start_now(arg), 0);
}

/* `inside` is of one callback: the attempt that is made within `ended` is another. */
static void attempt_in_ended(hwt_retry *retry, uint64_t attempt, void *arg)
{
    trial *t = arg;
    bool inside = t->inside;
    t->inside = false;
    trial_attempt(retry, attempt, arg);
    t->inside = inside;
}

START_TEST(ended_may_start_it_again_at_once)
{
    static const hwt_retry_task persistent = { attempt_in_ended, start_again };
    trial t = trial_of(&m, _i ? SUCCEED : FAIL);
    t.options.max_attempts = 1;
    restarts_left = 1;
    ck_assert_int_eq(hwt_retry_start_now(&t.retry, m.timer, &t.options, &persistent, &t), 0);
    go(&m, HWT_MS(1));
    CHECK_BEGUN(&t, 0, HWT_MS(1)); /* in the very pass that has told the end */
    ck_assert_uint_gt(t.numbers[1], t.numbers[0]);
    go(&m, HWT_MS(2));
    ck_assert_uint_eq(t.ends, 2);
    ck_assert_int_eq(t.end, _i ? HWT_RETRY_SUCCEEDED : HWT_RETRY_EXHAUSTED);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
}
END_TEST

static trial inner;

static void start_another(hwt_retry *retry, uint64_t attempt, void *arg)
{
    if (inner.begun == 0)
        ck_assert_int_eq(start_now(&inner), 0);
    trial_attempt(retry, attempt, arg);
}

/* Each knows its own attempt, though one is made inside of the other's. */
START_TEST(an_attempt_may_start_another_one)
{
    static const hwt_retry_task outer_task = { start_another, trial_ended };
    trial t = trial_of(&m, GIVE_UP_SYNC);
    inner = trial_of(&m, GIVE_UP_SYNC);
    ck_assert_int_eq(hwt_retry_start_now(&t.retry, m.timer, &t.options, &outer_task, &t), 0);
    go(&m, HWT_MS(1));
    ck_assert_uint_eq(inner.ends, 1);
    check_ended(&t, HWT_RETRY_CANCELLED, HWT_MS(1));
}
END_TEST

static int64_t left;

static void stop_timer(hwt_retry *retry, uint64_t attempt, void *arg)
{
    trial_attempt(retry, attempt, arg);
    left = hwt_timer_stop(m.timer, NULL, NULL);
    ck_assert_uint_eq(((trial *)arg)->ends, 0);
    ck_assert(!hwt_retry_succeeded(retry, attempt));
    ck_assert(!hwt_retry_cancel_sync(retry));
}

/* `ended` waits for its return, and is called on this thread. */
START_TEST(an_attempt_may_stop_the_timer)
{
    static const hwt_retry_task stopping = { stop_timer, trial_ended };
    static const enum reply replies[] = { LATER, SUCCEED, FAIL, FAIL_FOR_GOOD };
    static const hwt_retry_end expected[] = { HWT_RETRY_CANCELLED, HWT_RETRY_SUCCEEDED,
                                              HWT_RETRY_CANCELLED, HWT_RETRY_FAILED };
    trial t = trial_of(&m, replies[_i]);
    ck_assert_int_eq(hwt_retry_start_now(&t.retry, m.timer, &t.options, &stopping, &t), 0);
    ck_assert_int_eq(left, 1);
    CHECK_BEGUN(&t, 0);
    check_ended(&t, expected[_i], 0);
}
END_TEST

/* ---- Beside other threads ---- */

static gate in_attempt;
static shared_count stopped, cancels_begun, cancels_true, passed_at_return;

static void wait_at_gate(hwt_retry *retry, uint64_t attempt, void *arg)
{
    trial_attempt(retry, attempt, arg);
    if (attempt == 1)
        gate_pass(&in_attempt);
}

static const hwt_retry_task waiting = { wait_at_gate, trial_ended };

static void *start_waiting(void *arg)
{
    trial *t = arg;
    must(hwt_retry_start_now(&t->retry, m.timer, &t->options, &waiting, t) == 0);
    return NULL;
}

static pthread_t begin_waiting(trial *t)
{
    memset(&in_attempt, 0, sizeof(in_attempt));
    stopped = cancels_begun = cancels_true = passed_at_return = 0;
    pthread_t starter = spawn(start_waiting, t);
    ck_assert(await_count(&in_attempt.reached, 1));
    return starter;
}

static void end_waiting(pthread_t starter)
{
    in_attempt.open = 1;
    join(starter);
}

static void *stop_beside(void *arg)
{
    (void)arg;
    hwt_timer_stop(m.timer, NULL, NULL);
    stopped++;
    return NULL;
}

/* A stop does not wait for an attempt on a thread that is none of the timer's. */
START_TEST(a_stop_beside_the_attempt_leaves_the_end_to_the_starter)
{
    trial t = trial_of(&m, LATER);
    pthread_t starter = begin_waiting(&t);
    pthread_t stopper = spawn(stop_beside, NULL);
    ck_assert(await_count(&stopped, 1));
    join(stopper);
    ck_assert_uint_eq(t.ends, 0);
    end_waiting(starter);
    check_ended(&t, HWT_RETRY_CANCELLED, 0);
}
END_TEST

static void *cancel_beside(void *arg)
{
    trial *t = arg;
    cancels_begun++;
    cancels_true += hwt_retry_cancel_sync(&t->retry);
    passed_at_return += in_attempt.passed;
    return NULL;
}

enum { CANCELLERS = 3 };

/* Several wait; and, the second time, the timer is stopped meanwhile. */
START_TEST(a_synchronous_cancel_waits_for_the_attempt)
{
    trial t = trial_of(&m, LATER);
    pthread_t starter = begin_waiting(&t), cancellers[CANCELLERS];
    for (int i = 0; i < CANCELLERS; i++)
        cancellers[i] = spawn(cancel_beside, &t);
    ck_assert(await_count(&cancels_begun, CANCELLERS));
    give_others_a_chance();
    if (_i)
        hwt_timer_stop(m.timer, NULL, NULL);
    end_waiting(starter);
    for (int i = 0; i < CANCELLERS; i++)
        join(cancellers[i]);
    ck_assert_uint_eq(passed_at_return, CANCELLERS);
    ck_assert_uint_le(cancels_true, 1);
    if (!_i)
        go(&m, HWT_MS(1));
    check_ended(&t, HWT_RETRY_CANCELLED, _i ? 0 : HWT_MS(1));
}
END_TEST

/* Nothing else is called while it is being made, whatever the answer and the time. */
START_TEST(an_answer_of_another_thread_waits_for_the_attempt)
{
    static const enum reply replies[] = { SUCCEED, FAIL, GIVE_UP, PUSH_BACK, FAIL_FOR_GOOD };
    static const hwt_retry_end expected[] = { HWT_RETRY_SUCCEEDED, HWT_RETRY_EXHAUSTED,
                                              HWT_RETRY_CANCELLED, HWT_RETRY_EXHAUSTED,
                                              HWT_RETRY_FAILED };
    trial t = trial_of(&m, LATER);
    t.options.max_attempts = 1;
    t.options.attempt_timeout = HWT_MS(1);
    pthread_t starter = begin_waiting(&t);
    ck_assert(give_reply(&t.retry, 1, replies[_i]));
    ck_assert(!give_reply(&t.retry, 1, replies[_i]));
    manual_go(&m, HWT_MS(20));
    manual_go(&m, HWT_MS(40));
    ck_assert_uint_eq(t.ends, 0);
    end_waiting(starter);
    go(&m, HWT_MS(41));
    CHECK_BEGUN(&t, 0);
    check_ended(&t, expected[_i], HWT_MS(41));
}
END_TEST

/* ---- fork() ---- */

/* The thread that makes the attempt is not in the child. */
static void cancel_in_child(void *arg)
{
    trial *t = arg;
    child_must(hwt_retry_cancel_sync(&t->retry));
    child_must(!hwt_retry_cancel_sync(&t->retry));
    child_must(!hwt_retry_succeeded(&t->retry, 1));
    hwt_timer_destroy(m.timer);
}

START_TEST(a_child_does_not_wait_for_an_attempt_of_its_parent)
{
    trial t = trial_of(&m, LATER);
    pthread_t starter = begin_waiting(&t);
    expect_well("a child", cancel_in_child, &t);
    ck_assert(hwt_retry_succeeded(&t.retry, 1));
    end_waiting(starter);
    go(&m, HWT_MS(1));
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_MS(1));
}
END_TEST

static pid_t parent;

static void fork_and_fail(hwt_retry *retry, uint64_t attempt, void *arg)
{
    (void)arg;
    parent = getpid();
    pid_t child = fork();
    must(child >= 0);
    if (child == 0)
        alarm(CHILD_PATIENCE);
    (void)hwt_retry_failed(retry, attempt);
    if (child == 0)
        return;
    int status;
    must(waitpid(child, &status, 0) == child);
    must(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

/* The child comes back from the attempt too, in the call or in the pass, and goes on. */
START_TEST(an_attempt_may_fork)
{
    static const hwt_retry_task forking = { fork_and_fail, trial_ended };
    trial t = trial_of(&m, LATER);
    t.options.max_attempts = 2;
    ck_assert_int_eq(
        (_i ? hwt_retry_start : hwt_retry_start_now)(&t.retry, m.timer, &t.options, &forking, &t),
        0);
    if (_i)
        manual_go(&m, HWT_MS(1));
    if (getpid() != parent) {
        hwt_retry_cancel_sync(&t.retry);
        hwt_timer_destroy(m.timer);
        _exit(EXIT_SUCCESS);
    }
    ck_assert_uint_eq(t.ends, 0);
    ck_assert(hwt_retry_cancel(&t.retry));
    go(&m, HWT_MS(2));
    check_ended(&t, HWT_RETRY_CANCELLED, _i ? HWT_MS(2) : HWT_MS(1));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("retry_now");
    TCase *first = add_case(suite, "first");
    tcase_add_test(first, the_first_attempt_is_made_at_once_on_this_thread);
    tcase_add_loop_test(first, an_answer_within_the_call_is_told_by_the_next_pass, 0, 6);
    tcase_add_loop_test(first, the_delay_counts_from_the_return_of_an_attempt_that_failed, 0, 2);
    tcase_add_test(first, one_attempt_at_most_is_made_within_the_call);
    tcase_add_test(first, it_is_timed_out_from_the_call_on);
    tcase_add_test(first, the_deadline_counts_from_the_call_on);
    tcase_add_test(first, it_is_not_timed_out_before_it_has_returned);
    tcase_add_loop_test(first, an_answer_meanwhile_is_seen_when_it_has_returned, 0, 2);
    tcase_add_test(first, it_is_out_of_time_when_it_has_returned);
    tcase_add_test(first, a_start_that_is_refused_calls_nothing);

    TCase *inside = add_case(suite, "inside");
    tcase_add_loop_test(inside, ended_may_start_it_again_at_once, 0, 2);
    tcase_add_test(inside, an_attempt_may_start_another_one);
    tcase_add_loop_test(inside, an_attempt_may_stop_the_timer, 0, 4);

    TCase *beside = add_case(suite, "beside");
    tcase_add_test(beside, a_stop_beside_the_attempt_leaves_the_end_to_the_starter);
    tcase_add_loop_test(beside, a_synchronous_cancel_waits_for_the_attempt, 0, 2);
    tcase_add_loop_test(beside, an_answer_of_another_thread_waits_for_the_attempt, 0, 5);

    TCase *forks = add_case(suite, "fork");
    if (!WITH_THREAD_SANITIZER) { /* it does not stand a fork beside another thread */
        tcase_add_test(forks, a_child_does_not_wait_for_an_attempt_of_its_parent);
        tcase_add_loop_test(forks, an_attempt_may_fork, 0, 2);
    }

    TCase *all[] = { first, inside, beside, forks };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        tcase_add_checked_fixture(all[i], open_manual, close_manual);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
