/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt in GLib: cc -pthread loop_glib.c $(pkg-config --cflags --libs hwt glib-2.0) */

#include <glib-unix.h>

#include "loop.h"

static gboolean on_readable(gint fd, GIOCondition condition, gpointer loop)
{
    (void)fd;
    (void)condition;
    if (turn())
        g_main_loop_quit(loop);
    return G_SOURCE_CONTINUE;
}

int main(void)
{
    int fd = begin();
    GMainLoop *loop = g_main_loop_new(NULL, FALSE);
    guint source = g_unix_fd_add(fd, G_IO_IN, on_readable, loop);
    g_main_loop_run(loop);
    g_source_remove(source);
    g_main_loop_unref(loop);
    return end();
}
