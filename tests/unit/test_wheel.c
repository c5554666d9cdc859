/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The wheel's arithmetic of ticks, slots and rounds; it is checked after every step. */

#include "room_fixture.h"

enum { MANY = 4096 };

static struct room room;
static struct hwt_wheel wheel;
static struct hwt_entry *entries[MANY];
static struct hwt_entry *batch[MANY];

static void open_room(void)
{
    room_open(&room, 0, HWT_MS(1), 8);
    room_take_all(&room, entries, MANY);
}

static void close_room(void)
{
    room_close(&room);
}

static void open_wheel(uint64_t start, uint64_t tick_duration, uint32_t slots)
{
    must(hwt_wheel_init(&wheel, &room.timer->pool, start, tick_duration, slots) == 0);
    must(hwt_wheel_check(&wheel));
}

static void close_wheel(void)
{
    hwt_wheel_destroy(&wheel);
}

static void file_from(int i, uint64_t deadline, uint64_t earliest)
{
    entries[i]->deadline = deadline;
    must(hwt_wheel_file(&wheel, entries[i], deadline, earliest) == 0);
    must(entries[i]->slot < HWT_SLOT_ENDED);
    must(hwt_wheel_check(&wheel));
}

static void file(int i, uint64_t deadline)
{
    file_from(i, deadline, 0);
}

static void drop(int i)
{
    hwt_wheel_drop(&wheel, entries[i]);
    must(entries[i]->slot == HWT_SLOT_NONE);
    must(hwt_wheel_check(&wheel));
}

static size_t take(uint64_t limit, size_t max)
{
    size_t n = hwt_wheel_take(&wheel, limit, batch, max);
    must(n <= max);
    for (size_t i = 0; i < n; i++)
        must(batch[i]->slot == HWT_SLOT_NONE);
    must(n > 0 || wheel.tick >= limit);
    must(hwt_wheel_check(&wheel));
    return n;
}

/* One alone is due in `tick`, and is entries[i]. */
static void expect_one(int i, uint64_t tick)
{
    must(hwt_wheel_next(&wheel) == tick);
    must(take(tick, MANY) == 0);
    must(take(tick + 1, MANY) == 1);
    must(batch[0] == entries[i]);
    must(wheel.tick == tick);
}

static void expect_none(void)
{
    must(hwt_wheel_next(&wheel) == HWT_NEVER);
    must(take(wheel.tick + 1, MANY) == 0);
}

/* ---- ticks and instants ---- */

static const uint64_t starts[] = { 0, 1, INT64_MAX, UINT64_MAX - 1000000 };
enum { STARTS = sizeof(starts) / sizeof(*starts) };

START_TEST(a_tick_ends_at_its_last_nanosecond_wherever_time_starts)
{
    static const uint64_t durations[] = { 1, 2, 1000, 999983 };
    for (int d = 0; d < 4; d++) {
        uint64_t start = starts[_i], duration = durations[d];
        open_wheel(start, duration, 8);
        must(hwt_wheel_ticks(&wheel, start) == 0);
        must(hwt_wheel_ticks(&wheel, 0) == 0); /* the past is tick 0 */
        must(hwt_wheel_ticks(&wheel, start + duration - 1) == 0);
        must(hwt_wheel_ticks(&wheel, start + duration) == 1);
        must(hwt_wheel_instant(&wheel, 0) == start);
        must(hwt_wheel_instant(&wheel, 1) == start + duration);
        uint64_t last = wheel.last_tick;
        must(hwt_wheel_ticks(&wheel, UINT64_MAX) == last);
        must(hwt_wheel_instant(&wheel, last) <= UINT64_MAX);
        must(UINT64_MAX - hwt_wheel_instant(&wheel, last) < duration);
        must(last == UINT64_MAX || hwt_wheel_instant(&wheel, last + 1) == HWT_NEVER);
        must(hwt_wheel_instant(&wheel, HWT_NEVER) == HWT_NEVER);
        close_wheel();
    }
}
END_TEST

START_TEST(each_deadline_of_a_tick_is_taken_with_it)
{
    open_wheel(starts[_i], 1000, 8);
    for (uint64_t tick = 0; tick < 30; tick++) {
        uint64_t begins = hwt_wheel_instant(&wheel, tick);
        file(0, begins);
        file(1, begins + 1);
        file(2, begins + 999);
        must(hwt_wheel_next(&wheel) == tick);
        must(take(tick + 1, MANY) == 3);
        must(take(tick + 1, MANY) == 0);
    }
    close_wheel();
}
END_TEST

START_TEST(what_ends_past_the_end_of_time_never_comes)
{
    open_wheel(starts[_i], 1000, 8);
    uint64_t last = wheel.last_tick;
    file(0, UINT64_MAX);
    file(1, hwt_wheel_instant(&wheel, last));
    expect_none();
    if (last < INT32_MAX) { /* near enough to be filed in its own round */
        file(2, hwt_wheel_instant(&wheel, last) - 1);
        must(hwt_wheel_next(&wheel) == last - 1);
        must(take(last - 1, MANY) == 0);
        must(take(last, MANY) == 1 && batch[0] == entries[2]);
    }
    drop(0);
    must(hwt_wheel_take_any(&wheel, batch, MANY) == 1 && batch[0] == entries[1]);
    close_wheel();
}
END_TEST

