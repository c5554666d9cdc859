/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Promises that a shortage does not suspend: the order of what could be filed, use afterwards,
 * memory within bounds. */

#include "api_fixture.h"

#include "faults.h"

enum { RECORDS = 80 };

static struct {
    size_t runs[RECORDS];
    size_t count;
    bool rearmed;
} log_;

static void note_run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    log_.runs[log_.count++] = (size_t)((char *)arg - (char *)&log_);
}

static const hwt_task noting = { note_run, NULL };

/* Each loop: the n-th growth of a bucket is refused; half are added before, half after. All run in
 * their tick, and but for the one that could not be filed in their order. */
START_TEST(the_order_of_all_others_is_kept_though_a_bucket_could_not_grow)
{
    manual m;
    size_t disorder = 0;
    memset(&log_, 0, sizeof(log_));
    manual_open(&m, 0, HWT_MS(1), 4);
    for (size_t i = 0; i < RECORDS; i++) {
        if (i == RECORDS / 2) {
            faults_begin((struct faults_plan){ FAULTS_MEMORY, FAULTS_ONE, (uint64_t)_i, 0 });
            hwt_timer_next_tick(m.timer);
            ck_assert_uint_le(faults_end(), 1);
        }
        arm(m.timer, &noting, (char *)&log_ + i, HWT_MS(5));
    }
    ck_assert_uint_eq(manual_go(&m, HWT_MS(5)), 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(6)), RECORDS);
    for (size_t i = 1; i < RECORDS; i++)
        disorder += log_.runs[i] < log_.runs[i - 1];
    ck_assert_uint_le(disorder, 1);
    manual_close(&m);
}
END_TEST

static void arm_noting(const manual *m, const hwt_task *task, size_t number, uint64_t tick)
{
    hwt_timer *timer = m->timer;
    must(hwt_timer_new_timeout_at(timer, task, (char *)&log_ + number, HWT_MS(tick), NULL) == 0);
}

/* With the one bucket refused that the first of the new ones needs. */
static void go_with_a_refusal(manual *m, uint64_t tick)
{
    faults_begin((struct faults_plan){ FAULTS_MEMORY, FAULTS_ONE, 1, 0 });
    uint64_t ran = manual_go(m, HWT_MS(tick));
    ck_assert_uint_eq(faults_end(), 1);
    ck_assert_uint_gt(ran, 0);
}

static void expect_order(size_t n)
{
    ck_assert_uint_eq(log_.count, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_eq(log_.runs[i], i);
}

START_TEST(what_is_due_takes_its_turn_though_another_could_not_be_filed)
{
    manual m;
    log_.count = 0;
    manual_open(&m, 0, HWT_MS(1), 64);
    arm_noting(&m, &noting, 1, 7);
    arm_noting(&m, &noting, 0, 5);
    manual_go(&m, HWT_MS(1));
    arm_noting(&m, &noting, 3, 40);
    arm_noting(&m, &noting, 2, 7);
    go_with_a_refusal(&m, 10);
    expect_order(3);
    manual_go(&m, HWT_MS(50));
    expect_order(4);
    manual_close(&m);
}
END_TEST

static void rearm_once(hwt_timeout timeout, void *arg)
{
    if (log_.rearmed)
        note_run(timeout, arg);
    else
        log_.rearmed = hwt_timeout_reschedule_at(timeout, HWT_MS(20));
}

static const hwt_task rearming = { rearm_once, NULL };

START_TEST(what_rearms_itself_comes_after_what_could_not_be_filed_before)
{
    manual m;
    log_.count = 0;
    manual_open(&m, 0, HWT_MS(1), 64);
    arm_noting(&m, &rearming, 1, 5);
    manual_go(&m, HWT_MS(1));
    arm_noting(&m, &noting, 0, 20);
    go_with_a_refusal(&m, 7);
    manual_go(&m, HWT_MS(30));
    expect_order(2);
    manual_close(&m);
}
END_TEST

START_TEST(a_timer_is_usable_after_any_number_of_refusals)
{
    manual m;
    ends e = { 0 };
    manual_open(&m, 0, HWT_MS(1), 4);
    uint64_t accepted = 0;
    faults_begin((struct faults_plan){ FAULTS_MAPPING, FAULTS_FROM_THERE_ON, 1, 0 });
    while (hwt_timer_new_timeout(m.timer, &counting, &e, 0, NULL) == 0)
        accepted++;
    faults_end();
    for (int i = 0; i < 100000; i++) {
        faults_begin((struct faults_plan){ FAULTS_MAPPING, FAULTS_ONE, 1, 0 });
        int r = hwt_timer_new_timeout(m.timer, &counting, &e, 0, NULL);
        ck_assert_uint_eq(faults_end(), 1);
        accepted += r == 0;
    }
    arm(m.timer, &counting, &e, 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(1)), accepted + 1);
    manual_close(&m);
}
END_TEST

