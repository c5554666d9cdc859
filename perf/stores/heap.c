/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A rival to hwt/wheel/wheel.c: a binary heap, as java.util.Timer and the JDK's
 * ScheduledThreadPoolExecutor keep their timeouts in. Linked in its place, so that all but
 * the data structure is hwt's own.
 *
 * An array in which no hint is due before its parent, that at i being the parent of those
 * at 2i and 2i + 1; so the soonest is at 1. Filing lets a hint rise from the end; taking one puts
 * the last in its place and lets that sink. What is cancelled stays until its time, as the JDK
 * leaves it unless told otherwise, or until a sweep, which puts the last in its place and lets that
 * rise or sink. So no hint need be found, and nothing has to note where each is while others sink.
 *
 * As fast as such a heap can fairly be made: what is compared is in the array itself, one number,
 * and 16 bytes a hint, two siblings and four cousins to a cache line, which is fetched a
 * generation ahead; of two siblings the sooner is picked without a branch.
 *
 * A number given at filing keeps those of one tick in order, as the JDK's sequence number
 * does. It has 32 bits; when they are used up, all hints are numbered anew. Of the tick there
 * are 32 bits too: ticks in the heap are less than 2^30 apart, see common.h.
 *
 * Wheel length and rounds mean nothing here. hwt_wheel_prune_and_peek() is exact.
 */

#include "perf/stores/common.h"

#ifndef HEAP_FIRST_SEQUENCE
#define HEAP_FIRST_SEQUENCE 0 /* greater only to test what comes after the last */
#endif

struct item {
    uint64_t key; /* the low half of its tick, and its sequence number */
    uint32_t id;
    uint32_t generation;
};

struct hwt_wheel_inside {
    struct store_frame frame; /* its array is of items, from 1 on */
    size_t used;
    size_t hand;       /* the item to be swept next; 0 or one that is not there: the last */
    uint32_t sequence; /* the next */
};

static const size_t store_size = sizeof(struct hwt_wheel_inside);
static const size_t store_first = 1; /* a page */

static struct item *items_of(const struct hwt_wheel_inside *inside)
{
    return inside->frame.array;
}

static bool before(const struct item *a, const struct item *b)
{
    return (int64_t)(a->key - b->key) < 0;
}

static uint32_t tick_of(const struct item *item)
{
    return (uint32_t)(item->key >> 32);
}

static void rise(struct hwt_wheel_inside *inside, size_t at, struct item item)
{
    struct item *items = items_of(inside);
    for (; at > 1 && before(&item, &items[at / 2]); at /= 2)
        items[at] = items[at / 2];
    items[at] = item;
}

static void sink(struct hwt_wheel_inside *inside, size_t at, struct item item)
{
    struct item *items = items_of(inside);
    size_t used = inside->used;
    for (size_t child; (child = 2 * at) <= used; at = child) {
        __builtin_prefetch((const char *)items + 4 * at * sizeof(*items));
        if (child < used)
            child += before(&items[child + 1], &items[child]);
        if (!before(&items[child], &item))
            break;
        items[at] = items[child];
    }
    items[at] = item;
}

static void remove_at(struct hwt_wheel *wheel, size_t at)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    struct item *items = items_of(inside);
    struct item last = items[inside->used--];
    wheel->hints--;
    if (at > inside->used)
        return;
    if (at > 1 && before(&last, &items[at / 2]))
        rise(inside, at, last);
    else
        sink(inside, at, last);
}

/* ---- memory ---- */

static int make_room(struct hwt_wheel *wheel)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    if (inside->used + 1 < inside->frame.bytes / sizeof(struct item))
        return 0;
    return store_resize(wheel, (inside->used + inside->used / 2 + 2) * sizeof(struct item));
}

static void give_room_back(struct hwt_wheel *wheel)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    size_t capacity = inside->frame.bytes / sizeof(struct item);
    if (inside->used + 1 < capacity / 4) /* no memory: it stays as it is */
        (void)store_resize(wheel, (2 * inside->used + 2) * sizeof(struct item));
}

/* ---- sequence numbers ---- */

static int compare_items(const void *a, const void *b)
{
    return before(b, a) - before(a, b);
}

/* Once in 2^32 filings. What is sorted is a heap, too. */
static void number_anew(struct hwt_wheel_inside *inside)
{
    struct item *items = items_of(inside);
    qsort(items + 1, inside->used, sizeof(*items), compare_items);
    inside->sequence = 0;
    for (size_t at = 1; at <= inside->used; at++)
        items[at].key = (uint64_t)tick_of(&items[at]) << 32 | inside->sequence++;
}

/* ---- what the frame asks for ---- */

