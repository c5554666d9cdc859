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
 * Each row is one function below, hwt_entry_..., and nothing else changes a state.
 *
 *     from       to          by               when, and what it publishes
 *     ---------  ----------  ---------------  --------------------------------------------------
 *     free       PENDING     the adder        publish: task, arg, deadline. The entry is the
 *                                             adder's alone; the generation goes up
 *     PENDING    PENDING     a mover          move: another deadline
 *     PENDING    + HANDED    the worker       hand_over: the executor has it, in the tick of its
 *                                             deadline
 *     PENDING    - HANDED    the executor     take_back: it was moved meanwhile
 *     PENDING    RUNNING     the runner       begin_run: its deadline has passed; sets RAN, clears
 *                                             HANDED
 *     PENDING    CANCELLED   a canceller      try_cancel: the task has no `cancelled`: the entry is
 *                                             free
 *     PENDING    UNTOLD      a canceller      try_cancel_untold: it has one, or the executor has
 *                                             the entry
 *     PENDING    CANCELLED   its adder        withdraw: stop came first, and it has never run:
 *                                             refused
 *     PENDING    VISITED     stop             begin_visit: the visitor is about to be called
 *     PENDING    CANCELLED   stop             leave_over: there is none: `cancelled`, if any, is
 *                                             about to be called; then it is free
 *     UNTOLD     CANCELLED   the teller       begin_telling: `cancelled`, if any, is about to be
 *                                             called; then it is free
 *     RUNNING    + REARMED   its own task     rearm: the next deadline; pending again
 *     RUNNING    RUNNING     a mover          move: REARMED and not BARRED: another deadline
 *     RUNNING    + BARRED    a canceller      bar: this run is the end
 *     RUNNING    + WAITED    a canceller      await: somebody waits for the end of this run
 *     RUNNING    PENDING     the runner       run_again: REARMED and not BARRED
 *     RUNNING    CANCELLED   the runner       end_barred: REARMED and BARRED; tells it, then it is
 *                                             free
 *     RUNNING    EXPIRED     the runner       expire, expire_marked: else; it is free
 *     VISITED    + WAITED    a canceller      await: as for RUNNING
 *     VISITED    CANCELLED   stop             end_visit: the visitor has returned; it is free
 *     free       RENEWED     the adder        renew: it is the worker's. The generation goes up
 *     RENEWED    CANCELLED   the worker       end_renewal: it is free
 *
 * An entry that was used 2^28 times goes through the worker once, RENEWED, before it is used again:
 * see renew() in arm.c. With one thread it need not. A generation also goes up when the slab is
 * used again.
 *
 * In the rows publish, renew and end_renewal the entry is one thread's. All others are exchanges of
 * the state, alone or with the deadline; with one thread some are stores. So each row has one
 * winner. The thread that acts on the result sees what another thread wrote before its exchange. A
 * deadline that is read beside a state belongs to it if an exchange of both succeeds.
 *
 * HAS_CANCELLED says that the task has `cancelled`, as long as the timeout lives. So a canceller
 * need not look at the task, which the caller may have freed. RAN stays once it is set. So the
 * state that the adder has stored does not come back after a run, and the adder takes back that
 * state alone.
 *
 * A free entry belongs to the thread that has freed it, and then to whom that thread gives it; see
 * pool.h. Its state stays as it ended, so that an old handle can still be asked.
 *
 * THE OTHER FIELDS
 *
 * The adder writes deadline, task and arg. The pool writes them of a free entry: see stacks.h and
 * hwt_entry_link(). All these are releases. A reader by a handle acquires,
 * and then looks at the state again: if it has read a field of a newer use, it sees that its own
 * timeout is over.
 */

#include "hwt/base/assert.h"
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

    HWT_HAS_CANCELLED = 1 << 3,
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

static inline uint64_t hwt_generation(uint64_t state)
{
    return state >> HWT_GENERATION_SHIFT;
}

/* Whether the state is of that generation and PENDING, whatever its bits. */
static inline bool hwt_state_queued(uint64_t state, uint64_t generation)
{
    return (state & ~(uint64_t)(HWT_RAN | HWT_HANDED | HWT_HAS_CANCELLED)) ==
           (generation << HWT_GENERATION_SHIFT | HWT_PHASE_PENDING);
}

