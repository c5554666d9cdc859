/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A rival to hwt/store/wheel.c: the hierarchical timing wheel (Varghese and Lauck, 1987) in the form
 * that Apache Kafka gave it. Linked in its place, so that all but the data structure is hwt's
 * own.
 *
 * A wheel of 20 slots of one tick; over it one of 20 slots as long as the whole of that,
 * and so on, each made when the first timeout comes that is too far away for those there
 * are. A timeout goes into the finest wheel that reaches it, counted from that wheel's own
 * time, which moves on slot by slot. A slot is a bucket: a doubly linked list, so that
 * dropping a timeout is O(1), with the tick at which it begins; a heap of the buckets
 * that are occupied (Kafka's DelayQueue) says which begins next. When one of the finest wheel
 * begins, its timeouts are taken; one of a coarser wheel is flushed: all its timeouts
 * are filed again, by now into a finer wheel. So a timeout is touched once for every
 * wheel that it comes down.
 *
 * hwt_wheel_next() is Kafka's: where a coarse bucket begins next, it is the tick at
 * which that is to be flushed, and the worker wakes for it. It is never later than the tick of
 * the next timeout, and exact once that is in the finest wheel. hwt_wheel_take() flushes on
 * its way and yields what is due, in its tick and no other.
 *
 * Order: Kafka appends what it flushes, behind what was filed later for the same tick. Here it
 * goes in front, for a timeout of a coarser wheel was always filed before any of the same tick
 * in a finer one; the list is walked from its end to keep its own order. If several
 * buckets begin at once, the finer is flushed first for the same reason. It costs the same.
 *
 * As fast as this can fairly be made: the links are 32-bit numbers in an array of their own,
 * with the tick: 16 bytes a timeout, so that flushing does not touch the entries; a
 * bucket's list begins and ends at a node that belongs to it, in the same array, and nothing
 * needs to ask where a list ends; a bucket that was emptied stays in the heap, as Kafka's
 * does, but wakes nobody. Wheel length and rounds mean nothing here: the suite's 20 slots are
 * fixed.
 */

#include "perf/stores/common.h"

#define SLOTS 20
#define LEVELS 15 /* 20^15 ticks are more than there can be */
#define BUCKETS (LEVELS * SLOTS)
#define NEVER BUCKETS   /* the list of what never comes; its node comes after the buckets' */
#define NODES_FIRST 304 /* ids' nodes begin here, at a cache line */

/* A bucket and its own node have the same number. */
struct node {
    uint32_t prev, next;
    uint64_t tick; /* of a bucket: at which it begins */
};

struct level {
    uint64_t now;      /* wheel->tick rounded down to a slot of this wheel */
    uint64_t unit;     /* ticks in a slot */
    uint64_t interval; /* ticks in the wheel, at most UINT64_MAX */
    uint32_t slot;     /* that of `now` */
};

struct hwt_store {
    struct node *nodes;
    size_t nodes_bytes;
    uint32_t levels; /* made so far */
    uint32_t waiting;
    struct occupied {
        uint64_t tick;
        uint32_t bucket;
    } heap[BUCKETS + 1]; /* from 1 on: the buckets that wait for their tick */
    bool waits[BUCKETS]; /* whether in the heap */
    struct level level[LEVELS];
};

/* ---- nodes ---- */

static uint32_t number_of(uint32_t id)
{
    return NODES_FIRST + store_number(id);
}

static uint32_t id_of(uint32_t number)
{
    return store_id(number - NODES_FIRST);
}

static int make_nodes(struct hwt_wheel *wheel, size_t count)
{
    struct hwt_store *store = wheel->store;
    size_t bytes = count * sizeof(*store->nodes);
    void *nodes = store_resize(wheel, store->nodes, &store->nodes_bytes, bytes);
    if (!nodes)
        return -ENOMEM;
    store->nodes = nodes;
    return 0;
}

static void make_empty(struct node *nodes, uint32_t list)
{
    nodes[list].prev = nodes[list].next = list;
}

static bool is_empty(const struct node *nodes, uint32_t list)
{
    return nodes[list].next == list;
}

/* Between two nodes that are neighbours. */
static void link_between(struct node *nodes, uint32_t prev, uint32_t number, uint32_t next)
{
    nodes[number].prev = prev;
    nodes[number].next = next;
    nodes[prev].next = number;
    nodes[next].prev = number;
}

/* ---- the heap of buckets ---- */

/* Of those that begin at once the finer comes first, but for the finest wheel's: it is taken
 * when all that belongs there has come down. */
static bool sooner(const struct occupied *a, const struct occupied *b)
{
    if (a->tick != b->tick)
        return a->tick < b->tick;
    return a->bucket - SLOTS < b->bucket - SLOTS; /* wraps around for the finest */
}

static void wait_for(struct hwt_store *store, uint32_t bucket, uint64_t tick)
{
    struct occupied its = { tick, bucket };
    uint32_t at = ++store->waiting;
    for (; at > 1 && sooner(&its, &store->heap[at / 2]); at /= 2)
        store->heap[at] = store->heap[at / 2];
    store->heap[at] = its;
    store->waits[bucket] = true;
    store->nodes[bucket].tick = tick;
}

static void wait_no_more(struct hwt_store *store)
{
    store->waits[store->heap[1].bucket] = false;
    struct occupied last = store->heap[store->waiting--];
    uint32_t at = 1;
    for (uint32_t child; (child = 2 * at) <= store->waiting; at = child) {
        if (child < store->waiting)
            child += sooner(&store->heap[child + 1], &store->heap[child]);
        if (!sooner(&store->heap[child], &last))
            break;
        store->heap[at] = store->heap[child];
    }
    store->heap[at] = last;
}

/* The bucket that begins next and is not empty; NEVER: none. */
static uint32_t next_bucket(struct hwt_store *store)
{
    while (store->waiting) {
        uint32_t bucket = store->heap[1].bucket;
        if (!is_empty(store->nodes, bucket))
            return bucket;
        wait_no_more(store);
    }
    return NEVER;
}

/* ---- wheels ---- */

/* The next coarser wheel, made when it is first needed. */
static void make_level(struct hwt_store *store, uint64_t tick)
{
    struct level *level = &store->level[store->levels];
    uint64_t unit = store->levels ? level[-1].interval : 1;
    *level = (struct level){
        .now = tick - tick % unit,
        .unit = unit,
        .interval = unit > UINT64_MAX / SLOTS ? UINT64_MAX : unit * SLOTS,
        .slot = (uint32_t)(tick / unit % SLOTS),
    };
    for (uint32_t i = 0; i < SLOTS; i++) {
        make_empty(store->nodes, store->levels * SLOTS + i);
        store->waits[store->levels * SLOTS + i] = false;
    }
    store->levels++;
}

/* Moves every wheel's time on. */
static void advance(struct hwt_wheel *wheel, uint64_t tick)
{
    struct hwt_store *store = wheel->store;
    wheel->tick = tick;
    for (uint32_t i = 0; i < store->levels; i++) {
        struct level *level = &store->level[i];
        if (tick - level->now < level->unit)
            return;
        level->now = tick - tick % level->unit;
        level->slot = (uint32_t)(tick / level->unit % SLOTS);
    }
}

/* Slots from the wheel's time to a tick that it reaches: less than 20. */
static uint32_t slots_ahead(const struct level *level, uint64_t ticks)
{
    if (level->interval <= UINT32_MAX) /* dividing 32 bits is faster where machines are old */
        return (uint32_t)ticks / (uint32_t)level->unit;
    return (uint32_t)(ticks / level->unit);
}

/* The bucket for a tick from wheel->tick on. It waits in the heap from then on. */
static uint32_t bucket_of(struct hwt_wheel *wheel, uint64_t tick)
{
    struct hwt_store *store = wheel->store;
    uint32_t i = 0;
    while (tick - store->level[i].now >= store->level[i].interval) {
        if (++i == store->levels)
            make_level(store, wheel->tick);
    }
    const struct level *level = &store->level[i];
    uint32_t ahead = slots_ahead(level, tick - level->now);
    uint32_t slot = level->slot + ahead;
    uint32_t bucket = i * SLOTS + (slot < SLOTS ? slot : slot - SLOTS);
    if (!store->waits[bucket])
        wait_for(store, bucket, level->now + ahead * level->unit);
    return bucket;
}

/* Files the timeouts of a bucket again that begins now: before those that were filed since. */
static void flush(struct hwt_wheel *wheel, uint32_t from)
{
    struct node *nodes = wheel->store->nodes;
    uint32_t number = nodes[from].prev;
    make_empty(nodes, from);
    while (number != from) {
        uint32_t prev = nodes[number].prev;
        __builtin_prefetch(&nodes[prev], 1);
        uint32_t bucket = bucket_of(wheel, nodes[number].tick);
        link_between(nodes, bucket, number, nodes[bucket].next);
        number = prev;
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
    if (make_nodes(wheel, NODES_FIRST) < 0) {
        free(store);
        return -ENOMEM;
    }
    make_empty(store->nodes, NEVER);
    make_level(store, 0);
    return 0;
}

void hwt_wheel_destroy(struct hwt_wheel *wheel)
{
    munmap(wheel->store->nodes, wheel->store->nodes_bytes);
    free(wheel->store);
}

void hwt_wheel_clear(struct hwt_wheel *wheel)
{
    struct hwt_store *store = wheel->store;
    for (uint32_t bucket = 0; bucket < store->levels * SLOTS; bucket++)
        make_empty(store->nodes, bucket);
    make_empty(store->nodes, NEVER);
    while (store->waiting)
        wait_no_more(store);
    (void)make_nodes(wheel, NODES_FIRST);
}

int hwt_wheel_file(struct hwt_wheel *wheel, uint32_t id, uint64_t tick)
{
    struct hwt_store *store = wheel->store;
    uint32_t number = number_of(id);
    if (number >= store->nodes_bytes / sizeof(*store->nodes)) {
        int r = make_nodes(wheel, (size_t)number + number / 2 + 1);
        if (r < 0)
            return r;
    }
    tick = store_tick(wheel, tick);
    uint32_t list = tick == UINT64_MAX ? NEVER : bucket_of(wheel, tick);
    store->nodes[number].tick = tick;
    link_between(store->nodes, store->nodes[list].prev, number, list);
    store_filed(wheel, id);
    return 0;
}

void hwt_wheel_drop(struct hwt_wheel *wheel, uint32_t id)
{
    struct node *nodes = wheel->store->nodes;
    const struct node *node = &nodes[number_of(id)];
    nodes[node->prev].next = node->next;
    nodes[node->next].prev = node->prev;
    store_removed(wheel, &id, 1);
}

bool hwt_wheel_is_after(const struct hwt_wheel *wheel, uint32_t id, uint64_t tick)
{
    uint64_t its = wheel->store->nodes[number_of(id)].tick;
    return its > tick || its == UINT64_MAX;
}

uint64_t hwt_wheel_next(struct hwt_wheel *wheel)
{
    uint32_t bucket = next_bucket(wheel->store);
    return bucket == NEVER ? UINT64_MAX : wheel->store->nodes[bucket].tick;
}

/* Takes up to `max` timeouts from the front of a list. */
static size_t take_from(struct hwt_wheel *wheel, uint32_t list, uint32_t *batch, size_t max)
{
    struct node *nodes = wheel->store->nodes;
    uint32_t number = nodes[list].next;
    size_t n = 0;
    for (; n < max && number != list; number = nodes[number].next)
        batch[n++] = id_of(number);
    nodes[list].next = number;
    nodes[number].prev = list;
    store_removed(wheel, batch, n);
    return n;
}

size_t hwt_wheel_take(struct hwt_wheel *wheel, uint64_t limit, uint32_t *batch, size_t max,
                      bool *ret_far)
{
    *ret_far = false; /* what comes down is filed again here */
    for (;;) {
        uint32_t bucket = next_bucket(wheel->store);
        uint64_t tick = bucket == NEVER ? UINT64_MAX : wheel->store->nodes[bucket].tick;
        if (tick >= limit) {
            limit = store_limit(wheel, limit);
            if (wheel->tick < limit)
                advance(wheel, limit);
            return 0;
        }
        advance(wheel, tick);
        if (bucket < SLOTS)
            return take_from(wheel, bucket, batch, max);
        wait_no_more(wheel->store);
        flush(wheel, bucket);
    }
}

uint32_t hwt_wheel_peek(const struct hwt_wheel *wheel, uint64_t limit)
{
    const struct hwt_store *store = wheel->store;
    uint32_t bucket = next_bucket(wheel->store);
    if (bucket == NEVER || store->nodes[bucket].tick >= limit)
        return HWT_ID_NONE;
    return id_of(store->nodes[bucket].next);
}

static uint64_t count_of(const struct node *nodes, uint32_t list)
{
    uint64_t count = 0;
    for (uint32_t number = nodes[list].next; number != list; number = nodes[number].next)
        count++;
    return count;
}

bool hwt_wheel_look(struct hwt_wheel *wheel, uint32_t from, struct hwt_wheel_view *ret_view)
{
    const struct hwt_store *store = wheel->store;
    for (uint32_t list = from; list <= NEVER; list++) {
        if (list >= store->levels * SLOTS && list < NEVER)
            continue; /* not made yet */
        uint64_t count = count_of(store->nodes, list);
        if (count == 0)
            continue;
        uint64_t next = list == NEVER ? UINT64_MAX : store->nodes[list].tick;
        *ret_view = (struct hwt_wheel_view){ list, count, next };
        return true;
    }
    return false;
}

/* ---- checks ---- */

static bool check_list(const struct hwt_wheel *wheel, uint32_t list, uint64_t from, uint64_t ticks)
{
    const struct node *nodes = wheel->store->nodes;
    uint32_t prev = list;
    for (uint32_t number = nodes[list].next; number != list; number = nodes[number].next) {
        if (number < NODES_FIRST || nodes[number].prev != prev)
            return false;
        if (nodes[number].tick < from || nodes[number].tick - from >= ticks)
            return false;
        if (number_of(id_of(number)) != number || !store_is_filed(wheel, id_of(number)))
            return false;
        prev = number;
    }
    return nodes[list].prev == prev;
}

static bool check_level(const struct hwt_wheel *wheel, uint32_t i)
{
    const struct hwt_store *store = wheel->store;
    const struct level *level = &store->level[i];
    if (level->now != wheel->tick - wheel->tick % level->unit)
        return false;
    if (level->slot != wheel->tick / level->unit % SLOTS)
        return false;
    for (uint32_t bucket = i * SLOTS; bucket < (i + 1) * SLOTS; bucket++) {
        uint64_t begins = store->nodes[bucket].tick;
        if (!store->waits[bucket] && !is_empty(store->nodes, bucket))
            return false;
        if (store->waits[bucket] &&
            (begins < wheel->tick || begins / level->unit % SLOTS != bucket % SLOTS))
            return false;
        if (!check_list(wheel, bucket, begins, level->unit))
            return false;
    }
    return true;
}

bool hwt_wheel_check(const struct hwt_wheel *wheel)
{
    const struct hwt_store *store = wheel->store;
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < store->levels; i++) {
        if (!check_level(wheel, i))
            return false;
    }
    for (uint32_t bucket = 0; bucket < store->levels * SLOTS; bucket++)
        waiting += store->waits[bucket];
    for (uint32_t at = 1; at <= store->waiting; at++) {
        const struct occupied *its = &store->heap[at];
        if (!store->waits[its->bucket] || its->tick != store->nodes[its->bucket].tick)
            return false;
        if (at > 1 && sooner(its, &store->heap[at / 2]))
            return false;
    }
    return waiting == store->waiting && check_list(wheel, NEVER, UINT64_MAX, 1);
}
