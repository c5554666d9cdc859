/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The real system: Linux. See system.h. */

#include "hwt/delay/disk/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static int error_of(int result)
{
    return result < 0 ? -errno : result;
}

static int make_directory(void *data, const char *path)
{
    (void)data;
    return error_of(mkdir(path, 0750));
}

static int open_directory(void *data, const char *path)
{
    (void)data;
    return error_of(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static int sync_above(void *data, int directory)
{
    (void)data;
    int above = openat(directory, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = above < 0 ? -errno : error_of(fsync(above));
    if (above >= 0)
        close(above);
    return r;
}

static int open_file(void *data, int directory, const char *name, int flags)
{
    (void)data;
    return error_of(openat(directory, name, flags | O_CLOEXEC, 0640));
}

static void close_file(void *data, int file)
{
    (void)data;
    close(file);
}

static int64_t read_file(void *data, int file, void *buffer, size_t size, uint64_t offset)
{
    (void)data;
    ssize_t n = pread(file, buffer, size, (off_t)offset);
    return n < 0 ? -errno : n;
}

static int64_t write_file(void *data, int file, const void *buffer, size_t size, uint64_t offset)
{
    (void)data;
    ssize_t n = pwrite(file, buffer, size, (off_t)offset);
    return n < 0 ? -errno : n;
}

static void begin_sync(void *data, int file)
{
    (void)data;
    (void)sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
}

static int sync_file(void *data, int file)
{
    (void)data;
    return error_of(fdatasync(file));
}

static int sync_directory(void *data, int directory)
{
    (void)data;
    return error_of(fsync(directory));
}

static int truncate_file(void *data, int file, uint64_t size)
{
    (void)data;
    return error_of(ftruncate(file, (off_t)size));
}

static int allocate(void *data, int file, uint64_t size)
{
    (void)data;
    int r;
    do
        r = fallocate(file, 0, 0, (off_t)size);
    while (r < 0 && errno == EINTR);
    return r == 0 ? 0 : errno == EOPNOTSUPP || errno == ENOSYS ? 1 : -errno;
}

static int64_t size_of(void *data, int file)
{
    (void)data;
    struct stat status;
    return fstat(file, &status) < 0 ? -errno : status.st_size;
}

static int rename_file(void *data, int directory, const char *from, const char *to)
{
    (void)data;
    return error_of(renameat(directory, from, directory, to));
}

static int unlink_file(void *data, int directory, const char *name)
{
    (void)data;
    return error_of(unlinkat(directory, name, 0));
}

static int list(void *data, int directory, void (*found)(const char *name, void *arg), void *arg)
{
    (void)data;
    int own = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = own < 0 ? NULL : fdopendir(own);
    if (!stream) {
        int r = -errno;
        if (own >= 0)
            close(own);
        return r;
    }
    int r;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(stream);
        if (!entry) {
            r = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            found(entry->d_name, arg);
    }
    closedir(stream);
    return r;
}

static int lock(void *data, int file)
{
    (void)data;
    if (flock(file, LOCK_EX | LOCK_NB) == 0)
        return 0;
    return errno == EWOULDBLOCK ? -EBUSY : -errno;
}

static void unlock(void *data, int file)
{
    (void)data;
    flock(file, LOCK_UN);
}

static int in_memory(void *data, int directory)
{
    (void)data;
    struct statfs status;
    if (fstatfs(directory, &status) < 0)
        return -errno;
    return status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC;
}

static int random_bytes(void *data, void *bytes, size_t size)
{
    (void)data;
    ssize_t n;
    do
        n = getrandom(bytes, size, 0);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EIO;
}

static uint64_t read_clock(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t realtime(void *data)
{
    (void)data;
    return read_clock(CLOCK_REALTIME);
}

static uint64_t boottime(void *data)
{
    (void)data;
    return read_clock(CLOCK_BOOTTIME);
}

const struct hwt_delay_system hwt_delay_real_system = {
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