/* The same, and a canceller has nobody to tell. */
static inline bool hwt_state_quiet(uint64_t state, uint64_t generation)
{
    return (state & ~(uint64_t)HWT_RAN) == (generation << HWT_GENERATION_SHIFT | HWT_PHASE_PENDING);
}

/* Whether a record or a hint of this generation, by its low 32 bits, is still true: its timeout is
 * PENDING, and the executor does not have it. Everything that reads records or hints asks this. */
static inline bool hwt_hint_is_true(uint64_t state, uint32_t generation)
{
    return (state & (HWT_PHASE_MASK | HWT_HANDED)) == HWT_PHASE_PENDING &&
           (uint32_t)hwt_generation(state) == generation;
}

/* Whether the timeout of that generation has not ended, so that the entry is in use. */
static inline bool hwt_state_live(uint64_t state, uint64_t generation)
{
    unsigned phase = hwt_phase(state);
    return hwt_generation(state) == generation &&
           (phase == HWT_PHASE_PENDING || phase == HWT_PHASE_RUNNING || phase == HWT_PHASE_VISITED);
}

/* Whether no timeout has the entry: it is in a cache or in the pool, or the thread that has ended
 * its last timeout has it. */
static inline bool hwt_state_free(uint64_t state)
{
    unsigned phase = hwt_phase(state);
    return phase == HWT_PHASE_NEW || phase == HWT_PHASE_EXPIRED || phase == HWT_PHASE_CANCELLED;
}

/* Whether a task or a visitor has the timeout. */
static inline bool hwt_state_in_callback(uint64_t state)
{
    return hwt_phase(state) == HWT_PHASE_RUNNING || hwt_phase(state) == HWT_PHASE_VISITED;
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

/* Acquire: a state that is read after this is not older than the deadline. But if words are
 * exchanged under locks, the state may be RUNNING of the very run that has set the deadline. */
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

/* Adder, which owns the free entry: the state of the next timeout in it. */
static inline uint64_t hwt_entry_next_state(const struct hwt_entry *entry, const hwt_task *task)
{
    uint64_t last = atomic_load_explicit(&entry->word.first, memory_order_relaxed);
    uint64_t next = (last | (((uint64_t)1 << HWT_GENERATION_SHIFT) - 1)) + 1;
    return next + HWT_PHASE_PENDING + (task->cancelled ? HWT_HAS_CANCELLED : 0);
}

/* Adder: writes what publishing the state releases. */
static inline void hwt_entry_set(struct hwt_entry *entry, const hwt_task *task, void *arg,
                                 uint64_t deadline)
{
    atomic_store_explicit(&entry->task, task, memory_order_release);
    atomic_store_explicit(&entry->arg, arg, memory_order_release);
    atomic_store_explicit(&entry->word.second, deadline, memory_order_release);
}

/* ---- the rows of the table: an entry that is one thread's ---- */

/* Release: task, arg and deadline, for whoever reads the state. */
static inline void hwt_entry_publish(struct hwt_entry *entry, uint64_t state)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_PENDING);
    atomic_store_explicit(&entry->word.first, state, memory_order_release);
}

/* Sets and publishes. Returns the state, PENDING. */
static inline uint64_t hwt_entry_begin(struct hwt_entry *entry, const hwt_task *task, void *arg,
                                       uint64_t deadline)
{
    uint64_t state = hwt_entry_next_state(entry, task);
    hwt_entry_set(entry, task, arg, deadline);
    hwt_entry_publish(entry, state);
    return state;
}

/* Release: the worker, which acquires the state, sees what the entry's users have done. */
static inline void hwt_entry_renew(struct hwt_entry *entry, uint64_t generation)
{
    HWT_ASSERT(hwt_generation(hwt_entry_state(entry)) < generation);
    atomic_store_explicit(&entry->word.first,
                          generation << HWT_GENERATION_SHIFT | HWT_PHASE_RENEWED,
                          memory_order_release);
}

/* Release, as for every entry that becomes free, for readers by old handles. */
static inline void hwt_entry_end_renewal(struct hwt_entry *entry, uint64_t state)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_RENEWED);
    atomic_store_explicit(&entry->word.first, hwt_with_phase(state, HWT_PHASE_CANCELLED),
                          memory_order_release);
}

