/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How often a message was handed over: through leases that end, retries, and consumers that die of it. */

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/delay/support/delay_fixture.h"

static hwt_delay *store;

static void open_store(void)
{
    hwt_delay_options options = small_options();
    ck_assert_int_eq(hwt_delay_open(store_directory, &options, &store), 0);
}

static void close_store(void)
{
    ck_assert_int_eq(hwt_delay_close(store), 0);
    store = NULL;
}

static void setup(void)
{
    make_directory_name();
    open_store();
}

static void teardown(void)
{
    close_store();
    remove_store();
}

static void put(uint64_t due, const char *id)
{
    const hwt_delay_message message = message_of(due, id, "payload");
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
}

static uint64_t take(uint32_t deliveries)
{
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_take(store, 1, 0, &taken), 1);
    uint64_t lease = taken->lease;
    ck_assert_uint_eq(taken->deliveries, deliveries);
    hwt_delay_free(taken);
    return lease;
}

static int check_one(const hwt_delay_message *message, void *deliveries)
{
    ck_assert_uint_eq(message->deliveries, *(uint32_t *)deliveries);
    return 1;
}

static void check_seen(uint32_t deliveries)
{
    ck_assert_int_eq(hwt_delay_visit(store, 0, HWT_NEVER, check_one, &deliveries), 1);
}

/* A process takes so many messages, and dies. */
static void die_of(int64_t count)
{
    const hwt_delay_message *taken;
    pid_t child = fork();
    if (child == 0) {
        hwt_delay_options options = small_options();
        if (hwt_delay_open(store_directory, &options, &store) == 0 &&
            hwt_delay_take(store, (size_t)count, 0, &taken) == count)
            raise(SIGKILL);
        _exit(1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

START_TEST(each_time_that_it_is_handed_over_counts)
{
    put(1, "a");
    check_seen(0);
    uint64_t lease = take(1);
    check_seen(1);
    ck_assert_int_eq(hwt_delay_extend(store, lease, 0), 0);
    lease = take(2);
    ck_assert_int_eq(hwt_delay_retry(store, lease, 2), 0);
    lease = take(3);
    ck_assert_int_eq(hwt_delay_extend(store, lease, 0), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    close_store();
    open_store();
    check_seen(3);
    take(4);
    put(2, "a"); /* another one, in its place */
    take(1);
}
END_TEST

/* 0: the message is in the log; 1: in a slot; 2: in a slot again, with its count. */
START_TEST(a_process_that_is_killed_counts)
{
    put(1, "a");
    for (uint32_t i = 0; i < 3; i++) {
        if (_i == 1 && i == 0)
            ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
        close_store();
        die_of(1);
        open_store();
        check_seen(i + 1);
        if (_i == 2)
            ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
        check_seen(i + 1);
    }
    take(4);
}
END_TEST

/* Counts of what is not loaded yet survive any number of openings and checkpoints. */
START_TEST(a_count_waits_for_its_message)
{
    put(1, "a");
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    close_store();
    die_of(1);
    for (uint64_t i = 0; i < 4; i++) {
        open_store();
        put(hwt_delay_now(store) + HWT_MIN(60), "later");
        ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
        put(hwt_delay_now(store) + HWT_MIN(61), "later");
        ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
        check_seen(1);
        close_store();
    }
    open_store();
    take(2);
}
END_TEST

/* Two are taken by a process that is killed; later both are loaded, and one is taken again and again. */
START_TEST(a_count_is_kept_by_what_is_loaded_and_not_taken)
{
    put(1, "a");
    put(2, "b");
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    close_store();
    die_of(2);
    open_store();
    for (uint32_t i = 2; i < 400; i++) {
        ck_assert_int_eq(hwt_delay_extend(store, take(i), 0), 0);
        if (i % 50 == 0)
            ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    }
    close_store();
    open_store();
    uint64_t lease = take(400);
    ck_assert_int_eq(hwt_delay_done(store, &lease, 1), 1);
    take(2);
}
END_TEST

/* More takes than there is room for, and nothing is done. */
START_TEST(what_is_handed_over_often_stays_counted)
{
    put(1, "a");
    for (uint32_t i = 1; i <= 2000; i++)
        ck_assert_int_eq(hwt_delay_extend(store, take(i), 0), 0);
    close_store();
    open_store();
    take(2001);
}
END_TEST

/* At most three deliveries, and then it is a dead letter: whoever takes does that, in one step. */
static void consume(void (*work)(void))
{
    const hwt_delay_message *taken;
    if (hwt_delay_take(store, 1, 0, &taken) != 1)
        return;
    if (taken->deliveries > 3) {
        hwt_delay_message dead = {
            .due = HWT_NEVER - 1,
            .id = taken->id,
            .id_size = taken->id_size,
            .payload = taken->payload,
            .payload_size = taken->payload_size,
        };
        hwt_delay_change changes[] = {
            { .op = HWT_DELAY_OP_DONE, .lease = taken->lease },
            { .op = HWT_DELAY_OP_PUT, .message = &dead },
        };
        ck_assert_int_eq(hwt_delay_apply(store, changes, 2, NULL), 0);
    } else {
        work();
    }
    hwt_delay_free(taken);
}

static void deadly_work(void)
{
    raise(SIGKILL);
}

static int is_dead_letter(const hwt_delay_message *message, void *data)
{
    (void)data;
    ck_assert_uint_eq(message->due, HWT_NEVER - 1);
    ck_assert_mem_eq(message->payload, "payload", 7);
    return 1;
}

START_TEST(what_kills_its_consumers_becomes_a_dead_letter)
{
    int killed = 0;
    put(1, "a");
    close_store();
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            open_store();
            consume(deadly_work);
            close_store();
            _exit(0);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        killed += WIFSIGNALED(status);
    }
    open_store();
    ck_assert_int_eq(killed, 3);
    ck_assert_int_eq(hwt_delay_visit(store, 0, HWT_NEVER, is_dead_letter, NULL), 1);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_deliveries");
    TCase *tcase = tcase_create("deliveries");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, each_time_that_it_is_handed_over_counts);
    tcase_add_loop_test(tcase, a_process_that_is_killed_counts, 0, 3);
    tcase_add_test(tcase, a_count_waits_for_its_message);
    tcase_add_test(tcase, a_count_is_kept_by_what_is_loaded_and_not_taken);
    tcase_add_test(tcase, what_is_handed_over_often_stays_counted);
    tcase_add_test(tcase, what_kills_its_consumers_becomes_a_dead_letter);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
