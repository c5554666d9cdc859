/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What this timer got wrong once: what was due and did not run, or not at its time, or what it
 * slept over. */

#include "regression_fixture.h"

/*
 * ---- Pushed back far, then less far, while its old tick is the next ----
 *
 * The gate was closed for the old tick, and the sleep was to the new one: what came between was
 * neither run nor told.
 */

enum { FAR_OFF_MINUTES = 10, PATIENCE_MS = 10000 };

typedef struct twice_moved {
    ends ends;
    hwt_timeout other;
    uint64_t base;
    uint64_t moves;
} twice_moved;

static void move_other_twice(hwt_timeout timeout, void *arg)
{
    twice_moved *t = arg;
    (void)timeout;
    t->moves += hwt_timeout_reschedule_at(t->other, t->base + HWT_MIN(2 * FAR_OFF_MINUTES));
    t->moves += hwt_timeout_reschedule_at(t->other, t->base + HWT_MIN(FAR_OFF_MINUTES));
    t->ends.runs++;
}

static const hwt_task moving = { move_other_twice, NULL };

/* One that moves the other at `mover`, while the other's old deadline is `old`. */
static void arm_mover(hwt_timer *timer, twice_moved *t, uint64_t mover, uint64_t old)
{
    must(hwt_timer_new_timeout_at(timer, &idle, NULL, t->base + old, &t->other) == 0);
    must(hwt_timer_new_timeout_at(timer, &moving, t, t->base + mover, NULL) == 0);
}

/* The old ticks: the one right after the mover's, for which the gate is closed to any, and a
 * later one, for which it is closed to what is due after it. */
static const uint64_t old_deadlines[] = { HWT_MS(65), HWT_MS(300) };

START_TEST(a_loop_is_told_of_an_add_and_of_a_cancel_after_one_was_pushed_back_twice)
{
    bool cancels = _i / 2;
    twice_moved t = { .base = HWT_SEC(1) };
    ends e = { 0 };
    manual_open(&m, t.base, TICK, 512);
    int fd = hwt_timer_fd(m.timer);
    /* The first cancel of a thread always tells. */
    must(hwt_timeout_cancel(arm(m.timer, &idle, NULL, HWT_MIN(20))));
    hwt_timeout far_off = arm(m.timer, &counting, &e, HWT_MIN(20));
    arm_mover(m.timer, &t, HWT_MS(55), old_deadlines[_i % 2]);
    manual_go(&m, TICK);
    manual_go(&m, HWT_MS(60));
    ck_assert_uint_eq(t.moves, 2);

    if (cancels)
        must(hwt_timeout_cancel(far_off));
    else
        arm(m.timer, &counting, &e, HWT_SEC(1));
    ck_assert(readable(fd, PATIENCE_MS));
    manual_go(&m, HWT_MS(1070));
    ck_assert_uint_eq(e.cancelled, cancels);
    ck_assert_uint_eq(e.runs, !cancels);
    manual_close(&m);
}
END_TEST

START_TEST(a_worker_is_told_of_an_add_and_of_a_cancel_after_one_was_pushed_back_twice)
{
    bool cancels = _i / 2;
    twice_moved t = { 0 };
    ends first = { 0 }, e = { 0 };
    hwt_timer *timer = create_ticking(TICK);
    must(hwt_timeout_cancel(arm(timer, &counting, &first, HWT_MIN(20))));
    hwt_timeout far_off = arm(timer, &counting, &e, HWT_MIN(20));
    ck_assert(await_count(&first.cancelled, 1));
    t.base = hwt_timer_now(timer);
    arm_mover(timer, &t, HWT_MS(55), old_deadlines[_i % 2]);
    ck_assert(await_count(&t.ends.runs, 1));
    give_others_a_chance();

    if (cancels)
        must(hwt_timeout_cancel(far_off));
    else
        arm(timer, &counting, &e, HWT_MS(400));
    ck_assert(await_briefly(cancels ? &e.cancelled : &e.runs, 1));
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- Deadlines at instant 0 ---- */

START_TEST(what_is_due_at_instant_0_waits_for_the_tick_as_all_that_is_due)
{
    manual_open(&m, HWT_SEC(1), HWT_SEC(100), 512);
    int fd = hwt_timer_fd(m.timer);
    arm(m.timer, &idle, NULL, 0);
    ck_assert_uint_eq(hwt_timer_dispatch(m.timer), 0);
    ck_assert(!readable(fd, 0));
    ck_assert_int_eq(hwt_timer_new_timeout_at(m.timer, &idle, NULL, 0, NULL), 0);
    ck_assert(!readable(fd, 20));
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(100)), 2);
    manual_close(&m);
}
END_TEST

