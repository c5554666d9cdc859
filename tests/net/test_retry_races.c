/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hwt/retry.h: every race of two calls is forced, at every step.
 *
 * retry.c is compiled in once more, with steps (see retry_steps.h). Of two threads that make a
 * call each, the first is halted at its step i and the second at its step j; then the first goes
 * on to its end, and then the second. This is played for all i and j. Whatever the order,
 * exactly one end is told, the answers that were true agree with it, a failure is noticed within
 * a tick, and nothing is touched after the end. What comes later still is in test_retry_late.c.
 */

#include "retry_steps.h"

/* ---- What is played ---- */

static manual m;
static trial t;
static bool zeroes;       /* `ended` zeroes the object */
static uint64_t instant;  /* of the race */
static uint64_t answered; /* the attempt that is answered in it */
static size_t begun_before;
static uint64_t ended_at; /* of the life that was raced for */
static size_t ended_begun;

static void race_ended(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    if (zeroes)
        memset(retry, 0, sizeof(*retry));
    ended_at = since_start(&m);
    ended_begun = t.begun;
    trial_ended(retry, end, arg);
}

static _Atomic bool in_attempt;

/* It may be halted on its way in and out: one that hwt_retry_start_now() makes has no run. */
static void race_attempt(hwt_retry *retry, uint64_t attempt, void *arg)
{
    must(!in_attempt);
    in_attempt = true;
    step();
    trial_attempt(retry, attempt, arg);
    step();
    in_attempt = false;
}

static const hwt_retry_task race_task = { race_attempt, race_ended };

static int race_start(void)
{
    return hwt_retry_start(&t.retry, m.timer, &t.options, &race_task, &t);
}

static void do_pass(struct actor *actor)
{
    (void)actor;
    manual_go(&m, instant);
}

static void do_succeed(struct actor *actor)
{
    actor->answer = hwt_retry_succeeded(&t.retry, answered);
}

static void do_fail(struct actor *actor)
{
    actor->answer = hwt_retry_failed(&t.retry, answered);
}

/* What they tell is their own: that of the one that lost is not to be told. */
static struct actor first, second;

static uint64_t delay_of(const struct actor *actor)
{
    return actor == &first ? PUSHED_BACK_BY : 3 * PUSHED_BACK_BY;
}

static int reason_of(const struct actor *actor)
{
    return actor == &first ? REASON : REASON - 1;
}

static void do_push_back(struct actor *actor)
{
    actor->answer = hwt_retry_failed_with_delay(&t.retry, answered, delay_of(actor));
}

static void do_fail_for_good(struct actor *actor)
{
    actor->answer = hwt_retry_failed_for_good(&t.retry, answered, reason_of(actor));
}

static void do_cancel(struct actor *actor)
{
    actor->answer = hwt_retry_cancel(&t.retry);
}

static void do_cancel_sync(struct actor *actor)
{
    actor->answer = hwt_retry_cancel_sync(&t.retry);
    must(!actor->answer || !in_attempt);
}

static void do_stop(struct actor *actor)
{
    actor->answer = hwt_timer_stop(m.timer, NULL, NULL) > 0;
}

static void do_start(struct actor *actor)
{
    actor->result = race_start();
}

static void do_start_now(struct actor *actor)
{
    actor->result = hwt_retry_start_now(&t.retry, m.timer, &t.options, &race_task, &t);
}

/* ---- Where it is played: each leaves the clock so that `instant` is the next pass ---- */

static void started(void)
{
    t.options.max_attempts = 3;
    t.options.attempt_timeout = HWT_MS(5);
    ck_assert_int_eq(race_start(), 0);
    instant = HWT_MS(1);
    answered = 1;
}

static void under_way(void)
{
    started();
    go(&m, HWT_MS(4));
    instant = HWT_MS(5);
}

static void at_timeout(void)
{
    started();
    go(&m, HWT_MS(6));
    instant = HWT_MS(7);
}

static void at_last_timeout(void)
{
    t.options.max_attempts = 1;
    t.options.attempt_timeout = HWT_MS(5);
    ck_assert_int_eq(race_start(), 0);
    go(&m, HWT_MS(6));
    instant = HWT_MS(7);
    answered = 1;
}

static void at_deadline(void)
{
    t.options.total_timeout = HWT_MS(5);
    ck_assert_int_eq(race_start(), 0);
    go(&m, HWT_MS(5));
    instant = HWT_MS(6);
    answered = 1;
}

