/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A part of a slot cannot be read: nothing of its time is handed over until salvage, all else is, and
 * nothing of it is silent.
 */

#include "tests/delay/support/simulated.h"

#include "hwt/delay/whole.h"

enum { MANY = 1200, SIZE = 120, STEP_MS = 2000 };

static struct simulated s;
static uint64_t start;
static unsigned counts[SIMULATED_IDS];

static uint64_t due_of(uint32_t i)
{
    return start + i * HWT_MS(STEP_MS);
}

static void begin(void)
{
    simulated_new(&s);
    s.options.segment_size = 1 << 20;
    simulated_open(&s);
    /* All in slots of 512 s. */
    start = s.realtime + HWT_SEC(3 * 3600);
    memset(counts, 0, sizeof(counts));
}

static void end(void)
{
    simulated_free(&s);
}

static void put_all(void)
{
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(simulated_put(&s, due_of(i), i, SIZE), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
}

static void reopen(uint32_t flags, bool killed)
{
    if (killed)
        simulated_kill(&s);
    else
        simulated_close(&s);
    s.options.flags = flags;
    simulated_open(&s);
}

/* The slot file with the most bytes, or the number `at` of all. */
static struct disk_file *slot_file(size_t at)
{
    struct disk_file *largest = NULL;
    for (size_t i = 0; i < s.disk->seen.count; i++) {
        const struct disk_entry *entry = &s.disk->seen.entries[i];
        if (strncmp(entry->name, "slot-", 5) != 0)
            continue;
        if (at == 0 && (!largest || entry->file->seen.size > largest->seen.size))
            largest = entry->file;
        else if (at > 0 && --at == 0)
            return entry->file;
    }
    return largest;
}

/* The one that was made last. */
static struct disk_file *newest_slot(void)
{
    struct disk_file *newest = NULL;
    uint64_t highest = 0;
    for (size_t i = 0; i < s.disk->seen.count; i++) {
        struct hwt_delay_slot slot;
        if (hwt_delay_slot_parse(s.disk->seen.entries[i].name, &slot) && slot.number > highest) {
            highest = slot.number;
            newest = s.disk->seen.entries[i].file;
        }
    }
    return newest;
}

static void accept_clock(void)
{
    ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
}

/* Takes all; -EBADMSG comes once, when nothing else is due. */
static int64_t deliver_rest(void)
{
    int64_t before = 0, n;
    for (uint32_t i = 0; i < MANY; i++)
        before += counts[i];
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), -EBADMSG);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 0);
    ck_assert_uint_ge(simulated_stats(&s).gaps, 1);
    n = -before;
    for (uint32_t i = 0; i < MANY; i++)
        n += counts[i];
    return n;
}

/* The numbers that did not come follow each other. */
static void find_gap(uint32_t *ret_first, uint32_t *ret_count)
{
    *ret_first = *ret_count = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        ck_assert_uint_le(counts[i], 1);
        if (counts[i] > 0)
            continue;
        if (*ret_count == 0)
            *ret_first = i;
        ck_assert_uint_eq(i, *ret_first + *ret_count);
        ++*ret_count;
    }
}

static void note_found(const hwt_delay_damage *damage, void *arg)
{
    ck_assert_int_eq(strncmp(damage->file, "slot-", 5), 0);
    ++*(int *)arg;
}

