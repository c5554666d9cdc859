/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A timer without a worker: advance, dispatch, next_tick and the descriptor. The clock is
 * set but for the descriptor, which sleeps by a real one.
 */

#include "api_fixture.h"

static manual m;

static void open_manual(void)
{
    manual_open(&m, HWT_SEC(5), HWT_MS(1), 64);
}

/* ---- advance and dispatch ---- */

START_TEST(advance_returns_how_many_it_ran)
{
    ends e = { 0 };
    for (uint64_t i = 0; i < 10; i++)
        arm(m.timer, &counting, &e, HWT_MS(i));
    ck_assert_uint_eq(manual_go(&m, HWT_MS(4)), 4);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(4)), 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(100)), 6);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(200)), 0);
    manual_close(&m);
}
END_TEST

START_TEST(dispatch_goes_by_the_clock_of_the_timer)
{
    ends e = { 0 };
    arm(m.timer, &counting, &e, HWT_MS(4));
    ck_assert_uint_eq(hwt_timer_dispatch(m.timer), 0);
    atomic_store(&m.now, m.start + HWT_MS(5) - 1);
    ck_assert_uint_eq(hwt_timer_dispatch(m.timer), 0);
    ck_assert_uint_eq(hwt_timer_now(m.timer), m.start + HWT_MS(5) - 1);
    atomic_store(&m.now, m.start + HWT_MS(5));
    ck_assert_uint_eq(hwt_timer_dispatch(m.timer), 1);
    manual_close(&m);
}
END_TEST

START_TEST(start_without_a_worker_is_nothing)
{
    ck_assert_int_eq(hwt_timer_start(m.timer), 0);
    ck_assert_int_eq(hwt_timer_start(m.timer), 0);
    manual_close(&m);
}
END_TEST

typedef struct recursion {
    uint64_t advanced, dispatched, next;
    ends other;
} recursion;

static void drive_from_inside(hwt_timeout timeout, void *arg)
{
    recursion *r = arg;
    (void)timeout;
    r->advanced = hwt_timer_advance(m.timer, m.start + HWT_SEC(100));
    r->dispatched = hwt_timer_dispatch(m.timer);
    r->next = hwt_timer_next_tick(m.timer);
}

START_TEST(advance_from_a_task_does_nothing)
{
    static const hwt_task task = { drive_from_inside, NULL };
    recursion r = { 1, 1, 1, { 0 } };
    arm(m.timer, &task, &r, 0);
    arm(m.timer, &counting, &r.other, 0);
    arm(m.timer, &counting, &r.other, HWT_SEC(1));
    ck_assert_uint_eq(manual_go(&m, HWT_MS(1)), 2);
    ck_assert_uint_eq(r.advanced, 0);
    ck_assert_uint_eq(r.dispatched, 0);
    ck_assert_uint_eq(r.next, HWT_NEVER);
    ck_assert_uint_eq(r.other.runs, 1);
    manual_close(&m);
}
END_TEST

typedef struct chain {
    uint64_t runs;
    uint64_t delay;
    int r;
} chain;

static void add_next(hwt_timeout timeout, void *arg);
static const hwt_task chained = { add_next, NULL };

static void add_next(hwt_timeout timeout, void *arg)
{
    chain *c = arg;
    (void)timeout;
    c->runs++;
    c->r = hwt_timer_new_timeout(m.timer, &chained, c, c->delay, NULL);
}

START_TEST(a_task_that_adds_with_delay_0_runs_in_the_next_tick_not_in_this)
{
    chain c = { 0 };
    arm(m.timer, &chained, &c, 0);
    for (uint64_t t = 1; t <= 100; t++) {
        ck_assert_uint_eq(manual_go(&m, HWT_MS(t)), 1);
        ck_assert_int_eq(c.r, 0);
    }
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(1)), 1);
    ck_assert_uint_eq(c.runs, 101);
    manual_close(&m);
}
END_TEST