static void after_failure_told(void)
{
    under_way();
    ck_assert(hwt_retry_failed(&t.retry, 1));
}

static void after_success_told(void)
{
    under_way();
    ck_assert(hwt_retry_succeeded(&t.retry, 1));
}

static void at_end_of_delay(void)
{
    started();
    go(&m, HWT_MS(17));
    ck_assert_uint_eq(t.begun, 1);
    instant = HWT_MS(18);
    answered = 2;
}

/* The move of an earlier failure comes late, and finds a long attempt under way. */
static void moved_too_late(void)
{
    t.options.max_attempts = 3;
    t.options.attempt_timeout = HWT_MS(100);
    ck_assert_int_eq(race_start(), 0);
    go(&m, HWT_MS(1));
    ck_assert(hwt_retry_failed(&t.retry, 1));
    go(&m, HWT_MS(15));
    ck_assert_uint_eq(t.begun, 2);
    ck_assert(hwt_timeout_reschedule(t.retry.timeout, 0));
    instant = HWT_MS(16);
    answered = 2;
}

static void not_started(void)
{
    t.options.max_attempts = 3;
    t.options.attempt_timeout = HWT_MS(5);
    instant = HWT_MS(1);
    answered = 1;
}

struct scene {
    void (*set)(void);
    hwt_retry_end end; /* where no answer changes it */
};

static const struct scene scenes[] = {
    { started, HWT_RETRY_EXHAUSTED },
    { under_way, HWT_RETRY_EXHAUSTED },
    { at_timeout, HWT_RETRY_EXHAUSTED },
    { at_last_timeout, HWT_RETRY_EXHAUSTED },
    { at_deadline, HWT_RETRY_OUT_OF_TIME },
    { after_failure_told, HWT_RETRY_EXHAUSTED },
    { after_success_told, HWT_RETRY_SUCCEEDED },
    { at_end_of_delay, HWT_RETRY_EXHAUSTED },
    { moved_too_late, HWT_RETRY_EXHAUSTED },
};

/* ---- One order of steps ---- */

/* The one whose call of it was true, or NULL. */
static const struct actor *winner(void (*act)(struct actor *))
{
    return first.act == act && first.answer     ? &first
           : second.act == act && second.answer ? &second
                                                : NULL;
}

static bool was_true(void (*act)(struct actor *))
{
    return winner(act) != NULL;
}

static void play_order(const struct scene *scene, void (*one)(struct actor *),
                       void (*other)(struct actor *), unsigned i, unsigned j)
{
    manual_open(&m, HWT_SEC(7) + 13, TICK, WHEEL);
    t = trial_of(&m, LATER);
    scene->set();
    begun_before = t.begun;
    actor_begin(&first, one, i);
    actor_begin(&second, other, j);
    actor_go_on(&first);
    actor_go_on(&second);
    actor_join(&first);
    actor_join(&second);
}

static hwt_retry_end expected_end(const struct scene *scene)
{
    if (was_true(do_succeed))
        return HWT_RETRY_SUCCEEDED;
    if (was_true(do_fail_for_good))
        return HWT_RETRY_FAILED;
    if (was_true(do_cancel) || was_true(do_cancel_sync))
        return HWT_RETRY_CANCELLED;
    if (was_true(do_stop) && scene->end != HWT_RETRY_SUCCEEDED)
        return HWT_RETRY_CANCELLED;
    return scene->end;
}

/* A failure that was told is noticed in the pass or the one after, and the delay begins. */
static void check_noticed(uint64_t end)
{
    uint64_t delay = HWT_MS(10) << (answered - 1);
    if (was_true(do_push_back))
        delay = delay_of(winner(do_push_back));
    else if (!was_true(do_fail))
        return;
    if (end != HWT_RETRY_EXHAUSTED || t.options.max_attempts == 1)
        return;
    must(t.begun > answered);
    must(t.instants[answered] >= instant + delay);
    must(t.instants[answered] <= instant + delay + HWT_MS(2));
}

