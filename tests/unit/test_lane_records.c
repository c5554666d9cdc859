/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lanes: which records stay, how many may wait, and what one thread does without a lock. */

#include "lane_fixture.h"

/* Chunks that the worker reads within a tick; the last is as for a tick of minutes. */
static const uint32_t backlogs[] = { 0, 1000, 1 << 30 };
enum { BACKLOGS = 3 };

/* ---- what stays ---- */

static bool pending_stays(struct hwt_entry *one, uint64_t state, uint64_t generation, uint64_t said)
{
    const struct hwt_record record = { said, hwt_entry_id(one), (uint32_t)generation };
    atomic_store(&one->word.first, state);
    return hwt_pending_stays(&pool, &record);
}

static void park_gate(uint64_t wake_before)
{
    hwt_gate_begin(&gate);
    hwt_gate_close(&gate, wake_before);
}

START_TEST(a_pending_record_stays_while_its_timeout_is_pending)
{
    const uint64_t generation = (UINT64_C(7) << 32) + 3; /* of which a record has the low half */
    const uint64_t first = generation << HWT_GENERATION_SHIFT;
    struct hwt_entry *one = make_pending(lanes.shared, 1000);
    ck_assert(pending_stays(one, first | HWT_PHASE_PENDING, 3, 1000));
    ck_assert(pending_stays(one, first | HWT_PHASE_PENDING | HWT_RAN, 3, 1000));
    ck_assert(!pending_stays(one, first | HWT_PHASE_PENDING | HWT_HANDED, 3, 1000));
    ck_assert(!pending_stays(one, first | HWT_PHASE_PENDING, 2, 1000));
    ck_assert(!pending_stays(one, first | HWT_PHASE_PENDING, 4, 1000));
    ck_assert(pending_stays(one, first | HWT_PHASE_PENDING, 3, 999));   /* moved later since */
    ck_assert(!pending_stays(one, first | HWT_PHASE_PENDING, 3, 1001)); /* another says earlier */
    for (unsigned phase = 0; phase < 7; phase++) {
        if (phase != HWT_PHASE_PENDING)
            ck_assert(!pending_stays(one, first | phase, 3, 1000));
    }
}
END_TEST

START_TEST(a_cancelled_record_stays_until_its_entry_is_used_again)
{
    const uint64_t generation = (UINT64_C(7) << 32) + 3;
    struct hwt_entry *one = make_pending(lanes.shared, 1000);
    const struct hwt_record record = { 0, hwt_entry_id(one), 3 };
    for (unsigned phase = 0; phase < 7; phase++) {
        atomic_store(&one->word.first, generation << HWT_GENERATION_SHIFT | phase);
        ck_assert(hwt_cancelled_stays(&pool, &record));
        atomic_store(&one->word.first, (generation + 1) << HWT_GENERATION_SHIFT | phase);
        ck_assert(!hwt_cancelled_stays(&pool, &record));
    }
}
END_TEST

static void say_all(struct hwt_lane *lane, struct hwt_entry *one)
{
    uint64_t state = hwt_entry_state(one), generation = hwt_generation(state);
    must(hwt_lane_publish_pending(&lanes, lane, 1000, hwt_entry_id(one), generation));
    must(hwt_word_exchange_first(&one->word, state, hwt_with_phase(state, HWT_PHASE_UNTOLD)));
    must(say_untold(lane, hwt_entry_id(one), generation));
    must(hwt_entry_begin_telling(one, hwt_entry_state(one)));
    hwt_pool_give(&pool, &lane->cache, one);
}

/* What comes and goes with nobody to read it: the worker is not woken for it either. */
START_TEST(what_is_said_is_bounded_by_what_is_pending)
{
    struct hwt_lane *lane;
    close_lanes();
    open_lanes_with(backlogs[_i]);
    enter(&lane);
    for (uint64_t i = 0; i < 100000; i++)
        say_all(lane, make_pending(lane, 1000));
    ck_assert_uint_le(hwt_stream_backlog(&lane->pending), 2 + HWT_BACKLOG);
    ck_assert_uint_le(hwt_stream_backlog(&lane->cancelled), 2 + HWT_BACKLOG);
}
END_TEST

/* Ten thousand are pending at any time, each for a little while. Where a tick is long enough to
 * read them in, the worker is not woken; else soon. */
START_TEST(what_is_soon_cancelled_is_left_out_without_the_worker)
{
    enum { WINDOW = 10000 };
    static struct hwt_entry *window[WINDOW];
    struct hwt_lane *lane;
    close_lanes();
    open_lanes_with(backlogs[_i]);
    enter(&lane);
    park_gate(UINT64_MAX);
    for (uint64_t i = 0; i < 20 * WINDOW && hwt_gate_is_asleep(&gate); i++) {
        struct hwt_entry *one = window[i % WINDOW];
        if (i >= WINDOW) {
            uint64_t state = hwt_entry_state(one);
            must(hwt_entry_try_cancel(one, state, false));
            hwt_pool_give(&pool, &lane->cache, one);
        }
        window[i % WINDOW] = one = make_pending(lane, 1000);
        must(hwt_lane_publish_pending(&lanes, lane, 1000, hwt_entry_id(one),
                                      hwt_generation(hwt_entry_state(one))));
        ck_assert_uint_le(hwt_stream_backlog(&lane->pending), 512);
    }
    ck_assert_int_eq(hwt_gate_is_asleep(&gate), _i > 0);
}
END_TEST

