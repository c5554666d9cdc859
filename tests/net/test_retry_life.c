/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hwt/retry.h: what may go wrong at the start, what a stop does, answers that come late, and the
 * life of the object. The clock is set: nothing here waits.
 */

#include "retry_manual.h"
#include "memory_limit.h"

/* ---- Failures to start ---- */

/* It was not started, and can be. */
static void check_startable(trial *t)
{
    ck_assert(!hwt_retry_cancel(&t->retry));
    go(&m, since_start(&m) + HWT_MS(100));
    ck_assert_uint_eq(t->begun, 0);
    ck_assert_uint_eq(t->ends, 0);
    t->reply = SUCCEED;
    start(t);
    go(&m, since_start(&m) + HWT_MS(1));
    ck_assert_uint_eq(t->begun, 1);
    check_ended(t, HWT_RETRY_SUCCEEDED, since_start(&m));
}

START_TEST(nonsense_is_refused_and_changes_nothing)
{
    static const hwt_retry_task no_attempt = { NULL, trial_ended };
    static const hwt_retry_task no_ended = { trial_attempt, NULL };
    trial t = trial_of(&m, LATER);
    hwt_retry before = t.retry;
    hwt_retry_options bad = t.options;
    ck_assert_int_eq(hwt_retry_start(NULL, m.timer, NULL, &trial_task, &t), -EINVAL);
    ck_assert_int_eq(hwt_retry_start(&t.retry, NULL, NULL, &trial_task, &t), -EINVAL);
    ck_assert_int_eq(hwt_retry_start(&t.retry, m.timer, NULL, NULL, &t), -EINVAL);
    ck_assert_int_eq(hwt_retry_start(&t.retry, m.timer, NULL, &no_attempt, &t), -EINVAL);
    ck_assert_int_eq(hwt_retry_start(&t.retry, m.timer, NULL, &no_ended, &t), -EINVAL);
    bad.factor = 0.5;
    ck_assert_int_eq(hwt_retry_start(&t.retry, m.timer, &bad, &trial_task, &t), -EINVAL);
    bad = t.options;
    bad.size--;
    ck_assert_int_eq(hwt_retry_start(&t.retry, m.timer, &bad, &trial_task, &t), -EINVAL);
    ck_assert_int_eq(memcmp(&t.retry, &before, sizeof(before)), 0);
    ck_assert_uint_eq(stats_of(m.timer).added, 0);
    check_startable(&t);
}
END_TEST

START_TEST(without_a_retry_the_answer_is_false)
{
    trial t = trial_of(&m, LATER);
    ck_assert(!hwt_retry_succeeded(NULL, 1));
    ck_assert(!hwt_retry_failed(NULL, 1));
    ck_assert(!hwt_retry_cancel(NULL));
    ck_assert(!hwt_retry_cancel_sync(NULL));
    for (uint64_t attempt = 0; attempt < 3; attempt++) {
        ck_assert(!hwt_retry_succeeded(&t.retry, attempt));
        ck_assert(!hwt_retry_failed(&t.retry, attempt));
    }
    ck_assert(!hwt_retry_cancel(&t.retry));
    ck_assert(!hwt_retry_cancel_sync(&t.retry));
    check_startable(&t);
}
END_TEST

START_TEST(no_options_are_the_defaults)
{
    trial t = trial_of(&m, FAIL);
    ck_assert_int_eq(hwt_retry_start(&t.retry, m.timer, NULL, &trial_task, &t), 0);
    go(&m, HWT_SEC(1));
    ck_assert_uint_gt(t.begun, 1);
    ck_assert_uint_le(t.instants[1], HWT_MS(102));
    ck_assert(hwt_retry_cancel(&t.retry));
    go(&m, HWT_SEC(1) + HWT_MS(1));
    check_ended(&t, HWT_RETRY_CANCELLED, HWT_SEC(1) + HWT_MS(1));
}
END_TEST

START_TEST(one_that_is_started_is_not_started_again)
{
    trial t = trial_of(&m, LATER);
    start(&t);
    ck_assert_int_eq(trial_start(&t), -EALREADY);
    go(&m, HWT_MS(1));
    ck_assert_int_eq(trial_start(&t), -EALREADY); /* during an attempt */
    ck_assert(hwt_retry_failed(&t.retry, 1));
    ck_assert_int_eq(trial_start(&t), -EALREADY); /* a failure to be noticed */
    go(&m, HWT_MS(3));
    ck_assert_int_eq(trial_start(&t), -EALREADY); /* during a delay */
    go(&m, HWT_MS(13));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(13));
    ck_assert(hwt_retry_succeeded(&t.retry, 2));
    ck_assert_int_eq(trial_start(&t), -EALREADY); /* an end to be told */
    go(&m, HWT_MS(14));
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_MS(14));
}
END_TEST

