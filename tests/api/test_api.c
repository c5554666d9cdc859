/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The promises on handles and on cancelling, on the public header and the shared
 * library alone. The clock is set: nothing here waits.
 */

#include "api_fixture.h"

#define TICK HWT_MS(1)
#define WHEEL 64

static manual m;

static void open_manual(void)
{
    manual_open(&m, HWT_SEC(7) + 13, TICK, WHEEL);
}

static void assert_never_pending(hwt_timeout timeout)
{
    ck_assert(!hwt_timeout_cancel(timeout));
    ck_assert(!hwt_timeout_cancel_sync(timeout));
    ck_assert(!hwt_timeout_reschedule(timeout, 0));
    ck_assert(!hwt_timeout_reschedule(timeout, HWT_NEVER));
    ck_assert(!hwt_timeout_reschedule_at(timeout, 0));
    ck_assert(!hwt_timeout_repeat(timeout, HWT_MS(1)));
    ck_assert_uint_eq(hwt_timeout_remaining(timeout), 0);
    ck_assert_int_ne(hwt_timeout_state(timeout), HWT_PENDING);
}

/* ---- Handles ---- */

START_TEST(a_zero_handle_is_never_pending)
{
    hwt_timeout zero = { NULL, 0 };
    assert_never_pending(zero);
    manual_close(&m);
}
END_TEST

START_TEST(a_handle_is_pending_until_its_task_runs)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(5));
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_PENDING);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
    manual_go(&m, HWT_MS(3));
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_PENDING);
    manual_go(&m, HWT_MS(6));
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_EXPIRED);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    ck_assert_uint_eq(e.runs, 1);
    assert_never_pending(timeout);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_EXPIRED);
    manual_close(&m);
}
END_TEST

START_TEST(a_cancelled_handle_says_so)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(5));
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_CANCELLED);
    manual_go(&m, HWT_MS(20));
    assert_never_pending(timeout);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_CANCELLED);
    manual_close(&m);
}
END_TEST

START_TEST(remaining_is_the_time_to_the_deadline)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_US(5700));
    ck_assert_uint_eq(hwt_timeout_remaining(timeout), HWT_US(5700));
    atomic_store(&m.now, m.start + HWT_US(2000));
    ck_assert_uint_eq(hwt_timeout_remaining(timeout), HWT_US(3700));
    atomic_store(&m.now, m.start + HWT_US(5900));
    ck_assert_uint_eq(hwt_timeout_remaining(timeout), 0);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_PENDING);
    timeout = arm(m.timer, &counting, &e, HWT_NEVER);
    ck_assert_uint_eq(hwt_timeout_remaining(timeout), HWT_NEVER);
    manual_close(&m);
}
END_TEST

START_TEST(a_timeout_may_be_armed_without_asking_for_its_handle)
{
    ends e = { 0 };
    ck_assert_int_eq(hwt_timer_new_timeout(m.timer, &counting, &e, 0, NULL), 0);
    ck_assert_int_eq(hwt_timer_new_timeout_at(m.timer, &counting, &e, m.start, NULL), 0);
    manual_go(&m, TICK);
    ck_assert_uint_eq(e.runs, 2);
    manual_close(&m);
}
END_TEST

/* Ends timeouts until the memory behind `old` serves another; returns a live one if so. */
static bool reuse_memory_of(hwt_timeout old, hwt_timeout *live, size_t count, ends *e)
{
    for (uint64_t pass = 1; pass <= 2000; pass++) {
        for (size_t i = 0; i < count; i++)
            live[i] = arm(m.timer, &counting, e, HWT_SEC(100));
        if (hwt_timeout_state(old) == HWT_GONE)
            return true;
        for (size_t i = 0; i < count; i++)
            must(hwt_timeout_cancel(live[i]));
        manual_go(&m, TICK * (1 + pass));
    }
    return false;
}

START_TEST(a_stale_handle_is_gone_and_harms_nobody)
{
    enum { LIVE = 500 };
    static hwt_timeout live[LIVE];
    ends e = { 0 }, others = { 0 };
    hwt_timeout old = arm(m.timer, &counting, &e, 0);
    manual_go(&m, TICK);
    ck_assert_uint_eq(e.runs, 1);
    ck_assert(reuse_memory_of(old, live, LIVE, &others));
    for (int i = 0; i < 100; i++)
        assert_never_pending(old);
    ck_assert_int_eq(hwt_timeout_state(old), HWT_GONE);
    for (size_t i = 0; i < LIVE; i++) {
        ck_assert_int_eq(hwt_timeout_state(live[i]), HWT_PENDING);
        ck_assert_uint_gt(hwt_timeout_remaining(live[i]), HWT_SEC(90));
    }
    ck_assert_uint_eq(hwt_timer_pending(m.timer), LIVE);
    manual_go(&m, HWT_SEC(99));
    ck_assert_uint_eq(others.runs, 0);
    manual_go(&m, HWT_SEC(200));
    ck_assert_uint_eq(others.runs, LIVE);
    manual_close(&m);
}
END_TEST

