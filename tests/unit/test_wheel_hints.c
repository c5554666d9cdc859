/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Hints of the wheel that do not count, or are for what is not wanted: none is met, none stays for long,
 * and how many there are is known. */

#include "wheel_fixture.h"

/* ---- what does not count ---- */

START_TEST(what_was_dropped_is_not_taken)
{
    open_wheel(0, 8, WHEEL);
    file(0, 5);
    file(1, 5);
    drop(0);
    must(wheel.hints == 2);
    must(take(6, MANY) == 1 && batch[0] == 1);
    must(take(6, MANY) == 0 && wheel.hints == 0);
    file(0, 7);
    drop(0);
    must(take(20, MANY) == 0 && wheel.tick == 20 && wheel.hints == 0);
    close_wheel();
}
END_TEST

START_TEST(what_is_filed_again_for_its_tick_is_taken_once)
{
    for (int anew = 0; anew < 2; anew++) {
        for (int dropped = 0; dropped < 2; dropped++) {
            open_wheel(0, 8, WHEEL);
            for (uint32_t i = 0; i < 3; i++)
                file(i, 5);
            for (int times = 0; times < 3; times++) {
                if (dropped)
                    drop(1);
                if (anew)
                    file_anew(1, 5);
                else
                    file(1, 5);
            }
            must(wheel.hints == 6);
            must(next() == 5);
            must(take(6, MANY) == 3);
            /* With the same generation the older hint counts: nothing tells them apart. */
            must(batch[0] == 0 && batch[1] == (anew ? 2 : 1) && batch[2] == (anew ? 1 : 2));
            must(take(6, MANY) == 0 && wheel.hints == 0);
            close_wheel();
        }
    }
}
END_TEST

/* One whose hint was met files itself again, as a task does, for the tick of another of its hints. */
START_TEST(what_was_taken_and_filed_again_in_between_comes_where_its_hint_is)
{
    open_wheel(0, 8, WHEEL);
    file(0, 13);
    file(0, 5);
    must(take(6, MANY) == 1 && take(6, MANY) == 0);
    must(wheel.hints == 1);
    file_anew(0, 13);
    expect_one(0, 13);
    expect_none();
    must(wheel.hints == 0);
    close_wheel();
}
END_TEST

/* Moved back to where it was, each time with another hint there: nothing tells them apart. */
START_TEST(hints_that_are_the_same_do_not_heap_up)
{
    static const uint64_t ticks[] = { 5000, 9 * AGE, UINT64_MAX };
    open_wheel(0, 8, _i < 3 ? WHEEL : 1);
    uint64_t tick = ticks[_i % 3];
    for (uint32_t i = 0; i < 500; i++) {
        file(0, tick);
        file(1, tick);
        file(0, wheel.tick);
        must(take(wheel.tick + 1, MANY) == 1 && batch[0] == 0);
    }
    file(0, tick);
    must(sweep(UINT64_MAX) == 999 && wheel.hints == 2);
    must(sweep(UINT64_MAX) == 0);
    if (tick == UINT64_MAX) {
        expect_none();
    } else {
        must(take(UINT64_MAX, MANY) == 2 && batch[0] == 0 && batch[1] == 1);
        must(wheel.hints == 0);
    }
    close_wheel();
}
END_TEST

/* A call goes by so many hints that do not count, and a batch at most; the next one goes on there. Each
 * loop: of a tick, or of a later age. */
