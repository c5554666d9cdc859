/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where one thing ends and the next begins: the last byte of the log, the last nanosecond of a slot,
 * a slot that begins where loading has stopped, a lease that never ends, bytes that are left over.
 */

#include "tests/delay/support/spoil.h"

#include "hwt/delay/whole.h"

#define HOUR HWT_MIN(60)

static void begin_at_random(void)
{
    begin();
    s.random = test_seed();
}

/* The power goes; it is opened again. */
static void crash(void)
{
    struct disk *left = disk_crashed(s.disk, &s.random);
    simulated_kill(&s);
    disk_free(s.disk);
    s.disk = left;
    simulated_open(&s);
}

enum { LONG = 240, BATCH = 50 };

static void expect(const unsigned *counts, uint32_t from, uint32_t to, unsigned each)
{
    for (uint32_t i = from; i < to; i++)
        ck_assert_msg(counts[i] == each, "message %u: %u times", i, counts[i]);
}

static void expect_listed(uint32_t from, uint32_t to, unsigned each)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    ck_assert_int_eq(simulated_list(&s, counts), 0);
    expect(counts, from, to, each);
}

/* The next frame has one message with an id of 4 bytes; its due time takes 8. */
static uint64_t frame_length(uint64_t payload)
{
    const uint64_t sequence = 2 * (s.store->log.next_sequence - 1);
    return HWT_DELAY_FRAME_SIZE + HWT_DELAY_RECORD_LEAST + 8 + (sequence > 0) + (sequence > 255) +
           (payload > 0) + (payload > 255) + 4 + payload;
}

/* So much room a cancel wants; its frame is shorter. */
static uint64_t cancel_most(void)
{
    return hwt_delay_frame_size(HWT_DELAY_RECORD_HEAD_MAX + 4);
}

/* Up to where the frames of a segment may go: behind that is room for the mark of a close. */
static uint64_t frames_end(void)
{
    return file_of("log.0")->seen.size - hwt_delay_frame_size(HWT_DELAY_RECORD_HEAD_MAX);
}

static uint64_t log_room(void)
{
    return frames_end() - s.store->log.offset;
}

/* A put whose frame ends where `room` bytes are left in the segment. */
static void put_up_to(uint32_t number, uint64_t room)
{
    uint64_t payload = log_room() - room - frame_length(256) + 256;
    ck_assert_uint_ge(payload, 256);
    ck_assert_uint_le(payload, 8192);
    ck_assert_int_eq(simulated_put(&s, s.realtime + HOUR, number, (uint32_t)payload), 0);
    ck_assert_uint_eq(log_room(), room);
}

/* Fills the segment up to that; returns how many there are. */
static uint32_t fill_segment(uint64_t room)
{
    uint32_t n = 0;
    while (log_room() > 6000)
        ck_assert_int_eq(simulated_put(&s, s.realtime + HOUR, n++, 1000), 0);
    put_up_to(n++, room);
    return n;
}

/* The last frame of a segment ends where it may, or 8 before. */
START_TEST(test_a_frame_that_ends_with_the_segment)
{
    uint32_t n = fill_segment(_i % 2 == 0 ? 0 : 8);
    if (_i / 2 == 1)
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    if (_i / 2 == 2)
        simulated_close(&s);
    if (_i / 2 == 2)
        simulated_open(&s);
    crash();
    expect_listed(0, n, 1);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(simulated_put(&s, s.realtime + HOUR, n++, 10), 0);
    crash();
    expect_listed(0, n, 1);
    ck_assert_int_eq(hwt_delay_check(s.store, NULL, NULL), 0);
}
END_TEST

/* One that is 8 bytes longer than what is left is the first of the other segment. */
START_TEST(test_a_frame_that_does_not_fit_the_segment)
{
    uint32_t n = fill_segment(496);
    uint64_t payload = log_room() + 8 - frame_length(256) + 256, frame = log_room() + 8;
    ck_assert_uint_eq(s.store->log.segment, 0);
    ck_assert_int_eq(simulated_put(&s, s.realtime + HOUR, n++, (uint32_t)payload), 0);
    ck_assert_uint_eq(s.store->log.segment, 1);
    ck_assert_uint_eq(s.store->log.offset, HWT_DELAY_SEGMENT_FRAMES + frame);
    crash();
    expect_listed(0, n, 1);
}
END_TEST

