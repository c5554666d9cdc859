/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_SHIELD_H
#define HWT_SHIELD_H

/*
 * A thread that holds a lock of the library, or whose stack another thread uses, must not be ended
 * there by pthread_cancel(). A call that comes to a cancellation point (it waits, sleeps, or closes
 * a descriptor) is shielded meanwhile: the thread ends after the call has returned.
 */

#include <pthread.h>
#include <signal.h>

/* Returns what hwt_unshield() restores. Shields may be nested. */
static inline int hwt_shield(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void hwt_unshield(int before)
{
    pthread_setcancelstate(before, NULL);
}

/*
 * For a thread of the library, which inherits it: blocks all signals but those that a fault of a
 * callback raises. The caller restores what *before has by pthread_sigmask().
 */
static inline void hwt_block_signals(sigset_t *before)
{
    static const int raised[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof(raised) / sizeof(*raised); i++)
        sigdelset(&all, raised[i]);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

#endif
