/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_WHEEL_H
#define HWT_WHEEL_H

/*
 * The seam between the worker and a store of timeouts: file one, drop one, what is due
 * next, take what is due. wheel.c is the hashed wheel; another store of the same functions
 * can be linked in its place. Worker only; time comes in as an argument.
 */

#include "hwt/pool.h"

struct hwt_store; /* the data structure itself */

struct hwt_wheel {
    const struct hwt_pool *pool;
    uint64_t start; /* the instant at which tick 0 begins */
    uint64_t tick_duration;
    uint64_t last_tick; /* this tick and later ones end past UINT64_MAX: never */
    uint64_t tick;      /* the next tick to handle: all before it have been */
    size_t bytes;       /* memory held */
    struct hwt_store *store;
};

/* How many ticks are over at `now`: those before the result can be handled. */
static inline uint64_t hwt_wheel_ticks(const struct hwt_wheel *wheel, uint64_t now)
{
    return now < wheel->start ? 0 : (now - wheel->start) / wheel->tick_duration;
}

/* The instant at which the tick begins, at most HWT_NEVER. */
static inline uint64_t hwt_wheel_instant(const struct hwt_wheel *wheel, uint64_t tick)
{
    if (tick > wheel->last_tick)
        return HWT_NEVER;
    return wheel->start + tick * wheel->tick_duration;
}

/* 0 or -ENOMEM. ticks_per_wheel is a power of two. */
int hwt_wheel_init(struct hwt_wheel *wheel, const struct hwt_pool *pool, uint64_t start,
                   uint64_t tick_duration, uint32_t ticks_per_wheel);
void hwt_wheel_destroy(struct hwt_wheel *wheel);

/* Files an entry by its deadline; one whose tick has passed goes into the current tick, one
 * for a tick before `earliest` into that. -ENOMEM: nothing has changed. */
int hwt_wheel_file(struct hwt_wheel *wheel, struct hwt_entry *entry, uint64_t deadline,
                   uint64_t earliest);

/* Takes an entry out of the place it was filed in. */
void hwt_wheel_drop(struct hwt_wheel *wheel, struct hwt_entry *entry);

/* The next tick with something to take, HWT_NEVER: none. */
uint64_t hwt_wheel_next(struct hwt_wheel *wheel);

/*
 * Takes up to `max` timeouts of the soonest tick before `limit` that has any, in the order
 * in which they were filed, and returns how many; 0: all ticks before `limit` are handled.
 * Costs nothing for ticks without timeouts. A timeout further away than 2^31 rounds is taken
 * once before it is due: the caller looks at its deadline and files it again.
 */
size_t hwt_wheel_take(struct hwt_wheel *wheel, uint64_t limit, struct hwt_entry **batch,
                      size_t max);

/* Takes up to `max` timeouts, whatever their deadline; 0: there are none. */
size_t hwt_wheel_take_any(struct hwt_wheel *wheel, struct hwt_entry **batch, size_t max);

/* A part of the store that holds timeouts, for hwt_timer_dump(). */
struct hwt_wheel_view {
    uint32_t bucket;
    uint64_t count;
    uint64_t next; /* the tick at which it has something to take or to move; HWT_NEVER */
};

/* The first such part from number `from` on. False: there is none. */
bool hwt_wheel_look(struct hwt_wheel *wheel, uint32_t from, struct hwt_wheel_view *ret_view);

/* Whether the store is in order. For tests. */
bool hwt_wheel_check(const struct hwt_wheel *wheel);

#endif