/* All is over, in one end. */
static void check_play(const struct scene *scene)
{
    static const hwt_retry zero;
    hwt_retry_end end = expected_end(scene);
    must(was_true(do_succeed) + was_true(do_fail) + was_true(do_push_back) +
             was_true(do_fail_for_good) <=
         1);
    must(was_true(do_succeed) + was_true(do_fail_for_good) + was_true(do_cancel) <= 1);
    must(!(first.act == second.act && first.answer && second.answer));
    for (int i = 0; i < 1000 && t.ends == 0; i++)
        go(&m, since_start(&m) + TICK);
    must(t.ends == 1);
    must(t.end == end);
    must(end != HWT_RETRY_FAILED || t.reason == reason_of(winner(do_fail_for_good)));
    check_noticed(end);
    if (was_true(do_cancel) || was_true(do_cancel_sync))
        must(t.begun <= begun_before + 1);
    manual_go(&m, since_start(&m) + HWT_SEC(10));
    must(t.ends == 1);
    must(hwt_timer_pending(m.timer) == 0);
    must(stats_of(m.timer).added == 1);
    if (zeroes)
        must(memcmp(&t.retry, &zero, sizeof(zero)) == 0);
}

static unsigned orders;

/* Every i and j up to where the call is over before. */
static void play_all(const struct scene *scene, void (*one)(struct actor *),
                     void (*other)(struct actor *), void (*check)(const struct scene *))
{
    bool over = false;
    for (unsigned i = 0; !over; i++) {
        bool other_over = false;
        for (unsigned j = 0; !other_over; j++) {
            play_order(scene, one, other, i, j);
            over = first.steps <= i;
            other_over = second.steps <= j;
            check(scene);
            manual_close(&m);
            orders++;
        }
    }
}

/* Both may be the one that is halted first. */
static void play_both_ways(const struct scene *scene, void (*one)(struct actor *),
                           void (*other)(struct actor *), void (*check)(const struct scene *))
{
    play_all(scene, one, other, check);
    if (one != other)
        play_all(scene, other, one, check);
}

/* ---- The races ---- */

/* A late answer of the last two writes what it tells, so it is not for an object that is zeroed. A
 * synchronous cancel waits for a pass that is halted in an attempt: test_retry_sync.c has that. */
static void (*const calls[])(struct actor *) = { do_succeed, do_fail, do_cancel, do_push_back,
                                                 do_fail_for_good };

enum {
    SCENES = sizeof(scenes) / sizeof(scenes[0]),
    CALLS = sizeof(calls) / sizeof(calls[0]),
    PLAIN_CALLS = 3
};

static void say_orders(void)
{
    printf("%u orders\n", orders);
    ck_assert_uint_gt(orders, 10);
}

START_TEST(a_call_against_a_pass)
{
    for (size_t i = 0; i < CALLS; i++)
        play_both_ways(&scenes[_i], do_pass, calls[i], check_play);
    say_orders();
}
END_TEST

START_TEST(a_call_against_a_pass_that_zeroes_the_object_at_its_end)
{
    zeroes = true;
    for (size_t i = 0; i < PLAIN_CALLS; i++)
        play_both_ways(&scenes[_i], do_pass, calls[i], check_play);
    say_orders();
}
END_TEST

START_TEST(two_calls_against_each_other)
{
    for (size_t i = 0; i < CALLS; i++)
        for (size_t j = i; j < CALLS; j++)
            play_both_ways(&scenes[_i], calls[i], calls[j], check_play);
    say_orders();
}
END_TEST

START_TEST(a_call_against_a_stop)
{
    zeroes = _i % 2;
    for (size_t i = 0; i < (zeroes ? PLAIN_CALLS : CALLS); i++)
        play_both_ways(&scenes[_i / 2], do_stop, calls[i], check_play);
    say_orders();
}
END_TEST

/* A start that was refused has called nothing, and leaves it startable. */
static void check_start(const struct scene *scene)
{
    bool first_starts = first.act == do_start || first.act == do_start_now;
    const struct actor *starter = first_starts ? &first : &second;
    if (starter->result == 0) {
        check_play(scene);
        return;
    }
    must(starter->result == -ESHUTDOWN);
    must(t.ends == 0 && t.begun == 0);
    must(!hwt_retry_cancel(&t.retry));
    manual_close(&m);
    manual_open(&m, 0, TICK, WHEEL);
    t.reply = SUCCEED;
    must(race_start() == 0);
    go(&m, HWT_MS(1));
    must(t.ends == 1 && t.end == HWT_RETRY_SUCCEEDED);
}

