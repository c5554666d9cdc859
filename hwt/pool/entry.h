/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_ENTRY_H
#define HWT_ENTRY_H

/*
 * A timeout's entry: what all threads share of it, and nothing else. Its state and its deadline
 * change together.
 *
 * THE STATE
 *
 *     generation << 9 | bits | phase
 *
 *     from       to          by               when, and what it publishes
 *     ---------  ----------  ---------------  --------------------------------------------------
 *     free       PENDING     the adder        store, release: task, arg, deadline. The entry is
 *                                             the adder's alone; the generation goes up
 *     PENDING    PENDING     a mover          another deadline
 *     PENDING    + HANDED    the worker       the executor has it, in the tick of its deadline
 *     PENDING    - HANDED    the executor     it was moved meanwhile
 *     PENDING    RUNNING     the runner       its deadline has passed; sets RAN, clears HANDED
 *     PENDING    CANCELLED   a canceller      the task has no `cancelled`: the entry is free
 *     PENDING    UNTOLD      a canceller      it has one, or the executor has the entry
 *     PENDING    CANCELLED   its adder        stop came first, and it has never run: refused
 *     PENDING    VISITED     stop             the visitor is about to be called
 *     PENDING    CANCELLED   stop             there is none: `cancelled`, if any, is about to be
 *                                             called; then it is free
 *     UNTOLD     CANCELLED   the teller       `cancelled`, if any, is about to be called; then it
 *                                             is free
 *     RUNNING    + REARMED   its own task     the next deadline; pending again
 *     RUNNING    RUNNING     a mover          REARMED and not BARRED: another deadline
 *     RUNNING    + BARRED    a canceller      this run is the end
 *     RUNNING    + WAITED    a canceller      somebody waits for the end of this run
 *     RUNNING    PENDING     the runner       REARMED and not BARRED
 *     RUNNING    CANCELLED   the runner       REARMED and BARRED; tells it, then it is free
 *     RUNNING    EXPIRED     the runner       else; it is free
 *     VISITED    + WAITED    a canceller      as for RUNNING
 *     VISITED    CANCELLED   stop             the visitor has returned; it is free
 *     free       RENEWED     the adder        store, release: it is the worker's. The generation
 *                                             goes up
 *     RENEWED    CANCELLED   the worker       store, release: it is free
 *
 * An entry that has served its time passes the worker once more, RENEWED (renew() in timer.c; with
 * one thread it need not). Its generation also goes up when its slab is used again.
 *
 * All but those that are stores are exchanges, seq_cst, of the state alone or with the deadline; with
 * one thread, stores. So each has one winner, and what a thread wrote before its exchange is seen
 * by the thread that acts on the result. A deadline that is read beside a state belongs to it if an
 * exchange of both succeeds.
 *
 * TELLS says that the task has `cancelled`, from the first to the last; a canceller need not look
 * at the task, which the caller may have freed by then. RAN stays: the state of a timeout that has
 * run is never again the one its adder stored, by which alone the adder may take it back.
 *
 * A free entry belongs to the thread that made it so, and then to whom that hands it; see pool.h.
 * Its state stays as it ended, so that an old handle can still be asked.
 *
 * THE OTHER FIELDS
 *
 * deadline, task and arg are written by the adder, and deadline and arg by the pool for an entry
 * that is free, with release: a reader of one of this use of the entry, acquire, sees by a second
 * look at the state that the first one is over.
 */

#include "hwt/base/word.h"
#include "hwt/hwt.h"

struct hwt_entry {
    struct hwt_word word; /* first: the state; second: the deadline, an instant */
    _Atomic(const hwt_task *) task;
    _Atomic(void *) arg;
};

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(struct hwt_entry) == 32, "two to a cache line");
#endif

enum {
    HWT_PHASE_NEW, /* never used */
    HWT_PHASE_PENDING,
    HWT_PHASE_RUNNING,
    HWT_PHASE_EXPIRED,
    HWT_PHASE_UNTOLD,
    HWT_PHASE_CANCELLED,
    HWT_PHASE_VISITED,
    HWT_PHASE_RENEWED,
    HWT_PHASE_MASK = 7,

    HWT_TELLS = 1 << 3,
    HWT_REARMED = 1 << 4,
    HWT_BARRED = 1 << 5,
    HWT_WAITED = 1 << 6,
    HWT_HANDED = 1 << 7,
    HWT_RAN = 1 << 8,
    HWT_GENERATION_SHIFT = 9
};

