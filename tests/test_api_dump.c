/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The dump: its whole text on a clock that is set; who may ask for it, and when; and that a worker
 * answers it whatever goes on.
 */

#include <inttypes.h>
#include <stdarg.h>

#include "waiting.h"

enum { ROOM = 16 * 1024 };

static char dump[ROOM];

static const char *dump_of(hwt_timer *timer)
{
    memset(dump, '#', sizeof(dump));
    int64_t length = hwt_timer_dump(timer, dump, sizeof(dump));
    ck_assert_int_gt(length, 0);
    ck_assert_int_lt(length, ROOM);
    ck_assert_uint_eq(strlen(dump), (size_t)length);
    return dump;
}

static char expected[ROOM];

__attribute__((format(printf, 1, 2))) static void expect_line(const char *format, ...)
{
    size_t used = strlen(expected);
    va_list args;
    va_start(args, format);
    ck_assert_int_lt(vsnprintf(expected + used, ROOM - used, format, args), (int)(ROOM - used));
    va_end(args);
    strcat(expected, "\n");
}

static void expect_totals(const hwt_timer *timer, unsigned pending, unsigned filed,
                          unsigned buckets)
{
    expect_line("%u pending, %u filed in %u buckets, %" PRIu64 " bytes held", pending, filed,
                buckets, stats_of(timer).memory);
}

static void expect_queues(unsigned pending, unsigned cancelled, unsigned submitted)
{
    expect_line("queues in use: %u pending, %u cancelled; on the executor: %u", pending, cancelled,
                submitted);
}

static void compare_dump(hwt_timer *timer)
{
    ck_assert_str_eq(dump_of(timer), expected);
    expected[0] = '\0';
}

/* ---- the text ---- */

static manual m;
static ends e;

static void open_timer(void)
{
    manual_open(&m, HWT_SEC(100), HWT_MS(1), 8);
    e = (ends){ 0, 0, 0 };
    expected[0] = '\0';
}

START_TEST(an_empty_timer_waits_for_nothing)
{
    expect_line("no worker, tick 0 of 0.001000000 s, 0.000000000 s after the start");
    expect_totals(m.timer, 0, 0, 0);
    expect_queues(0, 0, 0);
    expect_line("next wake: never");
    compare_dump(m.timer);
    manual_close(&m);
}
END_TEST

START_TEST(what_is_queued_is_not_filed_yet)
{
    arm(m.timer, &counting, &e, HWT_MS(3));
    arm(m.timer, &counting, &e, HWT_MS(3));
    expect_line("no worker, tick 0 of 0.001000000 s, 0.000000000 s after the start");
    expect_totals(m.timer, 2, 0, 0);
    expect_queues(1, 0, 0);
    expect_line("next wake: never");
    compare_dump(m.timer);
    ck_assert_uint_eq(e.runs, 0);
    manual_close(&m);
}
END_TEST

START_TEST(each_bucket_tells_how_many_are_in_it_and_its_next_tick)
{
    arm(m.timer, &counting, &e, HWT_MS(19)); /* bucket 3, in its third round */
    arm(m.timer, &counting, &e, HWT_MS(11)); /* in its second */
    arm(m.timer, &counting, &e, HWT_MS(6));
    arm(m.timer, &counting, &e, HWT_SEC(3600)); /* 3600000 ticks: bucket 0 */
    arm(m.timer, &counting, &e, HWT_NEVER);
    manual_go(&m, HWT_MS(5) + 250);
    expect_line("no worker, tick 5 of 0.001000000 s, 0.005000250 s after the start");
    expect_totals(m.timer, 5, 5, 4);
    expect_queues(0, 0, 0);
    expect_line("next wake: tick 6, in 0.001999750 s");
    expect_line("bucket 0: 1, next: tick 3600000, in 3599.995999750 s");
    expect_line("bucket 3: 2, next: tick 11, in 0.006999750 s");
    expect_line("bucket 6: 1, next: tick 6, in 0.001999750 s");
    expect_line("bucket 8: 1, next: never");
    compare_dump(m.timer);
    manual_close(&m);
}
END_TEST

