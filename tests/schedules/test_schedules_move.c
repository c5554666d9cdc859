/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A move against the arming, the firing, the discarding, another move, and the entry's next use. */

#include "stage.h"

/* Stops on a mover's way while it has the deadline to itself. */
static const char *const moving[] = { "MOVE_WRITE", "MOVE_END" };

static void act_move_to(struct actor *mover, hwt_timeout timeout, uint64_t deadline,
                        const char *point)
{
    act_move(mover, timeout, deadline);
    actor_go_to(mover, point);
}

/* ---- against the arming ---- */

/*
 *     driver                          mover
 *     filed it for tick 20, ARM
 *                                     QUEUED: writes tick 10, sets MOVED
 *     the exchange to ARMED fails:
 *     files it for tick 10
 */
START_TEST(a_move_between_filing_and_arming_has_it_filed_anew)
{
    struct actor driver;
    hwt_timeout timeout = add_queued(AT(20));
    act_drive(&driver, 0);
    actor_go_to(&driver, _i % 2 ? "FILE" : "ARM");
    ck_assert(hwt_timeout_reschedule_at(timeout, _i / 2 ? AT(10) : AT(30)));
    actor_end(&driver);
    expect_run_in(_i / 2 ? 10 : 30);
}
END_TEST

/*
 *     mover                           driver
 *     QUEUED | MOVING, has written
 *     tick 10 or not
 *                                     files it, QUEUED -> ARMED
 *     finds it ARMED: it has to push
 *     it
 */
START_TEST(a_move_under_way_while_it_is_armed_ends_with_a_push)
{
    struct actor mover;
    hwt_timeout timeout = add_queued(AT(20));
    act_move_to(&mover, timeout, AT(10), moving[_i]);
    drive(0);
    ck_assert(actor_end(&mover));
    ck_assert_uint_le(told_in(), 11 * TICK);
    expect_run_in(10);
}
END_TEST

/* ---- against the firing ---- */

/*
 *     driver                          mover
 *     its tick 10 is over, BEGIN
 *                                     writes tick 30, sets MOVED
 *     the exchange to RUNNING fails
 */
START_TEST(a_move_between_finding_it_due_and_running_it_puts_it_off)
{
    struct actor driver;
    hwt_timeout timeout = add_armed(AT(10));
    act_drive(&driver, 11);
    actor_go_to(&driver, "BEGIN");
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(30)));
    actor_end(&driver);
    expect_run_in(30);
}
END_TEST

/*
 *     mover                           driver
 *     MOVING, has written tick 30
 *     or not
 *                                     tick 10 is over: must not run it
 *     ends
 */
START_TEST(what_is_being_moved_does_not_run)
{
    struct actor mover;
    hwt_timeout timeout = add_armed(AT(10));
    act_move_to(&mover, timeout, AT(30), moving[_i]);
    drive(11);
    drive(12);
    expect_fate(0, 0);
    ck_assert(actor_end(&mover));
    expect_run_in(30);
}
END_TEST

/*
 *     mover                           driver
 *     has seen ARMED, MOVE
 *                                     runs it
 *     its exchange fails: false
 */
START_TEST(a_move_of_what_has_run_meanwhile_is_false)
{
    struct actor mover;
    hwt_timeout timeout = add_armed(AT(10));
    act_move_to(&mover, timeout, AT(30), "MOVE");
    drive(11);
    ck_assert(!actor_end(&mover));
    drive(31);
    expect_fate(1, 0);
}
END_TEST

/*
 *     mover                           driver
 *     ARMED -> QUEUED, to tick 10,
 *     AGAIN_PUSH
 *                                     takes it from its old bucket: not ARMED,
 *                                     it is left in transit
 *     pushes it
 *                                     files it, runs it
 */
START_TEST(what_is_moved_earlier_and_not_pushed_yet_is_left_alone_when_its_old_tick_comes)
{
    struct actor mover;
    hwt_timeout timeout = add_armed(AT(20));
    act_move_to(&mover, timeout, AT(10), "AGAIN_PUSH");
    drive(21);
    ck_assert_uint_eq(timer->worker.transit, 1);
    expect_fate(0, 0);
    ck_assert(actor_end(&mover));
    drive(22);
    expect_fate(1, 0);
}
END_TEST

