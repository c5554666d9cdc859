/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A graceful end against moving, cancelling, adding, and a producer that compacts: all that is due
 * before `until` has run when it returns, and all else is left over, once.
 */

#include "stage.h"

enum { DUE = 20, UNTIL = 25, LATER = 30, DAYS = 100000 };

static uint64_t until;

static void end_it(struct actor *actor)
{
    actor->answer = hwt_timer_end(actor->timer, until, count_visit, NULL);
}

static void act_end(struct actor *actor, uint64_t instant)
{
    until = instant;
    actor->timer = timer;
    actor_begin(actor, end_it);
}

static void forget_ends(void)
{
    memset(&fate, 0, sizeof(fate));
    memset(&beside, 0, sizeof(beside));
}

/* ---- moved behind the walk ---- */

static hwt_timeout moved;

static void move_it(hwt_timeout timeout, void *arg)
{
    must(hwt_timeout_reschedule_at(moved, AT(DUE)));
    count_run(timeout, arg);
}

/*
 *     end                             a thread that drives
 *     has gone by the first one,
 *     which is not due: END_LOOK
 *                                     runs the second one, which moves the first
 *     goes by the second one, which
 *     has run; goes by all again
 */
START_TEST(what_is_moved_behind_the_walk_runs)
{
    static const hwt_task moving = { move_it, NULL };
    struct actor ender;
    moved = add_with(&counting, &fate, AT(DAYS));
    hwt_timeout second = add_with(&moving, &beside, AT(1));
    /* In the order of the walk. */
    if (hwt_entry_id(moved.entry) > hwt_entry_id(second.entry)) {
        must(hwt_timeout_cancel(moved) && hwt_timeout_cancel(second));
        second = add_with(&moving, &beside, AT(1));
        moved = add_with(&counting, &fate, AT(DAYS));
        drive(1);
        forget_ends();
    }
    must(hwt_entry_id(moved.entry) < hwt_entry_id(second.entry));
    act_end(&ender, AT(UNTIL));
    actor_go_to(&ender, "END_WALK");
    actor_go_on(&ender, 3); /* looks at nothing, the first one, the second one */
    ck_assert_str_eq(actor_passed(&ender), "END_LOOK");
    drive(3);
    ck_assert_uint_eq(beside.runs, 1);
    ck_assert_int_eq(actor_end(&ender), 0);
    expect_fate(1, 0);
}
END_TEST

/* ---- a stream that the worker misses ---- */

enum { MANY = 300 };

/* Adds until it is refused. */
static void add_many(struct actor *actor)
{
    while (actor->answer < MANY &&
           hwt_timer_new_timeout_at(actor->timer, &counting, &fate, actor->instant, NULL) == 0)
        actor->answer++;
}

static void act_compact(struct actor *adder, uint64_t instant)
{
    adder->timer = timer;
    adder->instant = instant;
    actor_begin(adder, add_many);
    actor_go_to(adder, "COMPACT");
}

static void *let_go_later(void *data)
{
    usleep(20000);
    actor_let_go(data);
    return NULL;
}

/* All that it has added runs, but for what was accepted by an add that met the end. */
static void expect_all_run(struct actor *adder, int64_t left)
{
    int64_t added = actor_end(adder);
    ck_assert_int_ge(added, 2 * HWT_CHUNK_RECORDS);
    ck_assert_int_le(left, 1);
    ck_assert_uint_ge(fate.runs, (uint64_t)added - 1);
    ck_assert_uint_eq(ends_sum(&fate), (uint64_t)added);
}

/*
 *     adder                           end
 *     looks through its stream:
 *     COMPACT
 *                                     cannot read the stream: comes again
 *     is done
 *                                     reads it
 *
 * With a clock that is set; and each loop: the tick is over, or has only begun.
 */
START_TEST(a_stream_that_is_compacted_is_read_before_the_end)
{
    struct actor adder;
    act_compact(&adder, AT(3));
    pthread_t thread = spawn(let_go_later, &adder);
    int64_t left = hwt_timer_end(timer, _i ? AT(3) + 1 : AT(UNTIL), count_visit, NULL);
    join(thread);
    expect_all_run(&adder, left);
}
END_TEST

