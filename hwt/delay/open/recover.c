/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Opening reads the slots and the leased messages from the checkpoint, and the log from there on
 * into the table. Nothing is loaded then, so every record that changes something in a slot stays in
 * the table until a checkpoint brings it to a slot too.
 *
 * The bytes that were read may be in the kernel's memory only. That is so after a kill, and after a
 * flush that failed, which leaves pages that are clean and not on the disk. So before anything is
 * built on it, what the last process may not have known to be on the disk is written once more and
 * flushed: the last frame (the one before it was flushed before it was written), the heads of the
 * segments (what they say of their files was flushed before they were written), the checkpoint, the
 * head of `store`. The files that a checkpoint names were on the disk before the checkpoint got its
 * name.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "hwt/delay/base/array.h"
#include "hwt/delay/whole.h"

/* ---- the checkpoint ---- */

static int read_slot_entry(hwt_delay *store, const unsigned char *at, size_t size)
{
    uint32_t shift = hwt_delay_get32(at + HWT_DELAY_FILE_SHIFT);
    uint64_t index = hwt_delay_get64(at + HWT_DELAY_FILE_INDEX);
    if (shift >= 64 || index > UINT64_MAX >> shift)
        return -EBADMSG;
    struct hwt_delay_slot *slot =
        hwt_delay_slot_new(shift, index, hwt_delay_get64(at + HWT_DELAY_FILE_NUMBER));
    if (!slot)
        return -ENOMEM;
    slot->length = hwt_delay_get64(at + HWT_DELAY_FILE_LENGTH);
    slot->count = hwt_delay_get64(at + HWT_DELAY_FILE_COUNT);
    slot->position.due = hwt_delay_get64(at + HWT_DELAY_FILE_POSITION);
    slot->position.sequence = hwt_delay_get64(at + HWT_DELAY_FILE_POSITION + 8);
    slot->sealed = hwt_delay_get32(at + HWT_DELAY_FILE_SEALED) != 0;
    slot->dead = hwt_delay_get64(at + HWT_DELAY_FILE_DEAD);
    if (size >= HWT_DELAY_FILE_SIZE_ORIGINS) {
        slot->origins.from = hwt_delay_get64(at + HWT_DELAY_FILE_FROM);
        slot->origins.to = hwt_delay_get64(at + HWT_DELAY_FILE_TO);
    }
    if (size >= HWT_DELAY_FILE_SIZE_BEFORE) {
        slot->before.due = hwt_delay_get64(at + HWT_DELAY_FILE_BEFORE);
        slot->before.sequence = hwt_delay_get64(at + HWT_DELAY_FILE_BEFORE + 8);
    }
    slot->made = slot->named = true;
    slot->newest = hwt_delay_log_kept(store).sequence - 1;
    if (size >= HWT_DELAY_FILE_SIZE) {
        uint64_t last = hwt_delay_get64(at + HWT_DELAY_FILE_LAST);
        slot->last = last < slot->last ? last : slot->last;
        slot->newest = hwt_delay_get64(at + HWT_DELAY_FILE_NEWEST);
    }
    if (slot->dead > slot->length)
        slot->dead = slot->length;
    hwt_delay_wheel_add(store, slot);
    return 0;
}

/* Reads the whole records of a checkpoint, which are the leased messages, and what is no
 * message. */
static int read_whole(hwt_delay *store, const unsigned char *at, const unsigned char *end,
                      uint64_t count)
{
    struct hwt_delay_before before = { 0 };
    for (uint64_t i = 0; i < count; i++) {
        struct hwt_delay_record *record;
        int r = hwt_delay_decode(&before, &at, end, &record);
        if (r < 0)
            return r;
        if (record->kind == HWT_DELAY_TOMBSTONE) {
            hwt_delay_record_unref(record);
            return -EBADMSG;
        }
        record->ends = false; /* that was counted when it was put */
        r = hwt_delay_replay_record(store, record);
        if (r < 0)
            return r;
    }
    return at == end ? 0 : -EBADMSG;
}

