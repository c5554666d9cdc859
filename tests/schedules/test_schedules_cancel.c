/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A cancel against the drain, the arming, the firing, another cancel, and the entry's next use; and
 * one that waits against the end of the run. */

#include "stage.h"

/* ---- against the drain and the arming ---- */

/*
 *     driver                          canceller
 *     ARM, it is in its bucket
 *                                     QUEUED -> CANCELLED, pushes nothing: it is in the queue
 *     the exchange to ARMED fails:
 *     out of the bucket, discarded
 */
START_TEST(a_cancel_between_filing_and_arming_is_seen_by_who_files)
{
    struct actor driver;
    hwt_timeout timeout = add_queued(AT(10));
    act_drive(&driver, 0);
    actor_go_to(&driver, "ARM");
    ck_assert(hwt_timeout_cancel(timeout));
    actor_end(&driver);
    expect_fate(0, 1);
}
END_TEST

/*
 *     canceller                       driver
 *     has seen QUEUED, CANCEL
 *                                     arms it
 *     its exchange fails, it sees
 *     ARMED: has to push it
 */
START_TEST(a_cancel_that_saw_it_queued_pushes_what_was_armed_meanwhile)
{
    struct actor canceller;
    hwt_timeout timeout = add_queued(AT(10));
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, "CANCEL");
    drive(0);
    ck_assert(actor_end(&canceller));
    drive(1);
    expect_fate(0, 1); /* within a tick, not when its own comes */
}
END_TEST

/*
 *     driver                          canceller
 *     DRAIN, it is in neither queue
 *     nor bucket
 *                                     QUEUED -> CANCELLED
 *     finds it cancelled
 */
START_TEST(a_cancel_of_what_was_just_popped_is_seen_by_who_popped)
{
    struct actor driver;
    hwt_timeout timeouts[2] = { add_queued(AT(10)), add_with(&silent, &fate, AT(10)) };
    act_drive(&driver, 0);
    for (int i = 0; i < 2; i++) {
        actor_go_to(&driver, "DRAIN");
        ck_assert(hwt_timeout_cancel(timeouts[i]));
    }
    actor_end(&driver);
    expect_fate(0, 1); /* the silent one is not told */
}
END_TEST

/* The last thousand of a quarter of a million, while the first is drained: the cap on what is
 * drained at a time lies between. */
START_TEST(those_cancelled_while_a_long_queue_is_drained_never_run)
{
    enum { ADDED = 250000, LAST = 1000 };
    static hwt_timeout timeouts[ADDED];
    struct actor driver;
    for (int i = 0; i < ADDED; i++)
        timeouts[i] = add_queued(AT(10));
    act_drive(&driver, 0);
    actor_go_to(&driver, "DRAIN");
    for (int i = ADDED - LAST; i < ADDED; i++)
        must(hwt_timeout_cancel(timeouts[i]));
    actor_end(&driver);
    expect_fate(0, LAST);
    drive(11);
    expect_fate(ADDED - LAST, LAST);
}
END_TEST

/*
 *     canceller                       driver                      adder
 *     QUEUED -> CANCELLED,
 *     CANCEL_PUSH
 *                                     drains it: the entry
 *                                     is free
 *                                                                 gets the entry
 *                                     arms it
 *     goes on: pushes nothing
 */
START_TEST(a_cancel_does_not_touch_the_entry_any_more_once_it_was_drained)
{
    struct actor canceller;
    hwt_timeout timeout = add_with(&silent, &fate, AT(10));
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, "CANCEL_PUSH");
    drive(0);
    hwt_timeout again = add_until_reused(timeout, AT(20));
    drive(0);
    ck_assert(actor_end(&canceller));
    drive(1);
    ck_assert_int_eq(hwt_timeout_state(again), HWT_PENDING);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_GONE);
    ck_assert(hwt_timeout_cancel(again));
}
END_TEST

/* ---- against the firing ---- */

/*
 *     driver                          canceller
 *     it is due, BEGIN
 *                                     ARMED -> CANCELLED, pushes
 *     the exchange to RUNNING fails
 */
START_TEST(a_cancel_between_finding_it_due_and_running_it_wins)
{
    struct actor driver;
    hwt_timeout timeout = add_armed(AT(10));
    act_drive(&driver, 11);
    actor_go_to(&driver, "BEGIN");
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert_uint_eq((uint64_t)actor_end(&driver), 0);
    expect_fate(0, 1);
}
END_TEST

