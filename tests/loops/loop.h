/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef LOOP_H
#define LOOP_H

/*
 * What a program has on its timer, whatever its loop: a heartbeat, a request that gets no answer, and one whose
 * answer comes on another thread. To be copied with a loop_*.c.
 *
 *     begin()      returns the descriptor to be watched: it is readable until hwt_timer_dispatch() has caught up
 *     turn()       when it is; true: all has happened, so the loop may end
 *     end()        when it is watched no more; the exit status
 */

#include <errno.h>
#include <hwt/hwt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hwt_timer *timer;
static hwt_timeout answered;
static uint64_t next, soon, late;
static int beats, expired, early; /* tasks alone use these, on the loop's thread: no lock */
static pthread_t thread;

static int check(const char *what, int r)
{
    if (r >= 0)
        return r;
    fprintf(stderr, "%s: %s\n", what, strerror(-r));
    exit(1);
}

static void beat(hwt_timeout timeout, void *deadline)
{
    early += hwt_timer_now(timer) < *(uint64_t *)deadline;
    *(uint64_t *)deadline += HWT_MS(100);
    if (++beats < 5)
        hwt_timeout_repeat(timeout, HWT_MS(100));
}

static void expire(hwt_timeout timeout, void *deadline)
{
    (void)timeout;
    early += hwt_timer_now(timer) < *(uint64_t *)deadline;
    expired++;
}

static const hwt_task heartbeat = { .run = beat }, request = { .run = expire };

/* Another thread: a request that gets no answer, and the answer to another one. */
static void *client(void *when)
{
    check("request", hwt_timer_new_timeout_at(timer, &request, when, *(uint64_t *)when, NULL));
    check("answer", hwt_timeout_cancel(answered) ? 0 : -ETIME);
    return NULL;
}

static int begin(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    check("timer", hwt_timer_create(&options, &timer));
    next = hwt_timer_now(timer), soon = next + HWT_MS(250), late = next + HWT_MIN(1);
    check("heartbeat", hwt_timer_new_timeout_at(timer, &heartbeat, &next, next, NULL));
    check("request", hwt_timer_new_timeout_at(timer, &request, &late, late, &answered));
    check("thread", -pthread_create(&thread, NULL, client, &soon));
    return check("descriptor", hwt_timer_fd(timer));
}

static bool turn(void)
{
    hwt_timer_dispatch(timer);
    return beats == 5 && expired == 1;
}

/* Before the timer closes its descriptor, the loop has let go of it. */
static int end(void)
{
    pthread_join(thread, NULL);
    hwt_timer_destroy(timer);
    printf("%d beats, %d expired, %d early\n", beats, expired, early);
    return beats == 5 && expired == 1 && early == 0 ? 0 : 1;
}

#endif
