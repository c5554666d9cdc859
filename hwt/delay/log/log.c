/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The log: two segments, written in turn; extent.c says how long they are.
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

/* Up to where frames go; behind that there is room for the mark of a close. */
static uint64_t segment_end(const hwt_delay *store, bool mark)
{
    const size_t size = padded(HWT_DELAY_FRAME_SIZE + HWT_DELAY_RECORD_SIZE);
    return store->log.extent - (mark ? 0 : size);
}

enum room { ROOM, ROOM_AFTER_FRAME, ROOM_AFTER_GROWTH, ROOM_AFTER_CHECKPOINT };

static enum room room_to_be_made(const hwt_delay *store)
{
    return hwt_delay_extent_may_grow(store) ? ROOM_AFTER_GROWTH : ROOM_AFTER_CHECKPOINT;
}

static enum room room_for(const hwt_delay *store, size_t size)
{
    const struct hwt_delay_log *log = &store->log;
    size_t frame = padded(HWT_DELAY_FRAME_SIZE + log->length + size);
    if (frame > log->frame_max)
        return ROOM_AFTER_FRAME;
    uint64_t end = segment_end(store, false);
    return log->offset + frame <= end ||
                   (other_is_free(log) && HWT_DELAY_SEGMENT_FRAMES + frame <= end)
               ? ROOM
               : room_to_be_made(store);
}

/* Not even an empty log of this length has room for such a frame. */
static bool is_too_long(const hwt_delay *store, size_t size)
{
    size_t frame = padded(HWT_DELAY_FRAME_SIZE + size);
    return HWT_DELAY_SEGMENT_FRAMES + frame > segment_end(store, false) ||
           size > store->log.extent / 8 * 7;
}

static bool memory_is_short(const hwt_delay *store, size_t memory)
{
    uint64_t fresh = store->bytes[HWT_DELAY_FRESH];
    return fresh > 0 && fresh + memory > store->options.memory / 8 * 3;
}

/* What the log has that is not in slots must find room in the reserve, if the disk gets full. */
static bool reserve_is_short(const hwt_delay *store, size_t size)
{
    return store->log.kept_bytes + store->log.length + size > store->log.extent / 8 * 7;
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

/* One wait, or one step in the place of it, for a longer log. */
static void wait_for_growth(hwt_delay *store, size_t size)
{
    hwt_delay_growth_want(store, size);
    if (store->alone) {
        hwt_delay_extent_grow(store);
    } else {
        pthread_cond_wait(&store->changed, &store->lock);
    }
}

/* The same for a checkpoint to make room. */
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
        enum room room = put ? room_for_put(store, size, memory) : room_for(store, size);
        int r = 0;
        if (room == ROOM)
            return 0;
        if (room == ROOM_AFTER_GROWTH)
            wait_for_growth(store, size);
        else if (room == ROOM_AFTER_CHECKPOINT)
            r = is_too_long(store, size) ? too_long(store) : wait_for_checkpoint(store, put);
        else if (store->log.writing)
            pthread_cond_wait(&store->changed, &store->lock);
        else
            hwt_delay_log_lead(store);
        if (r < 0)
            return r;
    }
}

