/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A budget of retries: alone, shared by threads, and named in the options of many retries. */

#include "retry_fixture.h"
#include "stress.h"

static hwt_retry_budget budget;

static void fill(uint32_t max_tokens, double token_ratio)
{
    ck_assert_int_eq(hwt_retry_budget_init(&budget, max_tokens, token_ratio), 0);
}

/* How many failures may be retried from now on. */
static unsigned burst(void)
{
    unsigned allowed = 0;
    while (hwt_retry_budget_failed(&budget))
        allowed++;
    return allowed;
}

static void succeed(unsigned times)
{
    while (times-- > 0)
        hwt_retry_budget_succeeded(&budget);
}

/* ---- Alone ---- */

START_TEST(nonsense_is_refused_and_changes_nothing)
{
    hwt_retry_budget before;
    memset(&budget, 0x5a, sizeof(budget));
    before = budget;
    ck_assert_int_eq(hwt_retry_budget_init(NULL, 10, 0.1), -EINVAL);
    ck_assert_int_eq(hwt_retry_budget_init(&budget, 0, 0.1), -EINVAL);
    ck_assert_int_eq(hwt_retry_budget_init(&budget, 1000001, 0.1), -EINVAL);
    ck_assert_int_eq(hwt_retry_budget_init(&budget, 10, 0), -EINVAL);
    ck_assert_int_eq(hwt_retry_budget_init(&budget, 10, 0.0009), -EINVAL);
    ck_assert_int_eq(hwt_retry_budget_init(&budget, 10, -1), -EINVAL);
    ck_assert_int_eq(hwt_retry_budget_init(&budget, 10, 10.001), -EINVAL);
    ck_assert_int_eq(hwt_retry_budget_init(&budget, 10, (double)(0.0f / 0.0f)), -EINVAL);
    ck_assert_mem_eq(&budget, &before, sizeof(before));
    ck_assert_int_eq(hwt_retry_budget_init(&budget, 1000000, 1000000), 0);
    ck_assert_int_eq(hwt_retry_budget_init(&budget, 1, 0.001), 0);
}
END_TEST

START_TEST(without_a_budget_all_is_allowed)
{
    ck_assert(hwt_retry_budget_failed(NULL));
    ck_assert(hwt_retry_budget_allows(NULL));
    hwt_retry_budget_succeeded(NULL);
}
END_TEST

START_TEST(more_than_half_of_the_tokens_allow_a_retry)
{
    fill(10, 0.1);
    ck_assert(hwt_retry_budget_allows(&budget));
    ck_assert_uint_eq(burst(), 4); /* 9, 8, 7, 6; the fifth leaves half */
    ck_assert(!hwt_retry_budget_allows(&budget));
    fill(1, 0.1);
    ck_assert_uint_eq(burst(), 0);
    fill(3, 0.1);
    ck_assert_uint_eq(burst(), 1); /* 2 is more than 1.5 */
}
END_TEST

START_TEST(successes_put_their_part_back)
{
    fill(10, 0.1);
    burst(); /* 5 are left */
    hwt_retry_budget_succeeded(&budget);
    ck_assert(hwt_retry_budget_allows(&budget));
    ck_assert(!hwt_retry_budget_failed(&budget)); /* 4.1 */
    succeed(9);
    ck_assert(!hwt_retry_budget_allows(&budget)); /* 5.0 */
    succeed(1);
    ck_assert(hwt_retry_budget_allows(&budget));
}
END_TEST

START_TEST(it_is_never_over_full_nor_below_empty)
{
    fill(10, 0.3);
    succeed(1000);
    ck_assert_uint_eq(burst(), 4);
    for (int i = 0; i < 1000; i++)
        ck_assert(!hwt_retry_budget_failed(&budget));
    succeed(16); /* 4.8 */
    ck_assert(!hwt_retry_budget_allows(&budget));
    succeed(1); /* 5.1 */
    ck_assert(hwt_retry_budget_allows(&budget));
}
END_TEST

START_TEST(the_ratio_is_kept_in_thousandths)
{
    fill(2, 0.001);
    ck_assert_uint_eq(burst(), 0);
    succeed(1);
    ck_assert(hwt_retry_budget_allows(&budget));
    fill(2, 0.0014);
    hwt_retry_budget_failed(&budget);
    hwt_retry_budget_failed(&budget);
    succeed(1000);
    ck_assert(!hwt_retry_budget_allows(&budget));
    succeed(1);
    ck_assert(hwt_retry_budget_allows(&budget));
}
END_TEST

/* ---- Threads ---- */

enum { THREADS = 4, CALLS = 50000 };

static void *fail_and_succeed(void *arg)
{
    unsigned rounds = *(unsigned *)arg;
    for (unsigned i = 0; i < rounds; i++) {
        hwt_retry_budget_failed(&budget);
        hwt_retry_budget_allows(&budget);
        for (int n = 0; n < 4; n++)
            hwt_retry_budget_succeeded(&budget);
    }
    return NULL;
}

/* Never full nor empty on the way, so each call counts: what is left is exact. */
START_TEST(nothing_is_lost_between_threads)
{
    pthread_t threads[THREADS];
    unsigned rounds = test_scaled(CALLS);
    fill(1000000, 0.25);
    for (unsigned i = 0; i < 499000; i++)
        hwt_retry_budget_failed(&budget);
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(fail_and_succeed, &rounds);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    ck_assert_uint_eq(burst(), 999); /* from 501000 down to 500001 */
}
END_TEST

static shared_count allowed;

