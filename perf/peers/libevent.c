/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* libevent: events with a time-out only, a heap, microseconds in a struct timeval. */

#include "kit.h"

#include <event2/event.h>
#include <event2/event_struct.h>

#define PEER_OWN struct event
#include "timer.h"

static struct event_base *base;

static void peer_open(void)
{
    struct event_config *config = event_config_new();

    /* Not the coarse clock, which is 4 ms behind. */
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    base = event_base_new_with_config(config);
    event_config_free(config);
    if (base == NULL)
        die("event_base_new_with_config", 0);
}

static void peer_close(void)
{
    event_base_free(base);
}

static void on_timer(evutil_socket_t none, short events, void *arg)
{
    struct peer_timer *timer = arg;

    (void)none;
    (void)events;
    timer->run(timer);
}

static void peer_init(struct peer_timer *timer)
{
    event_assign(&timer->own, base, -1, 0, on_timer, timer);
}

static void peer_move(struct peer_timer *timer, uint64_t delay)
{
    struct timeval t = { (time_t)(delay / SECOND), (suseconds_t)(delay % SECOND / US) };

    event_add(&timer->own, &t);
}

static void peer_add(struct peer_timer *timer, uint64_t delay, void (*run)(struct peer_timer *))
{
    timer->run = run;
    peer_move(timer, delay + US - 1);
}

static void peer_cancel(struct peer_timer *timer)
{
    event_del(&timer->own);
}

static void peer_update(void)
{
    /* Outside a callback it reads the clock at every event_add() anyway. */
}

static void peer_turn(bool wait)
{
    event_base_loop(base, wait ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
}

#include "loop.h"
