/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Stop against adding, cancelling, moving, driving and waiting; the first adds; the last place
 * under max_pending. */

#include "stage.h"

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

static void expect_visited(uint64_t visited, uint64_t cancelled)
{
    ck_assert_uint_eq(fate.visited, visited);
    ck_assert_uint_eq(fate.cancelled, cancelled);
    ck_assert_uint_eq(fate.runs, 0);
}

/* ---- adding ---- */

/*
 *     adder                           stop
 *     it is PENDING; ADD_PUBLISH, ..., or
 *     has said so: ADD_CHECK
 *                                     finds it, ends it
 *     cannot withdraw it: accepted
 */
START_TEST(what_was_pending_before_stop_is_accepted_and_visited)
{
    static const char *const adding[] = { "ADD_PUBLISH", "APPEND",    "APPENDED", "LIST",
                                          "PUSH",        "PUBLISHED", "ADD_CHECK" };
    struct actor adder;
    act_add_to(&adder, adding[_i]);
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 1);
    ck_assert_int_eq(actor_end(&adder), 0);
    ck_assert(adder.timeout.entry);
    ck_assert_int_eq(hwt_timeout_state(adder.timeout), HWT_CANCELLED);
    expect_visited(1, 0);
}
END_TEST

/*
 *     adder                           stop
 *     is to take an entry, RESERVE
 *                                     finds nothing
 *     sees the flag, withdraws it:
 *     refused
 */
START_TEST(what_is_added_after_stop_is_refused)
{
    struct actor adder;
    act_add_to(&adder, "RESERVE");
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 0);
    ck_assert_int_eq(actor_end(&adder), -ESHUTDOWN);
    ck_assert_ptr_null(adder.timeout.entry);
    expect_visited(0, 0);
}
END_TEST

/*
 *     stop                            adder
 *                                     it is PENDING: ADD_PUBLISH, ADD_CHECK
 *     sets the flag, STOP_WAKE, ...
 *                                     sees that: WITHDRAW
 *     finds it: END
 *                                     the one whose exchange is first ends it
 */
START_TEST(of_stop_and_its_adder_one_ends_it)
{
    struct actor adder, stopper;
    bool adder_first = _i % 2;
    act_add_to(&adder, _i / 2 ? "ADD_PUBLISH" : "ADD_CHECK");
    act_stop_to(&stopper, "STOP_WAKE");
    actor_go_to(&adder, "WITHDRAW");
    actor_go_to(&stopper, "END");
    if (adder_first)
        ck_assert_int_eq(actor_end(&adder), -ESHUTDOWN);
    ck_assert_int_eq(actor_end(&stopper), !adder_first);
    if (!adder_first)
        ck_assert_int_eq(actor_end(&adder), 0);
    expect_visited(!adder_first, 0);
}
END_TEST

/* The one that is pending, and due before this instant: its handle. */
static hwt_timeout find_pending_before(uint64_t instant)
{
    uint32_t number = 0, seat = 0;
    struct hwt_entry *entry;
    while ((entry = hwt_pool_walk(&timer->shared.pool, &number, &seat)) != NULL) {
        uint64_t state = hwt_entry_state(entry);
        if (hwt_phase(state) == HWT_PHASE_PENDING && hwt_entry_deadline(entry) < instant)
            return (hwt_timeout){ entry, hwt_generation(state) };
    }
    ck_abort_msg("none is pending");
}

static hwt_timeout find_pending(void)
{
    return find_pending_before(HWT_NEVER);
}

/*
 *     adder                           stop                      canceller
 *     has seen no stop: RESERVE
 *                                     has ended all: QUIET
 *     it is PENDING; sees the flag:
 *     WITHDRAW
 *                                                               has found it, and cancels it
 *     tells it, for nobody else will
 */
START_TEST(what_is_cancelled_behind_the_walk_is_told_by_its_adder)
{
    struct actor adder, stopper;
    act_add_to(&adder, "RESERVE");
    act_stop_to(&stopper, "QUIET");
    actor_go_to(&adder, "WITHDRAW");
    ck_assert(hwt_timeout_cancel(find_pending()));
    expect_fate(0, 0);
    ck_assert_int_eq(actor_end(&adder), 0);
    expect_fate(0, 1);
    ck_assert_int_eq(actor_end(&stopper), 0);
    ck_assert(adder.timeout.entry && !hwt_timeout_cancel(adder.timeout));
}
END_TEST

static char dumped[65536];

static void dump_it(hwt_timeout timeout, void *arg)
{
    count_cancelled(timeout, arg);
    must(hwt_timer_dump(timer, dumped, sizeof(dumped)) > 0);
}

