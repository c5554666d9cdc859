/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Who sleeps in take, or watches the descriptor, and what wakes them: on a real file system, with a
 * clock that is set, and with descriptors and reads that are refused.
 */

#include <poll.h>
#include <pthread.h>

#include "tests/delay/support/delay_fixture.h"
#include "hwt/delay/whole.h"

#define START UINT64_C(1800000000000000000)
#define HOUR HWT_MIN(60)

static hwt_delay *store;
static _Atomic uint64_t realtime, boottime;
static _Atomic int slot_error; /* of opening a slot */
static _Atomic bool fail_sync;

static uint64_t read_realtime(void *data)
{
    (void)data;
    return realtime;
}

static uint64_t read_boottime(void *data)
{
    (void)data;
    return boottime;
}

static int open_file(void *data, int directory, const char *name, int flags)
{
    if (slot_error != 0 && strncmp(name, "slot-", 5) == 0)
        return slot_error;
    return hwt_delay_real_system.open(data, directory, name, flags);
}

static int sync_file(void *data, int file)
{
    return fail_sync ? -EIO : hwt_delay_real_system.sync(data, file);
}

static void open_with(uint64_t leased_max)
{
    static struct hwt_delay_system system;
    system = hwt_delay_real_system;
    system.realtime = read_realtime;
    system.boottime = read_boottime;
    system.open = open_file;
    system.sync = sync_file;
    hwt_delay_options options = small_options();
    options.leased_max = leased_max;
    ck_assert_int_eq(hwt_delay_open_on(store_directory, &options, &system, false, &store), 0);
}

static void setup(void)
{
    make_directory_name();
    realtime = START;
    boottime = HWT_SEC(100);
    slot_error = 0;
    fail_sync = false;
    open_with(100);
}

static void teardown(void)
{
    hwt_delay_close(store);
    remove_store();
}

static void advance(uint64_t by)
{
    realtime += by;
    boottime += by;
}

static void put_at(uint64_t due, const char *id)
{
    hwt_delay_message message = message_of(due, id, "");
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
}

/* ---- threads that take ---- */

struct taker {
    pthread_t thread;
    uint64_t wait;
    _Atomic int64_t result; /* 1000: it has not returned */
    const hwt_delay_message *taken;
};

static void *take_one(void *arg)
{
    struct taker *taker = arg;
    taker->result = hwt_delay_take(store, 1, taker->wait, &taker->taken);
    return NULL;
}

static uint64_t sleepers(void)
{
    pthread_mutex_lock(&store->lock);
    uint64_t n = store->takes.waiting;
    pthread_mutex_unlock(&store->lock);
    return n;
}

/* Returns when so many wait in take. One that has the lock let go of sleeps. */
static void await_sleepers(uint64_t count)
{
    while (sleepers() != count)
        usleep(200);
}

static void start(struct taker *taker, uint64_t wait)
{
    uint64_t before = sleepers();
    *taker = (struct taker){ .wait = wait, .result = 1000 };
    ck_assert_int_eq(pthread_create(&taker->thread, NULL, take_one, taker), 0);
    await_sleepers(before + 1);
}

/* From here on the alarm does not ring: who sleeps is woken by the call that is looked at. */
static void silence_the_alarm(void)
{
    bool silent = false;
    while (!silent) {
        pthread_mutex_lock(&store->lock);
        store->takes.alarm_at = 0; /* an earlier one is set, it seems */
        hwt_delay_job_at(&store->jobs.all[HWT_DELAY_ALARM], HWT_NEVER);
        pthread_mutex_unlock(&store->lock);
        while (hwt_delay_job_runs(&store->jobs.all[HWT_DELAY_ALARM]))
            usleep(200);
        pthread_mutex_lock(&store->lock);
        silent = store->takes.alarm_at == 0;
        pthread_mutex_unlock(&store->lock);
    }
}

static int64_t end(struct taker *taker)
{
    pthread_join(taker->thread, NULL);
    return taker->result;
}

static int64_t take_for(uint64_t wait)
{
    const hwt_delay_message *taken;
    int64_t n = hwt_delay_take(store, 1, wait, &taken);
    if (n > 0)
        hwt_delay_free(taken);
    return n;
}

