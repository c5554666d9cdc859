/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Who waits for a frame, who leads, and who lingers for whom. No time decides: a leader that lingers does so until it is told
 * to go on, or not at all.
 */

#include <errno.h>

#include "hwt/delay/whole.h"
#include "kit.h"
#include "stress.h"
#include "tests/delay/support/leading.h"

enum { PLAYERS = 3, ROUNDS = 20 };

/* ---- what players do ---- */

static void put_large(struct player *player)
{
    player->operation = put_some(3, PAYLOAD);
}

static _Atomic unsigned hurries;

void __real_hwt_delay_log_hurry(hwt_delay *of);
void __wrap_hwt_delay_log_hurry(hwt_delay *of);

void __wrap_hwt_delay_log_hurry(hwt_delay *of)
{
    hurries++;
    __real_hwt_delay_log_hurry(of);
}

/* No room in the frame. Comes again if it gave up before it saw that, because a job had the lock. */
static void try_large(struct player *player)
{
    static const char payload[PAYLOAD];
    static const char *const ids[] = { "1", "2", "3" };
    hwt_delay_message messages[3];
    for (int i = 0; i < 3; i++)
        messages[i] = (hwt_delay_message){ .due = HWT_SEC(2000),
                                           .id = ids[i],
                                           .id_size = 1,
                                           .payload = payload,
                                           .payload_size = PAYLOAD };
    const unsigned before = hurries;
    do {
        player->operation = hwt_delay_put_async(store, messages, 3, (hwt_delay_durable)abort, NULL);
    } while (player->operation == -EAGAIN && hurries == before);
}

static void make_checkpoint(struct player *player)
{
    must(pthread_mutex_lock(&store->lock) == 0);
    player->operation = hwt_delay_checkpoint_make(store);
    must(pthread_mutex_unlock(&store->lock) == 0);
}

/* ---- a frame of several ---- */

static struct player *await_leader(struct player *players)
{
    for (;; sched_yield()) {
        for (int i = 0; i < PLAYERS; i++) {
            ck_assert_int_ne(player_await(&players[i], true), RETURNED);
            if (player_await(&players[i], true) == STANDS)
                return &players[i];
        }
    }
}

/* One of those that wait for a frame leads it, and the sync answers for all of them. */
START_TEST(all_of_a_frame_wait_for_its_sync)
{
    struct player first, players[PLAYERS];
    int expected = _i % 2 == 0 ? 0 : -EIO;
    leader = GOES_ON;
    begin();
    do_part(put, 0);
    begin_at_sync(&first, false);
    must(player_await(&first, false) == STANDS);
    ck_assert_str_eq(first.point, "before a sync");
    for (int i = 0; i < PLAYERS; i++) {
        begin_at_sync(&players[i], true);
        must(player_await(&players[i], true) == WAITS);
    }
    player_end(&first);
    ck_assert_int_eq(first.operation, 0);
    struct player *leads = await_leader(players);
    ck_assert_str_eq(leads->point, "before a sync");
    for (int i = 0; i < PLAYERS; i++)
        ck_assert_int_eq(player_await(&players[i], true), &players[i] == leads ? STANDS : WAITS);
    if (expected < 0)
        held_fail(&process, DISK_SYNC);
    player_let_go(leads);
    for (int i = 0; i < PLAYERS; i++) {
        player_end(&players[i]);
        ck_assert_int_eq(players[i].operation, expected);
    }
    ck_assert_uint_eq(commits(), 3);
    end(expected);
}
END_TEST

