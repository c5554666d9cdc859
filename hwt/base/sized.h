/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_BASE_SIZED_H
#define HWT_BASE_SIZED_H

/*
 * Structs that callers bring with a size. The caller's may be shorter or longer than this build's: then a
 * field at its end is not known to one of the two. A shorter struct has all fields up to its size. Which
 * sizes there can be, each kind of struct says.
 */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* To the caller, whose struct has `size` bytes: what it does not know is left out, what is not known here
 * becomes zero. */
static inline void hwt_sized_write(void *to, size_t size, const void *from, size_t known)
{
    memset(to, 0, size);
    memcpy(to, from, size < known ? size : known);
}

/* From the caller: what its struct lacks stays. False: it has what is not known here, and is not zero. */
static inline bool hwt_sized_read(void *to, size_t known, const void *from, size_t size)
{
    for (size_t i = known; i < size; i++) {
        if (((const char *)from)[i] != 0)
            return false;
    }
    memcpy(to, from, size < known ? size : known);
    return true;
}

#endif
