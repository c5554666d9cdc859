/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * HWT_ONE_THREAD, with HWT_NO_WORKER: one thread at a time makes all calls on the timer and its
 * handles. Everything else is as without it: the same calls, the same answers, in the same order. So
 * each story is told twice, to a timer with the flag and to one without, and what was
 * written down is compared; model_timer and simulate do so at random, beside an oracle.
 */

#include <stdarg.h>

#include "api_fixture.h"
#include "one_thread.h"

enum { LINES = 400, STORY = 120 };

/* ---- what is written down ---- */

typedef struct chronicle {
    char lines[LINES][STORY];
    size_t count;
} chronicle;

static chronicle told[2], *now_told;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void note(const char *format, ...)
{
    va_list args;
    must(now_told->count < LINES);
    va_start(args, format);
    vsnprintf(now_told->lines[now_told->count++], STORY, format, args);
    va_end(args);
}

static void assert_same(void)
{
    for (size_t i = 0; i < told[0].count && i < told[1].count; i++)
        ck_assert_str_eq(told[0].lines[i], told[1].lines[i]);
    ck_assert_uint_eq(told[0].count, told[1].count);
    ck_assert_uint_gt(told[0].count, 3);
}

/* ---- the timer of a story, and its timeouts, which have names ---- */

static manual m;

typedef struct character {
    const char *name;
    const char *does; /* in its run: r reschedule, p repeat, c cancel, s and wait,
                         * o cancel the other, m move it */
    hwt_timeout timeout, other;
    unsigned runs, told;
} character;

static uint64_t cancels_told;

static void act(hwt_timeout timeout, character *c, char what)
{
    switch (what) {
    case 'r':
        note("%s reschedules: %d", c->name, hwt_timeout_reschedule(timeout, HWT_MS(7)));
        break;
    case 'p':
        note("%s repeats: %d", c->name, hwt_timeout_repeat(timeout, HWT_MS(3)));
        break;
    case 'c':
        note("%s cancels itself: %d", c->name, hwt_timeout_cancel(timeout));
        break;
    case 's':
        note("%s cancels itself and waits: %d", c->name, hwt_timeout_cancel_sync(timeout));
        break;
    case 'o':
        note("%s cancels another: %d", c->name, hwt_timeout_cancel(c->other));
        break;
    default:
        note("%s moves another: %d", c->name, hwt_timeout_reschedule(c->other, 0));
        break;
    }
}

static void act_run(hwt_timeout timeout, void *arg)
{
    character *c = arg;
    note("%s runs at %" PRIu64 ", state %d, pending %" PRIu64, c->name, m.now - m.start,
         hwt_timeout_state(timeout), hwt_timer_pending(m.timer));
    for (const char *what = c->runs++ < 2 ? c->does : ""; *what; what++)
        act(timeout, c, *what);
    note("%s inside: advance %" PRIu64 ", next %d, stop %d", c->name,
         hwt_timer_advance(m.timer, HWT_NEVER - 1), hwt_timer_next_tick(m.timer) == HWT_NEVER,
         (int)hwt_timer_stop(m.timer, NULL, NULL));
}

/* When it is told, within a tick, may differ. */
static void act_cancelled(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    ((character *)arg)->told++;
    cancels_told++;
}

static const hwt_task acting = { act_run, act_cancelled };

static void enter(character *c, const char *name, uint64_t delay, const char *does)
{
    *c = (character){ .name = name, .does = does };
    int r = hwt_timer_new_timeout(m.timer, &acting, c, delay, &c->timeout);
    note("%s enters: %d, state %d, remaining %" PRIu64, name, r, hwt_timeout_state(c->timeout),
         hwt_timeout_remaining(c->timeout));
}

static void go(uint64_t to)
{
    uint64_t ran = manual_go(&m, to);
    note("at %" PRIu64 ": %" PRIu64 " ran, %" PRIu64 " pending", to, ran,
         hwt_timer_pending(m.timer));
}

