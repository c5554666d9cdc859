/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What programs that watch a timer get: the stats as a page for Prometheus, and those counters
 * of which the tests of the stats themselves say nothing.
 */

#include "api_fixture.h"

enum { ROOM = 64 * 1024 };

static char page[ROOM];

static const char *page_of(const hwt_stats *stats, const char *const *names, size_t count)
{
    memset(page, '#', sizeof(page));
    int64_t length = hwt_stats_prometheus(stats, names, count, page, sizeof(page));
    ck_assert_int_gt(length, 0);
    ck_assert_int_lt(length, ROOM);
    ck_assert_uint_eq(strlen(page), (size_t)length);
    return page;
}

/* ---- the page ---- */

/* The upper ends of the histogram's buckets, 2^10 - 1 ns to 2^35 - 1 ns. */
static const char *const ends_of_buckets[] = {
    "0.000001023",  "0.000002047",  "0.000004095", "0.000008191", "0.000016383", "0.000032767",
    "0.000065535",  "0.000131071",  "0.000262143", "0.000524287", "0.001048575", "0.002097151",
    "0.004194303",  "0.008388607",  "0.016777215", "0.033554431", "0.067108863", "0.134217727",
    "0.268435455",  "0.536870911",  "1.073741823", "2.147483647", "4.294967295", "8.589934591",
    "17.179869183", "34.359738367",
};
enum { BUCKETS = sizeof(ends_of_buckets) / sizeof(*ends_of_buckets) };

/* Element i of the histogram is i + 1, so the count up to 2^power is 1 + 2 + ... + power. */
static hwt_stats sample_stats(void)
{
    hwt_stats stats = HWT_STATS_INIT;
    stats.pending = 1;
    stats.added = 20;
    stats.expired = 300;
    stats.cancelled = 4000;
    stats.unprocessed = 50000;
    stats.rescheduled = 600000;
    stats.rejected = UINT64_MAX;
    stats.wakeups = 0;
    stats.memory = 80000;
    stats.lateness_max = 1500000001;
    for (uint64_t i = 0; i < 64; i++)
        stats.lateness[i] = i + 1;
    stats.lateness_sum = 18446744073709551615u;
    return stats;
}

static char expected[ROOM];

static void expect_nothing(void)
{
    expected[0] = '\0';
}

static void expect_text(const char *text)
{
    ck_assert_uint_lt(strlen(expected) + strlen(text), ROOM);
    strcat(expected, text);
}