/* The mark of a close has room behind the last frame there may be. */
START_TEST(test_a_mark_that_ends_with_the_segment)
{
    fill_segment(0);
    size_t last = s.store->log.offset - 8;
    const char *name = s.store->log.segment == 0 ? "log.0" : "log.1";
    simulated_close(&s);
    disk_flip(file_of(name), last, 1);
    simulated_begin(&s);
    ck_assert_int_eq(simulated_try_open(&s), -EBADMSG);
}
END_TEST

/* No checkpoint can be made from now on. */
static void refuse_files(void)
{
    s.process.fail_only = 1u << DISK_OPEN;
    s.process.fail_at = 1;
    s.process.fail_count = UINT64_MAX;
    s.process.calls = 0;
    s.process.fail_with = -EMFILE;
}

/* While no checkpoint can be made, puts leave room to cancel what they have put. */
START_TEST(test_puts_leave_room_for_cancels)
{
    const uint64_t due = s.realtime + HOUR;
    uint32_t n = 0;
    int r;
    refuse_files();
    while ((r = simulated_put(&s, due, n, _i == 0 ? 0 : 500)) == 0)
        n++;
    ck_assert_int_eq(r, -EMFILE);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(hwt_delay_cancel(s.store, due, &i, sizeof(i)), 0);
    crash();
    expect_listed(0, n, 0);
}
END_TEST

/* Message k of the n-th batch. Its id is nearly that of the one before it in the batch; between those two there are
 * others in time. */
static hwt_delay_message long_id(unsigned n, unsigned k, char id[LONG])
{
    memset(id, (int)('a' + n), LONG);
    id[LONG - 1] = (char)k;
    return (
        hwt_delay_message){ .due = s.realtime + HOUR + k * 1000 + n, .id = id, .id_size = LONG };
}

static int put_long_ids(unsigned n)
{
    static char ids[BATCH][LONG];
    hwt_delay_message batch[BATCH];
    for (unsigned k = 0; k < BATCH; k++)
        batch[k] = long_id(n, k, ids[k]);
    return hwt_delay_put(s.store, batch, BATCH);
}

/* Slots take many times what the log took for the same messages. On a full disk the reserve has room for them. */
START_TEST(test_slots_that_are_longer_than_the_log)
{
    unsigned n = 0;
    char id[LONG];
    s.disk->capacity = disk_size(s.disk) + 100;
    while (put_long_ids(n) == 0)
        ck_assert_uint_lt(++n, 26);
    ck_assert_uint_ge(n, 2);
    ck_assert_uint_lt(s.store->stats.log_bytes, (uint64_t)n * BATCH * LONG / 4);
    ck_assert_uint_gt(simulated_stats(&s).checkpoints, 0);
    ck_assert_uint_gt(simulated_stats(&s).files, 0);
    for (unsigned i = 0; i < n * BATCH; i++) {
        const hwt_delay_message message = long_id(i / BATCH, i % BATCH, id);
        ck_assert_int_eq(hwt_delay_cancel(s.store, message.due, id, LONG), 0);
    }
    crash();
    ck_assert_uint_eq(simulated_stats(&s).pending, 0);
}
END_TEST

/* While no checkpoint can be made, cancels fill both segments, as long as there is what one wants, and not
 * more. */
START_TEST(test_the_log_is_filled_to_its_end)
{
    enum { MANY = 1500 };
    uint32_t i, cancelled = 0;
    /* Their frames have a due time of 8 bytes and a sequence of 2. */
    const uint64_t due = s.realtime + HOUR,
                   each = hwt_delay_frame_size(HWT_DELAY_RECORD_LEAST + 8 + 2 + 4);
    const uint64_t whole = frames_end() - HWT_DELAY_SEGMENT_FRAMES;
    for (i = 0; i < MANY; i++)
        ck_assert_int_eq(simulated_put(&s, due, i, 0), 0);
    while (log_room() < each * 30 || log_room() > each * 60)
        ck_assert_int_eq(simulated_put(&s, due, i++, 500), 0);
    put_up_to(i, 20 * each);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    uint64_t room = log_room() / each + (whole - cancel_most()) / each + 1;
    refuse_files();
    int r = 0;
    for (i = 0; i < MANY && r == 0; i++, cancelled += r == 0)
        r = hwt_delay_cancel(s.store, due, &i, sizeof(i));
    ck_assert_int_eq(r, -EMFILE);
    ck_assert_uint_eq(cancelled, room);
    crash();
    expect_listed(0, cancelled, 0);
    expect_listed(cancelled, MANY, 1);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_int_eq(hwt_delay_cancel(s.store, due, &cancelled, sizeof(cancelled)), 0);
    crash();
    expect_listed(0, cancelled + 1, 0);
    expect_listed(cancelled + 1, MANY, 1);
}
END_TEST