/* Nobody will lead the next frame: all that wait for it are told. */
START_TEST(a_failed_sync_is_told_to_those_of_the_next_frame)
{
    struct player first, players[PLAYERS];
    leader = GOES_ON;
    begin();
    do_part(put, 0);
    begin_at_sync(&first, false);
    must(player_await(&first, false) == STANDS);
    for (int i = 0; i < PLAYERS; i++) {
        player_begin(&players[i], put, 0, 0);
        must(player_await(&players[i], true) == WAITS);
    }
    held_fail(&process, DISK_SYNC);
    player_end(&first);
    ck_assert_int_eq(first.operation, -EIO);
    for (int i = 0; i < PLAYERS; i++) {
        player_end(&players[i]);
        ck_assert_int_eq(players[i].operation, -EIO);
    }
    end(-EIO);
}
END_TEST

/* The frame that it has seen being written is done before it sleeps: it does not sleep through that. */
START_TEST(one_that_is_about_to_sleep_leads)
{
    struct player first, second;
    leader = GOES_ON;
    begin();
    do_part(put, 0);
    begin_at_sync(&first, false);
    must(player_await(&first, false) == STANDS);
    player_begin(&second, put, 0, 1);
    must(player_await(&second, false) == STANDS);
    ck_assert_str_eq(second.point, "before it sleeps");
    player_end(&first);
    player_end(&second);
    ck_assert_int_eq(first.operation, 0);
    ck_assert_int_eq(second.operation, 0);
    ck_assert_uint_eq(commits(), 3);
    end(0);
}
END_TEST

/* So many are ended in parts, and only the first one is held. */
START_TEST(leases_that_are_ended_wait_for_the_frame_of_those_that_were_held)
{
    const hwt_delay_message due = { .due = HWT_SEC(500), .id = "due", .id_size = 3 };
    const hwt_delay_message *taken;
    uint64_t leases[1000];
    leader = GOES_ON;
    begin();
    ck_assert_int_eq(hwt_delay_put(store, &due, 1), 0);
    ck_assert_int_eq(hwt_delay_take(store, 1, 0, &taken), 1);
    for (int i = 0; i < 1000; i++)
        leases[i] = taken->lease + (uint64_t)i;
    hwt_delay_free(taken);
    ck_assert_uint_eq(commits(), 1);
    ck_assert_int_eq(hwt_delay_done(store, leases, 1000), 1);
    ck_assert_uint_eq(commits(), 2);
    end(0);
}
END_TEST

/* ---- lingering ---- */

static void put_rounds(struct player *player)
{
    for (int i = 0; i < ROUNDS && player->operation == 0; i++)
        player->operation = put_some(1, 10);
    /* It does not come back: nobody lingers for it. */
    pthread_mutex_lock(&store->lock);
    leader = GOES_ON;
    hwt_delay_log_hurry(store);
    pthread_mutex_unlock(&store->lock);
}

/* From the first frame on that both waited for, each frame has both. */
START_TEST(a_leader_lingers_for_those_that_come_back)
{
    struct player players[2];
    begin();
    leader = GOES_ON;
    do_part(put, 0);
    leader = LINGERS;
    player_begin(&players[0], put_rounds, 0, 3);
    must(player_await(&players[0], false) == STANDS);
    player_begin(&players[1], put_rounds, 0, 0);
    must(player_await(&players[1], true) == WAITS);
    for (int i = 0; i < 2; i++) {
        player_end(&players[i]);
        ck_assert_int_eq(players[i].operation, 0);
    }
    ck_assert_uint_eq(commits(), 1 + 1 + (ROUNDS - 1) + 1);
    end(0);
}
END_TEST

/* Once, then after 3, 15, 63, 255 and each 255 frames more. It is worth it again: after half as many. */
START_TEST(what_was_in_vain_is_seldom_done_again)
{
    struct player lingering;
    begin();
    leader = GOES_ON;
    for (int i = 0; i < 1000; i++) {
        expect_callers(2);
        do_part(put, 0);
    }
    ck_assert_uint_eq(lingered, 7);
    do_part(put, 0);
    leader = LINGERS;
    for (unsigned before = lingered; lingered == before;) {
        expect_callers(2);
        player_begin(&lingering, put, 0, 0);
        if (player_await(&lingering, true) == WAITS)
            do_part(put, 0);
        player_end(&lingering);
    }
    for (int i = 0; i < 127; i++) {
        expect_callers(2);
        do_part(put, 0);
    }
    ck_assert_uint_eq(lingered, 8);
    end(0);
}
END_TEST

