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
 * instant. A deadline before it must wake the worker, as must a cancel that is to be told. `asleep`
 * tells in any case: stop, a request, a great backlog and a stream that it missed wake it from a
 * short sleep, too.
 *
 * The gate must not lose a wake-up:
 *
 *     worker                                    producer
 *     A  wake_before = t, streams dismissed     1  record published
 *     B  barrier                                2  (barrier)
 *     C  reads the streams once more            3  loads wake_before, and `listed` of its stream
 *     D  sleeps, if `asleep` is still set       4  opens the gate, clears `asleep`, and wakes
 *
 * Either C sees the record or 3 sees t. That wants a full barrier at 2, which costs as much as a
 * locked operation for each timeout; the worker sleeps far more rarely. So it makes all threads of
 * the process that run pass a barrier at B: membarrier(2). A thread that runs 1 to 3 has its
 * barrier somewhere between two of its own instructions: if before 1's store, then 3 comes after A;
 * if after it, then C sees the record. Where the system refuses membarrier (if that
 * begins late: after a pause that is longer than any store takes to be seen), and under
 * ThreadSanitizer and model checkers, FENCED is set: 2 and B are full barriers of their own
 * threads. A producer looks at FENCED after 1.
 *
 * A stream that the worker has dismissed is pushed on a queue, and then C sees only the push: that
 * is 1, too, and has a barrier of its own in any case.
 *
 * Stop is the same with `unusual` in place of wake_before; see stop.c.
 *
 * `asleep` is what the worker sleeps on, a futex. 4 clears it and then wakes. The worker sets it
 * before A, and before its last look ahead of a short sleep, and passes a barrier then: a waker
 * that sets a flag, seq_cst, or makes a barrier, and clears `asleep` after that, has its flag seen
 * or ends the sleep. A waker that is late wakes a worker that has parked again: it makes one pass
 * for nothing. While a waker is between its two steps of 4, others that find the gate open rely on
 * it. A timer whose clock a futex does not know, and one that a loop watches, has a timer
 * descriptor instead: 4 sets it to now, D to t.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define HWT_GATE_OPEN 0 /* or asleep to the next tick boundary */

struct hwt_gate {
    _Alignas(64) _Atomic uint64_t wake_before;
    _Atomic uint32_t asleep;
    _Atomic int fd;          /* timer descriptor, -1: none */
    _Atomic int lost;        /* why a child of fork() has none in place of its parent's; else 0 */
    _Atomic bool quiet;      /* it is not to become readable again */
    _Atomic uint32_t *flags; /* the timer's, for all producers to read */
    uint32_t fences;         /* of them: FENCED, or, where nobody needs barriers, ONE_THREADED */
    /* Wakers that are about to set the descriptor; that have set it; and `done` when the loop that
     * watches it set it last: another one may have set it since. */
    _Atomic uint32_t begun, done;
    uint32_t known;
    clockid_t clock_id;
};

/* Whether the system has no membarrier for this process. */
bool hwt_gate_needs_fences(void);

void hwt_gate_init(struct hwt_gate *gate, clockid_t clock_id, _Atomic uint32_t *flags,
                   uint32_t fences);
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

/* Worker, before its last reading: a wake-up from here on ends a sleep to the next tick boundary,
 * for which the gate is not closed. What the waker has done before is seen from here on: a flag,
 * how great a backlog is, or that a stream can be claimed. */
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

/* Worker: awake again. */
void hwt_gate_open(struct hwt_gate *gate);

/* 4. Any thread. */
void hwt_gate_wake(struct hwt_gate *gate);

/* Stop: the descriptor is not readable from now on, however late a waker is. */
void hwt_gate_quiet(struct hwt_gate *gate);

static inline bool hwt_gate_is_fenced(const struct hwt_gate *gate)
{
    /* Relaxed: a producer looks after 1, and one that reads it late then has the pause of
     * hwt_gate_barrier() for it. */
    return atomic_load_explicit(gate->flags, memory_order_relaxed) & gate->fences;
}

/* 3: whether what is due at `deadline` must wake the worker. Any thread. */
static inline bool hwt_gate_asks(const struct hwt_gate *gate, uint64_t deadline)
{
    /* Relaxed: it comes after 2. */
    return deadline < atomic_load_explicit(&gate->wake_before, memory_order_relaxed);
}

/* The same of what must be done within a tick. */
static inline bool hwt_gate_is_long(const struct hwt_gate *gate)
{
    return atomic_load_explicit(&gate->wake_before, memory_order_relaxed) != HWT_GATE_OPEN;
}

#endif
