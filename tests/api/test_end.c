/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hwt_timer_end(): all that is due before `until` runs, what re-arms itself again and again, what
 * is moved there meanwhile, and what is due in the tick that has only begun then. It returns when
 * nothing is left to wait for, and at `until` whatever the tick. What it leaves is visited once.
 */

#include "api_fixture.h"

enum { START = 1000000, AGAIN = 20 };

/* A timer of each kind is ended: with a clock that is set, a worker, an executor, driven by its
 * end. */
enum kind { SET, WORKER, EXECUTOR, DRIVEN, ALONE, KINDS };

typedef struct scene {
    enum kind kind;
    hwt_timer *timer;
    manual m;
    deferred crew;
    ends ends, late;
} scene;

static scene *open_scene(enum kind kind, uint64_t tick)
{
    static scene s;
    memset(&s, 0, sizeof(s));
    s.kind = kind;
    if (kind == SET) {
        manual_open(&s.m, START, tick, 64);
        s.timer = s.m.timer;
    } else if (kind == EXECUTOR) {
        s.timer = create_with_crew(&s.crew, 2, tick);
    } else if (kind == WORKER) {
        s.timer = create_ticking(tick);
    } else {
        s.timer = create_driven(kind == ALONE ? HWT_ONE_THREAD : 0, tick);
    }
    return &s;
}

static int64_t end_after(scene *s, uint64_t delay)
{
    uint64_t until = delay == HWT_NEVER ? HWT_NEVER : hwt_timer_now(s->timer) + delay;
    return hwt_timer_end(s->timer, until, count_visit, NULL);
}

static void close_scene(scene *s)
{
    hwt_timer_destroy(s->timer);
    if (s->kind == EXECUTOR)
        deferred_close(&s->crew);
}

/* ---- what re-arms itself ---- */

static void attempt_again(hwt_timeout timeout, void *arg)
{
    scene *s = arg;
    if (++s->ends.runs < AGAIN)
        must(hwt_timeout_reschedule(timeout, HWT_MS(1)));
}

static void work_slowly(hwt_timeout timeout, void *arg)
{
    usleep(2000);
    attempt_again(timeout, arg);
}

START_TEST(what_re_arms_itself_runs_to_its_end)
{
    static const hwt_task tasks[] = { { attempt_again, NULL }, { work_slowly, NULL } };
    scene *s = open_scene(_i % KINDS, HWT_MS(1));
    (void)arm(s->timer, &tasks[_i / KINDS], s, 0);
    (void)arm(s->timer, &counting, &s->late, HWT_NEVER);
    ck_assert_int_eq(end_after(s, HWT_SEC(50)), 1);
    ck_assert_uint_eq(s->ends.runs, AGAIN);
    ck_assert_uint_eq(s->late.visited, 1);
    close_scene(s);
}
END_TEST

static void repeat(hwt_timeout timeout, void *arg)
{
    must(hwt_timeout_repeat(timeout, HWT_MS(20)));
    ((ends *)arg)->runs++;
}

static const hwt_task repeating = { repeat, NULL };

/* Deadlines from 20 ms to 1980 ms. */
START_TEST(a_periodic_one_runs_in_each_period)
{
    scene *s = open_scene(SET, HWT_MS(1));
    (void)arm(s->timer, &repeating, &s->ends, HWT_MS(20));
    ck_assert_int_eq(end_after(s, HWT_SEC(2)), 1);
    ck_assert_uint_eq(s->ends.runs, 99);
    close_scene(s);
}
END_TEST

static uint64_t armed_for; /* an upper bound */

static void repeat_and_note(hwt_timeout timeout, void *arg)
{
    scene *s = arg;
    must(hwt_timeout_repeat(timeout, HWT_MS(20)));
    armed_for = hwt_timeout_remaining(timeout);
    armed_for += hwt_timer_now(s->timer);
    s->ends.runs++;
}

/* Until it is re-armed for an instant that is not before it, however often it came to run by then. */
START_TEST(a_periodic_one_goes_on_until_then)
{
    static const hwt_task noting = { repeat_and_note, NULL };
    scene *s = open_scene(WORKER + _i, HWT_MS(1));
    (void)arm(s->timer, &noting, s, HWT_MS(20));
    uint64_t begin = monotonic(), until = hwt_timer_now(s->timer) + HWT_MS(300);
    ck_assert_int_eq(hwt_timer_end(s->timer, until, NULL, NULL), 1);
    ck_assert_uint_ge(monotonic() - begin, HWT_MS(300 - 21));
    ck_assert_uint_ge(s->ends.runs, 1);
    ck_assert_uint_ge(armed_for, until);
    close_scene(s);
}
END_TEST

