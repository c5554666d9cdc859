/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The wheel of files says to which slot a message belongs.
 *
 * A slot is 2^shift nanoseconds long, and there is one wheel for each shift, from about a second
 * on. A message that is d ahead goes to the slot whose length is between d / 32 and d / 16. So each
 * wheel has at most 32 slots in use, a checkpoint writes to at most 16 of each, and what a slot
 * still holds of the past, because a file is deleted as a whole only, is at most a sixteenth of
 * what was put as far ahead. A message never moves from a slot to another. It is read from the slot
 * into which it was put, together with whatever the shorter slots have for that time.
 *
 * What is overdue already when it is written goes to slots of 8 s or more, so that a long
 * absence of consumers does not make a file for each second.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

#define SHIFT_MIN 30
#define SHIFT_OVERDUE 33
#define PARTS_SHIFT 4

static unsigned log2_of(uint64_t n)
{
    return n == 0 ? 0 : 63 - (unsigned)__builtin_clzll(n);
}

unsigned hwt_delay_wheel_shift(uint64_t due, uint64_t now)
{
    if (due <= now) {
        unsigned shift = log2_of(now - due);
        return shift < SHIFT_OVERDUE ? SHIFT_OVERDUE : shift;
    }
    unsigned ahead = log2_of(due - now);
    return ahead < SHIFT_MIN + PARTS_SHIFT ? SHIFT_MIN : ahead - PARTS_SHIFT;
}

uint64_t hwt_delay_slot_start(const struct hwt_delay_slot *slot)
{
    return slot->index << slot->shift;
}

uint64_t hwt_delay_slot_last(const struct hwt_delay_slot *slot)
{
    return hwt_delay_slot_start(slot) + ((UINT64_C(1) << slot->shift) - 1);
}

