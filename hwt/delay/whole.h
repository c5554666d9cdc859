/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_WHOLE_H
#define HWT_DELAY_WHOLE_H

/*
 * A store consists of the structs of its rooms, and of what is about all of it. A room's struct is
 * touched in that room alone.
 *
 * WHO MAY TOUCH WHAT
 *
 * `lock` guards everything here, unless it is said to be frozen, which is set at opening and does
 * not change. Three things belong to one thread at a time, which may use them without the lock:
 *   - log.writing_bytes and the log's files: the leader's (log/log.c);
 *   - the readers of the slots, and slots.aside: of whoever has locked the slots (hwt_delay_slots_lock()). Nobody else looks at
 *     them, with `lock` or without. That thread alone changes `next`, `highest` and `length` of a slot, with `lock`, so it may
 *     read them without;
 *   - the slots' files, the checkpoint's and the log's length: of whoever has pinned the log
 * (hwt_delay_log_pin()). Those that wait for a frame look at log.durable_frame without it, and
 * sleep on log.turns (log/wait.c). The bytes of a record do not change once it is in the table. No
 * file is read or written under `lock`, unless the store is synchronous or is being opened.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "hwt/base/shield.h"
#include "hwt/delay/api/takes.h"
#include "hwt/delay/api/found.h"
#include "hwt/delay/base/cond.h"
#include "hwt/delay/base/jobs.h"
#include "hwt/delay/base/options.h"
#include "hwt/delay/checkpoint/checkpoint.h"
#include "hwt/delay/disk/clock.h"
#include "hwt/delay/disk/disk.h"
#include "hwt/delay/disk/format.h"
#include "hwt/delay/log/log.h"
#include "hwt/delay/open/open.h"
#include "hwt/delay/slots/slots.h"
#include "hwt/delay/table/table.h"

struct hwt_delay {
    bool synchronous, read_only, salvage, not_durable; /* frozen */
    hwt_delay_options options;                         /* frozen */
    uint64_t key;                                      /* frozen; not 0 */
    pthread_mutex_t lock;
    pthread_cond_t
        changed;       /* who may lock the slots or pin the log, and room in the log or in memory */
    bool standby;      /* nothing is loaded, and takes are refused, until hwt_delay_lead() */
    bool poisoned;     /* what the disk has is not known: every call is -EIO */
    bool full;         /* there is no reserve: puts are refused */
    unsigned given_up; /* so many frames were written with the room of the reserve */
    int stuck;         /* what the last checkpoint failed with, which will be tried again: -ENOSPC,
                  -ENOMEM, -EMFILE, -ENFILE; 0 */

    struct hwt_delay_jobs jobs;
    struct hwt_delay_disk disk;
    struct hwt_delay_clock clock;
    struct hwt_delay_table table;
    struct hwt_delay_log log;
    struct hwt_delay_slots slots;
    struct hwt_delay_checkpoint checkpoint;
    struct hwt_delay_takes takes;

    hwt_delay_stats stats;       /* the counters in it, but for those of the disk */
    _Atomic uint64_t slot_bytes; /* counted without the lock */
};

/* A call of the public header takes the lock. Its thread does not end in it by pthread_cancel(). */
static inline int hwt_delay_enter(hwt_delay *store)
{
    int shield = hwt_shield();
    pthread_mutex_lock(&store->lock);
    return shield;
}

static inline void hwt_delay_leave(hwt_delay *store, int shield)
{
    pthread_mutex_unlock(&store->lock);
    hwt_unshield(shield);
}

/* Long work under the lock lets go of it after so many records. */
#define HWT_DELAY_CHUNK 512

static inline void hwt_delay_yield(hwt_delay *store)
{
    pthread_mutex_unlock(&store->lock);
    sched_yield();
    pthread_mutex_lock(&store->lock);
}

#endif
