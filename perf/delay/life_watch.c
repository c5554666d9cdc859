/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "life.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

/* The number behind `key` in a file of /proc of a process; 0: there is none. */
static uint64_t number_of(pid_t pid, const char *name, const char *key)
{
    char path[64], line[256];
    uint64_t number = 0;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, key, strlen(key)) == 0)
            number = strtoull(line + strlen(key), NULL, 10);
    fclose(file);
    return number;
}

uint64_t disk_bytes(const char *path)
{
    uint64_t bytes = 0;
    DIR *stream = opendir(path);
    const struct dirent *entry;

    while (stream && (entry = readdir(stream))) {
        struct stat status;
        if (fstatat(dirfd(stream), entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode))
            bytes += (uint64_t)status.st_blocks * 512;
    }
    if (stream)
        closedir(stream);
    return bytes;
}

uint64_t device_written(const char *path)
{
    struct stat status;
    char line[256];
    uint64_t sectors = 0;
    FILE *file = fopen("/proc/diskstats", "re");

    if (!file)
        return 0;
    if (stat(path, &status) == 0)
        while (fgets(line, sizeof(line), file)) {
            unsigned major, minor;
            uint64_t written;
            if (sscanf(line, "%u %u %*s %*u %*u %*u %*u %*u %*u %" SCNu64, &major, &minor,
                       &written) == 3 &&
                makedev(major, minor) == status.st_dev)
                sectors = written;
        }
    fclose(file);
    return sectors * 512;
}

void watch_begin(struct watch *watch, const struct run *run)
{
    watch->begin = watch->last_line = clock_ns(CLOCK_MONOTONIC);
    watch->device_begin = device_written(run->options.directory);
}

void watch_sample(struct watch *watch, const struct run *run, pid_t child)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    /* Without the ledger, which is shared memory. */
    uint64_t resident = number_of(child, "status", "RssAnon:") * 1024;

    if (resident > watch->resident_max)
        watch->resident_max = resident;
    if (now - watch->last_line < HWT_SEC(1))
        return;
    uint64_t disk = disk_bytes(run->path);
    if (disk > watch->disk_max)
        watch->disk_max = disk;
    report_line(run, watch, resident, disk);
    watch->last_line = now;
}

void watch_end_of_life(struct watch *watch, const struct run *run, pid_t child)
{
    const counter *from = (const counter *)&run->shared->now;
    counter *to = (counter *)&watch->ended;

    watch->written += number_of(child, "io", "write_bytes:");
    for (size_t i = 0; i < sizeof(struct store_counts) / sizeof(counter); i++)
        count(&to[i], counted(&from[i]));
}