/* A block in the middle, in one slot of several; [1]: the kill comes at once. */
START_TEST(test_a_block_keeps_back_its_time_alone)
{
    uint32_t first, count;
    unsigned seen[SIMULATED_IDS] = { 0 };
    int found = 0;
    put_all();
    simulated_close(&s);
    disk_flip(slot_file(0), slot_file(0)->seen.size / 2, 1);
    simulated_open(&s);
    simulated_advance(&s, HWT_SEC(86400));
    accept_clock();
    deliver_rest();
    find_gap(&first, &count);
    ck_assert_uint_ge(count, 2);
    ck_assert_uint_le(count, 16384 / (SIZE + 13) + 2);
    ck_assert_uint_eq(simulated_stats(&s).gaps, 1);
    ck_assert_uint_eq(simulated_stats(&s).pending, count);
    ck_assert_int_eq(hwt_delay_check(s.store, note_found, &found), 1);
    ck_assert_int_eq(found, 1);
    /* What can be read is not visited either, as it may be cancelled by what cannot. */
    ck_assert_int_eq(simulated_list(&s, seen), -EBADMSG);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(seen[i], 0);
    /* Put, cancel and replace go on; what is of that time is kept back too. */
    ck_assert_int_eq(simulated_put(&s, due_of(first + 1) + 1, MANY, SIZE), 0);
    ck_assert_int_eq(simulated_put(&s, due_of(first + 1) + 2, MANY + 1, SIZE), 0);
    ck_assert_int_eq(simulated_put(&s, s.realtime, MANY + 2, SIZE), 0);
    uint32_t cancelled = MANY + 1;
    ck_assert_int_eq(
        hwt_delay_cancel(s.store, due_of(first + 1) + 2, &cancelled, sizeof(cancelled)), 0);
    ck_assert_int_eq(hwt_delay_cancel(s.store, due_of(first), &first, sizeof(first)), 0);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 1);
    ck_assert_uint_eq(counts[MANY + 2], 1);
    for (int i = 0; i < 3; i++) {
        if (_i == 0)
            ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        reopen(0, i % 2 == 0);
        accept_clock();
        deliver_rest();
    }
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(counts[i], i < first || i >= first + count);
    ck_assert_uint_eq(counts[MANY + 2], 1);
    /* Salvage delivers what there is, and once. */
    reopen(HWT_DELAY_SALVAGE, true);
    accept_clock();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 2);
    ck_assert_uint_eq(counts[MANY], 1);
    ck_assert_uint_eq(counts[first + count - 1], 1);
    reopen(0, false);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 0);
    ck_assert_uint_eq(simulated_stats(&s).gaps, 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_eq(simulated_stats(&s).files, 0);
}
END_TEST

/* The tombstones of a second round are lost: none of their messages comes. */
START_TEST(test_lost_cancels_do_not_bring_back_what_they_cancelled)
{
    const uint32_t from = MANY / 2, to = MANY / 2 + 10;
    put_all();
    simulated_advance(&s, due_of(from) - s.realtime - HWT_MIN(8));
    accept_clock();
    ck_assert_int_ge(simulated_deliver(&s, SIZE_MAX, counts), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    size_t before = s.disk->seen.count;
    for (uint32_t i = from; i < to; i++)
        ck_assert_int_eq(hwt_delay_cancel(s.store, due_of(i), &i, sizeof(i)), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_gt(s.disk->seen.count, before);
    simulated_close(&s);
    disk_flip(newest_slot(), newest_slot()->seen.size - 1, 1);
    simulated_open(&s);
    /* Nor does a visit show them. */
    unsigned seen[SIMULATED_IDS] = { 0 };
    ck_assert_int_eq(simulated_list(&s, seen), -EBADMSG);
    for (uint32_t i = from; i < to; i++)
        ck_assert_uint_eq(seen[i], 0);
    simulated_advance(&s, HWT_SEC(86400));
    accept_clock();
    deliver_rest();
    uint32_t first, count;
    find_gap(&first, &count);
    ck_assert_uint_ge(from, first);
    ck_assert_uint_le(to, first + count);
    ck_assert_uint_le(count, 64);
}
END_TEST

/* Of the head of a run, the rest of the slot's time; then more than memory has room for comes back. */
START_TEST(test_a_head_keeps_back_the_slot)
{
    uint32_t first, count;
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(simulated_put(&s, due_of(i), i, _i == 0 ? SIZE : 2000), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_close(&s);
    disk_flip(slot_file(0), 40, 1);
    simulated_open(&s);
    simulated_advance(&s, HWT_SEC(86400));
    accept_clock();
    deliver_rest();
    find_gap(&first, &count);
    ck_assert_uint_le(count, 512 * 1000 / STEP_MS * 11 / 10);
    reopen(HWT_DELAY_SALVAGE, _i == 1);
    accept_clock();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), count);
    find_gap(&first, &count);
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(simulated_stats(&s).gaps, 0);
}
END_TEST

/* Killed at many calls of the salvage in turn. */
START_TEST(test_a_salvage_that_is_killed_loses_nothing)
{
    uint32_t first, count, lost = 0;
    put_all();
    simulated_close(&s);
    disk_flip(slot_file(0), slot_file(0)->seen.size / 2, 1);
    simulated_open(&s);
    simulated_advance(&s, HWT_SEC(86400));
    accept_clock();
    deliver_rest();
    find_gap(&first, &count);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_close(&s);
    s.options.flags = HWT_DELAY_SALVAGE;
    for (uint64_t call = 1;; call += 1 + call / 16) {
        simulated_begin(&s);
        s.process.die_at = call;
        if (simulated_try_open(&s) == 0) {
            bool alive = !s.process.dead && s.process.calls < call;
            if (alive)
                break;
            simulated_kill(&s);
        }
        ck_assert_uint_lt(call, 100000);
    }
    s.process.die_at = 0;
    accept_clock();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 2);
    find_gap(&first, &lost);
    ck_assert_uint_eq(lost, count - 2);
}
END_TEST

