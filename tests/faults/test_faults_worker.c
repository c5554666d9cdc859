/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * With a worker, on the real clock: the first thing refused that the library asks of the system,
 * then the second, and so on, as in test_faults.c; and what stands for itself: threads,
 * descriptors, a thread's number.
 */

#include "api_fixture.h"

#include <hwt/heartbeat.h>
#include <hwt/retry.h>

#include "faults.h"

enum {
    RECORDS = 1500, /* more than a slab's worth */
    CHILDREN = RECORDS / 10,
    LATEST = 12 /* ms */
};

struct record {
    hwt_timeout timeout;
    uint64_t not_before;
    _Atomic bool accepted;
    shared_count ends;
};

static struct story {
    hwt_timer *timer;
    bool may_fail;
    deferred crew;
    struct record records[RECORDS + CHILDREN]; /* the latter are added by tasks */
    shared_count accepted, refused, ended;
    shared_count broken; /* what tasks saw */
} story;

static hwt_timer *const no_timer = (hwt_timer *)&story;
static const hwt_timeout no_timeout = { (struct hwt_entry *)&story, 4711 };

static void note(bool condition)
{
    if (!condition)
        story.broken++;
}

/* ---- tasks ---- */

static void end_record(struct record *record)
{
    record->ends++;
    story.ended++;
}

static void cancel_record(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    end_record(arg);
}

static int add_record(struct record *record, uint64_t delay);

static void run_record(hwt_timeout timeout, void *arg)
{
    struct record *record = arg;
    size_t i = (size_t)(record - story.records);
    (void)timeout;
    note(monotonic() >= record->not_before);
    if (i < RECORDS && i % 10 == 5)
        add_record(&story.records[RECORDS + i / 10], HWT_MS(1));
    end_record(record);
}

static const hwt_task record_task = { run_record, cancel_record };

/* By any thread. */
static int add_record(struct record *record, uint64_t delay)
{
    hwt_timeout timeout = no_timeout;
    record->not_before = monotonic() + delay;
    int r = hwt_timer_new_timeout(story.timer, &record_task, record, delay, &timeout);
    if (r == 0) {
        record->accepted = true;
        record->timeout = timeout;
        story.accepted++;
    } else {
        note(story.may_fail && (r == -ENOMEM || r == -EAGAIN));
        note(timeout.entry == no_timeout.entry && timeout.generation == no_timeout.generation);
        story.refused++;
    }
    return r;
}

/* ---- the story's parts ---- */

static bool same_signals(const sigset_t *before)
{
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int signal = 1; signal < NSIG; signal++) {
        if (sigismember(&now, signal) != sigismember(before, signal))
            return false;
    }
    return true;
}

static void open_story(bool by_executor)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.ticks_per_wheel = 4; /* few buckets, so that they grow often */
    options.max_pending = RECORDS + CHILDREN;
    options.worker_cpu = sched_getcpu();
    if (by_executor) {
        options.executor = defer;
        options.executor_data = &story.crew;
    }
    hwt_timer *timer = no_timer;
    int r = hwt_timer_create(&options, &timer);
    if (r != 0) {
        holds((r == -ENOMEM || r == -EMFILE) && timer == no_timer);
        struct faults_held held = faults_held();
        holds(held.blocks == 0 && held.mapped == 0);
        faults_end();
        holds(hwt_timer_create(&options, &timer) == 0);
    }
    story.timer = timer;
}

static void start_story(void)
{
    sigset_t before;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    int r = hwt_timer_start(story.timer);
    holds(r == 0 || r == -EAGAIN || r == -ENOMEM);
    holds(same_signals(&before));
}

/* One in ten is far away, one in five is cancelled, as many moved to later. */
static void add_and_meddle(void)
{
    for (size_t i = 0; i < RECORDS; i++)
        add_record(&story.records[i], i % 10 == 0 ? HWT_SEC(3600) : i * 7919 % HWT_MS(LATEST));
    for (size_t i = 0; i < RECORDS; i++) {
        struct record *record = &story.records[i];
        if (record->accepted && i % 5 == 2)
            (i % 2 ? hwt_timeout_cancel : hwt_timeout_cancel_sync)(record->timeout);
        else if (record->accepted && i % 5 == 3)
            hwt_timeout_reschedule(record->timeout, HWT_MS(LATEST));
    }
}

/* Those that are not far away; their children are there before they end. */
static bool all_are_over(void)
{
    for (size_t i = 0; i < RECORDS + CHILDREN; i++) {
        const struct record *record = &story.records[i];
        if (record->accepted && record->ends == 0 && (i >= RECORDS || i % 10 != 0))
            return false;
    }
    return true;
}