START_TEST(a_task_is_given_its_own_handle)
{
    static const deed deeds[] = { SEE_STATE, RESCHEDULE, SEE_STATE, SEE_REMAINING };
    script s = script_of(deeds, 4, HWT_MS(30));
    hwt_timeout timeout = arm(m.timer, &playing, &s, 0);
    manual_go(&m, TICK);
    ck_assert_uint_eq(s.answers[0], HWT_EXPIRED);
    ck_assert_uint_eq(s.answers[1], true);
    ck_assert_uint_eq(s.answers[2], HWT_PENDING);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_PENDING);
    ck_assert(hwt_timeout_cancel(timeout));
    manual_close(&m);
}
END_TEST

/* ---- Cancelling ---- */

START_TEST(a_cancelled_timeout_never_runs_and_is_told_within_a_tick)
{
    ends e = { 0 };
    hwt_timeout queued = arm(m.timer, &counting, &e, HWT_MS(5));
    ck_assert(hwt_timeout_cancel(queued));
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    manual_go(&m, TICK);
    ck_assert_uint_eq(e.cancelled, 1);

    hwt_timeout armed = arm(m.timer, &counting, &e, HWT_SEC(5));
    manual_go(&m, 2 * TICK);
    ck_assert(hwt_timeout_cancel(armed));
    manual_go(&m, 3 * TICK);
    ck_assert_uint_eq(e.cancelled, 2);
    manual_go(&m, HWT_SEC(10));
    ck_assert_uint_eq(e.runs, 0);
    ck_assert_uint_eq(e.cancelled, 2);
    manual_close(&m);
}
END_TEST

START_TEST(cancel_is_true_once)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(5));
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert(!hwt_timeout_cancel(timeout));
    ck_assert(!hwt_timeout_cancel_sync(timeout));
    timeout = arm(m.timer, &counting, &e, HWT_MS(5));
    ck_assert(hwt_timeout_cancel_sync(timeout));
    ck_assert(!hwt_timeout_cancel(timeout));
    manual_close(&m);
}
END_TEST

typedef struct cancellers {
    hwt_timeout timeouts[20000];
    shared_count ready, trues;
} cancellers;

static void *cancel_all(void *data)
{
    cancellers *c = data;
    c->ready++;
    (void)await_count(&c->ready, 3);
    for (size_t i = 0; i < 20000; i++)
        c->trues += hwt_timeout_cancel(c->timeouts[i]);
    return NULL;
}

START_TEST(cancel_is_true_for_exactly_one_of_several_threads)
{
    static cancellers c;
    ends e = { 0 };
    for (size_t i = 0; i < 20000; i++)
        c.timeouts[i] = arm(m.timer, &counting, &e, HWT_MS(i % 1000));
    pthread_t a = spawn(cancel_all, &c), b = spawn(cancel_all, &c), d = spawn(cancel_all, &c);
    join(a);
    join(b);
    join(d);
    ck_assert_uint_eq(c.trues, 20000);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    manual_go(&m, HWT_SEC(2));
    ck_assert_uint_eq(e.runs, 0);
    ck_assert_uint_eq(e.cancelled, 20000);
    manual_close(&m);
}
END_TEST

static void assert_cancel_during_run_is_the_end(deed cancel)
{
    const deed deeds[] = { cancel, RESCHEDULE, REPEAT, cancel };
    script s = script_of(deeds, 4, TICK);
    arm(m.timer, &playing, &s, 0);
    for (uint64_t t = 1; t < 200; t++)
        manual_go(&m, t * TICK);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(s.answers[i], false);
    ck_assert_uint_eq(s.ends.runs, 1);
    ck_assert_uint_eq(s.ends.cancelled, 0);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
}

START_TEST(a_cancel_in_the_run_bars_the_rearm)
{
    assert_cancel_during_run_is_the_end(CANCEL);
    manual_close(&m);
}
END_TEST

START_TEST(a_cancel_sync_in_the_run_does_not_wait_and_bars_the_rearm)
{
    assert_cancel_during_run_is_the_end(CANCEL_SYNC);
    manual_close(&m);
}
END_TEST

