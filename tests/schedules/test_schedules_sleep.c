/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A loop that is on its way into a sleep, against adding, cancelling, moving and stopping: no wake-up is lost
 * between choosing to sleep and sleeping. The letters and numbers are those of gate.h. */

#include "stage.h"

#define MINUTE(n) AT(HWT_MIN(n) / TICK)

/* Where who drives may be on its way into a sleep. */
static const char *const parking[] = { "PARK_A",     "PARK_B", "DISMISS", "PARK_C",
                                       "PARK_CHECK", "SET_FD", "LEAVE" };

enum { PARKING = sizeof(parking) / sizeof(*parking) };

/* It is to sleep for half an hour: what is due later does not wake it, but is there to be read. */
static void add_beside(void)
{
    add_with(&silent, &beside, MINUTE(30));
    drive(0);
    drive(1); /* not only for a tick, as after a cancel */
    add_with(&silent, &beside, MINUTE(40));
    ck_assert_uint_gt(told_in(), HWT_MIN(20));
}

/* Who watches the descriptor comes in time for what is due in ten minutes, as if it were asleep
 * already when that was said. */
static void expect_told_in_time(void)
{
    ck_assert_uint_le(told_in(), HWT_MIN(10) + TICK);
    drive(2);
    ck_assert_uint_le(told_in(), HWT_MIN(10) + TICK);
    drive(HWT_MIN(10) / TICK + 1);
    expect_fate(1, 0);
}

/* ---- between choosing to sleep and sleeping ---- */

/*
 *     driver                          another
 *     on its way into a sleep of half
 *     an hour: A to D
 *                                     adds what is due in ten minutes, or moves
 *                                     it there
 *     sleeps ten minutes at most
 */
START_TEST(what_is_added_before_the_sleep_ends_it_in_time)
{
    struct actor driver;
    add_beside();
    act_drive(&driver, 1);
    actor_go_to(&driver, parking[_i]);
    add_unread(MINUTE(10));
    actor_end(&driver);
    expect_told_in_time();
}
END_TEST

START_TEST(what_is_moved_earlier_before_the_sleep_ends_it_in_time)
{
    struct actor driver;
    hwt_timeout timeout = add_unread(MINUTE(60));
    if (_i / PARKING)
        add_beside();
    else
        ck_assert_uint_eq(drive(0), 0);
    add_with(&silent, &beside, MINUTE(70));
    act_drive(&driver, 1);
    actor_go_to(&driver, parking[_i % PARKING]);
    must(hwt_timeout_reschedule_at(timeout, MINUTE(10)));
    actor_end(&driver);
    expect_told_in_time();
}
END_TEST

static void expect_told_within_a_tick(void)
{
    if (fate.cancelled == 0)
        ck_assert_uint_le(told_in(), TICK);
    drive(2);
    expect_fate(0, 1);
}

/* Its memory is due back within a tick. */
START_TEST(what_is_cancelled_before_the_sleep_ends_it_within_a_tick)
{
    struct actor driver;
    hwt_timeout timeout = add_unread(MINUTE(60));
    if (_i / PARKING)
        add_beside();
    else
        ck_assert_uint_eq(drive(0), 0);
    add_with(&silent, &beside, MINUTE(70));
    act_drive(&driver, 1);
    actor_go_to(&driver, parking[_i % PARKING]);
    ck_assert(hwt_timeout_cancel(timeout));
    actor_end(&driver);
    expect_told_within_a_tick();
}
END_TEST

/*
 *     adder                           driver
 *     is to push, to look at the
 *     gate (3), to mark it (4), to set
 *     the descriptor (5), has done so
 *                                     parks; or is on its way, A to D, and goes
 *                                     on when the adder has ended, or before
 *     ends
 */
START_TEST(an_adder_that_is_late_at_any_step_ends_the_sleep)
{
    static const char *const adding[] = { "ADD_PUBLISH", "APPEND", "APPENDED", "LIST",     "PUSH",
                                          "PUBLISHED",   "WAKE_3", "WAKE_4",   "WAKE_DONE" };
    for (int i = 0; i < 9; i++) {
        struct actor adder, driver;
        memset(&fate, 0, sizeof(fate));
        stage_open();
        add_beside();
        act_add(&adder, timer, &counting, &fate, MINUTE(10));
        actor_go_to(&adder, adding[i]);
        act_drive(&driver, 1);
        if (_i / 2 < PARKING)
            actor_go_to(&driver, parking[_i / 2]);
        if (_i % 2)
            actor_end(&driver);
        ck_assert_int_eq(actor_end(&adder), 0);
        if (_i % 2 == 0)
            actor_end(&driver);
        expect_told_in_time();
        stage_close();
    }
}
END_TEST

/*
 *     driver                          another
 *     has told what was cancelled,
 *     and is on its way into a sleep
 *     for a tick: PARK to LEAVE
 *                                     cancels thousands
 *     has read them, or comes again
 *     at once
 */
