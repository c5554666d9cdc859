/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A move against the reading of records, the firing, a cancel, another move, and the entry's next
 * use. */

#include "stage.h"

static void act_move_to(struct actor *mover, hwt_timeout timeout, uint64_t deadline,
                        const char *point)
{
    act_move(mover, timeout, deadline);
    actor_go_to(mover, point);
}

/* ---- against the reading of records ---- */

/*
 *     driver                          mover
 *     is about to file it for
 *     tick 20, FILE
 *                                     PENDING: tick 10, and says so; or tick 30
 *     files it; reads the record,
 *     files it anew; or finds it not
 *     due in tick 20
 */
START_TEST(what_is_moved_while_it_is_filed_runs_when_it_was_moved_to)
{
    struct actor driver;
    uint64_t to = _i ? 10 : 30;
    hwt_timeout timeout = add_unread(AT(20));
    act_drive(&driver, 0);
    actor_go_to(&driver, "FILE");
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(to)));
    actor_end(&driver);
    expect_run_in(to);
}
END_TEST

/*
 *     mover                           driver
 *     PENDING: tick 10; MOVE_PUBLISH, or
 *     has said so: APPENDED
 *                                     parks for tick 20
 *     ends
 *                                     is told of tick 10
 */
START_TEST(a_move_that_was_not_said_yet_is_said_in_time)
{
    static const char *const saying[] = { "MOVE_PUBLISH", "APPEND", "APPENDED", "LIST",
                                          "PUSH",         "PUSHED", "PUBLISHED" };
    struct actor mover;
    hwt_timeout timeout = add_filed(AT(20));
    act_move_to(&mover, timeout, AT(10), saying[_i]);
    drive(1);
    ck_assert(actor_end(&mover));
    ck_assert_uint_le(told_in(), 11 * TICK);
    expect_run_in(10);
}
END_TEST

/*
 *     first mover                     second mover
 *     PENDING: tick 10, MOVE_PUBLISH
 *                                     tick 15, says nothing
 *     says tick 10
 *                                     driver: finds it not due in tick 10
 */
START_TEST(what_is_moved_away_before_it_is_said_runs_when_it_was_moved_to)
{
    struct actor mover;
    uint64_t to = _i ? 15 : 5;
    hwt_timeout timeout = add_filed(AT(20));
    act_move_to(&mover, timeout, AT(10), "MOVE_PUBLISH");
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(to)));
    drive(1);
    ck_assert(actor_end(&mover));
    expect_run_in(to);
}
END_TEST

/*
 *     first mover                     second mover
 *     ages away, MOVE_PUBLISH
 *                                     not so far, or a little less: says so
 *                                     driver: files it
 *     says what it moved it to
 *                                     driver: leaves it where it is filed
 */
START_TEST(of_two_far_moves_said_in_the_wrong_order_the_earlier_one_holds)
{
    enum { AGE = 1 << 29 };
    struct actor mover;
    uint64_t to = UINT64_C(6) * AGE + 5, before = _i ? to + 1 : to + UINT64_C(2) * AGE;
    hwt_timeout timeout = add_filed(HWT_NEVER);
    act_move_to(&mover, timeout, AT(before), "MOVE_PUBLISH");
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(to)));
    drive(1);
    ck_assert(actor_end(&mover));
    drive(2);
    expect_run_in(to);
}
END_TEST

/* ---- against the firing ---- */

/*
 *     driver                          mover
 *     its tick 10 is over, LOOK;
 *     or BEGIN
 *                                     writes tick 30
 *     the exchange to RUNNING fails
 *     files it anew
 */
START_TEST(a_move_between_finding_it_due_and_running_it_puts_it_off)
{
    struct actor driver;
    hwt_timeout timeout = add_filed(AT(10));
    act_drive(&driver, 11);
    actor_go_to(&driver, _i ? "BEGIN" : "LOOK");
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(30)));
    actor_end(&driver);
    expect_run_in(30);
}
END_TEST

/*
 *     driver                          mover
 *     its tick 20 has come, LOOK; it
 *     is due in tick 30 by now: is
 *     about to file it for that
 *                                     writes tick 25, or 10: says so
 *     reads that, files it anew
 */
