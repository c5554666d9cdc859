/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sorting by counting, a digit of eight bits at a time. See hint.h. */

#include "hwt/store/hint.h"

#include <stdbool.h>
#include <string.h>

#define DIGIT_BITS 8
#define DIGITS (1u << DIGIT_BITS)

_Static_assert(DIGITS == HWT_HINTS_REACH, "what one digit tells apart");

static uint32_t greatest(const struct hwt_hint *hints, uint32_t n, uint32_t least)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        most = hints[i].round - least > most ? hints[i].round - least : most;
    return most;
}

/* So that the greatest number, of which there are no more bits, has one digit. */
static unsigned shift_for(uint32_t most)
{
    unsigned bits = most == 0 ? 0 : 32 - (unsigned)__builtin_clz(most);
    return bits > DIGIT_BITS ? bits - DIGIT_BITS : 0;
}

uint32_t hwt_hints_half(const struct hwt_hint *hints, uint32_t n, uint32_t least, uint32_t *ret_n)
{
    uint32_t counts[DIGITS];
    uint32_t most = greatest(hints, n, least);
    for (;;) {
        unsigned shift = shift_for(most);
        memset(counts, 0, sizeof(counts));
        for (uint32_t i = 0; i < n; i++) {
            if (hints[i].round - least <= most)
                counts[(hints[i].round - least) >> shift]++;
        }
        uint32_t end = 0, sum = 0;
        while (sum < (n + 1) / 2)
            sum += counts[end++];
        if (end > 1 || shift == 0) {
            *ret_n = sum;
            return end == DIGITS && shift == 32 - DIGIT_BITS ? UINT32_MAX : end << shift;
        }
        most = (1u << shift) - 1; /* one digit has them all: look at it more closely */
    }
}

/* Where the hints of each digit begin. */
static void find_digits(uint32_t *at, const struct hwt_hint *hints, uint32_t n, uint32_t least,
                        uint32_t reach, unsigned shift)
{
    uint32_t before = 0, most = (reach - 1) >> shift;
    memset(at, 0, DIGITS * sizeof(*at));
    for (uint32_t i = 0; i < n; i++) {
        if (hints[i].round - least < reach)
            at[(hints[i].round - least) >> shift & (DIGITS - 1)]++;
    }
    for (unsigned digit = 0; digit < DIGITS && digit <= most; digit++) {
        uint32_t its = at[digit];
        at[digit] = before;
        before += its;
    }
}

void hwt_hints_divide(const struct hwt_hint *hints, uint32_t n, uint32_t least, uint32_t reach,
                      struct hwt_hint *to, struct hwt_hint *rest)
{
    uint32_t at[DIGITS];
    find_digits(at, hints, n, least, reach, 0);
    for (uint32_t i = 0; i < n; i++) {
        struct hwt_hint hint = hints[i];
        uint32_t remaining = hint.round - least;
        if (remaining < reach)
            to[at[remaining & (DIGITS - 1)]++] = hint;
        else
            *rest++ = hint;
    }
}

struct hwt_hint *hwt_hints_sort(struct hwt_hint *hints, struct hwt_hint *other, uint32_t n,
                                uint32_t least, uint32_t reach)
{
    uint32_t at[DIGITS];
    for (unsigned shift = DIGIT_BITS; shift < 32 && (reach - 1) >> shift > 0; shift += DIGIT_BITS) {
        find_digits(at, hints, n, least, reach, shift);
        for (uint32_t i = 0; i < n; i++)
            other[at[(hints[i].round - least) >> shift & (DIGITS - 1)]++] = hints[i];
        struct hwt_hint *sorted = other;
        other = hints;
        hints = sorted;
    }
    return hints;
}
