/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Threads that make their first arm at once, on a timer that nobody has started, and on one that was
 * started before. */

#include "workloads.h"

#include <stdlib.h>

struct first {
    pthread_t thread;
    hwt_timer *timer;
    pthread_barrier_t *at_once;
    uint64_t ns; /* of the arm */
};

static void *first_main(void *arg)
{
    struct first *first = arg;

    pthread_barrier_wait(first->at_once);
    uint64_t before = now_ns();
    arm(first->timer, &idle_task, NULL, 600 * SECOND, NULL);
    first->ns = now_ns() - before;
    return NULL;
}

/* Returns the longest of all arms. */
static uint64_t arm_at_once(struct first *all, uint64_t n, hwt_timer *timer)
{
    pthread_barrier_t at_once;
    uint64_t longest = 0;

    pthread_barrier_init(&at_once, NULL, (unsigned)n);
    for (uint64_t i = 0; i < n; i++) {
        all[i].timer = timer;
        all[i].at_once = &at_once;
        int r = pthread_create(&all[i].thread, NULL, first_main, &all[i]);
        if (r != 0)
            die("pthread_create", r);
    }
    for (uint64_t i = 0; i < n; i++) {
        pthread_join(all[i].thread, NULL);
        longest = all[i].ns > longest ? all[i].ns : longest;
    }
    pthread_barrier_destroy(&at_once);
    hwt_timer_destroy(timer);
    return longest;
}

void run_first(const struct options *options)
{
    struct first *all = allocate(options->producers, sizeof(*all));

    metric("first_arm_max_us",
           (double)arm_at_once(all, options->producers, make_unstarted_timer(options)) / 1e3);
    metric("started_arm_max_us",
           (double)arm_at_once(all, options->producers, make_timer(options)) / 1e3);
    free(all);
}