/* It stands in its run when the end begins, and has 19 to go. */
static void stand_and_attempt(hwt_timeout timeout, void *arg)
{
    scene *s = arg;
    if (s->ends.runs == 0) {
        s->late.runs = 1;
        (void)await_count(&s->late.cancelled, 1);
    }
    attempt_again(timeout, arg);
}

static void *let_go_later(void *data)
{
    scene *s = data;
    usleep(30000);
    s->late.cancelled = 1;
    return NULL;
}

START_TEST(what_runs_as_it_begins_counts_as_due)
{
    static const hwt_task standing = { stand_and_attempt, NULL };
    scene *s = open_scene(WORKER + _i, HWT_MS(1));
    (void)arm(s->timer, &standing, s, 0);
    ck_assert(await_count(&s->late.runs, 1));
    pthread_t thread = spawn(let_go_later, s);
    ck_assert_int_eq(end_after(s, HWT_SEC(50)), 0);
    ck_assert_uint_eq(s->ends.runs, AGAIN);
    join(thread);
    close_scene(s);
}
END_TEST

/* ---- what is moved ---- */

enum { CHAIN = 3000 };

static struct link {
    hwt_timeout timeout;
    struct link *next;
    scene *s;
} chain[CHAIN];

static void move_the_next(hwt_timeout timeout, void *arg)
{
    struct link *link = arg;
    (void)timeout;
    link->s->ends.runs++;
    if (link->next)
        must(hwt_timeout_reschedule(link->next->timeout, 0));
}

/* Each run moves the next one, which lies before it or behind it, from a day to now. */
START_TEST(what_is_moved_before_it_meanwhile_runs)
{
    static const hwt_task moving = { move_the_next, NULL };
    enum { LINKS = 60 };
    scene *s = open_scene(_i, HWT_MS(1));
    for (int i = 0; i < CHAIN; i++) {
        chain[i].s = s;
        chain[i].timeout = arm(s->timer, &moving, &chain[i], HWT_SEC(86400));
    }
    struct link *last = NULL;
    for (int i = 0; i < LINKS; i++) {
        struct link *link = &chain[i % 2 ? i : CHAIN - 1 - i];
        link->next = last;
        last = link;
    }
    must(hwt_timeout_reschedule(last->timeout, HWT_MS(2)));
    uint64_t until = hwt_timer_now(s->timer) + HWT_SEC(3600);
    ck_assert_int_eq(hwt_timer_end(s->timer, until, NULL, NULL), CHAIN - LINKS);
    ck_assert_uint_eq(s->ends.runs, LINKS);
    close_scene(s);
}
END_TEST

typedef struct mover {
    hwt_timeout timeouts[200];
    shared_count done;
} mover;

static void *take_away(void *data)
{
    mover *m = data;
    for (int i = 0; i < 200; i++) {
        if (i % 10 == 0)
            usleep(1000);
        must(i % 2 ? hwt_timeout_cancel(m->timeouts[i])
                   : hwt_timeout_reschedule(m->timeouts[i], HWT_SEC(86400)));
    }
    m->done = 1;
    return NULL;
}

/* An hour is not waited for. */
START_TEST(it_returns_when_what_was_due_is_cancelled_or_pushed_back)
{
    static mover m;
    scene *s = open_scene(WORKER + _i, HWT_MS(1));
    memset(&m, 0, sizeof(m));
    for (int i = 0; i < 200; i++)
        m.timeouts[i] = arm(s->timer, &counting, &s->ends, HWT_SEC(1800 + i));
    pthread_t thread = spawn(take_away, &m);
    ck_assert_int_eq(end_after(s, HWT_SEC(3600)), 100);
    ck_assert_uint_eq(m.done, 1);
    join(thread);
    ck_assert_uint_eq(s->ends.visited, 100);
    hwt_timer_destroy(s->timer);
    ck_assert_uint_eq(s->ends.cancelled, 100);
    if (s->kind == EXECUTOR)
        deferred_close(&s->crew);
}
END_TEST

/* ---- the instant ---- */

