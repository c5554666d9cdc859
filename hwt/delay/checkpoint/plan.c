/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The plan of a checkpoint has its records by the slots that they go to. Writing it is step 2 of a
 * checkpoint; see checkpoint.c.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "hwt/base/assert.h"
#include "hwt/delay/base/array.h"
#include "hwt/delay/whole.h"

enum { FILES_AT_ONCE = 32 };

/* The part of the snapshot's records that goes to one slot. */
struct hwt_delay_part {
    struct hwt_delay_slot *slot;
    struct hwt_delay_record **records;
    size_t count;
    unsigned shift;
    uint64_t index;
    bool fresh_slot;
    uint64_t tombstones, tombstone_bytes, erased; /* of new ones; the due time of the last one */
};

static int by_key(const void *a, const void *b)
{
    const struct hwt_delay_record *x = *(struct hwt_delay_record *const *)a;
    const struct hwt_delay_record *y = *(struct hwt_delay_record *const *)b;
    int order = hwt_delay_compare(x->key, y->key);
    return order != 0 ? order : (x->kind > y->kind) - (x->kind < y->kind);
}

static int add_part(struct hwt_delay_plan *plan, struct hwt_delay_record **records, unsigned shift)
{
    struct hwt_delay_part *parts =
        hwt_delay_grown(plan->parts, plan->count, &plan->room, sizeof(*parts), 64);
    if (!parts)
        return -ENOMEM;
    plan->parts = parts;
    plan->parts[plan->count++] = (struct hwt_delay_part){
        .records = records,
        .shift = shift,
        .index = records[0]->key.due >> shift,
    };
    return 0;
}

static int divide(struct hwt_delay_snapshot *snapshot, struct hwt_delay_plan *plan)
{
    qsort(snapshot->records, snapshot->count, sizeof(*snapshot->records), by_key);
    for (size_t i = 0; i < snapshot->count; i++) {
        uint64_t due = snapshot->records[i]->key.due;
        unsigned shift = hwt_delay_wheel_shift(due, snapshot->now);
        struct hwt_delay_part *last = plan->count > 0 ? &plan->parts[plan->count - 1] : NULL;
        if (!last || last->shift != shift || last->index != due >> shift) {
            int r = add_part(plan, snapshot->records + i, shift);
            if (r < 0)
                return r;
            last = &plan->parts[plan->count - 1];
        }
        last->count++;
        if (snapshot->records[i]->kind == HWT_DELAY_TOMBSTONE && !snapshot->records[i]->moved) {
            last->tombstones++;
            last->tombstone_bytes += hwt_delay_encoded_about(snapshot->records[i]);
            last->erased = due;
        }
    }
    return 0;
}

static int find_slot(hwt_delay *store, struct hwt_delay_part *part)
{
    part->slot = hwt_delay_wheel_find(store, part->shift, part->index);
    if (part->slot)
        return 0;
    struct hwt_delay_slot *slot =
        hwt_delay_slot_new(part->shift, part->index, hwt_delay_slots_take_number(store));
    if (!slot)
        return -ENOMEM;
    slot->last = 0;
    hwt_delay_wheel_add(store, slot);
    if (hwt_delay_begins_below(slot, hwt_delay_loaded(store)))
        hwt_delay_seal(store, slot, store->checkpoint.snapshot.epoch);
    part->slot = slot;
    part->fresh_slot = true;
    return 0;
}

/* Not while a thread loads: it would not seal a new slot, and `loaded` would move past it. */
static int find_slots(hwt_delay *store, struct hwt_delay_plan *plan)
{
    int r = 0;
    pthread_mutex_lock(&store->lock);
    hwt_delay_slots_await(store);
    for (size_t i = 0; i < plan->count && r == 0; i++)
        r = find_slot(store, &plan->parts[i]);
    pthread_mutex_unlock(&store->lock);
    return r;
}

/* Not even a full disk: the kernel has dropped what it could not write. */
static int flush_files(hwt_delay *store, const int *files, size_t count)
{
    int r = 0;
    for (size_t i = 0; i < count; i++) {
        if (r == 0 && hwt_delay_sync(store, files[i]) < 0)
            r = -EIO;
        hwt_delay_close_file(store, files[i]);
    }
    return r;
}

/* The next parts; fewer where descriptors are short. All are written before the first one is
 * flushed, because the file system then brings what it notes of all of them to the disk at once. */
static int write_some(hwt_delay *store, struct hwt_delay_plan *plan)
{
    int files[FILES_AT_ONCE], r = 0;
    size_t count = 0;
    while (r == 0 && count < FILES_AT_ONCE && plan->written < plan->count) {
        struct hwt_delay_part *part = &plan->parts[plan->written];
        r = hwt_delay_slot_append(store, part->slot, part->records, part->count);
        if (r < 0 && count > 0 && hwt_delay_is_shortage(r))
            return flush_files(store, files, count);
        plan->written++;
        if (r >= 0) {
            files[count++] = r;
            r = 0;
        }
    }
    int flushed = flush_files(store, files, count);
    return flushed < 0 ? flushed : r;
}

