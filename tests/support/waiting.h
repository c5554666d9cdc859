/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_WAITING_H
#define HWT_TESTS_WAITING_H

/* Calls that wait for a task which stands at a gate, each on a thread of its own. */

#include "api_fixture.h"

typedef struct sync_canceller {
    hwt_timeout timeout;
    gate *gate;
    shared_count entering, returned, answer, passed_at_return;
} sync_canceller;

static inline void *cancel_and_wait(void *data)
{
    sync_canceller *c = data;
    c->entering++;
    c->answer = hwt_timeout_cancel_sync(c->timeout);
    c->passed_at_return = c->gate->passed;
    c->returned++;
    return NULL;
}

/* hwt_timeout_cancel_sync() of a timeout that runs returns after the run. */
static inline void assert_cancel_sync_waits(hwt_timer *timer)
{
    gate g = { 0 };
    sync_canceller c = { .timeout = arm(timer, &gated, &g, 0), .gate = &g };
    ck_assert(await_count(&g.reached, 1));
    pthread_t thread = spawn(cancel_and_wait, &c);
    ck_assert(await_count(&c.entering, 1));
    give_others_a_chance();
    ck_assert_uint_eq(c.returned, 0);
    g.open = 1;
    join(thread);
    ck_assert_uint_eq(c.answer, false);
    ck_assert_uint_eq(c.passed_at_return, 1);
}

typedef struct stopper {
    hwt_timer *timer;
    gate *gate;
    shared_count entering, returned, left, passed_at_return;
} stopper;

static inline void *stop_and_wait(void *data)
{
    stopper *s = data;
    s->entering++;
    s->left = (uint64_t)hwt_timer_stop(s->timer, NULL, NULL);
    s->passed_at_return = s->gate->passed;
    s->returned++;
    return NULL;
}

/* hwt_timer_stop() returns after the one callback that stands, or will stand, at the gate has
 * passed it. Returns how many timeouts it left. */
static inline uint64_t assert_stop_waits(hwt_timer *timer, gate *g)
{
    stopper s = { .timer = timer, .gate = g };
    ck_assert(await_count(&g->reached, 1));
    pthread_t thread = spawn(stop_and_wait, &s);
    ck_assert(await_count(&s.entering, 1));
    give_others_a_chance();
    ck_assert_uint_eq(s.returned, 0);
    g->open = 1;
    join(thread);
    ck_assert_uint_eq(s.passed_at_return, 1);
    return s.left;
}

#endif