static int64_t take_now(void)
{
    return take_for(0);
}

static bool is_readable(int timeout)
{
    struct pollfd watched = { hwt_delay_fd(store), POLLIN, 0 };
    ck_assert_int_ge(watched.fd, 0);
    return poll(&watched, 1, timeout) == 1;
}

enum { LONG = 30000 }; /* ms: far longer than anything here takes */

/* ---- the clock ---- */

START_TEST(sleepers_are_told_of_a_leap)
{
    struct taker takers[3];
    put_at(START + 10 * HOUR, "x");
    for (int i = 0; i < 3; i++)
        start(&takers[i], HWT_NEVER);
    realtime += 5 * HOUR;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(end(&takers[i]), -ETIME);
}
END_TEST

START_TEST(a_leap_is_told_once_and_then_waited_for)
{
    struct taker taker;
    put_at(START + HWT_SEC(5), "x");
    realtime += 5 * HOUR;
    ck_assert_int_eq(take_for(HWT_NEVER), -ETIME);
    ck_assert_int_eq(take_for(HWT_MS(20)), -ETIME);
    ck_assert_int_eq(take_now(), -ETIME);
    start(&taker, HWT_NEVER);
    usleep(20000);
    ck_assert_int_eq(taker.result, 1000);
    if (_i)
        silence_the_alarm();
    if (_i)
        ck_assert_int_eq(hwt_delay_accept_clock(store), 0);
    else
        realtime -= 5 * HOUR - HWT_SEC(5);
    ck_assert_int_eq(end(&taker), 1);
    hwt_delay_free(taker.taken);
    /* The next leap is another one. */
    put_at(START + 20 * HOUR, "y");
    realtime += 5 * HOUR;
    ck_assert_int_eq(take_for(HWT_NEVER), -ETIME);
}
END_TEST

START_TEST(the_descriptor_tells_of_a_leap_once)
{
    put_at(START + HWT_SEC(5), "x");
    ck_assert_int_eq(is_readable(0), true);
    ck_assert_int_eq(take_now(), 0);
    ck_assert_int_eq(is_readable(0), false);
    realtime += 5 * HOUR;
    ck_assert_int_eq(is_readable(LONG), true);
    ck_assert_int_eq(take_now(), -ETIME);
    ck_assert_int_eq(is_readable(50), false);
    if (_i)
        ck_assert_int_eq(hwt_delay_accept_clock(store), 0);
    else
        realtime -= 5 * HOUR - HWT_SEC(5);
    ck_assert_int_eq(is_readable(LONG), true);
    ck_assert_int_eq(take_now(), 1);
}
END_TEST

/* It is somebody else who sees that the clock is right again. */
START_TEST(a_sleeper_is_woken_by_whoever_sees_the_clock)
{
    struct taker taker;
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    put_at(START + HWT_SEC(5), "x");
    realtime += 5 * HOUR;
    ck_assert_int_eq(take_now(), -ETIME);
    start(&taker, HWT_NEVER);
    silence_the_alarm();
    realtime -= 5 * HOUR - HWT_SEC(5);
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    ck_assert_uint_eq(stats.held, 0);
    ck_assert_int_eq(end(&taker), 1);
    hwt_delay_free(taker.taken);
}
END_TEST

START_TEST(a_sleeper_is_woken_when_the_clock_is_set_forward)
{
    struct taker taker;
    put_at(START + HWT_MIN(30), "x");
    start(&taker, HWT_NEVER);
    realtime += HWT_MIN(30); /* less than a leap */
    ck_assert_int_eq(end(&taker), 1);
    hwt_delay_free(taker.taken);
}
END_TEST

/* ---- leases ---- */

static uint64_t take_lease(void)
{
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_take(store, 1, 0, &taken), 1);
    uint64_t lease = taken->lease;
    hwt_delay_free(taken);
    return lease;
}

START_TEST(a_sleeper_is_woken_by_a_lease_that_is_cut_short)
{
    struct taker taker;
    put_at(START, "x");
    uint64_t lease = take_lease();
    start(&taker, HWT_NEVER);
    silence_the_alarm();
    ck_assert_int_eq(hwt_delay_extend(store, lease, 0), 0);
    ck_assert_int_eq(end(&taker), 1);
    ck_assert_uint_eq(taker.taken->expired, 1);
    hwt_delay_free(taker.taken);
}
END_TEST

