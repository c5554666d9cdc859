/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hwt_timer_stop()'s visitor and hwt_timeout_cancel_sync(). A visit counts as a run of that
 * timeout: once cancel_sync has returned, with either answer, the visitor neither has the
 * timeout's arg in hand nor will be given it. So the caller of cancel_sync may free arg when the
 * answer is true, and when it is false, the visit that took it is over.
 */

#include "api_fixture.h"

enum { ITEMS = 200, CANCELLERS = 4 };

typedef struct item {
    hwt_timeout timeout;
    shared_count given_back; /* what its canceller would have freed */
    shared_count visits, visiting, cancelled, answer;
} item;

typedef struct stage {
    hwt_timer *timer;
    item items[ITEMS];
    gate gate;              /* the first visit stands there */
    shared_count entering;  /* cancellers */
    shared_count done;      /* cancels that have returned */
    shared_count seen_late; /* visits of what had been given back */
    int64_t left;
} stage;

static void told_cancelled(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    ((item *)arg)->cancelled++;
}

static void never_run(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
}

static const hwt_task plain = { never_run, NULL };
static const hwt_task telling = { never_run, told_cancelled };

static void visit_and_stand(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    stage *s = data;
    item *i = arg;
    (void)task, (void)remaining;
    i->visiting = 1;
    s->seen_late += i->given_back;
    if (s->gate.reached == 0)
        gate_pass(&s->gate);
    s->seen_late += i->given_back;
    i->visits++;
    i->visiting = 0;
}

static void *stop_and_visit(void *data)
{
    stage *s = data;
    s->left = hwt_timer_stop(s->timer, visit_and_stand, s);
    return NULL;
}

static stage *open_stage(hwt_timer *timer, const hwt_task *task)
{
    static stage s;
    memset(&s, 0, sizeof(s));
    s.timer = timer;
    for (int i = 0; i < ITEMS; i++)
        s.items[i].timeout = arm(timer, task, &s.items[i], HWT_SEC(3600) + HWT_MS(i));
    return &s;
}

static hwt_timer *make_timer(int has_worker)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = has_worker ? 0 : HWT_NO_WORKER;
    options.tick_duration = HWT_MS(1);
    return create(&options);
}

typedef struct canceller {
    stage *stage;
    int first; /* and each that is so many further */
    bool backwards;
} canceller;

static void *cancel_all(void *data)
{
    canceller *c = data;
    c->stage->entering++;
    for (int i = 0; i < ITEMS / CANCELLERS; i++) {
        int nth = c->backwards ? ITEMS / CANCELLERS - 1 - i : i;
        item *it = &c->stage->items[c->first + CANCELLERS * nth];
        it->answer = hwt_timeout_cancel_sync(it->timeout);
        it->given_back = 1;
        c->stage->done++;
    }
    return NULL;
}

/* Each was cancelled or visited, not both. */
static void assert_ends(stage *s, bool tells)
{
    int64_t visits = 0;
    for (int i = 0; i < ITEMS; i++) {
        ck_assert_uint_eq(s->items[i].visits + s->items[i].answer, 1);
        ck_assert_uint_eq(s->items[i].cancelled, tells ? s->items[i].answer : 0);
        visits += (int64_t)s->items[i].visits;
    }
    ck_assert_int_eq(s->left, visits);
    if (s->seen_late > 0)
        ck_abort_msg("%" PRIu64 " visits were given what cancel_sync had given back",
                     (uint64_t)s->seen_late);
}

/*
 * The visitor stands in its first visit while others cancel everything. They may wait for it, so
 * that it is let go after a while in any case. Each loop: a worker or none, `cancelled` or none.
 */
START_TEST(cancel_sync_during_a_visit_leaves_nothing_to_be_visited)
{
    pthread_t threads[CANCELLERS];
    canceller c[CANCELLERS];
    bool tells = _i / 2;
    stage *s = open_stage(make_timer(_i % 2), tells ? &telling : &plain);
    pthread_t stopper = spawn(stop_and_visit, s);
    ck_assert(await_count(&s->gate.reached, 1));
    for (int i = 0; i < CANCELLERS; i++) {
        c[i] = (canceller){ s, i, i % 2 };
        threads[i] = spawn(cancel_all, &c[i]);
    }
    (void)await_within(HWT_MS(300), &s->done, ITEMS);
    s->gate.open = 1;
    for (int i = 0; i < CANCELLERS; i++)
        join(threads[i]);
    join(stopper);
    hwt_timer_destroy(s->timer);
    assert_ends(s, tells);
}
END_TEST

static item *standing_item(stage *s)
{
    for (int i = 0; i < ITEMS; i++)
        if (s->items[i].visiting)
            return &s->items[i];
    ck_abort_msg("nothing is being visited");
}