/* ---- stories ---- */

static void story_of_deeds(void)
{
    static const char *const deeds[] = { "", "r", "p", "c", "s", "rc", "cr", "pp", "sr", "rs" };
    static character c[10];
    for (size_t i = 0; i < 10; i++)
        enter(&c[i], (const char *[]){ "a", "b", "c", "d", "e", "f", "g", "h", "i", "j" }[i],
              HWT_MS(i / 2), deeds[i]);
    for (uint64_t t = 1; t < 30; t++)
        go(HWT_MS(t));
}

static void story_of_siblings(void)
{
    static character a, b, c, d;
    enter(&a, "first", HWT_MS(5), "om");
    enter(&b, "second", HWT_MS(5), "");
    enter(&c, "third", HWT_MS(5), "o");
    enter(&d, "fourth", HWT_MS(50), "");
    a.other = b.timeout;
    c.other = d.timeout;
    go(HWT_MS(6));
    go(HWT_MS(60));
}

static void story_of_moves(void)
{
    static character c[4];
    enter(&c[0], "later", HWT_MS(5), "");
    enter(&c[1], "earlier", HWT_SEC(5), "");
    enter(&c[2], "never", HWT_NEVER, "");
    enter(&c[3], "far", HWT_SEC(5000), "");
    note("moves: %d %d %d %d", hwt_timeout_reschedule(c[0].timeout, HWT_MS(90)),
         hwt_timeout_reschedule(c[1].timeout, HWT_MS(4)),
         hwt_timeout_reschedule(c[2].timeout, HWT_MS(70)),
         hwt_timeout_reschedule_at(c[3].timeout, 0));
    for (uint64_t t = 0; t < 100; t += 5)
        note("at %" PRIu64 ": %" PRIu64, t, manual_go(&m, HWT_MS(t)));
    note("moved after the end: %d", hwt_timeout_reschedule(c[0].timeout, 0));
    note("cancelled after the end: %d %d", hwt_timeout_cancel(c[1].timeout),
         hwt_timeout_cancel_sync(c[3].timeout));
}

static void story_of_cancels(void)
{
    static character c[6];
    for (size_t i = 0; i < 6; i++)
        enter(&c[i], (const char *[]){ "u", "v", "w", "x", "y", "z" }[i], HWT_MS(10 * i), "");
    note("cancels: %d", hwt_timeout_cancel(c[1].timeout));
    note("again: %d", hwt_timeout_cancel(c[1].timeout));
    note("and waits: %d", hwt_timeout_cancel_sync(c[2].timeout));
    note("next: %" PRIu64, hwt_timer_next_tick(m.timer));
    note("told: %u %u %u", c[0].told, c[1].told, c[2].told); /* by next_tick */
    go(HWT_MS(5));
    note("a late one: %d", hwt_timeout_cancel(c[3].timeout));
    go(HWT_MS(35));
    note("a gone one: %d", hwt_timeout_cancel((hwt_timeout){ NULL, 0 }));
    go(HWT_SEC(1));
}

static void visit_character(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    (void)task, (void)data;
    note("%s is visited, %" PRIu64 " remain", ((character *)arg)->name, remaining);
}

static void story_of_stop(void)
{
    static character c[3];
    enter(&c[0], "due", 0, "");
    enter(&c[1], "soon", HWT_MS(9), "");
    enter(&c[2], "never", HWT_NEVER, "");
    note("cancels: %d", hwt_timeout_cancel(c[1].timeout));
    note("stop: %" PRId64, hwt_timer_stop(m.timer, visit_character, NULL));
    note("stop: %" PRId64, hwt_timer_stop(m.timer, visit_character, NULL));
    note("add: %d", hwt_timer_new_timeout(m.timer, &acting, &c[0], 0, NULL));
    go(HWT_SEC(1));
}

