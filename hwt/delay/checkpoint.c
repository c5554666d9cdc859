/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Checkpoints: what is FRESH goes to slots, so that the log can be written anew.
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
 * Where that is not enough either, step 2 is undone, and the records stay in memory and in the log. A
 * checkpoint that leaves the log where it is, and only says how far the slots have been handed
 * over, is written in its place, so that slots which are done with make room. The room for that
 * is set aside when the one before it is finished.
 *
 * Where memory or descriptors are missing, step 2 is undone too. What waited for the checkpoint gets
 * the error, and it is tried again a second later.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>

#include "hwt/delay/store.h"

/* Records that go to one slot: a part of the snapshot's. */
struct part {
    struct hwt_delay_slot *slot;
    struct hwt_delay_record **records;
    size_t count;
    unsigned shift;
    uint64_t index;
    bool fresh_slot;
    uint64_t erases, erased_bytes, erased; /* new erases, and the due time of the last one */
};

struct plan {
    struct part *parts;
    size_t count, room, written;
};

/* Nothing was lost, and the checkpoint has not got its name. */
static bool is_shortage(int error)
{
    return error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

/* ---- slots ---- */

static int by_key(const void *a, const void *b)
{
    const struct hwt_delay_record *x = *(struct hwt_delay_record *const *)a;
    const struct hwt_delay_record *y = *(struct hwt_delay_record *const *)b;
    int order = hwt_delay_compare(x->key, y->key);
    return order != 0 ? order : (x->kind > y->kind) - (x->kind < y->kind);
}

static int add_part(struct plan *plan, struct hwt_delay_record **records, unsigned shift)
{
    if (plan->count == plan->room) {
        size_t room = plan->room ? 2 * plan->room : 64;
        struct part *parts = realloc(plan->parts, room * sizeof(*parts));
        if (!parts)
            return -ENOMEM;
        plan->parts = parts;
        plan->room = room;
    }
    plan->parts[plan->count++] = (struct part){
        .records = records,
        .shift = shift,
        .index = records[0]->key.due >> shift,
    };
    return 0;
}

static int divide(struct hwt_delay_snapshot *snapshot, struct plan *plan)
{
    qsort(snapshot->records, snapshot->count, sizeof(*snapshot->records), by_key);
    for (size_t i = 0; i < snapshot->count; i++) {
        uint64_t due = snapshot->records[i]->key.due;
        unsigned shift = hwt_delay_wheel_shift(due, snapshot->now);
        struct part *last = plan->count > 0 ? &plan->parts[plan->count - 1] : NULL;
        if (!last || last->shift != shift || last->index != due >> shift) {
            int r = add_part(plan, snapshot->records + i, shift);
            if (r < 0)
                return r;
            last = &plan->parts[plan->count - 1];
        }
        last->count++;
        if (snapshot->records[i]->kind == HWT_DELAY_ERASE && !snapshot->records[i]->moved) {
            last->erases++;
            last->erased_bytes += hwt_delay_encoded_size(snapshot->records[i]);
            last->erased = due;
        }
    }
    return 0;
}

static int find_slot(hwt_delay *store, struct part *part)
{
    part->slot = hwt_delay_wheel_find(store, part->shift, part->index);
    if (part->slot)
        return 0;
    struct hwt_delay_slot *slot =
        hwt_delay_slot_new(part->shift, part->index, store->next_number++);
    if (!slot)
        return -ENOMEM;
    slot->last = 0;
    hwt_delay_wheel_add(store, slot);
    if (hwt_delay_begins_below(slot, store->loaded))
        hwt_delay_seal(store, slot, store->snapshot.epoch);
    part->slot = slot;
    part->fresh_slot = true;
    return 0;
}

static void wait_for_loading(hwt_delay *store)
{
    while (store->loading)
        pthread_cond_wait(&store->changed, &store->lock);
}

/* Not while a thread loads: it would not seal a new slot, and `loaded` would move past it. */
static int find_slots(hwt_delay *store, struct plan *plan)
{
    int r = 0;
    pthread_mutex_lock(&store->lock);
    wait_for_loading(store);
    for (size_t i = 0; i < plan->count && r == 0; i++)
        r = find_slot(store, &plan->parts[i]);
    pthread_mutex_unlock(&store->lock);
    return r;
}

static int write_parts(hwt_delay *store, struct plan *plan)
{
    bool names = false;
    for (size_t i = 0; i < plan->count; i++) {
        struct part *part = &plan->parts[i];
        plan->written = i + 1;
        int r = hwt_delay_slot_append(store, part->slot, part->records, part->count);
        if (r < 0)
            return r;
        names = names || part->fresh_slot;
    }
    return names && hwt_delay_sync_directory(store) < 0 ? -EIO : 0;
}

/* What is dead once this counts: the checkpoint says so. */
static void note_dead(hwt_delay *store, const struct plan *plan)
{
    pthread_mutex_lock(&store->lock);
    hwt_delay_dead_begin(store);
    for (size_t i = 0; i < plan->count; i++)
        plan->parts[i].slot->new_dead += plan->parts[i].erased_bytes;
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->parts[i].erases > 0)
            hwt_delay_note_erases(store, plan->parts[i].erased, plan->parts[i].erases);
    }
    pthread_mutex_unlock(&store->lock);
}

