/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The log by its own calls: records of many sizes go in, and the frames on the disk have them, in order. */

#include "tests/delay/support/simulated_one.h"

#include "hwt/delay/log/log.h"
#include "hwt/delay/whole.h"

enum { RECORDS = 400, SIZE_MAX_OF_ONE = 1500 };

static hwt_delay *store;
static uint64_t seed;

static void set_up(void)
{
    begin();
    store = s.store;
    seed = test_seed();
    pthread_mutex_lock(&store->lock);
}

static void tear_down(void)
{
    pthread_mutex_unlock(&store->lock);
    simulated_kill(&s);
    simulated_free(&s);
}

static uint64_t below(uint64_t n)
{
    return test_random(&seed) % n;
}

/* Gathers a note of that size; where the log has no room it makes it, and what it kept is not needed any more. */
static uint64_t add(uint32_t number, size_t size)
{
    static unsigned char payload[SIZE_MAX_OF_ONE];
    memset(payload, (int)(number & 0xff), size);
    const hwt_delay_message message = { .payload = payload, .payload_size = size };
    struct hwt_delay_record *note = hwt_delay_record_new(HWT_DELAY_NOTE, &message);
    must(note != NULL);
    must(hwt_delay_log_reserve(store, hwt_delay_encoded_most(note), 0, false) == 0);
    uint64_t next = hwt_delay_log_next(store);
    hwt_delay_log_add(store, note);
    must(note->key.sequence == next && hwt_delay_log_next(store) == next + 1);
    hwt_delay_record_unref(note);
    return next;
}

static void flush(void)
{
    must(hwt_delay_log_wait(store, hwt_delay_log_frame(store) - 1) == 0);
    hwt_delay_log_lead(store);
}

/* Reads one frame, and compares its records with those that were added. */
static uint32_t check_frame(const struct hwt_delay_frame *frame, const unsigned char *bytes,
                            const size_t *sizes, uint64_t first)
{
    const unsigned char *at = bytes + HWT_DELAY_FRAME_SIZE, *end = at + frame->length;
    struct hwt_delay_before before = { 0 };
    for (uint32_t i = 0; i < frame->count; i++) {
        struct hwt_delay_record *record;
        must(hwt_delay_decode(&before, &at, end, &record) == 0);
        uint64_t number = record->key.sequence - first;
        must(record->key.sequence == frame->sequence + i && number < RECORDS);
        must(record->payload_size == sizes[number]);
        for (uint32_t b = 0; b < record->payload_size; b++)
            must(record->bytes[b] == (unsigned char)number);
        hwt_delay_record_unref(record);
    }
    must(at == end);
    return frame->count;
}

START_TEST(frames_have_what_was_gathered)
{
    size_t sizes[RECORDS], seen = 0;
    const uint64_t first = hwt_delay_log_next(store);
    const struct hwt_delay_log_point from = hwt_delay_log_end(store);
    uint64_t room = hwt_delay_log_extent(store) / 4;
    for (uint32_t i = 0, bytes = 0; i < RECORDS && bytes < room; i++) {
        sizes[i] = (size_t)below(200);
        add(i, sizes[i]);
        bytes += (uint32_t)sizes[i] + 120;
        seen = i + 1;
        if (below(5) == 0)
            flush();
        ck_assert_uint_le(hwt_delay_log_durable(store), hwt_delay_log_next(store));
    }
    flush();
    ck_assert_uint_eq(hwt_delay_log_durable(store), hwt_delay_log_next(store));
    unsigned char *bytes = hwt_delay_frame_new(store);
    struct hwt_delay_log_point at = from;
    while (at.sequence < hwt_delay_log_next(store)) {
        struct hwt_delay_frame frame;
        ck_assert_int_eq(hwt_delay_frame_read(store, at.segment, at.offset, bytes, &frame), 0);
        ck_assert_uint_eq(frame.sequence, at.sequence);
        seen -= check_frame(&frame, bytes, sizes, first);
        at.offset += frame.size;
        at.sequence += frame.count;
    }
    ck_assert_uint_eq(seen, 0);
    const struct hwt_delay_log_point to = hwt_delay_log_end(store);
    ck_assert(at.segment == to.segment && at.offset == to.offset && at.sequence == to.sequence);
    free(bytes);
}
END_TEST

/* Puts leave an eighth of the log for ends. What is gathered and not written yet counts as what was written. */
START_TEST(what_is_gathered_takes_room_of_puts)
{
    const uint64_t extent = hwt_delay_log_extent(store);
    store->log.stunted = true; /* it does not become longer */
    while (store->log.kept_bytes < extent / 8 * 5) {
        add(0, 1000);
        flush();
    }
    const size_t size = extent / 8 * 7 - store->log.kept_bytes - 1000;
    ck_assert_int_eq(hwt_delay_log_try(store, size, 0, true), 0);
    add(0, 1400);
    ck_assert_int_eq(hwt_delay_log_try(store, size, 0, true), -EAGAIN);
    flush();
    ck_assert_int_eq(hwt_delay_log_try(store, size, 0, true), -EAGAIN);
}
END_TEST

