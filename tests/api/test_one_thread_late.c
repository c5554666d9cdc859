/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * With HWT_ONE_THREAD a timeout is filed as late as it can be: when one that was not filed may be
 * due, when the timer is asked what comes next, or when there are many. None of it can be seen, but
 * in what it costs.
 */

#include "api_fixture.h"
#include "one_thread.h"

static manual m;
static ends e;

static void open_with(uint32_t flags)
{
    hwt_options options = HWT_OPTIONS_INIT;
    e = (ends){ 0 };
    options.tick_duration = HWT_MS(1);
    options.ticks_per_wheel = 64;
    options.flags = flags;
    manual_open_with(&m, HWT_SEC(3), options);
}

static void open_late(void)
{
    open_with(HWT_ONE_THREAD);
}

static const hwt_task quiet = { count_run, NULL };

static hwt_timeout in_ms(uint64_t ms)
{
    return arm(m.timer, &quiet, &e, HWT_MS(ms));
}

static void expect_next(uint64_t ms)
{
    uint64_t next = ms == HWT_NEVER ? HWT_NEVER : m.start + HWT_MS(ms + 1);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), next);
}

/* ---- what comes next ---- */

START_TEST(what_comes_next_is_known_after_each_step)
{
    open_late();
    expect_next(HWT_NEVER);
    hwt_timeout late = in_ms(500);
    expect_next(500);
    hwt_timeout soon = in_ms(20);
    hwt_timeout later = in_ms(700);
    expect_next(20);
    must(hwt_timeout_cancel(soon));
    expect_next(500);
    must(hwt_timeout_cancel(late));
    in_ms(600);
    expect_next(600);
    must(hwt_timeout_reschedule(later, HWT_MS(30)));
    expect_next(30);
    must(hwt_timeout_cancel(later));
    expect_next(600);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(601)), 1);
    expect_next(HWT_NEVER);
    manual_close(&m);
}
END_TEST

/* The entry of one that was filed is used again, by one that is not filed yet. */
START_TEST(what_was_cancelled_is_not_next_though_its_memory_is_used_again)
{
    open_late();
    hwt_timeout first = in_ms(10);
    expect_next(10);
    must(hwt_timeout_cancel(first));
    hwt_timeout second = in_ms(900);
    ck_assert_ptr_eq(second.entry, first.entry);
    expect_next(900);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(899)), 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(901)), 1);
    manual_close(&m);
}
END_TEST

START_TEST(what_comes_and_goes_between_two_passes_is_never_filed)
{
    open_late();
    in_ms(60000);
    expect_next(60000);
    uint64_t before = stats_of(m.timer).memory;
    for (int i = 0; i < 3000; i++)
        must(hwt_timeout_cancel(in_ms(100 + (uint64_t)i)));
    expect_next(60000);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(50)), 0);
    /* Filed, each would have had a bucket grow, or a hint. */
    ck_assert_uint_le(stats_of(m.timer).memory, before + 128 * 1024);
    manual_close(&m);
}
END_TEST

/* ---- what is due ---- */

static unsigned order[8], begun;

static void note_order(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    order[begun++] = *(const unsigned *)arg;
}

static const hwt_task noting = { note_order, NULL };

/* Two of one tick, of which one is filed before the other is added; and one of a tick before that,
 * which comes last. */
START_TEST(what_was_filed_sooner_or_later_runs_in_order)
{
    static const unsigned names[] = { 0, 1, 2, 3 };
    open_late();
    begun = 0;
    arm(m.timer, &noting, (void *)&names[1], HWT_MS(10));
    expect_next(10);
    arm(m.timer, &noting, (void *)&names[2], HWT_MS(10));
    hwt_timeout moved = arm(m.timer, &noting, (void *)&names[0], HWT_MS(40));
    arm(m.timer, &noting, (void *)&names[3], HWT_MS(11));
    must(hwt_timeout_reschedule(moved, HWT_MS(9)));
    ck_assert_uint_eq(manual_go(&m, HWT_MS(12)), 4);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_uint_eq(order[i], i);
    manual_close(&m);
}
END_TEST