START_TEST(what_is_cancelled_is_there_until_it_is_discarded)
{
    hwt_timeout soonest = arm(m.timer, &counting, &e, HWT_MS(3));
    arm(m.timer, &counting, &e, HWT_MS(11));
    manual_go(&m, HWT_MS(1));
    ck_assert(hwt_timeout_cancel(soonest));
    expect_line("no worker, tick 1 of 0.001000000 s, 0.001000000 s after the start");
    expect_totals(m.timer, 1, 2, 1);
    expect_queues(0, 1, 0);
    expect_line("next wake: tick 3, in 0.003000000 s");
    expect_line("bucket 3: 2, next: tick 3, in 0.003000000 s");
    compare_dump(m.timer);
    ck_assert_uint_eq(e.cancelled, 0);
    manual_go(&m, HWT_MS(2));
    expect_line("no worker, tick 2 of 0.001000000 s, 0.002000000 s after the start");
    expect_totals(m.timer, 1, 1, 1);
    expect_queues(0, 0, 0);
    expect_line("next wake: tick 11, in 0.010000000 s");
    expect_line("bucket 3: 1, next: tick 11, in 0.010000000 s");
    compare_dump(m.timer);
    manual_close(&m);
}
END_TEST

/* The next tick of a bucket that is not the soonest, after those it was due for were dropped. */
START_TEST(a_bucket_whose_soonest_were_dropped_tells_its_next)
{
    arm(m.timer, &counting, &e, HWT_MS(2));
    hwt_timeout dropped = arm(m.timer, &counting, &e, HWT_MS(5));
    arm(m.timer, &counting, &e, HWT_MS(5 + 8));
    manual_go(&m, HWT_MS(1));
    ck_assert(hwt_timeout_cancel(dropped));
    manual_go(&m, HWT_MS(1));
    dump_of(m.timer);
    ck_assert_ptr_nonnull(strstr(dump, "\nnext wake: tick 2, in 0.002000000 s\n"));
    ck_assert_ptr_nonnull(strstr(dump, "\nbucket 5: 1, next: tick 13, in 0.013000000 s\n"));
    manual_close(&m);
}
END_TEST

START_TEST(a_tick_that_is_over_is_due_now)
{
    arm(m.timer, &counting, &e, HWT_MS(1));
    manual_go(&m, 0);
    atomic_store(&m.now, m.start + HWT_MS(7));
    expect_line("no worker, tick 7 of 0.001000000 s, 0.007000000 s after the start");
    expect_totals(m.timer, 1, 1, 1);
    expect_queues(0, 0, 0);
    expect_line("next wake: tick 1, in 0.000000000 s");
    expect_line("bucket 1: 1, next: tick 1, in 0.000000000 s");
    compare_dump(m.timer);
    manual_close(&m);
}
END_TEST

START_TEST(buckets_in_use_are_found_in_a_wheel_of_any_size)
{
    enum { TICKS = 100 };
    uint32_t wheel = UINT32_C(1) << _i;
    uint64_t seed = test_seed(), counts[TICKS] = { 0 }, next[TICKS];
    manual_close(&m);
    manual_open(&m, 0, HWT_MS(1), wheel);
    for (int i = 0; i < 40; i++) {
        uint64_t tick = test_random(&seed) % TICKS, bucket = tick % wheel;
        arm(m.timer, &counting, &e, HWT_MS(tick));
        next[bucket] = counts[bucket]++ > 0 && next[bucket] < tick ? next[bucket] : tick;
    }
    manual_go(&m, 0);
    for (unsigned bucket = 0; bucket < TICKS; bucket++) {
        if (counts[bucket] > 0)
            expect_line("bucket %u: %" PRIu64 ", next: tick %" PRIu64 ", in 0.%03" PRIu64
                        "000000 s",
                        bucket, counts[bucket], next[bucket], next[bucket] + 1);
    }
    ck_assert_str_eq(strstr(dump_of(m.timer), "bucket "), expected);
    manual_close(&m);
}
END_TEST

