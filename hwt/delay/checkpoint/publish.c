/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The checkpoint as a file. It is written under another name, flushed, renamed, and the directory
 * is flushed. So a reader finds this one or the one before it, whole. See checkpoint.c for what has
 * to be on the disk before.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

#define ROOM_MIN UINT64_C(65536)
#define ENVELOPE_MAX ((uint64_t)(HWT_DELAY_RECORD_MAX - HWT_DELAY_PAYLOAD_MAX))

/* How far all has been dealt with, gaps or none, by the instant of the snapshot. */
static void encode_before(const struct hwt_delay_slot *slot, unsigned char *at)
{
    struct hwt_delay_key before =
        hwt_delay_compare(slot->noted, slot->before) < 0 ? slot->noted : slot->before;
    hwt_delay_set64(at + HWT_DELAY_FILE_BEFORE, before.due);
    hwt_delay_set64(at + HWT_DELAY_FILE_BEFORE + 8, before.sequence);
}

static void encode_slot(const struct hwt_delay_slot *slot, unsigned char *at)
{
    struct hwt_delay_key position =
        hwt_delay_compare(slot->noted, slot->moved) < 0 ? slot->moved : slot->noted;
    hwt_delay_set64(at + HWT_DELAY_FILE_NUMBER, slot->number);
    hwt_delay_set64(at + HWT_DELAY_FILE_INDEX, slot->index);
    hwt_delay_set64(at + HWT_DELAY_FILE_LENGTH, slot->new_length);
    hwt_delay_set64(at + HWT_DELAY_FILE_COUNT, slot->new_count);
    hwt_delay_set64(at + HWT_DELAY_FILE_POSITION, position.due);
    hwt_delay_set64(at + HWT_DELAY_FILE_POSITION + 8, position.sequence);
    hwt_delay_set32(at + HWT_DELAY_FILE_SHIFT, slot->shift);
    hwt_delay_set32(at + HWT_DELAY_FILE_SEALED, slot->sealed);
    hwt_delay_set64(at + HWT_DELAY_FILE_DEAD, slot->new_dead);
    hwt_delay_set64(at + HWT_DELAY_FILE_FROM, slot->new_origins.from);
    hwt_delay_set64(at + HWT_DELAY_FILE_TO, slot->new_origins.to);
    encode_before(slot, at);
    hwt_delay_set64(at + HWT_DELAY_FILE_LAST, slot->new_last);
    hwt_delay_set64(at + HWT_DELAY_FILE_NEWEST, slot->new_newest);
}

static void encode_gap(const struct hwt_delay_gap *gap, unsigned char *at)
{
    hwt_delay_set64(at + HWT_DELAY_GAP_FROM, gap->from.due);
    hwt_delay_set64(at + HWT_DELAY_GAP_FROM + 8, gap->from.sequence);
    hwt_delay_set64(at + HWT_DELAY_GAP_TO, gap->to.due);
    hwt_delay_set64(at + HWT_DELAY_GAP_TO + 8, gap->to.sequence);
}

static void encode_head(const hwt_delay *store, unsigned char *head, size_t size, size_t slots,
                        size_t gaps, const struct hwt_delay_filed *filed)
{
    const struct hwt_delay_snapshot *snapshot = &store->checkpoint.snapshot;
    memset(head, 0, HWT_DELAY_CHECKPOINT_SIZE);
    hwt_delay_set64(head + HWT_DELAY_CHECKPOINT_MAGIC, HWT_DELAY_MAGIC_CHECKPOINT);
    hwt_delay_set32(head + HWT_DELAY_CHECKPOINT_VERSION, HWT_DELAY_VERSION);
    hwt_delay_set64(head + HWT_DELAY_CHECKPOINT_LENGTH, size - HWT_DELAY_CHECKPOINT_SIZE);
    hwt_delay_set64(head + HWT_DELAY_CHECKPOINT_SEQUENCE, snapshot->from.sequence);
    hwt_delay_set32(head + HWT_DELAY_CHECKPOINT_SEGMENT, snapshot->from.segment);
    hwt_delay_set32(head + HWT_DELAY_CHECKPOINT_FILES, (uint32_t)slots);
    hwt_delay_set64(head + HWT_DELAY_CHECKPOINT_POSITION, snapshot->from.offset);
    hwt_delay_set64(head + HWT_DELAY_CHECKPOINT_RECORDS, snapshot->whole_count);
    hwt_delay_set64(head + HWT_DELAY_CHECKPOINT_HAND, snapshot->hand);
    hwt_delay_set32(head + HWT_DELAY_CHECKPOINT_SPANS, (uint32_t)filed->count);
    hwt_delay_set32(head + HWT_DELAY_CHECKPOINT_SHIFT, filed->shift);
    hwt_delay_set64(head + HWT_DELAY_CHECKPOINT_NUMBER, hwt_delay_slots_number(store));
    hwt_delay_set32(head + HWT_DELAY_CHECKPOINT_GAPS, (uint32_t)gaps);
    hwt_delay_set32(head + HWT_DELAY_CHECKPOINT_ENTRY, HWT_DELAY_FILE_SIZE);
    hwt_delay_set64(head + HWT_DELAY_CHECKPOINT_COUNTED, snapshot->counted);
    hwt_delay_set32(head + HWT_DELAY_CHECKPOINT_CRC,
                    hwt_delay_crc(store->key, head + HWT_DELAY_CHECKPOINT_VERSION,
                                  size - HWT_DELAY_CHECKPOINT_VERSION));
}