/* What was written does not count: gives its room back. New slots go. Errors do not matter. */
static void undo_part(hwt_delay *store, struct part *part)
{
    char name[HWT_DELAY_NAME_MAX];
    if (!part->slot || !part->slot->made)
        return;
    hwt_delay_slot_name(part->slot, name);
    if (part->fresh_slot) {
        store->system.unlink(store->system.data, store->directory, name);
        return;
    }
    int file = hwt_delay_open_file(store, name, O_RDWR);
    if (file < 0)
        return;
    hwt_delay_truncate(store, file, part->slot->length);
    hwt_delay_close_file(store, file);
}

/* After a failure: all is as before the snapshot. */
static void undo(hwt_delay *store, struct plan *plan)
{
    for (size_t i = 0; i < plan->written; i++)
        undo_part(store, &plan->parts[i]);
    pthread_mutex_lock(&store->lock);
    wait_for_loading(store);
    hwt_delay_rewrite_undo(store);
    for (size_t i = 0; i < plan->count; i++) {
        struct part *part = &plan->parts[i];
        if (part->fresh_slot) {
            hwt_delay_wheel_remove(store, part->slot);
            hwt_delay_slot_unref(part->slot);
        } else if (part->slot) {
            part->slot->new_length = part->slot->length;
            part->slot->new_count = part->slot->count;
        }
    }
    struct hwt_delay_snapshot *snapshot = &store->snapshot;
    for (size_t i = 0; i < snapshot->count; i++) {
        if (snapshot->records[i]->state == HWT_DELAY_FLUSHING)
            hwt_delay_set_state(store, snapshot->records[i], HWT_DELAY_FRESH);
    }
    pthread_mutex_unlock(&store->lock);
}

/* ---- on a full disk ---- */

/* The log stays: so what is FRESH, but older than it, must be whole in the checkpoint. */
static int publish_old(hwt_delay *store)
{
    struct hwt_delay_snapshot *snapshot = &store->snapshot;
    uint64_t replayed = 0;
    for (size_t i = 0; i < snapshot->count; i++) {
        struct hwt_delay_record *record = snapshot->records[i];
        if (record->kind != HWT_DELAY_PUT)
            continue;
        if (record->key.sequence >= store->log.kept_sequence) {
            replayed++;
            continue;
        }
        pthread_mutex_lock(&store->lock);
        record->refs++;
        pthread_mutex_unlock(&store->lock);
        snapshot->leased[snapshot->leased_count++] = record;
    }
    snapshot->pending -= snapshot->pending < replayed ? snapshot->pending : replayed;
    snapshot->sequence = store->log.kept_sequence;
    snapshot->segment = store->log.kept_segment;
    snapshot->offset = store->log.kept_offset;
    return hwt_delay_publish(store);
}

/* ---- the end ---- */