START_TEST(a_call_goes_by_no_more_in_vain_than_it_was_told)
{
    enum { LOOKS = 100, BATCH = 64 };
    const uint64_t tick = _i ? 3 * AGE : 5, due = _i ? 2 * AGE : 5;
    int calls = 0;
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < MANY; i++)
        must(hwt_wheel_file(&wheel, places_id(i), tick) == 0);
    for (uint32_t i = 0; i < MANY; i++) {
        if (i % 1000 != 999)
            hwt_wheel_drop(&wheel, places_id(i));
    }
    for (uint32_t found = 0; wheel.tick <= due; calls++) {
        const uint64_t hints = wheel.hints;
        wheel.looks = LOOKS;
        size_t n = hwt_wheel_take(&wheel, due + 1, batch, MANY, &far);
        must(hints - wheel.hints <= LOOKS + BATCH && hwt_wheel_check(&wheel));
        must(n > 0 || wheel.looks == 0 || wheel.tick == due + 1);
        must(n == 0 || far == (_i > 0));
        for (size_t i = 0; i < n; i++)
            must(places_number(batch[i]) == 1000 * ++found - 1);
        must(wheel.tick <= due || (found == MANY / 1000 && wheel.hints == 0));
    }
    must(calls > MANY / (LOOKS + BATCH));
    close_wheel();
}
END_TEST

static const uint64_t ways[][3] = {
    { 20, 30, 10 },
    { 20, 10, 30 },
    { 20, 12, 20 }, /* later, earlier, of a bucket and not */
    { 20, 28, 12 },
    { 12, 28, 20 },
    { 20, 28, 20 }, /* there and back */
    { 20, 9 * AGE, 10 },
    { 9 * AGE, 20, 30 },
    { 9 * AGE, 9 * AGE, 30 }, /* from far and to it */
    { 20, UINT64_MAX, 10 },
    { UINT64_MAX, 20, 12 },
    { UINT64_MAX, 9 * AGE, 12 },
};
enum { WAYS = sizeof(ways) / sizeof(*ways) };

START_TEST(what_was_moved_to_and_fro_comes_at_its_last_tick_alone)
{
    for (int how = 0; how < 8; how++) { /* new generations, looks at the next, sweeps */
        open_wheel(0, 8, WHEEL);
        file(1, 11);
        file(2, 31);
        for (int k = 0; k < 3; k++) {
            if (how & 1)
                file_anew(0, ways[_i][k]);
            else
                file(0, ways[_i][k]);
            if (how & 2)
                must(next() <= 11);
            if (how & 4)
                sweep(UINT64_MAX);
        }
        uint64_t tick = ways[_i][2];
        if (tick < 11)
            expect_one(0, tick);
        expect_one(1, 11);
        if (tick > 11)
            expect_one(0, tick);
        expect_one(2, 31);
        expect_none();
        sweep(UINT64_MAX);
        must(wheel.hints == 0);
        close_wheel();
    }
}
END_TEST

START_TEST(never_is_filed_and_dropped_as_any_other)
{
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < 100; i++)
        file(i, UINT64_MAX);
    must(next() == UINT64_MAX);
    for (uint32_t i = 0; i < 100; i += 2)
        drop(i);
    file_anew(1, UINT64_MAX);
    file_anew(3, 4);
    must(wheel.hints == 102 && sweep(UINT64_MAX) == 52);
    expect_one(3, 4);
    expect_none();
    must(wheel.hints == 49);
    close_wheel();
}
END_TEST

/* ---- what is not wanted ---- */

START_TEST(the_next_is_that_of_what_is_wanted)
{
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < 400; i++)
        file(i, i / 4);
    for (uint32_t i = 0; i < 399; i++) {
        must(next() == i / 4);
        must(wheel.hints >= 400 - i && wheel.hints <= 401 - i);
        unwanted[i] = true;
    }
    must(next() == 99 && wheel.hints == 1);
    unwanted[399] = true;
    expect_none();
    must(wheel.hints == 0);
    close_wheel();
}
END_TEST

START_TEST(without_a_question_all_are_wanted)
{
    open_wheel(0, 8, WHEEL);
    wheel.wanted = NULL;
    file(0, 3);
    file(1, 4);
    unwanted[0] = true;
    must(sweep(UINT64_MAX) == 0);
    must(next() == 3);
    drop(0);
    expect_one(1, 4);
    close_wheel();
}
END_TEST

