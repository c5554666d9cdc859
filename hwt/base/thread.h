/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_THREAD_H
#define HWT_THREAD_H

/*
 * Numbers for threads, so that each can have an element of its own in an array. A thread has the
 * least number that is free, from its first call until it ends.
 *
 * A number passes from one thread to the next by release and acquire: the next thread sees what the
 * last one did with that number. The child of a fork() has the one thread that forked, and all
 * other numbers are free.
 */

#include <stdatomic.h>
#include <stdint.h>

#define HWT_THREADS_MAX 8192
/* The number of a thread that has none: all are taken, or it is about to end. */
#define HWT_THREAD_NONE (HWT_THREADS_MAX + 1)

/* With initial-exec a shared library needs one instruction to reach such a variable. A libc that
 * has no room for it in a library that is loaded late must do without. */
#ifdef __GLIBC__
#define HWT_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define HWT_THREAD_LOCAL _Thread_local
#endif

extern HWT_THREAD_LOCAL uint32_t hwt_thread_number; /* from 1; 0: none yet */

/* A thread that ends calls this while it has its number, unless it is NULL. */
extern void (*_Atomic hwt_thread_ends)(void);

/* Gives the calling thread its number. Lock-free, once the library is loaded. */
uint32_t hwt_thread_take_number(void);

/* Once, before a thread takes a number: see process.c. */
void hwt_thread_begin(void);

/* In a child of fork(), by the thread that forked: all numbers but its own are free. */
void hwt_thread_forget_others(void);

#endif