/* The same timeout again and again: more records than there are entries, of which one stays. */
START_TEST(of_what_is_said_again_and_again_one_record_stays)
{
    struct hwt_lane *lane;
    enter(&lane);
    struct hwt_entry *one = make_pending(lane, 1000);
    for (uint64_t said = 0; said < 8 * HWT_SLAB_ENTRIES; said++)
        must(hwt_lane_publish_pending(&lanes, lane, 1000, hwt_entry_id(one), 1));
    ck_assert_uint_le(hwt_stream_backlog(&lane->pending), HWT_BACKLOG);
}
END_TEST

START_TEST(a_great_backlog_wakes_a_worker_that_sleeps)
{
    static const uint32_t wakes[] = { HWT_BACKLOG, 512, HWT_BACKLOG_MAX };
    struct hwt_lane *lane;
    close_lanes();
    open_lanes_with(backlogs[_i]);
    enter(&lane);
    ck_assert_uint_eq(hwt_lanes_count(&lanes), 2);
    park_gate(UINT64_MAX);
    uint64_t said = 0;
    for (; hwt_gate_is_asleep(&gate); said++) {
        struct hwt_entry *one = make_pending(lane, 1000);
        must(hwt_lane_publish_pending(&lanes, lane, 1000, hwt_entry_id(one), 1));
        must(said < 2 * wakes[_i] * HWT_CHUNK_RECORDS);
    }
    ck_assert_uint_ge(said, (wakes[_i] - 2) * HWT_CHUNK_RECORDS);
    ck_assert_uint_le(said, wakes[_i] * HWT_CHUNK_RECORDS);
    ck_assert(!hwt_gate_is_long(&gate));
}
END_TEST

/* They are to be told soon, whatever the tick. */
START_TEST(a_backlog_of_cancelled_ones_wakes_it_sooner)
{
    struct hwt_lane *lane;
    close_lanes();
    open_lanes_with(backlogs[_i]);
    enter(&lane);
    hwt_gate_begin(&gate); /* a short sleep: nothing else wakes it */
    uint64_t said = 0;
    for (; hwt_gate_is_asleep(&gate); said++) {
        struct hwt_entry *one = make_pending(lane, 1000);
        must(say_untold(lane, hwt_entry_id(one), hwt_generation(hwt_entry_state(one))));
        must(said < 2 * HWT_BACKLOG * HWT_CHUNK_RECORDS);
    }
    ck_assert_uint_ge(said, (HWT_BACKLOG - 2) * HWT_CHUNK_RECORDS);
}
END_TEST

/* ---- with one thread ---- */

static uint32_t unread(const struct hwt_record **ret_records)
{
    return hwt_stream_peek(&lanes.shared->pending, ret_records);
}

static void note_at(struct hwt_entry *one, uint64_t deadline)
{
    must(hwt_lane_publish_pending_single(&lanes, lanes.shared, deadline, hwt_entry_id(one),
                                         hwt_generation(hwt_entry_state(one))));
}

START_TEST(of_the_last_entry_there_is_one_record)
{
    const struct hwt_record *records;
    struct hwt_entry *one = make_pending(lanes.shared, 1000);
    struct hwt_entry *other = make_pending(lanes.shared, 1000);
    note_at(one, 1000);
    note_at(one, 400);
    ck_assert_uint_eq(unread(&records), 1);
    ck_assert_uint_eq(records[0].deadline, 400);
    note_at(other, 700);
    note_at(one, 300);
    ck_assert_uint_eq(unread(&records), 3);
    ck_assert_uint_eq(records[1].id, hwt_entry_id(other));
    ck_assert_uint_eq(records[2].deadline, 300);
    ck_assert_uint_eq(lanes.shared->soonest, 300);
}
END_TEST

/* The last record is in another chunk then. */
START_TEST(nor_is_one_replaced_that_filled_its_chunk)
{
    const struct hwt_record *records;
    struct hwt_entry *one = NULL;
    for (uint32_t i = 0; i < HWT_CHUNK_RECORDS; i++) {
        one = make_pending(lanes.shared, 1000);
        note_at(one, 900 - i);
    }
    note_at(one, 5);
    ck_assert_uint_eq(unread(&records), HWT_CHUNK_RECORDS);
    ck_assert_uint_eq(records[HWT_CHUNK_RECORDS - 1].deadline, 900 - HWT_CHUNK_RECORDS + 1);
    hwt_stream_advance(&lanes.shared->pending, HWT_CHUNK_RECORDS);
    ck_assert_uint_eq(unread(&records), 1);
    ck_assert_uint_eq(records[0].deadline, 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane: records");
    TCase *staying = unit_case(suite, "staying", open_lanes, close_lanes);
    tcase_add_test(staying, a_pending_record_stays_while_its_timeout_is_pending);
    tcase_add_test(staying, a_cancelled_record_stays_until_its_entry_is_used_again);
    tcase_add_loop_test(staying, what_is_said_is_bounded_by_what_is_pending, 0, BACKLOGS);
    tcase_add_loop_test(staying, what_is_soon_cancelled_is_left_out_without_the_worker, 0,
                        BACKLOGS);
    tcase_add_test(staying, of_what_is_said_again_and_again_one_record_stays);
    tcase_add_loop_test(staying, a_great_backlog_wakes_a_worker_that_sleeps, 0, BACKLOGS);
    tcase_add_loop_test(staying, a_backlog_of_cancelled_ones_wakes_it_sooner, 0, BACKLOGS);
    tcase_add_test(staying, of_the_last_entry_there_is_one_record);
    tcase_add_test(staying, nor_is_one_replaced_that_filled_its_chunk);
    return run_suite(suite);
}
