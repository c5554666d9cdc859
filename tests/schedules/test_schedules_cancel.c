/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A cancel against the reading of records, the firing, another cancel, and the entry's next use;
 * and one that waits against the end of the run. */

#include "stage.h"

/* ---- against the reading of records ---- */

/*
 *     driver                          canceller
 *     is about to file it, FILE
 *                                     PENDING -> UNTOLD, and says so; or CANCELLED
 *     files it; reads that it is to
 *     be told, if it is
 */
START_TEST(what_is_cancelled_while_it_is_filed_is_told_in_the_same_pass)
{
    struct actor driver;
    hwt_timeout told = add_unread(AT(10)), not_told = add_with(&silent, &beside, AT(10));
    act_drive(&driver, 0);
    actor_go_to(&driver, "FILE");
    ck_assert(hwt_timeout_cancel(told));
    actor_go_to(&driver, "FILE");
    ck_assert(hwt_timeout_cancel(not_told));
    actor_end(&driver);
    expect_fate(0, 1);
    drive(11);
    ck_assert_uint_eq(ends_sum(&beside), 0);
}
END_TEST

/*
 *     canceller                       driver
 *     PENDING -> UNTOLD;
 *     CANCEL_PUBLISH, APPEND
 *                                     reads what was added: it is not pending; or
 *                                     its tick comes
 *     says so
 *                                     tells it
 */
START_TEST(what_is_cancelled_and_not_said_yet_is_left_alone)
{
    struct actor canceller;
    hwt_timeout timeout = add_either(_i % 2, AT(10));
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, _i / 2 ? "APPEND" : "CANCEL_PUBLISH");
    drive(11);
    expect_fate(0, 0);
    ck_assert(actor_end(&canceller));
    drive(12);
    expect_fate(0, 1);
}
END_TEST

/*
 *     canceller                       driver                      adder
 *     PENDING -> CANCELLED;
 *     is to free it, CANCEL_PUBLISH
 *                                     files it, or passes its tick
 *     ends
 *                                                                 gets the entry
 *                                     files that; what was filed for an
 *                                     older use does not count
 */
START_TEST(what_was_filed_of_a_cancelled_use_does_not_count_for_the_next)
{
    struct actor canceller;
    hwt_timeout timeout = add_with(&silent, &fate, AT(10));
    if (_i % 2)
        drive(0);
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, "CANCEL_PUBLISH");
    drive(_i / 2 ? 11 : 0);
    ck_assert(actor_end(&canceller));
    hwt_timeout again = add_in_place_of(timeout, AT(20));
    drive(12);
    ck_assert_int_eq(hwt_timeout_state(again), HWT_PENDING);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_GONE);
    drive(20);
    ck_assert_uint_eq(beside.runs, 0);
    drive(21);
    ck_assert_uint_eq(beside.runs, 1);
    expect_fate(0, 0);
}
END_TEST

/* In the same tick as the use before, what was filed for both is there: it runs once. */
START_TEST(what_was_filed_of_two_uses_for_one_tick_counts_once)
{
    struct actor canceller;
    hwt_timeout timeout = add_with(&silent, &fate, AT(10));
    drive(0);
    act_cancel(&canceller, timeout);
    ck_assert(actor_end(&canceller));
    hwt_timeout again = add_in_place_of(timeout, AT(10));
    if (_i)
        drive(1);
    ck_assert_uint_eq(drive(10), 0);
    ck_assert_int_eq(hwt_timeout_state(again), HWT_PENDING);
    ck_assert_uint_eq(drive(11), 1);
    ck_assert_uint_eq(beside.runs, 1);
    expect_fate(0, 0);
}
END_TEST

/*
 *     canceller                       driver                      adder
 *     PENDING -> UNTOLD; is to say
 *     so, CANCEL_PUBLISH, APPEND
 *                                     looks at all: tells it,
 *                                     frees it
 *                                                                 gets the entry
 *     ends
 *                                     files that; the record of the
 *                                     cancel is of an older use
 */
