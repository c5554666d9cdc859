/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Options and constants: their defaults, their ranges, and that a failure leaves the
 * output alone.
 */

#include "api_fixture.h"

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

START_TEST(the_version_has_three_numbers)
{
    unsigned major, minor, patch;
    char more;
    ck_assert_int_eq(sscanf(hwt_version(), "%u.%u.%u%c", &major, &minor, &patch, &more), 3);
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
        assert_create(options.flags == HWT_NO_WORKER ? 0 : -EINVAL, &options);
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
    options.clock_id = CLOCK_BOOTTIME;
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

/* ---- */

static void add_options(Suite *suite)
{
    TCase *tcase = add_case(suite, "options");
    tcase_add_test(tcase, the_defaults_are_those_of_the_header);
    tcase_add_test(tcase, the_units_are_nanoseconds);
    tcase_add_test(tcase, the_version_has_three_numbers);
    tcase_add_test(tcase, create_refuses_no_place_for_the_result);
    tcase_add_test(tcase, create_refuses_ticks_under_a_microsecond);
    tcase_add_test(tcase, create_refuses_wheels_without_ticks_or_with_too_many);
    tcase_add_test(tcase, create_refuses_a_wheel_longer_than_int64);
    tcase_add_test(tcase, create_refuses_flags_it_does_not_know);
    tcase_add_test(tcase, create_refuses_a_clock_with_a_worker);
    tcase_add_test(tcase, create_refuses_clocks_that_are_not_monotonic);
    tcase_add_test(tcase, create_refuses_options_shorter_than_the_first_release);
    tcase_add_test(tcase, create_takes_longer_options_if_the_rest_is_zero);
}

int main(void)
{
    Suite *suite = suite_create("api: options");
    add_options(suite);
    return run_suite(suite);
}
