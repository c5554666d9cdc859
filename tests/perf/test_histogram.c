/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The percentiles that the programs of perf/ print, beside a sorted list.
 */

#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "perf/histogram.h"

enum { MANY = 10007 };

static struct histogram histogram, other;
static int64_t list[MANY];

static void begin(void)
{
    memset(&histogram, 0, sizeof(histogram));
    memset(&other, 0, sizeof(other));
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* At most a 32nd above what a sorted list has there. */
static void expect(double part, uint64_t wanted)
{
    uint64_t at = histogram_at(&histogram, part);
    if (at < wanted || at - wanted > wanted / 32)
        ck_abort_msg("%g: %" PRIu64 ", not %" PRIu64, part, at, wanted);
}

START_TEST(percentiles_are_those_of_a_sorted_list)
{
    static const double parts[] = { 0.001, 0.01, 0.5, 0.9, 0.99, 0.999, 1 };
    uint64_t seed = test_seed();
    for (int i = 0; i < MANY; i++) {
        list[i] = (int64_t)(test_random(&seed) >> (2 + test_random(&seed) % 62));
        histogram_add(i % 3 ? &histogram : &other, list[i]);
    }
    histogram_merge(&histogram, &other);
    qsort(list, MANY, sizeof(*list), compare);
    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t rank = (size_t)((double)MANY * parts[i]);
        rank += (double)rank < (double)MANY * parts[i];
        expect(parts[i], (uint64_t)list[rank - 1]);
    }
    ck_assert_int_eq(histogram.least, list[0]);
    ck_assert_uint_eq(histogram.greatest, (uint64_t)list[MANY - 1]);
    ck_assert_uint_eq(histogram.total, MANY);
}
END_TEST

START_TEST(small_values_are_exact)
{
    for (int64_t value = 0; value < 32; value++)
        histogram_add(&histogram, value);
    for (int i = 1; i <= 32; i++)
        ck_assert_uint_eq(histogram_at(&histogram, i / 32.0), (uint64_t)i - 1);
}
END_TEST

START_TEST(what_is_early_is_the_least_and_not_late)
{
    histogram_add(&histogram, 5);
    histogram_add(&histogram, -70);
    histogram_add(&histogram, 6);
    ck_assert_int_eq(histogram.least, -70);
    ck_assert_uint_eq(histogram_at(&histogram, 0.3), 0);
    ck_assert_uint_eq(histogram_at(&histogram, 1), 6);
}
END_TEST

START_TEST(an_empty_one_has_nothing)
{
    histogram_merge(&histogram, &other);
    ck_assert_uint_eq(histogram_at(&histogram, 0.99), 0);
    histogram_add(&other, 9);
    histogram_merge(&histogram, &other);
    ck_assert_int_eq(histogram.least, 9);
    ck_assert_uint_eq(histogram_at(&histogram, 0.5), 9);
}
END_TEST

START_TEST(the_greatest_value_has_a_slot)
{
    histogram_add(&histogram, INT64_MAX);
    ck_assert_uint_eq(histogram_at(&histogram, 0.5), INT64_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("percentiles of perf/");
    TCase *tcase = tcase_create("histogram");
    tcase_add_checked_fixture(tcase, begin, NULL);
    tcase_add_test(tcase, percentiles_are_those_of_a_sorted_list);
    tcase_add_test(tcase, small_values_are_exact);
    tcase_add_test(tcase, what_is_early_is_the_least_and_not_late);
    tcase_add_test(tcase, an_empty_one_has_nothing);
    tcase_add_test(tcase, the_greatest_value_has_a_slot);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
