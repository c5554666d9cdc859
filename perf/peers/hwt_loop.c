/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwt in a loop of its own, with HWT_ONE_THREAD: by the time of the loop's turn, as the others. */

#include "kit.h"

#include <hwt/hwt.h>

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PEER_OWN hwt_timeout
#include "timer.h"

static hwt_timer *hwt;
static uint64_t loop_time;
static int never_readable; /* for what else a loop would wait */

static void peer_update(void)
{
    loop_time = now_ns();
}

static void peer_open(void)
{
    hwt_options options = HWT_OPTIONS_INIT;

    options.tick_duration = MS;
    options.flags = HWT_NO_WORKER | HWT_ONE_THREAD;
    int r = hwt_timer_create(&options, &hwt);
    if (r < 0)
        die("hwt_timer_create", r);
    never_readable = eventfd(0, EFD_CLOEXEC);
    if (never_readable < 0)
        die("eventfd", errno);
    peer_update();
}

static void peer_close(void)
{
    hwt_timer_destroy(hwt);
    close(never_readable);
}

static void peer_init(struct peer_timer *t)
{
    (void)t;
}

static void on_timer(hwt_timeout timeout, void *arg)
{
    struct peer_timer *t = arg;

    (void)timeout;
    t->run(t);
}

static const hwt_task task = { .run = on_timer };

static void peer_add(struct peer_timer *t, uint64_t delay, void (*run)(struct peer_timer *))
{
    t->run = run;
    int r = hwt_timer_new_timeout_at(hwt, &task, t, loop_time + delay, &t->own);
    if (r < 0)
        die("hwt_timer_new_timeout_at", r);
}

static void peer_cancel(struct peer_timer *t)
{
    hwt_timeout_cancel(t->own);
}

static void peer_move(struct peer_timer *t, uint64_t delay)
{
    hwt_timeout_reschedule_at(t->own, loop_time + delay);
}

static uint64_t time_to(uint64_t instant)
{
    uint64_t now = now_ns();

    return instant > now ? instant - now : 0;
}

static void peer_turn(bool wait)
{
    struct pollfd fd = { .fd = never_readable, .events = POLLIN };
    uint64_t next = wait ? hwt_timer_next_tick(hwt) : 0;
    uint64_t ns = next == HWT_NEVER ? SECOND : time_to(next);
    struct timespec t = { (time_t)(ns / SECOND), (long)(ns % SECOND) };

    ppoll(&fd, 1, &t, NULL);
    peer_update();
    hwt_timer_advance(hwt, loop_time);
}

#include "loop.h"
