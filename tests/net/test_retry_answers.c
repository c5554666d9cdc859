/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hwt/retry.h: answers that tell something: when to come again, or why it is of no use. The clock
 * is set: nothing here waits.
 */

#include "retry_manual.h"

/* ---- A delay that the other side gave ---- */

START_TEST(the_given_delay_is_kept_to_the_tick)
{
    trial t = trial_of(&m, PUSH_BACK);
    t.options.max_attempts = 4;
    t.options.jitter = (hwt_jitter)_i;
    start(&t);
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(9), HWT_MS(17), HWT_MS(25)); /* 1 + 7, and its tick */
    check_ended(&t, HWT_RETRY_EXHAUSTED, HWT_MS(25));
}
END_TEST

START_TEST(it_counts_from_the_end_of_the_tick_in_which_it_is_told)
{
    trial t = trial_of(&m, LATER);
    start(&t);
    go(&m, HWT_MS(5) + 7);
    ck_assert(hwt_retry_failed_with_delay(&t.retry, current(&t), HWT_MS(100)));
    ck_assert(!hwt_retry_failed_with_delay(&t.retry, current(&t), 0));
    ck_assert(!hwt_retry_failed_for_good(&t.retry, current(&t), 1));
    ck_assert(!hwt_retry_failed(&t.retry, current(&t)));
    ck_assert(!hwt_retry_succeeded(&t.retry, current(&t)));
    go(&m, HWT_MS(200));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(107)); /* 6 + 100 */
    ck_assert(hwt_retry_failed_with_delay(&t.retry, current(&t), 0));
    go(&m, HWT_MS(300));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(107), HWT_MS(202));
    hwt_timer_stop(m.timer, NULL, NULL);
}
END_TEST

START_TEST(it_may_be_over_the_cap_and_the_drawn_delays_begin_anew)
{
    trial t = trial_of(&m, FAIL);
    start(&t);
    go(&m, HWT_MS(40)); /* 1, 12, 33: the next delay is the cap, 40 */
    ck_assert_uint_eq(t.begun, 3);
    t.reply = LATER;
    go(&m, HWT_MS(74));
    ck_assert(hwt_retry_failed_with_delay(&t.retry, current(&t), HWT_SEC(5)));
    t.reply = FAIL;
    go(&m, HWT_MS(5110));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(12), HWT_MS(33), HWT_MS(74), HWT_MS(5076), HWT_MS(5087),
                HWT_MS(5108)); /* after 10 and 20 again */
    hwt_timer_stop(m.timer, NULL, NULL);
}
END_TEST

START_TEST(a_given_delay_past_the_deadline_ends_it_at_once)
{
    trial t = trial_of(&m, LATER), u = trial_of(&m, LATER);
    t.options.total_timeout = HWT_MS(50);
    start(&t);
    start(&u);
    go(&m, HWT_MS(4));
    ck_assert(hwt_retry_failed_with_delay(&t.retry, current(&t), HWT_MS(45)));
    ck_assert(hwt_retry_failed_with_delay(&u.retry, current(&u), HWT_NEVER));
    go(&m, HWT_MS(5));
    check_ended(&t, HWT_RETRY_OUT_OF_TIME, HWT_MS(5));
    check_ended(&u, HWT_RETRY_OUT_OF_TIME, HWT_MS(5));
}
END_TEST

START_TEST(during_a_given_delay_it_is_cancelled)
{
    trial t = trial_of(&m, PUSH_BACK), u = trial_of(&m, LATER);
    start(&t);
    start(&u);
    go(&m, HWT_MS(3));
    ck_assert(hwt_retry_failed_with_delay(&u.retry, current(&u), HWT_MS(9))); /* not noticed yet */
    ck_assert(hwt_retry_cancel_sync(&t.retry));
    ck_assert(hwt_retry_cancel_sync(&u.retry));
    go(&m, HWT_MS(4));
    check_ended(&t, HWT_RETRY_CANCELLED, HWT_MS(4));
    check_ended(&u, HWT_RETRY_CANCELLED, HWT_MS(4));
    u.ends = t.ends = 0;
    start(&u); /* and what was told is forgotten */
    go(&m, since_start(&m) + TICK);
    ck_assert(hwt_retry_failed(&u.retry, current(&u)));
    size_t begun = u.begun;
    uint64_t failed = since_start(&m);
    go(&m, failed + HWT_MS(30));
    ck_assert_uint_eq(u.begun, begun + 1);
    ck_assert_uint_eq(u.instants[begun], failed + HWT_MS(12));
    hwt_timer_stop(m.timer, NULL, NULL);
}
END_TEST

/* ---- Of no use ---- */

START_TEST(a_failure_for_good_ends_it_with_its_reason)
{
    static const int reasons[] = { 0, 1, -1, -ECONNREFUSED, INT32_MAX, INT32_MIN };
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        trial t = trial_of(&m, LATER);
        start(&t);
        uint64_t begin = since_start(&m);
        go(&m, begin + HWT_MS(5));
        ck_assert(hwt_retry_failed_for_good(&t.retry, current(&t), reasons[i]));
        ck_assert(!hwt_retry_failed_for_good(&t.retry, current(&t), reasons[i] ^ 1));
        ck_assert(!hwt_retry_failed_with_delay(&t.retry, current(&t), 77));
        ck_assert(!hwt_retry_cancel(&t.retry));
        go(&m, begin + HWT_MS(6));
        ck_assert_int_eq(t.reason, reasons[i]);
        check_ended(&t, HWT_RETRY_FAILED, begin + HWT_MS(6));
        ck_assert_int_eq(hwt_retry_reason(&t.retry), reasons[i]);
    }
    ck_assert_int_eq(hwt_retry_reason(NULL), 0);
}
END_TEST

