/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt in io_uring: cc -pthread loop_io_uring.c $(pkg-config --cflags --libs hwt liburing) */

#define _GNU_SOURCE 1 /* POSIX beside -std=c11 too */

#include <errno.h>
#include <hwt/hwt.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hwt_timer *timer;
static hwt_timeout answered;
static int beats, expired, early; /* tasks alone use these, on the loop's thread: no lock */

static int check(const char *what, int r)
{
    if (r >= 0)
        return r;
    fprintf(stderr, "loop_io_uring: %s: %s\n", what, strerror(-r));
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

/* One look at the descriptor: the next one is asked for after each dispatch. */
static void watch(struct io_uring *ring, int fd)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(ring);
    check("submission queue", entry ? 0 : -EBUSY);
    io_uring_prep_poll_add(entry, fd, POLLIN);
    io_uring_sqe_set_data(entry, &timer);
    check("submit", io_uring_submit(ring));
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

    struct io_uring ring;
    struct io_uring_cqe *completion;
    int r = io_uring_queue_init(8, &ring, 0);
    if (r == -ENOSYS || r == -EPERM) {
        puts("this kernel has no io_uring, or forbids it");
        return 77;
    }
    check("ring", r);
    int fd = check("descriptor", hwt_timer_fd(timer));
    watch(&ring, fd);
    while (beats < 5 || expired < 1) {
        r = io_uring_wait_cqe(&ring, &completion);
        if (r == -EINTR)
            continue;
        check("wait", r);
        void *source = io_uring_cqe_get_data(completion);
        check("poll", completion->res);
        io_uring_cqe_seen(&ring, completion);
        if (source == &timer) {
            hwt_timer_dispatch(timer);
            watch(&ring, fd);
        }
    }
    io_uring_queue_exit(&ring);
    pthread_join(thread, NULL);
    hwt_timer_destroy(timer);
    printf("%d beats, %d expired, %d early\n", beats, expired, early);
    return beats == 5 && expired == 1 && early == 0 ? 0 : 1;
}