static int span_compare(const struct hwt_delay_slot *a, const struct hwt_delay_slot *b)
{
    if (a->shift != b->shift)
        return a->shift < b->shift ? -1 : 1;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static int next_compare(const struct hwt_delay_slot *a, const struct hwt_delay_slot *b)
{
    int order = (a->next > b->next) - (a->next < b->next);
    return order != 0 ? order : span_compare(a, b);
}

static int highest_compare(const struct hwt_delay_slot *a, const struct hwt_delay_slot *b)
{
    int order = (a->highest > b->highest) - (a->highest < b->highest);
    return order != 0 ? order : span_compare(a, b);
}

RB_GENERATE(hwt_delay_spans, hwt_delay_slot, by_span, span_compare)
RB_GENERATE(hwt_delay_nexts, hwt_delay_slot, by_next, next_compare)
RB_GENERATE(hwt_delay_highests, hwt_delay_slot, by_highest, highest_compare)

struct hwt_delay_slot *hwt_delay_slot_new(unsigned shift, uint64_t index, uint64_t number)
{
    struct hwt_delay_slot *slot = calloc(1, sizeof(*slot));
    if (!slot)
        return NULL;
    slot->refs = 1;
    slot->shift = shift;
    slot->index = index;
    slot->number = number;
    slot->next = HWT_NEVER;
    slot->last = hwt_delay_slot_last(slot);
    slot->highest = HWT_NEVER;
    slot->newest = UINT64_MAX;
    slot->origins = slot->new_origins = HWT_DELAY_NO_RANGE;
    slot->reader.slot = slot;
    return slot;
}

void hwt_delay_slot_unref(struct hwt_delay_slot *slot)
{
    if (--slot->refs > 0)
        return;
    hwt_delay_reader_clear(&slot->reader);
    free(slot);
}

/* Takes over the caller's reference. */
void hwt_delay_wheel_add(hwt_delay *store, struct hwt_delay_slot *slot)
{
    struct hwt_delay_wheel *wheel = &store->slots.wheel;
    RB_INSERT(hwt_delay_spans, &wheel->spans, slot);
    slot->on_wheel = true;
    wheel->count++;
    wheel->by_shift[slot->shift]++;
    wheel->bytes += slot->length;
    if (slot->sealed)
        RB_INSERT(hwt_delay_highests, &wheel->highests, slot);
    hwt_delay_slot_bounds(store, slot);
}

static void unpass(struct hwt_delay_wheel *wheel, const struct hwt_delay_slot *slot)
{
    wheel->passed_bytes -= slot->length;
    wheel->passed_count--;
}

/* Gives the reference back to the caller. */
void hwt_delay_wheel_remove(hwt_delay *store, struct hwt_delay_slot *slot)
{
    struct hwt_delay_wheel *wheel = &store->slots.wheel;
    RB_REMOVE(hwt_delay_spans, &wheel->spans, slot);
    slot->on_wheel = false;
    if (slot->next != HWT_NEVER)
        RB_REMOVE(hwt_delay_nexts, &wheel->nexts, slot);
    if (slot->passed)
        unpass(wheel, slot);
    else if (slot->sealed && !slot->kept)
        RB_REMOVE(hwt_delay_highests, &wheel->highests, slot);
    wheel->count--;
    wheel->by_shift[slot->shift]--;
    wheel->bytes -= slot->length;
}

struct hwt_delay_slot *hwt_delay_wheel_from(const hwt_delay *store, unsigned shift, uint64_t index,
                                            uint64_t number)
{
    struct hwt_delay_slot sought = { .shift = shift, .index = index, .number = number };
    struct hwt_delay_spans *spans = &((hwt_delay *)(uintptr_t)store)->slots.wheel.spans;
    return RB_NFIND(hwt_delay_spans, spans, &sought);
}

/* All slots that were made for one span are sealed but the last one. */
struct hwt_delay_slot *hwt_delay_wheel_find(const hwt_delay *store, unsigned shift, uint64_t index)
{
    struct hwt_delay_spans *spans = &((hwt_delay *)(uintptr_t)store)->slots.wheel.spans;
    struct hwt_delay_slot *behind = hwt_delay_wheel_from(store, shift, index + 1, 0);
    struct hwt_delay_slot *slot =
        behind ? RB_PREV(hwt_delay_spans, spans, behind) : RB_MAX(hwt_delay_spans, spans);
    return slot && slot->shift == shift && slot->index == index && !slot->sealed ? slot : NULL;
}

bool hwt_delay_wheel_covers(const hwt_delay *store, uint64_t due)
{
    for (unsigned shift = 0; shift < 64; shift++) {
        if (store->slots.wheel.by_shift[shift] == 0)
            continue;
        const struct hwt_delay_slot *slot = hwt_delay_wheel_from(store, shift, due >> shift, 0);
        if (slot && slot->shift == shift && slot->index == due >> shift)
            return true;
    }
    return false;
}

/* Which due times can be there at or above `loaded`, as far as the reader knows. */
static void find_bounds(const struct hwt_delay_slot *slot, struct hwt_delay_key loaded,
                        uint64_t *ret_next, uint64_t *ret_highest)
{
    uint64_t last = slot->length == 0 ? hwt_delay_slot_last(slot) : slot->last, highest = 0;
    bool known = slot->length > 0 && slot->reader.indexed >= slot->length;
    for (size_t i = 0; i < slot->reader.count; i++) {
        if (slot->reader.runs[i].last.due > highest)
            highest = slot->reader.runs[i].last.due;
    }
    *ret_highest = slot->length == 0 ? HWT_NEVER : known && highest < last ? highest : last;
    uint64_t next = hwt_delay_reader_next(&slot->reader);
    if (next != HWT_NEVER && next < loaded.due)
        next = loaded.due;
    /* A slot that is not sealed yet is to be found where it begins, to be sealed. */
    *ret_next = last < loaded.due || (slot->sealed && slot->length == 0) ? HWT_NEVER : next;
}

/* After a change of the slot's length, or of what its reader has read, or of `loaded`. The slots are
 * locked, or nothing was read of it. */
void hwt_delay_slot_bounds(hwt_delay *store, struct hwt_delay_slot *slot)
{
    struct hwt_delay_wheel *wheel = &store->slots.wheel;
    uint64_t next, highest;
    find_bounds(slot, hwt_delay_loaded(store), &next, &highest);
    if (slot->next != next) {
        if (slot->next != HWT_NEVER)
            RB_REMOVE(hwt_delay_nexts, &wheel->nexts, slot);
        slot->next = next;
        if (next != HWT_NEVER)
            RB_INSERT(hwt_delay_nexts, &wheel->nexts, slot);
    }
    if (slot->highest == highest)
        return;
    bool is_in_order = slot->sealed && !slot->passed && !slot->kept;
    if (is_in_order)
        RB_REMOVE(hwt_delay_highests, &wheel->highests, slot);
    slot->highest = highest;
    if (is_in_order)
        RB_INSERT(hwt_delay_highests, &wheel->highests, slot);
}

/* The slots are locked. A slot's records may have been passed while more was appended to it. */
void hwt_delay_slot_set_length(hwt_delay *store, struct hwt_delay_slot *slot, uint64_t length)
{
    struct hwt_delay_wheel *wheel = &store->slots.wheel;
    if (slot->passed || slot->kept) {
        if (slot->passed)
            unpass(wheel, slot);
        slot->passed = slot->kept = false;
        RB_INSERT(hwt_delay_highests, &wheel->highests, slot);
    }
    wheel->bytes += length - slot->length;
    slot->length = length;
    if (slot->dead > length)
        slot->dead = length;
    hwt_delay_slot_bounds(store, slot);
}

uint64_t hwt_delay_wheel_next(const hwt_delay *store)
{
    const struct hwt_delay_slot *slot =
        RB_MIN(hwt_delay_nexts, &((hwt_delay *)(uintptr_t)store)->slots.wheel.nexts);
    return slot ? slot->next : HWT_NEVER;
}
