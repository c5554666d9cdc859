/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_SHIELD_H
#define HWT_SHIELD_H

/*
 * A thread that holds a lock of the library, or whose stack another thread uses, must not be ended
 * there by pthread_cancel(). A call that comes to a cancellation point (it waits, sleeps, or closes
 * a descriptor) is shielded meanwhile: the thread ends after the call has returned.
 */

#include <pthread.h>

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

#endif
