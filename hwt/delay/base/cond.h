/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_BASE_COND_H
#define HWT_DELAY_BASE_COND_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "hwt/base/time.h"

/* Waits are bounded by the monotonic clock, which nobody sets. In ns. */
static inline uint64_t hwt_delay_monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return hwt_from_timespec(now);
}

static inline void hwt_delay_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

#endif
