/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One story on a clock that is set, which goes through the whole of the public header, told
 * over and over: with the first thing refused that the library asks of the system, with the second,
 * and so on until a telling has none left to refuse. See faults.h.
 *
 * In each telling a call that fails says why and touches nothing, what was accepted comes
 * in its tick and ends once, what was refused is accepted when there is memory again, and nothing
 * is held after the end.
 */

#include "api_fixture.h"

#include <hwt/heartbeat.h>
#include <hwt/retry.h>

#include "hwt/base/pieces.h"

#include "faults.h"

#define TICK HWT_MS(1)

enum {
    WHEEL = 4,      /* few buckets, so that they grow often */
    RECORDS = 1600, /* more than a slab's worth */
    LATEST = 1000,  /* ticks; of many rounds */
    PERIOD = 7,     /* ticks */
    HELPERS = 2     /* a heartbeat and a retry */
};

struct record {
    hwt_timeout timeout;
    uint64_t earliest, latest; /* instants of its deadline */
    uint64_t repeats;          /* runs that are still to re-arm it */
    bool accepted;
    uint64_t ends;
};

static struct story {
    hwt_timer *timer;
    bool by_executor;
    bool may_fail; /* something may be refused */
    bool beating, retrying;
    uint64_t now, accepted, refused;
    uint64_t visited;
    struct record records[RECORDS];
    hwt_heartbeat heartbeat;
    hwt_retry retry;
    uint64_t beats, attempts, retry_ends;
} story;

static hwt_timer *const no_timer = (hwt_timer *)&story;
static const hwt_timeout no_timeout = { (struct hwt_entry *)&story, 4711 };

/* ---- tasks ---- */

static void run_record(hwt_timeout timeout, void *arg)
{
    struct record *record = arg;
    holds(story.now >= due_at(record->earliest, TICK) && story.now <= due_at(record->latest, TICK));
    if (record->repeats == 0) {
        record->ends++;
        return;
    }
    record->repeats--;
    record->earliest = record->latest += PERIOD * TICK;
    holds(hwt_timeout_repeat(timeout, PERIOD * TICK));
}

static void end_record(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    ((struct record *)arg)->ends++;
}

static const hwt_task record_task = { run_record, end_record };

/* From now until then. */
static uint64_t until(uint64_t instant)
{
    return instant == HWT_NEVER ? HWT_NEVER : instant > story.now ? instant - story.now : 0;
}

static void visit(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    struct record *record = arg;
    holds(task == &record_task && data == &story);
    holds(remaining >= until(record->earliest) && remaining <= until(record->latest));
    record->ends++;
    story.visited++;
}

static void beat(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count, void *arg)
{
    holds(event == HWT_HEARTBEAT_SEND && count == 1 && arg == &story);
    story.beats++;
    hwt_heartbeat_written(heartbeat);
    hwt_heartbeat_read(heartbeat);
}

static void attempt(hwt_retry *retry, uint64_t number, void *arg)
{
    holds(arg == &story);
    story.attempts++;
    holds(hwt_retry_failed(retry, number));
}

static void retry_ended(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    (void)retry;
    holds(arg == &story && end == HWT_RETRY_EXHAUSTED);
    story.retry_ends++;
}

/* ---- an executor that needs nothing, and refuses now and then ---- */

static struct {
    work_item items[RECORDS + HELPERS];
    size_t count, offered;
} shelf;

static int put_on_shelf(void *data, void (*work)(void *), void *arg)
{
    (void)data;
    if (++shelf.offered % 7 == 0)
        return -1;
    shelf.items[shelf.count++] = (work_item){ work, arg };
    return 0;
}

static void clear_shelf(void)
{
    for (size_t i = 0; i < shelf.count; i++)
        shelf.items[i].work(shelf.items[i].arg);
    shelf.count = 0;
}

/* ---- the story's parts ---- */

static uint64_t story_clock(void *data)
{
    return ((struct story *)data)->now;
}

static hwt_options story_options(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.ticks_per_wheel = WHEEL;
    options.flags = HWT_NO_WORKER;
    options.max_pending = RECORDS + HELPERS;
    options.clock = story_clock;
    options.clock_data = &story;
    if (story.by_executor)
        options.executor = put_on_shelf;
    return options;
}

