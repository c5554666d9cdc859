/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_DISK_SYSTEM_H
#define HWT_DELAY_DISK_SYSTEM_H

/*
 * The store meets the system here. Every byte that goes to or comes from a disk, and every reading
 * of a clock, passes through this table. The real one is in system.c. Tests put a simulated disk
 * and a set clock in its place.
 *
 * All functions return 0 or more, or a negative errno value. Reads and writes may be short or
 * -EINTR, and open and truncate -EINTR: the caller goes on. Files and directories are numbers of
 * the table's own choosing, 0 or more. Names have no slash, because the store is one flat
 * directory.
 *
 * What the store relies on, and nothing else:
 *   - after sync(file) returned 0: the file's bytes and its length are on the disk, though not its
 *     name;
 *   - after sync_directory() returned 0: so are the names as they were made, renamed and removed
 *     before;
 *   - after sync_above() returned 0: so is the directory's own name;
 *   - rename() is atomic: after a crash the new name is the old file or the new one;
 *   - before those, anything may be there or not, in any order, torn at 512 bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hwt/delay.h"

struct hwt_delay_system {
    void *data;                                          /* the first argument of each function */
    int (*make_directory)(void *data, const char *path); /* -EEXIST is fine */
    int (*open_directory)(void *data, const char *path);
    int (*sync_above)(void *data, int directory); /* makes the directory's own name last */
    /* flags: O_RDONLY or O_RDWR, and O_CREAT, O_EXCL, O_TRUNC */
    int (*open)(void *data, int directory, const char *name, int flags);
    void (*close)(void *data, int file); /* directories too */
    int64_t (*read)(void *data, int file, void *buffer, size_t size, uint64_t offset);
    int64_t (*write)(void *data, int file, const void *buffer, size_t size, uint64_t offset);
    void (*begin_sync)(void *data, int file); /* begins to write; no promise */
    int (*sync)(void *data, int file);        /* fdatasync() */
    int (*sync_directory)(void *data, int directory);
    int (*truncate)(void *data, int file, uint64_t size);
    /* Room on the disk for so many bytes; the file is as long at least, and what is new reads as
     * zeros. 1: the file system cannot set room aside, and nothing was done. */
    int (*allocate)(void *data, int file, uint64_t size);
    int64_t (*size)(void *data, int file);
    int (*rename)(void *data, int directory, const char *from, const char *to);
    int (*unlink)(void *data, int directory, const char *name);
    int (*list)(void *data, int directory, void (*found)(const char *name, void *arg), void *arg);
    int (*lock)(void *data, int file);           /* for one owner; -EBUSY: another has it */
    void (*unlock)(void *data, int file);        /* before it is closed: a child may have it, too */
    int (*in_memory)(void *data, int directory); /* 1: nothing here survives power loss */
    int (*random)(void *data, void *bytes, size_t size); /* that nobody can guess */
    uint64_t (*realtime)(void *data);
    uint64_t (*boottime)(void *data);
};

/* The real one; its data is NULL. */
extern const struct hwt_delay_system hwt_delay_real_system;

#endif
