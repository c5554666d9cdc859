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

/* Moves those that are to stay to the front, in order, and returns how many they are. */
typedef uint32_t (*hwt_hints_filter)(const void *data, struct hwt_hint *hints, uint32_t n);

#define HWT_HINTS_REACH 256 /* rounds that one digit tells apart */

/* The sooner part of some hints: those of `reach` rounds from `least` on, which is the least there
 * is. */
struct hwt_part {
    uint32_t least;
    uint32_t reach;
    uint32_t n;     /* hints in it */
    unsigned shift; /* of the digit that is counted */
    uint32_t counts[HWT_HINTS_REACH];
};

/* A part that has at least three quarters of the hints, of which there is one at least, and not
 * many more if that can be had. No hint is before `base`. */
void hwt_hints_part(struct hwt_part *part, const struct hwt_hint *hints, uint32_t n, uint32_t base);

/* Once for a part: moves its hints to `to`, and the others, in order, to `rest`, which may be where
 * they are. The former are in order if its reach is at most HWT_HINTS_REACH. */
void hwt_hints_divide(struct hwt_part *part, const struct hwt_hint *hints, uint32_t n,
                      struct hwt_hint *to, struct hwt_hint *rest);

/* Puts in order what hwt_hints_divide() has moved; `other` has room for as many. Returns which of
 * the two has them then. Hints of one round stay in the order in which they are. */
struct hwt_hint *hwt_hints_sort(struct hwt_part *part, struct hwt_hint *hints,
                                struct hwt_hint *other);

#endif
