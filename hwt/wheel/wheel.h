/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_WHEEL_H
#define HWT_WHEEL_H

/*
 * The seam between the worker and the data structure that has the timeouts: file one, find the next
 * tick with work, take what is due. wheel.c is the hashed wheel. Another structure with the same
 * functions can be linked instead of it. It knows a timeout by its id, and keeps the place of each
 * id; see directory.h. Worker only: no atomics, no clock, no lock. The caller says what time it is.
 */

#include <stdbool.h>
#include <stddef.h>

#include "hwt/wheel/directory.h"
#include "hwt/wheel/hint.h"

struct hwt_wheel_inside;

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
    struct hwt_pieces *pieces; /* the caller's: memory for hints */
    uint64_t tick;             /* the next tick to handle; all before it were handled */
    uint64_t near_end;         /* hints of ticks before it go to the bucket of their tick */
    size_t bytes;              /* memory held, besides pieces */
    uint64_t hints;            /* held, with those that do not count any more */
    bool lags;      /* the caller's: it may yet file something for the tick before `limit` */
    uint64_t looks; /* the caller's: so many hints that do not count may hwt_wheel_take() meet */
    /* Moves the hints of timeouts that are still wanted to the front, in order, and returns how
     * many they are. NULL: all are wanted. The wheel asks before it says which tick is next, and
     * before it throws hints away. */
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
    /* A multiplication instead of a division: its result is at most one too small. */
    __extension__ typedef unsigned __int128 wide;
    uint64_t quotient = (uint64_t)((wide)nanoseconds * ticks->reciprocal >> 64);
    return quotient + (nanoseconds - quotient * ticks->duration >= ticks->duration);
#else
    return nanoseconds / ticks->duration;
#endif
}

/* How many ticks are over at `now`. The ticks before that number can be handled. */
static inline uint64_t hwt_ticks_at(const struct hwt_ticks *ticks, uint64_t now)
{
    return now < ticks->start ? 0 : hwt_ticks_divide(ticks, now - ticks->start);
}

/* The instant at which the tick begins, UINT64_MAX at most. */
static inline uint64_t hwt_ticks_instant(const struct hwt_ticks *ticks, uint64_t tick)
{
    if (tick > ticks->last)
        return UINT64_MAX;
    return ticks->start + tick * ticks->duration;
}

/* This tick, or the last tick that ends, if that is earlier. */
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

/* Counts ticks from their start on. The wheel is empty. */
void hwt_wheel_begin(struct hwt_wheel *wheel, struct hwt_ticks ticks);

/* Removes all hints, and does not look at the places: the caller files nothing after that. */
void hwt_wheel_clear(struct hwt_wheel *wheel);

/* Files an id for a tick, or for wheel->tick, if that is later. `place` is the id's, and
 * `generation` is that of the place, as hints have it. Earlier hints of the id do not count any
 * more. -ENOMEM: nothing has changed. */
int hwt_wheel_file_at(struct hwt_wheel *wheel, struct hwt_place *place, uint32_t id,
                      uint32_t generation, uint64_t tick);

/* Whether the place, which is filed, is or may be later than this tick. */
bool hwt_wheel_is_after(const struct hwt_wheel *wheel, const struct hwt_place *place,
                        uint64_t tick);

/* Finds the next tick before `limit` with something to take. It throws away hints that are not
 * wanted, and looks at no more than `looks` hints. *ret_tick is that tick; or UINT64_MAX: nothing
 * is filed. False: it is not known whether that tick has anything, and no tick before it has. */
bool hwt_wheel_find(struct hwt_wheel *wheel, uint64_t limit, uint32_t looks, uint64_t *ret_tick);

/* The next tick with something to take, however far. UINT64_MAX: there is none. */
static inline uint64_t hwt_wheel_prune_and_peek(struct hwt_wheel *wheel)
{
    uint64_t tick;
    while (!hwt_wheel_find(wheel, UINT64_MAX, UINT32_MAX, &tick))
        ;
    return tick;
}

/*
 * Takes up to `max` ids of the soonest tick before `limit` that has any, in the order in which they
 * were filed, and returns how many. Ticks without timeouts cost nothing.
 *
 * 0, and wheel->looks > 0: all ticks before `limit` are handled; if the wheel lags, the last of
 * them may be handled once more. 0, and wheel->looks == 0: there may be more, and the next call
 * goes on there.
 *
 * *ret_far: the ids are not due, but their ticks are near now. The caller files each again for its
 * tick before it takes more.
 */
size_t hwt_wheel_take(struct hwt_wheel *wheel, uint64_t limit, uint32_t *ids, size_t max,
                      bool *ret_far);

/* Looks at `most` hints, or a block more, from where the last sweep left off, and throws away those
 * that do not count or, if it `asks`, are not wanted. It stops when `enough` are left. Returns how many it
 * threw away. */
uint64_t hwt_wheel_sweep(struct hwt_wheel *wheel, uint64_t most, uint64_t enough, bool asks);

/* The id that is likely to be taken next. HWT_ID_NONE: none before `limit`, or not known. */
uint32_t hwt_wheel_peek(const struct hwt_wheel *wheel, uint64_t limit);

/* A bucket with timeouts that are wanted, for hwt_timer_dump(). */
struct hwt_wheel_view {
    uint32_t index;
    uint64_t count;
    uint64_t next; /* tick with something to take; UINT64_MAX: never */
};

/* Sweeps buckets from this index on until one has something. False: none has. */
bool hwt_wheel_sweep_to_next_bucket(struct hwt_wheel *wheel, uint32_t from,
                                    struct hwt_wheel_view *ret_view);

#endif
