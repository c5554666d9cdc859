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

/* Runs that are spread evenly over a power have the median in its middle. */
START_TEST(the_median_lies_within_its_power)
{
    runs_late(20, 1000);
    latest(1 << 21);
    look();
    expect_near(only_point(LATE_FIRST), ms(1.5 * (1 << 20)));
}
END_TEST

/* 2^20 to 2^22, evenly: a third of them in the first power. */
START_TEST(the_median_is_where_it_is_among_several_powers)
{
    runs_late(20, 1000);
    runs_late(21, 2000);
    latest(1 << 22);
    look();
    expect_near(only_point(LATE_FIRST), ms(2.5 * (1 << 20)));
}
END_TEST

/* Half of them are below the edge, and half above: the median is just below. One more above, and it
 * is just above. */
START_TEST(the_median_is_at_an_edge)
{
    runs_late(20, 500 + (_i ? 0 : 1));
    runs_late(21, 500 + (_i ? 1 : 0));
    latest(1 << 22);
    look();
    expect_near(only_point(LATE_FIRST), ms(1 << 21));
}
END_TEST

START_TEST(one_run_is_in_the_middle_of_its_power_or_as_late_as_the_latest)
{
    runs_late(20, 1);
    latest(_i ? (1 << 20) + 1000 : 1 << 21);
    look();
    double wanted = _i ? ms((1 << 20) + 1000) : ms(1.5 * (1 << 20));
    expect_near(only_point(LATE_FIRST), wanted);
    expect_near(only_point(LATE_SECOND), wanted);
}
END_TEST

START_TEST(two_runs_have_the_lower_one_as_their_median)
{
    runs_late(18, 1);
    runs_late(23, 1);
    latest(1 << 24);
    look();
    expect_near(only_point(LATE_FIRST), ms(1.5 * (1 << 18)));
    expect_near(only_point(LATE_SECOND), ms(1.5 * (1 << 23)));
}
END_TEST

START_TEST(runs_that_are_not_late_are_drawn)
{
    runs_late(0, 10);
    look();
    expect_near(only_point(LATE_FIRST), ms(1));
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

/* More looks than samples: each sample has several, with all their runs, their highest level, and the
 * median of all. */
START_TEST(looks_that_are_joined_lose_nothing)
{
    enum { LOOKS = 3 * PICTURE_SAMPLES, EACH = 4 };
    for (int i = 0; i < LOOKS; i++) {
        runs_late(i % EACH ? 20 : 26, i % EACH ? 100 : 1);
        latest(1 << 27);
        stats.pending = i % EACH == 2 ? 900 : 100;
        stats.wakeups += i % EACH == 1 ? 40 : 0;
        look();
    }
    size_t n = read_column(RATES_FIRST, points);
    ck_assert_uint_eq(n, LOOKS / EACH);
    for (size_t i = 0; i < n; i++) {
        expect_near(points[i].seconds, 0.02 * EACH * (double)(i + 1));
        expect_near(points[i].value, 301 / (0.02 * EACH));
    }
    (void)read_column(RATES_SECOND, points);
    for (size_t i = 0; i < n; i++)
        expect_near(points[i].value, 40 / (0.02 * EACH));
    (void)read_column(LEVELS_FIRST, points);
    for (size_t i = 0; i < n; i++)
        expect_near(points[i].value, 900);
    (void)read_column(LATE_FIRST, points);
    for (size_t i = 0; i < n; i++)
        expect_near(points[i].value, ms((1 << 20) * (1 + 150.5 / 300)));
    (void)read_column(LATE_SECOND, points);
    for (size_t i = 0; i < n; i++)
        expect_near(points[i].value, ms(1.5 * (1 << 26)));
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
    tcase_add_test(tcase, the_median_lies_within_its_power);
    tcase_add_test(tcase, the_median_is_where_it_is_among_several_powers);
    tcase_add_loop_test(tcase, the_median_is_at_an_edge, 0, 2);
    tcase_add_loop_test(tcase, one_run_is_in_the_middle_of_its_power_or_as_late_as_the_latest, 0,
                        2);
    tcase_add_test(tcase, two_runs_have_the_lower_one_as_their_median);
    tcase_add_test(tcase, runs_that_are_not_late_are_drawn);
    tcase_add_test(tcase, a_sample_without_runs_is_a_gap);
    tcase_add_test(tcase, a_picture_without_any_run_has_no_line);
    tcase_add_test(tcase, the_median_is_that_of_a_sorted_list);
    tcase_add_test(tcase, rates_are_of_the_time_between_two_looks);
    tcase_add_test(tcase, levels_are_as_they_were_at_each_look);
    tcase_add_test(tcase, looks_that_are_joined_lose_nothing);
    tcase_add_test(tcase, a_picture_that_cannot_be_written_is_said);
    return run_suite(suite);
}
