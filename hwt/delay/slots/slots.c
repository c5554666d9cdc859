/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The slots of a store are those of the wheel, and those that wait to be deleted. */

#include <stdlib.h>

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
    while (store->slots.locked)
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

/* No longer on the wheel. Takes over the caller's reference. */
void hwt_delay_slot_finish(hwt_delay *store, struct hwt_delay_slot *slot)
{
    TAILQ_INSERT_TAIL(&store->slots.finished, slot, listed);
    store->slots.finished_bytes += slot->length;
}

struct hwt_delay_slot *hwt_delay_finished_first(const hwt_delay *store)
{
    return TAILQ_FIRST(&store->slots.finished);
}

/* Its file is gone. */
void hwt_delay_finished_free(hwt_delay *store, struct hwt_delay_slot *slot)
{
    TAILQ_REMOVE(&store->slots.finished, slot, listed);
    store->slots.finished_bytes -= slot->length;
    hwt_delay_slot_unref(slot);
}
