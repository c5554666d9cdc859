/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Checking: every checksum of every file.
 *
 * Slots are read up to the length that counts, without the lock; one that has been deleted
 * meanwhile was done with. While the log is read no checkpoint is made, so none of its frames from
 * the checkpoint up to the last durable one is written over.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

struct check {
    hwt_delay *store;
    uint64_t sequence; /* no slot has a record with this one or a higher one */
    void (*found)(const hwt_delay_damage *damage, void *data);
    void *data;
    int64_t count;
};

static void tell(struct check *check, const char *file, uint64_t offset, uint64_t length,
                 const char *reason)
{
    const hwt_delay_damage damage = { sizeof(damage), file, offset, length, reason };
    check->count++;
    if (check->found)
        check->found(&damage, check->data);
}

/* ---- slots ---- */

static int check_records(const struct check *check, const struct hwt_delay_slot *slot,
                         const struct hwt_delay_block *block)
{
    const unsigned char *at = block->at;
    struct hwt_delay_before before = { 0 };
    for (uint32_t i = 0; i < block->count; i++) {
        struct hwt_delay_packed packed;
        int r = hwt_delay_unpack(&before, &at, block->end, &packed);
        if (r < 0)
            return r;
        if (!hwt_delay_is_of_slot(packed.kind) || packed.key.due >> slot->shift != slot->index ||
            packed.key.sequence >= check->sequence)
            return -EBADMSG;
    }
    return at == block->end ? 0 : -EBADMSG;
}

static int check_run(struct check *check, struct hwt_delay_slot *slot, const char *name, int file,
                     const struct hwt_delay_run *run)
{
    struct hwt_delay_block block = { 0 };
    uint64_t offset = run->next;
    int r = 0;
    while (offset < run->end && r == 0) {
        r = hwt_delay_slot_block(check->store, slot, file, offset, run->end, &block);
        if (r == 0)
            r = check_records(check, slot, &block);
        if (r == 0)
            offset = block.behind;
    }
    free(block.bytes);
    if (r != -EBADMSG)
        return r;
    tell(check, name, offset, run->end - offset, "a block that does not have its checksum");
    return 0;
}

/* Its file is not there. That is damage, unless the slot was done with meanwhile. */
static void check_that_it_is_gone(struct check *check, const struct hwt_delay_slot *slot,
                                  const char *name)
{
    hwt_delay *store = check->store;
    bool counts = false;
    pthread_mutex_lock(&store->lock);
    const struct hwt_delay_slot *there =
        hwt_delay_wheel_from(store, slot->shift, slot->index, slot->number);
    counts = there && there->number == slot->number;
    pthread_mutex_unlock(&store->lock);
    if (counts)
        tell(check, name, 0, slot->length, "the file is not there");
}

static int check_slot(struct check *check, struct hwt_delay_slot *slot)
{
    hwt_delay *store = check->store;
    char name[HWT_DELAY_NAME_MAX];
    hwt_delay_slot_name(slot, name);
    if (slot->length == 0) /* a checkpoint is making it */
        return 0;
    int file = hwt_delay_open_file(store, name, O_RDONLY);
    if (file == -ENOENT) {
        int lost = hwt_delay_damaged_or_stale(store);
        if (lost == -EBADMSG)
            check_that_it_is_gone(check, slot, name);
        return lost == -EBADMSG ? 0 : lost;
    }
    if (file < 0)
        return file;
    struct hwt_delay_reader *reader = &slot->reader;
    int r = hwt_delay_slot_index(store, file, slot->number, reader, slot->length);
    if (r == -EBADMSG) {
        tell(check, name, reader->indexed, slot->length - reader->indexed,
             "the head of a run does not have its checksum");
        r = 0;
    }
    for (size_t i = 0; i < reader->count && r == 0; i++)
        r = check_run(check, slot, name, file, &reader->runs[i]);
    hwt_delay_close_file(store, file);
    return r;
}

/* For a reading without the lock. */
static struct hwt_delay_slot copy_slot(const struct hwt_delay_slot *slot)
{
    return (struct hwt_delay_slot){
        .number = slot->number,
        .index = slot->index,
        .shift = slot->shift,
        .length = slot->length,
    };
}

/* Does not copy while a checkpoint ends, because that sets the lengths of slots before it sets the
 * sequence. */
