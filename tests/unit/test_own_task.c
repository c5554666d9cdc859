/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt/base/own_task.h: the tasks of heartbeats and retries are told from all others. */

#include "api_fixture.h"

#include <hwt/heartbeat.h>
#include <hwt/retry.h>

#include "hwt/base/own_task.h"

static manual m;
static const hwt_task *visited;

/* A stop's visitor that sees everything, or `cancelled` in place of it. */
static void note_task(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    (void)arg;
    (void)remaining;
    (void)data;
    visited = task;
}

static void notify(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count, void *arg)
{
    (void)heartbeat;
    (void)event;
    (void)count;
    (void)arg;
}

START_TEST(the_tasks_of_programs_are_not_the_librarys)
{
    static const hwt_task constant = { count_run, NULL };
    static hwt_task variable = { count_run, NULL };
    hwt_task automatic = { count_run, NULL };
    ck_assert(!hwt_task_is_own(&constant) && !hwt_task_is_own(&variable));
    ck_assert(!hwt_task_is_own(&automatic) && !hwt_task_is_own(&counting));
    ck_assert(!hwt_task_is_own(NULL));
}
END_TEST

/* Both rooms have theirs there, and nothing else is. */
START_TEST(the_library_has_two_tasks_of_its_own)
{
    static const hwt_heartbeat_rules rules = { .notify = notify };
    hwt_heartbeat heartbeat;
    memset(&heartbeat, 0, sizeof(heartbeat));
    manual_open(&m, 0, HWT_MS(1), 16);
    ck_assert_int_eq(hwt_heartbeat_start(&heartbeat, m.timer, &rules, NULL), 0);
    ck_assert(!hwt_retry_cancel(NULL)); /* links that room in */
    ck_assert_int_eq(__stop_hwt_own_tasks - __start_hwt_own_tasks, 2);
    unsigned without_cancelled = 0;
    for (const hwt_task *task = __start_hwt_own_tasks; task < __stop_hwt_own_tasks; task++) {
        ck_assert(hwt_task_is_own(task));
        ck_assert(task->run != NULL);
        without_cancelled += task->cancelled == NULL;
    }
    ck_assert_uint_eq(without_cancelled, 1); /* the heartbeat's */
    ck_assert(!hwt_task_is_own(__stop_hwt_own_tasks));
    ck_assert(!hwt_task_is_own(__start_hwt_own_tasks - 1));
    hwt_timer_stop(m.timer, note_task, NULL);
    ck_assert(!visited || hwt_task_is_own(visited));
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("own_task");
    TCase *tcase = add_case(suite, "own");
    tcase_add_test(tcase, the_tasks_of_programs_are_not_the_librarys);
    tcase_add_test(tcase, the_library_has_two_tasks_of_its_own);
    return run_suite(suite);
}