static void expect_head(const char *name, const char *type, const char *help)
{
    char text[300];
    snprintf(text, sizeof(text), "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
    expect_text(text);
}

static void expect_metric(const char *name, const char *type, const char *help, const char *samples)
{
    expect_head(name, type, help);
    expect_text(samples);
}

/* sample_stats()' histogram; labels is "" or ends in a comma. */
static void expect_histogram(const char *label)
{
    char text[300];
    for (unsigned i = 0; i < BUCKETS; i++) {
        unsigned power = i + 10;
        snprintf(text, sizeof(text), "hwt_lateness_seconds_bucket{%s%sle=\"%s\"} %u\n", label,
                 *label ? "," : "", ends_of_buckets[i], power * (power + 1) / 2);
        expect_text(text);
    }
    snprintf(text, sizeof(text), "hwt_lateness_seconds_bucket{%s%sle=\"+Inf\"} 2080\n", label,
             *label ? "," : "");
    expect_text(text);
    char braced[100] = "";
    if (*label)
        snprintf(braced, sizeof(braced), "{%s}", label);
    snprintf(text, sizeof(text), "hwt_lateness_seconds_sum%s 18446744073.709551615\n", braced);
    expect_text(text);
    snprintf(text, sizeof(text), "hwt_lateness_seconds_count%s 2080\n", braced);
    expect_text(text);
}

START_TEST(each_counter_is_a_metric_in_base_units_with_help_and_type)
{
    hwt_stats stats = sample_stats();
    expect_metric("hwt_timeouts_pending", "gauge", "Timeouts that are pending.",
                  "hwt_timeouts_pending 1\n");
    expect_metric("hwt_timeouts_added_total", "counter", "Timeouts accepted.",
                  "hwt_timeouts_added_total 20\n");
    expect_metric("hwt_timeouts_expired_total", "counter",
                  "Runs of tasks, those of re-armed timeouts included.",
                  "hwt_timeouts_expired_total 300\n");
    expect_metric("hwt_timeouts_cancelled_total", "counter",
                  "Timeouts cancelled while they were pending.",
                  "hwt_timeouts_cancelled_total 4000\n");
    expect_metric("hwt_timeouts_unprocessed_total", "counter",
                  "Timeouts left over when the timer was stopped.",
                  "hwt_timeouts_unprocessed_total 50000\n");
    expect_metric("hwt_timeouts_rescheduled_total", "counter", "Timeouts moved or re-armed.",
                  "hwt_timeouts_rescheduled_total 600000\n");
    expect_metric("hwt_timeouts_rejected_total", "counter",
                  "Timeouts refused for want of room or of a thread.",
                  "hwt_timeouts_rejected_total 18446744073709551615\n");
    expect_metric("hwt_worker_wakeups_total", "counter", "Times the worker came out of a sleep.",
                  "hwt_worker_wakeups_total 0\n");
    expect_metric("hwt_memory_bytes", "gauge", "Memory held.", "hwt_memory_bytes 80000\n");
    expect_metric("hwt_lateness_max_seconds", "gauge", "The most that a task started late.",
                  "hwt_lateness_max_seconds 1.500000001\n");
    expect_head("hwt_lateness_seconds", "histogram",
                "From a timeout's deadline to the start of its task.");
    expect_histogram("");
    ck_assert_str_eq(page_of(&stats, NULL, 1), expected);
}
END_TEST

/* The lines of page that begin so, in order. */
static void expect_lines(const char *beginning, const char *lines)
{
    char found[ROOM] = "";
    for (const char *line = page; *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, beginning, strlen(beginning)) == 0)
            strncat(found, line, (size_t)(strchr(line, '\n') + 1 - line));
    }
    ck_assert_str_eq(found, lines);
}

START_TEST(several_timers_are_told_apart_by_a_label_below_one_head)
{
    static const char *const names[] = { "idle", "retries" };
    hwt_stats stats[2] = { sample_stats(), sample_stats() };
    stats[1].added = 21;
    stats[1].lateness_max = 5;
    page_of(stats, names, 2);
    expect_lines("# TYPE hwt_timeouts_added_total", "# TYPE hwt_timeouts_added_total counter\n");
    expect_lines("hwt_timeouts_added_total", "hwt_timeouts_added_total{timer=\"idle\"} 20\n"
                                             "hwt_timeouts_added_total{timer=\"retries\"} 21\n");
    expect_lines("hwt_lateness_max", "hwt_lateness_max_seconds{timer=\"idle\"} 1.500000001\n"
                                     "hwt_lateness_max_seconds{timer=\"retries\"} 0.000000005\n");
    expect_histogram("timer=\"idle\"");
    expect_histogram("timer=\"retries\"");
    expect_lines("hwt_lateness_seconds", expected);
}
END_TEST

START_TEST(what_would_end_a_label_is_escaped)
{
    static const char *const names[] = { "\\a\"b\nc\\", "", "}{,=\xc3\xa9" };
    hwt_stats stats[3] = { sample_stats(), sample_stats(), sample_stats() };
    page_of(stats, names, 3);
    expect_lines("hwt_timeouts_pending", "hwt_timeouts_pending{timer=\"\\\\a\\\"b\\nc\\\\\"} 1\n"
                                         "hwt_timeouts_pending{timer=\"\"} 1\n"
                                         "hwt_timeouts_pending{timer=\"}{,=\xc3\xa9\"} 1\n");
}
END_TEST