/* ---- slots and rounds ---- */

enum { WHEEL = 8 };

START_TEST(whole_wheels_and_a_tick_more_or_less_are_met_from_every_offset)
{
    for (uint64_t offset = 0; offset < 2 * WHEEL; offset++) {
        for (uint64_t wheels = 0; wheels < 5; wheels++) {
            for (uint64_t more = 0; more < 3; more++) {
                uint64_t tick = offset + wheels * WHEEL + more;
                tick -= tick > offset || more > 0; /* a tick less, none, a tick more */
                open_wheel(starts[_i], 1000, WHEEL);
                must(take(offset, MANY) == 0);
                must(wheel.tick == offset);
                file(0, hwt_wheel_instant(&wheel, tick) + 999);
                expect_one(0, tick);
                expect_none();
                close_wheel();
            }
        }
    }
}
END_TEST

START_TEST(a_far_round_does_not_hide_a_near_one_in_its_bucket)
{
    for (uint64_t offset = 0; offset < WHEEL; offset++) {
        open_wheel(0, 1, WHEEL);
        must(take(offset, MANY) == 0);
        for (int i = 0; i < 20; i++) /* the furthest is filed first */
            file(i, offset + 3 + WHEEL * (uint64_t)(19 - i));
        for (int i = 19; i >= 0; i--)
            expect_one(i, offset + 3 + WHEEL * (uint64_t)(19 - i));
        expect_none();
        close_wheel();
    }
}
END_TEST

START_TEST(one_for_a_tick_before_the_current_or_the_earliest_goes_into_that)
{
    open_wheel(1000000, 1000, WHEEL);
    must(take(21, MANY) == 0);
    file(0, 0);
    file(1, 1000000);
    file(2, hwt_wheel_instant(&wheel, 20));
    file(3, hwt_wheel_instant(&wheel, 21));
    must(hwt_wheel_next(&wheel) == 21);
    must(take(22, MANY) == 4);
    for (int i = 0; i < 4; i++)
        must(batch[i] == entries[i]);
    file_from(4, 0, 30);
    file_from(5, hwt_wheel_instant(&wheel, 30), 30);
    file_from(6, hwt_wheel_instant(&wheel, 31), 30);
    must(take(31, MANY) == 2 && wheel.tick == 30);
    expect_one(6, 31);
    close_wheel();
}
END_TEST

START_TEST(a_wheel_of_one_slot_counts_rounds_alone)
{
    open_wheel(starts[_i], 1, 1);
    for (int i = 0; i < 50; i++)
        file(i, starts[_i] + (uint64_t)(i * 7 % 50));
    for (uint64_t tick = 0; tick < 50; tick++)
        expect_one((int)(tick * 43 % 50), tick); /* 7 x 43 = 301 */
    expect_none();
    close_wheel();
}
END_TEST

START_TEST(one_further_away_than_the_rounds_reach_is_filed_again)
{
    uint64_t reach = (uint64_t)INT32_MAX * WHEEL; /* ticks */
    open_wheel(0, 1, WHEEL);
    uint64_t deadline = 5 * reach + 3, again = 0;
    file(0, deadline);
    while (hwt_wheel_next(&wheel) < deadline) {
        uint64_t tick = hwt_wheel_next(&wheel);
        must(tick % WHEEL == deadline % WHEEL);
        must(take(tick + 1, 1) == 1);
        file(0, deadline);
        again++;
    }
    must(again == 4); /* the last reach is whole */
    expect_one(0, deadline);
    close_wheel();
}
END_TEST

START_TEST(the_furthest_round_is_met_from_where_the_rounds_wrap_around)
{
    open_wheel(0, 1, WHEEL);
    for (uint64_t k = 1; k < 12; k++) { /* rounds of 32 bits begin anew at k = 4, 8 */
        uint64_t tick = (k << 30) * WHEEL - 1;
        must(take(tick, MANY) == 0);
        file(0, tick + 1);
        file(1, tick);
        file(2, tick + (uint64_t)INT32_MAX * WHEEL);
        expect_one(1, tick);
        expect_one(0, tick + 1);
        must(hwt_wheel_next(&wheel) == tick + (uint64_t)INT32_MAX * WHEEL);
        drop(2);
    }
    close_wheel();
}
END_TEST

/* ---- what is due next ---- */

START_TEST(the_next_is_right_after_the_soonest_were_dropped)
{
    open_wheel(0, 1, WHEEL);
    for (int i = 0; i < 40; i++)
        file(i, (uint64_t)i);
    for (int i = 0; i < 39; i++) {
        drop(i);
        must(hwt_wheel_next(&wheel) == (uint64_t)i + 1);
        must(hwt_wheel_check(&wheel));
    }
    drop(39);
    expect_none();
    close_wheel();
}
END_TEST