static void await_all(void)
{
    uint64_t limit = monotonic() + HWT_SEC(60);
    while (!all_are_over()) {
        holds(monotonic() < limit);
        give_others_a_chance();
    }
}

/* A child's parent may have been cancelled: then it was not tried. */
static void refused_ones_come_back(void)
{
    story.may_fail = false;
    for (size_t i = 0; i < RECORDS; i++) {
        if (!story.records[i].accepted)
            holds(add_record(&story.records[i], i % 10 == 0 ? HWT_SEC(3600) : HWT_MS(1)) == 0);
    }
    await_all();
    for (size_t i = RECORDS; i < RECORDS + CHILDREN; i++) {
        if (!story.records[i].accepted)
            holds(add_record(&story.records[i], 0) == 0);
    }
    await_all();
}

static void check_counters(void)
{
    hwt_stats stats = HWT_STATS_INIT;
    holds(hwt_timer_stats(story.timer, &stats) == 0);
    holds(stats.added == story.accepted && stats.rejected == story.refused);
    holds(stats.pending == RECORDS / 10);
}

static void close_story(bool by_executor)
{
    holds(hwt_timer_stop(story.timer, NULL, NULL) == RECORDS / 10);
    hwt_timer_destroy(story.timer);
    for (size_t i = 0; i < RECORDS + CHILDREN; i++)
        holds(story.records[i].accepted && story.records[i].ends == 1);
    holds(story.broken == 0);
    if (by_executor)
        deferred_close(&story.crew);
}

static uint64_t tell(struct faults_plan plan, bool by_executor)
{
    struct census before = census();
    memset(&story, 0, sizeof(story));
    story.may_fail = true;
    if (by_executor) {
        deferred_open(&story.crew);
        crew_begin(&story.crew, 2);
    }
    faults_watch();
    faults_begin(plan);
    open_story(by_executor);
    start_story();
    add_and_meddle();
    await_all();
    uint64_t refused = faults_end();

    refused_ones_come_back();
    check_counters();
    close_story(by_executor);
    struct faults_held held = faults_held();
    holds(held.blocks == 0 && held.mapped == 0);
    holds(await_census(before));
    return refused;
}

static const struct faults_plan plans[] = {
    { .kinds = FAULTS_ALL, .reach = FAULTS_ONE },
    { .kinds = FAULTS_ALL, .reach = FAULTS_FROM_THERE_ON },
    { .kinds = FAULTS_ALL, .reach = FAULTS_EVERY_OTHER },
    { .kinds = FAULTS_THREAD | FAULTS_AFFINITY | FAULTS_NUMBER, .reach = FAULTS_FROM_THERE_ON },
};

enum { PLANS = sizeof(plans) / sizeof(plans[0]) };

/* Each loop: a plan, with an executor and without. */
START_TEST(whatever_is_refused_nothing_is_lost)
{
    struct faults_plan plan = plans[_i % PLANS];
    faults_tell_all(tell, plan, _i / PLANS, plan.kinds == FAULTS_ALL ? 40 : 3);
}
END_TEST

/* ---- one kind alone ---- */

START_TEST(the_reason_why_there_is_no_descriptor_is_handed_on)
{
    static const int reasons[] = { EMFILE, ENFILE, ENOMEM };
    hwt_options loop = HWT_OPTIONS_INIT;
    loop.flags = HWT_NO_WORKER;
    struct faults_plan plan = { .kinds = FAULTS_DESCRIPTOR,
                                .nth = 1,
                                .descriptor_error = reasons[_i] };
    hwt_timer *timer = create(&loop); /* asks for none yet */
    faults_begin(plan);
    ck_assert_int_eq(hwt_timer_fd(timer), -reasons[_i]);
    int fd = hwt_timer_fd(timer);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(hwt_timer_fd(timer), fd);
    faults_end();
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(a_worker_that_cannot_be_pinned_is_not_started)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.worker_cpu = sched_getcpu();
    hwt_timer *timer = create(&options);
    struct census before = census();
    faults_begin((struct faults_plan){ FAULTS_AFFINITY, FAULTS_ONE, 1, 0 });
    ck_assert_int_lt(hwt_timer_start(timer), 0);
    ck_assert(await_census(before));
    ck_assert_int_eq(hwt_timer_start(timer), 0);
    ck_assert_int_eq(census().threads, before.threads + 1);
    faults_end();
    hwt_timer_destroy(timer);
}
END_TEST

