/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_LEADING_H
#define HWT_TESTS_DELAY_SUPPORT_LEADING_H

/*
 * A store on a simulated disk, and players that put: one leads a frame, and others sleep until it is done. A leader that
 * lingers does so until it is told to go on, or not at all; so no time decides. The program is linked with
 * pthread_cond_timedwait wrapped, too.
 */

#include <errno.h>

#include "hwt/base/time.h"
#include "hwt/delay/whole.h"
#include "tests/delay/support/held.h"

enum { PAYLOAD = 8192 };

/* What a leader does that would linger. */
enum { GOES_ON, LINGERS, AS_IT_LIKES };
static int leader;
static _Atomic unsigned lingered;
static uint64_t lingers_until;           /* by the monotonic clock */
static pthread_cond_t *_Atomic complete; /* that of the store */

static struct disk *disk;
static struct process process;
static hwt_delay *store;
static uint64_t luck;
static _Atomic uint64_t next_id;

int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    if (cond != complete || leader == AS_IT_LIKES)
        return __real_pthread_cond_timedwait(cond, mutex, until);
    lingered++;
    lingers_until = hwt_from_timespec(*until);
    return leader == LINGERS ? pthread_cond_wait(cond, mutex) : ETIMEDOUT;
}

/* While others may be about to linger. */
static inline void tell_leaders(int what)
{
    pthread_mutex_lock(&store->lock);
    leader = what;
    pthread_mutex_unlock(&store->lock);
}

static inline void open_store(void)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_CREATE | HWT_DELAY_NO_WAIT;
    options.payload_max = PAYLOAD;
    options.memory = 1 << 20;
    options.segment_size = 1 << 17;
    must(hwt_delay_open_on("store", &options, &process.system, false, &store) == 0);
    complete = &store->log.complete;
}

/* So that there is room for some large puts. */
static inline void grow(void)
{
    must(pthread_mutex_lock(&store->lock) == 0);
    hwt_delay_extent_grow(store);
    must(pthread_mutex_unlock(&store->lock) == 0);
}

static inline void begin(void)
{
    luck = 1;
    lingered = 0;
    disk = disk_new();
    held_realtime = HWT_SEC(1000);
    held_boottime = HWT_SEC(100);
    held_start(&process, disk);
    process.random = &luck;
    open_store();
    grow();
}

static inline void end(int closed)
{
    ck_assert_int_eq(hwt_delay_close(store), closed);
    process_end(&process);
    disk_free(disk);
}

static inline uint64_t commits(void)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    return stats.commits;
}

/* ---- what players do; the result is in `operation` ---- */

static inline int put_some(size_t count, size_t size)
{
    static const char payload[PAYLOAD];
    uint64_t ids[8];
    hwt_delay_message messages[8];
    for (size_t i = 0; i < count; i++) {
        ids[i] = next_id++;
        messages[i] = (hwt_delay_message){ .due = HWT_SEC(2000),
                                           .id = &ids[i],
                                           .id_size = sizeof(ids[i]),
                                           .payload = payload,
                                           .payload_size = size };
    }
    return hwt_delay_put(store, messages, count);
}

static inline void put(struct player *player)
{
    player->operation = put_some(1, 10);
}

static inline void fail_to_grow(struct player *player)
{
    must(pthread_mutex_lock(&store->lock) == 0);
    held_fail(&process, DISK_SYNC);
    hwt_delay_extent_grow(store);
    player->operation = store->poisoned ? -EIO : 0;
    must(pthread_mutex_unlock(&store->lock) == 0);
}

static inline void do_part(void (*part)(struct player *player), int expected)
{
    struct player player;
    player_begin(&player, part, 0, 0);
    player_end(&player);
    ck_assert_int_eq(player.operation, expected);
}

/* The ground is made: one that leads at once stands before its sync at its third point, one that was
 * woken at its fifth. */
static inline void begin_at_sync(struct player *player, bool slept)
{
    player_begin(player, put, 0, slept ? 5 : 3);
}

static inline void expect_callers(unsigned expected)
{
    pthread_mutex_lock(&store->lock);
    store->log.expected = expected;
    pthread_mutex_unlock(&store->lock);
}

#endif
