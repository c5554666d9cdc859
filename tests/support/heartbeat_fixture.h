/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_HEARTBEAT_FIXTURE_H
#define HWT_TESTS_HEARTBEAT_FIXTURE_H

/* What the tests of heartbeats on a set clock share: a peer that notes what it is told. */

#include "api_fixture.h"

#include <hwt/heartbeat.h>

enum { EVENTS = HWT_HEARTBEAT_SEND + 1, TOLD_MAX = 256 };

#define TICK HWT_MS(10)
#define WHEEL 16

typedef struct told {
    hwt_heartbeat_event event;
    uint64_t count;
    uint64_t at; /* since the start of the timer's clock */
} told;

typedef struct peer {
    hwt_heartbeat heartbeat;
    hwt_heartbeat_rules rules;
    manual *m;
    void (*then)(struct peer *peer, hwt_heartbeat_event event);
    size_t count;
    told log[TOLD_MAX];
} peer;

static inline void peer_told(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count,
                             void *arg)
{
    peer *p = arg;
    must(heartbeat == &p->heartbeat);
    must(p->count < TOLD_MAX);
    p->log[p->count++] = (told){ event, count, atomic_load(&p->m->now) - p->m->start };
    if (p->then)
        p->then(p, event);
}

static inline uint64_t *limit_in(hwt_heartbeat_rules *rules, int event)
{
    uint64_t *limits[EVENTS] = {
        [HWT_HEARTBEAT_DEAD] = &rules->dead,
        [HWT_HEARTBEAT_READER_IDLE] = &rules->reader_idle,
        [HWT_HEARTBEAT_WRITER_IDLE] = &rules->writer_idle,
        [HWT_HEARTBEAT_ALL_IDLE] = &rules->all_idle,
        [HWT_HEARTBEAT_SEND] = &rules->send,
    };
    return limits[event];
}

/* One with a limit for one event and none for the others; not started. */
static inline peer peer_for(manual *m, int event, uint64_t limit)
{
    peer p;
    memset(&p, 0, sizeof(p));
    p.m = m;
    p.rules.notify = peer_told;
    *limit_in(&p.rules, event) = limit;
    return p;
}

static inline void peer_start(peer *p)
{
    ck_assert_int_eq(hwt_heartbeat_start(&p->heartbeat, p->m->timer, &p->rules, p), 0);
}

static inline void read_at(peer *p, uint64_t since_start)
{
    hwt_heartbeat_read_at(&p->heartbeat, p->m->start + since_start);
}

static inline void written_at(peer *p, uint64_t since_start)
{
    hwt_heartbeat_written_at(&p->heartbeat, p->m->start + since_start);
}

/* Handles every tick up to this one. */
static inline void go_by_ticks(manual *m, uint64_t since_start)
{
    for (uint64_t t = (atomic_load(&m->now) - m->start) / TICK * TICK; t < since_start; t += TICK)
        manual_go(m, t);
    manual_go(m, since_start);
}

static inline void assert_told(const peer *p, size_t index, int event, uint64_t count, uint64_t at)
{
    ck_assert_uint_gt(p->count, index);
    ck_assert_int_eq(p->log[index].event, event);
    ck_assert_uint_eq(p->log[index].count, count);
    ck_assert_uint_eq(p->log[index].at, at);
}

#endif
