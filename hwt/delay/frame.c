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
    if (n < 0)
        return (int)n;
    if (n < (int64_t)length ||
        hwt_delay_get32(bytes + HWT_DELAY_FRAME_CRC) !=
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

/* A whole frame at one place, if it is of this sequence or later and before what was found. */
static int look(hwt_delay *store, unsigned segment, uint64_t offset, const unsigned char *head,
                uint64_t sequence, struct hwt_delay_frame *found, bool *any)
{
    uint64_t its = hwt_delay_get64(head + HWT_DELAY_FRAME_SEQUENCE);
    if (!is_head(store, head, offset) || its < sequence || (*any && its >= found->sequence))
        return 0;
    struct hwt_delay_frame frame;
    int r = hwt_delay_frame_read(store, segment, offset, store->log.gathered, &frame);
    if (r == 0) {
        *found = frame;
        *any = true;
    }
    return r == -EBADMSG ? 0 : r;
}

static int look_through(hwt_delay *store, unsigned segment, uint64_t sequence, unsigned char *bytes,
                        size_t room, struct hwt_delay_frame *found, bool *any)
{
    uint64_t offset = HWT_DELAY_SEGMENT_FRAMES;
    for (;;) {
        int64_t n = hwt_delay_read_all(store, store->log.files[segment], bytes, room, offset);
        if (n < HWT_DELAY_FRAME_SIZE)
            return n < 0 ? (int)n : 0;
        size_t i = 0;
        for (; i + HWT_DELAY_FRAME_SIZE <= (size_t)n; i += 8) {
            if (hwt_delay_get32(bytes + i) != HWT_DELAY_MAGIC_FRAME)
                continue;
            int r = look(store, segment, offset + i, bytes + i, sequence, found, any);
            if (r < 0)
                return r;
        }
        offset += i;
    }
}

/* 1: the whole frame with the lowest sequence that is not below this one; 0: there is none. */
int hwt_delay_frame_later(hwt_delay *store, uint64_t sequence, struct hwt_delay_frame *ret_frame)
{
    const size_t room = (size_t)1 << 20;
    unsigned char *bytes = malloc(room);
    if (!bytes)
        return -ENOMEM;
    bool any = false;
    int r = 0;
    for (unsigned segment = 0; segment < 2 && r == 0; segment++)
        r = look_through(store, segment, sequence, bytes, room, ret_frame, &any);
    free(bytes);
    return r < 0 ? r : any;
}
