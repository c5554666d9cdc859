/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Options and constants: their defaults, their ranges, and that a failure leaves the
 * output alone.
 */

#include "api_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static char nowhere;
static hwt_timer *const untouched = (hwt_timer *)&nowhere;

static void assert_create(int expected, const hwt_options *options)
{
    hwt_timer *timer = untouched;
    ck_assert_int_eq(hwt_timer_create(options, &timer), expected);
    if (expected < 0)
        ck_assert_ptr_eq(timer, untouched);
    else
        hwt_timer_destroy(timer);
}

START_TEST(the_defaults_are_those_of_the_header)
{
    const hwt_options options = HWT_OPTIONS_INIT;
    ck_assert_uint_eq(options.size, sizeof(options));
    ck_assert_uint_eq(options.tick_duration, HWT_MS(100));
    ck_assert_uint_eq(options.ticks_per_wheel, 512);
    ck_assert_uint_eq(options.flags, 0);
    ck_assert_uint_eq(options.max_pending, 0);
    ck_assert(!options.executor && !options.executor_data);
    ck_assert(!options.clock && !options.clock_data);
    ck_assert_int_eq(options.clock_id, CLOCK_MONOTONIC);
    ck_assert_int_eq(options.worker_cpu, -1);
    ck_assert_str_eq(options.worker_name, "hwt-worker");
    ck_assert_uint_eq(options.initialised, 1);
    assert_create(0, &options);
    assert_create(0, NULL);
}
END_TEST

START_TEST(the_units_are_nanoseconds)
{
    ck_assert_uint_eq(HWT_US(3), 3000);
    ck_assert_uint_eq(HWT_MS(3), 3000000);
    ck_assert_uint_eq(HWT_SEC(3), UINT64_C(3000000000));
    ck_assert_uint_eq(HWT_MIN(3), UINT64_C(180000000000));
    ck_assert_uint_eq(HWT_NEVER, UINT64_MAX);
}
END_TEST

START_TEST(the_units_saturate)
{
    const uint64_t most = UINT64_MAX / HWT_SEC(1);
    ck_assert_uint_eq(HWT_SEC(most), most * HWT_SEC(1));
    ck_assert_uint_eq(HWT_SEC(most + 1), HWT_NEVER);
    ck_assert_uint_eq(HWT_SEC(UINT64_MAX / 1000000000), UINT64_MAX / 1000000000 * 1000000000);
    ck_assert_uint_eq(HWT_SEC(UINT64_MAX / 1000000000 + 1), HWT_NEVER);
    ck_assert_uint_eq(HWT_US(UINT64_MAX), HWT_NEVER);
    ck_assert_uint_eq(HWT_MIN(1000000000), HWT_NEVER);
    int negative = -1;
    ck_assert_uint_eq(HWT_MS(-1), HWT_NEVER);
    ck_assert_uint_eq(HWT_MS(negative), HWT_NEVER);
    ck_assert_uint_eq(HWT_US(INT64_MIN), HWT_NEVER);
}
END_TEST

START_TEST(the_units_take_their_argument_once)
{
    int n = 1;
    unsigned char small = 255;
    ck_assert_uint_eq(HWT_SEC(n++), HWT_SEC(1));
    ck_assert_int_eq(n, 2);
    ck_assert_uint_eq(HWT_US(small), 255000);
    ck_assert_uint_eq(HWT_MS(1 ? 2 : 3), 2000000);
    ck_assert_uint_eq(HWT_MS(n == 2), 1000000);
}
END_TEST

START_TEST(the_units_are_constant_expressions)
{
    static const uint64_t limit = HWT_MIN(1) + HWT_SEC(1);
    static const char in_bytes[HWT_US(1)];
    enum { MICROSECOND = HWT_US(1) };
    ck_assert_uint_eq(limit, UINT64_C(61000000000));
    ck_assert_uint_eq(sizeof(in_bytes), MICROSECOND);
    switch (limit) {
    case HWT_SEC(61):
        break;
    default:
        ck_abort();
    }
}
END_TEST

START_TEST(the_version_is_that_of_the_header)
{
    char version[64];
    snprintf(version, sizeof(version), "%d.%d.%d", HWT_VERSION_MAJOR, HWT_VERSION_MINOR,
             HWT_VERSION_PATCH);
    ck_assert_str_eq(hwt_version(), version);
}
END_TEST

