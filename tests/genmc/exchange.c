/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The exchange of a state and its deadline by three threads: one moves a timeout, one cancels it and
 * uses its entry again, and the worker runs it. On hwt/pool/entry.h and hwt/base/word.c as they are:
 * the variant with locks, for GenMC has no 16-byte exchange.
 *
 * Verified: run or cancelled, not both; the worker runs it for the deadline that it was moved to
 * last, and sees what the mover and the adder wrote before.
 */

#include <assert.h>
#include <pthread.h>
#include <sched.h>

#include "hwt/base/word.c"
#include "hwt/pool/entry.h"

static struct hwt_entry entry;
static int first, second;
static int tried, moved, cancelled, ran;

static void run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static const hwt_task task = { .run = run };

static void *move(void *arg)
{
    (void)arg;
    uint64_t state = hwt_entry_state(&entry);
    uint64_t deadline = hwt_entry_deadline(&entry);
    if (!hwt_state_queued(state, 1))
        return NULL;
    tried = 1;
    moved = hwt_entry_move(&entry, state, deadline, 3, false);
    return NULL;
}

static void *cancel(void *arg)
{
    (void)arg;
    uint64_t state = hwt_entry_state(&entry);
    if (!hwt_state_queued(state, 1) || !hwt_entry_try_cancel(&entry, state, false))
        return NULL;
    cancelled = 1;
    hwt_entry_begin(&entry, &task, &second, 7);
    return NULL;
}

int main(void)
{
    pthread_t mover, canceller;
    hwt_entry_begin(&entry, &task, &first, 5);
    pthread_create(&mover, NULL, move, NULL);
    pthread_create(&canceller, NULL, cancel, NULL);

    uint64_t state = hwt_entry_state(&entry);
    uint64_t deadline = hwt_entry_deadline(&entry), running;
    if (hwt_phase(state) == HWT_PHASE_PENDING &&
        hwt_entry_begin_run(&entry, state, deadline, &running, false)) {
        ran = (int)hwt_generation(state);
        assert(deadline == (ran == 1 ? 5 : 7) || (ran == 1 && deadline == 3 && tried));
        assert(hwt_entry_arg(&entry) == (ran == 1 ? &first : &second));
    }

    pthread_join(mover, NULL);
    pthread_join(canceller, NULL);
    assert(!(ran == 1 && cancelled));
    assert(!(ran == 1 && moved) || deadline == 3);
    return 0;
}
