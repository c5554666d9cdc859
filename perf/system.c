/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "system.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

uint64_t splitmix(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t number_in(pid_t pid, const char *name, const char *key)
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

static uint64_t bytes_below(int directory)
{
    uint64_t bytes = 0;
    DIR *stream = fdopendir(directory);
    const struct dirent *entry;

    while (stream && (entry = readdir(stream))) {
        struct stat status;
        if (entry->d_name[0] == '.' ||
            fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(status.st_mode))
            bytes += bytes_below(openat(directory, entry->d_name, O_RDONLY | O_CLOEXEC));
        else if (S_ISREG(status.st_mode))
            bytes += (uint64_t)status.st_blocks * 512;
    }
    if (stream)
        closedir(stream);
    return bytes;
}

uint64_t disk_bytes(const char *directory)
{
    return bytes_below(open(directory, O_RDONLY | O_CLOEXEC));
}

uint64_t device_written(const char *path)
{
    struct stat status;
    char line[256];
    uint64_t sectors = 0;
    FILE *file = stat(path, &status) == 0 ? fopen("/proc/diskstats", "re") : NULL;

    while (file && fgets(line, sizeof(line), file)) {
        unsigned major, minor;
        uint64_t written;
        if (sscanf(line, "%u %u %*s %*u %*u %*u %*u %*u %*u %" SCNu64, &major, &minor, &written) ==
                3 &&
            makedev(major, minor) == status.st_dev)
            sectors = written;
    }
    if (file)
        fclose(file);
    return sectors * 512;
}
