/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Standalone Asio's steady_timer: a heap, nanoseconds, a reading of the clock for each wait, and
 * a handler that is queued and called for each that is cancelled, too.
 */

#include "kit.h"

#include "asio_timer.h"

struct peer_timer {
    struct asio_place place;
    uint64_t deadline;
    void (*run)(struct peer_timer *timer);
};

static void peer_open(void)
{
}

/* What is still pending is left as it is: the program ends. */
static void peer_close(void)
{
}

static void peer_init(struct peer_timer *timer)
{
    asio_init(&timer->place);
}

static uint64_t *peer_deadline(struct peer_timer *timer)
{
    return &timer->deadline;
}

static void on_timer(void *arg)
{
    struct peer_timer *timer = arg;

    timer->run(timer);
}

static void peer_move(struct peer_timer *timer, uint64_t delay)
{
    asio_arm(&timer->place, delay, on_timer, timer);
}

static void peer_add(struct peer_timer *timer, uint64_t delay, void (*run)(struct peer_timer *))
{
    timer->run = run;
    peer_move(timer, delay);
}

static void peer_cancel(struct peer_timer *timer)
{
    asio_cancel(&timer->place);
}

static void peer_update(void)
{
    /* It reads the clock at every wait anyway. */
}

static void peer_turn(bool wait)
{
    asio_turn(wait);
}

#include "loop.h"
