/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PROCESS_H
#define HWT_PROCESS_H

/*
 * Which process this is: a child of fork() is told from its parent.
 *
 * `hwt_process` is a page that is zero in a child, because the kernel wipes it (MADV_WIPEONFORK).
 * So the first call in a child finds that `entered` is false, on whatever thread and however early that
 * call comes: handlers of fork() that were registered before this library was loaded run before
 * its own. The first call enters the process: it does what the child needs, under `lock`, which is
 * in the page, too, so no thread of the parent holds it. Nothing is locked across a fork().
 *
 * A handler of the library's own enters the process, too, as soon as it is the handler's turn: a
 * loop in the child may watch a descriptor before it makes any call. If the kernel wipes nothing
 * (before Linux 4.14, with larger pages than were expected, or if madvise() is refused), the
 * handler alone makes the page zero.
 *
 * `entered` is stored with release when all is done, and loaded with acquire: who has seen it sees
 * what was done.
 *
 * `fast` and `single` are what `slow_path_bits` of a timer are compared with: calls go a fast way
 * if they are the same, which they are not in a child that was not entered. They are plain words,
 * written before another thread can read them: when the library is loaded, and by its handler in a
 * child. A child that was entered before that, or without handlers (as _Fork() and a bare clone()
 * make one), stays without them, and goes the slow ways.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hwt/base/wiped.h"

#define HWT_PROCESS_FAST 128 /* bits of `slow_path_bits` */
#define HWT_PROCESS_SINGLE (HWT_PROCESS_FAST | 16)

struct hwt_process {
    _Alignas(HWT_PAGE_MOST) uint32_t fast; /* HWT_PROCESS_FAST, or 0 */
    uint32_t single;                       /* HWT_PROCESS_SINGLE, or 0 */
    _Atomic bool entered;
    pthread_mutex_t lock;
};

extern struct hwt_process hwt_process;

/* Enters the process, if nobody has, and takes its lock. */
void hwt_process_lock(void);

/* Called under the lock in a child, if it is not NULL: what the timers need. Set under the lock. */
extern void (*hwt_process_child)(void);

static inline void hwt_process_enter(void)
{
    if (atomic_load_explicit(&hwt_process.entered, memory_order_acquire))
        return;
    hwt_process_lock();
    pthread_mutex_unlock(&hwt_process.lock);
}

/* A number that no process from which this one comes by fork() has. */
uint32_t hwt_process_number(void);

#endif
