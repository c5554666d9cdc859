/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A file system that writes nothing in place, but copies: on a full disk it has no room for the log
 * either. The reserve is given up for it, and nothing that was acknowledged is lost.
 */

#include "tests/delay/support/simulated.h"

enum { PUTS = 20 };

static struct simulated s;

/* A disk that is full but for some bytes, while the store is open. */
static void begin(void)
{
    simulated_new(&s);
    s.disk->copies = true;
    simulated_open(&s);
    for (uint32_t i = 0; i < PUTS; i++)
        ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_SEC(1), i, 100), 0);
    s.disk->capacity = disk_size(s.disk) + 100;
}

static void end(void)
{
    simulated_free(&s);
}

static void assert_delivers(uint32_t count)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    simulated_advance(&s, HWT_SEC(2));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), count);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_uint_eq(counts[i], 1);
}

START_TEST(test_the_reserve_is_for_the_log)
{
    ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_SEC(1), PUTS, 100), 0);
    ck_assert_uint_eq(simulated_stats(&s).full, 1);
    ck_assert_uint_eq(disk_find(s.disk, "reserve")->seen.size, 0);
    s.disk->capacity = disk_size(s.disk) + 8192; /* less than the reserve has left */
    ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_SEC(1), PUTS + 1, 100), -ENOSPC);
    uint32_t none = PUTS + 2;
    ck_assert_int_eq(hwt_delay_cancel(s.store, s.realtime + HWT_SEC(1), &none, sizeof(none)), 0);
    assert_delivers(PUTS + 1);
    s.disk->capacity = UINT64_MAX;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_int_eq(simulated_put(&s, s.realtime, 0, 100), 0);
    ck_assert_uint_eq(simulated_stats(&s).full, 0);
    assert_delivers(1);
}
END_TEST

static void note_change(void *writes, enum disk_call call, const char *name)
{
    *(unsigned *)writes += call == DISK_WRITE && strncmp(name, "log.", 4) == 0;
}

/* It can be opened, and drained, while there is no room. No zeros take what the reserve had. */
START_TEST(test_opened_on_a_full_disk)
{
    unsigned writes = 0;
    simulated_kill(&s);
    s.options.flags = 0;
    simulated_open(&s);
    s.process.changed = note_change;
    s.process.changed_arg = &writes;
    ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_SEC(1), PUTS, 100), 0);
    s.process.changed = NULL;
    ck_assert_uint_eq(writes, 1);
    assert_delivers(PUTS + 1);
}
END_TEST

/* The reserve is not enough: it is not known whether the disk has what was being written. */
START_TEST(test_no_room_at_all)
{
    s.disk->capacity = disk_size(s.disk) - disk_find(s.disk, "reserve")->seen.size;
    ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_SEC(1), PUTS, 100), -EIO);
    ck_assert_uint_eq(simulated_stats(&s).poisoned, 1);
    simulated_close(&s);
    s.options.flags = 0;
    simulated_begin(&s);
    ck_assert_int_eq(simulated_try_open(&s), -ENOSPC);
    s.disk->capacity = UINT64_MAX;
    simulated_open(&s);
    unsigned counts[SIMULATED_IDS] = { 0 };
    simulated_advance(&s, HWT_SEC(2));
    ck_assert_int_ge(simulated_deliver(&s, SIZE_MAX, counts), PUTS);
    for (uint32_t i = 0; i < PUTS; i++)
        ck_assert_uint_eq(counts[i], 1);
}
END_TEST

/* The names of a directory are copied, too: one that cannot be changed is still the old one. */
START_TEST(test_no_room_for_a_name)
{
    s.disk->copies = false;
    s.disk->capacity = UINT64_MAX;
    s.process.fail_with = _i == 0 ? -ENOSPC : -EDQUOT;
    s.process.fail_only = 1u << DISK_RENAME;
    s.process.fail_at = 1;
    s.process.fail_count = UINT64_MAX;
    s.process.calls = 0;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), -ENOSPC);
    ck_assert_uint_eq(simulated_stats(&s).poisoned, 0);
    ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_SEC(1), PUTS, 100), -ENOSPC);
    struct simulated after = s;
    after.disk = disk_crashed(s.disk, &s.random);
    s.process.fail_with = 0;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_SEC(1), PUTS, 100), 0);
    assert_delivers(PUTS + 1);
    simulated_close(&s);
    disk_free(s.disk);
    s = after; /* or the power failed then */
    s.options.flags = 0;
    simulated_open(&s);
    assert_delivers(PUTS);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_copies");
    TCase *tcase = tcase_create("copies");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_the_reserve_is_for_the_log);
    tcase_add_test(tcase, test_opened_on_a_full_disk);
    tcase_add_test(tcase, test_no_room_at_all);
    tcase_add_loop_test(tcase, test_no_room_for_a_name, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