static void never_beat(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count,
                       void *arg)
{
    (void)heartbeat, (void)event, (void)count, (void)arg;
    story.broken++;
}

static void never_attempt(hwt_retry *retry, uint64_t attempt, void *arg)
{
    (void)retry, (void)attempt, (void)arg;
    story.broken++;
}

static void end_retry(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    (void)retry, (void)end;
    ++*(shared_count *)arg;
}

START_TEST(without_a_thread_heartbeats_and_retries_do_not_start)
{
    static const hwt_heartbeat_rules rules = { .dead = HWT_SEC(3600), .notify = never_beat };
    static const hwt_retry_task task = { never_attempt, end_retry };
    hwt_heartbeat heartbeat = { 0 };
    hwt_retry retry = { 0 };
    shared_count ends_told = 0;
    hwt_timer *timer = create_ticking(HWT_SEC(1000)); /* the retry is cancelled before its tick */
    faults_begin((struct faults_plan){ FAULTS_THREAD, FAULTS_FROM_THERE_ON, 1, 0 });
    holds(hwt_heartbeat_start(&heartbeat, timer, &rules, NULL) == -EAGAIN);
    holds(hwt_retry_start(&retry, timer, NULL, &task, &ends_told) == -EAGAIN);
    ck_assert_uint_eq(faults_end(), 2);
    ck_assert(!hwt_heartbeat_stop(&heartbeat) && !hwt_retry_cancel(&retry));
    ck_assert_int_eq(hwt_heartbeat_start(&heartbeat, timer, &rules, NULL), 0);
    ck_assert_int_eq(hwt_retry_start(&retry, timer, NULL, &task, &ends_told), 0);
    ck_assert(hwt_heartbeat_stop_sync(&heartbeat) && hwt_retry_cancel(&retry));
    hwt_timer_destroy(timer);
    ck_assert(story.broken == 0 && ends_told == 1);
}
END_TEST

enum { NAMELESS = 20, THEIRS = 3000 };

struct nameless {
    hwt_timer *timer;
    ends ends;
    uint64_t cancels; /* that were true */
};

static void *add_without_number(void *data)
{
    struct nameless *n = data;
    for (int i = 0; i < THEIRS; i++) {
        hwt_timeout timeout = no_timeout;
        int r = hwt_timer_new_timeout(n->timer, &counting, &n->ends, HWT_MS(i % 5), &timeout);
        note(r == 0);
        n->cancels += r == 0 && i % 3 == 0 && hwt_timeout_cancel(timeout);
    }
    return NULL;
}

START_TEST(a_thread_whose_number_cannot_be_kept_adds_and_cancels_as_any)
{
    static struct nameless all[NAMELESS];
    pthread_t threads[NAMELESS];
    hwt_timer *timer = create_ticking(HWT_MS(1));
    ck_assert_int_eq(hwt_timer_start(timer), 0);
    faults_begin((struct faults_plan){ FAULTS_NUMBER, FAULTS_FROM_THERE_ON, 1, 0 });
    for (int i = 0; i < NAMELESS; i++) {
        all[i].timer = timer;
        threads[i] = spawn(add_without_number, &all[i]);
    }
    for (int i = 0; i < NAMELESS; i++)
        join(threads[i]);
    ck_assert_uint_ge(faults_end(), NAMELESS);
    for (int i = 0; i < NAMELESS; i++) {
        ck_assert(await_count(&all[i].ends.cancelled, all[i].cancels));
        ck_assert(await_count(&all[i].ends.runs, THEIRS - all[i].cancels));
    }
    hwt_timer_destroy(timer);
    for (int i = 0; i < NAMELESS; i++)
        ck_assert_uint_eq(ends_sum(&all[i].ends), THEIRS);
    ck_assert_uint_eq(story.broken, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("faults: with a worker");
    TCase *all = add_case(suite, "all");
    tcase_add_loop_test(all, whatever_is_refused_nothing_is_lost, 0, 2 * PLANS);
    TCase *alone = add_case(suite, "alone");
    tcase_add_loop_test(alone, the_reason_why_there_is_no_descriptor_is_handed_on, 0, 3);
    tcase_add_test(alone, a_worker_that_cannot_be_pinned_is_not_started);
    tcase_add_test(alone, without_a_thread_heartbeats_and_retries_do_not_start);
    tcase_add_test(alone, a_thread_whose_number_cannot_be_kept_adds_and_cancels_as_any);
    return run_suite(suite);
}
