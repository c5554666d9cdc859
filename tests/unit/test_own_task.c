/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt/base/own_task.h: the tasks of heartbeats and retries are told from all others. */

#include "api_fixture.h"

#include <hwt/heartbeat.h>
#include <hwt/retry.h>

#include "hwt/base/own_task.h"

static manual m;
static const hwt_task constant = { count_run, NULL };

static void notify(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count, void *arg)
{
    (void)heartbeat;
    (void)event;
    (void)count;
    (void)arg;
}

static void attempt(hwt_retry *retry, uint64_t number, void *arg)
{
    (void)retry;
    (void)number;
    (void)arg;
}

static void ended(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    (void)retry;
    (void)end;
    (void)arg;
}

static bool count_own(hwt_timeout timeout, const hwt_task *task, void *arg, uint64_t remaining,
                      void *data)
{
    (void)timeout;
    (void)arg;
    (void)remaining;
    *(unsigned *)data += hwt_task_is_own(task);
    return true;
}

START_TEST(the_tasks_of_programs_are_not_the_librarys)
{
    static hwt_task variable = { count_run, NULL };
    hwt_task automatic = { count_run, NULL };
    ck_assert(!hwt_task_is_own(&constant) && !hwt_task_is_own(&variable));
    ck_assert(!hwt_task_is_own(&automatic) && !hwt_task_is_own(&counting));
}
END_TEST

START_TEST(a_heartbeat_and_a_retry_have_the_librarys)
{
    static const hwt_heartbeat_rules rules = { .notify = notify };
    static const hwt_retry_task task = { attempt, ended };
    static hwt_heartbeat heartbeat;
    static hwt_retry retry;
    unsigned own = 0;
    manual_open(&m, 0, HWT_MS(1), 16);
    ck_assert_int_eq(hwt_heartbeat_start(&heartbeat, m.timer, &rules, NULL), 0);
    ck_assert_int_eq(hwt_retry_start(&retry, m.timer, NULL, &task, NULL), 0);
    ck_assert_int_eq(hwt_timer_new_timeout(m.timer, &constant, NULL, 0, NULL), 0);
    ck_assert_int_eq(hwt_timer_visit(m.timer, count_own, &own), 3);
    ck_assert_uint_eq(own, 2);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("own_task");
    TCase *tcase = add_case(suite, "own");
    tcase_add_test(tcase, the_tasks_of_programs_are_not_the_librarys);
    tcase_add_test(tcase, a_heartbeat_and_a_retry_have_the_librarys);
    return run_suite(suite);
}
