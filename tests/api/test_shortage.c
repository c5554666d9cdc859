/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Timeouts that are accepted, and that the worker has no memory to file: they are looked at again
 * within a tick, however long nothing else is due. */

#include <stdatomic.h>

#include "api_fixture.h"

#define TICK HWT_MS(1)

enum { MANY = 300000 };

static manual m;
static ends counts;

/* A limit of the system's would not do: what was read leaves room in the heap for what is filed. */
#define LITTLE 256 /* bytes */

static atomic_bool refuse;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return size > LITTLE && refuse ? NULL : __real_malloc(size);
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

int main(void)
{
    Suite *suite = suite_create("api: shortage");
    TCase *tcase = add_case(suite, "shortage");
    tcase_add_test(tcase, what_could_not_be_filed_is_looked_at_again_in_a_tick);
    tcase_add_test(tcase, what_cannot_be_filed_runs_in_time);
    tcase_add_test(tcase, what_cannot_be_filed_takes_its_turn);
    return run_suite(suite);
}
