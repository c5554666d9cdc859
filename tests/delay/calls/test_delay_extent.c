/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How much disk the log takes: little at first, more while it is used, little again at the end. */

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/delay/support/extent_fixture.h"

static void assert_extent(uint64_t extent)
{
    ck_assert_uint_eq(length_of("log.0"), extent);
    ck_assert_uint_eq(length_of("log.1"), extent);
    ck_assert_uint_eq(length_of("reserve"), extent);
    ck_assert_uint_le(simulated_stats(&s).disk - simulated_stats(&s).slot_bytes, 3 * extent + 64);
}

static void expect(uint32_t count)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), count);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_uint_eq(counts[i], 1);
}

static void reopen(bool killed)
{
    if (killed)
        simulated_kill(&s);
    else
        simulated_close(&s);
    simulated_open(&s);
}

/* Also on a file system that sets no room aside. */
START_TEST(a_log_doubles_before_a_checkpoint_is_made)
{
    uint64_t extent = 40 << 10;
    uint32_t count = 0;
    simulated_close(&s);
    disk_free(s.disk);
    s.disk = disk_new();
    s.disk->cannot_allocate = _i == 1;
    simulated_open(&s);
    assert_extent(extent);
    while (extent < MOST) {
        for (; simulated_stats(&s).log_bytes < extent / 2; count++)
            put_some(count, count + 1, s.realtime);
        extent = 2 * extent < MOST ? 2 * extent : MOST;
        assert_extent(extent);
    }
    ck_assert_uint_eq(simulated_stats(&s).checkpoints, 0);
    reopen(true);
    assert_extent(MOST);
    expect(count);
}
END_TEST

START_TEST(a_long_record_finds_room_in_a_new_store)
{
    static char payload[256 << 10];
    simulated_free(&s);
    simulated_new(&s);
    s.options.segment_size = 3 << 20;
    s.options.payload_max = sizeof(payload);
    s.options.memory = 16 << 20;
    simulated_open(&s);
    const hwt_delay_message message = { .due = s.realtime,
                                        .id = "id",
                                        .id_size = 2,
                                        .payload = payload,
                                        .payload_size = sizeof(payload) };
    ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
    reopen(true);
    ck_assert_uint_eq(simulated_stats(&s).pending, 1);
}
END_TEST

/* The job that would be run a while later is run here. */
START_TEST(what_is_empty_gives_its_disk_back_when_it_has_been_quiet)
{
    const uint64_t extent = 640 << 10;
    uint32_t count = put_until(extent);
    expect(count);
    assert_extent(extent); /* it may be used so again at once */
    ck_assert_uint_eq(hwt_delay_checkpointer(s.store), HWT_DELAY_QUIET);
    put_some(0, 1, s.realtime);
    expect(1);
    ck_assert_uint_eq(hwt_delay_checkpointer(s.store), HWT_DELAY_QUIET);
    assert_extent(extent); /* it was used */
    uint64_t next = HWT_DELAY_QUIET;
    for (int i = 0; i < 3 && next != HWT_NEVER; i++)
        next = hwt_delay_checkpointer(s.store);
    ck_assert_uint_eq(next, HWT_NEVER);
    assert_extent(40 << 10);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_uint_le(s.store->log.ground[i], 40 << 10);
    reopen(_i);
    assert_extent(40 << 10);
    count = put_until(extent);
    reopen(_i);
    expect(count);
}
END_TEST

static void put_meanwhile(void *arg, enum disk_call call, const char *name)
{
    (void)name;
    if (call != DISK_RENAME)
        return;
    s.process.changed = NULL;
    put_some(0, *(uint32_t *)arg, s.realtime);
}

/* The checkpoint with which it would become shorter is on the disk: what comes then is behind the new end. */
START_TEST(what_is_put_while_it_becomes_shorter_stays)
{
    uint32_t number = 20;
    expect(put_until(640 << 10));
    s.process.changed = put_meanwhile;
    s.process.changed_arg = &number;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert(!s.process.changed);
    reopen(true);
    expect(20);
}
END_TEST

/* It becomes shorter if half of what is left of it is enough for what is put meanwhile, with the ends of that. */
START_TEST(half_of_a_log_that_becomes_shorter_is_free)
{
    uint32_t number = _i == 0 ? 2 : 6; /* of 4000 bytes each, in 40 KiB */
    const uint64_t extent = 640 << 10;
    expect(put_until(extent));
    s.process.changed = put_meanwhile;
    s.process.changed_arg = &number;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    assert_extent(_i == 0 ? 40 << 10 : extent);
    expect(number);
}
END_TEST

