/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The wheel's arithmetic of buckets, rounds and ages; it is checked after every step. */

#include "wheel_fixture.h"

static const uint64_t starts[] = { 0, 1, INT64_MAX, UINT64_MAX - 1000000 };
enum { STARTS = sizeof(starts) / sizeof(*starts) };

/* ---- buckets and rounds ---- */

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
                file_at(0, hwt_ticks_instant(&wheel.ticks, tick) + 999);
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
        open_wheel(0, 8, WHEEL);
        must(take(offset, MANY) == 0);
        for (uint32_t i = 0; i < 20; i++) /* the furthest is filed first */
            file(i, offset + 3 + WHEEL * (19 - i));
        for (uint32_t i = 20; i-- > 0;)
            expect_one(i, offset + 3 + WHEEL * (19 - i));
        expect_none();
        close_wheel();
    }
}
END_TEST

START_TEST(one_for_a_tick_before_the_current_goes_into_that)
{
    open_wheel(1000000, 1000, WHEEL);
    must(take(21, MANY) == 0);
    file_at(0, 0);
    file_at(1, 1000000);
    file(2, 20);
    file(3, 21);
    must(next() == 21);
    must(take(22, MANY) == 4);
    for (uint32_t i = 0; i < 4; i++)
        must(batch[i] == i);
    close_wheel();
}
END_TEST

START_TEST(whether_one_is_filed_after_a_tick_is_told)
{
    open_wheel(0, 1000, WHEEL);
    uint32_t i = 0;
    for (uint64_t at = 0; at < 3 * WHEEL; at += 5) {
        must(take(at, MANY) == 0);
        for (uint64_t tick = at; tick < at + 4 * WHEEL; tick++, i++) {
            file(i, tick);
            for (uint64_t other = at; other < at + 5 * WHEEL; other++)
                must(is_after(i, other) == (tick > other));
            must(at == 0 || !is_after(i, at - 1) || tick >= at);
            drop(i);
        }
    }
    close_wheel();
}
END_TEST

START_TEST(a_wheel_of_one_bucket_counts_rounds_alone)
{
    open_wheel(starts[_i], 8, 1);
    for (uint32_t i = 0; i < 50; i++)
        file(i, i * 7 % 50);
    for (uint64_t tick = 0; tick < 50; tick++)
        expect_one((uint32_t)(tick * 43 % 50), tick); /* 7 x 43 = 301 */
    expect_none();
    close_wheel();
}
END_TEST

/* 2^32 ticks of one bucket are all rounds of 32 bits; 2^30 are all ticks that a place can tell. */
START_TEST(the_furthest_tick_is_met_from_where_rounds_and_places_wrap_around)
{
    for (uint32_t length = 1; length <= WHEEL; length *= WHEEL) {
        open_wheel(0, 8, length);
        for (uint64_t k = 1; k < 70; k += 1 + k / 20) {
            uint64_t tick = k * AGE - 1;
            uint64_t furthest = tick + AGE; /* of the next age */
            must(take(tick, MANY) == 0);
            file(0, tick + 1);
            file(1, tick);
            file(2, furthest);
            must(!is_after(2, furthest) && is_after(2, furthest - 1));
            expect_one(1, tick);
            expect_one(0, tick + 1);
            must(next() == furthest);
            file(0, furthest + AGE); /* two ages from the start of this one, less a tick */
            must(!is_after(0, furthest + AGE) && is_after(0, furthest + AGE - 1));
            must(next() == furthest);
            drop(2);
            must(next() == furthest + AGE);
            drop(0);
        }
        close_wheel();
    }
}
END_TEST

