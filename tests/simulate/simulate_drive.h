/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_SIMULATE_DRIVE_H
#define HWT_TESTS_SIMULATE_DRIVE_H

/*
 * For simulate_run.c: the operations that drive and ask the timer, the executor and the callbacks.
 * Inside of callbacks, those that drive the timer must be refused.
 */

#include <unistd.h>

#include "simulate_calls.h"

static void make_nested(void);

/* ---- callbacks ---- */

struct position {
    uint8_t place;
    uint32_t owner, nth;
};

static struct position go_inside(uint8_t place, const struct item *item, uint32_t nth)
{
    struct position outer = { sim.place, sim.owner, sim.nth };
    sim.place = place;
    sim.owner = seat_of(item)->id;
    sim.nth = nth;
    sim.depth++;
    return outer;
}

static void go_back(struct position outer)
{
    sim.place = outer.place;
    sim.owner = outer.owner;
    sim.nth = outer.nth;
    sim.depth--;
}

static void entering(const struct item *item, uint8_t place)
{
    sim.entered = item;
    sim.entered_in = place;
}

static void count_lateness(uint64_t lateness)
{
    unsigned power = 0;
    while (power < 63 && lateness >> (power + 1))
        power++;
    sim.lateness[power]++;
    if (lateness > sim.lateness_max)
        sim.lateness_max = lateness;
    sim.lateness_sum += lateness;
}

static void task_run(hwt_timeout handle, void *arg)
{
    struct item *item = arg;
    struct seat *seat = seat_of(item);

    entering(item, IN_RUN);
    model_run_begins(item, handle);
    entering(NULL, OUTSIDE);
    sim.last_begun = item;
    seat->runs++;
    seat->ran_for = item->deadline;
    count_lateness(difference(model_now(), item->deadline));

    struct position outer = go_inside(IN_RUN, item, seat->runs);
    expect(hwt_timer_pending(model.timer) == model.live_count,
           "ck_assert_uint_eq(hwt_timer_pending(timer), %zu);", model.live_count);
    check_handle(seat->id, item);
    make_nested();
    check_handle(seat->id, item);
    go_back(outer);
    model_run_ends(item);
}

static void task_told(hwt_timeout handle, void *arg)
{
    struct item *item = arg;
    struct seat *seat = seat_of(item);
    bool was_telling = model.telling;

    entering(item, IN_CANCELLED);
    model_told(item, handle);
    entering(NULL, OUTSIDE);
    item->submitted = false;
    seat->told++;

    struct position outer = go_inside(IN_CANCELLED, item, seat->told);
    model.telling = true;
    check_handle(seat->id, item);
    make_nested();
    model.telling = was_telling;
    go_back(outer);
}

static void visit(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    struct item *item = arg;
    struct seat *seat = seat_of(item);

    must(data == &sim && task == (item->told ? &task_telling : &task_quiet));
    entering(item, IN_VISIT);
    model_visited(item, remaining);
    entering(NULL, OUTSIDE);
    seat->visits++;

    struct position outer = go_inside(IN_VISIT, item, seat->visits);
    make_nested();
    go_back(outer);
}

/* ---- the executor ---- */

/* The work's argument is the entry, which the handles show too. The last one that had it. */
static struct item *item_of_work(const void *arg)
{
    for (size_t i = model.count; i-- > 0;) {
        if (model.items[i].handle.entry == arg)
            return &model.items[i];
    }
    must(!"this work is of no timeout");
    return NULL;
}

static void check_work(struct work work)
{
    struct item *item = work.item;
    struct seat *seat = seat_of(item);
    bool begins = item->pending && item->deadline < HWT_NEVER && item->deadline <= model_now();
    unsigned runs = seat->runs;

    work.run(work.arg);
    expect(seat->runs == runs + begins, "ck_assert_uint_eq(runs[%u], %u);", seat->id,
           runs + begins);
    expect(begins || !item->telling, "ck_assert_uint_eq(cancelled[%u], 1);", seat->id);
    if (begins)
        return;
    item->submitted = false;
    if (item->pending) /* it was pushed back: the timer files it anew */
        model_file(item, item->deadline, true);
}

