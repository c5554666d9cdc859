/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_THREAD_H
#define HWT_THREAD_H

/*
 * Numbers for threads: the least that is free, from a thread's first call until it ends, so that
 * each can have something of its own in an array.
 *
 * A number passes from one thread to the next by release and acquire: the next one sees what the
 * last one did under it. The child of a fork() has the one thread that forked, and all other
 * numbers are free again.
 */

#include <stdatomic.h>
#include <stdint.h>

#define HWT_THREADS_MAX 8192
/* All are taken, or the thread is about to end. */
#define HWT_THREAD_NONE (HWT_THREADS_MAX + 1)

/* Initial-exec is one instruction to reach it from a shared library; a libc that has no room for
 * it in a library that is loaded late must do without. */
#ifdef __GLIBC__
#define HWT_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define HWT_THREAD_LOCAL _Thread_local
#endif

extern HWT_THREAD_LOCAL uint32_t hwt_thread_number; /* from 1; 0: none yet */

/* Called by a thread that ends, while it has its number; NULL: nobody wants to know. */
extern void (*_Atomic hwt_thread_ends)(void);

/* Gives the calling thread its number. Lock-free, once the library is loaded. */
uint32_t hwt_thread_take_number(void);

#endif
