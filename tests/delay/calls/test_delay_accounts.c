/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Accounts: what the counters say, and what the store itself goes by: how long the log is that a
 * checkpoint has to bring to slots, and how much memory its tombstones would take.
 */

#include <stdlib.h>

#include "tests/delay/support/simulated_one.h"

static size_t files_that_begin(const char *with, uint64_t *ret_bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < s.disk->seen.count; i++) {
        const struct disk_entry *entry = &s.disk->seen.entries[i];
        if (strncmp(entry->name, with, strlen(with)) != 0)
            continue;
        *ret_bytes += entry->file->seen.size;
        count++;
    }
    return count;
}

/* ---- what is late ---- */

/* From the due time or, if that was later, from the put; by powers of two. */
START_TEST(test_lateness)
{
    static const struct {
        int64_t ahead; /* how long before its due time it is put */
        uint64_t late;
        int power;
    } cases[] = { { 1000, 0, 0 }, { 1000, 1, 0 },          { 1000, 2, 1 },
                  { 1000, 3, 1 }, { 1000, 1 << 20, 20 },   { 0, 5, 2 },
                  { -7, 4, 2 },   { -(1 << 30), 1000, 9 }, { -9, 0, 0 } };
    hwt_delay_stats wanted = { 0 };
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t due = s.realtime + (uint64_t)cases[i].ahead;
        put(due, i, 10);
        simulated_advance(&s, (cases[i].ahead > 0 ? (uint64_t)cases[i].ahead : 0) + cases[i].late);
        const uint64_t lease = take_one();
        ck_assert_int_eq(hwt_delay_done(s.store, &lease, 1), 1);
        wanted.lateness[cases[i].power]++;
        wanted.lateness_sum += cases[i].late;
        if (cases[i].late > wanted.lateness_max)
            wanted.lateness_max = cases[i].late;
        hwt_delay_stats stats = simulated_stats(&s);
        ck_assert_mem_eq(stats.lateness, wanted.lateness, sizeof(wanted.lateness));
        ck_assert_uint_eq(stats.lateness_sum, wanted.lateness_sum);
        ck_assert_uint_eq(stats.lateness_max, wanted.lateness_max);
        ck_assert_uint_eq(stats.taken, i + 1);
    }
}
END_TEST

/* One that was put by an earlier process is late from its due time on; one put back, from then on. */
START_TEST(test_lateness_after_a_restart_and_a_retry)
{
    put(s.realtime - 100, 1, 10);
    if (_i == 1)
        checkpoint();
    kill_and_open();
    simulated_advance(&s, 28);
    uint64_t lease = take_one();
    ck_assert_uint_eq(simulated_stats(&s).lateness_max, 128);
    ck_assert_int_eq(hwt_delay_retry(s.store, lease, s.realtime - 1000), 0);
    simulated_advance(&s, 64);
    take_one();
    hwt_delay_stats stats = simulated_stats(&s);
    ck_assert_uint_eq(stats.lateness_sum, 128 + 64);
    ck_assert_uint_eq(stats.lateness[7], 1);
    ck_assert_uint_eq(stats.lateness[6], 1);
}
END_TEST

/* ---- what was done ---- */

/* Leases that have ended, were ended before, or never were, are not counted. */
START_TEST(test_what_is_not_held_is_not_done)
{
    uint64_t leases[4] = { 0, 0, 0, 12345 };
    for (uint32_t i = 0; i < 3; i++) {
        put(s.realtime - 10 + i, i, 10);
        leases[i] = take_one();
    }
    ck_assert_int_eq(hwt_delay_extend(s.store, leases[0], 0), 0);
    ck_assert_int_eq(hwt_delay_done(s.store, leases, 2), 1);
    ck_assert_int_eq(hwt_delay_done(s.store, leases, 4), 1);
    ck_assert_int_eq(hwt_delay_done(s.store, leases, 4), 0);
    ck_assert_int_eq(hwt_delay_retry(s.store, leases[1], s.realtime), -ENOENT);
    ck_assert_int_eq(hwt_delay_extend(s.store, leases[2], 5), -ENOENT);
    hwt_delay_stats stats = simulated_stats(&s);
    ck_assert_uint_eq(stats.done, 2);
    ck_assert_uint_eq(stats.expired, 1);
    ck_assert_uint_eq(stats.retried, 0);
    ck_assert_uint_eq(stats.leased, 0);
    ck_assert_uint_eq(stats.pending, 1);
    leases[0] = take_one();
    ck_assert_int_eq(hwt_delay_retry(s.store, leases[0], s.realtime), 0);
    stats = simulated_stats(&s);
    ck_assert_uint_eq(stats.done, 3);
    ck_assert_uint_eq(stats.retried, 1);
}
END_TEST