START_TEST(what_is_moved_nearer_while_it_is_filed_again_runs_when_it_was_moved_to)
{
    struct actor driver;
    hwt_timeout timeout = add_filed(AT(20));
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(30)));
    act_drive(&driver, 21);
    actor_go_to(&driver, "LOOK");
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(_i ? 10 : 25)));
    actor_end(&driver);
    if (_i) {
        drive(22);
        expect_fate(1, 0);
    } else {
        ck_assert_uint_le(told_in(), 5 * TICK);
        expect_run_in(25);
    }
}
END_TEST

/*
 *     mover                           driver
 *     has seen PENDING, MOVE
 *                                     runs it; or it runs yet
 *     its exchange fails: false
 */
START_TEST(a_move_of_what_has_run_meanwhile_is_false)
{
    struct actor mover, driver;
    hwt_timeout timeout = add_filed(AT(10));
    act_move_to(&mover, timeout, AT(30), "MOVE");
    act_drive(&driver, 11);
    actor_go_to(&driver, _i ? "RAN" : "RUN");
    if (_i)
        actor_end(&driver);
    ck_assert(!actor_end(&mover));
    if (!_i)
        actor_end(&driver);
    drive(31);
    expect_fate(1, 0);
}
END_TEST

/*
 *     mover                           driver
 *     PENDING: tick 10, MOVE_PUBLISH
 *                                     its old tick 20 has come: runs it, for it is
 *                                     due
 *     says so: nobody minds
 */
START_TEST(what_is_moved_earlier_and_not_said_yet_runs_when_its_old_tick_comes)
{
    struct actor mover;
    hwt_timeout timeout = add_filed(AT(20));
    act_move_to(&mover, timeout, AT(10), "MOVE_PUBLISH");
    drive(21);
    expect_fate(1, 0);
    ck_assert(actor_end(&mover));
    drive(22);
    expect_fate(1, 0);
}
END_TEST

/*
 *     mover                       canceller                   driver
 *     PENDING: tick 10, MOVE_PUBLISH;
 *     or PUBLISHED
 *                                 PENDING -> UNTOLD, says so
 *                                                             tells it
 *     says that it is due
 *                                                             it is not
 */
START_TEST(what_is_cancelled_between_a_move_and_its_record_is_told_once)
{
    struct actor mover;
    hwt_timeout timeout = add_filed(AT(20));
    act_move_to(&mover, timeout, AT(10), _i % 2 ? "MOVE_PUBLISH" : "PUBLISHED");
    ck_assert(hwt_timeout_cancel(timeout));
    if (_i / 2)
        drive(1);
    ck_assert(actor_end(&mover));
    drive(22);
    expect_fate(0, 1);
}
END_TEST

/* The same, and the entry is used again before the record is there, which is of the old use. */
START_TEST(a_record_of_a_move_does_not_pull_the_next_use_nearer)
{
    struct actor mover;
    hwt_timeout timeout = add_with(&silent, &fate, AT(20));
    drive(0);
    act_move_to(&mover, timeout, AT(10), "MOVE_PUBLISH");
    ck_assert(hwt_timeout_cancel(timeout));
    hwt_timeout again = add_in_place_of(timeout, AT(40));
    if (_i)
        drive(1);
    ck_assert(actor_end(&mover));
    drive(40);
    ck_assert_int_eq(hwt_timeout_state(again), HWT_PENDING);
    drive(41);
    ck_assert_uint_eq(beside.runs, 1);
    expect_fate(0, 0);
}
END_TEST

/* ---- against another move, and the next use ---- */

/*
 *     first mover                     second mover
 *     has seen tick 20, MOVE
 *                                     tick 10, or 5 times there and back
 *     its exchange fails, or not: it
 *     comes later, so tick 30 holds
 */
START_TEST(of_two_moves_the_later_one_holds)
{
    struct actor mover;
    hwt_timeout timeout = add_either(_i / 2, AT(20));
    act_move_to(&mover, timeout, AT(30), "MOVE");
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(10)));
    if (_i % 2)
        ck_assert(hwt_timeout_reschedule_at(timeout, AT(20)));
    ck_assert(actor_end(&mover));
    expect_run_in(30);
}
END_TEST