START_TEST(more_buckets_than_65536_are_as_many_ticks_in_more_rounds)
{
    open_wheel(0, 1000, UINT32_C(1) << 16);
    size_t bytes = wheel_bytes();
    close_wheel();
    open_wheel(0, 1000, UINT32_C(1) << 30);
    must(wheel_bytes() == bytes);
    struct hwt_wheel_view view;
    static const uint64_t ticks[] = { 65535, 65536, 65537, 200000, 2 * AGE - 1 };
    for (uint32_t i = 0; i < 5; i++)
        file(i, ticks[i]);
    must(hwt_wheel_sweep_to_next_bucket(&wheel, 2, &view) && view.index == 200000 % 65536);
    for (uint32_t i = 0; i < 5; i++)
        expect_one(i, ticks[i]);
    close_wheel();
}
END_TEST

/* ---- ages ---- */

START_TEST(one_of_a_later_age_comes_once_before_it_is_due)
{
    for (uint64_t age = 2; age < 20; age += 3) {
        const uint64_t ticks[] = { age * AGE + 3 };
        open_wheel(0, 8, WHEEL);
        file(0, ticks[0]);
        must(is_after(0, ticks[0] - 1)); /* more cannot be told yet */
        must(next() == (age - 1) * AGE);
        must(take((age - 1) * AGE - 1, MANY) == 0 && wheel.tick == (age - 1) * AGE - 1);
        must(bring_near((age - 1) * AGE, ticks, MANY) == 1);
        must(is_after(0, ticks[0] - 1) && !is_after(0, ticks[0]));
        expect_one(0, ticks[0]);
        expect_none();
        close_wheel();
    }
}
END_TEST

START_TEST(an_age_later_is_near)
{
    open_wheel(0, 8, WHEEL);
    must(take(3 * AGE - 1, MANY) == 0);
    file(0, 4 * AGE - 1);
    file(1, 4 * AGE);
    must(!is_after(0, 4 * AGE - 1) && is_after(1, 4 * AGE)); /* of age 3, and of age 4 */
    must(next() == 3 * AGE);
    const uint64_t ticks[] = { 0, 4 * AGE };
    must(bring_near(3 * AGE, ticks, MANY) == 1);
    expect_one(0, 4 * AGE - 1);
    expect_one(1, 4 * AGE);
    close_wheel();
}
END_TEST

/* Filed from far away, from an age away, and from near: for two ticks, in turn. */
START_TEST(those_of_one_tick_keep_the_order_of_filing_from_whatever_age)
{
    static const uint64_t at[] = { 0, AGE - 1, AGE, 3 * AGE + 77, 4 * AGE - 1, 4 * AGE, 5 * AGE };
    enum { TIMES = sizeof(at) / sizeof(*at), EACH = 40 };
    uint64_t ticks[TIMES * EACH];
    open_wheel(0, 8, WHEEL);
    size_t brought = 0;
    uint32_t filed = 0;
    for (int t = 0; t < TIMES; t++) {
        brought += bring_near(at[t], ticks, 7);
        must(wheel.tick == at[t]);
        for (int k = 0; k < EACH; k++, filed++) {
            ticks[filed] = 5 * AGE + 8 + 8 * (filed % 2); /* of one bucket */
            file(filed, ticks[filed]);
        }
    }
    must(brought == 5 * EACH);
    for (uint32_t odd = 0; odd < 2; odd++) {
        must(next() == ticks[odd]);
        uint32_t its = odd;
        for (size_t n; (n = take(ticks[odd] + 1, MANY)) > 0;) {
            for (size_t i = 0; i < n; i++, its += 2)
                must(batch[i] == its);
        }
        must(its == filed + odd);
    }
    close_wheel();
}
END_TEST

START_TEST(ages_without_anything_cost_nothing)
{
    const uint64_t ticks[] = { (UINT64_C(1) << 30) * AGE };
    open_wheel(0, 8, WHEEL);
    file(0, ticks[0]);
    must(take(ticks[0] - AGE, 1) == 1 && far);
    must(wheel.tick == ticks[0] - AGE);
    file(0, ticks[0]);
    expect_one(0, ticks[0]);
    file(1, wheel.ticks.last - 1);
    must(take(UINT64_MAX, 1) == 1 && far);
    file(1, wheel.ticks.last - 1);
    expect_one(1, wheel.ticks.last - 1);
    close_wheel();
}
END_TEST

