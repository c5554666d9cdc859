/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Each call that drives or ends a timer takes what is there when it begins, and returns though
 * other threads add, cancel and move without pause; and a worker that has nothing to
 * run but to file and discard for others runs what is due.
 */

#include "api_fixture.h"

enum { ADDERS = 3, ADDS = 1500000 };

typedef struct storm {
    hwt_timer *timer;
    uint64_t least; /* delay: a storm of what is due at once leaves the worker behind */
    ends ends;
    shared_count going, added, over;
} storm;

static void *blow(void *data)
{
    storm *s = data;
    uint64_t random = (uintptr_t)&random;
    s->going++;
    while (!s->over) {
        hwt_timeout timeout;
        uint64_t choice = test_random(&random);
        if (hwt_timer_new_timeout(s->timer, &counting, &s->ends,
                                  s->least + (HWT_SEC(1) >> choice % 20), &timeout) < 0)
            break;
        s->added++;
        if (choice & 1024)
            hwt_timeout_cancel(timeout);
        else
            hwt_timeout_reschedule(timeout, s->least);
    }
    return NULL;
}

typedef struct guard {
    storm *storm;
    shared_count calls, over, gave_up;
} guard;

/* Ends the storm where a call does not return, so that the test can say so. */
static void *watch(void *data)
{
    guard *g = data;
    uint64_t calls = g->calls, since = monotonic();
    while (!g->over) {
        usleep(1000);
        if (g->calls != calls) {
            calls = g->calls;
            since = monotonic();
        } else if (monotonic() - since > HWT_SEC(15)) {
            g->gave_up = 1;
            g->storm->over = 1;
            since = monotonic();
        }
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

static void call_amid(hwt_timer *timer)
{
    storm s = { .timer = timer };
    guard g = { .storm = &s };
    pthread_t threads[ADDERS], watching;
    for (int i = 0; i < ADDERS; i++)
        threads[i] = spawn(blow, &s);
    ck_assert(await_count(&s.going, ADDERS));
    watching = spawn(watch, &g);
    for (int i = 0; s.added < ADDS && !g.gave_up; i++) {
        drive(timer, i);
        g.calls++;
    }
    uint64_t calls = g.calls;
    bool driven = !g.gave_up;
    int64_t left = hwt_timer_stop(timer, NULL, NULL);
    g.over = s.over = 1;
    for (int i = 0; i < ADDERS; i++)
        join(threads[i]);
    join(watching);
    if (!driven)
        ck_abort_msg("call %" PRIu64 " did not return while others added", calls);
    ck_assert(!g.gave_up); /* nor stop */
    ck_assert_int_ge(left, 0);
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(ends_sum(&s.ends), s.added);
}

/* Each loop: another seed. */
START_TEST(calls_that_drive_return_though_others_add)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    options.tick_duration = HWT_MS(1);
    hwt_timer *timer = create(&options);
    if (_i % 2)
        ck_assert_int_ge(hwt_timer_fd(timer), 0);
    call_amid(timer);
}
END_TEST

START_TEST(calls_beside_a_worker_return_though_others_add)
{
    call_amid(create_ticking(HWT_MS(1)));
}
END_TEST

START_TEST(a_worker_runs_what_is_due_though_others_add)
{
    ends e = { 0 };
    storm s = { .timer = create_ticking(HWT_MS(1)), .least = HWT_SEC(3600) };
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
    hwt_timer_destroy(s.timer);
    ck_assert_uint_eq(ends_sum(&s.ends), s.added);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: calls amid a storm");
    TCase *tcase = add_case(suite, "storm");
    tcase_add_loop_test(tcase, calls_that_drive_return_though_others_add, 0, 4);
    tcase_add_test(tcase, calls_beside_a_worker_return_though_others_add);
    tcase_add_test(tcase, a_worker_runs_what_is_due_though_others_add);
    return run_suite(suite);
}
