/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Makes the log's two files, and reads their heads. */

#include <errno.h>
#include <fcntl.h>

#include "hwt/delay/whole.h"

const char *hwt_delay_segment_name(unsigned index)
{
    static const char *const names[] = { "log.0", "log.1" };
    return names[index];
}

int hwt_delay_log_file(const hwt_delay *store, unsigned segment)
{
    return store->log.files[segment];
}

int hwt_delay_segment_open(hwt_delay *store, unsigned index, int flags)
{
    return hwt_delay_open_file(store, hwt_delay_segment_name(index), flags);
}

void hwt_delay_segment_head(const hwt_delay *store, unsigned index, uint64_t extent,
                            unsigned char *head)
{
    memset(head, 0, HWT_DELAY_SEGMENT_SIZE);
    hwt_delay_set64(head + HWT_DELAY_SEGMENT_MAGIC, HWT_DELAY_MAGIC_SEGMENT);
    hwt_delay_set32(head + HWT_DELAY_SEGMENT_VERSION, HWT_DELAY_VERSION);
    hwt_delay_set32(head + HWT_DELAY_SEGMENT_INDEX, index);
    hwt_delay_set64(head + HWT_DELAY_SEGMENT_KEY, store->key);
    hwt_delay_set64(head + HWT_DELAY_SEGMENT_LENGTH, store->options.segment_size);
    hwt_delay_set64(head + HWT_DELAY_SEGMENT_EXTENT, extent);
    hwt_delay_set32(head + HWT_DELAY_SEGMENT_CRC,
                    hwt_delay_crc(0, head + HWT_DELAY_SEGMENT_VERSION,
                                  HWT_DELAY_SEGMENT_SIZE - HWT_DELAY_SEGMENT_VERSION));
}

int hwt_delay_segment_make(hwt_delay *store, unsigned index)
{
    unsigned char head[HWT_DELAY_SEGMENT_SIZE];
    uint64_t extent = hwt_delay_extent_least(store);
    int file = hwt_delay_segment_open(store, index, O_RDWR | O_CREAT | O_TRUNC);
    if (file < 0)
        return file;
    hwt_delay_segment_head(store, index, extent, head);
    int r = hwt_delay_write_all(store, file, head, sizeof(head), 0);
    if (r == 0)
        r = hwt_delay_lengthen(store, file, sizeof(head), extent);
    if (r == 0)
        r = hwt_delay_sync(store, file);
    hwt_delay_close_file(store, file);
    return r;
}

/* ---- opening ---- */

int hwt_delay_segment_read(hwt_delay *store, unsigned index,
                           unsigned char head[HWT_DELAY_SEGMENT_SIZE])
{
    int64_t n = hwt_delay_read_all(store, store->log.files[index], head, HWT_DELAY_SEGMENT_SIZE, 0);
    if (n < 0)
        return (int)n;
    if (n < HWT_DELAY_SEGMENT_SIZE ||
        hwt_delay_get64(head + HWT_DELAY_SEGMENT_MAGIC) != HWT_DELAY_MAGIC_SEGMENT ||
        hwt_delay_get32(head + HWT_DELAY_SEGMENT_INDEX) != index ||
        hwt_delay_get32(head + HWT_DELAY_SEGMENT_CRC) !=
            hwt_delay_crc(0, head + HWT_DELAY_SEGMENT_VERSION,
                          HWT_DELAY_SEGMENT_SIZE - HWT_DELAY_SEGMENT_VERSION))
        return -EBADMSG;
    return hwt_delay_version_check(head + HWT_DELAY_SEGMENT_VERSION);
}

/* *ret_extent: how long its head says that it is, at least. */
static int read_segment(hwt_delay *store, unsigned index, uint64_t *ret_extent)
{
    unsigned char head[HWT_DELAY_SEGMENT_SIZE];
    int r = hwt_delay_segment_read(store, index, head);
    if (r < 0)
        return r;
    uint64_t key = hwt_delay_get64(head + HWT_DELAY_SEGMENT_KEY);
    uint64_t size = hwt_delay_get64(head + HWT_DELAY_SEGMENT_LENGTH);
    uint64_t extent = hwt_delay_get64(head + HWT_DELAY_SEGMENT_EXTENT);
    if (extent == 0)
        extent = size;
    *ret_extent = extent;
    return key == store->key && size == store->options.segment_size &&
                   extent >= hwt_delay_extent_least(store) && extent <= size && extent % 4096 == 0
               ? 0
               : -EBADMSG;
}