/* With ticks of 8 ns there are 2^32 ages. */
START_TEST(the_furthest_age_is_met_from_the_first)
{
    const uint64_t last = UINT64_MAX / 8 - 1;
    const uint64_t ticks[] = { last, 5 * AGE, last - AGE, last / 2, last };
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < 5; i++)
        file(i, ticks[i]);
    must(bring_near(4 * AGE, ticks, 1) == 1);
    expect_one(1, 5 * AGE);
    must(next() == (last / 2 / AGE - 1) * AGE);
    must(bring_near(next(), ticks, 1) == 1);
    expect_one(3, last / 2);
    must(bring_near(next(), ticks, 1) == 1);
    must(bring_near(next(), ticks, 1) == 2);
    expect_one(2, last - AGE);
    must(next() == last);
    must(take(UINT64_MAX, MANY) == 2 && batch[0] == 0 && batch[1] == 4);
    close_wheel();
}
END_TEST

START_TEST(one_of_a_later_age_can_be_dropped)
{
    open_wheel(0, 8, WHEEL);
    file(0, 7 * AGE);
    file(1, 9 * AGE);
    drop(0);
    must(next() == 8 * AGE);
    drop(1);
    expect_none();
    close_wheel();
}
END_TEST

/* ---- what is due next ---- */

START_TEST(the_next_is_right_after_the_soonest_were_dropped)
{
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < 40; i++)
        file(i, i);
    for (uint32_t i = 0; i < 39; i++) {
        drop(i);
        must(next() == i + 1);
    }
    drop(39);
    expect_none();
    close_wheel();
}
END_TEST

START_TEST(those_dropped_without_a_look_at_the_next_are_passed_over)
{
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < 400; i++)
        file(i, i / 10);
    for (uint32_t i = 0; i < 400; i++) {
        if (i % 37)
            drop(i);
    }
    uint32_t i = 0;
    while (take(40, 1) > 0) {
        must(batch[0] == i);
        must(wheel.tick == i / 10);
        i += 37;
    }
    must(i == 11 * 37);
    close_wheel();
}
END_TEST

START_TEST(a_leap_over_any_number_of_ticks_is_one_step)
{
    open_wheel(0, 8, WHEEL);
    must(take(UINT64_C(1) << 59, MANY) == 0 && wheel.tick == UINT64_C(1) << 59);
    file(0, wheel.tick + 100);
    must(take(UINT64_C(1) << 60, MANY) == 1);
    must(wheel.tick == (UINT64_C(1) << 59) + 100);
    must(take(UINT64_C(1) << 60, MANY) == 0 && wheel.tick == UINT64_C(1) << 60);
    close_wheel();
}
END_TEST

/* ---- taking in batches ---- */

START_TEST(a_tick_is_taken_in_batches_in_the_order_of_filing)
{
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < 1000; i++)
        file(i, i % 2 ? 20 : 12); /* of one bucket */
    uint32_t at = 0;
    for (size_t n; (n = take(13, 64)) > 0;) {
        for (size_t i = 0; i < n; i++, at += 2)
            must(batch[i] == at);
    }
    must(at == 1000);
    must(next() == 20);
    close_wheel();
}
END_TEST

START_TEST(what_is_filed_while_its_tick_is_taken_belongs_to_it)
{
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < 100; i++)
        file(i, 4);
    must(take(10, 64) == 64);
    for (uint32_t i = 100; i < 200; i++)
        file(i, 0);
    drop(199);
    size_t sum = 0;
    for (size_t n; (n = take(10, 64)) > 0; sum += n)
        must(wheel.tick == 4 && batch[0] == 64 + sum);
    must(sum == 135);
    close_wheel();
}
END_TEST

