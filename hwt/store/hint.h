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

/*
 * How many rounds from `least` on, which is the least there is, have at least half of the hints, and
 * not many more if that can be had; *ret_n: how many hints those are.
 */
uint32_t hwt_hints_half(const struct hwt_hint *hints, uint32_t n, uint32_t least, uint32_t *ret_n);

/* Moves the hints of `reach` rounds from `least` on to `to`, and the others together, in order, to
 * `rest`, which may be where they are. The former are in order if reach is at most HWT_HINTS_REACH. */
#define HWT_HINTS_REACH 256
void hwt_hints_divide(const struct hwt_hint *hints, uint32_t n, uint32_t least, uint32_t reach,
                      struct hwt_hint *to, struct hwt_hint *rest);

/* Puts in order what hwt_hints_divide() has moved; `other` has room for as many. Returns which of the
 * two has them then. Hints of one round stay in the order in which they are. */
struct hwt_hint *hwt_hints_sort(struct hwt_hint *hints, struct hwt_hint *other, uint32_t n,
                                uint32_t least, uint32_t reach);

#endif
