/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A process on a simulated disk: the seam's functions, and what goes wrong in them. */

#include "tests/delay/support/disk_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "check_main.h"

const char *const disk_sync_names[SYNC_KINDS] = {
    "the log's",      "the slots'",   "the checkpoint's", "the store's",
    "the new names'", "the rename's", "other names'",     "the directory's own",
};

/* ---- what goes wrong ---- */

static bool can_fail(const struct process *process, enum disk_call call)
{
    int with = process->fail_with;
    if (process->fail_only != 0)
        return process->fail_only >> call & 1;
    if (with == 1 || with == -EINTR)
        return call == DISK_READ || call == DISK_WRITE;
    if (with == -ENOSPC)
        return call == DISK_OPEN || call == DISK_WRITE || call == DISK_ALLOCATE ||
               call == DISK_TRUNCATE || call == DISK_RENAME;
    return true;
}

enum outcome { GO_ON, FAIL, DIE_AFTER };

static enum outcome begin(struct process *process, enum disk_call call)
{
    process->dead = process->dead || process->dying;
    if (process->dead)
        return FAIL;
    process->by_kind[call]++;
    if (process->fail_with != 0 && !can_fail(process, call))
        return GO_ON;
    process->calls++;
    if (process->fail_with != 0 && process->calls >= process->fail_at &&
        process->calls - process->fail_at < process->fail_count)
        return FAIL;
    if (process->die_at == 0 || process->calls != process->die_at)
        return GO_ON;
    process->dying = true;
    if (test_random(process->random) % 2 == 0)
        return DIE_AFTER;
    process->dead = true;
    return FAIL;
}

static int failure(const struct process *process)
{
    return process->dead || process->fail_with == 1 ? -EIO : process->fail_with;
}

static void end(struct process *process, enum outcome outcome, enum disk_call call,
                const char *name)
{
    if (outcome == DIE_AFTER)
        process->dead = true;
    if (process->changed)
        process->changed(process->changed_arg, call, name);
}

static const char *name_of(const struct process *process, const struct disk_file *file)
{
    const struct disk_names *names = &process->disk->seen;
    for (size_t i = 0; i < names->count; i++) {
        if (names->entries[i].file == file)
            return names->entries[i].name;
    }
    return "(removed)";
}