/*
 *     mover                       canceller                   driver
 *     ARMED -> QUEUED, AGAIN_PUSH
 *                                 QUEUED -> CANCELLED:
 *                                 pushes nothing
 *                                                             its tick comes: transit
 *     pushes it, pending
 *                                                             drains it: discards it
 */
START_TEST(what_is_cancelled_between_a_move_and_its_push_is_discarded_once)
{
    struct actor mover;
    hwt_timeout timeout = add_armed(AT(20));
    act_move_to(&mover, timeout, AT(10), "AGAIN_PUSH");
    ck_assert(hwt_timeout_cancel(timeout));
    if (_i)
        drive(21);
    expect_fate(0, 0);
    ck_assert(actor_end(&mover));
    drive(22);
    expect_fate(0, 1);
}
END_TEST

/* ---- against the discarding ---- */

/*
 *     mover                       canceller                   driver
 *     MOVING
 *                                 CANCELLED
 *                                                             finds it, cannot give the
 *                                                             entry back: ABANDONED
 *     is left with it, pushes it
 *                                                             discards it
 */
START_TEST(what_is_discarded_during_a_move_is_left_to_the_mover)
{
    struct actor mover;
    hwt_timeout timeout = _i / 2 ? add_armed(AT(20)) : add_queued(AT(20));
    act_move_to(&mover, timeout, AT(10), moving[_i % 2]);
    ck_assert(hwt_timeout_cancel(timeout));
    drive(1);
    ck_assert_uint_eq(timer->worker.transit, 1);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_CANCELLED);
    expect_fate(0, 0);
    expect_not_reused(timeout, AT(5));
    actor_end(&mover);
    drive(2);
    expect_fate(0, 1);
}
END_TEST

/*
 *     mover                           driver
 *     MOVING
 *                                     finds it CANCELLED, LEAVE_TO_MOVER
 *     ends: CANCELLED, pushes nothing
 *                                     the exchange to ABANDONED fails:
 *                                     discards it itself
 */
START_TEST(a_move_that_ends_before_it_was_left_with_it_leaves_it_to_who_discards)
{
    struct actor mover, driver;
    hwt_timeout timeout = add_queued(AT(20));
    act_move_to(&mover, timeout, AT(10), "MOVE_WRITE");
    ck_assert(hwt_timeout_cancel(timeout));
    act_drive(&driver, 1);
    actor_go_to(&driver, "LEAVE_TO_MOVER");
    actor_end(&mover);
    expect_fate(0, 0);
    actor_end(&driver);
    expect_fate(0, 1);
    ck_assert_uint_eq(timer->worker.transit, 0);
}
END_TEST

/*
 *     mover                       stop
 *     MOVING, then ABANDONED
 *                                 finds it nowhere, though it is in transit: STOP_AGAIN
 *     pushes it
 *                                 tells that it was cancelled
 */
START_TEST(stop_waits_for_what_was_left_to_a_mover)
{
    struct actor mover, stopper;
    hwt_timeout timeout = add_queued(AT(20));
    act_move_to(&mover, timeout, AT(10), "MOVE_WRITE");
    ck_assert(hwt_timeout_cancel(timeout));
    drive(1);
    act_stop(&stopper, timer);
    for (int i = 0; i < 3; i++)
        actor_go_to(&stopper, "STOP_AGAIN");
    expect_fate(0, 0);
    actor_end(&mover);
    ck_assert_int_eq(actor_end(&stopper), 0);
    expect_fate(0, 1);
    room_close(&room);
}
END_TEST

/* ---- against another move, and the next use ---- */

/*
 *     first mover                     second mover
 *     MOVING
 *                                     true, as if it had come just before: it
 *                                     does not wait
 *     ends
 */
START_TEST(a_move_does_not_wait_for_another)
{
    struct actor mover;
    hwt_timeout timeout = _i / 2 ? add_armed(AT(20)) : add_queued(AT(20));
    act_move_to(&mover, timeout, AT(30), moving[_i % 2]);
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(10)));
    ck_assert(actor_end(&mover));
    expect_run_in(30);
}
END_TEST

static void expect_untouched(hwt_timeout again)
{
    ck_assert_uint_eq(hwt_timeout_remaining(again), AT(40) - atomic_load(&room.now));
    drive(40);
    ck_assert_int_eq(hwt_timeout_state(again), HWT_PENDING);
    drive(41);
    ck_assert_int_eq(hwt_timeout_state(again), HWT_EXPIRED);
}