/* ---- the buffer ---- */

START_TEST(a_page_is_cut_short_as_by_snprintf)
{
    static char part[ROOM];
    static const char *const name[] = { "a\"b" };
    hwt_stats stats = sample_stats();
    size_t length = strlen(page_of(&stats, name, 1));
    ck_assert_int_eq(hwt_stats_prometheus(&stats, name, 1, NULL, 0), (int64_t)length);
    for (size_t size = 1; size < length + 3; size++) {
        size_t kept = size <= length ? size - 1 : length;
        memset(part, '#', size + 1);
        must(hwt_stats_prometheus(&stats, name, 1, part, size) == (int64_t)length);
        must(memcmp(part, page, kept) == 0);
        must(part[kept] == '\0' && part[size] == '#');
    }
}
END_TEST

START_TEST(bad_arguments_are_refused_and_write_nothing)
{
    static const char *const names[] = { "a", NULL };
    static const char *const both[] = { "a", "b" };
    char buffer[100] = "untouched";
    hwt_stats stats[2] = { sample_stats(), sample_stats() };
    ck_assert_int_eq(hwt_stats_prometheus(NULL, NULL, 1, buffer, 100), -EINVAL);
    ck_assert_int_eq(hwt_stats_prometheus(stats, NULL, 0, buffer, 100), -EINVAL);
    ck_assert_int_eq(hwt_stats_prometheus(stats, NULL, 2, buffer, 100), -EINVAL);
    ck_assert_int_eq(hwt_stats_prometheus(stats, names, 2, buffer, 100), -EINVAL);
    ck_assert_int_eq(hwt_stats_prometheus(stats, names, 1, NULL, 100), -EINVAL);
    stats[1].size = sizeof(hwt_stats) + 8;
    ck_assert_int_eq(hwt_stats_prometheus(stats, both, 2, buffer, 100), -EINVAL);
    stats[0].size = offsetof(hwt_stats, lateness_sum) - 1;
    ck_assert_int_eq(hwt_stats_prometheus(stats, NULL, 1, buffer, 100), -EINVAL);
    stats[0].size = 0;
    ck_assert_int_eq(hwt_stats_prometheus(stats, NULL, 1, buffer, 100), -EINVAL);
    ck_assert_str_eq(buffer, "untouched");
}
END_TEST

/* ---- callers built with another header ---- */

/* hwt_stats as it was at first, and as it may be one day. */
typedef struct first_stats {
    size_t size;
    uint64_t counters[10], lateness[64];
} first_stats;

typedef struct later_stats {
    hwt_stats known;
    uint64_t more[3];
} later_stats;

START_TEST(a_caller_of_the_first_release_is_served_without_what_it_does_not_know)
{
    manual m;
    ends e = { 0 };
    struct {
        first_stats known;
        uint64_t beyond;
    } old = { .known.size = sizeof(first_stats), .beyond = 77 };
    ck_assert_uint_eq(sizeof(first_stats), offsetof(hwt_stats, lateness_sum));
    manual_open(&m, 0, HWT_MS(1), 8);
    arm(m.timer, &counting, &e, HWT_MS(1));
    manual_go(&m, HWT_MS(2));
    ck_assert_int_eq(hwt_timer_stats(m.timer, (hwt_stats *)(void *)&old.known), 0);
    ck_assert_uint_eq(old.known.size, sizeof(first_stats));
    ck_assert_uint_eq(old.known.counters[2], 1);
    ck_assert_uint_eq(old.known.lateness[19], 1);
    ck_assert_uint_eq(old.beyond, 77);
    page_of((const hwt_stats *)(const void *)&old.known, NULL, 1);
    expect_lines("hwt_lateness_seconds_sum", "");
    expect_lines("hwt_lateness_seconds_count", "hwt_lateness_seconds_count 1\n");
    manual_close(&m);
}
END_TEST

