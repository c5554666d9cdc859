/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads frames of the log, only while nobody writes it, or up to what is durable. See log.c. */

#include <errno.h>

#include "hwt/delay/whole.h"

/* Is this the head of a frame of this store, which may have been written at another place? */
static bool is_any_head(const hwt_delay *store, const unsigned char *head)
{
    return hwt_delay_head_is(head, store->key, HWT_DELAY_MAGIC_FRAME, HWT_DELAY_FRAME_SIZE);
}

/* Is this the head of a frame of this store that belongs there? */
static bool is_head(const hwt_delay *store, const unsigned char *head, unsigned segment,
                    uint64_t offset)
{
    uint64_t size = HWT_DELAY_FRAME_SIZE + (uint64_t)hwt_delay_get32(head + HWT_DELAY_FRAME_LENGTH);
    uint32_t count = hwt_delay_get32(head + HWT_DELAY_FRAME_COUNT);
    return is_any_head(store, head) &&
           hwt_delay_get32(head + HWT_DELAY_FRAME_PLACE) == hwt_delay_place(segment, offset) &&
           offset % 8 == 0 && size <= store->log.frame_max && size <= store->log.extent - offset &&
           count > 0 && hwt_delay_get64(head + HWT_DELAY_FRAME_SEQUENCE) <= UINT64_MAX - count;
}

static struct hwt_delay_frame frame_of(const unsigned char *head, unsigned segment, uint64_t offset)
{
    uint32_t length = hwt_delay_get32(head + HWT_DELAY_FRAME_LENGTH);
    return (struct hwt_delay_frame){
        .segment = segment,
        .offset = offset,
        .size = (HWT_DELAY_FRAME_SIZE + (uint64_t)length + 7) & ~UINT64_C(7),
        .length = length,
        .count = hwt_delay_get32(head + HWT_DELAY_FRAME_COUNT),
        .sequence = hwt_delay_get64(head + HWT_DELAY_FRAME_SEQUENCE),
        .hand = hwt_delay_get64(head + HWT_DELAY_FRAME_HAND),
    };
}

/* Reads the head at a place. -EBADMSG: there is none. */
static int read_head(hwt_delay *store, unsigned segment, uint64_t offset, unsigned char *head)
{
    if (offset + HWT_DELAY_FRAME_SIZE > store->log.extent)
        return -EBADMSG;
    int64_t n =
        hwt_delay_read_all(store, store->log.files[segment], head, HWT_DELAY_FRAME_SIZE, offset);
    if (n < HWT_DELAY_FRAME_SIZE)
        return n < 0 ? (int)n : -EBADMSG;
    return is_head(store, head, segment, offset) ? 0 : -EBADMSG;
}

/* Into `bytes`, of log.frame_max. -EBADMSG: there is no whole frame. */
int hwt_delay_frame_read(hwt_delay *store, unsigned segment, uint64_t offset, unsigned char *bytes,
                         struct hwt_delay_frame *ret_frame)
{
    unsigned char *records = bytes + HWT_DELAY_FRAME_SIZE;
    int r = read_head(store, segment, offset, bytes);
    if (r < 0)
        return r;
    const struct hwt_delay_frame frame = frame_of(bytes, segment, offset);
    int64_t n = hwt_delay_read_all(store, store->log.files[segment], records, frame.length,
                                   offset + HWT_DELAY_FRAME_SIZE);
    if (n < 0)
        return (int)n;
    if (n < (int64_t)frame.length || hwt_delay_get32(bytes + HWT_DELAY_FRAME_RECORDS_CRC) !=
                                         hwt_delay_crc(store->key, records, frame.length))
        return -EBADMSG;
    *ret_frame = frame;
    return 0;
}

/*
 * How many bytes were to be written there by a write that did not end; 0: none. Its head may be
 * torn itself, or damaged in one place.
 */