/*
 *     mover                       canceller                   driver, or an adder
 *     has seen it pending, MOVE
 *                                 CANCELLED
 *                                                             drains or salvages it, and
 *                                                             it is used again
 *     its exchange fails: another
 *     generation, false
 */
START_TEST(a_stale_move_does_not_move_the_next_use_of_the_entry)
{
    struct actor mover;
    hwt_timeout timeout = add_with(&silent, &fate, AT(20));
    act_move_to(&mover, timeout, AT(30), "MOVE");
    ck_assert(hwt_timeout_cancel(timeout));
    if (_i)
        drive(0);
    hwt_timeout again = add_until_reused(timeout, AT(40));
    ck_assert(!actor_end(&mover));
    expect_untouched(again);
}
END_TEST

/*
 *     mover                       canceller                   driver, adders
 *     MOVING
 *                                 CANCELLED, it is in the
 *                                 queue
 *                                                             drain, salvage: never
 *                                                             use it
 *     writes, ends
 *                                                             may use it
 */
START_TEST(an_entry_is_not_used_again_while_it_is_being_moved)
{
    struct actor mover;
    hwt_timeout timeout = add_with(&silent, &fate, AT(20));
    act_move_to(&mover, timeout, AT(30), moving[_i % 2]);
    ck_assert(hwt_timeout_cancel(timeout));
    if (_i / 2)
        drive(0);
    expect_not_reused(timeout, AT(5));
    actor_end(&mover);
    drive(6);
    expect_untouched(add_until_reused(timeout, AT(40)));
}
END_TEST

/*
 *     asker                           driver, adder
 *     it is pending, and its deadline
 *     is that of tick 20, ASK_AGAIN
 *                                     runs it, and it is used again
 *     another generation: 0
 */
START_TEST(who_asks_for_the_rest_of_its_time_is_not_told_that_of_the_next_use)
{
    struct actor asker;
    hwt_timeout timeout = add_armed(AT(20));
    act_ask(&asker, timeout);
    actor_go_to(&asker, "ASK_AGAIN");
    drive(21);
    hwt_timeout again = add_until_reused(timeout, AT(40));
    ck_assert_int_eq(actor_end(&asker), 0);
    expect_untouched(again);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: move");
    TCase *arm = room_case(suite, "arm", stage_open, stage_close);
    tcase_add_loop_test(arm, a_move_between_filing_and_arming_has_it_filed_anew, 0, 4);
    tcase_add_loop_test(arm, a_move_under_way_while_it_is_armed_ends_with_a_push, 0, 2);
    TCase *fire = room_case(suite, "fire", stage_open, stage_close);
    tcase_add_test(fire, a_move_between_finding_it_due_and_running_it_puts_it_off);
    tcase_add_loop_test(fire, what_is_being_moved_does_not_run, 0, 2);
    tcase_add_test(fire, a_move_of_what_has_run_meanwhile_is_false);
    tcase_add_test(fire,
                   what_is_moved_earlier_and_not_pushed_yet_is_left_alone_when_its_old_tick_comes);
    tcase_add_loop_test(fire, what_is_cancelled_between_a_move_and_its_push_is_discarded_once, 0,
                        2);
    TCase *discard = room_case(suite, "discard", stage_open, stage_close);
    tcase_add_loop_test(discard, what_is_discarded_during_a_move_is_left_to_the_mover, 0, 4);
    tcase_add_test(discard, a_move_that_ends_before_it_was_left_with_it_leaves_it_to_who_discards);
    TCase *stop = room_case(suite, "stop", stage_open, NULL);
    tcase_add_test(stop, stop_waits_for_what_was_left_to_a_mover);
    TCase *use = room_case(suite, "use", stage_open, stage_close);
    tcase_add_loop_test(use, a_move_does_not_wait_for_another, 0, 4);
    tcase_add_loop_test(use, a_stale_move_does_not_move_the_next_use_of_the_entry, 0, 2);
    tcase_add_loop_test(use, an_entry_is_not_used_again_while_it_is_being_moved, 0, 4);
    tcase_add_test(use, who_asks_for_the_rest_of_its_time_is_not_told_that_of_the_next_use);
    return run_suite(suite);
}
