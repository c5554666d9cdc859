/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A rival to hwt/store/wheel.c: a binary heap, as java.util.Timer and the JDK's
 * ScheduledThreadPoolExecutor keep their timeouts in. Linked in its place, so that all but
 * the data structure is hwt's own.
 *
 * An array in which no timeout is due before its parent, that at i being the parent of those
 * at 2i and 2i + 1; so the soonest is at 1. Filing lets a timeout rise from the end; taking
 * one, and dropping one, puts the last in its place and lets that sink or rise. Each
 * timeout knows its place, as the executor's heapIndex does, so that dropping one costs log2(n)
 * steps at most and gives its memory back at once. (What is cancelled the JDK leaves in the
 * heap until its time, unless told otherwise; then the heap would only be higher.)
 *
 * As fast as such a heap can fairly be made: what is compared is in the array itself, 16 bytes
 * a timeout, two siblings and four cousins to a cache line, which is fetched a generation
 * ahead; of two siblings the sooner is picked without a branch. Where a timeout is in the heap
 * stands in an array of its own: sinking writes that at each step, and to write it into the entry,
 * where the JDK has it, takes up to twice the time.
 *
 * A number given at filing keeps those of one tick in order, as the JDK's sequence number
 * does. It has 32 bits; when they are used up, all timeouts are numbered anew.
 *
 * Wheel length and rounds mean nothing here. hwt_wheel_next() is exact.
 */

#include "perf/stores/common.h"

#ifndef HEAP_FIRST_SEQUENCE
#define HEAP_FIRST_SEQUENCE 0 /* greater only to test what comes after the last */
#endif

struct item {
    uint64_t tick; /* UINT64_MAX: for ever */
    uint32_t sequence;
    uint32_t number; /* of the id, see store_number() */
};

struct hwt_store {
    struct item *items; /* from 1 on */
    size_t used;
    size_t items_bytes;
    uint32_t *places; /* by number: where in items */
    size_t places_bytes;
    uint32_t sequence; /* the next */
};

static bool before(const struct item *a, const struct item *b)
{
    return (a->tick < b->tick) | ((a->tick == b->tick) & (a->sequence < b->sequence));
}

static void put(struct hwt_store *store, size_t at, struct item item)
{
    store->items[at] = item;
    store->places[item.number] = (uint32_t)at;
}

static void rise(struct hwt_store *store, size_t at, struct item item)
{
    for (; at > 1 && before(&item, &store->items[at / 2]); at /= 2)
        put(store, at, store->items[at / 2]);
    put(store, at, item);
}

static void sink(struct hwt_store *store, size_t at, struct item item)
{
    const struct item *items = store->items;
    size_t used = store->used;
    for (size_t child; (child = 2 * at) <= used; at = child) {
        __builtin_prefetch((const char *)items + 4 * at * sizeof(*items));
        if (child < used)
            child += before(&items[child + 1], &items[child]);
        if (!before(&items[child], &item))
            break;
        put(store, at, items[child]);
    }
    put(store, at, item);
}

/* ---- memory ---- */

static int resize_items(struct hwt_wheel *wheel, size_t count)
{
    struct hwt_store *store = wheel->store;
    size_t bytes = count * sizeof(*store->items);
    void *items = store_resize(wheel, store->items, &store->items_bytes, bytes);
    if (!items)
        return -ENOMEM;
    store->items = items;
    return 0;
}

static int resize_places(struct hwt_wheel *wheel, size_t count)
{
    struct hwt_store *store = wheel->store;
    size_t bytes = count * sizeof(*store->places);
    void *places = store_resize(wheel, store->places, &store->places_bytes, bytes);
    if (!places)
        return -ENOMEM;
    store->places = places;
    return 0;
}

static int make_room(struct hwt_wheel *wheel, uint32_t number)
{
    struct hwt_store *store = wheel->store;
    if (number >= store->places_bytes / sizeof(*store->places)) {
        int r = resize_places(wheel, (size_t)number + number / 2 + 1);
        if (r < 0)
            return r;
    }
    if (store->used + 1 >= store->items_bytes / sizeof(*store->items))
        return resize_items(wheel, store->used + store->used / 2 + 2);
    return 0;
}

static void give_room_back(struct hwt_wheel *wheel)
{
    struct hwt_store *store = wheel->store;
    size_t capacity = store->items_bytes / sizeof(*store->items);
    if (store->used + 1 < capacity / 4)
        (void)resize_items(wheel, capacity / 2); /* no memory: it stays as it is */
}

/* ---- sequence numbers ---- */

static int compare_items(const void *a, const void *b)
{
    return before(b, a) - before(a, b);
}

