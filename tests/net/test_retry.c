/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The promises of hwt/retry.h, each on a set clock: when attempts begin, what ends them, and how
 * it all ends. What may go wrong at the start, and the life of the object, are in
 * test_retry_life.c, forced races in test_retry_races.c.
 */

#include "retry_manual.h"

/* What is under way when the timer is stopped was cancelled. */
static void check_stopped(trial *t)
{
    ck_assert_uint_eq(t->ends, 0);
    ck_assert_int_eq(hwt_timer_stop(m.timer, NULL, NULL), 1);
    check_ended(t, HWT_RETRY_CANCELLED, since_start(&m));
}

/* ---- Success ---- */

START_TEST(the_first_attempt_begins_in_the_next_tick)
{
    trial t = trial_of(&m, LATER);
    start(&t);
    ck_assert_uint_eq(t.begun, 0);
    go(&m, TICK - 1);
    ck_assert_uint_eq(t.begun, 0);
    go(&m, HWT_MS(500));
    CHECK_BEGUN(&t, HWT_MS(1));
    ck_assert_uint_eq(t.numbers[0], 1);
    check_stopped(&t);
}
END_TEST

START_TEST(success_inside_of_the_attempt_ends_it_in_the_same_tick)
{
    trial t = trial_of(&m, SUCCEED);
    start(&t);
    go(&m, HWT_MS(1));
    CHECK_BEGUN(&t, HWT_MS(1));
    ck_assert(t.answered);
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_MS(1));
}
END_TEST

START_TEST(success_later_ends_it_within_a_tick)
{
    trial t = trial_of(&m, LATER);
    start(&t);
    go(&m, HWT_MS(5) + 7);
    ck_assert(hwt_retry_succeeded(&t.retry, current(&t)));
    ck_assert_uint_eq(t.ends, 0);
    ck_assert(!hwt_retry_succeeded(&t.retry, current(&t)));
    ck_assert(!hwt_retry_failed(&t.retry, current(&t)));
    go(&m, HWT_MS(6));
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_MS(6));
}
END_TEST

START_TEST(a_later_attempt_may_succeed)
{
    trial t = trial_of(&m, FAIL);
    start(&t);
    go(&m, HWT_MS(1));
    t.reply = SUCCEED;
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(12));
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_MS(12));
}
END_TEST

/* ---- Delays ---- */

START_TEST(the_delay_counts_from_a_failure_inside_of_the_attempt)
{
    trial t = trial_of(&m, FAIL);
    start(&t);
    go(&m, HWT_MS(160));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(12), HWT_MS(33), HWT_MS(74), HWT_MS(115), HWT_MS(156));
    for (size_t i = 0; i < t.begun; i++)
        ck_assert_uint_eq(t.numbers[i], i + 1);
    ck_assert(t.answered);
    check_stopped(&t);
}
END_TEST

START_TEST(the_delay_counts_from_the_end_of_the_tick_in_which_a_failure_is_told)
{
    trial t = trial_of(&m, LATER);
    start(&t);
    go(&m, HWT_MS(5) + 7);
    ck_assert(hwt_retry_failed(&t.retry, current(&t)));
    ck_assert(!hwt_retry_failed(&t.retry, current(&t)));
    ck_assert(!hwt_retry_succeeded(&t.retry, current(&t)));
    go(&m, HWT_MS(20));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(17)); /* 6 + 10, and to the end of its tick */
    ck_assert(hwt_retry_failed(&t.retry, current(&t)));
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(17), HWT_MS(42));
    check_stopped(&t);
}
END_TEST

START_TEST(the_delay_counts_from_the_timeout_of_an_attempt)
{
    trial t = trial_of(&m, LATER);
    t.options.attempt_timeout = HWT_MS(5);
    start(&t);
    go(&m, HWT_MS(7) - 1);
    ck_assert_uint_eq(t.begun, 1);
    go(&m, HWT_MS(50));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(18), HWT_MS(45)); /* 1 + 5 -> 7, + 10 -> 18, + 5 -> 24 ... */
    check_stopped(&t);
}
END_TEST

START_TEST(the_delays_are_those_of_the_seed)
{
    trial t = trial_of(&m, FAIL);
    hwt_backoff backoff;
    t.options.seed = 5;
    t.options.jitter = (hwt_jitter)_i;
    t.options.max_attempts = 20;
    ck_assert_int_eq(hwt_backoff_init(&backoff, &t.options), 0);
    start(&t);
    go(&m, HWT_SEC(2));
    ck_assert_uint_eq(t.begun, 20);
    for (size_t i = 1; i < t.begun; i++)
        ck_assert_uint_eq(t.instants[i],
                          due_at(t.instants[i - 1] + hwt_backoff_next(&backoff), TICK));
}
END_TEST

