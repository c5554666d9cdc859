/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt in sd-event: cc -pthread loop_sd_event.c $(pkg-config --cflags --libs hwt libsystemd) */

#include <errno.h>
#include <hwt/hwt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>

static hwt_timer *timer;
static hwt_timeout answered;
static int beats, expired, early; /* tasks alone use these, on the loop's thread: no lock */

static int check(const char *what, int r)
{
    if (r >= 0)
        return r;
    fprintf(stderr, "loop_sd_event: %s: %s\n", what, strerror(-r));
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

static int on_readable(sd_event_source *source, int fd, uint32_t events, void *data)
{
    (void)fd;
    (void)events;
    (void)data;
    hwt_timer_dispatch(timer);
    return beats == 5 && expired == 1 ? sd_event_exit(sd_event_source_get_event(source), 0) : 0;
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

    sd_event *loop;
    sd_event_source *source;
    check("loop", sd_event_new(&loop));
    int fd = check("descriptor", hwt_timer_fd(timer));
    check("watch", sd_event_add_io(loop, &source, fd, EPOLLIN, on_readable, NULL));
    check("loop", sd_event_loop(loop));
    sd_event_source_unref(source); /* before the timer closes its descriptor */
    sd_event_unref(loop);
    pthread_join(thread, NULL);
    hwt_timer_destroy(timer);
    printf("%d beats, %d expired, %d early\n", beats, expired, early);
    return beats == 5 && expired == 1 && early == 0 ? 0 : 1;
}
