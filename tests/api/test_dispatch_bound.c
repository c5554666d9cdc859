/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Each call that drives or ends a timer takes what is there when it begins, and returns though
 * other threads add, cancel and move without pause; and a worker that has nothing to
 * run but to file and to tell for others runs what is due.
 */

#include "api_fixture.h"

/* Calls are made until so many have been added. One that takes what is there when it begins is over
 * long before forty times as many have been. */
enum { ADDERS = 3, ADDS = 200000, TOO_MANY = 40 * ADDS };

typedef struct storm {
    hwt_timer *timer;
    const hwt_task *task;
    uint64_t least; /* delay; if not 0, all are cancelled: what stays would leave a worker behind */
    ends ends;
    shared_count going, added, over;
} storm;

/* Without a `cancelled`, which would be the worker's to call, as often as they cancel. */
static const hwt_task quiet = { count_run, NULL };

static void *blow(void *data)
{
    storm *s = data;
    uint64_t random = (uintptr_t)&random;
    s->going++;
    while (!s->over && (s->least > 0 || s->added < TOO_MANY)) {
        hwt_timeout timeout;
        uint64_t choice = test_random(&random);
        if (hwt_timer_new_timeout(s->timer, s->task, &s->ends,
                                  s->least + (HWT_SEC(1) >> choice % 20), &timeout) < 0)
            break;
        s->added++;
        if (!(choice & 1024))
            hwt_timeout_reschedule(timeout, s->least);
        if (choice & 1024 || s->least > 0)
            s->ends.cancelled += hwt_timeout_cancel(timeout) && s->task == &quiet;
    }
    return NULL;
}

static void drive(hwt_timer *timer, int call)
{
    char text[64];
    switch (call % 3) {
    case 0:
        (void)hwt_timer_dispatch(timer);
        break;
    case 1:
        (void)hwt_timer_next_tick(timer);
        break;
    default:
        (void)hwt_timer_dump(timer, text, sizeof(text));
        break;
    }
}

static void call_amid(hwt_timer *timer, const hwt_task *task)
{
    storm s = { .timer = timer, .task = task };
    pthread_t threads[ADDERS];
    int calls = 0;
    for (int i = 0; i < ADDERS; i++)
        threads[i] = spawn(blow, &s);
    ck_assert(await_count(&s.going, ADDERS));
    for (; s.added < ADDS; calls++)
        drive(timer, calls);
    uint64_t added = s.added;
    ck_assert_int_ge(hwt_timer_stop(timer, count_visit, NULL), 0);
    s.over = 1;
    for (int i = 0; i < ADDERS; i++)
        join(threads[i]);
    if (added >= TOO_MANY)
        ck_abort_msg("call %d did not return while others added", calls);
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(ends_sum(&s.ends), s.added);
}

/* Each loop: with a descriptor or without; with a `cancelled` or without. */
START_TEST(calls_that_drive_return_though_others_add)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    options.tick_duration = HWT_MS(1);
    hwt_timer *timer = create(&options);
    if (_i % 2)
        ck_assert_int_ge(hwt_timer_fd(timer), 0);
    call_amid(timer, _i / 2 % 2 ? &counting : &quiet);
}
END_TEST

START_TEST(calls_beside_a_worker_return_though_others_add)
{
    call_amid(create_ticking(HWT_MS(1)), &counting);
}
END_TEST

START_TEST(a_worker_runs_what_is_due_though_others_add)
{
    ends e = { 0 };
    storm s = { .timer = create_ticking(HWT_MS(1)), .task = &quiet, .least = HWT_SEC(3600) };
    pthread_t threads[ADDERS];
    for (int i = 0; i < ADDERS; i++)
        threads[i] = spawn(blow, &s);
    for (uint64_t i = 1; i <= 20; i++) {
        arm(s.timer, &counting, &e, HWT_MS(2));
        ck_assert(await_count(&e.runs, i));
    }
    s.over = 1;
    for (int i = 0; i < ADDERS; i++)
        join(threads[i]);
    ck_assert_int_ge(hwt_timer_stop(s.timer, count_visit, NULL), 0);
    hwt_timer_destroy(s.timer);
    ck_assert_uint_eq(ends_sum(&s.ends), s.added);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: calls amid a storm");
    TCase *tcase = add_case(suite, "storm");
    tcase_add_loop_test(tcase, calls_that_drive_return_though_others_add, 0, 10);
    tcase_add_test(tcase, calls_beside_a_worker_return_though_others_add);
    tcase_add_test(tcase, a_worker_runs_what_is_due_though_others_add);
    return run_suite(suite);
}
