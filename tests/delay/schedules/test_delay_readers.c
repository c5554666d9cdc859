/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Calls that read a store's files beside calls that change them: a check beside checkpoints, a copy
 * beside a put, a load beside a checkpoint that leaves its slot out. One stands at each use of the disk
 * in turn, and the other goes as far as it can.
 */

#include <errno.h>
#include <string.h>

#include "hwt/delay/whole.h"
#include "kit.h"
#include "tests/delay/support/held.h"
#include "tests/delay/support/two_disks.h"

enum { SIZE = 4000, IDS = 16 };

static struct disk *disk, *copied;
static struct process process, copying;
static uint64_t copy_clock, luck;
static hwt_delay *store;
static struct player players[3];

static void open_store(void)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = 8192;
    options.memory = 1 << 20;
    options.segment_size = 1 << 17;
    held_start(&process, disk);
    process.random = &luck;
    const struct hwt_delay_system system = two_disks(&process, &copying);
    must(hwt_delay_open_on("store", &options, &system, true, &store) == 0);
}

static void close_store(int result)
{
    ck_assert_int_eq(hwt_delay_close(store), result);
    process_end(&process);
}

static void setup(void)
{
    disk = disk_new();
    copied = disk_new();
    held_realtime = HWT_SEC(1000);
    held_boottime = HWT_SEC(100);
    process_start(&copying, copied, &copy_clock, &copy_clock);
    open_store();
}

static void teardown(void)
{
    process_end(&copying);
    disk_free(copied);
    disk_free(disk);
}

static int try_put(uint64_t due)
{
    static const unsigned char payload[SIZE];
    const hwt_delay_message message = {
        .due = due,
        .id = &due,
        .id_size = sizeof(due),
        .payload = payload,
        .payload_size = sizeof(payload),
    };
    return hwt_delay_put(store, &message, 1);
}

static void put(uint64_t due)
{
    must(try_put(due) == 0);
}

static void checkpoint(void)
{
    must(hwt_delay_checkpoint(store) == 0);
}

static void take_and_finish(void)
{
    const hwt_delay_message *taken;
    must(hwt_delay_take(store, 1, 0, &taken) == 1);
    must(hwt_delay_done(store, &taken->lease, 1) == 1);
    hwt_delay_free(taken);
}

static hwt_delay_stats stats(void)
{
    hwt_delay_stats its = HWT_DELAY_STATS_INIT;
    must(hwt_delay_get_stats(store, &its) == 0);
    return its;
}

/* ---- a check ---- */

static pthread_mutex_t *watched; /* players have a point behind each unlock of it */

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    int r = __real_pthread_mutex_unlock(mutex);
    if (mutex == watched)
        held_pass("behind an unlock");
    return r;
}

enum { CHECKPOINT, CHECK, CHURN };

/* Slots are made, grow and are deleted, and both segments of the log are written over. */
static void churn(void)
{
    for (uint64_t round = 0; round < 6; round++) {
        for (uint64_t i = 0; i < IDS; i++)
            put(i + 1);
        checkpoint();
        put(IDS + 1);
        checkpoint();
        for (uint64_t i = 0; i <= IDS; i++)
            take_and_finish();
    }
}

static void tell_damage(const hwt_delay_damage *damage, void *data)
{
    (void)data;
    printf("%s: %s at %u\n", damage->file, damage->reason, (unsigned)damage->offset);
}

static void call(struct player *player)
{
    if (player->operation == CHECKPOINT)
        checkpoint();
    else if (player->operation == CHURN)
        churn();
    else
        must(hwt_delay_check(store, tell_damage, NULL) == 0);
}

/* Slots and frames, and what a checkpoint is to write and to delete. */
static void fill(void)
{
    for (uint64_t i = 0; i < IDS; i++)
        put(i + 1);
    put(held_realtime + HWT_MIN(60));
    checkpoint();
    for (uint64_t i = 0; i < IDS; i++)
        take_and_finish();
    put(held_realtime + HWT_MIN(1));
}

static void end_players(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        player_let_go(&players[i]);
    for (unsigned i = 0; i < count; i++)
        player_end(&players[i]);
}

/* False: a check has no such point. */
static bool check_stands(uint64_t point)
{
    setup();
    fill();
    player_begin(&players[0], call, CHECK, point);
    bool stands = player_await(&players[0], false) == STANDS;
    player_begin(&players[1], call, CHURN, 0);
    player_await(&players[1], true);
    end_players(2);
    close_store(0);
    teardown();
    return stands;
}

