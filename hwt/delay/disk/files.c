/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whole reads and writes over the seam. See system.h. */

#include <errno.h>

#include "hwt/delay/whole.h"

int hwt_delay_write_all(hwt_delay *store, int file, const void *bytes, size_t size, uint64_t offset)
{
    const unsigned char *at = bytes;
    while (size > 0) {
        int64_t n = store->disk.system.write(store->disk.system.data, file, at, size, offset);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? (int)n : -EIO;
        at += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

int64_t hwt_delay_read_all(hwt_delay *store, int file, void *bytes, size_t size, uint64_t offset)
{
    unsigned char *at = bytes;
    size_t done = 0;
    while (done < size) {
        int64_t n = store->disk.system.read(store->disk.system.data, file, at + done, size - done,
                                            offset + done);
        if (n == -EINTR)
            continue;
        if (n < 0)
            return n;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (int64_t)done;
}

int64_t hwt_delay_search(hwt_delay *store, int file, size_t size, uint64_t from, uint64_t end,
                         bool (*match)(const unsigned char *bytes, uint64_t offset, void *arg),
                         void *arg)
{
    unsigned char bytes[65536], key[8];
    hwt_delay_set64(key, store->key);
    while (end - from >= size) {
        size_t part = end - from < sizeof(bytes) ? (size_t)(end - from) : sizeof(bytes);
        int64_t n = hwt_delay_read_all(store, file, bytes, part, from);
        if (n < 0)
            return n;
        if ((size_t)n < size)
            break;
        const unsigned char *at = bytes, *behind = bytes + n;
        while ((at = memmem(at, (size_t)(behind - at), key, sizeof(key))) &&
               (size_t)(behind - at) >= size) {
            if (match(at, from + (uint64_t)(at - bytes), arg))
                return (int64_t)(from + (uint64_t)(at - bytes));
            at++;
        }
        from += (uint64_t)n - (size - 1);
    }
    return (int64_t)end;
}

int hwt_delay_truncate(hwt_delay *store, int file, uint64_t size)
{
    int r;
    do
        r = store->disk.system.truncate(store->disk.system.data, file, size);
    while (r == -EINTR);
    return r;
}

/* It is counted without the lock, because it is a count for humans, and several threads call
 * this. */
static void count_sync(hwt_delay *store)
{
    atomic_fetch_add_explicit(&store->disk.syncs, 1, memory_order_relaxed);
}

void hwt_delay_begin_sync(hwt_delay *store, int file)
{
    store->disk.system.begin_sync(store->disk.system.data, file);
}

/* Not repeated after -EINTR: what a second one says is not known. */
int hwt_delay_sync(hwt_delay *store, int file)
{
    count_sync(store);
    return store->disk.system.sync(store->disk.system.data, file);
}

int hwt_delay_sync_directory(hwt_delay *store)
{
    count_sync(store);
    return store->disk.system.sync_directory(store->disk.system.data, store->disk.directory);
}

int hwt_delay_open_file(hwt_delay *store, const char *name, int flags)
{
    int file;
    do
        file = store->disk.system.open(store->disk.system.data, store->disk.directory, name, flags);
    while (file == -EINTR);
    return file;
}

void hwt_delay_close_file(hwt_delay *store, int file)
{
    if (file >= 0)
        store->disk.system.close(store->disk.system.data, file);
}

bool hwt_delay_is_full(int error)
{
    return error == -ENOSPC || error == -EDQUOT;
}

bool hwt_delay_is_shortage(int error)
{
    return error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

int hwt_delay_write_zeros(hwt_delay *store, int file, uint64_t from, uint64_t to)
{
    static const unsigned char zeros[65536];
    int r = 0;
    while (from < to && r == 0) {
        size_t part = to - from < sizeof(zeros) ? (size_t)(to - from) : sizeof(zeros);
        r = hwt_delay_write_all(store, file, zeros, part, from);
        from += part;
    }
    return r;
}

int64_t hwt_delay_file_size(hwt_delay *store, int file)
{
    return store->disk.system.size(store->disk.system.data, file);
}

int hwt_delay_allocate(hwt_delay *store, int file, uint64_t size)
{
    return store->disk.system.allocate(store->disk.system.data, file, size);
}

int hwt_delay_lengthen(hwt_delay *store, int file, uint64_t from, uint64_t to)
{
    int r = hwt_delay_allocate(store, file, to);
    return r == 1 ? hwt_delay_write_zeros(store, file, from, to) : r;
}

int hwt_delay_random(hwt_delay *store, void *bytes, size_t size)
{
    return store->disk.system.random(store->disk.system.data, bytes, size);
}

/* With which a copy writes to another directory. */
const struct hwt_delay_system *hwt_delay_system_of(const hwt_delay *store)
{
    return &store->disk.system;
}

/* Relaxed: counts for humans, which order nothing. */
void hwt_delay_disk_count(const hwt_delay *store, hwt_delay_stats *stats)
{
    const struct hwt_delay_disk *disk = &store->disk;
    stats->syncs = atomic_load_explicit(&disk->syncs, memory_order_relaxed);
    stats->salvaged = atomic_load_explicit(&disk->salvaged, memory_order_relaxed);
    stats->salvaged_bytes = atomic_load_explicit(&disk->salvaged_bytes, memory_order_relaxed);
}