START_TEST(a_record_of_a_cancel_does_not_end_the_next_use)
{
    struct actor canceller;
    hwt_timeout timeout = add_either(_i % 2, AT(10));
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, _i / 2 ? "APPEND" : "CANCEL_PUBLISH");
    atomic_store(&timer->shared.rescan_needed, true);
    drive(1);
    expect_fate(0, 1);
    hwt_timeout again = add_in_place_of(timeout, AT(20));
    ck_assert(actor_end(&canceller));
    drive(12);
    ck_assert_int_eq(hwt_timeout_state(again), HWT_PENDING);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_GONE);
    drive(20);
    ck_assert_uint_eq(beside.runs, 0);
    drive(21);
    ck_assert_uint_eq(beside.runs, 1);
    expect_fate(0, 1);
}
END_TEST

static void add_and_cancel(struct actor *actor)
{
    actor->timeout = add_with(&silent, &beside, AT(10));
    must(hwt_timeout_cancel(actor->timeout));
}

/*
 *     first adder                 second adder                driver
 *     adds, cancels
 *                                 gets the entry, adds
 *                                                             reads the second's records
 *                                                             before the first's
 *                                                             runs the second's
 */
START_TEST(records_of_an_older_use_that_are_read_later_change_nothing)
{
    struct actor first;
    actor_begin(&first, add_and_cancel);
    actor_end(&first);
    hwt_timeout again = add_in_place_of(first.timeout, AT(20));
    act_drive(&first, 0);
    actor_go_to(&first, "FILE");
    if (_i) {
        ck_assert(hwt_timeout_reschedule_at(again, AT(15)));
        ck_assert(hwt_timeout_reschedule_at(again, AT(20)));
    }
    actor_end(&first);
    drive(20);
    ck_assert_uint_eq(beside.runs, 0);
    drive(21);
    ck_assert_uint_eq(beside.runs, 1);
}
END_TEST

/* The last thousand of a quarter of a million, while the first is read: the cap on what is read at
 * a time lies between. */
START_TEST(those_cancelled_while_a_long_stream_is_read_never_run)
{
    enum { ADDED = 250000, LAST = 1000 };
    static hwt_timeout timeouts[ADDED];
    struct actor driver;
    for (int i = 0; i < ADDED; i++)
        timeouts[i] = add_unread(AT(10));
    act_drive(&driver, 0);
    actor_go_to(&driver, "FILE");
    for (int i = ADDED - LAST; i < ADDED; i++)
        must(hwt_timeout_cancel(timeouts[i]));
    actor_end(&driver);
    expect_fate(0, LAST);
    drive(11);
    expect_fate(ADDED - LAST, LAST);
}
END_TEST

/* ---- against the firing ---- */

/*
 *     driver                          canceller
 *     has seen that it is due, LOOK;
 *     or BEGIN
 *                                     PENDING -> UNTOLD
 *     the exchange to RUNNING fails
 */
START_TEST(a_cancel_between_finding_it_due_and_running_it_wins)
{
    struct actor driver;
    hwt_timeout timeout = add_filed(AT(10));
    act_drive(&driver, 11);
    actor_go_to(&driver, _i ? "BEGIN" : "LOOK");
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert_uint_eq((uint64_t)actor_end(&driver), 0);
    drive(12);
    expect_fate(0, 1);
}
END_TEST

/*
 *     driver                      canceller                   adder
 *     has seen that it is due,
 *     BEGIN
 *                                 PENDING -> CANCELLED, free
 *                                                             gets the entry, with the same
 *                                                             deadline
 *     the exchange to RUNNING
 *     fails: another generation
 */
