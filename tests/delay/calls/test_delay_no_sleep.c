/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Calls that do not wait do not sleep for the store's lock, want nothing twice, allocate next to nothing besides
 * their records, and end some leases at a time. The locks, the wants and the allocations of the calling thread are counted.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"
#include "tests/delay/support/delay_fixture.h"

enum { PUTS = 300, TRIES = 100, PAYLOAD = 4000, LEASES = HWT_DELAY_CHUNK + 100 };

static hwt_delay *store;
static struct hwt_delay_system held_system;
static atomic_bool hold; /* syncs */
static _Atomic int fail_sync;

/* ---- what is counted, on the thread that says so ---- */

static _Thread_local bool counts;
static _Thread_local unsigned slept, wants, allocations;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until);
void __real_hwt_delay_job_want(struct hwt_delay_job *job);
void __wrap_hwt_delay_job_want(struct hwt_delay_job *job);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    slept += counts && mutex == &store->lock;
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until)
{
    slept += counts && mutex == &store->lock;
    return __real_pthread_mutex_timedlock(mutex, until);
}

void __wrap_hwt_delay_job_want(struct hwt_delay_job *job)
{
    wants += counts;
    __real_hwt_delay_job_want(job);
}

void *__wrap_malloc(size_t size)
{
    allocations += counts;
    return __real_malloc(size);
}

/* ---- the store ---- */

static int sync_file(void *data, int file)
{
    while (hold)
        sched_yield();
    return fail_sync != 0 ? fail_sync : hwt_delay_real_system.sync(data, file);
}

static void begin(void)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    make_directory_name();
    held_system = hwt_delay_real_system;
    held_system.sync = sync_file;
    hold = false;
    fail_sync = 0;
    options.flags = HWT_DELAY_CREATE | HWT_DELAY_NO_WAIT;
    options.payload_max = 8192;
    options.segment_size = 1 << 20;
    options.memory = 1 << 20;
    options.lease = HWT_MS(1);
    ck_assert_int_eq(hwt_delay_open_on(store_directory, &options, &held_system, false, &store), 0);
}

static void end(void)
{
    hwt_delay_close(store);
    remove_store();
}

static void let_go(void)
{
    hold = false;
}

/* ---- puts ---- */

static struct told {
    unsigned count;
    int result;
    bool in_order;
} told;
static atomic_uint told_count;

static void note_told(int result, void *arg)
{
    told.in_order = told.in_order && (uintptr_t)arg == told.count;
    told.result = told.count == 0 || result == told.result ? result : 1;
    told.count++;
    told_count++;
}

static int put_one(uint32_t number, size_t size)
{
    static const char payload[PAYLOAD];
    const hwt_delay_message message = { .due = HWT_NEVER / 2,
                                        .id = &number,
                                        .id_size = sizeof(number),
                                        .payload = payload,
                                        .payload_size = size };
    counts = true;
    int r = hwt_delay_put_async(store, &message, 1, note_told, (void *)(uintptr_t)number);
    counts = false;
    return r;
}

/* Others may have the lock. */
static void put_surely(uint32_t number, size_t size)
{
    int r;
    while ((r = put_one(number, size)) == -EAGAIN)
        sched_yield();
    ck_assert_int_eq(r, 0);
}

/* The first put is in a frame that stays in its sync, whatever other syncs stand as well. */
static void hold_a_frame(void)
{
    told = (struct told){ .in_order = true };
    told_count = 0;
    hold = true;
    put_surely(0, 0);
    for (bool led = false; !led; sched_yield()) {
        pthread_mutex_lock(&store->lock);
        led = store->log.led && store->log.count == 0;
        pthread_mutex_unlock(&store->lock);
    }
}

struct beside {
    int result;
    unsigned slept;
};

static void *put_beside_the_lock(void *arg)
{
    struct beside *beside = arg;
    beside->result = put_one(0, 0);
    beside->slept = slept;
    return NULL;
}