START_TEST(create_refuses_no_place_for_the_result)
{
    const hwt_options options = HWT_OPTIONS_INIT;
    ck_assert_int_eq(hwt_timer_create(&options, NULL), -EINVAL);
    ck_assert_int_eq(hwt_timer_create(NULL, NULL), -EINVAL);
}
END_TEST

START_TEST(create_refuses_ticks_under_a_microsecond)
{
    hwt_options options = HWT_OPTIONS_INIT;
    static const uint64_t bad[] = { 0, 1, 999 };
    for (size_t i = 0; i < 3; i++) {
        options.tick_duration = bad[i];
        assert_create(-EINVAL, &options);
    }
    options.tick_duration = HWT_US(1);
    assert_create(0, &options);
}
END_TEST

START_TEST(create_refuses_wheels_without_ticks_or_with_too_many)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_US(1);
    static const uint32_t bad[] = { 0, (UINT32_C(1) << 30) + 1, UINT32_C(1) << 31, UINT32_MAX };
    for (size_t i = 0; i < 4; i++) {
        options.ticks_per_wheel = bad[i];
        assert_create(-EINVAL, &options);
    }
    static const uint32_t good[] = { 1, 2, 3, 1000, 65536 };
    for (size_t i = 0; i < 5; i++) {
        options.ticks_per_wheel = good[i];
        assert_create(0, &options);
    }
}
END_TEST

START_TEST(create_refuses_a_wheel_longer_than_int64)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = INT64_MAX / 512 + 1;
    assert_create(-EINVAL, &options);
    options.tick_duration = UINT64_MAX;
    assert_create(-EINVAL, &options);
    options.tick_duration = UINT64_C(1) << 55; /* times 512: 0 if it wrapped */
    assert_create(-EINVAL, &options);
    options.tick_duration = INT64_MAX / 512;
    assert_create(0, &options);
    options.ticks_per_wheel = 1;
    options.tick_duration = INT64_MAX;
    assert_create(0, &options);
    options.tick_duration++;
    assert_create(-EINVAL, &options);
}
END_TEST

START_TEST(create_refuses_flags_it_does_not_know)
{
    hwt_options options = HWT_OPTIONS_INIT;
    for (int bit = 0; bit < 32; bit++) {
        options.flags = UINT32_C(1) << bit;
        assert_create(options.flags == HWT_NO_WORKER || options.flags == HWT_EXACT_CLOCK ? 0
                                                                                         : -EINVAL,
                      &options);
    }
    options.flags = UINT32_MAX;
    assert_create(-EINVAL, &options);
}
END_TEST

START_TEST(create_refuses_a_clock_with_a_worker)
{
    shared_count now = 0;
    hwt_options options = HWT_OPTIONS_INIT;
    options.clock = manual_clock;
    options.clock_data = &now;
    assert_create(-EINVAL, &options);
    options.flags = HWT_NO_WORKER;
    assert_create(0, &options);
}
END_TEST

START_TEST(create_refuses_clocks_that_are_not_monotonic)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.clock_id = CLOCK_REALTIME;
    assert_create(-EINVAL, &options);
    options.clock_id = 12345;
    assert_create(-EINVAL, &options);
    options.clock_id = CLOCK_BOOTTIME; /* no worker can sleep by it */
    assert_create(-EINVAL, &options);
    options.flags = HWT_NO_WORKER;
    assert_create(0, &options);
}
END_TEST

START_TEST(create_refuses_options_shorter_than_the_first_release)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.size = 0;
    assert_create(-EINVAL, &options);
    options.size = sizeof(size_t);
    assert_create(-EINVAL, &options);
    options.size = sizeof(options) - 1;
    assert_create(-EINVAL, &options);
}
END_TEST

/* A struct that ends with worker_name, as in the first release; 0 meant 0 in it. */
START_TEST(create_takes_options_of_the_first_release)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.size = offsetof(hwt_options, initialised);
    options.initialised = 12345; /* nobody looks at it */
    assert_create(0, &options);
    options.tick_duration = 0;
    assert_create(-EINVAL, &options);
    for (options.size++; options.size < sizeof(options); options.size++)
        assert_create(-EINVAL, &options);
}
END_TEST

