/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_WIPED_H
#define HWT_WIPED_H

/* Variables that are zero in a child of fork(), because the kernel wipes their page. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#define HWT_PAGE_MOST 4096
#else
#define HWT_PAGE_MOST 65536 /* the largest page of other machines */
#endif

/* `page` is aligned to HWT_PAGE_MOST. False: the kernel does not wipe it (before Linux 4.14, or with
 * larger pages). Some emulators ignore all advice, and say that they have taken it. */
static inline bool hwt_wiped_on_fork(void *page, size_t size)
{
    return size % (size_t)getpagesize() == 0 && madvise(page, size, -1) != 0 &&
           madvise(page, size, MADV_WIPEONFORK) == 0;
}

#endif
