/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_DISK_DISK_H
#define HWT_DELAY_DISK_DISK_H

/*
 * The disk of a store: its directory and files, over the seam (system.h). A failed call is repeated
 * where that is sound, and nothing else is added. All but what opens and closes may be called
 * without the lock.
 */

#include <stdatomic.h>

#include "hwt/delay/disk/system.h"

struct hwt_delay_disk {
    struct hwt_delay_system system; /* frozen, as all here but the counts */
    int directory, store_file;
    _Atomic uint64_t syncs, salvaged, salvaged_bytes;
};

/* ---- directory.c ---- */

void hwt_delay_disk_init(hwt_delay *store, const struct hwt_delay_system *system);
void hwt_delay_disk_close(hwt_delay *store);
int hwt_delay_directory_open(hwt_delay *store, const char *path);
int hwt_delay_store_open(hwt_delay *store, int flags);
int hwt_delay_store_file(const hwt_delay *store);
int hwt_delay_own(hwt_delay *store);
int hwt_delay_list(hwt_delay *store, void (*found)(const char *name, void *arg), void *arg);
int hwt_delay_rename(hwt_delay *store, const char *from, const char *to);
int hwt_delay_unlink(hwt_delay *store, const char *name);

/* ---- files.c: whole reads and writes ---- */

int hwt_delay_write_all(hwt_delay *store, int file, const void *bytes, size_t size,
                        uint64_t offset);
/* How many bytes were read. They are fewer only at the end of the file. */
int64_t hwt_delay_read_all(hwt_delay *store, int file, void *bytes, size_t size, uint64_t offset);
/* The next offset from `from` on where `size` bytes begin with the key and are a match, or
 * `end`. */
int64_t hwt_delay_search(hwt_delay *store, int file, size_t size, uint64_t from, uint64_t end,
                         bool (*match)(const unsigned char *bytes, uint64_t offset, void *arg),
                         void *arg);
int hwt_delay_truncate(hwt_delay *store, int file, uint64_t size);
void hwt_delay_begin_sync(hwt_delay *store, int file);
int hwt_delay_sync(hwt_delay *store, int file);
int hwt_delay_sync_directory(hwt_delay *store);
int hwt_delay_open_file(hwt_delay *store, const char *name, int flags);
void hwt_delay_close_file(hwt_delay *store, int file);
int hwt_delay_write_zeros(hwt_delay *store, int file, uint64_t from, uint64_t to);
/* From the file's length to another one: room on the disk, which reads as zeros. */
int hwt_delay_lengthen(hwt_delay *store, int file, uint64_t from, uint64_t to);
bool hwt_delay_is_full(int error);
/* Whether memory or descriptors were missing, so that nothing was lost. */
bool hwt_delay_is_shortage(int error);

int64_t hwt_delay_file_size(hwt_delay *store, int file);
int hwt_delay_allocate(hwt_delay *store, int file, uint64_t size); /* see system.h */
int hwt_delay_random(hwt_delay *store, void *bytes, size_t size);
const struct hwt_delay_system *hwt_delay_system_of(const hwt_delay *store);
void hwt_delay_disk_count(const hwt_delay *store, hwt_delay_stats *stats);

/* ---- aside.c ---- */

int hwt_delay_put_aside(hwt_delay *store, int file, uint64_t offset, uint64_t length);
/* Bytes that are gone. */
void hwt_delay_count_salvaged(hwt_delay *store, uint64_t bytes);

/* ---- reserve.c ---- */

int hwt_delay_reserve_resize(hwt_delay *store, uint64_t keep, uint64_t size);
bool hwt_delay_reserve_take(hwt_delay *store, uint64_t size);
void hwt_delay_reserve_give_up(hwt_delay *store);
int hwt_delay_overwrite(hwt_delay *store, int file, const void *bytes, size_t size,
                        uint64_t offset);

#endif