/* After the stop of the story; a NULL visitor. */
static void story_of_destroy(void)
{
    static character c[2];
    enter(&c[0], "left", HWT_MS(4), "");
    enter(&c[1], "left too", HWT_SEC(4), "");
    note("fd again: %d", hwt_timer_fd(m.timer) == hwt_timer_fd(m.timer));
    note("stop: %" PRId64, hwt_timer_stop(m.timer, NULL, NULL));
}

static void story_of_limits(void)
{
    static character c[70];
    for (size_t i = 0; i < 70; i++)
        enter(&c[i], "one of many", HWT_MS(i % 9), i % 3 ? "" : "p");
    for (size_t i = 0; i < 70; i += 2)
        note("cancel: %d", hwt_timeout_cancel(c[i].timeout));
    for (size_t i = 0; i < 20; i++)
        enter(&c[i], "another", HWT_MS(4), "");
    go(HWT_MS(20));
    hwt_stats s = stats_of(m.timer);
    note("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, s.pending, s.added,
         s.expired, s.cancelled, s.rescheduled, s.rejected);
}

static void (*const stories[])(void) = { story_of_deeds,   story_of_siblings, story_of_moves,
                                         story_of_cancels, story_of_stop,     story_of_destroy,
                                         story_of_limits };

enum { STORIES = sizeof(stories) / sizeof(stories[0]) };

static void tell(void (*story)(void), uint32_t flags, uint64_t limit, chronicle *to)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.ticks_per_wheel = 8;
    options.flags = flags;
    options.max_pending = limit;
    to->count = 0;
    now_told = to;
    cancels_told = 0;
    manual_open_with(&m, HWT_SEC(3), options);
    story();
    manual_close(&m);
    note("told cancelled: %" PRIu64, cancels_told);
}

START_TEST(one_thread_changes_no_answer)
{
    uint64_t limit = stories[_i] == story_of_limits ? 50 : 0;
    tell(stories[_i], HWT_NO_WORKER, limit, &told[0]);
    tell(stories[_i], HWT_NO_WORKER | HWT_ONE_THREAD, limit, &told[1]);
    assert_same();
}
END_TEST

/* ---- the flag ---- */

START_TEST(the_flag_needs_the_other_one)
{
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = NULL;
    options.flags = HWT_ONE_THREAD;
    ck_assert_int_eq(hwt_timer_create(&options, &timer), -EINVAL);
    ck_assert_ptr_null(timer);
    options.flags = HWT_ONE_THREAD | HWT_NO_WORKER;
    ck_assert_int_eq(hwt_timer_create(&options, &timer), 0);
    ck_assert_int_eq(hwt_timer_start(timer), 0);
    hwt_timer_destroy(timer);
    options.flags = HWT_ONE_THREAD | HWT_NO_WORKER | UINT32_C(8);
    ck_assert_int_eq(hwt_timer_create(&options, &timer), -EINVAL);
}
END_TEST

/* ---- an event loop on the real clock ---- */

START_TEST(a_loop_of_one_thread_sleeps_on_the_descriptor)
{
    ends e = { 0 };
    hwt_timer *timer = create_driven(HWT_ONE_THREAD, HWT_MS(1));
    int fd = hwt_timer_fd(timer);
    ck_assert_int_ge(fd, 0);
    ck_assert(!readable(fd, 10));
    arm(timer, &counting, &e, HWT_SEC(3600));
    for (uint64_t i = 0; i < 50; i++)
        arm(timer, &counting, &e, HWT_MS(i));
    uint64_t turns = 0;
    for (; e.runs < 50; turns++) {
        ck_assert(readable(fd, 20000));
        hwt_timer_dispatch(timer);
    }
    ck_assert_uint_le(turns, 400); /* it does not spin */
    ck_assert(!readable(fd, 0));
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(e.cancelled, 1);
}
END_TEST

