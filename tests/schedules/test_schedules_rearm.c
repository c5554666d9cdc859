/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A timeout that re-arms itself against cancel and move. */

#include "stage.h"

/* ---- re-armed by its own task ---- */

static struct {
    uint64_t next; /* where its first run re-arms it for */
    bool answer;
} plot;

static void rearm_once(hwt_timeout timeout, void *arg)
{
    count_run(timeout, arg);
    if (fate.runs == 1)
        plot.answer = hwt_timeout_reschedule_at(timeout, plot.next);
}

static const hwt_task rearming = { rearm_once, count_cancelled };

/* It is due at tick 10, and re-arms itself for tick 30; the driver stands at the point. */
static hwt_timeout act_rearm(struct actor *driver, const char *point)
{
    plot.next = AT(30);
    hwt_timeout timeout = add_with(&rearming, &fate, AT(10));
    drive(0);
    act_drive(driver, 11);
    actor_go_to(driver, point);
    return timeout;
}

/*
 *     driver                          canceller
 *     in its task, has not seen
 *     BARRED: REARM
 *                                     sets BARRED: false, it is not pending
 *     its exchange fails: false,
 *     this run is the end
 */
START_TEST(what_is_cancelled_while_it_rearms_itself_is_not_rearmed)
{
    struct actor driver;
    hwt_timeout timeout = act_rearm(&driver, "REARM");
    ck_assert_uint_eq(timer->shared.reserved, 1);
    ck_assert(!hwt_timeout_cancel(timeout));
    actor_end(&driver);
    ck_assert(!plot.answer);
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    ck_assert_uint_eq(timer->shared.reserved, 0);
    drive(31);
    expect_fate(1, 0);
}
END_TEST

/*
 *     canceller                       driver
 *     has seen RUNNING, BAR
 *                                     its task re-arms it: RAN
 *     its exchange fails: sees that
 *     it is pending: true
 */
START_TEST(a_cancel_that_saw_it_not_rearmed_yet_sees_that_it_is)
{
    struct actor driver, canceller;
    act_cancel(&canceller, act_rearm(&driver, "RUN"));
    actor_go_to(&canceller, "BAR");
    actor_go_to(&driver, "RAN");
    ck_assert(actor_end(&canceller));
    actor_end(&driver);
    ck_assert(plot.answer);
    expect_fate(1, 1);
}
END_TEST

/*
 *     driver                          canceller
 *     has re-armed it: RAN, FINISH
 *                                     sets BARRED: true
 *     CANCELLED, tells it
 */
START_TEST(what_rearmed_itself_and_is_cancelled_before_it_ends_is_told_once)
{
    struct actor driver;
    hwt_timeout timeout = act_rearm(&driver, _i ? "FINISH" : "RAN");
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert(!hwt_timeout_cancel(timeout));
    ck_assert(!hwt_timeout_reschedule_at(timeout, AT(20)));
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    actor_end(&driver);
    expect_fate(1, 1);
    drive(31);
    expect_fate(1, 1);
}
END_TEST

/*
 *     canceller                       driver
 *     has seen RUNNING and REARMED,
 *     BAR
 *                                     PENDING
 *     its exchange fails: what it
 *     sees now says what to do
 */
START_TEST(a_cancel_that_saw_it_run_does_what_the_new_phase_asks_for)
{
    struct actor driver, canceller;
    act_cancel(&canceller, act_rearm(&driver, "RAN"));
    actor_go_to(&canceller, "BAR");
    if (_i)
        actor_go_to(&driver, "AGAIN");
    else
        actor_end(&driver);
    ck_assert(actor_end(&canceller));
    if (_i)
        actor_end(&driver);
    drive(12);
    expect_fate(1, 1);
}
END_TEST

/*
 *     driver                          canceller
 *     PENDING again: AGAIN
 *                                     PENDING -> UNTOLD, says so
 *     says that it is due: it is not
 */
