/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_MEMORY_LIMIT_H
#define HWT_TESTS_MEMORY_LIMIT_H

/* A limit on the address space, to make allocations fail in the library as it is. */

#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEMORY_OF_A_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MEMORY_OF_A_SANITIZER 1
#endif
#endif

/* Lets the address space grow by so many bytes; RLIM_INFINITY: as it could at first. */
static inline void limit_memory(rlim_t more)
{
    struct rlimit limit;
    unsigned long pages = 0;
    getrlimit(RLIMIT_AS, &limit);
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm && fscanf(statm, "%lu", &pages) != 1)
        pages = 0;
    if (statm)
        fclose(statm);
    rlim_t room = pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    limit.rlim_cur = more == RLIM_INFINITY || room > limit.rlim_max ? limit.rlim_max : room;
    setrlimit(RLIMIT_AS, &limit);
}

/* Sanitizers and memcheck need address space themselves, and emulators do not pass the limit on. */
static inline bool memory_cannot_be_limited(void)
{
#ifdef MEMORY_OF_A_SANITIZER
    return true;
#else
    enum { MUCH = 1 << 24 };
    const char *preload = getenv("LD_PRELOAD");
    if (preload && strstr(preload, "vgpreload"))
        return true;
    limit_memory(MUCH / 2);
    void *memory = mmap(NULL, MUCH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    limit_memory(RLIM_INFINITY);
    if (memory != MAP_FAILED)
        munmap(memory, MUCH);
    return memory != MAP_FAILED;
#endif
}

#endif
