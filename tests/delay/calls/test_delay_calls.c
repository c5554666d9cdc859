/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What single calls answer, on the simulated disk: one at a time, and across a reopening. */

#include "tests/delay/support/simulated.h"

#include "hwt/delay/api/steps.h"
#include "hwt/delay/whole.h"

static struct simulated s;

static void begin(void)
{
    simulated_new(&s);
    simulated_open(&s);
}

static void end(void)
{
    simulated_free(&s);
}

static void reopen(bool killed)
{
    if (killed)
        simulated_kill(&s);
    else
        simulated_close(&s);
    simulated_open(&s);
}

static const hwt_delay_message *take_one(void)
{
    const hwt_delay_message *taken = NULL;
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    return taken;
}

/* ---- cancel ---- */

/* The log says of an older message that it is done; a slot has the one that was put since. */
START_TEST(test_cancel_of_what_was_put_again_while_it_was_leased)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    uint64_t due = s.realtime;
    uint32_t id = 1;
    ck_assert_int_eq(simulated_put(&s, due, id, 10), 0);
    const hwt_delay_message *taken = take_one();
    ck_assert_int_eq(simulated_put(&s, due, id, 10), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_int_eq(hwt_delay_done(s.store, &taken->lease, 1), 1);
    hwt_delay_free(taken);
    reopen(_i & 1);
    if (_i & 2) {
        ck_assert_int_eq(hwt_delay_cancel(s.store, due, &id, sizeof(id)), 0);
        ck_assert_int_eq(hwt_delay_cancel(s.store, due, &id, sizeof(id)), -ENOENT);
    }
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), !(_i & 2));
}
END_TEST

/* ---- retries ---- */

/* They begin where the put says, and are kept: in the log, in a slot, in a checkpoint. */
START_TEST(test_retries_begin_where_a_put_says)
{
    hwt_delay_message message = { .due = s.realtime, .id = "x", .id_size = 1, .retries = 65536 };
    ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), -EINVAL);
    ck_assert_int_eq(hwt_delay_replace(s.store, 1, "x", 1, &message), -EINVAL);
    message.retries = 7;
    ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
    if (_i == 1)
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    if (_i > 0)
        reopen(true);
    const hwt_delay_message *taken = take_one();
    ck_assert_uint_eq(taken->retries, 7);
    ck_assert_int_eq(hwt_delay_retry(s.store, taken->lease, s.realtime + 1), 0);
    hwt_delay_free(taken);
    message.retries = 3;
    ck_assert_int_eq(hwt_delay_replace(s.store, s.realtime + 1, "x", 1, &message), 0);
    taken = take_one();
    ck_assert_uint_eq(taken->retries, 3);
    hwt_delay_free(taken);
}
END_TEST

/* They are counted up to what has room. */
START_TEST(test_retries_have_an_end)
{
    hwt_delay_message message = { .due = s.realtime, .id = "x", .id_size = 1, .retries = 65534 };
    ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
    for (uint32_t i = 0; i < 4; i++) {
        const hwt_delay_message *taken = take_one();
        ck_assert_uint_eq(taken->retries, i == 0 ? 65534 : 65535);
        ck_assert_int_eq(hwt_delay_retry(s.store, taken->lease, s.realtime - i - 1), 0);
        hwt_delay_free(taken);
    }
}
END_TEST

/* ---- retry ---- */

enum where { IN_THE_LOG, LEASED, AS_IT_IS, WHERES };

/* What has the new due time and the id stays, and so does the lease. */
START_TEST(test_retry_onto_another_message)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    uint64_t due = s.realtime, later = due + (_i == LEASED ? 1 : HWT_SEC(100));
    const hwt_delay_message *other = NULL;
    ck_assert_int_eq(simulated_put(&s, due, 1, 10), 0);
    const hwt_delay_message *taken = take_one();
    if (_i == AS_IT_IS) {
        later = due;
        ck_assert_int_eq(simulated_put(&s, due, 1, 20), 0);
    } else {
        ck_assert_int_eq(simulated_put(&s, later, 1, 20), 0);
    }
    if (_i == LEASED) {
        simulated_advance(&s, 1);
        other = take_one();
        ck_assert_uint_eq(other->payload_size, 20);
    }
    ck_assert_int_eq(hwt_delay_retry(s.store, taken->lease, later), -EEXIST);
    ck_assert_uint_eq(simulated_stats(&s).retried, 0);
    if (_i != AS_IT_IS)
        ck_assert_int_eq(hwt_delay_extend(s.store, taken->lease, HWT_SEC(50)), 0);
    ck_assert_int_eq(hwt_delay_retry(s.store, taken->lease, later + 1), 0);
    if (other)
        ck_assert_int_eq(hwt_delay_extend(s.store, other->lease, 0), 0);
    hwt_delay_free(taken);
    hwt_delay_free(other);
    simulated_advance(&s, HWT_SEC(200));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 2);
    ck_assert_uint_eq(counts[1], 2);
}
END_TEST

