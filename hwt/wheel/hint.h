/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_HINT_H
#define HWT_HINT_H

/* Hints, and how they are sorted by their rounds. See bucket.h. */

#include <stdint.h>

struct hwt_hint {
    uint32_t round;
    uint32_t id;
    uint32_t generation;
};

/* Moves the hints that stay to the front, in order, and returns how many they are. */
typedef uint32_t (*hwt_hints_filter)(const void *data, struct hwt_hint *hints, uint32_t n);

/* Sorts hints by their rounds, counted from `base`. Hints of one round stay in the order in which
 * they are. `other` has room for n hints. */
void hwt_hints_sort(struct hwt_hint *hints, uint32_t n, uint32_t base, struct hwt_hint *other);

#endif
