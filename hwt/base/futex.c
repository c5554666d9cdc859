/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sleeping on a word. See futex.h. */

#include "hwt/base/futex.h"

#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From <linux/futex.h>, which not every libc finds. */
#define FUTEX_WAKE_PRIVATE (1 | 128)
#define FUTEX_WAIT_BITSET_PRIVATE (9 | 128)
#define FUTEX_BITSET_MATCH_ANY UINT32_MAX

#if defined(SYS_futex_time64) && defined(SYS_futex)

/* time_t has 64 bits, the system's `long` 32. The system may know the new call, or only the old. */
void hwt_futex_wait(_Atomic uint32_t *word, uint32_t value, const struct timespec *at)
{
    if (sizeof(time_t) > sizeof(long)) {
        long r = syscall(SYS_futex_time64, word, FUTEX_WAIT_BITSET_PRIVATE, value, at, NULL,
                         FUTEX_BITSET_MATCH_ANY);
        if (r == 0 || errno != ENOSYS)
            return;
    }
    const int64_t most = LONG_MAX;
    const struct {
        long seconds, nanoseconds;
    } old = { !at ? 0 : (long)(at->tv_sec < most ? at->tv_sec : most), at ? at->tv_nsec : 0 };
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, at ? &old : NULL, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

#else

#ifdef SYS_futex_time64
#define SYS_futex SYS_futex_time64
#endif

void hwt_futex_wait(_Atomic uint32_t *word, uint32_t value, const struct timespec *at)
{
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, at, NULL, FUTEX_BITSET_MATCH_ANY);
}

#endif

void hwt_futex_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n);
}
