/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hwt/retry.h: a thread that halts in the middle of its answer, and goes on when other attempts are
 * under way. retry.c is compiled in once more, with steps; see retry_steps.h.
 */

#include "retry_steps.h"

static manual m;
static trial t;
static struct actor first, second;

/* ---- A move that comes late ---- */

static void do_fail(struct actor *actor)
{
    actor->answer = hwt_retry_failed(&t.retry, 1);
}

/*
 * A failure is told, but its move is held back until `release`. False: not at that step. No
 * instant of the life is the end of a tick, where a move could make for an earlier start.
 */
static bool play_late_move(unsigned halt, uint64_t release)
{
    manual_open(&m, HWT_SEC(7) + 13, TICK, WHEEL);
    t = trial_of(&m, LATER);
    t.options.max_attempts = 3;
    t.options.first_delay = HWT_MS(10) + HWT_US(250);
    t.options.attempt_timeout = HWT_MS(5) + HWT_US(250);
    ck_assert_int_eq(trial_start(&t), 0);
    go(&m, HWT_MS(4));
    actor_begin(&first, do_fail, halt);
    bool held = !first.done && phase_of(load(&t.retry)) == FAILED;
    if (held)
        go(&m, release);
    actor_finish(&first);
    go(&m, HWT_MS(100));
    if (held) {
        CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(18), HWT_MS(45)); /* noticed by the time-out, at 7 */
        ck_assert_uint_eq(t.ended_at, HWT_MS(51));
        ck_assert_uint_eq(t.ends, 1);
    }
    manual_close(&m);
    return held;
}

START_TEST(a_move_that_comes_late_changes_nothing)
{
    unsigned held = 0;
    for (unsigned halt = 0; halt < 16; halt++)
        for (uint64_t release = HWT_MS(7); release < HWT_MS(60); release += HWT_US(500))
            held += play_late_move(halt, release);
    ck_assert_uint_gt(held, 100);
}
END_TEST

/* ---- An answer that tells something, and is late with it ---- */

static void do_push_back_first(struct actor *actor)
{
    actor->answer = hwt_retry_failed_with_delay(&t.retry, 1, HWT_MS(30));
}

static void do_push_back_second(struct actor *actor)
{
    actor->answer = hwt_retry_failed_with_delay(&t.retry, 2, PUSHED_BACK_BY);
}

/* One for the first attempt is held back until the second has its own. False: not with the pen in
 * hand. */
static bool play_late_pen(unsigned halt)
{
    manual_open(&m, HWT_SEC(7) + 13, TICK, WHEEL);
    t = trial_of(&m, LATER);
    t.options.max_attempts = 3;
    t.options.attempt_timeout = HWT_MS(100);
    ck_assert_int_eq(trial_start(&t), 0);
    go(&m, HWT_MS(4));
    actor_begin(&first, do_push_back_first, halt);
    bool held = !first.done && t.retry.pen & HELD;
    if (held) {
        go(&m, HWT_MS(120)); /* timed out: the second one is under way */
        ck_assert_uint_eq(t.begun, 2);
        actor_begin(&second, do_push_back_second, 1000);
        ck_assert(!second.done); /* nor will it be, before the first one */
        actor_finish(&first);
        actor_finish(&second);
        ck_assert(!first.answer && second.answer);
        uint64_t told = since_start(&m);
        go(&m, told + HWT_MS(20));
        ck_assert_uint_eq(t.begun, 3);
        ck_assert_uint_eq(t.instants[2], told + PUSHED_BACK_BY + HWT_MS(2));
    } else {
        actor_finish(&first);
    }
    hwt_timer_stop(m.timer, NULL, NULL);
    manual_close(&m);
    return held;
}

START_TEST(an_answer_waits_for_what_an_earlier_one_is_telling)
{
    unsigned held = 0;
    for (unsigned halt = 0; halt < 16; halt++)
        held += play_late_pen(halt);
    ck_assert_uint_gt(held, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("retry_late");
    TCase *late = add_case(suite, "late");
    tcase_add_test(late, a_move_that_comes_late_changes_nothing);
    tcase_add_test(late, an_answer_waits_for_what_an_earlier_one_is_telling);
    return run_suite(suite);
}
