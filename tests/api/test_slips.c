/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What other timers got wrong: cancels that meet the queue or the tick, arithmetic of
 * buckets and rounds, re-arming, extremes, leaps. The clock is set. Each test is named by
 * what must hold, and tells where it did not.
 */

#include "api_fixture.h"

#define TICK HWT_MS(1)

static manual m;

static uint64_t now_since_start(void)
{
    return atomic_load(&m.now) - m.start;
}

/*
 * ---- 1. Cancelled while still in the pending queue ----
 *
 * tokio #8252, netty #2651, #2662. More than a tick drains are added in one tick, and
 * the last ones, a backlog yet, are cancelled at once.
 */

enum { BACKLOG = 250000, LAST = 1000 };

static hwt_timeout backlog[BACKLOG];

static void add_backlog(hwt_timer *timer, ends *e, uint64_t delay)
{
    for (int i = 0; i < BACKLOG; i++)
        backlog[i] = arm(timer, &counting, e, delay);
}

static void cancel_last(void)
{
    for (int i = BACKLOG - LAST; i < BACKLOG; i++)
        must(hwt_timeout_cancel(backlog[i]));
}

START_TEST(those_cancelled_in_a_long_queue_never_run_and_the_others_do)
{
    ends e = { 0 };
    manual_open(&m, 0, TICK, 512);
    add_backlog(m.timer, &e, HWT_MS(50));
    cancel_last();
    ck_assert_uint_eq(hwt_timer_pending(m.timer), BACKLOG - LAST);
    manual_go(&m, TICK);
    ck_assert_uint_eq(e.cancelled, LAST);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(51)), BACKLOG - LAST);
    ck_assert_uint_eq(e.runs, BACKLOG - LAST);
    ck_assert_uint_eq(e.cancelled, LAST);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    manual_close(&m);
}
END_TEST

START_TEST(a_worker_tells_those_cancelled_in_its_backlog)
{
    ends e = { 0 };
    hwt_timer *timer = create_ticking(TICK);
    add_backlog(timer, &e, HWT_SEC(3600));
    cancel_last();
    ck_assert(await_count(&e.cancelled, LAST));
    ck_assert_uint_eq(hwt_timer_pending(timer), BACKLOG - LAST);
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), BACKLOG - LAST);
    ck_assert_uint_eq(e.cancelled, LAST);
    ck_assert_uint_eq(ends_sum(&e), BACKLOG);
    hwt_timer_destroy(timer);
}
END_TEST

/*
 * ---- 2. Counted down twice ----
 *
 * netty #14959: the first of eleven in a tick blocks, the other ten are cancelled meanwhile.
 */

static void *advance_a_tick(void *data)
{
    (void)data;
    manual_go(&m, TICK);
    return NULL;
}

START_TEST(those_cancelled_in_the_tick_that_runs_are_counted_once)
{
    gate g = { 0 };
    ends e = { 0 };
    hwt_timeout others[10];
    manual_open(&m, 0, TICK, 64);
    arm(m.timer, &gated, &g, 0);
    for (int i = 0; i < 10; i++)
        others[i] = arm(m.timer, &counting, &e, 0);
    pthread_t thread = spawn(advance_a_tick, NULL);
    ck_assert(await_count(&g.reached, 1));
    for (int i = 0; i < 10; i++)
        ck_assert(hwt_timeout_cancel(others[i]));
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    g.open = 1;
    join(thread);
    manual_go(&m, 2 * TICK);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    ck_assert_uint_eq(e.cancelled, 10);
    ck_assert_uint_eq(e.runs, 0);
    ck_assert_uint_eq(stats_of(m.timer).cancelled, 10);
    manual_close(&m);
}
END_TEST

/*
 * ---- 3. Bucket and round arithmetic ----
 *
 * akka-core #1016, netty #1959, #12888, #13018: delays of k wheels and a tick more or
 * less, from every tick of the wheel; a far round before a near one in the same bucket.
 */

