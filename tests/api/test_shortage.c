/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Timeouts that are accepted, and that the worker has no memory to file: they are looked at again
 * within a tick, however long nothing else is due, and are not late once there is memory. */

#include <stdatomic.h>

#include "hwt/base/pieces.h"

#include "api_fixture.h"

#define TICK HWT_MS(1)

enum { MANY = 300000 };

static manual m;
static ends counts;

/* A limit of the system's would not do: what was read leaves room for what is filed. */
#define LITTLE 256 /* bytes */

static atomic_bool refuse;

void *__real_hwt_pieces_take(struct hwt_pieces *pieces, unsigned kind);
void *__wrap_hwt_pieces_take(struct hwt_pieces *pieces, unsigned kind);

void *__wrap_hwt_pieces_take(struct hwt_pieces *pieces, unsigned kind)
{
    return hwt_pieces_size(kind) > LITTLE && refuse ? NULL : __real_hwt_pieces_take(pieces, kind);
}

static void open_filled(uint32_t flags)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.flags = flags;
    memset(&counts, 0, sizeof(counts));
    manual_open_with(&m, HWT_SEC(5), options);
    for (int i = 0; i < MANY; i++)
        (void)arm(m.timer, &counting, &counts, HWT_MS(100));
}

static uint64_t next_since_start(void)
{
    return hwt_timer_next_tick(m.timer) - m.start;
}

/* In one tick, whose bucket has no room for so many. */
START_TEST(what_could_not_be_filed_is_looked_at_again_in_a_tick)
{
    open_filled(0);
    refuse = true;
    manual_go(&m, TICK);
    uint64_t in = next_since_start();
    bool pending = hwt_timer_pending(m.timer) == MANY;
    refuse = false;
    ck_assert(pending);
    ck_assert_uint_le(in, 2 * TICK);
    manual_go(&m, 2 * TICK);
    ck_assert_uint_eq(next_since_start(), due_at(HWT_MS(100), TICK));
    ck_assert_uint_eq(manual_go(&m, HWT_MS(100)), 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(101)), MANY);
    manual_close(&m);
}
END_TEST

/* As long as it lasts, they run in time all the same. */
START_TEST(what_cannot_be_filed_runs_in_time)
{
    open_filled(0);
    refuse = true;
    uint64_t early = manual_go(&m, HWT_MS(100)), runs = manual_go(&m, HWT_MS(101));
    refuse = false;
    ck_assert_uint_eq(early, 0);
    ck_assert_uint_eq(runs, MANY);
    manual_close(&m);
}
END_TEST

/* ---- more than are wanted ---- */

enum { CROWD = 2000, WANTED = 100, CALLS = 3 * CROWD / WANTED };

static unsigned ran[CROWD];

static void run_again_next_tick(hwt_timeout timeout, void *arg)
{
    ++*(unsigned *)arg;
    hwt_timeout_repeat(timeout, TICK);
}

static const hwt_task repeating = { run_again_next_tick, NULL };

/* All are due in each tick, and a call starts a twentieth of them. None waits for ever. */
START_TEST(what_cannot_be_filed_takes_its_turn)
{
    unsigned least = UINT32_MAX;
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    memset(ran, 0, sizeof(ran));
    manual_open_with(&m, HWT_SEC(5), options);
    for (int i = 0; i < CROWD; i++)
        (void)arm(m.timer, &repeating, &ran[i], 0);
    refuse = true;
    for (uint64_t tick = 1; tick <= CALLS; tick++) {
        m.now = m.start + tick * TICK;
        hwt_timer_advance_some(m.timer, m.now, WANTED);
    }
    refuse = false;
    for (int i = 0; i < CROWD; i++)
        least = ran[i] < least ? ran[i] : least;
    ck_assert_uint_ge(least, 1);
    manual_close(&m);
}
END_TEST

/* ---- a call that was cut short ---- */

enum { DUE = 2000 };

static const uint64_t firsts[] = { 3, 100 }; /* fewer and more than what is filed without memory */

/* A tick is so long that who is a tick late is not there. */
static void open_long(uint32_t flags)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MIN(60);
    options.flags = flags;
    memset(&counts, 0, sizeof(counts));
    manual_open_with(&m, HWT_SEC(5), options);
}

static const uint32_t flags_of_loop[] = { 0, HWT_ONE_THREAD };