START_TEST(of_later_ages_too_the_next_is_that_of_what_is_wanted)
{
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < 100; i++)
        file(i, (3 + i / 10) * AGE + i);
    for (uint32_t i = 0; i < 100; i++) {
        must(next() == (2 + i / 10) * AGE);
        if (i % 3)
            unwanted[i] = true;
        else
            drop(i);
    }
    expect_none();
    must(wheel.hints == 0);
    close_wheel();
}
END_TEST

START_TEST(what_became_unwanted_while_its_tick_is_taken_hides_nothing)
{
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < 40; i++)
        file(i, i < 20 ? 4 : 4 + WHEEL * (i % 3));
    must(take(5, 3) == 3);
    for (uint32_t i = 3; i < 25; i++)
        unwanted[i] = true;
    must(next() == 4);
    file(0, 4); /* the hand is there */
    unwanted[27] = unwanted[30] = unwanted[33] = unwanted[36] = unwanted[39] = true;
    must(next() == 4);
    must(take(5, 1) == 1 && batch[0] == 0);
    must(next() == 4 + WHEEL);
    close_wheel();
}
END_TEST

/* A look at the next goes half-way through a bucket; then one is filed for before that. */
START_TEST(what_is_filed_before_the_next_after_a_look_comes_first)
{
    for (uint32_t length = 1; length <= WHEEL; length *= WHEEL) {
        open_wheel(0, 8, length);
        for (uint32_t i = 0; i < 60; i++)
            file(i, 24 + 8 * (i % 3));
        for (uint32_t i = 0; i < 30; i += 3)
            unwanted[i] = true;
        must(next() == 24 && wheel.hints == 50);
        file(60, 16);
        file(61, 8);
        must(next() == 8);
        sweep(_i == 0 ? 0 : UINT64_MAX);
        expect_one(61, 8);
        expect_one(60, 16);
        for (uint32_t k = 0; k < 3; k++) {
            must(next() == 24 + 8 * k);
            must(take(25 + 8 * k, MANY) == (k == 0 ? 10 : 20));
            for (uint32_t i = 0; i < 10; i++)
                must(batch[i] == 3 * i + k + (k == 0 ? 30 : 0));
        }
        expect_none();
        memset(unwanted, 0, sizeof(unwanted));
        close_wheel();
    }
}
END_TEST

/* ---- sweeps ---- */

/* In a wheel of one bucket, in one of many, of later ages, and never: each fifth of each. */
static void file_everywhere(void)
{
    for (uint32_t i = 0; i < 1000; i++) {
        uint64_t tick = i % 10 == 3   ? UINT64_MAX
                        : i % 10 == 4 ? (2 + i % 7) * AGE
                                      : 20 + i * i % 333;
        file(i, tick);
    }
}

START_TEST(a_sweep_throws_away_all_that_does_not_count_or_is_not_wanted)
{
    for (uint32_t length = 1; length <= 64; length *= 8) {
        open_wheel(0, 8, length);
        file_everywhere();
        must(sweep(UINT64_MAX) == 0);
        for (uint32_t i = 0; i < 1000; i++) {
            if (i / 5 % 3 == 0)
                drop(i);
            else if (i / 5 % 3 == 1)
                unwanted[i] = true;
        }
        must(sweep(0) == 0);
        must(sweep(UINT64_MAX) == 670 && wheel.hints == 330);
        must(sweep(UINT64_MAX) == 0);
        for (uint32_t i = 0; i < 1000; i++)
            unwanted[i] = true;
        must(sweep(UINT64_MAX) == 330 && wheel.hints == 0);
        expect_none();
        memset(unwanted, 0, sizeof(unwanted));
        close_wheel();
    }
}
END_TEST

