/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Puts that wait neither for the disk, nor for room, nor long for the lock: on a real file system that stands still, or refuses. */

#include <pthread.h>

#include "tests/delay/support/delay_fixture.h"
#include "hwt/delay/whole.h"

static hwt_delay *store;
static _Atomic int slot_error; /* of opening a slot */
static _Atomic int told;

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_opens = PTHREAD_COND_INITIALIZER;
static bool hold_syncs;

static int open_file(void *data, int directory, const char *name, int flags)
{
    if (slot_error != 0 && strncmp(name, "slot-", 5) == 0)
        return slot_error;
    return hwt_delay_real_system.open(data, directory, name, flags);
}

static int sync_file(void *data, int file)
{
    pthread_mutex_lock(&gate);
    while (hold_syncs)
        pthread_cond_wait(&gate_opens, &gate);
    pthread_mutex_unlock(&gate);
    return hwt_delay_real_system.sync(data, file);
}

static void set_gate(bool open)
{
    pthread_mutex_lock(&gate);
    hold_syncs = !open;
    pthread_cond_broadcast(&gate_opens);
    pthread_mutex_unlock(&gate);
}

static void setup(void)
{
    static struct hwt_delay_system system;
    system = hwt_delay_real_system;
    system.open = open_file;
    system.sync = sync_file;
    make_directory_name();
    slot_error = 0;
    told = 0;
    hwt_delay_options options = small_options();
    options.flags |= HWT_DELAY_NO_WAIT;
    ck_assert_int_eq(hwt_delay_open_on(store_directory, &options, &system, false, &store), 0);
}

static void teardown(void)
{
    hwt_delay_close(store);
    remove_store();
}

static void count_told(int result, void *arg)
{
    (void)arg;
    told += result == 0;
}

static int put_async(uint32_t number)
{
    static const char payload[1000];
    const hwt_delay_message message = { .due = hwt_delay_now(store) + HWT_MIN(60),
                                        .id = &number,
                                        .id_size = sizeof(number),
                                        .payload = payload,
                                        .payload_size = sizeof(payload) };
    return hwt_delay_put_async(store, &message, 1, count_told, NULL);
}

/* ---- room ---- */

/* A put may also have found the lock taken, by a thread that has no processor. */
static bool has_room(void)
{
    pthread_mutex_lock(&store->lock);
    int r = hwt_delay_log_try(store, 1100, 1200, true);
    pthread_mutex_unlock(&store->lock);
    return r == 0;
}

/* No flush returns, or no slot can be written: there is room for so many. */
START_TEST(a_put_does_not_wait_for_room)
{
    uint32_t count = 0, before;
    if (_i)
        slot_error = -EMFILE;
    set_gate(_i);
    int r = 0;
    while ((r = put_async(count)) == 0 || has_room())
        count += r == 0;
    ck_assert(r == -EAGAIN || (_i && r == -EMFILE));
    ck_assert_uint_lt(count, 200);
    ck_assert_uint_gt(count, 10);
    before = count;
    slot_error = 0;
    set_gate(true);
    while (count < before + 200) {
        if ((r = put_async(count)) == 0)
            count++;
        else
            usleep(1000);
        ck_assert(r == 0 || r == -EAGAIN || r == -EMFILE);
    }
    while ((uint32_t)told < count)
        usleep(1000);
}
END_TEST

/* As if a checkpoint had failed: what it lacked is told, since trying again at once does not help. */
static int try_with(bool full, int stuck)
{
    pthread_mutex_lock(&store->lock);
    store->full = full;
    store->stuck = stuck;
    int r = hwt_delay_log_try(store, 100, store->options.memory, true);
    store->full = false;
    store->stuck = 0;
    pthread_mutex_unlock(&store->lock);
    return r;
}

START_TEST(a_put_is_told_what_is_missing)
{
    int r;
    while ((r = put_async(1)) == -EAGAIN)
        usleep(1000);
    ck_assert_int_eq(r, 0);
    ck_assert_int_eq(try_with(true, 0), -ENOSPC);
    ck_assert_int_eq(try_with(false, -EMFILE), -EMFILE);
    ck_assert_int_eq(try_with(false, 0), -EAGAIN);
}
END_TEST

/* ---- the lock ---- */

static void *put_beside_the_lock(void *arg)
{
    *(int *)arg = put_async(1);
    return NULL;
}

START_TEST(a_put_does_not_wait_for_the_lock)
{
    pthread_t thread;
    int r = 1;
    pthread_mutex_lock(&store->lock);
    ck_assert_int_eq(pthread_create(&thread, NULL, put_beside_the_lock, &r), 0);
    pthread_join(thread, NULL);
    pthread_mutex_unlock(&store->lock);
    ck_assert_int_eq(r, -EAGAIN);
    while ((r = put_async(2)) == -EAGAIN)
        usleep(1000);
    ck_assert_int_eq(r, 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_no_wait");
    TCase *tcase = tcase_create("no_wait");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_put_does_not_wait_for_room, 0, 2);
    tcase_add_test(tcase, a_put_is_told_what_is_missing);
    tcase_add_test(tcase, a_put_does_not_wait_for_the_lock);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
