/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_WHEEL_FIXTURE_H
#define HWT_TESTS_WHEEL_FIXTURE_H

/* One wheel, checked after each call, and what to file in it. */

#include "hwt/wheel/wheel.h"
#include "places_fixture.h"
#include "wheel_check.h"

enum { MANY = 4096, WHEEL = 8 };

#define AGE (UINT64_C(1) << 29) /* ticks */

static struct places places;
static struct hwt_wheel wheel;
static uint32_t batch[MANY]; /* numbers: see places_number() */
static bool far;
static bool unwanted[MANY];

static inline void open_places(void)
{
    places_open(&places, MANY);
    memset(unwanted, 0, sizeof(unwanted));
}

static inline void close_places(void)
{
    places_close(&places);
}

/* Only of what is filed is it asked. */
static inline uint32_t keep_wanted(const void *owner, struct hwt_hint *hints, uint32_t n)
{
    uint32_t kept = 0;
    must(owner == &places);
    for (uint32_t i = 0; i < n; i++) {
        struct hwt_hint hint = hints[i];
        must(hwt_directory_place(&places.directory, hint.id)->generation == hint.generation);
        if (!unwanted[places_number(hint.id)])
            hints[kept++] = hint;
    }
    return kept;
}

static inline void open_wheel(uint64_t start, uint64_t tick_duration, uint32_t length)
{
    must(hwt_wheel_init(&wheel, &places.directory, hwt_ticks_init(start, tick_duration), length) ==
         0);
    wheel.pieces = &places.pieces;
    wheel.wanted = keep_wanted;
    wheel.owner = &places;
    must(wheel.hints == 0);
    must(hwt_wheel_check(&wheel));
}

/* With its pieces. */
static inline size_t wheel_bytes(void)
{
    return wheel.bytes + pieces_held(&places.pieces);
}

static inline void close_wheel(void)
{
    hwt_wheel_clear(&wheel);
    hwt_wheel_destroy(&wheel);
}

static inline void file(uint32_t i, uint64_t tick)
{
    uint64_t hints = wheel.hints;
    must(hwt_wheel_file(&wheel, places_id(i), tick) == 0);
    must(place_of(&places, i)->where != 0);
    must(wheel.hints == hints + 1);
    must(hwt_wheel_check(&wheel));
}

static inline void file_at(uint32_t i, uint64_t deadline)
{
    file(i, hwt_ticks_at(&wheel.ticks, deadline));
}

/* With a newer generation than ever before. */
static inline void file_anew(uint32_t i, uint64_t tick)
{
    place_of(&places, i)->generation++;
    unwanted[i] = false;
    file(i, tick);
}

static inline void drop(uint32_t i)
{
    hwt_wheel_drop(&wheel, places_id(i));
    must(place_of(&places, i)->where == 0);
    must(hwt_wheel_check(&wheel));
}

static inline bool is_after(uint32_t i, uint64_t tick)
{
    return hwt_wheel_is_after(&wheel, place_of(&places, i), tick);
}

static inline uint64_t next(void)
{
    uint64_t tick = hwt_wheel_prune_and_peek(&wheel);
    must(hwt_wheel_check(&wheel));
    must(hwt_wheel_prune_and_peek(&wheel) == tick);
    return tick;
}

static inline size_t take(uint64_t limit, size_t max)
{
    uint64_t hints = wheel.hints;
    size_t n = hwt_wheel_take(&wheel, limit, batch, max, &far);
    must(n <= max && wheel.hints <= hints - n);
    for (size_t i = 0; i < n; i++) {
        must(hwt_directory_place(&places.directory, batch[i])->where == 0);
        batch[i] = places_number(batch[i]);
    }
    must(n > 0 || wheel.tick >= limit || wheel.tick + 1 == wheel.ticks.last);
    must(hwt_wheel_check(&wheel));
    return n;
}

/* Returns how many hints were thrown away. */
static inline uint64_t sweep(uint64_t most)
{
    uint64_t hints = wheel.hints;
    hwt_wheel_sweep(&wheel, most, 0, true);
    must(wheel.hints <= hints);
    must(hwt_wheel_check(&wheel));
    return hints - wheel.hints;
}

/* One alone is due in `tick`, and is the i-th. */
static inline void expect_one(uint32_t i, uint64_t tick)
{
    must(next() == tick);
    must(hwt_wheel_peek(&wheel, tick) == HWT_ID_NONE);
    must(take(tick, MANY) == 0);
    must(take(tick + 1, MANY) == 1 && !far);
    must(batch[0] == i);
    must(wheel.tick == tick);
}

static inline void expect_none(void)
{
    must(next() == UINT64_MAX);
    must(hwt_wheel_peek(&wheel, UINT64_MAX) == HWT_ID_NONE);
    must(take(wheel.tick + 1, MANY) == 0);
}

/* Takes what comes nearer, files it again, and returns how many that were. */
static inline size_t bring_near(uint64_t limit, const uint64_t *ticks, size_t max)
{
    size_t n = 0, taken;
    while ((taken = take(limit, max)) > 0) {
        must(far && wheel.tick % AGE == 0);
        for (size_t i = 0; i < taken; i++)
            file(batch[i], ticks[batch[i]]);
        n += taken;
    }
    return n;
}

#endif