static int execute(void *data, void (*run)(void *), void *arg)
{
    struct work work = { run, arg, item_of_work(arg) };

    must(data == &sim);
    must(hwt_timer_stop(model.timer, NULL, NULL) == -EDEADLK);
    must(work.item->pending || work.item->telling);
    entering(work.item, IN_RUN);
    if (work.item->pending)
        model_taken(work.item);
    entering(NULL, OUTSIDE);
    work.item->submitted = true;
    if (sim.mode == REFUSE)
        return -1;
    if (sim.mode == AT_ONCE) {
        check_work(work);
    } else {
        seat_of(work.item)->waits = true;
        sim.work[sim.work_count++] = work;
    }
    return 0;
}

static void run_work(uint64_t which)
{
    if (sim.work_count == 0)
        return;
    size_t index = which % sim.work_count;
    struct work work = sim.work[index];
    say("run_work(%zu);", index);
    sim.work_count--;
    memmove(sim.work + index, sim.work + index + 1, (sim.work_count - index) * sizeof work);
    seat_of(work.item)->waits = false;
    check_work(work);
}

/* What was refused has been run, so what is still handed over is what was put off. */
static void check_refused_work(void)
{
    for (size_t i = 0; sim.has_executor && i < model.count; i++) {
        const struct item *item = &model.items[i];
        const struct seat *seat = seat_of(item);
        if (!item->submitted || seat->waits)
            continue;
        expect(!item->pending, "ck_assert_uint_eq(runs[%u], %u);", seat->id, seat->runs + 1);
        expect(!item->telling, "ck_assert_uint_eq(cancelled[%u], 1);", seat->id);
    }
}

/* ---- the clock, and driving ---- */

static void set_clock(uint64_t clock)
{
    if (clock <= model.clock)
        return;
    model.clock = clock;
    say("now = %s;", number(clock));
}

/* What is due was run, and what was cancelled told; or else, the first that was not. */
static void claim_left_over(void)
{
    for (size_t i = 0; i < model.live_count; i++) {
        const struct item *item = live_item(i);
        if (item->due < model.current && !item->submitted)
            claim("ck_assert_uint_eq(runs[%u], %u);", seat_of(item)->id, seat_of(item)->runs + 1);
    }
    for (size_t i = 0; model.moving && i < model.count; i++) {
        const struct item *item = &model.items[i];
        if (item->telling && !item->submitted && item->cancelled_in != model.advances)
            claim("ck_assert_uint_eq(cancelled[%u], 1);", seat_of(item)->id);
    }
}

/* With a descriptor, the timer looks at its queues once more before it returns. */
static void driven(void)
{
    if (sim.descriptor >= 0)
        model_filing();
    check_refused_work();
}

static void advance(uint64_t now, bool dispatch)
{
    char call[TEXT_MAX / 2];
    if (simulate_journal)
        snprintf(call, sizeof call, "hwt_timer_%s%s%s)",
                 dispatch ? "dispatch(timer" : "advance(timer, ", dispatch ? "" : number(now), "");
    if (sim.place != OUTSIDE || model.stopped) {
        say("ck_assert_uint_eq(%s, 0);", call);
        must((dispatch ? hwt_timer_dispatch(model.timer) : hwt_timer_advance(model.timer, now)) ==
             0);
        return;
    }
    uint32_t line = say("(void)%s;", call);
    model_advance_begins(now);
    sim.last_begun = NULL;
    uint64_t runs =
        dispatch ? hwt_timer_dispatch(model.timer) : hwt_timer_advance(model.timer, now);
    if (simulate_journal)
        claim_left_over();
    if (!sim.claim[0])
        amend(line, "ck_assert_uint_eq(%s, %" PRIu64 ");", call, model.runs);
    model_advance_ends(runs);
    sim.claim[0] = '\0';
    driven();
}

/*
 * A timeout further away than 2^31 revolutions is filed again each time they are over. A leap
 * is cut where that would be more than REFILED_MAX times in all.
 */