START_TEST(create_refuses_to_guess_what_initialised_may_mean)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.initialised = 2;
    assert_create(-EINVAL, &options);
    options.initialised = UINT64_C(1) << 32;
    assert_create(-EINVAL, &options);
}
END_TEST

struct worker {
    cpu_set_t processors;
    char name[16];
    shared_count seen;
};

static void look_at_worker(hwt_timeout timeout, void *arg)
{
    struct worker *worker = arg;
    (void)timeout;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(worker->processors), &worker->processors), 0);
    ck_assert_int_eq(pthread_getname_np(pthread_self(), worker->name, sizeof(worker->name)), 0);
    atomic_fetch_add(&worker->seen, 1);
}

static void make_and_look(const hwt_options *options, struct worker *worker)
{
    static const hwt_task task = { .run = look_at_worker };
    hwt_timer *timer;
    ck_assert_int_eq(hwt_timer_create(options, &timer), 0);
    ck_assert_int_eq(hwt_timer_new_timeout(timer, &task, worker, 0, NULL), 0);
    while (atomic_load(&worker->seen) == 0)
        usleep(100);
    hwt_timer_destroy(timer);
}

START_TEST(zeroed_options_are_the_defaults)
{
    hwt_options options;
    struct worker worker = { .seen = 0 };
    cpu_set_t mine;
    memset(&options, 0, sizeof(options));
    options.size = sizeof(options);
    assert_create(0, &options);
    options.tick_duration = HWT_MS(1);
    make_and_look(&options, &worker);
    ck_assert_int_eq(sched_getaffinity(0, sizeof(mine), &mine), 0);
    ck_assert(CPU_EQUAL(&worker.processors, &mine)); /* worker_cpu 0 pins nothing */
    ck_assert_str_eq(worker.name, "hwt-worker");
    options.tick_duration = 1; /* what is not zero counts */
    assert_create(-EINVAL, &options);
}
END_TEST

START_TEST(initialised_options_may_say_the_first_processor)
{
    hwt_options options = HWT_OPTIONS_INIT;
    struct worker worker = { .seen = 0 };
    cpu_set_t mine;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(mine), &mine), 0);
    if (!CPU_ISSET(0, &mine))
        return; /* this process may not use it */
    options.tick_duration = HWT_MS(1);
    options.worker_cpu = 0;
    make_and_look(&options, &worker);
    ck_assert(CPU_COUNT(&worker.processors) == 1 && CPU_ISSET(0, &worker.processors));
}
END_TEST

/* Options as a later release would have them. */
typedef struct later_options {
    hwt_options known;
    unsigned char more[24];
} later_options;

START_TEST(create_takes_longer_options_if_the_rest_is_zero)
{
    later_options later = { .known = HWT_OPTIONS_INIT };
    later.known.size = sizeof(later);
    assert_create(0, &later.known);
    for (size_t i = 0; i < sizeof(later.more); i++) {
        memset(later.more, 0, sizeof(later.more));
        later.more[i] = 1;
        assert_create(-EINVAL, &later.known);
    }
    later.known.size = sizeof(later.known); /* then nobody looks at the rest */
    assert_create(0, &later.known);
}
END_TEST

START_TEST(init_functions_do_what_the_macros_do)
{
    const hwt_options wanted = HWT_OPTIONS_INIT;
    const hwt_stats zero = HWT_STATS_INIT;
    hwt_options options;
    hwt_stats stats;
    memset(&options, 0xff, sizeof(options));
    memset(&stats, 0xff, sizeof(stats));
    ck_assert_int_eq(hwt_options_init(&options, sizeof(options)), 0);
    ck_assert_str_eq(options.worker_name, wanted.worker_name);
    options.worker_name = wanted.worker_name; /* the library has a string of its own */
    ck_assert_mem_eq(&options, &wanted, sizeof(options));
    ck_assert_int_eq(hwt_stats_init(&stats, sizeof(stats)), 0);
    ck_assert_mem_eq(&stats, &zero, sizeof(stats));
}
END_TEST

