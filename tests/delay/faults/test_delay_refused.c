/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the system refuses while a store runs, for a while: descriptors, room. And its alarm. */

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "hwt/delay/whole.h"
#include "tests/delay/support/simulated.h"

enum { MANY = 1000 };

static struct hwt_delay_system refusing_system;
static char directory[64];
static hwt_delay *store;
static _Atomic int refuse_slots; /* what making one fails with; 0: it does not */
static atomic_uint slots_refused;

static int open_file(void *data, int at, const char *name, int flags)
{
    int with = strncmp(name, "slot-", 5) == 0 && flags & O_CREAT ? refuse_slots : 0;
    slots_refused += with != 0;
    return with != 0 ? with : hwt_delay_real_system.open(data, at, name, flags);
}

static void begin(void)
{
    strcpy(directory, "/tmp/hwt-delay-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    refusing_system = hwt_delay_real_system;
    refusing_system.open = open_file;
    refuse_slots = 0;
    slots_refused = 0;
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = 8192;
    options.segment_size = 1 << 17;
    options.memory = 1 << 20;
    ck_assert_int_eq(hwt_delay_open_on(directory, &options, &refusing_system, false, &store), 0);
}

static void end(void)
{
    char command[128];
    hwt_delay_close(store);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

static int put(uint64_t due, uint32_t id, size_t size)
{
    static const char payload[8192];
    const hwt_delay_message message = {
        .due = due,
        .id = &id,
        .id_size = sizeof(id),
        .payload = payload,
        .payload_size = size,
    };
    return hwt_delay_put(store, &message, 1);
}

static int put_till_refused(void)
{
    uint64_t due = hwt_delay_now(store) + HWT_MIN(60);
    int r = 0;
    for (uint32_t i = 0; r == 0; i++)
        r = put(due, i, 8000);
    return r;
}

/* ---- no checkpoint can be made ---- */

static void expect_puts_again(int refused)
{
    int r;
    refuse_slots = 0;
    while ((r = put(hwt_delay_now(store), 0, 8000)) == refused)
        usleep(1000);
    ck_assert_int_eq(r, 0);
}

/* A put that needs one says so, and does not try itself, over and over. */
START_TEST(test_without_descriptors_put_returns)
{
    static const int errors[] = { -EMFILE, -ENFILE, -ENOMEM };
    refuse_slots = errors[_i];
    ck_assert_int_eq(put_till_refused(), errors[_i]);
    unsigned before = slots_refused;
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(put(hwt_delay_now(store), i, 8000), errors[_i]);
    ck_assert_uint_lt(slots_refused - before, MANY / 2);
    expect_puts_again(errors[_i]);
}
END_TEST

/* What is put back needs room in the log alone. */
START_TEST(test_without_descriptors_retry_returns)
{
    const hwt_delay_message *taken;
    int r = 0;
    refuse_slots = -EMFILE;
    ck_assert_int_eq(put(hwt_delay_now(store), 1, 8000), 0);
    while (r == 0) {
        ck_assert_int_eq(hwt_delay_take(store, 1, HWT_NEVER, &taken), 1);
        r = hwt_delay_retry(store, taken->lease, hwt_delay_now(store));
        if (r == 0)
            hwt_delay_free(taken);
    }
    ck_assert_int_eq(r, -EMFILE);
    refuse_slots = 0;
    while ((r = hwt_delay_retry(store, taken->lease, hwt_delay_now(store))) == -EMFILE)
        usleep(1000);
    ck_assert_int_eq(r, 0);
    hwt_delay_free(taken);
}
END_TEST

/* The first that fails is one that the caller has asked for: others are tried all the same. */
START_TEST(test_after_a_checkpoint_of_the_callers_own)
{
    static const int errors[] = { -EMFILE, -ENOSPC };
    ck_assert_int_eq(put(hwt_delay_now(store) + HWT_MIN(60), 1, 10), 0);
    refuse_slots = errors[_i];
    ck_assert_int_eq(hwt_delay_checkpoint(store), errors[_i]);
    ck_assert_int_eq(put_till_refused(), errors[_i]);
    expect_puts_again(errors[_i]);
}
END_TEST

/* ---- a call that a signal interrupts ---- */

START_TEST(test_an_interrupted_truncate_is_repeated)
{
    static struct simulated s;
    simulated_new(&s);
    simulated_open(&s);
    s.process.fail_only = 1u << DISK_TRUNCATE;
    s.process.calls = 0;
    s.process.fail_at = 1;
    s.process.fail_count = 2;
    s.process.fail_with = -EINTR;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_gt(s.process.calls, 2);
    ck_assert_uint_eq(simulated_stats(&s).poisoned, 0);
    simulated_free(&s);
}
END_TEST

/* ---- the alarm ---- */

/* It is set to the earlier instant, though it was set already. */
START_TEST(test_an_earlier_message_sets_the_alarm_anew)
{
    ck_assert_int_ge(hwt_delay_fd(store), 0);
    ck_assert_int_eq(put(hwt_delay_now(store) + HWT_MIN(60), 1, 10), 0);
    for (bool looked = false; !looked;) {
        uint64_t due = hwt_delay_now(store) + HWT_MS(500);
        ck_assert_int_eq(put(due, 2, 10), 0);
        pthread_mutex_lock(&store->lock);
        uint64_t at = store->takes.alarm_at;
        pthread_mutex_unlock(&store->lock);
        looked = hwt_delay_now(store) < due; /* else it may have rung */
        ck_assert(!looked || at <= due);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_refused");
    TCase *tcase = tcase_create("refused");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_without_descriptors_put_returns, 0, 3);
    tcase_add_test(tcase, test_without_descriptors_retry_returns);
    tcase_add_loop_test(tcase, test_after_a_checkpoint_of_the_callers_own, 0, 2);
    tcase_add_test(tcase, test_an_interrupted_truncate_is_repeated);
    tcase_add_test(tcase, test_an_earlier_message_sets_the_alarm_anew);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
