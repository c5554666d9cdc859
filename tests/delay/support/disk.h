/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_DISK_H
#define HWT_TESTS_DELAY_SUPPORT_DISK_H

/*
 * A simulated disk with one directory, and the processes that use it through the seam of
 * hwt/delay/disk/system.h.
 *
 * A file has the bytes that a reader sees, the bytes that are on the disk, and the list of what was
 * changed since its last sync; the directory has the same of its names. A sync ends the list.
 * The directory's own name is on the disk once the directory above was synced; without it all is lost.
 * disk_crashed() says what another machine could find if the power went now: of each list any
 * part has arrived, in any order, writes torn at 512 bytes or at 4 KiB.
 *
 * A process that is dead changes nothing any more, and each of its calls is -EIO: a kill -9, where
 * the caches live on. It can be made to die within a call of the seam.
 *
 * Everything depends on the seeds alone. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hwt/delay/open/open.h"

enum { DISK_NAME_MAX = 64, DISK_FILES_MAX = 512, DISK_OPEN_MAX = 128 };

/* What is done to a disk; also the kinds of calls that can be told to fail. */
enum disk_call {
    DISK_MAKE_DIRECTORY,
    DISK_OPEN_DIRECTORY,
    DISK_SYNC_ABOVE,
    DISK_OPEN,
    DISK_READ,
    DISK_WRITE,
    DISK_SYNC,
    DISK_SYNC_DIRECTORY,
    DISK_TRUNCATE,
    DISK_ALLOCATE,
    DISK_SIZE,
    DISK_RENAME,
    DISK_UNLINK,
    DISK_LIST,
    DISK_LOCK,
    DISK_CALLS
};

extern const char *const disk_call_names[DISK_CALLS];

/* A change that is not on the disk yet. */
struct disk_change {
    uint64_t stamp;  /* higher than that of all that was before it, on the whole disk */
    bool truncates;  /* else writes */
    uint64_t offset; /* or the new size */
    size_t length;
    unsigned char *bytes;
};

/*
 * The bytes of a file. Zeros at its end are not held: a store sets much room aside, and each state
 * has its own copy.
 */
struct disk_bytes {
    unsigned char *bytes;
    size_t size, written, room; /* from `written` on all is zero */
};

struct disk_file {
    unsigned users; /* names, on the disk or not, changes of names, and descriptors */
    struct disk_bytes seen, kept;
    struct disk_change *changes;
    size_t changes_count, changes_room;
};

struct disk_entry {
    char name[DISK_NAME_MAX];
    struct disk_file *file;
};

struct disk_names {
    size_t count;
    struct disk_entry entries[DISK_FILES_MAX]; /* those from `count` on have no value */
};

/* A link of a name to a file, a removal, or a rename: both, at once. */
struct disk_name_change {
    uint64_t stamp;
    char from[DISK_NAME_MAX]; /* "": none is removed */
    char to[DISK_NAME_MAX];   /* "": none is linked */
    struct disk_file *file;
};

struct disk {
    bool made;  /* there is a directory */
    bool named; /* its own name is on the disk */
    struct disk_name_change *changes;
    size_t changes_count, changes_room;
    uint64_t stamp;
    uint64_t capacity;    /* bytes of all files; more is -ENOSPC */
    bool copies;          /* what is written takes room of its own until it is synced */
    bool cannot_allocate; /* no room is set aside: a file has room where it has bytes */
    const void *owner;    /* the process that has the lock */
    struct disk_names seen, kept;
};

/* Mistakes that a store could make, made in its place. */
enum disk_mistake_kind {
    MISTAKE_NONE,
    MISTAKE_NO_SYNC,        /* a sync does nothing */
    MISTAKE_SYNC_LATE,      /* it happens after the next rename */
    MISTAKE_SYNC_UNAWAITED, /* it happens when the process's next call begins */
};

/* A kind of sync, by what is synced and when. */
enum disk_sync_kind {
    SYNC_LOG,
    SYNC_SLOT,
    SYNC_CHECKPOINT,
    SYNC_STORE,
    SYNC_NAMES_NEW,     /* of the directory, while new names of slots or of the first files wait */
    SYNC_NAMES_RENAMED, /* while a rename waits */
    SYNC_NAMES_OTHER,
    SYNC_ABOVE, /* of the directory above, while the directory's own name waits */
    SYNC_KINDS
};

extern const char *const disk_sync_names[SYNC_KINDS];

struct process {
    struct hwt_delay_system system; /* its data is this */
    struct disk *disk;
    bool dead;
    bool dying;                            /* it is dead from the next call on */
    struct disk_file directory;            /* what a descriptor of the directory points to */
    struct disk_file *open[DISK_OPEN_MAX]; /* by descriptor */
    bool failed
        [DISK_OPEN_MAX]; /* a sync by another descriptor of the file failed: this one is told once */
    uint64_t *realtime, *boottime; /* the set clock */

    /* Called when a call has changed something. */
    void (*changed)(void *arg, enum disk_call call, const char *name);
    void *changed_arg;

    /* Faults: call number `fail_at` (from 1) and as many as `fail_count` in all fail. */
    uint64_t calls, fail_at, fail_count;
    int fail_with;      /* a negative errno; 1: short reads and writes; 0: none fails */
    unsigned fail_only; /* these, as bits; 0: all that can fail so */
    uint64_t die_at;    /* the process dies within this call or behind it; 0: it does not */
    uint64_t *random;   /* for what a call that fails leaves behind */
    uint64_t by_kind[DISK_CALLS];

    enum disk_mistake_kind mistake;
    enum disk_sync_kind mistaken;
    uint64_t mistakes;                     /* how often it was made */
    struct disk_file *late[DISK_OPEN_MAX]; /* whose sync is still to come */
    size_t late_count;
    bool late_names;
};

struct disk *disk_new(void);
void disk_free(struct disk *disk);

/* What could be found after a crash now. */
struct disk *disk_crashed(const struct disk *disk, uint64_t *random);

/* A copy of what a reader sees, all of it on the disk. */
struct disk *disk_copy(const struct disk *disk);

/* Bytes of all files. */
uint64_t disk_size(const struct disk *disk);

/* The file of that name as it is seen, or NULL. */
struct disk_file *disk_find(const struct disk *disk, const char *name);

/* All its bytes as they are seen, until it is changed. */
const unsigned char *disk_seen(struct disk_file *file);

/* Sets the size of a file, and bytes of it, seen and kept: damage from outside. */
void disk_cut(struct disk_file *file, size_t size);
void disk_flip(struct disk_file *file, size_t offset, unsigned char bits);

/* A process on a disk, with a clock. */
void process_start(struct process *process, struct disk *disk, uint64_t *realtime,
                   uint64_t *boottime);

/* Ends what is left of it: its descriptors and its lock. After hwt_delay_close(). */
void process_end(struct process *process);

/* Mistake MISTAKE_SYNC_UNAWAITED: what was acknowledged without being there gets there now. */
void process_catch_up(struct process *process);

#endif
