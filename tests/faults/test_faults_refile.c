/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Want of memory where what was accepted is filed again: when the old tick of a timeout that was
 * pushed back comes, when it is pulled nearer, when it re-arms itself. What has been accepted runs
 * at its tick, in the order of ticks, though no memory can be had until then and long after.
 */

#include "api_fixture.h"

#include "faults.h"

enum { RECORDS = 1200, OLD = 10, NEW = 200 /* ticks */ };

typedef struct record {
    hwt_timeout timeout;
    uint64_t due, ran; /* ticks */
    unsigned runs;
    bool rearms, cancelled;
} record;

static manual m;
static record records[RECORDS];
static uint64_t now, last_due;
static bool disorder, not_rearmed;

static void note_run(hwt_timeout timeout, void *arg)
{
    record *r = arg;
    if (r->rearms) {
        r->rearms = false;
        not_rearmed |= !hwt_timeout_reschedule_at(timeout, HWT_MS(r->due));
        return;
    }
    r->runs++;
    r->ran = now;
    disorder |= r->due < last_due;
    last_due = r->due;
}

static const hwt_task noting = { note_run, NULL };

/* Before anything is refused. */
static void add_all(uint64_t (*first)(size_t))
{
    memset(records, 0, sizeof(records));
    last_due = 0;
    disorder = not_rearmed = false;
    manual_open(&m, 0, HWT_MS(1), 16);
    for (size_t i = 0; i < RECORDS; i++)
        must(hwt_timer_new_timeout_at(m.timer, &noting, &records[i], HWT_MS(first(i)),
                                      &records[i].timeout) == 0);
    (void)hwt_timer_next_tick(m.timer);
}

static uint64_t at_old(size_t i)
{
    return OLD + i % 3;
}

static uint64_t at_far(size_t i)
{
    return 100000 + i;
}

/* Different buckets, and of more than one round. */
static uint64_t new_tick(size_t i)
{
    return NEW + i * 7919 % 61;
}

static void move_all(void)
{
    for (size_t i = 0; i < RECORDS; i++) {
        records[i].due = new_tick(i);
        must(hwt_timeout_reschedule_at(records[i].timeout, HWT_MS(records[i].due)));
    }
}

static void go_tick_by_tick(uint64_t from, uint64_t to)
{
    for (now = from; now <= to; now++)
        manual_go(&m, HWT_MS(now));
}

/* All have run, in the first call that handles their tick, in order. */
static void check_all(void)
{
    holds(!disorder && !not_rearmed);
    for (size_t i = 0; i < RECORDS; i++)
        holds(records[i].cancelled ||
              (records[i].runs == 1 && records[i].ran == records[i].due + 1));
    holds(hwt_timer_pending(m.timer) == 0);
}

/* What is refused from the n-th call on: one, all, every other. */
static const enum faults_reach reaches[] = { FAULTS_ONE, FAULTS_FROM_THERE_ON, FAULTS_EVERY_OTHER };

enum { REACHES = 3, NTHS = 6 };

static void begin(int loop)
{
    faults_begin((struct faults_plan){ .kinds = FAULTS_MEMORY | FAULTS_MAPPING,
                                       .reach = reaches[loop % REACHES],
                                       .nth = (uint64_t)(loop / REACHES) * 3 + 1 });
}

START_TEST(what_was_pushed_back_runs_at_its_new_tick_though_memory_is_wanting)
{
    add_all(at_old);
    move_all();
    begin(_i);
    go_tick_by_tick(1, NEW + 100);
    faults_end();
    check_all();
    manual_close(&m);
}
END_TEST

START_TEST(what_was_pulled_nearer_runs_at_its_new_tick_though_memory_is_wanting)
{
    add_all(at_far);
    begin(_i);
    for (size_t i = 0; i < RECORDS; i++) {
        records[i].due = new_tick(i);
        records[i].cancelled = !hwt_timeout_reschedule_at(records[i].timeout, HWT_MS(new_tick(i)));
    }
    go_tick_by_tick(1, NEW + 100);
    faults_end();
    for (size_t i = 0; i < RECORDS; i++)
        holds(!records[i].cancelled); /* a move is not refused: it has no error to say so */
    check_all();
    manual_close(&m);
}
END_TEST

START_TEST(what_rearms_itself_runs_at_its_new_tick_though_memory_is_wanting)
{
    add_all(at_old);
    for (size_t i = 0; i < RECORDS; i++) {
        records[i].rearms = true;
        records[i].due = new_tick(i);
    }
    begin(_i);
    go_tick_by_tick(1, NEW + 100);
    faults_end();
    check_all();
    manual_close(&m);
}
END_TEST

/* One in three is cancelled while memory is wanting, half of them before they are filed again. */
START_TEST(cancels_amid_a_want_of_memory_free_what_is_needed)
{
    add_all(at_old);
    move_all();
    begin(_i);
    for (size_t i = 0; i < RECORDS; i += 6)
        records[i].cancelled = hwt_timeout_cancel(records[i].timeout);
    go_tick_by_tick(1, OLD + 5);
    for (size_t i = 3; i < RECORDS; i += 6)
        records[i].cancelled = hwt_timeout_cancel(records[i].timeout);
    go_tick_by_tick(OLD + 6, NEW + 100);
    faults_end();
    for (size_t i = 0; i < RECORDS; i += 3)
        holds(records[i].cancelled && records[i].runs == 0);
    check_all();
    manual_close(&m);
}
END_TEST

/* A leap over the old tick and the new one, and a stop amid it all. */
START_TEST(a_leap_and_a_stop_lose_nothing_though_memory_is_wanting)
{
    add_all(at_old);
    move_all();
    begin(_i);
    now = OLD + 5;
    manual_go(&m, HWT_MS(now));
    int64_t left = hwt_timer_stop(m.timer, NULL, NULL);
    faults_end();
    ck_assert_int_eq(left, RECORDS);
    manual_close(&m);
    add_all(at_old);
    move_all();
    begin(_i);
    now = NEW + 100;
    manual_go(&m, HWT_MS(now));
    faults_end();
    holds(hwt_timer_pending(m.timer) == 0); /* within a leap their order is not kept */
    for (size_t i = 0; i < RECORDS; i++)
        holds(records[i].runs == 1);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("faults: filed again");
    TCase *tcase = add_case(suite, "refile");
    tcase_add_loop_test(tcase, what_was_pushed_back_runs_at_its_new_tick_though_memory_is_wanting,
                        0, REACHES * NTHS);
    tcase_add_loop_test(tcase, what_was_pulled_nearer_runs_at_its_new_tick_though_memory_is_wanting,
                        0, REACHES * NTHS);
    tcase_add_loop_test(tcase, what_rearms_itself_runs_at_its_new_tick_though_memory_is_wanting, 0,
                        REACHES * NTHS);
    tcase_add_loop_test(tcase, cancels_amid_a_want_of_memory_free_what_is_needed, 0,
                        REACHES * NTHS);
    tcase_add_loop_test(tcase, a_leap_and_a_stop_lose_nothing_though_memory_is_wanting, 0,
                        REACHES * NTHS);
    return run_suite(suite);
}
