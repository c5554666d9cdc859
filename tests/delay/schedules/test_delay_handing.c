/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Takes beside others that stand: a take that has not written its block in `handed` yet, beside
 * checkpoints; and the first takes of a store that begins to lead, beside each step of a put and of a
 * checkpoint.
 */

#include <errno.h>

#include "kit.h"
#include "tests/delay/support/held.h"

static struct disk *disk;
static struct process process;
static hwt_delay *store;
static struct player players[2];
static uint64_t luck;
static uint64_t came; /* the due times of what was taken: a bit for each */

static void open_store(uint32_t flags)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = flags;
    options.payload_max = 8192;
    options.memory = 1 << 20;
    options.segment_size = 1 << 17;
    held_start(&process, disk);
    process.random = &luck;
    must(hwt_delay_open_on("store", &options, &process.system, false, &store) == 0);
}

static void close_store(bool kill)
{
    if (kill)
        held_kill(&process);
    must(hwt_delay_close(store) == 0 || kill);
    process_end(&process);
}

static void put(uint64_t due)
{
    const hwt_delay_message message = { .due = due, .id = "id", .id_size = 2 };
    must(hwt_delay_put(store, &message, 1) == 0);
}

/* Two messages, both in a slot. */
static void setup(void)
{
    disk = disk_new();
    held_realtime = HWT_SEC(1000);
    held_boottime = HWT_SEC(100);
    came = 0;
    open_store(HWT_DELAY_CREATE);
    put(1);
    put(2);
    must(hwt_delay_checkpoint(store) == 0);
}

static uint64_t take(uint64_t due, uint32_t deliveries)
{
    const hwt_delay_message *taken;
    must(hwt_delay_take(store, 1, 0, &taken) == 1);
    uint64_t lease = taken->lease;
    ck_assert_uint_eq(taken->due, due);
    ck_assert_uint_eq(taken->deliveries, deliveries);
    hwt_delay_free(taken);
    return lease;
}

static void take_first(struct player *player)
{
    (void)player;
    take(1, 2);
}

/*
 * No half is written anew while a block may still be written there. Both messages have been loaded, so
 * that the take uses the disk for its block alone; it is the first one of its half. Without it the
 * second checkpoint would begin that half again, with the last block of the other message.
 */
START_TEST(a_take_that_stands_keeps_its_place)
{
    setup();
    const uint64_t leases[] = { take(1, 1), take(2, 1) };
    must(hwt_delay_extend(store, leases[0], 0) == 0 && hwt_delay_extend(store, leases[1], 0) == 0);
    must(hwt_delay_checkpoint(store) == 0);
    player_begin(&players[0], take_first, 0, 1);
    must(player_await(&players[0], false) == STANDS);
    ck_assert_str_eq(players[0].point, "before a write");
    for (uint32_t i = 0; i < 2; i++) {
        must(hwt_delay_extend(store, take(2, i + 2), 0) == 0);
        must(hwt_delay_checkpoint(store) == 0);
    }
    take(2, 4);
    player_end(&players[0]);
    close_store(true);
    open_store(0);
    take(1, 3);
    take(2, 5);
    close_store(false);
    disk_free(disk);
}
END_TEST

enum { PUT, CHECKPOINT, CALLS };

static void call(struct player *player)
{
    if (player->operation == PUT)
        put(3);
    else
        must(hwt_delay_checkpoint(store) == 0);
}

static void take_all(void)
{
    const hwt_delay_message *taken;
    while (hwt_delay_take(store, 1, 0, &taken) == 1) {
        must((came >> taken->due & 1) == 0);
        came |= UINT64_C(1) << taken->due;
        hwt_delay_free(taken);
    }
}

static void lead(struct player *player)
{
    (void)player;
    must(hwt_delay_lead(store) == 0);
    take_all();
}

/* False: the call has no such point. */
static bool lead_beside(int operation, uint64_t point)
{
    setup();
    close_store(false);
    open_store(HWT_DELAY_STANDBY);
    if (operation == CHECKPOINT)
        put(3);
    player_begin(&players[0], call, operation, point);
    bool stands = player_await(&players[0], false) == STANDS;
    player_begin(&players[1], lead, 0, 0);
    enum player_state state = player_await(&players[1], true);
    if (stands && state == RETURNED) /* what is put is not on the disk yet */
        ck_assert_uint_eq(came, operation == PUT ? 1u << 1 | 1u << 2 : 1u << 1 | 1u << 2 | 1u << 3);
    player_end(&players[0]);
    player_end(&players[1]);
    take_all();
    ck_assert_uint_eq(came, 1u << 1 | 1u << 2 | 1u << 3);
    close_store(false);
    disk_free(disk);
    return stands;
}

START_TEST(a_store_leads_beside_others)
{
    uint64_t points = 0;
    while (lead_beside(_i, points + 1))
        points++;
    ck_assert_uint_ge(points, 4);
}
END_TEST

static void checkpoint(struct player *player)
{
    (void)player;
    must(hwt_delay_checkpoint(store) == 0);
}

/* Far more often than a half of the file has room for. */
static void take_again_and_again(struct player *player)
{
    (void)player;
    for (uint32_t i = 1; i <= 1000; i++)
        must(hwt_delay_extend(store, take(1, i), 0) == 0);
}

/* An event loop takes like this. It may wait for the loader for a moment, so only its return counts. */
START_TEST(a_take_that_may_not_wait_does_not_wait_for_a_checkpoint)
{
    setup();
    put(3); /* so that the checkpoint has something to write */
    player_begin(&players[0], checkpoint, 0, 1);
    must(player_await(&players[0], false) == STANDS);
    player_begin(&players[1], take_again_and_again, 0, 0);
    must(player_await(&players[1], false) == RETURNED);
    player_end(&players[0]);
    player_end(&players[1]);
    must(hwt_delay_checkpoint(store) == 0); /* it has what was not written */
    close_store(true);
    open_store(0);
    take(1, 1001);
    close_store(false);
    disk_free(disk);
}
END_TEST

/* The checkpoint that is under way does not have it, so that of the close makes it good. */
START_TEST(a_take_that_could_not_be_counted_beside_a_checkpoint)
{
    setup();
    put(3);
    player_begin(&players[0], checkpoint, 0, 1);
    must(player_await(&players[0], false) == STANDS);
    held_fail(&process, DISK_WRITE);
    must(hwt_delay_extend(store, take(1, 1), 0) == 0);
    player_end(&players[0]);
    close_store(false);
    open_store(0);
    take(1, 2);
    close_store(false);
    disk_free(disk);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_handing");
    TCase *tcase = tcase_create("handing");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_take_that_stands_keeps_its_place);
    tcase_add_loop_test(tcase, a_store_leads_beside_others, 0, CALLS);
    tcase_add_test(tcase, a_take_that_may_not_wait_does_not_wait_for_a_checkpoint);
    tcase_add_test(tcase, a_take_that_could_not_be_counted_beside_a_checkpoint);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
