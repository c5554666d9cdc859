/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A stream of records: order, growth, compaction, want of memory. */

#include "stream_fixture.h"

static uint64_t seen[1000 * CHUNK];

static uint32_t read_all(void)
{
    uint32_t n = 0, some;
    must(hwt_stream_claim(&stream));
    while ((some = read_some(seen + n, UINT32_MAX)) > 0)
        n += some;
    hwt_stream_release(&stream);
    return n;
}

static void expect_read(uint64_t from, uint64_t to)
{
    ck_assert_uint_eq(read_all(), to - from);
    for (uint64_t i = from; i < to; i++)
        must(seen[i - from] == i);
    ck_assert(!hwt_stream_is_used(&stream));
}

START_TEST(records_come_in_order_however_many_there_are)
{
    ck_assert(!hwt_stream_is_used(&stream));
    expect_read(0, 0);
    for (uint64_t n = 1; n < 5 * CHUNK; n += 7) {
        uint64_t from = appended;
        append(n);
        ck_assert(hwt_stream_is_used(&stream));
        expect_read(from, from + n);
    }
}
END_TEST

START_TEST(a_part_can_be_read_and_the_rest_later)
{
    append(4 * CHUNK + 5);
    uint64_t at = 0, one[7];
    must(hwt_stream_claim(&stream));
    for (uint32_t n; (n = read_some(one, 7)) > 0;) {
        for (uint32_t i = 0; i < n; i++)
            must(one[i] == at++);
    }
    hwt_stream_release(&stream);
    ck_assert_uint_eq(at, appended);
}
END_TEST

START_TEST(one_claims_it_at_a_time)
{
    must(hwt_stream_claim(&stream));
    ck_assert(!hwt_stream_claim(&stream));
    hwt_stream_release(&stream);
    ck_assert(hwt_stream_claim(&stream));
    hwt_stream_release(&stream);
}
END_TEST

START_TEST(a_stream_that_is_read_needs_no_more_memory)
{
    append(CHUNK + 1);
    read_all();
    uint64_t bytes = hwt_pieces_bytes(&all_pieces);
    refuse = true;
    for (int i = 0; i < 1000; i++) {
        append(1 + (uint64_t)i % CHUNK);
        must(read_all() == 1 + (uint32_t)i % CHUNK);
    }
    ck_assert_uint_eq(hwt_pieces_bytes(&all_pieces), bytes);
    ck_assert_uint_le(bytes, 2 * HWT_PIECES_CHUNK);
}
END_TEST

START_TEST(what_it_holds_is_told)
{
    for (uint32_t chunks = 1; chunks < 50; chunks++) {
        append(CHUNK);
        ck_assert_uint_eq(hwt_stream_backlog(&stream), chunks);
    }
    read_all();
    ck_assert_uint_le(hwt_stream_backlog(&stream), 1);
    ck_assert_uint_eq(chunks_made - chunks_freed, 1);
}
END_TEST

START_TEST(after_a_peak_it_keeps_no_chunk_but_the_last)
{
    for (int i = 0; i < 3; i++) {
        append(1000 * CHUNK);
        ck_assert_uint_eq(read_all(), 1000 * CHUNK);
        ck_assert_uint_eq(chunks_made - chunks_freed, 1);
    }
    refuse = true; /* and the others are used again */
    append(200 * CHUNK);
    ck_assert_uint_eq(read_all(), 200 * CHUNK);
}
END_TEST

/* ---- compaction ---- */

START_TEST(where_nothing_must_stay_it_does_not_grow)
{
    stays = none_stays;
    append(1000 * CHUNK);
    ck_assert_uint_le(chunks_made - chunks_freed, 3);
    ck_assert_uint_le(hwt_stream_backlog(&stream), 2);
    uint32_t n = read_all();
    must(n > 0 && seen[n - 1] == appended - 1); /* the last one always */
}
END_TEST

static uint64_t pending_from; /* those before are out of date */

static bool last_ones_stay(uint64_t deadline)
{
    return deadline >= pending_from;
}

