/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Puts damage aside: copies it to a file of its own, before the bytes there are used or written
 * over. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "hwt/delay/whole.h"

static int copy(hwt_delay *store, int from, int to, uint64_t offset, uint64_t length)
{
    unsigned char bytes[16384];
    for (uint64_t done = 0; done < length;) {
        size_t size = length - done < sizeof(bytes) ? (size_t)(length - done) : sizeof(bytes);
        int64_t n = hwt_delay_read_all(store, from, bytes, size, offset + done);
        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        int r = hwt_delay_write_all(store, to, bytes, (size_t)n, done);
        if (r < 0)
            return r;
        done += (uint64_t)n;
    }
    return hwt_delay_sync(store, to);
}

/* Copies bytes of a file to a new one, and counts them. */
int hwt_delay_put_aside(hwt_delay *store, int file, uint64_t offset, uint64_t length)
{
    uint64_t number = 1 + atomic_fetch_add_explicit(&store->disk.salvaged, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->disk.salvaged_bytes, length, memory_order_relaxed);
    int copied = -EEXIST;
    for (; copied == -EEXIST; number++) {
        char name[HWT_DELAY_NAME_MAX];
        snprintf(name, sizeof(name), "salvage-%" PRIu64, number);
        copied = hwt_delay_open_file(store, name, O_RDWR | O_CREAT | O_EXCL);
    }
    if (copied < 0)
        return copied;
    int r = copy(store, file, copied, offset, length);
    hwt_delay_close_file(store, copied);
    return r < 0 ? r : hwt_delay_sync_directory(store);
}

void hwt_delay_count_salvaged(hwt_delay *store, uint64_t bytes)
{
    atomic_fetch_add_explicit(&store->disk.salvaged, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->disk.salvaged_bytes, bytes, memory_order_relaxed);
}
