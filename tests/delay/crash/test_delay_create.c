/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A store that is being made, by a process that dies on the way: the next one makes it, and what is put
 * into that stays.
 */

#include "hwt/delay/disk/format.h"
#include "tests/delay/support/delay_fixture.h"
#include "tests/delay/support/simulated.h"

enum { CRASHES = 8, CALLS_MAX = 200 };

/* The power fails, and the next process finds what was put. */
static void assert_stays(struct simulated *s)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    ck_assert_int_eq(simulated_put(s, s->realtime, 7, 10), 0);
    simulated_kill(s);
    struct disk *left = disk_crashed(s->disk, &s->random);
    disk_free(s->disk);
    s->disk = left;
    s->options.flags = 0;
    simulated_open(s);
    ck_assert_int_eq(simulated_deliver(s, SIZE_MAX, counts), 1);
    ck_assert_uint_eq(counts[7], 1);
    simulated_free(s);
}

/* One that died while it made the store. False: it did not get so far. */
static bool dies(struct simulated *s, uint64_t call, int fail_with)
{
    simulated_new(s);
    s->random = test_seed() + call;
    simulated_begin(s);
    s->process.fail_with = fail_with;
    s->process.fail_at = call;
    s->process.fail_count = 1;
    s->process.die_at = fail_with == 0 ? call : call + 1;
    int r = simulated_try_open(s);
    bool died = s->process.dead;
    if (r == 0)
        simulated_kill(s);
    return died;
}

START_TEST(test_a_process_that_dies_while_it_makes_a_store)
{
    struct simulated s;
    bool died = true;
    for (uint64_t call = 1; died; call++) {
        ck_assert_uint_lt(call, CALLS_MAX);
        for (int i = 0; i < CRASHES && died; i++) {
            died = dies(&s, call, 0);
            simulated_open(&s);
            assert_stays(&s);
        }
    }
}
END_TEST

/* A write that arrived in part, and then nothing; as it is seen, or after the power failed. */
START_TEST(test_a_write_that_arrives_in_part_while_a_store_is_made)
{
    struct simulated s;
    bool died = true;
    for (uint64_t call = 1; died; call++) {
        ck_assert_uint_lt(call, CALLS_MAX);
        for (int i = 0; i < CRASHES && died; i++) {
            died = dies(&s, call, 1);
            if (i > 0) {
                struct disk *left = disk_crashed(s.disk, &s.random);
                disk_free(s.disk);
                s.disk = left;
            }
            simulated_open(&s);
            assert_stays(&s);
        }
    }
}
END_TEST

/* Any part of the head, and any bytes in its place: nothing was ever put, so it can be made again. */
START_TEST(test_a_head_of_which_a_part_is_there)
{
    for (size_t size = 1; size < HWT_DELAY_STORE_SIZE; size++) {
        for (int cut = 0; cut < 2; cut++) {
            struct simulated s;
            simulated_new(&s);
            simulated_open(&s);
            if (cut) /* a close of what was never used leaves nothing in the log */
                simulated_close(&s);
            else
                simulated_kill(&s);
            struct disk_file *file = disk_find(s.disk, "store");
            bool whole = !cut;
            for (size_t at = size; at < HWT_DELAY_STORE_SIZE; at++) {
                whole = whole && disk_seen(file)[at] == 0;
                disk_flip(file, at, disk_seen(file)[at]);
            }
            if (cut)
                disk_cut(file, size);
            if (whole) {
                simulated_free(&s);
                continue;
            }
            s.options.flags = 0;
            simulated_begin(&s);
            ck_assert_int_eq(simulated_try_open(&s), -ENOENT);
            s.options.flags = HWT_DELAY_CREATE;
            simulated_open(&s);
            assert_stays(&s);
        }
    }
}
END_TEST