/* ---- slots ---- */

/* The last instant of a slot of what is overdue, which has passed. */
static uint64_t last_instant(void)
{
    return ((s.realtime - HWT_SEC(20)) >> 33 << 33) - 1;
}

/*
 * A slot has been read up to its last instant; a checkpoint leaves more in memory than may stay,
 * and what is dropped is a part of that instant. It is read once more.
 */
START_TEST(test_eviction_within_the_last_instant_of_a_slot)
{
    enum { LATE = 10, EARLY = 12 };
    const uint64_t last = last_instant();
    unsigned counts[SIMULATED_IDS] = { 0 };
    const hwt_delay_message *taken;
    for (uint32_t i = 0; i < LATE; i++)
        ck_assert_int_eq(simulated_put(&s, last, i, 8000), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    crash();
    /* One is taken, so that the others were read. */
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    ck_assert_int_eq(hwt_delay_extend(s.store, taken->lease, 0), 0);
    hwt_delay_free(taken);
    for (uint32_t i = LATE; i < LATE + EARLY; i++)
        ck_assert_int_eq(simulated_put(&s, last - HWT_SEC(20) + i, i, 8000), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_eq(s.store->table.loaded.due, last); /* that is what the numbers above are for */
    ck_assert_uint_gt(s.store->table.loaded.sequence, 0);
    if (_i == 1) { /* within the instant */
        ck_assert_int_eq(simulated_deliver(&s, EARLY + 1, counts), EARLY + 1);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        crash();
    }
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), LATE + (_i == 0 ? EARLY : -1));
    expect(counts, 0, LATE + EARLY, 1);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_eq(simulated_stats(&s).files, 0);
}
END_TEST

/*
 * Loading has stopped within an instant, at which a slot begins. A message of that instant, whose
 * lease has ended, goes to a new slot there; it is done with, and does not come back.
 */
START_TEST(test_a_slot_that_begins_where_loading_stopped)
{
    enum { MANY = 20 };
    const uint64_t due = last_instant() + 1;
    const hwt_delay_message *taken;
    unsigned counts[SIMULATED_IDS] = { 0 };
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(simulated_put(&s, due, i, 8000), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    crash();
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    ck_assert_uint_eq(simulated_number(taken), 0);
    ck_assert_uint_eq(s.store->table.loaded.due, due);
    ck_assert_uint_gt(s.store->table.loaded.sequence, 0);
    ck_assert_int_eq(hwt_delay_extend(s.store, taken->lease, 0), 0);
    hwt_delay_free(taken);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0); /* in which it is leased, or fresh */
    ck_assert_int_eq(simulated_put(&s, due - 1, MANY, 10), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    /* That one, and the one whose lease has ended. */
    ck_assert_int_eq(simulated_deliver(&s, 2, counts), 2);
    ck_assert_uint_eq(counts[0] + counts[MANY], 2);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    crash();
    expect_listed(0, 1, 0);
    expect_listed(1, MANY, 1);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), MANY - 1);
    expect(counts, 0, MANY + 1, 1);
}
END_TEST

/* Two of one instant, which is the last of their slot: one is done with, and the other stays. */
START_TEST(test_a_slot_is_kept_for_its_last_instant)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_int_eq(simulated_put(&s, last_instant(), i, 10), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    if (_i == 1)
        crash();
    ck_assert_int_eq(simulated_deliver(&s, 1, counts), 1);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_eq(simulated_stats(&s).files, 1);
    crash();
    expect_listed(0, 1, 0);
    expect_listed(1, 2, 1);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 1);
    expect(counts, 0, 2, 1);
}
END_TEST

/* ---- leases ---- */