START_TEST(a_sweep_gives_memory_back)
{
    open_wheel(0, 8, WHEEL);
    size_t bytes = wheel_bytes();
    for (int times = 0; times < 4; times++) {
        file_everywhere();
        for (uint32_t i = 0; i < 1000; i++)
            drop(i);
    }
    must(wheel_bytes() > bytes + 4000 * 12);
    must(sweep(UINT64_MAX) == 4000);
    must(wheel_bytes() <= bytes + (WHEEL + 2) * 2 * 4 * 12);
    close_wheel();
}
END_TEST

/* Without a check. */
static uint64_t sweep_unchecked(uint64_t most)
{
    uint64_t hints = wheel.hints;
    hwt_wheel_sweep(&wheel, most, 0, true);
    return hints - wheel.hints;
}

/* The worker asks for the next tick between two parts: its bucket is the one that is swept. At the
 * beginning none of it is wanted, and then every other one, or none is at all. */
START_TEST(a_sweep_goes_on_though_its_bucket_is_the_next)
{
    enum { PART = 64, GONE = 10 * PART };
    uint64_t tick, left = _i ? 0 : (MANY - GONE) / 2;
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < MANY; i++) {
        must(hwt_wheel_file(&wheel, places_id(i), 5) == 0);
        unwanted[i] = i < GONE || i % 2 || _i;
    }
    for (int part = 0; part < MANY / PART + 2; part++) {
        sweep_unchecked(PART);
        if (hwt_wheel_find(&wheel, UINT64_MAX, PART / 4, &tick) && wheel.hints > 0)
            must(tick == 5);
    }
    must(wheel.hints == left && next() == (left > 0 ? 5 : UINT64_MAX));
    must(take(6, MANY) == (left > 64 ? 64 : left));
    for (uint32_t i = 0; i < 64 && i < left; i++)
        must(batch[i] == GONE + 2 * i);
    close_wheel();
}
END_TEST

/* To the bucket that is swept more comes between two parts than a block has room for: the sweep comes to its
 * end all the same. In front are hints that count. */
START_TEST(a_sweep_goes_on_though_its_bucket_grows)
{
    enum { PARTS = 60, COME = MANY / 4 };
    uint64_t most = 0;
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < MANY; i++)
        must(hwt_wheel_file(&wheel, places_id(i), 5) == 0);
    for (int part = 0; part < PARTS; part++) {
        for (uint32_t i = 0; i < COME; i++) {
            place_of(&places, MANY - 1 - i)->generation++;
            must(hwt_wheel_file(&wheel, places_id(MANY - 1 - i), 5) == 0);
            hwt_wheel_drop(&wheel, places_id(MANY - 1 - i));
        }
        sweep_unchecked(MANY / 2);
        most = wheel.hints > most ? wheel.hints : most;
    }
    must(most < 4 * MANY);
    close_wheel();
}
END_TEST

/* Each part looks at as many as it was told, and a block more at most; together they go by all, and begin
 * again. */
START_TEST(sweeps_in_parts_go_by_all)
{
    enum { BUCKETS = 64, EACH = 10, ALL = (BUCKETS + 2) * EACH };
    open_wheel(0, 8, BUCKETS);
    for (int times = 0; times < 3; times++) {
        for (uint32_t i = 0; i < ALL; i++) {
            uint32_t bucket = i / EACH;
            file_anew(i, bucket < BUCKETS ? bucket : bucket == BUCKETS ? UINT64_MAX : 5 * AGE);
            unwanted[i] = i % 2;
        }
        for (uint64_t looked = 0; looked < ALL; looked += 2 * EACH) {
            uint64_t thrown = sweep_unchecked(EACH + 2); /* two buckets */
            must(thrown == EACH);
            must(wheel.hints == ALL - looked / 2 - EACH);
        }
        must(sweep(UINT64_MAX) == 0 && wheel.hints == ALL / 2);
        for (uint32_t i = 0; i < ALL; i += 2)
            drop(i);
        must(sweep_unchecked(1) == EACH / 2); /* on from where it left off */
        must(sweep_unchecked(ALL) == ALL / 2 - EACH / 2);
    }
    close_wheel();
}
END_TEST