START_TEST(adds_at_instant_0_do_not_wake_a_worker_that_sleeps_to_the_next_tick)
{
    enum { ADDS = 500 };
    hwt_timer *timer = create_ticking(HWT_SEC(100));
    arm(timer, &idle, NULL, 0);
    give_others_a_chance();
    uint64_t before = stats_of(timer).wakeups;
    for (int i = 0; i < ADDS; i++) {
        must(hwt_timer_new_timeout_at(timer, &idle, NULL, 0, NULL) == 0);
        uint64_t limit = monotonic() + HWT_US(100);
        while (monotonic() < limit)
            sched_yield();
    }
    ck_assert_uint_le(stats_of(timer).wakeups - before, ADDS / 20);
    ck_assert_int_eq(hwt_timer_stop(timer, NULL, NULL), ADDS + 1);
    hwt_timer_destroy(timer);
}
END_TEST

/*
 * ---- What was cancelled half of all rounds ago ----
 *
 * It came round again as the least round, and hid what was due.
 */

static const uint64_t half = UINT64_C(1)
                             << 31; /* ticks of a microsecond; the wheel has one bucket */

static void arm_ticks(int n, ends *e, uint64_t tick)
{
    for (int i = 0; i < n; i++)
        must(hwt_timer_new_timeout_at(m.timer, &counting, e, m.start + HWT_US(tick), NULL) == 0);
}

START_TEST(what_was_cancelled_long_ago_does_not_hide_what_is_due)
{
    ends old = { 0 }, kept = { 0 }, last = { 0 };
    manual_open(&m, 0, HWT_US(1), 1);
    arm_ticks(10, &old, half - 2);
    hwt_timeout cancelled;
    must(hwt_timer_new_timeout_at(m.timer, &counting, &old, HWT_US(half - 2), &cancelled) == 0);
    manual_go(&m, 0);
    ck_assert(hwt_timeout_cancel(cancelled));
    manual_go(&m, 0);
    manual_go(&m, HWT_US(half - 1000));
    arm_ticks(100, &kept, 2 * half - 1500); /* these are of the same bucket */
    manual_go(&m, HWT_US(half - 1000));
    ck_assert_uint_eq(manual_go(&m, HWT_US(half)), 10);
    manual_go(&m, HWT_US(2 * half - 2000));
    arm_ticks(500, &last, 2 * half + 500);
    manual_go(&m, HWT_US(2 * half - 2000));
    ck_assert_uint_eq(manual_go(&m, HWT_US(2 * half - 1200)), 100);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_US(2 * half + 501));
    ck_assert_uint_eq(manual_go(&m, HWT_US(2 * half + 501)), 500);
    ck_assert_uint_eq(ends_sum(&old), 11);
    ck_assert_uint_eq(ends_sum(&kept), 100);
    ck_assert_uint_eq(ends_sum(&last), 500);
    manual_close(&m);
}
END_TEST

/* In one bucket of very many rounds; each but the last that is left is the next once. */
START_TEST(when_the_next_ones_are_cancelled_one_by_one_those_after_them_are_found)
{
    enum { SPREAD = 2000 };
    static hwt_timeout spread[SPREAD];
    manual_open(&m, 0, HWT_MS(1), 1);
    for (uint64_t i = 0; i < SPREAD; i++)
        spread[i] = arm(m.timer, &idle, NULL, HWT_SEC(1000 + i));
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_SEC(1000) + HWT_MS(1));
    ck_assert(hwt_timeout_cancel(spread[SPREAD - 1]));
    for (uint64_t i = 0; i < SPREAD - 2; i++) {
        must(hwt_timeout_cancel(spread[i]));
        must(hwt_timer_next_tick(m.timer) == HWT_SEC(1001 + i) + HWT_MS(1));
    }
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
    manual_close(&m);
}
END_TEST

/*
 * ---- A period of one tick ----
 *
 * It was run at every second tick.
 */

static void repeat_each_tick(hwt_timeout timeout, void *arg)
{
    count_run(timeout, arg);
    must(hwt_timeout_repeat(timeout, TICK));
}

static const hwt_task each_tick = { repeat_each_tick, NULL };

