/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A timeout that is handed to an executor, against cancel, move and stop. */

#include "stage.h"

static uint64_t next_deadline; /* where the first run of what re-arms itself does that for */

static void rearm_once(hwt_timeout timeout, void *arg)
{
    count_run(timeout, arg);
    if (fate.runs == 1)
        must(hwt_timeout_reschedule_at(timeout, next_deadline));
}

static const hwt_task rearming = { rearm_once, count_cancelled };

static deferred executor;

static void open_executor(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    deferred_open(&executor);
    options.executor = defer;
    options.executor_data = &executor;
    stage_open_with(options);
}

static void close_executor(void)
{
    drive(HWT_MIN(60) / TICK);
    run_deferred(&executor);
    stage_close();
    deferred_close(&executor);
}

static void run_all(struct actor *runner)
{
    (void)runner;
    run_deferred(&executor);
}

/* A timeout that is due at tick 10 and was handed over. */
static hwt_timeout add_handed(const hwt_task *task)
{
    hwt_timeout timeout = add_with(task, &fate, AT(10));
    drive(0);
    ck_assert_uint_eq(drive(11), 1);
    return timeout;
}

/* Who was handed it stands at the point. */
static hwt_timeout act_run(struct actor *runner, const hwt_task *task, const char *point)
{
    next_deadline = AT(30);
    hwt_timeout timeout = add_handed(task);
    actor_begin(runner, run_all);
    actor_go_to(runner, point);
    return timeout;
}

/* In the tick, and once it is handed over; not before. */
static void expect_handed_over_in(uint64_t tick)
{
    uint64_t runs = fate.runs;
    ck_assert_uint_eq(drive(tick), 0);
    run_deferred(&executor);
    ck_assert_uint_eq(drive(tick + 1), 1);
    run_deferred(&executor);
    ck_assert_uint_eq(fate.runs, runs + 1);
}

/*
 *     driver                          canceller
 *     it is due, LOOK; or it is
 *     HANDED, HAND_OVER
 *                                     PENDING -> UNTOLD
 *     its exchange fails; or the
 *     executor finds it UNTOLD
 */
START_TEST(a_cancel_while_it_is_handed_over_wins)
{
    struct actor driver;
    hwt_timeout timeout = add_with(&counting, &fate, AT(10));
    drive(0);
    act_drive(&driver, 11);
    actor_go_to(&driver, _i ? "HAND_OVER" : "LOOK");
    ck_assert(hwt_timeout_cancel(timeout));
    actor_end(&driver);
    drive(12);
    run_deferred(&executor);
    expect_fate(0, 1);
}
END_TEST

/*
 *     runner                          canceller
 *     it is due, TAKE_UP; or BEGIN
 *                                     HANDED -> UNTOLD, says nothing
 *     the exchange to RUNNING fails:
 *     tells it
 */
START_TEST(a_cancel_between_taking_it_up_and_running_it_wins)
{
    struct actor runner;
    hwt_timeout timeout = act_run(&runner, &counting, _i ? "BEGIN" : "TAKE_UP");
    ck_assert(hwt_timeout_cancel(timeout));
    actor_end(&runner);
    expect_fate(0, 1);
    drive(12);
    run_deferred(&executor);
    expect_fate(0, 1);
}
END_TEST

/* A task that has nothing to tell is as free as any other. */
START_TEST(a_cancel_of_what_was_handed_over_and_has_nothing_to_tell_frees_it_once)
{
    struct actor runner;
    hwt_timeout timeout = act_run(&runner, &silent, _i ? "BEGIN" : "TAKE_UP");
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_CANCELLED);
    actor_end(&runner);
    add_in_place_of(timeout, AT(20));
    drive(12);
    run_deferred(&executor);
    expect_fate(0, 0);
}
END_TEST

/*
 *     canceller                   runner                      adder
 *     HANDED -> UNTOLD,
 *     CANCEL_PUBLISH
 *                                 tells it, frees it
 *                                                             gets the entry
 *     goes on: says nothing
 */
