/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Bounds that a store keeps: of its memory after a checkpoint, of the number of files, of leaps
 * of the clock and of what a visit shows; what it knows of the clock when it is opened; and
 * that nothing grows where nothing happens.
 */

#include "tests/delay/support/simulated_one.h"

#include "hwt/delay/whole.h"

/* ---- memory and files ---- */

/* What was in the log alone is in slots, and may be read again when its turn comes. */
START_TEST(test_memory_after_a_checkpoint)
{
    enum { MANY = 30, EACH = 8000 };
    simulated_close(&s);
    disk_free(s.disk);
    s.disk = disk_new();
    s.options.segment_size = 1 << 20;
    simulated_open(&s);
    /* It has loaded up to now, so that it knows all that is due. */
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
    for (uint32_t i = 0; i < MANY; i++)
        put(s.realtime - 1, i, EACH);
    ck_assert_uint_eq(simulated_stats(&s).checkpoints, 0);
    ck_assert_uint_gt(simulated_stats(&s).memory, MANY * EACH);
    checkpoint();
    ck_assert_uint_le(simulated_stats(&s).memory, s.options.memory / 8 * 5 / 4);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), MANY);
}
END_TEST

/* An eighth of the memory may be leased, in whatever number. */
START_TEST(test_memory_of_what_is_leased)
{
    enum { MANY = 60, EACH = 8000 };
    const uint64_t most = s.options.memory / 8 / EACH;
    const hwt_delay_message *taken;
    uint64_t lease = 0, count = 0;
    for (uint32_t i = 0; i < MANY; i++)
        put(s.realtime, i, EACH);
    int64_t n;
    while ((n = hwt_delay_take(s.store, MANY, 0, &taken)) > 0) {
        lease = taken->lease;
        count += (uint64_t)n;
        hwt_delay_free(taken);
    }
    ck_assert_int_eq(n, -ENOBUFS);
    ck_assert_uint_le(count, most);
    ck_assert_uint_ge(count, most - 1);
    ck_assert_int_eq(hwt_delay_done(s.store, &lease, 1), 1);
    take_one();
    ck_assert_int_eq(hwt_delay_take(s.store, MANY, 0, &taken), -ENOBUFS);
}
END_TEST

/* The job that would load ahead is run here: it loads once the store is to hand over. */
START_TEST(test_memory_of_a_store_that_stands_by)
{
    put(s.realtime + HWT_SEC(1), 1, 10);
    checkpoint();
    simulated_close(&s);
    s.options.flags = HWT_DELAY_STANDBY;
    simulated_open(&s);
    ck_assert_uint_eq(hwt_delay_loader(s.store), HWT_NEVER);
    ck_assert_uint_eq(simulated_stats(&s).memory, 0);
    ck_assert_int_eq(hwt_delay_lead(s.store), 0);
    ck_assert_uint_ne(hwt_delay_loader(s.store), HWT_NEVER);
    ck_assert_uint_gt(simulated_stats(&s).memory, 0);
}
END_TEST

/* After a long absence there is not a file for each second. */
START_TEST(test_files_of_what_is_overdue)
{
    enum { MANY = 600 };
    for (uint32_t i = 0; i < MANY; i++)
        put(s.realtime - HWT_SEC(1) - i * HWT_SEC(1), i, 10);
    checkpoint();
    ck_assert_uint_le(simulated_stats(&s).files, MANY / 5);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), MANY);
}
END_TEST

/* Many slots with little in each, all overdue: they are read some at a time, and none is passed over. */
START_TEST(test_many_small_slots)
{
    enum { MANY = 1000 };
    unsigned counts[SIMULATED_IDS] = { 0 }, listed[SIMULATED_IDS] = { 0 };
    for (uint32_t i = 0; i < MANY; i++)
        put(s.realtime + HWT_SEC(2) * i, i, 10);
    checkpoint();
    ck_assert_uint_gt(simulated_stats(&s).files, 100);
    if (_i == 1) {
        simulated_kill(&s);
        simulated_open(&s);
    }
    ck_assert_int_eq(simulated_list(&s, listed), 0);
    simulated_advance(&s, HWT_SEC(2) * MANY);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), MANY);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(listed[i] + counts[i], 2);
}
END_TEST

/* Each checkpoint makes a slot of its own for what is overdue: all are of one stretch of time. */
START_TEST(test_many_slots_of_one_time)
{
    enum { MANY = 100 };
    unsigned counts[SIMULATED_IDS] = { 0 }, listed[SIMULATED_IDS] = { 0 };
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0); /* it has loaded up to now */
    for (uint32_t i = 0; i < MANY; i++) {
        put(s.realtime - HWT_SEC(100) + i, i, 10);
        checkpoint();
    }
    ck_assert_uint_eq(simulated_stats(&s).files, MANY);
    simulated_kill(&s);
    simulated_open(&s);
    ck_assert_int_eq(simulated_list(&s, listed), 0);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), MANY);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(listed[i] + counts[i], 2);
}
END_TEST

