/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The store as a program uses it: threads, waiting, the descriptor, errors. */

#include <poll.h>
#include <pthread.h>

#include "tests/delay/support/delay_fixture.h"

static hwt_delay *store;

static void setup(void)
{
    make_directory_name();
    hwt_delay_options options = small_options();
    ck_assert_int_eq(hwt_delay_open(store_directory, &options, &store), 0);
}

static void teardown(void)
{
    hwt_delay_close(store);
    remove_store();
}

static void reopen(void)
{
    hwt_delay_close(store);
    ck_assert_int_eq(hwt_delay_open(store_directory, NULL, &store), 0);
}

START_TEST(what_was_put_is_taken_when_it_is_due)
{
    uint64_t due = hwt_delay_now(store) + HWT_MS(100);
    hwt_delay_message message = message_of(due, "one", "payload");
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    const hwt_delay_message *taken = NULL;
    ck_assert_int_eq(hwt_delay_take(store, 10, HWT_SEC(10), &taken), 1);
    ck_assert_uint_ge(hwt_delay_now(store), due);
    ck_assert_uint_eq(taken[0].due, due);
    ck_assert_mem_eq(taken[0].payload, "payload", 7);
    ck_assert_int_eq(hwt_delay_cancel(store, due, "one", 3), -EBUSY);
    ck_assert_int_eq(hwt_delay_done(store, &taken[0].lease, 1), 1);
    ck_assert_int_eq(hwt_delay_done(store, &taken[0].lease, 1), 0);
    ck_assert_int_eq(hwt_delay_cancel(store, due, "one", 3), -ENOENT);
    hwt_delay_free(taken);
    ck_assert_int_eq(hwt_delay_take(store, 10, 0, &taken), 0);
}
END_TEST

static void *take_one(void *arg)
{
    const hwt_delay_message *taken = NULL;
    if (hwt_delay_take(store, 1, HWT_SEC(30), &taken) == 1)
        *(uint64_t *)arg = hwt_delay_now(store) - taken[0].due;
    usleep(700000);
    hwt_delay_free(taken);
    return NULL;
}

/* Neither waits for anything but the due time: generous, but far from the 30 s of the call. */
START_TEST(two_takers_that_wait_are_woken_in_time)
{
    pthread_t threads[2];
    uint64_t late[2] = { HWT_NEVER, HWT_NEVER }, now = hwt_delay_now(store);
    hwt_delay_message messages[] = { message_of(now + HWT_MS(300), "a", "1"),
                                     message_of(now + HWT_MS(600), "b", "2") };
    ck_assert_int_eq(hwt_delay_put(store, messages, 2), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_one, &late[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_uint_lt(late[i], HWT_SEC(15));
    }
}
END_TEST

START_TEST(what_is_not_done_comes_again_after_reopening)
{
    uint64_t due = hwt_delay_now(store);
    hwt_delay_message messages[] = { message_of(due, "a", "1"), message_of(due, "b", "2"),
                                     message_of(due + HWT_SEC(3600), "c", "3") };
    ck_assert_int_eq(hwt_delay_put(store, messages, 3), 0);
    const hwt_delay_message *taken = NULL;
    ck_assert_int_eq(hwt_delay_take(store, 10, 0, &taken), 2);
    ck_assert_int_eq(hwt_delay_done(store, &taken[0].lease, 1), 1);
    hwt_delay_free(taken);
    reopen();
    ck_assert_int_eq(hwt_delay_take(store, 10, 0, &taken), 1);
    ck_assert_mem_eq(taken[0].id, "b", 1);
    hwt_delay_free(taken);
    ck_assert_int_eq(hwt_delay_cancel(store, due + HWT_SEC(3600), "c", 1), 0);
}
END_TEST

static void note(int result, void *arg)
{
    __atomic_store_n((int *)arg, result == 0 ? 1 : -1, __ATOMIC_RELEASE);
}

START_TEST(a_put_that_nobody_waits_for_becomes_durable_by_itself)
{
    int told = 0;
    hwt_delay_message message = message_of(hwt_delay_now(store), "x", "y");
    ck_assert_int_eq(hwt_delay_put_async(store, &message, 1, note, &told), 0);
    const hwt_delay_message *taken = NULL;
    ck_assert_int_eq(hwt_delay_take(store, 1, HWT_SEC(60), &taken), 1);
    hwt_delay_free(taken);
    while (__atomic_load_n(&told, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
    ck_assert_int_eq(told, 1);
}
END_TEST

START_TEST(the_descriptor_is_readable_when_something_is_due)
{
    struct pollfd watched = { hwt_delay_fd(store), POLLIN, 0 };
    ck_assert_int_ge(watched.fd, 0);
    const hwt_delay_message *taken = NULL;
    ck_assert_int_eq(hwt_delay_take(store, 1, 0, &taken), 0);
    ck_assert_int_eq(poll(&watched, 1, 0), 0);
    hwt_delay_message message = message_of(hwt_delay_now(store) + HWT_MS(50), "x", "y");
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    int64_t n = 0;
    while (n == 0) {
        ck_assert_int_eq(poll(&watched, 1, 10000), 1);
        n = hwt_delay_take(store, 1, 0, &taken);
    }
    ck_assert_int_eq(n, 1);
    hwt_delay_free(taken);
}
END_TEST

static void *take_for_ever(void *arg)
{
    const hwt_delay_message *taken = NULL;
    *(int64_t *)arg = hwt_delay_take(store, 1, HWT_NEVER, &taken);
    return NULL;
}

START_TEST(a_taker_that_waits_can_be_woken)
{
    pthread_t thread;
    int64_t result = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, take_for_ever, &result), 0);
    for (int i = 0; i < 200; i++) {
        usleep(1000);
        hwt_delay_wake(store);
    }
    pthread_join(thread, NULL);
    ck_assert_int_eq(result, -ECANCELED);
}
END_TEST

/* ---- many threads ---- */

#define THREADS 8
#define EACH 500

static void *produce(void *arg)
{
    int number = *(int *)arg;
    for (int i = 0; i < EACH; i++) {
        char id[32];
        snprintf(id, sizeof(id), "%d-%d", number, i);
        hwt_delay_message message =
            message_of(hwt_delay_now(store) + HWT_MS((uint64_t)(i % 50) * 20), id, id);
        ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    }
    return NULL;
}

START_TEST(each_message_of_many_threads_comes_once)
{
    static bool seen[THREADS][EACH];
    pthread_t threads[THREADS];
    int numbers[THREADS];
    memset(seen, 0, sizeof(seen));
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, produce, &numbers[i]), 0);
    }
    for (int count = 0; count < THREADS * EACH;) {
        const hwt_delay_message *taken = NULL;
        int64_t n = hwt_delay_take(store, 64, HWT_SEC(20), &taken);
        ck_assert_int_gt(n, 0);
        uint64_t leases[64];
        for (int64_t i = 0; i < n; i++) {
            char id[32] = "";
            int thread, number;
            memcpy(id, taken[i].id, taken[i].id_size);
            ck_assert_int_eq(sscanf(id, "%d-%d", &thread, &number), 2);
            ck_assert(!seen[thread][number]);
            ck_assert_uint_le(taken[i].due, hwt_delay_now(store));
            seen[thread][number] = true;
            leases[i] = taken[i].lease;
        }
        ck_assert_int_eq(hwt_delay_done(store, leases, (size_t)n), n);
        hwt_delay_free(taken);
        count += (int)n;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    ck_assert_uint_eq(stats.pending, 0);
    ck_assert_uint_eq(stats.taken, THREADS * EACH);
    ck_assert_uint_eq(stats.files, 0);
}
END_TEST

