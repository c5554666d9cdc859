/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A child that has an earlier clock than its parent, in a time namespace of its own: a timer that
 * goes along counts its ticks by the child's clock, and does not wait until that has caught up.
 */

#include <sched.h>

#include "fork_fixture.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

enum { SKIPPED = 77 };

/* The clocks of children are just above 0. */
static bool set_back_clocks_of_children(void)
{
    if (unshare(CLONE_NEWTIME) != 0)
        return false;
    FILE *file = fopen("/proc/self/timens_offsets", "w");
    if (!file)
        return false;
    long seconds = (long)(monotonic() / HWT_SEC(1)) - 1;
    bool written = fprintf(file, "monotonic -%ld 0\nboottime -%ld 0\n", seconds, seconds) > 0;
    return fclose(file) == 0 && written;
}

static void drive(void *timer)
{
    int fd = hwt_timer_fd(timer);
    child_must(fd >= 0);
    loop_by(timer, fd);
}

static hwt_timer *create_of_kind(int kind)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.flags = kind == 0 ? 0 : kind < 3 ? HWT_NO_WORKER : HWT_NO_WORKER | HWT_ONE_THREAD;
    options.clock_id = kind == 2 ? CLOCK_BOOTTIME : CLOCK_MONOTONIC;
    return create(&options);
}

/* Each kind: with a worker; without one, by either clock, with threads or one alone. */
START_TEST(a_timer_goes_along_to_an_earlier_clock)
{
    hwt_timer *timer = create_of_kind(_i);
    if (_i >= 1) /* it has handled ticks already */
        for (int i = 0; i < 3; i++)
            ck_assert_uint_eq(hwt_timer_dispatch(timer), 0);
    ck_assert(set_back_clocks_of_children());
    expect_well("a child with an earlier clock", _i == 0 ? first_arm : drive, timer);
    hwt_timer_destroy(timer);
}
END_TEST

static bool can_set_clocks(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(set_back_clocks_of_children() ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(void)
{
    Suite *suite = suite_create("api: forks to other clocks");
    TCase *tcase = add_case(suite, "clock");
    if (WITH_THREAD_SANITIZER || is_emulated() || !can_set_clocks()) {
        puts("no time namespace can be had here, or no thread in a child");
        return SKIPPED;
    }
    tcase_add_loop_test(tcase, a_timer_goes_along_to_an_earlier_clock, 0, 4);
    return run_suite(suite);
}
