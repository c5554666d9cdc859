/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Random programs of all the public calls on a set clock, each step checked against the
 * oracle of model.h: what runs in which advance and in which order, never early, what every
 * call returns, what is pending and how each timeout ends, once.
 *
 *     HWT_TEST_SCALE=n    an nth of the steps of each test
 *     HWT_TEST_SEED=n     the seed, as printed
 */

#include "model_calls.h"
#include "one_thread.h"

/* ---- what the timer calls ---- */

static void task_run(hwt_timeout handle, void *arg)
{
    struct item *item = arg;

    model_run_begins(item, handle);
    check_item(item);
    must(hwt_timer_pending(model.timer) == model.live_count);
    if (!model.reads_clock && one_in(8))
        model.clock = sum(model.clock, below(product(model.tick, 3)));
    switch (below(6)) {
    case 0:
        call_repeat(item);
        break;
    case 1:
        call_reschedule(item);
        break;
    case 2:
        call_from_inside();
        break;
    case 3:
        for (uint64_t i = below(6); i > 0; i--)
            call_any(one_in(3) ? item : random_item());
        break;
    default:
        break;
    }
    check_item(item);
    model_run_ends(item);
}

static void task_told(hwt_timeout handle, void *arg)
{
    struct item *item = arg;

    model_told(item, handle);
    model.telling = true;
    if (!model.stopping && item->known) {
        check_item(item);
        must(!hwt_timeout_reschedule(item->handle, 0) && !hwt_timeout_repeat(item->handle, 1));
        must(!hwt_timeout_cancel_sync(item->handle));
    }
    if (one_in(8))
        call_from_inside();
    if (one_in(4))
        call_new();
    if (!model.stopping && one_in(8))
        call_any(random_item());
    model.telling = false;
}

static void visit(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    struct item *item = arg;

    must(data == &model);
    must(task == (item->told ? &task_telling : &task_quiet));
    model_visited(item, remaining);
    if (one_in(8))
        call_new();
    if (one_in(8))
        call_from_inside();
}

/* ---- a program ---- */

static uint64_t next_due(void)
{
    uint64_t least = HWT_NEVER;

    for (size_t i = 0; i < model.live_count; i++)
        least = tick_end(live_item(i)->due) < least ? tick_end(live_item(i)->due) : least;
    return least;
}

static uint64_t random_leap(void)
{
    uint64_t gap = difference(next_due(), model.clock);

    switch (below(16)) {
    case 0:
        return 0;
    case 1:
        return below(model.tick);
    case 2:
    case 3:
        return gap < UINT64_MAX >> 8 ? gap : 0; /* the first instant at which it may run */
    case 4:
        return gap < UINT64_MAX >> 8 ? difference(gap, 1) : 0; /* and the last at which not */
    case 5:
        return random_revolutions();
    case 6:
        return random_boundary();
    case 7:
        return one_in(16) ? any_magnitude() >> 8 : below(product(model.tick, 200));
    case 8:
        return below(product(product(model.tick, model.wheel), 4));
    default:
        return below(product(model.tick, 6));
    }
}

static void step_advance(void)
{
    uint64_t now = sum(model.clock, random_leap());

    if (model.reads_clock || one_in(2))
        model.clock = now;
    else
        now = difference(model.clock, below(product(model.tick, 3))); /* an older reading */
    model_advance_begins(now);
    if (now == model.clock && one_in(2))
        model_advance_ends(hwt_timer_dispatch(model.timer));
    else
        model_advance_ends(hwt_timer_advance(model.timer, now));
}

static void step_next_tick(void)
{
    uint64_t before = model.changes;
    uint64_t next, least, most;

    model_filing();
    next = hwt_timer_next_tick(model.timer);

    model_next_tick(&least, &most);
    must(before != model.changes || (least <= next && next <= most));
    for (size_t i = 0; before == model.changes && i < model.count; i++)
        must(!model.items[i].telling);
}

static void step_check_all(void)
{
    for (size_t i = 0; i < model.count; i++)
        check_item(&model.items[i]);
}

/* All that are sooner than the last one found are found, in order, as they are. */
static void step_soonest(void)
{
    hwt_pending found[16];
    size_t count = below(17), sooner = 0;
    int64_t n = hwt_timer_soonest(model.timer, NULL, NULL, found, count);

    must((size_t)n == (count < model.live_count ? count : model.live_count));
    for (int64_t i = 0; i < n; i++) {
        const struct item *item = found[i].arg;

        must(found[i].deadline == item->deadline);
        must(found[i].task == (item->told ? &task_telling : &task_quiet));
        must(i == 0 || found[i - 1].deadline <= found[i].deadline);
        sooner += found[i].deadline < found[n - 1].deadline;
    }
    for (size_t i = 0; n > 0 && i < model.live_count; i++)
        sooner -= live_item(i)->deadline < found[n - 1].deadline;
    must(sooner == 0);
}

static void step(void)
{
    uint64_t choice = below(100);
    struct item *item = random_item();

    if (choice < 25 || !item)
        call_new();
    else if (choice < 35)
        call_cancel(item);
    else if (choice < 45)
        call_reschedule(item);
    else if (choice < 60)
        call_push_back(item);
    else if (choice < 68)
        check_item(item);
    else if (choice < 78)
        step_next_tick();
    else if (choice < 79)
        step_soonest();
    else if (choice < 80)
        one_in(8) ? step_check_all() : call_nonsense();
    else
        step_advance();
    must(hwt_timer_pending(model.timer) == model.live_count);
}