START_TEST(those_dropped_without_a_look_at_the_next_are_passed_over)
{
    open_wheel(0, 1, WHEEL);
    for (int i = 0; i < 400; i++)
        file(i, (uint64_t)(i / 10));
    for (int i = 0; i < 400; i++) {
        if (i % 37)
            drop(i);
    }
    int i = 0;
    while (take(40, 1) > 0) {
        must(batch[0] == entries[i]);
        must(wheel.tick == (uint64_t)(i / 10));
        i += 37;
    }
    must(i == 11 * 37);
    close_wheel();
}
END_TEST

START_TEST(a_leap_over_any_number_of_ticks_is_one_step)
{
    open_wheel(0, 1, WHEEL);
    must(take(UINT64_C(1) << 62, MANY) == 0 && wheel.tick == UINT64_C(1) << 62);
    file(0, wheel.tick + 100);
    must(take(UINT64_C(1) << 63, MANY) == 1);
    must(wheel.tick == (UINT64_C(1) << 62) + 100);
    must(take(UINT64_C(1) << 63, MANY) == 0 && wheel.tick == UINT64_C(1) << 63);
    close_wheel();
}
END_TEST

/* ---- taking in batches ---- */

START_TEST(a_tick_is_taken_in_batches_in_the_order_of_filing)
{
    open_wheel(0, 1, WHEEL);
    for (int i = 0; i < 1000; i++)
        file(i, i % 2 ? 20 : 12); /* of one bucket */
    int at = 0;
    for (size_t n; (n = take(13, 64)) > 0;) {
        for (size_t i = 0; i < n; i++, at += 2)
            must(batch[i] == entries[at]);
    }
    must(at == 1000);
    must(hwt_wheel_next(&wheel) == 20);
    close_wheel();
}
END_TEST

START_TEST(what_is_filed_while_its_tick_is_taken_belongs_to_it)
{
    open_wheel(0, 1, WHEEL);
    for (int i = 0; i < 100; i++)
        file(i, 4);
    must(take(10, 64) == 64);
    for (int i = 100; i < 200; i++)
        file(i, 0);
    drop(199);
    size_t sum = 0;
    for (size_t n; (n = take(10, 64)) > 0; sum += n)
        must(wheel.tick == 4 && batch[0] == entries[64 + sum]);
    must(sum == 135);
    must(batch[0]->slot == HWT_SLOT_NONE);
    close_wheel();
}
END_TEST

START_TEST(all_can_be_taken_whatever_their_deadline)
{
    open_wheel(0, 1, WHEEL);
    size_t bytes = wheel.bytes;
    for (int i = 0; i < 1000; i++) {
        entries[i]->arg = NULL;
        file(i, i % 10 == 0 ? HWT_NEVER : (uint64_t)(i * i));
    }
    must(take(101, 5) == 1); /* of the first tick */
    size_t sum = 1, n;
    batch[0]->arg = batch;
    while ((n = hwt_wheel_take_any(&wheel, batch, 7)) > 0) {
        must(hwt_wheel_check(&wheel));
        for (size_t i = 0; i < n; i++) {
            must(!batch[i]->arg && batch[i]->slot == HWT_SLOT_NONE);
            batch[i]->arg = batch;
        }
        sum += n;
    }
    must(sum == 1000);
    must(wheel.bytes <= bytes + (WHEEL + 1) * 64);
    expect_none();
    close_wheel();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wheel");
    TCase *ticks = room_case(suite, "ticks", open_room, close_room);
    tcase_add_loop_test(ticks, a_tick_ends_at_its_last_nanosecond_wherever_time_starts, 0, STARTS);
    tcase_add_loop_test(ticks, each_deadline_of_a_tick_is_taken_with_it, 0, STARTS);
    tcase_add_loop_test(ticks, what_ends_past_the_end_of_time_never_comes, 0, STARTS);
    TCase *rounds = room_case(suite, "rounds", open_room, close_room);
    tcase_add_loop_test(rounds, whole_wheels_and_a_tick_more_or_less_are_met_from_every_offset, 0,
                        STARTS);
    tcase_add_test(rounds, a_far_round_does_not_hide_a_near_one_in_its_bucket);
    tcase_add_test(rounds, one_for_a_tick_before_the_current_or_the_earliest_goes_into_that);
    tcase_add_loop_test(rounds, a_wheel_of_one_slot_counts_rounds_alone, 0, STARTS);
    tcase_add_test(rounds, one_further_away_than_the_rounds_reach_is_filed_again);
    tcase_add_test(rounds, the_furthest_round_is_met_from_where_the_rounds_wrap_around);
    TCase *next = room_case(suite, "next", open_room, close_room);
    tcase_add_test(next, the_next_is_right_after_the_soonest_were_dropped);
    tcase_add_test(next, those_dropped_without_a_look_at_the_next_are_passed_over);
    tcase_add_test(next, a_leap_over_any_number_of_ticks_is_one_step);
    TCase *taking = room_case(suite, "taking", open_room, close_room);
    tcase_add_test(taking, a_tick_is_taken_in_batches_in_the_order_of_filing);
    tcase_add_test(taking, what_is_filed_while_its_tick_is_taken_belongs_to_it);
    tcase_add_test(taking, all_can_be_taken_whatever_their_deadline);
    return run_suite(suite);
}
