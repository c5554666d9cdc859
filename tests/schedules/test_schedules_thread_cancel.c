/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * pthread_cancel() of a thread that is in a call of the library, at each point of its way. The call
 * returns, and has done all that it does: the thread ends later, and nothing waits for it.
 */

#include "stage.h"

enum { RETURNED = 42 };

static bool see(hwt_timeout timeout, const hwt_task *task, void *arg, uint64_t remaining,
                void *data)
{
    (void)timeout, (void)task, (void)arg, (void)remaining;
    ++*(uint64_t *)data;
    return true;
}

static void stop_it(struct actor *actor)
{
    must(hwt_timer_stop(actor->timer, count_visit, NULL) == 2);
    actor->answer = RETURNED;
}

static void end_it(struct actor *actor)
{
    must(hwt_timer_end(actor->timer, AT(5), count_visit, NULL) == 1);
    actor->answer = RETURNED;
}

static void destroy_it(struct actor *actor)
{
    hwt_timer_destroy(actor->timer);
    timer = NULL;
    actor->answer = RETURNED;
}

static void visit_all(struct actor *actor)
{
    uint64_t seen = 0;
    must(hwt_timer_visit(actor->timer, see, &seen) == 2 && seen == 2);
    actor->answer = RETURNED;
}

static void dump_it(struct actor *actor)
{
    char text[4096];
    must(hwt_timer_dump(actor->timer, text, sizeof(text)) > 0);
    actor->answer = RETURNED;
}

static void start_it(struct actor *actor)
{
    must(hwt_timer_start(actor->timer) == 0);
    actor->answer = RETURNED;
}

static void arm_first(struct actor *actor)
{
    must(hwt_timer_new_timeout(actor->timer, &counting, &beside, HWT_SEC(3600), NULL) == 0);
    actor->answer = RETURNED;
}

static void wait_for_it(struct actor *actor)
{
    must(!hwt_timeout_cancel_sync(actor->timeout));
    actor->answer = RETURNED;
}

static void expect_return(struct actor *actor)
{
    actor_end(actor);
    if (actor->answer != RETURNED)
        ck_abort_msg("a thread was ended half-way; it passed %s", actor_passed(actor));
}

/* Its thread is cancelled at the n-th point. Returns whether the call has so many. */
static bool cancel_at(struct actor *actor, void (*call)(struct actor *), uint32_t n)
{
    actor->timer = timer;
    actor_begin(actor, call);
    bool far = actor_go_on(actor, n) == n;
    if (far)
        ck_assert_int_eq(pthread_cancel(actor->thread), 0);
    return far;
}

static void close_what_is_left(void)
{
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(ends_sum(&fate) + ends_sum(&beside), 2);
}

static void forget_ends(void)
{
    memset(&fate, 0, sizeof(fate));
    memset(&beside, 0, sizeof(beside));
}

/* Without a worker. */
START_TEST(at_each_point_of_a_call)
{
    static void (*const calls[])(struct actor *) = { stop_it, end_it, destroy_it, visit_all,
                                                     dump_it };
    struct actor actor;
    bool far = true;
    for (uint32_t n = 1; far; n++) {
        forget_ends();
        stage_open();
        (void)add_with(&counting, &fate, AT(3));
        (void)add_with(&counting, &beside, AT(10));
        far = cancel_at(&actor, calls[_i], n);
        expect_return(&actor);
        close_what_is_left();
    }
}
END_TEST

/* With one, which is asked, or is to be started or ended. */
START_TEST(at_each_point_of_a_call_beside_a_worker)
{
    static void (*const calls[])(struct actor *) = { start_it, arm_first, dump_it, destroy_it };
    struct actor actor;
    bool far = true;
    for (uint32_t n = 1; far; n++) {
        timer = create_ticking(TICK);
        if (calls[_i] == dump_it || calls[_i] == destroy_it)
            ck_assert_int_eq(hwt_timer_start(timer), 0);
        far = cancel_at(&actor, calls[_i], n);
        expect_return(&actor);
        hwt_timer_destroy(timer);
    }
}
END_TEST

/*
 *     runner                          waiter
 *     is in the task, RAN
 *                                     somewhere on its way: cancelled
 *                                     waits
 *     the task has returned
 *                                     returns
 */
START_TEST(at_each_point_of_the_way_to_a_wait)
{
    struct actor runner, waiter;
    bool far = true;
    for (uint32_t n = 1; far; n++) {
        forget_ends();
        stage_open();
        waiter.timeout = add_with(&counting, &fate, AT(3));
        (void)add_with(&counting, &beside, AT(10));
        act_drive(&runner, 5);
        actor_go_to(&runner, "RAN");
        waiter.timer = timer;
        actor_begin(&waiter, wait_for_it);
        /* Its last point is before the wait. */
        far = n <= 3;
        actor_go_on(&waiter, far ? n : 3);
        ck_assert_int_eq(pthread_cancel(waiter.thread), 0);
        actor_let_go(&waiter);
        if (!far)
            give_others_a_chance();
        actor_end(&runner);
        expect_return(&waiter);
        close_what_is_left();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: threads that are cancelled");
    TCase *tcase = add_case(suite, "calls");
    tcase_add_loop_test(tcase, at_each_point_of_a_call, 0, 5);
    tcase_add_loop_test(tcase, at_each_point_of_a_call_beside_a_worker, 0, 4);
    tcase_add_test(tcase, at_each_point_of_the_way_to_a_wait);
    return run_suite(suite);
}
