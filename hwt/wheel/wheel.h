/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_WHEEL_H
#define HWT_WHEEL_H

/*
 * The seam between the worker and a store of timeouts: file one, drop one, what is due next, take
 * what is due. wheel.c is the hashed wheel; another store of the same functions can be linked in
 * its place. It knows timeouts by their ids, and keeps their places; see directory.h. Worker only:
 * no atomics, no clock, no lock; time comes in as an argument.
 */

#include <stdbool.h>
#include <stddef.h>

#include "hwt/wheel/directory.h"
#include "hwt/wheel/hint.h"

struct hwt_wheel_inside; /* the data structure itself */

/* How instants and ticks belong together. Frozen: any thread may read it. */
struct hwt_ticks {
    uint64_t start;      /* the instant at which tick 0 begins */
    uint64_t duration;   /* 8 at least: there are fewer than 2^61 ticks */
    uint64_t reciprocal; /* 2^64 / duration, rounded down */
    uint64_t last;       /* this tick and later ones end past UINT64_MAX: never */
};

struct hwt_wheel {
    struct hwt_ticks ticks;
    const struct hwt_directory *directory;
    uint64_t tick;     /* the next tick to handle: all before it have been */
    uint64_t near_end; /* the store's: ticks before it are not far */
    size_t bytes;      /* memory held */
    uint64_t hints;    /* held: for what is filed, and for what was dropped or cancelled since */
    bool lags;         /* the caller's: something may yet be filed for the tick before `limit` */
    uint64_t looks; /* the caller's: how many hints that do not count hwt_wheel_take() may go by */
    /* Moves the hints of timeouts that are still wanted to the front, in order, and returns how
     * many they are; NULL: all are. The store asks before it says when it is due next, and before
     * it throws away. */
    hwt_hints_filter wanted;
    const void *owner;
    struct hwt_wheel_inside *inside;
};

static inline struct hwt_ticks hwt_ticks_init(uint64_t start, uint64_t duration)
{
    return (struct hwt_ticks){ start, duration, UINT64_MAX / duration,
                               (UINT64_MAX - start) / duration };
}

static inline uint64_t hwt_ticks_divide(const struct hwt_ticks *ticks, uint64_t nanoseconds)
{
#ifdef __SIZEOF_INT128__
    /* Multiplied instead: the product is at most one too small. */
    __extension__ typedef unsigned __int128 wide;
    uint64_t quotient = (uint64_t)((wide)nanoseconds * ticks->reciprocal >> 64);
    return quotient + (nanoseconds - quotient * ticks->duration >= ticks->duration);
#else
    return nanoseconds / ticks->duration;
#endif
}

/* How many ticks are over at `now`: those before the result can be handled. */
static inline uint64_t hwt_ticks_at(const struct hwt_ticks *ticks, uint64_t now)
{
    return now < ticks->start ? 0 : hwt_ticks_divide(ticks, now - ticks->start);
}

/* The instant at which the tick begins, at most UINT64_MAX. */
static inline uint64_t hwt_ticks_instant(const struct hwt_ticks *ticks, uint64_t tick)
{
    if (tick > ticks->last)
        return UINT64_MAX;
    return ticks->start + tick * ticks->duration;
}

/* This tick, or the last one that ends: there is always one to file for. */
static inline uint64_t hwt_ticks_ending(const struct hwt_ticks *ticks, uint64_t tick)
{
    return tick < ticks->last ? tick : ticks->last - (ticks->last > 0);
}

/* The instant at which the tick can be handled. */
static inline uint64_t hwt_ticks_end(const struct hwt_ticks *ticks, uint64_t tick)
{
    return tick == UINT64_MAX ? UINT64_MAX : hwt_ticks_instant(ticks, tick + 1);
}

/* 0 or -ENOMEM. ticks_per_wheel is a power of two. */
int hwt_wheel_init(struct hwt_wheel *wheel, const struct hwt_directory *directory,
                   struct hwt_ticks ticks, uint32_t ticks_per_wheel);
void hwt_wheel_destroy(struct hwt_wheel *wheel);

/* Forgets all that is filed, whatever the places say: nothing is filed after that. */
void hwt_wheel_clear(struct hwt_wheel *wheel);

/* Files an id for a tick; one that has passed counts as the current one. This is its place, and the
 * generation of that as hints have it. What it was filed for before does not count any more.
 * -ENOMEM: nothing has changed. */
int hwt_wheel_file_at(struct hwt_wheel *wheel, struct hwt_place *place, uint32_t id,
                      uint32_t generation, uint64_t tick);

/* Of what is filed: whether it would come too late for this tick, or may. */
bool hwt_wheel_is_after(const struct hwt_wheel *wheel, const struct hwt_place *place,
                        uint64_t tick);

/* Looks for the next tick with something to take, as far as it is before `limit`, at no more than
 * `looks` hints, of which it throws away those that are not wanted. *ret_tick is that tick, or
 * UINT64_MAX, none is filed. False: it is not known whether that tick has any, and there is none
 * before it. */
bool hwt_wheel_find(struct hwt_wheel *wheel, uint64_t limit, uint32_t looks, uint64_t *ret_tick);

/* The next tick with something to take, UINT64_MAX: none; however many hints come before that. */
static inline uint64_t hwt_wheel_prune_and_peek(struct hwt_wheel *wheel)
{
    uint64_t tick;
    while (!hwt_wheel_find(wheel, UINT64_MAX, UINT32_MAX, &tick))
        ;
    return tick;
}

/*
 * Takes up to `max` ids of the soonest tick before `limit` that has any, in the order in which they
 * were filed, and returns how many; 0: all ticks before `limit` are handled, but if the caller
 * lags, the last of them may be once more. Costs nothing for ticks without timeouts. *ret_far:
 * these are not due, but come nearer: the caller files each again for its tick before it takes
 * more. wheel->looks is what is left of that; 0, and none was taken: there may be more, and the next
 * call goes on there.
 */
size_t hwt_wheel_take(struct hwt_wheel *wheel, uint64_t limit, uint32_t *ids, size_t max,
                      bool *ret_far);

/* Looks at about `most` hints, from where it left off, and throws away those that do not count or,
 * if it is to ask, are not wanted, until `enough` are left. Returns how many it threw away. */
uint64_t hwt_wheel_sweep(struct hwt_wheel *wheel, uint64_t most, uint64_t enough, bool asks);

/* The id that is likely to be taken next, HWT_ID_NONE: none before `limit`, or not
 * known in the midst of a visit. */
uint32_t hwt_wheel_peek(const struct hwt_wheel *wheel, uint64_t limit);

/* A part of the store that holds timeouts which are wanted, for hwt_timer_dump(). */
struct hwt_wheel_view {
    uint32_t bucket;
    uint64_t count;
    uint64_t next; /* the tick at which it has something to take; UINT64_MAX: never */
};

/* The first such part from number `from` on. False: there is none. */
bool hwt_wheel_sweep_to_next_bucket(struct hwt_wheel *wheel, uint32_t from,
                                    struct hwt_wheel_view *ret_view);

/* Whether the store is in order, when a sweep has ended that is half done. For tests. */
bool hwt_wheel_check(struct hwt_wheel *wheel);

#endif
