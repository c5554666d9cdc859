/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The frontier of a take while a commit stands before or behind a use of the disk. It is not behind a
 * message that was put and is not on the disk yet, nor behind one whose end is not there yet, be
 * its frame the one that is written or the one that is gathered behind that.
 */

#include "kit.h"
#include "tests/delay/support/held.h"

/* Due times. */
enum { FIRST = 10, SECOND = 20, LATER = 30 };

enum { PUT, CANCEL, REPLACE, DONE, RETRY, DROP, CALLS };

static struct disk *disk;
static struct process process;
static hwt_delay *store;
static struct player players[2];
static struct before {
    uint64_t due;
    uint64_t lease; /* 0: it is not leased */
} before[2];        /* what is there, one for each player */
static uint64_t mark;

static hwt_delay_message message_of(const uint64_t *due)
{
    return (hwt_delay_message){ .due = *due, .id = due, .id_size = sizeof(*due) };
}

static void put(uint64_t due)
{
    const hwt_delay_message message = message_of(&due);
    must(hwt_delay_put(store, &message, 1) == 0);
}

static uint64_t take(void)
{
    const hwt_delay_message *taken;
    must(hwt_delay_take(store, 1, 0, &taken) == 1);
    uint64_t lease = taken->lease;
    hwt_delay_free(taken);
    return lease;
}

static uint64_t frontier(void)
{
    const hwt_delay_message *taken;
    uint64_t due = 0;
    must(hwt_delay_take_frontier(store, 1, 0, &taken, &due) == 0);
    return due;
}

static void call(struct player *player)
{
    const struct before *its = &before[player - players];
    const uint64_t due = its->due, other = held_realtime + its->due;
    const hwt_delay_message later = message_of(&other);
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP, .due = due, .mark = mark };
    switch (player->operation) {
    case PUT:
        put(due);
        break;
    case CANCEL:
        must(hwt_delay_cancel(store, due, &due, sizeof(due)) == 0);
        break;
    case REPLACE:
        must(hwt_delay_replace(store, due, &due, sizeof(due), &later) == 0);
        break;
    case DONE:
        must(hwt_delay_done(store, &its->lease, 1) == 1);
        break;
    case RETRY:
        must(hwt_delay_retry(store, its->lease, other) == 0);
        break;
    default:
        must(hwt_delay_apply(store, &drop, 1, NULL) == 0);
        break;
    }
}

static void open_store(void)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = 8192;
    options.memory = 1 << 20;
    options.segment_size = 1 << 17;
    disk = disk_new();
    held_realtime = HWT_SEC(1000);
    held_boottime = HWT_SEC(100);
    held_start(&process, disk);
    must(hwt_delay_open_on("store", &options, &process.system, false, &store) == 0);
}

static void close_store(void)
{
    must(hwt_delay_close(store) == 0);
    process_end(&process);
    disk_free(disk);
}

/* What the player's call ends: pending, or leased where it ends a lease. */
static void prepare(unsigned player, int operation, uint64_t due)
{
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    const hwt_delay_message message = message_of(&due);
    hwt_delay_change change = { .op = HWT_DELAY_OP_PUT, .message = &message };
    before[player] = (struct before){ .due = due };
    if (operation == PUT)
        return;
    must(hwt_delay_apply(store, &change, 1, &batch) == 0);
    mark = batch.mark;
    if (operation == DONE || operation == RETRY || operation == DROP)
        before[player].lease = take();
}

/* A frame has a write and a flush, and each has a point before it and one behind it. */
enum { POINTS = 4 };

/* A drop may end whatever is due before its time. */
static uint64_t held_down_by(unsigned player, int operation)
{
    return operation == DROP ? 0 : before[player].due;
}

START_TEST(a_frame_that_is_written_holds_it_down)
{
    const int operation = _i / POINTS;
    open_store();
    prepare(0, operation, FIRST);
    player_begin(&players[0], call, operation, 1 + (uint64_t)(_i % POINTS));
    must(player_await(&players[0], false) == STANDS);
    ck_assert_uint_eq(frontier(), held_down_by(0, operation));
    player_end(&players[0]);
    if (operation == PUT)
        take();
    ck_assert_uint_eq(frontier(), held_realtime + 1);
    close_store();
}
END_TEST

/* Both orders of the due times, so that neither frame alone is right. */
START_TEST(so_does_the_frame_that_is_gathered_behind_it)
{
    const int operation = _i / 2;
    const uint64_t first = _i % 2 ? SECOND : FIRST, second = _i % 2 ? FIRST : SECOND;
    open_store();
    prepare(0, DONE, first);
    prepare(1, operation, second);
    player_begin(&players[0], call, DONE, 1);
    must(player_await(&players[0], false) == STANDS);
    player_begin(&players[1], call, operation, 1);
    must(player_await(&players[1], true) == WAITS);
    uint64_t behind = held_down_by(1, operation);
    ck_assert_uint_eq(frontier(), behind < first ? behind : first);
    player_end(&players[0]);
    must(player_await(&players[1], false) == STANDS);
    ck_assert_uint_eq(frontier(), behind);
    player_end(&players[1]);
    if (operation == PUT)
        take();
    ck_assert_uint_eq(frontier(), held_realtime + 1);
    close_store();
}
END_TEST

/* An end counts no more once its frame is on the disk, whatever comes behind it. */
START_TEST(what_is_on_the_disk_holds_nothing_down)
{
    open_store();
    prepare(0, DONE, FIRST);
    must(hwt_delay_done(store, &before[0].lease, 1) == 1);
    prepare(0, DONE, SECOND);
    prepare(1, DONE, LATER);
    must(hwt_delay_done(store, &before[0].lease, 1) == 1);
    player_begin(&players[1], call, DONE, 1);
    must(player_await(&players[1], false) == STANDS);
    ck_assert_uint_eq(frontier(), LATER);
    player_end(&players[1]);
    close_store();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_frontier");
    TCase *tcase = tcase_create("frontier");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, a_frame_that_is_written_holds_it_down, 0, CALLS * POINTS);
    tcase_add_loop_test(tcase, so_does_the_frame_that_is_gathered_behind_it, 0, CALLS * 2);
    tcase_add_test(tcase, what_is_on_the_disk_holds_nothing_down);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