START_TEST(a_cancel_of_what_was_handed_over_leaves_the_entry_to_who_was_handed_it)
{
    struct actor canceller;
    hwt_timeout timeout = add_handed(&counting);
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, "CANCEL_PUBLISH");
    run_deferred(&executor);
    expect_fate(0, 1);
    hwt_timeout again = add_in_place_of(timeout, AT(20));
    drive(12);
    ck_assert(actor_end(&canceller));
    drive(13);
    ck_assert_int_eq(hwt_timeout_state(again), HWT_PENDING);
    expect_fate(0, 1);
}
END_TEST

/*
 *     canceller                       runner
 *     has seen HANDED, CANCEL
 *                                     runs it
 *     its exchange fails: false
 */
START_TEST(a_cancel_that_saw_it_handed_over_does_not_win_once_it_ran)
{
    struct actor canceller;
    act_cancel(&canceller, add_handed(&counting));
    actor_go_to(&canceller, "CANCEL");
    run_deferred(&executor);
    ck_assert(!actor_end(&canceller));
    drive(12);
    expect_fate(1, 0);
}
END_TEST

/*
 *     canceller                       driver
 *     has seen PENDING, and that
 *     nobody is to be told: CANCEL
 *                                     hands it over
 *     its exchange fails: UNTOLD, and
 *     the executor frees it
 */
START_TEST(a_cancel_that_saw_it_before_it_was_handed_over_leaves_it_to_the_executor)
{
    struct actor canceller;
    hwt_timeout timeout = add_with(&silent, &fate, AT(10));
    drive(0);
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, "CANCEL");
    ck_assert_uint_eq(drive(11), 1);
    ck_assert(actor_end(&canceller));
    drive(12);
    run_deferred(&executor);
    add_in_place_of(timeout, AT(20));
    expect_fate(0, 0);
}
END_TEST

/*
 *     runner                          mover
 *     it is due, TAKE_UP; or BEGIN
 *                                     writes tick 30
 *     the exchange to RUNNING fails:
 *     not HANDED any more, says so
 */
START_TEST(a_move_between_taking_it_up_and_running_it_puts_it_off)
{
    struct actor runner;
    hwt_timeout timeout = act_run(&runner, &counting, _i ? "BEGIN" : "TAKE_UP");
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(30)));
    actor_end(&runner);
    expect_handed_over_in(30);
}
END_TEST

/*
 *     mover                           runner, driver
 *     HANDED: tick 30, then 20, says
 *     so
 *                                     reads that: it is not in the wheel, and
 *                                     is not to be
 *                                     the executor puts it back there
 */
START_TEST(what_is_moved_while_it_is_handed_over_is_handed_over_once_more)
{
    hwt_timeout timeout = add_handed(&counting);
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(30)));
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(20)));
    ck_assert_uint_eq(drive(12), 0);
    if (_i)
        ck_assert_uint_eq(drive(21), 0);
    run_deferred(&executor);
    if (_i) {
        expect_fate(1, 0); /* it was late, and is due by now */
        ck_assert_uint_eq(drive(22), 0);
    } else {
        expect_fate(0, 0);
        expect_handed_over_in(20);
    }
}
END_TEST

/*
 *     runner                          canceller, mover
 *     it was put off, not HANDED any
 *     more: AGAIN
 *                                     UNTOLD, says so; or tick 20, says so
 *     says what it saw
 */
START_TEST(what_is_put_off_can_be_cancelled_and_moved_before_that_is_said)
{
    struct actor runner;
    hwt_timeout timeout = add_handed(&counting);
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(30)));
    actor_begin(&runner, run_all);
    actor_go_to(&runner, "AGAIN");
    if (_i)
        ck_assert(hwt_timeout_cancel(timeout));
    else
        ck_assert(hwt_timeout_reschedule_at(timeout, AT(20)));
    actor_end(&runner);
    if (_i) {
        drive(12);
        run_deferred(&executor);
        expect_fate(0, 1);
    } else {
        expect_handed_over_in(20);
    }
}
END_TEST

/*
 *     runner                          canceller
 *     it was put off: TAKE_UP, has
 *     seen HANDED
 *                                     HANDED -> UNTOLD, says nothing
 *     its exchange fails: tells it
 */
