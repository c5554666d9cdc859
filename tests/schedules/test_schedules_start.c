/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Threads that arm while another one starts the timer: they do not wait for it, wherever it stands, and
 * their timeouts run. */

#include "stage.h"

#include "faults.h"

static void open_timer(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    timer = create(&options);
    memset(&fate, 0, sizeof(fate));
    memset(&beside, 0, sizeof(beside));
}

static void close_timer(void)
{
    hwt_timer_destroy(timer);
}

/*
 *     starter                         others
 *     is the one who starts: START;
 *     or has started: STARTED
 *                                     arm, move and cancel
 *     goes on
 *                                     all have run
 */
START_TEST(who_arms_does_not_wait_for_the_starter)
{
    static const char *const points[] = { "START", "STARTED" };
    struct actor starter;
    act_add(&starter, timer, &counting, &fate, 0);
    actor_go_to(&starter, points[_i]);
    hwt_timeout moved = add_with(&silent, &beside, hwt_timer_now(timer) + HWT_MIN(60));
    hwt_timeout gone = add_with(&silent, &beside, hwt_timer_now(timer));
    bool cancelled = hwt_timeout_cancel(gone);
    must(hwt_timeout_reschedule(moved, 0));
    if (_i == 1)
        ck_assert(await_count(&beside.runs, cancelled ? 1 : 2)); /* the worker is there */
    ck_assert_uint_eq(fate.runs, 0);
    ck_assert_int_eq(actor_end(&starter), 0);
    ck_assert(await_count(&fate.runs, 1));
    ck_assert(await_count(&beside.runs, cancelled ? 1 : 2));
}
END_TEST

static void refuse_threads(enum faults_reach reach)
{
    faults_begin((struct faults_plan){ FAULTS_THREAD, reach, 1, 0 });
}

/*
 *     starter                         adder
 *     START
 *                                     arms: it is accepted
 *     cannot start, is told so
 *                                     its timeout is pending; the next one that arms starts the
 *                                     timer, and both run
 */
START_TEST(what_was_accepted_while_a_start_failed_runs_with_the_next)
{
    struct actor starter;
    act_add(&starter, timer, &counting, &fate, 0);
    actor_go_to(&starter, "START");
    hwt_timeout timeout = add_with(&silent, &beside, hwt_timer_now(timer));
    refuse_threads(FAULTS_ONE);
    int64_t r = actor_end(&starter);
    ck_assert_uint_eq(faults_end(), 1);
    ck_assert_int_eq(r, -EAGAIN);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_PENDING);
    add_with(&silent, &beside, hwt_timer_now(timer));
    ck_assert(await_count(&beside.runs, 2));
    ck_assert_uint_eq(fate.runs, 0);
}
END_TEST

/*
 *     starter                         adder
 *     START
 *                                     has published its timeout: ADD_CHECK
 *     cannot start
 *                                     tries it itself. Each loop: it can; or it cannot, and is told
 */
START_TEST(who_has_relied_on_a_start_that_failed_tries_it_itself)
{
    struct actor starter, adder;
    act_add(&starter, timer, &counting, &fate, 0);
    actor_go_to(&starter, "START");
    act_add(&adder, timer, &counting, &beside, 0);
    actor_go_to(&adder, "ADD_CHECK");
    refuse_threads(_i ? FAULTS_FROM_THERE_ON : FAULTS_ONE);
    int64_t first = actor_end(&starter), second = actor_end(&adder);
    ck_assert_uint_eq(faults_end(), _i ? 2 : 1);
    ck_assert_int_eq(first, -EAGAIN);
    ck_assert_int_eq(second, _i ? -EAGAIN : 0);
    ck_assert_uint_eq(hwt_timer_pending(timer), _i || beside.runs ? 0 : 1);
    if (_i == 0)
        ck_assert(await_count(&beside.runs, 1));
    ck_assert_uint_eq(stats_of(timer).rejected, _i ? 2 : 1);
    ck_assert_uint_eq(stats_of(timer).added, _i ? 0 : 1);
}
END_TEST

/* Who starts it without a timeout wants to know, and so waits. */
static void begin_start(struct actor *actor)
{
    actor->answer = hwt_timer_start(actor->timer);
}

START_TEST(an_explicit_start_tells_what_came_of_it)
{
    struct actor starter, second;
    act_add(&starter, timer, &counting, &fate, 0);
    actor_go_to(&starter, "START");
    second.timer = timer;
    actor_begin(&second, begin_start);
    actor_let_go(&second);
    refuse_threads(FAULTS_ONE);
    int64_t r = actor_end(&starter);
    ck_assert_int_eq(r, -EAGAIN);
    ck_assert_int_eq(actor_end(&second), 0);
    ck_assert_uint_eq(faults_end(), 1);
    add_with(&silent, &beside, 0);
    ck_assert(await_count(&beside.runs, 1));
}
END_TEST

/* A stop finds all, and the starter is refused. */
START_TEST(a_stop_comes_before_the_start)
{
    struct actor starter;
    act_add(&starter, timer, &counting, &fate, 0);
    actor_go_to(&starter, "START");
    add_with(&counting, &beside, 0);
    ck_assert_int_eq(hwt_timer_stop(timer, NULL, NULL), 1);
    ck_assert_int_eq(actor_end(&starter), -ESHUTDOWN);
    ck_assert_uint_eq(beside.cancelled, 1);
    ck_assert_uint_eq(ends_sum(&fate), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: start");
    TCase *start = stage_case(suite, "start", open_timer, close_timer);
    tcase_add_loop_test(start, who_arms_does_not_wait_for_the_starter, 0, 2);
    tcase_add_test(start, what_was_accepted_while_a_start_failed_runs_with_the_next);
    tcase_add_loop_test(start, who_has_relied_on_a_start_that_failed_tries_it_itself, 0, 2);
    tcase_add_test(start, an_explicit_start_tells_what_came_of_it);
    tcase_add_test(start, a_stop_comes_before_the_start);
    return run_suite(suite);
}
