/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How much the worker takes for too much, and when it rests: with many lanes, which are those of
 * threads that may have ended. */

#include "hwt/timer/timer.h"

#include "api_fixture.h"
#include "unit.h"

enum { LANES = 600, FILED = 20000, PASSES = 40 };

static manual m;
static ends fate;
static hwt_timeout filed[FILED];

static const hwt_task counted = { count_run, NULL };

static void open_timer(void)
{
    memset(&fate, 0, sizeof(fate));
    manual_open(&m, 0, HWT_MS(1), 64);
}

static void close_timer(void)
{
    manual_close(&m);
}

/* As many threads would, one after the other: each has said something, which is read. */
static void make_lanes(void)
{
    uint32_t own = hwt_thread_number;
    for (uint32_t number = 1; number <= LANES; number++) {
        hwt_thread_number = number;
        must(hwt_timeout_cancel(arm(m.timer, &counted, &fate, HWT_SEC(1))));
    }
    hwt_thread_number = own;
    ck_assert_uint_gt(hwt_lanes_count(&m.timer->shared.lanes), LANES);
}

static void pass_often(uint64_t *tick)
{
    for (int i = 0; i < PASSES; i++)
        manual_go(&m, HWT_MS(++*tick));
}

static uint64_t hints(void)
{
    return m.timer->worker.wheel.hints;
}

START_TEST(where_all_is_pending_there_is_nothing_to_throw_away)
{
    uint64_t tick = 0;
    make_lanes();
    for (int i = 0; i < FILED; i++)
        filed[i] = arm(m.timer, &counted, &fate, HWT_SEC(60) + HWT_MS(i));
    pass_often(&tick);
    ck_assert_uint_ge(hints(), FILED);
    ck_assert_uint_eq(m.timer->worker.upkeep_at, HWT_NEVER);
}
END_TEST

START_TEST(where_nothing_is_pending_it_is_thrown_away_and_then_the_worker_rests)
{
    uint64_t tick = 0;
    make_lanes();
    for (int i = 0; i < FILED; i++)
        filed[i] = arm(m.timer, &counted, &fate, HWT_SEC(60) + HWT_MS(i));
    pass_often(&tick);
    for (int i = 0; i < FILED; i++)
        must(hwt_timeout_cancel(filed[i]));
    pass_often(&tick);
    ck_assert_uint_le(hints(), HWT_HEAP_MAX);
    ck_assert_uint_eq(m.timer->worker.upkeep_at, HWT_NEVER);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("crowd");
    TCase *crowd = unit_case(suite, "crowd", open_timer, close_timer);
    tcase_add_test(crowd, where_all_is_pending_there_is_nothing_to_throw_away);
    tcase_add_test(crowd, where_nothing_is_pending_it_is_thrown_away_and_then_the_worker_rests);
    return run_suite(suite);
}