/* It is in each checkpoint, and comes back after a crash; it is the next thing of nobody. */
START_TEST(test_a_lease_that_never_ends)
{
    const hwt_delay_message *taken;
    uint64_t lease;
    simulated_close(&s);
    s.options.lease = _i == 0 ? HWT_NEVER : HWT_NEVER - 1;
    simulated_open(&s);
    ck_assert_int_eq(simulated_put(&s, s.realtime, 1, 10), 0);
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    lease = taken->lease;
    hwt_delay_free(taken);
    ck_assert_uint_eq(hwt_delay_next(s.store), HWT_NEVER);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_advance(&s, HWT_SEC(86400) * 10000);
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 0);
    ck_assert_int_eq(hwt_delay_extend(s.store, lease, HWT_NEVER), 0);
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_eq(simulated_stats(&s).expired, 0);
    crash();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 1);
}
END_TEST

/* ---- bytes that are left over ---- */

/* A frame's checksums fit, and behind its records there is something, or too little. */
START_TEST(test_trailing_bytes_in_a_frame)
{
    static const int more[] = { 8, 1, -1 };
    ck_assert_int_eq(simulated_put(&s, s.realtime + HOUR, 1, 13), 0);
    simulated_kill(&s);
    struct disk_file *log = file_of("log.0");
    size_t at = find(log, HWT_DELAY_MAGIC_FRAME, 1), records = at + HWT_DELAY_FRAME_SIZE;
    uint32_t length = hwt_delay_get32(disk_seen(log) + at + HWT_DELAY_FRAME_LENGTH);
    length = (uint32_t)((int)length + more[_i]);
    set32(log, at + HWT_DELAY_FRAME_LENGTH, length);
    seal(log, key_of(), at + HWT_DELAY_FRAME_RECORDS_CRC, records, records + length);
    seal_head(log, at, HWT_DELAY_MAGIC_FRAME, HWT_DELAY_FRAME_SIZE);
    simulated_begin(&s);
    ck_assert_int_eq(simulated_try_open(&s), -EBADMSG);
}
END_TEST

/* A frame's checksums fit, and a message in it has a number that is not its own. */
START_TEST(test_a_wrong_number_in_a_frame)
{
    put_some(0, 3, s.realtime + HOUR, 10);
    simulated_kill(&s);
    struct disk_file *log = file_of("log.0");
    size_t at = find(log, HWT_DELAY_MAGIC_FRAME, 3), records = at + HWT_DELAY_FRAME_SIZE;
    uint32_t length = hwt_delay_get32(disk_seen(log) + at + HWT_DELAY_FRAME_LENGTH);
    set_sequence(log, records, _i == 0 ? 4 : 2);
    seal(log, key_of(), at + HWT_DELAY_FRAME_RECORDS_CRC, records, records + length);
    seal_head(log, at, HWT_DELAY_MAGIC_FRAME, HWT_DELAY_FRAME_SIZE);
    simulated_begin(&s);
    ck_assert_int_eq(simulated_try_open(&s), -EBADMSG);
}
END_TEST

/* `store` has lost its head, or all of its bytes, and the log was written to: nothing is made anew. */
START_TEST(test_a_used_log_with_a_lost_head)
{
    ck_assert_int_eq(simulated_put(&s, s.realtime + HOUR, 1, 10), 0);
    simulated_kill(&s);
    struct disk_file *store = file_of("store");
    const size_t size = store->seen.size;
    disk_cut(store, 0);
    if (_i == 1)
        disk_cut(store, size);
    simulated_begin(&s);
    ck_assert_int_eq(simulated_try_open(&s), -EBADMSG);
    s.options.flags = HWT_DELAY_SALVAGE;
    simulated_open(&s);
    expect_listed(1, 2, 1);
}
END_TEST

/* So it is where there are slots, whatever the log has. */
START_TEST(test_slots_with_a_lost_head)
{
    static const unsigned char zeros[65536];
    put_some(0, 3, s.realtime + HOUR, 10);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    static const char *const names[] = { "log.0", "log.1" };
    for (int i = 0; i < 2; i++)
        write_at(file_of(names[i]), HWT_DELAY_SEGMENT_FRAMES, zeros,
                 file_of(names[i])->seen.size - HWT_DELAY_SEGMENT_FRAMES);
    write_at(file_of("store"), 0, zeros, file_of("store")->seen.size);
    simulated_begin(&s);
    ck_assert_int_eq(simulated_try_open(&s), -EBADMSG);
    s.options.flags = HWT_DELAY_SALVAGE;
    simulated_open(&s);
    expect_listed(0, 3, 1);
}
END_TEST