static void read_gap(hwt_delay *store, const unsigned char *at)
{
    const struct hwt_delay_gap gap = {
        .from = { hwt_delay_get64(at + HWT_DELAY_GAP_FROM),
                  hwt_delay_get64(at + HWT_DELAY_GAP_FROM + 8) },
        .to = { hwt_delay_get64(at + HWT_DELAY_GAP_TO),
                hwt_delay_get64(at + HWT_DELAY_GAP_TO + 8) },
    };
    hwt_delay_gap_found(store, gap);
}

static int take_checkpoint(hwt_delay *store, const unsigned char *head, uint64_t size)
{
    const unsigned char *at = head + HWT_DELAY_CHECKPOINT_SIZE, *end = head + size;
    uint32_t slots = hwt_delay_get32(head + HWT_DELAY_CHECKPOINT_FILES);
    const size_t entry = hwt_delay_entry_size(head);
    if (slots > (size_t)(end - at) / entry)
        return -EBADMSG;
    hwt_delay_log_keep(store, hwt_delay_checkpoint_point(head));
    hwt_delay_log_set_counted(store, hwt_delay_get64(head + HWT_DELAY_CHECKPOINT_COUNTED));
    hwt_delay_hand_raise(store, hwt_delay_get64(head + HWT_DELAY_CHECKPOINT_HAND));
    hwt_delay_slots_number_raise(store, hwt_delay_get64(head + HWT_DELAY_CHECKPOINT_NUMBER));
    for (uint32_t i = 0; i < slots; i++) {
        int r = read_slot_entry(store, at, entry);
        if (r < 0)
            return r;
        at += entry;
    }
    uint32_t gaps = hwt_delay_get32(head + HWT_DELAY_CHECKPOINT_GAPS);
    if (gaps > (size_t)(end - at) / HWT_DELAY_GAP_SIZE || gaps > HWT_DELAY_GAPS_MAX)
        return -EBADMSG;
    for (uint32_t i = 0; i < gaps; i++, at += HWT_DELAY_GAP_SIZE)
        read_gap(store, at);
    uint32_t spans = hwt_delay_get32(head + HWT_DELAY_CHECKPOINT_SPANS);
    if (spans > (size_t)(end - at) / HWT_DELAY_SPAN_SIZE)
        return -EBADMSG;
    int r = hwt_delay_filed_decode(hwt_delay_filed_of(store), at, spans,
                                   hwt_delay_get32(head + HWT_DELAY_CHECKPOINT_SHIFT));
    if (r < 0)
        return r;
    at += spans * HWT_DELAY_SPAN_SIZE;
    return read_whole(store, at, end, hwt_delay_get64(head + HWT_DELAY_CHECKPOINT_RECORDS));
}

/* Writes the checkpoint that was read once more. If there is no room it is flushed as it is. */
static int write_checkpoint_anew(hwt_delay *store, const unsigned char *bytes, size_t size)
{
    int r = hwt_delay_checkpoint_write(store, bytes, size);
    if (r != -ENOSPC && r != -EDQUOT)
        return r;
    int file = hwt_delay_open_file(store, "checkpoint", O_RDWR);
    r = file < 0 ? file : hwt_delay_sync(store, file);
    hwt_delay_close_file(store, file);
    return r < 0 ? r : hwt_delay_sync_directory(store);
}

static int read_checkpoint(hwt_delay *store)
{
    unsigned char *bytes = NULL;
    uint64_t size;
    int r = hwt_delay_checkpoint_read(store, &bytes, &size);
    if (r == 0)
        hwt_delay_checkpoint_opened(store, bytes);
    if (r == 0)
        r = hwt_delay_checkpoint_fits(bytes, hwt_delay_log_extent(store))
                ? take_checkpoint(store, bytes, size)
                : -EBADMSG;
    if (r == 0 && !store->read_only)
        r = write_checkpoint_anew(store, bytes, (size_t)size);
    free(bytes);
    if (r != -EBADMSG || !store->salvage)
        return r;
    hwt_delay_forget(store);
    hwt_delay_set_rebuilt(store);
    return hwt_delay_rebuild(store);
}

/* ---- slots ---- */