typedef struct waiter {
    stage *stage;
    item *item;
    shared_count entering, returned, visits_at_return;
} waiter;

static void *cancel_the_standing_one(void *data)
{
    waiter *w = data;
    w->entering++;
    w->item->answer = hwt_timeout_cancel_sync(w->item->timeout);
    w->visits_at_return = w->item->visits;
    w->item->given_back = 1;
    w->returned++;
    return NULL;
}

START_TEST(cancel_sync_of_what_is_being_visited_waits_for_the_visit)
{
    stage *s = open_stage(make_timer(_i % 2), _i / 2 ? &telling : &plain);
    pthread_t stopper = spawn(stop_and_visit, s);
    ck_assert(await_count(&s->gate.reached, 1));
    waiter w = { .stage = s, .item = standing_item(s) };
    pthread_t thread = spawn(cancel_the_standing_one, &w);
    ck_assert(await_count(&w.entering, 1));
    give_others_a_chance();
    ck_assert_uint_eq(w.returned, 0);
    s->gate.open = 1;
    join(thread);
    join(stopper);
    ck_assert_uint_eq(w.item->answer, false);
    ck_assert_uint_eq(w.visits_at_return, 1);
    ck_assert_uint_eq(s->seen_late, 0);
    ck_assert_int_eq(s->left, ITEMS);
    hwt_timer_destroy(s->timer);
}
END_TEST

/* Cancel, which does not wait, takes what is not being visited yet from the visitor, or leaves it. */
START_TEST(cancel_during_a_visit_is_true_or_leaves_it_to_the_visitor)
{
    stage *s = open_stage(make_timer(_i % 2), _i / 2 ? &telling : &plain);
    pthread_t stopper = spawn(stop_and_visit, s);
    ck_assert(await_count(&s->gate.reached, 1));
    for (int i = 0; i < ITEMS; i++)
        s->items[i].answer = hwt_timeout_cancel(s->items[i].timeout);
    s->gate.open = 1;
    join(stopper);
    hwt_timer_destroy(s->timer);
    assert_ends(s, _i / 2);
}
END_TEST

/* ---- from the visitor itself ---- */

static void cancel_from_visit(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    stage *s = data;
    item *own = arg;
    (void)task, (void)remaining;
    s->seen_late += own->given_back;
    own->visits++;
    own->answer += hwt_timeout_cancel_sync(own->timeout); /* does not wait for itself */
    for (int i = 0; i < ITEMS; i += 3) {
        item *other = &s->items[i];
        if (other != own && !other->visits && hwt_timeout_cancel_sync(other->timeout)) {
            other->answer = 1;
            other->given_back = 1;
        }
    }
}

START_TEST(a_visitor_may_cancel_its_own_and_others)
{
    stage *s = open_stage(make_timer(_i % 2), _i / 2 ? &telling : &plain);
    s->left = hwt_timer_stop(s->timer, cancel_from_visit, s);
    hwt_timer_destroy(s->timer);
    assert_ends(s, _i / 2);
}
END_TEST

/* ---- many times, without a hold ---- */

static void visit_quickly(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    stage *s = data;
    item *i = arg;
    (void)task, (void)remaining;
    s->seen_late += i->given_back;
    i->visits++;
    s->seen_late += i->given_back;
}

START_TEST(stop_and_cancel_sync_at_once_never_have_one_arg_both)
{
    for (int round = 0; round < 300; round++) {
        pthread_t threads[CANCELLERS];
        canceller c[CANCELLERS];
        stage *s = open_stage(make_timer(_i % 2), _i / 2 ? &telling : &plain);
        for (int i = 0; i < CANCELLERS; i++) {
            c[i] = (canceller){ s, i, i % 2 };
            threads[i] = spawn(cancel_all, &c[i]);
        }
        ck_assert(await_count(&s->entering, (uint64_t)(round % CANCELLERS)));
        s->left = hwt_timer_stop(s->timer, visit_quickly, s);
        for (int i = 0; i < CANCELLERS; i++)
            join(threads[i]);
        hwt_timer_destroy(s->timer);
        assert_ends(s, _i / 2);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: stop's visits");
    TCase *held = add_case(suite, "held");
    tcase_add_loop_test(held, cancel_sync_during_a_visit_leaves_nothing_to_be_visited, 0, 4);
    tcase_add_loop_test(held, cancel_sync_of_what_is_being_visited_waits_for_the_visit, 0, 4);
    tcase_add_loop_test(held, cancel_during_a_visit_is_true_or_leaves_it_to_the_visitor, 0, 4);
    tcase_add_loop_test(held, a_visitor_may_cancel_its_own_and_others, 0, 4);
    TCase *free_running = add_case(suite, "free");
    tcase_add_loop_test(free_running, stop_and_cancel_sync_at_once_never_have_one_arg_both, 0, 4);
    return run_suite(suite);
}