enum { WHEEL = 8 };

typedef struct expected {
    uint64_t due; /* ticks since start */
    uint64_t ran; /* the tick it ran in */
    uint32_t runs;
} expected;

static void note_tick(hwt_timeout timeout, void *arg)
{
    expected *x = arg;
    (void)timeout;
    x->runs++;
    x->ran = now_since_start() / TICK - 1;
}

static const hwt_task noting = { note_tick, NULL };

static size_t arm_around_wheels(expected *x, uint64_t from)
{
    size_t n = 0;
    for (uint64_t k = 6; k-- > 0;)
        for (uint64_t around = 0; around < 3; around++) {
            if (k == 0 && around == 0)
                continue;
            x[n] = (expected){ from + k * WHEEL + around - 1, 0, 0 };
            arm(m.timer, &noting, &x[n], (k * WHEEL + around - 1) * TICK);
            n++;
        }
    return n;
}

static void run_around_wheels(uint64_t from, uint64_t step)
{
    expected x[18];
    manual_open(&m, 0, TICK, WHEEL);
    manual_go(&m, from * TICK);
    size_t n = arm_around_wheels(x, from);
    for (uint64_t t = from; t <= from + 6 * WHEEL + step; t += step)
        manual_go(&m, t * TICK);
    for (size_t i = 0; i < n; i++) {
        must(x[i].runs == 1);
        must(x[i].ran >= x[i].due);
        must(x[i].ran < x[i].due + step);
    }
    manual_close(&m);
}

START_TEST(a_tick_more_or_less_than_whole_wheels_is_met_from_every_tick)
{
    for (uint64_t from = 0; from <= 2 * WHEEL; from++) {
        run_around_wheels(from, 1);
        run_around_wheels(from, 3);
        run_around_wheels(from, WHEEL);
        run_around_wheels(from, 4 * WHEEL);
    }
}
END_TEST

START_TEST(a_far_round_does_not_hide_a_near_one_in_its_bucket)
{
    expected far = { 3 * WHEEL + 2, 0, 0 }, near = { WHEEL + 2, 0, 0 };
    manual_open(&m, 0, TICK, WHEEL);
    arm(m.timer, &noting, &far, far.due * TICK);
    manual_go(&m, TICK);
    arm(m.timer, &noting, &near, near.due * TICK - TICK);
    for (uint64_t t = 1; t < 100; t++)
        manual_go(&m, t * TICK);
    ck_assert_uint_eq(near.runs, 1);
    ck_assert_uint_eq(near.ran, near.due);
    ck_assert_uint_eq(far.runs, 1);
    ck_assert_uint_eq(far.ran, far.due);
    manual_close(&m);
}
END_TEST

/*
 * ---- 4. A sibling cancelled in the same tick ----
 *
 * muduo #668, folly 3a06d042d: A, B and C are due together; A's task cancels B and C and
 * frees their data.
 */

typedef struct family {
    hwt_timeout siblings[2];
    uint64_t *data[2];
    bool answers[2];
} family;

static shared_count sibling_runs;

static void touch(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    ++*(uint64_t *)arg;
    sibling_runs++;
}

static const hwt_task touching = { touch, NULL };

static void cancel_siblings(hwt_timeout timeout, void *arg)
{
    family *f = arg;
    (void)timeout;
    for (int i = 0; i < 2; i++) {
        f->answers[i] = hwt_timeout_cancel_sync(f->siblings[i]);
        free(f->data[i]);
    }
}

START_TEST(a_task_may_cancel_its_siblings_and_free_their_data)
{
    static const hwt_task task = { cancel_siblings, NULL };
    family f = { 0 };
    manual_open(&m, 0, TICK, 64);
    arm(m.timer, &task, &f, HWT_MS(5));
    for (int i = 0; i < 2; i++) {
        f.data[i] = calloc(1, sizeof(uint64_t));
        f.siblings[i] = arm(m.timer, &touching, f.data[i], HWT_MS(5));
    }
    ck_assert_uint_eq(manual_go(&m, HWT_MS(6)), 1);
    ck_assert(f.answers[0] && f.answers[1]);
    manual_go(&m, HWT_MS(100));
    ck_assert_uint_eq(sibling_runs, 0);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    manual_close(&m);
}
END_TEST

