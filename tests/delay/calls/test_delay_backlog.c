/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Many slots: what is read while a backlog is handed over or visited, and what opening looks at. Bytes
 * and calls are counted, so that no clock decides.
 */

#include <stdlib.h>

#include "tests/delay/support/simulated.h"

#include "hwt/delay/whole.h"

enum { SLOTS = 400, SECOND_BATCH = 16, PAYLOAD = 1000 };

static struct simulated s;
static uint64_t bytes_read;
static uint64_t names; /* of slots that were made */
static int64_t (*read_of_disk)(void *data, int file, void *buffer, size_t size, uint64_t offset);

void __real_hwt_delay_slot_name(const struct hwt_delay_slot *slot, char name[HWT_DELAY_NAME_MAX]);
void __wrap_hwt_delay_slot_name(const struct hwt_delay_slot *slot, char name[HWT_DELAY_NAME_MAX]);

void __wrap_hwt_delay_slot_name(const struct hwt_delay_slot *slot, char name[HWT_DELAY_NAME_MAX])
{
    names++;
    __real_hwt_delay_slot_name(slot, name);
}

static int64_t counted_read(void *data, int file, void *buffer, size_t size, uint64_t offset)
{
    int64_t n = read_of_disk(data, file, buffer, size, offset);
    bytes_read += n > 0 ? (uint64_t)n : 0;
    return n;
}

static void open_counted(void)
{
    simulated_begin(&s);
    read_of_disk = s.process.system.read;
    s.process.system.read = counted_read;
    ck_assert_int_eq(simulated_try_open(&s), 0);
    bytes_read = 0;
    names = 0;
}

static void begin(void)
{
    simulated_new(&s);
    s.options.segment_size = 1 << 20;
    open_counted();
}

static void end(void)
{
    simulated_free(&s);
}

/* Numbers are reused: with the instant, they are identities. */
static void put_batch(uint64_t due, uint64_t step, uint32_t first, uint32_t count)
{
    static unsigned char payload[PAYLOAD];
    hwt_delay_message messages[64];
    uint32_t ids[64];
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = first + i;
        messages[i] = (hwt_delay_message){
            .due = due + i * step,
            .id = &ids[i],
            .id_size = sizeof(ids[i]),
            .payload = payload,
            .payload_size = sizeof(payload),
        };
    }
    ck_assert_int_eq(hwt_delay_put(s.store, messages, count), 0);
}

/* Each second some messages for ten seconds later; nobody takes them: a slot for each second. */
static void leave_backlog(void)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        put_batch(s.realtime + HWT_SEC(10), HWT_MS(50), 0, SECOND_BATCH);
        simulated_advance(&s, HWT_SEC(1));
    }
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_ge(simulated_stats(&s).files, SLOTS * 3 / 4);
}

/* What is overdue already when it is put does not get a slot for each second. */
START_TEST(test_overdue_messages_share_slots)
{
    enum { SECONDS = 100 };
    for (uint32_t i = 0; i < SECONDS; i++) {
        put_batch(s.realtime - HWT_SEC(1), 0, 0, SECOND_BATCH);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        simulated_advance(&s, HWT_SEC(1));
    }
    ck_assert_uint_le(simulated_stats(&s).files, SECONDS / 8 + 2);
}
END_TEST

static uint64_t take_all(void)
{
    const hwt_delay_message *taken;
    uint64_t sum = 0, last = 0;
    int64_t n;
    while ((n = hwt_delay_take(s.store, 100, 0, &taken)) > 0) {
        uint64_t leases[100];
        for (int64_t i = 0; i < n; i++) {
            ck_assert_uint_ge(taken[i].due, last);
            last = taken[i].due;
            leases[i] = taken[i].lease;
        }
        hwt_delay_free(taken);
        ck_assert_int_eq(hwt_delay_done(s.store, leases, (size_t)n), n);
        sum += (uint64_t)n;
    }
    ck_assert_int_eq(n, 0);
    return sum;
}

START_TEST(test_a_backlog_is_read_once)
{
    leave_backlog();
    simulated_close(&s);
    open_counted();
    simulated_advance(&s, HWT_MIN(10));
    ck_assert_uint_eq(take_all(), SLOTS * SECOND_BATCH);
    ck_assert_uint_le(bytes_read, SLOTS * SECOND_BATCH * PAYLOAD / 2 * 3);
}
END_TEST

START_TEST(test_opening_makes_each_name_a_few_times)
{
    leave_backlog();
    simulated_close(&s);
    open_counted();
    simulated_close(&s);
    simulated_begin(&s);
    names = 0;
    ck_assert_int_eq(simulated_try_open(&s), 0);
    ck_assert_uint_le(names, 4 * SLOTS);
}
END_TEST

static int count_one(const hwt_delay_message *message, void *arg)
{
    struct {
        uint64_t count, last;
    } *seen = arg;
    ck_assert_uint_ge(message->due, seen->last);
    seen->last = message->due;
    seen->count++;
    return 0;
}

/* ---- a large slot ---- */

enum { BATCHES = 200, EACH = 32 };

/* One slot, written with much memory, in two runs that lie over each other; then with little. It begins
 * where it says, and ends 100 s later. */
