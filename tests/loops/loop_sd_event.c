/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt in sd-event: cc -pthread loop_sd_event.c $(pkg-config --cflags --libs hwt libsystemd) */

#include <systemd/sd-event.h>

#include "loop.h"

static int on_readable(sd_event_source *source, int fd, uint32_t events, void *data)
{
    (void)fd;
    (void)events;
    (void)data;
    return turn() ? sd_event_exit(sd_event_source_get_event(source), 0) : 0;
}

int main(void)
{
    int fd = begin();
    sd_event *loop;
    sd_event_source *source;
    check("loop", sd_event_new(&loop));
    check("watch", sd_event_add_io(loop, &source, fd, EPOLLIN, on_readable, NULL));
    check("loop", sd_event_loop(loop));
    sd_event_source_unref(source);
    sd_event_unref(loop);
    return end();
}
