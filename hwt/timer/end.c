/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A graceful end: timeouts that are due before `until` run first. A timeout in its run counts as
 * due.
 *
 * ENDING refuses new timeouts. So one walk through all entries finds what there is to wait for. It
 * stands at each entry that is due until that is so no more, and looks at no other entry meanwhile.
 * Behind the walk, a timeout can become due only by a move to an earlier instant, and `hastened`
 * counts those. If none was hastened during a walk, nothing is due at its end.
 *
 *     walk                                     mover, of a timeout behind the walk
 *     1  ENDING is set                         a  the deadline is earlier, by an exchange
 *     2  barrier                               b  (barrier)
 *     3  reads `hastened`                      c  ENDING? hastened++
 *     4  goes by all entries                   d  what happens after that, as the end of a task
 *     5  reads `hastened`
 *
 * Either c sees 1, or 4 sees a. If 4 sees anything of d, 5 sees c.
 *
 * At `until` its tick may have only begun. So the worker makes a last pass, which also runs what is
 * due before `until` in that tick. Timeouts that this pass has re-armed are left over, as all
 * others.
 */

#include <errno.h>
#include <sys/param.h> /* MIN */

#include "hwt/base/shield.h"
#include "hwt/timer/request.h"
#include "hwt/worker/task.h"

#define NAP_MAX HWT_MS(10)

struct ending {
    hwt_timer *timer;
    uint64_t until;
    struct hwt_entry *entry; /* the walk stands here; NULL: at its beginning */
    uint32_t number, seat;   /* of the next one */
    uint64_t hastened;       /* when it began */
};

/* The deadline is read first: one that was made earlier after that is counted in `hastened`. */
static bool is_due(const struct hwt_entry *entry, uint64_t until)
{
    uint64_t deadline = hwt_entry_deadline(entry);
    unsigned phase = hwt_phase(hwt_entry_state(entry));
    return phase == HWT_PHASE_RUNNING || (phase == HWT_PHASE_PENDING && deadline < until);
}

static void begin_walk(struct ending *ending)
{
    /* Relaxed: see above, 2 and d. */
    ending->hastened = atomic_load_explicit(&ending->timer->shared.hastened, memory_order_relaxed);
    ending->number = ending->seat = 0;
}

/* Whether anything is due, or may be. After a walk that has found nothing, another one begins. */
static bool any_due(struct ending *ending)
{
    uint64_t before = ending->hastened;
    do {
        HWT_SCHED_POINT(END_LOOK);
        if (ending->entry && is_due(ending->entry, ending->until))
            return true;
        ending->entry = hwt_pool_walk(&ending->timer->shared.pool, &ending->number, &ending->seat);
    } while (ending->entry);
    begin_walk(ending);
    return ending->hastened != before;
}

/* Sleeps for a short while; no longer than until `until`, if the clock goes on by itself. */
static void nap(const struct ending *ending)
{
    const struct hwt_shared *shared = &ending->timer->shared;
    uint64_t left = shared->time.clock ? NAP_MAX : hwt_time_until(&shared->time, ending->until);
    uint64_t most = MIN(shared->ticks.duration, NAP_MAX);
    struct timespec pause = hwt_timespec(MIN(most, left));
    nanosleep(&pause, NULL);
}

/* ---- steps that the worker is asked to do, or that the caller does for it ---- */

struct step {
    uint64_t until;
    bool done;
    bool again; /* it must be done again: a stream was not read, or callbacks have run */
};

static bool is_over(const hwt_timer *timer)
{
    return hwt_halted_by(timer, HWT_HALTED_STOPPING | HWT_HALTED_FORKED);
}

/* Makes a pass at the next tick with work. Not done: that tick is not over at `until`. */
static void step_on(hwt_timer *timer, void *data)
{
    struct step *step = data;
    struct hwt_worker *worker = &timer->worker;
    if (is_over(timer))
        return;
    uint64_t told = worker->told;
    uint64_t next = hwt_worker_next(worker);
    step->again = worker->unclaimed > 0 || worker->told != told;
    step->done = !step->again && next <= step->until && next != HWT_NEVER;
    if (step->done)
        (void)hwt_worker_pass(worker, next, UINT64_MAX);
}

static void finish(hwt_timer *timer, void *data)
{
    struct step *step = data;
    uint64_t now = timer->shared.time.clock ? step->until : hwt_time_now(&timer->shared.time);
    step->again = !is_over(timer) && !hwt_worker_finish(&timer->worker, now, step->until);
}

/* ---- the end ---- */

/* For a clock of the caller's, which stands still meanwhile: the timer goes on from tick to tick.
 * False: nothing is left to run. */
static bool advance_all(struct ending *ending)
{
    struct hwt_shared *shared = &ending->timer->shared;
    while (any_due(ending)) {
        struct step step = { .until = ending->until };
        /* This is read before the streams: records of what the executor has returned are there. */
        bool submitted = hwt_task_submitted(shared) > 0;
        hwt_request(ending->timer, step_on, &step);
        if (hwt_is_forked(shared))
            return false;
        if (!step.done && !step.again && !submitted)
            return true;
        if (!step.done)
            nap(ending);
    }
    return false;
}

static bool await_all(struct ending *ending)
{
    hwt_timer *timer = ending->timer;
    while (any_due(ending)) {
        if (hwt_time_now(&timer->shared.time) >= ending->until)
            return true;
        if (timer->flags & HWT_NO_WORKER)
            (void)hwt_timer_dispatch(timer);
        if (hwt_is_forked(&timer->shared))
            return false;
        nap(ending);
    }
    return false;
}

static void let_run(struct ending *ending)
{
    hwt_timer *timer = ending->timer;
    bool left = timer->shared.time.clock ? advance_all(ending) : await_all(ending);
    while (left) {
        struct step step = { .until = ending->until };
        hwt_request(timer, finish, &step);
        left = step.again && !hwt_is_forked(&timer->shared);
        if (left)
            nap(ending);
    }
}

int64_t hwt_timer_end(hwt_timer *timer, uint64_t until,
                      void (*unprocessed)(const hwt_task *task, void *arg, uint64_t remaining,
                                          void *data),
                      void *data)
{
    if (!timer)
        return -EINVAL;
    if (hwt_in_callback(&timer->shared))
        return -EDEADLK;
    if (hwt_halted_by(timer, HWT_HALTED_FORKED))
        return 0;
    int shield = hwt_shield();
    struct ending ending = { .timer = timer, .until = until };
    HWT_SCHED_POINT(ENDING);
    hwt_halt(timer, HWT_HALTED_ENDING);
    hwt_gate_barrier(&timer->shared.gate);
    HWT_SCHED_POINT(END_WALK);
    begin_walk(&ending);
    let_run(&ending);
    int64_t left = hwt_timer_stop(timer, unprocessed, data);
    hwt_unshield(shield);
    return left;
}
