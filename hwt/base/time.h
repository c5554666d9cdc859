/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TIME_H
#define HWT_TIME_H

/* Sums and differences of instants that saturate, and instants for the system's calls. */

#include <stdint.h>
#include <time.h>

#define HWT_SECOND UINT64_C(1000000000)

static inline uint64_t hwt_saturating_add(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static inline uint64_t hwt_saturating_sub(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* An instant that is too late for a time_t of 32 bits becomes the last second that it can hold. A
 * thread that sleeps until then looks again. */
static inline struct timespec hwt_timespec(uint64_t nanoseconds)
{
    uint64_t most = sizeof(time_t) < sizeof(int64_t) ? (uint64_t)INT32_MAX : (uint64_t)INT64_MAX;
    uint64_t seconds = nanoseconds / HWT_SECOND;
    return (struct timespec){
        .tv_sec = (time_t)(seconds < most ? seconds : most),
        .tv_nsec = (long)(nanoseconds % HWT_SECOND),
    };
}

static inline uint64_t hwt_from_timespec(struct timespec time)
{
    return (uint64_t)time.tv_sec * HWT_SECOND + (uint64_t)time.tv_nsec;
}

#endif
