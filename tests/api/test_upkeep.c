/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * When a timer wants to be driven to give memory back: at once as long as there is more, in the next
 * tick where it was in vain, after a pause for another peak; and not at all where there is nothing.
 * No call gives back very much, or goes by very many that were cancelled, and no timeout is late
 * for it.
 *
 * Time is set, and each instant for which the timer sets its descriptor is noted: nothing depends
 * on how fast the machine is.
 */

#include <sys/timerfd.h>

#include "api_fixture.h"

#define TICK HWT_MS(1)
#define STAYS ((uint64_t)512 << 10)   /* what may stay of a peak */
#define AT_A_TIME ((uint64_t)5 << 20) /* what a call may give back */

enum { PEAK = 200000, WHEEL = 512, CALLS_MAX = 5000 };

static manual m;
static ends counts;
static hwt_timeout peak[PEAK];
static uint64_t before; /* memory */

static const hwt_task quiet = { count_run, NULL };

/* ---- the descriptor, by the linker's --wrap ---- */

static uint64_t asked; /* nanoseconds from when it was set to when it is readable; HWT_NEVER */

int __real_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old);

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old)
{
    const struct timespec *value = &at->it_value;
    asked = HWT_SEC((uint64_t)value->tv_sec) + (uint64_t)value->tv_nsec;
    if (asked == 0)
        asked = HWT_NEVER;
    return __real_timerfd_settime(fd, flags, at, old);
}

static bool is_asked_at_once(void)
{
    return asked <= 1;
}

/* ---- a timer, and time ---- */

static uint64_t memory(void)
{
    return stats_of(m.timer).memory;
}

static uint64_t now(void)
{
    return m.now - m.start;
}

/* A dispatch, so many ns later. */
static void go(uint64_t later)
{
    (void)manual_go(&m, now() + later);
}

/* In that many ticks, at a boundary. */
static void expect_asked_in(uint64_t ticks)
{
    ck_assert_uint_eq(asked, ticks * TICK);
}

static void open_timer(void)
{
    memset(&counts, 0, sizeof(counts));
    manual_open(&m, HWT_SEC(1), TICK, WHEEL);
    ck_assert_int_ge(hwt_timer_fd(m.timer), 0);
    ck_assert_uint_eq(asked, HWT_NEVER);
    go(0);
    must(hwt_timeout_cancel(arm(m.timer, &quiet, &counts, HWT_SEC(60))));
    go(0);
    before = memory();
}

static void close_timer(void)
{
    manual_close(&m);
}

/* Timeouts from number `from` on that are due so many ticks from now. */
static void arm_some(int from, int end, uint64_t ticks)
{
    for (int i = from; i < end; i++)
        peak[i] = arm(m.timer, &quiet, &counts, ticks * TICK);
    go(0);
}

static void cancel_some(int from, int end)
{
    for (int i = from; i < end; i++)
        must(hwt_timeout_cancel(peak[i]));
}

/* Comes as long as the timer asks for it at once. How often that was. */
static int come_at_once(void)
{
    int calls = 0;
    for (uint64_t had = memory(); is_asked_at_once(); calls++) {
        go(0);
        ck_assert_int_lt(calls, CALLS_MAX);
        ck_assert_uint_le(had, memory() + AT_A_TIME);
        had = memory();
    }
    return calls;
}

static void expect_little(void)
{
    if (memory() > before + STAYS)
        ck_abort_msg("%" PRIu64 " kB stay", (memory() - before) >> 10);
}

/* ---- tests ---- */

START_TEST(a_timer_without_anything_to_give_back_asks_for_its_timeouts_alone)
{
    ck_assert_uint_eq(asked, HWT_NEVER);
    hwt_timeout timeout = arm(m.timer, &quiet, &counts, 1000 * TICK);
    go(0);
    expect_asked_in(1001);
    go(TICK);
    expect_asked_in(1000);
    must(hwt_timeout_cancel(timeout));
    go(0);
    ck_assert_uint_eq(asked, HWT_NEVER);
}
END_TEST

