/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_GATE_H
#define HWT_GATE_H

/*
 * The gate: how the worker parks and how others wake it.
 *
 * `wake_before` is HWT_GATE_OPEN while the worker is awake: it will look at the streams before it
 * sleeps, nobody has to do anything. (A thread that drives a timer without a worker may leave it
 * closed.) The same while it sleeps to the next tick boundary only, for no deadline can come too
 * early for that. Otherwise it is asleep, or about to be, until the tick that begins at this
 * instant. A deadline before it must wake the worker, as must a cancel that is to be told. `parking`
 * tells in any case: stop, a request and a great backlog wake it from a short sleep, too.
 *
 * The gate must not lose a wake-up:
 *
 *     worker                                    producer
 *     A  wake_before = t, streams dismissed     1  record published
 *     B  barrier                                2  (barrier)
 *     C  reads the streams once more            3  loads wake_before and `parking`, and `listed` of
 *                                                  its stream
 *     D  sleeps, if it is ASLEEP still          4  marks it CALLED
 *     E  is awake: wake_before = OPEN, AWAKE    5  makes the system call
 *                                               6  marks it AWAKE, if nobody has
 *
 * Either C sees the record or 3 sees t, and ASLEEP of this sleep. That wants a full barrier at 2,
 * which costs as much as a locked operation for each timeout; the worker sleeps far more rarely. So
 * it makes all threads of the process that run pass a barrier at B: membarrier(2). A thread that
 * runs 1 to 3 has its barrier somewhere between two of its own instructions: if before 1's store,
 * then 3 comes after A; if after it, then C sees the record. Where the system refuses membarrier (if
 * that begins late: after a pause that is longer than any store takes to be seen), and under
 * ThreadSanitizer and model checkers, FENCED is set: 2 and B are full barriers of their own
 * threads. A producer looks at FENCED after 1.
 *
 * A stream that the worker has dismissed is pushed on a queue, and then C sees only the push: that
 * is 1, too, and has a barrier of its own in any case.
 *
 * Stop is the same with `slow_path_bits` in place of wake_before; see stop.c.
 *
 * `parking` is what the worker sleeps on, a futex: the number of its sleep, and one of three states.
 *
 *     ASLEEP   who has something for the worker must wake it
 *     CALLED   the same: others have begun to, but no system call of theirs is known to be over
 *     AWAKE    nobody must: the worker is awake, or a system call has seen to it that it will be
 *
 * A waker may be stopped at any step, for as long as the scheduler likes. That delays nobody else:
 * while a sleep is ASLEEP or CALLED, each waker makes the system call itself, and it is AWAKE only
 * when one of these is over, or the worker says so itself. So there are as many calls as wakers
 * come while the first one makes its own, and no more. 4 comes before 5: the worker that comes to D
 * between them does not sleep, because it is not ASLEEP. 6 is an exchange of this sleep's number, so
 * a waker that is late does not mark a later sleep; it ends it by its call, and the worker makes one
 * pass for nothing. The number has 30 bits: a waker would have to be stopped for a multiple of 2^30
 * sleeps between 5 and 6, and another one between 4 and 5, for a third to rely on the second.
 *
 * The worker sets ASLEEP before A, and before its last look ahead of a short sleep, and passes a
 * barrier then: a waker that sets a flag, seq_cst, or makes a barrier, and looks at `parking` after
 * that, has its flag seen or ends the sleep.
 *
 * A timer whose clock a futex does not know, and one that a loop watches, has a timer
 * descriptor instead: 5 sets it to now, D to t.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define HWT_GATE_OPEN 0 /* or asleep to the next tick boundary */

/* The low bits of `parking`. */
enum { HWT_GATE_AWAKE, HWT_GATE_ASLEEP, HWT_GATE_CALLED, HWT_GATE_STATE_MASK };

struct hwt_gate {
    _Alignas(64) _Atomic uint64_t wake_before; /* the worker's */
    _Atomic uint32_t parking;
    _Atomic int fd;     /* timer descriptor, -1: none */
    _Atomic int lost;   /* why a child of fork() has none in place of its parent's; else 0 */
    _Atomic bool quiet; /* it is not to become readable again */
    _Atomic uint32_t *slow_path_bits; /* the timer's, for all producers to read */
    uint32_t fence_bits; /* of them: FENCED, or, where nobody needs barriers, ONE_THREADED */
    /* Wakers that are about to set the descriptor; that have set it; and `done` when the loop that
     * watches it set it last: another one may have set it since. */
    _Atomic uint32_t begun, done;
    uint32_t done_when_set;
    clockid_t clock_id;
};