/* The longer one of the log's files; at least as long as one can be. */
int64_t hwt_delay_segments_longer(hwt_delay *store)
{
    uint64_t longer = HWT_DELAY_SEGMENT_LEAST;
    for (unsigned i = 0; i < 2; i++) {
        int64_t size = hwt_delay_file_size(store, store->log.files[i]);
        if (size < 0)
            return size;
        longer = (uint64_t)size > longer ? (uint64_t)size : longer;
    }
    return (int64_t)((longer + 4095) / 4096 * 4096);
}

/* The segments are as long as both of their heads say, or longer: see extent.c. */
int hwt_delay_segments_read(hwt_delay *store)
{
    uint64_t extents[2];
    int r = 0;
    for (unsigned i = 0; i < 2 && r == 0; i++) {
        r = read_segment(store, i, &extents[i]);
        int64_t size = hwt_delay_file_size(store, store->log.files[i]);
        if (r == 0 && size < (int64_t)extents[i])
            r = size < 0 ? (int)size : -EBADMSG;
    }
    if (r < 0)
        return r;
    store->log.extent = extents[0] < extents[1] ? extents[0] : extents[1];
    store->log.said = extents[0] < extents[1] ? extents[1] : extents[0];
    return 0;
}

/*
 * A segment that was cut gets its length again; what is too much is put aside. One whose head is
 * damaged can be read all the same, because each frame's checksum counts.
 */
static int salvage_segment(hwt_delay *store, unsigned index)
{
    unsigned char head[HWT_DELAY_SEGMENT_SIZE];
    int file = store->log.files[index];
    uint64_t extent = store->log.extent, said = extent;
    int64_t size = hwt_delay_file_size(store, file);
    int r = size < 0 ? (int)size : read_segment(store, index, &said);
    if (r == -EBADMSG)
        r = hwt_delay_put_aside(store, file, 0, sizeof(head));
    if (r == 0 && size < (int64_t)said)
        hwt_delay_count_salvaged(store, said - (uint64_t)size);
    if (r == 0 && size < (int64_t)extent)
        r = hwt_delay_lengthen(store, file, (uint64_t)size, extent);
    if (r == 0 && size > (int64_t)extent)
        r = hwt_delay_put_aside(store, file, extent, (uint64_t)size - extent);
    if (r == 0 && size > (int64_t)extent)
        r = hwt_delay_truncate(store, file, extent);
    hwt_delay_segment_head(store, index, extent, head);
    return r < 0 ? r : hwt_delay_write_all(store, file, head, sizeof(head), 0);
}

/* Both get the length of the longer one, as far as that can be. */
int hwt_delay_segments_salvage(hwt_delay *store)
{
    int64_t longer = hwt_delay_segments_longer(store);
    if (longer < 0)
        return (int)longer;
    uint64_t extent = (uint64_t)longer, most = store->options.segment_size;
    store->log.extent = store->log.said = extent < most ? extent : most;
    int r = 0;
    for (unsigned i = 0; i < 2 && r == 0; i++)
        r = salvage_segment(store, i);
    return r;
}

/* `mend`: one that is gone is made anew. */
int hwt_delay_segments_open(hwt_delay *store, bool mend)
{
    int flags = store->read_only ? O_RDONLY : O_RDWR;
    for (unsigned i = 0; i < 2; i++) {
        int file = hwt_delay_segment_open(store, i, flags);
        if (file == -ENOENT && mend) {
            int r = hwt_delay_segment_make(store, i);
            if (r < 0)
                return r;
            hwt_delay_count_salvaged(store, hwt_delay_extent_least(store));
            file = hwt_delay_segment_open(store, i, flags);
        }
        if (file < 0)
            return file == -ENOENT ? -EBADMSG : file;
        store->log.files[i] = file;
    }
    return 0;
}