/* Several in one store, and damage in each slot: there is a bound on how many are told apart. */
START_TEST(test_many_gaps)
{
    uint64_t missing = 0;
    put_all();
    simulated_close(&s);
    for (size_t i = 1; i <= 4; i++) {
        struct disk_file *file = slot_file(i);
        for (size_t at = 500; at < file->seen.size; at += 20000)
            disk_flip(file, at, 1);
    }
    simulated_open(&s);
    simulated_advance(&s, HWT_SEC(86400));
    accept_clock();
    deliver_rest();
    for (uint32_t i = 0; i < MANY; i++)
        missing += counts[i] == 0;
    ck_assert_uint_ge(simulated_stats(&s).gaps, 2);
    ck_assert_uint_eq(simulated_stats(&s).pending, missing);
}
END_TEST

/* A block in the middle cannot be read; both ends of the gap can. */
static void make_gap(uint32_t *ret_first, uint32_t *ret_last)
{
    uint32_t count;
    put_all();
    simulated_close(&s);
    disk_flip(slot_file(0), slot_file(0)->seen.size / 2, 1);
    simulated_open(&s);
    simulated_advance(&s, HWT_SEC(86400));
    accept_clock();
    deliver_rest();
    find_gap(ret_first, &count);
    *ret_last = *ret_first + count - 1;
}

/* What a slot has of it in the gap is cancelled too. [1]: the log does not say so any more. */
START_TEST(test_a_message_in_a_gap_that_is_put_again_and_cancelled)
{
    uint32_t first, last;
    make_gap(&first, &last);
    ck_assert_int_eq(simulated_put(&s, due_of(last), last, SIZE), 0);
    ck_assert_int_eq(hwt_delay_cancel(s.store, due_of(last), &last, sizeof(last)), 0);
    if (_i == 1)
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    reopen(HWT_DELAY_SALVAGE, true);
    accept_clock();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 1);
    ck_assert_uint_eq(counts[first], 1);
}
END_TEST

static void drop_up_to(uint64_t due)
{
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.note = "";
    ck_assert_int_eq(hwt_delay_apply(s.store, NULL, 0, &batch), 0);
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP, .due = due, .mark = batch.mark };
    ck_assert_int_eq(hwt_delay_apply(s.store, &drop, 1, NULL), 0);
}

/* What was dropped does not come back with salvage, though the slot's position is behind it. */
START_TEST(test_messages_in_a_gap_that_are_dropped)
{
    uint32_t first, last;
    make_gap(&first, &last);
    drop_up_to(due_of(first));
    for (int i = 0; i < _i; i++)
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    reopen(HWT_DELAY_SALVAGE, true);
    accept_clock();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 1);
    ck_assert_uint_eq(counts[last], 1);
    ck_assert_uint_eq(simulated_stats(&s).pending, 0);
}
END_TEST

static int note_size(const hwt_delay_message *message, void *size)
{
    *(size_t *)size = message->payload_size;
    return 0;
}

/* What was put once more while the slot could not be read is newer than what the slot has of it. */
START_TEST(test_a_message_in_a_gap_that_is_put_again)
{
    uint32_t first, last;
    size_t size = 0;
    make_gap(&first, &last);
    ck_assert_int_eq(simulated_put(&s, due_of(last), last, SIZE + 50), 0);
    if (_i == 1)
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    reopen(HWT_DELAY_SALVAGE, true);
    ck_assert_int_eq(hwt_delay_visit(s.store, due_of(last), due_of(last) + 1, note_size, &size), 0);
    ck_assert_uint_eq(size, SIZE + 50);
    accept_clock();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 2);
    ck_assert_uint_eq(counts[first], 1);
    ck_assert_uint_eq(counts[last], 1);
}
END_TEST