struct leftovers {
    hwt_delay *store;
    char (*names)[HWT_DELAY_NAME_MAX];
    size_t count, room;
    int error;
};

static bool is_known(const hwt_delay *store, const struct hwt_delay_slot *slot)
{
    const struct hwt_delay_slot *there =
        hwt_delay_wheel_from(store, slot->shift, slot->index, slot->number);
    return there && there->shift == slot->shift && there->index == slot->index &&
           there->number == slot->number;
}

static void see_leftover(const char *name, void *arg)
{
    struct leftovers *leftovers = arg;
    struct hwt_delay_slot slot = { 0 };
    if (!hwt_delay_slot_parse(name, &slot) || is_known(leftovers->store, &slot))
        return;
    void *names = hwt_delay_grown(leftovers->names, leftovers->count, &leftovers->room,
                                  sizeof(*leftovers->names), 16);
    if (!names) {
        leftovers->error = -ENOMEM;
        return;
    }
    leftovers->names = names;
    hwt_delay_slot_name(&slot, leftovers->names[leftovers->count++]);
}

/* Slots of a checkpoint that did not end, or that were to be deleted. */
static int delete_leftovers(hwt_delay *store)
{
    struct leftovers leftovers = { .store = store };
    int r = hwt_delay_list(store, see_leftover, &leftovers);
    if (r >= 0)
        r = leftovers.error;
    for (size_t i = 0; i < leftovers.count && r == 0; i++) {
        r = hwt_delay_unlink(store, leftovers.names[i]);
        r = r == -ENOENT ? 0 : r;
    }
    free(leftovers.names);
    return r;
}

/* Something of it is not there. A store that is opened to look at it is opened all the same, so that
 * hwt_delay_check() can name the file. */
static int is_lacking(hwt_delay *store)
{
    int r = hwt_delay_damaged_or_stale(store);
    return r == -EBADMSG && store->read_only ? 0 : r;
}

/* Is all of it there that counts? */
static int look_at(hwt_delay *store, struct hwt_delay_slot *slot)
{
    char name[HWT_DELAY_NAME_MAX];
    hwt_delay_slot_name(slot, name);
    int file = hwt_delay_open_file(store, name, O_RDONLY);
    if (file < 0)
        return file == -ENOENT ? is_lacking(store) : file;
    int64_t size = hwt_delay_file_size(store, file);
    hwt_delay_close_file(store, file);
    if (size < 0)
        return (int)size;
    if ((uint64_t)size >= slot->length)
        return 0;
    if (!store->salvage)
        return is_lacking(store);
    hwt_delay_count_salvaged(store, slot->length - (uint64_t)size);
    hwt_delay_slot_set_length(store, slot, (uint64_t)size);
    hwt_delay_seal(store, slot, 0); /* its last run claims what would be appended */
    return 0;
}

static int look_at_slots(hwt_delay *store)
{
    struct hwt_delay_slot *slot, *next;
    for (slot = hwt_delay_slots_first(store); slot; slot = next) {
        next = hwt_delay_slots_next(slot);
        int r = look_at(store, slot);
        if (r == -EBADMSG && store->salvage) {
            hwt_delay_count_salvaged(store, slot->length);
            hwt_delay_wheel_remove(store, slot);
            hwt_delay_slot_unref(slot);
        } else if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* ---- the end ---- */

int hwt_delay_recover(hwt_delay *store)
{
    struct hwt_delay_frame last = { 0 };
    int r = read_checkpoint(store);
    if (r == 0)
        r = look_at_slots(store);
    if (hwt_delay_slots_count(store) == 0)
        hwt_delay_filed_settle(store, UINT64_MAX);
    if (r == 0 && !store->read_only)
        r = delete_leftovers(store);
    if (r == 0)
        r = hwt_delay_log_read(store, hwt_delay_replay, &last);
    if (r == 0 && hwt_delay_is_rebuilt(store))
        hwt_delay_log_skip_numbers(store);
    if (r == 0)
        r = hwt_delay_handed_open(store);
    if (r < 0 || store->read_only)
        return r;
    r = hwt_delay_log_write_anew(store, &last);
    return r < 0 ? r : hwt_delay_store_write(store);
}