START_TEST(a_dump_is_cut_short_as_by_snprintf)
{
    static char part[ROOM];
    arm(m.timer, &counting, &e, HWT_MS(3));
    manual_go(&m, HWT_MS(1));
    size_t length = strlen(dump_of(m.timer));
    ck_assert_int_eq(hwt_timer_dump(m.timer, NULL, 0), (int64_t)length);
    for (size_t size = 1; size < length + 3; size++) {
        size_t kept = size <= length ? size - 1 : length;
        memset(part, '#', size + 1);
        must(hwt_timer_dump(m.timer, part, size) == (int64_t)length);
        must(memcmp(part, dump, kept) == 0);
        must(part[kept] == '\0' && part[size] == '#');
    }
    manual_close(&m);
}
END_TEST

START_TEST(a_dump_needs_a_timer_and_a_buffer)
{
    char buffer[8] = "before";
    ck_assert_int_eq(hwt_timer_dump(NULL, buffer, sizeof(buffer)), -EINVAL);
    ck_assert_int_eq(hwt_timer_dump(m.timer, NULL, 1), -EINVAL);
    ck_assert_str_eq(buffer, "before");
    manual_close(&m);
}
END_TEST

/* ---- with a worker ---- */

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

/* ---- from callbacks ---- */

enum { CALLBACKS = 3 }; /* run, cancelled, unprocessed */

typedef struct insider {
    hwt_timer *timer;
    shared_count asked;
    int64_t answers[CALLBACKS];
    char texts[CALLBACKS][ROOM];
} insider;

static insider in;

static void dump_inside(hwt_timeout timeout, void *arg)
{
    insider *i = arg;
    (void)timeout;
    i->answers[i->asked] = hwt_timer_dump(i->timer, i->texts[i->asked], ROOM);
    i->asked++;
}

static void dump_visiting(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    (void)task;
    (void)remaining;
    (void)data;
    if (arg == &in)
        dump_inside((hwt_timeout){ NULL, 0 }, arg);
}

static const hwt_task dumping = { dump_inside, dump_inside };

/* One timeout of `in` that runs, one that is cancelled, and one that stop leaves; three more that
 * stay until then. */
static void dump_from_each_callback(hwt_timer *timer, bool has_worker)
{
    in = (insider){ .timer = timer };
    for (int i = 0; i < 3; i++)
        arm(timer, &counting, &e, HWT_SEC(3600));
    arm(timer, &dumping, &in, 0);
    if (!has_worker)
        manual_go(&m, HWT_MS(1));
    ck_assert(await_count(&in.asked, 1));
    ck_assert(hwt_timeout_cancel(arm(timer, &dumping, &in, HWT_SEC(3600))));
    if (!has_worker)
        manual_go(&m, HWT_MS(2));
    ck_assert(await_count(&in.asked, 2));
    arm(timer, &dumping, &in, HWT_SEC(3600));
    ck_assert_int_eq(hwt_timer_stop(timer, dump_visiting, NULL), 4);
    ck_assert_uint_eq(in.asked, CALLBACKS);
}

START_TEST(a_callback_dumps_at_once)
{
    bool has_worker = _i;
    hwt_timer *ticking = create_ticking(HWT_MS(1));
    dump_from_each_callback(has_worker ? ticking : m.timer, has_worker);
    for (int i = 0; i < CALLBACKS; i++) {
        const char *state = i == 2 ? "stopped, " : has_worker ? "worker runs, " : "no worker, ";
        ck_assert_int_eq(in.answers[i], (int64_t)strlen(in.texts[i]));
        ck_assert_int_eq(strncmp(in.texts[i], state, strlen(state)), 0);
        if (i < 2)
            ck_assert_ptr_nonnull(strstr(in.texts[i], "\n3 pending, 3 filed in "));
    }
    hwt_timer_destroy(ticking);
    manual_close(&m);
}
END_TEST

static int dump_and_refuse(void *data, void (*work)(void *), void *arg)
{
    (void)work;
    (void)arg;
    if (in.asked == 0)
        dump_inside((hwt_timeout){ NULL, 0 }, data);
    return -1;
}

