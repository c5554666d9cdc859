/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_LANE_FIXTURE_H
#define HWT_TESTS_LANE_FIXTURE_H

/* Lanes with a pool and a gate of their own, for the unit tests of lane.c. */

#include "hwt/inbox/lane.h"
#include "hwt/worker/counters.h"

#include "unit.h"

static struct hwt_pool pool;
static _Atomic uint32_t flags = 1;
static struct hwt_gate gate;
static struct hwt_lanes lanes;
static char owner;

static const hwt_task task = { 0 };

static inline void open_lanes_with(uint32_t backlog)
{
    memset(&pool, 0, sizeof(pool));
    memset(&lanes, 0, sizeof(lanes));
    hwt_pool_init(&pool, (hwt_timer *)(void *)&owner, HWT_LANE_SEATS_SIZE);
    hwt_gate_init(&gate, CLOCK_MONOTONIC, &flags, 1);
    must(hwt_lanes_init(&lanes, &pool, &gate, backlog, false) == 0);
}

static inline void open_lanes(void)
{
    open_lanes_with(0);
}

static inline void close_lanes(void)
{
    hwt_pool_destroy(&pool, false);
}

static inline struct hwt_entry *make_pending(struct hwt_lane *lane, uint64_t deadline)
{
    struct hwt_entry *one = hwt_pool_take(&pool, &lane->cache);
    must(one);
    hwt_entry_begin(one, &task, NULL, deadline);
    return one;
}

static inline bool say_untold(struct hwt_lane *lane, uint32_t id, uint64_t generation)
{
    const struct hwt_record record = { 0, id, (uint32_t)generation };
    return hwt_lane_publish_cancelled(&lanes, lane, record);
}

static inline void *enter(void *data)
{
    struct hwt_lane *lane = hwt_lane_enter(&lanes);
    must(hwt_lane_enter(&lanes) == lane || lane->locked);
    hwt_count(&lane->added, 1, false);
    *(struct hwt_lane **)data = lane;
    hwt_lane_leave(&lanes, lane);
    return NULL;
}

#endif
