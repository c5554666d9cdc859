/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Stop against adding, cancelling, moving and driving; the first adds; the last place under
 * max_pending. */

#include "stage.h"

/* Nothing is left; the timeout that the test is about has had its one end. */
static void close_stopped(void)
{
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    ck_assert_uint_eq(timer->reserved, 0);
    ck_assert_uint_eq(ends_sum(&fate), stats_of(timer).added);
    room_close(&room);
}

static void act_add_to(struct actor *adder, const char *point)
{
    act_add(adder, timer, &counting, &fate, AT(10));
    actor_go_to(adder, point);
}

static void act_stop_to(struct actor *stopper, const char *point)
{
    act_stop(stopper, timer);
    actor_go_to(stopper, point);
}

/* It finds that something is under way, time and again. */
static void expect_stop_waits(struct actor *stopper)
{
    for (int i = 0; i < 3; i++)
        actor_go_to(stopper, "STOP_AGAIN");
}

static void expect_visited(uint64_t visited, uint64_t cancelled)
{
    ck_assert_uint_eq(fate.visited, visited);
    ck_assert_uint_eq(fate.cancelled, cancelled);
    ck_assert_uint_eq(fate.runs, 0);
}

/* ---- adding ---- */

/*
 *     adder                           stop
 *     has pushed it, ADD_CHECK
 *                                     finds it, ends it
 *     cannot withdraw it: accepted
 */
START_TEST(what_was_pushed_before_stop_is_accepted_and_visited)
{
    struct actor adder;
    act_add_to(&adder, "ADD_CHECK");
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 1);
    ck_assert_int_eq(actor_end(&adder), 0);
    expect_visited(1, 0);
}
END_TEST

/*
 *     adder                           stop
 *     is to push it, PUSH
 *                                     finds nothing
 *     pushes it, sees the flag,
 *     withdraws it: refused
 */
START_TEST(what_is_pushed_after_stop_is_refused)
{
    struct actor adder;
    act_add_to(&adder, "PUSH");
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 0);
    ck_assert_int_eq(actor_end(&adder), -ESHUTDOWN);
    ck_assert_ptr_null(adder.timeout.entry);
    expect_visited(0, 0);
}
END_TEST

/*
 *     stop                            adder
 *                                     has pushed it, ADD_CHECK
 *     sets the flag, STOP_WAKE
 *                                     sees that: WITHDRAW
 *     finds it: ABANDON
 *                                     the one whose exchange is first ends it
 */
START_TEST(of_stop_and_its_adder_one_ends_it)
{
    struct actor adder, stopper;
    bool adder_first = _i;
    act_add_to(&adder, "ADD_CHECK");
    act_stop_to(&stopper, "STOP_WAKE");
    actor_go_to(&adder, "WITHDRAW");
    actor_go_to(&stopper, "ABANDON");
    if (adder_first)
        ck_assert_int_eq(actor_end(&adder), -ESHUTDOWN);
    ck_assert_int_eq(actor_end(&stopper), !adder_first);
    if (!adder_first)
        ck_assert_int_eq(actor_end(&adder), 0);
    expect_visited(!adder_first, 0);
}
END_TEST

/*
 *     adder                       driver                      stop
 *     has pushed it, ADD_CHECK
 *                                 files it: ARM, or after
 *                                                             sets the flag
 *     withdraws it, or is too late
 *                                 finds it withdrawn, or not
 */
START_TEST(what_is_withdrawn_while_it_is_filed_is_in_no_bucket)
{
    struct actor adder, driver, stopper;
    act_add_to(&adder, "ADD_CHECK");
    act_drive(&driver, 0);
    actor_go_to(&driver, _i ? "PARK_A" : "ARM");
    act_stop_to(&stopper, "STOP_WAKE");
    ck_assert_int_eq(actor_end(&adder), _i ? 0 : -ESHUTDOWN);
    actor_end(&driver);
    ck_assert_int_eq(actor_end(&stopper), _i);
    expect_visited((uint64_t)_i, 0);
}
END_TEST

