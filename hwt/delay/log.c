/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The log: two segments of a fixed size, written in turn.
 *
 * Callers gather records in the bytes of the next frame, under the lock, and change the table at the
 * same time; so the table is always what the log says up to the last gathered record. One of those
 * that wait for their frame becomes the leader: it takes what was gathered, writes it as one frame
 * with one flush, and wakes those that waited for it; meanwhile the others gather the next. Those
 * that did not wait are called back by one thread, in the order of the frames.
 *
 * On the disk: the frame before anybody is told that its records are durable. One frame at a time
 * is written and not flushed, so behind a torn frame there is never a whole newer one. A segment
 * is written anew only when the checkpoint on the disk does not need its frames any more.
 *
 * Puts fill less than a segment before a checkpoint brings them to slots: the rest is for cancels and
 * for messages that are done, and the reserve (checkpoint.c) has room for them on a full disk.
 *
 * A write or flush that fails poisons the store: what the disk has is not known from then on.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/store.h"

static size_t padded(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

static bool other_is_free(const struct hwt_delay_log *log)
{
    return log->kept_segment == log->segment;
}

enum room { ROOM, ROOM_AFTER_FRAME, ROOM_AFTER_CHECKPOINT };

static enum room room_for(const hwt_delay *store, size_t size)
{
    const struct hwt_delay_log *log = &store->log;
    size_t frame = padded(HWT_DELAY_FRAME_SIZE + log->length + size);
    if (frame > log->frame_max)
        return ROOM_AFTER_FRAME;
    return other_is_free(log) || log->offset + frame <= store->options.segment_size
               ? ROOM
               : ROOM_AFTER_CHECKPOINT;
}

static bool memory_is_short(const hwt_delay *store, size_t memory)
{
    uint64_t fresh = store->bytes[HWT_DELAY_FRESH];
    return fresh > 0 && fresh + memory > store->options.memory / 8 * 3;
}

/* What the log has that is not in slots must find room in the reserve, if the disk gets full. */
static bool reserve_is_short(const hwt_delay *store, size_t size)
{
    return store->log.kept_bytes + store->log.length + size > store->options.segment_size / 8 * 7;
}

/* One wait, or one step in the place of it, for a checkpoint to make room. */
static int wait_for_checkpoint(hwt_delay *store, bool put)
{
    int r = 0;
    if (store->alone)
        r = hwt_delay_checkpoint_make(store);
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
 * until its memory fits. Lets go of the lock while it waits: what was looked at before is old.
 * -EMSGSIZE: no frame has so much room.
 */
int hwt_delay_log_reserve(hwt_delay *store, size_t size, size_t memory, bool put)
{
    if (padded(HWT_DELAY_FRAME_SIZE + size) > store->log.frame_max)
        return -EMSGSIZE;
    for (;;) {
        if (store->poisoned)
            return -EIO;
        enum room room = room_for(store, size);
        if (room == ROOM && put &&
            (store->full || memory_is_short(store, memory) || reserve_is_short(store, size)))
            room = ROOM_AFTER_CHECKPOINT;
        int r = 0;
        if (room == ROOM)
            return 0;
        if (room == ROOM_AFTER_CHECKPOINT)
            r = wait_for_checkpoint(store, put);
        else if (store->log.writing)
            pthread_cond_wait(&store->changed, &store->lock);
        else
            hwt_delay_log_lead(store);
        if (r < 0)
            return r;
    }
}

/*
 * Gathers a record, for which room was reserved, and returns the number of its frame. Its
 * sequence in the log is its own from then on, or that of a message which is done stays.
 */
uint64_t hwt_delay_log_add(hwt_delay *store, struct hwt_delay_record *record, bool own_sequence)
{
    struct hwt_delay_log *log = &store->log;
    uint64_t sequence = log->next_sequence++;
    if (own_sequence)
        record->key.sequence = sequence;
    hwt_delay_encode(record, log->gathered + HWT_DELAY_FRAME_SIZE + log->length);
    log->length += hwt_delay_encoded_size(record);
    log->count++;
    if (record->kind == HWT_DELAY_ERASE)
        store->erased_bytes += hwt_delay_record_bytes(record);
    return log->gathered_frame;
}

void hwt_delay_poison(hwt_delay *store)
{
    store->poisoned = true;
    pthread_cond_broadcast(&store->changed);
    pthread_cond_broadcast(&store->log.durable[0]);
    pthread_cond_broadcast(&store->log.durable[1]);
    pthread_cond_broadcast(&store->takers);
}

/* ---- who is called back ---- */

static void take_notices(struct hwt_delay_notices *from, struct hwt_delay_notices *notices)
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

/* Calls back, without the lock. What a callback puts is told in a later round, not inside of it. */
void hwt_delay_log_tell(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    struct hwt_delay_notices notices;
    if (log->telling)
        return;
    log->telling = true;
    while (!STAILQ_EMPTY(&log->to_tell)) {
        take_notices(&log->to_tell, &notices);
        pthread_mutex_unlock(&store->lock);
        tell(&notices);
        pthread_mutex_lock(&store->lock);
    }
    log->telling = false;
    pthread_cond_broadcast(&store->changed);
}

/*
 * Their frame is on the disk, or will not be. The committer tells them, and nobody else: a callback
 * may put, and so wait for a frame or a checkpoint, whose thread must not be the one that waits.
 */
static void pass_notices(hwt_delay *store, struct hwt_delay_notices *notices, int result)
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
    if (store->alone)
        hwt_delay_log_tell(store);
    else
        pthread_cond_signal(&store->committer_wake);
}

/* ---- frames ---- */

static void write_head(const hwt_delay *store, unsigned char *frame, size_t length, uint32_t count,
                       uint64_t sequence, uint64_t hand)
{
    memset(frame, 0, HWT_DELAY_FRAME_SIZE);
    hwt_delay_set32(frame + HWT_DELAY_FRAME_MAGIC, HWT_DELAY_MAGIC_FRAME);
    hwt_delay_set32(frame + HWT_DELAY_FRAME_LENGTH, (uint32_t)length);
    hwt_delay_set32(frame + HWT_DELAY_FRAME_COUNT, count);
    hwt_delay_set64(frame + HWT_DELAY_FRAME_SEQUENCE, sequence);
    hwt_delay_set64(frame + HWT_DELAY_FRAME_HAND, hand);
    hwt_delay_set32(frame + HWT_DELAY_FRAME_CRC,
                    hwt_delay_crc(store->key, frame + HWT_DELAY_FRAME_LENGTH,
                                  HWT_DELAY_FRAME_SIZE - HWT_DELAY_FRAME_LENGTH + length));
}

/* Writes a frame and flushes it, without the lock. */
static int write_frame(hwt_delay *store, unsigned segment, uint64_t offset, unsigned char *frame,
                       size_t size)
{
    int file = store->log.files[segment];
    int r = hwt_delay_write_all(store, file, frame, size, offset);
    return r < 0 ? r : hwt_delay_sync(store, file);
}

/* Takes what was gathered, and where it goes. */
static void take_frame(hwt_delay *store, size_t *ret_size, uint64_t *ret_at)
{
    struct hwt_delay_log *log = &store->log;
    size_t length = log->length, size = padded(HWT_DELAY_FRAME_SIZE + length);
    unsigned char *frame = log->gathered;
    if (log->offset + size > store->options.segment_size) {
        log->segment ^= 1;
        log->offset = HWT_DELAY_SEGMENT_FRAMES;
    }
    memset(frame + HWT_DELAY_FRAME_SIZE + length, 0, size - HWT_DELAY_FRAME_SIZE - length);
    *ret_at = log->offset;
    *ret_size = size;
    log->offset += size;
    log->kept_bytes += size;
    log->gathered = log->writing_bytes;
    log->writing_bytes = frame;
    log->length = 0;
    log->count = 0;
    log->gathered_frame++;
    store->stats.commits++;
    store->stats.log_bytes += size;
}

/* After a frame: wakes those who waited for it, and one who may lead the next. */
static void frame_is_done(hwt_delay *store, uint64_t frame, struct hwt_delay_notices *notices,
                          int r)
{
    struct hwt_delay_log *log = &store->log;
    log->writing = false;
    pthread_cond_broadcast(&log->durable[frame & 1]);
    pthread_cond_signal(&log->durable[(frame + 1) & 1]);
    pthread_cond_broadcast(&store->changed);
    if (store->waiting > 0 || store->event >= 0)
        hwt_delay_wake_arm(store);
    pass_notices(store, notices, r);
}

/* Nobody else leads. Lets go of the lock meanwhile. */
void hwt_delay_log_lead(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    struct hwt_delay_notices notices;
    if (store->poisoned) {
        take_notices(&log->notices, &notices);
        pass_notices(store, &notices, -EIO);
        return;
    }
    if (log->count == 0)
        return;
    size_t length = log->length, size;
    uint64_t at, frame = log->gathered_frame, behind = log->next_sequence;
    uint32_t count = log->count;
    hwt_delay_clock(store);
    uint64_t hand = store->hand;
    take_frame(store, &size, &at);
    unsigned segment = log->segment;
    take_notices(&log->notices, &notices);
    log->writing = true;
    if (store->snapshot_wanted)
        hwt_delay_snapshot_take(store);
    pthread_mutex_unlock(&store->lock);
    write_head(store, log->writing_bytes, length, count, behind - count, hand);
    int r = write_frame(store, segment, at, log->writing_bytes, size);
    pthread_mutex_lock(&store->lock);
    if (r < 0) {
        hwt_delay_poison(store);
    } else {
        log->durable_sequence = behind;
        log->durable_frame = frame;
    }
    frame_is_done(store, frame, &notices, r);
}

/* Waits until a frame is on the disk, or leads. */
int hwt_delay_log_wait(hwt_delay *store, uint64_t frame)
{
    struct hwt_delay_log *log = &store->log;
    while (log->durable_frame < frame) {
        if (store->poisoned)
            return -EIO;
        if (!log->writing)
            hwt_delay_log_lead(store);
        else
            pthread_cond_wait(&log->durable[frame & 1], &store->lock);
    }
    return 0;
}

/* Until all that was gathered is on the disk, or will not be, and all have been called back. */
void hwt_delay_log_finish(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    for (;;) {
        bool more = store->poisoned ? !STAILQ_EMPTY(&log->notices) : log->count > 0;
        if (more && !log->writing)
            hwt_delay_log_lead(store);
        else if (log->writing || log->telling || !STAILQ_EMPTY(&log->to_tell))
            pthread_cond_wait(&store->changed, &store->lock);
        else
            return;
    }
}
