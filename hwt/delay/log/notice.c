/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Notices call back the callers that did not wait, when their frame is on the disk or will not be.
 * One thread calls them, in the order of the frames.
 *
 * A frame has its notices in blocks of many. If each were an allocation, it would lie between two
 * records in memory, so free() could not join the records that a checkpoint lets go of. Then the
 * next malloc() would go through thousands of pieces, which takes milliseconds.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

void hwt_delay_notices_take(struct hwt_delay_notices *from, struct hwt_delay_notices *notices)
{
    TAILQ_INIT(notices);
    TAILQ_CONCAT(notices, from, link);
}

static void tell(struct hwt_delay_notices *notices)
{
    struct hwt_delay_notice_block *block;
    while ((block = TAILQ_FIRST(notices))) {
        TAILQ_REMOVE(notices, block, link);
        for (unsigned i = 0; i < block->count; i++)
            block->all[i].durable(block->result, block->all[i].arg);
        free(block);
    }
}

/* Calls back, without the lock. Changes that a callback makes are told in a later round. */
static void tell_all(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    struct hwt_delay_notices notices;
    if (log->telling)
        return;
    log->telling = true;
    while (!TAILQ_EMPTY(&log->to_tell)) {
        hwt_delay_notices_take(&log->to_tell, &notices);
        pthread_mutex_unlock(&store->lock);
        tell(&notices);
        pthread_mutex_lock(&store->lock);
    }
    log->telling = false;
    pthread_cond_broadcast(&store->changed);
}

/*
 * Their frame is on the disk, or will not be. The committer tells them, and nobody else. A callback
 * may put, and so wait for a frame or a checkpoint, whose thread must not be the one that waits.
 */
void hwt_delay_notices_pass(hwt_delay *store, struct hwt_delay_notices *notices, int result)
{
    struct hwt_delay_notice_block *block;
    if (TAILQ_EMPTY(notices))
        return;
    if (result < 0) {
        TAILQ_FOREACH(block, notices, link)
        {
            block->result = -EIO;
        }
    }
    TAILQ_CONCAT(&store->log.to_tell, notices, link);
    if (store->synchronous)
        tell_all(store);
    else
        hwt_delay_want(store, HWT_DELAY_COMMIT);
}

static struct hwt_delay_notice_block *last_of(const struct hwt_delay_log *log)
{
    return TAILQ_LAST(&log->notices, hwt_delay_notices);
}

/* There will be room for one more notice, until the lock is let go of. -ENOMEM */
int hwt_delay_notices_reserve(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    struct hwt_delay_notice_block *block = last_of(log);
    if (block && block->count < HWT_DELAY_NOTICES)
        return 0;
    block = malloc(sizeof(*block));
    if (!block)
        return -ENOMEM;
    block->result = 0;
    block->count = 0;
    TAILQ_INSERT_TAIL(&log->notices, block, link);
    return 0;
}

/* The batch is in the log, if anything was made. Its notice is told behind those before it. */
void hwt_delay_notices_add(hwt_delay *store, struct hwt_delay_notice notice)
{
    struct hwt_delay_notice_block *block = last_of(&store->log);
    bool first = block->count == 0 && block == TAILQ_FIRST(&store->log.notices);
    block->all[block->count++] = notice;
    if (store->synchronous)
        hwt_delay_log_lead(store);
    else if (first) /* the job calls the others back, too */
        hwt_delay_want(store, HWT_DELAY_COMMIT);
}

/* The job that writes what nobody waits for, and calls back. */
uint64_t hwt_delay_log_commit(void *arg)
{
    hwt_delay *store = arg;
    pthread_mutex_lock(&store->lock);
    tell_all(store);
    /* While another thread writes a frame, that one wants this job when it has. */
    if (!store->log.led && !TAILQ_EMPTY(&store->log.notices))
        hwt_delay_log_lead(store);
    pthread_mutex_unlock(&store->lock);
    return HWT_NEVER;
}
