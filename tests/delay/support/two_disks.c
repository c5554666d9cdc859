/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tests/delay/support/two_disks.h"

#include <string.h>

enum { COPY = 1000 }; /* the copy's descriptors begin here */

static struct process *first, *second;

static struct process *process_at(int *file)
{
    if (*file < COPY)
        return first;
    *file -= COPY;
    return second;
}

static int numbered(const struct process *process, int r)
{
    return r >= 0 && process == second ? r + COPY : r;
}

static struct process *process_of(const char *path)
{
    return strcmp(path, "copy") == 0 ? second : first;
}

static int make_directory(void *data, const char *path)
{
    (void)data;
    struct process *process = process_of(path);
    return process->system.make_directory(process, path);
}

static int open_directory(void *data, const char *path)
{
    (void)data;
    struct process *process = process_of(path);
    return numbered(process, process->system.open_directory(process, path));
}

static int sync_above(void *data, int directory)
{
    (void)data;
    struct process *process = process_at(&directory);
    return process->system.sync_above(process, directory);
}

static int open_file(void *data, int directory, const char *name, int flags)
{
    (void)data;
    struct process *process = process_at(&directory);
    return numbered(process, process->system.open(process, directory, name, flags));
}

static void close_file(void *data, int file)
{
    (void)data;
    struct process *process = process_at(&file);
    process->system.close(process, file);
}

static int64_t read_file(void *data, int file, void *buffer, size_t size, uint64_t offset)
{
    (void)data;
    struct process *process = process_at(&file);
    return process->system.read(process, file, buffer, size, offset);
}

static int64_t write_file(void *data, int file, const void *bytes, size_t size, uint64_t offset)
{
    (void)data;
    struct process *process = process_at(&file);
    return process->system.write(process, file, bytes, size, offset);
}

static int allocate(void *data, int file, uint64_t size)
{
    (void)data;
    struct process *process = process_at(&file);
    return process->system.allocate(process, file, size);
}

static int sync_file(void *data, int file)
{
    (void)data;
    struct process *process = process_at(&file);
    return process->system.sync(process, file);
}

static int sync_directory(void *data, int directory)
{
    (void)data;
    struct process *process = process_at(&directory);
    return process->system.sync_directory(process, directory);
}

static int rename_file(void *data, int directory, const char *from, const char *to)
{
    (void)data;
    struct process *process = process_at(&directory);
    return process->system.rename(process, directory, from, to);
}

static int unlink_file(void *data, int directory, const char *name)
{
    (void)data;
    struct process *process = process_at(&directory);
    return process->system.unlink(process, directory, name);
}

static int list(void *data, int directory, void (*found)(const char *name, void *arg), void *arg)
{
    (void)data;
    struct process *process = process_at(&directory);
    return process->system.list(process, directory, found, arg);
}

struct hwt_delay_system two_disks(struct process *its, struct process *of_the_copy)
{
    first = its;
    second = of_the_copy;
    struct hwt_delay_system system = its->system;
    system.make_directory = make_directory;
    system.open_directory = open_directory;
    system.sync_above = sync_above;
    system.open = open_file;
    system.close = close_file;
    system.read = read_file;
    system.write = write_file;
    system.allocate = allocate;
    system.sync = sync_file;
    system.sync_directory = sync_directory;
    system.rename = rename_file;
    system.unlink = unlink_file;
    system.list = list;
    return system;
}
