/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What perf/heartbeat prints and what it thinks of it, from counts that are made up. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit.h"
#include "perf/heartbeat/heartbeat.h"

static struct run run;
static uint64_t now_is;
static char said[1 << 16];
static int status;

/* Of loop.c, which has sockets. */
uint64_t now_ns(void)
{
    return now_is;
}

static void open_report(void)
{
    memset(&run, 0, sizeof(run));
    pthread_mutex_init(&run.stall_lock, NULL);
    run.begin = HWT_SEC(100);
    run.options.heartbeat_ms = 1000;
    run.options.idle_ms = 3000;
    run.elapsed = HWT_SEC(10);
    run.stats = (hwt_stats)HWT_STATS_INIT;
    now_is = run.begin;
}

/* ---- what is printed ---- */

/* Standard output goes to a file from here on. */
static int redirect(FILE *file)
{
    fflush(stdout);
    int before = dup(STDOUT_FILENO);
    ck_assert_int_ge(before, 0);
    ck_assert_int_ge(dup2(fileno(file), STDOUT_FILENO), 0);
    return before;
}

static void restore(FILE *file, int before)
{
    fflush(stdout);
    ck_assert_int_ge(dup2(before, STDOUT_FILENO), 0);
    close(before);
    rewind(file);
    said[fread(said, 1, sizeof(said) - 1, file)] = '\0';
    fclose(file);
}

static bool print_end(void)
{
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    int before = redirect(file);
    status = report_end(&run);
    restore(file, before);
    return status == REPORT_WELL;
}

/* The number in the row of that name. */
static double number_of(const char *name)
{
    char row[100];
    snprintf(row, sizeof(row), "\n  %-24s ", name);
    const char *found = strstr(said, row);
    if (!found)
        ck_abort_msg("no row \"%s\" in:\n%s", name, said);
    return strtod(found + strlen(row), NULL);
}

static void expect_number(const char *name, double wanted)
{
    double number = number_of(name);
    if (number - wanted > 0.006 || wanted - number > 0.006)
        ck_abort_msg("%s: %g, not %g", name, number, wanted);
}

/* What is known to a 32nd, and never less. */
static void expect_about(const char *name, double wanted)
{
    double number = number_of(name);
    if (number < wanted || number > wanted * 33 / 32)
        ck_abort_msg("%s: %g, not %g", name, number, wanted);
}

static void expect_verdict(const char *verdict)
{
    ck_assert(!print_end());
    if (!strstr(said, verdict) || strstr(said, "All well"))
        ck_abort_msg("not \"%s\" but:\n%s", verdict, said);
}

/* ---- rows ---- */

START_TEST(a_run_without_a_fault_is_well)
{
    ck_assert(print_end());
    ck_assert(strstr(said, "All well") && !strstr(said, "FAILED"));
}
END_TEST

/* 1 to 1000 ms in any order: the p-th percentile is p tenths. */
START_TEST(how_late_peers_were_found_is_sorted)
{
    enum { FOUND = 1000 };
    for (uint64_t i = 0; i < FOUND; i++)
        histogram_add(&run.server.lateness, (int64_t)HWT_MS(i * 7 % FOUND + 1));
    run.counts.silenced = run.counts.found = FOUND;
    run.client.silence_count = FOUND;
    ck_assert(print_end());
    expect_about("found late by, p50", 500);
    expect_about("               p99", 990);
    expect_number("               max", 1000);
}
END_TEST

START_TEST(one_that_was_found_is_all_of_the_three)
{
    histogram_add(&run.server.lateness, (int64_t)HWT_US(1234));
    run.counts.silenced = run.counts.found = 1;
    run.client.silence_count = 1;
    ck_assert(print_end());
    expect_number("found late by, p50", 1.234);
    expect_number("               p99", 1.234);
    expect_number("               max", 1.234);
}
END_TEST

START_TEST(what_the_timer_took_is_of_the_time_that_went_by)
{
    ck_assert(print_end());
    expect_number("  by each timeout", 0);
    run.stats.lateness_max = HWT_US(1500);
    run.overslept = HWT_US(700);
    run.timer_cpu = HWT_MS(250);
    run.wakeups = 1234;
    run.pending_peak = 1000;
    run.memory_before = 10000;
    run.stats.memory = 64000;
    ck_assert(print_end());
    expect_number("CPU", 2.5);
    expect_number("wake-ups", 123.4);
    expect_number("pending at most", 1000);
    expect_number("bytes held", 64000);
    expect_number("  by an empty timer", 10000);
    expect_number("  by each timeout", 54);
    expect_number("fired late, at most", 1.5);
    expect_number("scheduler, at most", 0.7);
}
END_TEST