/* A full disk has taken the reserve: it is there again before puts are. */
START_TEST(test_the_reserve_comes_back)
{
    const size_t segment = disk_find(s.disk, "log.0")->seen.size;
    s.disk->capacity = disk_size(s.disk);
    uint32_t n = 0;
    while (simulated_put(&s, s.realtime + HOUR, n, 4000) == 0)
        n++;
    ck_assert_uint_eq(simulated_stats(&s).full, 1);
    ck_assert_uint_lt(disk_find(s.disk, "reserve")->seen.size, segment);
    /* Where it cannot be taken again, nothing of it is: that would be room for puts. */
    s.disk->capacity = UINT64_MAX;
    s.process.fail_only = 1U << DISK_ALLOCATE;
    s.process.fail_with = -ENOSPC;
    s.process.fail_at = s.process.calls + 1;
    s.process.fail_count = UINT64_MAX;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_eq(simulated_stats(&s).full, 1);
    ck_assert_uint_eq(disk_find(s.disk, "reserve")->seen.size, 0);
    s.process.fail_with = 0;
    put(s.realtime + HOUR, n, 4000);
    ck_assert_uint_eq(simulated_stats(&s).full, 0);
    ck_assert_uint_eq(disk_find(s.disk, "reserve")->seen.size, segment);
}
END_TEST

/* Opening and closing writes no more than one mark. */
START_TEST(test_closing_again_and_again)
{
    static unsigned char before[1 << 17];
    put(s.realtime + HOUR, 1, 10);
    simulated_close(&s);
    struct disk_file *log = disk_find(s.disk, "log.0");
    ck_assert_uint_le(log->seen.size, sizeof(before));
    memcpy(before, disk_seen(log), log->seen.size);
    for (int i = 0; i < 3; i++) {
        simulated_open(&s);
        ck_assert_uint_eq(simulated_stats(&s).pending, 1);
        simulated_close(&s);
        ck_assert_mem_eq(before, disk_seen(disk_find(s.disk, "log.0")), log->seen.size);
    }
}
END_TEST

/* ---- the clock ---- */

/* A leap as long as it may be is none; one nanosecond more is one. */
START_TEST(test_the_longest_leap)
{
    const hwt_delay_message *taken;
    put(s.realtime, 1, 10);
    s.realtime += s.options.clock_leap;
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    hwt_delay_free(taken);
    s.realtime += s.options.clock_leap + 1;
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), -ETIME);
    ck_assert_uint_eq(simulated_stats(&s).held, 1);
    ck_assert_uint_eq(simulated_stats(&s).clock_leaps, 1);
    s.realtime--;
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 0);
    ck_assert_uint_eq(simulated_stats(&s).held, 0);
}
END_TEST

/* The latest instant that was seen is on the disk with whatever is written next. */
START_TEST(test_the_latest_instant_is_kept)
{
    simulated_advance(&s, HOUR);
    const uint64_t latest = s.realtime;
    put(latest + HOUR, 1, 10);
    if (_i == 1)
        checkpoint();
    if (_i == 2)
        simulated_close(&s);
    else
        simulated_kill(&s);
    s.realtime -= 2 * HOUR;
    simulated_open(&s);
    ck_assert_uint_eq(simulated_stats(&s).hand, latest);
}
END_TEST

/* ---- leases, and what is shown ---- */

/* Time has ended the lease, and no call has seen it yet. */
START_TEST(test_what_was_leased_is_cancelled)
{
    const uint32_t id = 1;
    const uint64_t due = s.realtime;
    const hwt_delay_message *taken;
    put(due, id, 10);
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    hwt_delay_free(taken);
    simulated_advance(&s, s.options.lease - 1);
    ck_assert_int_eq(hwt_delay_cancel(s.store, due, &id, sizeof(id)), -EBUSY);
    simulated_advance(&s, 1);
    ck_assert_int_eq(hwt_delay_cancel(s.store, due, &id, sizeof(id)), 0);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
    simulated_kill(&s);
    simulated_open(&s);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
}
END_TEST

static unsigned shown(uint64_t from, uint64_t to)
{
    unsigned counts[SIMULATED_IDS] = { 0 }, sum = 0;
    ck_assert_int_eq(hwt_delay_visit(s.store, from, to, simulated_list_one, counts), 0);
    for (uint32_t i = 0; i < SIMULATED_IDS; i++)
        sum += counts[i];
    return sum;
}

