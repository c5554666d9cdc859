/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_FAULTS_H
#define HWT_TESTS_FAULTS_H

/*
 * What the library asks of the system, refused where a test says so, and what it holds of it.
 *
 * For programs that are linked to the library's objects with the linker's --wrap, see
 * meson.build. That wraps the program's own calls too: between faults_begin() and faults_end() a
 * test allocates nothing and starts no thread itself, and asks with holds(), for ck_assert
 * allocates.
 */

#include "kit.h"

enum {
    FAULTS_MEMORY = 1 << 0,     /* malloc, calloc, aligned_alloc, pieces: ENOMEM */
    FAULTS_MAPPING = 1 << 1,    /* mmap: ENOMEM */
    FAULTS_THREAD = 1 << 2,     /* pthread_create: EAGAIN */
    FAULTS_AFFINITY = 1 << 3,   /* sched_setaffinity: ENOMEM */
    FAULTS_NUMBER = 1 << 4,     /* pthread_setspecific: ENOMEM */
    FAULTS_DESCRIPTOR = 1 << 5, /* timerfd_create: `descriptor_error` */
    FAULTS_BARRIER = 1 << 6,    /* membarrier, by syscall(): EPERM */
    FAULTS_ADVICE = 1 << 7,     /* madvise: EAGAIN */
    FAULTS_MANNERS = 1 << 8,    /* prctl: EPERM */
    FAULTS_ALL = (1 << 9) - 1
};

enum faults_reach { FAULTS_ONE, FAULTS_FROM_THERE_ON, FAULTS_EVERY_OTHER };

struct faults_plan {
    unsigned kinds;
    enum faults_reach reach;
    uint64_t nth;         /* call of these kinds, from 1 */
    int descriptor_error; /* 0: EMFILE */
};

void faults_begin(struct faults_plan plan);

/* How many calls were refused since. Nothing is refused any more. */
uint64_t faults_end(void);

/* The plan that was begun last, to be said where something does not hold. */
const char *faults_words(void);

/* Tells a story with the first call of the plan's kinds refused, with the second, and so on until a
 * telling has none left to refuse, after so many at least. tell() returns how many were refused. */
void faults_tell_all(uint64_t (*tell)(struct faults_plan plan, bool by_executor),
                     struct faults_plan first, bool by_executor, uint64_t least);

#define holds(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s does not hold, with %s", #condition, faults_words());                 \
    } while (0)

/* What was taken since the last faults_watch(), and not given back. */
struct faults_held {
    uint64_t blocks, bytes; /* of the allocator */
    uint64_t mapped;        /* bytes */
};

void faults_watch(void);
struct faults_held faults_held(void);

/* How often something was freed that was not held, since the watch. */
uint64_t faults_strangers(void);

/* Calls `then` in the midst of the library: whenever it has taken memory or given it back. NULL: no
 * more. For a library that one thread uses. */
void faults_meanwhile(void (*then)(void));

/* Descriptors and threads that this process has. */
struct census {
    int descriptors, threads;
};

struct census census(void);

/* True once they are as they were; false after half a minute. */
bool await_census(struct census before);

/* Calls of timerfd_settime() that the system has refused, ever. */
uint64_t faults_settimes_refused(void);

/* So many sleeps in a row, in a futex or a read(), end with EINTR, then one is let through, and so
 * on; 0: none does. How many did, ever. */
void faults_interrupt_sleeps(unsigned in_a_row);
uint64_t faults_sleeps_interrupted(void);

#endif
