/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TIMEOUT_H
#define HWT_TIMEOUT_H

/* A timeout's entry and its state word. The ground rules are at the head of timeout.c. */

#include <stdatomic.h>

#include "hwt/hwt.h"
#include "hwt/mpsc.h"

/* Pairs of words that are used together do not straddle cache lines: the entry is aligned to 16. */
struct hwt_entry {
    hwt_mpsc_node link;        /* in the pending or the cancelled queue, never in both */
    uintptr_t task;            /* a const hwt_task *, and whether it has `cancelled`; see below */
    _Atomic uint64_t state;    /* generation << 8 | flags | phase */
    _Atomic uint64_t deadline; /* an instant of the timer's clock */
    void *arg;
    _Atomic uint32_t slot;  /* its bucket, or one of HWT_SLOT_... */
    _Atomic uint32_t index; /* its place in the bucket; in the pool: the next free entry */
};

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(struct hwt_entry) == 48, "a pending timeout costs 48 bytes and its place");
#endif

#define HWT_SLOT_NONE UINT32_MAX          /* in no bucket */
#define HWT_SLOT_TRANSIT (UINT32_MAX - 1) /* in no bucket; some thread is about to push it */
#define HWT_SLOT_FRESH (UINT32_MAX - 2)   /* added, and never drained: the worker has not met it */
#define HWT_SLOT_ENDED (UINT32_MAX - 3)   /* by stop */

enum {
    HWT_PHASE_NEW,       /* holds no timeout: never used, or withdrawn by its adder */
    HWT_PHASE_QUEUED,    /* link is in, or on its way to, a pending queue */
    HWT_PHASE_ARMED,     /* the worker's, in a bucket; link is free */
    HWT_PHASE_SUBMITTED, /* handed to the executor, not begun; link is free */
    HWT_PHASE_RUNNING,   /* its task runs; link is free */
    HWT_PHASE_EXPIRED,   /* ended by its run; in the pool, or about to be */
    HWT_PHASE_CANCELLED, /* will never run; its link is where the phase before had it */
    HWT_PHASE_ABANDONED, /* cancelled, and left to the thread that is MOVING it */
    HWT_PHASE_MASK = 7,

    HWT_MOVING = 1 << 3,  /* one thread is writing the deadline */
    HWT_MOVED = 1 << 4,   /* the deadline was written since the worker last read it */
    HWT_REARMED = 1 << 5, /* with RUNNING: pending again once the task returns; stays until the
                           * next run, so that nobody takes it for one that has never run */
    HWT_BARRED = 1 << 6,  /* with RUNNING: cancelled, this run is the end */
    HWT_WAITED = 1 << 7,  /* with RUNNING: somebody waits for the task to return */
    HWT_GENERATION_SHIFT = 8
};

/*
 * The caller may free the task with arg after hwt_timeout_cancel_sync() if it has no
 * `cancelled`. That it has is kept in the pointer's lowest bit, so that what is cancelled is
 * discarded without a look at the task.
 */
static inline void hwt_entry_set_task(struct hwt_entry *entry, const hwt_task *task)
{
    entry->task = (uintptr_t)task | (task->cancelled != NULL);
}

static inline const hwt_task *hwt_entry_task(const struct hwt_entry *entry)
{
    return (const hwt_task *)(entry->task & ~(uintptr_t)1);
}

static inline bool hwt_entry_tells(const struct hwt_entry *entry)
{
    return entry->task & 1;
}

static inline unsigned hwt_phase(uint64_t state)
{
    return (unsigned)(state & HWT_PHASE_MASK);
}

static inline uint64_t hwt_with_phase(uint64_t state, unsigned phase)
{
    return (state & ~(uint64_t)HWT_PHASE_MASK) | phase;
}

/* Whether the state word is pending: a cancel would return true. */
static inline bool hwt_state_pending(uint64_t state)
{
    switch (hwt_phase(state)) {
    case HWT_PHASE_QUEUED:
    case HWT_PHASE_ARMED:
    case HWT_PHASE_SUBMITTED:
        return true;
    case HWT_PHASE_RUNNING:
        return (state & HWT_REARMED) && !(state & HWT_BARRED);
    default:
        return false;
    }
}

