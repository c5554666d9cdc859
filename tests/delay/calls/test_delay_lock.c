/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Nobody waits long for the lock: what a visit, or a search for a ticket, goes through before it lets go of the lock
 * is bounded, however many messages are new or leased; so is what a call on a ticket goes through. Steps are
 * counted, so that no clock decides.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "tests/delay/support/simulated_one.h"

#include "hwt/delay/whole.h"

enum { MANY = 20000, MOST = 8000 };

static uint64_t steps, most_steps; /* since the lock was taken */

struct hwt_delay_record *__real_hwt_delay_keys_RB_NEXT(struct hwt_delay_keys *keys,
                                                       struct hwt_delay_record *record);
struct hwt_delay_record *__wrap_hwt_delay_keys_RB_NEXT(struct hwt_delay_keys *keys,
                                                       struct hwt_delay_record *record);
struct hwt_delay_lease *__real_hwt_delay_lease_next(struct hwt_delay_lease *lease);
struct hwt_delay_lease *__wrap_hwt_delay_lease_next(struct hwt_delay_lease *lease);
int __real_memcmp(const void *a, const void *b, size_t size);
int __wrap_memcmp(const void *a, const void *b, size_t size);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

struct hwt_delay_record *__wrap_hwt_delay_keys_RB_NEXT(struct hwt_delay_keys *keys,
                                                       struct hwt_delay_record *record)
{
    steps++;
    return __real_hwt_delay_keys_RB_NEXT(keys, record);
}

struct hwt_delay_lease *__wrap_hwt_delay_lease_next(struct hwt_delay_lease *lease)
{
    steps++;
    return __real_hwt_delay_lease_next(lease);
}

/* Of ids. */
int __wrap_memcmp(const void *a, const void *b, size_t size)
{
    steps++;
    return __real_memcmp(a, b, size);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    most_steps = steps > most_steps ? steps : most_steps;
    steps = 0;
    return __real_pthread_mutex_unlock(lock);
}

static void start(void)
{
    simulated_new(&s);
    s.options.memory = 256 << 20;
    s.options.segment_size = 64 << 20;
    simulated_open(&s);
}

/* Messages from a due time on, with numbers from `from` on; [later]: a nanosecond after each other. */
static void put_some(uint64_t due, uint32_t from, uint64_t later, uint64_t first_due)
{
    enum { AT_ONCE = 250 };
    static uint32_t ids[AT_ONCE];
    hwt_delay_message messages[AT_ONCE];
    for (uint32_t i = 0; i < MANY; i += AT_ONCE) {
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            ids[k] = first_due ? 0 : from + i + k;
            messages[k] = (hwt_delay_message){ .due = due + (i + k) * later,
                                               .first_due = first_due,
                                               .id = &ids[k],
                                               .id_size = sizeof(ids[k]) };
        }
        ck_assert_int_eq(hwt_delay_put(s.store, messages, AT_ONCE), 0);
    }
}

static int count_one(const hwt_delay_message *message, void *arg)
{
    (void)message;
    ++*(uint32_t *)arg;
    return 0;
}

static void lease_some(void)
{
    for (int64_t sum = 0; sum < MANY;) {
        const hwt_delay_message *taken;
        int64_t n = hwt_delay_take(s.store, 500, 0, &taken);
        ck_assert_int_gt(n, 0);
        hwt_delay_free(taken);
        sum += n;
    }
}

/* [0]: all are due in turn; [1]: at one instant. Some are in slots, too. */
START_TEST(test_a_visit_lets_go_of_the_lock)
{
    uint32_t count = 0;
    put_some(s.realtime, 0, _i == 0, 0);
    simulated_advance(&s, HWT_SEC(1));
    lease_some();
    put_some(s.realtime + HOUR, 0, _i == 0, 0);
    checkpoint();
    put_some(s.realtime + HOUR, MANY, _i == 0, 0);
    const hwt_delay_message *none;
    char ticket[HWT_DELAY_TICKET_MAX];
    snprintf(ticket, sizeof(ticket), "%" PRIx64 "-x", s.realtime + HOUR);
    steps = most_steps = 0;
    ck_assert_int_eq(hwt_delay_visit(s.store, 0, HWT_NEVER, count_one, &count), 0);
    ck_assert_int_eq(hwt_delay_look_up(s.store, ticket, &none), -ENOENT);
    ck_assert_uint_eq(count, 3 * MANY);
    ck_assert_msg(most_steps <= MOST, "%" PRIu64 " steps with the lock", most_steps);
}
END_TEST

/* They all have one ticket, which names the newest; in turn it is moved, cancelled, and the next newest named. */
START_TEST(test_messages_of_one_ticket_are_not_gone_through)
{
    const uint64_t first = s.realtime + 1;
    char ticket[HWT_DELAY_TICKET_MAX];
    const hwt_delay_message *message;
    put_some(s.realtime + HOUR, 0, 1, first);
    snprintf(ticket, sizeof(ticket), "%" PRIx64 "-%%00%%00%%00%%00", first);
    steps = most_steps = 0;
    for (uint32_t i = 1; i < 20; i++) {
        ck_assert_int_eq(hwt_delay_look_up(s.store, ticket, &message), 0);
        ck_assert_uint_eq(message->due, s.realtime + HOUR + MANY - i);
        hwt_delay_free(message);
        ck_assert_int_eq(hwt_delay_move(s.store, ticket, s.realtime + 2 * HOUR + i), 0);
        ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, ticket), 0);
    }
    ck_assert_msg(most_steps <= 200, "%" PRIu64 " steps with the lock", most_steps);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_lock");
    TCase *tcase = tcase_create("lock");
    tcase_add_checked_fixture(tcase, start, end);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_a_visit_lets_go_of_the_lock, 0, 2);
    tcase_add_test(tcase, test_messages_of_one_ticket_are_not_gone_through);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
