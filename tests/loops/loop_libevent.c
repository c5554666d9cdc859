/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt in libevent: cc -pthread loop_libevent.c $(pkg-config --cflags --libs hwt libevent_core) */

#include <event2/event.h>

#include "loop.h"

static void on_readable(evutil_socket_t fd, short events, void *self)
{
    (void)fd, (void)events;
    if (turn())
        event_del(self); /* the only event: event_base_dispatch() returns */
}

int main(void)
{
    int fd = begin();
    struct event_base *base = event_base_new();
    struct event *io = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, event_self_cbarg());
    check("event", base && io && event_add(io, NULL) == 0 ? 0 : -ENOMEM);
    check("loop", event_base_dispatch(base));
    event_free(io);
    event_base_free(base);
    return end();
}