START_TEST(the_id_to_be_taken_next_is_told_ahead)
{
    open_wheel(0, 8, WHEEL);
    must(hwt_wheel_peek(&wheel, UINT64_MAX) == HWT_ID_NONE);
    for (uint32_t i = 0; i < 100; i++)
        file(i, i / 10);
    for (uint32_t i = 0; i < 100; i++) {
        must(hwt_wheel_peek(&wheel, i / 10) == HWT_ID_NONE);
        uint32_t peeked = hwt_wheel_peek(&wheel, i / 10 + 1);
        /* A tick may be over, and another of its bucket not yet looked for. */
        must(peeked == places_id(i) || (peeked == HWT_ID_NONE && i > 0 && i % 10 == 0));
        must(take(100, 1) == 1 && batch[0] == i);
    }
    close_wheel();
}
END_TEST

START_TEST(a_cleared_wheel_is_as_good_as_new)
{
    for (uint32_t length = 1; length <= 64; length *= 8) {
        open_wheel(0, 8, length);
        size_t bytes = wheel_bytes();
        must(take(100, 1) == 0);
        for (uint32_t i = 0; i < 1000; i++)
            file(i, i % 10 == 0 ? UINT64_MAX : i % 10 == 1 ? i * AGE : 100 + i * i);
        for (uint32_t i = 0; i < 1000; i += 7)
            drop(i);
        must(take(200, 1) == 1);
        memset(places.sites[0].base, 0xff,
               1000 * sizeof(struct hwt_place)); /* they are not looked at */
        hwt_wheel_clear(&wheel);
        must(hwt_wheel_check(&wheel));
        expect_none();
        must(wheel_bytes() <= bytes + (length + 2) * 2 * 4 * 12);
        memset(places.sites[0].base, 0, 1000 * sizeof(struct hwt_place));
        file(0, wheel.tick);
        expect_one(0, wheel.tick);
        close_wheel();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wheel");
    TCase *rounds = unit_case(suite, "rounds", open_places, close_places);
    tcase_add_loop_test(rounds, whole_wheels_and_a_tick_more_or_less_are_met_from_every_offset, 0,
                        STARTS);
    tcase_add_test(rounds, a_far_round_does_not_hide_a_near_one_in_its_bucket);
    tcase_add_test(rounds, one_for_a_tick_before_the_current_goes_into_that);
    tcase_add_test(rounds, whether_one_is_filed_after_a_tick_is_told);
    tcase_add_loop_test(rounds, a_wheel_of_one_bucket_counts_rounds_alone, 0, STARTS);
    tcase_add_test(rounds, the_furthest_tick_is_met_from_where_rounds_and_places_wrap_around);
    tcase_add_test(rounds, more_buckets_than_65536_are_as_many_ticks_in_more_rounds);
    TCase *ages = unit_case(suite, "ages", open_places, close_places);
    tcase_add_test(ages, one_of_a_later_age_comes_once_before_it_is_due);
    tcase_add_test(ages, an_age_later_is_near);
    tcase_add_test(ages, those_of_one_tick_keep_the_order_of_filing_from_whatever_age);
    tcase_add_test(ages, ages_without_anything_cost_nothing);
    tcase_add_test(ages, the_furthest_age_is_met_from_the_first);
    tcase_add_test(ages, one_of_a_later_age_can_be_dropped);
    TCase *next = unit_case(suite, "next", open_places, close_places);
    tcase_add_test(next, the_next_is_right_after_the_soonest_were_dropped);
    tcase_add_test(next, those_dropped_without_a_look_at_the_next_are_passed_over);
    tcase_add_test(next, a_leap_over_any_number_of_ticks_is_one_step);
    TCase *taking = unit_case(suite, "taking", open_places, close_places);
    tcase_add_test(taking, a_tick_is_taken_in_batches_in_the_order_of_filing);
    tcase_add_test(taking, what_is_filed_while_its_tick_is_taken_belongs_to_it);
    tcase_add_test(taking, the_id_to_be_taken_next_is_told_ahead);
    tcase_add_test(taking, a_cleared_wheel_is_as_good_as_new);
    return run_suite(suite);
}