/* From the first instant up to, and without, the second: leased, in memory and in slots. */
START_TEST(test_the_ends_of_a_visit)
{
    const uint64_t due = _i == 2 ? s.realtime + HOUR : s.realtime;
    const hwt_delay_message *taken;
    put(due, 1, 10);
    if (_i == 0) {
        ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
        hwt_delay_free(taken);
    }
    if (_i == 2)
        checkpoint();
    ck_assert_uint_eq(shown(due, due + 1), 1);
    ck_assert_uint_eq(shown(due - 1, due), 0);
    ck_assert_uint_eq(shown(due + 1, HWT_NEVER), 0);
    ck_assert_uint_eq(shown(0, HWT_NEVER), 1);
    ck_assert_uint_eq(shown(due, due), 0);
}
END_TEST

/* What was put in the place of a leased message is shown in its place. */
START_TEST(test_what_is_shown_of_a_superseded_lease)
{
    const hwt_delay_message *taken;
    const uint64_t due = s.realtime;
    put(due, 1, 10);
    for (int i = 0; i <= _i; i++) {
        simulated_advance(&s, s.options.lease); /* an earlier one has ended */
        ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
        hwt_delay_free(taken);
    }
    put(due, 1, 20);
    ck_assert_uint_eq(shown(0, HWT_NEVER), 1);
    ck_assert_uint_eq(simulated_stats(&s).leased, 1);
    ck_assert_uint_eq(simulated_stats(&s).pending, 1);
    simulated_advance(&s, s.options.lease);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 1);
}
END_TEST

/* Two messages, of which the second one has so much payload, and a note. */
static int put_longest(uint64_t due, uint32_t last, uint32_t note_size)
{
    static const unsigned char payload[8192];
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    hwt_delay_message messages[2];
    hwt_delay_change changes[2];
    for (uint32_t i = 0; i < 2; i++) {
        messages[i] = (hwt_delay_message){ .due = due + i,
                                           .id = "id",
                                           .id_size = 2,
                                           .payload = payload,
                                           .payload_size = i < 1 ? 8192 : last };
        changes[i] = (hwt_delay_change){ .op = HWT_DELAY_OP_PUT, .message = &messages[i] };
    }
    batch.note = note_size > 0 ? payload : NULL;
    batch.note_size = note_size;
    return hwt_delay_apply(s.store, changes, 2, &batch);
}

/* Beside the largest batch that a frame has room for it has none. */
START_TEST(test_a_note_counts_in_the_longest_frame)
{
    uint32_t most = 8192;
    while (most > 0 && put_longest(s.realtime, most, 0) == -EMSGSIZE)
        most--;
    ck_assert_uint_lt(most, 8192);
    ck_assert_uint_gt(most, HWT_DELAY_NOTE_MAX);
    ck_assert_int_eq(put_longest(s.realtime, most, 0), 0);
    ck_assert_int_eq(put_longest(s.realtime, most, HWT_DELAY_NOTE_MAX), -EMSGSIZE);
    ck_assert_int_eq(put_longest(s.realtime, most - HWT_DELAY_NOTE_MAX / 2, HWT_DELAY_NOTE_MAX),
                     -EMSGSIZE);
    ck_assert_int_eq(put_longest(s.realtime, 100, HWT_DELAY_NOTE_MAX), 0);
    kill_and_open();
    ck_assert_int_eq(hwt_delay_note(s.store, NULL, 0, NULL), HWT_DELAY_NOTE_MAX);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_bounds");
    TCase *tcase = tcase_create("bounds");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_memory_after_a_checkpoint);
    tcase_add_test(tcase, test_memory_of_what_is_leased);
    tcase_add_test(tcase, test_memory_of_a_store_that_stands_by);
    tcase_add_test(tcase, test_files_of_what_is_overdue);
    tcase_add_loop_test(tcase, test_many_small_slots, 0, 2);
    tcase_add_test(tcase, test_many_slots_of_one_time);
    tcase_add_test(tcase, test_the_reserve_comes_back);
    tcase_add_test(tcase, test_closing_again_and_again);
    tcase_add_test(tcase, test_the_longest_leap);
    tcase_add_loop_test(tcase, test_the_latest_instant_is_kept, 0, 3);
    tcase_add_test(tcase, test_what_was_leased_is_cancelled);
    tcase_add_loop_test(tcase, test_the_ends_of_a_visit, 0, 3);
    tcase_add_loop_test(tcase, test_what_is_shown_of_a_superseded_lease, 0, 2);
    tcase_add_test(tcase, test_a_note_counts_in_the_longest_frame);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