START_TEST(it_may_fail_for_good_inside_of_the_attempt)
{
    trial t = trial_of(&m, FAIL_FOR_GOOD);
    start(&t);
    go(&m, HWT_MS(1));
    CHECK_BEGUN(&t, HWT_MS(1));
    ck_assert(t.answered);
    ck_assert_int_eq(t.reason, REASON);
    check_ended(&t, HWT_RETRY_FAILED, HWT_MS(1));
}
END_TEST

START_TEST(a_later_attempt_may_fail_for_good)
{
    trial t = trial_of(&m, PUSH_BACK);
    start(&t);
    go(&m, HWT_MS(8));
    t.reply = FAIL_FOR_GOOD;
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(9));
    ck_assert_int_eq(t.reason, REASON);
    check_ended(&t, HWT_RETRY_FAILED, HWT_MS(9));
}
END_TEST

START_TEST(a_reason_outlasts_a_stop)
{
    trial t = trial_of(&m, LATER);
    start(&t);
    go(&m, HWT_MS(1));
    ck_assert(hwt_retry_failed_for_good(&t.retry, 1, REASON));
    hwt_timer_stop(m.timer, NULL, NULL);
    ck_assert_int_eq(t.reason, REASON);
    check_ended(&t, HWT_RETRY_FAILED, HWT_MS(1));
}
END_TEST

/* ---- Refused ---- */

static void check_refused(hwt_retry *retry, uint64_t attempt)
{
    ck_assert(!hwt_retry_failed_with_delay(retry, attempt, 1));
    ck_assert(!hwt_retry_failed_for_good(retry, attempt, 1));
}

START_TEST(a_late_answer_is_refused_and_changes_nothing)
{
    trial t = trial_of(&m, LATER);
    t.options.attempt_timeout = HWT_MS(5);
    check_refused(NULL, 1);
    check_refused(&t.retry, 0);
    check_refused(&t.retry, 1);
    start(&t);
    check_refused(&t.retry, 1); /* not begun */
    go(&m, HWT_MS(10));
    check_refused(&t.retry, 1); /* timed out */
    go(&m, HWT_MS(18));
    ck_assert_uint_eq(t.begun, 2);
    check_refused(&t.retry, 1); /* during the second */
    check_refused(&t.retry, 3);
    check_refused(&t.retry, UINT64_MAX);
    check_refused(&t.retry, 2 + (UINT64_C(1) << 59)); /* what a shift would make 2 of */
    check_refused(&t.retry, 2 + (UINT64_C(1) << 63));
    ck_assert(hwt_retry_failed_with_delay(&t.retry, 2, HWT_MS(3)));
    go(&m, HWT_MS(23));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(18), HWT_MS(23));
    ck_assert(hwt_retry_failed_for_good(&t.retry, 3, 4));
    go(&m, HWT_MS(24));
    check_ended(&t, HWT_RETRY_FAILED, HWT_MS(24));
}
END_TEST

START_TEST(no_answer_takes_a_number_that_a_shift_would_make_of_it)
{
    trial t = trial_of(&m, LATER);
    start(&t);
    go(&m, HWT_MS(1));
    for (int bit = 1; bit < 64; bit++) {
        ck_assert(!hwt_retry_succeeded(&t.retry, 1 + (UINT64_C(1) << bit)));
        ck_assert(!hwt_retry_failed(&t.retry, 1 + (UINT64_C(1) << bit)));
    }
    ck_assert(hwt_retry_succeeded(&t.retry, 1));
    go(&m, HWT_MS(2));
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_MS(2));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("retry_answers");
    TCase *delays = add_case(suite, "delays");
    tcase_add_loop_test(delays, the_given_delay_is_kept_to_the_tick, 0, HWT_JITTER_AROUND + 1);
    tcase_add_test(delays, it_counts_from_the_end_of_the_tick_in_which_it_is_told);
    tcase_add_test(delays, it_may_be_over_the_cap_and_the_drawn_delays_begin_anew);
    tcase_add_test(delays, a_given_delay_past_the_deadline_ends_it_at_once);
    tcase_add_test(delays, during_a_given_delay_it_is_cancelled);

    TCase *for_good = add_case(suite, "for_good");
    tcase_add_test(for_good, a_failure_for_good_ends_it_with_its_reason);
    tcase_add_test(for_good, it_may_fail_for_good_inside_of_the_attempt);
    tcase_add_test(for_good, a_later_attempt_may_fail_for_good);
    tcase_add_test(for_good, a_reason_outlasts_a_stop);

    TCase *refused = add_case(suite, "refused");
    tcase_add_test(refused, a_late_answer_is_refused_and_changes_nothing);
    tcase_add_test(refused, no_answer_takes_a_number_that_a_shift_would_make_of_it);

    TCase *all[] = { delays, for_good, refused };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        tcase_add_checked_fixture(all[i], open_manual, close_manual);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
