/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A timeout that re-arms itself, and one that is handed to an executor, against cancel, move and
 * stop. */

#include "stage.h"

/* ---- re-armed by its own task ---- */

static struct {
    uint64_t next; /* where its first run re-arms it for */
    bool adds;     /* and adds another before */
    bool answer;
} plot;

static void rearm_once(hwt_timeout timeout, void *arg)
{
    count_run(timeout, arg);
    if (fate.runs > 1)
        return;
    if (plot.adds)
        must(hwt_timer_new_timeout_at(timer, &silent, &beside, AT(30), NULL) == 0);
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

/* From RUNNING to ARMED directly, or by the queue: the worker's lane is empty or not. */
static const char *const ways_back[] = { "ARM_AGAIN", "FINISH" };

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
    ck_assert(!hwt_timeout_cancel(timeout));
    actor_end(&driver);
    ck_assert(!plot.answer);
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    drive(31);
    expect_fate(1, 0);
}
END_TEST

/*
 *     driver                          canceller
 *     filed it anew, ARM_AGAIN;
 *     or FINISH
 *                                     sets BARRED: true
 *     the exchange fails: out of the
 *     bucket, CANCELLED, discarded
 */
START_TEST(what_rearmed_itself_and_is_cancelled_before_it_is_filed_is_discarded_once)
{
    struct actor driver;
    plot.adds = _i;
    hwt_timeout timeout = act_rearm(&driver, ways_back[_i]);
    ck_assert(hwt_timeout_cancel(timeout));
    actor_end(&driver);
    expect_fate(1, 1);
    drive(31);
    expect_fate(1, 1);
}
END_TEST

/*
 *     canceller                       driver
 *     has seen RUNNING and REARMED,
 *     CANCEL
 *                                     ARMED, or QUEUED
 *     its exchange fails: what it
 *     sees now says what to do
 */
START_TEST(a_cancel_that_saw_it_run_does_what_the_new_phase_asks_for)
{
    struct actor driver, canceller;
    plot.adds = _i;
    act_cancel(&canceller, act_rearm(&driver, ways_back[_i]));
    actor_go_to(&canceller, "CANCEL");
    actor_end(&driver);
    ck_assert(actor_end(&canceller));
    drive(12);
    expect_fate(1, 1);
}
END_TEST

/*
 *     driver                          canceller
 *     FINISHed, QUEUED: AGAIN_PUSH
 *                                     QUEUED -> CANCELLED, pushes nothing
 *     pushes it, drains it later
 */
START_TEST(what_rearmed_itself_and_is_cancelled_before_the_push_is_discarded_once)
{
    struct actor driver;
    plot.adds = true;
    hwt_timeout timeout = act_rearm(&driver, "AGAIN_PUSH");
    ck_assert(hwt_timeout_cancel(timeout));
    actor_end(&driver);
    drive(12);
    expect_fate(1, 1);
}
END_TEST

/*
 *     driver                          mover
 *     filed it for tick 30,
 *     ARM_AGAIN; or FINISH
 *                                     writes another tick, sets MOVED
 *     the exchange fails: files it
 *     anew
 */
START_TEST(what_rearmed_itself_and_is_moved_before_it_is_filed_runs_when_it_was_moved_to)
{
    struct actor driver;
    uint64_t to = _i / 2 ? 20 : 40;
    plot.adds = _i % 2;
    hwt_timeout timeout = act_rearm(&driver, ways_back[_i % 2]);
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(to)));
    actor_end(&driver);
    expect_run_in(to);
}
END_TEST

/*
 *     mover                           driver
 *     RUNNING and REARMED: MOVING,
 *     has written tick 20 or not
 *                                     ARMED, or QUEUED and filed
 *     finds it ARMED: it has to push
 *     it
 */
START_TEST(a_move_that_outlasts_the_run_ends_with_a_push)
{
    static const char *const moving[] = { "MOVE_WRITE", "MOVE_END" };
    struct actor driver, mover;
    plot.adds = _i % 2;
    act_move(&mover, act_rearm(&driver, "RAN"), AT(20));
    actor_go_to(&mover, moving[_i / 2]);
    actor_end(&driver);
    drive(12);
    ck_assert(actor_end(&mover));
    expect_run_in(20);
}
END_TEST

/*
 *     driver                          canceller
 *     filed it anew, ARM_AGAIN;
 *     or FINISH; or before
 *                                     sets BARRED, then WAITED: WAIT, waits
 *     CANCELLED, wakes it
 *                                     true
 */
