/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Order within a tick, and never early, where the worker does things in parts: a pass that is cut
 * short, hints that are filed again because their timeouts were moved, what is added for ticks that
 * are over, and ages of 2^29 ticks, at whose ends timeouts change their place. With many threads
 * and with HWT_ONE_THREAD.
 */

#include "api_fixture.h"

#define TICK HWT_MS(1)
#define AGE ((uint64_t)1 << 29) /* ticks */

enum { MANY = 3000, STEPS = 1500, LIVE_MAX = 200 };

typedef struct record {
    uint64_t deadline; /* of the clock */
    uint64_t tick;     /* in which it is to run: its deadline's, or, if that is over, the next */
    hwt_timeout timeout;
    bool moved, cancelled;
    unsigned runs;
} record;

static manual m;
static record records[MANY];
static size_t count;
static uint64_t over;      /* ticks */
static const record *last; /* that ran and was never moved */

static void note_run(hwt_timeout timeout, void *arg)
{
    record *r = arg;
    (void)timeout;
    must(r->runs++ == 0 && !r->cancelled);
    must(m.now >= r->deadline && r->tick < over);
    if (r->moved)
        return;
    if (last && (last->tick > r->tick || (last->tick == r->tick && last > r)))
        ck_abort_msg("number %td, of tick %ju, ran before number %td, of tick %ju", last - records,
                     (uintmax_t)last->tick, r - records, (uintmax_t)r->tick);
    last = r;
}

static const hwt_task noting = { note_run, NULL };

static void open_timer(uint64_t ticks_per_wheel, uint32_t flags)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.ticks_per_wheel = (uint32_t)ticks_per_wheel;
    options.flags = flags;
    manual_open_with(&m, 0, options);
    count = 0;
    over = 0;
    last = NULL;
}

static uint64_t tick_of(uint64_t deadline)
{
    return deadline / TICK > over ? deadline / TICK : over;
}

static record *add(uint64_t deadline)
{
    record *r = &records[count++];
    *r = (record){ .deadline = deadline, .tick = tick_of(deadline) };
    must(hwt_timer_new_timeout_at(m.timer, &noting, r, deadline, &r->timeout) == 0);
    return r;
}

static void move(record *r, uint64_t deadline)
{
    if (!hwt_timeout_reschedule_at(r->timeout, deadline))
        return;
    r->moved = true;
    r->deadline = deadline;
    r->tick = deadline / TICK;
}

/* At most so many run; the rest in the next call. */
static uint64_t go_on(uint64_t ticks, uint64_t most)
{
    over += ticks;
    m.now = over * TICK;
    return hwt_timer_advance_some(m.timer, m.now, most);
}

static void expect_all_ended(void)
{
    while (go_on(100, 7) > 0 || hwt_timer_pending(m.timer) > 0)
        ;
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(records[i].runs, !records[i].cancelled);
    manual_close(&m);
}

/* ---- a pass that is cut short ---- */

/* Each adds for the same tick as before, while some of that have run: it comes behind them. */
START_TEST(what_is_added_while_a_tick_is_run_in_parts_comes_behind)
{
    open_timer(8, _i ? HWT_ONE_THREAD : 0);
    for (int i = 0; i < 20; i++)
        add((uint64_t)(i % 3) * TICK);
    ck_assert_uint_eq(go_on(3, 5), 5);
    for (int i = 0; i < 20; i++) {
        add((uint64_t)(i % 5) * TICK);
        ck_assert_uint_le(go_on(0, 1), 1);
    }
    ck_assert_uint_eq(records[19].runs, 1);
    expect_all_ended();
}
END_TEST

/* What a cut has left is not overtaken by what was moved into a tick that is over. */
START_TEST(what_is_filed_again_keeps_the_others_in_order)
{
    record *moved[10];
    open_timer(8, _i ? HWT_ONE_THREAD : 0);
    for (int i = 0; i < 10; i++)
        moved[i] = add(TICK);
    go_on(0, 1);
    for (int i = 0; i < 10; i++) {
        move(moved[i], 12 * TICK + (uint64_t)i);
        add(12 * TICK);
        add(4 * TICK);
        if (i == 5) /* those that have moved are filed again in between */
            go_on(2, UINT64_MAX);
    }
    ck_assert_uint_eq(go_on(3, 4), 4);
    ck_assert_uint_eq(go_on(8, 9), 9);
    expect_all_ended();
}
END_TEST

static uint64_t random_state;

static uint64_t below(uint64_t n)
{
    return test_random(&random_state) % n;
}

static void step(void)
{
    uint64_t ticks = over + below(30);
    record *any =
        count > 0 ? &records[count - 1 - below(count < LIVE_MAX ? count : LIVE_MAX)] : NULL;
    switch (below(8)) {
    case 0:
    case 1:
    case 2:
    case 3:
        if (count < MANY)
            add((ticks > 8 ? ticks - 8 : 0) * TICK + below(TICK));
        break;
    case 4:
        if (any && any->runs == 0 && !any->cancelled)
            move(any, (over + 1 + below(40)) * TICK);
        break;
    case 5:
        if (any && hwt_timeout_cancel(any->timeout))
            any->cancelled = true;
        break;
    case 6:
        (void)hwt_timer_next_tick(m.timer);
        break;
    default:
        (void)go_on(below(4), 1 + below(6));
        break;
    }
}

START_TEST(cuts_moves_and_cancels_at_random_keep_the_order)
{
    random_state = test_seed() + (uint64_t)_i;
    open_timer(_i % 4 / 2 ? 64 : 8, _i % 2 ? HWT_ONE_THREAD : 0);
    for (int i = 0; i < STEPS; i++)
        step();
    expect_all_ended();
}
END_TEST