START_TEST(the_lock_is_not_slept_for)
{
    struct beside beside = { 0 };
    pthread_t thread;
    pthread_mutex_lock(&store->lock);
    ck_assert_int_eq(pthread_create(&thread, NULL, put_beside_the_lock, &beside), 0);
    pthread_join(thread, NULL);
    pthread_mutex_unlock(&store->lock);
    ck_assert_int_eq(beside.result, -EAGAIN);
    ck_assert_uint_eq(beside.slept, 0);
    put_surely(0, 0);
    ck_assert_uint_eq(slept, 0);
}
END_TEST

/* The puts of one frame: their notices take few allocations, and all are told, in order, with the frame's result. */
START_TEST(notices_are_allocated_together)
{
    hold_a_frame();
    allocations = 0;
    for (uint32_t i = 1; i <= PUTS; i++) {
        unsigned before = allocations;
        while (put_one(i, 0) == -EAGAIN)
            allocations = before;
    }
    ck_assert_uint_ge(allocations, PUTS); /* the records */
    ck_assert_uint_le(allocations, PUTS + PUTS / 10);
    fail_sync = _i ? -EIO : 0;
    let_go();
    while (told_count <= PUTS)
        sched_yield();
    ck_assert(told.in_order);
    ck_assert_int_eq(told.result, _i ? -EIO : 0);
}
END_TEST

/* So that what is missing is memory, and not a longer log. */
static void lengthen_log(void)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    uint32_t count = 0;
    told_count = 0;
    while (stats.disk < 3 * UINT64_C(1048576)) {
        put_surely(count++, PAYLOAD);
        ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    }
    while (told_count < count)
        sched_yield();
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
}

/* A put may also have found the lock taken. */
static bool has_room(size_t size)
{
    pthread_mutex_lock(&store->lock);
    int r =
        hwt_delay_log_try(store, size + 100, size + sizeof(struct hwt_delay_record) + 100, true);
    pthread_mutex_unlock(&store->lock);
    return r == 0;
}

/* A call that comes again does not want a checkpoint or a longer log again. */
START_TEST(nothing_is_wanted_twice)
{
    const size_t size = _i ? 0 : PAYLOAD; /* records without a payload fill memory before a frame */
    uint32_t i = 1;
    if (_i)
        lengthen_log();
    hold_a_frame();
    for (int r; (r = put_one(i, size)) == 0 || has_room(size);)
        i += r == 0;
    wants = 0;
    for (unsigned j = 0; j < TRIES; j++)
        ck_assert_int_eq(put_one(i, size), -EAGAIN);
    ck_assert_uint_le(wants, 2);
    let_go();
    put_surely(i, size);
}
END_TEST

/* ---- leases ---- */

/* All of them are over. */
static void have_leases(void)
{
    static hwt_delay_message messages[LEASES];
    static uint32_t ids[LEASES];
    const hwt_delay_message *taken;
    for (uint32_t i = 0; i < LEASES; i++) {
        ids[i] = i;
        messages[i] = (hwt_delay_message){ .due = 1, .id = &ids[i], .id_size = sizeof(ids[i]) };
    }
    ck_assert_int_eq(hwt_delay_put(store, messages, LEASES), 0);
    ck_assert_int_eq(hwt_delay_take(store, LEASES, 0, &taken), LEASES);
    hwt_delay_free(taken);
    usleep(2000);
}

static uint64_t count_expired(void)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    return stats.expired;
}

/* Whoever does not wait ends some, and the next one goes on; others end all of them. */
START_TEST(leases_are_ended_in_parts)
{
    uint64_t ended = 0, before;
    int r = -EAGAIN;
    have_leases();
    while (_i && r == -EAGAIN) {
        before = ended;
        r = put_one(0, 0);
        ended = count_expired();
        ck_assert_uint_le(ended - before, HWT_DELAY_CHUNK);
        sched_yield();
    }
    if (!_i)
        r = hwt_delay_cancel(store, HWT_NEVER / 2, "none", 4);
    ck_assert(r == 0 || (!_i && r == -ENOENT));
    ck_assert_uint_eq(count_expired(), LEASES);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_no_sleep");
    TCase *tcase = tcase_create("no_sleep");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, the_lock_is_not_slept_for);
    tcase_add_loop_test(tcase, notices_are_allocated_together, 0, 2);
    tcase_add_loop_test(tcase, nothing_is_wanted_twice, 0, 2);
    tcase_add_loop_test(tcase, leases_are_ended_in_parts, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