/* ---- errors ---- */

START_TEST(wrong_arguments_are_refused)
{
    static char long_payload[8193];
    char id[256];
    memset(id, 'i', sizeof(id));
    hwt_delay_message message = message_of(1, "x", "y");
    ck_assert_int_eq(hwt_delay_put(store, &message, 0), -EINVAL);
    message.id_size = 0;
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), -EINVAL);
    message.id = id;
    message.id_size = 256;
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), -EINVAL);
    message.id_size = 255;
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    message.due = HWT_NEVER;
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), -EINVAL);
    message.due = HWT_NEVER - 1;
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    message.payload = long_payload;
    message.payload_size = sizeof(long_payload);
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), -EMSGSIZE);
    hwt_delay *second;
    ck_assert_int_eq(hwt_delay_open(store_directory, NULL, &second), -EBUSY);
    ck_assert_int_eq(hwt_delay_open("no/such/place", NULL, &second), -ENOENT);
    ck_assert_int_eq(hwt_delay_open(".", NULL, &second), -ENOENT);
    hwt_delay_options options = small_options();
    ck_assert_int_eq(hwt_delay_open("..", &options, &second), -ENOTEMPTY);
}
END_TEST

static int count_seen(const hwt_delay_message *message, void *data)
{
    (void)message;
    ++*(int *)data;
    return 0;
}

START_TEST(others_may_look_at_a_store_in_use)
{
    hwt_delay_message message = message_of(hwt_delay_now(store) + HWT_SEC(100), "x", "y");
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    message.id = "z";
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_READ_ONLY;
    hwt_delay *second;
    int seen = 0;
    ck_assert_int_eq(hwt_delay_open(store_directory, &options, &second), 0);
    ck_assert_int_eq(hwt_delay_visit(second, 0, HWT_NEVER, count_seen, &seen), 0);
    ck_assert_int_eq(seen, 2);
    ck_assert_int_eq(hwt_delay_put(second, &message, 1), -EROFS);
    ck_assert_int_eq(hwt_delay_check(second, NULL, NULL), 0);
    hwt_delay_close(second);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay");
    TCase *use = tcase_create("use");
    tcase_set_timeout(use, 100);
    tcase_add_checked_fixture(use, setup, teardown);
    tcase_add_test(use, what_was_put_is_taken_when_it_is_due);
    tcase_add_test(use, two_takers_that_wait_are_woken_in_time);
    tcase_add_test(use, what_is_not_done_comes_again_after_reopening);
    tcase_add_test(use, a_put_that_nobody_waits_for_becomes_durable_by_itself);
    tcase_add_test(use, the_descriptor_is_readable_when_something_is_due);
    tcase_add_test(use, a_taker_that_waits_can_be_woken);
    tcase_add_test(use, each_message_of_many_threads_comes_once);
    tcase_add_test(use, wrong_arguments_are_refused);
    tcase_add_test(use, others_may_look_at_a_store_in_use);
    suite_add_tcase(suite, use);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