START_TEST(what_was_answered_late_is_told_from_what_was_not_answered)
{
    run.counts.timed_out = 10;
    run.counts.timed_out_unanswered = 7;
    ck_assert(print_end());
    expect_number("timed out", 10);
    expect_number("though answered, late", 3);
    run.counts.timed_out_unanswered = 10;
    ck_assert(print_end());
    ck_assert(!strstr(said, "though answered"));
}
END_TEST

/* Two seconds after the last line. */
START_TEST(a_line_has_what_happened_in_a_second)
{
    hwt_stats before = HWT_STATS_INIT, now = HWT_STATS_INIT;
    double time, open, pending, armed, moved, cancelled, fired, silent, found, dropped;
    before.added = 1000;
    now.added = 1600;
    before.rescheduled = 500;
    now.rescheduled = 700;
    before.cancelled = 100;
    now.cancelled = 500;
    before.expired = 10;
    now.expired = 1010;
    now.pending = 77;
    run.counts.open = 42;
    run.counts.silenced = 5;
    run.counts.found = 4;
    run.counts.dropped = 3;
    now_is += HWT_MS(2500);
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    int out = redirect(file);
    report_line(&run, &now, &before, 2.0);
    restore(file, out);
    ck_assert_int_eq(sscanf(said, "%lf s %lf %lf %lf %lf %lf %lf %lf %lf %lf", &time, &open,
                            &pending, &armed, &moved, &cancelled, &fired, &silent, &found,
                            &dropped),
                     10);
    ck_assert(time == 2.5 && open == 42 && pending == 77);
    ck_assert(armed == 300 && moved == 100 && cancelled == 200 && fired == 500);
    ck_assert(silent == 5 && found == 4 && dropped == 3);
}
END_TEST

/* ---- verdicts ---- */

/* Each verdict by the count that brings it; the counter lies so far in the counts. */
static const struct {
    size_t counter;
    uint64_t value, silences;
    const char *verdict;
} verdicts[] = {
    { offsetof(struct counts, silenced), 5, 5, "FAILED: silent peers missed: 5\n" },
    { offsetof(struct counts, found), 0, 2,
      "FAILED: peers never long enough connected to fall silent: 2\n" },
    { offsetof(struct counts, early), 1, 0, "FAILED: timeouts fired early: 1\n" },
    { offsetof(struct counts, timed_out_missed), 2, 0, "FAILED: time-outs that never came: 2\n" },
    { offsetof(struct counts, not_reconnected), 3, 0, "FAILED: reconnects that never came: 3\n" },
};

START_TEST(what_went_wrong_fails)
{
    *(counter *)((char *)&run.counts + verdicts[_i].counter) = verdicts[_i].value;
    run.client.silence_count = verdicts[_i].silences;
    expect_verdict(verdicts[_i].verdict);
    ck_assert_int_eq(status, REPORT_FAILED);
    if (_i == 0)
        expect_number("missed", 5);
}
END_TEST

/* It got no processor for a second in all, so it cannot tell; but a failure stays one. */
START_TEST(a_program_that_was_kept_from_running_says_that_it_does_not_know)
{
    run.client.silence_count = 2;
    stall_note(&run, run.begin + HWT_SEC(2), run.begin + HWT_SEC(3) - 1);
    expect_verdict("FAILED: peers never long enough connected to fall silent: 2\n");
    ck_assert_int_eq(status, REPORT_FAILED);
    stall_note(&run, run.begin + HWT_SEC(2), run.begin + HWT_SEC(3));
    expect_verdict("NOT KNOWN: peers never long enough connected to fall silent: 2;"
                   " this program got no processor for 1.0 s\n");
    ck_assert_int_eq(status, REPORT_NOT_KNOWN);
    run.counts.early = 1;
    expect_verdict("FAILED: timeouts fired early: 1\n");
    ck_assert_int_eq(status, REPORT_FAILED);
    run.counts.early = 0;
    run.client.silence_count = 0;
    ck_assert(print_end());
}
END_TEST

/* Three live peers were closed: one when nothing had kept the program, one just after it was kept
 * for two seconds, one an idle limit later yet. */
START_TEST(a_live_peer_that_was_closed_fails_unless_the_program_was_kept_from_running)
{
    uint64_t from = run.begin + HWT_SEC(20), to = from + HWT_SEC(2);
    uint64_t closed[] = { from - 1, from, to + HWT_SEC(3), to + HWT_SEC(3) + 1 };
    stall_note(&run, from, to);
    run.server.suspect = closed;
    run.counts.live_closed = run.server.suspect_count = 4;
    expect_verdict("FAILED: live peers closed: 2\n");
    expect_number("wrongly closed", 2);
    expect_number("starved", 2);
}
END_TEST