/* Counts the messages that this checkpoint brings to slots. The slots have those that it moves
 * already. */
static void count_brought(const struct hwt_delay_snapshot *snapshot, struct hwt_delay_filed *filed)
{
    for (size_t i = 0; i < snapshot->count && snapshot->brings; i++) {
        const struct hwt_delay_record *record = snapshot->records[i];
        if (record->kind == HWT_DELAY_PUT && !record->moved)
            hwt_delay_filed_add(filed, record->key.due, 1);
    }
}

/* The bytes of a checkpoint; takes the lock for the list of slots. */
static unsigned char *encode(hwt_delay *store, const struct hwt_delay_filed *filed,
                             size_t *ret_size)
{
    const struct hwt_delay_snapshot *snapshot = &store->checkpoint.snapshot;
    size_t size = HWT_DELAY_CHECKPOINT_SIZE + filed->count * HWT_DELAY_SPAN_SIZE;
    for (size_t i = 0; i < snapshot->whole_count; i++)
        size += hwt_delay_encoded_most(snapshot->whole[i]);
    pthread_mutex_lock(&store->lock);
    size_t slots = 0;
    size_t gaps = hwt_delay_gaps_of(store)->count;
    unsigned char *bytes = malloc(size + hwt_delay_slots_count(store) * HWT_DELAY_FILE_SIZE +
                                  gaps * HWT_DELAY_GAP_SIZE);
    unsigned char *at = bytes ? bytes + HWT_DELAY_CHECKPOINT_SIZE : NULL;
    struct hwt_delay_slot *slot = bytes ? hwt_delay_slots_first(store) : NULL;
    for (; slot; slot = hwt_delay_slots_next(slot)) {
        if (slot->new_length == 0)
            continue;
        encode_slot(slot, at);
        at += HWT_DELAY_FILE_SIZE;
        slots++;
    }
    for (size_t i = 0; bytes && i < gaps; i++, at += HWT_DELAY_GAP_SIZE)
        encode_gap(&hwt_delay_gaps_of(store)->all[i], at);
    pthread_mutex_unlock(&store->lock);
    if (!bytes)
        return NULL;
    hwt_delay_filed_encode(filed, at);
    at += filed->count * HWT_DELAY_SPAN_SIZE;
    struct hwt_delay_before before = { 0 };
    for (size_t i = 0; i < snapshot->whole_count; i++)
        at = hwt_delay_encode(&before, snapshot->whole[i], at);
    *ret_size = (size_t)(at - bytes);
    encode_head(store, bytes, *ret_size, slots, gaps, filed);
    return bytes;
}

/*
 * Room for the checkpoint after this one, with twice the slots, and as much leased as may be and
 * the slots have, with all that a record may have besides its payload; at least for one like this.
 * In slots records are packed, and leased ones follow each other in another order, in which they
 * may share nothing. So on a full disk each of the two files is as long as it will ever be, and the
 * next one needs the `old` bytes that the old one leaves. Messages that are leased out of the log
 * have room in the reserve. If there is no room, that shows when it is needed.
 */