static uint64_t leap_to(uint64_t instant)
{
    enum { REFILED_MAX = 20000 };
    uint64_t revolutions = (UINT64_C(1) << 31) * (1 + REFILED_MAX / (model.live_count + 1));
    uint64_t longest = product(product(model.tick, model.wheel), revolutions);
    return difference(instant, model.clock) < longest ? instant : model.clock + longest;
}

static void do_advance(const struct operation *op)
{
    uint64_t how = op->numbers[HOW];
    set_clock(leap_to(instant_of(op)));
    if (how & HOW_DISPATCH)
        advance(model.clock, true);
    else
        advance(how & HOW_OLDER ? difference(model.clock, op->numbers[COUNT]) : model.clock, false);
}

static void do_next_tick(void)
{
    uint64_t changes = model.changes, least, most;

    if (sim.place != OUTSIDE || model.stopped) {
        say("ck_assert_uint_eq(hwt_timer_next_tick(timer), HWT_NEVER);");
        must(hwt_timer_next_tick(model.timer) == HWT_NEVER);
        return;
    }
    uint32_t line = say("(void)hwt_timer_next_tick(timer);");
    model_filing();
    uint64_t next = hwt_timer_next_tick(model.timer);
    driven();
    if (changes != model.changes)
        return; /* by a `cancelled`: the answer may be from before or after that */
    model_next_tick(&least, &most);
    amend(line, "ck_assert_uint_le(hwt_timer_next_tick(timer), %s);", number(most));
    must(next <= most);
    if (least == most)
        amend(line, "ck_assert_uint_eq(hwt_timer_next_tick(timer), %s);", number(most));
    else
        say("ck_assert_uint_ge(hwt_timer_next_tick(timer), %s);", number(least));
    must(next >= least);
    for (size_t i = 0; i < model.count; i++) {
        const struct item *item = &model.items[i];
        expect(!item->telling || seat_of(item)->waits, "ck_assert_uint_eq(cancelled[%u], 1);",
               seat_of(item)->id);
    }
}

static void do_descriptor(void)
{
    if (sim.place != OUTSIDE || model.stopped) {
        int fd = hwt_timer_fd(model.timer);
        expect(sim.descriptor < 0 || fd == sim.descriptor,
               "ck_assert_int_eq(hwt_timer_fd(timer), descriptor);");
        return;
    }
    if (sim.descriptor >= 0)
        say("ck_assert_int_eq(hwt_timer_fd(timer), descriptor);");
    else
        say("ck_assert_int_ge(descriptor = hwt_timer_fd(timer), 0);");
    model_filing();
    int fd = hwt_timer_fd(model.timer);
    must(fd >= 0 && (sim.descriptor < 0 || fd == sim.descriptor));
    sim.descriptor = fd;
    driven();
}

/* ---- stop ---- */

/* Work that was accepted must be run: stop waits for it. */
static void finish_work(void)
{
    while (sim.work_count > 0)
        run_work(0);
}

/* Those that nothing is called for ended in silence. */
static void end_quiet_ones(void)
{
    while (!model.visiting && model.live_count > 0) {
        struct item *item = live_item(0);
        expect(!item->told, "ck_assert_uint_eq(cancelled[%u], 1);", seat_of(item)->id);
        live_remove(item);
        item->cancelled = true;
        item->ends++;
        model.left++;
    }
}

static void do_stop(const struct operation *op)
{
    const char *visitor = op->numbers[HOW] & HOW_VISITED ? "visit" : "NULL";
    uint64_t before = model.left;

    if (sim.place != OUTSIDE) {
        say("ck_assert_int_eq(hwt_timer_stop(timer, %s, NULL), -EDEADLK);", visitor);
        must(hwt_timer_stop(model.timer, NULL, NULL) == -EDEADLK);
        return;
    }
    finish_work();
    uint32_t line = say("(void)hwt_timer_stop(timer, %s, NULL);", visitor);
    model.visiting = op->numbers[HOW] & HOW_VISITED;
    model.stopping = true;
    int64_t left = hwt_timer_stop(model.timer, model.visiting ? visit : NULL, &sim);
    end_quiet_ones();
    model.stopping = false;
    model.stopped = true;
    amend(line, "ck_assert_int_eq(hwt_timer_stop(timer, %s, NULL), %" PRIu64 ");", visitor,
          model.left - before);
    must(left == (int64_t)(model.left - before));
    must(model.live_count == 0);
}

