/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef CANCEL_H
#define CANCEL_H

/* GenMC knows no cancellation: nobody cancels a thread. It is included before all else. */

#define PTHREAD_CANCEL_DISABLE 1

static inline int pthread_setcancelstate(int state, int *ret_before)
{
    if (ret_before)
        *ret_before = 0;
    return state & 0;
}

#endif