/* Somebody has put back the log's files under each other's name: that is not an empty log. */
START_TEST(test_segments_that_were_swapped)
{
    put_some(0, 3, s.realtime + HOUR, 10);
    simulated_kill(&s);
    struct disk_file *a = file_of("log.0"), *b = file_of("log.1");
    ck_assert_uint_eq(a->seen.size, b->seen.size);
    for (size_t i = 0; i < a->seen.size; i++) {
        unsigned char bits = disk_seen(a)[i] ^ disk_seen(b)[i];
        disk_flip(a, i, bits);
        disk_flip(b, i, bits);
    }
    simulated_begin(&s);
    ck_assert_int_eq(simulated_try_open(&s), -EBADMSG);
}
END_TEST

/* ---- a checkpoint whose name did not get to the disk ---- */

enum { CRASHES = 20 };

static void die_after_the_name(void *process, enum disk_call call, const char *name)
{
    ((struct process *)process)->dying |= call == DISK_RENAME && strcmp(name, "checkpoint") == 0;
}

/* Whatever a crash leaves now can be opened. */
static void crash_and_open(void *process, enum disk_call call, const char *name)
{
    struct process next;
    hwt_delay *store;
    hwt_delay_options options = s.options;
    (void)call;
    (void)name;
    for (int i = 0; i < CRASHES; i++) {
        struct disk *left = disk_crashed(((struct process *)process)->disk, &s.random);
        process_start(&next, left, &s.realtime, &s.boottime);
        int r = hwt_delay_open_on("store", &options, &next.system, true, &store);
        ck_assert_int_eq(r, 0);
        ck_assert_int_eq(hwt_delay_close(store), 0);
        process_end(&next);
        disk_free(left);
    }
}

/* The next process sees it, and deletes a slot that the one before it names: it is on the disk then. */
START_TEST(test_a_checkpoint_that_is_seen_and_not_on_the_disk)
{
    s.random = test_seed();
    for (uint32_t i = 0; i < 10; i++)
        ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_SEC(60), i, 10), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_advance(&s, HWT_SEC(100));
    s.process.changed = die_after_the_name;
    s.process.changed_arg = &s.process;
    for (int64_t n = 1; n > 0 && !s.process.dead;)
        n = simulated_deliver(&s, SIZE_MAX, NULL);
    if (!s.process.dead && !s.process.dying)
        hwt_delay_checkpoint(s.store);
    ck_assert(s.process.dead || s.process.dying);
    simulated_kill(&s);
    simulated_begin(&s);
    s.process.changed = crash_and_open;
    s.process.changed_arg = &s.process;
    ck_assert_int_eq(simulated_try_open(&s), 0);
    s.process.changed = NULL;
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_edges");
    TCase *tcase = tcase_create("edges");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin_at_random, end);
    tcase_add_loop_test(tcase, test_a_frame_that_ends_with_the_segment, 0, 6);
    tcase_add_test(tcase, test_a_frame_that_does_not_fit_the_segment);
    tcase_add_test(tcase, test_a_mark_that_ends_with_the_segment);
    tcase_add_test(tcase, test_slots_that_are_longer_than_the_log);
    tcase_add_loop_test(tcase, test_puts_leave_room_for_cancels, 0, 2);
    tcase_add_test(tcase, test_the_log_is_filled_to_its_end);
    tcase_add_loop_test(tcase, test_eviction_within_the_last_instant_of_a_slot, 0, 2);
    tcase_add_test(tcase, test_a_slot_that_begins_where_loading_stopped);
    tcase_add_loop_test(tcase, test_a_slot_is_kept_for_its_last_instant, 0, 2);
    tcase_add_loop_test(tcase, test_a_lease_that_never_ends, 0, 2);
    tcase_add_loop_test(tcase, test_trailing_bytes_in_a_frame, 0, 3);
    tcase_add_loop_test(tcase, test_a_wrong_number_in_a_frame, 0, 2);
    tcase_add_loop_test(tcase, test_a_used_log_with_a_lost_head, 0, 2);
    tcase_add_test(tcase, test_slots_with_a_lost_head);
    tcase_add_test(tcase, test_segments_that_were_swapped);
    tcase_add_test(tcase, test_a_checkpoint_that_is_seen_and_not_on_the_disk);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