/* Then it goes through the queue, else to a bucket at once. */
static bool adds_another;

static void rearm_for_long(hwt_timeout timeout, void *arg)
{
    count_run(timeout, arg);
    if (fate.runs > 1)
        return;
    if (adds_another)
        must(hwt_timer_new_timeout_at(timer, &silent, &beside, AT(30), NULL) == 0);
    must(hwt_timeout_reschedule_at(timeout, AT(20)));
}

static const hwt_task rearming = { rearm_for_long, count_cancelled };

/*
 *     adder                       driver                      stop
 *     has pushed it, ADD_CHECK
 *                                 runs it; it re-arms itself
 *                                                             sets the flag
 *     must not withdraw it, for it
 *     has run: accepted
 *                                                             finds it
 */
START_TEST(what_has_run_and_rearmed_itself_is_not_withdrawn)
{
    struct actor adder, driver, stopper;
    adds_another = _i;
    act_add(&adder, timer, &rearming, &fate, AT(1));
    actor_go_to(&adder, "ADD_CHECK");
    act_drive(&driver, 2);
    actor_go_to(&driver, "PARK_A");
    ck_assert_uint_eq(fate.runs, 1);
    act_stop_to(&stopper, "STOP_WAKE");
    ck_assert_int_eq(actor_end(&adder), 0);
    actor_end(&driver);
    ck_assert_int_eq(actor_end(&stopper), 1 + _i);
    ck_assert_uint_eq(fate.visited, 1);
    ck_assert_uint_eq(fate.runs, 1);
    fate.runs = 0; /* close_stopped() counts ends */
    fate.visited = 1 + (uint64_t)_i;
}
END_TEST

#if HWT_INLINE_URCU && !defined(CONFIG_RCU_USE_ATOMIC_BUILTINS)

/*
 *     adder                           stop
 *     in the gap of its push, LINK
 *                                     sees that the queue is stalled: STOP_AGAIN
 *     links it; withdraws it, or is
 *     too late
 *                                     finds it or not
 */
START_TEST(stop_waits_for_a_push_that_is_half_done)
{
    struct actor adder, stopper;
    act_add_to(&adder, "LINK");
    act_stop(&stopper, timer);
    expect_stop_waits(&stopper);
    if (_i)
        actor_go_to(&adder, "WITHDRAW");
    else
        ck_assert_int_eq(actor_end(&adder), -ESHUTDOWN);
    ck_assert_int_eq(actor_end(&stopper), _i);
    if (_i)
        ck_assert_int_eq(actor_end(&adder), 0);
    expect_visited((uint64_t)_i, 0);
}
END_TEST

#endif

static void salvage(struct actor *salvager)
{
    struct hwt_entry *batch[1];
    salvager->answer = (int64_t)hwt_lane_salvage(room.lane, batch, 1, 1);
}

/*
 *     salvager                        stop
 *     has one in hand that was
 *     accepted: SALVAGE_JUDGE
 *                                     sees that somebody consumes: STOP_AGAIN
 *     passes it over
 *                                     finds it
 */
START_TEST(stop_waits_for_who_salvages)
{
    struct actor salvager, stopper;
    add_queued(AT(10));
    actor_begin(&salvager, salvage);
    actor_go_to(&salvager, "SALVAGE_JUDGE");
    act_stop(&stopper, timer);
    expect_stop_waits(&stopper);
    ck_assert_int_eq(actor_end(&salvager), 0);
    ck_assert_int_eq(actor_end(&stopper), 1);
    expect_visited(1, 0);
}
END_TEST

/* ---- cancelling and moving ---- */

/*
 *     canceller                       stop
 *     has seen it pending, CANCEL
 *                                     ends it
 *     its exchange fails: false
 */
START_TEST(a_cancel_that_saw_it_pending_does_not_win_once_stop_has)
{
    struct actor canceller;
    hwt_timeout timeout = _i ? add_armed(AT(10)) : add_queued(AT(10));
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, "CANCEL");
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 1);
    ck_assert(!actor_end(&canceller));
    expect_visited(1, 0);
}
END_TEST

