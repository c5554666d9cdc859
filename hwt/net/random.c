/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A sequence of random numbers for each thread. See random.h.
 *
 * GROUND RULES
 *
 * own        Its thread's alone. It is seeded anew in a child of fork(): then it is of another
 *            process.
 */

#include "hwt/net/random.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "hwt/base/process.h"
#include "hwt/base/shield.h"

struct own {
    uint64_t sequence;
    uint32_t process; /* in which it was seeded; 0: in none */
};

static _Thread_local struct own own;

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
    int shield = hwt_shield();
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
        seed = makeshift_seed();
    hwt_unshield(shield);
    own.sequence = seed;
    own.process = hwt_process_number();
}

uint64_t *hwt_random_own(void)
{
    if (own.process != hwt_process_number())
        seed_own();
    return &own.sequence;
}
