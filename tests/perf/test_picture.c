/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the picture of perf/heartbeat shows: counts that are made up go in, and the rows that gnuplot is
 * given are read.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit.h"
#include "perf/heartbeat/heartbeat.h"

#define LOOK HWT_MS(20)

enum { POWERS = 64 };

/* Columns of a row; the first one is the time. */
enum {
    LEVELS_FIRST = 1,
    LEVELS_SECOND,
    RATES_FIRST,
    RATES_SECOND,
    LATE_FIRST,
    LATE_SECOND,
    COLUMNS
};

static struct run run;
static struct picture picture;
static hwt_stats stats;
static uint64_t now_is;

static void open_picture(void)
{
    memset(&run, 0, sizeof(run));
    memset(&picture, 0, sizeof(picture));
    stats = (hwt_stats)HWT_STATS_INIT;
    now_is = run.begin = HWT_SEC(100);
}

/* n runs that are late by a power of two ns, or by up to twice as much. */
static void runs_late(unsigned power, uint64_t n)
{
    stats.lateness[power] += n;
    stats.expired += n;
}

static void latest(uint64_t ns)
{
    stats.lateness_max = ns;
}

static void look(void)
{
    now_is += LOOK;
    picture_note(&picture, &run, &stats, now_is);
}

/* ---- reading ---- */

/* A column of the rows; in those of lateness nan, where there was no run, is left out. */
struct point {
    double seconds, value;
    bool begins; /* there was none at the sample before it */
};

static size_t read_column(int column, struct point *points)
{
    char *text, *at;
    size_t size, n = 0;
    FILE *rows = open_memstream(&text, &size);
    bool begins = true;
    ck_assert_ptr_nonnull(rows);
    picture_rows(&picture, rows);
    fclose(rows);
    at = text;
    for (size_t row = 0; row < picture.count; row++) {
        double of[COLUMNS];
        for (int i = 0; i < COLUMNS; i++)
            of[i] = strtod(at, &at);
        ck_assert_int_eq(*at++, '\n');
        if (!isnan(of[column]))
            points[n++] = (struct point){ of[0], of[column], begins };
        begins = isnan(of[column]);
    }
    ck_assert_int_eq(*at, '\0');
    free(text);
    return n;
}

static void expect_near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= wanted * 0.01))
        ck_abort_msg("shown: %g, not %g", value, wanted);
}

static struct point points[PICTURE_SAMPLES];

static double only_point(int column)
{
    ck_assert_uint_eq(read_column(column, points), 1);
    return points[0].value;
}

static double ms(double ns)
{
    return ns / 1e6;
}

/* ---- half of the runs ---- */

/* Runs of one power lie evenly within it. */
static const struct {
    const char *what;
    unsigned power[2];
    uint64_t runs[2];
    uint64_t latest;  /* ns */
    double half, all; /* ns; all 0: is not looked at */
} medians[] = {
    { "in the middle of its power", { 20 }, { 1000 }, 1 << 21, 1.5 * (1 << 20), 0 },
    { "a third of them in the first power",
      { 20, 21 },
      { 1000, 2000 },
      1 << 22,
      2.5 * (1 << 20),
      0 },
    { "just below an edge", { 20, 21 }, { 501, 500 }, 1 << 22, 1 << 21, 0 },
    { "just above it", { 20, 21 }, { 500, 501 }, 1 << 22, 1 << 21, 0 },
    { "one run", { 20 }, { 1 }, 1 << 21, 1.5 * (1 << 20), 1.5 * (1 << 20) },
    { "as late as the latest",
      { 20 },
      { 1 },
      (1 << 20) + 1000,
      (1 << 20) + 1000,
      (1 << 20) + 1000 },
    { "the lower of two", { 18, 23 }, { 1, 1 }, 1 << 24, 1.5 * (1 << 18), 1.5 * (1 << 23) },
    { "not late, but drawn", { 0 }, { 10 }, 0, 1, 0 },
};

START_TEST(half_of_the_runs_were_at_most_so_late)
{
    for (int i = 0; i < 2; i++)
        runs_late(medians[_i].power[i], medians[_i].runs[i]);
    latest(medians[_i].latest);
    look();
    expect_near(only_point(LATE_FIRST), ms(medians[_i].half));
    if (medians[_i].all > 0)
        expect_near(only_point(LATE_SECOND), ms(medians[_i].all));
}
END_TEST

START_TEST(a_sample_without_runs_is_a_gap)
{
    runs_late(20, 11);
    latest(1 << 21);
    look();
    look();
    runs_late(22, 11);
    latest(1 << 23);
    look();
    look();
    runs_late(21, 11);
    look();
    runs_late(21, 11);
    look();
    ck_assert_uint_eq(read_column(LATE_FIRST, points), 4);
    ck_assert(points[0].begins && points[1].begins && points[2].begins && !points[3].begins);
    expect_near(points[0].seconds, 0.02);
    expect_near(points[1].seconds, 0.06);
    expect_near(points[1].value, ms(1.5 * (1 << 22)));
    expect_near(points[3].value, ms(1.5 * (1 << 21)));
}
END_TEST

