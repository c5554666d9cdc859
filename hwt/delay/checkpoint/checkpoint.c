/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A checkpoint brings the FRESH records to slots, so that the log can be written anew.
 *
 * The snapshot is taken between two frames, under the lock: what the log says up to a sequence,
 * nothing more, nothing less. Everything after that is without the lock, but for the steps that
 * change the table and the list of slots.
 *
 * On the disk, in this order:
 *   1. the log up to the snapshot (nobody may rely on a record that its frame has not brought)
 *   2. the runs in the slots, then the names of new slots
 *   3. checkpoint.next, whole; its name becomes `checkpoint`; the directory
 *   4. only now: slots that it does not name are deleted, segments that it does not need are written
 *
 * What slots still have of which much is dead goes with the snapshot to other slots; see rewrite.c.
 *
 * Where the disk is full, the reserve is given up, a file as long as a segment that is there for
 * this alone, and the checkpoint is tried once more: then the log can take what is cancelled and
 * done for a long time. Puts are refused until there is a reserve again.
 *
 * Where that is not enough either, step 2 is undone, and the records stay in memory and in the log.
 * A checkpoint that leaves the log where it is, and only says how far the slots have been handed
 * over, is written in its place, so that slots which are done with make room. The room for that is
 * set aside when the one before it is finished.
 *
 * Where memory or descriptors are missing, step 2 is undone too. Callers that waited for the
 * checkpoint get the error, and it is tried again a second later.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

/* ---- on a full disk ---- */

/* The log stays, so records that are FRESH, but older than it, must be whole in the checkpoint. */
static int publish_old(hwt_delay *store)
{
    struct hwt_delay_snapshot *snapshot = &store->checkpoint.snapshot;
    for (size_t i = 0; i < snapshot->count; i++) {
        struct hwt_delay_record *record = snapshot->records[i];
        if (record->kind != HWT_DELAY_PUT || hwt_delay_log_keeps(store, record->key.sequence))
            continue;
        pthread_mutex_lock(&store->lock);
        record->refs++;
        pthread_mutex_unlock(&store->lock);
        snapshot->whole[snapshot->whole_count++] = record;
    }
    snapshot->brings = false;
    snapshot->from = hwt_delay_log_kept(store);
    return hwt_delay_publish(store);
}

/* ---- the end ---- */

/* The checkpoint is on the disk, so slots and log are what it says. */
static void conclude(hwt_delay *store, const struct hwt_delay_plan *plan)
{
    const struct hwt_delay_snapshot *snapshot = &store->checkpoint.snapshot;
    hwt_delay_slots_lock(store);
    hwt_delay_plan_conclude(store, plan);
    hwt_delay_slots_conclude(store);
    hwt_delay_evict(store);
    hwt_delay_handed_conclude(store);
    hwt_delay_drops_conclude(store);
    hwt_delay_slots_unlock(store);
    hwt_delay_log_keep(store, snapshot->from);
    hwt_delay_log_shed(store, snapshot->kept_bytes, snapshot->tombstone_bytes);
    store->stuck = 0;
    store->checkpoint.rebuilt = false;
    store->stats.checkpoints++;
}

/* The checkpoint on the disk does not name them. */
void hwt_delay_delete_finished(hwt_delay *store)
{
    if (store->checkpoint.copies > 0)
        return;
    struct hwt_delay_slot *slot;
    while ((slot = hwt_delay_finished_first(store))) {
        char name[HWT_DELAY_NAME_MAX];
        hwt_delay_slot_name(slot, name);
        pthread_mutex_unlock(&store->lock);
        /* One that stays is deleted at the next opening. */
        hwt_delay_unlink(store, name);
        pthread_mutex_lock(&store->lock);
        hwt_delay_finished_free(store, slot);
    }
}

/* Without the lock. */
static int write_out(hwt_delay *store, struct hwt_delay_plan *plan, int *ret_old)
{
    hwt_delay_rewrite(store);
    int r = hwt_delay_plan_write(store, plan);
    if (r == 0)
        r = hwt_delay_publish(store);
    if (r == 0)
        return 0;
    /* After any other failure the disk may have either checkpoint, so both must find their
     * bytes. */
    if (hwt_delay_is_full(r) || hwt_delay_is_shortage(r))
        hwt_delay_plan_undo(store, plan);
    /* A state that was rebuilt is whole only with numbers that were not given before. */
    if (hwt_delay_is_full(r) && !store->checkpoint.rebuilt)
        *ret_old = publish_old(store);
    return r;
}

static int make(hwt_delay *store)
{
    int r = hwt_delay_snapshot_get(store);
    if (r == 0)
        r = hwt_delay_log_wait(store, store->checkpoint.snapshot.frame);
    if (r < 0)
        return r;
    struct hwt_delay_plan plan = { 0 };
    int old = -ENOSPC; /* what became of the checkpoint that leaves the log where it is */
    pthread_mutex_unlock(&store->lock);
    r = write_out(store, &plan, &old);
    pthread_mutex_lock(&store->lock);
    if (r == 0) {
        conclude(store, &plan);
        hwt_delay_extent_shrink(store, store->checkpoint.snapshot.extent);
    } else if (old == 0) {
        hwt_delay_slots_await(store);
        hwt_delay_slots_conclude(store);
    }
    free(plan.parts);
    if ((r < 0 && !hwt_delay_is_full(r) && !hwt_delay_is_shortage(r)) ||
        (old < 0 && !hwt_delay_is_full(old) && !hwt_delay_is_shortage(old)))
        hwt_delay_poison(store);
    else if (r == 0 || old == 0)
        hwt_delay_delete_finished(store);
    return r;
}