/* Is it an erase that a put has replaced while it was written, which has counted for it? */
static bool is_orphan(const hwt_delay *store, const struct hwt_delay_record *record)
{
    return record->kind == HWT_DELAY_ERASE && record->state == HWT_DELAY_NOWHERE &&
           !record->moved && record->retries > 0 &&
           hwt_delay_compare(record->key, store->resolved) >= 0;
}

static void file_record(hwt_delay *store, struct hwt_delay_slot *slot,
                        struct hwt_delay_record *record)
{
    slot->orphans += is_orphan(store, record);
    if (record->state != HWT_DELAY_FLUSHING)
        return;
    if (record->kind == HWT_DELAY_PUT && hwt_delay_compare(record->key, store->loaded) < 0 &&
        !hwt_delay_gap_at(store, record->key))
        hwt_delay_set_state(store, record, HWT_DELAY_FILED);
    else
        hwt_delay_remove(store, record);
}

/* `loading` is set. Lets others have the lock now and then. */
static void file_records(hwt_delay *store, const struct plan *plan)
{
    const struct part *part = plan->parts;
    for (size_t i = 0, in_part = 0; i < store->snapshot.count; i++, in_part++) {
        if (in_part == part->count) {
            part++;
            in_part = 0;
        }
        file_record(store, part->slot, part->records[in_part]);
        if (i % HWT_DELAY_CHUNK == HWT_DELAY_CHUNK - 1)
            hwt_delay_yield(store);
    }
}

/* The slots have what was written. */
static void conclude_parts(hwt_delay *store, const struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct part *part = &plan->parts[i];
        struct hwt_delay_slot *slot = part->slot;
        uint64_t last = part->records[part->count - 1]->key.due;
        slot->last = last > slot->last ? last : slot->last;
        slot->count = slot->new_count;
        hwt_delay_slot_set_length(store, slot, slot->new_length);
    }
    hwt_delay_dead_conclude(store);
}

/* The checkpoint is on the disk: slots and log are what it says. */
static void conclude(hwt_delay *store, const struct plan *plan)
{
    const struct hwt_delay_snapshot *snapshot = &store->snapshot;
    wait_for_loading(store);
    store->loading = true;
    conclude_parts(store, plan);
    hwt_delay_rewrite_conclude(store);
    file_records(store, plan);
    hwt_delay_evict(store);
    store->loading = false;
    pthread_cond_broadcast(&store->changed);
    store->log.kept_segment = snapshot->segment;
    store->log.kept_offset = snapshot->offset;
    store->log.kept_sequence = snapshot->sequence;
    store->log.kept_bytes -= snapshot->kept_bytes;
    store->erased_bytes -= snapshot->erased_bytes;
    store->stuck = 0;
    store->made_up = false;
    store->stats.checkpoints++;
}

/* They are not in the checkpoint any more. */
void hwt_delay_delete_finished(hwt_delay *store)
{
    if (store->copies > 0)
        return;
    wait_for_loading(store);
    struct hwt_delay_slot *slot;
    while ((slot = TAILQ_FIRST(&store->finished))) {
        char name[HWT_DELAY_NAME_MAX];
        hwt_delay_slot_name(slot, name);
        pthread_mutex_unlock(&store->lock);
        /* One that stays is deleted at the next opening. */
        store->system.unlink(store->system.data, store->directory, name);
        pthread_mutex_lock(&store->lock);
        TAILQ_REMOVE(&store->finished, slot, listed);
        store->finished_bytes -= slot->length;
        hwt_delay_slot_unref(slot);
    }
    if (store->wheel.count == 0 && RB_EMPTY(&store->keys))
        store->pending = hwt_delay_leases_pending(store);
}

/* Without the lock. */
static int write_out(hwt_delay *store, struct plan *plan, int *ret_old)
{
    hwt_delay_rewrite(store);
    int r = divide(&store->snapshot, plan);
    if (r == 0)
        r = find_slots(store, plan);
    if (r == 0)
        r = write_parts(store, plan);
    if (r == 0) {
        note_dead(store, plan);
        r = hwt_delay_publish(store);
    }
    if (r == 0)
        return 0;
    /* After any other failure the disk may have either checkpoint: both must find their bytes. */
    if (hwt_delay_is_full(r) || is_shortage(r))
        undo(store, plan);
    /* What is made up is whole only with numbers that were not given before. */
    if (hwt_delay_is_full(r) && !store->made_up)
        *ret_old = publish_old(store);
    return r;
}