START_TEST(it_is_bounded_by_what_must_stay_and_seldom_looked_through)
{
    /* With no room it grows by half, or, where that is too wide, by a third; with much of it to
     * thrice of what stays. */
    static const uint32_t rooms[] = { 0, 8, 1000, 0 }, wides[] = { 1000, 1000, 1000, 2 };
    static const uint32_t bounds[] = { 17, 20, 34, 15 };
    static const double looks[] = { 3, 2.5, 1.6, 3.8 };
    enum { PENDING = 10 * CHUNK };
    stays = last_ones_stay;
    room = rooms[_i];
    wide = wides[_i];
    for (int i = 0; i < 200000; i++) {
        append(1);
        pending_from = appended > PENDING ? appended - PENDING : 0;
        must(hwt_stream_backlog(&stream) <= bounds[_i]);
        must(chunks_made - chunks_freed <= bounds[_i] + 2);
    }
    ck_assert_double_le((double)looked, looks[_i] * (double)appended);
    uint32_t n = read_all();
    must(n >= PENDING);
    for (uint32_t i = 0; i < PENDING; i++)
        must(seen[n - PENDING + i] == appended - PENDING + i);
}
END_TEST

static uint64_t rule; /* a word of random bits */

static bool some_stay(uint64_t deadline)
{
    return rule >> deadline * 0x9e37 % 61 & 1;
}

/* Random appends and reads, with a rule that does not change: what must stay is read once and in
 * order, the others once at most. */
START_TEST(what_must_stay_is_read_in_order_and_nothing_of_it_is_lost)
{
    uint64_t seed = test_seed();
    close_stream();
    for (int program = 0; program < 200; program++) {
        open_stream();
        rule = test_random(&seed) & test_random(&seed);
        stays = some_stay;
        uint64_t at = 0; /* all before it have been read, or need not be */
        for (int step = 0; step < 60; step++) {
            append(test_random(&seed) % (4 * CHUNK));
            uint32_t want = (uint32_t)(test_random(&seed) % (3 * CHUNK)), n;
            must(hwt_stream_claim(&stream));
            while (want > 0 && (n = read_some(seen, want)) > 0) {
                for (uint32_t i = 0; i < n; i++) {
                    must(seen[i] >= at);
                    for (; at < seen[i]; at++)
                        must(!some_stay(at));
                    at++;
                }
                want -= n;
            }
            hwt_stream_release(&stream);
        }
        uint32_t n;
        while ((n = read_all()) > 0) {
            for (uint32_t i = 0; i < n; i++) {
                for (; at < seen[i]; at++)
                    must(!some_stay(at));
                at++;
            }
        }
        for (; at < appended; at++)
            must(!some_stay(at));
        close_stream();
    }
    open_stream();
}
END_TEST

/* From each place in a chunk that a reader can stop at, with each number that stays. */
START_TEST(it_is_compacted_rightly_from_wherever_it_was_read_to)
{
    close_stream();
    for (uint32_t read = 0; read <= CHUNK; read++) {
        for (uint64_t from = 0; from <= 3 * CHUNK; from += 1 + from % 3) {
            open_stream();
            stays = last_ones_stay;
            pending_from = from;
            must(hwt_stream_claim(&stream)); /* the producer can but grow */
            append(3 * CHUNK);
            must(looked == 0);
            uint32_t n = read_some(seen, read);
            must(n == read);
            hwt_stream_release(&stream);
            append(1);
            must(looked == 3 * CHUNK - read);
            n = read_all();
            uint64_t first = from > read ? from : read;
            must(n == 3 * CHUNK - first + 1);
            for (uint32_t i = 0; i < n; i++)
                must(seen[i] == first + i);
            close_stream();
        }
    }
    open_stream();
}
END_TEST

START_TEST(while_it_is_read_it_grows_instead)
{
    stays = none_stays;
    must(hwt_stream_claim(&stream));
    append(20 * CHUNK);
    ck_assert_uint_eq(looked, 0);
    ck_assert_uint_eq(hwt_stream_backlog(&stream), 20);
    hwt_stream_release(&stream);
    append(1);
    ck_assert_uint_eq(looked, 20 * CHUNK);
    ck_assert_uint_eq(hwt_stream_backlog(&stream), 1);
    ck_assert_uint_eq(read_all(), 1);
    ck_assert_uint_eq(seen[0], appended - 1);
}
END_TEST

/* Five timeouts that are moved to and fro: of each the first record that is unread stays, wherever
 * that is. Without memory to find them all are left out, and that is told. */