START_TEST(a_backlog_before_a_short_sleep_ends_it)
{
    static const char *const points[] = { "PARK", "PARK_READ", "PARK_CHECK", "SET_FD", "LEAVE" };
    enum { MANY = 2 * HWT_BACKLOG * HWT_CHUNK_RECORDS };
    struct actor driver;
    ck_assert(hwt_timeout_cancel(add_unread(MINUTE(60))));
    act_drive(&driver, 1);
    actor_go_to(&driver, points[_i]);
    for (int i = 0; i < MANY; i++)
        must(hwt_timeout_cancel(add_with(&counting, &beside, MINUTE(60))));
    actor_end(&driver);
    expect_fate(0, 1);
    if (beside.cancelled < MANY)
        ck_assert_uint_eq(told_in(), 0);
    drive(1);
    ck_assert_uint_eq(beside.cancelled, MANY);
}
END_TEST

/*
 *     canceller                       driver
 *     is to cancel, to push, to look
 *     at the gate (3), to mark it (4),
 *     to set the descriptor (5)
 *                                     parks for half an hour
 *     ends
 *                                     tells it within a tick, if it has not yet
 */
START_TEST(a_canceller_that_is_late_at_any_step_ends_the_sleep)
{
    static const char *const cancelling[] = { "CANCEL",    "CANCEL_PUBLISH", "APPEND", "LIST",
                                              "PUBLISHED", "WAKE_3",         "WAKE_4" };
    struct actor canceller;
    hwt_timeout timeout = add_unread(MINUTE(60));
    add_beside();
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, cancelling[_i]);
    drive(1);
    drive(1);
    ck_assert(actor_end(&canceller));
    expect_told_within_a_tick();
}
END_TEST

/* The same as with the adder, with the driver on its way first: the adder comes to a gate that is
 * being closed. */
START_TEST(a_driver_that_is_late_at_any_step_does_not_sleep_on)
{
    static const char *const adding[] = { "ADD_PUBLISH", "APPEND", "APPENDED" };
    for (int i = 0; i < 3; i++) {
        struct actor adder, driver;
        memset(&fate, 0, sizeof(fate));
        stage_open();
        add_beside();
        act_drive(&driver, 1);
        actor_go_to(&driver, parking[_i / 2]);
        act_add(&adder, timer, &counting, &fate, MINUTE(10));
        actor_go_to(&adder, adding[i]);
        if (_i / 2 > 0) /* the gate is closed */
            actor_go_to(&adder, _i % 2 ? "WAKE_3" : "WAKE_4");
        actor_end(&driver);
        ck_assert_int_eq(actor_end(&adder), 0);
        expect_told_in_time();
        stage_close();
    }
}
END_TEST

/*
 *     adder                           driver
 *     has called or not, has not set
 *     the descriptor, or has: WAKE_3,
 *     WAKE_4, WAKE_DONE
 *                                     reads it; parks once more, for what is due
 *                                     in ten minutes
 *     goes on
 *                                     comes for nothing, or when it is due; and
 *                                     is woken by the next one in any case
 */
START_TEST(who_wakes_what_has_parked_again_takes_no_wake_up_away)
{
    static const char *const waking[] = { "WAKE_3", "WAKE_4", "WAKE_DONE" };
    struct actor adder, driver;
    add_beside();
    act_add(&adder, timer, &counting, &fate, MINUTE(10));
    actor_go_to(&adder, waking[_i % 3]);
    act_drive(&driver, 1);
    if (_i / 3 < PARKING)
        actor_go_to(&driver, parking[_i / 3]);
    else
        actor_end(&driver);
    ck_assert_int_eq(actor_end(&adder), 0);
    hwt_timeout soon = add_with(&silent, &beside, MINUTE(5));
    if (_i / 3 < PARKING)
        actor_end(&driver);
    ck_assert_uint_le(told_in(), HWT_MIN(5) + TICK);
    drive(2);
    ck_assert_uint_le(told_in(), HWT_MIN(5) + TICK);
    ck_assert(hwt_timeout_cancel(soon));
    drive(3);
    expect_told_in_time();
}
END_TEST

/*
 *     adder                           driver
 *     is to set the descriptor:
 *     WAKE_4
 *                                     parks for ten minutes
 *     has set it to now: WAKE_QUIET;
 *     or has ended
 *                                     comes for nothing; it is not readable any more
 *     goes on
 *                                     comes when it is due
 */
