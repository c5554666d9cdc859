/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The slots of a store are those of the wheel, and those that are finished and wait to be deleted.
 *
 * What the checkpoint on the disk names is never deleted. A checkpoint that is being made leaves a
 * slot out with a new length of 0. The slot stays on the wheel as long as that checkpoint can fail.
 * Once it is on the disk the slot is not `named` any more, and finished.
 */

#include <stdlib.h>

#include "hwt/base/assert.h"
#include "hwt/delay/whole.h"

void hwt_delay_slots_init(hwt_delay *store)
{
    struct hwt_delay_slots *slots = &store->slots;
    RB_INIT(&slots->wheel.spans);
    RB_INIT(&slots->wheel.nexts);
    RB_INIT(&slots->wheel.highests);
    TAILQ_INIT(&slots->finished);
    slots->next_number = 1;
    slots->handed.file = -1;
}

/* All that a checkpoint says of them. */
void hwt_delay_slots_forget(hwt_delay *store)
{
    struct hwt_delay_slot *slot;
    while ((slot = hwt_delay_slots_first(store))) {
        hwt_delay_wheel_remove(store, slot);
        hwt_delay_slot_unref(slot);
    }
    store->slots.next_number = 1;
}

void hwt_delay_slots_free(hwt_delay *store)
{
    struct hwt_delay_slots *slots = &store->slots;
    struct hwt_delay_slot *slot;
    while ((slot = hwt_delay_finished_first(store)))
        hwt_delay_finished_free(store, slot);
    free(slots->positions.floors);
    free(slots->aside);
    free(slots->handed.counts);
    hwt_delay_close_file(store, slots->handed.file);
}

/* ---- who may read them and change their lengths: one thread at a time ---- */

void hwt_delay_slots_await(hwt_delay *store)
{
    store->slots.waiting++;
    while (store->slots.locked)
        pthread_cond_wait(&store->changed, &store->lock);
    if (--store->slots.waiting == 0)
        pthread_cond_broadcast(&store->changed); /* those below */
}

/* For who locks them again and again: a thread that has just unlocked them has the lock sooner than one
 * that sleeps. */
void hwt_delay_slots_await_last(hwt_delay *store)
{
    while (store->slots.locked || store->slots.waiting > 0)
        pthread_cond_wait(&store->changed, &store->lock);
}

void hwt_delay_slots_lock(hwt_delay *store)
{
    hwt_delay_slots_await(store);
    store->slots.locked = true;
}

void hwt_delay_slots_unlock(hwt_delay *store)
{
    store->slots.locked = false;
    pthread_cond_broadcast(&store->changed);
}

/* ---- all of the wheel ---- */

struct hwt_delay_slot *hwt_delay_slots_first(const hwt_delay *store)
{
    return RB_MIN(hwt_delay_spans, &((hwt_delay *)(uintptr_t)store)->slots.wheel.spans);
}

struct hwt_delay_slot *hwt_delay_slots_next(const struct hwt_delay_slot *slot)
{
    return RB_NEXT(hwt_delay_spans, NULL, (struct hwt_delay_slot *)(uintptr_t)slot);
}

size_t hwt_delay_slots_count(const hwt_delay *store)
{
    return store->slots.wheel.count;
}

uint64_t hwt_delay_slots_bytes(const hwt_delay *store)
{
    return store->slots.wheel.bytes + store->slots.finished_bytes;
}

uint64_t hwt_delay_passed_bytes(const hwt_delay *store)
{
    return store->slots.wheel.passed_bytes;
}

size_t hwt_delay_passed_count(const hwt_delay *store)
{
    return store->slots.wheel.passed_count;
}

bool hwt_delay_wheel_has(const hwt_delay *store, unsigned shift)
{
    return store->slots.wheel.by_shift[shift] > 0;
}

/* ---- their numbers ---- */

uint64_t hwt_delay_slots_number(const hwt_delay *store)
{
    return store->slots.next_number;
}

uint64_t hwt_delay_slots_take_number(hwt_delay *store)
{
    return store->slots.next_number++;
}

void hwt_delay_slots_number_raise(hwt_delay *store, uint64_t next)
{
    if (next > store->slots.next_number)
        store->slots.next_number = next;
}

/* ---- finished ---- */

/* Nobody reads slots. */
void hwt_delay_slots_conclude(hwt_delay *store)
{
    struct hwt_delay_slot *slot, *next;
    for (slot = hwt_delay_slots_first(store); slot; slot = next) {
        next = hwt_delay_slots_next(slot);
        slot->named = slot->new_length > 0;
        if (slot->named)
            continue;
        hwt_delay_wheel_remove(store, slot);
        TAILQ_INSERT_TAIL(&store->slots.finished, slot, listed);
        store->slots.finished_bytes += slot->length;
    }
    store->slots.dropped_bytes = store->slots.dropped_count = 0;
    if (hwt_delay_slots_count(store) == 0)
        hwt_delay_filed_settle(store, UINT64_MAX);
}

struct hwt_delay_slot *hwt_delay_finished_first(const hwt_delay *store)
{
    struct hwt_delay_slot *slot = TAILQ_FIRST(&store->slots.finished);
    HWT_ASSERT(!slot || !slot->named);
    return slot;
}

/* Its file is gone. */
void hwt_delay_finished_free(hwt_delay *store, struct hwt_delay_slot *slot)
{
    TAILQ_REMOVE(&store->slots.finished, slot, listed);
    store->slots.finished_bytes -= slot->length;
    hwt_delay_slot_unref(slot);
}
