/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What was added after the worker's last look takes its turn among what is filed, tick by tick. A
 * worker runs what it has slept for before it reads; each test but the last is also done as it would.
 */

#include "hwt/timer/timer.h"

#include "api_fixture.h"
#include "unit.h"

#define TICK HWT_MS(1)

enum { MANY = 200 };

static manual m;
static size_t order[2 * MANY];
static size_t begun;
static bool was_unread[2 * MANY];
static bool adds; /* in its first run each adds one more, overdue */

static struct hwt_stream *pending_stream(void)
{
    return &hwt_lane_own(&m.timer->shared.lanes)->pending;
}

static void note_run(hwt_timeout timeout, void *arg);
static const hwt_task noting = { note_run, NULL };

static void add(size_t number, uint64_t tick)
{
    must(hwt_timer_new_timeout_at(m.timer, &noting, (char *)order + number, m.start + tick * TICK,
                                  NULL) == 0);
}

static void note_run(hwt_timeout timeout, void *arg)
{
    size_t number = (size_t)((char *)arg - (char *)order);
    (void)timeout;
    was_unread[begun] = hwt_stream_is_used(pending_stream());
    order[begun++] = number;
    if (adds && number < MANY)
        add(number + MANY, 0);
}

static void open_timer(void)
{
    begun = 0;
    adds = false;
    manual_open(&m, HWT_SEC(1), TICK, 8);
}

static void close_timer(void)
{
    manual_close(&m);
}

static void file_all(void)
{
    (void)hwt_timer_next_tick(m.timer);
    must(!hwt_stream_is_used(pending_stream()));
}

/* The pass is the driver's here. A worker's own thread would have slept until that tick. */
static void file_all_and_park_for(uint64_t tick)
{
    file_all();
    m.timer->worker.parked_for = tick;
}

static void expect_order(size_t n)
{
    ck_assert_uint_eq(begun, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_eq(order[i], i);
}

/* More than a batch in tick 5; of the next ticks, and of tick 5 again, some that are not read
 * yet. */
START_TEST(what_is_unread_comes_behind_what_is_filed_for_its_tick)
{
    const bool parked = _i;
    for (size_t i = 0; i < MANY; i++)
        add(i, 5);
    add(MANY + 2, 6);
    file_all_and_park_for(parked ? 5 : 0);
    add(MANY + 3, 6);
    add(MANY, 5);
    add(MANY + 4, 7);
    add(MANY + 1, 5);
    ck_assert_uint_eq(manual_go(&m, 9 * TICK), MANY + 5);
    expect_order(MANY + 5);
    for (size_t i = 0; i < MANY + 5; i++)
        ck_assert_int_eq(was_unread[i], parked && i < MANY);
}
END_TEST

START_TEST(what_is_unread_for_an_earlier_tick_comes_first)
{
    add(1, 6);
    add(2, 7);
    file_all_and_park_for(_i ? 5 : 0);
    add(0, 5);
    add(3, 7);
    ck_assert_uint_eq(manual_go(&m, 9 * TICK), 4);
    expect_order(4);
}
END_TEST

START_TEST(what_is_not_over_does_not_run)
{
    add(0, 5);
    file_all_and_park_for(_i ? 5 : 0);
    ck_assert_uint_eq(manual_go(&m, 6 * TICK - 1), 0);
    ck_assert_uint_eq(manual_go(&m, 6 * TICK), 1);
}
END_TEST

START_TEST(what_is_cancelled_or_moved_meanwhile_does_not_run)
{
    hwt_timeout one, other;
    must(hwt_timer_new_timeout(m.timer, &noting, order, 5 * TICK, &one) == 0);
    must(hwt_timer_new_timeout(m.timer, &noting, order, 5 * TICK, &other) == 0);
    file_all_and_park_for(_i ? 5 : 0);
    must(hwt_timeout_cancel(one) && hwt_timeout_reschedule(other, 20 * TICK));
    ck_assert_uint_eq(manual_go(&m, 9 * TICK), 0);
    ck_assert_uint_eq(manual_go(&m, 30 * TICK), 1);
}
END_TEST

/* It ends, though each adds one that is overdue. */
START_TEST(what_it_adds_comes_behind_what_is_due)
{
    adds = true;
    for (size_t i = 0; i < 3; i++)
        add(i, 5);
    file_all_and_park_for(_i ? 5 : 0);
    ck_assert_uint_ge(manual_go(&m, 9 * TICK), 3);
    (void)manual_go(&m, 10 * TICK);
    ck_assert_uint_eq(begun, 6);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(order[i], i);
        ck_assert_uint_eq(order[3 + i], MANY + i);
    }
}
END_TEST

/* The stream is claimed, as by a producer that compacts. Nothing of the tick before stays open, for it
 * was handled while the stream could be read. */
START_TEST(what_could_not_be_read_is_looked_at_when_the_tick_ends)
{
    add(1, 7);
    ck_assert_uint_eq(manual_go(&m, 5 * TICK), 0);
    must(hwt_stream_claim(pending_stream()));
    add(0, 5);
    ck_assert_uint_eq(manual_go(&m, 5 * TICK + 1), 0);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), m.start + 6 * TICK);
    hwt_stream_release(pending_stream());
    ck_assert_uint_eq(manual_go(&m, 6 * TICK), 1);
    ck_assert_uint_eq(manual_go(&m, 8 * TICK), 1);
    expect_order(2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unread: order");
    TCase *tcase = unit_case(suite, "order", open_timer, close_timer);
    tcase_add_loop_test(tcase, what_is_unread_comes_behind_what_is_filed_for_its_tick, 0, 2);
    tcase_add_loop_test(tcase, what_is_unread_for_an_earlier_tick_comes_first, 0, 2);
    tcase_add_loop_test(tcase, what_is_not_over_does_not_run, 0, 2);
    tcase_add_loop_test(tcase, what_is_cancelled_or_moved_meanwhile_does_not_run, 0, 2);
    tcase_add_loop_test(tcase, what_it_adds_comes_behind_what_is_due, 0, 2);
    tcase_add_test(tcase, what_could_not_be_read_is_looked_at_when_the_tick_ends);
    return run_suite(suite);
}