static int copy_slots(struct check *check, struct hwt_delay_slot **ret_slots, size_t *ret_count)
{
    hwt_delay *store = check->store;
    pthread_mutex_lock(&store->lock);
    hwt_delay_slots_await(store);
    check->sequence = hwt_delay_log_kept(store).sequence;
    size_t count = 0;
    struct hwt_delay_slot *slots = calloc(hwt_delay_slots_count(store) + 1, sizeof(*slots));
    struct hwt_delay_slot *slot = slots ? hwt_delay_slots_first(store) : NULL;
    for (; slot; slot = hwt_delay_slots_next(slot))
        slots[count++] = copy_slot(slot);
    pthread_mutex_unlock(&store->lock);
    *ret_slots = slots;
    *ret_count = count;
    return slots ? 0 : -ENOMEM;
}

static int check_slots(struct check *check)
{
    struct hwt_delay_slot *slots;
    size_t count;
    int r = copy_slots(check, &slots, &count);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        if (r == 0)
            r = check_slot(check, &slots[i]);
        free(slots[i].reader.runs);
    }
    free(slots);
    return r;
}

/* ---- the log and the checkpoint ---- */

/* A frame at its place, read into memory of this call's own. */
static int check_frame(struct check *check, struct hwt_delay_log_point point,
                       struct hwt_delay_frame *ret_frame, unsigned char *bytes)
{
    int r = hwt_delay_frame_read(check->store, point.segment, point.offset, bytes, ret_frame);
    return r < 0 ? r : ret_frame->sequence == point.sequence ? 0 : -EBADMSG;
}

static int check_frames(struct check *check, uint64_t behind, unsigned char *bytes)
{
    struct hwt_delay_log_point point = hwt_delay_log_kept(check->store);
    while (point.sequence < behind) {
        struct hwt_delay_frame frame;
        int r = check_frame(check, point, &frame, bytes);
        if (r == -EBADMSG) {
            const struct hwt_delay_log_point other = { point.segment ^ 1, HWT_DELAY_SEGMENT_FRAMES,
                                                       point.sequence };
            r = check_frame(check, other, &frame, bytes);
            if (r == -EBADMSG)
                r = hwt_delay_damaged_or_stale(check->store);
            if (r == -EBADMSG) {
                tell(check, hwt_delay_segment_name(point.segment), point.offset,
                     hwt_delay_log_extent(check->store) - point.offset,
                     "a frame that does not have its checksum");
                return 0;
            }
        }
        if (r < 0)
            return r;
        point = (struct hwt_delay_log_point){ frame.segment, frame.offset + frame.size,
                                              frame.sequence + frame.count };
    }
    return 0;
}

/*
 * The end that opening cut off is told, and not counted, because power failures leave it, and
 * nobody was told that it is there. An owner may have written it by now.
 */
static int tell_cut(const struct check *check, unsigned char *bytes)
{
    const struct hwt_delay_cut cut = hwt_delay_log_cut(check->store);
    struct hwt_delay_frame frame;
    int r = -EBADMSG;
    if (check->store->read_only)
        r = hwt_delay_frame_read(check->store, cut.segment, cut.offset, bytes, &frame);
    if (r != -EBADMSG)
        return r;
    const hwt_delay_damage damage = {
        sizeof(damage),
        hwt_delay_segment_name(cut.segment),
        cut.offset,
        cut.length,
        "a write that did not end, unless what it wrote is damaged; it was cut off at the opening",
    };
    if (check->found && cut.length > 0)
        check->found(&damage, check->data);
    return 0;
}

static int check_log(struct check *check)
{
    hwt_delay *store = check->store;
    unsigned char *bytes = hwt_delay_frame_new(store);
    if (!bytes)
        return -ENOMEM;
    pthread_mutex_lock(&store->lock);
    hwt_delay_log_pin(store);
    uint64_t behind = hwt_delay_log_durable(store);
    pthread_mutex_unlock(&store->lock);
    int r = check_frames(check, behind, bytes);
    if (r == 0)
        r = tell_cut(check, bytes);
    unsigned char *checkpoint;
    uint64_t size;
    if (r == 0)
        r = hwt_delay_checkpoint_read(store, &checkpoint, &size);
    if (r == 0)
        free(checkpoint);
    if (r == -EBADMSG) {
        tell(check, "checkpoint", 0, 0, "it does not have its checksum");
        r = 0;
    }
    pthread_mutex_lock(&store->lock);
    hwt_delay_log_unpin(store);
    pthread_mutex_unlock(&store->lock);
    free(bytes);
    return r;
}

int64_t hwt_delay_check(hwt_delay *store, void (*found)(const hwt_delay_damage *damage, void *data),
                        void *data)
{
    if (!store)
        return -EINVAL;
    struct check check = { .store = store, .found = found, .data = data };
    int shield = hwt_shield(), r = check_log(&check);
    if (r == 0)
        r = check_slots(&check);
    hwt_unshield(shield);
    return r < 0 ? r : check.count;
}
