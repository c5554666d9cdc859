/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The promises on pushing back, pulling forward and repeating, on the public header
 * and the shared library alone. The clock is set: nothing here waits.
 */

#include "api_fixture.h"

#define TICK HWT_MS(1)
#define WHEEL 64

static manual m;

static void open_manual(void)
{
    manual_open(&m, HWT_SEC(7) + 13, TICK, WHEEL);
}

/* ---- Pushing back and pulling forward ---- */

START_TEST(a_reschedule_to_later_moves_the_deadline_and_keeps_the_handle)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(5));
    manual_go(&m, HWT_MS(4));
    ck_assert(hwt_timeout_reschedule(timeout, HWT_MS(500)));
    ck_assert_uint_eq(hwt_timeout_remaining(timeout), HWT_MS(500));
    manual_go(&m, HWT_MS(505) - 1);
    ck_assert_uint_eq(e.runs, 0);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_PENDING);
    manual_go(&m, HWT_MS(505));
    ck_assert_uint_eq(e.runs, 1);
    ck_assert(!hwt_timeout_reschedule(timeout, 0));
    manual_close(&m);
}
END_TEST

START_TEST(a_reschedule_to_earlier_runs_it_earlier_and_once)
{
    ends e = { 0 };
    hwt_timeout queued = arm(m.timer, &counting, &e, HWT_MS(300));
    ck_assert(hwt_timeout_reschedule(queued, HWT_MS(3)));
    manual_go(&m, HWT_MS(4) - 1);
    ck_assert_uint_eq(e.runs, 0);
    manual_go(&m, HWT_MS(4));
    ck_assert_uint_eq(e.runs, 1);

    hwt_timeout armed = arm(m.timer, &counting, &e, HWT_MS(300));
    manual_go(&m, HWT_MS(6));
    ck_assert(hwt_timeout_reschedule(armed, HWT_MS(3)));
    manual_go(&m, HWT_MS(10));
    ck_assert_uint_eq(e.runs, 2);
    manual_go(&m, HWT_SEC(1));
    ck_assert_uint_eq(e.runs, 2);
    manual_close(&m);
}
END_TEST

START_TEST(a_reschedule_to_the_past_runs_in_the_next_tick)
{
    ends e = { 0 };
    manual_go(&m, HWT_MS(50));
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_SEC(50));
    manual_go(&m, HWT_MS(51));
    ck_assert(hwt_timeout_reschedule_at(timeout, 0));
    manual_go(&m, HWT_MS(52));
    ck_assert_uint_eq(e.runs, 1);
    manual_close(&m);
}
END_TEST

/* How the last of many moves decides; `step` advances the timer between them or not. */
static void assert_last_move_decides(uint64_t seed, uint64_t step)
{
    ends e = { 0 };
    uint64_t now = 0, deadline = 0;
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(400));
    for (int i = 0; i < 50; i++) {
        deadline = now + HWT_MS(100) + test_random(&seed) % HWT_MS(900);
        must(hwt_timeout_reschedule_at(timeout, m.start + deadline));
        now += step;
        must(manual_go(&m, now) == 0);
    }
    manual_go(&m, due_at(deadline, TICK) - 1);
    ck_assert_uint_eq(e.runs, 0);
    manual_go(&m, due_at(deadline, TICK));
    ck_assert_uint_eq(e.runs, 1);
    manual_go(&m, HWT_SEC(100));
    ck_assert_uint_eq(e.runs, 1);
}

START_TEST(the_last_of_many_reschedules_decides)
{
    uint64_t seed = test_seed();
    for (int i = 0; i < 100; i++) {
        assert_last_move_decides(test_random(&seed), i % 3 * TICK);
        manual_close(&m);
        open_manual();
    }
    manual_close(&m);
}
END_TEST