static bool starts(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static enum disk_sync_kind sync_kind(const char *name)
{
    if (starts(name, "log."))
        return SYNC_LOG;
    if (starts(name, "slot-"))
        return SYNC_SLOT;
    return starts(name, "checkpoint") ? SYNC_CHECKPOINT : SYNC_STORE;
}

static enum disk_sync_kind names_kind(const struct disk *disk)
{
    enum disk_sync_kind kind = SYNC_NAMES_OTHER;
    for (size_t i = 0; i < disk->changes_count; i++) {
        const struct disk_name_change *change = &disk->changes[i];
        if (change->from[0] && change->to[0])
            return SYNC_NAMES_RENAMED;
        if (change->to[0] && !starts(change->to, "checkpoint"))
            kind = SYNC_NAMES_NEW;
    }
    return kind;
}

/* Whether a mistake takes the place of this sync. */
static bool mistaken(struct process *process, enum disk_sync_kind kind, struct disk_file *file)
{
    if (process->mistake == MISTAKE_NONE || process->mistaken != kind)
        return false;
    process->mistakes++;
    if (process->mistake == MISTAKE_NO_SYNC)
        return true;
    if (!file)
        process->late_names = true;
    else if (process->late_count < DISK_OPEN_MAX) {
        file->users++;
        process->late[process->late_count++] = file;
    }
    return true;
}

void process_catch_up(struct process *process)
{
    if (!process->dead && process->late_names)
        disk_names_keep(process->disk);
    process->late_names = false;
    for (size_t i = 0; i < process->late_count; i++) {
        if (!process->dead)
            file_keep(process->late[i]);
        file_drop(process->late[i]);
    }
    process->late_count = 0;
}

/* ---- descriptors ---- */

static struct disk_file *opened(const struct process *process, int file)
{
    if (file < 0 || file >= DISK_OPEN_MAX || !process->open[file])
        abort(); /* a descriptor that is not open: the store's mistake */
    return process->open[file];
}

static int open_as(struct process *process, struct disk_file *file)
{
    for (int i = 0; i < DISK_OPEN_MAX; i++) {
        if (!process->open[i]) {
            file->users++;
            process->open[i] = file;
            process->failed[i] = false;
            return i;
        }
    }
    return -EMFILE;
}

static uint64_t unsynced(const struct disk *disk)
{
    uint64_t size = 0;
    for (size_t i = 0; i < disk->seen.count; i++) {
        const struct disk_file *file = disk->seen.entries[i].file;
        for (size_t c = 0; c < file->changes_count; c++)
            size += file->changes[c].truncates ? 0 : file->changes[c].length;
    }
    return size;
}

static bool room_for(const struct process *process, const struct disk_file *file, uint64_t offset,
                     uint64_t length)
{
    const struct disk *disk = process->disk;
    uint64_t size = offset + length;
    if (disk->copies && length > 0)
        return disk_size(disk) + unsynced(disk) + length <= disk->capacity;
    return size <= file->seen.size || disk->capacity == UINT64_MAX ||
           disk_size(disk) + (size - file->seen.size) <= disk->capacity;
}

/* ---- the seam ---- */

static int make_directory(void *data, const char *path)
{
    struct process *process = data;
    enum outcome outcome = begin(process, DISK_MAKE_DIRECTORY);
    if (outcome == FAIL)
        return failure(process);
    if (process->disk->made)
        return -EEXIST;
    process->disk->made = true;
    end(process, outcome, DISK_MAKE_DIRECTORY, path);
    return 0;
}

/* Late, or not awaited: nothing but this can make it, so it stays undone. */
static int sync_above(void *data, int directory)
{
    struct process *process = data;
    if (opened(process, directory) != &process->directory)
        abort();
    enum outcome outcome = begin(process, DISK_SYNC_ABOVE);
    if (outcome == FAIL)
        return failure(process);
    if (process->disk->named)
        return 0;
    if (process->mistake != MISTAKE_NONE && process->mistaken == SYNC_ABOVE)
        process->mistakes++;
    else
        process->disk->named = true;
    end(process, outcome, DISK_SYNC_ABOVE, "the directory above");
    return 0;
}

static int open_directory(void *data, const char *path)
{
    struct process *process = data;
    (void)path;
    if (begin(process, DISK_OPEN_DIRECTORY) == FAIL)
        return failure(process);
    return process->disk->made ? open_as(process, &process->directory) : -ENOENT;
}

static int open_file(void *data, int directory, const char *name, int flags)
{
    struct process *process = data;
    if (opened(process, directory) != &process->directory || strlen(name) >= DISK_NAME_MAX)
        abort();
    enum outcome outcome = begin(process, DISK_OPEN);
    if (outcome == FAIL)
        return failure(process);
    struct disk_file *file = disk_find(process->disk, name);
    if (file && flags & O_EXCL)
        return -EEXIST;
    if (!file && !(flags & O_CREAT))
        return -ENOENT;
    bool changes = !file || (flags & O_TRUNC && file->seen.size > 0);
    if (!file) {
        file = file_new();
        disk_name_change(process->disk, "", name, file);
    } else if (changes) {
        file_resize(process->disk, file, 0);
    }
    int r = open_as(process, file);
    if (changes)
        end(process, outcome, DISK_OPEN, name);
    return r;
}

static void close_file(void *data, int number)
{
    struct process *process = data;
    struct disk_file *file = opened(process, number);
    process->open[number] = NULL;
    if (process->disk->owner == process && file != &process->directory &&
        strcmp(name_of(process, file), "store") == 0)
        process->disk->owner = NULL;
    file_drop(file);
}

static int64_t read_file(void *data, int number, void *buffer, size_t size, uint64_t offset)
{
    struct process *process = data;
    const struct disk_file *file = opened(process, number);
    if (begin(process, DISK_READ) == FAIL) {
        if (process->dead || process->fail_with != 1)
            return failure(process);
        size = (size + 1) / 2;
    }
    if (offset >= file->seen.size)
        return 0;
    if (size > file->seen.size - offset)
        size = file->seen.size - (size_t)offset;
    size_t held = file->seen.written > offset ? file->seen.written - (size_t)offset : 0;
    if (held > size)
        held = size;
    if (held > 0)
        memcpy(buffer, file->seen.bytes + offset, held);
    memset((char *)buffer + held, 0, size - held);
    return (int64_t)size;
}

static int64_t write_file(void *data, int number, const void *bytes, size_t size, uint64_t offset)
{
    struct process *process = data;
    struct disk_file *file = opened(process, number);
    enum outcome outcome = begin(process, DISK_WRITE);
    if (outcome == FAIL) {
        if (process->dead || process->fail_with != 1)
            return failure(process);
        size = (size + 1) / 2;
    }
    while (size > 0 && !room_for(process, file, offset, size))
        size /= 2;
    if (size == 0)
        return -ENOSPC;
    file_write(process->disk, file, bytes, size, (size_t)offset);
    end(process, outcome, DISK_WRITE, name_of(process, file));
    return (int64_t)size;
}

/* As Linux does: each descriptor is told of a failed flush once, whoever has flushed. */
static void tell_others(struct process *process, int number)
{
    for (int i = 0; i < DISK_OPEN_MAX; i++) {
        if (i != number && process->open[i] == process->open[number])
            process->failed[i] = true;
    }
}

/* Whatever was written may be on the disk already, or not. */
static void begin_sync(void *data, int number)
{
    (void)opened(data, number);
}

static int sync_file(void *data, int number)
{
    struct process *process = data;
    struct disk_file *file = opened(process, number);
    enum outcome outcome = begin(process, DISK_SYNC);
    if (outcome == FAIL) {
        if (!process->dead)
            file_sync_failed(file, process->random);
        tell_others(process, number);
        return failure(process);
    }
    if (process->failed[number]) {
        process->failed[number] = false;
        return -EIO;
    }
    const char *name = name_of(process, file);
    if (!mistaken(process, sync_kind(name), file))
        file_keep(file);
    end(process, outcome, DISK_SYNC, name);
    return 0;
}

static int sync_directory(void *data, int directory)
{
    struct process *process = data;
    if (opened(process, directory) != &process->directory)
        abort();
    enum outcome outcome = begin(process, DISK_SYNC_DIRECTORY);
    if (outcome == FAIL)
        return failure(process);
    if (!mistaken(process, names_kind(process->disk), NULL))
        disk_names_keep(process->disk);
    end(process, outcome, DISK_SYNC_DIRECTORY, "the directory");
    return 0;
}

static int resize(struct process *process, enum disk_call call, int number, uint64_t size)
{
    struct disk_file *file = opened(process, number);
    enum outcome outcome = begin(process, call);
    if (outcome == FAIL)
        return failure(process);
    if (!room_for(process, file, size, 0))
        return -ENOSPC;
    if (call == DISK_TRUNCATE || size > file->seen.size)
        file_resize(process->disk, file, (size_t)size);
    end(process, outcome, call, name_of(process, file));
    return 0;
}

static int truncate_file(void *data, int number, uint64_t size)
{
    return resize(data, DISK_TRUNCATE, number, size);
}

static int allocate(void *data, int number, uint64_t size)
{
    const struct process *process = data;
    return process->disk->cannot_allocate ? 1 : resize(data, DISK_ALLOCATE, number, size);
}

static int64_t size_of(void *data, int number)
{
    struct process *process = data;
    const struct disk_file *file = opened(process, number);
    return begin(process, DISK_SIZE) == FAIL ? failure(process) : (int64_t)file->seen.size;
}

static int rename_file(void *data, int directory, const char *from, const char *to)
{
    struct process *process = data;
    (void)opened(process, directory);
    enum outcome outcome = begin(process, DISK_RENAME);
    if (outcome == FAIL)
        return failure(process);
    struct disk_file *file = disk_find(process->disk, from);
    if (!file)
        return -ENOENT;
    disk_name_change(process->disk, from, to, file);
    end(process, outcome, DISK_RENAME, to);
    if (process->mistake == MISTAKE_SYNC_LATE)
        process_catch_up(process);
    return 0;
}

static int unlink_file(void *data, int directory, const char *name)
{
    struct process *process = data;
    (void)opened(process, directory);
    enum outcome outcome = begin(process, DISK_UNLINK);
    if (outcome == FAIL)
        return failure(process);
    struct disk_file *file = disk_find(process->disk, name);
    if (!file)
        return -ENOENT;
    disk_name_change(process->disk, name, "", file);
    end(process, outcome, DISK_UNLINK, name);
    return 0;
}

static int list(void *data, int directory, void (*found)(const char *name, void *arg), void *arg)
{
    struct process *process = data;
    (void)opened(process, directory);
    if (begin(process, DISK_LIST) == FAIL)
        return failure(process);
    const struct disk_names names = process->disk->seen;
    for (size_t i = 0; i < names.count; i++)
        found(names.entries[i].name, arg);
    return 0;
}

static int lock(void *data, int number)
{
    struct process *process = data;
    (void)opened(process, number);
    if (begin(process, DISK_LOCK) == FAIL)
        return failure(process);
    if (process->disk->owner && process->disk->owner != process)
        return -EBUSY;
    process->disk->owner = process;
    return 0;
}

static void unlock(void *data, int number)
{
    struct process *process = data;
    (void)opened(process, number);
    if (process->disk->owner == process)
        process->disk->owner = NULL;
}

static int in_memory(void *data, int directory)
{
    struct process *process = data;
    (void)opened(process, directory);
    return 0;
}

/* The same for the same run: by what was done to the disk, and when. */
static int random_bytes(void *data, void *bytes, size_t size)
{
    const struct process *process = data;
    uint64_t seed = process->disk->stamp + *process->realtime;
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)(test_random(&seed) >> 32);
    return 0;
}

