/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_BASE_ARRAY_H
#define HWT_DELAY_BASE_ARRAY_H

#include <stddef.h>
#include <stdlib.h>

/*
 * The array with room for one more element: the same, or one of twice the room, or of `least` at
 * first. NULL: there is no memory, and the array is as it was.
 */
static inline void *hwt_delay_grown(void *array, size_t count, size_t *room, size_t size,
                                    size_t least)
{
    if (count < *room)
        return array;
    size_t more = *room > 0 ? 2 * *room : least;
    void *grown = realloc(array, more * size);
    if (grown)
        *room = more;
    return grown;
}

#endif