/* The number of a message's leases that have ended is told, since the store was opened. */
START_TEST(test_ended_leases_are_told)
{
    const hwt_delay_message *taken;
    put(s.realtime, 1, 10);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
        ck_assert_uint_eq(taken->expired, i);
        hwt_delay_free(taken);
        simulated_advance(&s, s.options.lease - 1);
        ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 0);
        simulated_advance(&s, 1); /* the lease is over at its last instant */
        ck_assert_uint_eq(simulated_stats(&s).expired, i);
    }
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    ck_assert_uint_eq(taken->expired, 3);
    ck_assert_uint_eq(taken->retries, 0);
    hwt_delay_free(taken);
}
END_TEST

/* A put says where the retries begin, and nothing of leases. */
START_TEST(test_what_a_put_says_of_earlier_attempts)
{
    const uint32_t id = 1;
    const hwt_delay_message *taken;
    hwt_delay_message message = {
        .due = s.realtime,
        .id = &id,
        .id_size = sizeof(id),
        .retries = 7,
        .expired = 7,
        .lease = 7,
    };
    if (_i == 0) {
        ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
    } else {
        put(s.realtime - 5, 2, 0);
        const uint32_t other = 2;
        ck_assert_int_eq(
            hwt_delay_replace(s.store, s.realtime - 5, &other, sizeof(other), &message), 0);
    }
    if (_i == 2)
        kill_and_open();
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    ck_assert_uint_eq(taken->retries, 7);
    ck_assert_uint_eq(taken->expired, 0);
    ck_assert_int_eq(hwt_delay_retry(s.store, taken->lease, s.realtime - 1), 0);
    hwt_delay_free(taken);
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    ck_assert_uint_eq(taken->retries, 8);
    hwt_delay_free(taken);
}
END_TEST

/* ---- cancels ---- */

/* The end of a lease is older than what was put in the place of its message: that is there. */
START_TEST(test_a_cancel_after_the_end_of_an_older_lease)
{
    const uint64_t due = s.realtime + HWT_SEC(100);
    const uint32_t id = 1;
    put(due, id, 10);
    checkpoint();
    simulated_advance(&s, HWT_SEC(100));
    const uint64_t lease = take_one();
    put(due, id, 20);
    checkpoint();
    ck_assert_int_eq(hwt_delay_done(s.store, &lease, 1), 1);
    kill_and_open();
    ck_assert_int_eq(hwt_delay_cancel(s.store, due, &id, sizeof(id)), 0);
    ck_assert_int_eq(hwt_delay_cancel(s.store, due, &id, sizeof(id)), -ENOENT);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
    kill_and_open();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
}
END_TEST

/* ---- files and bytes ---- */

/* The last one is done with: its slot goes at once, and not when the log is full. */
START_TEST(test_slots_go_when_nothing_is_pending)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 3; i++)
        put(s.realtime + HWT_SEC(i), i, 10);
    checkpoint();
    ck_assert_uint_gt(files_that_begin("slot-", &bytes), 0);
    simulated_advance(&s, HWT_SEC(1000));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 3);
    ck_assert_uint_eq(simulated_stats(&s).files, 0);
    ck_assert_uint_eq(files_that_begin("slot-", &bytes), 0);
}
END_TEST

/* While something is pending elsewhere they stay until the next checkpoint, or until it is closed. */
START_TEST(test_slots_go_when_the_store_is_closed)
{
    uint64_t bytes = 0;
    put(s.realtime, 1, 10);
    put(s.realtime + HOUR, 2, 10);
    checkpoint();
    ck_assert_uint_eq(files_that_begin("slot-", &bytes), 2);
    simulated_advance(&s, HWT_SEC(100));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 1);
    simulated_close(&s);
    ck_assert_uint_eq(files_that_begin("slot-", &bytes), 1);
}
END_TEST

static void expect_sizes(void)
{
    hwt_delay_stats stats = simulated_stats(&s);
    uint64_t bytes = 0, slots = 0;
    files_that_begin("log.", &bytes);
    files_that_begin("store", &bytes);
    files_that_begin("reserve", &bytes);
    ck_assert_uint_eq(stats.files, files_that_begin("slot-", &slots));
    ck_assert_uint_eq(stats.disk, bytes + slots);
}