/* Its own due time, a cancelled message's, one that was done: these are free. */
START_TEST(test_retry_to_where_nothing_is)
{
    uint64_t due = s.realtime, later = due + HWT_SEC(100);
    uint32_t id = 1;
    ck_assert_int_eq(simulated_put(&s, due, id, 10), 0);
    if (_i > 0) {
        ck_assert_int_eq(simulated_put(&s, later, id, 10), 0);
        if (_i == 2)
            ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        ck_assert_int_eq(hwt_delay_cancel(s.store, later, &id, sizeof(id)), 0);
    }
    const hwt_delay_message *taken = take_one();
    ck_assert_int_eq(hwt_delay_retry(s.store, taken->lease, _i == 0 ? due : later), 0);
    hwt_delay_free(taken);
    simulated_advance(&s, HWT_SEC(100));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 1);
}
END_TEST

/* ---- next ---- */

/*
 * With nothing pending there is nothing next, wherever the clock is and whatever was there before; but
 * for what was cancelled in a slot that was not read since the store was opened.
 */
START_TEST(test_nothing_is_next_with_nothing_pending)
{
    uint64_t random = test_seed() + (uint64_t)_i;
    for (int round = 0; round < 60; round++) {
        uint32_t count = 1 + (uint32_t)(test_random(&random) % 20);
        uint64_t last = s.realtime;
        for (uint32_t i = 0; i < count; i++) {
            uint64_t due = s.realtime + (test_random(&random) % HWT_SEC(4000)) - HWT_SEC(1000);
            last = due > last ? due : last;
            ck_assert_int_eq(simulated_put(&s, due, i, 10), 0);
            if (test_random(&random) % 8 == 0)
                ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
            if (_i % 2 == 0 && test_random(&random) % 4 == 0)
                ck_assert_int_eq(hwt_delay_cancel(s.store, due, &i, sizeof(i)), 0);
        }
        if (_i % 2 == 1 && test_random(&random) % 4 == 0)
            reopen(test_random(&random) % 2);
        simulated_advance(&s, last - s.realtime);
        ck_assert_int_ge(simulated_deliver(&s, SIZE_MAX, NULL), 0);
        ck_assert_msg(hwt_delay_next(s.store) == HWT_NEVER, "round %d: %" PRIu64 " at %" PRIu64,
                      round, hwt_delay_next(s.store), s.realtime);
        s.realtime -= test_random(&random) % HWT_SEC(3000);
        ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
        ck_assert_msg(hwt_delay_next(s.store) == HWT_NEVER,
                      "round %d, back: %" PRIu64 " at %" PRIu64, round, hwt_delay_next(s.store),
                      s.realtime);
    }
}
END_TEST

/* ---- close ---- */

static void note(int result, void *arg)
{
    *(int *)arg = result;
}

START_TEST(test_close_says_that_a_flush_failed)
{
    hwt_delay_message message = { .due = s.realtime, .id = "x", .id_size = 1 };
    int told = 1;
    s.process.fail_only = 1u << DISK_SYNC;
    s.process.calls = 0;
    s.process.fail_at = s.process.fail_count = 1;
    s.process.fail_with = -EIO;
    ck_assert_int_eq(hwt_delay_put_async(s.store, &message, 1, note, &told), 0);
    ck_assert_int_eq(told, -EIO);
    ck_assert_int_eq(hwt_delay_close(s.store), -EIO);
    s.store = NULL;
    process_end(&s.process);
    simulated_open(&s);
    ck_assert_int_eq(hwt_delay_close(s.store), 0);
    s.store = NULL;
    process_end(&s.process);
}
END_TEST

/* ---- done ---- */

/* The log has room for the first of them, and no checkpoint can be made. */
START_TEST(test_done_of_more_than_there_is_room_for)
{
    enum { MANY = 4000 };
    static uint64_t leases[MANY];
    simulated_free(&s);
    simulated_new(&s);
    s.options.memory = 16 << 20;
    simulated_open(&s);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(simulated_put(&s, s.realtime, i, 10), 0);
    for (size_t i = 0; i < MANY; i++) {
        const hwt_delay_message *taken = take_one();
        leases[i] = taken->lease;
        hwt_delay_free(taken);
    }
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    s.process.fail_with = -ENOSPC;
    s.process.fail_only = 1U << DISK_OPEN;
    s.process.fail_at = s.process.calls + 1;
    s.process.fail_count = UINT64_MAX;
    int64_t ended = hwt_delay_done(s.store, leases, MANY);
    ck_assert_int_gt(ended, 0);
    ck_assert_int_lt(ended, MANY);
    ck_assert_int_eq(hwt_delay_done(s.store, leases, MANY), -ENOSPC);
    ck_assert_uint_eq(simulated_stats(&s).leased, MANY - (uint64_t)ended);
    s.process.fail_with = 0;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_int_eq(hwt_delay_done(s.store, leases, MANY), MANY - ended);
    reopen(true);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
}
END_TEST

