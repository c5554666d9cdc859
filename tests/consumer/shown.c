/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a debugger is to show: 300 timeouts of known tasks. It stops at reached(). */

#include <hwt/hwt.h>
#include <stdlib.h>

int reached(void);

static void first_task(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
}

static void other_task(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
}

static const hwt_task first = { first_task, NULL }, other = { other_task, other_task };
hwt_timer *timer;

int reached(void)
{
    return hwt_timer_pending(timer) == 203 ? 0 : 1;
}

int main(void)
{
    hwt_timeout timeout;
    int i, r = hwt_timer_create(NULL, &timer);
    if (r < 0)
        return 2;
    for (i = 0; i < 300 && r == 0; i++) {
        r = hwt_timer_new_timeout(timer, i < 200 ? &first : &other, NULL, HWT_MIN(60), &timeout);
        if (i >= 200)
            hwt_timeout_cancel(timeout);
    }
    r |= hwt_timer_new_timeout(timer, &other, &timer, HWT_MIN(30), NULL);
    r |= hwt_timer_new_timeout(timer, &first, NULL, HWT_MIN(40), NULL);
    r |= hwt_timer_new_timeout(timer, &first, NULL, HWT_NEVER, NULL);
    return r != 0 ? 2 : reached();
}
