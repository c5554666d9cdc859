/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Many stores in a process: what they cost, and that none waits for another one's disk or callback. */

#include <dirent.h>
#include <sys/stat.h>

#include "tests/delay/support/many.h"

enum { THREADS_MAX = 7, HELD = 4 };

/* ---- what a process has ---- */

static uint64_t disk_of(const char *path)
{
    uint64_t bytes = 0;
    DIR *stream = opendir(path);
    const struct dirent *entry;
    struct stat status;
    ck_assert_ptr_nonnull(stream);
    while ((entry = readdir(stream))) {
        if (strcmp(entry->d_name, "..") == 0)
            continue;
        ck_assert_int_eq(fstatat(dirfd(stream), entry->d_name, &status, 0), 0);
        bytes += (uint64_t)status.st_blocks * 512;
    }
    closedir(stream);
    return bytes;
}

/* More are started while disks or callbacks stand still, and end after that. */
static void await_few_threads(void)
{
    while (threads() > THREADS_MAX)
        usleep(1000);
}

/* ---- a hundred ---- */

static void close_at_random(void)
{
    static uint64_t seed;
    seed = test_seed_choose();
    printf("seed %" PRIu64 "\n", seed);
    for (int left = STORES; left > 0; left--) {
        int n = (int)(test_random(&seed) % (uint64_t)left);
        for (int i = 0; i < STORES; i++) {
            if (!ones[i].store || n-- > 0)
                continue;
            close_one(&ones[i]);
            break;
        }
    }
}

START_TEST(test_a_hundred_stores_cost_little)
{
    int before = descriptors();
    uint64_t disk = 0;
    open_many(STORES);
    for (int i = 0; i < STORES; i++)
        disk += disk_of(ones[i].path);
    ck_assert_uint_le(disk, UINT64_C(100) << 20);
    for (int i = 0; i < STORES; i++) {
        ck_assert_int_ge(hwt_delay_fd(ones[i].store), 0);
        put(&ones[i], 0, 1);
        put_async(&ones[i], 2, note_told);
        take_and_finish(&ones[i]);
    }
    for (int i = 0; i < STORES; i++)
        await_told(&ones[i], 1);
    await_few_threads();
    ck_assert_int_le(descriptors(), before + 6 * STORES);
    printf("%d threads, %d descriptors, %" PRIu64 " bytes of disk when empty\n", threads(),
           descriptors(), disk);
    close_at_random();
    await_no_threads();
    ck_assert_int_eq(descriptors(), before);
}
END_TEST

static _Atomic bool enough;

/* One store for each of these threads: opened, used and closed again and again. */
static void *live(void *arg)
{
    struct one *one = arg;
    for (uint32_t i = 0; !enough || i < 3; i++) {
        must(open_one(one) == 0);
        put_async(one, i, note_told);
        put(one, 0, i);
        take_and_finish(one);
        if (i % 2 == 0)
            must(hwt_delay_checkpoint(one->store) == 0);
        must(hwt_delay_close(one->store) == 0);
        must(one->told == (int)i + 1);
    }
    return NULL;
}

START_TEST(test_stores_come_and_go_beside_others)
{
    pthread_t lives[6];
    for (int i = 0; i < 6; i++)
        lives[i] = spawn(live, &ones[i]);
    for (int i = 6; i < 26; i++) {
        ck_assert_int_eq(open_one(&ones[i]), 0);
        put_async(&ones[i], 1, note_told);
    }
    for (int i = 25; i >= 6; i--) {
        close_one(&ones[i]);
        ck_assert_int_eq(ones[i].told, 1);
    }
    enough = true;
    for (int i = 0; i < 6; i++)
        join(lives[i]);
    await_no_threads();
}
END_TEST

/* ---- one that stands still ---- */

START_TEST(test_disks_that_stand_still_hold_nobody_else)
{
    open_many(HELD + 2);
    for (int i = 0; i < HELD; i++) {
        set_door(&ones[i].syncs, true);
        put_async(&ones[i], 1, note_told);
    }
    for (int i = 0; i < HELD; i++)
        await_standing(&ones[i].syncs);
    expect_to_work(&ones[HELD]);
    for (int i = 0; i < HELD; i++) {
        ck_assert_int_eq(ones[i].told, 0);
        set_door(&ones[i].syncs, false);
    }
    for (int i = 0; i < HELD + 2; i++)
        close_one(&ones[i]);
    for (int i = 0; i < HELD; i++)
        ck_assert_int_eq(ones[i].told, 1);
}
END_TEST

/* The first slot of each cannot be made: the thread that makes the checkpoint stands. */
START_TEST(test_checkpoints_that_stand_still_hold_nobody_else)
{
    open_many(HELD + 1);
    for (int i = 0; i < HELD; i++) {
        set_door(&ones[i].slots, true);
        for (uint32_t n = 0; n < 6; n++)
            put(&ones[i], HWT_MIN(60), n);
    }
    for (int i = 0; i < HELD; i++)
        await_standing(&ones[i].slots);
    expect_to_work(&ones[HELD]);
    for (int i = 0; i < HELD; i++)
        set_door(&ones[i].slots, false);
    for (int i = 0; i <= HELD; i++)
        close_one(&ones[i]);
}
END_TEST

/* A message in a slot is loaded when its time comes: the thread that loads stands. */
START_TEST(test_loads_that_stand_still_hold_nobody_else)
{
    open_many(HELD + 1);
    for (int i = 0; i < HELD; i++) {
        put(&ones[i], HWT_MIN(30), 1);
        ck_assert_int_eq(hwt_delay_checkpoint(ones[i].store), 0);
        set_door(&ones[i].slots, true);
        ones[i].passed = HWT_MIN(30);
    }
    for (int i = 0; i < HELD; i++)
        await_standing(&ones[i].slots);
    put(&ones[HELD], HWT_SEC(3), 3);
    ck_assert_int_eq(hwt_delay_checkpoint(ones[HELD].store), 0);
    take_and_finish(&ones[HELD]);
    expect_to_work(&ones[HELD]);
    for (int i = 0; i < HELD; i++) {
        set_door(&ones[i].slots, false);
        take_and_finish(&ones[i]);
    }
    for (int i = 0; i <= HELD; i++)
        close_one(&ones[i]);
}
END_TEST

START_TEST(test_callbacks_that_do_not_return_hold_nobody_else)
{
    open_many(HELD + 1);
    set_door(&callbacks, true);
    for (int i = 0; i < HELD; i++)
        put_async(&ones[i], 1, stand);
    pthread_mutex_lock(&lock);
    while (callbacks.standing < HELD)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    expect_to_work(&ones[HELD]);
    set_door(&callbacks, false);
    for (int i = 0; i < HELD; i++)
        await_told(&ones[i], 1);
    await_few_threads();
    for (int i = 0; i <= HELD; i++)
        close_one(&ones[i]);
    await_no_threads();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_many");
    TCase *tcase = tcase_create("many");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_a_hundred_stores_cost_little);
    tcase_add_test(tcase, test_stores_come_and_go_beside_others);
    tcase_add_test(tcase, test_disks_that_stand_still_hold_nobody_else);
    tcase_add_test(tcase, test_checkpoints_that_stand_still_hold_nobody_else);
    tcase_add_test(tcase, test_loads_that_stand_still_hold_nobody_else);
    tcase_add_test(tcase, test_callbacks_that_do_not_return_hold_nobody_else);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