/* Moved to earlier, and from there to later, before either is filed. */
START_TEST(what_is_moved_before_it_is_filed_runs_at_its_last_deadline)
{
    open_late();
    hwt_timeout one = arm(m.timer, &counting, &e, HWT_MS(50));
    if (_i & 1)
        expect_next(50);
    must(hwt_timeout_reschedule(one, HWT_MS(10)));
    if (_i & 2)
        expect_next(10);
    must(hwt_timeout_reschedule(one, HWT_MS(30)));
    ck_assert_uint_eq(manual_go(&m, HWT_MS(30)), 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(31)), 1);
    ck_assert_uint_eq(e.runs, 1);
    manual_close(&m);
}
END_TEST

/* A pass that is cut short leaves what is due for the next one; what is added then comes behind. */
/* What comes and goes between makes the timer look through what it has noted, and leave out some. */
START_TEST(what_is_moved_to_earlier_is_noted_though_much_comes_and_goes_since)
{
    hwt_timeout moved[100], gone[1000];
    open_late();
    for (int i = 0; i < 100; i++)
        moved[i] = in_ms(9000);
    for (int k = 0; k < 10; k++) {
        for (int i = 0; i < 100; i++)
            must(hwt_timeout_reschedule(moved[i], HWT_MS(5000 - 400 * k + i)));
        for (int i = 0; i < 1000; i++)
            gone[i] = in_ms(60000);
        for (int i = 0; i < 1000; i++)
            must(hwt_timeout_cancel(gone[i]));
    }
    ck_assert_uint_eq(manual_go(&m, HWT_MS(1400)), 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(1500)), 100);
    manual_close(&m);
}
END_TEST

START_TEST(what_is_added_after_a_pass_that_was_cut_short_comes_behind)
{
    static const unsigned names[] = { 0, 1, 2, 3 };
    open_late();
    begun = 0;
    for (unsigned i = 0; i < 3; i++)
        arm(m.timer, &noting, (void *)&names[i], HWT_MS(i));
    atomic_store(&m.now, m.start + HWT_MS(10));
    ck_assert_uint_eq(hwt_timer_advance_some(m.timer, m.start + HWT_MS(10), 1), 1);
    arm(m.timer, &noting, (void *)&names[3], 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(11)), 3);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_uint_eq(order[i], i);
    manual_close(&m);
}
END_TEST

/* More than may wait: a pass files them, though nothing is due. */
START_TEST(many_are_filed_by_the_next_pass)
{
    enum { MANY = 200000 };
    open_late();
    for (uint64_t i = 0; i < MANY; i++)
        arm(m.timer, &counting, &e, HWT_MS(1000 + i % 1000));
    uint64_t before = stats_of(m.timer).memory;
    ck_assert_uint_eq(manual_go(&m, HWT_MS(1)), 0);
    ck_assert_uint_lt(stats_of(m.timer).memory, before); /* a hint is less than a record */
    ck_assert_uint_eq(manual_go(&m, HWT_MS(1500)), MANY / 2);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(2001)), MANY / 2);
    manual_close(&m);
}
END_TEST

/* Two that are moved to and fro say so thousands of times, and nobody dispatches; what was added
 * behind them keeps its order, whatever memory it is in. With threads, too. */