/* The first call has no memory and may start a few; then there is memory, and no time has gone by. */
static void expect_the_rest(uint64_t since_start, uint64_t few)
{
    m.now = m.start + since_start;
    refuse = true;
    uint64_t first = hwt_timer_advance_some(m.timer, m.now, few);
    refuse = false;
    uint64_t next = hwt_timer_next_tick(m.timer), rest = hwt_timer_advance(m.timer, m.now);
    ck_assert_uint_eq(first, few);
    ck_assert_uint_le(next, m.now);
    ck_assert_uint_eq(rest, DUE - few);
    ck_assert_uint_eq(counts.runs, DUE);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_NEVER);
    manual_close(&m);
}

/* Each loop: with other flags, in one tick or in many, after a few or some more. */
START_TEST(what_could_not_be_filed_is_not_late_after_a_call_that_was_cut_short)
{
    open_long(flags_of_loop[_i % 2]);
    for (uint64_t i = 0; i < DUE; i++)
        (void)arm(m.timer, &counting, &counts, _i & 2 ? i * HWT_MIN(1) : 0);
    expect_the_rest(_i & 2 ? HWT_MIN(DUE + 60) : HWT_MIN(60), firsts[_i / 4]);
}
END_TEST

/* They were filed, and pushed back to a tick that is over, too, when their first one is handled. */
START_TEST(what_could_not_be_filed_again_is_not_late_after_a_call_that_was_cut_short)
{
    static hwt_timeout timeouts[DUE];
    open_long(flags_of_loop[_i % 2]);
    for (int i = 0; i < DUE; i++)
        timeouts[i] = arm(m.timer, &counting, &counts, 0);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), m.start + HWT_MIN(60));
    for (int i = 0; i < DUE; i++)
        must(hwt_timeout_reschedule(timeouts[i], HWT_MIN(60)));
    expect_the_rest(HWT_MIN(180), firsts[_i / 2]);
}
END_TEST

static void run_again_at_once(hwt_timeout timeout, void *arg)
{
    count_run(timeout, arg);
    must(hwt_timeout_reschedule_at(timeout, 0));
}

/* What tasks arm for an instant that has passed comes in the next tick. A shortage does not make the
 * timer ask to be driven all the time. */
START_TEST(in_a_shortage_what_rearms_itself_for_the_past_is_for_the_next_tick)
{
    static const hwt_task again = { run_again_at_once, NULL };
    open_long(flags_of_loop[_i]);
    for (int i = 0; i < DUE; i++)
        (void)arm(m.timer, &again, &counts, 0);
    refuse = true;
    uint64_t runs = manual_go(&m, HWT_MIN(60)), next = hwt_timer_next_tick(m.timer);
    refuse = false;
    ck_assert_uint_ge(runs, DUE);
    ck_assert_uint_eq(next, m.start + HWT_MIN(120));
    ck_assert_uint_eq(manual_go(&m, HWT_MIN(120)), DUE);
    manual_close(&m);
}
END_TEST

/* Each loop: with other flags. */
START_TEST(what_never_fires_does_not_though_it_cannot_be_filed)
{
    open_long(flags_of_loop[_i]);
    refuse = true;
    for (int i = 0; i < DUE; i++)
        (void)hwt_timer_new_timeout_at(m.timer, &counting, &counts, HWT_NEVER, NULL);
    uint64_t runs = hwt_timer_advance(m.timer, HWT_NEVER);
    refuse = false;
    runs += hwt_timer_advance(m.timer, HWT_NEVER);
    ck_assert_uint_eq(runs, 0);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: shortage");
    TCase *tcase = add_case(suite, "shortage");
    tcase_add_test(tcase, what_could_not_be_filed_is_looked_at_again_in_a_tick);
    tcase_add_test(tcase, what_cannot_be_filed_runs_in_time);
    tcase_add_test(tcase, what_cannot_be_filed_takes_its_turn);
    tcase_add_loop_test(tcase, what_could_not_be_filed_is_not_late_after_a_call_that_was_cut_short,
                        0, 4);
    tcase_add_loop_test(
        tcase, what_could_not_be_filed_again_is_not_late_after_a_call_that_was_cut_short, 0, 4);
    tcase_add_loop_test(tcase, in_a_shortage_what_rearms_itself_for_the_past_is_for_the_next_tick,
                        0, 2);
    tcase_add_loop_test(tcase, what_never_fires_does_not_though_it_cannot_be_filed, 0, 2);
    return run_suite(suite);
}
