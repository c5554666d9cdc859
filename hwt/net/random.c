/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A sequence of random numbers for each thread. See random.h.
 *
 * GROUND RULES
 *
 * own        Its thread's alone. A child of fork() has one thread, and the `own` of the thread that
 *            forked. The handler that runs in the child before fork() returns has it seeded anew.
 *
 * watched    Written once, inside pthread_once(), whose return publishes it. Every reader has
 *            returned from that.
 */

#include "hwt/net/random.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "hwt/base/shield.h"

struct own {
    uint64_t sequence;
    bool seeded;
};

static _Thread_local struct own own;
static bool watched; /* a fork will be noticed */

static void forget_seed(void)
{
    own.seeded = false;
}

static void watch_forks(void)
{
    watched = pthread_atfork(NULL, NULL, forget_seed) == 0;
}

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* For a system that has no random numbers yet, or refuses to give them. It is made of numbers that
 * differ between the processes and threads of a machine, and between machines. */
static uint64_t makeshift_seed(void)
{
    uint64_t seed = nanoseconds(CLOCK_REALTIME);
    seed = hwt_random_next(&seed) ^ nanoseconds(CLOCK_MONOTONIC);
    seed = hwt_random_next(&seed) ^ (uint64_t)getpid();
    return hwt_random_next(&seed) ^ (uint64_t)(uintptr_t)&own;
}

static void seed_own(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int shield = hwt_shield();
    pthread_once(&once, watch_forks);
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
        seed = makeshift_seed();
    hwt_unshield(shield);
    own.sequence = seed;
    own.seeded = watched; /* else it is seeded anew at each use */
}

uint64_t *hwt_random_own(void)
{
    if (!own.seeded)
        seed_own();
    return &own.sequence;
}
