/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reading frames of the log: only while nobody writes it, or up to what is durable. See log.c. */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/store.h"

/* Does it have the head of a frame that may be there? */
static bool is_head(const hwt_delay *store, const unsigned char *head, uint64_t offset)
{
    uint64_t size = HWT_DELAY_FRAME_SIZE + (uint64_t)hwt_delay_get32(head + HWT_DELAY_FRAME_LENGTH);
    return hwt_delay_get32(head + HWT_DELAY_FRAME_MAGIC) == HWT_DELAY_MAGIC_FRAME &&
           size <= store->log.frame_max && size <= store->options.segment_size - offset;
}

/* Has it records, and do their sequences go up? */
static bool is_sane(const struct hwt_delay_frame *frame)
{
    return frame->count > 0 && frame->sequence <= UINT64_MAX - frame->count;
}

/* Of bytes that have the head of a frame and all that it claims. -EBADMSG: it is not whole. */
static int take_frame(const hwt_delay *store, unsigned segment, uint64_t offset,
                      const unsigned char *bytes, struct hwt_delay_frame *ret_frame)
{
    uint32_t length = hwt_delay_get32(bytes + HWT_DELAY_FRAME_LENGTH);
    if (hwt_delay_get32(bytes + HWT_DELAY_FRAME_CRC) !=
        hwt_delay_crc(store->key, bytes + HWT_DELAY_FRAME_LENGTH,
                      HWT_DELAY_FRAME_SIZE - HWT_DELAY_FRAME_LENGTH + length))
        return -EBADMSG;
    *ret_frame = (struct hwt_delay_frame){
        .segment = segment,
        .offset = offset,
        .size = (HWT_DELAY_FRAME_SIZE + (uint64_t)length + 7) & ~UINT64_C(7),
        .length = length,
        .count = hwt_delay_get32(bytes + HWT_DELAY_FRAME_COUNT),
        .sequence = hwt_delay_get64(bytes + HWT_DELAY_FRAME_SEQUENCE),
        .hand = hwt_delay_get64(bytes + HWT_DELAY_FRAME_HAND),
    };
    return is_sane(ret_frame) ? 0 : -EBADMSG;
}

/* Into `bytes`, of log.frame_max. -EBADMSG: there is no whole frame. */
int hwt_delay_frame_read(hwt_delay *store, unsigned segment, uint64_t offset, unsigned char *bytes,
                         struct hwt_delay_frame *ret_frame)
{
    int file = store->log.files[segment];
    if (offset + HWT_DELAY_FRAME_SIZE > store->options.segment_size)
        return -EBADMSG;
    int64_t n = hwt_delay_read_all(store, file, bytes, HWT_DELAY_FRAME_SIZE, offset);
    if (n < HWT_DELAY_FRAME_SIZE)
        return n < 0 ? (int)n : -EBADMSG;
    if (!is_head(store, bytes, offset))
        return -EBADMSG;
    uint32_t length = hwt_delay_get32(bytes + HWT_DELAY_FRAME_LENGTH);
    n = hwt_delay_read_all(store, file, bytes + HWT_DELAY_FRAME_SIZE, length,
                           offset + HWT_DELAY_FRAME_SIZE);
    if (n < (int64_t)length)
        return n < 0 ? (int)n : -EBADMSG;
    return take_frame(store, segment, offset, bytes, ret_frame);
}

/* How many bytes were to be written there by a write that did not end; 0: none. */
int64_t hwt_delay_frame_torn(hwt_delay *store, unsigned segment, uint64_t offset, uint64_t sequence)
{
    unsigned char head[HWT_DELAY_FRAME_SIZE];
    int64_t n = hwt_delay_read_all(store, store->log.files[segment], head, sizeof(head), offset);
    if (n < (int64_t)sizeof(head))
        return n < 0 ? n : 0;
    if (hwt_delay_get32(head + HWT_DELAY_FRAME_MAGIC) != HWT_DELAY_MAGIC_FRAME ||
        hwt_delay_get64(head + HWT_DELAY_FRAME_SEQUENCE) != sequence)
        return 0;
    return HWT_DELAY_FRAME_SIZE + (is_head(store, head, offset)
                                       ? (int64_t)hwt_delay_get32(head + HWT_DELAY_FRAME_LENGTH)
                                       : 0);
}