/* A heartbeat may be late by two seconds: a quarter of that is worth noting. */
START_TEST(only_a_long_pause_is_noted)
{
    stall_note(&run, HWT_SEC(200), HWT_SEC(200) + HWT_MS(500) - 1);
    ck_assert_uint_eq(run.stall_count, 0);
    stall_note(&run, HWT_SEC(200), HWT_SEC(200) + HWT_MS(500));
    ck_assert_uint_eq(run.stall_count, 1);
}
END_TEST

START_TEST(pauses_that_overlap_are_one)
{
    stall_note(&run, HWT_SEC(200), HWT_SEC(202));
    stall_note(&run, HWT_SEC(199), HWT_SEC(201));
    stall_note(&run, HWT_SEC(202), HWT_SEC(203));
    ck_assert_uint_eq(run.stall_count, 1);
    ck_assert(run.stalls[0].begin == HWT_SEC(199) && run.stalls[0].end == HWT_SEC(203));
}
END_TEST

/* Each thread notes its own, so one may begin before several others. */
START_TEST(a_pause_may_be_told_of_after_shorter_ones)
{
    stall_note(&run, HWT_SEC(200), HWT_SEC(201));
    stall_note(&run, HWT_SEC(202), HWT_SEC(203));
    stall_note(&run, HWT_SEC(204), HWT_SEC(205));
    stall_note(&run, HWT_SEC(201) + 1, HWT_SEC(206));
    ck_assert_uint_eq(run.stall_count, 2);
    ck_assert(run.stalls[1].begin == HWT_SEC(201) + 1 && run.stalls[1].end == HWT_SEC(206));
}
END_TEST

START_TEST(pauses_are_not_counted)
{
    stall_note(&run, HWT_SEC(200), HWT_SEC(202));
    stall_note(&run, HWT_SEC(205), HWT_SEC(209));
    ck_assert(stall_free(&run, HWT_SEC(199), HWT_SEC(210)) == HWT_SEC(5));
    ck_assert(stall_free(&run, HWT_SEC(201), HWT_SEC(206)) == HWT_SEC(3));
    ck_assert(stall_free(&run, HWT_SEC(206), HWT_SEC(208)) == 0);
    ck_assert(stall_free(&run, HWT_SEC(203), HWT_SEC(204)) == HWT_SEC(1));
    ck_assert(stall_free(&run, HWT_SEC(210), HWT_SEC(209)) == 0);
}
END_TEST

/* None is forgotten: the last one grows. */
START_TEST(there_is_room_for_any_number_of_pauses)
{
    uint64_t last = 0;
    for (uint64_t i = 0; i < 2 * STALLS; i++) {
        last = run.begin + HWT_SEC(10 * i);
        stall_note(&run, last, last + HWT_SEC(1));
    }
    ck_assert_uint_eq(run.stall_count, STALLS);
    run.server.suspect = &last;
    run.counts.live_closed = run.server.suspect_count = 1;
    ck_assert(print_end());
    expect_number("wrongly closed", 0);
    expect_number("starved", 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("the report of perf/heartbeat");
    TCase *tcase = tcase_create("report");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, open_report, NULL);
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, a_run_without_a_fault_is_well);
    tcase_add_test(tcase, how_late_peers_were_found_is_sorted);
    tcase_add_test(tcase, one_that_was_found_is_all_of_the_three);
    tcase_add_test(tcase, what_the_timer_took_is_of_the_time_that_went_by);
    tcase_add_test(tcase, what_was_answered_late_is_told_from_what_was_not_answered);
    tcase_add_test(tcase, a_line_has_what_happened_in_a_second);
    tcase_add_loop_test(tcase, what_went_wrong_fails, 0, sizeof(verdicts) / sizeof(verdicts[0]));
    tcase_add_test(tcase, a_program_that_was_kept_from_running_says_that_it_does_not_know);
    tcase_add_test(tcase,
                   a_live_peer_that_was_closed_fails_unless_the_program_was_kept_from_running);
    tcase_add_test(tcase, only_a_long_pause_is_noted);
    tcase_add_test(tcase, pauses_that_overlap_are_one);
    tcase_add_test(tcase, a_pause_may_be_told_of_after_shorter_ones);
    tcase_add_test(tcase, pauses_are_not_counted);
    tcase_add_test(tcase, there_is_room_for_any_number_of_pauses);
    return run_suite(suite);
}
