/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A program that has the library in itself may use it from a constructor, before the library's own
 * have run: C++ does so for each global that has a timer. */

#include <sys/wait.h>

#include "hwt/base/thread.h"
#include "hwt/timer/timer.h"

#include "api_fixture.h"
#include "unit.h"

static hwt_timer *timer;
static ends counted;
static int added = 1, added_in_child = 1;

/* What a child answers when it adds; its status is that. */
static int add_in_child(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(-hwt_timer_new_timeout(timer, &counting, &counted, 0, NULL));
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? -WEXITSTATUS(status)
               : -1;
}

__attribute__((constructor)) static void add_early(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    if (hwt_timer_create(&options, &timer) == 0)
        added = hwt_timer_new_timeout(timer, &counting, &counted, 0, NULL);
    if (added == 0)
        added_in_child = add_in_child();
}

START_TEST(a_thread_that_added_in_a_constructor_has_a_lane_of_its_own)
{
    ck_assert_int_eq(added, 0);
    ck_assert_uint_eq(hwt_thread_number, 1);
    ck_assert_ptr_nonnull(hwt_lane_own(&timer->shared.lanes));
    ck_assert_uint_eq(hwt_thread_take_number(), 2); /* the first one is not free */
    hwt_timer_destroy(timer); /* which may be the parent's: a test runs in a child */
}
END_TEST

START_TEST(a_fork_in_a_constructor_is_noticed)
{
    ck_assert_int_eq(added_in_child, -ESHUTDOWN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("constructor");
    TCase *tcase = unit_case(suite, "constructor", NULL, NULL);
    tcase_add_test(tcase, a_thread_that_added_in_a_constructor_has_a_lane_of_its_own);
    tcase_add_test(tcase, a_fork_in_a_constructor_is_noticed);
    return run_suite(suite);
}