/*
 *     canceller                       driver
 *     has seen ARMED, CANCEL
 *                                     runs it: EXPIRED; or it runs yet
 *     its exchange fails: false
 */
START_TEST(a_cancel_that_saw_it_armed_does_not_win_once_it_ran)
{
    struct actor canceller, driver;
    hwt_timeout timeout = add_armed(AT(10));
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, "CANCEL");
    act_drive(&driver, 11);
    actor_go_to(&driver, _i ? "RAN" : "RUN");
    if (_i)
        actor_end(&driver);
    ck_assert(!actor_end(&canceller));
    if (!_i)
        actor_end(&driver);
    drive(12);
    expect_fate(1, 0);
}
END_TEST

/*
 *     canceller                       driver
 *     ARMED -> CANCELLED,
 *     CANCEL_PUSH
 *                                     takes it from its bucket: not ARMED,
 *                                     it is left in transit
 *     pushes it
 *                                     discards it
 */
START_TEST(what_is_cancelled_and_not_pushed_yet_is_left_alone_when_its_tick_comes)
{
    struct actor canceller;
    hwt_timeout timeout = add_armed(AT(10));
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, "CANCEL_PUSH");
    drive(11);
    ck_assert_uint_eq(timer->worker.transit, 1);
    expect_fate(0, 0);
    ck_assert(actor_end(&canceller));
    drive(12);
    expect_fate(0, 1);
}
END_TEST

/*
 *     driver                          canceller
 *     RAN one, and has the others of
 *     the tick in hand
 *                                     cancels those: all true
 *     leaves them in transit, and
 *     finds them on the queue
 */
START_TEST(those_cancelled_in_the_hand_of_who_fires_are_counted_once)
{
    enum { OTHERS = 10 };
    struct actor driver;
    hwt_timeout others[OTHERS];
    add_armed(AT(10));
    for (int i = 0; i < OTHERS; i++)
        others[i] = add_armed(AT(10));
    act_drive(&driver, 11);
    actor_go_to(&driver, "RAN");
    for (int i = 0; i < OTHERS; i++)
        ck_assert(hwt_timeout_cancel(others[i]));
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    ck_assert_uint_eq(timer->reserved, 0);
    ck_assert_uint_eq((uint64_t)actor_end(&driver), 1);
    expect_fate(1, OTHERS);
    ck_assert_uint_eq(stats_of(timer).cancelled, OTHERS);
}
END_TEST

/* ---- against another cancel, and the next use ---- */

START_TEST(of_two_cancels_that_both_saw_it_pending_one_is_true)
{
    struct actor first, second;
    hwt_timeout timeout = _i ? add_armed(AT(10)) : add_queued(AT(10));
    act_cancel(&first, timeout);
    act_cancel(&second, timeout);
    actor_go_to(&first, "CANCEL");
    actor_go_to(&second, "CANCEL");
    ck_assert(actor_end(&second));
    ck_assert(!actor_end(&first));
    drive(1);
    expect_fate(0, 1);
}
END_TEST

/*
 *     canceller                       driver                      adder
 *     has seen it pending, CANCEL
 *                                     runs it: the entry
 *                                     is free
 *                                                                 gets the entry
 *     its exchange fails: another
 *     generation, false
 */
START_TEST(a_stale_cancel_does_not_cancel_the_next_use_of_the_entry)
{
    struct actor canceller;
    hwt_timeout timeout = add_armed(AT(10));
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, "CANCEL");
    drive(11);
    expect_fate(1, 0);
    hwt_timeout again = add_until_reused(timeout, AT(20));
    ck_assert(!actor_end(&canceller));
    ck_assert_int_eq(hwt_timeout_state(again), HWT_PENDING);
}
END_TEST

/* ---- a cancel that waits, against the end of the run ---- */

/* Runs, and so does the driver, until it has run. */
static hwt_timeout begin_run(struct actor *driver)
{
    hwt_timeout timeout = add_armed(AT(10));
    act_drive(driver, 11);
    actor_go_to(driver, "RAN");
    return timeout;
}

/*
 *     canceller                       driver
 *     has seen RUNNING, CANCEL_WAIT
 *                                     RUNNING -> EXPIRED: nobody waits
 *     its exchange fails: does not
 *     wait
 */