START_TEST(a_delay_of_0_is_the_next_tick)
{
    trial t = trial_of(&m, FAIL);
    t.options.first_delay = 0;
    start(&t);
    go(&m, HWT_MS(4));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(2), HWT_MS(3), HWT_MS(4));
    manual_go(&m, HWT_SEC(60)); /* a leap is no burst */
    ck_assert_uint_eq(t.begun, 5);
    check_stopped(&t);
}
END_TEST

START_TEST(an_answer_in_time_keeps_the_attempt_from_its_timeout)
{
    trial t = trial_of(&m, LATER);
    t.options.attempt_timeout = HWT_MS(5);
    t.options.max_attempts = 1;
    start(&t);
    go(&m, HWT_MS(7) - 1);
    ck_assert(hwt_retry_succeeded(&t.retry, 1)); /* its tick is not over */
    go(&m, HWT_MS(7));
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_MS(7));
}
END_TEST

/* ---- Exhausted ---- */

START_TEST(the_last_attempt_that_fails_inside_exhausts_it)
{
    trial t = trial_of(&m, FAIL);
    t.options.max_attempts = 3;
    start(&t);
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(12), HWT_MS(33));
    check_ended(&t, HWT_RETRY_EXHAUSTED, HWT_MS(33));
}
END_TEST

START_TEST(the_last_attempt_that_fails_later_exhausts_it)
{
    trial t = trial_of(&m, LATER);
    t.options.max_attempts = 1;
    start(&t);
    go(&m, HWT_MS(9) + 1);
    ck_assert(hwt_retry_failed(&t.retry, 1));
    go(&m, HWT_MS(10));
    check_ended(&t, HWT_RETRY_EXHAUSTED, HWT_MS(10));
}
END_TEST

START_TEST(the_last_attempt_that_is_timed_out_exhausts_it)
{
    trial t = trial_of(&m, LATER);
    t.options.max_attempts = 2;
    t.options.attempt_timeout = HWT_MS(5);
    start(&t);
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(18));
    check_ended(&t, HWT_RETRY_EXHAUSTED, HWT_MS(24));
}
END_TEST

/* ---- Out of time ---- */

START_TEST(an_attempt_under_way_at_the_deadline_ends_there)
{
    trial t = trial_of(&m, LATER);
    t.options.total_timeout = HWT_MS(30);
    start(&t);
    go(&m, HWT_MS(31) - 1);
    ck_assert_uint_eq(t.ends, 0);
    go(&m, HWT_MS(31));
    CHECK_BEGUN(&t, HWT_MS(1));
    check_ended(&t, HWT_RETRY_OUT_OF_TIME, HWT_MS(31));
}
END_TEST

START_TEST(the_deadline_comes_before_a_timeout_of_the_same_instant)
{
    trial t = trial_of(&m, LATER);
    t.options.max_attempts = 1;
    t.options.attempt_timeout = HWT_MS(29);
    t.options.total_timeout = HWT_MS(30);
    start(&t);
    go(&m, HWT_MS(31));
    check_ended(&t, HWT_RETRY_OUT_OF_TIME, HWT_MS(31));
}
END_TEST

START_TEST(a_delay_up_to_the_deadline_or_past_it_ends_at_once)
{
    static const uint64_t totals[] = { HWT_MS(30), HWT_MS(32) }; /* 12 + 20 is the second's */
    trial t = trial_of(&m, FAIL);
    t.options.total_timeout = totals[_i];
    start(&t);
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(12));
    check_ended(&t, HWT_RETRY_OUT_OF_TIME, HWT_MS(12));
}
END_TEST

START_TEST(a_delay_just_before_the_deadline_is_waited_for)
{
    trial t = trial_of(&m, FAIL);
    t.options.total_timeout = HWT_MS(33) + 1; /* the attempt is due at 32, and begins at 33 */
    start(&t);
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(12), HWT_MS(33));
    check_ended(&t, HWT_RETRY_OUT_OF_TIME, HWT_MS(33));
}
END_TEST

START_TEST(no_attempt_begins_in_the_tick_that_has_the_deadline)
{
    static const uint64_t totals[] = { HWT_MS(32) + 1, HWT_MS(33) }; /* to its very end */
    trial t = trial_of(&m, FAIL);
    t.options.total_timeout = totals[_i];
    start(&t);
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(12));
    check_ended(&t, HWT_RETRY_OUT_OF_TIME, HWT_MS(33));
}
END_TEST