static int write_parts(hwt_delay *store, struct hwt_delay_plan *plan)
{
    bool names = false;
    for (size_t i = 0; i < plan->count; i++)
        names = names || plan->parts[i].fresh_slot;
    while (plan->written < plan->count) {
        int r = write_some(store, plan);
        if (r < 0)
            return r;
    }
    return names && hwt_delay_sync_directory(store) < 0 ? -EIO : 0;
}

/* How many bytes of the slot the new tombstones are. A run tells a prefix that ids share once, so
 * together they may be less than one by one. */
static uint64_t erased_of(const struct hwt_delay_part *part)
{
    uint64_t length = part->slot->new_length - part->slot->length;
    uint64_t share = length * part->tombstones / part->count;
    return share < part->tombstone_bytes ? share : part->tombstone_bytes;
}

/* Counts the bytes that are dead once this checkpoint counts, because it says so. */
static void count_dead(hwt_delay *store, const struct hwt_delay_plan *plan)
{
    pthread_mutex_lock(&store->lock);
    hwt_delay_dead_begin(store);
    for (size_t i = 0; i < plan->count; i++)
        hwt_delay_dead_add(plan->parts[i].slot, erased_of(&plan->parts[i]));
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->parts[i].tombstones > 0)
            hwt_delay_note_tombstones(store, plan->parts[i].erased, plan->parts[i].tombstones);
    }
    pthread_mutex_unlock(&store->lock);
}

/* Without the lock. */
int hwt_delay_plan_write(hwt_delay *store, struct hwt_delay_plan *plan)
{
    int r = divide(&store->checkpoint.snapshot, plan);
    if (r == 0)
        r = find_slots(store, plan);
    if (r == 0)
        r = write_parts(store, plan);
    if (r == 0)
        count_dead(store, plan);
    return r;
}

/* The bytes that were written do not count, so this gives their room back. New slots go. Errors do
 * not matter. */
static void undo_part(hwt_delay *store, struct hwt_delay_part *part)
{
    char name[HWT_DELAY_NAME_MAX];
    if (!part->slot || !part->slot->made)
        return;
    hwt_delay_slot_name(part->slot, name);
    if (part->fresh_slot) {
        HWT_ASSERT(!part->slot->named);
        hwt_delay_unlink(store, name);
        return;
    }
    int file = hwt_delay_open_file(store, name, O_RDWR);
    if (file < 0)
        return;
    hwt_delay_truncate(store, file, part->slot->length);
    hwt_delay_close_file(store, file);
}

/* Makes all as it was before the snapshot, after a failure. Without the lock. */
void hwt_delay_plan_undo(hwt_delay *store, struct hwt_delay_plan *plan)
{
    for (size_t i = 0; i < plan->written; i++)
        undo_part(store, &plan->parts[i]);
    hwt_delay_moved_free(&store->checkpoint.snapshot);
    pthread_mutex_lock(&store->lock);
    hwt_delay_slots_await(store);
    hwt_delay_rewrite_undo(store);
    for (size_t i = 0; i < plan->count; i++) {
        struct hwt_delay_part *part = &plan->parts[i];
        if (part->fresh_slot) {
            hwt_delay_wheel_remove(store, part->slot);
            hwt_delay_slot_unref(part->slot);
        } else if (part->slot) {
            part->slot->new_length = part->slot->length;
            part->slot->new_count = part->slot->count;
        }
    }
    hwt_delay_snapshot_undo(store);
    pthread_mutex_unlock(&store->lock);
}

static void file_record(hwt_delay *store, struct hwt_delay_record *record)
{
    if (record->state != HWT_DELAY_FLUSHING)
        return;
    if (record->kind == HWT_DELAY_PUT)
        hwt_delay_filed_add(hwt_delay_filed_of(store), record->key.due, 1);
    if (record->kind == HWT_DELAY_PUT &&
        hwt_delay_compare(record->key, hwt_delay_loaded(store)) < 0 &&
        !hwt_delay_gap_at(store, record->key))
        hwt_delay_set_state(store, record, HWT_DELAY_FILED);
    else
        hwt_delay_remove(store, record);
}

/* The slots are locked. Lets others have the lock now and then. The snapshot has no records any
 * more. */
static void file_records(hwt_delay *store)
{
    struct hwt_delay_snapshot *snapshot = &store->checkpoint.snapshot;
    while (snapshot->count > 0) {
        struct hwt_delay_record *record = snapshot->records[--snapshot->count];
        file_record(store, record);
        hwt_delay_record_unref(record);
        if (snapshot->count % HWT_DELAY_CHUNK == 0)
            hwt_delay_yield(store);
    }
}

/* The slots have what was written. */
static void conclude_parts(hwt_delay *store, const struct hwt_delay_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct hwt_delay_part *part = &plan->parts[i];
        struct hwt_delay_slot *slot = part->slot;
        slot->last = slot->new_last;
        slot->newest = slot->new_newest;
        slot->count = slot->new_count;
        slot->origins = slot->new_origins;
        hwt_delay_slot_set_length(store, slot, slot->new_length);
    }
    hwt_delay_dead_conclude(store);
}

/* The checkpoint is on the disk. The slots are locked. */
void hwt_delay_plan_conclude(hwt_delay *store, const struct hwt_delay_plan *plan)
{
    conclude_parts(store, plan);
    hwt_delay_rewrite_conclude(store);
    file_records(store);
}