/* In a tick that is far from over then. */
START_TEST(it_ends_in_the_midst_of_a_tick)
{
    scene *s = open_scene(_i, HWT_SEC(3600));
    for (int i = 0; i < 100; i++) {
        (void)arm(s->timer, &counting, &s->late, HWT_SEC(600) + HWT_SEC(3600) * (i % 3));
        (void)arm(s->timer, &counting, &s->ends, HWT_US(i));
    }
    ck_assert_int_eq(end_after(s, HWT_MS(50)), 100);
    ck_assert_uint_eq(s->ends.runs, 100);
    ck_assert_uint_eq(s->late.visited, 100);
    close_scene(s);
}
END_TEST

static uint64_t order[64], ordered;

static void note_order(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    order[ordered++ % 64] = (uint64_t)(uintptr_t)arg;
}

/* Instants around it, and order within the tick: that in which they were added. */
START_TEST(of_the_last_tick_runs_what_is_due_before_it_in_order)
{
    static const hwt_task noting = { note_order, NULL };
    static const uint64_t ticks[] = { HWT_US(1), HWT_MS(1), HWT_MS(7), HWT_SEC(1) };
    const uint64_t until = START + HWT_MS(100);
    scene *s = open_scene(SET, ticks[_i]);
    ordered = 0;
    for (uint64_t i = 0; i < 60; i++)
        must(hwt_timer_new_timeout_at(s->timer, &noting, (void *)(uintptr_t)i,
                                      until - (i % 2 ? 0 : 1), NULL) == 0);
    ck_assert_int_eq(hwt_timer_end(s->timer, until, NULL, NULL), 30);
    ck_assert_uint_eq(ordered, 30);
    for (uint64_t i = 0; i < 30; i++)
        ck_assert_uint_eq(order[i], 2 * i);
    close_scene(s);
}
END_TEST

/* Far ones that have come nearer, ones that were pushed back, and ones that were moved. */
START_TEST(of_the_last_tick_runs_what_was_filed_for_another_one)
{
    scene *s = open_scene(SET, HWT_SEC(1));
    const uint64_t until = START + HWT_SEC(100000) + HWT_MS(500);
    for (uint64_t i = 0; i < 100; i++) {
        hwt_timeout timeout;
        must(hwt_timer_new_timeout_at(s->timer, &counting, &s->ends,
                                      i % 3 == 0   ? until - HWT_MS(1)
                                      : i % 3 == 1 ? START + HWT_SEC(50 + i)
                                                   : until + HWT_SEC(86400),
                                      &timeout) == 0);
        if (i % 3 == 1)
            manual_go(&s->m, i == 1 ? HWT_SEC(1) : 0);
        if (i % 3)
            must(hwt_timeout_reschedule_at(timeout, until - HWT_MS(1 + i)));
    }
    (void)arm(s->timer, &counting, &s->late, HWT_SEC(200000));
    ck_assert_int_eq(hwt_timer_end(s->timer, until, count_visit, NULL), 1);
    ck_assert_uint_eq(s->ends.runs, 100);
    ck_assert_uint_eq(s->late.visited, 1);
    close_scene(s);
}
END_TEST

/* What is due is over before; or until is. */
START_TEST(an_instant_that_has_passed_waits_for_nothing)
{
    scene *s = open_scene(_i, HWT_SEC(3600));
    (void)arm(s->timer, &counting, &s->ends, 0);
    ck_assert_int_eq(hwt_timer_end(s->timer, 0, count_visit, NULL), 1);
    ck_assert_uint_eq(s->ends.visited, 1);
    close_scene(s);
}
END_TEST

START_TEST(never_is_waited_for_by_nobody)
{
    scene *s = open_scene(_i, HWT_MS(1));
    (void)arm(s->timer, &counting, &s->late, HWT_NEVER);
    for (int i = 0; i < 10; i++)
        (void)arm(s->timer, &counting, &s->ends, HWT_MS(i));
    ck_assert_int_eq(end_after(s, HWT_NEVER), 1);
    ck_assert_uint_eq(s->ends.runs, 10);
    ck_assert_uint_eq(s->late.visited, 1);
    close_scene(s);
}
END_TEST

START_TEST(a_timer_with_nothing_ends_at_once)
{
    scene *s = open_scene(_i, HWT_MS(1));
    ck_assert_int_eq(end_after(s, HWT_NEVER), 0);
    ck_assert_int_eq(end_after(s, HWT_NEVER), 0);
    close_scene(s);
}
END_TEST

