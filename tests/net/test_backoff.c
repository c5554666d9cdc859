/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The delays of hwt/retry.h: bases, and the jitters as distributions. All seeds are fixed, so what
 * is within a bound is always within it. The options are in test_backoff_options.c, seeds and their
 * want in test_backoff_seeds.c.
 */

#include "api_fixture.h"

#include <math.h>

#include <hwt/retry.h>

enum { DRAWS = 100000, NUMBERS = 14 };

#define FIRST UINT64_C(1000003)
#define MOST UINT64_C(1000000007) /* the base gets there with the eleventh number */

static hwt_retry_options options_of(hwt_jitter jitter, uint64_t first, uint64_t most, double factor)
{
    hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
    options.jitter = jitter;
    options.first_delay = first;
    options.max_delay = most;
    options.factor = factor;
    options.seed = 1;
    return options;
}

static hwt_backoff backoff_of(hwt_jitter jitter, uint64_t first, uint64_t most, double factor)
{
    hwt_retry_options options = options_of(jitter, first, most, factor);
    hwt_backoff backoff;
    ck_assert_int_eq(hwt_backoff_init(&backoff, &options), 0);
    return backoff;
}

/* ---- Bases ---- */

static void check_sequence(hwt_backoff backoff, const uint64_t *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(hwt_backoff_next(&backoff), expected[i]);
}

