/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A rival to hwt/wheel/wheel.c: the hierarchical timing wheel (Varghese and Lauck, 1987) in the form
 * that Apache Kafka gave it. Linked in its place, so that all but the data structure is hwt's
 * own.
 *
 * A wheel of 20 slots of one tick; over it one of 20 slots as long as the whole of that,
 * and so on, each made when the first timeout comes that is too far away for those there
 * are. A timeout goes into the finest wheel that reaches it, counted from that wheel's own
 * time, which moves on slot by slot. A slot is a bucket: a doubly linked list of hints, with the
 * tick at which it begins; a heap of the buckets that are occupied (Kafka's DelayQueue) says which
 * begins next. When one of the finest wheel begins, its hints are taken; one of a coarser wheel
 * is flushed: all its hints are filed again, by now into a finer wheel. So a hint is touched once
 * for every wheel that it comes down.
 *
 * hwt_wheel_prune_and_peek() is Kafka's: where a coarse bucket begins next, it is the tick at
 * which that is to be flushed, and the worker wakes for it. It is never later than the tick of
 * the next timeout, and exact once that is in the finest wheel. hwt_wheel_take() flushes on
 * its way and yields what is due, in its tick and no other.
 *
 * Order: Kafka appends what it flushes, behind what was filed later for the same tick. Here it
 * goes in front, for a timeout of a coarser wheel was always filed before any of the same tick
 * in a finer one; the list is walked from its end to keep its own order. If several
 * buckets begin at once, the finer is flushed first for the same reason. It costs the same.
 *
 * What does not count any more comes down with the rest, for to see whether it does would cost more
 * than to move it. A sweep goes by the array, not by the lists, and takes what it finds out of its
 * list.
 *
 * As fast as this can fairly be made: the links are 32-bit numbers in an array of their own,
 * with the tick, the id and its generation: 20 bytes a hint, so that flushing does not touch the
 * entries or places; a bucket's list begins and ends at a node that belongs to it, in the same
 * array, and nothing needs to ask where a list ends; a bucket that was emptied stays in the heap,
 * as Kafka's does, but wakes nobody. Wheel length and rounds mean nothing here: the suite's 20 slots
 * are fixed.
 */

#include "perf/stores/common.h"

#define SLOTS 20
#define LEVELS 7 /* 20^7 ticks are more than the 2^30 that are near; see common.h */
#define BUCKETS (LEVELS * SLOTS)
#define NODES_FIRST 144 /* hints' nodes begin here */

/* A bucket and its own node have the same number. */
struct node {
    uint32_t prev, next; /* of a free one: next is the next free one */
    uint32_t tick;       /* its low half */
    uint32_t id;         /* HWT_ID_NONE: a bucket's, or free */
    uint32_t generation;
};

struct level {
    uint64_t now;      /* wheel->tick rounded down to a slot of this wheel */
    uint32_t unit;     /* ticks in a slot */
    uint32_t interval; /* ticks in the wheel */
    uint32_t slot;     /* that of `now` */
};

struct hwt_wheel_inside {
    struct store_frame frame; /* its array is of nodes */
    uint32_t used;            /* nodes; those from here on were never used */
    uint32_t free;            /* the first of a chain; 0: none */
    uint32_t hand;            /* the node to be swept next */
    uint32_t levels;          /* made so far */
    uint32_t waiting;
    struct occupied {
        uint64_t tick;
        uint32_t bucket;
    } heap[BUCKETS + 1];      /* from 1 on: the buckets that wait for their tick */
    bool waits[BUCKETS];      /* whether in the heap */
    uint64_t begins[BUCKETS]; /* and then the tick */
    struct level level[LEVELS];
};

static const size_t store_size = sizeof(struct hwt_wheel_inside);
static const size_t store_first = NODES_FIRST * sizeof(struct node);

/* ---- nodes ---- */

static struct node *nodes_of(const struct hwt_wheel_inside *inside)
{
    return inside->frame.array;
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

static void unlink_node(struct node *nodes, uint32_t number)
{
    nodes[nodes[number].prev].next = nodes[number].next;
    nodes[nodes[number].next].prev = nodes[number].prev;
}

/* A free node; 0: no memory. */
static uint32_t new_node(struct hwt_wheel *wheel)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    uint32_t number = inside->free;
    if (number) {
        inside->free = nodes_of(inside)[number].next;
        return number;
    }
    if (inside->used >= inside->frame.bytes / sizeof(struct node) &&
        store_resize(wheel, ((size_t)inside->used + inside->used / 2 + 1) * sizeof(struct node)) <
            0)
        return 0;
    return inside->used++;
}

static void free_node(struct hwt_wheel *wheel, uint32_t number)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    nodes_of(inside)[number].id = HWT_ID_NONE;
    nodes_of(inside)[number].next = inside->free;
    inside->free = number;
    wheel->hints--;
}

