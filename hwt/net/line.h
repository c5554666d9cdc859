/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_NET_LINE_H
#define HWT_NET_LINE_H

/*
 * A line of threads that wait for one thread to do something, and touch nothing of the line after
 * they have joined it: the object that has it may be freed once it was closed.
 *
 * GROUND RULES
 *
 * line      A stack of objects that lie on the waiters' own stacks. Its bottom is LINE_OPEN. It is
 *           LINE_CLOSED, 0, where there is nothing to wait for. Opened by a store (release), by the
 *           thread that is waited for, while it is closed. Joined by compare-exchange, only while it
 *           is open: release, for `next`. Closed by the thread that opened it, by exchange: acquire,
 *           for the waiters; release, for what it has done. Acquire on every load: a thread that
 *           finds it closed sees what was done.
 *
 * waiter    Its thread's, until it has joined. Then that of the thread that closes the line, until
 *           that has posted `let_go`, which publishes what it has done.
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

enum { LINE_CLOSED, LINE_OPEN };

struct waiter {
    uint64_t next; /* another one, or LINE_OPEN */
    sem_t let_go;
};

static inline void line_open(uint64_t *line)
{
    __atomic_store_n(line, LINE_OPEN, __ATOMIC_RELEASE);
}

/* Lets all go that have joined. */
static inline void line_close(uint64_t *line)
{
    uint64_t next = __atomic_exchange_n(line, LINE_CLOSED, __ATOMIC_ACQ_REL);
    while (next != LINE_OPEN) {
        struct waiter *waiter = (struct waiter *)(uintptr_t)next;
        next = waiter->next; /* before it is let go: then it is not there any more */
        sem_post(&waiter->let_go);
    }
}

/* True: waiter_wait() must follow. False: the line is closed. */
static inline bool line_join(uint64_t *line, struct waiter *waiter)
{
    sem_init(&waiter->let_go, 0, 0);
    waiter->next = __atomic_load_n(line, __ATOMIC_ACQUIRE);
    while (waiter->next != LINE_CLOSED) {
        if (__atomic_compare_exchange_n(line, &waiter->next, (uintptr_t)waiter, false,
                                        __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
            return true;
    }
    sem_destroy(&waiter->let_go);
    return false;
}

/* The thread cannot be cancelled meanwhile, because the line has its stack. */
static inline void waiter_wait(struct waiter *waiter)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    while (sem_wait(&waiter->let_go) != 0)
        ;
    pthread_setcancelstate(before, NULL);
    sem_destroy(&waiter->let_go);
}

#endif
