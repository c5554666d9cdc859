/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What one operation, and one tick, costs while N others stand there. */

#include "workloads.h"

#include <stdlib.h>

struct turn {
    hwt_timeout at[WINDOW];
    uint64_t count;
    uint64_t add, reschedule, cancel; /* ns in all */
};

struct standing {
    hwt_timeout *at;
    pthread_mutex_t lock; /* of what follows */
    struct turn sum;
};

static uint64_t far_delay(uint64_t *random)
{
    return random_delay(random, 60 * SECOND, 540 * SECOND);
}

static void growth_prepare(struct producer *p)
{
    p->data = allocate(1, sizeof(struct turn));
}

static void growth_batch(struct producer *p)
{
    struct turn *turn = p->data;
    const struct standing *standing = p->crew->shared;
    uint64_t begin = now_ns();

    for (size_t i = 0; i < WINDOW; i++)
        arm(p->crew->timer, &idle_task, NULL, far_delay(&p->random), &turn->at[i]);
    uint64_t added = now_ns();
    for (size_t i = 0; i < WINDOW; i++) {
        uint64_t which = random_below(&p->random, p->crew->options->pending);
        hwt_timeout_reschedule(standing->at[which], 600 * SECOND);
    }
    uint64_t rescheduled = now_ns();
    for (size_t i = 0; i < WINDOW; i++)
        hwt_timeout_cancel(turn->at[i]);
    if (atomic_load_explicit(&p->crew->phase, memory_order_relaxed) == 0)
        return; /* warming up */
    turn->count++;
    turn->cancel += now_ns() - rescheduled;
    turn->add += added - begin;
    turn->reschedule += rescheduled - added;
}

static void growth_finish(struct producer *p)
{
    const struct turn *turn = p->data;
    struct standing *standing = p->crew->shared;

    pthread_mutex_lock(&standing->lock);
    standing->sum.count += turn->count;
    standing->sum.add += turn->add;
    standing->sum.reschedule += turn->reschedule;
    standing->sum.cancel += turn->cancel;
    pthread_mutex_unlock(&standing->lock);
    free(p->data);
}

void run_growth(const struct options *options)
{
    struct standing standing = {
        .at = allocate(options->pending, sizeof(hwt_timeout)),
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    struct crew crew = {
        .timer = make_timer(options),
        .options = options,
        .prepare = growth_prepare,
        .batch = growth_batch,
        .finish = growth_finish,
        .shared = &standing,
    };
    uint64_t random = 1;

    for (uint64_t i = 0; i < options->pending; i++)
        arm(crew.timer, &idle_task, NULL, far_delay(&random), &standing.at[i]);
    sleep_ns(SECOND / 5);
    crew_run(&crew);
    hwt_timer_destroy(crew.timer);
    free(standing.at);

    double operations = (double)standing.sum.count * WINDOW;
    metric("add_ns", (double)standing.sum.add / operations);
    metric("reschedule_ns", (double)standing.sum.reschedule / operations);
    metric("cancel_ns", (double)standing.sum.cancel / operations);
    if (options->producers == 1)
        metric("tick_ns", tick_cost(options));
}