/*
 * ---- 5. Re-armed inside the task, into the pass that runs ----
 *
 * libuv #4245, folly 09a84b282: delay 0, less than a tick, exactly one revolution, or the
 * past: once a pass at most, and the others and stop go on.
 */

typedef struct again {
    uint64_t runs, delay;
    bool past;
} again;

static void rearm(hwt_timeout timeout, void *arg)
{
    again *a = arg;
    a->runs++;
    if (a->past)
        (void)hwt_timeout_reschedule_at(timeout, 0);
    else
        (void)hwt_timeout_reschedule(timeout, a->delay);
}

START_TEST(what_rearms_itself_runs_once_a_pass_and_lets_others_run)
{
    static const hwt_task task = { rearm, NULL };
    again a[4] = {
        { .delay = 0 }, { .delay = TICK / 2 }, { .delay = 64 * TICK }, { .past = true }
    };
    ends e = { 0 };
    manual_open(&m, 0, TICK, 64);
    for (int i = 0; i < 4; i++)
        arm(m.timer, &task, &a[i], 0);
    for (uint64_t t = 1; t <= 640; t++) {
        arm(m.timer, &counting, &e, 0);
        manual_go(&m, t * TICK);
        for (int i = 0; i < 4; i++)
            must(a[i].runs <= t);
        must(e.runs == t);
    }
    ck_assert_uint_eq(a[0].runs, 640);
    ck_assert_uint_eq(a[1].runs, 640);
    ck_assert_uint_eq(a[2].runs, 10);
    ck_assert_uint_ge(a[3].runs, 320);
    ck_assert_int_eq(hwt_timer_stop(m.timer, NULL, NULL), 4);
    manual_close(&m);
}
END_TEST

/*
 * ---- 6. Added while the worker is behind ----
 *
 * folly c53bda788: it is 3.5 revolutions behind when a wheel less a tick, and a tick, are
 * added; between passes and inside one.
 */

static void assert_met(const expected *x)
{
    ck_assert_uint_eq(x->runs, 1);
    ck_assert_uint_eq(x->ran, x->due);
}

static void arm_two(expected *x)
{
    uint64_t tick = now_since_start() / TICK;
    x[0] = (expected){ tick + WHEEL - 1, 0, 0 };
    x[1] = (expected){ tick + 1, 0, 0 };
    must(hwt_timer_new_timeout(m.timer, &noting, &x[0], (WHEEL - 1) * TICK, NULL) == 0);
    must(hwt_timer_new_timeout(m.timer, &noting, &x[1], TICK, NULL) == 0);
}

START_TEST(what_is_added_while_the_timer_is_behind_is_met)
{
    for (uint64_t from = 0; from < 2 * WHEEL; from++) {
        expected x[2];
        manual_open(&m, 0, TICK, WHEEL);
        manual_go(&m, from * TICK);
        atomic_store(&m.now, (from + 7 * WHEEL / 2) * TICK);
        arm_two(x);
        for (uint64_t t = from + 7 * WHEEL / 2; t < from + 6 * WHEEL; t++)
            manual_go(&m, t * TICK);
        assert_met(&x[0]);
        assert_met(&x[1]);
        manual_close(&m);
    }
}
END_TEST

static void stall_then_add(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    atomic_store(&m.now, now_since_start() + 7 * WHEEL / 2 * TICK);
    arm_two(arg);
}