enum way { DONE, RETRY, EXTEND, EXPIRE, WAYS };

static void end_lease(enum way way, uint64_t lease)
{
    if (way == DONE)
        ck_assert_int_eq(hwt_delay_done(store, &lease, 1), 1);
    else if (way == RETRY)
        ck_assert_int_eq(hwt_delay_retry(store, lease, START + HOUR), 0);
    else if (way == EXTEND)
        ck_assert_int_eq(hwt_delay_extend(store, lease, 0), 0);
    else
        advance(HWT_SEC(61));
}

START_TEST(all_leased_is_waited_for)
{
    struct taker taker;
    hwt_delay_close(store);
    open_with(1);
    put_at(START, "x");
    put_at(START + 1, "y");
    advance(1);
    uint64_t lease = take_lease();
    ck_assert_int_eq(take_now(), -ENOBUFS);
    ck_assert_int_eq(take_for(HWT_MS(30)), -ENOBUFS);
    start(&taker, HWT_NEVER);
    usleep(10000);
    ck_assert_int_eq(taker.result, 1000);
    if (_i != EXPIRE)
        silence_the_alarm();
    end_lease((enum way)_i, lease);
    ck_assert_int_eq(end(&taker), 1);
    hwt_delay_free(taker.taken);
}
END_TEST

/* It waits for a second, and does not ask for the lock a million times. */
START_TEST(all_leased_is_no_reason_to_spin)
{
    hwt_delay_close(store);
    open_with(1);
    put_at(START, "x");
    put_at(START, "y");
    (void)take_lease();
    struct timespec before, after, used_before, used_after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used_before);
    ck_assert_int_eq(take_for(HWT_MS(400)), -ENOBUFS);
    clock_gettime(CLOCK_MONOTONIC, &after);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used_after);
    int64_t ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    int64_t used = (used_after.tv_sec - used_before.tv_sec) * 1000 +
                   (used_after.tv_nsec - used_before.tv_nsec) / 1000000;
    ck_assert_int_ge(ms, 399);
    ck_assert_int_lt(used, 200);
}
END_TEST

START_TEST(the_descriptor_waits_for_a_lease_to_end)
{
    hwt_delay_close(store);
    open_with(1);
    put_at(START, "x");
    put_at(START + 1, "y");
    advance(1);
    uint64_t lease = take_lease();
    ck_assert_int_eq(is_readable(LONG), true);
    ck_assert_int_eq(take_now(), -ENOBUFS);
    ck_assert_int_eq(is_readable(50), false);
    put_at(START + 1, "z"); /* no reason to look again */
    ck_assert_int_eq(is_readable(50), false);
    end_lease((enum way)_i, lease);
    ck_assert_int_eq(is_readable(LONG), true);
    ck_assert_int_eq(take_now(), 1);
}
END_TEST

/* ---- files ---- */

/* A message that is in a slot alone, and whose time comes while slots cannot be opened. */
static void make_trouble(int error)
{
    put_at(START + HOUR, "x");
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    slot_error = error;
    advance(HOUR);
}

START_TEST(what_cannot_be_read_is_told_once_and_tried_again)
{
    struct taker taker;
    make_trouble(_i ? -EMFILE : -EIO);
    ck_assert_int_eq(take_for(HWT_NEVER), slot_error);
    ck_assert_int_eq(take_for(HWT_MS(20)), slot_error);
    start(&taker, HWT_NEVER);
    usleep(20000);
    ck_assert_int_eq(taker.result, 1000);
    slot_error = 0;
    ck_assert_int_eq(end(&taker), 1);
    hwt_delay_free(taker.taken);
}
END_TEST

START_TEST(the_descriptor_tells_once_of_what_cannot_be_read)
{
    ck_assert_int_eq(is_readable(0), true);
    ck_assert_int_eq(take_now(), 0);
    make_trouble(-EMFILE);
    ck_assert_int_eq(is_readable(LONG), true);
    ck_assert_int_eq(take_now(), -EMFILE);
    ck_assert_int_eq(is_readable(50), false);
    /* What needs no file goes on. */
    put_at(START, "y");
    ck_assert_int_eq(is_readable(LONG), true);
    ck_assert_int_eq(take_now(), 1);
    slot_error = 0;
    while (is_readable(LONG) && take_now() == 0)
        continue;
}
END_TEST

