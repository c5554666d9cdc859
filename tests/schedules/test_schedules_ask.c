/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A thread asks for what a timeout is, or for the soonest, and another thread ends, uses again or
 * moves it between two steps of that. */

#include "stage.h"

/* What was asked, with values that no timeout has. */
static uint64_t got_deadline;
static const hwt_task *got_task;
static void *got_arg;
static hwt_pending found[2];

static const hwt_task other_task = { count_run, NULL };

static void get(struct actor *actor)
{
    actor->answer = hwt_timeout_get(actor->timeout, &got_deadline, &got_task, &got_arg);
}

static void ask_for_soonest(struct actor *actor)
{
    actor->answer = hwt_timer_soonest(actor->timer, NULL, NULL, found, actor->instant);
}

static void act_get(struct actor *actor, hwt_timeout timeout)
{
    actor->timeout = timeout;
    got_deadline = 1;
    got_task = NULL;
    got_arg = &got_arg;
    actor_begin(actor, get);
}

static void act_soonest(struct actor *actor, size_t count)
{
    actor->timer = timer;
    actor->instant = count;
    actor_begin(actor, ask_for_soonest);
}

/* Cancelled, or it has run; its entry is used again, or not. Of four loops each is another case. */
static void end_it(hwt_timeout timeout, int loop)
{
    if (loop & 1)
        ck_assert_uint_eq(drive(21), 1);
    else
        ck_assert(hwt_timeout_cancel(timeout));
    if (loop & 2) {
        fetch_free(timeout.entry);
        must(add_with(&other_task, &beside, AT(40)).entry == timeout.entry);
    }
}

/*
 *     asker                           another thread
 *     it is pending, and this is what
 *     it has, ASK_AGAIN
 *                                     it ends, and its entry may be used again
 *     it is not pending, -ENOENT
 */
START_TEST(what_ends_while_somebody_gets_it_is_not_got)
{
    struct actor asker;
    hwt_timeout timeout = add_with(&silent, &fate, AT(20));
    drive(0);
    act_get(&asker, timeout);
    actor_go_to(&asker, "ASK_AGAIN");
    end_it(timeout, _i);
    ck_assert_int_eq(actor_end(&asker), -ENOENT);
    ck_assert(got_deadline == 1 && !got_task && got_arg == &got_arg);
}
END_TEST

/* The same while somebody asks for the soonest. */
START_TEST(what_ends_while_somebody_looks_for_the_soonest_is_not_found)
{
    struct actor asker;
    hwt_timeout timeout = add_with(&silent, &fate, AT(20));
    drive(0);
    act_soonest(&asker, 2);
    actor_go_to(&asker, "ASK_AGAIN");
    end_it(timeout, _i);
    ck_assert_int_eq(actor_end(&asker), 0);
}
END_TEST

static hwt_timeout in_order[2];
static size_t visited;

static bool note_order(hwt_timeout timeout, const hwt_task *task, void *arg, uint64_t remaining,
                       void *data)
{
    (void)task;
    (void)arg;
    (void)remaining;
    (void)data;
    in_order[visited++] = timeout;
    return true;
}

/*
 *     asker, for the one that is      another thread
 *     soonest
 *     the first is of tick 30
 *     the second one of tick 20: may
 *     be the soonest, SOONEST
 *                                     moves the second one to tick 40
 *     is not: the first is
 */
START_TEST(what_is_moved_later_while_somebody_looks_for_the_soonest_does_not_take_its_place)
{
    struct actor asker;
    (void)add_with(&silent, &fate, AT(20));
    (void)add_with(&silent, &fate, AT(20));
    visited = 0;
    ck_assert_int_eq(hwt_timer_visit(timer, note_order, NULL), 2);
    must(hwt_timeout_reschedule_at(in_order[0], AT(30)));
    act_soonest(&asker, 1);
    actor_go_to(&asker, "SOONEST");
    actor_go_on(&asker, 1);
    actor_go_to(&asker, "SOONEST");
    must(hwt_timeout_reschedule_at(in_order[1], AT(40)));
    ck_assert_int_eq(actor_end(&asker), 1);
    ck_assert_ptr_eq(found[0].timeout.entry, in_order[0].entry);
    ck_assert_uint_eq(found[0].deadline, AT(30));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: ask");
    TCase *tcase = stage_case(suite, "ask", stage_open, stage_close);
    tcase_add_loop_test(tcase, what_ends_while_somebody_gets_it_is_not_got, 0, 4);
    tcase_add_loop_test(tcase, what_ends_while_somebody_looks_for_the_soonest_is_not_found, 0, 4);
    tcase_add_test(
        tcase, what_is_moved_later_while_somebody_looks_for_the_soonest_does_not_take_its_place);
    return run_suite(suite);
}
