/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_FORK_FIXTURE_H
#define HWT_TESTS_FORK_FIXTURE_H

/* What a child does with a timer that it may use. */

#include <fcntl.h>

#include "children.h"

/* With a worker. */
static inline void first_arm(void *data)
{
    ends e = { 0 };
    hwt_timer *timer = data;
    for (int i = 0; i < 100; i++)
        child_must(hwt_timer_new_timeout(timer, &counting, &e, HWT_MS(i % 5), NULL) == 0);
    child_must(hwt_timer_new_timeout(timer, &counting, &e, HWT_SEC(3600), NULL) == 0);
    child_must(await_count(&e.runs, 100));
    child_must(hwt_timer_stop(timer, NULL, NULL) == 1);
    hwt_timer_destroy(timer);
    child_must(e.runs == 100 && e.cancelled == 1);
}

/* Without one, by its descriptor. */
static inline void loop_by(hwt_timer *timer, int fd)
{
    ends e = { 0 };
    child_must(fcntl(fd, F_GETFD) == FD_CLOEXEC); /* a program that it executes does not have it */
    for (int i = 0; i < 20; i++)
        child_must(hwt_timer_new_timeout(timer, &counting, &e, HWT_MS(i), NULL) == 0);
    while (e.runs < 20) {
        child_must(readable(fd, 20000));
        hwt_timer_dispatch(timer);
    }
    hwt_timer_destroy(timer);
}

#endif
