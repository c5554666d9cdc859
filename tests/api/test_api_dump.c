/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The dump: its whole text on a clock that is set, its arguments, and callbacks that ask for it. */

#include <inttypes.h>
#include <stdarg.h>

#include "dump_fixture.h"

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

static void *arm_one(void *timer)
{
    arm(timer, &counting, &e, HWT_MS(3));
    return NULL;
}

/* A second one of the same thread, and one of another. */
START_TEST(what_is_queued_is_not_filed_yet)
{
    for (unsigned count = 1; count <= 3; count++) {
        if (count == 3)
            join(spawn(arm_one, m.timer));
        else
            arm_one(m.timer);
        expect_line("no worker, tick 0 of 0.001000000 s, 0.000000000 s after the start");
        expect_totals(m.timer, count, 0, 0);
        expect_queues(count == 3 ? 2 : 1, 0, 0);
        expect_line("next wake: never");
        compare_dump(m.timer);
    }
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

START_TEST(what_is_cancelled_is_not_counted_but_in_the_queue_until_it_is_told)
{
    hwt_timeout soonest = arm(m.timer, &counting, &e, HWT_MS(3));
    arm(m.timer, &counting, &e, HWT_MS(11));
    manual_go(&m, HWT_MS(1));
    ck_assert(hwt_timeout_cancel(soonest));
    expect_line("no worker, tick 1 of 0.001000000 s, 0.001000000 s after the start");
    expect_totals(m.timer, 1, 1, 1);
    expect_queues(0, 1, 0);
    expect_line("next wake: tick 11, in 0.011000000 s");
    expect_line("bucket 3: 1, next: tick 11, in 0.011000000 s");
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

/* To find a bucket's next tick it is tidied, which gives memory back. */
START_TEST(the_memory_is_what_is_held_after_the_look)
{
    enum { MANY = 1000 };
    hwt_timeout dropped[MANY];
    char held[100];
    arm(m.timer, &counting, &e, HWT_MS(2));
    arm(m.timer, &counting, &e, HWT_MS(5 + 8));
    for (int i = 0; i < MANY; i++)
        dropped[i] = arm(m.timer, &counting, &e, HWT_MS(5));
    manual_go(&m, HWT_MS(1));
    for (int i = 0; i < MANY; i++)
        must(hwt_timeout_cancel(dropped[i]));
    manual_go(&m, HWT_MS(1));
    uint64_t before = stats_of(m.timer).memory;
    dump_of(m.timer);
    ck_assert_uint_lt(stats_of(m.timer).memory, before);
    snprintf(held, sizeof(held), " buckets, %" PRIu64 " bytes held\n", stats_of(m.timer).memory);
    ck_assert_ptr_nonnull(strstr(dump, held));
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

/* ---- */

static void add_text(Suite *suite)
{
    TCase *tcase = add_opened_case(suite, "text", open_timer);
    tcase_add_test(tcase, an_empty_timer_waits_for_nothing);
    tcase_add_test(tcase, what_is_queued_is_not_filed_yet);
    tcase_add_test(tcase, each_bucket_tells_how_many_are_in_it_and_its_next_tick);
    tcase_add_test(tcase, what_is_cancelled_is_not_counted_but_in_the_queue_until_it_is_told);
    tcase_add_test(tcase, a_bucket_whose_soonest_were_dropped_tells_its_next);
    tcase_add_test(tcase, the_memory_is_what_is_held_after_the_look);
    tcase_add_test(tcase, a_tick_that_is_over_is_due_now);
    tcase_add_loop_test(tcase, buckets_in_use_are_found_in_a_wheel_of_any_size, 0, 21);
    tcase_add_test(tcase, a_dump_is_cut_short_as_by_snprintf);
    tcase_add_test(tcase, a_dump_needs_a_timer_and_a_buffer);
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
    add_callbacks(suite);
    return run_suite(suite);
}
