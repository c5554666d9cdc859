/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_WHEEL_ORACLE_H
#define HWT_TESTS_WHEEL_ORACLE_H

/* The list that model_wheel.c asks what the wheel should answer. */

#include "hwt/wheel/wheel.h"
#include "model_store.h"
#include "places_fixture.h"

enum { LIVE_MAX = 600, AGE_BITS = 29 };

struct filed {
    uint32_t id;
    uint64_t tick; /* in which the wheel must yield it */
    bool far;      /* it comes nearer before that */
    bool wanted;
    bool loose; /* there may be an older hint that is the same: it comes there */
};

static struct places places;
static struct hwt_wheel wheel;
static uint32_t wheel_length;
static uint64_t state; /* of the random numbers */

static struct filed list[LIVE_MAX]; /* sorted */
static size_t length;
static uint32_t spare[LIVE_MAX];
static size_t spares;
static uint64_t now; /* the next tick to handle */

/* What an id's owner says: it is wanted, with this generation. */
static struct {
    uint32_t generation;
    bool wanted;
} owned[LIVE_MAX];

static uint64_t below(uint64_t n)
{
    return test_random(&state) % n;
}

/* ---- the oracle ---- */

static uint32_t keep_wanted(const void *owner, struct hwt_hint *hints, uint32_t n)
{
    uint32_t kept = 0;
    must(owner == owned);
    for (uint32_t at = 0; at < n; at++) {
        struct hwt_hint hint = hints[at];
        uint32_t i = places_number(hint.id);
        if (owned[i].wanted && owned[i].generation == hint.generation)
            hints[kept++] = hint;
    }
    return kept;
}

static uint64_t age_length(void)
{
    return UINT64_C(1) << AGE_BITS;
}

/* Whether it comes nearer first, and when. */
static bool is_far(uint64_t tick)
{
    return tick != UINT64_MAX && tick / age_length() > now / age_length() + 1;
}

static uint64_t comes_at(const struct filed *item)
{
    return item->far ? (item->tick / age_length() - 1) * age_length() : item->tick;
}

static uint64_t oracle_tick(uint64_t deadline)
{
    uint64_t start = wheel.ticks.start, duration = wheel.ticks.duration;
    uint64_t tick = deadline < start ? 0 : (deadline - start) / duration;
    tick = tick < now ? now : tick;
    return tick >= (UINT64_MAX - start) / duration ? UINT64_MAX : tick;
}

static void oracle_file(uint32_t id, uint64_t tick, bool loose)
{
    size_t at = length++;
    for (; at > 0 && list[at - 1].tick > tick; at--)
        list[at] = list[at - 1];
    list[at] = (struct filed){ id, tick, is_far(tick), true, loose };
}

static void oracle_remove(size_t at)
{
    spare[spares++] = list[at].id;
    length--;
    for (; at < length; at++)
        list[at] = list[at + 1];
}

/* What is not wanted and was to come before `tick`, or at all, is in the store no more. */
static void oracle_forget(uint64_t tick)
{
    for (size_t at = length; at-- > 0;) {
        if (!list[at].wanted && (tick == UINT64_MAX || comes_at(&list[at]) < tick))
            oracle_remove(at);
    }
}

static size_t oracle_find(uint32_t id)
{
    size_t at = 0;
    while (at < length && list[at].id != id)
        at++;
    must(at < length);
    return at;
}

static size_t oracle_wanted(void)
{
    size_t n = 0;
    for (size_t at = 0; at < length; at++)
        n += list[at].wanted;
    return n;
}

static uint64_t oracle_next_of(bool far)
{
    uint64_t next = UINT64_MAX;
    for (size_t at = 0; at < length; at++) {
        uint64_t tick = comes_at(&list[at]);
        if (list[at].wanted && list[at].far == far && tick < next)
            next = tick;
    }
    return next;
}

static uint64_t oracle_next(void)
{
    uint64_t far = oracle_next_of(true), near = oracle_next_of(false);
    return far < near ? far : near;
}

#endif
