/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Zeros ahead of small frames, where a longer log has room and no bytes yet: how far they go, and when there
 * are none. */

#include "tests/delay/support/extent_fixture.h"

/* The rest of the log's segment has bytes that are not zero, so it is seen how far zeros go. */
static struct disk_file *mark_ground(void)
{
    struct disk_file *file = disk_find(s.disk, hwt_delay_segment_name(s.store->log.segment));
    for (size_t at = (size_t)s.store->log.offset; at < file->seen.size; at++)
        disk_flip(file, at, disk_seen(file)[at] ^ 0xff);
    return file;
}

static size_t zeros_at(struct disk_file *file, size_t from)
{
    size_t at = from;
    while (at < file->seen.size && disk_seen(file)[at] == 0)
        at++;
    return at - from;
}

/* How many writes that takes. */
static uint64_t writes_of_puts(uint32_t count, size_t size)
{
    static const char payload[128 << 10];
    uint64_t before = s.process.by_kind[DISK_WRITE];
    for (uint32_t i = 0; i < count; i++) {
        const hwt_delay_message message = { .due = s.realtime + HWT_SEC(1000),
                                            .id = &i,
                                            .id_size = sizeof(i),
                                            .payload = payload,
                                            .payload_size = size };
        ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
    }
    return s.process.by_kind[DISK_WRITE] - before;
}

static void long_log(void)
{
    put_until(MOST);
    simulated_close(&s);
    s.options.payload_max = 128 << 10;
    simulated_open(&s);
}

START_TEST(a_small_frame_makes_ground_for_those_that_follow)
{
    long_log();
    struct disk_file *file = mark_ground();
    size_t from = s.store->log.offset;
    ck_assert_uint_eq(writes_of_puts(1, 1000), 2);
    size_t frame = s.store->log.offset - from, zeros = zeros_at(file, s.store->log.offset);
    ck_assert_uint_ge(zeros, 32 * frame);
    ck_assert_uint_lt(zeros, 32 * frame + 4096);
    ck_assert_uint_eq(disk_seen(file)[s.store->log.offset + zeros], 0xff);
    ck_assert_uint_eq(writes_of_puts(31, 1000), 31);
    ck_assert_uint_ge(zeros_at(file, s.store->log.offset), frame);
    uint64_t writes = writes_of_puts(200, 1000);
    ck_assert_uint_ge(writes, 200 + 200 / 37);
    ck_assert_uint_le(writes, 200 + 200 / 32 + 1);
}
END_TEST

START_TEST(a_large_frame_is_written_as_it_is)
{
    long_log();
    struct disk_file *file = mark_ground();
    ck_assert_uint_eq(writes_of_puts(3, 64 << 10), 3);
    ck_assert_uint_eq(zeros_at(file, s.store->log.offset), 0);
    ck_assert_uint_eq(writes_of_puts(1, 1000), 2);
}
END_TEST

/* A full disk has no zeros to spare, and nothing relies on them. */
START_TEST(zeros_are_written_if_that_can_be)
{
    static const int errors[] = { -ENOSPC, -EIO };
    long_log();
    s.store->full = true;
    uint32_t none = 0;
    uint64_t before = s.process.by_kind[DISK_WRITE];
    ck_assert_int_eq(hwt_delay_cancel(s.store, s.realtime, &none, sizeof(none)), 0);
    ck_assert_uint_eq(s.process.by_kind[DISK_WRITE] - before, 1);
    s.store->full = false;
    s.process.fail_with = errors[_i];
    s.process.fail_only = 1u << DISK_WRITE;
    s.process.calls = 0;
    s.process.fail_at = 2;
    s.process.fail_count = 1;
    ck_assert_uint_eq(writes_of_puts(1, 1000), 2);
    s.process.fail_with = 0;
    ck_assert_uint_eq(simulated_stats(&s).poisoned, 0);
    ck_assert_uint_eq(disk_find(s.disk, "reserve")->seen.size, MOST);
}
END_TEST

static void note_change(void *writes, enum disk_call call, const char *name)
{
    *(unsigned *)writes += call == DISK_WRITE && strncmp(name, "log.", 4) == 0;
}

/* Zeros end with the segment, and nothing has them twice. */
START_TEST(ground_ends_where_the_log_does)
{
    enum { PUTS = 1500 };
    const uint64_t due = s.realtime + HWT_SEC(1000);
    unsigned writes = 0;
    uint32_t i = 0;
    for (; s.store->log.segment == 0; i++)
        ck_assert_int_eq(simulated_put(&s, due, i, 8000), 0);
    ck_assert_uint_gt(s.store->log.ground[1], s.store->log.offset);
    for (; s.store->log.extent < MOST || i < PUTS; i++) {
        ck_assert_int_eq(simulated_put(&s, due, i, 8000), 0);
        ck_assert_uint_eq(length_of("log.0"), s.store->log.extent);
        ck_assert_uint_eq(length_of("log.1"), s.store->log.extent);
    }
    ck_assert_uint_ge(simulated_stats(&s).checkpoints, 2);
    s.process.changed = note_change;
    s.process.changed_arg = &writes;
    for (; i < 2 * PUTS; i++)
        ck_assert_int_eq(simulated_put(&s, due, i, 8000), 0);
    s.process.changed = NULL;
    ck_assert_uint_eq(s.store->log.extent, MOST);
    ck_assert_uint_eq(writes, PUTS);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_ground");
    TCase *tcase = tcase_create("ground");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_small_frame_makes_ground_for_those_that_follow);
    tcase_add_test(tcase, a_large_frame_is_written_as_it_is);
    tcase_add_loop_test(tcase, zeros_are_written_if_that_can_be, 0, 2);
    tcase_add_test(tcase, ground_ends_where_the_log_does);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