/* Nobody lingers alone: one producer never does. */
START_TEST(one_producer_does_not_linger)
{
    begin();
    leader = LINGERS;
    for (int i = 0; i < 100; i++)
        do_part(put, 0);
    ck_assert_uint_eq(lingered, 0);
    end(0);
}
END_TEST

/* Whoever needs the frame has it written: who has no room in it, a checkpoint, those who are complete. */
START_TEST(a_leader_does_not_linger_when_others_wait)
{
    static const struct {
        void (*part)(struct player *player);
        int result, lingering;
    } others[] = {
        { put, 0, 0 },
        { put_large, 0, 0 },
        { try_large, -EAGAIN, 0 },
        { make_checkpoint, 0, 0 },
        { fail_to_grow, -EIO, -EIO },
    };
    struct player lingering, other;
    begin();
    leader = GOES_ON;
    do_part(put, 0);
    leader = LINGERS;
    expect_callers(2);
    player_begin(&lingering, others[_i].part == put ? put : put_large, 0, 0);
    must(player_await(&lingering, true) == WAITS);
    ck_assert_uint_eq(lingered, 1);
    player_begin(&other, others[_i].part, 0, 0);
    player_end(&other);
    player_end(&lingering);
    ck_assert_int_eq(other.operation, others[_i].result);
    ck_assert_int_eq(lingering.operation, others[_i].lingering);
    end(others[_i].lingering);
}
END_TEST

/* ---- for how long a leader lingers ---- */

static void expect_lingering(uint64_t flush_took, uint64_t most)
{
    pthread_mutex_lock(&store->lock);
    store->log.expected = 2;
    store->log.vain = store->log.hasty = 0;
    store->log.flush_took = flush_took;
    pthread_mutex_unlock(&store->lock);
    const unsigned lingered_before = lingered;
    const uint64_t before = hwt_delay_monotonic();
    do_part(put, 0);
    const uint64_t behind = hwt_delay_monotonic();
    ck_assert_uint_eq(lingered, lingered_before + 1);
    ck_assert_uint_ge(lingers_until, before + most);
    ck_assert_uint_le(lingers_until, behind + most);
}

/* With the write before it. */
START_TEST(how_long_a_flush_took_is_what_the_next_leader_goes_by)
{
    struct player first;
    leader = GOES_ON;
    begin();
    do_part(put, 0);
    const uint64_t before = hwt_delay_monotonic();
    begin_at_sync(&first, false);
    must(player_await(&first, false) == STANDS);
    const uint64_t begun = hwt_delay_monotonic();
    uint64_t end_begins;
    while ((end_begins = hwt_delay_monotonic()) == begun)
        continue;
    player_end(&first);
    ck_assert_int_eq(first.operation, 0);
    const uint64_t behind = hwt_delay_monotonic();
    ck_assert_uint_ge(store->log.flush_took, end_begins - begun);
    ck_assert_uint_le(store->log.flush_took, behind - before);
    end(0);
}
END_TEST

START_TEST(a_leader_lingers_for_four_flushes_and_a_millisecond_at_most)
{
    leader = GOES_ON;
    begin();
    do_part(put, 0);
    expect_lingering(0, 0);
    expect_lingering(HWT_US(1), HWT_US(4));
    expect_lingering(HWT_US(100), HWT_US(400));
    expect_lingering(HWT_US(249), HWT_US(996));
    expect_lingering(HWT_US(251), HWT_MS(1));
    expect_lingering(HWT_SEC(100), HWT_MS(1));
    end(0);
}
END_TEST

/* ---- as they like ---- */

enum { THREADS = 8, CALLS = TEST_SANITIZED ? 150 : 600 };