START_TEST(an_array_is_walked_by_the_caller_s_size)
{
    static const char *const names[] = { "a", "b", "c" };
    first_stats old[3] = { 0 };
    later_stats later[3] = { 0 };
    for (uint64_t i = 0; i < 3; i++) {
        old[i].size = sizeof(first_stats);
        old[i].counters[0] = i + 5;
        later[i].known.size = sizeof(later_stats);
        later[i].known.pending = i + 5;
        later[i].known.lateness_sum = i;
    }
    static const char pending[] = "hwt_timeouts_pending{timer=\"a\"} 5\n"
                                  "hwt_timeouts_pending{timer=\"b\"} 6\n"
                                  "hwt_timeouts_pending{timer=\"c\"} 7\n";
    page_of((const hwt_stats *)(const void *)old, names, 3);
    expect_lines("hwt_timeouts_pending", pending);
    page_of(&later[0].known, names, 3);
    expect_lines("hwt_timeouts_pending", pending);
    expect_lines("hwt_lateness_seconds_sum{timer=\"c\"}",
                 "hwt_lateness_seconds_sum{timer=\"c\"} 0.000000002\n");
}
END_TEST

/* ---- the counters ---- */

START_TEST(the_sum_of_lateness_is_exact)
{
    manual m;
    ends e = { 0 };
    manual_open(&m, HWT_SEC(1), HWT_MS(1), 8);
    arm(m.timer, &counting, &e, HWT_MS(1));     /* 1 ms late */
    arm(m.timer, &counting, &e, HWT_MS(2) - 7); /* 7 ns late */
    manual_go(&m, HWT_MS(2));
    ck_assert_uint_eq(stats_of(m.timer).lateness_sum, HWT_MS(1) + 7);
    arm(m.timer, &counting, &e, 0);
    manual_go(&m, HWT_SEC(3));
    hwt_stats stats = stats_of(m.timer);
    ck_assert_uint_eq(stats.lateness_sum, HWT_SEC(3) - HWT_MS(1) + 7);
    page_of(&stats, NULL, 1);
    expect_lines("hwt_lateness_seconds_sum", "hwt_lateness_seconds_sum 2.999000007\n");
    expect_lines("hwt_lateness_seconds_count", "hwt_lateness_seconds_count 3\n");
    manual_close(&m);
}
END_TEST

START_TEST(a_repeat_and_a_run_of_what_was_re_armed_count)
{
    manual m;
    script s = SCRIPT(HWT_MS(5), REPEAT);
    manual_open(&m, 0, HWT_MS(1), 8);
    arm(m.timer, &playing, &s, HWT_MS(5));
    manual_go(&m, HWT_MS(6));
    hwt_stats stats = stats_of(m.timer);
    ck_assert_uint_eq(stats.rescheduled, 1);
    ck_assert_uint_eq(stats.pending, 1);
    manual_go(&m, HWT_MS(11));
    stats = stats_of(m.timer);
    ck_assert_uint_eq(stats.added, 1);
    ck_assert_uint_eq(stats.expired, 2);
    ck_assert_uint_eq(stats.rescheduled, 1);
    ck_assert_uint_eq(stats.pending, 0);
    manual_close(&m);
}
END_TEST