static void *fail_on(void *arg)
{
    unsigned rounds = *(unsigned *)arg;
    for (unsigned i = 0; i < rounds; i++)
        allowed += hwt_retry_budget_failed(&budget);
    return NULL;
}

START_TEST(threads_that_fail_together_are_allowed_as_many_as_one)
{
    pthread_t threads[THREADS];
    unsigned rounds = test_scaled(CALLS);
    fill(rounds, 1);
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(fail_on, &rounds);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    ck_assert_uint_eq(allowed, (rounds + 1) / 2 - 1);
}
END_TEST

/* ---- Named in the options ---- */

static manual m;

static void open_manual(void)
{
    manual_open(&m, HWT_SEC(7) + 13, TICK, WHEEL);
}

static void close_manual(void)
{
    manual_close(&m);
}

static trial with_budget(enum reply reply)
{
    trial t = trial_of(&m, reply);
    t.options.budget = &budget;
    return t;
}

START_TEST(a_failure_over_budget_ends_it)
{
    trial t = with_budget(FAIL);
    fill(6, 1);
    ck_assert_int_eq(trial_start(&t), 0);
    go(&m, HWT_MS(100));
    CHECK_BEGUN(&t, HWT_MS(1), HWT_MS(12), HWT_MS(33)); /* 5, 4, 3 are left: that is half */
    check_ended(&t, HWT_RETRY_THROTTLED, HWT_MS(33));
    ck_assert(!hwt_retry_budget_allows(&budget));
}
END_TEST

START_TEST(a_success_puts_its_part_back)
{
    trial t = with_budget(SUCCEED);
    fill(4, 1);
    ck_assert_uint_eq(burst(), 1);        /* 2 are left */
    ck_assert_int_eq(trial_start(&t), 0); /* the first attempt asks nobody */
    go(&m, HWT_MS(1));
    check_ended(&t, HWT_RETRY_SUCCEEDED, HWT_MS(1));
    ck_assert(hwt_retry_budget_allows(&budget)); /* 3 */
    ck_assert(!hwt_retry_budget_failed(&budget));
}
END_TEST

START_TEST(every_kind_of_failure_takes_a_token_and_no_other_end_does)
{
    static const struct {
        enum reply reply;
        uint64_t attempt_timeout, total_timeout;
        bool takes;
        hwt_retry_end end;
    } ways[] = {
        { FAIL, HWT_NEVER, HWT_NEVER, true, HWT_RETRY_EXHAUSTED },
        { PUSH_BACK, HWT_NEVER, HWT_NEVER, true, HWT_RETRY_EXHAUSTED },
        { LATER, HWT_MS(3), HWT_NEVER, true, HWT_RETRY_EXHAUSTED },
        { LATER, HWT_NEVER, HWT_MS(3), false, HWT_RETRY_OUT_OF_TIME },
        { FAIL_FOR_GOOD, HWT_NEVER, HWT_NEVER, false, HWT_RETRY_FAILED },
        { GIVE_UP, HWT_NEVER, HWT_NEVER, false, HWT_RETRY_CANCELLED },
    };
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        trial t = with_budget(ways[i].reply);
        t.options.attempt_timeout = ways[i].attempt_timeout;
        t.options.total_timeout = ways[i].total_timeout;
        t.options.max_attempts = 1; /* what is exhausted is not throttled */
        fill(2, 1);
        ck_assert_int_eq(trial_start(&t), 0);
        go(&m, since_start(&m) + HWT_MS(10));
        ck_assert_uint_eq(t.ends, 1);
        ck_assert_int_eq(t.end, ways[i].end);
        ck_assert(hwt_retry_budget_allows(&budget) == !ways[i].takes);
    }
}
END_TEST

START_TEST(many_share_one_budget)
{
    enum { MANY = 20 };
    static trial trials[MANY];
    size_t begun = 0, throttled = 0;
    fill(40, 0.1);
    for (int i = 0; i < MANY; i++) {
        trials[i] = with_budget(FAIL);
        trials[i].options.jitter = HWT_JITTER_FULL;
        ck_assert_int_eq(trial_start(&trials[i]), 0);
    }
    go(&m, HWT_MS(500));
    for (int i = 0; i < MANY; i++) {
        begun += trials[i].begun;
        throttled += trials[i].ends == 1 && trials[i].end == HWT_RETRY_THROTTLED;
    }
    ck_assert_uint_eq(throttled, MANY);
    ck_assert_uint_eq(begun, MANY + 19); /* the first attempts, and the retries of the upper half */
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("budget");
    TCase *alone = add_case(suite, "alone");
    tcase_add_test(alone, nonsense_is_refused_and_changes_nothing);
    tcase_add_test(alone, without_a_budget_all_is_allowed);
    tcase_add_test(alone, more_than_half_of_the_tokens_allow_a_retry);
    tcase_add_test(alone, successes_put_their_part_back);
    tcase_add_test(alone, it_is_never_over_full_nor_below_empty);
    tcase_add_test(alone, the_ratio_is_kept_in_thousandths);

    TCase *threads = add_case(suite, "threads");
    tcase_add_test(threads, nothing_is_lost_between_threads);
    tcase_add_test(threads, threads_that_fail_together_are_allowed_as_many_as_one);

    TCase *retries = add_case(suite, "retries");
    tcase_add_checked_fixture(retries, open_manual, close_manual);
    tcase_add_test(retries, a_failure_over_budget_ends_it);
    tcase_add_test(retries, a_success_puts_its_part_back);
    tcase_add_test(retries, every_kind_of_failure_takes_a_token_and_no_other_end_does);
    tcase_add_test(retries, many_share_one_budget);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
