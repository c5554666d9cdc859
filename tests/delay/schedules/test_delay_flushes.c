/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A frame beside the making of a longer log, whose flush fails: whoever is told of it, the put is. A frame
 * beside the making of a shorter one. And a frame that takes the reserve while a checkpoint sets it aside.
 */

#include <errno.h>

#include "hwt/delay/whole.h"
#include "kit.h"
#include "tests/delay/support/held.h"

static struct disk *disk;
static struct process process;
static hwt_delay *store;
static uint64_t luck;

static void open_store(uint32_t flags, bool synchronous)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = flags;
    options.payload_max = 8192;
    options.memory = 1 << 20;
    options.segment_size = 1 << 17;
    held_start(&process, disk);
    process.random = &luck;
    must(hwt_delay_open_on("store", &options, &process.system, synchronous, &store) == 0);
}

/* Its result is in `operation`. */
static void put(struct player *player)
{
    static const char payload[8000];
    const hwt_delay_message message = {
        .due = 1, .id = "id", .id_size = 2, .payload = payload, .payload_size = sizeof(payload)
    };
    player->operation = hwt_delay_put(store, &message, 1);
}

static void grow(struct player *player)
{
    (void)player;
    must(pthread_mutex_lock(&store->lock) == 0);
    hwt_delay_extent_grow(store);
    must(pthread_mutex_unlock(&store->lock) == 0);
}

/* As the end of a checkpoint does it. */
static void shrink(struct player *player)
{
    (void)player;
    must(pthread_mutex_lock(&store->lock) == 0);
    hwt_delay_log_pin(store);
    hwt_delay_extent_shrink(store, hwt_delay_extent_least(store));
    hwt_delay_log_unpin(store);
    must(pthread_mutex_unlock(&store->lock) == 0);
}

static void begin(int seed, bool synchronous)
{
    luck = (uint64_t)seed;
    disk = disk_new();
    held_realtime = HWT_SEC(1000);
    held_boottime = HWT_SEC(100);
    open_store(HWT_DELAY_CREATE, synchronous);
}

static void do_part(void (*part)(struct player *player))
{
    struct player player;
    player_begin(&player, part, 0, 0);
    player_end(&player);
}

/* The frame is written and not flushed when the log's files are flushed, which fails. */
START_TEST(a_put_is_told_of_a_failed_flush_of_another_thread)
{
    struct player putting;
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    begin(_i, false);
    player_begin(&putting, put, 0, 5);
    must(player_await(&putting, false) == STANDS);
    ck_assert_str_eq(putting.point, "before a sync");
    held_fail(&process, DISK_SYNC);
    do_part(grow);
    player_end(&putting);
    held_kill(&process);
    hwt_delay_close(store);
    process_end(&process);
    struct disk *crashed = disk_crashed(disk, &luck);
    disk_free(disk);
    disk = crashed;
    open_store(0, false);
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    if (putting.operation == 0)
        ck_assert_uint_eq(stats.pending, 1);
    ck_assert_int_eq(putting.operation, -EIO);
    must(hwt_delay_close(store) == 0);
    process_end(&process);
    disk_free(disk);
}
END_TEST

/* The leader stands before it writes zeros up to the end that the log had. */
START_TEST(a_log_does_not_become_shorter_under_zeros_that_are_written)
{
    struct player putting;
    begin(0, false);
    do_part(grow);
    const uint64_t extent = store->log.extent;
    player_begin(&putting, put, 0, 3);
    must(player_await(&putting, false) == STANDS);
    ck_assert_str_eq(putting.point, "before a write");
    do_part(shrink);
    player_end(&putting);
    ck_assert_int_eq(putting.operation, 0);
    ck_assert_uint_eq(disk_find(disk, "log.0")->seen.size, store->log.extent);
    do_part(shrink);
    ck_assert_uint_lt(store->log.extent, extent);
    ck_assert_uint_eq(disk_find(disk, "log.0")->seen.size, store->log.extent);
    must(hwt_delay_close(store) == 0);
    process_end(&process);
    disk_free(disk);
}
END_TEST

static void checkpoint(struct player *player)
{
    (void)player;
    must(hwt_delay_checkpoint(store) == 0);
}

static const hwt_delay_message two[] = { { .due = HWT_SEC(2000), .id = "a", .id_size = 1 },
                                         { .due = HWT_SEC(2000), .id = "b", .id_size = 1 } };

/* The disk has no room for the frame of a cancel, until the reserve is given up. */
static void take_reserve(const hwt_delay_message *message)
{
    held_fail(&process, DISK_WRITE);
    process.fail_with = -ENOSPC;
    must(hwt_delay_cancel(store, message->due, message->id, message->id_size) == 0);
}

static bool is_full(void)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    must(hwt_delay_get_stats(store, &stats) == 0);
    return stats.full;
}

/* False: the checkpoint has no such point. */
static bool take_reserve_beside(uint64_t point)
{
    struct player checkpointing;
    begin(0, true); /* so no job sets it aside meanwhile */
    must(hwt_delay_put(store, two, 2) == 0);
    take_reserve(&two[0]);
    must(is_full());
    player_begin(&checkpointing, checkpoint, 0, point);
    bool stands = player_await(&checkpointing, false) == STANDS;
    if (stands)
        take_reserve(&two[1]);
    player_end(&checkpointing);
    if (!is_full())
        ck_assert_uint_eq(disk_find(disk, "reserve")->seen.size, store->log.extent);
    must(hwt_delay_checkpoint(store) == 0);
    must(!is_full());
    must(hwt_delay_close(store) == 0);
    process_end(&process);
    disk_free(disk);
    return stands;
}

START_TEST(a_reserve_that_is_given_up_while_it_is_set_aside_is_missed)
{
    uint64_t points = 0;
    while (take_reserve_beside(points + 1))
        points++;
    ck_assert_uint_ge(points, 10);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_flushes");
    TCase *tcase = tcase_create("flushes");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, a_put_is_told_of_a_failed_flush_of_another_thread, 0, 10);
    tcase_add_test(tcase, a_log_does_not_become_shorter_under_zeros_that_are_written);
    tcase_add_test(tcase, a_reserve_that_is_given_up_while_it_is_set_aside_is_missed);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