START_TEST(others_keep_their_order_though_two_are_moved_to_and_fro)
{
    enum { TIMES = 20000 };
    static const unsigned names[] = { 0, 1 };
    open_with(_i ? HWT_ONE_THREAD : 0);
    begun = 0;
    hwt_timeout one = in_ms(60000), other = in_ms(60000);
    hwt_timeout p = in_ms(10), q = in_ms(10);
    must(hwt_timeout_cancel(p) && hwt_timeout_cancel(q));
    arm(m.timer, &noting, (void *)&names[0], HWT_MS(100));
    arm(m.timer, &noting, (void *)&names[1], HWT_MS(100));
    for (uint64_t i = 0; i < TIMES; i++) {
        uint64_t delay = HWT_SEC(i % 2 ? 60 : 50);
        must(hwt_timeout_reschedule(one, delay) && hwt_timeout_reschedule(other, delay));
    }
    ck_assert_uint_le(stats_of(m.timer).memory, UINT64_C(1) << 20);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(200)), 2);
    ck_assert(order[0] == 0 && order[1] == 1);
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(60)), 0);
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(61)), 2);
    manual_close(&m);
}
END_TEST

START_TEST(a_dump_shows_what_is_not_filed)
{
    static char dump[4096];
    open_late();
    in_ms(10);
    ck_assert_int_gt(hwt_timer_dump(m.timer, dump, sizeof(dump)), 0);
    ck_assert_ptr_nonnull(strstr(dump, "1 pending, 1 filed in 1 buckets"));
    ck_assert_ptr_nonnull(strstr(dump, "next wake: tick 10,"));
    manual_close(&m);
}
END_TEST

START_TEST(what_is_not_filed_is_left_over_by_stop)
{
    open_late();
    arm(m.timer, &counting, &e, HWT_MS(10));
    expect_next(10);
    arm(m.timer, &counting, &e, HWT_MS(20));
    ck_assert_int_eq(hwt_timer_stop(m.timer, count_visit, NULL), 2);
    ck_assert_uint_eq(e.visited, 2);
    manual_close(&m);
}
END_TEST

/* ---- memory: what is cancelled is used again at once, and nobody dispatches ---- */

/* A call of the loop, after which the statistics know what the wheel holds. */
static uint64_t memory_after_a_turn(hwt_timer *timer)
{
    (void)hwt_timer_dispatch(timer);
    return stats_of(timer).memory;
}

START_TEST(arming_and_cancelling_takes_no_memory)
{
    hwt_timer *timer = create_driven(HWT_ONE_THREAD, HWT_MS(1));
    for (int i = 0; i < 2000000; i++)
        must(hwt_timeout_cancel(arm(timer, &gated, NULL, HWT_SEC(60))));
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    ck_assert_uint_le(memory_after_a_turn(timer), UINT64_C(1) << 20);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(nor_does_it_with_a_limit_of_what_may_be_pending)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER | HWT_ONE_THREAD;
    options.tick_duration = HWT_MS(1);
    options.max_pending = 100;
    hwt_timer *timer = create(&options);
    for (int i = 0; i < 1000000; i++)
        must(hwt_timeout_cancel(arm(timer, &gated, NULL, HWT_SEC(60))));
    ck_assert_uint_le(memory_after_a_turn(timer), UINT64_C(1) << 20);
    hwt_timer_destroy(timer);
}
END_TEST

/* One that is far away, now a little nearer, now further, and one that is moved between soon and
 * late. */
START_TEST(moving_to_and_fro_takes_no_memory)
{
    hwt_timer *timer = create_driven(HWT_ONE_THREAD, HWT_MS(1));
    hwt_timeout far = arm(timer, &gated, NULL, 30 * 24 * HWT_SEC(3600));
    hwt_timeout near = arm(timer, &gated, NULL, HWT_SEC(60));
    for (int i = 0; i < 300000; i++) {
        must(hwt_timeout_reschedule(far, (i % 2 ? 30 : 29) * 24 * HWT_SEC(3600)));
        must(hwt_timeout_reschedule(near, HWT_SEC(i % 2 ? 60 : 50) - (uint64_t)i));
    }
    ck_assert_uint_eq(hwt_timer_pending(timer), 2);
    ck_assert_uint_le(memory_after_a_turn(timer), UINT64_C(1) << 20);
    hwt_timer_destroy(timer);
}
END_TEST

