/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The cost of hwt_timer_end() beside very many timeouts that it does not wait for: it goes by all a
 * few times, however many ticks there are until then, and however long it waits. Its steps are
 * counted, nothing is timed.
 */

#include "hwt/pool/pool.h"

#include "api_fixture.h"

enum { LATER = 50000, DUE = 500, NAPS = 20, TIMES = 4 };

static shared_count walked, naps;
static gate stands;

/* With the linker's --wrap: how many timeouts it goes by, and how often it sleeps. */
struct hwt_entry *__real_hwt_pool_walk(const struct hwt_pool *pool, uint32_t *number,
                                       uint32_t *seat);
struct hwt_entry *__wrap_hwt_pool_walk(const struct hwt_pool *pool, uint32_t *number,
                                       uint32_t *seat);
int __real_nanosleep(const struct timespec *pause, struct timespec *left);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);

struct hwt_entry *__wrap_hwt_pool_walk(const struct hwt_pool *pool, uint32_t *number,
                                       uint32_t *seat)
{
    walked++;
    return __real_hwt_pool_walk(pool, number, seat);
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
    if (++naps == NAPS)
        stands.open = 1;
    return __real_nanosleep(pause, left);
}

static void arm_later(hwt_timer *timer, ends *late, int n)
{
    for (int i = 0; i < n; i++)
        (void)arm(timer, &counting, late, HWT_SEC(86400));
}

/* One is due in each tick, and behind each in memory are a hundred that are not. */
START_TEST(it_goes_by_all_a_few_times_however_many_ticks_have_work)
{
    manual m;
    ends due = { 0 }, late = { 0 };
    manual_open(&m, 0, HWT_MS(1), 64);
    for (int i = 0; i < DUE; i++) {
        (void)arm(m.timer, &counting, &due, HWT_MS(_i ? DUE - i : i));
        arm_later(m.timer, &late, LATER / DUE);
    }
    walked = 0;
    ck_assert_int_eq(hwt_timer_end(m.timer, HWT_SEC(10), count_visit, NULL), LATER);
    ck_assert_uint_eq(due.runs, DUE);
    ck_assert_uint_eq(late.visited, LATER);
    ck_assert_uint_le(walked, TIMES * (uint64_t)(LATER + DUE));
    manual_close(&m);
}
END_TEST

START_TEST(it_goes_by_all_a_few_times_however_long_a_task_takes)
{
    ends late = { 0 };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    stands = (gate){ 0 };
    arm_later(timer, &late, LATER);
    (void)arm(timer, &gated, &stands, 0);
    ck_assert(await_count(&stands.reached, 1));
    walked = naps = 0;
    ck_assert_int_eq(hwt_timer_end(timer, hwt_timer_now(timer) + HWT_SEC(3600), count_visit, NULL),
                     LATER);
    ck_assert_uint_ge(naps, NAPS);
    ck_assert_uint_eq(stands.passed, 1);
    ck_assert_uint_le(walked, TIMES * (uint64_t)LATER);
    hwt_timer_destroy(timer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: the cost of graceful ends");
    TCase *tcase = add_case(suite, "cost");
    tcase_add_loop_test(tcase, it_goes_by_all_a_few_times_however_many_ticks_have_work, 0, 2);
    tcase_add_test(tcase, it_goes_by_all_a_few_times_however_long_a_task_takes);
    return run_suite(suite);
}