/* In a slab that is used again: the generations of the entry go on above this one. Relaxed: the
 * batch that the entry is in publishes it. */
static inline void hwt_entry_go_on_above(struct hwt_entry *entry, uint64_t generation)
{
    HWT_ASSERT(hwt_phase(hwt_entry_state(entry)) == HWT_PHASE_NEW);
    atomic_store_explicit(&entry->word.first, generation << HWT_GENERATION_SHIFT,
                          memory_order_relaxed);
}

/* ---- the rows of the table: where threads compete ---- */

/*
 * Each takes the state that the caller has read. If the deadline changes, or must not change, it
 * takes the deadline, too. False: another thread was first, and nothing has changed.
 *
 * An exchange acquires what was written before the state that it replaces, and releases what the
 * caller has written. Callers rely on these two. It is seq_cst because the exchange of two words
 * knows no weaker order. With one thread there is nobody to publish to, so the rows that it often
 * takes are relaxed stores.
 */
static inline bool hwt_entry_exchange(struct hwt_entry *entry, uint64_t state, uint64_t next,
                                      bool one_thread)
{
    if (!one_thread)
        return hwt_word_exchange_first(&entry->word, state, next);
    HWT_ASSERT(hwt_entry_state(entry) == state);
    atomic_store_explicit(&entry->word.first, next, memory_order_relaxed);
    return true;
}

static inline bool hwt_entry_exchange_both(struct hwt_entry *entry, uint64_t state,
                                           uint64_t deadline, uint64_t next, uint64_t next_deadline,
                                           bool one_thread)
{
    if (!one_thread)
        return hwt_word_exchange(&entry->word, state, deadline, next, next_deadline);
    HWT_ASSERT(hwt_entry_state(entry) == state && hwt_entry_deadline(entry) == deadline);
    if (next_deadline != deadline)
        atomic_store_explicit(&entry->word.second, next_deadline, memory_order_relaxed);
    if (next != state)
        atomic_store_explicit(&entry->word.first, next, memory_order_relaxed);
    return true;
}

static inline bool hwt_entry_move(struct hwt_entry *entry, uint64_t state, uint64_t deadline,
                                  uint64_t next_deadline, bool one_thread)
{
    HWT_ASSERT(hwt_state_pending(state));
    return hwt_entry_exchange_both(entry, state, deadline, state, next_deadline, one_thread);
}

/* With the deadline: the executor has the entry for the tick of this one. */
static inline bool hwt_entry_hand_over(struct hwt_entry *entry, uint64_t state, uint64_t deadline)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_PENDING && !(state & HWT_HANDED));
    return hwt_entry_exchange_both(entry, state, deadline, state | HWT_HANDED, deadline, false);
}

/* With the deadline: who moves the timeout from here on appends a record. */
static inline bool hwt_entry_take_back(struct hwt_entry *entry, uint64_t state, uint64_t deadline)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_PENDING && state & HWT_HANDED);
    return hwt_entry_exchange_both(entry, state, deadline, state & ~(uint64_t)HWT_HANDED, deadline,
                                   false);
}

/* With the deadline: the timeout was not moved since this deadline was found to have passed. */
static inline bool hwt_entry_begin_run(struct hwt_entry *entry, uint64_t state, uint64_t deadline,
                                       uint64_t *ret_running, bool one_thread)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_PENDING);
    *ret_running = hwt_with_phase(state & ~(uint64_t)HWT_HANDED, HWT_PHASE_RUNNING) | HWT_RAN;
    return hwt_entry_exchange_both(entry, state, deadline, *ret_running, deadline, one_thread);
}

/* From a state in which hwt_state_quiet() holds. */
static inline bool hwt_entry_try_cancel(struct hwt_entry *entry, uint64_t state, bool one_thread)
{
    HWT_ASSERT(hwt_state_quiet(state, hwt_generation(state)));
    return hwt_entry_exchange(entry, state, state + (HWT_PHASE_CANCELLED - HWT_PHASE_PENDING),
                              one_thread);
}