/*
 *     stop                            canceller
 *     has found it pending, ABANDON
 *                                     CANCELLED: true
 *     its exchange fails: tells that
 *     it was cancelled
 */
START_TEST(a_cancel_while_stop_collects_wins)
{
    struct actor stopper;
    hwt_timeout timeout = _i ? add_armed(AT(10)) : add_queued(AT(10));
    act_stop_to(&stopper, "ABANDON");
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert_int_eq(actor_end(&stopper), 0);
    expect_visited(0, 1);
}
END_TEST

/*
 *     canceller                       stop
 *     ARMED -> CANCELLED,
 *     CANCEL_PUSH
 *                                     finds it in its bucket: tells it
 *     pushes it: nobody looks
 */
START_TEST(what_is_cancelled_and_not_pushed_yet_is_told_by_stop)
{
    struct actor canceller;
    act_cancel(&canceller, add_armed(AT(10)));
    actor_go_to(&canceller, "CANCEL_PUSH");
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 0);
    expect_visited(0, 1);
    ck_assert(actor_end(&canceller));
    expect_visited(0, 1);
}
END_TEST

/*
 *     canceller                   driver                      stop
 *     ARMED -> CANCELLED,
 *     CANCEL_PUSH
 *                                 its tick comes: transit
 *                                                             finds it nowhere:
 *                                                             STOP_AGAIN
 *     pushes it
 *                                                             tells it
 */
START_TEST(stop_waits_for_what_is_in_transit)
{
    struct actor pusher, stopper;
    hwt_timeout timeout = add_armed(AT(10));
    if (_i)
        act_move(&pusher, timeout, AT(5));
    else
        act_cancel(&pusher, timeout);
    actor_go_to(&pusher, _i ? "AGAIN_PUSH" : "CANCEL_PUSH");
    drive(11);
    act_stop(&stopper, timer);
    expect_stop_waits(&stopper);
    expect_visited(0, 0);
    ck_assert(actor_end(&pusher));
    ck_assert_int_eq(actor_end(&stopper), _i);
    expect_visited((uint64_t)_i, (uint64_t)!_i);
}
END_TEST

/*
 *     mover                           stop
 *     in the midst of a move
 *                                     ends it
 *     goes on: true, it was pending
 */
START_TEST(what_is_being_moved_is_visited_once)
{
    static const char *const moving[] = { "MOVE_WRITE", "MOVE_END", "MOVE_TELL", "AGAIN_PUSH" };
    struct actor mover;
    hwt_timeout timeout = _i / 4 || _i % 4 == 3 ? add_armed(AT(10)) : add_queued(AT(10));
    act_move(&mover, timeout, AT(5));
    actor_go_to(&mover, moving[_i % 4]);
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 1);
    expect_visited(1, 0);
    ck_assert(actor_end(&mover));
    expect_visited(1, 0);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_CANCELLED);
}
END_TEST

/* ---- stop and start ---- */

static void stop_and_look(struct actor *stopper)
{
    stopper->answer = hwt_timer_stop(timer, NULL, NULL);
    stopper->instant = fate.visited;
}

/*
 *     first                           second
 *     sets the flag: STOP_WAKE, ...
 *                                     waits
 *     ends all
 *                                     0
 */
START_TEST(a_second_stop_waits_for_the_first)
{
    static const char *const steps[] = { "STOP_WAKE", "STOP_COLLECT", "ABANDON", "STOP_TAKE" };
    struct actor first, second;
    add_queued(AT(10));
    act_stop_to(&first, steps[_i]);
    actor_begin(&second, stop_and_look);
    actor_let_go(&second);
    give_others_a_chance();
    ck_assert_int_eq(actor_end(&first), 1);
    ck_assert_int_eq(actor_end(&second), 0);
    ck_assert_uint_eq(second.instant, 1);
}
END_TEST

/*
 *     first adder                     second adder
 *     sees that no worker has begun,
 *     START
 *                                     starts it
 *     sees, under the mutex, that it
 *     has begun
 */