/* Each loop: nothing else is pending; or something is, and its tick is asked for in the end. */
START_TEST(all_of_a_peak_goes_back_at_one_instant)
{
    arm_some(0, PEAK, 500000);
    expect_asked_in(500001);
    if (_i)
        (void)arm(m.timer, &quiet, &counts, 100000 * TICK);
    cancel_some(0, PEAK);
    go(0);
    ck_assert(is_asked_at_once());
    ck_assert_int_ge(come_at_once(), PEAK / 20000);
    expect_little();
    if (_i)
        expect_asked_in(100001);
    else
        ck_assert_uint_eq(asked, HWT_NEVER);
}
END_TEST

/* Before the timer is driven once more it only knows that there is something: it has not tried. */
START_TEST(of_a_peak_that_ended_since_the_last_pass_the_next_tick_is_asked_for)
{
    arm_some(0, PEAK, 500000);
    cancel_some(0, PEAK);
    ck_assert_uint_gt(hwt_timer_next_tick(m.timer), m.now);
    expect_asked_in(1);
}
END_TEST

/* Those that are pending are looked at first, in vain: more are looked at in the ticks to come, until
 * those come that were cancelled. Each loop: entries may go, too; or not, for a trim has just ended. */
START_TEST(a_look_in_vain_is_followed_by_one_in_the_next_tick)
{
    enum { STAY = PEAK / 4 };
    int ticks = 0;
    if (_i) {
        arm_some(0, PEAK, 500000);
        cancel_some(0, PEAK);
        go(0);
        (void)come_at_once();
    }
    arm_some(0, STAY, 300);
    arm_some(STAY, PEAK, 400);
    cancel_some(STAY, PEAK);
    for (go(0); !is_asked_at_once(); ticks++) {
        ck_assert_int_lt(ticks, 20);
        expect_asked_in(1);
        go(TICK);
    }
    ck_assert_int_ge(ticks, 2);
    (void)come_at_once();
    if (_i == 0)
        ck_assert_uint_le(memory(), before + STAYS + STAY * UINT64_C(100));
    go(300 * TICK - now());
    ck_assert_uint_eq(counts.runs, 0);
    go(TICK);
    ck_assert_uint_eq(counts.runs, STAY);
}
END_TEST

/* Each loop: another one is due before that, when it is over, or after it. */
START_TEST(after_a_trim_the_next_one_waits_for_the_end_of_a_pause)
{
    arm_some(0, PEAK, 500000);
    cancel_some(0, PEAK);
    go(0);
    (void)come_at_once();
    arm_some(0, PEAK / 2, 500000);
    cancel_some(0, PEAK / 2);
    go(0);
    (void)come_at_once(); /* its hints do not wait */
    const uint64_t had = memory(), pause = asked;
    ck_assert_uint_eq(pause % TICK, 0);
    ck_assert(pause > HWT_MS(500) && pause < HWT_SEC(60));
    if (_i < 2)
        (void)arm(m.timer, &quiet, &counts, pause - (_i ? 1 : 100 * TICK));
    go(0);
    ck_assert_uint_eq(asked, _i ? pause : pause - 99 * TICK);
    go(pause - TICK);
    ck_assert_uint_eq(counts.runs, _i == 0);
    expect_asked_in(1);
    ck_assert_uint_ge(memory(), had);
    go(TICK);
    ck_assert_uint_eq(counts.runs, _i < 2);
    ck_assert(is_asked_at_once());
    (void)come_at_once();
    expect_little();
    ck_assert_uint_eq(asked, HWT_NEVER);
}
END_TEST

/* Nothing can go: one timeout of each few stays. The timer has tried once, and does not again. */
START_TEST(what_cannot_go_is_tried_once)
{
    arm_some(0, PEAK, 100000);
    for (int i = 0; i < PEAK; i++)
        must(i % 100 == 0 || hwt_timeout_cancel(peak[i]));
    int ticks = 0;
    for (go(0); asked != (100001 - (uint64_t)ticks) * TICK; ticks++) {
        ck_assert_int_lt(ticks, 20000);
        (void)come_at_once();
        go(asked < TICK ? 0 : TICK);
    }
    const uint64_t had = memory();
    go(50000 * TICK);
    expect_asked_in(100001 - 50000 - (uint64_t)ticks);
    ck_assert_uint_ge(memory(), had);
}
END_TEST

