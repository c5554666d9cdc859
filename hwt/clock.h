/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_CLOCK_H
#define HWT_CLOCK_H

/*
 * Time, and the gate: how the worker parks and how producers wake it.
 *
 * `wake_before` is 0 while the worker is awake: it will look at the queues before it
 * sleeps, nobody has to do anything. Otherwise it is asleep, or about to be:
 *
 *   HWT_GATE_SHORT  to the next tick boundary, so nothing can come too early for it;
 *   more            to the tick that begins at this instant: a deadline before it, or
 *                   any cancel (its memory is due back within a tick), must wake it.
 *
 * The gate must not lose a wake-up:
 *
 *     worker                                    producer
 *     A  wake_before = t       (seq_cst)        1  push to a queue     (xchg, seq_cst)
 *     B  drain the queues once more             2  load wake_before    (seq_cst)
 *     C  set the timer descriptor to t          3  compare-exchange it to 0
 *     D  wake_before still not 0? sleep         4  set the descriptor to "now"
 *
 * A before 2 in the one order of seq_cst operations, or 1 before B: either the producer
 * sees t and wakes, or the worker sees what was pushed. Of 4 and C, which the kernel
 * orders, the later one holds: if that is C, then 3 came before D, which sees the 0.
 * Only who wins 3 makes the system call.
 */

#include <stdatomic.h>

#include "hwt/hwt.h"

struct hwt_lane;

#define HWT_GATE_AWAKE 0
#define HWT_GATE_SHORT 1

struct hwt_gate {
    _Atomic uint64_t wake_before;
    int fd; /* timer descriptor, -1: none */
};

/* now + delay, at most HWT_NEVER. */
uint64_t hwt_clock_after(const hwt_timer *timer, uint64_t delay);

/* deadline - now, at least 0; HWT_NEVER stays that. */
uint64_t hwt_clock_until(const hwt_timer *timer, uint64_t deadline);

static inline uint64_t hwt_saturating_add(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* Opens the timer descriptor. 0 or a negative errno. */
int hwt_gate_open_fd(hwt_timer *timer);

/* Worker: A (0 counts as HWT_GATE_SHORT), and the downgrade of a gate that nobody has opened
 * since. */
void hwt_gate_close(hwt_timer *timer, uint64_t wake_before);
void hwt_gate_shorten(hwt_timer *timer);

/* Worker: C and the test of D; HWT_NEVER: until somebody wakes it. False: stay awake. */
bool hwt_gate_arm(hwt_timer *timer, uint64_t instant);

/* Makes the descriptor readable now, or not at all until it is armed again. */
void hwt_gate_fire(hwt_timer *timer);
void hwt_gate_quiet(hwt_timer *timer);

/* Worker: sleeps until the descriptor is readable or a signal interrupts. */
void hwt_gate_sleep(hwt_timer *timer);

/* Worker: awake again. */
void hwt_gate_awake(hwt_timer *timer);

/* 2: whether who pushed, or moved while it was queued, what is due at `deadline`, or cancelled
 * what was pending, must wake the worker. Any thread. */
static inline bool hwt_gate_asks(const struct hwt_gate *gate, uint64_t deadline)
{
    uint64_t wake_before = atomic_load_explicit(&gate->wake_before, memory_order_seq_cst);
    return wake_before > HWT_GATE_SHORT && deadline < wake_before;
}

static inline bool hwt_gate_asks_cancelled(const struct hwt_gate *gate)
{
    return atomic_load_explicit(&gate->wake_before, memory_order_seq_cst) > HWT_GATE_SHORT;
}

/* Counts entries that the lane's threads give the worker to do; every so many wake it, that a
 * backlog does not wait for the next tick. */
#define HWT_BACKLOG 32768
void hwt_gate_announce_given(hwt_timer *timer, struct hwt_lane *lane, uint64_t n);

/* 3 and 4: wakes the worker, or makes the descriptor readable. Any thread. */
void hwt_gate_wake(hwt_timer *timer);

#endif