/*
 * One bucket, in which much is of many rounds: it is sorted in parts, the sooner ones first. The second
 * time there is much of one tick, which may be the last one of a part, or just before or behind it.
 * For each tick around it something was added before, and something comes after that.
 */
START_TEST(what_is_sorted_in_parts_keeps_its_order)
{
    const uint64_t around = 1000, end = 1100, much = around + (uint64_t)_i;
    open_timer(1, 0);
    add(TICK);
    for (uint64_t tick = 10; tick < around; tick += 10)
        add(tick * TICK);
    for (uint64_t tick = around; tick < end; tick++)
        add(tick * TICK);
    ck_assert_uint_eq(go_on(2, MANY), 1);
    for (int i = 0; i < 200; i++)
        add(much * TICK);
    add(3 * TICK);
    ck_assert_uint_eq(go_on(2, MANY), 1);
    for (uint64_t tick = around; tick < end; tick++)
        add(tick * TICK);
    (void)go_on(end, UINT64_MAX);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    expect_all_ended();
}
END_TEST

/* ---- ages ---- */

static const int64_t edges[] = { -2, -1, 0, 1 };

enum { EDGES = sizeof(edges) / sizeof(*edges), AGES = 4 };

/* It runs when the tick of its deadline is over, and not before, whatever the stops on the way. */
static void expect_exact(record *r, const uint64_t *stops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (stops[i] > over && stops[i] <= r->tick)
            (void)go_on(stops[i] - over, UINT64_MAX);
    }
    (void)go_on(r->tick - over, UINT64_MAX);
    ck_assert_uint_eq(r->runs, 0);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), (r->tick + 1) * TICK);
    ck_assert_uint_eq(go_on(0, UINT64_MAX), 0);
    ck_assert_uint_eq(go_on(1, UINT64_MAX), 1);
    ck_assert_uint_eq(r->runs, 1);
}

/* From each edge of an age to each edge of a later one, by a leap, or with a stop at all edges. */
START_TEST(at_an_ages_edge_nothing_runs_early_or_late)
{
    uint64_t stops[AGES * EDGES];
    for (uint64_t age = 0; age < AGES; age++)
        for (size_t e = 0; e < EDGES; e++)
            stops[age * EDGES + e] = (age + 1) * AGE + (uint64_t)edges[e];
    for (size_t from = 0; from < AGES * EDGES; from++) {
        for (size_t to = from; to < AGES * EDGES; to++) {
            open_timer(8, _i % 2 ? HWT_ONE_THREAD : 0);
            (void)go_on(stops[from], UINT64_MAX);
            record *r = add(stops[to] * TICK + (to % 2 ? TICK - 1 : 0));
            expect_exact(r, stops, _i / 2 ? AGES * EDGES : 0);
            manual_close(&m);
        }
    }
}
END_TEST

/* The same of one that is moved there from the tick before, or from an age before: it is filed
 * again on the way. */
START_TEST(nor_does_what_is_moved_to_an_ages_edge)
{
    for (uint64_t age = 1; age < AGES; age++) {
        for (size_t e = 0; e < EDGES; e++) {
            uint64_t tick = age * AGE + (uint64_t)edges[e];
            for (int from = 0; from < 3; from++) {
                const uint64_t before[] = { 5, tick - 1, AGE / 2 };
                open_timer(8, _i ? HWT_ONE_THREAD : 0);
                record *r = add(before[from] * TICK);
                go_on(1, UINT64_MAX);
                move(r, tick * TICK);
                expect_exact(r, before, 3);
                manual_close(&m);
            }
        }
    }
}
END_TEST

static record *mover_has;
static uint64_t moves_to;

static void move_another(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    move(mover_has, moves_to);
}

static const hwt_task moving = { move_another, NULL };

/* A task of the last tick of an age moves one of a later age into the first tick of the next, whose
 * beginning is when the others of that age come nearer. */
START_TEST(nor_does_what_is_moved_there_by_the_last_task_before_it)
{
    for (uint64_t into = 0; into < 2; into++) {
        open_timer(8, _i ? HWT_ONE_THREAD : 0);
        mover_has = add(2 * AGE * TICK + 1);
        moves_to = (AGE + into) * TICK + TICK / 2;
        must(hwt_timer_new_timeout_at(m.timer, &moving, NULL, AGE * TICK - 1, NULL) == 0);
        go_on(1, UINT64_MAX);
        ck_assert_uint_eq(go_on(AGE - 1, UINT64_MAX), 1);
        ck_assert(mover_has->moved);
        expect_exact(mover_has, NULL, 0);
        manual_close(&m);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: order within a tick");
    TCase *order = add_case(suite, "order");
    tcase_add_loop_test(order, what_is_added_while_a_tick_is_run_in_parts_comes_behind, 0, 2);
    tcase_add_loop_test(order, what_is_filed_again_keeps_the_others_in_order, 0, 2);
    tcase_add_loop_test(order, what_is_sorted_in_parts_keeps_its_order, 0, 100);
    tcase_add_loop_test(order, cuts_moves_and_cancels_at_random_keep_the_order, 0, 40);
    TCase *ages = add_case(suite, "ages");
    tcase_add_loop_test(ages, at_an_ages_edge_nothing_runs_early_or_late, 0, 4);
    tcase_add_loop_test(ages, nor_does_what_is_moved_to_an_ages_edge, 0, 2);
    tcase_add_loop_test(ages, nor_does_what_is_moved_there_by_the_last_task_before_it, 0, 2);
    return run_suite(suite);
}
