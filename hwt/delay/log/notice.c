/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Notices call back the callers that did not wait, when their frame is on the disk or will not be.
 * One thread calls them, in the order of the frames.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

void hwt_delay_notices_take(struct hwt_delay_notices *from, struct hwt_delay_notices *notices)
{
    STAILQ_INIT(notices);
    STAILQ_CONCAT(notices, from);
}

static void tell(struct hwt_delay_notices *notices)
{
    struct hwt_delay_notice *notice;
    while ((notice = STAILQ_FIRST(notices))) {
        STAILQ_REMOVE_HEAD(notices, link);
        notice->durable(notice->result, notice->arg);
        free(notice);
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
    while (!STAILQ_EMPTY(&log->to_tell)) {
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
    struct hwt_delay_notice *notice;
    if (STAILQ_EMPTY(notices))
        return;
    if (result < 0) {
        STAILQ_FOREACH(notice, notices, link)
        {
            notice->result = -EIO;
        }
    }
    STAILQ_CONCAT(&store->log.to_tell, notices);
    if (store->synchronous)
        tell_all(store);
    else
        hwt_delay_want(store, HWT_DELAY_COMMIT);
}

/* The batch is in the log, if anything was made. Its notice is told behind those before it. */
void hwt_delay_notices_add(hwt_delay *store, struct hwt_delay_notice *notice)
{
    struct hwt_delay_log *log = &store->log;
    bool wanted = !STAILQ_EMPTY(&log->notices); /* by the first of them */
    STAILQ_INSERT_TAIL(&log->notices, notice, link);
    if (store->synchronous)
        hwt_delay_log_lead(store);
    else if (!wanted)
        hwt_delay_want(store, HWT_DELAY_COMMIT);
}

/* The job that writes what nobody waits for, and calls back. */
uint64_t hwt_delay_log_commit(void *arg)
{
    hwt_delay *store = arg;
    pthread_mutex_lock(&store->lock);
    tell_all(store);
    /* While another thread writes a frame, that one wants this job when it has. */
    if (!store->log.led && !STAILQ_EMPTY(&store->log.notices))
        hwt_delay_log_lead(store);
    pthread_mutex_unlock(&store->lock);
    return HWT_NEVER;
}
