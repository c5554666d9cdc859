/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * To be preloaded: a program's CLOCK_REALTIME is off by what the file $RELAY_CLOCK says, nanoseconds as a number of
 * eight bytes, while it runs. So its clock can be stepped and that of the machine stays. What the program waits
 * for until an instant of that clock is set right; no other clock is changed.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SECOND = 1000000000 };

static int (*read_clock)(clockid_t, struct timespec *);
static const _Atomic int64_t *offset;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("RELAY_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED) {
        fputs("relay_clock: there is no file of eight bytes at $RELAY_CLOCK\n", stderr);
        _exit(2);
    }
    close(fd);
    *(void **)&read_clock = dlsym(RTLD_NEXT, "clock_gettime");
    offset = map;
}

static struct timespec shifted(const struct timespec *time, int64_t by)
{
    int64_t ns = (int64_t)time->tv_sec * SECOND + time->tv_nsec + by;
    return (struct timespec){ .tv_sec = ns / SECOND, .tv_nsec = ns % SECOND };
}

/* Relaxed: whoever steps a clock does not say at which call it is seen. */
static int64_t step(void)
{
    return offset ? atomic_load_explicit(offset, memory_order_relaxed) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int r;

    if (!read_clock)
        *(void **)&read_clock = dlsym(RTLD_NEXT, "clock_gettime");
    r = read_clock(clock, time);
    if (r == 0 && clock == CLOCK_REALTIME)
        *time = shifted(time, step());
    return r;
}

/* Instants of CLOCK_REALTIME are after 2001, and those of CLOCK_MONOTONIC begin with the machine. */
int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    struct timespec at = shifted(until, -step());

    if (until->tv_sec < SECOND)
        return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, until);
    return pthread_cond_clockwait(cond, mutex, CLOCK_REALTIME, &at);
}