/* The same by a clock that goes, with a worker or without, in a tick that lasts an hour. */
START_TEST(a_stream_that_is_compacted_is_read_by_a_clock_that_goes)
{
    struct actor adder;
    forget_ends();
    timer = _i ? create_ticking(HWT_SEC(3600)) : create_driven(0, HWT_SEC(3600));
    uint64_t now = hwt_timer_now(timer);
    act_compact(&adder, now + HWT_MS(1));
    pthread_t thread = spawn(let_go_later, &adder);
    int64_t left = hwt_timer_end(timer, now + HWT_MS(5), count_visit, NULL);
    join(thread);
    expect_all_run(&adder, left);
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- all pairs ---- */

enum call { CANCEL_IT, MOVE_EARLIER, MOVE_LATER, ADD, CALLS };

static struct {
    enum call call;
    bool filed, end_first;
    hwt_timeout timeout;
    struct actor caller, ender;
} scene;

static void act(struct actor *actor)
{
    switch (scene.call) {
    case CANCEL_IT:
        act_cancel(actor, scene.timeout);
        break;
    case MOVE_EARLIER:
        act_move(actor, scene.timeout, AT(DUE - 10));
        break;
    case MOVE_LATER:
        act_move(actor, scene.timeout, AT(LATER));
        break;
    default:
        act_add(actor, timer, &counting, &beside, AT(DUE));
    }
}

static void tell_and_fail(const char *condition)
{
    ck_abort_msg("call %d, filed %d, end first %d: call to %s, end to %s: %s does not hold",
                 scene.call, scene.filed, scene.end_first, actor_passed(&scene.caller),
                 actor_passed(&scene.ender), condition);
}

#define holds(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            tell_and_fail(#condition);                                                             \
    } while (0)

static void check_ends(void)
{
    bool won = scene.caller.answer && scene.call < ADD;
    bool added = scene.call == ADD && scene.caller.answer == 0;
    holds(ends_sum(&fate) == 1);
    holds(fate.cancelled == (won && scene.call == CANCEL_IT));
    holds(fate.visited == (won && scene.call == MOVE_LATER));
    holds(ends_sum(&beside) == added && beside.cancelled == 0);
    holds(scene.call != ADD || added || scene.caller.answer == -ESHUTDOWN);
    holds((uint64_t)scene.ender.answer == fate.visited + beside.visited);
    holds(hwt_timer_pending(timer) == 0);
}

/* How many steps each has gone. */
struct gone {
    uint32_t call, end;
};

static struct gone perform(uint32_t steps, uint32_t steps_of_end)
{
    struct gone gone;
    forget_ends();
    stage_open();
    scene.timeout = add_either(scene.filed, AT(DUE));
    act(&scene.caller);
    act_end(&scene.ender, AT(UNTIL));
    if (scene.end_first)
        gone.end = actor_go_on(&scene.ender, steps_of_end);
    gone.call = actor_go_on(&scene.caller, steps);
    if (!scene.end_first)
        gone.end = actor_go_on(&scene.ender, steps_of_end);
    actor_end(&scene.caller);
    actor_end(&scene.ender);
    check_ends();
    expect_all_free();
    hwt_timer_destroy(timer);
    return gone;
}

START_TEST(what_meets_a_graceful_end_has_one_end)
{
    enum { FAR = 1000 };
    scene.call = (enum call)(_i / 4);
    scene.filed = _i % 2;
    scene.end_first = _i / 2 % 2;
    uint32_t call = perform(FAR, 0).call, end = perform(0, FAR).end;
    ck_assert_uint_gt(call, 0);
    for (uint32_t i = 0; i <= call; i++) {
        for (uint32_t k = 0; k <= end; k++)
            (void)perform(i, k);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: graceful ends");
    TCase *tcase = stage_case(suite, "end", stage_open, stage_close_stopped);
    tcase_add_test(tcase, what_is_moved_behind_the_walk_runs);
    tcase_add_loop_test(tcase, a_stream_that_is_compacted_is_read_before_the_end, 0, 2);
    tcase = stage_case(suite, "others", NULL, NULL);
    tcase_add_loop_test(tcase, a_stream_that_is_compacted_is_read_by_a_clock_that_goes, 0, 2);
    tcase_add_loop_test(tcase, what_meets_a_graceful_end_has_one_end, 0, 4 * CALLS);
    return run_suite(suite);
}
