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
    struct item *items; /* from 1 on */
    size_t used;
    size_t items_bytes;
    size_t hand;       /* the item to be swept next; 0 or one that is not there: the last */
    uint32_t sequence; /* the next */
    struct store_far far;
};

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
    struct item *items = inside->items;
    for (; at > 1 && before(&item, &items[at / 2]); at /= 2)
        items[at] = items[at / 2];
    items[at] = item;
}

static void sink(struct hwt_wheel_inside *inside, size_t at, struct item item)
{
    struct item *items = inside->items;
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
    struct item last = inside->items[inside->used--];
    wheel->hints--;
    if (at > inside->used)
        return;
    if (at > 1 && before(&last, &inside->items[at / 2]))
        rise(inside, at, last);
    else
        sink(inside, at, last);
}

/* ---- memory ---- */

static int resize_items(struct hwt_wheel *wheel, size_t count)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    size_t bytes = count * sizeof(*inside->items);
    void *items = store_resize(wheel, inside->items, &inside->items_bytes, bytes);
    if (!items)
        return -ENOMEM;
    inside->items = items;
    return 0;
}

static int make_room(struct hwt_wheel *wheel)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    if (inside->used + 1 < inside->items_bytes / sizeof(*inside->items))
        return 0;
    return resize_items(wheel, inside->used + inside->used / 2 + 2);
}

static void give_room_back(struct hwt_wheel *wheel)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    size_t capacity = inside->items_bytes / sizeof(*inside->items);
    if (inside->used + 1 < capacity / 4)
        (void)resize_items(wheel, 2 * inside->used + 2); /* no memory: it stays as it is */
}

/* ---- sequence numbers ---- */

static int compare_items(const void *a, const void *b)
{
    return before(b, a) - before(a, b);
}

/* Once in 2^32 filings. What is sorted is a heap, too. */
static void number_anew(struct hwt_wheel_inside *inside)
{
    qsort(inside->items + 1, inside->used, sizeof(*inside->items), compare_items);
    inside->sequence = 0;
    for (size_t at = 1; at <= inside->used; at++)
        inside->items[at].key = (uint64_t)tick_of(&inside->items[at]) << 32 | inside->sequence++;
}

/* ---- the seam ---- */

void hwt_wheel_begin(struct hwt_wheel *wheel, struct hwt_ticks ticks)
{
    wheel->ticks = ticks;
    wheel->tick = 0;
}

int hwt_wheel_init(struct hwt_wheel *wheel, const struct hwt_directory *directory,
                   struct hwt_ticks ticks, uint32_t ticks_per_wheel)
{
    (void)ticks_per_wheel;
    struct hwt_wheel_inside *inside = store_begin(wheel, directory, ticks, sizeof(*inside));
    if (!inside)
        return -ENOMEM;
    inside->sequence = HEAP_FIRST_SEQUENCE;
    store_far_begin(&inside->far);
    if (resize_items(wheel, 1) < 0) {
        hwt_wheel_destroy(wheel);
        return -ENOMEM;
    }
    return 0;
}

void hwt_wheel_destroy(struct hwt_wheel *wheel)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    if (inside->items)
        munmap(inside->items, inside->items_bytes);
    free(inside);
}

void hwt_wheel_clear(struct hwt_wheel *wheel)
{
    wheel->inside->used = 0;
    (void)resize_items(wheel, 1);
    store_far_clear(wheel, &wheel->inside->far);
    wheel->hints = 0;
}

int hwt_wheel_file_at(struct hwt_wheel *wheel, struct hwt_place *place, uint32_t id,
                      uint32_t generation, uint64_t tick)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    if (tick < wheel->tick)
        tick = wheel->tick;
    if (__builtin_expect(!store_is_near(wheel, tick), 0))
        return store_far_file(wheel, &inside->far, place, id, generation, tick);
    int r = make_room(wheel);
    if (r < 0)
        return r;
    if (inside->sequence == UINT32_MAX)
        number_anew(inside);
    rise(inside, ++inside->used, (struct item){ tick << 32 | inside->sequence++, id, generation });
    wheel->hints++;
    place->where = store_where((uint32_t)tick);
    return 0;
}

static bool stays(const struct hwt_wheel *wheel, const struct item *item)
{
    return store_stays(wheel, item->id, item->generation, store_where(tick_of(item)));
}

/* The tick of the soonest hint, UINT64_MAX: none. */
static uint64_t soonest(const struct hwt_wheel *wheel)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    return inside->used ? store_near_tick(wheel, tick_of(&inside->items[1])) : UINT64_MAX;
}