static uint64_t random_start(void)
{
    switch (below(6)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return INT64_MAX;
    case 3:
        return UINT64_MAX - any_magnitude();
    case 4:
        return UINT64_MAX - product(model.tick, below(2000));
    default:
        return any_magnitude();
    }
}

static uint64_t random_tick(void)
{
    static const uint64_t ticks[] = { HWT_US(1), HWT_US(1),   1024,  1001,       HWT_MS(1),
                                      HWT_MS(1), HWT_MS(100), 65536, HWT_SEC(1), HWT_MIN(60) };

    if (one_in(3))
        return HWT_US(1) + below(HWT_MIN(300));
    return ticks[below(sizeof ticks / sizeof *ticks)];
}

static void program_begin(uint64_t program, size_t limit)
{
    hwt_options options = HWT_OPTIONS_INIT;
    uint64_t seed = test_seed();

    memset(&model, 0, sizeof model);
    model.seed = seed;
    model.program = program;
    model.random = seed + program * UINT64_C(0x2545f4914f6cdd1d);
    model.limit = limit;
    model.items = calloc(limit + 1, sizeof *model.items);
    model.live = calloc(limit + 1, sizeof *model.live);
    ck_assert(model.items && model.live);

    options.tick_duration = model.tick = random_tick();
    options.ticks_per_wheel = (uint32_t)(1 + below(UINT64_C(1) << below(17)));
    options.flags = HWT_NO_WORKER | MODEL_FLAGS;
    options.clock = model_clock;
    options.max_pending = model.max_pending = one_in(4) ? 1 + below(40) : 0;
    for (model.wheel = 1; model.wheel < options.ticks_per_wheel;)
        model.wheel *= 2;
    model.start = model.clock = random_start();
    model.reads_clock = !one_in(4);
    must(hwt_timer_create(&options, &model.timer) == 0);
}

static void check_stats(void)
{
    hwt_stats stats = HWT_STATS_INIT;
    uint64_t lateness = 0;

    must(hwt_timer_stats(model.timer, &stats) == 0);
    must(stats.pending == 0 && hwt_timer_pending(model.timer) == 0);
    must(stats.added == model.added && stats.expired == model.expired);
    must(stats.cancelled == model.cancelled && stats.rescheduled == model.rescheduled);
    must(stats.rejected == model.rejected && stats.unprocessed == model.left);
    for (size_t i = 0; i < 64; i++)
        lateness += stats.lateness[i];
    must(lateness == model.expired);
}

static void program_stop(void)
{
    bool visited = one_in(2);
    uint64_t left = model.live_count;

    model.stopping = true;
    model.visiting = visited;
    must(hwt_timer_stop(model.timer, visited ? visit : NULL, &model) == (int64_t)left);
    model.stopping = false;
    model.stopped = true;
    while (!visited && model.live_count) {
        struct item *item = live_item(0);

        must(!item->told);
        live_remove(item);
        item->cancelled = true;
        item->ends++;
        model.left++;
    }
    must(model.left == left && model.live_count == 0);
}

static void program_end(void)
{
    program_stop();
    for (size_t i = 0; i < model.count; i++)
        must(model.items[i].ends == 1);
    step_check_all();
    call_nonsense();
    call_new();
    must(hwt_timer_advance(model.timer, UINT64_MAX) == 0);
    must(hwt_timer_stop(model.timer, visit, &model) == 0);
    check_stats();
    hwt_timer_destroy(model.timer);
    free(model.items);
    free(model.live);
}

enum { STEPS = 500000 };

START_TEST(random_programs_do_what_the_oracle_says)
{
    struct model sums = { 0 };
    unsigned steps = test_scaled(STEPS);

    for (uint64_t program = 0; steps > 0; program++) {
        uint64_t length;

        program_begin(program, 4000);
        length = 1 + below(3000);
        for (; model.step < length && steps > 0; model.step++, steps--)
            step();
        program_end();
        sums.added += model.added;
        sums.expired += model.expired;
        sums.cancelled += model.cancelled;
        sums.rescheduled += model.rescheduled;
        sums.left += model.left;
    }
    printf("%" PRIu64 " added, %" PRIu64 " rescheduled; %" PRIu64 " run, %" PRIu64
           " cancelled, %" PRIu64 " left at the end\n",
           sums.added, sums.rescheduled, sums.expired, sums.cancelled, sums.left);
}
END_TEST

/* Ten thousand at a time: buckets that grow, and many that are swept at once. */
START_TEST(crowds_do_what_the_oracle_says)
{
    uint64_t programs = test_scaled(STEPS) / 30000;

    for (uint64_t program = 1000000; program < 1000000 + programs + 1; program++) {
        program_begin(program, 14000);
        for (int i = 0; i < 10000; i++)
            call_new();
        for (int i = 0; i < 5000 && model.live_count; i++)
            one_in(2) ? call_cancel(random_item()) : call_reschedule(random_item());
        for (; model.step < 200; model.step++)
            step();
        program_end();
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("model_timer");
    TCase *test_case = tcase_create("random");

    tcase_set_timeout(test_case, 600);
    tcase_add_test(test_case, random_programs_do_what_the_oracle_says);
    tcase_add_test(test_case, crowds_do_what_the_oracle_says);
    suite_add_tcase(suite, test_case);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
