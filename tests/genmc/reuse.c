/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An old handle is asked while its entry is cancelled, lies in the pool, and serves another timeout:
 * on hwt/pool/entry.h, slab.h, hwt/base/stack.c and word.c as they are; what hwt_timeout_get() does is
 * copied from query.c.
 *
 * Verified: what is told belongs to the handle's own timeout.
 */

#include <assert.h>
#include <pthread.h>
#include <sched.h>

#include "hwt/base/word.c"
#include "hwt/base/stack.c"
#include "hwt/pool/slab.h"

static struct hwt_entry entry;
static struct hwt_word batches;
static int first, second;

static void run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static const hwt_task task_1 = { .run = run }, task_2 = { .run = run };

static void *use_again(void *arg)
{
    (void)arg;
    uint64_t state = hwt_entry_state(&entry);
    (void)hwt_entry_try_cancel(&entry, state, false);
#ifndef AT_ONCE
    hwt_entry_link(&entry, NULL);
    hwt_entry_set_count(&entry, 1);
    hwt_stack_push(&batches, &entry.word.second, 1);
#endif
    hwt_entry_begin(&entry, &task_2, &second, 12);
    return NULL;
}

static bool is_pending(void)
{
    uint64_t state = hwt_entry_state(&entry);
    return hwt_generation(state) == 1 && hwt_state_pending(state);
}

int main(void)
{
    pthread_t thread;
    hwt_entry_begin(&entry, &task_1, &first, 11);
    pthread_create(&thread, NULL, use_again, NULL);
    if (is_pending()) {
        uint64_t deadline = hwt_entry_deadline(&entry);
        const hwt_task *task = hwt_entry_task(&entry);
        void *arg = hwt_entry_arg(&entry);
        if (is_pending())
            assert(deadline == 11 && task == &task_1 && arg == &first);
    }
    pthread_join(thread, NULL);
    return 0;
}