static void set_room_aside(hwt_delay *store, const unsigned char *bytes, uint64_t size,
                           uint64_t old)
{
    int file = hwt_delay_open_file(store, "checkpoint.next", O_RDWR | O_CREAT);
    if (file < 0)
        return;
    uint64_t slots = hwt_delay_get32(bytes + HWT_DELAY_CHECKPOINT_FILES), leased = size;
    const unsigned char *at = bytes + HWT_DELAY_CHECKPOINT_SIZE;
    for (uint64_t i = 0; i < slots; i++, at += hwt_delay_entry_size(bytes))
        leased += hwt_delay_get64(at + HWT_DELAY_FILE_LENGTH) +
                  ENVELOPE_MAX * hwt_delay_get64(at + HWT_DELAY_FILE_COUNT);
    if (leased > hwt_delay_leased_bytes_max(store))
        leased = hwt_delay_leased_bytes_max(store);
    uint64_t room = HWT_DELAY_CHECKPOINT_SIZE + 2 * slots * HWT_DELAY_FILE_SIZE +
                    HWT_DELAY_SPANS_MAX * HWT_DELAY_SPAN_SIZE + HWT_DELAY_RECORD_HEAD_MAX + 4 +
                    HWT_DELAY_NOTE_MAX;
    room = (room < ROOM_MIN ? ROOM_MIN : room) + leased;
    uint64_t least = size < ROOM_MIN ? ROOM_MIN : size;
    if (hwt_delay_allocate(store, file, room) < 0 &&
        hwt_delay_allocate(store, file, old < least ? least : old) < 0)
        hwt_delay_allocate(store, file, least);
    hwt_delay_close_file(store, file);
}

/* How long the checkpoint is that has the name. */
static uint64_t old_length(hwt_delay *store)
{
    int file = hwt_delay_open_file(store, "checkpoint", O_RDONLY);
    int64_t length = file < 0 ? 0 : hwt_delay_file_size(store, file);
    hwt_delay_close_file(store, file);
    return length < 0 ? 0 : (uint64_t)length;
}

/* -EIO: it is not known which of the two checkpoints the disk has. */
int hwt_delay_checkpoint_write(hwt_delay *store, const unsigned char *bytes, size_t size)
{
    int file = hwt_delay_open_file(store, "checkpoint.next", O_RDWR | O_CREAT);
    int r = file < 0 ? file : hwt_delay_write_all(store, file, bytes, size, 0);
    /* An empty store gives the room back. */
    if (r == 0 && hwt_delay_get32(bytes + HWT_DELAY_CHECKPOINT_FILES) == 0)
        r = hwt_delay_truncate(store, file, size);
    if (r == 0 && hwt_delay_sync(store, file) < 0)
        r = -EIO;
    hwt_delay_close_file(store, file);
    if (r < 0)
        return r;
    uint64_t old = old_length(store);
    r = hwt_delay_rename(store, "checkpoint.next", "checkpoint");
    if (hwt_delay_is_full(r)) /* copying a directory takes room: it has its old name */
        return r;
    if (r < 0 || hwt_delay_sync_directory(store) < 0)
        return -EIO;
    atomic_fetch_add_explicit(&store->slot_bytes, size, memory_order_relaxed);
    set_room_aside(store, bytes, size, old);
    return 0;
}

/* Writes the snapshot's checkpoint. */
int hwt_delay_publish(hwt_delay *store)
{
    size_t size;
    struct hwt_delay_filed filed = store->checkpoint.snapshot.filed;
    count_brought(&store->checkpoint.snapshot, &filed);
    unsigned char *bytes = encode(store, &filed, &size);
    if (!bytes)
        return -ENOMEM;
    int r = hwt_delay_checkpoint_write(store, bytes, size);
    free(bytes);
    return r;
}

/* That of a new store. */
int hwt_delay_checkpoint_first(hwt_delay *store)
{
    store->checkpoint.snapshot.from.sequence = 1;
    hwt_delay_filed_init(&store->checkpoint.snapshot.filed);
    store->checkpoint.snapshot.from.offset = HWT_DELAY_SEGMENT_FRAMES;
    int r = hwt_delay_publish(store);
    store->checkpoint.snapshot = (struct hwt_delay_snapshot){ 0 };
    return r;
}
