/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt in libuv: cc -pthread loop_libuv.c $(pkg-config --cflags --libs hwt libuv) */

#define _GNU_SOURCE 1 /* POSIX beside -std=c11 too */

#include <errno.h>
#include <hwt/hwt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

static hwt_timer *timer;
static hwt_timeout answered;
static int beats, expired, early; /* tasks alone use these, on the loop's thread: no lock */

static int check(const char *what, int r)
{
    if (r >= 0)
        return r;
    fprintf(stderr, "loop_libuv: %s: %s\n", what, strerror(-r));
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

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    check("poll", status);
    hwt_timer_dispatch(timer);
    if (beats == 5 && expired == 1)
        uv_close((uv_handle_t *)poll, NULL); /* the only handle: uv_run() returns */
}

int main(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    check("timer", hwt_timer_create(&options, &timer));
    uint64_t next = hwt_timer_now(timer), soon = next + HWT_MS(250), late = next + HWT_MIN(1);
    check("heartbeat", hwt_timer_new_timeout_at(timer, &heartbeat, &next, next, NULL));
    check("request", hwt_timer_new_timeout_at(timer, &request, &late, late, &answered));
    pthread_t thread;
    check("thread", -pthread_create(&thread, NULL, client, &soon));
    uv_loop_t *loop = uv_default_loop();
    uv_poll_t poll;
    check("poll", uv_poll_init(loop, &poll, check("descriptor", hwt_timer_fd(timer))));
    check("poll", uv_poll_start(&poll, UV_READABLE, on_readable));
    check("loop", uv_run(loop, UV_RUN_DEFAULT));
    check("loop", uv_loop_close(loop));
    pthread_join(thread, NULL);
    hwt_timer_destroy(timer);
    printf("%d beats, %d expired, %d early\n", beats, expired, early);
    return beats == 5 && expired == 1 && early == 0 ? 0 : 1;
}