/* What changes between two dispatches is told by the descriptor, though nobody dispatched since. */
START_TEST(the_descriptor_tells_what_was_added_moved_and_cancelled_since)
{
    ends e = { 0 };
    hwt_timer *timer = create_driven(HWT_ONE_THREAD, HWT_MS(1));
    int fd = hwt_timer_fd(timer);
    hwt_timeout far = arm(timer, &counting, &e, HWT_SEC(3600));
    hwt_timeout away = arm(timer, &counting, &e, HWT_SEC(3600));
    (void)hwt_timer_next_tick(timer);
    ck_assert(hwt_timeout_reschedule(far, HWT_MS(2)));
    while (e.runs < 1) {
        ck_assert(readable(fd, 20000));
        hwt_timer_dispatch(timer);
    }
    arm(timer, &counting, &e, HWT_MS(2));
    while (e.runs < 2) {
        ck_assert(readable(fd, 20000));
        hwt_timer_dispatch(timer);
    }
    ck_assert(hwt_timeout_cancel(away));
    while (e.cancelled < 1) {
        ck_assert(readable(fd, 20000));
        hwt_timer_dispatch(timer);
    }
    if (readable(fd, 20))
        hwt_timer_dispatch(timer); /* once more may be, but it does not spin */
    ck_assert(!readable(fd, 20));
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- one thread at a time, but not always the same ---- */

typedef struct baton {
    hwt_timer *timer;
    ends ends;
    uint64_t added;
    uint64_t turn; /* of the thread that has it; each is joined before the next one starts */
} baton;

static void *take_turn(void *data)
{
    baton *b = data;
    for (uint64_t i = 0; i < 100; i++) {
        hwt_timeout timeout = { NULL, 0 };
        must(hwt_timer_new_timeout(b->timer, &counting, &b->ends, HWT_MS(i % 5), &timeout) == 0);
        b->added++;
        if (i % 3 == 0)
            must(hwt_timeout_cancel(timeout));
        if (i % 3 == 1)
            must(hwt_timeout_reschedule(timeout, HWT_MS(b->turn % 7)));
    }
    hwt_timer_dispatch(b->timer);
    b->turn++;
    return NULL;
}

START_TEST(threads_may_take_turns)
{
    baton b = { .timer = create_driven(HWT_ONE_THREAD, HWT_MS(1)) };
    for (int i = 0; i < 200; i++)
        join(spawn(take_turn, &b));
    int64_t left = hwt_timer_stop(b.timer, count_visit, NULL);
    ck_assert_int_eq(left, (int64_t)b.ends.visited);
    ck_assert_uint_eq(ends_sum(&b.ends), b.added);
    hwt_timer_destroy(b.timer);
}
END_TEST

/* Two timers of two threads have nothing to do with each other. */
static void *use_own(void *data)
{
    baton b = { .timer = data };
    for (int i = 0; i < 200; i++)
        (void)take_turn(&b);
    (void)hwt_timer_stop(b.timer, NULL, NULL);
    must(ends_sum(&b.ends) == b.added);
    return NULL;
}

START_TEST(each_thread_may_have_its_own)
{
    enum { THREADS = 4 };
    hwt_timer *timers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        timers[i] = create_driven(HWT_ONE_THREAD, HWT_MS(1));
        threads[i] = spawn(use_own, timers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        join(threads[i]);
        hwt_timer_destroy(timers[i]);
    }
}
END_TEST

/* ---- an executor whose work runs on the same thread ---- */

static void open_with_executor(deferred *d)
{
    hwt_options options = HWT_OPTIONS_INIT;
    deferred_open(d);
    options.tick_duration = HWT_MS(1);
    options.flags = HWT_ONE_THREAD;
    options.executor = defer;
    options.executor_data = d;
    manual_open_with(&m, 0, options);
}

START_TEST(an_executor_may_put_work_off_on_the_same_thread)
{
    ends e = { 0 };
    deferred d;
    open_with_executor(&d);
    for (int i = 0; i < 100; i++)
        arm(m.timer, &counting, &e, HWT_MS(i % 4));
    ck_assert_uint_eq(manual_go(&m, HWT_MS(9)), 100);
    ck_assert_uint_eq(e.runs, 0);
    run_deferred(&d);
    ck_assert_uint_eq(e.runs, 100);
    manual_close(&m);
    deferred_close(&d);
}
END_TEST

/* The executor has it, so the timer has nothing to do for it. */
START_TEST(what_was_handed_over_is_not_due_again_when_it_is_moved)
{
    ends e = { 0 };
    deferred d;
    open_with_executor(&d);
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(3));
    ck_assert_uint_eq(manual_go(&m, HWT_MS(9)), 1);
    ck_assert(hwt_timeout_reschedule_at(timeout, m.start));
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_NEVER);
    run_deferred(&d);
    ck_assert_uint_eq(e.runs, 1);
    manual_close(&m);
    deferred_close(&d);
}
END_TEST

