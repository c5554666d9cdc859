/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What only a pending timeout's arg leads to is no leak: LeakSanitizer must be silent when this
 * ends. With an argument it leaks something, which must be found.
 */

#include <hwt/hwt.h>
#include <stdio.h>
#include <stdlib.h>

static hwt_timer *timer;
static char *volatile lost;

static void run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    free(arg);
}

static const hwt_task task = { run, run };

static int arm(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *arg = malloc(64);
        hwt_timeout timeout;
        if (!arg || hwt_timer_new_timeout(timer, &task, arg, HWT_MIN(10), &timeout) < 0)
            return -1;
        if (i % 3 == 0)
            hwt_timeout_reschedule(timeout, HWT_MIN(20));
    }
    return 0;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (hwt_timer_create(NULL, &timer) < 0 || arm(100000) < 0)
        return 2;
    if (argc > 1) {
        /* Several, for two numbers side by side may look like a pointer to one. */
        for (int i = 0; i < 10; i++)
            lost = malloc(77);
        lost = NULL;
    }
    printf("%d pending\n", (int)hwt_timer_pending(timer));
    return 0;
}