/* Ten thousand are pending at any time, each for a while, and nobody dispatches. */
START_TEST(nor_do_ten_thousand_that_come_and_go)
{
    enum { WINDOW = 10000 };
    static hwt_timeout window[WINDOW];
    hwt_timer *timer = create_driven(HWT_ONE_THREAD, HWT_MS(1));
    for (int i = 0; i < 2000000; i++) {
        (void)hwt_timeout_cancel(window[i % WINDOW]);
        window[i % WINDOW] = arm(timer, &gated, NULL, HWT_SEC(60));
    }
    ck_assert_uint_eq(hwt_timer_pending(timer), WINDOW);
    ck_assert_uint_le(memory_after_a_turn(timer), UINT64_C(3) << 20);
    memset(window, 0, sizeof(window));
    hwt_timer_destroy(timer);
}
END_TEST

static void again_in_a_tick(hwt_timeout timeout, void *arg)
{
    (void)arg;
    must(hwt_timeout_repeat(timeout, HWT_MS(1)));
}

/* A part of it in each tick, beside what is due there. */
START_TEST(memory_goes_back_though_something_is_due_in_each_tick)
{
    enum { MANY = 200000 };
    static const hwt_task ticking = { again_in_a_tick, NULL };
    static hwt_timeout many[MANY];
    open_with(_i ? HWT_ONE_THREAD : 0);
    arm(m.timer, &ticking, NULL, HWT_MS(1));
    for (int i = 0; i < MANY; i++)
        many[i] = in_ms(60000);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(2)), 1);
    for (int i = 0; i < MANY; i++)
        must(hwt_timeout_cancel(many[i]));
    uint64_t before = stats_of(m.timer).memory, most = 0;
    ck_assert_uint_ge(before, MANY * 32);
    for (uint64_t ms = 3; ms < 500; ms++) {
        must(manual_go(&m, HWT_MS(ms)) == 1);
        uint64_t memory = stats_of(m.timer).memory;
        most = before > memory && before - memory > most ? before - memory : most;
        before = memory;
    }
    ck_assert_uint_le(most, UINT64_C(5) << 20);
    ck_assert_uint_lt(before, MANY * 16);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: HWT_ONE_THREAD files late");
    TCase *next = add_case(suite, "next");
    tcase_add_test(next, what_comes_next_is_known_after_each_step);
    tcase_add_test(next, what_was_cancelled_is_not_next_though_its_memory_is_used_again);
    tcase_add_test(next, what_comes_and_goes_between_two_passes_is_never_filed);
    TCase *due = add_case(suite, "due");
    tcase_add_test(due, what_was_filed_sooner_or_later_runs_in_order);
    tcase_add_loop_test(due, what_is_moved_before_it_is_filed_runs_at_its_last_deadline, 0, 4);
    tcase_add_test(due, what_is_moved_to_earlier_is_noted_though_much_comes_and_goes_since);
    tcase_add_test(due, what_is_added_after_a_pass_that_was_cut_short_comes_behind);
    tcase_add_test(due, many_are_filed_by_the_next_pass);
    tcase_add_loop_test(due, others_keep_their_order_though_two_are_moved_to_and_fro, 0, 2);
    tcase_add_test(due, a_dump_shows_what_is_not_filed);
    tcase_add_test(due, what_is_not_filed_is_left_over_by_stop);
    TCase *memory = add_case(suite, "memory");
    tcase_add_test(memory, arming_and_cancelling_takes_no_memory);
    tcase_add_test(memory, nor_does_it_with_a_limit_of_what_may_be_pending);
    tcase_add_test(memory, moving_to_and_fro_takes_no_memory);
    tcase_add_test(memory, nor_do_ten_thousand_that_come_and_go);
    tcase_add_loop_test(memory, memory_goes_back_though_something_is_due_in_each_tick, 0, 2);
    return run_suite(suite);
}
