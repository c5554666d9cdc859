/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A worker runs what it has slept for before it reads what was added meanwhile; and the order is the
 * same as without that. The pass is the driver's here, and the test says for which tick it would
 * have slept.
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

static void sleep_for(uint64_t tick, bool parked)
{
    (void)hwt_timer_next_tick(m.timer); /* all is filed */
    must(!hwt_stream_is_used(pending_stream()));
    m.timer->worker.parked_for = tick;
    m.timer->worker.has_parked = parked;
}

static void expect_order(size_t n)
{
    ck_assert_uint_eq(begun, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_eq(order[i], i);
}

/* More than a batch in tick 5; of the next ticks, and of tick 5 again, some that are not read
 * yet. */
START_TEST(what_it_has_slept_for_runs_before_it_reads)
{
    const bool parked = _i;
    for (size_t i = 0; i < MANY; i++)
        add(i, 5);
    add(MANY + 2, 6);
    sleep_for(5, parked);
    add(MANY + 3, 6);
    add(MANY, 5);
    add(MANY + 4, 7);
    add(MANY + 1, 5);
    ck_assert_uint_eq(manual_go(&m, 9 * TICK), MANY + 5);
    expect_order(MANY + 5);
    for (size_t i = 0; i < MANY + 5; i++)
        ck_assert_int_eq(was_unread[i], parked && i < MANY);
    ck_assert(!m.timer->worker.has_parked);
}
END_TEST

/* What is overdue when it wakes is of the tick that it has slept for, or of later ones; the first
 * of them comes first. */
START_TEST(what_is_for_later_waits_until_all_is_read)
{
    add(1, 6);
    add(2, 7);
    sleep_for(5, true);
    add(0, 5);
    add(3, 7);
    ck_assert_uint_eq(manual_go(&m, 9 * TICK), 4);
    expect_order(4);
}
END_TEST

/* It slept no longer than to this tick, but is awake before the tick is over. */
START_TEST(what_is_not_over_does_not_run)
{
    add(0, 5);
    sleep_for(5, true);
    ck_assert_uint_eq(manual_go(&m, 6 * TICK - 1), 0);
    ck_assert_uint_eq(manual_go(&m, 6 * TICK), 1);
}
END_TEST

START_TEST(what_is_cancelled_or_moved_meanwhile_does_not_run)
{
    hwt_timeout one, other;
    must(hwt_timer_new_timeout(m.timer, &noting, order, 5 * TICK, &one) == 0);
    must(hwt_timer_new_timeout(m.timer, &noting, order, 5 * TICK, &other) == 0);
    sleep_for(5, true);
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
    sleep_for(5, true);
    ck_assert_uint_ge(manual_go(&m, 9 * TICK), 3);
    (void)manual_go(&m, 10 * TICK);
    ck_assert_uint_eq(begun, 6);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(order[i], i);
        ck_assert_uint_eq(order[3 + i], MANY + i);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("first");
    TCase *tcase = unit_case(suite, "first", open_timer, close_timer);
    tcase_add_loop_test(tcase, what_it_has_slept_for_runs_before_it_reads, 0, 2);
    tcase_add_test(tcase, what_is_for_later_waits_until_all_is_read);
    tcase_add_test(tcase, what_is_not_over_does_not_run);
    tcase_add_test(tcase, what_is_cancelled_or_moved_meanwhile_does_not_run);
    tcase_add_test(tcase, what_it_adds_comes_behind_what_is_due);
    return run_suite(suite);
}