#define CHECK_SEQUENCE(backoff, ...)                                                               \
    check_sequence(backoff, (const uint64_t[]){ __VA_ARGS__ },                                     \
                   sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

START_TEST(without_jitter_the_delay_grows_by_the_factor_up_to_the_cap)
{
    CHECK_SEQUENCE(backoff_of(HWT_JITTER_NONE, 100, 1000, 2), 100, 200, 400, 800, 1000, 1000);
    CHECK_SEQUENCE(backoff_of(HWT_JITTER_NONE, 100, 800, 2), 100, 200, 400, 800, 800);
    CHECK_SEQUENCE(backoff_of(HWT_JITTER_NONE, 1, 8, 1.5), 1, 2, 3, 5, 8, 8);
    CHECK_SEQUENCE(backoff_of(HWT_JITTER_NONE, 10, 30, 1.1), 10, 11, 13, 15, 17, 19, 21, 24, 27,
                   30);
    CHECK_SEQUENCE(backoff_of(HWT_JITTER_NONE, 70, 80, 1), 70, 70, 70);
    CHECK_SEQUENCE(backoff_of(HWT_JITTER_NONE, 0, 1000, 2), 0, 0, 0);
    CHECK_SEQUENCE(backoff_of(HWT_JITTER_NONE, 5, UINT64_MAX, 1000), 5, 5000, 5000000, 5000000000);
}
END_TEST

START_TEST(a_delay_too_large_to_say_is_the_cap)
{
    CHECK_SEQUENCE(backoff_of(HWT_JITTER_NONE, UINT64_C(1) << 63, HWT_NEVER, 2), UINT64_C(1) << 63,
                   HWT_NEVER, HWT_NEVER);
    CHECK_SEQUENCE(backoff_of(HWT_JITTER_NONE, HWT_NEVER, HWT_NEVER, 1), HWT_NEVER, HWT_NEVER);
    CHECK_SEQUENCE(backoff_of(HWT_JITTER_NONE, HWT_NEVER - 1, HWT_NEVER - 1, 1000), HWT_NEVER - 1,
                   HWT_NEVER - 1);
}
END_TEST

/* Where a double is coarser than a nanosecond, and at every scale with every jitter. */
START_TEST(a_delay_is_never_over_the_cap_nor_does_a_base_shrink)
{
    static const double factors[] = { 1, 1.0000001, 1.6, 3, 1000 };
    uint64_t random = 4;
    for (int i = 0; i < 25000; i++) {
        uint64_t most = test_random(&random) >> (test_random(&random) % 64);
        uint64_t first = i % 2 ? most : most - most / 5;
        double factor = factors[i % 5];
        hwt_backoff none = backoff_of(HWT_JITTER_NONE, first, most, factor);
        hwt_backoff drawn = backoff_of((hwt_jitter)(i / 5 % 5), first, most, factor);
        uint64_t base = first;
        for (int n = 0; n < 6; n++) {
            uint64_t delay = hwt_backoff_next(&none);
            must(delay >= base && delay <= most);
            base = delay;
            delay = hwt_backoff_next(&drawn);
            must(delay <= most);
            must(drawn.jitter != HWT_JITTER_DECORRELATED || delay >= first);
        }
    }
}
END_TEST

START_TEST(delays_drawn_from_all_of_64_bits_saturate)
{
    hwt_backoff full = backoff_of(HWT_JITTER_FULL, HWT_NEVER, HWT_NEVER, 2);
    hwt_backoff decorrelated = backoff_of(HWT_JITTER_DECORRELATED, 0, HWT_NEVER, 1000);
    uint64_t seen = 0;
    for (int i = 0; i < 1000; i++)
        seen |= hwt_backoff_next(&full);
    ck_assert_uint_eq(seen, UINT64_MAX);
    ck_assert_uint_eq(hwt_backoff_next(&decorrelated), 0); /* nothing grows from 0 */
    decorrelated = backoff_of(HWT_JITTER_DECORRELATED, 1, HWT_NEVER, 1000);
    seen = 0;
    for (int i = 0; i < 1000; i++)
        seen |= hwt_backoff_next(&decorrelated);
    ck_assert_uint_eq(seen, UINT64_MAX);
}
END_TEST

/* ---- Distributions ---- */

/* [n][i]: the delay after failure n + 1, from the seed i + 1. */
static uint64_t drawn[NUMBERS][DRAWS];
static double sample[DRAWS];

static void draw_all(hwt_jitter jitter, double factor)
{
    hwt_retry_options options = options_of(jitter, FIRST, MOST, factor);
    for (size_t i = 0; i < DRAWS; i++) {
        hwt_backoff backoff;
        options.seed = i + 1;
        must(hwt_backoff_init(&backoff, &options) == 0);
        for (size_t n = 0; n < NUMBERS; n++)
            drawn[n][i] = hwt_backoff_next(&backoff);
    }
}

static uint64_t base_of(size_t n)
{
    return FIRST << n < MOST ? FIRST << n : MOST;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/*
 * `count` of sample[] are uniform on 0 to 1, by their mean and by Kolmogorov and Smirnov; a true
 * uniform fails either once in thousands of seeds.
 */
static void check_uniform(size_t count)
{
    double sum = 0, distance = 0, n = (double)count;
    ck_assert_uint_gt(count, 1000);
    qsort(sample, count, sizeof(sample[0]), by_size);
    for (size_t i = 0; i < count; i++) {
        sum += sample[i];
        distance = fmax(distance, fmax(sample[i] - (double)i / n, (double)(i + 1) / n - sample[i]));
    }
    ck_assert_double_le(fabs(sum / n - 0.5), 4 / sqrt(12 * n));
    ck_assert_double_le(distance, 2.1 / sqrt(n));
}

static void check_uniform_between(size_t n, uint64_t low, uint64_t high)
{
    for (size_t i = 0; i < DRAWS; i++) {
        must(drawn[n][i] >= low && drawn[n][i] <= high);
        sample[i] = (double)(drawn[n][i] - low) / (double)(high - low);
    }
    check_uniform(DRAWS);
}

START_TEST(no_jitter_is_the_same_for_every_seed)
{
    draw_all(HWT_JITTER_NONE, 2);
    for (size_t n = 0; n < NUMBERS; n++)
        for (size_t i = 0; i < DRAWS; i++)
            must(drawn[n][i] == base_of(n));
}
END_TEST

START_TEST(full_jitter_is_uniform_from_0_to_the_base_at_every_attempt)
{
    draw_all(HWT_JITTER_FULL, 2);
    for (size_t n = 0; n < NUMBERS; n++)
        check_uniform_between(n, 0, base_of(n));
}
END_TEST

START_TEST(equal_jitter_is_uniform_over_the_upper_half_at_every_attempt)
{
    draw_all(HWT_JITTER_EQUAL, 2);
    for (size_t n = 0; n < NUMBERS; n++)
        check_uniform_between(n, base_of(n) / 2, base_of(n));
}
END_TEST

START_TEST(jitter_around_the_base_is_uniform_up_to_the_cap_at_every_attempt)
{
    draw_all(HWT_JITTER_AROUND, 2);
    for (size_t n = 0; n < NUMBERS; n++) {
        uint64_t aside = base_of(n) / 5, high = base_of(n) + aside;
        check_uniform_between(n, base_of(n) - aside, high < MOST ? high : MOST);
    }
}
END_TEST

static uint64_t drawn_around(uint64_t base, uint64_t most, double fraction, uint64_t *ret_highest)
{
    hwt_retry_options options = options_of(HWT_JITTER_AROUND, base, most, 1);
    uint64_t least = HWT_NEVER, highest = 0;
    options.jitter_fraction = fraction;
    for (uint64_t i = 0; i < 1000; i++) {
        hwt_backoff backoff;
        options.seed = i + 1;
        must(hwt_backoff_init(&backoff, &options) == 0);
        uint64_t delay = hwt_backoff_next(&backoff);
        least = delay < least ? delay : least;
        highest = delay > highest ? delay : highest;
    }
    *ret_highest = highest;
    return least;
}

START_TEST(jitter_around_the_base_reaches_as_far_as_the_fraction_says)
{
    uint64_t highest;
    ck_assert_uint_eq(drawn_around(10, 100, 0, &highest), 10);
    ck_assert_uint_eq(highest, 10);
    ck_assert_uint_eq(drawn_around(10, 100, 0.3, &highest), 7);
    ck_assert_uint_eq(highest, 13);
    ck_assert_uint_eq(drawn_around(10, 100, 1, &highest), 0);
    ck_assert_uint_eq(highest, 20);
    ck_assert_uint_eq(drawn_around(10, 12, 1, &highest), 0);
    ck_assert_uint_eq(highest, 12);
    ck_assert_uint_eq(drawn_around(0, 12, 1, &highest), 0);
    ck_assert_uint_eq(highest, 0);
    /* Where a double is coarser than a nanosecond */
    ck_assert_uint_lt(drawn_around(HWT_NEVER - 1, HWT_NEVER, 1, &highest), HWT_NEVER / 2);
    ck_assert_uint_gt(highest, HWT_NEVER / 2);
}
END_TEST

/* Uniform given the last delay; of those whose range goes past the cap, the rest is at the cap. */
static void check_decorrelated(size_t n)
{
    size_t count = 0;
    double expected = 0, variance = 0, capped = 0;
    for (size_t i = 0; i < DRAWS; i++) {
        uint64_t last = n == 0 ? FIRST : drawn[n - 1][i];
        uint64_t delay = drawn[n][i];
        double range = (double)(3 * last - FIRST);
        must(delay >= FIRST && delay <= 3 * last && delay <= MOST);
        if (3 * last <= MOST) {
            sample[count++] = (double)(delay - FIRST) / range;
        } else {
            double over = (double)(3 * last - MOST) / range;
            expected += over;
            variance += over * (1 - over);
            capped += delay == MOST;
        }
    }
    check_uniform(count);
    ck_assert_double_le(fabs(capped - expected), 4 * sqrt(variance) + 0.5);
}

START_TEST(decorrelated_jitter_is_uniform_from_the_first_delay_to_thrice_the_last)
{
    draw_all(HWT_JITTER_DECORRELATED, 3);
    for (size_t n = 0; n < NUMBERS; n++)
        check_decorrelated(n);
    size_t capped = 0;
    for (size_t i = 0; i < DRAWS; i++)
        capped += drawn[NUMBERS - 1][i] == MOST;
    ck_assert_uint_gt(capped, 1000);
}
END_TEST

/* Every whole nanosecond from low to high comes as often, both ends included. */
static void check_even(hwt_jitter jitter, uint64_t first, double factor, uint64_t low,
                       uint64_t high, double limit)
{
    hwt_retry_options options = options_of(jitter, first, 100, factor);
    size_t counts[32] = { 0 };
    double each = DRAWS / (double)(high - low + 1), chi_square = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        hwt_backoff backoff;
        options.seed = i + 1;
        must(hwt_backoff_init(&backoff, &options) == 0);
        uint64_t delay = hwt_backoff_next(&backoff);
        must(delay >= low && delay <= high);
        counts[delay - low]++;
    }
    for (uint64_t i = 0; i <= high - low; i++)
        chi_square += ((double)counts[i] - each) * ((double)counts[i] - each) / each;
    ck_assert_double_le(chi_square, limit);
}

/* The limits: of a thousand samples that are even, one is past it. */
START_TEST(small_ranges_are_even_and_have_both_their_ends)
{
    check_even(HWT_JITTER_FULL, 1, 2, 0, 1, 10.83);
    check_even(HWT_JITTER_FULL, 9, 2, 0, 9, 27.88);
    check_even(HWT_JITTER_FULL, 16, 2, 0, 16, 39.25);
    check_even(HWT_JITTER_EQUAL, 9, 2, 4, 9, 20.52);
    check_even(HWT_JITTER_EQUAL, 8, 2, 4, 8, 18.47);
    check_even(HWT_JITTER_DECORRELATED, 3, 3, 3, 9, 22.46);
    check_even(HWT_JITTER_DECORRELATED, 5, 2, 5, 10, 20.52);
}
END_TEST

START_TEST(the_delays_of_one_sequence_do_not_depend_on_each_other)
{
    hwt_backoff backoff = backoff_of(HWT_JITTER_FULL, MOST, MOST, 1);
    double sum = 0, last = 0;
    for (size_t i = 0; i < DRAWS; i++) {
        sample[i] = (double)hwt_backoff_next(&backoff) / (double)MOST - 0.5;
        sum += sample[i] * last;
        last = sample[i];
    }
    ck_assert_double_le(fabs(sum / DRAWS * 12), 4 / sqrt(DRAWS)); /* a correlation */
    for (size_t i = 0; i < DRAWS; i++)
        sample[i] += 0.5;
    check_uniform(DRAWS);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("backoff");
    TCase *bases = add_case(suite, "bases");
    tcase_add_test(bases, without_jitter_the_delay_grows_by_the_factor_up_to_the_cap);
    tcase_add_test(bases, a_delay_too_large_to_say_is_the_cap);
    tcase_add_test(bases, a_delay_is_never_over_the_cap_nor_does_a_base_shrink);
    tcase_add_test(bases, delays_drawn_from_all_of_64_bits_saturate);

    TCase *distributions = add_case(suite, "distributions");
    tcase_add_test(distributions, no_jitter_is_the_same_for_every_seed);
    tcase_add_test(distributions, full_jitter_is_uniform_from_0_to_the_base_at_every_attempt);
    tcase_add_test(distributions, equal_jitter_is_uniform_over_the_upper_half_at_every_attempt);
    tcase_add_test(distributions, jitter_around_the_base_is_uniform_up_to_the_cap_at_every_attempt);
    tcase_add_test(distributions, jitter_around_the_base_reaches_as_far_as_the_fraction_says);
    tcase_add_test(distributions,
                   decorrelated_jitter_is_uniform_from_the_first_delay_to_thrice_the_last);
    tcase_add_test(distributions, small_ranges_are_even_and_have_both_their_ends);
    tcase_add_test(distributions, the_delays_of_one_sequence_do_not_depend_on_each_other);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