START_TEST(a_reschedule_to_never_waits_to_be_moved_again)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(5));
    ck_assert(hwt_timeout_reschedule(timeout, HWT_NEVER));
    manual_go(&m, HWT_SEC(1000));
    ck_assert_uint_eq(e.runs, 0);
    ck_assert_uint_eq(hwt_timeout_remaining(timeout), HWT_NEVER);
    ck_assert(hwt_timeout_reschedule(timeout, HWT_MS(5)));
    manual_go(&m, HWT_SEC(1000) + HWT_MS(6));
    ck_assert_uint_eq(e.runs, 1);
    manual_close(&m);
}
END_TEST

START_TEST(a_cancelled_timeout_is_not_rescheduled)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(5));
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert(!hwt_timeout_reschedule(timeout, HWT_MS(1)));
    ck_assert(!hwt_timeout_reschedule(timeout, HWT_MS(50)));
    manual_go(&m, HWT_SEC(1));
    ck_assert_uint_eq(e.runs, 0);
    ck_assert_uint_eq(e.cancelled, 1);
    manual_close(&m);
}
END_TEST

START_TEST(a_pushed_back_timeout_can_be_cancelled)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(5));
    manual_go(&m, HWT_MS(2));
    ck_assert(hwt_timeout_reschedule(timeout, HWT_MS(50)));
    manual_go(&m, HWT_MS(20));
    ck_assert(hwt_timeout_cancel(timeout));
    manual_go(&m, HWT_MS(21));
    ck_assert_uint_eq(e.cancelled, 1);
    manual_go(&m, HWT_SEC(1));
    ck_assert_uint_eq(e.runs, 0);
    manual_close(&m);
}
END_TEST

START_TEST(a_reschedule_in_its_own_task_rearms_the_same_handle)
{
    script s = SCRIPT(HWT_MS(20), RESCHEDULE);
    hwt_timeout timeout = arm(m.timer, &playing, &s, HWT_MS(5));
    manual_go(&m, HWT_MS(8));
    ck_assert_uint_eq(s.answers[0], true);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
    ck_assert_uint_eq(hwt_timeout_remaining(timeout), HWT_MS(20));
    manual_go(&m, HWT_MS(29) - 1);
    ck_assert_uint_eq(s.ends.runs, 1);
    manual_go(&m, HWT_MS(29));
    ck_assert_uint_eq(s.ends.runs, 2);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_EXPIRED);
    manual_close(&m);
}
END_TEST

/* ---- Repeating ---- */

typedef struct periodic {
    shared_count runs;
    uint64_t period;
    uint64_t when[1000];
} periodic;

static void run_periodic(hwt_timeout timeout, void *arg)
{
    periodic *p = arg;
    uint64_t i = p->runs++;
    if (i < 1000)
        p->when[i] = m.now - m.start;
    (void)hwt_timeout_repeat(timeout, p->period);
}

static const hwt_task repeating = { run_periodic, NULL };

START_TEST(a_repeat_does_not_drift)
{
    static periodic p;
    p.period = HWT_US(3700);
    arm(m.timer, &repeating, &p, p.period);
    for (uint64_t t = 1; t <= 1000; t++)
        manual_go(&m, t * TICK);
    ck_assert_uint_eq(p.runs, 270);
    for (uint64_t i = 0; i < p.runs; i++)
        ck_assert_uint_eq(p.when[i], due_at((i + 1) * p.period, TICK));
    manual_close(&m);
}
END_TEST

START_TEST(a_repeat_skips_the_periods_it_missed)
{
    static periodic p;
    p.period = HWT_MS(10);
    arm(m.timer, &repeating, &p, p.period);
    manual_go(&m, HWT_MS(1005));
    ck_assert_uint_eq(p.runs, 1);
    manual_go(&m, HWT_MS(1011) - 1);
    ck_assert_uint_eq(p.runs, 1);
    manual_go(&m, HWT_MS(1011));
    ck_assert_uint_eq(p.runs, 2);
    manual_go(&m, HWT_MS(1021));
    ck_assert_uint_eq(p.runs, 3);
    manual_close(&m);
}
END_TEST

