/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sorting by counting, a digit of eight bits at a time. See hint.h. */

#include "hwt/wheel/hint.h"

#include <string.h>

#define DIGIT_BITS 8
#define DIGITS (1u << DIGIT_BITS)

/* Rounds are counted from `least`. */
struct digit {
    uint32_t least;
    unsigned shift;
    uint32_t most; /* the greatest value of this digit */
};

static inline uint32_t digit_of(const struct digit *digit, const struct hwt_hint *hint)
{
    return (hint->round - digit->least) >> digit->shift & (DIGITS - 1);
}

static void sort_by(const struct digit *digit, const struct hwt_hint *from, uint32_t n,
                    struct hwt_hint *to)
{
    uint32_t at[DIGITS], before = 0;
    memset(at, 0, (digit->most + 1) * sizeof(at[0]));
    for (uint32_t i = 0; i < n; i++)
        at[digit_of(digit, &from[i])]++;
    for (uint32_t k = 0; k <= digit->most; k++) {
        uint32_t its = at[k];
        at[k] = before;
        before += its;
    }
    for (uint32_t i = 0; i < n; i++)
        to[at[digit_of(digit, &from[i])]++] = from[i];
}

void hwt_hints_sort(struct hwt_hint *hints, uint32_t n, uint32_t base, struct hwt_hint *other)
{
    struct hwt_hint *from = hints, *to = other;
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t remaining = hints[i].round - base;
        least = remaining < least ? remaining : least;
        most = remaining > most ? remaining : most;
    }
    most = n > 0 ? most - least : 0;
    for (unsigned shift = 0; shift < 32 && most >> shift > 0; shift += DIGIT_BITS) {
        uint32_t rest = most >> shift;
        const struct digit digit = { base + least, shift, rest < DIGITS ? rest : DIGITS - 1 };
        sort_by(&digit, from, n, to);
        struct hwt_hint *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != hints)
        memcpy(hints, from, n * sizeof(*hints));
}
