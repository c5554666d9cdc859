/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_NET_PEN_H
#define HWT_NET_PEN_H

/*
 * Which of the threads that answer one attempt may write what they tell.
 *
 * GROUND RULES
 *
 * pen       A lock on `told`, and the number of the attempt that it was last taken for. Taken by
 *           compare-exchange, given back by a store (release), both by the threads that have
 *           something to tell with their answer. It is given back before the answer's exchange of
 *           the state, and is not had for the same number again. Acquire on every load: a thread
 *           that has seen it given back for n then finds the state at n or later, and does not
 *           take it for less.
 */

#include <sched.h>

#include "hwt/net/retry_state.h"

enum { HELD = 1, PEN_SHIFT = 1 };

/* False: this attempt is not under way, or another thread has had the pen for it. True: what was
 * told is of no more use: no later attempt has had the pen, and the earlier ones are over. */
static inline bool take_pen(hwt_retry *retry, uint64_t attempt)
{
    uint64_t taken = attempt << PEN_SHIFT | HELD;
    uint64_t seen = __atomic_load_n(&retry->pen, __ATOMIC_ACQUIRE);
    while (is_under_way(load(retry), attempt) && seen >> PEN_SHIFT != attempt) {
        if (seen & HELD) {
            sched_yield();
            seen = __atomic_load_n(&retry->pen, __ATOMIC_ACQUIRE);
        } else if (__atomic_compare_exchange_n(&retry->pen, &seen, taken, false, __ATOMIC_ACQUIRE,
                                               __ATOMIC_ACQUIRE)) {
            return true;
        }
    }
    return false;
}

static inline void put_pen_down(hwt_retry *retry, uint64_t attempt)
{
    __atomic_store_n(&retry->pen, attempt << PEN_SHIFT, __ATOMIC_RELEASE);
}

#endif
