/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The log has two segments, which are written in turn. extent.c says how long they are.
 *
 * Callers gather records in the bytes of the next frame, under the lock, and change the table at
 * the same time; so the table is always what the log says up to the last gathered record. One of
 * those that wait for their frame becomes the leader. It takes what was gathered, writes it as one
 * frame with one flush, and wakes those that waited for it; meanwhile the others gather the next.
 * See wait.c. Those that did not wait are called back by one thread, in the order of the frames.
 *
 * A frame is on the disk before anybody is told that its records are durable. One frame at a time
 * is written and not flushed, so behind a torn frame there is never a whole newer one. A segment is
 * written anew only when the checkpoint on the disk does not need its frames any more.
 *
 * A longer segment has room on the disk, but no bytes yet. The first flush of a block there is
 * slow, because the file system notes in its journal that the block has bytes from then on. So
 * where small frames come to such ground, the leader writes zeros, too, behind the first of them,
 * so one flush makes ground for several. A large frame is written as it is, since it would only
 * double what goes to the disk. Nothing relies on the zeros. Which ground is new is not known after
 * an opening, so all is held to be.
 *
 * A write or flush that fails poisons the store, because it is not known from then on what the disk
 * has.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

/* Behind the records that were gathered. */
static unsigned char *end_of_gathered(const struct hwt_delay_log *log)
{
    return log->gathered + HWT_DELAY_FRAME_SIZE + log->length;
}

/* One was written there, up to `end`. */
static void note_gathered(struct hwt_delay_log *log, const unsigned char *end, size_t most)
{
    log->length = (size_t)(end - log->gathered) - HWT_DELAY_FRAME_SIZE;
    log->most += most;
    log->next_sequence++;
    log->count++;
}

/* The frame that is gathered ends something that is due then. */
static void note_end(struct hwt_delay_log *log, uint64_t due)
{
    uint64_t *from = &log->ended_from[log->gathered_frame & 1];
    *from = due < *from ? due : *from;
}

/* Gathers a record, for which room was reserved. The log's next sequence is its own from then on,
 * but for a drop, which has that of its mark. */
void hwt_delay_log_add(hwt_delay *store, struct hwt_delay_record *record)
{
    struct hwt_delay_log *log = &store->log;
    if (record->kind != HWT_DELAY_DROP)
        record->key.sequence = log->next_sequence;
    note_gathered(log, hwt_delay_encode(&log->before, record, end_of_gathered(log)),
                  hwt_delay_encoded_most(record));
    log->closed = record->kind == HWT_DELAY_CLOSED;
    if (record->kind == HWT_DELAY_DROP)
        note_end(log, 0);
    if (record->kind != HWT_DELAY_TOMBSTONE)
        return;
    note_end(log, record->key.due);
    store->log.tombstone_bytes += hwt_delay_record_bytes(record);
}

/* The same for the tombstone of a message that is done, which has the sequence of the message. */
void hwt_delay_log_add_done(hwt_delay *store, const struct hwt_delay_record *message)
{
    struct hwt_delay_log *log = &store->log;
    bool ends = !message->lease->superseded;
    note_gathered(log,
                  hwt_delay_encode_tombstone(&log->before, message, ends, end_of_gathered(log)),
                  hwt_delay_tombstone_most(message));
    note_end(log, message->key.due);
    log->tombstone_bytes += hwt_delay_tombstone_bytes(message);
    log->closed = false;
}