START_TEST(what_was_wrong_or_came_after_stop_is_not_counted_as_rejected)
{
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_task idle = { NULL, NULL };
    ends e = { 0 };
    if (sysconf(_SC_NPROCESSORS_CONF) < CPU_SETSIZE)
        options.worker_cpu = CPU_SETSIZE - 1; /* cannot be had */
    hwt_timer *timer = create(&options);
    ck_assert_int_eq(hwt_timer_new_timeout(timer, &idle, &e, 0, NULL), -EINVAL);
    if (options.worker_cpu >= 0)
        ck_assert_int_eq(hwt_timer_new_timeout(timer, &counting, &e, 0, NULL), -EINVAL);
    ck_assert_int_eq(hwt_timer_stop(timer, NULL, NULL), 0);
    ck_assert_int_eq(hwt_timer_new_timeout(timer, &counting, &e, 0, NULL), -ESHUTDOWN);
    hwt_stats stats = stats_of(timer);
    ck_assert_uint_eq(stats.rejected, 0);
    ck_assert_uint_eq(stats.added, 0);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(only_a_worker_wakes_up)
{
    manual m;
    ends e = { 0 };
    manual_open(&m, 0, HWT_MS(1), 8);
    arm(m.timer, &counting, &e, HWT_MS(1));
    manual_go(&m, HWT_MS(2));
    ck_assert_uint_eq(stats_of(m.timer).wakeups, 0);
    manual_close(&m);
    hwt_timer *timer = create_ticking(HWT_MS(1));
    do { /* it may be so late that it need not sleep */
        uint64_t runs = e.runs;
        arm(timer, &counting, &e, HWT_MS(1));
        ck_assert(await_count(&e.runs, runs + 1));
    } while (stats_of(timer).wakeups == 0);
    hwt_timer_destroy(timer);
}
END_TEST

/* 100000 places in buckets are 8 bytes each at the least, and a timeout itself 40. */
START_TEST(memory_is_right_after_each_call_that_files_or_gives_back)
{
    enum { MANY = 100000 };
    manual m;
    ends e = { 0 };
    manual_open(&m, 0, HWT_MS(1), 8);
    for (int i = 0; i < MANY; i++)
        arm(m.timer, &counting, &e, HWT_SEC(1));
    ck_assert_uint_ge(stats_of(m.timer).memory, 40 * MANY);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_SEC(1) + HWT_MS(1));
    uint64_t filed = stats_of(m.timer).memory;
    ck_assert_uint_ge(filed, (40 + 8) * MANY);
    ck_assert_int_eq(hwt_timer_stop(m.timer, NULL, NULL), MANY);
    ck_assert_uint_lt(stats_of(m.timer).memory, filed - 8 * MANY / 2);
    manual_close(&m);

    manual_open(&m, 0, HWT_MS(1), 8);
    for (int i = 0; i < MANY; i++)
        arm(m.timer, &counting, &e, HWT_SEC(1));
    ck_assert_int_ge(hwt_timer_fd(m.timer), 0); /* files on its way to sleep */
    ck_assert_uint_ge(stats_of(m.timer).memory, (40 + 8) * MANY);
    manual_close(&m);
}
END_TEST

/* ---- */

static void add_page(Suite *suite)
{
    TCase *tcase = add_opened_case(suite, "page", expect_nothing);
    tcase_add_test(tcase, each_counter_is_a_metric_in_base_units_with_help_and_type);
    tcase_add_test(tcase, several_timers_are_told_apart_by_a_label_below_one_head);
    tcase_add_test(tcase, what_would_end_a_label_is_escaped);
    tcase_add_test(tcase, a_page_is_cut_short_as_by_snprintf);
    tcase_add_test(tcase, bad_arguments_are_refused_and_write_nothing);
    tcase_add_test(tcase, a_caller_of_the_first_release_is_served_without_what_it_does_not_know);
    tcase_add_test(tcase, an_array_is_walked_by_the_caller_s_size);
}

static void add_counters(Suite *suite)
{
    TCase *tcase = add_case(suite, "counters");
    tcase_add_test(tcase, the_sum_of_lateness_is_exact);
    tcase_add_test(tcase, a_repeat_and_a_run_of_what_was_re_armed_count);
    tcase_add_test(tcase, what_was_wrong_or_came_after_stop_is_not_counted_as_rejected);
    tcase_add_test(tcase, only_a_worker_wakes_up);
    tcase_add_test(tcase, memory_is_right_after_each_call_that_files_or_gives_back);
}

int main(void)
{
    Suite *suite = suite_create("api: metrics");
    add_page(suite);
    add_counters(suite);
    return run_suite(suite);
}
