/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt in io_uring: cc -pthread loop_io_uring.c $(pkg-config --cflags --libs hwt liburing) */

#define _GNU_SOURCE 1 /* POSIX beside -std=c11 too */

#include <liburing.h>
#include <poll.h>

#include "loop.h"

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
    int fd = begin();
    struct io_uring ring;
    struct io_uring_cqe *completion;
    int r = io_uring_queue_init(8, &ring, 0);
    if (r == -ENOSYS || r == -EPERM) {
        puts("this kernel has no io_uring, or forbids it");
        return 77;
    }
    check("ring", r);
    watch(&ring, fd);
    for (bool over = false; !over;) {
        r = io_uring_wait_cqe(&ring, &completion);
        if (r == -EINTR)
            continue;
        check("wait", r);
        void *source = io_uring_cqe_get_data(completion);
        check("poll", completion->res);
        io_uring_cqe_seen(&ring, completion);
        if (source != &timer)
            continue;
        over = turn();
        if (!over)
            watch(&ring, fd);
    }
    io_uring_queue_exit(&ring);
    return end();
}