START_TEST(a_cancel_before_it_is_put_back_leaves_it_to_who_puts_it_there)
{
    struct actor runner;
    hwt_timeout timeout = add_handed(&counting);
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(30)));
    actor_begin(&runner, run_all);
    actor_go_to(&runner, "TAKE_UP");
    ck_assert(hwt_timeout_cancel(timeout));
    actor_end(&runner);
    expect_fate(0, 1);
    drive(12);
    expect_fate(0, 1);
}
END_TEST

/*
 *     mover                           runner, driver
 *     has seen HANDED and tick 30:
 *     MOVE; or has written tick 20:
 *     MOVE_PUBLISH
 *                                     takes it back, says so, reads that
 *     its exchange fails: once more;
 *     says so
 */
START_TEST(what_is_taken_back_beside_a_mover_runs_once_where_it_was_moved_to)
{
    static const struct {
        const char *point;
        uint64_t tick;
    } moves[] = { { "MOVE", 20 }, { "MOVE", 50 }, { "MOVE_PUBLISH", 20 } };
    struct actor mover;
    hwt_timeout timeout = add_handed(&counting);
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(30)));
    act_move(&mover, timeout, AT(moves[_i].tick));
    actor_go_to(&mover, moves[_i].point);
    run_deferred(&executor);
    ck_assert_uint_eq(drive(12), 0);
    ck_assert(actor_end(&mover));
    expect_handed_over_in(moves[_i].tick);
    expect_fate(1, 0);
}
END_TEST

/*
 *     runner                          mover
 *     has seen HANDED and tick 30:
 *     TAKE_UP
 *                                     tick 20, says so; or tick 50
 *     its exchange fails: takes it
 *     back for that tick
 */
START_TEST(a_move_before_it_is_taken_back_is_where_it_runs)
{
    const uint64_t tick = _i ? 50 : 20;
    struct actor runner;
    hwt_timeout timeout = add_handed(&counting);
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(30)));
    actor_begin(&runner, run_all);
    actor_go_to(&runner, "TAKE_UP");
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(tick)));
    ck_assert_uint_eq(drive(12), 0);
    actor_end(&runner);
    expect_handed_over_in(tick);
    expect_fate(1, 0);
}
END_TEST

/*
 *     runner                          mover, driver
 *     has seen HANDED and tick 30:
 *     TAKE_UP
 *                                     tick 20, says so
 *                                     reads that, sleeps until tick 25
 *     its exchange fails: says
 *     tick 20, and wakes the driver
 */
START_TEST(who_takes_back_what_was_moved_wakes_for_where_it_was_moved_to)
{
    struct actor runner;
    hwt_timeout timeout = add_handed(&counting);
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(30)));
    add_with(&silent, &beside, AT(25));
    actor_begin(&runner, run_all);
    actor_go_to(&runner, "TAKE_UP");
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(20)));
    ck_assert_uint_eq(drive(12), 0);
    ck_assert_uint_gt(told_in(), 12 * TICK);
    actor_end(&runner);
    ck_assert_uint_lt(told_in(), 10 * TICK);
    expect_handed_over_in(20);
}
END_TEST

/*
 *     mover                           runner, driver              adder
 *     has written tick 20: MOVE_PUBLISH
 *                                     takes it back, says so;
 *                                     it runs in tick 20
 *                                                                 gets the entry
 *     says what it moved
 */
START_TEST(what_a_late_mover_says_is_of_no_other_timeout)
{
    struct actor mover;
    hwt_timeout timeout = add_handed(&counting);
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(30)));
    act_move(&mover, timeout, AT(20));
    actor_go_to(&mover, "MOVE_PUBLISH");
    run_deferred(&executor);
    expect_handed_over_in(20);
    drive(22);
    hwt_timeout again = add_in_place_of(timeout, AT(40));
    ck_assert(actor_end(&mover));
    drive(40);
    run_deferred(&executor);
    ck_assert_int_eq(hwt_timeout_state(again), HWT_PENDING);
    drive(41);
    run_deferred(&executor);
    ck_assert_uint_eq(beside.runs, 1);
    expect_fate(1, 0);
}
END_TEST

