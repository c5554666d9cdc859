/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Who waits for a frame, and who leads.
 *
 * A call that waits for its frame leads if nobody does, and else sleeps. Those whose frame is done
 * return without the lock, because 64 threads that are woken at once would only queue for it.
 * Threads that are woken and may have to lead, or to tell of a poisoned store, take it.
 *
 * A call that was woken mostly comes back at once with the next change. A leader that wrote its
 * frame before that would write two frames in the place of one, each with half of the callers. So
 * it lingers until as many wait as waited when the last frame was done, or for four times as long
 * as the last flush took, but for a millisecond at most. That is in vain if the callers do not come
 * back. Each time that it is, more frames follow before which no leader lingers, up to 255.
 *
 * WHO MAY TOUCH WHAT
 *
 * All is guarded by the store's lock, and two things are read without it:
 *   - durable_frame, by those that were asleep. It is written once the frame is on the disk, with
 *     release, and read with acquire. So whatever the leader did before, the flush too, is before
 *     what its caller does next. Who does not see it yet takes the lock, and sees it then.
 *   - turns, by the kernel: a thread reads its frame's with the lock, while somebody leads, and
 *     sleeps without the lock if it is the same. Whoever has stopped leading, or poisons the store,
 *     counts it up with the lock, and makes the system call that wakes after that; so nobody sleeps
 *     through it. Relaxed, since the lock orders it and the kernel orders its own look. turns and
 *     callers are by the frame's number modulo 2, because two frames at most are waited for: the
 *     one that is written, and the one that is gathered.
 */

#include <errno.h>

#include "hwt/base/time.h"
#include "hwt/delay/base/futex.h"
#include "hwt/delay/whole.h"

#define LINGER_MOST HWT_MS(1)
enum { FLUSHES_MOST = 4, VAIN_MOST = 8 };

/* With the lock, or without. */
bool hwt_delay_log_frame_is_durable(const hwt_delay *store, uint64_t frame)
{
    return atomic_load_explicit(&store->log.durable_frame, memory_order_acquire) >= frame;
}

/* ---- turns ---- */

/* Nobody leads any more. Those whose frame is done are to return, and one of the others is to
 * lead. */
void hwt_delay_turns_end(hwt_delay *store)
{
    for (unsigned i = 0; i < 2; i++)
        atomic_fetch_add_explicit(&store->log.turns[i], 1, memory_order_relaxed);
}

/* After that; without the lock, for which they would have to wait else. */
void hwt_delay_turns_wake(hwt_delay *store, uint64_t frame)
{
    hwt_delay_wake_one_on(&store->log.turns[(frame + 1) & 1]);
    hwt_delay_wake_all_on(&store->log.turns[frame & 1]);
}

/* The store is poisoned. */
void hwt_delay_turns_wake_all(hwt_delay *store)
{
    hwt_delay_turns_end(store);
    for (unsigned i = 0; i < 2; i++)
        hwt_delay_wake_all_on(&store->log.turns[i]);
}

/* Somebody leads. Lets go of the lock. */
static void sleep_until_turn(hwt_delay *store, uint64_t frame)
{
    _Atomic uint32_t *turn = &store->log.turns[frame & 1];
    uint32_t seen = atomic_load_explicit(turn, memory_order_relaxed);
    pthread_mutex_unlock(&store->lock);
    hwt_delay_sleep_on(turn, seen);
}

/* ---- lingering ---- */

void hwt_delay_callers_expect(hwt_delay *store, uint64_t frame)
{
    struct hwt_delay_log *log = &store->log;
    log->expected = log->callers[0] + log->callers[1];
    log->callers[frame & 1] = 0;
}

/* Somebody waits for the frame that is gathered, and it is not for more callers. */
void hwt_delay_log_hurry(hwt_delay *store)
{
    store->log.expected = 0;
    pthread_cond_signal(&store->log.complete);
}

static void count_caller(hwt_delay *store, uint64_t frame)
{
    struct hwt_delay_log *log = &store->log;
    if (++log->callers[frame & 1] >= log->expected)
        pthread_cond_signal(&log->complete);
}

/* Whether it was worth it is what the next leaders go by. */
static void note_lingered(struct hwt_delay_log *log, bool in_vain)
{
    if (in_vain)
        log->vain = log->vain + 2 < VAIN_MOST ? log->vain + 2 : VAIN_MOST;
    else
        log->vain -= log->vain > 0;
    log->hasty = (1U << log->vain) - 1;
}

/* Nobody leads. Lets go of the lock meanwhile. */
static void linger(hwt_delay *store, uint64_t frame)
{
    struct hwt_delay_log *log = &store->log;
    const unsigned *callers = &log->callers[frame & 1];
    if (*callers >= log->expected)
        return;
    if (log->hasty > 0) {
        log->hasty--;
        return;
    }
    uint64_t most = FLUSHES_MOST * log->flush_took;
    most = most < LINGER_MOST ? most : LINGER_MOST;
    const struct timespec until = hwt_timespec(hwt_delay_monotonic() + most);
    int r = 0;
    log->led = true;
    while (*callers < log->expected && r == 0)
        r = pthread_cond_timedwait(&log->complete, &store->lock, &until);
    log->led = false;
    note_lingered(log, *callers < log->expected);
}

/* ---- waiting ---- */

/* Until a frame is on the disk. Lets go of the lock. */
int hwt_delay_log_leave(hwt_delay *store, uint64_t frame)
{
    struct hwt_delay_log *log = &store->log;
    for (bool counted = false;; counted = true) {
        bool durable = hwt_delay_log_frame_is_durable(store, frame);
        if (durable || store->poisoned) {
            pthread_mutex_unlock(&store->lock);
            return durable ? 0 : -EIO;
        }
        if (!counted)
            count_caller(store, frame);
        if (log->led) {
            sleep_until_turn(store, frame);
        } else {
            linger(store, frame);
            hwt_delay_log_lead_and_leave(store);
        }
        if (hwt_delay_log_frame_is_durable(store, frame))
            return 0;
        pthread_mutex_lock(&store->lock);
    }
}

/* The same, and has the lock again. */
int hwt_delay_log_wait(hwt_delay *store, uint64_t frame)
{
    int r = hwt_delay_log_leave(store, frame);
    pthread_mutex_lock(&store->lock);
    return r;
}