START_TEST(a_picture_without_any_run_has_no_line)
{
    look();
    look();
    ck_assert_uint_eq(read_column(LATE_FIRST, points), 0);
    ck_assert_uint_eq(read_column(LATE_SECOND, points), 0);
}
END_TEST

/* ---- beside a sorted list ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Some powers with some runs each, and the median of a list in which those of a power are spread
 * evenly. */
static double add_random_runs(uint64_t *seed)
{
    static double list[POWERS * 16];
    size_t n = 0;
    for (unsigned power = 10; power < 36; power++) {
        uint64_t count = test_random(seed) % 3 ? 0 : test_random(seed) % 16;
        runs_late(power, count);
        for (uint64_t k = 0; k < count; k++)
            list[n++] = ldexp(1 + ((double)k + 0.5) / (double)count, (int)power);
    }
    qsort(list, n, sizeof(*list), compare);
    return n > 0 ? list[(n - 1) / 2] : 0;
}

START_TEST(the_median_is_that_of_a_sorted_list)
{
    uint64_t seed = test_seed();
    static double wanted[PICTURE_SAMPLES];
    size_t n = 0;
    latest(HWT_SEC(100));
    for (int i = 0; i < PICTURE_SAMPLES; i++) {
        double median = add_random_runs(&seed);
        if (median > 0)
            wanted[n++] = ms(median);
        look();
    }
    ck_assert_uint_eq(read_column(LATE_FIRST, points), n);
    for (size_t i = 0; i < n; i++)
        expect_near(points[i].value, wanted[i]);
}
END_TEST

/* ---- rates and levels ---- */

/* Counts grow; each sample has what came since the one before it. */
START_TEST(rates_are_of_the_time_between_two_looks)
{
    runs_late(20, 10);
    stats.wakeups = 4;
    look();
    runs_late(20, 30);
    stats.wakeups += 2;
    run.counts.dispatches += 3; /* of a loop */
    look();
    ck_assert_uint_eq(read_column(RATES_FIRST, points), 2);
    expect_near(points[0].value, 10 / 0.02);
    expect_near(points[1].value, 30 / 0.02);
    ck_assert_uint_eq(read_column(RATES_SECOND, points), 2);
    expect_near(points[0].value, 4 / 0.02);
    expect_near(points[1].value, 5 / 0.02);
}
END_TEST

START_TEST(levels_are_as_they_were_at_each_look)
{
    stats.pending = 1000;
    run.counts.open = 800;
    look();
    stats.pending = 500;
    run.counts.open = 900;
    look();
    ck_assert_uint_eq(read_column(LEVELS_FIRST, points), 2);
    expect_near(points[0].value, 1000);
    expect_near(points[1].value, 500);
    ck_assert_uint_eq(read_column(LEVELS_SECOND, points), 2);
    expect_near(points[0].value, 800);
    expect_near(points[1].value, 900);
}
END_TEST

/* Four hundred samples of a run's length, whatever that is; each has all since the one before it. */
START_TEST(a_long_run_has_longer_samples)
{
    run.options.seconds = 80; /* ten looks a sample */
    for (int i = 0; i < 4000; i++) {
        runs_late(20, 3);
        look();
    }
    size_t n = read_column(RATES_FIRST, points);
    ck_assert_uint_eq(n, 400);
    for (size_t i = 0; i < n; i++) {
        expect_near(points[i].seconds, 0.2 * (double)(i + 1));
        expect_near(points[i].value, 3 / 0.02);
    }
}
END_TEST

START_TEST(a_run_that_does_not_end_fills_the_picture)
{
    for (int i = 0; i < PICTURE_SAMPLES + 1; i++)
        look();
    ck_assert_uint_eq(read_column(LEVELS_FIRST, points), PICTURE_SAMPLES);
}
END_TEST

START_TEST(a_picture_that_cannot_be_written_is_said)
{
    look();
    ck_assert(!picture_write(&picture, &run, "/nowhere/picture.svg"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("the picture of perf/heartbeat");
    TCase *tcase = tcase_create("picture");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, open_picture, NULL);
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, half_of_the_runs_were_at_most_so_late, 0,
                        sizeof(medians) / sizeof(medians[0]));
    tcase_add_test(tcase, a_sample_without_runs_is_a_gap);
    tcase_add_test(tcase, a_picture_without_any_run_has_no_line);
    tcase_add_test(tcase, the_median_is_that_of_a_sorted_list);
    tcase_add_test(tcase, rates_are_of_the_time_between_two_looks);
    tcase_add_test(tcase, levels_are_as_they_were_at_each_look);
    tcase_add_test(tcase, a_long_run_has_longer_samples);
    tcase_add_test(tcase, a_run_that_does_not_end_fills_the_picture);
    tcase_add_test(tcase, a_picture_that_cannot_be_written_is_said);
    return run_suite(suite);
}