bool hwt_wheel_find(struct hwt_wheel *wheel, uint64_t limit, uint32_t looks, uint64_t *ret_tick)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    (void)limit, (void)looks;
    while (inside->used && !stays(wheel, &inside->items[1]))
        remove_at(wheel, 1);
    give_room_back(wheel);
    uint64_t near = soonest(wheel), far = store_far_next(wheel, &inside->far, near);
    *ret_tick = far < near ? far : near;
    return true;
}

/* Takes up to `max` ids from the top, all of wheel->tick. */
static size_t take_near(struct hwt_wheel *wheel, uint32_t *batch, size_t max)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    struct item items[STORE_BATCH_MAX];
    const uint32_t tick = (uint32_t)wheel->tick;
    size_t n = 0, taken = 0;
    while (taken < max && taken < STORE_BATCH_MAX && inside->used &&
           tick_of(&inside->items[1]) == tick) {
        items[taken++] = inside->items[1];
        store_fetch(wheel, inside->items[1].id);
        remove_at(wheel, 1);
    }
    for (size_t i = 0; i < taken; i++) {
        if (store_take(wheel, items[i].id, items[i].generation, store_where(tick)))
            batch[n++] = items[i].id;
    }
    give_room_back(wheel);
    return n;
}

size_t hwt_wheel_take(struct hwt_wheel *wheel, uint64_t limit, uint32_t *batch, size_t max,
                      bool *ret_far)
{
    struct store_far *far = &wheel->inside->far;
    for (;;) {
        uint64_t tick = soonest(wheel);
        *ret_far = far->due <= tick && far->due != UINT64_MAX;
        if (*ret_far)
            tick = far->due;
        /* An age begins with its first tick, not when that is over. */
        if (tick > limit || (tick == limit && !*ret_far))
            break;
        wheel->tick = tick;
        size_t n = *ret_far ? store_far_take(wheel, far, batch, max) : take_near(wheel, batch, max);
        if (n > 0)
            return n;
    }
    limit = store_limit(wheel, limit);
    if (wheel->tick < limit)
        wheel->tick = limit;
    return 0;
}

/* All of them; then it is made a heap again. */
static void sweep_all(struct hwt_wheel *wheel)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    size_t kept = 0;
    for (size_t at = 1; at <= inside->used; at++) {
        if (at + STORE_AHEAD <= inside->used)
            store_fetch(wheel, inside->items[at + STORE_AHEAD].id);
        if (stays(wheel, &inside->items[at]))
            inside->items[++kept] = inside->items[at];
    }
    wheel->hints -= inside->used - kept;
    inside->used = kept;
    for (size_t at = kept / 2; at > 0; at--)
        sink(inside, at, inside->items[at]);
    inside->hand = 0;
}

/* From the end to the beginning, so that what takes an item's place has been looked at. */
static void sweep_some(struct hwt_wheel *wheel, uint64_t most)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    for (uint64_t looked = 0; looked < most && inside->used > 0; looked++) {
        if (inside->hand == 0 || inside->hand > inside->used)
            inside->hand = inside->used;
        size_t at = inside->hand--;
        if (at > STORE_AHEAD)
            store_fetch(wheel, inside->items[at - STORE_AHEAD].id);
        if (!stays(wheel, &inside->items[at]))
            remove_at(wheel, at);
        if (inside->hand == 0)
            store_far_sweep(wheel, &inside->far);
    }
}

static void sweep(struct hwt_wheel *wheel, uint64_t most)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    if (most < inside->used) {
        sweep_some(wheel, most);
    } else {
        sweep_all(wheel);
        store_far_sweep(wheel, &inside->far);
    }
    give_room_back(wheel);
}

uint32_t hwt_wheel_peek(const struct hwt_wheel *wheel, uint64_t limit)
{
    return soonest(wheel) < limit ? wheel->inside->items[1].id : HWT_ID_NONE;
}

bool hwt_wheel_sweep_to_next_bucket(struct hwt_wheel *wheel, uint32_t from,
                                    struct hwt_wheel_view *ret_view)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    if (from == 0)
        sweep(wheel, UINT64_MAX);
    if (from > 0 || inside->used == 0)
        return store_far_look(wheel, &inside->far, 1, from, ret_view);
    *ret_view = (struct hwt_wheel_view){ 0, inside->used, soonest(wheel) };
    return true;
}

bool hwt_wheel_check(struct hwt_wheel *wheel)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    uint64_t far;
    if (inside->used >= inside->items_bytes / sizeof(*inside->items))
        return false;
    for (size_t at = 1; at <= inside->used; at++) {
        const struct item *item = &inside->items[at];
        uint32_t ahead = tick_of(item) - (uint32_t)wheel->tick;
        if (at > 1 && !before(&inside->items[at / 2], item))
            return false;
        if (ahead >= STORE_NEAR || (uint32_t)item->key >= inside->sequence)
            return false;
    }
    return store_far_check(wheel, &inside->far, &far) && wheel->hints == inside->used + far;
}
