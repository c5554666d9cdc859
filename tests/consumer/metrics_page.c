/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Prints the metrics of two timers, one of them with a name that needs to be escaped; see
 * metrics.sh. */

#include <hwt/hwt.h>

#include <stdio.h>

static void run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static const hwt_task task = { run, NULL };

int main(void)
{
    static const char *const names[] = { "plain", "back\\slash \"quoted\"\nnew line }" };
    static char page[32 * 1024];
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_stats stats[2] = { HWT_STATS_INIT, HWT_STATS_INIT };
    options.flags = HWT_NO_WORKER;
    for (int i = 0; i < 2; i++) {
        hwt_timer *timer;
        if (hwt_timer_create(&options, &timer) < 0)
            return 1;
        uint64_t now = hwt_timer_now(timer);
        for (uint64_t lateness = 1; lateness < HWT_MIN(100); lateness *= 3)
            hwt_timer_new_timeout_at(timer, &task, NULL, now + HWT_MIN(100) - lateness, NULL);
        hwt_timer_advance(timer, now + HWT_MIN(100) + HWT_SEC(1));
        hwt_timer_stats(timer, &stats[i]);
        hwt_timer_destroy(timer);
    }
    int64_t length = hwt_stats_prometheus(stats, names, 2, page, sizeof(page));
    if (length < 0 || length >= (int64_t)sizeof(page))
        return 1;
    fputs(page, stdout);
    return 0;
}