static void open_manual(uint32_t flags)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.flags = flags;
    manual_open_with(&m, 0, options);
}

/* After a pass that was cut short: what is overdue keeps its turn, though it is moved. */
START_TEST(what_is_overdue_and_moved_runs_in_the_pass_that_goes_on)
{
    ends e = { 0 };
    open_manual(_i ? HWT_ONE_THREAD : 0);
    arm(m.timer, &counting, &e, HWT_MS(3));
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(5));
    atomic_store(&m.now, m.start + HWT_MS(10));
    ck_assert_uint_eq(hwt_timer_advance_some(m.timer, m.start + HWT_MS(10), 1), 1);
    ck_assert(hwt_timeout_reschedule_at(timeout, m.start + HWT_MS(4)));
    ck_assert_uint_eq(hwt_timer_advance_some(m.timer, m.start + HWT_MS(10), 1), 1);
    ck_assert_uint_eq(e.runs, 2);
    manual_close(&m);
}
END_TEST

static void add_overdue(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    arm(m.timer, &counting, arg, 0);
}

/* Neither in the pass that tells of a cancel runs what is added then. */
START_TEST(what_a_cancelled_adds_waits_for_the_next_pass)
{
    static const hwt_task telling = { count_run, add_overdue };
    ends e = { 0 };
    open_manual(_i ? HWT_ONE_THREAD : 0);
    must(hwt_timeout_cancel(arm(m.timer, &telling, &e, HWT_SEC(1))));
    atomic_store(&m.now,
                 m.start + HWT_MS(9)); /* the tick of now is over when the clock has gone on */
    must(hwt_timer_advance(m.timer, m.start + HWT_MS(10)) == 0);
    ck_assert_uint_eq(e.runs, 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(11)), 1);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: HWT_ONE_THREAD");
    TCase *same = add_case(suite, "same");
    tcase_add_loop_test(same, one_thread_changes_no_answer, 0, STORIES);
    tcase_add_test(same, the_flag_needs_the_other_one);
    TCase *loop = add_case(suite, "loop");
    tcase_add_test(loop, a_loop_of_one_thread_sleeps_on_the_descriptor);
    tcase_add_test(loop, the_descriptor_tells_what_was_added_moved_and_cancelled_since);
    TCase *threads = add_case(suite, "threads");
    tcase_add_test(threads, threads_may_take_turns);
    tcase_add_test(threads, each_thread_may_have_its_own);
    tcase_add_test(threads, an_executor_may_put_work_off_on_the_same_thread);
    tcase_add_test(threads, what_was_handed_over_is_not_due_again_when_it_is_moved);
    tcase_add_loop_test(threads, what_is_overdue_and_moved_runs_in_the_pass_that_goes_on, 0, 2);
    tcase_add_loop_test(threads, what_a_cancelled_adds_waits_for_the_next_pass, 0, 2);
    return run_suite(suite);
}