START_TEST(what_a_slow_task_adds_after_its_stall_is_met)
{
    static const hwt_task task = { stall_then_add, NULL };
    for (uint64_t from = 0; from < 2 * WHEEL; from++) {
        expected x[2];
        manual_open(&m, 0, TICK, WHEEL);
        arm(m.timer, &task, x, from * TICK);
        manual_go(&m, (from + 1) * TICK);
        for (uint64_t t = now_since_start() / TICK; t < from + 7 * WHEEL; t++)
            manual_go(&m, t * TICK);
        assert_met(&x[0]);
        assert_met(&x[1]);
        manual_close(&m);
    }
}
END_TEST

/*
 * ---- 12. Extremes ----
 *
 * netty #7760, akka.net #7144: delays at the ends of their range, from clocks at theirs.
 */

static const uint64_t delays[] = { 0, 1, INT64_MAX, UINT64_MAX };
static const uint64_t clocks[] = { 0, 1, INT64_MAX };

START_TEST(no_delay_overflows_into_the_past_whatever_the_clock)
{
    ends e[4] = { 0 };
    manual_open(&m, clocks[_i], TICK, 512);
    for (int i = 0; i < 4; i++)
        arm(m.timer, &counting, &e[i], delays[i]);
    manual_go(&m, TICK);
    for (uint64_t t = 1; t < 100; t++)
        manual_go(&m, HWT_SEC(1) * t);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(e[i].runs, delays[i] <= 1);
    manual_close(&m);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(ends_sum(&e[i]), 1);
}
END_TEST

/* ---- 13. A leap of one hour at a 1 ms tick ---- */

static void rearm_each_second(hwt_timeout timeout, void *arg)
{
    ((again *)arg)->runs++;
    (void)hwt_timeout_repeat(timeout, HWT_SEC(1));
}

START_TEST(after_a_leap_of_an_hour_each_runs_once_and_periods_are_not_made_up)
{
    static const hwt_task task = { rearm_each_second, NULL };
    again a = { 0 };
    ends e = { 0 };
    manual_open(&m, HWT_SEC(1), TICK, 512);
    arm(m.timer, &task, &a, HWT_SEC(1));
    for (uint64_t i = 0; i < 10000; i++)
        arm(m.timer, &counting, &e, HWT_MS(i * 359));
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(3600)), 10001);
    ck_assert_uint_eq(e.runs, 10000);
    ck_assert_uint_eq(a.runs, 1);
    manual_go(&m, HWT_SEC(3600) + 2 * TICK);
    ck_assert_uint_le(a.runs, 2);
    manual_go(&m, HWT_SEC(3601) + 2 * TICK);
    ck_assert_uint_ge(a.runs, 2);
    ck_assert_uint_le(a.runs, 3);
    manual_close(&m);
}
END_TEST

/* ---- */

int main(void)
{
    Suite *suite = suite_create("slips");
    TCase *cancel = add_case(suite, "cancel");
    tcase_add_test(cancel, those_cancelled_in_a_long_queue_never_run_and_the_others_do);
    tcase_add_test(cancel, a_worker_tells_those_cancelled_in_its_backlog);
    tcase_add_test(cancel, those_cancelled_in_the_tick_that_runs_are_counted_once);
    tcase_add_test(cancel, a_task_may_cancel_its_siblings_and_free_their_data);
    TCase *wheel = add_case(suite, "wheel");
    tcase_add_test(wheel, a_tick_more_or_less_than_whole_wheels_is_met_from_every_tick);
    tcase_add_test(wheel, a_far_round_does_not_hide_a_near_one_in_its_bucket);
    tcase_add_test(wheel, what_rearms_itself_runs_once_a_pass_and_lets_others_run);
    tcase_add_test(wheel, what_is_added_while_the_timer_is_behind_is_met);
    tcase_add_test(wheel, what_a_slow_task_adds_after_its_stall_is_met);
    TCase *extremes = add_case(suite, "extremes");
    tcase_add_loop_test(extremes, no_delay_overflows_into_the_past_whatever_the_clock, 0, 3);
    tcase_add_test(extremes, after_a_leap_of_an_hour_each_runs_once_and_periods_are_not_made_up);
    return run_suite(suite);
}
