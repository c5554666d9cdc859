/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A fork at each place where the library takes memory or gives it back: the child then has
 * a timer in the midst of that, and only destroys it.
 */

#include "api_fixture.h"

#include <sys/wait.h>

#include "faults.h"

enum { RECORDS = 1500, LATEST = 1000 /* ticks */ };

static manual m;
static ends all;
static unsigned forks, ill; /* children, and those that did not end well */

static int destroy_in_child(void)
{
    faults_meanwhile(NULL);
    uint64_t ends_before = ends_sum(&all), strangers_before = faults_strangers();
    hwt_timer_destroy(m.timer);
    return ends_sum(&all) == ends_before && faults_strangers() == strangers_before ? 0 : 1;
}

static void fork_and_destroy(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(destroy_in_child());
    forks++;
    ill += child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

/* Buckets that grow and shrink, and slabs. */
static void use_memory(void)
{
    hwt_timeout timeouts[RECORDS];
    for (int i = 0; i < RECORDS; i++)
        timeouts[i] = arm(m.timer, &counting, &all, HWT_MS(1 + i * 7919 % LATEST));
    for (uint64_t tick = 1; tick <= LATEST / 2; tick++)
        manual_go(&m, HWT_MS(tick));
    for (int i = 0; i < RECORDS; i += 3)
        hwt_timeout_cancel(timeouts[i]);
    for (uint64_t tick = LATEST / 2; tick <= LATEST + 2; tick++)
        manual_go(&m, HWT_MS(tick));
}

START_TEST(a_child_destroys_a_timer_wherever_the_fork_came)
{
    faults_watch();
    manual_open(&m, 0, HWT_MS(1), 2);
    faults_meanwhile(fork_and_destroy);
    use_memory();
    faults_meanwhile(NULL);
    manual_close(&m);
    ck_assert_uint_eq(ends_sum(&all), RECORDS);
    ck_assert_uint_eq(ill, 0);
    ck_assert_uint_gt(forks, 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("faults: fork");
    tcase_add_test(add_case(suite, "fork"), a_child_destroys_a_timer_wherever_the_fork_came);
    return run_suite(suite);
}