START_TEST(a_failed_flush_wakes_all)
{
    struct taker takers[2];
    ck_assert_int_eq(is_readable(0), true);
    ck_assert_int_eq(take_now(), 0);
    for (int i = 0; i < _i; i++)
        start(&takers[i], HWT_NEVER);
    fail_sync = true;
    hwt_delay_message message = message_of(START, "x", "");
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), -EIO);
    for (int i = 0; i < _i; i++)
        ck_assert_int_eq(end(&takers[i]), -EIO);
    ck_assert_int_eq(is_readable(0), _i == 0);
    ck_assert_int_eq(take_for(HWT_NEVER), -EIO);
    ck_assert_int_eq(take_now(), -EIO);
    ck_assert_int_eq(is_readable(20), false);
    ck_assert_int_eq(hwt_delay_close(store), -EIO);
    fail_sync = false;
    open_with(100);
}
END_TEST

/* ---- wake ---- */

START_TEST(a_wake_is_kept_for_the_next_that_would_wait)
{
    struct taker takers[2];
    ck_assert_int_eq(hwt_delay_wake(store), 0);
    ck_assert_int_eq(hwt_delay_wake(store), 0);
    ck_assert_int_eq(take_now(), 0);
    put_at(START, "x");
    ck_assert_int_eq(take_for(HWT_NEVER), 1);
    ck_assert_int_eq(take_for(HWT_NEVER), -ECANCELED);
    ck_assert_int_eq(take_for(HWT_MS(1)), 0);
    /* It is not kept where somebody waits. */
    start(&takers[0], HWT_NEVER);
    start(&takers[1], HWT_NEVER);
    ck_assert_int_eq(hwt_delay_wake(store), 0);
    ck_assert_int_eq(end(&takers[0]), -ECANCELED);
    ck_assert_int_eq(end(&takers[1]), -ECANCELED);
    ck_assert_int_eq(take_for(HWT_MS(1)), 0);
}
END_TEST

static _Atomic bool leaving;

static void *consume(void *arg)
{
    (void)arg;
    while (!leaving)
        (void)take_for(HWT_NEVER);
    hwt_delay_wake(store); /* the next one */
    return NULL;
}

/* Some sleep, some are about to. */
START_TEST(consumers_end_one_after_the_other)
{
    pthread_t threads[4];
    leaving = false;
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, consume, NULL), 0);
    if (_i % 2)
        await_sleepers(4);
    leaving = true;
    hwt_delay_wake(store);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_waiting");
    TCase *tcase = tcase_create("waiting");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, sleepers_are_told_of_a_leap);
    tcase_add_loop_test(tcase, a_leap_is_told_once_and_then_waited_for, 0, 2);
    tcase_add_loop_test(tcase, the_descriptor_tells_of_a_leap_once, 0, 2);
    tcase_add_test(tcase, a_sleeper_is_woken_by_whoever_sees_the_clock);
    tcase_add_test(tcase, a_sleeper_is_woken_when_the_clock_is_set_forward);
    tcase_add_test(tcase, a_sleeper_is_woken_by_a_lease_that_is_cut_short);
    tcase_add_loop_test(tcase, all_leased_is_waited_for, 0, WAYS);
    tcase_add_test(tcase, all_leased_is_no_reason_to_spin);
    tcase_add_loop_test(tcase, the_descriptor_waits_for_a_lease_to_end, 0, WAYS);
    tcase_add_loop_test(tcase, what_cannot_be_read_is_told_once_and_tried_again, 0, 2);
    tcase_add_test(tcase, the_descriptor_tells_once_of_what_cannot_be_read);
    tcase_add_loop_test(tcase, a_failed_flush_wakes_all, 0, 3);
    tcase_add_test(tcase, a_wake_is_kept_for_the_next_that_would_wait);
    tcase_add_loop_test(tcase, consumers_end_one_after_the_other, 0, 10);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