START_TEST(a_period_of_one_tick_runs_at_every_tick)
{
    /* At the beginning, the middle and the end of a tick. */
    static const uint64_t firsts[] = { HWT_MS(10), HWT_MS(13), HWT_MS(20) - 1 };
    ends e = { 0 };
    manual_open(&m, HWT_SEC(1), TICK, 512);
    must(hwt_timer_new_timeout_at(m.timer, &each_tick, &e, m.start + firsts[_i], NULL) == 0);
    for (uint64_t ms = 1; ms <= 200; ms++) {
        manual_go(&m, HWT_MS(ms));
        must(e.runs == (ms < 10 ? 0 : ms / 10 - 1));
    }
    manual_close(&m);
}
END_TEST

START_TEST(after_a_leap_a_period_of_one_tick_runs_once_and_then_at_every_tick)
{
    ends e = { 0 };
    manual_open(&m, HWT_SEC(1), TICK, 512);
    arm(m.timer, &each_tick, &e, TICK);
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(100)), 1);
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(100)), 0);
    manual_go(&m, HWT_SEC(100) + 2 * TICK);
    uint64_t runs = e.runs;
    ck_assert_uint_ge(runs, 2);
    ck_assert_uint_le(runs, 3);
    for (uint64_t tick = 3; tick <= 50; tick++)
        ck_assert_uint_eq(manual_go(&m, HWT_SEC(100) + tick * TICK), 1);
    manual_close(&m);
}
END_TEST

/*
 * ---- A thread that ends ----
 *
 * What it added in a destructor ran before what it had added earlier for the same tick: its lane
 * was read after the one that those without a lane share.
 */

typedef struct last_words {
    hwt_timer *timer;
    char order[3];
    unsigned count;
} last_words;

static pthread_key_t key; /* later than the library's: its destructor is called after that */

static void say_first(hwt_timeout timeout, void *arg)
{
    last_words *words = arg;
    (void)timeout;
    words->order[words->count++] = '1';
}

static void say_second(hwt_timeout timeout, void *arg)
{
    last_words *words = arg;
    (void)timeout;
    words->order[words->count++] = '2';
}

static const hwt_task first_word = { say_first, NULL }, second_word = { say_second, NULL };

static void add_when_leaving(void *data)
{
    last_words *words = data;
    must(hwt_timer_new_timeout(words->timer, &second_word, words, TICK, NULL) == 0);
}

static void *add_and_leave(void *data)
{
    last_words *words = data;
    must(hwt_timer_new_timeout(words->timer, &first_word, words, TICK, NULL) == 0);
    must(pthread_setspecific(key, words) == 0);
    return NULL;
}

START_TEST(the_adds_of_a_thread_that_ends_run_in_their_order)
{
    manual_open(&m, 0, TICK, 8);
    last_words words = { .timer = m.timer };
    (void)arm(m.timer, &idle, NULL, HWT_SEC(1000));
    ck_assert_int_eq(pthread_key_create(&key, add_when_leaving), 0);
    join(spawn(add_and_leave, &words));
    ck_assert_uint_eq(manual_go(&m, 5 * TICK), 2);
    ck_assert_str_eq(words.order, "12");
    ck_assert_int_eq(pthread_key_delete(key), 0);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("regressions: due");
    TCase *sleeps = add_brief_case(suite, "sleeps");
    tcase_add_loop_test(
        sleeps, a_loop_is_told_of_an_add_and_of_a_cancel_after_one_was_pushed_back_twice, 0, 4);
    tcase_add_loop_test(
        sleeps, a_worker_is_told_of_an_add_and_of_a_cancel_after_one_was_pushed_back_twice, 0, 4);
    tcase_add_test(sleeps, what_is_due_at_instant_0_waits_for_the_tick_as_all_that_is_due);
    tcase_add_test(sleeps, adds_at_instant_0_do_not_wake_a_worker_that_sleeps_to_the_next_tick);
    TCase *threads = add_brief_case(suite, "threads");
    tcase_add_test(threads, the_adds_of_a_thread_that_ends_run_in_their_order);
    TCase *rounds = add_brief_case(suite, "rounds");
    tcase_add_test(rounds, what_was_cancelled_long_ago_does_not_hide_what_is_due);
    tcase_add_test(rounds, when_the_next_ones_are_cancelled_one_by_one_those_after_them_are_found);
    tcase_add_loop_test(rounds, a_period_of_one_tick_runs_at_every_tick, 0, 3);
    tcase_add_test(rounds, after_a_leap_a_period_of_one_tick_runs_once_and_then_at_every_tick);
    return run_suite(suite);
}