static int make(hwt_delay *store)
{
    int r = hwt_delay_snapshot_get(store);
    if (r == 0)
        r = hwt_delay_log_wait(store, store->snapshot.frame);
    if (r < 0)
        return r;
    struct plan plan = { 0 };
    int old = -ENOSPC; /* what became of the checkpoint that leaves the log where it is */
    pthread_mutex_unlock(&store->lock);
    r = write_out(store, &plan, &old);
    pthread_mutex_lock(&store->lock);
    if (r == 0)
        conclude(store, &plan);
    free(plan.parts);
    if ((r < 0 && !hwt_delay_is_full(r) && !is_shortage(r)) ||
        (old < 0 && !hwt_delay_is_full(old) && !is_shortage(old)))
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
    hwt_delay_snapshot_free(&store->snapshot);
    return r;
}

/* The disk may have room again. */
static void make_good(hwt_delay *store)
{
    pthread_mutex_unlock(&store->lock);
    bool taken = hwt_delay_reserve_take(store);
    pthread_mutex_lock(&store->lock);
    store->full = !taken;
}

/* Something is missing: the checkpointer looks for it every second. */
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
    while (store->checkpointing)
        pthread_cond_wait(&store->changed, &store->lock);
    if (store->poisoned)
        return -EIO;
    bool was_short = is_short(store);
    store->checkpointing = true;
    store->wanted = false;
    int r = make(store);
    hwt_delay_snapshot_free(&store->snapshot);
    if (hwt_delay_is_full(r) && !store->full)
        r = make_with_reserve(store);
    if (hwt_delay_is_full(r) || is_shortage(r))
        store->stuck = hwt_delay_is_full(r) ? -ENOSPC : r;
    else if (r == 0 && store->full)
        make_good(store);
    store->checkpointing = false;
    pthread_cond_broadcast(&store->changed);
    if (store->threads > 0)
        pthread_cond_signal(&store->loader_wake);
    if (store->threads > 0 && !was_short && is_short(store))
        pthread_cond_signal(&store->checkpointer_wake);
    if (store->threads > 0 && r == 0 && store->rewriting)
        hwt_delay_checkpoint_want(store);
    if (store->poisoned)
        return -EIO;
    return hwt_delay_is_full(r) ? -ENOSPC : r;
}

void hwt_delay_checkpoint_want(hwt_delay *store)
{
    store->wanted = true;
    if (store->threads > 0)
        pthread_cond_signal(&store->checkpointer_wake);
}

int hwt_delay_checkpoint(hwt_delay *store)
{
    if (!store)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    pthread_mutex_lock(&store->lock);
    int r = hwt_delay_checkpoint_make(store);
    pthread_mutex_unlock(&store->lock);
    return r;
}

/*
 * Is there room again, or what else was missing? On a full disk a checkpoint is made only where it
 * may give room itself: each may need a new slot, which would use the room up that cancels need.
 */
static void look_for_room(hwt_delay *store)
{
    if (store->stuck != 0 || store->wheel.passed_bytes > 0) {
        store->wanted = true;
    } else if (store->full && !store->checkpointing) {
        store->checkpointing = true;
        make_good(store);
        store->checkpointing = false;
        pthread_cond_broadcast(&store->changed);
    }
}

/* The thread that makes them. Where something is missing it looks for that every second. */
void *hwt_delay_checkpointer(void *arg)
{
    hwt_delay *store = arg;
    pthread_mutex_lock(&store->lock);
    while (!store->closing) {
        if (store->wanted && !store->poisoned &&
            (hwt_delay_checkpoint_make(store) == 0 || store->closing))
            continue;
        if (!is_short(store) || store->poisoned) {
            pthread_cond_wait(&store->checkpointer_wake, &store->lock);
            continue;
        }
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&store->checkpointer_wake, &store->lock, &until);
        if (!store->wanted)
            look_for_room(store);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}