/* ---- next_tick ---- */

START_TEST(next_tick_is_never_where_nothing_is_pending)
{
    ends e = { 0 };
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_NEVER);
    arm(m.timer, &counting, &e, HWT_NEVER);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_NEVER);
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(5));
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), m.start + HWT_MS(6));
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_NEVER);
    ck_assert_uint_eq(e.cancelled, 1);
    manual_close(&m);
}
END_TEST

START_TEST(next_tick_is_the_instant_at_which_the_next_one_runs)
{
    uint64_t seed = test_seed();
    ends e = { 0 };
    for (int i = 0; i < 300; i++) {
        uint64_t now = m.now - m.start;
        arm(m.timer, &counting, &e, test_random(&seed) % HWT_SEC(10));
        uint64_t next = hwt_timer_next_tick(m.timer) - m.start;
        ck_assert_uint_gt(next, now);
        ck_assert_uint_eq(manual_go(&m, next - 1), 0);
        ck_assert_uint_eq(manual_go(&m, next), 1);
    }
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_NEVER);
    manual_close(&m);
}
END_TEST

/* However many were cancelled before it: more than one look goes by, and so few that they stay filed
 * until then. Each loop: with and without a descriptor, by which a loop sleeps. */
START_TEST(next_tick_is_not_that_of_many_that_were_cancelled)
{
    enum { MANY = 7000 };
    static const hwt_task quiet = { count_run, NULL };
    static hwt_timeout many[MANY];
    ends e = { 0 };
    if (_i)
        ck_assert_int_ge(hwt_timer_fd(m.timer), 0);
    for (int i = 0; i < MANY; i++)
        many[i] = arm(m.timer, &quiet, &e, HWT_MS(5));
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), m.start + HWT_MS(6));
    for (int i = 0; i < MANY; i++)
        must(hwt_timeout_cancel(many[i]));
    arm(m.timer, &quiet, &e, HWT_MS(9));
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), m.start + HWT_MS(10));
    manual_close(&m);
}
END_TEST

START_TEST(a_loop_by_next_tick_visits_only_ticks_with_something_due)
{
    ends e = { 0 };
    uint64_t visits = 0, next;
    for (uint64_t i = 0; i < 500; i++)
        arm(m.timer, &counting, &e, HWT_MS(i / 5 * 777));
    while ((next = hwt_timer_next_tick(m.timer)) != HWT_NEVER) {
        ck_assert_uint_eq(manual_go(&m, next - m.start), 5);
        visits++;
    }
    ck_assert_uint_eq(visits, 100);
    ck_assert_uint_eq(e.runs, 500);
    manual_close(&m);
}
END_TEST

START_TEST(next_tick_of_one_pushed_back_is_no_later_than_its_tick)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(5));
    uint64_t next, visits = 0;
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), m.start + HWT_MS(6));
    ck_assert(hwt_timeout_reschedule(timeout, HWT_MS(400)));
    while ((next = hwt_timer_next_tick(m.timer)) != HWT_NEVER) {
        ck_assert_uint_le(next, m.start + HWT_MS(401));
        manual_go(&m, next - m.start);
        visits++;
    }
    ck_assert_uint_eq(e.runs, 1);
    ck_assert_uint_eq(m.now, m.start + HWT_MS(401));
    ck_assert_uint_le(visits, 2);
    manual_close(&m);
}
END_TEST

/* ---- The descriptor ---- */

static hwt_timer *create_for_loop(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    options.tick_duration = HWT_MS(1);
    return create(&options);
}

/* An event loop until so many have run; each sleep must end in good time. */
static uint64_t loop_until(hwt_timer *timer, int fd, shared_count *count, uint64_t wanted)
{
    uint64_t turns = 0;
    for (; *count < wanted; turns++) {
        ck_assert(readable(fd, 20000));
        hwt_timer_dispatch(timer);
    }
    return turns;
}

