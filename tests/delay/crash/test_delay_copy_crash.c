/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A copy, and the power that fails meanwhile: the store is on one simulated disk, the copy's directory
 * on another. After each change of that one, it crashes. What is found is a whole store, or none: once
 * the copy has returned 0 it is there. Each sync that the copy makes is needed.
 */

#include "tests/delay/support/simulated.h"
#include "tests/delay/support/two_disks.h"

#define HOUR HWT_MIN(60)

enum {
    PENDING = 120,
    CRASHES = 4,
    CRASHES_OF_NAMES = 200 /* when it is about to get its name */
};

static struct simulated s;
static struct disk *copied;
static struct process copying;
static uint64_t luck;
static int crashes;            /* after each change */
static unsigned others, wrong; /* what they have left */

/* ---- the store ---- */

/* Slots of several lengths, what is leased, cancels and puts in both segments of the log. */
static void fill(void)
{
    const hwt_delay_message *taken;
    for (uint32_t i = 0; i < PENDING; i++) {
        uint64_t due = i < 10 ? s.realtime : s.realtime + i * i * HWT_SEC(9);
        ck_assert_int_eq(simulated_put(&s, due, i, i % 200), 0);
        if (i == PENDING / 3)
            ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    }
    ck_assert_int_eq(hwt_delay_take(s.store, 5, 0, &taken), 5);
    hwt_delay_free(taken);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    for (uint32_t i = PENDING; i < PENDING + 100; i++) {
        ck_assert_int_eq(simulated_put(&s, s.realtime + HOUR, i, 200), 0);
        ck_assert_int_eq(hwt_delay_cancel(s.store, s.realtime + HOUR, &i, sizeof(i)), 0);
    }
    ck_assert_int_eq(simulated_put(&s, s.realtime + HOUR, PENDING, 200), 0);
}

static void setup(void)
{
    simulated_new(&s);
    simulated_begin(&s);
    const struct hwt_delay_system system = two_disks(&s.process, &copying);
    ck_assert_int_eq(hwt_delay_open_on("store", &s.options, &system, true, &s.store), 0);
    fill();
    luck = test_seed();
    copied = disk_new();
    process_start(&copying, copied, &s.realtime, &s.boottime);
    copying.random = &luck;
    others = wrong = 0;
    crashes = 0;
}

static void teardown(void)
{
    process_end(&copying);
    disk_free(copied);
    simulated_free(&s);
}

/* ---- what a crash leaves ---- */

enum left { NO_STORE, A_STORE, NOT_WHOLE };

static bool is_whole(hwt_delay *store)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    struct simulated view = { .store = store };
    bool whole = simulated_list(&view, counts) == 0;
    for (uint32_t i = 0; i <= PENDING; i++)
        whole = whole && counts[i] == 1;
    for (uint32_t i = PENDING + 1; i < SIMULATED_IDS; i++)
        whole = whole && counts[i] == 0;
    return whole && hwt_delay_check(store, NULL, NULL) == 0;
}

static enum left crash(void)
{
    struct process process;
    hwt_delay *store;
    enum left left = NO_STORE;
    hwt_delay_options options = s.options;
    struct disk *disk = disk_crashed(copied, &luck);
    bool named = disk->made && disk_find(disk, "store");
    process_start(&process, disk, &s.realtime, &s.boottime);
    options.flags = 0;
    int r = hwt_delay_open_on("copy", &options, &process.system, true, &store);
    if (r == 0) {
        left = is_whole(store) ? A_STORE : NOT_WHOLE;
        hwt_delay_close(store);
    } else if (named || r != -ENOENT) {
        left = NOT_WHOLE;
    }
    process_end(&process);
    disk_free(disk);
    return left;
}

static void look(void *arg, enum disk_call call, const char *name)
{
    (void)arg;
    (void)name;
    for (int i = 0; i < (call == DISK_RENAME ? CRASHES_OF_NAMES : crashes); i++) {
        enum left left = crash();
        others += left == NO_STORE;
        wrong += left == NOT_WHOLE;
    }
}

START_TEST(test_the_power_fails_while_copying)
{
    copying.changed = look;
    crashes = CRASHES;
    ck_assert_int_eq(hwt_delay_copy(s.store, "copy"), 0);
    copying.changed = NULL;
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_gt(others, 100);
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(crash(), A_STORE);
}
END_TEST

/* Each use of the new disk in turn: with an error, or it is the process's last one. */
START_TEST(test_what_fails_leaves_no_store)
{
    static const int errors[] = { -EIO, -ENOSPC, 0 };
    const int error = errors[_i];
    int r = -1;
    for (uint64_t at = 1; r != 0; at++) {
        process_end(&copying);
        disk_free(copied);
        copied = disk_new();
        process_start(&copying, copied, &s.realtime, &s.boottime);
        copying.random = &luck;
        copying.fail_with = error;
        copying.fail_at = error != 0 ? at : 0;
        copying.fail_count = 1;
        copying.die_at = error == 0 ? at : 0;
        r = hwt_delay_copy(s.store, "copy");
        for (int i = 0; i < (copying.by_kind[DISK_RENAME] ? CRASHES_OF_NAMES : CRASHES); i++) {
            enum left left = crash();
            ck_assert_msg(left == A_STORE || (left == NO_STORE && r != 0),
                          "use %u of the disk failed, copy was %d, and a crash left %d",
                          (unsigned)at, r, left);
        }
        ck_assert(r == 0 || error == 0 || !disk_find(copied, "store"));
    }
    ck_assert_int_eq(hwt_delay_check(s.store, NULL, NULL), 0);
}
END_TEST

/* Each of these is found where it is left out. */
START_TEST(test_each_sync_is_needed)
{
    static const enum disk_sync_kind kinds[] = { SYNC_LOG,   SYNC_SLOT,      SYNC_CHECKPOINT,
                                                 SYNC_STORE, SYNC_NAMES_NEW, SYNC_NAMES_RENAMED,
                                                 SYNC_ABOVE };
    unsigned found = 0;
    copying.mistake = MISTAKE_NO_SYNC;
    copying.mistaken = kinds[_i];
    copying.changed = look;
    ck_assert_int_eq(hwt_delay_copy(s.store, "copy"), 0);
    copying.changed = NULL;
    ck_assert_uint_gt(copying.mistakes, 0);
    for (int i = 0; i < 200; i++)
        found += crash() != A_STORE;
    ck_assert_msg(found > 0 || wrong > 0, "%s sync was left out, and nothing is wrong",
                  disk_sync_names[kinds[_i]]);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_copy_crash");
    TCase *tcase = tcase_create("crash");
    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_the_power_fails_while_copying);
    tcase_add_loop_test(tcase, test_what_fails_leaves_no_store, 0, 3);
    tcase_add_loop_test(tcase, test_each_sync_is_needed, 0, 7);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