/* Once something was put there, it is damage. */
START_TEST(test_a_used_store_is_not_made_again)
{
    struct simulated s;
    simulated_new(&s);
    simulated_open(&s);
    ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_SEC(1), 7, 10), 0);
    if (_i % 3 > 0)
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    const int kind = _i % 3;
    disk_cut(disk_find(s.disk, "store"), _i < 3 ? 20 : 0);
    if (kind > 1) { /* nor where what was put is in the other segment alone, or in a slot alone */
        struct disk_file *log = disk_find(s.disk, "log.0");
        for (size_t at = HWT_DELAY_SEGMENT_FRAMES; at < log->seen.size; at++)
            disk_flip(log, at, disk_seen(log)[at]);
    }
    simulated_begin(&s);
    ck_assert_int_eq(simulated_try_open(&s), -EBADMSG);
    s.options.flags = HWT_DELAY_SALVAGE;
    simulated_open(&s);
    simulated_advance(&s, HWT_SEC(2));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 1);
    simulated_free(&s);
}
END_TEST

/* The first process has made the directory, and had no descriptor for the one above it. */
START_TEST(test_the_directory_above_cannot_be_opened_at_first)
{
    static const int errors[] = { -EMFILE, -ENFILE, -ENOMEM, -EIO };
    struct simulated s;
    simulated_new(&s);
    s.random = test_seed();
    simulated_begin(&s);
    s.process.fail_with = errors[_i];
    s.process.fail_only = 1u << DISK_SYNC_ABOVE;
    s.process.fail_at = 1;
    s.process.fail_count = 1;
    ck_assert_int_eq(simulated_try_open(&s), errors[_i]);
    ck_assert(s.disk->made && !s.disk->named);
    simulated_open(&s);
    ck_assert(s.disk->named);
    assert_stays(&s);
}
END_TEST

/* Who finds the directory may not be allowed to read the one above: then its maker has seen to it. */
START_TEST(test_a_directory_above_that_may_not_be_read)
{
    static const int errors[] = { -EACCES, -EPERM, -EROFS, -EINVAL };
    struct simulated s;
    simulated_new(&s);
    simulated_open(&s);
    for (int made = 0; made < 2; made++) {
        simulated_close(&s);
        if (made)
            disk_free(s.disk), s.disk = disk_new();
        simulated_begin(&s);
        s.process.fail_with = errors[_i];
        s.process.fail_only = 1u << DISK_SYNC_ABOVE;
        s.process.fail_at = 1;
        s.process.fail_count = 1;
        ck_assert_int_eq(simulated_try_open(&s), made ? errors[_i] : 0);
    }
    simulated_free(&s);
}
END_TEST

/* Others see nothing, whatever the process's umask allows. */
START_TEST(test_modes)
{
    hwt_delay *store;
    const hwt_delay_options options = small_options();
    struct stat status;
    mode_t before = umask(0);
    ck_assert_int_eq(hwt_delay_open(store_directory, &options, &store), 0);
    hwt_delay_message message = message_of(hwt_delay_now(store), "x", "");
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_int_eq(hwt_delay_close(store), 0);
    umask(before);
    ck_assert_int_eq(stat(store_directory, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0750);
    DIR *stream = opendir(store_directory);
    ck_assert_ptr_nonnull(stream);
    unsigned files = 0;
    for (const struct dirent *entry; (entry = readdir(stream));) {
        if (entry->d_name[0] == '.')
            continue;
        ck_assert_int_eq(fstatat(dirfd(stream), entry->d_name, &status, 0), 0);
        ck_assert_msg((status.st_mode & 07777) == 0640, "%s: %o", entry->d_name, status.st_mode);
        files++;
    }
    closedir(stream);
    ck_assert_uint_ge(files, 6);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_create");
    TCase *tcase = tcase_create("create");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, make_directory_name, remove_store);
    tcase_add_test(tcase, test_a_process_that_dies_while_it_makes_a_store);
    tcase_add_test(tcase, test_a_write_that_arrives_in_part_while_a_store_is_made);
    tcase_add_test(tcase, test_a_head_of_which_a_part_is_there);
    tcase_add_loop_test(tcase, test_a_used_store_is_not_made_again, 0, 6);
    tcase_add_loop_test(tcase, test_the_directory_above_cannot_be_opened_at_first, 0, 4);
    tcase_add_loop_test(tcase, test_a_directory_above_that_may_not_be_read, 0, 4);
    tcase_add_test(tcase, test_modes);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