START_TEST(the_descriptor_is_the_same_at_each_call_and_closed_by_destroy)
{
    hwt_timer *timer = create_for_loop();
    int fd = hwt_timer_fd(timer);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(hwt_timer_fd(timer), fd);
    ck_assert(!readable(fd, 0));
    hwt_timer_destroy(timer);
    errno = 0;
    ck_assert_int_eq(close(fd), -1);
    ck_assert_int_eq(errno, EBADF);
}
END_TEST

START_TEST(a_loop_that_sleeps_on_the_descriptor_runs_everything)
{
    ends e = { 0 };
    hwt_timer *timer = create_for_loop();
    int fd = hwt_timer_fd(timer);
    for (uint64_t i = 0; i < 50; i++)
        arm(timer, &counting, &e, HWT_MS(i));
    uint64_t turns = loop_until(timer, fd, &e.runs, 50);
    ck_assert_uint_le(turns, 400); /* it does not spin */
    ck_assert(!readable(fd, 0));
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(a_loop_may_go_by_the_clock_that_counts_suspend)
{
    ends e = { 0 };
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    options.tick_duration = HWT_MS(1);
    options.clock_id = CLOCK_BOOTTIME;
    hwt_timer *timer = create(&options);
    int fd = hwt_timer_fd(timer);
    uint64_t deadline = hwt_timer_now(timer) + HWT_MS(20);
    must(hwt_timer_new_timeout_at(timer, &counting, &e, deadline, NULL) == 0);
    (void)loop_until(timer, fd, &e.runs, 1);
    ck_assert_uint_ge(hwt_timer_now(timer), deadline);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(what_was_added_before_the_descriptor_was_asked_for_counts_too)
{
    ends e = { 0 };
    hwt_timer *timer = create_for_loop();
    arm(timer, &counting, &e, HWT_MS(3));
    (void)loop_until(timer, hwt_timer_fd(timer), &e.runs, 1);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(the_descriptor_is_not_readable_long_before_the_tick)
{
    ends e = { 0 };
    hwt_timer *timer = create_for_loop();
    int fd = hwt_timer_fd(timer);
    arm(timer, &counting, &e, HWT_SEC(3600));
    (void)hwt_timer_next_tick(timer);
    ck_assert(!readable(fd, 20));
    ck_assert_uint_eq(hwt_timer_dispatch(timer), 0);
    ck_assert(!readable(fd, 20));
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(a_reschedule_to_earlier_makes_it_readable)
{
    ends e = { 0 };
    hwt_timer *timer = create_for_loop();
    int fd = hwt_timer_fd(timer);
    hwt_timeout timeout = arm(timer, &counting, &e, HWT_SEC(3600));
    (void)hwt_timer_next_tick(timer);
    ck_assert(hwt_timeout_reschedule(timeout, HWT_MS(2)));
    (void)loop_until(timer, fd, &e.runs, 1);
    ck_assert_uint_eq(e.runs, 1);
    hwt_timer_destroy(timer);
}
END_TEST

typedef struct far_adder {
    hwt_timer *timer;
    ends *ends;
    hwt_timeout timeout;
    uint64_t delay;
    shared_count r;
} far_adder;

static void *add_from_elsewhere(void *data)
{
    far_adder *a = data;
    a->r = (uint64_t)hwt_timer_new_timeout(a->timer, &counting, a->ends, a->delay, NULL);
    return NULL;
}

/* The loop sleeps for an hour, or for ever; an add from another thread ends that. */
static void add_wakes_the_loop(bool something_pending)
{
    ends e = { 0 }, late = { 0 };
    hwt_timer *timer = create_for_loop();
    far_adder adder = { .timer = timer, .ends = &e, .delay = HWT_MS(5) };
    int fd = hwt_timer_fd(timer);
    if (something_pending)
        arm(timer, &counting, &late, HWT_SEC(3600));
    for (int i = 1; i <= 20; i++) {
        hwt_timer_dispatch(timer);
        pthread_t thread = spawn(add_from_elsewhere, &adder);
        (void)loop_until(timer, fd, &e.runs, (uint64_t)i);
        join(thread);
        ck_assert_uint_eq(adder.r, 0);
    }
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(late.cancelled, something_pending);
}

START_TEST(an_add_from_another_thread_makes_it_readable)
{
    add_wakes_the_loop(false);
    add_wakes_the_loop(true);
}
END_TEST

static void *cancel_elsewhere(void *data)
{
    far_adder *a = data;
    a->r = hwt_timeout_cancel(a->timeout);
    return NULL;
}

START_TEST(a_cancel_is_told_by_the_loop_within_a_tick)
{
    ends e = { 0 };
    hwt_timer *timer = create_for_loop();
    int fd = hwt_timer_fd(timer);
    far_adder a = { .timer = timer, .timeout = arm(timer, &counting, &e, HWT_SEC(3600)) };
    hwt_timer_dispatch(timer);
    pthread_t thread = spawn(cancel_elsewhere, &a);
    (void)loop_until(timer, fd, &e.cancelled, 1);
    join(thread);
    ck_assert_uint_eq(a.r, 1);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(with_a_set_clock_the_descriptor_goes_by_the_distance)
{
    ends e = { 0 };
    int fd = hwt_timer_fd(m.timer);
    ck_assert_int_ge(fd, 0);
    arm(m.timer, &counting, &e, HWT_MS(2));
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), m.start + HWT_MS(3));
    ck_assert(readable(fd, 20000)); /* 3 ms of real time after that call */
    ck_assert_uint_eq(e.runs, 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(3)), 1);
    ck_assert(!readable(fd, 0));
    manual_close(&m);
}
END_TEST

/* ---- */

static void add_driving(Suite *suite)
{
    TCase *tcase = add_opened_case(suite, "driving", open_manual);
    tcase_add_test(tcase, advance_returns_how_many_it_ran);
    tcase_add_test(tcase, dispatch_goes_by_the_clock_of_the_timer);
    tcase_add_test(tcase, start_without_a_worker_is_nothing);
    tcase_add_test(tcase, advance_from_a_task_does_nothing);
    tcase_add_test(tcase, a_task_that_adds_with_delay_0_runs_in_the_next_tick_not_in_this);
    tcase_add_test(tcase, next_tick_is_never_where_nothing_is_pending);
    tcase_add_test(tcase, next_tick_is_the_instant_at_which_the_next_one_runs);
    tcase_add_loop_test(tcase, next_tick_is_not_that_of_many_that_were_cancelled, 0, 2);
    tcase_add_test(tcase, a_loop_by_next_tick_visits_only_ticks_with_something_due);
    tcase_add_test(tcase, next_tick_of_one_pushed_back_is_no_later_than_its_tick);
    tcase_add_test(tcase, with_a_set_clock_the_descriptor_goes_by_the_distance);
}

static void add_descriptor(Suite *suite)
{
    TCase *tcase = add_case(suite, "descriptor");
    tcase_add_test(tcase, the_descriptor_is_the_same_at_each_call_and_closed_by_destroy);
    tcase_add_test(tcase, a_loop_that_sleeps_on_the_descriptor_runs_everything);
    tcase_add_test(tcase, a_loop_may_go_by_the_clock_that_counts_suspend);
    tcase_add_test(tcase, what_was_added_before_the_descriptor_was_asked_for_counts_too);
    tcase_add_test(tcase, the_descriptor_is_not_readable_long_before_the_tick);
    tcase_add_test(tcase, a_reschedule_to_earlier_makes_it_readable);
    tcase_add_test(tcase, an_add_from_another_thread_makes_it_readable);
    tcase_add_test(tcase, a_cancel_is_told_by_the_loop_within_a_tick);
}

int main(void)
{
    Suite *suite = suite_create("api: loop");
    add_driving(suite);
    add_descriptor(suite);
    return run_suite(suite);
}
