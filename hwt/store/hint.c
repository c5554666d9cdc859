/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sorting by counting, a digit of eight bits at a time. See hint.h. */

#include "hwt/store/hint.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define DIGIT_BITS 8
#define DIGITS (1u << DIGIT_BITS)
#define SAMPLES 8

_Static_assert(DIGITS == HWT_HINTS_REACH, "what one digit tells apart");

/* How far to shift, so that a number up to `most` has one digit. */
static unsigned shift_for(uint32_t most)
{
    unsigned bits = most == 0 ? 0 : 32 - (unsigned)__builtin_clz(most);
    return bits > DIGIT_BITS ? bits - DIGIT_BITS : 0;
}

/* How many hints each digit has, of those up to `most` from the least. */
static void count_digits(struct hwt_part *part, const struct hwt_hint *hints, uint32_t n,
                         uint32_t most, unsigned shift)
{
    const uint32_t least = part->least;
    part->shift = shift;
    memset(part->counts, 0, sizeof(part->counts));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t remaining = hints[i].round - least;
        if (remaining <= most)
            part->counts[remaining >> shift & (DIGITS - 1)]++;
    }
}

/* The digits that have three quarters of the hints, if the counted ones have so many: how many digits
 * that is; else 0. */
static uint32_t find_end(struct hwt_part *part, uint32_t n)
{
    uint32_t end = 0;
    for (part->n = 0; part->n < n - n / 4; end++) {
        if (end == DIGITS)
            return 0;
        part->n += part->counts[end];
    }
    return end;
}

static bool may_be_near(const struct hwt_hint *hints, uint32_t n, uint32_t base)
{
    uint32_t near = 0;
    for (uint32_t i = 0; i < SAMPLES; i++)
        near += hints[(size_t)i * (n / SAMPLES)].round - base < DIGITS;
    return near > SAMPLES / 2;
}

/* The same of rounds that are near, as nearly all are: one look at each hint says it. */
static bool is_near_part(struct hwt_part *part, const struct hwt_hint *hints, uint32_t n,
                         uint32_t base)
{
    uint32_t first = 0;
    if (!may_be_near(hints, n, base))
        return false;
    part->least = base;
    count_digits(part, hints, n, DIGITS - 1, 0);
    uint32_t end = find_end(part, n);
    if (end == 0)
        return false;
    while (part->counts[first] == 0)
        first++;
    memmove(part->counts, part->counts + first, (end - first) * sizeof(part->counts[0]));
    part->least = base + first;
    part->reach = end - first;
    return true;
}

void hwt_hints_part(struct hwt_part *part, const struct hwt_hint *hints, uint32_t n, uint32_t base)
{
    uint32_t least = UINT32_MAX, most = 0;
    if (is_near_part(part, hints, n, base))
        return;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t remaining = hints[i].round - base;
        least = remaining < least ? remaining : least;
        most = remaining > most ? remaining : most;
    }
    part->least = base + least;
    most -= least;
    for (;;) {
        unsigned shift = shift_for(most);
        count_digits(part, hints, n, most, shift);
        uint32_t end = find_end(part, n);
        part->reach = end == DIGITS && shift == 32 - DIGIT_BITS ? UINT32_MAX : end << shift;
        if (end > 1 || shift == 0)
            return;
        most = (1u << shift) - 1; /* one digit has them all: look at it more closely */
    }
}

/* Where the hints of each digit begin: in place of how many it has. */
static void find_beginnings(struct hwt_part *part)
{
    uint32_t before = 0, most = (part->reach - 1) >> part->shift;
    for (unsigned digit = 0; digit < DIGITS && digit <= most; digit++) {
        uint32_t its = part->counts[digit];
        part->counts[digit] = before;
        before += its;
    }
}

void hwt_hints_divide(struct hwt_part *part, const struct hwt_hint *hints, uint32_t n,
                      struct hwt_hint *to, struct hwt_hint *rest)
{
    const uint32_t least = part->least, reach = part->reach;
    if (part->shift > 0)
        count_digits(part, hints, n, reach - 1, 0);
    find_beginnings(part);
    for (uint32_t i = 0; i < n; i++) {
        struct hwt_hint hint = hints[i];
        uint32_t remaining = hint.round - least;
        if (remaining < reach)
            to[part->counts[remaining & (DIGITS - 1)]++] = hint;
        else
            *rest++ = hint;
    }
}

struct hwt_hint *hwt_hints_sort(struct hwt_part *part, struct hwt_hint *hints,
                                struct hwt_hint *other)
{
    const uint32_t least = part->least, reach = part->reach;
    for (unsigned shift = DIGIT_BITS; shift < 32 && (reach - 1) >> shift > 0; shift += DIGIT_BITS) {
        count_digits(part, hints, part->n, UINT32_MAX, shift);
        find_beginnings(part);
        for (uint32_t i = 0; i < part->n; i++)
            other[part->counts[(hints[i].round - least) >> shift & (DIGITS - 1)]++] = hints[i];
        struct hwt_hint *sorted = other;
        other = hints;
        hints = sorted;
    }
    return hints;
}