/* All in one bucket, which is swept a part at a time, from before its first hint is due; what is filed
 * there meanwhile, and what is taken, are as ever. */
START_TEST(what_is_filed_and_taken_beside_a_sweep_of_its_bucket_keeps_its_order)
{
    enum { ALL = 1000, PART = 70 };
    open_wheel(0, 8, 1);
    for (uint32_t i = 0; i < ALL; i++) {
        file_anew(i, _i ? 1 + i : 100);
        unwanted[i] = i % 3 != 0;
    }
    for (uint32_t i = 0; i < 7; i++) {
        (void)sweep_unchecked(PART);
        file_anew(ALL + i, _i ? ALL + i + 1 : 100); /* there is room, or not */
    }
    uint32_t next = 0;
    for (size_t n; (n = take(UINT64_MAX, 5)) > 0; (void)sweep_unchecked(PART)) {
        for (size_t i = 0; i < n; i++) {
            while (next < batch[i] && next < ALL && unwanted[next])
                next++;
            must(batch[i] == next++);
        }
    }
    must(next == ALL + 7 && wheel.hints == 0);
    must(hwt_wheel_check(&wheel));
    close_wheel();
}
END_TEST

START_TEST(a_sweep_goes_by_a_bucket_again_only_after_all_others)
{
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < 2; i++)
        file(i, i);
    drop(0);
    must(sweep(1) == 1); /* bucket 0 */
    file(2, 0);
    drop(2);
    must(sweep(1) == 0); /* bucket 1 */
    must(sweep(1) == 1); /* bucket 0 */
    must(wheel.hints == 1);
    close_wheel();
}
END_TEST

START_TEST(a_wheel_without_hints_is_swept)
{
    open_wheel(0, 8, WHEEL);
    must(sweep(UINT64_MAX) == 0);
    must(sweep(1) == 0);
    file(0, 3);
    must(sweep(1) == 0);
    expect_one(0, 3);
    must(sweep(UINT64_MAX) == 0);
    close_wheel();
}
END_TEST

START_TEST(a_tick_that_is_swept_half_way_through_goes_on)
{
    for (uint32_t length = 1; length <= WHEEL; length *= WHEEL) {
        open_wheel(0, 8, length);
        for (uint32_t i = 0; i < 90; i++)
            file(i, 4 + 8 * (i % 3));
        must(take(5, 7) == 7 && batch[6] == 18);
        for (uint32_t i = 21; i < 60; i += 2)
            unwanted[i] = true;
        must(sweep(UINT64_MAX) == 20 && wheel.hints == 63);
        file(0, 4);
        for (uint32_t k = 0; k < 3; k++) {
            size_t at = 0, n = 0;
            must(next() == 4 + 8 * k);
            n = take(5 + 8 * k, MANY);
            for (uint32_t i = k == 0 ? 21 : k; i < 90; i += 3) {
                if (!unwanted[i])
                    must(at < n && batch[at++] == i);
            }
            must(at + (k == 0) == n && (k > 0 || batch[at] == 0));
        }
        expect_none();
        memset(unwanted, 0, sizeof(unwanted));
        close_wheel();
    }
}
END_TEST

/* All of the tick that is being taken is swept out: it is over, and another comes. */
START_TEST(a_tick_of_which_the_rest_is_swept_out_is_over)
{
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < 20; i++)
        file(i, i < 10 ? 4 : 12);
    must(take(20, 3) == 3);
    for (uint32_t i = 3; i < 10; i++)
        drop(i);
    must(sweep(UINT64_MAX) == 7);
    must(next() == 12);
    must(take(20, MANY) == 10 && wheel.tick == 12);
    close_wheel();
}
END_TEST

/* ---- what a dump shows ---- */