int64_t hwt_delay_frame_torn(hwt_delay *store, unsigned segment, uint64_t offset, uint64_t sequence)
{
    unsigned char head[HWT_DELAY_FRAME_SIZE] = { 0 };
    int r = read_head(store, segment, offset, head);
    if (r == 0) {
        const struct hwt_delay_frame frame = frame_of(head, segment, offset);
        return frame.sequence == sequence ? HWT_DELAY_FRAME_SIZE + (int64_t)frame.length : 0;
    }
    if (r != -EBADMSG)
        return r;
    bool like = hwt_delay_get32(head + HWT_DELAY_HEAD_MAGIC) == HWT_DELAY_MAGIC_FRAME &&
                hwt_delay_get64(head + HWT_DELAY_FRAME_SEQUENCE) == sequence;
    return like || hwt_delay_get64(head + HWT_DELAY_HEAD_KEY) == store->key ? HWT_DELAY_FRAME_SIZE
                                                                            : 0;
}

struct search {
    const hwt_delay *store;
    unsigned segment;
    uint64_t sequence;
    bool any, displaced;
    struct hwt_delay_frame *found; /* the one with the lowest sequence */
    struct hwt_delay_log_point expected[2];
    size_t count;
};

/* Is it the head of a frame that is expected at another place? */
static bool is_displaced(const struct search *search, const unsigned char *head, uint64_t offset)
{
    for (size_t i = 0; i < search->count; i++) {
        const struct hwt_delay_log_point *at = &search->expected[i];
        if (hwt_delay_get64(head + HWT_DELAY_FRAME_SEQUENCE) == at->sequence &&
            hwt_delay_get32(head + HWT_DELAY_FRAME_PLACE) ==
                hwt_delay_place(at->segment, at->offset))
            return search->segment != at->segment || offset != at->offset;
    }
    return false;
}

static bool note_frame(const unsigned char *head, uint64_t offset, void *arg)
{
    struct search *search = arg;
    uint64_t sequence = hwt_delay_get64(head + HWT_DELAY_FRAME_SEQUENCE);
    if (sequence < search->sequence || !is_any_head(search->store, head))
        return false;
    search->displaced |= is_displaced(search, head, offset);
    if (sequence > search->sequence && (!search->any || sequence < search->found->sequence) &&
        is_head(search->store, head, search->segment, offset)) {
        *search->found = frame_of(head, search->segment, offset);
        search->any = true;
    }
    return false;
}

/* The next frame; and the one behind it, if the head of the next is there, and the rest is not
 * whole. */
static int expect_frames(hwt_delay *store, struct search *search)
{
    const struct hwt_delay_log *log = &store->log;
    unsigned char head[HWT_DELAY_FRAME_SIZE];
    search->expected[search->count++] = hwt_delay_log_end(store);
    int r = read_head(store, log->segment, log->offset, head);
    if (r < 0)
        return r == -EBADMSG ? 0 : r;
    const struct hwt_delay_frame frame = frame_of(head, log->segment, log->offset);
    if (frame.sequence == log->next_sequence)
        search->expected[search->count++] =
            (struct hwt_delay_log_point){ frame.segment, frame.offset + frame.size,
                                          frame.sequence + frame.count };
    return 0;
}

/*
 * Looks at the heads alone, because nothing but a frame that was written there can have one. A payload
 * may have the head of any frame, so a head at another place says something only if the log goes on
 * with that frame.
 */
int hwt_delay_frame_later(hwt_delay *store, uint64_t sequence, struct hwt_delay_frame *ret_frame,
                          bool *ret_displaced)
{
    struct search search = { .store = store, .sequence = sequence, .found = ret_frame };
    int expected = expect_frames(store, &search);
    if (expected < 0)
        return expected;
    for (; search.segment < 2; search.segment++) {
        int64_t r =
            hwt_delay_search(store, store->log.files[search.segment], HWT_DELAY_FRAME_SIZE,
                             HWT_DELAY_SEGMENT_FRAMES, store->log.extent, note_frame, &search);
        if (r < 0)
            return (int)r;
    }
    *ret_displaced = search.displaced;
    return search.any;
}
