/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The picture of perf/heartbeat, read back: counts that are made up go in, and the points of the
 * lines in the SVG are turned into numbers again, by the rules that are drawn beside them.
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

enum { POWERS = 64, LATE = 2, RATES = 1, LEVELS = 0 };

static const char *const titles[] = { "timeouts pending", "a second:", "how late" };
static const char first_line[] = "#0072b2", second_line[] = "#d55e00";

static struct run run;
static struct picture picture;
static hwt_stats stats;
static uint64_t now_is;
static char svg[1 << 20];

static void open_picture(void)
{
    memset(&run, 0, sizeof(run));
    memset(&picture, 0, sizeof(picture));
    stats = (hwt_stats)HWT_STATS_INIT;
    now_is = run.begin = HWT_SEC(100);
    run.options.tick_us = 1000;
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

struct point {
    double seconds, value;
    bool begins; /* there was none at the sample before it */
};

struct axis {
    double at, value, other_at, other_value;
    bool logarithmic;
};

static void write_picture(void)
{
    char path[] = "/tmp/hwt-picture-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert(picture_write(&picture, &run, path));
    ssize_t n = read(fd, svg, sizeof(svg) - 1);
    close(fd);
    unlink(path);
    ck_assert_int_gt(n, 0);
    svg[n] = '\0';
    ck_assert(!strstr(svg, "nan") && !strstr(svg, "inf"));
}

static const char *find(const char *from, const char *text)
{
    const char *found = strstr(from, text);
    if (!found)
        ck_abort_msg("the picture has no %s", text);
    return found;
}

/* The first rule of a panel, and the last. */
static struct axis read_axis(const char *from, bool logarithmic)
{
    struct axis axis = { .logarithmic = logarithmic };
    double at, value;
    int rules = 0;
    const char *end = find(from, "<path fill='none'");
    while ((from = strstr(from, "<path d='M70 ")) != NULL && from < end) {
        if (sscanf(from++,
                   "<path d='M70 %lfH790' stroke='#dddddd'/>\n<text x='%*f' y='%*f' "
                   "text-anchor='end' fill='#888888'>%lf</text>\n",
                   &at, &value) != 2)
            continue;
        axis.other_at = at;
        axis.other_value = value;
        if (rules++ == 0) {
            axis.at = at;
            axis.value = value;
        }
    }
    ck_assert_int_ge(rules, 2);
    return axis;
}

static double value_at(const struct axis *axis, double at)
{
    double part = (at - axis->at) / (axis->other_at - axis->at);
    return axis->logarithmic ? axis->value * pow(axis->other_value / axis->value, part)
                             : axis->value + part * (axis->other_value - axis->value);
}

/* The end of the run is where the line would end: there is a sample. */
static double seconds_at(double x)
{
    return (x - 70) / (790 - 70) * (double)(now_is - run.begin) / 1e9;
}

/* The points of a line, of the panel and the colour. */
static size_t read_line(int panel, const char *colour, struct point *points)
{
    char begin[100];
    size_t n = 0;
    int length;
    double x, y;
    char kind;
    const char *from = find(svg, titles[panel]);
    const struct axis axis = read_axis(from, panel == LATE);
    snprintf(begin, sizeof(begin), "<path fill='none' stroke='%s' stroke-width='1.5' d='", colour);
    from = find(from, begin) + strlen(begin);
    while (sscanf(from, "%c%lf %lf%n", &kind, &x, &y, &length) == 3 && kind != '\'') {
        ck_assert_uint_lt(n, PICTURE_SAMPLES);
        ck_assert(kind == 'M' || kind == 'L');
        points[n++] = (struct point){ seconds_at(x), value_at(&axis, y), kind == 'M' };
        from += length;
    }
    ck_assert_int_eq(*from, '\'');
    return n;
}

static size_t draw(int panel, const char *colour, struct point *points)
{
    write_picture();
    return read_line(panel, colour, points);
}

/* A tenth of the paper's unit is what can be told. */
static void expect_near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= wanted * 0.01))
        ck_abort_msg("drawn: %g, not %g", value, wanted);
}

static struct point points[PICTURE_SAMPLES];

static double only_point(int panel, const char *colour)
{
    ck_assert_uint_eq(draw(panel, colour, points), 1);
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
    expect_near(only_point(LATE, first_line), ms(1.5 * (1 << 20)));
}
END_TEST

