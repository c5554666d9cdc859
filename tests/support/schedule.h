/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_SCHEDULE_H
#define HWT_TESTS_SCHEDULE_H

/*
 * Schedules that do not happen by themselves. An actor is a thread that makes one call and stands
 * still where the test wants it: before the call, and at points of hwt/base/sched_point.h on its way.
 *
 *     struct actor adder;
 *     act_add(&adder, timer, &task, arg, deadline);    it stands before the call
 *     actor_go_to(&adder, "ADD_CHECK");                it has pushed, and stands before the check
 *     hwt_timer_stop(timer, NULL, NULL);               what another thread does meanwhile
 *     r = actor_end(&adder);                           it has gone to its end: what it answered
 *
 * Who waits for an actor gives up after a time in which anything would have happened; so does
 * one who sees that it returned without having come to the point.
 *
 * Between the actors and the test nothing is ordered that ThreadSanitizer could see, until an
 * actor has ended: an order that the library owes and does not make is told in any schedule.
 */

#include "api_fixture.h"

struct actor {
    void (*call)(struct actor *);
    /* what the call is given; the add gives its timeout back here */
    hwt_timer *timer;
    hwt_timeout timeout;
    const hwt_task *task;
    void *arg;
    uint64_t instant;
    int64_t answer;

    pthread_t thread;
    _Atomic uint32_t state;
    _Atomic uint32_t steps;     /* points to go before it stands, if it has no goal */
    const char *_Atomic goal;   /* where it is to stand */
    const char *_Atomic passed; /* where it stands or was last */
};

/* Begins any call: it sets actor->answer. */
void actor_begin(struct actor *actor, void (*call)(struct actor *));

/* The same in a thread that has these attributes, a stack for instance. */
void actor_begin_with(struct actor *actor, void (*call)(struct actor *),
                      const pthread_attr_t *attributes);

/* The calls of the library that the tests need; room_close() and the like come after their end. */
void act_add(struct actor *actor, hwt_timer *timer, const hwt_task *task, void *arg,
             uint64_t deadline);
void act_cancel(struct actor *actor, hwt_timeout timeout);
void act_cancel_sync(struct actor *actor, hwt_timeout timeout);
void act_move(struct actor *actor, hwt_timeout timeout, uint64_t deadline);
void act_ask(struct actor *actor, hwt_timeout timeout); /* hwt_timeout_remaining() */
void act_advance(struct actor *actor, hwt_timer *timer, uint64_t now);
void act_stop(struct actor *actor, hwt_timer *timer); /* visits with count_visit() */

/* Starts the timer, and its worker is the actor, which stands at "WORKER". It is let go before the
 * timer is stopped, and not ended. */
void act_worker(struct actor *actor, hwt_timer *timer);

/* Waits until it stands at the point; it passes all others. False: it has returned. */
bool actor_goes_to(struct actor *actor, const char *point);
/* The same, and it must come there. */
void actor_go_to(struct actor *actor, const char *point);

/* Waits until it stands at the n-th point from where it is; those that are met once for each lane are
 * not counted. How many it has gone: fewer than n, if it has returned. */
uint32_t actor_go_on(struct actor *actor, uint32_t n);

/* Lets it go to its end, without waiting for that. */
void actor_let_go(struct actor *actor);

/* Waits for its end; what the call answered. */
int64_t actor_end(struct actor *actor);

/* Where it stands or was last. */
const char *actor_passed(const struct actor *actor);

/* A point of the test's own, for its callbacks. */
void meet_here(const char *point);

/* From now on, who is no actor is late at some of the points, chosen by the seed; which ones hold
 * it for long differs from seed to seed. */
void perturb(uint64_t seed);

#endif
