/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_FUTEX_H
#define HWT_FUTEX_H

/* Sleeping on a word of the process, without a lock: Linux's futexes. */

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/* Sleeps while *word is `value`, until it is woken, or, unless `at` is NULL, until that instant of
 * the monotonic clock. May return early. */
void hwt_futex_wait(_Atomic uint32_t *word, uint32_t value, const struct timespec *at);

/* Wakes up to n threads that sleep on the word. It does not touch the word, which may be gone. */
void hwt_futex_wake(_Atomic uint32_t *word, int n);

#endif