/* What waits in a gap waits on the disk. */
START_TEST(test_a_gap_takes_no_memory)
{
    uint32_t first, last;
    make_gap(&first, &last);
    for (uint32_t i = 0; i < 200; i++)
        ck_assert_int_eq(simulated_put(&s, due_of(first) + 1, MANY + i, 1000), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_le(simulated_stats(&s).memory, 4096);
}
END_TEST

static uint64_t frontier(void)
{
    const hwt_delay_message *taken;
    uint64_t due = 0;
    ck_assert_int_le(hwt_delay_take_frontier(s.store, 1, 0, &taken, &due), 0);
    return due;
}

/* What cannot be read is left, though memory has nothing of it, until salvage. */
START_TEST(test_a_gap_holds_the_frontier_down)
{
    uint32_t first, last;
    make_gap(&first, &last);
    ck_assert_uint_eq(frontier(), due_of(first));
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_eq(frontier(), due_of(first));
    reopen(0, true);
    ck_assert_uint_eq(frontier(), due_of(first));
    reopen(HWT_DELAY_SALVAGE, false);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 2);
    ck_assert_uint_eq(frontier(), s.realtime + 1);
}
END_TEST

/* Of what has been dealt with nothing is kept back. */
START_TEST(test_damage_before_the_position)
{
    const uint64_t due = (start >> 39 << 39) + (UINT64_C(1) << 39); /* one slot's */
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(simulated_put(&s, due + i * HWT_MS(100), i, SIZE), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_eq(simulated_stats(&s).files, 1);
    simulated_advance(&s, due + MANY / 2 * HWT_MS(100) - s.realtime);
    accept_clock();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), MANY / 2 + 1);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    disk_flip(slot_file(0), 1000, 1);
    simulated_open(&s);
    simulated_advance(&s, HWT_SEC(86400));
    accept_clock();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), MANY / 2 - 1);
    ck_assert_uint_eq(simulated_stats(&s).gaps, 0);
}
END_TEST

/* What had been handed over before the damage, or [1] dropped, does not come back with salvage. */
START_TEST(test_damage_at_the_position)
{
    enum { FEW = 16 };
    const uint64_t due = (start >> 39 << 39) + (UINT64_C(1) << 39); /* one slot's */
    for (uint32_t odd = 0; odd < 2; odd++) {                        /* two runs, of a block each */
        for (uint32_t i = odd; i < FEW; i += 2)
            ck_assert_int_eq(simulated_put(&s, due + i * HWT_MS(100), i, SIZE), 0);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    }
    ck_assert_uint_eq(simulated_stats(&s).files, 1);
    simulated_advance(&s, due + (FEW / 2 - 1) * HWT_MS(100) - s.realtime);
    accept_clock();
    if (_i == 1)
        drop_up_to(s.realtime);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), _i == 1 ? 0 : FEW / 2);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    disk_flip(slot_file(0), 1000, 1); /* in the first block */
    simulated_open(&s);
    simulated_advance(&s, HWT_SEC(86400));
    accept_clock();
    deliver_rest();
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0); /* it says where the gap is */
    reopen(HWT_DELAY_SALVAGE, true);
    accept_clock();
    ck_assert_int_ge(simulated_deliver(&s, SIZE_MAX, counts), 0);
    for (uint32_t i = 0; i < FEW; i++)
        ck_assert_uint_eq(counts[i], i < FEW / 2 ? _i == 0 : i % 2 == 1);
}
END_TEST

/*
 * An older slot has messages of the gap's time that were done with before the damage was found: they do not come
 * back with salvage, nor do they count, and the rest of that slot is delivered.
 */
