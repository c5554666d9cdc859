/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* libev: ev_timer, a heap of four children, seconds in a double. */

#include "kit.h"

/* Its headers break the rules of aliasing where watchers have their full common part. */
#pragma GCC diagnostic ignored "-Wstrict-aliasing"
#pragma GCC diagnostic ignored "-Wundef"
#include <ev.h>

#define PEER_OWN ev_timer
#include "timer.h"

static struct ev_loop *loop;

static void peer_open(void)
{
    loop = ev_loop_new(EVFLAG_AUTO);
    if (loop == NULL)
        die("ev_loop_new", 0);
}

static void peer_close(void)
{
    ev_loop_destroy(loop);
}

static void on_timer(struct ev_loop *of, ev_timer *ev, int events)
{
    struct peer_timer *timer = (struct peer_timer *)ev;

    (void)of;
    (void)events;
    timer->run(timer);
}

static void peer_init(struct peer_timer *timer)
{
    ev_timer_init(&timer->own, on_timer, 0., 0.);
}

static void peer_add(struct peer_timer *timer, uint64_t delay, void (*run)(struct peer_timer *))
{
    timer->run = run;
    ev_timer_set(&timer->own, (double)delay / 1e9, 0.);
    ev_timer_start(loop, &timer->own);
}

static void peer_cancel(struct peer_timer *timer)
{
    ev_timer_stop(loop, &timer->own);
}

/* Its own way for idle limits, which does for other moves too. */
static void peer_move(struct peer_timer *timer, uint64_t delay)
{
    timer->own.repeat = (double)delay / 1e9;
    ev_timer_again(loop, &timer->own);
}

static void peer_update(void)
{
    ev_now_update(loop);
}

static void peer_turn(bool wait)
{
    ev_run(loop, wait ? EVRUN_ONCE : EVRUN_NOWAIT);
}

#include "loop.h"