static inline hwt_timeout hwt_handle(struct hwt_entry *entry)
{
    uint64_t state = atomic_load_explicit(&entry->state, memory_order_relaxed);
    return (hwt_timeout){ entry, state >> HWT_GENERATION_SHIFT };
}

/* Transitions that the worker and the threads that run tasks make; see timeout.c. */

/* The state, MOVED cleared: a deadline read after this is the newest, or MOVED is set again. */
uint64_t hwt_timeout_note(struct hwt_entry *entry);

/* Worker: from `state`, which is QUEUED, to ARMED. False: it has changed, look again. */
bool hwt_timeout_arm(struct hwt_entry *entry, uint64_t state);

/* Worker, who ran it: from `state`, which is RUNNING, REARMED and not BARRED, so that nobody waits
 * for it, to ARMED without the way through the queue. False: it has changed, look again. */
bool hwt_timeout_arm_again(struct hwt_entry *entry, uint64_t state);

/* Worker: ARMED back to QUEUED, for it could not be filed. False: it was cancelled, or is
 * QUEUED already, and comes back through a queue. */
bool hwt_timeout_disarm(struct hwt_entry *entry);

enum hwt_begun {
    HWT_BEGUN,     /* RUNNING, or SUBMITTED: the caller runs it, or hands it over */
    HWT_NOT_DUE,   /* as it was: pushed back */
    HWT_HELD,      /* as it was: its deadline is being written, look again later */
    HWT_ELSEWHERE, /* not ARMED: cancelled or moved, it comes back through a queue */
    HWT_DEAD       /* it was SUBMITTED and is CANCELLED: the caller discards it */
};

/* Worker: ARMED to `phase` if its deadline is before `horizon`. */
enum hwt_begun hwt_timeout_begin(struct hwt_entry *entry, uint64_t horizon, unsigned phase);

/* Who was handed it: SUBMITTED to RUNNING if its deadline is not after `now`. */
enum hwt_begun hwt_timeout_begin_submitted(struct hwt_entry *entry, uint64_t now);

/* Who was handed it: SUBMITTED back to QUEUED, and pushed. False: CANCELLED meanwhile. */
bool hwt_timeout_requeue(hwt_timer *timer, struct hwt_entry *entry);

enum hwt_finished {
    HWT_ENDED,  /* EXPIRED: the caller gives the entry back */
    HWT_AGAIN,  /* QUEUED and pushed: not the caller's any more */
    HWT_DROPPED /* CANCELLED after it had re-armed itself: the caller discards it */
};

/* Who ran it: RUNNING to what comes after. */
enum hwt_finished hwt_timeout_finish(hwt_timer *timer, struct hwt_entry *entry);

/* CANCELLED: whether its entry can be given back; if not, the thread that is MOVING it
 * pushes it on the cancelled queue once it is done. */
bool hwt_timeout_discardable(hwt_timer *timer, struct hwt_entry *entry);

/* Who drained it: whether it was cancelled while QUEUED and nothing is left to do for it. */
static inline bool hwt_timeout_salvageable(const struct hwt_entry *entry)
{
    /* Acquire: what the canceller and the mover did is over. */
    uint64_t state = atomic_load_explicit(&entry->state, memory_order_acquire);
    return hwt_phase(state) == HWT_PHASE_CANCELLED && !(state & HWT_MOVING) &&
           !hwt_entry_tells(entry) &&
           atomic_load_explicit(&entry->slot, memory_order_relaxed) == HWT_SLOT_FRESH;
}

/*
 * Adder: takes back a timeout that was pushed while the timer was being stopped. Stop set
 * `stopping` before it collected, the adder pushed before he read it, so one of the two sees
 * the other, and the exchange says who ends it. False: stop has, or it ran: it was accepted.
 */
bool hwt_timeout_withdraw(struct hwt_entry *entry, uint64_t state);

/* Stop: pending to CANCELLED. False: it was not pending any more. */
bool hwt_timeout_abandon(struct hwt_entry *entry);

#endif
