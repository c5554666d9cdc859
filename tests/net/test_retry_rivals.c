/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hwt/retry.h: two threads answer one attempt at the same time, each with a reason or a delay of its
 * own. One answer is true, and what it has told is what counts, not what the other has.
 *
 * The clock is set; how many rounds are played in two seconds is the machine's. The same race is
 * forced, step by step, in test_retry_races.c.
 */

#include "retry_fixture.h"

#include <inttypes.h>
#include <sched.h>

enum { ROUNDS = 20000 };

static manual m;
static hwt_retry retry;
static shared_count round_begun, rival_done;
static uint64_t number; /* of the attempt; published by round_begun */
static bool rival_won;
static int kind; /* 0: two reasons, 1: two delays, 2: one of each */
static uint64_t attempts, told_ends;
static int reason;
static hwt_retry_end last_end;

static void attempt(hwt_retry *of, uint64_t n, void *arg)
{
    (void)of;
    (void)arg;
    number = n;
    attempts++;
}

static void ended(hwt_retry *of, hwt_retry_end end, void *arg)
{
    (void)arg;
    last_end = end;
    reason = hwt_retry_reason(of);
    told_ends++;
}

static const hwt_retry_task task = { attempt, ended };

static bool tells_reason(int thread)
{
    return kind == 0 || (kind == 2 && thread == 0);
}

/* Delays are so many ticks, and no two rounds have the same reason. */
static bool answer(int thread, uint64_t round)
{
    return tells_reason(thread)
               ? hwt_retry_failed_for_good(&retry, number, (int)(2 * round) + thread)
               : hwt_retry_failed_with_delay(&retry, number, (thread ? 3 : 9) * TICK);
}

/* Awake, so that both answer at once; unless there is one processor for both. */
static void await(shared_count *count, uint64_t wanted)
{
    for (unsigned turns = 0; *count < wanted; turns++) {
        if (turns > 2000)
            sched_yield();
    }
}

static void *rival(void *arg)
{
    (void)arg;
    for (uint64_t round = 1;; round++) {
        await(&round_begun, round);
        if (number == 0)
            return NULL;
        rival_won = answer(1, round);
        rival_done = round;
    }
}

static void check_told(uint64_t round, int winner)
{
    uint64_t before = attempts, now = since_start(&m);
    go(&m, now + TICK);
    if (tells_reason(winner)) {
        ck_assert_uint_eq(told_ends, 1);
        ck_assert_int_eq(last_end, HWT_RETRY_FAILED);
        ck_assert_int_eq(reason, (int)(2 * round) + winner);
        return;
    }
    go(&m, now + (winner ? 4 : 10) * TICK); /* and its tick */
    ck_assert_uint_eq(attempts, before);
    go(&m, now + (winner ? 5 : 11) * TICK);
    ck_assert_uint_eq(attempts, before + 1);
    ck_assert(hwt_retry_cancel(&retry));
    go(&m, since_start(&m) + TICK);
    ck_assert_uint_eq(told_ends, 1);
}

static void play_round(uint64_t round)
{
    told_ends = 0;
    ck_assert_int_eq(hwt_retry_start_now(&retry, m.timer, NULL, &task, NULL), 0);
    round_begun = round;
    for (volatile uint64_t turns = round % 256; turns > 0; turns--)
        ; /* the other is some steps ahead, or some behind */
    bool won = answer(0, round);
    await(&rival_done, round);
    ck_assert(won != rival_won);
    check_told(round, rival_won);
}

START_TEST(of_two_answers_at_once_the_one_that_is_true_is_told)
{
    kind = _i;
    round_begun = rival_done =
        0; /* where a case is no process of its own, the last one left them */
    manual_open(&m, HWT_SEC(7), TICK, WHEEL);
    pthread_t thread = spawn(rival, NULL);
    uint64_t round = 0, end = monotonic() + HWT_SEC(2);
    while (round < ROUNDS && monotonic() < end)
        play_round(++round);
    number = 0;
    round_begun = round + 1;
    join(thread);
    printf("%" PRIu64 " rounds\n", round);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("retry_rivals");
    TCase *rivals = add_case(suite, "rivals");
    tcase_add_loop_test(rivals, of_two_answers_at_once_the_one_that_is_true_is_told, 0, 3);
    return run_suite(suite);
}