static void nothing(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

/* With one thread it is filed when the timer is asked what comes next: whose bucket is refused then
 * comes next all the same. */
START_TEST(what_cannot_be_filed_when_the_next_tick_is_asked_for_is_not_forgotten)
{
    manual m;
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.flags = HWT_ONE_THREAD;
    memset(&log_, 0, sizeof(log_));
    manual_open_with(&m, 0, options);
    arm_noting(&m, &noting, 0, 10);
    faults_begin((struct faults_plan){ FAULTS_MEMORY, FAULTS_ONE, 1, 0 });
    uint64_t next = hwt_timer_next_tick(m.timer);
    ck_assert_uint_eq(faults_end(), 1);
    ck_assert_uint_le(next, HWT_MS(11));
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_MS(11));
    ck_assert_uint_eq(manual_go(&m, HWT_MS(11)), 1);
    manual_close(&m);
}
END_TEST

static void come_and_go(hwt_timer *timer, int n)
{
    static const hwt_task quiet = { nothing, NULL };
    for (int i = 0; i < n; i++)
        must(hwt_timeout_cancel(arm(timer, &quiet, NULL, HWT_SEC(1))));
}

/* The timer is not driven: what is pending waits in the queue. What comes and goes behind it is used
 * again as soon as it has been looked through. */
START_TEST(what_comes_and_goes_behind_a_backlog_takes_no_more_memory_than_a_multiple_of_it)
{
    enum { BACKLOG = 20000, OFTEN = 500000 };
    static const hwt_task quiet = { nothing, NULL };
    manual m;
    manual_open(&m, 0, HWT_MS(1), 4);
    for (int i = 0; i < BACKLOG; i++)
        arm(m.timer, &quiet, NULL, HWT_SEC(1));
    uint64_t before = stats_of(m.timer).memory;
    come_and_go(m.timer, OFTEN);
    uint64_t then = stats_of(m.timer).memory;
    ck_assert_uint_le(then, 20 * before);
    come_and_go(m.timer, 2 * OFTEN);
    ck_assert_uint_le(stats_of(m.timer).memory, then + then / 2); /* from one look to the next */
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("faults: shortage");
    TCase *tcase = add_case(suite, "shortage");
    tcase_add_loop_test(tcase, the_order_of_all_others_is_kept_though_a_bucket_could_not_grow, 1,
                        8);
    tcase_add_test(tcase, what_is_due_takes_its_turn_though_another_could_not_be_filed);
    tcase_add_test(tcase, what_rearms_itself_comes_after_what_could_not_be_filed_before);
    tcase_add_test(tcase, what_cannot_be_filed_when_the_next_tick_is_asked_for_is_not_forgotten);
    tcase_add_test(tcase, a_timer_is_usable_after_any_number_of_refusals);
    tcase_add_test(tcase,
                   what_comes_and_goes_behind_a_backlog_takes_no_more_memory_than_a_multiple_of_it);
    return run_suite(suite);
}