/* What this telling began with is made good once the failure was seen. */
static void open_story(void)
{
    hwt_options options = story_options();
    hwt_timer *timer = no_timer;
    int r = hwt_timer_create(&options, &timer);
    if (r != 0) {
        holds(story.may_fail && r == -ENOMEM && timer == no_timer);
        struct faults_held held = faults_held();
        holds(held.blocks == 0 && held.mapped == 0);
        faults_end();
        holds(hwt_timer_create(&options, &timer) == 0);
    }
    story.timer = timer;
    holds(hwt_timer_start(timer) == 0);
}

static int add_by(size_t i, struct record *record)
{
    uint64_t at = record->earliest, delay = at - story.now, width = record->latest - at;
    switch (i % 3) {
    case 0:
        return hwt_timer_new_timeout(story.timer, &record_task, record, delay, &record->timeout);
    case 1:
        return hwt_timer_new_timeout_within(story.timer, &record_task, record, delay, delay + width,
                                            &record->timeout);
    default:
        return hwt_timer_new_timeout_at(story.timer, &record_task, record, at, &record->timeout);
    }
}

/* Some are due soon, some late, some never; 3 of 4 are to be cancelled, moved or repeated. */
static void add_record(size_t i)
{
    struct record *record = &story.records[i];
    uint64_t ticks = i % 3 == 0 ? i % 50 : i * 7919 % LATEST;
    *record = (struct record){ .timeout = no_timeout, .repeats = i % 16 == 12 ? 5 : 0 };
    record->earliest = i % 100 == 99 ? HWT_NEVER : story.now + ticks * TICK + i;
    record->latest = record->earliest + (i % 4 == 1 || i % 4 == 2 ? 20 * TICK : 0);
    int r = add_by(i, record);
    record->accepted = r == 0;
    story.accepted += record->accepted;
    story.refused += !record->accepted;
    holds(r == 0 || (story.may_fail && r == -ENOMEM && record->timeout.entry == no_timeout.entry &&
                     record->timeout.generation == no_timeout.generation));
}

static void start_heartbeat(void)
{
    static const hwt_heartbeat_rules rules = { .send = HWT_MS(20), .notify = beat };
    int r = hwt_heartbeat_start(&story.heartbeat, story.timer, &rules, &story);
    story.beating = r == 0;
    story.accepted += story.beating;
    story.refused += !story.beating;
    holds(r == 0 || (story.may_fail && r == -ENOMEM && !hwt_heartbeat_stop(&story.heartbeat)));
}

static void start_retry(void)
{
    static const hwt_retry_task task = { attempt, retry_ended };
    hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
    options.max_attempts = 3;
    options.max_delay = options.first_delay;
    options.seed = 1;
    int r = hwt_retry_start(&story.retry, story.timer, &options, &task, &story);
    story.retrying = r == 0;
    story.accepted += story.retrying;
    story.refused += !story.retrying;
    holds(r == 0 || (story.may_fail && r == -ENOMEM && !hwt_retry_cancel(&story.retry)));
}

/* Those that are to be cancelled, and those that are to be moved, half of them to earlier. */
static void meddle_with(size_t i)
{
    struct record *record = &story.records[i];
    if (!record->accepted || record->ends > 0 || record->repeats > 0)
        return;
    holds(hwt_timeout_state(record->timeout) == HWT_PENDING);
    if (i % 16 == 1 || i % 16 == 8)
        holds(hwt_timeout_cancel(record->timeout));
    else if (i % 16 == 4)
        holds(hwt_timeout_cancel_sync(record->timeout));
    else if (i % 4 == 3 && record->latest != HWT_NEVER) {
        uint64_t delay = i % 8 == 3 ? i % 100 * TICK : record->latest - story.now + 40 * TICK;
        record->earliest = record->latest = story.now + delay;
        holds(hwt_timeout_reschedule(record->timeout, delay));
        holds(hwt_timeout_remaining(record->timeout) == delay);
    }
}

static void open_descriptor(void)
{
    int fd = hwt_timer_fd(story.timer);
    holds(fd >= 0 || (story.may_fail && fd == -EMFILE));
}

/* Tick by tick, so that what runs too late is seen. */
static void advance_by(uint64_t ticks)
{
    for (uint64_t i = 0; i < ticks; i++) {
        story.now += TICK;
        if (i % 8 == 0)
            hwt_timer_next_tick(story.timer);
        clear_shelf();
        if (i % 2 == 0)
            hwt_timer_dispatch(story.timer);
        else
            hwt_timer_advance(story.timer, story.now);
        clear_shelf();
    }
}

static void refused_ones_come_back(void)
{
    story.may_fail = false;
    for (size_t i = 0; i < RECORDS; i++) {
        if (!story.records[i].accepted)
            add_record(i);
    }
    if (!story.beating)
        start_heartbeat();
    if (!story.retrying)
        start_retry();
    open_descriptor();
}