START_TEST(without_a_place_it_is_not_started)
{
    hwt_options options = HWT_OPTIONS_INIT;
    ends e = { 0 };
    close_manual();
    options.tick_duration = TICK;
    options.max_pending = 1;
    manual_open_with(&m, 0, options);
    trial t = trial_of(&m, LATER);
    hwt_timeout other = arm(m.timer, &counting, &e, HWT_SEC(10));
    ck_assert_int_eq(trial_start(&t), -ENOBUFS);
    ck_assert(hwt_timeout_cancel(other));
    go(&m, HWT_MS(1));
    check_startable(&t);
}
END_TEST

START_TEST(without_memory_it_is_not_started)
{
    if (memory_cannot_be_limited())
        return;
    ends e = { 0 };
    trial t = trial_of(&m, LATER);
    int filling = 0;
    limit_memory(0);
    while (filling == 0) /* what the pool still has */
        filling = hwt_timer_new_timeout(m.timer, &counting, &e, HWT_MS(50), NULL);
    int refused = trial_start(&t);
    limit_memory(RLIM_INFINITY);
    ck_assert_int_eq(filling, -ENOMEM);
    ck_assert_int_eq(refused, -ENOMEM);
    check_startable(&t);
}
END_TEST

START_TEST(after_a_stop_it_is_not_started)
{
    trial t = trial_of(&m, LATER);
    ck_assert_int_eq(hwt_timer_stop(m.timer, NULL, NULL), 0);
    ck_assert_int_eq(trial_start(&t), -ESHUTDOWN);
    ck_assert(!hwt_retry_cancel(&t.retry));
    ck_assert_uint_eq(t.ends, 0);
    close_manual();
    open_manual();
    check_startable(&t);
}
END_TEST

/* ---- One timeout for all of it ---- */

START_TEST(it_has_one_timeout_from_the_start_to_the_end)
{
    hwt_options options = HWT_OPTIONS_INIT;
    ends e = { 0 };
    close_manual();
    options.tick_duration = TICK;
    options.max_pending = 1;
    manual_open_with(&m, 0, options);
    trial t = trial_of(&m, LATER);
    t.options.attempt_timeout = HWT_MS(7);
    start(&t);
    for (int i = 0; i < 40; i++) {
        go(&m, since_start(&m) + (i % 5 ? HWT_MS(60) : HWT_MS(3)));
        ck_assert_int_eq(hwt_timer_new_timeout(m.timer, &counting, &e, 0, NULL), -ENOBUFS);
        ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
        if (i % 2 && hwt_retry_failed(&t.retry, current(&t)))
            ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
    }
    ck_assert_uint_gt(t.begun, 20);
    ck_assert(hwt_retry_cancel(&t.retry));
    go(&m, since_start(&m) + HWT_MS(1));
    check_ended(&t, HWT_RETRY_CANCELLED, since_start(&m));
    ck_assert_uint_eq(stats_of(m.timer).added, 1);
}
END_TEST

/* ---- Stop ---- */

START_TEST(an_end_that_is_decided_outlasts_a_stop)
{
    trial t = trial_of(&m, LATER), u = trial_of(&m, LATER);
    start(&t);
    start(&u);
    go(&m, HWT_MS(1));
    ck_assert(hwt_retry_succeeded(&t.retry, 1));
    ck_assert(hwt_retry_failed(&u.retry, 1)); /* but this decides nothing */
    hwt_timer_stop(m.timer, NULL, NULL);
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_MS(1));
    check_ended(&u, HWT_RETRY_CANCELLED, HWT_MS(1));
}
END_TEST

static const hwt_task own_task = { count_run, count_cancelled };

/* As retry.h has it. */
static void pass_on(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    static const hwt_timeout none;
    (void)remaining;
    if (task == &own_task)
        ++*(unsigned *)data;
    else if (task->cancelled)
        task->cancelled(none, arg);
}

START_TEST(a_visitor_passes_on_what_it_does_not_know)
{
    trial t = trial_of(&m, LATER), u = trial_of(&m, FAIL);
    ends e = { 0 };
    unsigned own = 0;
    start(&t);
    start(&u);
    arm(m.timer, &own_task, &e, HWT_SEC(1));
    go(&m, HWT_MS(3));
    ck_assert_int_eq(hwt_timer_stop(m.timer, pass_on, &own), 3);
    ck_assert_uint_eq(own, 1);
    check_ended(&t, HWT_RETRY_CANCELLED, HWT_MS(3));
    check_ended(&u, HWT_RETRY_CANCELLED, HWT_MS(3));
}
END_TEST