/* All are free. */
static void forget_nodes(struct hwt_wheel *wheel)
{
    wheel->inside->used = NODES_FIRST;
    wheel->inside->free = 0;
    (void)store_resize(wheel, store_first);
}

static bool stays(const struct hwt_wheel *wheel, const struct node *node)
{
    return store_stays(wheel, node->id, node->generation, store_where(node->tick));
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

static void wait_for(struct hwt_wheel_inside *inside, uint32_t bucket, uint64_t tick)
{
    struct occupied its = { tick, bucket };
    uint32_t at = ++inside->waiting;
    for (; at > 1 && sooner(&its, &inside->heap[at / 2]); at /= 2)
        inside->heap[at] = inside->heap[at / 2];
    inside->heap[at] = its;
    inside->waits[bucket] = true;
    inside->begins[bucket] = tick;
}

static void wait_no_more(struct hwt_wheel_inside *inside)
{
    inside->waits[inside->heap[1].bucket] = false;
    struct occupied last = inside->heap[inside->waiting--];
    uint32_t at = 1;
    for (uint32_t child; (child = 2 * at) <= inside->waiting; at = child) {
        if (child < inside->waiting)
            child += sooner(&inside->heap[child + 1], &inside->heap[child]);
        if (!sooner(&inside->heap[child], &last))
            break;
        inside->heap[at] = inside->heap[child];
    }
    inside->heap[at] = last;
}

/* The bucket that begins next and is not empty; BUCKETS: none. */
static uint32_t next_bucket(struct hwt_wheel_inside *inside)
{
    while (inside->waiting) {
        uint32_t bucket = inside->heap[1].bucket;
        if (!is_empty(nodes_of(inside), bucket))
            return bucket;
        wait_no_more(inside);
    }
    return BUCKETS;
}

static uint64_t begins(const struct hwt_wheel_inside *inside, uint32_t bucket)
{
    return bucket < BUCKETS ? inside->begins[bucket] : UINT64_MAX;
}

/* ---- wheels ---- */

/* The next coarser wheel, made when it is first needed. */
static void make_level(struct hwt_wheel_inside *inside, uint64_t tick)
{
    struct level *level = &inside->level[inside->levels];
    uint32_t unit = inside->levels ? level[-1].interval : 1;
    *level = (struct level){
        .now = tick - tick % unit,
        .unit = unit,
        .interval = unit * SLOTS,
        .slot = (uint32_t)(tick / unit % SLOTS),
    };
    inside->levels++;
}

/* Moves every wheel's time on. */
static void store_go_to(struct hwt_wheel *wheel, uint64_t tick)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    wheel->tick = tick;
    for (uint32_t i = 0; i < inside->levels; i++) {
        struct level *level = &inside->level[i];
        if (tick - level->now < level->unit)
            return;
        level->now = tick - tick % level->unit;
        level->slot = (uint32_t)(tick / level->unit % SLOTS);
    }
}

/* The bucket for a tick from wheel->tick on. It waits in the heap from then on. */
static uint32_t bucket_of(struct hwt_wheel *wheel, uint64_t tick)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    uint32_t i = 0;
    while (tick - inside->level[i].now >= inside->level[i].interval) {
        if (++i == inside->levels)
            make_level(inside, wheel->tick);
    }
    const struct level *level = &inside->level[i];
    uint32_t ahead = (uint32_t)(tick - level->now) / level->unit;
    uint32_t slot = level->slot + ahead;
    uint32_t bucket = i * SLOTS + (slot < SLOTS ? slot : slot - SLOTS);
    if (!inside->waits[bucket])
        wait_for(inside, bucket, level->now + (uint64_t)ahead * level->unit);
    return bucket;
}