START_TEST(a_stop_a_cancel_or_a_pass_against_a_start)
{
    static const struct scene scene = { not_started, HWT_RETRY_EXHAUSTED };
    zeroes = _i;
    play_both_ways(&scene, do_start, do_stop, check_start);
    play_both_ways(&scene, do_start, do_cancel, check_start);
    play_both_ways(&scene, do_start, do_pass, check_start);
    say_orders();
}
END_TEST

/* While the starter's own attempt runs, which is halted there, and before and after it. */
START_TEST(a_call_against_a_start_that_makes_the_first_attempt)
{
    static const struct scene scene = { not_started, HWT_RETRY_EXHAUSTED };
    zeroes = _i;
    for (size_t i = 0; i < (zeroes ? PLAIN_CALLS : CALLS); i++)
        play_both_ways(&scene, do_start_now, calls[i], check_start);
    play_both_ways(&scene, do_start_now, do_cancel_sync, check_start);
    play_both_ways(&scene, do_start_now, do_stop, check_start);
    play_both_ways(&scene, do_start_now, do_pass, check_start);
    say_orders();
}
END_TEST

static void check_one_start(const struct scene *scene)
{
    must((first.result == 0) + (second.result == 0) == 1);
    must(first.result + second.result == -EALREADY);
    check_play(scene);
}

START_TEST(of_two_starts_one_is_refused)
{
    static const struct scene scene = { not_started, HWT_RETRY_EXHAUSTED };
    play_all(&scene, do_start, do_start, check_one_start);
    play_all(&scene, do_start_now, do_start_now, check_one_start);
    play_both_ways(&scene, do_start, do_start_now, check_one_start);
    say_orders();
}
END_TEST

/* ---- An end that starts it again ---- */

static const struct scene *raced;
static uint64_t
    undisturbed[NOTED_MAX]; /* begins of the attempts of a whole life, since its start */
static size_t undisturbed_count;

static void note_undisturbed(void)
{
    manual_open(&m, HWT_SEC(7) + 13, TICK, WHEEL);
    t = trial_of(&m, LATER);
    raced->set();
    hwt_retry_cancel(&t.retry);
    go(&m, HWT_MS(100));
    uint64_t begin = since_start(&m);
    t.begun = 0;
    ck_assert_int_eq(race_start(), 0);
    go(&m, begin + HWT_SEC(1));
    ck_assert_uint_eq(t.ends, 2);
    undisturbed_count = t.begun;
    for (size_t i = 0; i < t.begun; i++)
        undisturbed[i] = t.instants[i] - begin;
    manual_close(&m);
}

static void set_restarting(void)
{
    raced->set();
    t.restarts = 1;
}

static void check_restarted(const struct scene *scene)
{
    (void)scene;
    go(&m, since_start(&m) + HWT_SEC(1));
    must(t.ends == 2);
    must(t.begun - ended_begun == undisturbed_count);
    for (size_t i = 0; i < undisturbed_count; i++)
        must(t.instants[ended_begun + i] - ended_at == undisturbed[i]);
}

START_TEST(an_answer_does_not_disturb_a_later_life)
{
    const struct scene scene = { set_restarting, HWT_RETRY_EXHAUSTED };
    raced = &scenes[_i];
    note_undisturbed();
    play_both_ways(&scene, do_pass, do_succeed, check_restarted);
    play_both_ways(&scene, do_pass, do_fail, check_restarted);
    say_orders();
}
END_TEST

/* A case need not be a process of its own. */
static void begin_case(void)
{
    zeroes = false;
    orders = 0;
}

static Suite *make_suite(void)
{
    Suite *suite = suite_create("retry_races");
    TCase *races = add_case(suite, "races");
    tcase_add_checked_fixture(races, begin_case, NULL);
    tcase_add_loop_test(races, a_call_against_a_pass, 0, SCENES);
    tcase_add_loop_test(races, a_call_against_a_pass_that_zeroes_the_object_at_its_end, 0, SCENES);
    tcase_add_loop_test(races, two_calls_against_each_other, 0, SCENES);
    tcase_add_loop_test(races, a_call_against_a_stop, 0, 2 * SCENES);
    tcase_add_loop_test(races, a_stop_a_cancel_or_a_pass_against_a_start, 0, 2);
    tcase_add_loop_test(races, a_call_against_a_start_that_makes_the_first_attempt, 0, 2);
    tcase_add_test(races, of_two_starts_one_is_refused);
    tcase_add_loop_test(races, an_answer_does_not_disturb_a_later_life, 0, SCENES);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