/* ---- with others ---- */

typedef struct other {
    scene *s;
    uint64_t delay;
    int64_t left;
    shared_count begun;
} other;

static void *end_too(void *data)
{
    other *o = data;
    o->begun = 1;
    o->left = end_after(o->s, o->delay);
    return NULL;
}

/* A stop, or an end that comes sooner, does not wait for the one that goes on, and cuts it short. */
START_TEST(another_end_cuts_it_short)
{
    scene *s = open_scene(WORKER + _i / 2, HWT_MS(1));
    (void)arm(s->timer, &counting, &s->ends, HWT_SEC(1800));
    other o = { .s = s, .delay = HWT_SEC(3600) };
    pthread_t thread = spawn(end_too, &o);
    ck_assert(await_count(&o.begun, 1));
    usleep(20000);
    int64_t left = _i % 2 ? end_after(s, HWT_MS(10)) : hwt_timer_stop(s->timer, count_visit, NULL);
    join(thread);
    ck_assert_int_eq(left + o.left, 1);
    ck_assert_uint_eq(s->ends.visited, 1);
    close_scene(s);
}
END_TEST

static bool count_it(hwt_timeout timeout, const hwt_task *task, void *arg, uint64_t remaining,
                     void *data)
{
    (void)timeout, (void)task, (void)arg, (void)remaining;
    ++*(int *)data;
    return true;
}

/* Nothing new is accepted; all else is as before. */
START_TEST(meanwhile_others_ask_and_dump)
{
    char text[4096];
    int seen = 0;
    scene *s = open_scene(WORKER + _i, HWT_MS(1));
    hwt_timeout timeout = arm(s->timer, &counting, &s->ends, HWT_SEC(1800));
    other o = { .s = s, .delay = HWT_SEC(3600) };
    pthread_t thread = spawn(end_too, &o);
    while (hwt_timer_new_timeout(s->timer, &counting, &s->late, HWT_SEC(86400), NULL) == 0)
        sched_yield();
    ck_assert_int_gt(hwt_timer_dump(s->timer, text, sizeof(text)), 0);
    ck_assert_int_ge(hwt_timer_visit(s->timer, count_it, &seen), 1);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_PENDING);
    ck_assert(hwt_timeout_reschedule(timeout, HWT_SEC(900)));
    ck_assert(hwt_timeout_cancel(timeout));
    join(thread);
    ck_assert_uint_eq((uint64_t)o.left, s->late.visited);
    close_scene(s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: graceful ends");
    TCase *tcase = add_case(suite, "re-armed");
    tcase_add_loop_test(tcase, what_re_arms_itself_runs_to_its_end, 0, 2 * KINDS);
    tcase_add_test(tcase, a_periodic_one_runs_in_each_period);
    tcase_add_loop_test(tcase, a_periodic_one_goes_on_until_then, 0, KINDS - WORKER);
    tcase_add_loop_test(tcase, what_runs_as_it_begins_counts_as_due, 0, 2);
    tcase = add_case(suite, "moved");
    tcase_add_loop_test(tcase, what_is_moved_before_it_meanwhile_runs, 0, KINDS);
    tcase_add_loop_test(tcase, it_returns_when_what_was_due_is_cancelled_or_pushed_back, 0,
                        DRIVEN + 1 - WORKER);
    tcase = add_case(suite, "until");
    tcase_add_loop_test(tcase, it_ends_in_the_midst_of_a_tick, 0, KINDS);
    tcase_add_loop_test(tcase, of_the_last_tick_runs_what_is_due_before_it_in_order, 0, 4);
    tcase_add_test(tcase, of_the_last_tick_runs_what_was_filed_for_another_one);
    tcase_add_loop_test(tcase, an_instant_that_has_passed_waits_for_nothing, 0, KINDS);
    tcase_add_loop_test(tcase, never_is_waited_for_by_nobody, 0, KINDS);
    tcase_add_loop_test(tcase, a_timer_with_nothing_ends_at_once, 0, KINDS);
    tcase = add_case(suite, "others");
    tcase_add_loop_test(tcase, another_end_cuts_it_short, 0, 2 * (DRIVEN + 1 - WORKER));
    tcase_add_loop_test(tcase, meanwhile_others_ask_and_dump, 0, DRIVEN + 1 - WORKER);
    return run_suite(suite);
}
