/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * GLib: a GSource for each timeout, in milliseconds. A turn looks at every source there is. What
 * moves one is g_source_set_ready_time(), in microseconds.
 */

#include "kit.h"

#include <glib.h>

#define PEER_MOST_PENDING 10000

struct peer_timer {
    GSource *source; /* NULL: not pending */
    uint64_t deadline;
    void (*run)(struct peer_timer *timer);
};

static GMainContext *context;

static void peer_open(void)
{
    context = g_main_context_new();
}

/* What is still pending is left as it is: the program ends. */
static void peer_close(void)
{
}

static void peer_init(struct peer_timer *timer)
{
    timer->source = NULL;
}

static uint64_t *peer_deadline(struct peer_timer *timer)
{
    return &timer->deadline;
}

static void peer_cancel(struct peer_timer *timer)
{
    g_source_destroy(timer->source);
    g_source_unref(timer->source);
    timer->source = NULL;
}

/* It may arm the timer anew, and the old source is then no longer its own. */
static gboolean on_timer(gpointer data)
{
    struct peer_timer *timer = data;

    g_source_unref(timer->source);
    timer->source = NULL;
    timer->run(timer);
    return G_SOURCE_REMOVE;
}

/* Milliseconds, upwards: not to be early on purpose. */
static void peer_add(struct peer_timer *timer, uint64_t delay, void (*run)(struct peer_timer *))
{
    timer->run = run;
    timer->source = g_timeout_source_new((guint)((delay + MS - 1) / MS));
    g_source_set_callback(timer->source, on_timer, timer, NULL);
    g_source_attach(timer->source, context);
}

static void peer_move(struct peer_timer *timer, uint64_t delay)
{
    g_source_set_ready_time(timer->source, g_get_monotonic_time() + (gint64)(delay / US));
}

static void peer_update(void)
{
    /* Outside a turn it reads the clock at every call anyway. */
}

static void peer_turn(bool wait)
{
    g_main_context_iteration(context, wait);
}

#include "loop.h"