START_TEST(the_next_use_does_not_run_in_the_place_of_the_last)
{
    struct actor driver;
    hwt_timeout timeout = add_with(&silent, &fate, AT(10));
    drive(0);
    act_drive(&driver, 11);
    actor_go_to(&driver, _i ? "BEGIN" : "LOOK");
    ck_assert(hwt_timeout_cancel(timeout));
    hwt_timeout again = add_in_place_of(timeout, AT(10));
    ck_assert_uint_eq((uint64_t)actor_end(&driver), 0);
    ck_assert_int_eq(hwt_timeout_state(again), HWT_PENDING);
    drive(12);
    ck_assert_uint_eq(beside.runs, 1);
    expect_fate(0, 0);
}
END_TEST

/*
 *     canceller                       driver
 *     has seen PENDING, CANCEL
 *                                     runs it: EXPIRED; or it runs yet
 *     its exchange fails: false
 */
START_TEST(a_cancel_that_saw_it_pending_does_not_win_once_it_ran)
{
    struct actor canceller, driver;
    hwt_timeout timeout = add_filed(AT(10));
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
 *     driver                          canceller
 *     RAN one, and has the others of
 *     the tick in hand
 *                                     cancels those: all true
 *     leaves them alone, and tells
 *     them
 */
START_TEST(those_cancelled_in_the_hand_of_who_fires_are_counted_once)
{
    enum { OTHERS = 10 };
    struct actor driver;
    hwt_timeout others[OTHERS];
    add_filed(AT(10));
    for (int i = 0; i < OTHERS; i++)
        others[i] = add_filed(AT(10));
    act_drive(&driver, 11);
    actor_go_to(&driver, "RAN");
    for (int i = 0; i < OTHERS; i++)
        ck_assert(hwt_timeout_cancel(others[i]));
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    ck_assert_uint_eq(timer->shared.reserved, OTHERS); /* until they are told */
    ck_assert_uint_eq((uint64_t)actor_end(&driver), 1);
    ck_assert_uint_eq(timer->shared.reserved, 0);
    expect_fate(1, OTHERS);
    ck_assert_uint_eq(stats_of(timer).cancelled, OTHERS);
}
END_TEST

/* ---- against another cancel, and the next use ---- */

START_TEST(of_two_cancels_that_both_saw_it_pending_one_is_true)
{
    struct actor first, second;
    hwt_timeout timeout = add_either(_i, AT(10));
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
    hwt_timeout timeout = add_filed(AT(10));
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, "CANCEL");
    drive(11);
    expect_fate(1, 0);
    hwt_timeout again = add_in_place_of(timeout, AT(20));
    ck_assert(!actor_end(&canceller));
    ck_assert_int_eq(hwt_timeout_state(again), HWT_PENDING);
}
END_TEST

/* ---- telling ---- */

/*
 *     driver                          another
 *     has seen UNTOLD, TELL
 *                                     cancels it once more, moves it: false
 *     UNTOLD -> CANCELLED, tells it:
 *     TELL_CANCELLED
 *                                     the same
 *     frees it
 */
START_TEST(what_is_being_told_is_over_for_all_others)
{
    struct actor driver;
    hwt_timeout timeout = add_filed(AT(10));
    ck_assert(hwt_timeout_cancel(timeout));
    act_drive(&driver, 1);
    actor_go_to(&driver, _i ? "TELL_CANCELLED" : "TELL");
    ck_assert(!hwt_timeout_cancel(timeout));
    ck_assert(!hwt_timeout_cancel_sync(timeout));
    ck_assert(!hwt_timeout_reschedule_at(timeout, AT(5)));
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_CANCELLED);
    actor_end(&driver);
    expect_fate(0, 1);
}
END_TEST

static void cancel_another(hwt_timeout timeout, void *arg)
{
    count_cancelled(timeout, &fate);
    must(hwt_timeout_cancel(*(hwt_timeout *)arg));
}