static void store_init(struct hwt_wheel *wheel)
{
    wheel->inside->sequence = HEAP_FIRST_SEQUENCE;
}

static void store_rewind(struct hwt_wheel *wheel)
{
    wheel->inside->used = 0;
}

static void store_go_to(struct hwt_wheel *wheel, uint64_t tick)
{
    wheel->tick = tick;
}

static int store_file(struct hwt_wheel *wheel, uint32_t id, uint32_t generation, uint64_t tick)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    int r = make_room(wheel);
    if (r < 0)
        return r;
    if (inside->sequence == UINT32_MAX)
        number_anew(inside);
    rise(inside, ++inside->used, (struct item){ tick << 32 | inside->sequence++, id, generation });
    return 0;
}

static bool stays(const struct hwt_wheel *wheel, const struct item *item)
{
    return store_stays(wheel, item->id, item->generation, store_where(tick_of(item)));
}

static uint64_t store_next(const struct hwt_wheel *wheel)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    return inside->used ? store_near_tick(wheel, tick_of(&items_of(inside)[1])) : UINT64_MAX;
}

static uint32_t store_next_id(const struct hwt_wheel *wheel)
{
    return items_of(wheel->inside)[1].id;
}

static void store_prune(struct hwt_wheel *wheel)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    while (inside->used && !stays(wheel, &items_of(inside)[1]))
        remove_at(wheel, 1);
    give_room_back(wheel);
}

static size_t store_take_next(struct hwt_wheel *wheel, uint32_t *batch, size_t max)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    struct item items[STORE_BATCH_MAX];
    const uint32_t tick = (uint32_t)wheel->tick;
    size_t n = 0, taken = 0;
    while (taken < max && taken < STORE_BATCH_MAX && inside->used &&
           tick_of(&items_of(inside)[1]) == tick) {
        items[taken++] = items_of(inside)[1];
        store_fetch(wheel, items_of(inside)[1].id);
        remove_at(wheel, 1);
    }
    for (size_t i = 0; i < taken; i++) {
        if (store_take(wheel, items[i].id, items[i].generation, store_where(tick)))
            batch[n++] = items[i].id;
    }
    give_room_back(wheel);
    return n;
}

/* All of them; then it is made a heap again. */
static void sweep_all(struct hwt_wheel *wheel)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    struct item *items = items_of(inside);
    size_t kept = 0;
    for (size_t at = 1; at <= inside->used; at++) {
        if (at + STORE_AHEAD <= inside->used)
            store_fetch(wheel, items[at + STORE_AHEAD].id);
        if (stays(wheel, &items[at]))
            items[++kept] = items[at];
    }
    wheel->hints -= inside->used - kept;
    inside->used = kept;
    for (size_t at = kept / 2; at > 0; at--)
        sink(inside, at, items[at]);
    inside->hand = 0;
}

/* From the end to the beginning, so that what takes an item's place has been looked at. */
static void sweep_some(struct hwt_wheel *wheel, uint64_t most)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    struct item *items = items_of(inside);
    for (uint64_t looked = 0; looked < most && inside->used > 0; looked++) {
        if (inside->hand == 0 || inside->hand > inside->used)
            inside->hand = inside->used;
        size_t at = inside->hand--;
        if (at > STORE_AHEAD)
            store_fetch(wheel, items[at - STORE_AHEAD].id);
        if (!stays(wheel, &items[at]))
            remove_at(wheel, at);
        if (inside->hand == 0)
            store_far_sweep(wheel, &inside->frame.far);
    }
}

static void store_sweep(struct hwt_wheel *wheel, uint64_t most)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    if (most < inside->used) {
        sweep_some(wheel, most);
    } else {
        sweep_all(wheel);
        store_far_sweep(wheel, &inside->frame.far);
    }
    give_room_back(wheel);
}

static bool store_view(const struct hwt_wheel *wheel, uint32_t from,
                       struct hwt_wheel_view *ret_view)
{
    *ret_view = (struct hwt_wheel_view){ 0, wheel->inside->used, store_next(wheel) };
    return from == 0 && wheel->inside->used > 0;
}

static bool store_check(const struct hwt_wheel *wheel, uint64_t *ret_hints)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    const struct item *items = items_of(inside);
    for (size_t at = 1; at <= inside->used; at++) {
        uint32_t ahead = tick_of(&items[at]) - (uint32_t)wheel->tick;
        if (at > 1 && !before(&items[at / 2], &items[at]))
            return false;
        if (ahead >= STORE_NEAR || (uint32_t)items[at].key >= inside->sequence)
            return false;
    }
    *ret_hints = inside->used;
    return inside->used < inside->frame.bytes / sizeof(*items);
}