START_TEST(a_repeat_is_false_outside_its_own_task)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(5));
    ck_assert(!hwt_timeout_repeat(timeout, HWT_MS(1)));
    manual_go(&m, HWT_MS(5));
    ck_assert_uint_eq(e.runs, 0);
    manual_go(&m, HWT_MS(6));
    ck_assert_uint_eq(e.runs, 1);
    ck_assert(!hwt_timeout_repeat(timeout, HWT_MS(1)));
    manual_close(&m);
}
END_TEST

typedef struct meddler {
    hwt_timeout other;
    bool answer;
} meddler;

static void repeat_other(hwt_timeout timeout, void *arg)
{
    meddler *x = arg;
    (void)timeout;
    x->answer = hwt_timeout_repeat(x->other, HWT_MS(1));
}

START_TEST(a_repeat_is_false_in_the_task_of_another)
{
    static const hwt_task meddling = { repeat_other, NULL };
    ends e = { 0 };
    meddler x = { arm(m.timer, &counting, &e, HWT_MS(5)), true };
    arm(m.timer, &meddling, &x, 0);
    manual_go(&m, TICK);
    ck_assert(!x.answer);
    manual_go(&m, HWT_MS(6));
    ck_assert_uint_eq(e.runs, 1);
    manual_close(&m);
}
END_TEST

START_TEST(a_repeat_of_period_zero_is_false)
{
    script s = SCRIPT(0, REPEAT);
    arm(m.timer, &playing, &s, 0);
    manual_go(&m, HWT_SEC(1));
    ck_assert_uint_eq(s.answers[0], false);
    ck_assert_uint_eq(s.ends.runs, 1);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    manual_close(&m);
}
END_TEST

START_TEST(a_repeat_of_an_endless_period_saturates)
{
    script s = SCRIPT(HWT_NEVER, REPEAT);
    hwt_timeout timeout = arm(m.timer, &playing, &s, 0);
    manual_go(&m, HWT_SEC(1));
    ck_assert_uint_eq(s.answers[0], true);
    ck_assert_uint_eq(hwt_timeout_remaining(timeout), HWT_NEVER);
    manual_go(&m, HWT_SEC(1000000));
    ck_assert_uint_eq(s.ends.runs, 1);
    manual_close(&m);
}
END_TEST

/* ---- */

static void add_reschedule(Suite *suite)
{
    TCase *tcase = add_opened_case(suite, "reschedule", open_manual);
    tcase_add_test(tcase, a_reschedule_to_later_moves_the_deadline_and_keeps_the_handle);
    tcase_add_test(tcase, a_reschedule_to_earlier_runs_it_earlier_and_once);
    tcase_add_test(tcase, a_reschedule_to_the_past_runs_in_the_next_tick);
    tcase_add_test(tcase, the_last_of_many_reschedules_decides);
    tcase_add_test(tcase, a_reschedule_to_never_waits_to_be_moved_again);
    tcase_add_test(tcase, a_cancelled_timeout_is_not_rescheduled);
    tcase_add_test(tcase, a_pushed_back_timeout_can_be_cancelled);
    tcase_add_test(tcase, a_reschedule_in_its_own_task_rearms_the_same_handle);
}

static void add_repeat(Suite *suite)
{
    TCase *tcase = add_opened_case(suite, "repeat", open_manual);
    tcase_add_test(tcase, a_repeat_does_not_drift);
    tcase_add_test(tcase, a_repeat_skips_the_periods_it_missed);
    tcase_add_test(tcase, a_repeat_is_false_outside_its_own_task);
    tcase_add_test(tcase, a_repeat_is_false_in_the_task_of_another);
    tcase_add_test(tcase, a_repeat_of_period_zero_is_false);
    tcase_add_test(tcase, a_repeat_of_an_endless_period_saturates);
}

int main(void)
{
    Suite *suite = suite_create("api: move");
    add_reschedule(suite);
    add_repeat(suite);
    return run_suite(suite);
}