START_TEST(a_callback_of_a_timer_with_an_executor_is_told_of_the_deadlock)
{
    deferred d;
    hwt_timer *timer = create_with_crew(&d, 1, HWT_MS(1));
    dump_from_each_callback(timer, true);
    for (int i = 0; i < CALLBACKS; i++) {
        ck_assert_int_eq(in.answers[i], -EDEADLK);
        ck_assert_str_eq(in.texts[i], "");
    }
    ck_assert_int_gt(hwt_timer_dump(timer, dump, ROOM), 0);
    hwt_timer_destroy(timer);
    deferred_close(&d);

    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.executor = dump_and_refuse;
    options.executor_data = &in;
    timer = create(&options);
    in = (insider){ .timer = timer };
    arm(timer, &counting, &e, 0);
    ck_assert(await_count(&in.asked, 1));
    hwt_timer_destroy(timer);
    ck_assert_int_eq(in.answers[0], -EDEADLK);
    manual_close(&m);
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

START_TEST(dumps_meet_adds_cancels_and_stop)
{
    static traffic t;
    deferred d;
    bool with_executor = _i;
    hwt_timer *timer =
        with_executor ? create_with_crew(&d, 2, HWT_MS(1)) : create_ticking(HWT_MS(1));
    pthread_t threads[CALLERS + DUMPERS];
    t = (traffic){ .timer = timer, .calling = CALLERS };
    for (int i = 0; i < CALLERS + DUMPERS; i++)
        threads[i] = spawn(i < CALLERS ? add_and_cancel : dump_all_the_while, &t);
    ck_assert(await_count(&t.dumps, 10));
    while (t.calling > 1)
        sched_yield();
    ck_assert_int_ge(hwt_timer_stop(timer, count_visit, NULL), 0);
    ck_assert(await_count(&t.dumps, t.dumps + 10));
    t.over = 1;
    for (int i = 0; i < CALLERS + DUMPERS; i++)
        join(threads[i]);
    ck_assert_uint_eq(t.bad, 0);
    ck_assert_uint_eq(ends_sum(&t.ends), t.added);
    hwt_timer_destroy(timer);
    if (with_executor)
        deferred_close(&d);
}
END_TEST

/* ---- */

static void add_text(Suite *suite)
{
    TCase *tcase = add_opened_case(suite, "text", open_timer);
    tcase_add_test(tcase, an_empty_timer_waits_for_nothing);
    tcase_add_test(tcase, what_is_queued_is_not_filed_yet);
    tcase_add_test(tcase, each_bucket_tells_how_many_are_in_it_and_its_next_tick);
    tcase_add_test(tcase, what_is_cancelled_is_there_until_it_is_discarded);
    tcase_add_test(tcase, a_bucket_whose_soonest_were_dropped_tells_its_next);
    tcase_add_test(tcase, a_tick_that_is_over_is_due_now);
    tcase_add_loop_test(tcase, buckets_in_use_are_found_in_a_wheel_of_any_size, 0, 21);
    tcase_add_test(tcase, a_dump_is_cut_short_as_by_snprintf);
    tcase_add_test(tcase, a_dump_needs_a_timer_and_a_buffer);
}

static void add_worker(Suite *suite)
{
    TCase *tcase = add_case(suite, "worker");
    tcase_add_test(tcase, a_timer_is_dumped_before_it_starts_while_it_runs_and_after_it_stopped);
    tcase_add_test(tcase, each_dump_wakes_a_worker_that_parks);
    tcase_add_test(tcase, a_dump_waits_for_the_task_that_runs);
    tcase_add_test(tcase, a_dump_tells_what_the_executor_has);
    tcase_add_loop_test(tcase, dumps_meet_adds_cancels_and_stop, 0, 2);
}

static void add_callbacks(Suite *suite)
{
    TCase *tcase = add_opened_case(suite, "callbacks", open_timer);
    tcase_add_loop_test(tcase, a_callback_dumps_at_once, 0, 2);
    tcase_add_test(tcase, a_callback_of_a_timer_with_an_executor_is_told_of_the_deadlock);
}

int main(void)
{
    Suite *suite = suite_create("api: dump");
    add_text(suite);
    add_worker(suite);
    add_callbacks(suite);
    return run_suite(suite);
}