void hwt_delay_poison(hwt_delay *store)
{
    store->poisoned = true;
    pthread_cond_broadcast(&store->changed);
    hwt_delay_log_hurry(store);
    hwt_delay_turns_wake_all(store);
    hwt_delay_changed(store, HWT_DELAY_LOOK);
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

enum { LARGE = 64 << 10, FRAMES_AHEAD = 32 };

/* Returns the end of the zeros that are written behind this frame. 0: none are. */
static uint64_t make_ground(hwt_delay *store, const struct hwt_delay_frame *frame)
{
    uint64_t end = frame->offset + frame->size, *ground = &store->log.ground[frame->segment];
    if (end <= *ground)
        return 0;
    *ground = end;
    if (frame->size >= LARGE || store->full)
        return 0;
    uint64_t to = (end + FRAMES_AHEAD * frame->size + 4095) / 4096 * 4096;
    *ground = to < store->log.extent ? to : store->log.extent;
    return *ground;
}

/* Writes a frame, zeros up to `ground`, and flushes, without the lock. 1: there is no reserve any
 * more. */
static int write_frame(hwt_delay *store, const struct hwt_delay_frame *frame, uint64_t ground)
{
    unsigned char *bytes = store->log.writing_bytes;
    size_t behind = HWT_DELAY_FRAME_SIZE + (size_t)frame->length;
    int file = store->log.files[frame->segment];
    write_head(store, bytes, frame);
    memset(bytes + behind, 0, (size_t)frame->size - behind);
    int r = hwt_delay_overwrite(store, file, bytes, (size_t)frame->size, frame->offset);
    if (r == 0) /* zeros that could not be written are no loss */
        (void)hwt_delay_write_zeros(store, file, frame->offset + frame->size, ground);
    int synced = r < 0 ? r : hwt_delay_sync(store, file);
    return synced < 0 ? synced : r;
}

/* Takes what was gathered to writing_bytes, and says where it goes. */
static struct hwt_delay_frame take_frame(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    size_t size = hwt_delay_frame_size(log->length);
    unsigned char *bytes = log->gathered;
    if (log->offset + size > hwt_delay_log_limit(store, log->closed)) {
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
        .hand = hwt_delay_hand(store),
    };
    log->offset += size;
    log->kept_bytes += hwt_delay_frame_size(log->most);
    log->gathered = log->writing_bytes;
    log->writing_bytes = bytes;
    log->length = log->most = 0;
    log->before = (struct hwt_delay_before){ 0 };
    log->count = 0;
    log->gathered_frame++;
    log->ended_from[log->gathered_frame & 1] = HWT_NEVER;
    store->stats.commits++;
    store->stats.log_bytes += size;
    return frame;
}

/* Called after a frame, when nobody leads any more. */
static void frame_is_done(hwt_delay *store, uint64_t frame, struct hwt_delay_notices *notices,
                          int r)
{
    struct hwt_delay_log *log = &store->log;
    log->led = false;
    hwt_delay_callers_expect(store, frame);
    hwt_delay_turns_end(store);
    pthread_cond_broadcast(&store->changed);
    hwt_delay_changed(store, HWT_DELAY_MORE);
    hwt_delay_notices_pass(store, notices, r);
    if (!TAILQ_EMPTY(&log->notices))
        hwt_delay_want(store, HWT_DELAY_COMMIT);
}

static void call_between(hwt_delay *store)
{
    void (*call)(hwt_delay * store) = store->log.between;
    store->log.between = NULL;
    call(store);
    pthread_cond_broadcast(&store->changed);
}

/* Nothing is to be written, or nothing can be. */
static void lead_nothing(hwt_delay *store)
{
    struct hwt_delay_notices notices;
    hwt_delay_notices_take(&store->log.notices, &notices);
    hwt_delay_notices_pass(store, &notices, store->poisoned ? -EIO : 0);
    pthread_mutex_unlock(&store->lock);
}

/* Nobody else leads. Lets go of the lock. */
void hwt_delay_log_lead_and_leave(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    struct hwt_delay_notices notices;
    if (store->poisoned || log->count == 0) {
        lead_nothing(store);
        return;
    }
    uint64_t number = log->gathered_frame;
    hwt_delay_clock(store);
    const struct hwt_delay_frame frame = take_frame(store);
    uint64_t ground = make_ground(store, &frame);
    hwt_delay_notices_take(&log->notices, &notices);
    log->led = true;
    if (log->between)
        call_between(store);
    pthread_mutex_unlock(&store->lock);
    uint64_t begun = hwt_delay_monotonic();
    int r = write_frame(store, &frame, ground);
    uint64_t took = hwt_delay_monotonic() - begun;
    pthread_mutex_lock(&store->lock);
    log->flush_took = took;
    if (r < 0) {
        hwt_delay_poison(store);
    } else {
        log->durable_sequence = frame.sequence + frame.count;
        /* Release: see wait.c. */
        atomic_store_explicit(&log->durable_frame, number, memory_order_release);
    }
    if (r > 0) {
        store->full = true;
        store->given_up++;
        hwt_delay_room_soon(store);
    }
    frame_is_done(store, number, &notices, r);
    pthread_mutex_unlock(&store->lock);
    hwt_delay_turns_wake(store, number);
}

/* The same, and has the lock again. */
void hwt_delay_log_lead(hwt_delay *store)
{
    hwt_delay_log_lead_and_leave(store);
    pthread_mutex_lock(&store->lock);
}

/* By the next leader, or here. */
int hwt_delay_log_between(hwt_delay *store, void (*call)(hwt_delay *store))
{
    struct hwt_delay_log *log = &store->log;
    log->between = call;
    while (log->between) {
        if (store->poisoned) {
            log->between = NULL;
            return -EIO;
        }
        if (log->count == 0) {
            call_between(store);
        } else if (!log->led) {
            hwt_delay_log_lead(store);
        } else {
            hwt_delay_log_hurry(store);
            pthread_cond_wait(&store->changed, &store->lock);
        }
    }
    return 0;
}

/* Until all that was gathered is on the disk, or will not be, and all have been called back. */
void hwt_delay_log_finish(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    for (;;) {
        bool more = !TAILQ_EMPTY(&log->notices) || (log->count > 0 && !store->poisoned);
        if (more && !log->led)
            hwt_delay_log_lead(store);
        else if (log->led || log->telling || !TAILQ_EMPTY(&log->to_tell))
            pthread_cond_wait(&store->changed, &store->lock);
        else
            return;
    }
}

/*
 * The mark of a close, behind the last frame that counts. If that frame cannot be read any more,
 * the mark shows that it was there. Nothing is gathered. A mark that is not written is no failure.
 */
void hwt_delay_log_close(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    const hwt_delay_message none = { 0 };
    if (store->read_only || store->poisoned || log->closed ||
        log->kept.sequence == log->next_sequence)
        return;
    struct hwt_delay_record *mark = hwt_delay_record_new(HWT_DELAY_CLOSED, &none);
    if (!mark)
        return;
    hwt_delay_log_add(store, mark);
    hwt_delay_record_unref(mark);
    hwt_delay_log_lead(store);
}