START_TEST(where_more_stays_than_there_can_be_the_first_of_each_stays)
{
    enum { IDS = 5 };
    const bool memory = _i == 0;
    close_stream();
    for (uint32_t read = 0; read <= CHUNK; read += CHUNK / 2) {
        open_stream();
        ids = IDS;
        append(2 * CHUNK);
        must(hwt_stream_claim(&stream));
        must(read_some(seen, read) == read);
        hwt_stream_release(&stream);
        most = 2 * CHUNK - read; /* as many as there are */
        append(1);
        must(hwt_stream_claim(&stream));
        append(3 * CHUNK - 1);
        hwt_stream_release(&stream);
        must(hwt_stream_is_full(&stream));
        most = IDS;
        refuse = !memory;
        must(try_append() == memory);
        refuse = false;
        if (memory) {
            must(read_all() == IDS + 1 && seen[IDS] == appended - 1);
            for (uint32_t i = 0; i < IDS; i++)
                must(seen[i] == read + i);
        }
        must(read_all() == 0 && !hwt_stream_is_used(&stream));
        uint64_t from = appended;
        append(5);
        must(read_all() == 5 && seen[0] == from);
        close_stream();
    }
    open_stream();
}
END_TEST

/* ---- want of memory ---- */

START_TEST(it_takes_nothing_until_there_is_a_record)
{
    refuse = true;
    ck_assert(!hwt_stream_is_used(&stream) && read_all() == 0);
    ck_assert_uint_eq(chunks_made, 0);
    for (int i = 0; i < 3; i++)
        ck_assert(!try_append());
    ck_assert(!hwt_stream_is_used(&stream) && read_all() == 0);
    refuse = false;
    append(1);
    ck_assert_uint_eq(chunks_made, 1);
    expect_read(0, 1);
}
END_TEST

/* Its last one, which may yet be read, stays. */
START_TEST(what_compactions_have_left_goes_back_when_its_thread_ends)
{
    stays = none_stays;
    append(40 * CHUNK);
    while (stream.own_spare_count == 0)
        append(1);
    ck_assert_uint_le(stream.own_spare_count, OWN_SPARE_MIN);
    hwt_stream_free_spare(&stream);
    ck_assert_uint_eq(chunks_made - chunks_freed, hwt_stream_backlog(&stream));
    uint64_t from = appended;
    append(1);
    uint32_t n = read_all();
    must(n > 0 && seen[n - 1] == from);
    stays = all_stay;
    append(3 * CHUNK);
    expect_read(from + 1, from + 1 + 3 * CHUNK);
}
END_TEST

START_TEST(without_memory_to_grow_nothing_is_lost)
{
    append(CHUNK);
    refuse = true;
    for (int i = 0; i < 3; i++)
        ck_assert(!try_append());
    expect_read(0, CHUNK);
    ck_assert(!try_append()); /* the chunk that was read is not given back before the next one */
    refuse = false;
    append(2 * CHUNK);
    expect_read(CHUNK, 3 * CHUNK);
    refuse = true;
    append(2 * CHUNK); /* those that came back */
    ck_assert(!try_append());
    expect_read(3 * CHUNK, 5 * CHUNK);
}
END_TEST

START_TEST(where_there_is_no_memory_what_is_out_of_date_makes_room)
{
    append(2 * CHUNK);
    stays = none_stays;
    refuse = true;
    append(10 * CHUNK);
    ck_assert_uint_gt(looked, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream");
    TCase *order = unit_case(suite, "order", open_stream, close_stream);
    tcase_add_test(order, records_come_in_order_however_many_there_are);
    tcase_add_test(order, a_part_can_be_read_and_the_rest_later);
    tcase_add_test(order, one_claims_it_at_a_time);
    tcase_add_test(order, a_stream_that_is_read_needs_no_more_memory);
    tcase_add_test(order, what_it_holds_is_told);
    tcase_add_test(order, after_a_peak_it_keeps_no_chunk_but_the_last);
    TCase *compaction = unit_case(suite, "compaction", open_stream, close_stream);
    tcase_add_test(compaction, where_nothing_must_stay_it_does_not_grow);
    tcase_add_loop_test(compaction, it_is_bounded_by_what_must_stay_and_seldom_looked_through, 0,
                        4);
    tcase_add_test(compaction, what_must_stay_is_read_in_order_and_nothing_of_it_is_lost);
    tcase_add_test(compaction, it_is_compacted_rightly_from_wherever_it_was_read_to);
    tcase_add_test(compaction, while_it_is_read_it_grows_instead);
    tcase_add_loop_test(compaction, where_more_stays_than_there_can_be_the_first_of_each_stays, 0,
                        2);
    TCase *want = unit_case(suite, "want", open_stream, close_stream);
    tcase_add_test(want, it_takes_nothing_until_there_is_a_record);
    tcase_add_test(want, what_compactions_have_left_goes_back_when_its_thread_ends);
    tcase_add_test(want, without_memory_to_grow_nothing_is_lost);
    tcase_add_test(want, where_there_is_no_memory_what_is_out_of_date_makes_room);
    return run_suite(suite);
}
