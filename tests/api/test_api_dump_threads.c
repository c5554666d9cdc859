/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The dump where there are threads: the worker answers it whenever it is asked for, and what others
 * do meanwhile goes on.
 */

#include "dump_fixture.h"

static ends e;

/* ---- the worker ---- */

/* Whether the dump begins so and has that line. */
static void expect_dump(hwt_timer *timer, const char *beginning, const char *line)
{
    dump_of(timer);
    if (strncmp(dump, beginning, strlen(beginning)) != 0 || !strstr(dump, line))
        ck_abort_msg("neither begins with \"%s\" nor has \"%s\": %s", beginning, line, dump);
}

START_TEST(a_timer_is_dumped_before_it_starts_while_it_runs_and_after_it_stopped)
{
    hwt_timer *timer = create_ticking(HWT_SEC(3600));
    expect_dump(timer, "worker not started, ", "\n0 pending, 0 filed in 0 buckets, ");
    for (int i = 0; i < 3; i++)
        arm(timer, &counting, &e, HWT_SEC(3600 * i));
    arm(timer, &counting, &e, HWT_NEVER);
    dump_of(
        timer); /* by a pass that may have begun before all were added; the next one files them */
    expect_dump(timer, "worker runs, ", "\n4 pending, 4 filed in 4 buckets, ");
    expect_dump(timer, "worker runs, ", "\nbucket 1: 1, next: tick 1, in ");
    expect_dump(timer, "worker runs, ", "\nbucket 512: 1, next: never\n");
    ck_assert_int_eq(hwt_timer_stop(timer, NULL, NULL), 4);
    expect_dump(timer, "stopped, ", "\n0 pending, 0 filed in 0 buckets, ");
    hwt_timer_destroy(timer);
}
END_TEST

/* The worker sleeps, or is about to: it would not wake by itself. */
START_TEST(each_dump_wakes_a_worker_that_parks)
{
    hwt_timer *timer = create_ticking(HWT_MS(1));
    ck_assert_int_eq(hwt_timer_start(timer), 0);
    for (int i = 0; i < 3000; i++)
        must(hwt_timer_dump(timer, dump, sizeof(dump)) > 0);
    hwt_timer_destroy(timer);
}
END_TEST

typedef struct dumper {
    hwt_timer *timer;
    gate *gate;
    shared_count entering, passed_at_return;
    int64_t answer;
    char text[ROOM];
} dumper;

static void *dump_and_note(void *data)
{
    dumper *d = data;
    d->entering++;
    d->answer = hwt_timer_dump(d->timer, d->text, sizeof(d->text));
    d->passed_at_return = d->gate->passed;
    return NULL;
}