/* A put that could be made can be cancelled, whatever the length of the log is when the disk is full. */
START_TEST(on_a_full_disk_there_is_room_for_all_cancels)
{
    uint64_t due = s.realtime + HWT_SEC(100);
    uint32_t count = 0;
    int r = 0;
    for (; length_of("log.0") < UINT64_C(40) << (10 + _i); count++)
        ck_assert_int_eq(simulated_put(&s, due, count, 10), 0);
    s.disk->capacity = disk_size(s.disk) + 100;
    while ((r = simulated_put(&s, due, count, 10)) == 0)
        count++;
    ck_assert_int_eq(r, -ENOSPC);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_int_eq(hwt_delay_cancel(s.store, due, &i, sizeof(i)), 0);
    reopen(true);
    simulated_advance(&s, HWT_SEC(200));
    expect(0);
    s.disk->capacity = UINT64_MAX;
    hwt_delay_checkpoint(s.store);
    put_some(0, 100, s.realtime);
    expect(100);
}
END_TEST

/* From message `count` on; returns the next one. */
static uint32_t put_until_no_room_can_be_set_aside(uint32_t count, uint64_t due)
{
    s.process.fail_with = -ENOSPC;
    s.process.fail_only = 1 << DISK_ALLOCATE;
    s.process.fail_at = s.process.calls + 1;
    s.process.fail_count = 1;
    while (s.process.calls < s.process.fail_at)
        put_some(count, count + 1, due), count++;
    s.process.fail_with = 0;
    return count;
}

/* There was no room once. A checkpoint may have made some, so it is tried again. */
START_TEST(a_log_that_could_not_become_longer_does_after_a_checkpoint)
{
    const uint64_t extent = 40 << 10, due = s.realtime + HWT_SEC(1000);
    uint32_t count = 0;
    count = put_until_no_room_can_be_set_aside(count, due);
    assert_extent(extent);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    put_some(count, count + 10, due);
    ck_assert_uint_eq(simulated_stats(&s).checkpoints, 1);
    assert_extent(2 * extent);
    simulated_advance(&s, HWT_SEC(1000));
    expect(count + 10);
}
END_TEST

static int (*allocate_before)(void *data, int file, uint64_t size);
static unsigned allocations, refused;

static int refuse_one(void *data, int file, uint64_t size)
{
    return ++allocations == refused ? -ENOSPC : allocate_before(data, file, size);
}

/* The reserve, the first segment and the second one become longer, in this order. One of them finds no room,
 * so those before it are cut again. */
START_TEST(what_became_longer_in_vain_is_cut_again)
{
    const uint64_t extent = 40 << 10, due = s.realtime + HWT_SEC(1000);
    uint32_t count = 0;
    simulated_close(&s);
    simulated_begin(&s);
    allocate_before = s.process.system.allocate;
    s.process.system.allocate = refuse_one;
    ck_assert_int_eq(simulated_try_open(&s), 0);
    allocations = 0;
    refused = 1 + (unsigned)_i;
    while (allocations < refused)
        put_some(count, count + 1, due), count++;
    assert_extent(extent);
    reopen(true);
    assert_extent(extent);
    simulated_advance(&s, HWT_SEC(1000));
    expect(count);
}
END_TEST

/* A batch for which the log would have to become longer than the disk is. */
START_TEST(what_is_too_long_for_a_full_disk_is_refused)
{
    static char payload[8000];
    hwt_delay_message messages[40] = { 0 };
    for (size_t i = 0; i < 40; i++)
        messages[i] = (hwt_delay_message){ .due = s.realtime + i,
                                           .id = "id",
                                           .id_size = 2,
                                           .payload = payload,
                                           .payload_size = sizeof(payload) };
    s.disk->capacity = disk_size(s.disk) + 100;
    ck_assert_int_eq(hwt_delay_put(s.store, messages, 40), -ENOSPC);
    s.disk->capacity = UINT64_MAX;
    ck_assert_int_eq(hwt_delay_put(s.store, messages, 40), 0);
}
END_TEST

/* The flush of the heads fails. The next process sees them all the same: what it puts behind the old end
 * must be there after a power failure. */
START_TEST(heads_that_were_not_flushed_are_written_once_more)
{
    uint32_t count = 0;
    s.random = (uint64_t)_i;
    s.process.fail_with = -EIO;
    s.process.fail_only = 1 << DISK_SYNC;
    s.process.fail_count = 1;
    while (length_of("log.0") == 40 << 10) {
        /* One is of the put, two of the zeros. */
        s.process.fail_at = s.process.calls + 4 + (uint64_t)_i % 2;
        put_some(count, count + 1, s.realtime), count++;
    }
    ck_assert_int_eq(simulated_put(&s, s.realtime, count, 10), -EIO);
    reopen(true);
    s.disk->capacity =
        disk_size(s.disk); /* else they are written when the log becomes longer again */
    put_some(count, count + 9, s.realtime);
    count += 9;
    struct disk *crashed = disk_crashed(s.disk, &s.random);
    simulated_free(&s);
    s.disk = crashed;
    simulated_open(&s);
    expect(count);
}
END_TEST