START_TEST(test_an_older_slot_that_is_done_with_there)
{
    enum { FEW = 10, LATE = 100 };
    const uint64_t due = (start >> 39 << 39) + (UINT64_C(1) << 39); /* one slot's */
    for (uint32_t i = 0; i < FEW; i++)
        ck_assert_int_eq(simulated_put(&s, due + i * HWT_SEC(1), i, SIZE), 0);
    ck_assert_int_eq(simulated_put(&s, due + HWT_SEC(100), FEW, SIZE), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_advance(&s, due + FEW * HWT_SEC(1) - s.realtime);
    accept_clock();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), FEW);
    for (uint32_t i = 0; i < 2; i++) /* of times that are past already */
        ck_assert_int_eq(simulated_put(&s, due + HWT_SEC(2) + i * HWT_SEC(5), LATE + i, SIZE), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_eq(simulated_stats(&s).files, 2);
    simulated_kill(&s);
    disk_flip(newest_slot(), newest_slot()->seen.size - 1, 1);
    simulated_open(&s);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), -EBADMSG);
    if (_i > 0) {
        simulated_advance(&s, HWT_SEC(200));
        ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 1);
    }
    for (int i = 0; i < _i; i++)
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    unsigned listed[SIMULATED_IDS] = { 0 };
    ck_assert_int_eq(simulated_list(&s, listed), -EBADMSG);
    for (uint32_t i = 0; i < FEW; i++)
        ck_assert_uint_eq(listed[i], 0);
    reopen(HWT_DELAY_SALVAGE, true);
    simulated_advance(&s, HWT_SEC(200));
    accept_clock();
    ck_assert_int_ge(simulated_deliver(&s, SIZE_MAX, counts), 0);
    for (uint32_t i = 0; i <= FEW; i++)
        ck_assert_uint_eq(counts[i], 1);
    ck_assert_uint_eq(simulated_stats(&s).pending, 0);
}
END_TEST

/* Every third block is damaged. Some gaps that are next to each other become one, so that the checkpoint
 * has room for all. */
START_TEST(test_more_gaps_than_are_told_apart)
{
    enum { BLOCKS = 300, LONG = 8000 /* two of them have no room in a block */ };
    for (uint32_t i = 0; i < BLOCKS; i++)
        ck_assert_int_eq(simulated_put(&s, due_of(i), i, LONG + 190), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_close(&s);
    for (size_t i = 0; i < s.disk->seen.count; i++) {
        struct disk_file *file = s.disk->seen.entries[i].file;
        if (strncmp(s.disk->seen.entries[i].name, "slot-", 5) != 0)
            continue;
        for (size_t at = LONG; at < file->seen.size; at += 3 * (LONG + 190 + 48 + 32))
            disk_flip(file, at, 1);
    }
    simulated_open(&s);
    simulated_advance(&s, HWT_SEC(86400));
    accept_clock();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), -EBADMSG);
    ck_assert_uint_eq(simulated_stats(&s).gaps, HWT_DELAY_GAPS_MAX);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    reopen(0, true);
    ck_assert_uint_eq(simulated_stats(&s).gaps, HWT_DELAY_GAPS_MAX);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_gaps");
    TCase *tcase = tcase_create("gaps");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_a_block_keeps_back_its_time_alone, 0, 2);
    tcase_add_test(tcase, test_lost_cancels_do_not_bring_back_what_they_cancelled);
    tcase_add_loop_test(tcase, test_a_head_keeps_back_the_slot, 0, 2);
    tcase_add_test(tcase, test_a_salvage_that_is_killed_loses_nothing);
    tcase_add_test(tcase, test_many_gaps);
    tcase_add_loop_test(tcase, test_a_message_in_a_gap_that_is_put_again_and_cancelled, 0, 2);
    tcase_add_loop_test(tcase, test_messages_in_a_gap_that_are_dropped, 0, 3);
    tcase_add_loop_test(tcase, test_a_message_in_a_gap_that_is_put_again, 0, 2);
    tcase_add_test(tcase, test_more_gaps_than_are_told_apart);
    tcase_add_test(tcase, test_a_gap_takes_no_memory);
    tcase_add_test(tcase, test_a_gap_holds_the_frontier_down);
    tcase_add_test(tcase, test_damage_before_the_position);
    tcase_add_loop_test(tcase, test_damage_at_the_position, 0, 2);
    tcase_add_loop_test(tcase, test_an_older_slot_that_is_done_with_there, 0, 3);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