/* A frame whose bytes have changed is none, and the search for a later one finds the next. */
START_TEST(damage_is_seen_and_what_is_behind_it_is_found)
{
    const struct hwt_delay_log_point from = hwt_delay_log_end(store);
    add(0, 100);
    flush();
    const uint64_t second = add(1, 100);
    flush();
    unsigned char *bytes = hwt_delay_frame_new(store), byte;
    struct hwt_delay_frame frame;
    const uint64_t place = from.offset + HWT_DELAY_FRAME_SIZE + HWT_DELAY_RECORD_HEAD_MAX + 50;
    const int file = hwt_delay_log_file(store, from.segment);
    ck_assert_int_eq(hwt_delay_read_all(store, file, &byte, 1, place), 1);
    byte ^= 4;
    ck_assert_int_eq(hwt_delay_write_all(store, file, &byte, 1, place), 0);
    ck_assert_int_eq(hwt_delay_frame_read(store, from.segment, from.offset, bytes, &frame),
                     -EBADMSG);
    bool displaced;
    ck_assert_int_eq(hwt_delay_frame_later(store, second - 1, &frame, &displaced), 1);
    ck_assert(!displaced);
    ck_assert_uint_eq(frame.sequence, second);
    ck_assert_int_eq(hwt_delay_frame_later(store, second, &frame, &displaced), 0);
    ck_assert(!displaced);
    free(bytes);
}
END_TEST

static struct hwt_delay_log_point seen_point;
static uint64_t seen_durable;

static void see(hwt_delay *its)
{
    seen_point = hwt_delay_log_end(its);
    seen_durable = hwt_delay_log_durable(its);
}

/* A call between two frames comes when all before it was taken, and before that is on the disk. */
START_TEST(a_call_between_two_frames)
{
    ck_assert_int_eq(hwt_delay_log_between(store, see), 0);
    ck_assert_uint_eq(seen_point.sequence, hwt_delay_log_next(store));
    const uint64_t number = add(0, 10);
    const struct hwt_delay_log_point before = hwt_delay_log_end(store);
    ck_assert_int_eq(hwt_delay_log_between(store, see), 0);
    ck_assert_uint_eq(seen_point.sequence, number + 1);
    ck_assert_uint_eq(seen_durable, number);
    ck_assert_uint_gt(seen_point.offset, before.offset);
    ck_assert_uint_eq(hwt_delay_log_durable(store), number + 1);
    hwt_delay_poison(store);
    ck_assert_int_eq(hwt_delay_log_between(store, see), -EIO);
    ck_assert_int_eq(hwt_delay_log_reserve(store, 100, 0, false), -EIO);
}
END_TEST

START_TEST(what_opening_would_read_again)
{
    const uint64_t number = add(0, 10);
    ck_assert(hwt_delay_log_keeps(store, number));
    flush();
    hwt_delay_log_keep(store, hwt_delay_log_end(store));
    ck_assert(!hwt_delay_log_keeps(store, number));
    ck_assert(hwt_delay_log_keeps(store, hwt_delay_log_next(store)));
    hwt_delay_log_shed(store, hwt_delay_log_kept_bytes(store),
                       hwt_delay_log_tombstone_bytes(store));
    ck_assert_uint_eq(hwt_delay_log_kept_bytes(store), 0);
}
END_TEST

START_TEST(a_record_that_no_frame_has_room_for)
{
    ck_assert_int_eq(hwt_delay_log_reserve(store, hwt_delay_log_most(store) + 16, 0, false),
                     -EMSGSIZE);
    ck_assert_int_eq(hwt_delay_log_try(store, hwt_delay_log_most(store) + 16, 0, false), -EMSGSIZE);
}
END_TEST

START_TEST(a_pin_is_one_threads)
{
    ck_assert(!hwt_delay_log_is_pinned(store));
    hwt_delay_log_pin(store);
    ck_assert(hwt_delay_log_is_pinned(store));
    hwt_delay_log_unpin(store);
    ck_assert(!hwt_delay_log_is_pinned(store));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_log");
    TCase *tcase = tcase_create("log");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, frames_have_what_was_gathered);
    tcase_add_test(tcase, what_is_gathered_takes_room_of_puts);
    tcase_add_test(tcase, damage_is_seen_and_what_is_behind_it_is_found);
    tcase_add_test(tcase, a_call_between_two_frames);
    tcase_add_test(tcase, what_opening_would_read_again);
    tcase_add_test(tcase, a_record_that_no_frame_has_room_for);
    tcase_add_test(tcase, a_pin_is_one_threads);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