START_TEST(what_rearmed_itself_and_is_cancelled_before_that_is_said_is_told_once)
{
    struct actor driver;
    hwt_timeout timeout = act_rearm(&driver, "AGAIN");
    ck_assert(hwt_timeout_cancel(timeout));
    actor_end(&driver);
    drive(12);
    expect_fate(1, 1);
    drive(31);
    expect_fate(1, 1);
}
END_TEST

/*
 *     driver                          mover
 *     RUNNING and REARMED: RAN,
 *     FINISH; or PENDING: AGAIN
 *                                     writes another tick, says so if that is
 *                                     earlier, and not RUNNING
 *     says the tick that it saw
 */
START_TEST(what_rearmed_itself_and_is_moved_runs_when_it_was_moved_to)
{
    static const char *const points[] = { "RAN", "FINISH", "RETURNED", "AGAIN" };
    struct actor driver;
    uint64_t to = _i % 2 ? 20 : 40;
    hwt_timeout timeout = act_rearm(&driver, points[_i / 2]);
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(to)));
    actor_end(&driver);
    expect_run_in(to);
}
END_TEST

/*
 *     mover                           driver
 *     has seen RUNNING and REARMED,
 *     MOVE
 *                                     PENDING, says tick 30
 *     its exchange fails; PENDING:
 *     has to say tick 20
 */
START_TEST(a_move_that_outlasts_the_run_is_said)
{
    struct actor driver, mover;
    act_move(&mover, act_rearm(&driver, "RAN"), AT(20));
    actor_go_to(&mover, "MOVE");
    actor_end(&driver);
    drive(12);
    ck_assert(actor_end(&mover));
    expect_run_in(20);
}
END_TEST

/*
 *     mover                           driver
 *     has seen RUNNING, REARMED, and
 *     moves it; ends
 *                                     FINISHes: has to say what it was moved to
 *     FINISH: has read the deadline
 */
START_TEST(a_move_at_the_end_of_the_run_is_seen_by_who_ends_it)
{
    struct actor driver, mover;
    hwt_timeout timeout = act_rearm(&driver, "FINISH");
    act_move(&mover, timeout, AT(20));
    actor_go_to(&mover, "MOVE");
    ck_assert(actor_end(&mover));
    actor_go_to(&driver, "AGAIN");
    ck_assert_uint_eq(deadline_of(timeout), AT(20));
    actor_end(&driver);
    ck_assert_uint_le(told_in(), 10 * TICK);
    expect_run_in(20);
}
END_TEST

/*
 *     driver                          canceller
 *     re-armed it: RAN, or FINISH
 *                                     sets BARRED, then WAITED: WAIT, waits
 *     CANCELLED, wakes it
 *                                     true
 */
START_TEST(who_cancels_what_rearmed_itself_and_waits_is_woken)
{
    struct actor driver, canceller;
    act_cancel_sync(&canceller, act_rearm(&driver, _i ? "FINISH" : "RAN"));
    actor_go_to(&canceller, "WAIT");
    actor_let_go(&canceller);
    give_others_a_chance();
    actor_end(&driver);
    ck_assert(actor_end(&canceller));
    expect_fate(1, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: rearm");
    TCase *again = stage_case(suite, "again", stage_open, stage_close);
    tcase_add_test(again, what_is_cancelled_while_it_rearms_itself_is_not_rearmed);
    tcase_add_test(again, a_cancel_that_saw_it_not_rearmed_yet_sees_that_it_is);
    tcase_add_loop_test(again, what_rearmed_itself_and_is_cancelled_before_it_ends_is_told_once, 0,
                        2);
    tcase_add_loop_test(again, a_cancel_that_saw_it_run_does_what_the_new_phase_asks_for, 0, 2);
    tcase_add_test(again, what_rearmed_itself_and_is_cancelled_before_that_is_said_is_told_once);
    tcase_add_loop_test(again, what_rearmed_itself_and_is_moved_runs_when_it_was_moved_to, 0, 8);
    tcase_add_test(again, a_move_that_outlasts_the_run_is_said);
    tcase_add_test(again, a_move_at_the_end_of_the_run_is_seen_by_who_ends_it);
    tcase_add_loop_test(again, who_cancels_what_rearmed_itself_and_waits_is_woken, 0, 2);
    return run_suite(suite);
}