static inline bool hwt_entry_try_cancel_untold(struct hwt_entry *entry, uint64_t state)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_PENDING && state & (HWT_HANDED | HWT_HAS_CANCELLED));
    return hwt_entry_exchange(entry, state, hwt_with_phase(state, HWT_PHASE_UNTOLD), false);
}

/* From the very state that the adder has published. */
static inline bool hwt_entry_withdraw(struct hwt_entry *entry, uint64_t state)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_PENDING && !(state & (HWT_RAN | HWT_HANDED)));
    return hwt_entry_exchange(entry, state, hwt_with_phase(state, HWT_PHASE_CANCELLED), false);
}

static inline bool hwt_entry_begin_visit(struct hwt_entry *entry, uint64_t state)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_PENDING);
    return hwt_entry_exchange(entry, state, hwt_with_phase(state, HWT_PHASE_VISITED), false);
}

static inline bool hwt_entry_leave_over(struct hwt_entry *entry, uint64_t state)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_PENDING);
    return hwt_entry_exchange(entry, state, hwt_with_phase(state, HWT_PHASE_CANCELLED), false);
}

static inline bool hwt_entry_begin_telling(struct hwt_entry *entry, uint64_t state)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_UNTOLD);
    return hwt_entry_exchange(entry, state, hwt_with_phase(state, HWT_PHASE_CANCELLED), false);
}

/* With the deadline: who sees that it is pending again sees for when. */
static inline bool hwt_entry_rearm(struct hwt_entry *entry, uint64_t state, uint64_t deadline,
                                   uint64_t next_deadline, bool one_thread)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_RUNNING && !(state & HWT_BARRED));
    return hwt_entry_exchange_both(entry, state, deadline, state | HWT_REARMED, next_deadline,
                                   one_thread);
}

static inline bool hwt_entry_bar(struct hwt_entry *entry, uint64_t state)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_RUNNING);
    return hwt_entry_exchange(entry, state, state | HWT_BARRED, false);
}

/* The thread that ends the callback sees WAITED, or the waiter sees that it has ended. */
static inline bool hwt_entry_await(struct hwt_entry *entry, uint64_t state)
{
    HWT_ASSERT(hwt_state_in_callback(state));
    return hwt_entry_exchange(entry, state, state | HWT_WAITED, false);
}

/* The end of a run clears these. */
#define HWT_RUN_BITS ((uint64_t)(HWT_REARMED | HWT_BARRED | HWT_WAITED))

/* With the deadline: the runner has the timeout filed for this one. */
static inline bool hwt_entry_run_again(struct hwt_entry *entry, uint64_t state, uint64_t deadline,
                                       bool one_thread)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_RUNNING && hwt_state_pending(state));
    return hwt_entry_exchange_both(entry, state, deadline,
                                   hwt_with_phase(state & ~HWT_RUN_BITS, HWT_PHASE_PENDING),
                                   deadline, one_thread);
}

static inline bool hwt_entry_end_barred(struct hwt_entry *entry, uint64_t state)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_RUNNING && state & HWT_REARMED && state & HWT_BARRED);
    return hwt_entry_exchange(entry, state,
                              hwt_with_phase(state & ~HWT_RUN_BITS, HWT_PHASE_CANCELLED), false);
}

/* The first ends a run that nobody has marked, the second any run that is not re-armed. */
static inline bool hwt_entry_expire(struct hwt_entry *entry, uint64_t state, bool one_thread)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_RUNNING && !(state & HWT_RUN_BITS));
    return hwt_entry_exchange(entry, state, hwt_with_phase(state, HWT_PHASE_EXPIRED), one_thread);
}

static inline bool hwt_entry_expire_marked(struct hwt_entry *entry, uint64_t state)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_RUNNING && !(state & HWT_REARMED));
    return hwt_entry_exchange(entry, state,
                              hwt_with_phase(state & ~HWT_RUN_BITS, HWT_PHASE_EXPIRED), false);
}

static inline bool hwt_entry_end_visit(struct hwt_entry *entry, uint64_t state)
{
    HWT_ASSERT(hwt_phase(state) == HWT_PHASE_VISITED);
    return hwt_entry_exchange(
        entry, state, hwt_with_phase(state & ~(uint64_t)HWT_WAITED, HWT_PHASE_CANCELLED), false);
}

#endif