static void check_counters(void)
{
    hwt_stats stats = HWT_STATS_INIT;
    struct faults_held held = faults_held();
    uint64_t ended = 0;
    holds(hwt_timer_stats(story.timer, &stats) == 0);
    for (size_t i = 0; i < RECORDS; i++)
        ended += story.records[i].ends;
    holds(stats.added == story.accepted && stats.rejected == story.refused);
    holds(stats.pending == story.accepted - ended - story.retry_ends);
    holds(stats.pending == hwt_timer_pending(story.timer));
    /* Of the list of lanes, which is mapped for all threads, one page is used; of the pieces, which
     * are mapped for many, those are told that were taken once. */
    const uint64_t spares = 5 * HWT_PIECES_REGION + 5 * 32 * 1024;
    uint64_t mapped = held.bytes + held.mapped - 8194 * sizeof(void *) + 4096;
    holds(stats.memory + spares >= mapped && stats.memory <= mapped + spares);
}

/* What looks inside asks for nothing. */
static void look_inside(void)
{
    char text[512];
    hwt_stats stats = HWT_STATS_INIT;
    holds(hwt_timer_dump(story.timer, text, sizeof(text)) > 0);
    holds(hwt_timer_stats(story.timer, &stats) == 0);
    holds(hwt_stats_prometheus(&stats, NULL, 1, text, sizeof(text)) > 0);
}

static void close_story(bool with_visitor)
{
    uint64_t pending = hwt_timer_pending(story.timer);
    int64_t left = hwt_timer_stop(story.timer, with_visitor ? visit : NULL, &story);
    holds(left >= 0 && (uint64_t)left == pending);
    holds(story.visited == (with_visitor ? pending : 0));
    holds(hwt_timer_new_timeout(story.timer, &record_task, NULL, 0, NULL) == -ESHUTDOWN);
    holds(hwt_timer_start(story.timer) == -ESHUTDOWN);
    hwt_timer_destroy(story.timer);
    for (size_t i = 0; i < RECORDS; i++)
        holds(story.records[i].accepted && story.records[i].ends == 1);
    holds(story.attempts == 3 && story.retry_ends == 1);
}

/* Returns how much was refused. */
static uint64_t tell(struct faults_plan plan, bool by_executor)
{
    struct census before = census();
    memset(&story, 0, sizeof(story));
    story.by_executor = by_executor;
    story.may_fail = true;
    faults_watch();
    faults_begin(plan);
    open_story();
    open_descriptor();
    for (size_t i = 0; i < RECORDS / 2; i++)
        add_record(i);
    start_heartbeat();
    start_retry();
    advance_by(10);
    for (size_t i = RECORDS / 2; i < RECORDS; i++)
        add_record(i);
    for (size_t i = 0; i < RECORDS; i++)
        meddle_with(i);
    advance_by(200);
    look_inside();
    uint64_t refused = faults_end();

    refused_ones_come_back();
    advance_by(250);
    check_counters();
    holds(story.beats > 0 && hwt_heartbeat_stop(&story.heartbeat));
    close_story(plan.nth % 2);
    struct faults_held held = faults_held();
    holds(held.blocks == 0 && held.mapped == 0 && await_census(before));
    return refused;
}

/* ---- the tellings ---- */

static const struct faults_plan plans[] = {
    { .kinds = FAULTS_ALL, .reach = FAULTS_ONE },
    { .kinds = FAULTS_ALL, .reach = FAULTS_FROM_THERE_ON },
    { .kinds = FAULTS_ALL, .reach = FAULTS_EVERY_OTHER },
    { .kinds = FAULTS_MEMORY, .reach = FAULTS_FROM_THERE_ON },
    { .kinds = FAULTS_MAPPING, .reach = FAULTS_FROM_THERE_ON },
};

enum { PLANS = sizeof(plans) / sizeof(plans[0]) };

/* Each loop: a plan, with an executor and without. */
START_TEST(whatever_is_refused_nothing_is_lost)
{
    struct faults_plan plan = plans[_i % PLANS];
    faults_tell_all(tell, plan, _i / PLANS, plan.kinds == FAULTS_MAPPING ? 1 : 60);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("faults");
    TCase *tcase = add_case(suite, "one thread");
    tcase_add_loop_test(tcase, whatever_is_refused_nothing_is_lost, 0, 2 * PLANS);
    return run_suite(suite);
}
