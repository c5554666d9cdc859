/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The wheel's arithmetic of ticks, slots and rounds; it is checked after every step. */

#include "hwt/hwt.h"
#include "hwt/store/wheel.h"
#include "places_fixture.h"

enum { MANY = 4096 };

static struct places places;
static struct hwt_wheel wheel;
static uint32_t batch[MANY]; /* numbers: see places_number() */
static bool far;

static void open_places(void)
{
    places_open(&places, MANY);
}

static void close_places(void)
{
    places_close(&places);
}

static void open_wheel(uint64_t start, uint64_t tick_duration, uint32_t slots)
{
    must(hwt_wheel_init(&wheel, &places.directory, hwt_ticks_init(start, tick_duration), slots) ==
         0);
    must(hwt_wheel_check(&wheel));
}

static void close_wheel(void)
{
    hwt_wheel_destroy(&wheel);
}

static void file(uint32_t i, uint64_t tick)
{
    must(hwt_wheel_file(&wheel, places_id(i), tick) == 0);
    must(place_of(&places, i)->bucket != 0);
    must(hwt_wheel_check(&wheel));
}

static void file_at(uint32_t i, uint64_t deadline)
{
    file(i, hwt_ticks_at(&wheel.ticks, deadline));
}

static void drop(uint32_t i)
{
    hwt_wheel_drop(&wheel, places_id(i));
    must(place_of(&places, i)->bucket == 0);
    must(hwt_wheel_check(&wheel));
}

static bool is_after(uint32_t i, uint64_t tick)
{
    return hwt_wheel_is_after(&wheel, places_id(i), tick);
}

static size_t take(uint64_t limit, size_t max)
{
    size_t n = hwt_wheel_take(&wheel, limit, batch, max, &far);
    must(n <= max);
    for (size_t i = 0; i < n; i++) {
        must(hwt_directory_place(&places.directory, batch[i])->bucket == 0);
        batch[i] = places_number(batch[i]);
    }
    must(n > 0 || wheel.tick >= limit || wheel.tick + 1 == wheel.ticks.last);
    must(hwt_wheel_check(&wheel));
    return n;
}

/* One alone is due in `tick`, and is the i-th. */
static void expect_one(uint32_t i, uint64_t tick)
{
    must(hwt_wheel_next(&wheel) == tick);
    must(hwt_wheel_peek(&wheel, tick) == HWT_ID_NONE);
    must(take(tick, MANY) == 0);
    must(take(tick + 1, MANY) == 1 && !far);
    must(batch[0] == i);
    must(wheel.tick == tick);
}

static void expect_none(void)
{
    must(hwt_wheel_next(&wheel) == UINT64_MAX);
    must(hwt_wheel_peek(&wheel, UINT64_MAX) == HWT_ID_NONE);
    must(take(wheel.tick + 1, MANY) == 0);
}

/* ---- ticks and instants ---- */

static const uint64_t starts[] = { 0, 1, INT64_MAX, UINT64_MAX - 1000000 };
enum { STARTS = sizeof(starts) / sizeof(*starts) };

START_TEST(a_tick_ends_at_its_last_nanosecond_wherever_time_starts)
{
    static const uint64_t durations[] = { 8, 9, 1000, 999983 };
    for (int d = 0; d < 4; d++) {
        uint64_t start = starts[_i], duration = durations[d];
        open_wheel(start, duration, 8);
        must(hwt_ticks_at(&wheel.ticks, start) == 0);
        must(hwt_ticks_at(&wheel.ticks, 0) == 0); /* the past is tick 0 */
        must(hwt_ticks_at(&wheel.ticks, start + duration - 1) == 0);
        must(hwt_ticks_at(&wheel.ticks, start + duration) == 1);
        must(hwt_ticks_instant(&wheel.ticks, 0) == start);
        must(hwt_ticks_instant(&wheel.ticks, 1) == start + duration);
        uint64_t last = wheel.ticks.last;
        must(hwt_ticks_at(&wheel.ticks, UINT64_MAX) == last);
        must(hwt_ticks_instant(&wheel.ticks, last) <= UINT64_MAX);
        must(UINT64_MAX - hwt_ticks_instant(&wheel.ticks, last) < duration);
        must(last == UINT64_MAX || hwt_ticks_instant(&wheel.ticks, last + 1) == UINT64_MAX);
        must(hwt_ticks_instant(&wheel.ticks, UINT64_MAX) == UINT64_MAX);
        close_wheel();
    }
}
END_TEST