/* No frame that it has not read yet is written over, and a slot that is deleted meanwhile is not damage. */
START_TEST(a_check_finds_nothing_beside_all_that_a_store_does)
{
    uint64_t points = 0;
    while (check_stands(points + 1))
        points++;
    ck_assert_uint_ge(points, 8);
}
END_TEST

/* False: a checkpoint has no such point. */
static bool checkpoint_stands(uint64_t point)
{
    setup();
    fill();
    player_begin(&players[0], call, CHECKPOINT, point);
    bool stands = player_await(&players[0], false) == STANDS;
    player_begin(&players[1], call, CHECK, 0);
    player_await(&players[1], true);
    player_begin(&players[2], call, CHECKPOINT, 0);
    enum player_state state = player_await(&players[2], true);
    end_players(3);
    if (stands)
        ck_assert_int_eq(state, WAITS);
    close_store(0);
    teardown();
    return stands;
}

/* Neither does it read beside a checkpoint, nor let a second one begin beside that. */
START_TEST(a_check_waits_for_a_checkpoint)
{
    uint64_t points = 0;
    while (checkpoint_stands(points + 1))
        points++;
    ck_assert_uint_ge(points, 8);
}
END_TEST

/* So many that a checkpoint lets go of the lock between two of them. */
static void fill_slot(void)
{
    enum { MANY = HWT_DELAY_CHUNK + 10 };
    static hwt_delay_message messages[MANY];
    static uint16_t ids[MANY];
    for (uint16_t i = 0; i < MANY; i++) {
        ids[i] = i;
        messages[i] = (hwt_delay_message){ .due = 1, .id = &ids[i], .id_size = sizeof(ids[i]) };
    }
    must(hwt_delay_put(store, messages, MANY) == 0);
}

/* The check goes on where the checkpoint stands. False: one of them has no such point. */
static bool both_stand(uint64_t point, uint64_t of_checkpoint, bool *ret_waits)
{
    setup();
    put(1);
    checkpoint();
    fill_slot();
    watched = &store->lock;
    player_begin(&players[0], call, CHECK, point);
    bool stands = player_await(&players[0], false) == STANDS;
    player_begin(&players[1], call, CHECKPOINT, of_checkpoint);
    enum player_state state = player_await(&players[1], true);
    player_let_go(&players[0]);
    player_await(&players[0], true);
    end_players(2);
    watched = NULL;
    close_store(0);
    teardown();
    *ret_waits = state == WAITS;
    return stands && state == STANDS;
}

/* It takes lengths of slots and the number that none of their records has yet from one state. */
START_TEST(a_check_goes_on_within_a_checkpoint)
{
    uint64_t point = 0, schedules = 0, before;
    bool waits;
    do {
        before = schedules;
        waits = false;
        point++;
        for (uint64_t n = 1; both_stand(point, n, &waits); n++)
            schedules++;
    } while (waits || schedules > before);
    ck_assert_uint_ge(point, 10);
    ck_assert_uint_ge(schedules, 40);
}
END_TEST

/* ---- a copy ---- */

static int put_result, copy_result;

static void put_one(struct player *player)
{
    (void)player;
    put_result = try_put(1);
}

static void copy(struct player *player)
{
    (void)player;
    copy_result = hwt_delay_copy(store, "copy");
}

static void expect_in_copy(uint64_t pending)
{
    hwt_delay *its;
    hwt_delay_stats found = HWT_DELAY_STATS_INIT;
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    must(hwt_delay_open_on("copy", &options, &copying.system, true, &its) == 0);
    must(hwt_delay_get_stats(its, &found) == 0);
    ck_assert_uint_eq(found.pending, pending);
    ck_assert_uint_eq(found.cut, 0);
    must(hwt_delay_check(its, tell_damage, NULL) == 0);
    must(hwt_delay_close(its) == 0);
}

