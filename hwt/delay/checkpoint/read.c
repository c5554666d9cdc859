/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reading the checkpoint that is on the disk. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

/* Can a frame of a log of that length be where the checkpoint says? */
bool hwt_delay_checkpoint_fits(const unsigned char *head, uint64_t extent)
{
    uint64_t offset = hwt_delay_get64(head + HWT_DELAY_CHECKPOINT_POSITION);
    return offset >= HWT_DELAY_SEGMENT_FRAMES && offset <= extent && offset % 8 == 0;
}

/* Is this a whole checkpoint? Its size, or an error. */
static int64_t verify(const hwt_delay *store, const unsigned char *head, size_t size)
{
    if (size < HWT_DELAY_CHECKPOINT_SIZE ||
        hwt_delay_get64(head + HWT_DELAY_CHECKPOINT_MAGIC) != HWT_DELAY_MAGIC_CHECKPOINT)
        return -EBADMSG;
    uint64_t length = hwt_delay_get64(head + HWT_DELAY_CHECKPOINT_LENGTH);
    if (length > size - HWT_DELAY_CHECKPOINT_SIZE)
        return -EBADMSG;
    uint64_t whole = HWT_DELAY_CHECKPOINT_SIZE + length;
    if (hwt_delay_get32(head + HWT_DELAY_CHECKPOINT_CRC) !=
        hwt_delay_crc(store->key, head + HWT_DELAY_CHECKPOINT_VERSION,
                      (size_t)whole - HWT_DELAY_CHECKPOINT_VERSION))
        return -EBADMSG;
    int r = hwt_delay_version_check(head + HWT_DELAY_CHECKPOINT_VERSION);
    if (r < 0)
        return r;
    return hwt_delay_checkpoint_fits(head, store->options.segment_size) ? (int64_t)whole : -EBADMSG;
}

/* How many bytes of the file can count. The rest is room that was set aside. Or an error. */
static int64_t size_to_read(hwt_delay *store, int file)
{
    unsigned char head[HWT_DELAY_CHECKPOINT_SIZE] = { 0 };
    int64_t size = hwt_delay_file_size(store, file);
    int64_t n = size < 0 ? size : hwt_delay_read_all(store, file, head, sizeof(head), 0);
    if (n < (int64_t)sizeof(head))
        return n;
    uint64_t length = hwt_delay_get64(head + HWT_DELAY_CHECKPOINT_LENGTH);
    return length < (uint64_t)size - sizeof(head) ? (int64_t)(sizeof(head) + length) : size;
}

/* The bytes of the checkpoint, verified; the caller frees them. An owner may have a longer log by
 * now. */
int hwt_delay_checkpoint_read(hwt_delay *store, unsigned char **ret_bytes, uint64_t *ret_size)
{
    int file = hwt_delay_open_file(store, "checkpoint", O_RDONLY);
    if (file < 0)
        return file == -ENOENT ? -EBADMSG : file;
    int64_t size = size_to_read(store, file);
    unsigned char *bytes = size < 0 ? NULL : malloc((size_t)size + 1);
    int64_t n = size;
    if (size >= 0)
        n = bytes ? hwt_delay_read_all(store, file, bytes, (size_t)size, 0) : -ENOMEM;
    hwt_delay_close_file(store, file);
    if (n >= 0)
        n = verify(store, bytes, (size_t)n);
    if (n < 0) {
        free(bytes);
        return (int)n;
    }
    *ret_bytes = bytes;
    *ret_size = (uint64_t)n;
    return 0;
}

/* The log counts from there on. */
struct hwt_delay_log_point hwt_delay_checkpoint_point(const unsigned char *head)
{
    return (struct hwt_delay_log_point){
        .segment = hwt_delay_get32(head + HWT_DELAY_CHECKPOINT_SEGMENT) & 1,
        .offset = hwt_delay_get64(head + HWT_DELAY_CHECKPOINT_POSITION),
        .sequence = hwt_delay_get64(head + HWT_DELAY_CHECKPOINT_SEQUENCE),
    };
}

/* This is the checkpoint with which the store is opened. */
void hwt_delay_checkpoint_opened(hwt_delay *store, const unsigned char *head)
{
    store->checkpoint.opened_crc = hwt_delay_get32(head + HWT_DELAY_CHECKPOINT_CRC);
}

/*
 * Something that the checkpoint of the opening names is not there, or cannot be read: -EBADMSG.
 * -ESTALE: the store was opened read-only, and its owner has made a checkpoint since. Without the
 * lock.
 */
int hwt_delay_damaged_or_stale(hwt_delay *store)
{
    unsigned char *checkpoint;
    uint64_t size;
    if (!store->read_only)
        return -EBADMSG;
    int r = hwt_delay_checkpoint_read(store, &checkpoint, &size);
    if (r < 0)
        return r;
    bool same =
        hwt_delay_get32(checkpoint + HWT_DELAY_CHECKPOINT_CRC) == store->checkpoint.opened_crc;
    free(checkpoint);
    return same ? -EBADMSG : -ESTALE;
}