/*
 * Looks for whole frames at every multiple of 8. Payloads may look like frames, so that
 *   - whole frames are not looked into, where one follows another;
 *   - elsewhere only what has a sequence that can come is read;
 *   - of what turns out to be no frame no more is looked at than a segment has. More is not a frame
 *     that was damaged: somebody has made it up, or nothing there can be trusted.
 */
struct search {
    hwt_delay *store;
    unsigned segment;
    uint64_t lowest, highest; /* sequences */
    uint64_t left;            /* so many bytes that are no frame may be looked at */
    bool follows;             /* a whole frame ended here */
    bool any;
    struct hwt_delay_frame *found; /* the one with the lowest sequence */
};

static bool is_better(const struct search *search, uint64_t sequence)
{
    return sequence >= search->lowest && sequence <= search->highest &&
           (!search->any || sequence < search->found->sequence);
}

/* The frame at `offset`, of which `room` bytes are at `head`. */
static int read_frame(const struct search *search, uint64_t offset, const unsigned char *head,
                      uint64_t room, struct hwt_delay_frame *ret_frame)
{
    hwt_delay *store = search->store;
    if (hwt_delay_get32(head + HWT_DELAY_FRAME_LENGTH) <= room - HWT_DELAY_FRAME_SIZE)
        return take_frame(store, search->segment, offset, head, ret_frame);
    return hwt_delay_frame_read(store, search->segment, offset, store->log.gathered, ret_frame);
}

/* How many bytes to go on, or an error. -EBADMSG: too much is no frame. */
static int64_t look(struct search *search, uint64_t offset, const unsigned char *head,
                    uint64_t room)
{
    bool better = is_better(search, hwt_delay_get64(head + HWT_DELAY_FRAME_SEQUENCE));
    bool follows = search->follows;
    search->follows = false;
    if (!is_head(search->store, head, offset) || (!follows && !better))
        return 8;
    struct hwt_delay_frame frame;
    int r = read_frame(search, offset, head, room, &frame);
    if (r == 0) {
        search->follows = true;
        if (better)
            *search->found = frame;
        search->any = search->any || better;
        return (int64_t)frame.size;
    }
    uint64_t size = HWT_DELAY_FRAME_SIZE + (uint64_t)hwt_delay_get32(head + HWT_DELAY_FRAME_LENGTH);
    if (r != -EBADMSG || size > search->left)
        return r;
    search->left -= size;
    return 8;
}

static int look_through(struct search *search, unsigned char *bytes, size_t room)
{
    int file = search->store->log.files[search->segment];
    uint64_t offset = HWT_DELAY_SEGMENT_FRAMES;
    for (;;) {
        int64_t n = hwt_delay_read_all(search->store, file, bytes, room, offset);
        if (n < HWT_DELAY_FRAME_SIZE)
            return n < 0 ? (int)n : 0;
        int64_t i = 0;
        while (i + HWT_DELAY_FRAME_SIZE <= n) {
            int64_t on = look(search, offset + (uint64_t)i, bytes + i, (uint64_t)(n - i));
            if (on < 0)
                return (int)on;
            i += on;
        }
        offset += (uint64_t)i;
    }
}

/* Salvage puts the segment aside, as there may be more in it, and goes on as with a made-up
 * checkpoint. */
static int give_up(const struct search *search)
{
    hwt_delay *store = search->store;
    if (!store->salvage)
        return -EBADMSG;
    store->made_up = true;
    return hwt_delay_put_aside(store, store->log.files[search->segment], 0,
                               store->options.segment_size);
}

/* 1: the whole frame with the lowest sequence that is not below this one; 0: there is none. */
int hwt_delay_frame_later(hwt_delay *store, uint64_t sequence, struct hwt_delay_frame *ret_frame)
{
    const size_t room = (size_t)1 << 20;
    unsigned char *bytes = malloc(room);
    if (!bytes)
        return -ENOMEM;
    uint64_t numbers = store->made_up ? UINT64_MAX : hwt_delay_log_numbers(store);
    struct search search = {
        .store = store,
        .lowest = sequence,
        .highest = numbers < UINT64_MAX - sequence ? sequence + numbers : UINT64_MAX,
        .found = ret_frame,
    };
    int r = 0;
    for (; search.segment < 2 && r == 0; search.segment++) {
        search.left = store->options.segment_size;
        search.follows = true;
        r = look_through(&search, bytes, room);
        if (r == -EBADMSG)
            r = give_up(&search);
    }
    free(bytes);
    return r < 0 ? r : search.any;
}