/* 2^20 to 2^22, evenly: a third of them in the first power. */
START_TEST(the_median_is_where_it_is_among_several_powers)
{
    runs_late(20, 1000);
    runs_late(21, 2000);
    latest(1 << 22);
    look();
    expect_near(only_point(LATE, first_line), ms(2.5 * (1 << 20)));
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
    expect_near(only_point(LATE, first_line), ms(1 << 21));
}
END_TEST

START_TEST(one_run_is_in_the_middle_of_its_power_or_as_late_as_the_latest)
{
    runs_late(20, 1);
    latest(_i ? (1 << 20) + 1000 : 1 << 21);
    look();
    double wanted = _i ? ms((1 << 20) + 1000) : ms(1.5 * (1 << 20));
    expect_near(only_point(LATE, first_line), wanted);
    expect_near(only_point(LATE, second_line), wanted);
}
END_TEST

START_TEST(two_runs_have_the_lower_one_as_their_median)
{
    runs_late(18, 1);
    runs_late(23, 1);
    latest(1 << 24);
    look();
    expect_near(only_point(LATE, first_line), ms(1.5 * (1 << 18)));
    expect_near(only_point(LATE, second_line), ms(1.5 * (1 << 23)));
}
END_TEST

START_TEST(runs_that_are_not_late_are_drawn)
{
    runs_late(0, 10);
    look();
    expect_near(only_point(LATE, first_line), ms(1));
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
    ck_assert_uint_eq(draw(LATE, first_line, points), 4);
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
    ck_assert_uint_eq(draw(LATE, first_line, points), 0);
    ck_assert_uint_eq(draw(LATE, second_line, points), 0);
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
    ck_assert_uint_eq(draw(LATE, first_line, points), n);
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
    ck_assert_uint_eq(draw(RATES, first_line, points), 2);
    expect_near(points[0].value, 10 / 0.02);
    expect_near(points[1].value, 30 / 0.02);
    ck_assert_uint_eq(read_line(RATES, second_line, points), 2);
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
    ck_assert_uint_eq(draw(LEVELS, first_line, points), 2);
    expect_near(points[0].value, 1000);
    expect_near(points[1].value, 500);
    ck_assert_uint_eq(read_line(LEVELS, second_line, points), 2);
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
    size_t n = draw(RATES, first_line, points);
    ck_assert_uint_eq(n, LOOKS / EACH);
    for (size_t i = 0; i < n; i++) {
        expect_near(points[i].seconds, 0.02 * EACH * (double)(i + 1));
        expect_near(points[i].value, 301 / (0.02 * EACH));
    }
    (void)read_line(RATES, second_line, points);
    for (size_t i = 0; i < n; i++)
        expect_near(points[i].value, 40 / (0.02 * EACH));
    (void)read_line(LEVELS, first_line, points);
    for (size_t i = 0; i < n; i++)
        expect_near(points[i].value, 900);
    (void)read_line(LATE, first_line, points);
    for (size_t i = 0; i < n; i++)
        expect_near(points[i].value, ms((1 << 20) * (1 + 150.5 / 300)));
    (void)read_line(LATE, second_line, points);
    for (size_t i = 0; i < n; i++)
        expect_near(points[i].value, ms(1.5 * (1 << 26)));
}
END_TEST

START_TEST(the_tick_is_dashed)
{
    double at;
    runs_late(18, 10);
    runs_late(24, 10);
    latest(1 << 25);
    look();
    write_picture();
    const char *panel = find(svg, titles[LATE]);
    const struct axis axis = read_axis(panel, true);
    const char *dashed = find(panel, "stroke='#222222' stroke-dasharray");
    while (*--dashed != '<')
        ;
    ck_assert_int_eq(sscanf(dashed, "<path d='M70 %lfH790'", &at), 1);
    expect_near(value_at(&axis, at), 1);
}
END_TEST

START_TEST(a_picture_that_cannot_be_written_is_said)
{
    look();
    ck_assert(!picture_write(&picture, &run, "/nowhere/picture.svg"));
    ck_assert(!picture_write(&picture, &run, "/dev/full"));
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
    tcase_add_test(tcase, the_tick_is_dashed);
    tcase_add_test(tcase, a_picture_that_cannot_be_written_is_said);
    return run_suite(suite);
}
