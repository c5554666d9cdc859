/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt in libuv: cc -pthread loop_libuv.c $(pkg-config --cflags --libs hwt libuv) */

#define _GNU_SOURCE 1 /* POSIX beside -std=c11 too */

#include <uv.h>

#include "loop.h"

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    check("poll", status);
    if (turn())
        uv_close((uv_handle_t *)poll, NULL); /* the only handle: uv_run() returns */
}

int main(void)
{
    int fd = begin();
    uv_loop_t *loop = uv_default_loop();
    uv_poll_t poll;
    check("poll", uv_poll_init(loop, &poll, fd));
    check("poll", uv_poll_start(&poll, UV_READABLE, on_readable));
    check("loop", uv_run(loop, UV_RUN_DEFAULT));
    check("loop", uv_loop_close(loop));
    return end();
}