/* While the streams are read: what a `cancelled` says is read behind it. */
START_TEST(a_cancelled_callback_may_cancel)
{
    static const hwt_task chained = { count_run, cancel_another };
    static hwt_timeout last, middle, first;
    last = add_unread(AT(10));
    middle = add_with(&chained, &last, AT(10));
    first = add_with(&chained, &middle, AT(10));
    drive(0);
    ck_assert(hwt_timeout_cancel(first));
    drive(1);
    drive(2);
    expect_fate(0, 3);
}
END_TEST

/* ---- a cancel that waits, against the end of the run ---- */

/* Runs, and so does the driver, until it has run. */
static hwt_timeout begin_run(struct actor *driver)
{
    hwt_timeout timeout = add_filed(AT(10));
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
    hwt_timeout again = add_in_place_of(timeout, AT(20));
    act_drive(&driver, 21);
    actor_go_to(&driver, "RUN");
    ck_assert_int_eq(hwt_timeout_state(again), HWT_EXPIRED);
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

static shared_count waits_over;

static void cancel_and_note(struct actor *actor)
{
    actor->answer = hwt_timeout_cancel_sync(actor->timeout);
    waits_over++;
}

/* A wait that is over before its run is. */
START_TEST(who_waits_does_not_return_before_the_end_of_the_run)
{
    struct actor driver, canceller;
    canceller.timeout = begin_run(&driver);
    actor_begin(&canceller, cancel_and_note);
    actor_let_go(&canceller);
    give_others_a_chance();
    ck_assert_uint_eq(waits_over, 0);
    actor_end(&driver);
    ck_assert(!actor_end(&canceller));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: cancel");
    TCase *read = stage_case(suite, "read", stage_open, stage_close);
    tcase_add_test(read, what_is_cancelled_while_it_is_filed_is_told_in_the_same_pass);
    tcase_add_loop_test(read, what_is_cancelled_and_not_said_yet_is_left_alone, 0, 4);
    tcase_add_loop_test(read, what_was_filed_of_a_cancelled_use_does_not_count_for_the_next, 0, 4);
    tcase_add_loop_test(read, what_was_filed_of_two_uses_for_one_tick_counts_once, 0, 2);
    tcase_add_loop_test(read, a_record_of_a_cancel_does_not_end_the_next_use, 0, 4);
    tcase_add_loop_test(read, records_of_an_older_use_that_are_read_later_change_nothing, 0, 2);
    tcase_add_test(read, those_cancelled_while_a_long_stream_is_read_never_run);
    TCase *fire = stage_case(suite, "fire", stage_open, stage_close);
    tcase_add_loop_test(fire, a_cancel_between_finding_it_due_and_running_it_wins, 0, 2);
    tcase_add_loop_test(fire, the_next_use_does_not_run_in_the_place_of_the_last, 0, 2);
    tcase_add_loop_test(fire, a_cancel_that_saw_it_pending_does_not_win_once_it_ran, 0, 2);
    tcase_add_test(fire, those_cancelled_in_the_hand_of_who_fires_are_counted_once);
    tcase_add_loop_test(fire, of_two_cancels_that_both_saw_it_pending_one_is_true, 0, 2);
    tcase_add_test(fire, a_stale_cancel_does_not_cancel_the_next_use_of_the_entry);
    TCase *tell = stage_case(suite, "tell", stage_open, stage_close);
    tcase_add_loop_test(tell, what_is_being_told_is_over_for_all_others, 0, 2);
    tcase_add_test(tell, a_cancelled_callback_may_cancel);
    TCase *wait = stage_case(suite, "wait", stage_open, stage_close);
    tcase_add_test(wait, a_cancel_does_not_wait_for_a_run_that_ended_before_it_said_so);
    tcase_add_test(wait, a_cancel_does_not_wait_for_a_wake_up_that_was_before);
    tcase_add_test(wait, a_cancel_does_not_wait_for_the_run_of_the_next_use);
    tcase_add_test(wait, who_waits_is_woken_by_the_end_of_the_run);
    tcase_add_test(wait, who_waits_does_not_return_before_the_end_of_the_run);
    return run_suite(suite);
}
