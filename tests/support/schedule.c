/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Actors and perturbation. See schedule.h. */

#include "schedule.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <urcu/arch.h>

#include "hwt/base/sched_point.h"

enum { STANDS, GOES, RETURNED };

static const uint64_t patience = HWT_SEC(30);

static _Thread_local struct actor *self;
static struct actor *_Atomic next_worker;

/* ---- handing over: relaxed, and ordered by what ThreadSanitizer does not know ---- */

static uint32_t state_of(const struct actor *actor)
{
    uint32_t state = atomic_load_explicit(&actor->state, memory_order_relaxed);
    cmm_smp_mb();
    return state;
}

static void set_state(struct actor *actor, uint32_t state)
{
    cmm_smp_mb();
    atomic_store_explicit(&actor->state, state, memory_order_relaxed);
    syscall(SYS_futex, &actor->state, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Returns when it was woken, or after a while, or for no reason. */
static void wait_while(struct actor *actor, uint32_t state)
{
    struct timespec while_ = { .tv_nsec = 100000000 };
    syscall(SYS_futex, &actor->state, FUTEX_WAIT_PRIVATE, state, &while_, NULL, 0);
}

const char *actor_passed(const struct actor *actor)
{
    return atomic_load_explicit(&actor->passed, memory_order_relaxed);
}

static void set_passed(struct actor *actor, const char *point)
{
    atomic_store_explicit(&actor->passed, point, memory_order_relaxed);
}

static void set_goal(struct actor *actor, const char *goal, uint32_t steps)
{
    atomic_store_explicit(&actor->goal, goal, memory_order_relaxed);
    atomic_store_explicit(&actor->steps, steps, memory_order_relaxed);
}

/* ---- the actor's side ---- */

static void stand(struct actor *actor)
{
    set_state(actor, STANDS);
    while (state_of(actor) == STANDS)
        wait_while(actor, STANDS);
}

static bool is_of_each_lane(const char *point)
{
    return strcmp(point, "CLAIM") == 0 || strcmp(point, "RELEASE") == 0;
}

static bool is_goal(struct actor *actor, const char *point)
{
    const char *goal = atomic_load_explicit(&actor->goal, memory_order_relaxed);
    uint32_t steps = atomic_load_explicit(&actor->steps, memory_order_relaxed);
    if (goal)
        return strcmp(goal, point) == 0;
    if (steps == 0 || is_of_each_lane(point))
        return false;
    atomic_store_explicit(&actor->steps, steps - 1, memory_order_relaxed);
    return steps == 1;
}

static void stumble(const char *point);

void hwt_sched_point(const char *point)
{
    if (!self && strcmp(point, "WORKER") == 0)
        self = atomic_exchange_explicit(&next_worker, NULL, memory_order_relaxed);
    if (!self) {
        stumble(point);
        return;
    }
    set_passed(self, point);
    if (is_goal(self, point))
        stand(self);
}

void meet_here(const char *point)
{
    hwt_sched_point(point);
}

/* These are met by the thread when it has returned. */
static bool is_after_return(const char *point)
{
    return point && strncmp(point, "NUMBER_GIVE", strlen("NUMBER_GIVE")) == 0;
}

static void *play_part(void *data)
{
    struct actor *actor = data;
    self = actor;
    stand(actor);
    actor->call(actor);
    set_passed(actor, "its end");
    if (!is_after_return(atomic_load_explicit(&actor->goal, memory_order_relaxed))) {
        self = NULL;
        set_state(actor, RETURNED);
    }
    return NULL;
}

/* ---- the test's side ---- */

/* Waits until it stands or has returned. */
static void await_actor(struct actor *actor)
{
    uint64_t limit = monotonic() + patience;
    while (state_of(actor) == GOES) {
        if (monotonic() > limit)
            ck_abort_msg("an actor is under way for ever; it passed %s", actor_passed(actor));
        wait_while(actor, GOES);
    }
}

void actor_begin_with(struct actor *actor, void (*call)(struct actor *),
                      const pthread_attr_t *attributes)
{
    actor->call = call;
    actor->answer = 0;
    set_goal(actor, NULL, 0);
    set_passed(actor, "its beginning");
    set_state(actor, GOES);
    ck_assert_int_eq(pthread_create(&actor->thread, attributes, play_part, actor), 0);
    await_actor(actor);
}

void actor_begin(struct actor *actor, void (*call)(struct actor *))
{
    actor_begin_with(actor, call, NULL);
}

void act_worker(struct actor *actor, hwt_timer *timer)
{
    set_goal(actor, "WORKER", 0);
    set_passed(actor, "its beginning");
    set_state(actor, GOES);
    atomic_store_explicit(&next_worker, actor, memory_order_relaxed);
    ck_assert_int_eq(hwt_timer_start(timer), 0);
    await_actor(actor);
}

bool actor_goes_to(struct actor *actor, const char *point)
{
    set_goal(actor, point, 0);
    set_state(actor, GOES);
    await_actor(actor);
    return state_of(actor) != RETURNED;
}

void actor_go_to(struct actor *actor, const char *point)
{
    if (!actor_goes_to(actor, point))
        ck_abort_msg("an actor returned and did not come to %s", point);
}

uint32_t actor_go_on(struct actor *actor, uint32_t n)
{
    if (n == 0)
        return 0;
    set_goal(actor, NULL, n);
    set_state(actor, GOES);
    await_actor(actor);
    return n - atomic_load_explicit(&actor->steps, memory_order_relaxed);
}

void actor_let_go(struct actor *actor)
{
    set_goal(actor, NULL, 0);
    if (state_of(actor) == STANDS)
        set_state(actor, GOES);
}

int64_t actor_end(struct actor *actor)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += (time_t)(patience / HWT_SEC(1));
    actor_let_go(actor);
    if (pthread_timedjoin_np(actor->thread, NULL, &limit) != 0)
        ck_abort_msg("an actor does not end; it passed %s", actor_passed(actor));
    return actor->answer;
}

/* ---- calls ---- */

static void add(struct actor *actor)
{
    actor->answer = hwt_timer_new_timeout_at(actor->timer, actor->task, actor->arg, actor->instant,
                                             &actor->timeout);
}

void act_add(struct actor *actor, hwt_timer *timer, const hwt_task *task, void *arg,
             uint64_t deadline)
{
    actor->timer = timer;
    actor->timeout = (hwt_timeout){ NULL, 0 };
    actor->task = task;
    actor->arg = arg;
    actor->instant = deadline;
    actor_begin(actor, add);
}

static void cancel(struct actor *actor)
{
    actor->answer = hwt_timeout_cancel(actor->timeout);
}

void act_cancel(struct actor *actor, hwt_timeout timeout)
{
    actor->timeout = timeout;
    actor_begin(actor, cancel);
}

static void cancel_sync(struct actor *actor)
{
    actor->answer = hwt_timeout_cancel_sync(actor->timeout);
}

void act_cancel_sync(struct actor *actor, hwt_timeout timeout)
{
    actor->timeout = timeout;
    actor_begin(actor, cancel_sync);
}

static void move(struct actor *actor)
{
    actor->answer = hwt_timeout_reschedule_at(actor->timeout, actor->instant);
}

void act_move(struct actor *actor, hwt_timeout timeout, uint64_t deadline)
{
    actor->timeout = timeout;
    actor->instant = deadline;
    actor_begin(actor, move);
}

static void ask(struct actor *actor)
{
    actor->answer = (int64_t)hwt_timeout_remaining(actor->timeout);
}

void act_ask(struct actor *actor, hwt_timeout timeout)
{
    actor->timeout = timeout;
    actor_begin(actor, ask);
}

static void advance(struct actor *actor)
{
    actor->answer = (int64_t)hwt_timer_advance(actor->timer, actor->instant);
}

void act_advance(struct actor *actor, hwt_timer *timer, uint64_t now)
{
    actor->timer = timer;
    actor->instant = now;
    actor_begin(actor, advance);
}

static void stop(struct actor *actor)
{
    actor->answer = hwt_timer_stop(actor->timer, count_visit, NULL);
}

void act_stop(struct actor *actor, hwt_timer *timer)
{
    actor->timer = timer;
    actor_begin(actor, stop);
}

/* ---- perturbation ---- */

static _Atomic uint64_t perturbation; /* 0: none */

void perturb(uint64_t seed)
{
    atomic_store_explicit(&perturbation, seed | 1, memory_order_relaxed);
}

/* One point in eight is a slow one. */
static bool is_slow(const char *point, uint64_t seed)
{
    uint64_t hash = seed;
    while (*point)
        hash = hash * 31 + (unsigned char)*point++;
    return test_random(&hash) % 8 == 0;
}

static void stumble(const char *point)
{
    static _Atomic uint64_t threads;
    static _Thread_local uint64_t random;
    uint64_t seed = atomic_load_explicit(&perturbation, memory_order_relaxed);
    if (seed == 0)
        return;
    if (random == 0)
        random = seed + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
    uint64_t dice = test_random(&random);
    if (dice % 16 == 0 && is_slow(point, seed)) {
        struct timespec pause = { .tv_nsec = (long)(dice >> 32) % 100000 };
        nanosleep(&pause, NULL);
    } else if (dice % 16 == 1) {
        sched_yield();
    } else if (dice % 16 < 4) {
        for (volatile uint64_t turns = (dice >> 32) % 300; turns > 0;)
            turns = turns - 1;
    }
}