/* The same; it asks for a dump then, and has no part of the wheel, which is another's. */
START_TEST(an_adder_that_tells_does_not_touch_the_wheel)
{
    static const hwt_task dumping = { dump_it, dump_it };
    struct actor adder, stopper;
    (void)add_with(&silent, &beside, AT(1000));
    drive(0);
    act_add(&adder, timer, &dumping, &fate, AT(10));
    actor_go_to(&adder, "ADD_CHECK");
    ck_assert(hwt_timeout_cancel(find_pending_before(AT(1000))));
    act_stop_to(&stopper, "STOP_WAKE");
    ck_assert_int_eq(actor_end(&adder), 0);
    ck_assert_ptr_nonnull(strstr(dumped, "stopped"));
    ck_assert_ptr_null(strstr(dumped, "bucket"));
    ck_assert_int_eq(actor_end(&stopper), 1);
}
END_TEST

static void stop_without_visitor(struct actor *stopper)
{
    stopper->answer = hwt_timer_stop(timer, NULL, NULL);
}

/*
 *     adder                           stop
 *     it is PENDING: WITHDRAW
 *                                     ends it: is about to tell it
 *     its exchange fails: accepted
 *                                     tells it, before it returns
 */
START_TEST(what_stop_ends_without_a_visitor_is_told_by_stop)
{
    struct actor adder, stopper;
    act_add_to(&adder, "ADD_CHECK");
    actor_begin(&stopper, stop_without_visitor);
    actor_go_to(&stopper, "END");
    actor_go_to(&adder, "WITHDRAW");
    (void)actor_go_on(&stopper, 1);
    ck_assert_int_eq(actor_end(&adder), 0);
    expect_fate(0, 0);
    ck_assert_int_eq(actor_end(&stopper), 1);
    expect_fate(0, 1);
}
END_TEST

/* Stop at each step while an adder comes to its end. */
START_TEST(whenever_it_is_added_it_has_one_end_or_is_refused)
{
    static const char *const stopping[] = { "STOP", "STOP_WAKE", "STOP_BARRIER", "STOP_WALK",
                                            "QUIET" };
    struct actor stopper;
    hwt_timeout timeout = { NULL, 0 };
    add_with(&silent, &beside, AT(10)); /* so that there is something to walk */
    act_stop_to(&stopper, stopping[_i]);
    int r = hwt_timer_new_timeout_at(timer, &counting, &fate, AT(10), &timeout);
    ck_assert(r == 0 || r == -ESHUTDOWN);
    ck_assert_int_eq(r, _i == 0 ? 0 : -ESHUTDOWN);
    ck_assert_int_eq(actor_end(&stopper), 1 + (r == 0));
    expect_visited(r == 0, 0);
}
END_TEST

/*
 *     adder                       driver                      stop
 *     it is PENDING, ADD_CHECK
 *                                 files it: FILE, or after
 *                                                             sets the flag
 *     withdraws it
 *                                 files it: it is nothing
 */
START_TEST(what_is_withdrawn_while_it_is_filed_never_runs)
{
    struct actor adder, driver, stopper;
    act_add_to(&adder, "ADD_CHECK");
    act_drive(&driver, (uint64_t)(_i / 2) * 11);
    actor_go_to(&driver, _i / 2 ? "LOOK" : _i % 2 ? "PARK_A" : "FILE");
    act_stop_to(&stopper, "STOP_WAKE");
    ck_assert_int_eq(actor_end(&adder), -ESHUTDOWN);
    actor_end(&driver);
    ck_assert_int_eq(actor_end(&stopper), 0);
    expect_visited(0, 0);
}
END_TEST

static void rearm_for_long(hwt_timeout timeout, void *arg)
{
    count_run(timeout, arg);
    if (fate.runs == 1)
        must(hwt_timeout_reschedule_at(timeout, AT(1)));
}

static const hwt_task rearming = { rearm_for_long, count_cancelled };

/*
 *     adder                       driver                      stop
 *     it is PENDING, for the same
 *     instant as ever: ADD_CHECK
 *                                 runs it; it re-arms itself
 *                                                             sets the flag
 *     must not withdraw it, for it
 *     has run: accepted
 *                                                             finds it
 */