static int64_t (*write_before)(void *data, int file, const void *bytes, size_t size,
                               uint64_t offset);
static unsigned heads;

/* That of the second segment finds no room, as where what is written over is copied. */
static int64_t refuse_second_head(void *data, int file, const void *bytes, size_t size,
                                  uint64_t offset)
{
    bool is_head = offset == 0 && size == HWT_DELAY_SEGMENT_SIZE;
    heads += is_head;
    return is_head && heads == 2 ? -ENOSPC : write_before(data, file, bytes, size, offset);
}

/* The first head says how long its segment is to be, and the other one does not. Then there is no room for zeros, so
 * that the files are cut: not below what the first says. */
START_TEST(a_log_of_which_one_head_says_that_it_is_longer)
{
    const uint64_t extent = 40 << 10, due = s.realtime + HWT_SEC(1000);
    uint32_t count = 0;
    simulated_close(&s);
    simulated_begin(&s);
    write_before = s.process.system.write;
    s.process.system.write = refuse_second_head;
    ck_assert_int_eq(simulated_try_open(&s), 0);
    for (heads = 0; heads < 2; count++)
        put_some(count, count + 1, due);
    ck_assert_uint_eq(length_of("reserve"), 2 * extent);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    count = put_until_no_room_can_be_set_aside(count, due);
    reopen(true);
    simulated_advance(&s, HWT_SEC(1000));
    expect(count);
}
END_TEST

START_TEST(a_cut_segment_is_damage)
{
    uint32_t count = put_until(160 << 10);
    simulated_close(&s);
    struct disk_file *file = disk_find(s.disk, "log.0");
    disk_cut(file, file->seen.size - 4096);
    simulated_begin(&s);
    ck_assert_int_eq(simulated_try_open(&s), -EBADMSG);
    s.options.flags = HWT_DELAY_SALVAGE;
    simulated_open(&s);
    expect(count); /* nothing was there */
}
END_TEST

/* ---- real files ---- */

static char directory[64];

static uint64_t disk_of(const char *path)
{
    uint64_t bytes = 0;
    DIR *stream = opendir(path);
    const struct dirent *entry;
    struct stat status;
    must(stream != NULL);
    while ((entry = readdir(stream))) {
        if (strcmp(entry->d_name, "..") == 0)
            continue;
        must(fstatat(dirfd(stream), entry->d_name, &status, 0) == 0);
        bytes += (uint64_t)status.st_blocks * 512;
    }
    closedir(stream);
    return bytes;
}

static void real_setup(void)
{
    strcpy(directory, "/tmp/hwt-extent-XXXXXX");
    must(mkdtemp(directory) != NULL);
}

static void real_teardown(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    must(system(command) == 0);
}

static hwt_delay *open_real(int number, char path[96])
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    hwt_delay *store;
    options.flags = HWT_DELAY_CREATE;
    snprintf(path, 96, "%s/%d", directory, number);
    ck_assert_int_eq(hwt_delay_open(path, &options, &store), 0);
    return store;
}

START_TEST(a_hundred_stores_with_default_options)
{
    static hwt_delay *stores[100];
    char path[96];
    uint64_t disk = 0;
    for (int i = 0; i < 100; i++) {
        stores[i] = open_real(i, path);
        disk += disk_of(path);
    }
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(hwt_delay_close(stores[i]), 0);
    printf("%" PRIu64 " bytes of disk\n", disk);
    ck_assert_uint_le(disk, 30000000);
}
END_TEST

START_TEST(a_burst_and_its_end)
{
    static char payload[1 << 20];
    char path[96];
    hwt_delay *store = open_real(0, path);
    hwt_delay_message message = {
        .id = "id", .id_size = 2, .payload = payload, .payload_size = sizeof(payload)
    };
    for (message.due = 1; message.due <= 16; message.due++)
        ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    ck_assert_uint_ge(disk_of(path), 16 << 20);
    for (int i = 0; i < 16; i++) {
        const hwt_delay_message *taken;
        ck_assert_int_eq(hwt_delay_take(store, 1, HWT_NEVER, &taken), 1);
        ck_assert_int_eq(hwt_delay_done(store, &taken->lease, 1), 1);
        hwt_delay_free(taken);
    }
    /* The second one finds that the log was not used since the first. */
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_uint_le(disk_of(path), 300000);
    ck_assert_int_eq(hwt_delay_close(store), 0);
}
END_TEST

