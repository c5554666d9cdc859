/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The jobs of a store, which its callers need not wait for. See pool.h. */

#include "hwt/delay/whole.h"

void hwt_delay_jobs_init(hwt_delay *store, void (*changed)(hwt_delay *store, int reason),
                         int (*checkpoint)(hwt_delay *store))
{
    store->jobs.changed = changed;
    store->jobs.checkpoint = checkpoint;
}

void hwt_delay_changed(hwt_delay *store, int reason)
{
    store->jobs.changed(store, reason);
}

int hwt_delay_checkpoint_now(hwt_delay *store)
{
    return store->jobs.checkpoint(store);
}

int hwt_delay_jobs_begin(hwt_delay *store, uint64_t (*const runs[HWT_DELAY_LANES])(void *arg))
{
    struct hwt_delay_jobs *jobs = &store->jobs;
    int r = hwt_delay_pool_enter(&jobs->pool);
    if (r < 0)
        return r;
    for (int i = 0; i < HWT_DELAY_LANES; i++)
        hwt_delay_job_begin(&jobs->all[i], jobs->pool, i, runs[i], store);
    return 0;
}

/* Without the lock: waits for runs that are under way. */
void hwt_delay_jobs_end(hwt_delay *store)
{
    struct hwt_delay_jobs *jobs = &store->jobs;
    if (!jobs->pool)
        return;
    for (int i = 0; i < HWT_DELAY_LANES; i++)
        hwt_delay_job_end(&jobs->all[i]);
    hwt_delay_pool_leave(jobs->pool);
}

bool hwt_delay_has_jobs(const hwt_delay *store)
{
    return store->jobs.pool;
}

void hwt_delay_want(hwt_delay *store, enum hwt_delay_lane lane)
{
    hwt_delay_job_want(&store->jobs.all[lane]);
}

void hwt_delay_want_in(hwt_delay *store, enum hwt_delay_lane lane, uint64_t delay)
{
    hwt_delay_job_at(&store->jobs.all[lane], delay);
}

/* ---- a checkpoint ---- */

/* Called where something begins to be missing. */
void hwt_delay_room_soon(hwt_delay *store)
{
    hwt_delay_want_in(store, HWT_DELAY_CHECKPOINT, HWT_SEC(1));
}

/*
 * While one is wanted, the job is queued, or has not come to it yet. So the pool's lock need not be
 * taken again.
 */
void hwt_delay_checkpoint_want(hwt_delay *store)
{
    if (store->jobs.checkpoint_wanted)
        return;
    store->jobs.checkpoint_wanted = true;
    hwt_delay_want(store, HWT_DELAY_CHECKPOINT);
}

bool hwt_delay_checkpoint_is_wanted(const hwt_delay *store)
{
    return store->jobs.checkpoint_wanted;
}

/* A run begins. If the job is wanted from now on, it runs once more. */
void hwt_delay_checkpoint_begins(hwt_delay *store)
{
    store->jobs.checkpoint_wanted = false;
}
