/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Payloads that are whole frames, runs and blocks with good checksums: of this store's own files at an
 * earlier time, of another store, and of a copy of this one that has gone on by itself. Nobody reads
 * them as anything but payloads, neither in old bytes of the log nor behind damage.
 */

#include "tests/delay/support/spoil.h"

enum { SIZE = 4096, COUNT = 60 };

#define HOUR HWT_MIN(60)

/* A file's bytes as payloads. With an id of 4 bytes they begin at a multiple of 8, as frames do. */
static void put_bytes(struct disk_file *file, size_t from, uint32_t i)
{
    const hwt_delay_message message = {
        .due = s.realtime + HOUR + i % 3 * HWT_SEC(100),
        .id = &i,
        .id_size = sizeof(i),
        .payload = disk_seen(file) + from,
        .payload_size = file->seen.size - from < SIZE ? file->seen.size - from : SIZE,
    };
    ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
}

static int count_one(const hwt_delay_message *message, void *count)
{
    (void)message;
    ++*(unsigned *)count;
    return 0;
}

static void assert_all(unsigned count)
{
    unsigned seen = 0;
    ck_assert_int_eq(hwt_delay_visit(s.store, 0, HWT_NEVER, count_one, &seen), 0);
    ck_assert_uint_eq(seen, count);
    ck_assert_int_eq(hwt_delay_check(s.store, NULL, NULL), 0);
    ck_assert_uint_eq(simulated_stats(&s).salvaged, 0);
    ck_assert_uint_eq(simulated_stats(&s).pending, count);
}

/* Another store, or a copy of this one; with frames, runs, and what comes after them. */
static struct disk *make_other(bool copy)
{
    struct simulated ours = s;
    struct disk *other = copy ? disk_copy(s.disk) : disk_new();
    memset(&s, 0, sizeof(s));
    simulated_new(&s);
    disk_free(s.disk);
    s.disk = other;
    s.realtime = ours.realtime + HWT_SEC(!copy);
    simulated_open(&s);
    for (uint32_t i = 0; i < COUNT; i++) {
        put_some(1000 + i, 1001 + i, s.realtime + HOUR, 700);
        if (i % 16 == 9)
            ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    }
    simulated_kill(&s);
    s = ours;
    s.process.system.data = &s.process;
    return other;
}

static struct disk_file *file_in(const struct disk *disk, uint32_t i)
{
    static const char *const names[] = { "log.0", "log.1", "slot-", "checkpoint" };
    for (size_t f = 0; f < disk->seen.count; f++) {
        if (strncmp(disk->seen.entries[f].name, names[i % 4], 5) == 0)
            return disk->seen.entries[f].file;
    }
    ck_abort_msg("there is no %s", names[i % 4]);
}

/* Kills it after each put; whatever is in old bytes then, it opens, and all is there. */
START_TEST(test_payloads_of_good_bytes)
{
    put_some(1000, 1010, s.realtime + HOUR, 700);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    put_some(1010, 1012, s.realtime + HOUR, 700);
    simulated_kill(&s);
    struct disk *other = _i == 0 ? NULL : make_other(_i == 2);
    s.options.flags = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        simulated_open(&s);
        struct disk_file *file = file_in(other ? other : s.disk, i);
        size_t from = i % 4 < 2 ? HWT_DELAY_SEGMENT_FRAMES + i / 4 % 8 * 48 : 0;
        put_bytes(file, from < file->seen.size ? from : 0, i);
        if (i % 8 == 7)
            ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        assert_all(12 + i + 1);
        simulated_kill(&s);
    }
    /* Behind a damaged head of a run, and a damaged block, heads are searched for. */
    struct disk_file *slot = file_of("slot-");
    disk_flip(slot, HWT_DELAY_HEAD_CRC, 1);
    disk_flip(slot, HWT_DELAY_RUN_SIZE + HWT_DELAY_BLOCK_SIZE, 1);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    unsigned seen = 0;
    ck_assert_int_eq(hwt_delay_visit(s.store, 0, HWT_NEVER, count_one, &seen), 0);
    ck_assert_uint_ge(seen, COUNT - 1);
    ck_assert_uint_lt(seen, COUNT + 12);
    if (other)
        disk_free(other);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_payloads");
    TCase *tcase = tcase_create("payloads");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_payloads_of_good_bytes, 0, 3);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