START_TEST(who_cancels_what_rearmed_itself_and_waits_is_woken)
{
    static const char *const points[] = { "RAN", "FILE_REARMED", "ARM_AGAIN", "FINISH" };
    struct actor driver, canceller;
    plot.adds = _i == 3;
    act_cancel_sync(&canceller, act_rearm(&driver, points[_i]));
    actor_go_to(&canceller, "WAIT");
    actor_let_go(&canceller);
    give_others_a_chance();
    actor_end(&driver);
    ck_assert(actor_end(&canceller));
    expect_fate(1, 1);
}
END_TEST

/* ---- handed to an executor ---- */

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
static hwt_timeout add_submitted(const hwt_task *task)
{
    hwt_timeout timeout = add_with(task, &fate, AT(10));
    drive(0);
    ck_assert_uint_eq(drive(11), 1);
    return timeout;
}

/* Who was handed it stands at the point. */
static hwt_timeout act_run(struct actor *runner, const hwt_task *task, const char *point)
{
    plot.next = AT(30);
    hwt_timeout timeout = add_submitted(task);
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
 *     runner                          canceller
 *     it is due, BEGIN_SUBMITTED
 *                                     SUBMITTED -> CANCELLED, pushes nothing
 *     the exchange to RUNNING fails:
 *     discards it
 */
START_TEST(a_cancel_between_taking_it_up_and_running_it_wins)
{
    struct actor runner;
    hwt_timeout timeout = act_run(&runner, &counting, "BEGIN_SUBMITTED");
    ck_assert(hwt_timeout_cancel(timeout));
    actor_end(&runner);
    drive(12);
    expect_fate(0, 1);
}
END_TEST

/*
 *     canceller                   runner                      adder
 *     SUBMITTED -> CANCELLED,
 *     CANCEL_PUSH
 *                                 discards it
 *                                                             gets the entry
 *     goes on: pushes nothing
 */
START_TEST(a_cancel_of_what_was_handed_over_leaves_the_entry_to_who_was_handed_it)
{
    struct actor canceller;
    hwt_timeout timeout = add_submitted(&counting);
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, "CANCEL_PUSH");
    run_deferred(&executor);
    expect_fate(0, 1);
    hwt_timeout again = add_until_reused(timeout, AT(20));
    drive(12);
    ck_assert(actor_end(&canceller));
    drive(13);
    ck_assert_int_eq(hwt_timeout_state(again), HWT_PENDING);
    expect_fate(0, 1);
}
END_TEST

/*
 *     canceller                       runner
 *     has seen SUBMITTED, CANCEL
 *                                     runs it
 *     its exchange fails: false
 */
START_TEST(a_cancel_that_saw_it_handed_over_does_not_win_once_it_ran)
{
    struct actor canceller;
    act_cancel(&canceller, add_submitted(&counting));
    actor_go_to(&canceller, "CANCEL");
    run_deferred(&executor);
    ck_assert(!actor_end(&canceller));
    drive(12);
    expect_fate(1, 0);
}
END_TEST

/*
 *     runner                          mover
 *     it is due, BEGIN_SUBMITTED
 *                                     writes tick 30, sets MOVED
 *     the exchange to RUNNING fails:
 *     back to the queue
 */
START_TEST(a_move_between_taking_it_up_and_running_it_puts_it_off)
{
    struct actor runner;
    hwt_timeout timeout = act_run(&runner, &counting, "BEGIN_SUBMITTED");
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(30)));
    actor_end(&runner);
    expect_handed_over_in(30);
}
END_TEST

/*
 *     mover                           runner
 *     SUBMITTED | MOVING
 *                                     must not run it: back to the queue
 *     writes tick 30, ends
 */
START_TEST(what_is_being_moved_goes_back_to_the_queue)
{
    struct actor mover;
    act_move(&mover, add_submitted(&counting), AT(30));
    actor_go_to(&mover, _i ? "MOVE_END" : "MOVE_WRITE");
    run_deferred(&executor);
    expect_fate(0, 0);
    if (_i)
        drive(12);
    ck_assert(actor_end(&mover));
    expect_handed_over_in(30);
}
END_TEST

/*
 *     runner                          canceller
 *     it was put off, REQUEUE
 *                                     SUBMITTED -> CANCELLED, pushes nothing
 *     the exchange to QUEUED fails:
 *     discards it
 */
