/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The wheel and the positions, beside an array that is walked through at each step: which slot
 * takes an instant, which begins next, how far each has been dealt with, which are passed.
 */

#include <stdlib.h>
#include <string.h>

#include "check_main.h"

#include "hwt/delay/whole.h"

enum { SLOTS = 60, STEPS = 4000 };

struct known {
    struct hwt_delay_slot *slot;
    struct hwt_delay_key position;
    bool passed;
};

static hwt_delay *store;
static struct known known[SLOTS];
static size_t count;
static uint64_t seed;

static uint64_t below(uint64_t n)
{
    return test_random(&seed) % n;
}

static void begin(void)
{
    store = calloc(1, sizeof(*store));
    ck_assert_ptr_nonnull(store);
    RB_INIT(&store->slots.wheel.spans);
    RB_INIT(&store->slots.wheel.nexts);
    RB_INIT(&store->slots.wheel.highests);
    ck_assert_int_eq(hwt_delay_epoch_begin(store), 0);
    count = 0;
    seed = test_seed_get(true);
}

static void drop(size_t i)
{
    hwt_delay_wheel_remove(store, known[i].slot);
    hwt_delay_slot_unref(known[i].slot);
    known[i] = known[--count];
}

static void end(void)
{
    while (count > 0)
        drop(count - 1);
    free(store->slots.positions.floors);
    free(store);
}

static uint64_t instant(void)
{
    return (UINT64_C(1) << 40) + below(UINT64_C(40) << 30);
}

static void add(void)
{
    static uint64_t number = 1;
    unsigned shift = 30 + (unsigned)below(4);
    uint64_t index = instant() >> shift;
    if (count == SLOTS || hwt_delay_wheel_find(store, shift, index))
        return;
    struct hwt_delay_slot *slot = hwt_delay_slot_new(shift, index, number++);
    ck_assert_ptr_nonnull(slot);
    slot->length = below(2) * 100;
    if (slot->length == 0) /* as a checkpoint makes it: nothing was written yet */
        slot->last = 0;
    hwt_delay_wheel_add(store, slot);
    ck_assert_int_eq(hwt_delay_epoch_begin(store), 0);
    if (hwt_delay_begins_below(slot, store->table.loaded))
        hwt_delay_seal(store, slot, store->slots.positions.epoch);
    known[count++] = (struct known){ .slot = slot };
}

/* As loading does: what begins below is sealed, and has nothing to be read below. */
static void load(void)
{
    store->table.loaded = (struct hwt_delay_key){ instant(), below(2) };
    ck_assert_int_eq(hwt_delay_epoch_begin(store), 0);
    for (size_t i = 0; i < count; i++) {
        if (hwt_delay_begins_below(known[i].slot, store->table.loaded))
            hwt_delay_seal(store, known[i].slot, store->slots.positions.epoch);
        hwt_delay_slot_bounds(store, known[i].slot);
    }
}

static void raise_positions(void)
{
    struct hwt_delay_key left = { instant(), below(4) };
    if (hwt_delay_compare(store->table.loaded, left) < 0)
        left = store->table.loaded;
    hwt_delay_positions_raise(store, left);
    for (size_t i = 0; i < count; i++) {
        if (known[i].slot->sealed && hwt_delay_compare(known[i].position, left) < 0)
            known[i].position = left;
        const struct hwt_delay_slot *slot = known[i].slot;
        uint64_t highest = slot->length == 0 ? HWT_NEVER : hwt_delay_slot_last(slot);
        known[i].passed = known[i].passed || (slot->sealed && highest < left.due);
    }
}

static void grow(void)
{
    if (count == 0)
        return;
    struct known *one = &known[below(count)];
    one->slot->last = hwt_delay_slot_last(one->slot);
    hwt_delay_slot_set_length(store, one->slot, one->slot->length + 100);
    one->passed = false;
}

static void check_slots(void)
{
    uint64_t next = HWT_NEVER, bytes = 0, passed = 0;
    for (size_t i = 0; i < count; i++) {
        const struct hwt_delay_slot *slot = known[i].slot;
        struct hwt_delay_key position = hwt_delay_position(store, slot);
        ck_assert_int_eq(hwt_delay_compare(position, known[i].position), 0);
        ck_assert_int_eq(slot->passed, known[i].passed);
        bytes += slot->length;
        passed += slot->passed ? slot->length : 0;
        bool nothing = hwt_delay_slot_last(slot) < store->table.loaded.due ||
                       (slot->sealed && slot->length == 0);
        uint64_t start = hwt_delay_slot_start(slot);
        if (start < store->table.loaded.due)
            start = store->table.loaded.due;
        if (!nothing && start < next)
            next = start;
    }
    ck_assert_uint_eq(hwt_delay_wheel_next(store), next);
    ck_assert_uint_eq(store->slots.wheel.bytes, bytes);
    ck_assert_uint_eq(store->slots.wheel.passed_bytes, passed);
    ck_assert_uint_eq(store->slots.wheel.count, count);
}

static void check_places(void)
{
    uint64_t due = instant();
    bool covers = false;
    for (size_t i = 0; i < count; i++)
        covers = covers || due >> known[i].slot->shift == known[i].slot->index;
    ck_assert_int_eq(hwt_delay_wheel_covers(store, due), covers);
    for (unsigned shift = 29; shift < 35; shift++) {
        const struct hwt_delay_slot *found = NULL;
        for (size_t i = 0; i < count; i++) {
            const struct hwt_delay_slot *slot = known[i].slot;
            if (slot->shift == shift && slot->index == due >> shift && !slot->sealed)
                found = slot;
        }
        ck_assert_ptr_eq(hwt_delay_wheel_find(store, shift, due >> shift), found);
    }
}

START_TEST(test_the_wheel_is_what_an_array_says)
{
    for (int i = 0; i < STEPS; i++) {
        switch (below(8)) {
        case 0:
        case 1:
        case 2:
            add();
            break;
        case 3:
            load();
            break;
        case 4:
        case 5:
            raise_positions();
            break;
        case 6:
            grow();
            break;
        default:
            if (count > 0)
                drop(below(count));
        }
        check_slots();
        check_places();
    }
    /* Floors that say nothing do not stay. */
    ck_assert_uint_le(store->slots.positions.count, store->slots.positions.epoch + 1);
    hwt_delay_positions_raise(store, (struct hwt_delay_key){ HWT_NEVER - 1, 0 });
    ck_assert_uint_eq(store->slots.positions.count, 1);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_wheel");
    TCase *tcase = tcase_create("wheel");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_the_wheel_is_what_an_array_says);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