START_TEST(test_disk_and_files)
{
    expect_sizes();
    for (uint32_t i = 0; i < 200; i++)
        put(s.realtime + i * HWT_SEC(10), i, 500);
    checkpoint();
    expect_sizes();
    simulated_advance(&s, HWT_SEC(1000));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 101);
    expect_sizes();
    checkpoint();
    expect_sizes();
    kill_and_open();
    expect_sizes();
    /* A full disk takes the reserve. */
    s.disk->capacity = disk_size(s.disk);
    int r = 0;
    for (uint32_t i = 200; r == 0; i++)
        r = simulated_put(&s, s.realtime + HOUR, i, 500);
    ck_assert_int_eq(r, -ENOSPC);
    ck_assert_uint_eq(simulated_stats(&s).full, 1);
    expect_sizes();
}
END_TEST

/* The sum of all "... records" of a dump. */
static uint64_t records_in_slots(void)
{
    static char text[100000];
    uint64_t sum = 0;
    ck_assert_int_lt(hwt_delay_dump(s.store, text, sizeof(text)), (int)sizeof(text));
    for (char *line = strstr(text, "slot-"); line; line = strstr(line + 1, "slot-")) {
        char *bytes = strstr(line, " bytes, ");
        ck_assert_ptr_nonnull(bytes);
        sum += strtoull(bytes + strlen(" bytes, "), NULL, 10);
    }
    return sum;
}

START_TEST(test_records)
{
    const uint32_t gone = 3;
    for (uint32_t i = 0; i < 10; i++)
        put(s.realtime + HOUR, i, 10);
    checkpoint();
    ck_assert_uint_eq(records_in_slots(), 10);
    for (uint32_t i = 10; i < 15; i++)
        put(s.realtime + HOUR, i, 10);
    ck_assert_int_eq(hwt_delay_cancel(s.store, s.realtime + HOUR, &gone, sizeof(gone)), 0);
    kill_and_open();
    ck_assert_uint_eq(simulated_stats(&s).replayed, 6);
    ck_assert_uint_eq(records_in_slots(), 10);
    checkpoint();
    ck_assert_uint_eq(records_in_slots(), 16);
    kill_and_open();
    ck_assert_uint_eq(records_in_slots(), 16);
    ck_assert_uint_eq(simulated_stats(&s).replayed, 0);
}
END_TEST

START_TEST(test_writes)
{
    uint64_t slots = 0, checkpoints = 0;
    const hwt_delay_stats before = simulated_stats(&s);
    uint64_t syncs = s.process.by_kind[DISK_SYNC] + s.process.by_kind[DISK_SYNC_DIRECTORY];
    for (uint32_t i = 0; i < 10; i++)
        put(s.realtime + HOUR, i, 10);
    hwt_delay_stats stats = simulated_stats(&s);
    ck_assert_uint_eq(stats.commits, before.commits + 10);
    ck_assert_uint_eq(stats.put, 10);
    ck_assert_uint_eq(stats.slot_bytes, before.slot_bytes);
    checkpoint();
    stats = simulated_stats(&s);
    files_that_begin("slot-", &slots);
    files_that_begin("checkpoint", &checkpoints);
    ck_assert_uint_ge(stats.slot_bytes - before.slot_bytes, slots + 1);
    ck_assert_uint_le(stats.slot_bytes - before.slot_bytes, slots + checkpoints);
    ck_assert_uint_eq(stats.checkpoints, before.checkpoints + 1);
    syncs = s.process.by_kind[DISK_SYNC] + s.process.by_kind[DISK_SYNC_DIRECTORY] - syncs;
    ck_assert_uint_eq(stats.syncs, before.syncs + syncs);
}
END_TEST

/* ---- what the store goes by ---- */

/*
 * The store is killed again and again before the log is long enough for a checkpoint. The disk gets
 * full: what the log has finds room in the reserve, and there is room to cancel all of it.
 */
START_TEST(test_the_length_of_a_log_that_was_read)
{
    const uint64_t due = s.realtime + HOUR;
    uint32_t n = 0;
    for (int i = 0; i < 6; i++) {
        /* Less than a half of a segment. */
        uint64_t bytes = simulated_stats(&s).log_bytes;
        while (simulated_stats(&s).log_bytes - bytes < 15000)
            put(due, n++, 400);
        kill_and_open();
    }
    s.disk->capacity = disk_size(s.disk);
    int r = 0;
    while (r == 0)
        r = simulated_put(&s, due, n++, 400);
    n--;
    ck_assert_int_eq(r, -ENOSPC);
    for (uint32_t i = 0; i < n; i++)
        cancel(due, i);
    kill_and_open();
    simulated_advance(&s, 2 * HOUR);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
}
END_TEST