START_TEST(without_time_there_is_no_first_attempt)
{
    trial t = trial_of(&m, SUCCEED);
    t.options.total_timeout = 1;
    start(&t);
    go(&m, HWT_MS(100));
    ck_assert_uint_eq(t.begun, 0);
    check_ended(&t, HWT_RETRY_OUT_OF_TIME, HWT_MS(1));
}
END_TEST

START_TEST(an_answer_past_the_deadline_counts_until_the_tick_is_over)
{
    trial t = trial_of(&m, LATER), u = trial_of(&m, LATER), v = trial_of(&m, LATER);
    t.options.total_timeout = u.options.total_timeout = v.options.total_timeout = HWT_MS(30);
    v.options.max_attempts = 1;
    start(&t);
    start(&u);
    start(&v);
    go(&m, HWT_MS(31) - 1);
    ck_assert(hwt_retry_succeeded(&t.retry, 1));
    ck_assert(hwt_retry_failed(&u.retry, 1));
    ck_assert(hwt_retry_failed(&v.retry, 1));
    go(&m, HWT_MS(31));
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_MS(31));
    check_ended(&u, HWT_RETRY_OUT_OF_TIME, HWT_MS(31));
    check_ended(&v, HWT_RETRY_EXHAUSTED, HWT_MS(31));
}
END_TEST

START_TEST(a_leap_over_all_of_it_ends_it_once)
{
    trial t = trial_of(&m, LATER);
    t.options.total_timeout = HWT_SEC(1);
    t.options.attempt_timeout = HWT_MS(5);
    start(&t);
    go(&m, HWT_MS(1));
    manual_go(&m, HWT_SEC(3600));
    CHECK_BEGUN(&t, HWT_MS(1));
    check_ended(&t, HWT_RETRY_OUT_OF_TIME, HWT_SEC(3600));
}
END_TEST

START_TEST(instants_saturate)
{
    trial t = trial_of(&m, LATER);
    t.options.total_timeout = HWT_NEVER - 1; /* from now: never */
    t.options.attempt_timeout = HWT_NEVER - 1;
    start(&t);
    manual_go(&m, HWT_SEC(3600) * 24 * 365);
    manual_go(&m, HWT_SEC(3600) * 24 * 365 * 100);
    ck_assert_uint_eq(t.begun, 1);
    ck_assert_uint_eq(t.ends, 0);
    ck_assert(hwt_retry_failed(&t.retry, 1));
    manual_go(&m, since_start(&m) + HWT_MS(1));
    manual_go(&m, since_start(&m) + HWT_MS(12));
    ck_assert_uint_eq(t.begun, 2);
    check_stopped(&t);
}
END_TEST

START_TEST(a_delay_that_is_never_over_ends_at_once)
{
    trial t = trial_of(&m, FAIL);
    t.options.first_delay = t.options.max_delay = HWT_NEVER - 1;
    start(&t);
    go(&m, HWT_MS(1));
    CHECK_BEGUN(&t, HWT_MS(1));
    check_ended(&t, HWT_RETRY_OUT_OF_TIME, HWT_MS(1));
}
END_TEST

/* ---- Cancelled ---- */

static bool (*const cancels[2])(hwt_retry *) = { hwt_retry_cancel, hwt_retry_cancel_sync };

/* Told in the next pass, and nothing begins any more. */
static void check_cancel(trial *t, int how)
{
    size_t begun = t->begun;
    ck_assert(cancels[how](&t->retry));
    ck_assert(!cancels[0](&t->retry));
    ck_assert(!cancels[1](&t->retry));
    ck_assert(!hwt_retry_succeeded(&t->retry, current(t)));
    ck_assert(!hwt_retry_failed(&t->retry, current(t)));
    ck_assert_uint_eq(t->ends, 0);
    uint64_t end = (since_start(&m) / TICK + 1) * TICK;
    go(&m, end);
    check_ended(t, HWT_RETRY_CANCELLED, end);
    ck_assert_uint_eq(t->begun, begun);
}

START_TEST(it_is_cancelled_before_the_first_attempt)
{
    trial t = trial_of(&m, LATER);
    start(&t);
    check_cancel(&t, _i);
}
END_TEST

START_TEST(it_is_cancelled_during_an_attempt)
{
    trial t = trial_of(&m, LATER);
    start(&t);
    go(&m, HWT_MS(5));
    check_cancel(&t, _i);
}
END_TEST