static int restarted;

static void start_again(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    trial_ended(retry, end, arg);
    restarted = trial_start(arg);
}

START_TEST(ended_cannot_start_it_again_in_a_stop)
{
    static const hwt_retry_task persistent = { trial_attempt, start_again };
    trial t = trial_of(&m, LATER);
    ck_assert_int_eq(hwt_retry_start(&t.retry, m.timer, &t.options, &persistent, &t), 0);
    hwt_timer_stop(m.timer, NULL, NULL);
    ck_assert_int_eq(restarted, -ESHUTDOWN);
    check_ended(&t, HWT_RETRY_CANCELLED, 0);
}
END_TEST

/* ---- Late answers ---- */

static void check_refused(trial *t, uint64_t attempt)
{
    ck_assert(!hwt_retry_succeeded(&t->retry, attempt));
    ck_assert(!hwt_retry_failed(&t->retry, attempt));
}

START_TEST(an_answer_to_an_earlier_attempt_is_refused)
{
    trial t = trial_of(&m, LATER);
    t.options.attempt_timeout = HWT_MS(5);
    start(&t);
    check_refused(&t, 1); /* not begun */
    go(&m, HWT_MS(10));
    ck_assert_uint_eq(t.begun, 1);
    check_refused(&t, 1); /* timed out */
    go(&m, HWT_MS(18));
    ck_assert_uint_eq(t.begun, 2);
    check_refused(&t, t.numbers[0]); /* during the second */
    check_refused(&t, t.numbers[1] + 1);
    check_refused(&t, 0);
    go(&m, HWT_MS(19));
    ck_assert_uint_eq(t.ends, 0);
    ck_assert(hwt_retry_succeeded(&t.retry, t.numbers[1]));
    go(&m, HWT_MS(20));
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_MS(20));
}
END_TEST

START_TEST(no_number_comes_again_in_a_later_life)
{
    trial t = trial_of(&m, LATER);
    t.options.max_attempts = 2;
    for (size_t life = 0; life < 8; life++) {
        size_t begun = t.begun;
        t.ends = 0;
        start(&t);
        go(&m, since_start(&m) + HWT_MS(1));
        ck_assert_uint_eq(t.begun, begun + 1);
        for (size_t i = 0; i < begun; i++)
            check_refused(&t, t.numbers[i]);
        if (life % 2) {
            ck_assert(hwt_retry_cancel(&t.retry));
            go(&m, since_start(&m) + HWT_MS(1));
        } else {
            ck_assert(hwt_retry_failed(&t.retry, current(&t)));
            go(&m, since_start(&m) + HWT_MS(20));
            ck_assert(hwt_retry_failed(&t.retry, current(&t)));
            go(&m, since_start(&m) + HWT_MS(1));
        }
        ck_assert_uint_eq(t.ends, 1);
    }
    for (size_t i = 1; i < t.begun; i++)
        ck_assert_uint_gt(t.numbers[i], t.numbers[i - 1]);
}
END_TEST

/* ---- After the end ---- */

START_TEST(ended_may_start_it_again)
{
    trial t = trial_of(&m, _i ? SUCCEED : FAIL);
    t.options.max_attempts = 1;
    t.restarts = 3;
    start(&t);
    go(&m, HWT_MS(50));
    ck_assert_uint_eq(t.ends, 4);
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(2), HWT_MS(3), HWT_MS(4));
    t.ends = 1;
    check_ended(&t, _i ? HWT_RETRY_SUCCEEDED : HWT_RETRY_EXHAUSTED, HWT_MS(4));
}
END_TEST

static int freed;

static void forget(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    (void)end;
    ck_assert_ptr_eq(retry, arg);
    memset(retry, 0x5a, sizeof(*retry));
    free(retry);
    freed++;
}

static void reply_to(hwt_retry *retry, uint64_t attempt, void *arg)
{
    (void)arg;
    give_reply(retry, attempt, (enum reply)(freed % 5));
}