/* A long log is brought to slots by the first calls after it was read. */
START_TEST(test_a_long_log_is_shortened_after_it_was_read)
{
    uint32_t n = 0;
    while (simulated_stats(&s).log_bytes < 15000)
        put(s.realtime + HOUR, n++, 400);
    ck_assert_uint_eq(simulated_stats(&s).checkpoints, 0);
    kill_and_open();
    while (simulated_stats(&s).log_bytes < 10000)
        put(s.realtime + HOUR, n++, 400);
    ck_assert_uint_gt(simulated_stats(&s).checkpoints, 0);
}
END_TEST

static void open_with_a_long_log(void)
{
    simulated_close(&s);
    disk_free(s.disk);
    s.disk = disk_new();
    s.options.segment_size = 16 << 20;
    simulated_open(&s);
}

/*
 * Tombstones take memory when the log is read: what was cancelled, or done with, is brought to slots
 * before that is more than options.memory allows, though the log has room for much more.
 */
START_TEST(test_the_memory_of_tombstones)
{
    enum { MANY = 4000 };
    const uint64_t due = s.realtime + HOUR;
    open_with_a_long_log();
    for (uint32_t i = 0; i < MANY; i++)
        put(due, i, 0);
    checkpoint();
    uint64_t before = simulated_stats(&s).checkpoints;
    if (_i == 0) {
        for (uint32_t i = 0; i < MANY; i++)
            cancel(due, i);
    } else {
        simulated_advance(&s, HOUR);
        ck_assert_int_eq(simulated_deliver(&s, MANY - 1, NULL), MANY - 1);
    }
    ck_assert_uint_gt(simulated_stats(&s).checkpoints, before + 1);
    kill_and_open();
    ck_assert_uint_le(simulated_stats(&s).memory, s.options.memory / 2);
}
END_TEST

/* Those that opening has read count, too. */
START_TEST(test_the_memory_of_tombstones_that_were_read)
{
    enum { MANY = 4000 };
    const uint64_t due = s.realtime + HOUR;
    open_with_a_long_log();
    for (uint32_t i = 0; i < MANY; i++)
        put(due, i, 0);
    checkpoint();
    for (uint32_t i = 0; i < MANY; i++) {
        cancel(due, i);
        if (i % 500 == 499)
            kill_and_open();
        ck_assert_uint_le(simulated_stats(&s).memory, s.options.memory / 2);
    }
}
END_TEST

/* Refused messages are counted, each of a batch. */
START_TEST(test_rejected)
{
    const uint64_t due = s.realtime + HOUR;
    const uint32_t ids[] = { 5000, 5001, 5002 };
    hwt_delay_message messages[3];
    for (int i = 0; i < 3; i++)
        messages[i] = (hwt_delay_message){ .due = due, .id = &ids[i], .id_size = 4 };
    s.disk->capacity = disk_size(s.disk);
    uint32_t n = 0;
    while (simulated_put(&s, due, n, 4000) == 0)
        n++;
    ck_assert_uint_eq(simulated_stats(&s).rejected, 1);
    ck_assert_int_eq(hwt_delay_put(s.store, messages, 3), -ENOSPC);
    ck_assert_uint_eq(simulated_stats(&s).rejected, 4);
    const uint32_t first = 0;
    ck_assert_int_eq(hwt_delay_replace(s.store, due, &first, sizeof(first), messages), -ENOSPC);
    hwt_delay_stats stats = simulated_stats(&s);
    ck_assert_uint_eq(stats.rejected, 5);
    ck_assert_uint_eq(stats.cancelled, 0);
    ck_assert_uint_eq(stats.put, n);
    ck_assert_uint_eq(stats.pending, n);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_accounts");
    TCase *tcase = tcase_create("accounts");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_lateness);
    tcase_add_loop_test(tcase, test_lateness_after_a_restart_and_a_retry, 0, 2);
    tcase_add_test(tcase, test_what_is_not_held_is_not_done);
    tcase_add_test(tcase, test_ended_leases_are_told);
    tcase_add_loop_test(tcase, test_what_a_put_says_of_earlier_attempts, 0, 3);
    tcase_add_test(tcase, test_a_cancel_after_the_end_of_an_older_lease);
    tcase_add_test(tcase, test_slots_go_when_nothing_is_pending);
    tcase_add_test(tcase, test_slots_go_when_the_store_is_closed);
    tcase_add_test(tcase, test_disk_and_files);
    tcase_add_test(tcase, test_records);
    tcase_add_test(tcase, test_writes);
    tcase_add_test(tcase, test_the_length_of_a_log_that_was_read);
    tcase_add_test(tcase, test_a_long_log_is_shortened_after_it_was_read);
    tcase_add_loop_test(tcase, test_the_memory_of_tombstones, 0, 2);
    tcase_add_test(tcase, test_the_memory_of_tombstones_that_were_read);
    tcase_add_test(tcase, test_rejected);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
