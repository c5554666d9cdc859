/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef PERF_SYSTEM_H
#define PERF_SYSTEM_H

/* Clocks, chance, and what the system says of processes and disks. */

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

static inline uint64_t read_clock(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static inline uint64_t now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

static inline uint64_t realtime_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

uint64_t splitmix(uint64_t *state);

/* The number behind `key` in a file of /proc/PID; 0: there is none. */
uint64_t number_in(pid_t pid, const char *name, const char *key);

/* On the disk, of all files below it. */
uint64_t disk_bytes(const char *directory);

/* By the device on which this lies, whoever wrote; 0: it is not known. */
uint64_t device_written(const char *path);

#endif
