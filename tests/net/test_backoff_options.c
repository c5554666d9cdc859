/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The options of hwt/retry.h: defaults, ranges, and the structs of other releases. */

#include "api_fixture.h"

#include <math.h>

#include <hwt/retry.h>

static const double fifth = 0.2; /* where an expression has more digits than a double, too */

START_TEST(no_options_are_the_defaults)
{
    hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
    ck_assert_uint_eq(options.size, sizeof(options));
    ck_assert_uint_eq(options.first_delay, HWT_MS(100));
    ck_assert_uint_eq(options.max_delay, HWT_SEC(30));
    ck_assert(options.factor == 2.0);
    ck_assert_uint_eq(options.attempt_timeout, HWT_NEVER);
    ck_assert_uint_eq(options.total_timeout, HWT_NEVER);
    ck_assert_uint_eq(options.max_attempts, 0);
    ck_assert_int_eq(options.jitter, HWT_JITTER_FULL);
    ck_assert(options.jitter_fraction == fifth);
    ck_assert_ptr_null(options.budget);
    hwt_backoff given, none;
    memset(&given, 0x5a, sizeof(given));
    memset(&none, 0x5a, sizeof(none));
    ck_assert_int_eq(hwt_backoff_init(&given, &options), 0);
    ck_assert_int_eq(hwt_backoff_init(&none, NULL), 0);
    ck_assert_mem_eq(&given, &none, sizeof(none));
}
END_TEST

/* All fields of the first release, and a program that was compiled with it: no more bytes. */
START_TEST(options_of_the_first_release_are_taken)
{
    struct {
        size_t size;
        uint64_t first_delay, max_delay;
        double factor;
        uint64_t attempt_timeout, total_timeout, seed;
        uint32_t max_attempts;
        hwt_jitter jitter;
    } first = { 0, 70, 80, 1, HWT_NEVER, HWT_NEVER, 0, 0, HWT_JITTER_NONE };
    hwt_backoff backoff;
    first.size = sizeof(first);
    ck_assert_int_eq(hwt_backoff_init(&backoff, (void *)&first), 0);
    ck_assert_uint_eq(hwt_backoff_next(&backoff), 70);
    ck_assert(backoff.jitter_fraction == fifth);
}
END_TEST

/* The size is the caller's: of an older release, of this one, of a later one. */
START_TEST(the_defaults_are_set_by_a_function_too)
{
    const hwt_retry_options defaults = HWT_RETRY_OPTIONS_INIT;
    struct {
        hwt_retry_options options;
        uint64_t later[2];
    } given;
    const size_t first = offsetof(hwt_retry_options, jitter_fraction);
    const size_t sizes[] = { first, sizeof(defaults), sizeof(given) };
    for (size_t i = 0; i < 3; i++) {
        memset(&given, 0x5a, sizeof(given));
        hwt_retry_options_init(&given.options, sizes[i]);
        ck_assert_uint_eq(given.options.size, sizes[i]);
        given.options.size = sizeof(defaults);
        ck_assert_mem_eq(&given, &defaults, i == 0 ? first : sizeof(defaults));
        ck_assert_uint_eq(given.later[1], i == 2 ? 0 : UINT64_C(0x5a5a5a5a5a5a5a5a));
        given.options.size = sizes[i];
        hwt_backoff backoff;
        ck_assert_int_eq(hwt_backoff_init(&backoff, &given.options), 0);
    }
    memset(&given, 0x5a, sizeof(given));
    hwt_retry_options_init(&given.options, first - 1);
    ck_assert_uint_eq(given.options.size, (size_t)UINT64_C(0x5a5a5a5a5a5a5a5a));
    hwt_retry_options_init(NULL, sizeof(given));
}
END_TEST

