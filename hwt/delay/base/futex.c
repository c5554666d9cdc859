/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Threads that sleep on a word. See futex.h. */

#include "hwt/delay/base/futex.h"

#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

/* These are from <linux/futex.h>, which not every libc finds. */
#define FUTEX_WAIT_PRIVATE (0 | 128)
#define FUTEX_WAKE_PRIVATE (1 | 128)

/* Without a time the two calls are one, and a system may have either. */
#ifndef SYS_futex
#define SYS_futex SYS_futex_time64
#endif

void hwt_delay_sleep_on(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL);
}

void hwt_delay_wake_one_on(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1);
}

void hwt_delay_wake_all_on(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX);
}