/* Whether the system has no membarrier for this process. */
bool hwt_gate_needs_fences(void);

void hwt_gate_init(struct hwt_gate *gate, clockid_t clock_id, _Atomic uint32_t *flags,
                   uint32_t fence_bits);
void hwt_gate_destroy(struct hwt_gate *gate);

/* Opens the timer descriptor, if there is none. 0 or a negative errno. One thread at a time. */
int hwt_gate_open_fd(struct hwt_gate *gate, bool nonblocking);

/* In a child of fork(): the descriptor, if there is one, is the child's own, by the same number; or
 * it is lost. */
void hwt_gate_renew_fd(struct hwt_gate *gate, bool nonblocking);

/* 0, or the negative errno for which it is lost. */
static inline int hwt_gate_loss(const struct hwt_gate *gate)
{
    /* Relaxed: who opens another one stores it after that; the opener itself tells its number. */
    return -atomic_load_explicit(&gate->lost, memory_order_relaxed);
}

/* Worker, before its last reading: ASLEEP. A wake-up from here on ends a sleep to the next tick
 * boundary, for which the gate is not closed. What the waker has done before is seen from here on: a
 * flag, or how great a backlog is. */
void hwt_gate_begin(struct hwt_gate *gate);

/* Worker, after that: A. */
void hwt_gate_close(struct hwt_gate *gate, uint64_t wake_before);

/* B. Where the system has begun to refuse it, the producers make their own from now on. */
void hwt_gate_barrier(struct hwt_gate *gate);

/* Worker: D, an instant of the gate's clock; UINT64_MAX: until somebody wakes it. Returns early
 * for a signal, or for nothing. */
void hwt_gate_sleep(struct hwt_gate *gate, uint64_t until);

/* Whose loop watches the descriptor: it becomes readable at the instant, or in so many
 * nanoseconds, at once, or not at all. */
void hwt_gate_set_fd(struct hwt_gate *gate, uint64_t instant, bool relative);

/* The same, each time before it sets the descriptor or leaves it as it is: whether it is what it
 * was set to last. */
bool hwt_gate_fd_is_as_set(struct hwt_gate *gate);

/* Worker: E. Whether somebody has called it: then there may be more that nobody calls it for. */
bool hwt_gate_open(struct hwt_gate *gate);

/* 4 to 6, if it is not AWAKE. Any thread. */
void hwt_gate_wake(struct hwt_gate *gate);

/* Stop: the descriptor is not readable from now on, however late a waker is. */
void hwt_gate_quiet(struct hwt_gate *gate);

static inline bool hwt_gate_is_fenced(const struct hwt_gate *gate)
{
    /* Relaxed: a producer looks after 1, and one that reads it late then has the pause of
     * hwt_gate_barrier() for it. */
    return atomic_load_explicit(gate->slow_path_bits, memory_order_relaxed) & gate->fence_bits;
}

/* Whether it is asleep and nobody has called it: who watches its descriptor need not look. */
static inline bool hwt_gate_is_asleep(const struct hwt_gate *gate)
{
    /* Seq_cst: see sleep_on_fd(). */
    return (atomic_load_explicit(&gate->parking, memory_order_seq_cst) & HWT_GATE_STATE_MASK) ==
           HWT_GATE_ASLEEP;
}

/* Whether no wake-up of this sleep is on its way. */
static inline bool hwt_gate_is_unheard(const struct hwt_gate *gate)
{
    /* Relaxed: it comes after 2, as the look at wake_before does. */
    return (atomic_load_explicit(&gate->parking, memory_order_relaxed) & HWT_GATE_STATE_MASK) !=
           HWT_GATE_AWAKE;
}

/* 3: whether what is due at `deadline` must wake the worker. Any thread. */
static inline bool hwt_gate_asks(const struct hwt_gate *gate, uint64_t deadline)
{
    /* Relaxed: it comes after 2. */
    return __builtin_expect(
               deadline < atomic_load_explicit(&gate->wake_before, memory_order_relaxed), 0) &&
           hwt_gate_is_unheard(gate);
}

/* The same of what must be done within a tick. */
static inline bool hwt_gate_is_long(const struct hwt_gate *gate)
{
    return atomic_load_explicit(&gate->wake_before, memory_order_relaxed) != HWT_GATE_OPEN &&
           hwt_gate_is_unheard(gate);
}

#endif
