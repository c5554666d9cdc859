/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Snapshots: what a checkpoint is to write. Taken under the lock between two frames, by the leader that
 * has just taken what was gathered, or where nothing is gathered: so the table is what the log
 * says up to a sequence, and nothing of what comes after it. A snapshot holds references.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/store.h"

static void collect_fresh(hwt_delay *store, struct hwt_delay_snapshot *snapshot)
{
    struct hwt_delay_record *record;
    while ((record = TAILQ_FIRST(&store->fresh))) {
        record->refs++;
        hwt_delay_set_state(store, record, HWT_DELAY_FLUSHING);
        snapshot->records[snapshot->count++] = record;
    }
}

static void collect_leased(hwt_delay *store, struct hwt_delay_snapshot *snapshot)
{
    struct hwt_delay_lease *lease;
    RB_FOREACH(lease, hwt_delay_tokens, &store->tokens)
    {
        if (lease->superseded)
            continue;
        lease->record->refs++;
        snapshot->leased[snapshot->leased_count++] = lease->record;
    }
}

/* Slots in which nothing is left are not part of the checkpoint any more. */
static void finish_slots(hwt_delay *store)
{
    struct hwt_delay_slot *slot, *next;
    RB_FOREACH_SAFE(slot, hwt_delay_places, &store->wheel.places, next)
    {
        slot->noted = hwt_delay_position(store, slot);
        slot->new_length = slot->length;
        slot->new_count = slot->count;
        if (slot->passed) {
            hwt_delay_wheel_remove(store, slot);
            TAILQ_INSERT_TAIL(&store->finished, slot, listed);
            store->finished_bytes += slot->length;
        }
    }
}

static int make_room(hwt_delay *store, struct hwt_delay_snapshot *snapshot)
{
    snapshot->room = store->fresh_count + 1;
    snapshot->records = malloc(snapshot->room * sizeof(*snapshot->records));
    /* The fresh ones too: see publish_old(). */
    snapshot->leased =
        malloc((store->leased_count + store->fresh_count + 1) * sizeof(*snapshot->leased));
    return snapshot->records && snapshot->leased ? 0 : -ENOMEM;
}

/* Nothing is gathered: the table is what the log says. Called with the lock, by the leader too. */
void hwt_delay_snapshot_take(hwt_delay *store)
{
    struct hwt_delay_snapshot *snapshot = &store->snapshot;
    store->snapshot_wanted = false;
    *snapshot = (struct hwt_delay_snapshot){
        .sequence = store->log.next_sequence,
        .segment = store->log.segment,
        .offset = store->log.offset,
        .frame = store->log.gathered_frame - 1,
        .hand = store->hand,
        .now = hwt_delay_clock(store),
        .erased_bytes = store->erased_bytes,
        .kept_bytes = store->log.kept_bytes,
        .resolved = store->resolved,
    };
    TAILQ_INIT(&snapshot->moved);
    snapshot->error = make_room(store, snapshot);
    if (snapshot->error == 0) {
        hwt_delay_settle(store);
        snapshot->error = hwt_delay_epoch_begin(store);
    }
    if (snapshot->error == 0) {
        snapshot->epoch = store->positions.epoch;
        collect_leased(store, snapshot);
        collect_fresh(store, snapshot);
        finish_slots(store);
        snapshot->pending = store->pending;
    }
    pthread_cond_broadcast(&store->changed);
}

/* Has it taken by the next leader, or takes it here. */
int hwt_delay_snapshot_get(hwt_delay *store)
{
    store->snapshot_wanted = true;
    while (store->snapshot_wanted) {
        if (store->poisoned) {
            store->snapshot_wanted = false;
            return -EIO;
        }
        if (store->log.count == 0)
            hwt_delay_snapshot_take(store);
        else if (!store->log.writing)
            hwt_delay_log_lead(store);
        else
            pthread_cond_wait(&store->changed, &store->lock);
    }
    return store->snapshot.error;
}

void hwt_delay_snapshot_free(struct hwt_delay_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->count; i++)
        hwt_delay_record_unref(snapshot->records[i]);
    for (size_t i = 0; i < snapshot->leased_count; i++)
        hwt_delay_record_unref(snapshot->leased[i]);
    free(snapshot->records);
    free(snapshot->leased);
    *snapshot = (struct hwt_delay_snapshot){ 0 };
}
