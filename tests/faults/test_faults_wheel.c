/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A wheel without memory: what could not be filed is where it was, and nothing else is amiss. */

#include "faults.h"
#include "wheel_fixture.h"

static uint64_t refused_calls;

static void refuse_from(uint64_t nth, enum faults_reach reach)
{
    faults_begin((struct faults_plan){ FAULTS_MEMORY, reach, nth, 0 });
}

START_TEST(a_wheel_that_cannot_be_made_holds_nothing)
{
    int r;
    faults_watch();
    for (uint64_t nth = 1;; nth++) {
        refuse_from(nth, FAULTS_ONE);
        r = hwt_wheel_init(&wheel, &places.directory, hwt_ticks_init(0, 8), WHEEL);
        if (faults_end() == 0)
            break;
        holds(r == -ENOMEM);
        holds(faults_held().blocks == 0 && faults_strangers() == 0);
    }
    holds(r == 0);
    wheel.pieces = &places.pieces;
    close_wheel();
    holds(faults_held().blocks == 0);
}
END_TEST

/* With all memory refused, and counted: true if it was filed. */
static bool try_file(uint32_t i, uint64_t tick)
{
    struct hwt_wheel before = wheel;
    struct hwt_place place = *place_of(&places, i);
    refuse_from(1, FAULTS_FROM_THERE_ON);
    int r = hwt_wheel_file(&wheel, places_id(i), tick);
    refused_calls += faults_end();
    if (r == 0)
        return true;
    holds(r == -ENOMEM);
    holds(memcmp(&before, &wheel, sizeof(wheel)) == 0);
    holds(memcmp(&place, place_of(&places, i), sizeof(place)) == 0);
    holds(hwt_wheel_check(&wheel));
    return false;
}

static const uint64_t kinds_of_ticks[] = { 5, 13, 3 * AGE, UINT64_MAX };
enum { KINDS = sizeof(kinds_of_ticks) / sizeof(*kinds_of_ticks) };

START_TEST(what_cannot_be_filed_is_where_it_was)
{
    uint64_t tick = kinds_of_ticks[_i];
    open_wheel(0, 8, WHEEL);
    holds(!try_file(0, tick) && place_of(&places, 0)->where == 0);
    file(0, 6);
    holds(!try_file(0, tick));
    expect_one(0, 6);
    uint32_t n = 1;
    for (uint32_t i = 1; i < 1000; i++) {
        if (!try_file(i, tick))
            continue;
        drop(i); /* its hint takes place, until there is no more */
        n++;
    }
    holds(n < 10);
    for (uint32_t i = 0; i < 1000; i++)
        file_anew(i, tick);
    for (uint32_t i = 0; i < 1000; i++) {
        if (!try_file(i, tick))
            holds(place_of(&places, i)->where != 0);
    }
    sweep(UINT64_MAX);
    holds(wheel.hints == 1000);
    close_wheel();
}
END_TEST

/* Of ticks that are few or many, near and far. Some were dropped, and are swept out without memory. */
START_TEST(all_that_is_filed_is_taken_in_order_without_memory)
{
    static uint64_t ticks[MANY];
    uint64_t last = 0, taken = 0, random = 1, ticks_of = _i == 0 ? 20 : _i == 1 ? 5000 : AGE;
    open_wheel(0, 8, WHEEL);
    for (uint32_t i = 0; i < MANY; i++) {
        ticks[i] = test_random(&random) % ticks_of;
        must(hwt_wheel_file(&wheel, places_id(i), ticks[i]) == 0);
    }
    for (uint32_t i = 0; i < MANY; i += 4)
        unwanted[i] = true;
    refuse_from(1, FAULTS_FROM_THERE_ON);
    hwt_wheel_sweep(&wheel, UINT64_MAX, 0, true);
    for (uint64_t tick; (tick = hwt_wheel_prune_and_peek(&wheel)) != UINT64_MAX; last = tick) {
        size_t n;
        holds(tick >= last && hwt_wheel_check(&wheel));
        while ((n = hwt_wheel_take(&wheel, tick + 1, batch, 64, &far)) > 0) {
            for (size_t i = 0; i < n; i++)
                holds(ticks[places_number(batch[i])] == tick &&
                      (i == 0 || batch[i - 1] < batch[i]));
            taken += n;
        }
    }
    refused_calls = faults_end();
    holds(taken == MANY - MANY / 4 && wheel.hints == 0);
    holds(refused_calls > 0);
    close_wheel();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("faults: wheel");
    TCase *memory = unit_case(suite, "memory", open_places, close_places);
    tcase_add_test(memory, a_wheel_that_cannot_be_made_holds_nothing);
    tcase_add_loop_test(memory, what_cannot_be_filed_is_where_it_was, 0, KINDS);
    tcase_add_loop_test(memory, all_that_is_filed_is_taken_in_order_without_memory, 0, 3);
    return run_suite(suite);
}