START_TEST(a_look_counts_what_is_wanted)
{
    struct hwt_wheel_view view;
    open_wheel(0, 8, WHEEL);
    must(!hwt_wheel_sweep_to_next_bucket(&wheel, 0, &view));
    const uint64_t ticks[] = { 5, 13, 21, 2, UINT64_MAX, 7 * AGE, 9 * AGE, 5, UINT64_MAX };
    for (uint32_t i = 0; i < 9; i++)
        file(i, ticks[i]);
    for (uint32_t i = 0; i < 9; i++) /* a second hint of each does not count, or is the same */
        file(i, ticks[i]);
    unwanted[0] = unwanted[3] = unwanted[8] = true;
    drop(7);
    must(hwt_wheel_sweep_to_next_bucket(&wheel, 0, &view));
    must(view.index == 5 && view.count == 2 && view.next == 13);
    must(hwt_wheel_sweep_to_next_bucket(&wheel, 6, &view) && view.index >= WHEEL);
    must(view.count == 1 && view.next == UINT64_MAX);
    must(hwt_wheel_sweep_to_next_bucket(&wheel, view.index + 1, &view));
    must(view.count == 2 && view.next == 6 * AGE);
    must(!hwt_wheel_sweep_to_next_bucket(&wheel, view.index + 1, &view));
    must(!hwt_wheel_sweep_to_next_bucket(&wheel, 1000, &view));
    must(wheel.hints == 5 && hwt_wheel_check(&wheel));
    close_wheel();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wheel: hints");
    TCase *counts = unit_case(suite, "counts", open_places, close_places);
    tcase_add_test(counts, what_was_dropped_is_not_taken);
    tcase_add_test(counts, what_is_filed_again_for_its_tick_is_taken_once);
    tcase_add_test(counts, what_was_taken_and_filed_again_in_between_comes_where_its_hint_is);
    tcase_add_loop_test(counts, hints_that_are_the_same_do_not_heap_up, 0, 6);
    tcase_add_loop_test(counts, what_was_moved_to_and_fro_comes_at_its_last_tick_alone, 0, WAYS);
    tcase_add_loop_test(counts, a_call_goes_by_no_more_in_vain_than_it_was_told, 0, 2);
    tcase_add_test(counts, never_is_filed_and_dropped_as_any_other);
    TCase *wants = unit_case(suite, "wants", open_places, close_places);
    tcase_add_test(wants, the_next_is_that_of_what_is_wanted);
    tcase_add_test(wants, without_a_question_all_are_wanted);
    tcase_add_test(wants, of_later_ages_too_the_next_is_that_of_what_is_wanted);
    tcase_add_test(wants, what_became_unwanted_while_its_tick_is_taken_hides_nothing);
    tcase_add_loop_test(wants, what_is_filed_before_the_next_after_a_look_comes_first, 0, 2);
    TCase *sweeps = unit_case(suite, "sweeps", open_places, close_places);
    tcase_add_test(sweeps, a_sweep_throws_away_all_that_does_not_count_or_is_not_wanted);
    tcase_add_test(sweeps, a_sweep_gives_memory_back);
    tcase_add_loop_test(sweeps, a_sweep_goes_on_though_its_bucket_is_the_next, 0, 2);
    tcase_add_test(sweeps, a_sweep_goes_on_though_its_bucket_grows);
    tcase_add_test(sweeps, sweeps_in_parts_go_by_all);
    tcase_add_loop_test(sweeps,
                        what_is_filed_and_taken_beside_a_sweep_of_its_bucket_keeps_its_order, 0, 2);
    tcase_add_test(sweeps, a_sweep_goes_by_a_bucket_again_only_after_all_others);
    tcase_add_test(sweeps, a_wheel_without_hints_is_swept);
    tcase_add_test(sweeps, a_tick_that_is_swept_half_way_through_goes_on);
    tcase_add_test(sweeps, a_tick_of_which_the_rest_is_swept_out_is_over);
    TCase *looks = unit_case(suite, "looks", open_places, close_places);
    tcase_add_test(looks, a_look_counts_what_is_wanted);
    return run_suite(suite);
}