/* ---- asking ---- */

static void check_stats(void)
{
    hwt_stats stats = HWT_STATS_INIT;
    if (model.stopping && !model.visiting) /* see is_out_of_sight() */
        return;
    must(hwt_timer_stats(model.timer, &stats) == 0);

#define expect_count(name, expected)                                                               \
    expect(stats.name == (expected), "ck_assert_uint_eq(stats_of(timer)." #name ", %s);",          \
           number(expected))
    expect_count(pending, model.live_count);
    expect_count(added, model.added);
    expect_count(expired, model.expired);
    expect_count(cancelled, model.cancelled);
    expect_count(unprocessed, model.left);
    expect_count(rescheduled, model.rescheduled);
    expect_count(rejected, model.rejected);
    expect_count(wakeups, 0);
    expect_count(lateness_max, sim.lateness_max);
    expect_count(lateness_sum, sim.lateness_sum);
#undef expect_count
    for (unsigned i = 0; i < 64; i++)
        expect(stats.lateness[i] == sim.lateness[i],
               "ck_assert_uint_eq(stats_of(timer).lateness[%u], %s);", i, number(sim.lateness[i]));
}

/* What the texts say is for test_api_dump.c and test_api_metrics.c: here, that they are whole, and
 * that a dump, which may tidy up the buckets it looks at, changes nothing. */
static void check_text(void)
{
    static char text[64];
    hwt_stats stats = HWT_STATS_INIT;
    bool refused = sim.depth > 0 && sim.has_executor;

    say("ck_assert_int_%s(hwt_timer_dump(timer, NULL, 0), %s);", refused ? "eq" : "gt",
        refused ? "-EDEADLK" : "0");
    int64_t length = hwt_timer_dump(model.timer, NULL, 0);
    must(refused ? length == -EDEADLK : length > 0);
    must(hwt_timer_dump(model.timer, text, sizeof text) == length);
    must(refused || strlen(text) == sizeof text - 1);
    must(hwt_timer_stats(model.timer, &stats) == 0);
    must(hwt_stats_prometheus(&stats, NULL, 1, text, sizeof text) >= (int64_t)sizeof text);
    must(strlen(text) == sizeof text - 1);
}

static void do_start(void)
{
    bool over = model.stopping || model.stopped;
    say("ck_assert_int_eq(hwt_timer_start(timer), %s);", over ? "-ESHUTDOWN" : "0");
    must(hwt_timer_start(model.timer) == (over ? -ESHUTDOWN : 0));
}

/* Bad arguments. What they must answer is said in test_api_errors.c: they leave no line. */
static void do_nonsense(void)
{
    static const hwt_task no_run = { NULL, task_told };
    hwt_timeout zero = { NULL, 0 }, out = { NULL, 77 };

    must(hwt_timer_new_timeout(model.timer, NULL, NULL, 0, &out) == -EINVAL);
    must(hwt_timer_new_timeout_at(model.timer, &no_run, NULL, 0, &out) == -EINVAL);
    must(hwt_timer_new_timeout(NULL, &task_quiet, NULL, 0, &out) == -EINVAL);
    must(hwt_timer_new_timeout_within(model.timer, &task_quiet, NULL, 1, 0, &out) == -EINVAL);
    must(out.entry == NULL && out.generation == 77);
    must(!hwt_timeout_cancel(zero) && !hwt_timeout_cancel_sync(zero));
    must(!hwt_timeout_repeat(zero, 1));
    must(hwt_timer_stop(NULL, NULL, NULL) == -EINVAL && hwt_timer_start(NULL) == -EINVAL);
    must(hwt_timer_advance(NULL, 0) == 0 && hwt_timer_next_tick(NULL) == HWT_NEVER);
    must(hwt_timer_now(model.timer) == model.clock);
    hwt_timer_destroy(NULL);
    if (sim.place != OUTSIDE)
        hwt_timer_destroy(model.timer); /* does nothing there */
}

#endif