static int64_t (*write_inner)(void *data, int file, const void *bytes, size_t size,
                              uint64_t offset);
static int (*sync_inner)(void *data, int file);
static _Thread_local uint64_t begun, behind; /* the records of the frame that this thread writes */
/* Of each record, by its sequence. The leader writes it, and then only whoever was answered reads it. */
static bool synced[2 * THREADS * CALLS];
static pthread_barrier_t start; /* all call at once */

static int64_t write_noted(void *data, int file, const void *bytes, size_t size, uint64_t offset)
{
    const unsigned char *head = bytes;
    if (size >= HWT_DELAY_FRAME_SIZE &&
        hwt_delay_get32(head + HWT_DELAY_HEAD_MAGIC) == HWT_DELAY_MAGIC_FRAME) {
        begun = hwt_delay_get64(head + HWT_DELAY_FRAME_SEQUENCE);
        behind = begun + hwt_delay_get32(head + HWT_DELAY_FRAME_COUNT);
    }
    return write_inner(data, file, bytes, size, offset);
}

static int sync_noted(void *data, int file)
{
    sched_yield(); /* others come to wait for it */
    int r = sync_inner(data, file);
    for (; begun < behind && r == 0; begun++)
        synced[begun] = true;
    return r;
}

static void *call(void *arg)
{
    const unsigned number = *(unsigned *)arg;
    static const char payload[PAYLOAD];
    pthread_barrier_wait(&start);
    for (unsigned i = 0; i < CALLS; i++) {
        uint64_t id = next_id++;
        const hwt_delay_message message = { .due = HWT_SEC(2000),
                                            .id = &id,
                                            .id_size = sizeof(id),
                                            .payload = payload,
                                            .payload_size = (i + number) % 50 ? 10 : PAYLOAD };
        hwt_delay_change change = { .op = HWT_DELAY_OP_PUT, .message = &message };
        hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
        must(hwt_delay_apply(store, &change, 1, &batch) == 0);
        must(synced[batch.mark]);
    }
    return NULL;
}

/* Checkpoints are made meanwhile. No call returns before the sync that brings its record; all return. */
START_TEST(each_answer_comes_after_its_sync)
{
    pthread_t threads[THREADS];
    unsigned numbers[THREADS];
    begin();
    end(0);
    leader = AS_IT_LIKES;
    disk = disk_new();
    held_start(&process, disk);
    process.random = &luck;
    write_inner = process.system.write;
    sync_inner = process.system.sync;
    process.system.write = write_noted;
    process.system.sync = sync_noted;
    open_store();
    must(pthread_barrier_init(&start, NULL, THREADS) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        threads[i] = spawn(call, &numbers[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        join(threads[i]);
    pthread_barrier_destroy(&start);
    end(0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_leaders");
    TCase *tcase = tcase_create("leaders");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, all_of_a_frame_wait_for_its_sync, 0, 20);
    tcase_add_test(tcase, a_failed_sync_is_told_to_those_of_the_next_frame);
    tcase_add_test(tcase, one_that_is_about_to_sleep_leads);
    tcase_add_test(tcase, leases_that_are_ended_wait_for_the_frame_of_those_that_were_held);
    tcase_add_test(tcase, a_leader_lingers_for_those_that_come_back);
    tcase_add_test(tcase, what_was_in_vain_is_seldom_done_again);
    tcase_add_test(tcase, one_producer_does_not_linger);
    tcase_add_loop_test(tcase, a_leader_does_not_linger_when_others_wait, 0, 5);
    tcase_add_test(tcase, how_long_a_flush_took_is_what_the_next_leader_goes_by);
    tcase_add_test(tcase, a_leader_lingers_for_four_flushes_and_a_millisecond_at_most);
    tcase_add_test(tcase, each_answer_comes_after_its_sync);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    held_sleep_is_a_point = true;
    return run_suite(make_suite());
}