/* False: a put has no such point. */
static bool put_stands(uint64_t point, bool fails)
{
    setup();
    player_begin(&players[0], put_one, 0, point);
    bool stands = player_await(&players[0], false) == STANDS;
    if (stands && fails)
        held_fail(&process, DISK_SYNC);
    player_begin(&players[1], copy, 0, 0);
    enum player_state state = player_await(&players[1], true);
    end_players(2);
    if (stands)
        ck_assert_int_eq(state, WAITS);
    ck_assert_int_eq(copy_result, put_result);
    if (put_result == 0)
        expect_in_copy(1);
    else
        ck_assert_uint_eq(copied->seen.count, 0);
    close_store(put_result);
    teardown();
    return stands;
}

/* A copy ends between two frames, and there is none of a store whose flush has failed meanwhile. */
START_TEST(a_copy_waits_for_the_frame_that_is_written)
{
    uint64_t points = 0;
    while (put_stands(points + 1, false))
        points++;
    ck_assert_uint_ge(points, 4);
    unsigned failed = 0;
    for (uint64_t point = 1; point <= points; point++) {
        put_stands(point, true);
        failed += put_result == -EIO;
    }
    ck_assert_uint_ge(failed, 2);
}
END_TEST

/* So much that the last frame is behind where the log ended. */
static void grow_the_log(void *arg, enum disk_call call, const char *name)
{
    uint64_t before = hwt_delay_log_extent(store);
    (void)arg, (void)call;
    if (strcmp(name, "log.1") != 0)
        return;
    copying.changed = NULL;
    for (uint64_t i = 2; hwt_delay_log_end(store).offset <= before; i++)
        put(i);
    must(stats().checkpoints == 0);
}

/* It has made the files of the log by then. */
START_TEST(a_copy_of_a_log_that_becomes_longer_meanwhile)
{
    setup();
    put(1);
    copying.changed = grow_the_log;
    must(hwt_delay_copy(store, "copy") == 0);
    must(copying.changed == NULL);
    ck_assert_uint_gt(stats().pending, 1);
    expect_in_copy(stats().pending);
    close_store(0);
    teardown();
}
END_TEST

/* ---- a load ---- */

static void take_any(struct player *player)
{
    const hwt_delay_message *taken;
    (void)player;
    int64_t n = hwt_delay_take(store, 1, 0, &taken);
    must(n >= 0);
    if (n > 0)
        hwt_delay_free(taken);
}

/* The last slot goes with it, so it makes a checkpoint. */
static void drop_all(struct player *player)
{
    (void)player;
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.note = "";
    must(hwt_delay_apply(store, NULL, 0, &batch) == 0);
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP, .due = held_realtime, .mark = batch.mark };
    must(hwt_delay_apply(store, &drop, 1, NULL) == 0);
}

/* The store still knows when it has nothing: the last slot goes by itself. */
static void expect_to_be_emptied(void)
{
    put(1);
    checkpoint();
    ck_assert_uint_eq(stats().files, 1);
    take_and_finish();
    ck_assert_uint_eq(stats().files, 0);
    ck_assert_uint_eq(stats().pending, 0);
}

/* False: a take has no such point. */
static bool load_stands(uint64_t point)
{
    setup();
    put(1);
    checkpoint();
    close_store(0);
    open_store(); /* nothing is loaded */
    player_begin(&players[0], take_any, 0, point);
    bool stands = player_await(&players[0], false) == STANDS;
    player_begin(&players[1], drop_all, 0, 0);
    player_await(&players[1], true);
    player_begin(&players[2], call, CHECKPOINT, 0);
    player_await(&players[2], true);
    end_players(3);
    ck_assert_uint_eq(stats().files, 0);
    expect_to_be_emptied();
    close_store(0);
    teardown();
    return stands;
}

/* A checkpoint leaves out the slot that a load reads, because all in it is under a drop. */
START_TEST(a_slot_that_is_dropped_while_it_is_read)
{
    uint64_t points = 0;
    while (load_stands(points + 1))
        points++;
    ck_assert_uint_ge(points, 4);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_readers");
    TCase *tcase = tcase_create("readers");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_check_finds_nothing_beside_all_that_a_store_does);
    tcase_add_test(tcase, a_check_waits_for_a_checkpoint);
    tcase_add_test(tcase, a_check_goes_on_within_a_checkpoint);
    tcase_add_test(tcase, a_copy_waits_for_the_frame_that_is_written);
    tcase_add_test(tcase, a_copy_of_a_log_that_becomes_longer_meanwhile);
    tcase_add_test(tcase, a_slot_that_is_dropped_while_it_is_read);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