START_TEST(a_dump_waits_for_the_task_that_runs)
{
    static dumper d;
    gate g = { 0 };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    arm(timer, &gated, &g, 0);
    ck_assert(await_count(&g.reached, 1));
    d = (dumper){ .timer = timer, .gate = &g };
    pthread_t thread = spawn(dump_and_note, &d);
    ck_assert(await_count(&d.entering, 1));
    give_others_a_chance();
    g.open = 1;
    join(thread);
    ck_assert_int_gt(d.answer, 0);
    ck_assert_uint_eq(d.passed_at_return, 1);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(a_dump_tells_what_the_executor_has)
{
    deferred d;
    hwt_options options = HWT_OPTIONS_INIT;
    deferred_open(&d);
    options.tick_duration = HWT_MS(1);
    options.executor = defer;
    options.executor_data = &d;
    hwt_timer *timer = create(&options);
    arm(timer, &counting, &e, 0);
    arm(timer, &counting, &e, 0);
    ck_assert(await_count(&d.accepted, 2));
    expect_dump(timer, "worker runs, ", "; on the executor: 2\n");
    run_deferred(&d);
    expect_dump(timer, "worker runs, ", "; on the executor: 0\n");
    hwt_timer_destroy(timer);
    deferred_close(&d);
}
END_TEST

/* ---- while others go on ---- */

enum { CALLERS = 3, DUMPERS = 2, CALLS = 20000 };

typedef struct traffic {
    hwt_timer *timer;
    ends ends;
    shared_count added, calling, dumps, bad, over;
} traffic;

static void *add_and_cancel(void *data)
{
    traffic *t = data;
    uint64_t random = 1;
    for (int i = 0; i < CALLS; i++) {
        uint64_t choice = test_random(&random);
        hwt_timeout timeout;
        if (hwt_timer_new_timeout(t->timer, &counting, &t->ends, choice % HWT_MS(50), &timeout) < 0)
            continue;
        t->added++;
        if (choice % 3 == 0)
            hwt_timeout_cancel(timeout);
        else if (choice % 3 == 1)
            hwt_timeout_reschedule(timeout, choice % HWT_MS(20));
    }
    t->calling--;
    return NULL;
}

static void *dump_all_the_while(void *data)
{
    traffic *t = data;
    static _Thread_local char text[ROOM];
    while (!t->over) {
        int64_t length = hwt_timer_dump(t->timer, text, ROOM);
        t->bad += length <= 0 || strlen(text) != (uint64_t)(length < ROOM ? length : ROOM - 1);
        t->dumps++;
    }
    return NULL;
}

static void *drive(void *data)
{
    traffic *t = data;
    while (!t->over)
        hwt_timer_dispatch(t->timer);
    return NULL;
}

static void dump_meanwhile(hwt_timer *timer, bool driven)
{
    static traffic t;
    pthread_t threads[CALLERS + DUMPERS + 1];
    int count = CALLERS + DUMPERS + driven;
    t = (traffic){ .timer = timer, .calling = CALLERS };
    for (int i = 0; i < count; i++)
        threads[i] = spawn(i < CALLERS             ? add_and_cancel
                           : i < CALLERS + DUMPERS ? dump_all_the_while
                                                   : drive,
                           &t);
    ck_assert(await_count(&t.dumps, 10));
    while (t.calling > 1)
        sched_yield();
    ck_assert_int_ge(hwt_timer_stop(timer, count_visit, NULL), 0);
    ck_assert(await_count(&t.dumps, t.dumps + 10));
    t.over = 1;
    for (int i = 0; i < count; i++)
        join(threads[i]);
    ck_assert_uint_eq(t.bad, 0);
    ck_assert_uint_eq(ends_sum(&t.ends), t.added);
    hwt_timer_destroy(timer);
}

START_TEST(dumps_meet_adds_cancels_and_stop)
{
    dump_meanwhile(create_ticking(HWT_MS(1)), false);
}
END_TEST

START_TEST(dumps_meet_them_beside_an_executor)
{
    deferred d;
    dump_meanwhile(create_with_crew(&d, 2, HWT_MS(1)), false);
    deferred_close(&d);
}
END_TEST

START_TEST(dumps_meet_them_and_who_drives_the_timer)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.flags = HWT_NO_WORKER;
    dump_meanwhile(create(&options), true);
}
END_TEST

/* ---- */

static void add_worker(Suite *suite)
{
    TCase *tcase = add_case(suite, "worker");
    tcase_add_test(tcase, a_timer_is_dumped_before_it_starts_while_it_runs_and_after_it_stopped);
    tcase_add_test(tcase, each_dump_wakes_a_worker_that_parks);
    tcase_add_test(tcase, a_dump_waits_for_the_task_that_runs);
    tcase_add_test(tcase, a_dump_tells_what_the_executor_has);
}

static void add_traffic(Suite *suite)
{
    TCase *tcase = add_case(suite, "traffic");
    tcase_add_test(tcase, dumps_meet_adds_cancels_and_stop);
    tcase_add_test(tcase, dumps_meet_them_beside_an_executor);
    tcase_add_test(tcase, dumps_meet_them_and_who_drives_the_timer);
}

int main(void)
{
    Suite *suite = suite_create("api: dump, threads");
    add_worker(suite);
    add_traffic(suite);
    return run_suite(suite);
}