START_TEST(it_is_cancelled_during_a_delay)
{
    trial t = trial_of(&m, FAIL);
    start(&t);
    go(&m, HWT_MS(5));
    check_cancel(&t, _i);
}
END_TEST

START_TEST(it_is_cancelled_when_a_failure_is_told_but_not_noticed)
{
    trial t = trial_of(&m, LATER);
    t.options.max_attempts = 1;
    start(&t);
    go(&m, HWT_MS(5));
    ck_assert(hwt_retry_failed(&t.retry, 1));
    check_cancel(&t, _i);
}
END_TEST

START_TEST(it_is_not_cancelled_once_an_attempt_has_succeeded)
{
    trial t = trial_of(&m, LATER);
    start(&t);
    go(&m, HWT_MS(5));
    ck_assert(hwt_retry_succeeded(&t.retry, 1));
    ck_assert(!cancels[_i](&t.retry));
    go(&m, HWT_MS(6));
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_MS(6));
}
END_TEST

START_TEST(it_is_cancelled_inside_of_its_attempt)
{
    trial t = trial_of(&m, _i ? GIVE_UP_SYNC : GIVE_UP);
    start(&t);
    go(&m, HWT_MS(1));
    ck_assert(t.answered);
    check_ended(&t, HWT_RETRY_CANCELLED, HWT_MS(1));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("retry");
    TCase *success = add_case(suite, "success");
    tcase_add_test(success, the_first_attempt_begins_in_the_next_tick);
    tcase_add_test(success, success_inside_of_the_attempt_ends_it_in_the_same_tick);
    tcase_add_test(success, success_later_ends_it_within_a_tick);
    tcase_add_test(success, a_later_attempt_may_succeed);

    TCase *delays = add_case(suite, "delays");
    tcase_add_test(delays, the_delay_counts_from_a_failure_inside_of_the_attempt);
    tcase_add_test(delays, the_delay_counts_from_the_end_of_the_tick_in_which_a_failure_is_told);
    tcase_add_test(delays, the_delay_counts_from_the_timeout_of_an_attempt);
    tcase_add_loop_test(delays, the_delays_are_those_of_the_seed, 0, 4);
    tcase_add_test(delays, a_delay_of_0_is_the_next_tick);
    tcase_add_test(delays, an_answer_in_time_keeps_the_attempt_from_its_timeout);

    TCase *exhausted = add_case(suite, "exhausted");
    tcase_add_test(exhausted, the_last_attempt_that_fails_inside_exhausts_it);
    tcase_add_test(exhausted, the_last_attempt_that_fails_later_exhausts_it);
    tcase_add_test(exhausted, the_last_attempt_that_is_timed_out_exhausts_it);

    TCase *late = add_case(suite, "out_of_time");
    tcase_add_test(late, an_attempt_under_way_at_the_deadline_ends_there);
    tcase_add_test(late, the_deadline_comes_before_a_timeout_of_the_same_instant);
    tcase_add_loop_test(late, a_delay_up_to_the_deadline_or_past_it_ends_at_once, 0, 2);
    tcase_add_test(late, a_delay_just_before_the_deadline_is_waited_for);
    tcase_add_loop_test(late, no_attempt_begins_in_the_tick_that_has_the_deadline, 0, 2);
    tcase_add_test(late, without_time_there_is_no_first_attempt);
    tcase_add_test(late, an_answer_past_the_deadline_counts_until_the_tick_is_over);
    tcase_add_test(late, a_leap_over_all_of_it_ends_it_once);
    tcase_add_test(late, instants_saturate);
    tcase_add_test(late, a_delay_that_is_never_over_ends_at_once);

    TCase *cancelled = add_case(suite, "cancelled");
    tcase_add_loop_test(cancelled, it_is_cancelled_before_the_first_attempt, 0, 2);
    tcase_add_loop_test(cancelled, it_is_cancelled_during_an_attempt, 0, 2);
    tcase_add_loop_test(cancelled, it_is_cancelled_during_a_delay, 0, 2);
    tcase_add_loop_test(cancelled, it_is_cancelled_when_a_failure_is_told_but_not_noticed, 0, 2);
    tcase_add_loop_test(cancelled, it_is_not_cancelled_once_an_attempt_has_succeeded, 0, 2);
    tcase_add_loop_test(cancelled, it_is_cancelled_inside_of_its_attempt, 0, 2);

    TCase *all[] = { success, delays, exhausted, late, cancelled };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        tcase_add_checked_fixture(all[i], open_manual, close_manual);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
