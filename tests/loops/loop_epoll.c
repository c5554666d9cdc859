/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt in epoll: cc -pthread loop_epoll.c $(pkg-config --cflags --libs hwt) */

#include <sys/epoll.h>
#include <unistd.h>

#include "loop.h"

int main(void)
{
    int fd = begin();
    int epoll = check("epoll", epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = timer };
    check("epoll", epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0);
    for (bool over = false; !over;) {
        int n = epoll_wait(epoll, &event, 1, -1);
        check("epoll", n < 0 && errno != EINTR ? -errno : 0);
        over = n == 1 && event.data.ptr == timer && turn();
    }
    close(epoll);
    return end();
}