START_TEST(what_has_run_and_rearmed_itself_is_not_withdrawn)
{
    struct actor adder, driver, stopper;
    act_add(&adder, timer, &rearming, &fate, AT(1));
    actor_go_to(&adder, "ADD_CHECK");
    act_drive(&driver, 2);
    actor_go_to(&driver, _i ? "PARK_READ" : "AGAIN");
    ck_assert_uint_eq(fate.runs, 1);
    act_stop_to(&stopper, "STOP_WAKE");
    ck_assert_int_eq(actor_end(&adder), 0);
    actor_end(&driver);
    ck_assert_int_eq(actor_end(&stopper), 1);
    ck_assert_uint_eq(fate.visited, 1);
    ck_assert_uint_eq(fate.runs, 1);
    fate.runs = 0; /* it has one end */
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
    hwt_timeout timeout = add_either(_i, AT(10));
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, "CANCEL");
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 1);
    ck_assert(!actor_end(&canceller));
    expect_visited(1, 0);
}
END_TEST

/*
 *     stop                            canceller
 *     has found it pending, END
 *                                     UNTOLD: true
 *     its exchange fails: tells that
 *     it was cancelled
 */
START_TEST(a_cancel_while_stop_walks_wins)
{
    struct actor stopper;
    hwt_timeout timeout = add_either(_i % 2, AT(10));
    act_stop_to(&stopper, _i / 2 ? "STOP_WALK" : "END");
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert_int_eq(actor_end(&stopper), 0);
    expect_visited(0, 1);
}
END_TEST

/*
 *     canceller                       stop
 *     PENDING -> UNTOLD, CANCEL_PUBLISH
 *                                     tells it
 *     says so: nobody looks
 */
START_TEST(what_is_cancelled_and_not_said_yet_is_told_by_stop)
{
    struct actor canceller;
    act_cancel(&canceller, add_either(_i, AT(10)));
    actor_go_to(&canceller, "CANCEL_PUBLISH");
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 0);
    expect_visited(0, 1);
    ck_assert(actor_end(&canceller));
    expect_visited(0, 1);
}
END_TEST

/*
 *     driver                      stop
 *     has read that it was
 *     cancelled: TELL,
 *     TELL_CANCELLED
 *                                 waits for the driver
 *     tells it
 *                                 it is told
 */
START_TEST(what_is_being_told_is_not_told_by_stop)
{
    struct actor driver, stopper;
    hwt_timeout timeout = add_filed(AT(10));
    ck_assert(hwt_timeout_cancel(timeout));
    act_drive(&driver, 1);
    actor_go_to(&driver, _i ? "TELL_CANCELLED" : "TELL");
    act_stop_to(&stopper, "STOP_WAKE");
    actor_let_go(&stopper);
    give_others_a_chance();
    actor_end(&driver);
    ck_assert_int_eq(actor_end(&stopper), 0);
    expect_visited(0, 1);
}
END_TEST

/* Without a visitor it is told that it was cancelled, by stop or by its canceller. */
START_TEST(of_stop_and_a_canceller_one_has_it_told)
{
    struct actor stopper;
    hwt_timeout timeout = add_either(_i % 2, AT(10));
    actor_begin(&stopper, stop_without_visitor);
    actor_go_to(&stopper, _i / 2 ? "TELL_CANCELLED" : "END");
    ck_assert_int_eq(hwt_timeout_cancel(timeout), _i / 2 == 0);
    ck_assert_int_eq(actor_end(&stopper), _i / 2);
    expect_visited(0, 1);
}
END_TEST

/*
 *     mover                           stop
 *     has seen it pending: MOVE; or
 *     has moved it: MOVE_PUBLISH
 *                                     ends it
 *     goes on
 */
START_TEST(what_is_being_moved_is_visited_once)
{
    struct actor mover;
    hwt_timeout timeout = add_either(_i % 2, AT(10));
    act_move(&mover, timeout, AT(5));
    actor_go_to(&mover, _i / 2 ? "MOVE_PUBLISH" : "MOVE");
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 1);
    expect_visited(1, 0);
    ck_assert_int_eq(actor_end(&mover), _i / 2);
    expect_visited(1, 0);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_CANCELLED);
}
END_TEST

START_TEST(what_is_moved_while_stop_walks_is_visited_once)
{
    struct actor stopper;
    hwt_timeout timeout = add_either(_i % 2, AT(10));
    act_stop_to(&stopper, _i / 2 ? "STOP_WALK" : "END");
    ck_assert(hwt_timeout_reschedule_at(timeout, AT(5)));
    ck_assert_int_eq(actor_end(&stopper), 1);
    expect_visited(1, 0);
}
END_TEST

/*
 *     stop                            canceller
 *     visits it, VISITED
 *                                     has seen VISITED: CANCEL_WAIT, WAIT
 *     CANCELLED, wakes it
 *                                     false
 */
