/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A hint comes from a record, and whether it is still wanted from the entry: another thread cancels a
 * timeout, uses its entry for the next one at once, and tells the worker of that one only; or, with
 * -DMOVES, moves it to an earlier instant. On hwt/pool/entry.h, stream.[ch] and hwt/base/word.c as
 * they are; what hwt_worker_wanted() and hwt_pending_stays() ask is copied from file.c and lane.c.
 *
 * Verified: the worker that has read a record finds the entry not older than that. So it never throws
 * away the hint that it has just filed, and files what was moved for the earlier instant. What is not
 * wanted any more never is again.
 */

#include <assert.h>
#include <pthread.h>
#include <sched.h>

#include "hwt/base/word.c"
#include "pieces.h"

#include "hwt/inbox/stream.c"
#include "hwt/pool/entry.h"

static struct hwt_stream stream;
static struct hwt_entry entry;
static int first, second;

static void run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static const hwt_task task = { .run = run };

static void *other(void *arg)
{
    uint64_t state = hwt_entry_state(&entry);
    (void)arg;
#ifdef MOVES
    (void)hwt_entry_move(&entry, state, 9, 5, false);
#else
    (void)hwt_entry_try_cancel(&entry, state, false);
    state = hwt_entry_begin(&entry, &task, &second, 5);
#endif
    hwt_stream_append(&stream, (struct hwt_record){ 5, 0, (uint32_t)hwt_generation(state) });
    return NULL;
}

/* Of whatever use. */
static bool is_wanted(void)
{
    return hwt_phase(hwt_entry_state(&entry)) == HWT_PHASE_PENDING;
}

static bool is_pending(uint32_t generation)
{
    uint64_t state = hwt_entry_state(&entry);
    return hwt_phase(state) == HWT_PHASE_PENDING && (uint32_t)hwt_generation(state) == generation;
}

static struct hwt_stream_filter nothing; /* GenMC cannot read one that is made here */

int main(void)
{
    pthread_t thread;
    const struct hwt_record *records;
    hwt_stream_init(&stream, NULL);
    (void)hwt_stream_grow(&stream, nothing);
    hwt_entry_begin(&entry, &task, &first, 9);
    pthread_create(&thread, NULL, other, NULL);

    bool wanted = is_wanted();
    if (hwt_stream_peek(&stream, &records) > 0) {
        assert(is_wanted() && is_pending(records[0].generation));
        assert(hwt_entry_deadline(&entry) <= records[0].deadline);
    }
    assert(wanted || !is_pending(1));

    pthread_join(thread, NULL);
    return 0;
}
