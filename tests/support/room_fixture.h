/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_ROOM_FIXTURE_H
#define HWT_TESTS_ROOM_FIXTURE_H

/*
 * What the tests on the library's inside share: a timer without a worker, on a clock that is
 * set, and the entries of its pool, to be put into any state by hand.
 *
 * ck_assert, and what is built on it, belongs to the test's own thread.
 */

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "hwt/timer.h"
#include "kit.h"

struct room {
    hwt_timer *timer;
    struct hwt_lane *lane; /* of the thread that has opened the room */
    _Atomic uint64_t now;
};

static inline uint64_t room_clock(void *data)
{
    struct room *room = data;
    return atomic_load(&room->now);
}

static inline void room_open_with(struct room *room, uint64_t start, hwt_options options)
{
    atomic_store(&room->now, start);
    options.flags |= HWT_NO_WORKER;
    options.clock = room_clock;
    options.clock_data = room;
    ck_assert_int_eq(hwt_timer_create(&options, &room->timer), 0);
    room->lane = hwt_lane_own(room->timer);
}

static inline void room_open(struct room *room, uint64_t start, uint64_t tick, uint32_t wheel)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = tick;
    options.ticks_per_wheel = wheel;
    room_open_with(room, start, options);
}

static inline void room_close(struct room *room)
{
    hwt_timer_destroy(room->timer);
    room->timer = NULL;
}

/* A free entry. */
static inline struct hwt_entry *room_take(struct room *room)
{
    struct hwt_entry *entry = hwt_pool_take(room->timer, room->lane);
    must(entry);
    atomic_store(&entry->slot, HWT_SLOT_NONE);
    return entry;
}

static inline void room_take_all(struct room *room, struct hwt_entry **entries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        entries[i] = room_take(room);
}

/* Whether the entry is free: it is given out once more before there are new ones. */
static inline bool room_has_back(struct room *room, const struct hwt_entry *entry)
{
    uint32_t slabs = room->timer->pool.slabs;
    while (room->timer->pool.slabs == slabs) {
        if (room_take(room) == entry)
            return true;
    }
    return false;
}

/* The n-th lane from that of the test's own thread on; it is another one for 0 < n < 4. */
static inline struct hwt_lane *room_lane(struct room *room, uint32_t n)
{
    uint32_t own = (uint32_t)(room->lane - room->timer->lanes);
    return &room->timer->lanes[(own + n) % room->timer->lane_count];
}

static inline struct hwt_lane *room_shared_lane(struct room *room, uint32_t n)
{
    must(n < HWT_LANES_SHARED);
    return &room->timer->lanes[room->timer->lanes_owned + n];
}

/* The calling thread becomes one of those beyond, on the n-th shared lane. Returns the number that
 * it had, to be put back by the test's own thread. */
static inline uint32_t share_lane(uint32_t n)
{
    uint32_t before = hwt_thread_number;
    hwt_thread_number = 1000 * HWT_LANES_SHARED + n;
    return before;
}

/* A push stopped half-way, after the exchange of the tail: half_push() does that much and
 * returns what finish_push() needs to link the entry. */
static inline hwt_mpsc_node *half_push(hwt_mpsc_tail *tail, struct hwt_entry *entry)
{
    cds_wfcq_node_init(&entry->link);
    return __atomic_exchange_n(&tail->p, &entry->link, __ATOMIC_SEQ_CST);
}

static inline void finish_push(hwt_mpsc_node *before, struct hwt_entry *entry)
{
    __atomic_store_n(&before->next, &entry->link, __ATOMIC_RELEASE);
}

/* Tests that each begin with `open` and end with `close`; NULL: with nothing. */
static inline TCase *room_case(Suite *suite, const char *name, void (*open)(void),
                               void (*close)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, open, close);
    suite_add_tcase(suite, tcase);
    return tcase;
}

#endif