START_TEST(of_two_first_adders_one_starts_the_worker)
{
    struct actor adder;
    timer = create(NULL);
    act_add(&adder, timer, &counting, &fate, HWT_NEVER);
    actor_go_to(&adder, "START");
    ck_assert_int_eq(hwt_timer_new_timeout(timer, &counting, &fate, HWT_NEVER, NULL), 0);
    pthread_t thread = timer->thread;
    ck_assert_int_eq(actor_end(&adder), 0);
    ck_assert(pthread_equal(timer->thread, thread));
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 2);
    hwt_timer_destroy(timer);
}
END_TEST

/*
 *     adder                           stop
 *     sees that no worker has begun,
 *     START
 *                                     there is none to wait for
 *     sees the flag, under the mutex:
 *     refused
 */
START_TEST(no_worker_begins_after_stop)
{
    struct actor adder;
    timer = create(NULL);
    act_add(&adder, timer, &counting, &fate, HWT_NEVER);
    actor_go_to(&adder, "START");
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 0);
    ck_assert_int_eq(actor_end(&adder), -ESHUTDOWN);
    ck_assert(!atomic_load(&timer->started));
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    hwt_timer_destroy(timer);
}
END_TEST

/*
 *     first adder                     second adder
 *     sees that one place is left,
 *     RESERVE
 *                                     takes it
 *     its exchange fails: refused
 */
START_TEST(the_last_place_is_given_once)
{
    hwt_options options = HWT_OPTIONS_INIT;
    struct actor adder;
    options.flags = HWT_NO_WORKER;
    options.max_pending = 1;
    timer = create(&options);
    act_add(&adder, timer, &counting, &fate, HWT_NEVER);
    actor_go_to(&adder, "RESERVE");
    ck_assert_int_eq(hwt_timer_new_timeout(timer, &counting, &fate, HWT_NEVER, NULL), 0);
    ck_assert_int_eq(actor_end(&adder), -ENOBUFS);
    ck_assert_uint_eq(hwt_timer_pending(timer), 1);
    hwt_timer_destroy(timer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: stop");
    TCase *add = room_case(suite, "add", stage_open, close_stopped);
    tcase_add_test(add, what_was_pushed_before_stop_is_accepted_and_visited);
    tcase_add_test(add, what_is_pushed_after_stop_is_refused);
    tcase_add_loop_test(add, of_stop_and_its_adder_one_ends_it, 0, 2);
    tcase_add_loop_test(add, what_has_run_and_rearmed_itself_is_not_withdrawn, 0, 2);
    tcase_add_loop_test(add, what_is_withdrawn_while_it_is_filed_is_in_no_bucket, 0, 2);
#if HWT_INLINE_URCU && !defined(CONFIG_RCU_USE_ATOMIC_BUILTINS)
    tcase_add_loop_test(add, stop_waits_for_a_push_that_is_half_done, 0, 2);
#endif
    tcase_add_test(add, stop_waits_for_who_salvages);
    TCase *cancel = room_case(suite, "cancel", stage_open, close_stopped);
    tcase_add_loop_test(cancel, a_cancel_that_saw_it_pending_does_not_win_once_stop_has, 0, 2);
    tcase_add_loop_test(cancel, a_cancel_while_stop_collects_wins, 0, 2);
    tcase_add_test(cancel, what_is_cancelled_and_not_pushed_yet_is_told_by_stop);
    tcase_add_loop_test(cancel, stop_waits_for_what_is_in_transit, 0, 2);
    tcase_add_loop_test(cancel, what_is_being_moved_is_visited_once, 0, 8);
    TCase *twice = room_case(suite, "twice", stage_open, close_stopped);
    tcase_add_loop_test(twice, a_second_stop_waits_for_the_first, 0, 4);
    TCase *first = room_case(suite, "first", NULL, NULL);
    tcase_add_test(first, of_two_first_adders_one_starts_the_worker);
    tcase_add_test(first, no_worker_begins_after_stop);
    tcase_add_test(first, the_last_place_is_given_once);
    return run_suite(suite);
}