/*
 *     mover                           canceller
 *     has seen PENDING, MOVE
 *                                     UNTOLD
 *     its exchange fails: false
 */
START_TEST(a_move_of_what_was_cancelled_meanwhile_is_false)
{
    struct actor mover;
    hwt_timeout timeout = add_either(_i, AT(20));
    act_move_to(&mover, timeout, AT(30), "MOVE");
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert(!actor_end(&mover));
    drive(1);
    expect_fate(0, 1);
}
END_TEST

static void expect_untouched(hwt_timeout again)
{
    ck_assert_uint_eq(hwt_timeout_remaining(again), AT(40) - atomic_load(&now_is));
    drive(40);
    ck_assert_int_eq(hwt_timeout_state(again), HWT_PENDING);
    drive(41);
    ck_assert_int_eq(hwt_timeout_state(again), HWT_EXPIRED);
}

/*
 *     mover                       canceller                   adder
 *     has seen it pending, MOVE
 *                                 CANCELLED
 *                                                             gets the entry, with the same
 *                                                             deadline
 *     its exchange fails: another
 *     generation, false
 */
START_TEST(a_stale_move_does_not_move_the_next_use_of_the_entry)
{
    struct actor mover;
    hwt_timeout timeout = add_with(&silent, &fate, AT(40));
    act_move_to(&mover, timeout, AT(30), "MOVE");
    ck_assert(hwt_timeout_cancel(timeout));
    if (_i)
        drive(0);
    hwt_timeout again = add_in_place_of(timeout, AT(40));
    ck_assert(!actor_end(&mover));
    expect_untouched(again);
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
    hwt_timeout timeout = add_filed(AT(20));
    act_ask(&asker, timeout);
    actor_go_to(&asker, "ASK_AGAIN");
    drive(21);
    hwt_timeout again = add_in_place_of(timeout, AT(40));
    ck_assert_int_eq(actor_end(&asker), 0);
    expect_untouched(again);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: move");
    TCase *read = stage_case(suite, "read", stage_open, stage_close);
    tcase_add_loop_test(read, what_is_moved_while_it_is_filed_runs_when_it_was_moved_to, 0, 2);
    tcase_add_loop_test(read, a_move_that_was_not_said_yet_is_said_in_time, 0, 7);
    tcase_add_loop_test(read, what_is_moved_away_before_it_is_said_runs_when_it_was_moved_to, 0, 2);
    tcase_add_loop_test(read, of_two_far_moves_said_in_the_wrong_order_the_earlier_one_holds, 0, 2);
    TCase *fire = stage_case(suite, "fire", stage_open, stage_close);
    tcase_add_loop_test(fire, a_move_between_finding_it_due_and_running_it_puts_it_off, 0, 2);
    tcase_add_loop_test(
        fire, what_is_moved_nearer_while_it_is_filed_again_runs_when_it_was_moved_to, 0, 2);
    tcase_add_loop_test(fire, a_move_of_what_has_run_meanwhile_is_false, 0, 2);
    tcase_add_test(fire, what_is_moved_earlier_and_not_said_yet_runs_when_its_old_tick_comes);
    tcase_add_loop_test(fire, what_is_cancelled_between_a_move_and_its_record_is_told_once, 0, 4);
    tcase_add_loop_test(fire, a_record_of_a_move_does_not_pull_the_next_use_nearer, 0, 2);
    TCase *use = stage_case(suite, "use", stage_open, stage_close);
    tcase_add_loop_test(use, of_two_moves_the_later_one_holds, 0, 4);
    tcase_add_loop_test(use, a_move_of_what_was_cancelled_meanwhile_is_false, 0, 2);
    tcase_add_loop_test(use, a_stale_move_does_not_move_the_next_use_of_the_entry, 0, 2);
    tcase_add_test(use, who_asks_for_the_rest_of_its_time_is_not_told_that_of_the_next_use);
    return run_suite(suite);
}