/* The caller's struct may be of an earlier release, or of a later one. */
START_TEST(init_functions_write_what_the_caller_has)
{
    unsigned char memory[1024];
    hwt_options options;
    const size_t first = offsetof(hwt_options, initialised), later = sizeof(options) + 24;
    for (size_t i = 0; i < 2; i++) {
        size_t size = i == 0 ? first : later;
        memset(memory, 0xff, sizeof(memory));
        ck_assert_int_eq(hwt_options_init((hwt_options *)(void *)memory, size), 0);
        for (size_t j = size; j < sizeof(memory); j++)
            ck_assert_uint_eq(memory[j], 0xff);
        memcpy(&options, memory, sizeof(options));
        ck_assert_uint_eq(options.size, size);
        assert_create(0, (hwt_options *)(void *)memory);
    }
    memset(memory, 0xff, sizeof(memory));
    ck_assert_int_eq(hwt_stats_init((hwt_stats *)(void *)memory, sizeof(hwt_stats) + 8), 0);
    ck_assert_uint_eq(memory[sizeof(hwt_stats) + 7], 0);
    ck_assert_uint_eq(memory[sizeof(hwt_stats) + 8], 0xff);
}
END_TEST

START_TEST(init_functions_refuse_what_they_cannot_fill)
{
    hwt_options options;
    hwt_stats stats;
    const size_t first = offsetof(hwt_options, initialised);
    memset(&options, 0xff, sizeof(options));
    memset(&stats, 0xff, sizeof(stats));
    ck_assert_int_eq(hwt_options_init(NULL, sizeof(options)), -EINVAL);
    ck_assert_int_eq(hwt_options_init(&options, 0), -EINVAL);
    ck_assert_int_eq(hwt_options_init(&options, first - 1), -EINVAL);
    ck_assert_int_eq(hwt_options_init(&options, sizeof(options) - 1), -EINVAL);
    ck_assert_uint_eq(options.size, SIZE_MAX);
    ck_assert_int_eq(hwt_stats_init(NULL, sizeof(stats)), -EINVAL);
    ck_assert_int_eq(hwt_stats_init(&stats, offsetof(hwt_stats, lateness_sum) - 1), -EINVAL);
    ck_assert_uint_eq(stats.size, SIZE_MAX);
    ck_assert_int_eq(hwt_stats_init(&stats, offsetof(hwt_stats, lateness_sum)), 0);
}
END_TEST

/* ---- */

static void add_options(Suite *suite)
{
    TCase *tcase = add_case(suite, "options");
    tcase_add_test(tcase, the_defaults_are_those_of_the_header);
    tcase_add_test(tcase, the_units_are_nanoseconds);
    tcase_add_test(tcase, the_units_saturate);
    tcase_add_test(tcase, the_units_take_their_argument_once);
    tcase_add_test(tcase, the_units_are_constant_expressions);
    tcase_add_test(tcase, the_version_is_that_of_the_header);
    tcase_add_test(tcase, create_refuses_no_place_for_the_result);
    tcase_add_test(tcase, create_refuses_ticks_under_a_microsecond);
    tcase_add_test(tcase, create_refuses_wheels_without_ticks_or_with_too_many);
    tcase_add_test(tcase, create_refuses_a_wheel_longer_than_int64);
    tcase_add_test(tcase, create_refuses_flags_it_does_not_know);
    tcase_add_test(tcase, create_refuses_a_clock_with_a_worker);
    tcase_add_test(tcase, create_refuses_clocks_that_are_not_monotonic);
    tcase_add_test(tcase, create_refuses_options_shorter_than_the_first_release);
    tcase_add_test(tcase, create_takes_longer_options_if_the_rest_is_zero);
    tcase_add_test(tcase, create_takes_options_of_the_first_release);
    tcase_add_test(tcase, create_refuses_to_guess_what_initialised_may_mean);
    tcase_add_test(tcase, zeroed_options_are_the_defaults);
    tcase_add_test(tcase, initialised_options_may_say_the_first_processor);
    tcase_add_test(tcase, init_functions_do_what_the_macros_do);
    tcase_add_test(tcase, init_functions_write_what_the_caller_has);
    tcase_add_test(tcase, init_functions_refuse_what_they_cannot_fill);
}

int main(void)
{
    Suite *suite = suite_create("api: options");
    add_options(suite);
    return run_suite(suite);
}