static void check_refused(const hwt_retry_options *options)
{
    hwt_backoff backoff, before;
    memset(&backoff, 0x5a, sizeof(backoff));
    memset(&before, 0x5a, sizeof(before));
    ck_assert_int_eq(hwt_backoff_init(&backoff, options), -EINVAL);
    ck_assert_int_eq(memcmp(&backoff, &before, sizeof(before)), 0);
}

START_TEST(options_out_of_their_range_are_refused_and_change_nothing)
{
    static const double bad_factors[] = { 0.999, 0, -2, 1000.001, (double)INFINITY, (double)NAN };
    hwt_retry_options good = HWT_RETRY_OPTIONS_INIT, bad = good;
    ck_assert_int_eq(hwt_backoff_init(NULL, &good), -EINVAL);
    for (size_t i = 0; i < sizeof(bad_factors) / sizeof(bad_factors[0]); i++) {
        bad.factor = bad_factors[i];
        check_refused(&bad);
    }
    bad = good;
    bad.first_delay = bad.max_delay + 1;
    check_refused(&bad);
    bad = good;
    bad.attempt_timeout = 0;
    check_refused(&bad);
    bad = good;
    bad.total_timeout = 0;
    check_refused(&bad);
    bad = good;
    bad.jitter = (hwt_jitter)(HWT_JITTER_AROUND + 1);
    check_refused(&bad);
    bad.jitter = (hwt_jitter)-1;
    check_refused(&bad);
    static const double bad_fractions[] = { -0.001, 1.001, (double)INFINITY, (double)NAN };
    for (size_t i = 0; i < sizeof(bad_fractions) / sizeof(bad_fractions[0]); i++) {
        bad = good;
        bad.jitter_fraction = bad_fractions[i];
        check_refused(&bad);
    }
    static hwt_retry_budget not_initialised;
    bad = good;
    bad.budget = &not_initialised;
    check_refused(&bad);
    bad = good;
    bad.size--; /* cuts a field */
    check_refused(&bad);
    bad.size = offsetof(hwt_retry_options, max_attempts);
    check_refused(&bad);
    bad.size = 0;
    check_refused(&bad);
}
END_TEST

START_TEST(options_at_the_ends_of_their_range_are_taken)
{
    hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
    hwt_backoff backoff;
    options.jitter = HWT_JITTER_NONE;
    options.first_delay = options.max_delay = 0;
    options.factor = 1;
    ck_assert_int_eq(hwt_backoff_init(&backoff, &options), 0);
    ck_assert_uint_eq(hwt_backoff_next(&backoff), 0);
    options.first_delay = options.max_delay = 7;
    options.factor = 1000;
    ck_assert_int_eq(hwt_backoff_init(&backoff, &options), 0);
    ck_assert_uint_eq(hwt_backoff_next(&backoff), 7);
    options.attempt_timeout = options.total_timeout = 1;
    options.max_attempts = UINT32_MAX;
    ck_assert_int_eq(hwt_backoff_init(&backoff, &options), 0);
}
END_TEST

START_TEST(options_of_a_later_release_are_taken_where_they_ask_nothing_new)
{
    struct {
        hwt_retry_options options;
        uint64_t later[2];
    } longer = { HWT_RETRY_OPTIONS_INIT, { 0, 0 } };
    hwt_backoff backoff;
    longer.options.size = sizeof(longer);
    ck_assert_int_eq(hwt_backoff_init(&backoff, &longer.options), 0);
    longer.later[1] = 1;
    check_refused(&longer.options);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("backoff_options");
    TCase *options = add_case(suite, "options");
    tcase_add_test(options, no_options_are_the_defaults);
    tcase_add_test(options, options_out_of_their_range_are_refused_and_change_nothing);
    tcase_add_test(options, options_at_the_ends_of_their_range_are_taken);
    tcase_add_test(options, options_of_the_first_release_are_taken);
    tcase_add_test(options, options_of_a_later_release_are_taken_where_they_ask_nothing_new);
    tcase_add_test(options, the_defaults_are_set_by_a_function_too);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