START_TEST(who_wakes_slowly_does_not_keep_the_descriptor_readable)
{
    struct actor adder;
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER; /* by the system's clock: so it is not set anew each time */
    timer = create(&options);
    must(hwt_timer_fd(timer) >= 0);
    must(hwt_timer_new_timeout(timer, &silent, &beside, HWT_MIN(30), NULL) == 0);
    ck_assert_uint_eq(hwt_timer_dispatch(timer), 0);
    act_add(&adder, timer, &counting, &fate, hwt_timer_now(timer) + HWT_MIN(10));
    actor_go_to(&adder, "WAKE_4");
    ck_assert_uint_eq(hwt_timer_dispatch(timer), 0);
    if (_i == 0)
        actor_go_to(&adder, "WAKE_QUIET");
    else
        ck_assert_int_eq(actor_end(&adder), 0);
    ck_assert_uint_eq(told_in(), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(hwt_timer_dispatch(timer), 0);
        ck_assert_uint_gt(told_in(), HWT_MIN(9));
        ck_assert_uint_lt(told_in(), HWT_MIN(11));
    }
    if (_i == 0)
        ck_assert_int_eq(actor_end(&adder), 0);
    ck_assert_uint_eq(hwt_timer_dispatch(timer), 0);
    ck_assert_uint_gt(told_in(), HWT_MIN(9));
    hwt_timer_destroy(timer);
}
END_TEST

/*
 *     adder                           another                     loop
 *                                                                 waits for half an hour
 *     adds what is due before,
 *     and stands half-way
 *                                     adds what is due earlier
 *                                                                 comes at once
 */
START_TEST(who_stands_half_way_does_not_keep_the_loop_from_the_next_one)
{
    static const char *const waking[] = { "WAKE_3", "WAKE_4", "WAKE_QUIET", "WAKE_DONE" };
    struct actor adder;
    add_beside();
    act_add(&adder, timer, &counting, &fate, MINUTE(10));
    actor_go_to(&adder, waking[_i % 4]);
    if (_i / 4) /* it parks again meanwhile */
        drive(1);
    add_with(&silent, &beside, MINUTE(5));
    ck_assert_uint_eq(told_in(), 0);
    drive(2);
    ck_assert_uint_le(told_in(), HWT_MIN(5) + TICK);
    ck_assert_int_eq(actor_end(&adder), 0);
    drive(HWT_MIN(5) / TICK + 1);
    expect_told_in_time();
}
END_TEST

/*
 *     adder                           stop
 *     WAKE_3, WAKE_4, WAKE_QUIET, or
 *     WAKE_DONE
 *                                     ends; or QUIET
 *     sets the descriptor to now;
 *     sees that it is to be quiet
 *                                     ends
 */
START_TEST(who_wakes_late_does_not_make_a_stopped_timers_descriptor_readable)
{
    static const char *const waking[] = { "WAKE_3", "WAKE_4", "WAKE_QUIET", "WAKE_DONE" };
    struct actor adder, stopper;
    add_beside();
    act_add(&adder, timer, &counting, &fate, MINUTE(10));
    actor_go_to(&adder, waking[_i % 4]);
    act_stop(&stopper, timer);
    if (_i / 4)
        actor_go_to(&stopper, "QUIET");
    else
        ck_assert_int_eq(actor_end(&stopper), 3);
    (void)actor_end(&adder);
    if (_i / 4)
        ck_assert_int_eq(actor_end(&stopper), 3);
    ck_assert(!readable(atomic_load(&timer->shared.gate.fd), 20));
    ck_assert_uint_eq(fate.visited, 1);
    stage_close_stopped();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: sleep");
    TCase *park = stage_case(suite, "park", stage_open, stage_close);
    tcase_add_loop_test(park, what_is_added_before_the_sleep_ends_it_in_time, 0, PARKING);
    tcase_add_loop_test(park, what_is_moved_earlier_before_the_sleep_ends_it_in_time, 0,
                        2 * PARKING);
    tcase_add_loop_test(park, what_is_cancelled_before_the_sleep_ends_it_within_a_tick, 0,
                        2 * PARKING);
    tcase_add_loop_test(park, a_canceller_that_is_late_at_any_step_ends_the_sleep, 0, 7);
    tcase_add_loop_test(park, who_wakes_what_has_parked_again_takes_no_wake_up_away, 0,
                        3 * (PARKING + 1));
    tcase_add_loop_test(park, who_stands_half_way_does_not_keep_the_loop_from_the_next_one, 0, 8);
    tcase_add_loop_test(park, a_backlog_before_a_short_sleep_ends_it, 0, 5);
    TCase *stopped = stage_case(suite, "stopped", stage_open, NULL);
    tcase_add_loop_test(stopped, who_wakes_late_does_not_make_a_stopped_timers_descriptor_readable,
                        0, 8);
    TCase *late = stage_case(suite, "late", NULL, NULL);
    tcase_add_loop_test(late, an_adder_that_is_late_at_any_step_ends_the_sleep, 0,
                        2 * (PARKING + 1));
    tcase_add_loop_test(late, a_driver_that_is_late_at_any_step_does_not_sleep_on, 0, 2 * PARKING);
    tcase_add_loop_test(late, who_wakes_slowly_does_not_keep_the_descriptor_readable, 0, 2);
    return run_suite(suite);
}
