/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_BASE_ASKS_H
#define HWT_DELAY_BASE_ASKS_H

/*
 * The calls by which rooms ask something of those above them. Whoever makes something known, or
 * must wait for something, does not know who waits for it or makes it.
 */

#include <stdbool.h>

#include "hwt/delay.h"

/* Something may have changed that a take waits for. True: something can be taken now. See
 * api/wake.c. */
bool hwt_delay_wake_arm(hwt_delay *store);
/* All that sleep in take look again. */
void hwt_delay_wake_all(hwt_delay *store);
/* A reason begins why takes get nothing; 0: there is none, or it is over. */
void hwt_delay_trouble(hwt_delay *store, int error);
/* The store is not to hand anything over yet. */
bool hwt_delay_stands_by(const hwt_delay *store);
/* For a store that is synchronous: makes room in the log. See checkpoint/checkpoint.c. */
int hwt_delay_checkpoint_make(hwt_delay *store);

#endif
