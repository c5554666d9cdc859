/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Salvage: what is damaged is put aside and counted once, what is whole is delivered, and what was made
 * up does not harm what comes after.
 */

#include "tests/delay/spoil.h"

#include <fcntl.h>

#define HOUR HWT_MIN(60)

/* ---- what is lost ---- */

static void lose_log(size_t from)
{
    static const char *const names[] = { "log.0", "log.1" };
    for (int i = 0; i < 2; i++) {
        struct disk_file *file = file_of(names[i]);
        for (size_t at = i == 0 ? from : HWT_DELAY_SEGMENT_FRAMES; at < file->seen_size; at++)
            disk_flip(file, at, file->seen[at]);
    }
    spoil_checkpoint();
}

static void spoil_block(unsigned n)
{
    struct disk_file *file = file_of("slot-");
    disk_flip(file, find(file, HWT_DELAY_MAGIC_BLOCK, n) + HWT_DELAY_BLOCK_CRC, 1);
}

static void make_in_store(const char *name)
{
    simulated_begin(&s);
    const struct hwt_delay_system *system = &s.process.system;
    int directory = system->open_directory(&s.process, "store");
    ck_assert_int_ge(system->open(&s.process, directory, name, O_RDWR | O_CREAT), 0);
    process_end(&s.process);
}

/* ---- a checkpoint that is made up ---- */

/* Slots have what the log has lost, its end or all of it, and that more than once. */
START_TEST(test_numbers_go_on_after_salvage)
{
    const uint64_t due = s.realtime + HOUR;
    const size_t from = HWT_DELAY_SEGMENT_FRAMES;
    const hwt_delay_message *taken;
    put_some(0, 10, due, 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    lose_log(_i > 0 ? from : find(file_of("log.0"), HWT_DELAY_MAGIC_FRAME, 5));
    for (int times = 0; times < _i; times++) {
        ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
        put_some(10, 20, due, 100);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        simulated_kill(&s);
        simulated_advance(&s, HWT_SEC(1));
        lose_log(from);
    }
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    simulated_advance(&s, 2 * HOUR);
    /* All at once: what is done takes numbers, too. */
    ck_assert_int_eq(hwt_delay_take(s.store, 100, 0, &taken), _i > 0 ? 20 : 10);
    hwt_delay_free(taken);
}
END_TEST

/* ---- other files ---- */

/* Only what has a slot's name is one. */
START_TEST(test_a_copy_beside_a_slot)
{
    put_some(0, 10, s.realtime + HOUR, 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    make_in_store("slot-30-5-1.bak");
    make_in_store("slot-old");
    make_in_store("slot-30-5-fffff"); /* of a checkpoint that did not end */
    if (_i == 0)
        spoil_checkpoint();
    ck_assert_int_eq(open_with(_i == 0 ? HWT_DELAY_SALVAGE : 0), 0);
    ck_assert_ptr_nonnull(disk_find(s.disk, "slot-30-5-1.bak"));
    ck_assert_ptr_nonnull(disk_find(s.disk, "slot-old"));
    ck_assert(_i == 0 || !disk_find(s.disk, "slot-30-5-fffff"));
    assert_delivers(0, 10);
}
END_TEST

/* ---- blocks ---- */

START_TEST(test_damage_is_put_aside_once)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    put_some(0, 10, s.realtime + HOUR, 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    spoil_block(1);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(simulated_list(&s, counts), 0);
    ck_assert_uint_eq(simulated_stats(&s).salvaged, 1);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_salvage");
    TCase *tcase = tcase_create("salvage");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_numbers_go_on_after_salvage, 0, 3);
    tcase_add_loop_test(tcase, test_a_copy_beside_a_slot, 0, 2);
    tcase_add_test(tcase, test_damage_is_put_aside_once);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