static inline unsigned hwt_phase(uint64_t state)
{
    return (unsigned)(state & HWT_PHASE_MASK);
}

static inline uint64_t hwt_with_phase(uint64_t state, unsigned phase)
{
    return (state & ~(uint64_t)HWT_PHASE_MASK) | phase;
}

/* From PENDING. */
static inline uint64_t hwt_pending_to(uint64_t state, unsigned phase)
{
    return state + (phase - HWT_PHASE_PENDING);
}

static inline uint64_t hwt_generation(uint64_t state)
{
    return state >> HWT_GENERATION_SHIFT;
}

/* Of that generation and PENDING, whatever its bits. */
static inline bool hwt_state_queued(uint64_t state, uint64_t generation)
{
    return (state & ~(uint64_t)(HWT_RAN | HWT_HANDED | HWT_TELLS)) ==
           (generation << HWT_GENERATION_SHIFT | HWT_PHASE_PENDING);
}

/* The same, and its canceller has nobody to tell. */
static inline bool hwt_state_quiet(uint64_t state, uint64_t generation)
{
    return (state & ~(uint64_t)HWT_RAN) == (generation << HWT_GENERATION_SHIFT | HWT_PHASE_PENDING);
}

/* Of that generation, and not ended: the entry is in use. */
static inline bool hwt_state_live(uint64_t state, uint64_t generation)
{
    unsigned phase = hwt_phase(state);
    return hwt_generation(state) == generation &&
           (phase == HWT_PHASE_PENDING || phase == HWT_PHASE_RUNNING || phase == HWT_PHASE_VISITED);
}

/* Whether a cancel would return true. */
static inline bool hwt_state_pending(uint64_t state)
{
    return hwt_phase(state) == HWT_PHASE_PENDING ||
           (hwt_phase(state) == HWT_PHASE_RUNNING && (state & HWT_REARMED) &&
            !(state & HWT_BARRED));
}

/* Acquire: what was written before the transition to this state. */
static inline uint64_t hwt_entry_state(const struct hwt_entry *entry)
{
    return atomic_load_explicit(&entry->word.first, memory_order_acquire);
}

/* Acquire: a state that is read after this is not older than the deadline; but where words are
 * exchanged under locks it may be the RUNNING of the run that was armed again for it. */
static inline uint64_t hwt_entry_deadline(const struct hwt_entry *entry)
{
    return atomic_load_explicit(&entry->word.second, memory_order_acquire);
}

static inline const hwt_task *hwt_entry_task(const struct hwt_entry *entry)
{
    return atomic_load_explicit(&entry->task, memory_order_acquire);
}

static inline void *hwt_entry_arg(const struct hwt_entry *entry)
{
    return atomic_load_explicit(&entry->arg, memory_order_acquire);
}

/* Adder, of a free entry, whose state is the adder's: of the next timeout in it. */
static inline uint64_t hwt_entry_next_state(const struct hwt_entry *entry, const hwt_task *task)
{
    uint64_t last = atomic_load_explicit(&entry->word.first, memory_order_relaxed);
    uint64_t next = (last | (((uint64_t)1 << HWT_GENERATION_SHIFT) - 1)) + 1;
    return next + HWT_PHASE_PENDING + (task->cancelled ? HWT_TELLS : 0);
}

/* What goes before it is published. */
static inline void hwt_entry_set(struct hwt_entry *entry, const hwt_task *task, void *arg,
                                 uint64_t deadline)
{
    atomic_store_explicit(&entry->task, task, memory_order_release);
    atomic_store_explicit(&entry->arg, arg, memory_order_release);
    atomic_store_explicit(&entry->word.second, deadline, memory_order_release);
}

static inline void hwt_entry_publish(struct hwt_entry *entry, uint64_t state)
{
    atomic_store_explicit(&entry->word.first, state, memory_order_release);
}

/* Returns its state, PENDING. */
static inline uint64_t hwt_entry_begin(struct hwt_entry *entry, const hwt_task *task, void *arg,
                                       uint64_t deadline)
{
    uint64_t state = hwt_entry_next_state(entry, task);
    hwt_entry_set(entry, task, arg, deadline);
    hwt_entry_publish(entry, state);
    return state;
}

#endif