START_TEST(a_cancel_before_it_is_back_in_the_queue_leaves_it_to_who_puts_it_there)
{
    struct actor runner;
    plot.next = AT(30);
    hwt_timeout timeout = add_submitted(&counting);
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(30)));
    actor_begin(&runner, run_all);
    actor_go_to(&runner, "REQUEUE");
    ck_assert(hwt_timeout_cancel(timeout));
    actor_end(&runner);
    drive(12);
    expect_fate(0, 1);
}
END_TEST

static uint64_t handed_over(void)
{
    pthread_mutex_lock(&timer->runs);
    uint64_t n = timer->submitted;
    pthread_mutex_unlock(&timer->runs);
    return n;
}

/* Stop waits for what is counted: from before it is handed over until nothing of the timer's is
 * touched any more. */
START_TEST(stop_knows_what_was_handed_over_at_every_step)
{
    static const char *const steps[] = { "TAKE_UP", "BEGIN_SUBMITTED", "RUN",    "RAN",
                                         "FINISH",  "AGAIN_PUSH",      "PUSHED", "HAND_BACK" };
    struct actor driver, runner;
    plot.next = AT(30);
    add_with(&rearming, &fate, AT(10));
    act_drive(&driver, 11);
    actor_go_to(&driver, "HAND_OVER");
    ck_assert_uint_eq(handed_over(), 1);
    actor_end(&driver);
    actor_begin(&runner, run_all);
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        actor_go_to(&runner, steps[i]);
        ck_assert_uint_eq(handed_over(), 1);
    }
    actor_end(&runner);
    ck_assert_uint_eq(handed_over(), 0);
    expect_handed_over_in(30);
}
END_TEST

/*
 *     runner                          stop
 *     its task has re-armed it,
 *     QUEUED: AGAIN_PUSH
 *                                     waits for what was handed over
 *     pushes it
 *                                     finds it in the queue
 */
START_TEST(stop_finds_what_rearmed_itself_on_the_executor)
{
    struct actor runner, stopper;
    act_run(&runner, &rearming, "AGAIN_PUSH");
    act_stop(&stopper, timer);
    actor_go_to(&stopper, "STOP_JOIN");
    actor_let_go(&stopper);
    give_others_a_chance();
    actor_end(&runner);
    ck_assert_int_eq(actor_end(&stopper), 1);
    ck_assert_uint_eq(fate.visited, 1);
    ck_assert_uint_eq(fate.runs, 1);
    room_close(&room);
    deferred_close(&executor);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: rearm");
    TCase *again = room_case(suite, "again", stage_open, stage_close);
    tcase_add_test(again, what_is_cancelled_while_it_rearms_itself_is_not_rearmed);
    tcase_add_loop_test(
        again, what_rearmed_itself_and_is_cancelled_before_it_is_filed_is_discarded_once, 0, 2);
    tcase_add_loop_test(again, a_cancel_that_saw_it_run_does_what_the_new_phase_asks_for, 0, 2);
    tcase_add_test(again, what_rearmed_itself_and_is_cancelled_before_the_push_is_discarded_once);
    tcase_add_loop_test(
        again, what_rearmed_itself_and_is_moved_before_it_is_filed_runs_when_it_was_moved_to, 0, 4);
    tcase_add_loop_test(again, a_move_that_outlasts_the_run_ends_with_a_push, 0, 4);
    tcase_add_loop_test(again, who_cancels_what_rearmed_itself_and_waits_is_woken, 0, 4);
    TCase *handed = room_case(suite, "executor", open_executor, close_executor);
    tcase_add_test(handed, a_cancel_between_taking_it_up_and_running_it_wins);
    tcase_add_test(handed, a_cancel_of_what_was_handed_over_leaves_the_entry_to_who_was_handed_it);
    tcase_add_test(handed, a_cancel_that_saw_it_handed_over_does_not_win_once_it_ran);
    tcase_add_test(handed, a_move_between_taking_it_up_and_running_it_puts_it_off);
    tcase_add_loop_test(handed, what_is_being_moved_goes_back_to_the_queue, 0, 2);
    tcase_add_test(handed, a_cancel_before_it_is_back_in_the_queue_leaves_it_to_who_puts_it_there);
    tcase_add_test(handed, stop_knows_what_was_handed_over_at_every_step);
    TCase *stop = room_case(suite, "stop", open_executor, NULL);
    tcase_add_test(stop, stop_finds_what_rearmed_itself_on_the_executor);
    return run_suite(suite);
}