/* ---- with the reserve ---- */

/* Once more, with the room of the reserve. */
static int make_with_reserve(hwt_delay *store)
{
    store->full = true;
    pthread_mutex_unlock(&store->lock);
    hwt_delay_reserve_give_up(store);
    pthread_mutex_lock(&store->lock);
    int r = make(store);
    hwt_delay_snapshot_free(store);
    return r;
}

/* The disk may have room again. A frame that is written meanwhile may give the reserve up. */
static void make_good(hwt_delay *store)
{
    unsigned given_up = store->given_up;
    pthread_mutex_unlock(&store->lock);
    bool taken = hwt_delay_reserve_take(store, hwt_delay_log_extent(store));
    pthread_mutex_lock(&store->lock);
    store->full = !taken || store->given_up != given_up;
}

/* Something is missing, and the checkpointer looks for it every second. */
static bool is_short(const hwt_delay *store)
{
    return store->full || store->stuck != 0;
}

/*
 * Makes a checkpoint. Lets go of the lock meanwhile, and waits for one that is being made. -ENOSPC;
 * -EIO; -ENOMEM, -EMFILE, -ENFILE: all is as it was
 */
int hwt_delay_checkpoint_make(hwt_delay *store)
{
    hwt_delay_log_pin(store);
    if (store->poisoned) {
        hwt_delay_log_unpin(store);
        return -EIO;
    }
    bool was_short = is_short(store);
    hwt_delay_checkpoint_begins(store);
    int r = make(store);
    hwt_delay_snapshot_free(store);
    if (hwt_delay_is_full(r) && !store->full)
        r = make_with_reserve(store);
    if (hwt_delay_is_full(r) || hwt_delay_is_shortage(r))
        store->stuck = hwt_delay_is_full(r) ? -ENOSPC : r;
    else if (r == 0 && store->full)
        make_good(store);
    hwt_delay_log_unpin(store);
    hwt_delay_want(store, HWT_DELAY_LOAD); /* there may be more in the slots */
    if (!was_short && is_short(store))
        hwt_delay_room_soon(store);
    if (hwt_delay_has_jobs(store) && r == 0 && store->checkpoint.rewriting)
        hwt_delay_checkpoint_want(store);
    if (store->poisoned)
        return -EIO;
    return hwt_delay_is_full(r) ? -ENOSPC : r;
}

int hwt_delay_checkpoint(hwt_delay *store)
{
    if (!store)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    int shield = hwt_delay_enter(store);
    int r = hwt_delay_checkpoint_make(store);
    hwt_delay_leave(store, shield);
    return r;
}

/*
 * Is there room again, or what else was missing? On a full disk a checkpoint is made only where it
 * may give room itself (true), because each may need a new slot, which would use the room up that
 * cancels need.
 */
static bool look_for_room(hwt_delay *store)
{
    if (store->stuck != 0 || hwt_delay_passed_bytes(store) > 0)
        return true;
    if (store->full && !hwt_delay_log_is_pinned(store)) {
        hwt_delay_log_pin(store);
        make_good(store);
        hwt_delay_log_unpin(store);
    }
    return false;
}

/* A log that is long for nothing is looked at now and then, until it is short. */
static uint64_t watch(hwt_delay *store)
{
    store->checkpoint.watched = hwt_delay_log_may_shrink(store);
    store->checkpoint.quiet_since = hwt_delay_log_next(store);
    return store->checkpoint.watched ? HWT_DELAY_QUIET : HWT_NEVER;
}

/*
 * The job that makes them, and a longer log. It tries again every second if something is missing.
 * It makes one, too, when nothing has been left for a while, to give the log's disk back, and where
 * opening has found that one is worth while.
 */
uint64_t hwt_delay_checkpointer(void *arg)
{
    hwt_delay *store = arg;
    pthread_mutex_lock(&store->lock);
    bool quiet = store->checkpoint.watched &&
                 store->checkpoint.quiet_since == hwt_delay_log_next(store) &&
                 !hwt_delay_extent_is_wanted(store) && hwt_delay_log_may_shrink(store);
    bool due = !is_short(store) && hwt_delay_checkpoint_is_due(store);
    bool gives_room = !hwt_delay_checkpoint_is_wanted(store) && is_short(store) &&
                      !store->poisoned && look_for_room(store);
    if (hwt_delay_extent_is_wanted(store))
        hwt_delay_extent_grow(store);
    if ((hwt_delay_checkpoint_is_wanted(store) || due || gives_room || quiet) && !store->poisoned)
        hwt_delay_checkpoint_make(store);
    uint64_t delay = store->poisoned ? HWT_NEVER : is_short(store) ? HWT_SEC(1) : watch(store);
    pthread_mutex_unlock(&store->lock);
    return delay;
}

/* Finished slots are not deleted while a copy is being made. */
void hwt_delay_copies_add(hwt_delay *store, int more)
{
    store->checkpoint.copies += more;
}

/* Opening has rebuilt the state out of slots and skipped numbers, and no checkpoint on the disk has
 * that. */
void hwt_delay_set_rebuilt(hwt_delay *store)
{
    store->checkpoint.rebuilt = true;
}

bool hwt_delay_is_rebuilt(const hwt_delay *store)
{
    return store->checkpoint.rebuilt;
}