/* Once in 2^32 filings. What is sorted is a heap, too. */
static void number_anew(struct hwt_store *store)
{
    qsort(store->items + 1, store->used, sizeof(*store->items), compare_items);
    store->sequence = 0;
    for (size_t at = 1; at <= store->used; at++) {
        store->items[at].sequence = store->sequence++;
        put(store, at, store->items[at]);
    }
}

/* ---- the seam ---- */

int hwt_wheel_init(struct hwt_wheel *wheel, const struct hwt_directory *directory,
                   struct hwt_ticks ticks, uint32_t ticks_per_wheel)
{
    (void)ticks_per_wheel;
    struct hwt_store *store = store_begin(wheel, directory, ticks, sizeof(*store));
    if (!store)
        return -ENOMEM;
    store->sequence = HEAP_FIRST_SEQUENCE;
    if (resize_items(wheel, 1) < 0 || resize_places(wheel, 1) < 0) {
        hwt_wheel_destroy(wheel);
        return -ENOMEM;
    }
    return 0;
}

void hwt_wheel_destroy(struct hwt_wheel *wheel)
{
    struct hwt_store *store = wheel->store;
    if (store->items)
        munmap(store->items, store->items_bytes);
    if (store->places)
        munmap(store->places, store->places_bytes);
    free(store);
}

void hwt_wheel_clear(struct hwt_wheel *wheel)
{
    wheel->store->used = 0;
    (void)resize_items(wheel, 1);
}

int hwt_wheel_file(struct hwt_wheel *wheel, uint32_t id, uint64_t tick)
{
    struct hwt_store *store = wheel->store;
    uint32_t number = store_number(id);
    int r = make_room(wheel, number);
    if (r < 0)
        return r;
    if (store->sequence == UINT32_MAX)
        number_anew(store);
    rise(store, ++store->used,
         (struct item){ store_tick(wheel, tick), store->sequence++, number });
    store_filed(wheel, id);
    return 0;
}

static void remove_at(struct hwt_store *store, size_t at)
{
    struct item last = store->items[store->used--];
    if (at > store->used)
        return;
    if (at > 1 && before(&last, &store->items[at / 2]))
        rise(store, at, last);
    else
        sink(store, at, last);
}

void hwt_wheel_drop(struct hwt_wheel *wheel, uint32_t id)
{
    remove_at(wheel->store, wheel->store->places[store_number(id)]);
    store_removed(wheel, &id, 1);
    give_room_back(wheel);
}

bool hwt_wheel_is_after(const struct hwt_wheel *wheel, uint32_t id, uint64_t tick)
{
    const struct hwt_store *store = wheel->store;
    uint64_t its = store->items[store->places[store_number(id)]].tick;
    return its > tick || its == UINT64_MAX;
}

uint64_t hwt_wheel_next(struct hwt_wheel *wheel)
{
    return wheel->store->used ? wheel->store->items[1].tick : UINT64_MAX;
}

size_t hwt_wheel_take(struct hwt_wheel *wheel, uint64_t limit, uint32_t *batch, size_t max,
                      bool *ret_far)
{
    struct hwt_store *store = wheel->store;
    uint64_t tick = hwt_wheel_next(wheel);
    *ret_far = false;
    if (tick >= limit) {
        limit = store_limit(wheel, limit);
        if (wheel->tick < limit)
            wheel->tick = limit;
        return 0;
    }
    wheel->tick = tick;
    size_t n = 0;
    while (n < max && store->used && store->items[1].tick == tick) {
        batch[n++] = store_id(store->items[1].number);
        remove_at(store, 1);
    }
    store_removed(wheel, batch, n);
    give_room_back(wheel);
    return n;
}

uint32_t hwt_wheel_peek(const struct hwt_wheel *wheel, uint64_t limit)
{
    const struct hwt_store *store = wheel->store;
    bool is_due = store->used && store->items[1].tick < limit;
    return is_due ? store_id(store->items[1].number) : HWT_ID_NONE;
}

bool hwt_wheel_look(struct hwt_wheel *wheel, uint32_t from, struct hwt_wheel_view *ret_view)
{
    if (from > 0 || wheel->store->used == 0)
        return false;
    *ret_view = (struct hwt_wheel_view){ 0, wheel->store->used, hwt_wheel_next(wheel) };
    return true;
}

bool hwt_wheel_check(const struct hwt_wheel *wheel)
{
    const struct hwt_store *store = wheel->store;
    if (store->used >= store->items_bytes / sizeof(*store->items))
        return false;
    for (size_t at = 1; at <= store->used; at++) {
        const struct item *item = &store->items[at];
        uint32_t id = store_id(item->number);
        if (at > 1 && !before(&store->items[at / 2], item))
            return false;
        if (item->tick < wheel->tick || item->sequence >= store->sequence)
            return false;
        if (store_number(id) != item->number || store->places[item->number] != at)
            return false;
        if (!store_is_filed(wheel, id))
            return false;
    }
    return true;
}