/* Stop waits for what is counted: from before it is handed over until nothing of the timer's is
 * touched any more. */
START_TEST(stop_knows_what_was_handed_over_at_every_step)
{
    static const char *const steps[] = { "TAKE_UP",  "BEGIN", "RUN",      "RAN",    "FINISH",
                                         "RETURNED", "AGAIN", "APPENDED", "PUSHED", "HAND_BACK" };
    struct actor driver, runner;
    next_deadline = AT(30);
    add_with(&rearming, &fate, AT(10));
    act_drive(&driver, 11);
    actor_go_to(&driver, "HAND_OVER");
    ck_assert_uint_eq(hwt_task_submitted(&timer->shared), 1);
    actor_end(&driver);
    actor_begin(&runner, run_all);
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        actor_go_to(&runner, steps[i]);
        ck_assert_uint_eq(hwt_task_submitted(&timer->shared), 1);
    }
    actor_end(&runner);
    ck_assert_uint_eq(hwt_task_submitted(&timer->shared), 0);
    expect_handed_over_in(30);
}
END_TEST

/*
 *     runner                          stop
 *     its task has re-armed it,
 *     PENDING: AGAIN
 *                                     waits for what was handed over
 *     says so
 *                                     finds it
 */
START_TEST(stop_finds_what_rearmed_itself_on_the_executor)
{
    struct actor runner, stopper;
    act_run(&runner, &rearming, "AGAIN");
    act_stop(&stopper, timer);
    actor_go_to(&stopper, "STOP_WAKE");
    actor_let_go(&stopper);
    give_others_a_chance();
    ck_assert_uint_eq(fate.visited, 0);
    actor_end(&runner);
    ck_assert_int_eq(actor_end(&stopper), 1);
    ck_assert_uint_eq(fate.visited, 1);
    ck_assert_uint_eq(fate.runs, 1);
    expect_nothing_left();
    hwt_timer_destroy(timer);
    deferred_close(&executor);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: executor");
    TCase *handed = stage_case(suite, "executor", open_executor, close_executor);
    tcase_add_loop_test(handed, a_cancel_while_it_is_handed_over_wins, 0, 2);
    tcase_add_loop_test(handed, a_cancel_between_taking_it_up_and_running_it_wins, 0, 2);
    tcase_add_loop_test(
        handed, a_cancel_of_what_was_handed_over_and_has_nothing_to_tell_frees_it_once, 0, 2);
    tcase_add_test(handed, a_cancel_of_what_was_handed_over_leaves_the_entry_to_who_was_handed_it);
    tcase_add_test(handed, a_cancel_that_saw_it_handed_over_does_not_win_once_it_ran);
    tcase_add_test(handed,
                   a_cancel_that_saw_it_before_it_was_handed_over_leaves_it_to_the_executor);
    tcase_add_loop_test(handed, a_move_between_taking_it_up_and_running_it_puts_it_off, 0, 2);
    tcase_add_loop_test(handed, what_is_moved_while_it_is_handed_over_is_handed_over_once_more, 0,
                        2);
    tcase_add_loop_test(handed, what_is_put_off_can_be_cancelled_and_moved_before_that_is_said, 0,
                        2);
    tcase_add_test(handed, a_cancel_before_it_is_put_back_leaves_it_to_who_puts_it_there);
    tcase_add_loop_test(handed, what_is_taken_back_beside_a_mover_runs_once_where_it_was_moved_to,
                        0, 3);
    tcase_add_loop_test(handed, a_move_before_it_is_taken_back_is_where_it_runs, 0, 2);
    tcase_add_test(handed, who_takes_back_what_was_moved_wakes_for_where_it_was_moved_to);
    tcase_add_test(handed, what_a_late_mover_says_is_of_no_other_timeout);
    tcase_add_test(handed, stop_knows_what_was_handed_over_at_every_step);
    TCase *stop = stage_case(suite, "stop", open_executor, NULL);
    tcase_add_test(stop, stop_finds_what_rearmed_itself_on_the_executor);
    return run_suite(suite);
}
