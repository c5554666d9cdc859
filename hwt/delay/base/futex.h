/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_BASE_FUTEX_H
#define HWT_DELAY_BASE_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Sleeps if the word is the same as it was seen; it may also end for no reason. No cancellation
 * point. Who changes the word and wakes then, wakes all that have seen it as it was before, or they
 * do not sleep, because the kernel looks at it under a lock that the waking takes, too.
 */
void hwt_delay_sleep_on(_Atomic uint32_t *word, uint32_t seen);
/* One of those that sleep on it, or all. */
void hwt_delay_wake_one_on(_Atomic uint32_t *word);
void hwt_delay_wake_all_on(_Atomic uint32_t *word);

#endif