/* Consumers may still have them. */
START_TEST(test_leases_of_an_earlier_opening_are_over)
{
    uint64_t before[10];
    for (uint32_t i = 0; i < 10; i++)
        ck_assert_int_eq(simulated_put(&s, s.realtime, i, 10), 0);
    for (int i = 0; i < 10; i++) {
        const hwt_delay_message *taken = take_one();
        before[i] = taken->lease;
        hwt_delay_free(taken);
    }
    reopen(_i);
    for (int i = 0; i < 10; i++)
        hwt_delay_free(take_one());
    ck_assert_int_eq(hwt_delay_done(s.store, before, 10), 0);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(hwt_delay_retry(s.store, before[i], s.realtime), -ENOENT);
        ck_assert_int_eq(hwt_delay_extend(s.store, before[i], HWT_SEC(1)), -ENOENT);
    }
    ck_assert_uint_eq(simulated_stats(&s).leased, 10);
}
END_TEST

/* Due now, with an id that is as long as can be. */
static hwt_delay_message long_one(uint32_t i, char id[HWT_DELAY_ID_MAX])
{
    memset(id, (int)i, HWT_DELAY_ID_MAX);
    return (hwt_delay_message){ .due = s.realtime, .id = id, .id_size = HWT_DELAY_ID_MAX };
}

/* A message for the frame that is gathered, and nobody writes that. */
static void gather_one(uint32_t i)
{
    static const char payload[200];
    const hwt_delay_message message = { .due = s.realtime,
                                        .id = &i,
                                        .id_size = sizeof(i),
                                        .payload = payload,
                                        .payload_size = sizeof(payload) };
    struct hwt_delay_steps steps;
    ck_assert_int_eq(hwt_delay_steps_init(&steps, 1), 0);
    ck_assert_int_eq(hwt_delay_step_put(steps.list, &message), 0);
    ck_assert_int_eq(hwt_delay_steps_make(s.store, &steps), 0);
    hwt_delay_steps_free(&steps);
}

enum { OTHERS = 100 };

/* The frame is being written. */
static void take_others(void *arg, enum disk_call call, const char *name)
{
    const hwt_delay_message *taken;
    (void)arg;
    (void)call;
    (void)name;
    s.process.changed = NULL;
    ck_assert_int_eq(hwt_delay_take(s.store, OTHERS, 0, &taken), OTHERS);
    hwt_delay_free(taken);
}

/* The call waits for room in the log. Numbers that become those of leases meanwhile have no room, so
 * they are those of none. */
START_TEST(test_done_with_leases_that_are_given_meanwhile)
{
    char id[HWT_DELAY_ID_MAX];
    hwt_delay_change changes[1 + OTHERS] = { 0 };
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken),
                     0); /* what is due now is in memory from now on */
    for (uint32_t i = 0; i <= OTHERS; i++) {
        const hwt_delay_message message = long_one(i, id);
        ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
    }
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    taken = take_one();
    for (uint64_t i = 0; i <= OTHERS; i++)
        changes[i] = (hwt_delay_change){ .op = HWT_DELAY_OP_DONE,
                                         .flags = i > 0 ? HWT_DELAY_MAY_FAIL : 0,
                                         .lease = taken->lease + i };
    hwt_delay_free(taken);
    const size_t size = HWT_DELAY_RECORD_HEAD_MAX + HWT_DELAY_ID_MAX;
    for (uint32_t i = 0; hwt_delay_log_try(s.store, size, 0, false) == 0; i++)
        gather_one(i);
    s.process.changed = take_others;
    ck_assert_int_eq(hwt_delay_apply(s.store, changes, 1 + OTHERS, NULL), 0);
    must(!s.process.changed); /* it has waited */
    ck_assert_int_eq(changes[0].result, 0);
    for (size_t i = 1; i <= OTHERS; i++)
        ck_assert_int_eq(changes[i].result, -ENOENT);
    ck_assert_uint_eq(simulated_stats(&s).leased, OTHERS);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_calls");
    TCase *tcase = tcase_create("calls");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_cancel_of_what_was_put_again_while_it_was_leased, 0, 4);
    tcase_add_loop_test(tcase, test_retries_begin_where_a_put_says, 0, 3);
    tcase_add_test(tcase, test_retries_have_an_end);
    tcase_add_loop_test(tcase, test_retry_onto_another_message, 0, WHERES);
    tcase_add_loop_test(tcase, test_retry_to_where_nothing_is, 0, 3);
    tcase_add_loop_test(tcase, test_nothing_is_next_with_nothing_pending, 0, 10);
    tcase_add_test(tcase, test_close_says_that_a_flush_failed);
    tcase_add_test(tcase, test_done_of_more_than_there_is_room_for);
    tcase_add_loop_test(tcase, test_leases_of_an_earlier_opening_are_over, 0, 2);
    tcase_add_test(tcase, test_done_with_leases_that_are_given_meanwhile);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