static uint64_t make_large_slot(void)
{
    simulated_close(&s);
    simulated_free(&s);
    simulated_new(&s);
    s.options.memory = 64 << 20;
    s.options.segment_size = 32 << 20;
    open_counted();
    /* In the middle of a slot of 512 s, which is that of what is two to four hours ahead. */
    uint64_t due = ((s.realtime + HWT_SEC(7200 * 3 / 2)) >> 38 << 38) + HWT_SEC(2);
    for (uint32_t i = 0; i < BATCHES; i++) {
        put_batch(due + i * HWT_MS(500), HWT_MS(15), i * EACH, EACH);
        if (i == BATCHES - 1)
            ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    }
    for (uint32_t i = 0; i < BATCHES; i++)
        put_batch(due + i * HWT_MS(500) + 1, HWT_MS(15), i * EACH, EACH);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_close(&s);
    s.options.memory = 1 << 20;
    s.options.payload_max = 8192;
    open_counted();
    ck_assert_uint_le(simulated_stats(&s).files, 2);
    return due;
}

/* [1]: taken instead. */
START_TEST(test_a_large_slot_is_read_once)
{
    struct {
        uint64_t count, last;
    } seen = { 0 };
    make_large_slot();
    if (_i == 0) {
        ck_assert_int_eq(hwt_delay_visit(s.store, 0, HWT_NEVER, count_one, &seen), 0);
    } else {
        simulated_advance(&s, HWT_SEC(4 * 3600));
        ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
        seen.count = take_all();
    }
    ck_assert_uint_eq(seen.count, 2 * BATCHES * EACH);
    ck_assert_uint_le(bytes_read, 2 * seen.count * PAYLOAD);
}
END_TEST

/* What is before the stretch is passed over: in a visit of its end, and where a short slot beside its end
 * is rewritten. */
START_TEST(test_the_end_of_a_large_slot)
{
    enum { BESIDE = 256 };
    const uint64_t whole = 2 * BATCHES * EACH * PAYLOAD;
    struct {
        uint64_t count, last;
    } seen = { 0 };
    uint64_t due = make_large_slot() + (BATCHES - 2) * HWT_MS(500);
    if (_i == 0) {
        ck_assert_int_eq(hwt_delay_visit(s.store, due, HWT_NEVER, count_one, &seen), 0);
        ck_assert_uint_eq(seen.count, 2 * 2 * EACH);
    } else {
        simulated_advance(&s, due - HWT_SEC(10) - s.realtime);
        ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
        for (uint32_t i = 0; i < BESIDE; i += 64)
            put_batch(due + 2, 0, BATCHES * EACH + i, 64);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        bytes_read = 0;
        for (uint32_t i = 1; i < BESIDE; i++) {
            const uint32_t id = BATCHES * EACH + i;
            ck_assert_int_eq(hwt_delay_cancel(s.store, due + 2, &id, sizeof(id)), 0);
            if (i % 32 == 0)
                ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        }
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        ck_assert_uint_gt(bytes_read, 0); /* it was rewritten */
    }
    ck_assert_uint_le(bytes_read, whole / 4);
}
END_TEST

/* ---- any order of due times ---- */

/* Messages of one second, in many runs, each over the whole of it; [1]: of one instant. */
static void make_unordered(uint32_t number, uint64_t due, bool instant)
{
    enum { UNORDERED_BATCH = 64, UNORDERED_PAYLOAD = 60 };
    static unsigned char payload[UNORDERED_PAYLOAD];
    hwt_delay_message messages[UNORDERED_BATCH];
    uint64_t random = test_seed();
    uint32_t ids[UNORDERED_BATCH];
    for (uint32_t i = 0; i < number; i += UNORDERED_BATCH) {
        for (uint32_t k = 0; k < UNORDERED_BATCH; k++) {
            ids[k] = i + k;
            messages[k] = (hwt_delay_message){
                .due = due + (instant ? 0 : test_random(&random) % HWT_SEC(1)),
                .id = &ids[k],
                .id_size = sizeof(ids[k]),
                .payload = payload,
                .payload_size = sizeof(payload),
            };
        }
        ck_assert_int_eq(hwt_delay_put(s.store, messages, UNORDERED_BATCH), 0);
    }
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
}

/* [0]: visited; [1]: taken. Both with the least memory that a store may have. */
START_TEST(test_each_byte_is_read_a_few_times_in_any_order_of_due_times)
{
    enum { NUMBER = 100032 };
    const uint64_t due = ((s.realtime + HWT_SEC(10)) >> 30 << 30) + HWT_MS(10);
    struct {
        uint64_t count, last;
    } seen = { 0 };
    make_unordered(NUMBER, due, false);
    const uint64_t written = hwt_delay_slots_bytes(s.store);
    simulated_close(&s);
    open_counted();
    if (_i == 0) {
        ck_assert_int_eq(hwt_delay_visit(s.store, 0, HWT_NEVER, count_one, &seen), 0);
    } else {
        simulated_advance(&s, HWT_SEC(20));
        seen.count = take_all();
    }
    ck_assert_uint_eq(seen.count, NUMBER);
    ck_assert_msg(bytes_read <= 3 * written, "%" PRIu64 " bytes were read of %" PRIu64, bytes_read,
                  written);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_backlog");
    TCase *tcase = tcase_create("backlog");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_a_backlog_is_read_once);
    tcase_add_test(tcase, test_overdue_messages_share_slots);
    tcase_add_test(tcase, test_opening_makes_each_name_a_few_times);
    tcase_add_loop_test(tcase, test_a_large_slot_is_read_once, 0, 2);
    tcase_add_loop_test(tcase, test_the_end_of_a_large_slot, 0, 2);
    tcase_add_loop_test(tcase, test_each_byte_is_read_a_few_times_in_any_order_of_due_times, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
