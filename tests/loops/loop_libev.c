/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt in libev: cc -pthread loop_libev.c $(pkg-config --cflags --libs hwt) -lev */

#include <ev.h>

#include "loop.h"

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
    (void)events;
    if (turn())
        ev_io_stop(loop, io); /* the only watcher: ev_run() returns */
}

int main(void)
{
    int fd = begin();
    struct ev_loop *loop = ev_default_loop(EVFLAG_AUTO);
    check("loop", loop ? 0 : -ENOSYS);
    ev_io io;
    ev_io_init(&io, on_readable, fd, EV_READ);
    ev_io_start(loop, &io);
    ev_run(loop, 0);
    ev_loop_destroy(loop);
    return end();
}
