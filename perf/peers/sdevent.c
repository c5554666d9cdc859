/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * systemd's sd-event: a source for each timeout, made once; two heaps, microseconds; each turn
 * dispatches one source. Accuracy: a millisecond, as the tick of the others.
 */

#include "kit.h"

#include <systemd/sd-event.h>

struct peer_timer {
    sd_event_source *source; /* NULL: never armed yet */
    uint64_t deadline;
    void (*run)(struct peer_timer *timer);
};

static sd_event *event;

static void check(int r, const char *what)
{
    if (r < 0)
        die(what, r);
}

static void peer_turn(bool wait)
{
    check(sd_event_run(event, wait ? UINT64_MAX : 0), "sd_event_run");
    while (sd_event_run(event, 0) > 0)
        ;
}

static void peer_open(void)
{
    check(sd_event_new(&event), "sd_event_new");
    peer_turn(false);
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

static int on_timer(sd_event_source *source, uint64_t usec, void *arg)
{
    struct peer_timer *timer = arg;

    (void)source;
    (void)usec;
    timer->run(timer);
    return 0;
}

static uint64_t from_now(uint64_t delay)
{
    uint64_t now;

    check(sd_event_now(event, CLOCK_MONOTONIC, &now), "sd_event_now");
    return now + (delay + US - 1) / US;
}

static void peer_move(struct peer_timer *timer, uint64_t delay)
{
    check(sd_event_source_set_time(timer->source, from_now(delay)), "sd_event_source_set_time");
}

static void peer_add(struct peer_timer *timer, uint64_t delay, void (*run)(struct peer_timer *))
{
    timer->run = run;
    if (timer->source == NULL) {
        check(sd_event_add_time(event, &timer->source, CLOCK_MONOTONIC, from_now(delay), 1000,
                                on_timer, timer),
              "sd_event_add_time");
        return;
    }
    peer_move(timer, delay);
    check(sd_event_source_set_enabled(timer->source, SD_EVENT_ONESHOT),
          "sd_event_source_set_enabled");
}

static void peer_cancel(struct peer_timer *timer)
{
    check(sd_event_source_set_enabled(timer->source, SD_EVENT_OFF), "sd_event_source_set_enabled");
}

static void peer_update(void)
{
    /* It has the time of its turn, and no other. */
}

#include "loop.h"