/* Through every way to an end; a sanitizer sees what is touched after it. */
START_TEST(ended_may_free_it)
{
    static const hwt_retry_task forgetful = { reply_to, forget };
    hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
    options.attempt_timeout = HWT_MS(5);
    for (int i = 0; i < 40; i++) {
        hwt_retry *retry = calloc(1, sizeof(*retry));
        ck_assert_ptr_nonnull(retry);
        options.max_attempts = (uint32_t)i % 3;
        options.total_timeout = HWT_MS(1 + i * 3 % 50);
        ck_assert_int_eq(hwt_retry_start(retry, m.timer, &options, &forgetful, retry), 0);
        if (i % 7 == 0)
            ck_assert(hwt_retry_cancel_sync(retry));
        go(&m, since_start(&m) + HWT_MS(55));
        ck_assert_int_eq(freed, i + 1);
    }
    hwt_retry *retry = calloc(1, sizeof(*retry));
    ck_assert_int_eq(hwt_retry_start(retry, m.timer, NULL, &forgetful, retry), 0);
    hwt_timer_stop(m.timer, NULL, NULL);
    ck_assert_int_eq(freed, 41);
}
END_TEST

START_TEST(each_start_begins_the_delays_and_the_limits_anew)
{
    trial t = trial_of(&m, FAIL);
    t.options.max_attempts = 3;
    t.options.total_timeout = HWT_MS(40);
    t.restarts = 1;
    start(&t);
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(12), HWT_MS(33), HWT_MS(34), HWT_MS(45), HWT_MS(66));
    ck_assert_uint_eq(t.ends, 2);
    ck_assert_int_eq(t.end, HWT_RETRY_EXHAUSTED);
}
END_TEST

START_TEST(the_options_are_copied)
{
    trial t = trial_of(&m, FAIL);
    t.options.max_attempts = 3;
    start(&t);
    memset(&t.options, 0, sizeof(t.options));
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(12), HWT_MS(33));
    check_ended(&t, HWT_RETRY_EXHAUSTED, HWT_MS(33));
}
END_TEST

/* ---- Executor ---- */

START_TEST(with_an_executor_it_calls_back_there)
{
    hwt_options options = HWT_OPTIONS_INIT;
    deferred d;
    close_manual();
    deferred_open(&d);
    options.tick_duration = TICK;
    options.executor = defer;
    options.executor_data = &d;
    manual_open_with(&m, 0, options);
    trial t = trial_of(&m, LATER);
    t.options.attempt_timeout = HWT_MS(5);
    t.options.max_attempts = 2;
    start(&t);
    go(&m, HWT_MS(2));
    ck_assert_uint_eq(t.begun, 0); /* handed over, not run */
    run_deferred(&d);
    ck_assert_uint_eq(t.begun, 1);
    go(&m, HWT_MS(10));
    ck_assert(hwt_retry_succeeded(&t.retry, 1)); /* its time-out was handed over, not run */
    run_deferred(&d);
    go(&m, HWT_MS(11));
    run_deferred(&d);
    ck_assert_uint_eq(t.ends, 1);
    ck_assert_int_eq(t.end, HWT_RETRY_SUCCEEDED);
    ck_assert_uint_eq(t.begun, 1);
    deferred_close(&d);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("retry_life");
    TCase *starts = add_case(suite, "start");
    tcase_add_test(starts, nonsense_is_refused_and_changes_nothing);
    tcase_add_test(starts, without_a_retry_the_answer_is_false);
    tcase_add_test(starts, no_options_are_the_defaults);
    tcase_add_test(starts, one_that_is_started_is_not_started_again);
    tcase_add_test(starts, without_a_place_it_is_not_started);
    tcase_add_test(starts, without_memory_it_is_not_started);
    tcase_add_test(starts, after_a_stop_it_is_not_started);
    tcase_add_test(starts, it_has_one_timeout_from_the_start_to_the_end);

    TCase *stop = add_case(suite, "stop");
    tcase_add_test(stop, an_end_that_is_decided_outlasts_a_stop);
    tcase_add_test(stop, a_visitor_passes_on_what_it_does_not_know);
    tcase_add_test(stop, ended_cannot_start_it_again_in_a_stop);

    TCase *answers = add_case(suite, "late_answers");
    tcase_add_test(answers, an_answer_to_an_earlier_attempt_is_refused);
    tcase_add_test(answers, no_number_comes_again_in_a_later_life);

    TCase *after = add_case(suite, "after_the_end");
    tcase_add_loop_test(after, ended_may_start_it_again, 0, 2);
    tcase_add_test(after, ended_may_free_it);
    tcase_add_test(after, each_start_begins_the_delays_and_the_limits_anew);
    tcase_add_test(after, the_options_are_copied);
    tcase_add_test(after, with_an_executor_it_calls_back_there);

    TCase *all[] = { starts, stop, answers, after };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        tcase_add_checked_fixture(all[i], open_manual, close_manual);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
