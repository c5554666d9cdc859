/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Heads whose checksums fit, with a number in them that cannot be. The store is refused, or what is behind the
 * head is kept back as a gap.
 */

#include "tests/delay/support/spoil.h"

#define HOUR HWT_MIN(60)

/* Ten messages in a slot, one leased, and the store killed. */
static void prepare(void)
{
    const hwt_delay_message *taken;
    put_some(0, 1, s.realtime, 10);
    put_some(1, 11, s.realtime + HOUR, 10);
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    hwt_delay_free(taken);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    const unsigned char *head = disk_seen(file_of("checkpoint"));
    ck_assert_uint_gt(hwt_delay_get32(head + HWT_DELAY_CHECKPOINT_FILES), 0);
}

START_TEST(a_checkpoint_that_counts_what_is_not_there_is_refused)
{
    static const struct {
        size_t at;
        uint64_t value;
        bool wide;
    } cases[] = {
        { HWT_DELAY_CHECKPOINT_FILES, 100, false },
        { HWT_DELAY_CHECKPOINT_FILES, UINT32_MAX, false },
        { HWT_DELAY_CHECKPOINT_GAPS, 100, false },
        { HWT_DELAY_CHECKPOINT_GAPS, 1, false }, /* of the leased message's bytes */
        { HWT_DELAY_CHECKPOINT_RECORDS, 0, true },
        { HWT_DELAY_CHECKPOINT_RECORDS, 2, true },
        { HWT_DELAY_CHECKPOINT_RECORDS, UINT64_MAX, true },
        { HWT_DELAY_CHECKPOINT_SIZE + HWT_DELAY_FILE_SHIFT, 64, false },
        { HWT_DELAY_CHECKPOINT_SIZE + HWT_DELAY_FILE_SHIFT, UINT32_MAX, false },
        { HWT_DELAY_CHECKPOINT_SIZE + HWT_DELAY_FILE_INDEX, UINT64_MAX, true },
    };
    prepare();
    struct disk_file *file = file_of("checkpoint");
    if (cases[_i].wide)
        set64(file, cases[_i].at, cases[_i].value);
    else
        set32(file, cases[_i].at, (uint32_t)cases[_i].value);
    seal_checkpoint();
    ck_assert_int_eq(open_with(0), -EBADMSG);
    ck_assert_int_eq(open_with(HWT_DELAY_READ_ONLY), -EBADMSG);
}
END_TEST

/* Not more than all of it is dead, whatever a checkpoint says. */
START_TEST(a_slot_of_which_more_is_dead_than_there_is_delivers)
{
    prepare();
    set64(file_of("checkpoint"), HWT_DELAY_CHECKPOINT_SIZE + HWT_DELAY_FILE_DEAD, UINT64_MAX);
    seal_checkpoint();
    ck_assert_int_eq(open_with(0), 0);
    assert_delivers(0, 11);
}
END_TEST

/* Each head says where it is and of which file, so one that was copied is none. */
START_TEST(a_head_of_another_place_or_file_is_none)
{
    static const size_t fields[] = { HWT_DELAY_RUN_OFFSET, HWT_DELAY_RUN_NUMBER,
                                     HWT_DELAY_BLOCK_OFFSET, HWT_DELAY_BLOCK_NUMBER };
    const bool is_run = _i < 2;
    prepare();
    struct disk_file *file = file_of("slot-");
    size_t at = is_run ? 0 : HWT_DELAY_RUN_SIZE;
    set64(file, at + fields[_i], hwt_delay_get64(disk_seen(file) + at + fields[_i]) + 8);
    if (is_run)
        seal_head(file, at, HWT_DELAY_MAGIC_RUN, HWT_DELAY_RUN_SIZE);
    else
        seal_head(file, at, HWT_DELAY_MAGIC_BLOCK, HWT_DELAY_BLOCK_SIZE);
    ck_assert_int_eq(open_with(0), 0);
    ck_assert_int_eq(hwt_delay_check(s.store, NULL, NULL), 1);
    simulated_advance(&s, 2 * HOUR);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), -EBADMSG);
    ck_assert_uint_eq(simulated_stats(&s).gaps, 1);
}
END_TEST

START_TEST(a_store_without_a_key_is_refused)
{
    prepare();
    struct disk_file *file = file_of("store");
    set64(file, HWT_DELAY_STORE_KEY, 0);
    seal(file, 0, HWT_DELAY_STORE_CRC, HWT_DELAY_STORE_VERSION, HWT_DELAY_STORE_SIZE);
    ck_assert_int_eq(open_with(0), -EBADMSG);
    ck_assert_int_eq(open_with(HWT_DELAY_READ_ONLY), -EBADMSG);
    ck_assert_ptr_nonnull(disk_find(s.disk, "log.0"));
}
END_TEST

/* Deliveries are counted in a file of their own: a block of it that cannot be is passed over. */
START_TEST(a_block_of_counts_that_cannot_be_counts_nothing)
{
    static const uint32_t lengths[] = { 1, HWT_DELAY_COUNT_SIZE + 1, UINT32_MAX, 1 << 30 };
    prepare();
    struct disk_file *file = file_of("handed");
    disk_cut(file, file->seen.size); /* it is never flushed */
    size_t at = find(file, HWT_DELAY_MAGIC_HANDED, 1);
    ck_assert_uint_lt(at, file->seen.size);
    set32(file, at + HWT_DELAY_HANDED_LENGTH, lengths[_i]);
    seal_head(file, at, HWT_DELAY_MAGIC_HANDED, HWT_DELAY_HANDED_SIZE);
    ck_assert_int_eq(open_with(0), 0);
    assert_delivers(0, 11);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("delay_crafted_heads");
    TCase *tcase = tcase_create("heads");

    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, a_checkpoint_that_counts_what_is_not_there_is_refused, 0, 10);
    tcase_add_test(tcase, a_slot_of_which_more_is_dead_than_there_is_delivers);
    tcase_add_loop_test(tcase, a_head_of_another_place_or_file_is_none, 0, 4);
    tcase_add_test(tcase, a_store_without_a_key_is_refused);
    tcase_add_loop_test(tcase, a_block_of_counts_that_cannot_be_counts_nothing, 0, 4);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
