/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_SHIELD_H
#define HWT_SHIELD_H

/*
 * pthread_cancel() must not end a thread while it holds a lock of the library, or while another
 * thread uses its stack. So a call is shielded while it may come to a cancellation point (it waits,
 * sleeps, or closes a descriptor). A thread that is cancelled meanwhile ends after the call has
 * returned.
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
 * Blocks all signals but those that a fault of a callback raises, so that a thread of the library
 * which is created next inherits that. The caller then restores *before by pthread_sigmask().
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