/* ---- a tick whose timeouts were cancelled ---- */

enum { CROWD = 1000000, LIVE = 4 };

static const uint64_t numbers[LIVE] = { 0, 1, 2, 3 };
static uint64_t order[LIVE];

static void note_order(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    order[counts.runs++] = *(const uint64_t *)arg;
}

static void arm_number(int number, uint64_t tick)
{
    static const hwt_task noting = { note_order, NULL };
    must(hwt_timer_new_timeout_at(m.timer, &noting, (void *)(uintptr_t)&numbers[number],
                                  m.start + tick * TICK, NULL) == 0);
}

static void expect_order(void)
{
    ck_assert_uint_eq(counts.runs, LIVE);
    for (uint64_t i = 0; i < LIVE; i++)
        ck_assert_uint_eq(order[i], i);
}

enum way { CANCELLED, MOVED, USED_AGAIN, WAYS };

/* A million of one tick, of which two stay; one of the next tick. Then the two are over. */
static void arm_crowd(enum way way)
{
    static hwt_timeout crowd[CROWD];
    for (int i = 0; i < CROWD; i++) {
        if (i % (CROWD / 2) == CROWD / 2 - 1)
            arm_number(i / (CROWD / 2), 10);
        crowd[i] = arm(m.timer, &quiet, &counts, 10 * TICK);
    }
    go(0);
    arm_number(2, 11);
    for (int i = 0; i < CROWD; i++) {
        must(way == MOVED ? hwt_timeout_reschedule(crowd[i], HWT_SEC(3600))
                          : hwt_timeout_cancel(crowd[i]));
        if (way == USED_AGAIN)
            (void)arm(m.timer, &quiet, &counts, HWT_SEC(3600));
    }
    if (way == USED_AGAIN)
        go(0); /* for the memory of what is unread */
    m.now += 20 * TICK;
}

/* It is not gone by in one call that starts few. Those that are due run in their order, in the end,
 * and behind them, in the tick that has begun, one that was added between two calls. */
START_TEST(a_call_for_few_goes_by_a_bounded_number_in_vain)
{
    int calls = 0;
    arm_crowd(_i);
    for (; counts.runs < LIVE; calls++) {
        const uint64_t runs = counts.runs, had = memory();
        const uint64_t n = hwt_timer_advance_some(m.timer, m.now, 2);
        ck_assert(n <= 2 && n == counts.runs - runs);
        if (calls == 0)
            arm_number(3, 10);
        else if (counts.runs < LIVE - 1)
            ck_assert(is_asked_at_once());
        else if (!is_asked_at_once())
            m.now += TICK;
        ck_assert_uint_le(had, memory() + AT_A_TIME);
        ck_assert_int_lt(calls, CROWD / 10000);
    }
    ck_assert_int_ge(calls, 3);
    expect_order();
}
END_TEST

START_TEST(a_call_for_all_goes_by_all_in_vain)
{
    arm_crowd(_i);
    arm_number(3, 11);
    (void)hwt_timer_advance(m.timer, m.now);
    expect_order();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: upkeep");
    TCase *tcase = add_case(suite, "upkeep");
    tcase_add_checked_fixture(tcase, open_timer, close_timer);
    tcase_add_test(tcase, a_timer_without_anything_to_give_back_asks_for_its_timeouts_alone);
    tcase_add_loop_test(tcase, all_of_a_peak_goes_back_at_one_instant, 0, 2);
    tcase_add_test(tcase, of_a_peak_that_ended_since_the_last_pass_the_next_tick_is_asked_for);
    tcase_add_loop_test(tcase, a_look_in_vain_is_followed_by_one_in_the_next_tick, 0, 2);
    tcase_add_loop_test(tcase, after_a_trim_the_next_one_waits_for_the_end_of_a_pause, 0, 3);
    tcase_add_test(tcase, what_cannot_go_is_tried_once);
    tcase_add_loop_test(tcase, a_call_for_few_goes_by_a_bounded_number_in_vain, 0, WAYS);
    tcase_add_loop_test(tcase, a_call_for_all_goes_by_all_in_vain, 0, WAYS);
    return run_suite(suite);
}