/* Files the hints of a bucket again that begins now: before those that were filed since. */
static void flush(struct hwt_wheel *wheel, uint32_t from)
{
    struct node *nodes = nodes_of(wheel->inside);
    uint32_t number = nodes[from].prev;
    make_empty(nodes, from);
    while (number != from) {
        uint32_t prev = nodes[number].prev;
        __builtin_prefetch(&nodes[prev], 1);
        uint32_t bucket = bucket_of(wheel, store_near_tick(wheel, nodes[number].tick));
        link_between(nodes, bucket, number, nodes[bucket].next);
        number = prev;
    }
}

/* ---- what the frame asks for ---- */

static void store_init(struct hwt_wheel *wheel)
{
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++)
        nodes_of(wheel->inside)[bucket].id = HWT_ID_NONE;
}

static void store_rewind(struct hwt_wheel *wheel)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++)
        make_empty(nodes_of(inside), bucket);
    while (inside->waiting)
        wait_no_more(inside);
    inside->used = NODES_FIRST;
    inside->free = 0;
    inside->levels = 0;
    make_level(inside, wheel->tick);
}

static int store_file(struct hwt_wheel *wheel, uint32_t id, uint32_t generation, uint64_t tick)
{
    uint32_t number = new_node(wheel);
    if (!number)
        return -ENOMEM;
    uint32_t bucket = bucket_of(wheel, tick);
    struct node *nodes = nodes_of(wheel->inside), *node = &nodes[number];
    node->tick = (uint32_t)tick;
    node->id = id;
    node->generation = generation;
    link_between(nodes, nodes[bucket].prev, number, bucket);
    return 0;
}

static uint64_t store_next(const struct hwt_wheel *wheel)
{
    return begins(wheel->inside, next_bucket(wheel->inside));
}

static uint32_t store_next_id(const struct hwt_wheel *wheel)
{
    const struct node *nodes = nodes_of(wheel->inside);
    return nodes[nodes[next_bucket(wheel->inside)].next].id;
}

/* Throws away what comes first in a list and does not stay. */
static void prune(struct hwt_wheel *wheel, uint32_t bucket)
{
    struct node *nodes = nodes_of(wheel->inside);
    while (!is_empty(nodes, bucket) && !stays(wheel, &nodes[nodes[bucket].next])) {
        uint32_t number = nodes[bucket].next;
        unlink_node(nodes, number);
        free_node(wheel, number);
    }
}

static void store_prune(struct hwt_wheel *wheel)
{
    uint32_t bucket;
    while ((bucket = next_bucket(wheel->inside)) < BUCKETS) {
        prune(wheel, bucket);
        if (!is_empty(nodes_of(wheel->inside), bucket))
            break;
    }
}

/* Takes up to `max` ids from the front of a list. */
static size_t take_near(struct hwt_wheel *wheel, uint32_t list, uint32_t *batch, size_t max)
{
    struct node *nodes = nodes_of(wheel->inside);
    uint32_t taken[STORE_BATCH_MAX];
    size_t n = 0, all = 0;
    for (uint32_t number = nodes[list].next; all < max && all < STORE_BATCH_MAX && number != list;
         number = nodes[number].next) {
        taken[all++] = number;
        store_fetch(wheel, nodes[number].id);
    }
    for (size_t i = 0; i < all; i++) {
        const struct node *node = &nodes[taken[i]];
        if (store_take(wheel, node->id, node->generation, store_where(node->tick)))
            batch[n++] = node->id;
    }
    uint32_t rest = nodes[taken[all - 1]].next;
    nodes[list].next = rest;
    nodes[rest].prev = list;
    for (size_t i = 0; i < all; i++)
        free_node(wheel, taken[i]);
    return n;
}

static size_t store_take_next(struct hwt_wheel *wheel, uint32_t *batch, size_t max)
{
    uint32_t bucket = next_bucket(wheel->inside);
    if (bucket < SLOTS)
        return take_near(wheel, bucket, batch, max);
    wait_no_more(wheel->inside);
    flush(wheel, bucket);
    return 0;
}