static uint64_t realtime(void *data)
{
    const struct process *process = data;
    return *process->realtime;
}

static uint64_t boottime(void *data)
{
    const struct process *process = data;
    return *process->boottime;
}

void process_start(struct process *process, struct disk *disk, uint64_t *now, uint64_t *since_boot)
{
    memset(process, 0, sizeof(*process));
    process->system = (struct hwt_delay_system){
        .data = process,
        .make_directory = make_directory,
        .open_directory = open_directory,
        .sync_above = sync_above,
        .open = open_file,
        .close = close_file,
        .read = read_file,
        .write = write_file,
        .begin_sync = begin_sync,
        .sync = sync_file,
        .sync_directory = sync_directory,
        .truncate = truncate_file,
        .allocate = allocate,
        .size = size_of,
        .rename = rename_file,
        .unlink = unlink_file,
        .list = list,
        .lock = lock,
        .unlock = unlock,
        .in_memory = in_memory,
        .random = random_bytes,
        .realtime = realtime,
        .boottime = boottime,
    };
    process->disk = disk;
    process->realtime = now;
    process->boottime = since_boot;
    process->directory.users = 1;
}

void process_end(struct process *process)
{
    process->dead = process->mistake != MISTAKE_NONE || process->dead;
    process_catch_up(process);
    for (int i = 0; i < DISK_OPEN_MAX; i++) {
        if (process->open[i])
            file_drop(process->open[i]);
    }
    if (process->disk->owner == process)
        process->disk->owner = NULL;
}