/* The same for callers that do not wait. -EAGAIN: there is no room yet, and it is being made. */
int hwt_delay_log_try(hwt_delay *store, size_t size, size_t memory, bool put)
{
    if (padded(HWT_DELAY_FRAME_SIZE + size) > store->log.frame_max)
        return -EMSGSIZE;
    if (store->poisoned)
        return -EIO;
    enum room room = put ? room_for_put(store, size, memory) : room_for(store, size);
    if (room == ROOM)
        return 0;
    /* Somebody waits for what fills the frame: its callers, or the committer, lead. */
    if (room == ROOM_AFTER_FRAME)
        return -EAGAIN;
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

/* Room for a record behind those that were gathered. */
static unsigned char *gather(struct hwt_delay_log *log, size_t size)
{
    unsigned char *at = log->gathered + HWT_DELAY_FRAME_SIZE + log->length;
    log->length += size;
    log->next_sequence++;
    log->count++;
    return at;
}

/* The frame that is gathered ends something that is due then. */
static void note_end(struct hwt_delay_log *log, uint64_t due)
{
    uint64_t *from = &log->ended_from[log->gathered_frame & 1];
    *from = due < *from ? due : *from;
}

/* Up to there nothing is due that a frame ends which is not on the disk yet. */
uint64_t hwt_delay_log_ended_from(const hwt_delay *store)
{
    const struct hwt_delay_log *log = &store->log;
    uint64_t gathered = log->ended_from[log->gathered_frame & 1];
    uint64_t before = log->durable_frame + 1 < log->gathered_frame
                          ? log->ended_from[(log->gathered_frame - 1) & 1]
                          : HWT_NEVER;
    return gathered < before ? gathered : before;
}

/* Gathers a record, for which room was reserved. The log's next sequence is its own from then on, but
 * for a drop, which has that of its mark. */
void hwt_delay_log_add(hwt_delay *store, struct hwt_delay_record *record)
{
    struct hwt_delay_log *log = &store->log;
    if (record->kind != HWT_DELAY_DROP)
        record->key.sequence = log->next_sequence;
    hwt_delay_encode(record, gather(log, hwt_delay_encoded_size(record)));
    log->closed = record->kind == HWT_DELAY_CLOSED;
    if (record->kind == HWT_DELAY_DROP)
        note_end(log, 0);
    if (record->kind != HWT_DELAY_ERASE)
        return;
    note_end(log, record->key.due);
    store->erased_bytes += hwt_delay_record_bytes(record);
}

/* The same for the erase of a message that is done: it has the sequence of the message. */
void hwt_delay_log_add_done(hwt_delay *store, const struct hwt_delay_record *message)
{
    size_t size = HWT_DELAY_RECORD_SIZE + (size_t)message->id_size;
    hwt_delay_encode_erase(message, !message->lease->superseded, gather(&store->log, size));
    note_end(&store->log, message->key.due);
    store->erased_bytes += hwt_delay_record_bytes(message) - message->payload_size -
                           (message->origin ? sizeof(*message->origin) : 0);
    store->log.closed = false;
}

void hwt_delay_poison(hwt_delay *store)
{
    store->poisoned = true;
    pthread_cond_broadcast(&store->changed);
    pthread_cond_broadcast(&store->log.durable[0]);
    pthread_cond_broadcast(&store->log.durable[1]);
    hwt_delay_wake_all(store);
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
        hwt_delay_job_want(&store->jobs[HWT_DELAY_COMMIT]);
}

/* ---- frames ---- */

static void write_head(const hwt_delay *store, unsigned char *bytes,
                       const struct hwt_delay_frame *frame)
{
    memset(bytes, 0, HWT_DELAY_FRAME_SIZE);
    hwt_delay_set32(bytes + HWT_DELAY_FRAME_LENGTH, frame->length);
    hwt_delay_set32(bytes + HWT_DELAY_FRAME_COUNT, frame->count);
    hwt_delay_set32(bytes + HWT_DELAY_FRAME_RECORDS_CRC,
                    hwt_delay_crc(store->key, bytes + HWT_DELAY_FRAME_SIZE, (size_t)frame->length));
    hwt_delay_set32(bytes + HWT_DELAY_FRAME_PLACE, hwt_delay_place(frame->segment, frame->offset));
    hwt_delay_set64(bytes + HWT_DELAY_FRAME_SEQUENCE, frame->sequence);
    hwt_delay_set64(bytes + HWT_DELAY_FRAME_HAND, frame->hand);
    hwt_delay_head_seal(bytes, store->key, HWT_DELAY_MAGIC_FRAME, HWT_DELAY_FRAME_SIZE);
}

/* Writes a frame and flushes it, without the lock. 1: there is no reserve any more. */
static int write_frame(hwt_delay *store, const struct hwt_delay_frame *frame)
{
    unsigned char *bytes = store->log.writing_bytes;
    size_t behind = HWT_DELAY_FRAME_SIZE + (size_t)frame->length;
    int file = store->log.files[frame->segment];
    write_head(store, bytes, frame);
    memset(bytes + behind, 0, (size_t)frame->size - behind);
    int r = hwt_delay_overwrite(store, file, bytes, (size_t)frame->size, frame->offset);
    int synced = r < 0 ? r : hwt_delay_sync(store, file);
    return synced < 0 ? synced : r;
}

/* Takes what was gathered to writing_bytes, and says where it goes. */
static struct hwt_delay_frame take_frame(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    size_t size = padded(HWT_DELAY_FRAME_SIZE + log->length);
    unsigned char *bytes = log->gathered;
    if (log->offset + size > segment_end(store, log->closed)) {
        log->segment ^= 1;
        log->offset = HWT_DELAY_SEGMENT_FRAMES;
    }
    const struct hwt_delay_frame frame = {
        .segment = log->segment,
        .offset = log->offset,
        .size = size,
        .length = (uint32_t)log->length,
        .count = log->count,
        .sequence = log->next_sequence - log->count,
        .hand = store->hand,
    };
    log->offset += size;
    log->kept_bytes += size;
    log->gathered = log->writing_bytes;
    log->writing_bytes = bytes;
    log->length = 0;
    log->count = 0;
    log->gathered_frame++;
    log->ended_from[log->gathered_frame & 1] = HWT_NEVER;
    store->stats.commits++;
    store->stats.log_bytes += size;
    return frame;
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
    if (!STAILQ_EMPTY(&log->notices))
        hwt_delay_job_want(&store->jobs[HWT_DELAY_COMMIT]);
}

/* Nobody else leads. Lets go of the lock meanwhile. */
void hwt_delay_log_lead(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    struct hwt_delay_notices notices;
    if (store->poisoned || log->count == 0) {
        take_notices(&log->notices, &notices);
        pass_notices(store, &notices, store->poisoned ? -EIO : 0);
        return;
    }
    uint64_t number = log->gathered_frame;
    hwt_delay_clock(store);
    const struct hwt_delay_frame frame = take_frame(store);
    take_notices(&log->notices, &notices);
    log->writing = true;
    if (store->snapshot_wanted)
        hwt_delay_snapshot_take(store);
    pthread_mutex_unlock(&store->lock);
    int r = write_frame(store, &frame);
    pthread_mutex_lock(&store->lock);
    if (r < 0) {
        hwt_delay_poison(store);
    } else {
        log->durable_sequence = frame.sequence + frame.count;
        log->durable_frame = number;
    }
    if (r > 0) {
        store->full = true;
        hwt_delay_room_soon(store);
    }
    frame_is_done(store, number, &notices, r);
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
        bool more = !STAILQ_EMPTY(&log->notices) || (log->count > 0 && !store->poisoned);
        if (more && !log->writing)
            hwt_delay_log_lead(store);
        else if (log->writing || log->telling || !STAILQ_EMPTY(&log->to_tell))
            pthread_cond_wait(&store->changed, &store->lock);
        else
            return;
    }
}

/*
 * The mark of a close, behind the last frame that counts: where that frame cannot be read any more, the
 * mark shows that it was there. Nothing is gathered. A mark that is not written is no failure.
 */
void hwt_delay_log_close(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    const hwt_delay_message none = { 0 };
    if (store->read_only || store->poisoned || log->closed ||
        log->kept_sequence == log->next_sequence)
        return;
    struct hwt_delay_record *mark = hwt_delay_record_new(HWT_DELAY_CLOSED, &none);
    if (!mark)
        return;
    hwt_delay_log_add(store, mark);
    hwt_delay_record_unref(mark);
    hwt_delay_log_lead(store);
}