static void assert_cancel_takes_the_rearm_back(deed rearm, deed cancel)
{
    const deed deeds[] = { rearm, cancel, cancel, rearm };
    script s = script_of(deeds, 4, TICK);
    hwt_timeout timeout = arm(m.timer, &playing, &s, 0);
    for (uint64_t t = 1; t < 200; t++)
        manual_go(&m, t * TICK);
    ck_assert_uint_eq(s.answers[0], true);
    ck_assert_uint_eq(s.answers[1], true);
    ck_assert_uint_eq(s.answers[2], false);
    ck_assert_uint_eq(s.answers[3], false);
    ck_assert_uint_eq(s.ends.runs, 1);
    ck_assert_uint_eq(s.cancelled_during_run, 0);
    ck_assert_uint_eq(s.ends.cancelled, 1);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_CANCELLED);
}

START_TEST(a_cancel_after_the_rearm_is_true_and_cancelled_follows_the_run)
{
    assert_cancel_takes_the_rearm_back(RESCHEDULE, CANCEL);
    manual_close(&m);
    open_manual();
    assert_cancel_takes_the_rearm_back(REPEAT, CANCEL_SYNC);
    manual_close(&m);
}
END_TEST

typedef struct encounter {
    hwt_timeout timeout;
    shared_count running, answered, answer, runs, cancelled;
    bool rearm_first, rearmed_before, rearmed_after;
} encounter;

static void meet(hwt_timeout timeout, void *arg)
{
    encounter *e = arg;
    e->runs++;
    if (e->rearm_first)
        e->rearmed_before = hwt_timeout_reschedule(timeout, 0);
    e->running++;
    (void)await_count(&e->answered, 1);
    e->rearmed_after = hwt_timeout_reschedule(timeout, 0);
}

static void part(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    ((encounter *)arg)->cancelled++;
}

static const hwt_task meeting = { meet, part };

static void *cancel_from_elsewhere(void *data)
{
    encounter *e = data;
    (void)await_count(&e->running, 1);
    e->answer = hwt_timeout_cancel(e->timeout);
    e->answered++;
    return NULL;
}

static void encounter_elsewhere(encounter *e)
{
    e->timeout = arm(m.timer, &meeting, e, 0);
    pthread_t thread = spawn(cancel_from_elsewhere, e);
    for (uint64_t t = 1; t < 10; t++)
        manual_go(&m, t * TICK);
    join(thread);
    ck_assert_uint_eq(e->runs, 1);
    ck_assert(!e->rearmed_after);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
}

START_TEST(a_cancel_by_another_thread_during_the_run_bars_the_rearm)
{
    encounter e = { .rearm_first = false };
    encounter_elsewhere(&e);
    ck_assert_uint_eq(e.answer, false);
    ck_assert_uint_eq(e.cancelled, 0);
    manual_close(&m);
}
END_TEST

START_TEST(a_cancel_by_another_thread_after_the_rearm_takes_it_back)
{
    encounter e = { .rearm_first = true };
    encounter_elsewhere(&e);
    ck_assert(e.rearmed_before);
    ck_assert_uint_eq(e.answer, true);
    ck_assert_uint_eq(e.cancelled, 1);
    manual_close(&m);
}
END_TEST

/* ---- */

static void add_handles(Suite *suite)
{
    TCase *tcase = add_opened_case(suite, "handles", open_manual);
    tcase_add_test(tcase, a_zero_handle_is_never_pending);
    tcase_add_test(tcase, a_handle_is_pending_until_its_task_runs);
    tcase_add_test(tcase, a_cancelled_handle_says_so);
    tcase_add_test(tcase, remaining_is_the_time_to_the_deadline);
    tcase_add_test(tcase, a_timeout_may_be_armed_without_asking_for_its_handle);
    tcase_add_test(tcase, a_stale_handle_is_gone_and_harms_nobody);
    tcase_add_test(tcase, a_task_is_given_its_own_handle);
}

static void add_cancel(Suite *suite)
{
    TCase *tcase = add_opened_case(suite, "cancel", open_manual);
    tcase_add_test(tcase, a_cancelled_timeout_never_runs_and_is_told_within_a_tick);
    tcase_add_test(tcase, cancel_is_true_once);
    tcase_add_test(tcase, cancel_is_true_for_exactly_one_of_several_threads);
    tcase_add_test(tcase, a_cancel_in_the_run_bars_the_rearm);
    tcase_add_test(tcase, a_cancel_sync_in_the_run_does_not_wait_and_bars_the_rearm);
    tcase_add_test(tcase, a_cancel_after_the_rearm_is_true_and_cancelled_follows_the_run);
    tcase_add_test(tcase, a_cancel_by_another_thread_during_the_run_bars_the_rearm);
    tcase_add_test(tcase, a_cancel_by_another_thread_after_the_rearm_takes_it_back);
}

int main(void)
{
    Suite *suite = suite_create("api");
    add_handles(suite);
    add_cancel(suite);
    return run_suite(suite);
}
