/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds room in the log, for the frame that is gathered and in the segment to which it goes. A call
 * waits for it, or is told to come again; meanwhile a leader writes the frame, or the log grows, or
 * a checkpoint is made.
 *
 * Puts fill less than a segment before a checkpoint brings them to slots. The rest is for cancels
 * and for messages that are done, and the reserve (checkpoint.c) has room for them on a full disk.
 */

#include <errno.h>

#include "hwt/delay/whole.h"

enum room { ROOM, ROOM_AFTER_FRAME, ROOM_AFTER_GROWTH, ROOM_AFTER_CHECKPOINT };

static bool other_is_free(const struct hwt_delay_log *log)
{
    return log->kept.segment == log->segment;
}

static enum room room_to_be_made(const hwt_delay *store)
{
    return hwt_delay_extent_may_grow(store) ? ROOM_AFTER_GROWTH : ROOM_AFTER_CHECKPOINT;
}

static enum room room_for(const hwt_delay *store, size_t size)
{
    const struct hwt_delay_log *log = &store->log;
    size_t frame = hwt_delay_frame_size(log->length + size);
    if (frame > log->frame_max)
        return ROOM_AFTER_FRAME;
    uint64_t end = hwt_delay_log_limit(store, false);
    return log->offset + frame <= end ||
                   (other_is_free(log) && HWT_DELAY_SEGMENT_FRAMES + frame <= end)
               ? ROOM
               : room_to_be_made(store);
}

/* Not even an empty log of this length has room for such a frame. */
static bool is_too_long(const hwt_delay *store, size_t size)
{
    size_t frame = hwt_delay_frame_size(size);
    return HWT_DELAY_SEGMENT_FRAMES + frame > hwt_delay_log_limit(store, false) ||
           size > store->log.extent / 8 * 7;
}

static bool memory_is_short(const hwt_delay *store, size_t memory)
{
    uint64_t bytes = hwt_delay_new_bytes(store);
    return bytes > 0 && bytes + memory > store->options.memory / 8 * 3;
}

/* The records of the log that are not in slots must find room in the reserve, if the disk gets
 * full. */
static bool reserve_is_short(const hwt_delay *store, size_t size)
{
    return store->log.kept_bytes + store->log.most + size > store->log.extent / 8 * 7;
}

static enum room room_for_put(const hwt_delay *store, size_t size, size_t memory)
{
    enum room room = room_for(store, size);
    if (room == ROOM && (store->full || memory_is_short(store, memory)))
        return ROOM_AFTER_CHECKPOINT;
    return room == ROOM && reserve_is_short(store, size) ? room_to_be_made(store) : room;
}

/* The next call sees whether the disk has room for a longer log by then. */
static int too_long(hwt_delay *store)
{
    store->log.stunted = false;
    return -ENOSPC;
}

/* One wait for the frame that is gathered, which has no room, or it is written here. */
static void wait_for_frame(hwt_delay *store)
{
    if (!store->log.led) {
        hwt_delay_log_lead(store);
        return;
    }
    hwt_delay_log_hurry(store);
    pthread_cond_wait(&store->changed, &store->lock);
}

/* One wait, or one step in the place of it, for a longer log. */
static void wait_for_growth(hwt_delay *store, size_t size)
{
    hwt_delay_growth_want(store, size);
    if (store->synchronous) {
        hwt_delay_extent_grow(store);
    } else {
        pthread_cond_wait(&store->changed, &store->lock);
    }
}

/* The same for a checkpoint to make room. */
static int wait_for_checkpoint(hwt_delay *store, bool put)
{
    int r = 0;
    if (store->synchronous)
        r = hwt_delay_checkpoint_now(store);
    else if (store->stuck == 0 && !(put && store->full)) {
        hwt_delay_checkpoint_want(store);
        pthread_cond_wait(&store->changed, &store->lock);
    }
    if (r == 0 && store->stuck != 0)
        r = store->stuck;
    return r == 0 && put && store->full ? -ENOSPC : r;
}

/*
 * Waits until `size` bytes of records find room in the frame that is gathered, and for a put also
 * until its memory fits. Lets go of the lock while it waits, so whatever was looked at before is
 * old.
 * -EMSGSIZE: no frame has so much room.
 */
int hwt_delay_log_reserve(hwt_delay *store, size_t size, size_t memory, bool put)
{
    if (hwt_delay_frame_size(size) > store->log.frame_max)
        return -EMSGSIZE;
    for (;;) {
        if (store->poisoned)
            return -EIO;
        enum room room = put ? room_for_put(store, size, memory) : room_for(store, size);
        int r = 0;
        if (room == ROOM)
            return 0;
        if (room == ROOM_AFTER_GROWTH)
            wait_for_growth(store, size);
        else if (room == ROOM_AFTER_CHECKPOINT)
            r = is_too_long(store, size) ? too_long(store) : wait_for_checkpoint(store, put);
        else
            wait_for_frame(store);
        if (r < 0)
            return r;
    }
}

/* The same for callers that do not wait. -EAGAIN: there is no room yet, and it is being made. */
int hwt_delay_log_try(hwt_delay *store, size_t size, size_t memory, bool put)
{
    if (hwt_delay_frame_size(size) > store->log.frame_max)
        return -EMSGSIZE;
    if (store->poisoned)
        return -EIO;
    enum room room = put ? room_for_put(store, size, memory) : room_for(store, size);
    if (room == ROOM)
        return 0;
    /* Somebody waits for the records that fill the frame. Its callers, or the committer, lead. */
    if (room == ROOM_AFTER_FRAME) {
        hwt_delay_log_hurry(store);
        return -EAGAIN;
    }
    if (room == ROOM_AFTER_GROWTH) {
        hwt_delay_growth_want(store, size);
        return -EAGAIN;
    }
    if (is_too_long(store, size))
        return too_long(store);
    if (put && store->full)
        return -ENOSPC;
    if (store->stuck != 0)
        return store->stuck;
    hwt_delay_checkpoint_want(store);
    return -EAGAIN;
}

/* Up to where frames go; behind that there is room for the mark of a close. */
uint64_t hwt_delay_log_limit(const hwt_delay *store, bool mark)
{
    const size_t size = hwt_delay_frame_size(HWT_DELAY_RECORD_HEAD_MAX);
    return store->log.extent - (mark ? 0 : size);
}