START_TEST(who_waits_for_a_visit_is_woken_by_its_end)
{
    struct actor stopper, canceller;
    hwt_timeout timeout = add_filed(AT(10));
    act_stop_to(&stopper, "VISITED");
    act_cancel_sync(&canceller, timeout);
    actor_go_to(&canceller, _i ? "WAIT" : "CANCEL_WAIT");
    if (_i == 2) {
        actor_let_go(&canceller);
        give_others_a_chance();
    }
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_CANCELLED);
    ck_assert_int_eq(actor_end(&stopper), 1);
    ck_assert(!actor_end(&canceller));
    expect_visited(1, 0);
}
END_TEST

/* ---- a stream that is being compacted ---- */

/* So many that some add looks through what is unread; until one is refused. */
static void fill_stream(struct actor *adder)
{
    for (int i = 0; i < 3 * HWT_CHUNK_RECORDS && adder->answer == 0; i++)
        adder->answer = hwt_timer_new_timeout_at(timer, &counting, &beside, AT(10), NULL);
}

/*
 *     adder                           stop
 *     looks through what is unread:
 *     COMPACT, CUT
 *                                     ends all, and returns
 *     goes on; is refused
 */
START_TEST(stop_does_not_wait_for_who_compacts)
{
    struct actor adder, stopper;
    actor_begin(&adder, fill_stream);
    actor_go_to(&adder, _i ? "CUT" : "COMPACT");
    act_stop_to(&stopper, "STOP_WALK");
    ck_assert_int_ge(actor_end(&stopper), 2 * HWT_CHUNK_RECORDS);
    ck_assert_uint_eq(beside.visited, (uint64_t)stopper.answer);
    ck_assert_int_eq(actor_end(&adder), -ESHUTDOWN);
    ck_assert_uint_eq(beside.visited, (uint64_t)stopper.answer);
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
    static const char *const steps[] = { "STOP_WAKE", "STOP_BARRIER", "STOP_WALK", "END" };
    struct actor first, second;
    add_unread(AT(10));
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
    ck_assert(!timer->thread_runs);
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
    TCase *add = stage_case(suite, "add", stage_open, stage_close_stopped);
    tcase_add_loop_test(add, what_was_pending_before_stop_is_accepted_and_visited, 0, 7);
    tcase_add_test(add, what_is_added_after_stop_is_refused);
    tcase_add_loop_test(add, of_stop_and_its_adder_one_ends_it, 0, 4);
    tcase_add_test(add, what_is_cancelled_behind_the_walk_is_told_by_its_adder);
    tcase_add_test(add, an_adder_that_tells_does_not_touch_the_wheel);
    tcase_add_test(add, what_stop_ends_without_a_visitor_is_told_by_stop);
    tcase_add_loop_test(add, whenever_it_is_added_it_has_one_end_or_is_refused, 0, 5);
    tcase_add_loop_test(add, what_is_withdrawn_while_it_is_filed_never_runs, 0, 3);
    tcase_add_loop_test(add, what_has_run_and_rearmed_itself_is_not_withdrawn, 0, 2);
    TCase *cancel = stage_case(suite, "cancel", stage_open, stage_close_stopped);
    tcase_add_loop_test(cancel, a_cancel_that_saw_it_pending_does_not_win_once_stop_has, 0, 2);
    tcase_add_loop_test(cancel, a_cancel_while_stop_walks_wins, 0, 4);
    tcase_add_loop_test(cancel, what_is_cancelled_and_not_said_yet_is_told_by_stop, 0, 2);
    tcase_add_loop_test(cancel, what_is_being_told_is_not_told_by_stop, 0, 2);
    tcase_add_loop_test(cancel, of_stop_and_a_canceller_one_has_it_told, 0, 4);
    tcase_add_loop_test(cancel, what_is_being_moved_is_visited_once, 0, 4);
    tcase_add_loop_test(cancel, what_is_moved_while_stop_walks_is_visited_once, 0, 4);
    tcase_add_loop_test(cancel, who_waits_for_a_visit_is_woken_by_its_end, 0, 3);
    TCase *compact = stage_case(suite, "compact", stage_open, stage_close_stopped);
    tcase_add_loop_test(compact, stop_does_not_wait_for_who_compacts, 0, 2);
    TCase *twice = stage_case(suite, "twice", stage_open, stage_close_stopped);
    tcase_add_loop_test(twice, a_second_stop_waits_for_the_first, 0, 4);
    TCase *first = stage_case(suite, "first", NULL, NULL);
    tcase_add_test(first, no_worker_begins_after_stop);
    tcase_add_test(first, the_last_place_is_given_once);
    return run_suite(suite);
}
