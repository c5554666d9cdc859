/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_RETRY_STEPS_H
#define HWT_TESTS_RETRY_STEPS_H

/*
 * retry.c once more, with a step before each of its calls to the timer, before each access to
 * its state, and after each change of that; and actors: threads that make one call and halt at
 * a step of it until they are let go on.
 */

#include "retry_fixture.h"

#include <semaphore.h>

struct actor {
    void (*act)(struct actor *actor);
    unsigned halt; /* the step to halt at */
    unsigned steps;
    _Atomic bool done, blocked; /* blocked: it waits for another one */
    bool answer;
    int result;
    sem_t halted, go;
    pthread_t thread;
};

static _Thread_local struct actor *self;

static void step(void)
{
    struct actor *actor = self;
    if (!actor || actor->steps++ != actor->halt)
        return;
    sem_post(&actor->halted);
    while (sem_wait(&actor->go) != 0)
        ;
}

static bool step_change(uint64_t *state, uint64_t *seen, uint64_t next)
{
    step();
    bool changed =
        __atomic_compare_exchange_n(state, seen, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    step();
    return changed;
}

/* Waits for another actor: that is told like a halt. */
static int step_wait(sem_t *sem)
{
    if (self && !self->blocked) {
        self->blocked = true;
        sem_post(&self->halted);
    }
    return sem_wait(sem);
}

#define sem_wait(sem) step_wait(sem)
#define __atomic_load_n(address, order) (step(), __atomic_load_n(address, order))
#define __atomic_store_n(address, value, order) (step(), __atomic_store_n(address, value, order))
#define __atomic_exchange_n(address, value, order)                                                 \
    (step(), __atomic_exchange_n(address, value, order))
#define __atomic_and_fetch(address, value, order)                                                  \
    (step(), __atomic_and_fetch(address, value, order))
#define __atomic_compare_exchange_n(address, seen, next, weak, success, failure)                   \
    step_change(address, seen, next)
#define hwt_timer_now(timer) (step(), hwt_timer_now(timer))
#define hwt_timer_new_timeout_at(timer, task, arg, deadline, ret_timeout)                          \
    (step(), hwt_timer_new_timeout_at(timer, task, arg, deadline, ret_timeout))
#define hwt_timeout_reschedule(timeout, delay) (step(), hwt_timeout_reschedule(timeout, delay))
#define hwt_timeout_reschedule_at(timeout, deadline)                                               \
    (step(), hwt_timeout_reschedule_at(timeout, deadline))
#define hwt_timeout_cancel(timeout) (step(), hwt_timeout_cancel(timeout))
#define hwt_timeout_cancel_sync(timeout) (step(), hwt_timeout_cancel_sync(timeout))

#include "hwt/net/retry.c"

#undef sem_wait
#undef __atomic_load_n
#undef __atomic_store_n
#undef __atomic_exchange_n
#undef __atomic_and_fetch
#undef __atomic_compare_exchange_n
#undef hwt_timer_now
#undef hwt_timer_new_timeout_at
#undef hwt_timeout_reschedule
#undef hwt_timeout_reschedule_at
#undef hwt_timeout_cancel
#undef hwt_timeout_cancel_sync

static void *actor_run(void *arg)
{
    struct actor *actor = arg;
    self = actor;
    actor->act(actor);
    actor->done = true;
    sem_post(&actor->halted);
    return NULL;
}

static void await_halt(struct actor *actor)
{
    while (sem_wait(&actor->halted) != 0)
        ;
}

/* Returns when it has halted at that step, waits for another one, or is done. */
static void actor_begin(struct actor *actor, void (*act)(struct actor *), unsigned halt)
{
    memset(actor, 0, sizeof(*actor));
    actor->act = act;
    actor->halt = halt;
    sem_init(&actor->halted, 0, 0);
    sem_init(&actor->go, 0, 0);
    actor->thread = spawn(actor_run, actor);
    await_halt(actor);
}

/* Returns when it is done, or waits for another one. */
static void actor_go_on(struct actor *actor)
{
    if (actor->done || actor->blocked)
        return;
    sem_post(&actor->go);
    await_halt(actor);
}

static void actor_join(struct actor *actor)
{
    while (!actor->done)
        await_halt(actor);
    join(actor->thread);
    sem_destroy(&actor->halted);
    sem_destroy(&actor->go);
}

static inline void actor_finish(struct actor *actor)
{
    actor_go_on(actor);
    actor_join(actor);
}

#endif
