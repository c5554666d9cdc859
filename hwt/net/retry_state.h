/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_NET_RETRY_STATE_H
#define HWT_NET_RETRY_STATE_H

/* The state word of a retry. Who may change it from which phase to which: see retry.c. */

#include "hwt/retry.h"

enum phase {
    IDLE, /* zeroed, or the end was told */
    STARTING,
    ABORTED, /* the timer was stopped during the start */
    WAITING,
    ATTEMPT,
    FAILED,
    PUSHED_BACK, /* failed, and `told` has the delay */
    SUCCEEDED,   /* an end to be told, as all after it */
    EXHAUSTED,
    OUT_OF_TIME,
    CANCELLED,
    FAILED_FOR_GOOD,
    THROTTLED,
    PHASE_MASK = 15,
    INSIDE = 16,
    OVER = 32,
    FIRST_ONE = 64,
    FIRST_MASK = 255 * FIRST_ONE,
    ONE_ATTEMPT = 256 * FIRST_ONE
};

_Static_assert(CANCELLED - SUCCEEDED == HWT_RETRY_CANCELLED &&
                   THROTTLED - SUCCEEDED == HWT_RETRY_THROTTLED,
               "the ends have one order");

/* ---- the state word ---- */

static inline uint64_t load(const hwt_retry *retry)
{
    return __atomic_load_n(&retry->state, __ATOMIC_ACQUIRE);
}

/* True: *state is `next` now; false: it is what was found instead. */
static inline bool become(hwt_retry *retry, uint64_t *state, uint64_t next)
{
    if (!__atomic_compare_exchange_n(&retry->state, state, next, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return false;
    *state = next;
    return true;
}

static inline enum phase phase_of(uint64_t state)
{
    return (enum phase)(state & PHASE_MASK);
}

static inline uint64_t with_phase(uint64_t state, enum phase phase)
{
    return (state & ~(uint64_t)PHASE_MASK) | phase;
}

static inline bool is_end(uint64_t state)
{
    return phase_of(state) >= SUCCEEDED;
}

static inline bool is_started(uint64_t state)
{
    return phase_of(state) >= WAITING;
}

static inline bool is_first(uint64_t state)
{
    return state & FIRST_MASK;
}

static inline bool is_under_way(uint64_t state, uint64_t attempt)
{
    return phase_of(state) == ATTEMPT && state / ONE_ATTEMPT == attempt;
}

#endif
