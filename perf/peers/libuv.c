/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* libuv: uv_timer_t, a heap, milliseconds. */

#include "kit.h"

#include <uv.h>

#define PEER_OWN uv_timer_t
#include "timer.h"

static uv_loop_t loop;

static void peer_open(void)
{
    uv_loop_init(&loop);
}

/* What is still pending is left as it is: the program ends. */
static void peer_close(void)
{
    uv_stop(&loop);
}

static void peer_init(struct peer_timer *timer)
{
    uv_timer_init(&loop, &timer->own);
}

static void on_timer(uv_timer_t *uv)
{
    struct peer_timer *timer = (struct peer_timer *)uv;

    timer->run(timer);
}

/* Milliseconds, upwards: not to be early on purpose. */
static void peer_add(struct peer_timer *timer, uint64_t delay, void (*run)(struct peer_timer *))
{
    timer->run = run;
    uv_timer_start(&timer->own, on_timer, (delay + MS - 1) / MS, 0);
}

static void peer_cancel(struct peer_timer *timer)
{
    uv_timer_stop(&timer->own);
}

static void peer_move(struct peer_timer *timer, uint64_t delay)
{
    uv_timer_start(&timer->own, on_timer, delay / MS, 0);
}

static void peer_update(void)
{
    uv_update_time(&loop);
}

static void peer_turn(bool wait)
{
    uv_run(&loop, wait ? UV_RUN_ONCE : UV_RUN_NOWAIT);
}

#include "loop.h"