/* False: there is no hint in it. */
static bool sweep_node(struct hwt_wheel *wheel, uint32_t number)
{
    struct node *nodes = nodes_of(wheel->inside);
    uint32_t ahead = number + STORE_AHEAD;
    if (ahead < wheel->inside->used && nodes[ahead].id != HWT_ID_NONE)
        store_fetch(wheel, nodes[ahead].id);
    if (nodes[number].id == HWT_ID_NONE)
        return false;
    if (!stays(wheel, &nodes[number])) {
        unlink_node(nodes, number);
        free_node(wheel, number);
    }
    return true;
}

/* Goes around once at most: by the nodes, and past the last of them by what is far. */
static void store_sweep(struct hwt_wheel *wheel, uint64_t most)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    uint32_t nodes = inside->used - NODES_FIRST;
    uint64_t looked = 0;
    for (uint32_t steps = 0; looked < most && steps <= nodes; steps++) {
        if (inside->hand >= NODES_FIRST && inside->hand < inside->used) {
            looked += sweep_node(wheel, inside->hand++);
        } else {
            looked += store_far_sweep(wheel, &inside->frame.far);
            inside->hand = NODES_FIRST;
        }
    }
    if (wheel->hints == 0)
        forget_nodes(wheel);
}

static uint64_t count_of(const struct node *nodes, uint32_t list)
{
    uint64_t count = 0;
    for (uint32_t number = nodes[list].next; number != list; number = nodes[number].next)
        count++;
    return count;
}

static bool store_view(const struct hwt_wheel *wheel, uint32_t from,
                       struct hwt_wheel_view *ret_view)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    for (uint32_t bucket = from; bucket < BUCKETS; bucket++) {
        uint64_t count = count_of(nodes_of(inside), bucket);
        *ret_view = (struct hwt_wheel_view){ bucket, count, inside->begins[bucket] };
        if (count > 0)
            return true;
    }
    return false;
}

/* ---- checks ---- */

static bool check_list(const struct hwt_wheel *wheel, uint32_t bucket, uint32_t ticks)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    const struct node *nodes = nodes_of(inside);
    uint32_t prev = bucket;
    for (uint32_t number = nodes[bucket].next; number != bucket; number = nodes[number].next) {
        uint64_t tick = store_near_tick(wheel, nodes[number].tick);
        if (number < NODES_FIRST || number >= inside->used || nodes[number].prev != prev ||
            nodes[number].id == HWT_ID_NONE)
            return false;
        if (tick < inside->begins[bucket] || tick - inside->begins[bucket] >= ticks)
            return false;
        prev = number;
    }
    return nodes[bucket].prev == prev;
}

static bool check_level(const struct hwt_wheel *wheel, uint32_t i)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    const struct level *level = &inside->level[i];
    if (level->now != wheel->tick - wheel->tick % level->unit)
        return false;
    if (level->slot != wheel->tick / level->unit % SLOTS)
        return false;
    for (uint32_t bucket = i * SLOTS; bucket < (i + 1) * SLOTS; bucket++) {
        uint64_t tick = inside->begins[bucket];
        if (!inside->waits[bucket] && !is_empty(nodes_of(inside), bucket))
            return false;
        if (inside->waits[bucket] &&
            (tick < wheel->tick || tick / level->unit % SLOTS != bucket % SLOTS))
            return false;
        if (!check_list(wheel, bucket, level->unit))
            return false;
    }
    return true;
}

static bool store_check(const struct hwt_wheel *wheel, uint64_t *ret_hints)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    uint32_t waiting = 0;
    uint64_t hints = 0;
    for (uint32_t i = 0; i < inside->levels; i++) {
        if (!check_level(wheel, i))
            return false;
    }
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
        waiting += inside->waits[bucket];
        hints += count_of(nodes_of(inside), bucket);
    }
    for (uint32_t at = 1; at <= inside->waiting; at++) {
        const struct occupied *its = &inside->heap[at];
        if (!inside->waits[its->bucket] || its->tick != inside->begins[its->bucket])
            return false;
        if (at > 1 && sooner(its, &inside->heap[at / 2]))
            return false;
    }
    *ret_hints = hints;
    return waiting == inside->waiting;
}
