/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_GATE_H
#define HWT_GATE_H

/*
 * The gate: how the worker parks and how others wake it.
 *
 * `wake_before` is HWT_GATE_OPEN while the worker is awake: it will look at the streams before it
 * sleeps, so nobody has to do anything. (A thread that drives a timer without a worker may leave it
 * closed.) It is OPEN also while the worker sleeps to the next tick boundary only, because no
 * deadline can come too early for that. Otherwise the worker is asleep, or about to be, until the
 * tick that begins at this instant. A deadline before it must wake the worker, and so must a cancel
 * that is to be told. Stop, a request and a great backlog must wake it from a short sleep, too.
 * `parking` tells of any sleep.
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
 * Either C sees the record, or 3 sees t and ASLEEP of this sleep. That wants a full barrier at 2,
 * which costs as much as a locked operation for each timeout. The worker sleeps far more rarely. So
 * at B it makes all running threads of the process pass a barrier: membarrier(2). A thread that
 * runs 1 to 3 then has its barrier somewhere between two of its own instructions. If that is before
 * 1's store, 3 comes after A; if it is after 1's store, C sees the record.
 *
 * If the system refuses membarrier, and under ThreadSanitizer and model checkers, FENCED is set: 2
 * and B are full barriers of their own threads then. If the system begins to refuse it later, the
 * worker sets FENCED and then pauses for longer than any store takes to be seen. A producer looks
 * at FENCED after 1.
 *
 * A producer pushes a stream that the worker has dismissed on a queue, and C sees only the push. So
 * the push belongs to 1, and has a barrier of its own in any case.
 *
 * Stop does the same with `slow_path_bits` instead of wake_before; see stop.c.
 *
 * `parking` is what the worker sleeps on, a futex: the number of its sleep, and one of three
 * states.
 *
 *     ASLEEP   who has something for the worker must wake it
 *     CALLED   the same: others have begun to, but no system call of theirs is known to be over
 *     AWAKE    nobody must: the worker is awake, or a system call has seen to it that it will be
 *
 * A waker may be stopped at any step, for as long as the scheduler likes. That delays nobody else:
 * while a sleep is ASLEEP or CALLED, each waker makes the system call itself, and the sleep becomes
 * AWAKE only when one of these calls is over, or by the worker itself. So there are only as many
 * calls as wakers come while the first one makes its own. 4 comes before 5: a worker that comes to
 * D between them does not sleep, because it is not ASLEEP. 6 is an exchange of this sleep's number.
 * So a waker that is late does not mark a later sleep. It ends that sleep by its call, and the
 * worker makes one pass for nothing. (The number has 30 bits: for a third waker to rely on the
 * second, one would have to be stopped for a multiple of 2^30 sleeps between 5 and 6, and another
 * one between 4 and 5.)
 *
 * The worker sets ASLEEP before A, and before its last look ahead of a short sleep, and then passes
 * a barrier. A waker sets a flag, seq_cst, or makes a barrier, and then looks at `parking`. So the
 * worker sees the flag, or the waker ends the sleep.
 *
 * No loop can watch a futex. A timer that a loop watches has a timer descriptor instead: 5 sets it
 * to now, and D is the driver's, which sets it to t.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define HWT_GATE_OPEN 0 /* or asleep to the next tick boundary */

/* The low bits of `parking`. */
enum { HWT_GATE_AWAKE, HWT_GATE_ASLEEP, HWT_GATE_CALLED, HWT_GATE_STATE_MASK };

struct hwt_gate {
    _Alignas(64) _Atomic uint64_t wake_before; /* the worker writes it */
    _Atomic uint32_t parking;
    _Atomic int fd;     /* timer descriptor, -1: none */
    _Atomic int lost;   /* errno: why a child of fork() could not open its own; else 0 */
    _Atomic bool quiet; /* the descriptor is not to become readable again */
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
int hwt_gate_open_fd(struct hwt_gate *gate);

/* In a child of fork(): opens one of its own by the same number, if there is one; or it is lost. */
void hwt_gate_renew_fd(struct hwt_gate *gate);

/* 0, or the negative errno for which it is lost. */
static inline int hwt_gate_loss(const struct hwt_gate *gate)
{
    /* Relaxed: a number. */
    return -atomic_load_explicit(&gate->lost, memory_order_relaxed);
}

/* Worker, before its last reading: sets ASLEEP. From here on a wake-up ends also a sleep to the
 * next tick boundary, for which the gate is not closed. The worker sees from here on what wakers
 * have done before their look: set a flag, or made a great backlog. */
void hwt_gate_begin(struct hwt_gate *gate);

/* Worker, after that: step A. */
void hwt_gate_close(struct hwt_gate *gate, uint64_t wake_before);

/* Step B. If the system now refuses membarrier, producers make their own from here on. */
void hwt_gate_barrier(struct hwt_gate *gate);

/* Worker: step D. `until` is an instant of the monotonic clock; UINT64_MAX: until somebody wakes
 * it. May return early. */
void hwt_gate_sleep(struct hwt_gate *gate, uint64_t until);

/* Sets the descriptor: it becomes readable at the instant, or, `relative`, in so many nanoseconds.
 * 0: at once; UINT64_MAX: not at all. */
void hwt_gate_set_fd(struct hwt_gate *gate, uint64_t instant, bool relative);

/* The driver asks this each time before it sets the descriptor: whether no waker has set it since
 * it was asked last. */
bool hwt_gate_fd_is_as_set(struct hwt_gate *gate);

/* Worker: step E. Whether somebody has called it: then others may have left their calls out. */
bool hwt_gate_open(struct hwt_gate *gate);

/* Steps 4 to 6, if it is not AWAKE. Any thread. */
void hwt_gate_wake(struct hwt_gate *gate);

/* Stop: the descriptor is not readable from now on, however late a waker is. */
void hwt_gate_quiet(struct hwt_gate *gate);

static inline bool hwt_gate_is_fenced(const struct hwt_gate *gate)
{
    /* Relaxed: a producer looks after 1, and one that reads it late then has the pause of
     * hwt_gate_barrier() for it. */
    return atomic_load_explicit(gate->slow_path_bits, memory_order_relaxed) & gate->fence_bits;
}

/* Whether the worker is asleep and nobody has called it. */
static inline bool hwt_gate_is_asleep(const struct hwt_gate *gate)
{
    /* Seq_cst: the driver has set the descriptor before this. The kernel orders that and step 5, and
     * the later one holds. If the driver's is later, the waker has marked it CALLED before. */
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

/* Step 3: whether a timeout with this deadline must wake the worker. Any thread. */
static inline bool hwt_gate_asks(const struct hwt_gate *gate, uint64_t deadline)
{
    /* Relaxed: it comes after 2. */
    return __builtin_expect(
               deadline < atomic_load_explicit(&gate->wake_before, memory_order_relaxed), 0) &&
           hwt_gate_is_unheard(gate);
}

/* The same for what must be done within a tick. */
static inline bool hwt_gate_is_long(const struct hwt_gate *gate)
{
    return atomic_load_explicit(&gate->wake_before, memory_order_relaxed) != HWT_GATE_OPEN &&
           hwt_gate_is_unheard(gate);
}

#endif
