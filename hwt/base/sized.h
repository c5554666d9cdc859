/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_BASE_SIZED_H
#define HWT_BASE_SIZED_H

/*
 * Structs that callers bring with a size. The caller's may be shorter or longer than this build's;
 * then one of the two does not know the fields at its end. A shorter struct has all fields up to
 * its size. Each kind of struct says which sizes it accepts.
 */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Writes to the caller's struct, which has `size` bytes. Fields that it does not have are left out.
 * Fields that are not known here become zero. */
static inline void hwt_sized_write(void *to, size_t size, const void *from, size_t known)
{
    memset(to, 0, size);
    memcpy(to, from, size < known ? size : known);
}

/* Reads the caller's struct. Fields that it does not have stay as they are. False: a field that is
 * not known here is not zero. */
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