START_TEST(each_deadline_of_a_tick_is_taken_with_it)
{
    open_wheel(starts[_i], 1000, 8);
    for (uint64_t tick = 0; tick < 30; tick++) {
        uint64_t begins = hwt_ticks_instant(&wheel.ticks, tick);
        file_at(0, begins);
        file_at(1, begins + 1);
        file_at(2, begins + 999);
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
    uint64_t last = wheel.ticks.last;
    file_at(0, UINT64_MAX);
    file(1, last);
    file(2, UINT64_MAX);
    expect_none();
    must(is_after(0, 0) && is_after(1, UINT64_MAX - 1));
    if (last < INT32_MAX) { /* near enough to be filed in its own round */
        file(3, last - 1);
        must(hwt_wheel_next(&wheel) == last - 1);
        must(take(last - 1, MANY) == 0);
        must(take(last, MANY) == 1 && batch[0] == 3);
    }
    drop(0);
    drop(1);
    drop(2);
    expect_none();
    close_wheel();
}
END_TEST

START_TEST(after_the_end_of_time_there_is_one_tick_to_file_for)
{
    static const uint64_t limits[] = { 0, 1, UINT64_MAX }; /* the first two: after `last` */
    for (int i = 0; i < 3; i++) {
        open_wheel(starts[_i], 1000, 8);
        uint64_t last = wheel.ticks.last;
        uint64_t limit = limits[i] == UINT64_MAX ? UINT64_MAX : last + limits[i];
        file(0, UINT64_MAX);
        must(take(limit, MANY) == 0 && !far);
        must(wheel.tick == last - 1);
        file(1, 5);
        expect_one(1, last - 1);
        must(take(UINT64_MAX, MANY) == 0 && wheel.tick == last - 1);
        drop(0);
        close_wheel();
    }
}
END_TEST

START_TEST(a_division_by_the_tick_is_exact)
{
    static const uint64_t edges[] = { 0, 1, 7, UINT64_C(1) << 32, INT64_MAX, UINT64_MAX };
    uint64_t seed = test_seed();
    for (int n = 0; n < 2000000; n++) {
        uint64_t duration = test_random(&seed) >> test_random(&seed) % 64;
        uint64_t dividend = test_random(&seed) >> test_random(&seed) % 64;
        if (n % 4 == 0)
            duration = edges[test_random(&seed) % 6] - test_random(&seed) % 3;
        if (n % 3 == 0 && duration > 0)
            dividend = dividend / duration * duration - n % 2;
        else if (n % 5 == 0)
            dividend = edges[test_random(&seed) % 6] - test_random(&seed) % 3;
        if (duration == 0)
            continue;
        const struct hwt_ticks ticks = hwt_ticks_init(0, duration);
        if (hwt_ticks_divide(&ticks, dividend) != dividend / duration)
            ck_abort_msg("%" PRIu64 " / %" PRIu64, dividend, duration);
    }
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
    must(hwt_wheel_next(&wheel) == 21);
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

START_TEST(a_wheel_of_one_slot_counts_rounds_alone)
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

START_TEST(the_furthest_round_is_met_from_where_the_rounds_wrap_around)
{
    open_wheel(0, 8, WHEEL);
    for (uint64_t k = 1; k < 12; k++) { /* rounds of 32 bits begin anew at k = 4, 8 */
        uint64_t tick = (k << 30) * WHEEL - 1;
        uint64_t furthest = tick + ((UINT64_C(1) << 30) * WHEEL); /* of the next age */
        must(take(tick, MANY) == 0);
        file(0, tick + 1);
        file(1, tick);
        file(2, furthest);
        expect_one(1, tick);
        expect_one(0, tick + 1);
        must(hwt_wheel_next(&wheel) == furthest);
        drop(2);
    }
    close_wheel();
}
END_TEST

START_TEST(more_slots_than_65536_are_as_many_ticks_in_more_rounds)
{
    open_wheel(0, 1000, UINT32_C(1) << 16);
    size_t bytes = wheel.bytes;
    close_wheel();
    open_wheel(0, 1000, UINT32_C(1) << 30);
    must(wheel.bytes == bytes);
    struct hwt_wheel_view view;
    static const uint64_t ticks[] = { 65535, 65536, 65537, 200000, UINT32_C(1) << 30 };
    for (uint32_t i = 0; i < 5; i++)
        file(i, ticks[i]);
    must(hwt_wheel_look(&wheel, 2, &view) && view.bucket == 200000 % 65536);
    for (uint32_t i = 0; i < 5; i++)
        expect_one(i, ticks[i]);
    close_wheel();
}
END_TEST

/* ---- ages ---- */

#define AGE ((UINT64_C(1) << 30) * WHEEL) /* ticks */

/* Takes what comes nearer, files it again, and returns how many that were. */
static size_t bring_near(uint64_t limit, const uint64_t *ticks, size_t max)
{
    size_t n = 0, taken;
    while ((taken = take(limit, max)) > 0) {
        must(far && wheel.tick % AGE == 0);
        for (size_t i = 0; i < taken; i++)
            file(batch[i], ticks[batch[i]]);
        n += taken;
    }
    return n;
}

START_TEST(one_of_a_later_age_comes_once_before_it_is_due)
{
    for (uint64_t age = 2; age < 20; age += 3) {
        const uint64_t ticks[] = { age * AGE + 3 };
        open_wheel(0, 8, WHEEL);
        file(0, ticks[0]);
        must(is_after(0, ticks[0] - 1)); /* more cannot be told yet */
        must(hwt_wheel_next(&wheel) == (age - 1) * AGE);
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
    must(hwt_wheel_next(&wheel) == 3 * AGE);
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
        must(hwt_wheel_next(&wheel) == ticks[odd]);
        must(take(ticks[odd] + 1, MANY) == filed / 2);
        for (uint32_t i = 0; i < filed / 2; i++)
            must(batch[i] == 2 * i + odd);
    }
    close_wheel();
}
END_TEST

START_TEST(ages_without_anything_cost_nothing)
{
    const uint64_t ticks[] = { (UINT64_C(1) << 26) * AGE };
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

START_TEST(one_of_a_later_age_can_be_dropped)
{
    open_wheel(0, 8, WHEEL);
    file(0, 7 * AGE);
    file(1, 9 * AGE);
    drop(0);
    must(hwt_wheel_next(&wheel) == 8 * AGE);
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
        must(hwt_wheel_next(&wheel) == i + 1);
        must(hwt_wheel_check(&wheel));
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
    must(hwt_wheel_next(&wheel) == 20);
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
        must(hwt_wheel_peek(&wheel, i / 10 + 1) == places_id(i));
        must(take(100, 1) == 1 && batch[0] == i);
    }
    close_wheel();
}
END_TEST

START_TEST(a_cleared_wheel_is_as_good_as_new)
{
    for (uint32_t slots = 1; slots <= 64; slots *= 8) {
        open_wheel(0, 8, slots);
        size_t bytes = wheel.bytes;
        must(take(100, 1) == 0);
        for (uint32_t i = 0; i < 1000; i++)
            file(i, i % 10 == 0 ? UINT64_MAX : i % 10 == 1 ? i * AGE : 100 + i * i);
        for (uint32_t i = 0; i < 1000; i += 7)
            drop(i);
        must(take(200, 1) == 1);
        memset(places.slabs[0], 0xff, 1000 * sizeof(struct hwt_place)); /* they are not looked at */
        hwt_wheel_clear(&wheel);
        must(hwt_wheel_check(&wheel));
        expect_none();
        must(wheel.bytes <= bytes + (slots + 2) * 64);
        memset(places.slabs[0], 0, 1000 * sizeof(struct hwt_place));
        file(0, wheel.tick);
        expect_one(0, wheel.tick);
        close_wheel();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wheel");
    TCase *ticks = unit_case(suite, "ticks", open_places, close_places);
    tcase_add_loop_test(ticks, a_tick_ends_at_its_last_nanosecond_wherever_time_starts, 0, STARTS);
    tcase_add_loop_test(ticks, each_deadline_of_a_tick_is_taken_with_it, 0, STARTS);
    tcase_add_loop_test(ticks, what_ends_past_the_end_of_time_never_comes, 0, STARTS);
    tcase_add_loop_test(ticks, after_the_end_of_time_there_is_one_tick_to_file_for, 0, STARTS);
    tcase_add_test(ticks, a_division_by_the_tick_is_exact);
    TCase *rounds = unit_case(suite, "rounds", open_places, close_places);
    tcase_add_loop_test(rounds, whole_wheels_and_a_tick_more_or_less_are_met_from_every_offset, 0,
                        STARTS);
    tcase_add_test(rounds, a_far_round_does_not_hide_a_near_one_in_its_bucket);
    tcase_add_test(rounds, one_for_a_tick_before_the_current_goes_into_that);
    tcase_add_test(rounds, whether_one_is_filed_after_a_tick_is_told);
    tcase_add_loop_test(rounds, a_wheel_of_one_slot_counts_rounds_alone, 0, STARTS);
    tcase_add_test(rounds, the_furthest_round_is_met_from_where_the_rounds_wrap_around);
    tcase_add_test(rounds, more_slots_than_65536_are_as_many_ticks_in_more_rounds);
    TCase *ages = unit_case(suite, "ages", open_places, close_places);
    tcase_add_test(ages, one_of_a_later_age_comes_once_before_it_is_due);
    tcase_add_test(ages, an_age_later_is_near);
    tcase_add_test(ages, those_of_one_tick_keep_the_order_of_filing_from_whatever_age);
    tcase_add_test(ages, ages_without_anything_cost_nothing);
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
