/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A strict C99 program on the installed package: drives a timer by a clock of its own. */

#include <hwt/hwt.h>

#include <stdio.h>

static uint64_t now = 1000;
static unsigned runs;

static uint64_t read_clock(void *clock_data)
{
    return *(uint64_t *)clock_data;
}

static void run(hwt_timeout timeout, void *arg)
{
    (void)arg;
    runs++;
    if (runs < 3)
        hwt_timeout_repeat(timeout, HWT_SEC(1));
}

static const hwt_task task = { run, NULL };

int main(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_stats stats = HWT_STATS_INIT;
    hwt_timer *timer;
    hwt_timeout timeout, zero = { NULL, 0 };
    int second;

    options.tick_duration = HWT_MS(1);
    options.flags = HWT_NO_WORKER;
    options.clock = read_clock;
    options.clock_data = &now;
    if (hwt_timer_create(&options, &timer) != 0)
        return 1;
    if (hwt_timer_new_timeout(timer, &task, NULL, HWT_SEC(1), &timeout) != 0)
        return 2;
    if (hwt_timeout_cancel(zero) || hwt_timeout_state(timeout) != HWT_PENDING)
        return 3;
    for (second = 0; second < 10; second++) {
        now += HWT_SEC(1) + HWT_MS(1);
        hwt_timer_dispatch(timer);
    }
    if (runs != 3 || hwt_timer_pending(timer) != 0)
        return 4;
    if (hwt_timer_stats(timer, &stats) != 0 || stats.expired != 3)
        return 5;
    hwt_timer_destroy(timer);
    printf("hwt %s: %u runs\n", hwt_version(), runs);
    return 0;
}