START_TEST(a_cancel_does_not_wait_for_a_run_that_ended_before_it_said_so)
{
    struct actor driver, canceller;
    act_cancel_sync(&canceller, begin_run(&driver));
    actor_go_to(&canceller, "CANCEL_WAIT");
    actor_end(&driver);
    ck_assert(!actor_end(&canceller));
    expect_fate(1, 0);
}
END_TEST

/*
 *     canceller                       driver
 *     sets WAITED, WAIT
 *                                     RUNNING -> EXPIRED, wakes those
 *                                     who wait: nobody yet
 *     looks once more, under the
 *     mutex: does not wait
 */
START_TEST(a_cancel_does_not_wait_for_a_wake_up_that_was_before)
{
    struct actor driver, canceller;
    act_cancel_sync(&canceller, begin_run(&driver));
    actor_go_to(&canceller, "WAIT");
    actor_end(&driver);
    ck_assert(!actor_end(&canceller));
}
END_TEST

/*
 *     canceller                       driver                      adder
 *     sets WAITED, WAIT
 *                                     ends the run
 *                                                                 gets the entry
 *                                     runs that: RUN
 *     RUNNING, but of another
 *     generation: does not wait
 */
START_TEST(a_cancel_does_not_wait_for_the_run_of_the_next_use)
{
    struct actor driver, canceller;
    hwt_timeout timeout = begin_run(&driver);
    act_cancel_sync(&canceller, timeout);
    actor_go_to(&canceller, "WAIT");
    actor_end(&driver);
    hwt_timeout again = add_until_reused(timeout, AT(20));
    act_drive(&driver, 21);
    while (hwt_timeout_state(again) == HWT_PENDING)
        actor_go_to(&driver, "RUN");
    ck_assert(!actor_end(&canceller));
    actor_end(&driver);
}
END_TEST

/*
 *     canceller                       driver
 *     sets WAITED, waits
 *                                     RUNNING -> EXPIRED, RETURNED: wakes it
 */
START_TEST(who_waits_is_woken_by_the_end_of_the_run)
{
    struct actor driver, cancellers[3];
    hwt_timeout timeout = begin_run(&driver);
    for (int i = 0; i < 3; i++) {
        act_cancel_sync(&cancellers[i], timeout);
        actor_go_to(&cancellers[i], "WAIT");
        actor_let_go(&cancellers[i]);
    }
    give_others_a_chance();
    actor_end(&driver);
    for (int i = 0; i < 3; i++)
        ck_assert(!actor_end(&cancellers[i]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: cancel");
    TCase *drain = room_case(suite, "drain", stage_open, stage_close);
    tcase_add_test(drain, a_cancel_between_filing_and_arming_is_seen_by_who_files);
    tcase_add_test(drain, a_cancel_that_saw_it_queued_pushes_what_was_armed_meanwhile);
    tcase_add_test(drain, a_cancel_of_what_was_just_popped_is_seen_by_who_popped);
    tcase_add_test(drain, those_cancelled_while_a_long_queue_is_drained_never_run);
    tcase_add_test(drain, a_cancel_does_not_touch_the_entry_any_more_once_it_was_drained);
    TCase *fire = room_case(suite, "fire", stage_open, stage_close);
    tcase_add_test(fire, a_cancel_between_finding_it_due_and_running_it_wins);
    tcase_add_loop_test(fire, a_cancel_that_saw_it_armed_does_not_win_once_it_ran, 0, 2);
    tcase_add_test(fire, what_is_cancelled_and_not_pushed_yet_is_left_alone_when_its_tick_comes);
    tcase_add_test(fire, those_cancelled_in_the_hand_of_who_fires_are_counted_once);
    tcase_add_loop_test(fire, of_two_cancels_that_both_saw_it_pending_one_is_true, 0, 2);
    tcase_add_test(fire, a_stale_cancel_does_not_cancel_the_next_use_of_the_entry);
    TCase *wait = room_case(suite, "wait", stage_open, stage_close);
    tcase_add_test(wait, a_cancel_does_not_wait_for_a_run_that_ended_before_it_said_so);
    tcase_add_test(wait, a_cancel_does_not_wait_for_a_wake_up_that_was_before);
    tcase_add_test(wait, a_cancel_does_not_wait_for_the_run_of_the_next_use);
    tcase_add_test(wait, who_waits_is_woken_by_the_end_of_the_run);
    return run_suite(suite);
}