START_TEST(a_copy_has_the_length_of_its_log)
{
    static char payload[4000];
    char path[96], copy[96];
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    hwt_delay *store = open_real(0, path);
    hwt_delay_message message = {
        .id = "id", .id_size = 2, .payload = payload, .payload_size = sizeof(payload)
    };
    for (message.due = 1; message.due <= 100; message.due++)
        ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    snprintf(copy, sizeof(copy), "%s/1", directory);
    ck_assert_int_eq(hwt_delay_copy(store, copy), 0);
    ck_assert_int_eq(hwt_delay_close(store), 0);
    store = open_real(1, copy);
    ck_assert_int_eq(hwt_delay_check(store, NULL, NULL), 0);
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    ck_assert_uint_eq(stats.pending, 100);
    ck_assert_uint_ge(stats.disk, 3 * 400000);
    ck_assert_int_eq(hwt_delay_close(store), 0);
}
END_TEST

/* Who reads it has the length that it had. Its owner's last checkpoint has brought nothing new. */
START_TEST(a_copy_of_what_became_shorter_meanwhile_is_not_damaged)
{
    static char payload[4000];
    char path[96], copy[96];
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    hwt_delay *store, *reader;
    const hwt_delay_message *taken;
    hwt_delay_message message = {
        .id = "id", .id_size = 2, .payload = payload, .payload_size = sizeof(payload)
    };
    options.flags = HWT_DELAY_CREATE;
    snprintf(path, sizeof(path), "%s/0", directory);
    ck_assert_int_eq(hwt_delay_open_on(path, &options, &hwt_delay_real_system, true, &store), 0);
    for (message.due = 1; message.due <= 100; message.due++)
        ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    for (uint64_t n = 0; n < 100; hwt_delay_free(taken)) {
        ck_assert_int_eq(hwt_delay_take(store, 1, 0, &taken), 1);
        ck_assert_int_eq(hwt_delay_done(store, &taken->lease, 1), 1);
        n++;
    }
    uint64_t before = disk_of(path);
    options.flags = HWT_DELAY_READ_ONLY;
    ck_assert_int_eq(hwt_delay_open(path, &options, &reader), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_uint_lt(disk_of(path), before);
    snprintf(copy, sizeof(copy), "%s/1", directory);
    ck_assert_int_eq(hwt_delay_copy(reader, copy), -ESTALE);
    ck_assert_int_eq(hwt_delay_close(reader), 0);
    ck_assert_int_eq(hwt_delay_close(store), 0);
}
END_TEST

/* The same where it became longer: the checkpoint's place is behind the end that the reader knows. */
START_TEST(what_became_longer_meanwhile_is_not_damaged)
{
    static char payload[4000];
    char path[96], copy[96];
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    hwt_delay *store = open_real(0, path), *reader;
    hwt_delay_message message = {
        .id = "id", .id_size = 2, .payload = payload, .payload_size = sizeof(payload)
    };
    options.flags = HWT_DELAY_READ_ONLY;
    ck_assert_int_eq(hwt_delay_open(path, &options, &reader), 0);
    for (message.due = 1; message.due <= 100; message.due++)
        ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_int_eq(hwt_delay_check(reader, NULL, NULL), 0);
    snprintf(copy, sizeof(copy), "%s/1", directory);
    ck_assert_int_eq(hwt_delay_copy(reader, copy), -ESTALE);
    ck_assert_int_eq(hwt_delay_close(reader), 0);
    ck_assert_int_eq(hwt_delay_close(store), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_extent");
    TCase *tcase = tcase_create("simulated");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_log_doubles_before_a_checkpoint_is_made, 0, 2);
    tcase_add_test(tcase, a_long_record_finds_room_in_a_new_store);
    tcase_add_loop_test(tcase, what_is_empty_gives_its_disk_back_when_it_has_been_quiet, 0, 2);
    tcase_add_test(tcase, what_is_put_while_it_becomes_shorter_stays);
    tcase_add_loop_test(tcase, half_of_a_log_that_becomes_shorter_is_free, 0, 2);
    tcase_add_loop_test(tcase, on_a_full_disk_there_is_room_for_all_cancels, 0, 5);
    tcase_add_test(tcase, a_log_that_could_not_become_longer_does_after_a_checkpoint);
    tcase_add_loop_test(tcase, what_became_longer_in_vain_is_cut_again, 0, 3);
    tcase_add_test(tcase, what_is_too_long_for_a_full_disk_is_refused);
    tcase_add_loop_test(tcase, heads_that_were_not_flushed_are_written_once_more, 0, 40);
    tcase_add_test(tcase, a_log_of_which_one_head_says_that_it_is_longer);
    tcase_add_test(tcase, a_cut_segment_is_damage);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("real");
    tcase_add_checked_fixture(tcase, real_setup, real_teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_hundred_stores_with_default_options);
    tcase_add_test(tcase, a_burst_and_its_end);
    tcase_add_test(tcase, a_copy_has_the_length_of_its_log);
    tcase_add_test(tcase, a_copy_of_what_became_shorter_meanwhile_is_not_damaged);
    tcase_add_test(tcase, what_became_longer_meanwhile_is_not_damaged);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
