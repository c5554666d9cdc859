/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Two copies in one process: this program has the archive in itself, and a library that it uses is
 * linked to the shared library (compiled with -DPLUG). Each calls its own copy: a periodic task of
 * the library goes on, though the program has made a timer before.
 */

#include <hwt/heartbeat.h>
#include <hwt/retry.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define RUNS 3

uintptr_t plug_address(int which);
int plug_period(void);

static uintptr_t address(int which)
{
    switch (which) {
    case 0:
        return (uintptr_t)hwt_timer_create;
    case 1:
        return (uintptr_t)hwt_timer_new_timeout;
    case 2:
        return (uintptr_t)hwt_timeout_repeat;
    case 3:
        return (uintptr_t)hwt_heartbeat_start;
    default:
        return (uintptr_t)hwt_version;
    }
}

static void again(hwt_timeout timeout, void *arg)
{
    ++*(volatile int *)arg;
    (void)hwt_timeout_repeat(timeout, HWT_MS(1));
}

static int period(void)
{
    static const hwt_task task = { again, NULL };
    static volatile int runs;
    hwt_timer *timer;
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    if (hwt_timer_create(&options, &timer) != 0 ||
        hwt_timer_new_timeout(timer, &task, (void *)&runs, 0, NULL) != 0)
        return 1;
    for (int i = 0; i < 30000 && runs < RUNS; i++)
        usleep(1000);
    hwt_timer_destroy(timer);
    return runs < RUNS;
}

#ifdef PLUG

uintptr_t plug_address(int which)
{
    return address(which);
}

int plug_period(void)
{
    return period();
}

#else

int main(void)
{
    for (int which = 0; which < 5; which++) {
        if (address(which) == plug_address(which)) {
            fprintf(stderr, "function %d of the program is the library's, too\n", which);
            return 1;
        }
    }
    if (period() != 0 || plug_period() != 0) {
        fputs("a periodic task has ended\n", stderr);
        return 1;
    }
    return 0;
}

#endif
