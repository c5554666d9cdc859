/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The two halves of the file `handed`: neither is written anew while something needs it. A process
 * that was killed has handed messages over; the next one takes others again and again, with
 * checkpoints in between, and is killed too. No count is lost, and a checkpoint has room for all of them.
 */

#include <stdio.h>
#include <stdlib.h>

#include "tests/delay/support/simulated.h"

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

/* Takes so many; checks how often each was handed over, and ends their leases or keeps them. */
static void take(size_t count, uint32_t deliveries, bool keep)
{
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_take(s.store, count, 0, &taken), (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        ck_assert_uint_eq(taken[i].deliveries, deliveries);
        if (!keep)
            ck_assert_int_eq(hwt_delay_extend(s.store, taken[i].lease, 0), 0);
    }
    hwt_delay_free(taken);
}

/* Takes up to so many, and is done with each; it was handed over so often. */
static uint32_t finish(uint32_t deliveries, uint32_t most)
{
    const hwt_delay_message *taken;
    uint32_t count = 0;
    for (; count < most && hwt_delay_take(s.store, 1, 0, &taken) == 1; count++) {
        ck_assert_uint_eq(taken->deliveries, deliveries);
        ck_assert_int_eq(hwt_delay_done(s.store, &taken->lease, 1), 1);
        hwt_delay_free(taken);
    }
    return count;
}

static void checkpoint(int result)
{
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), result);
}

static void refuse(enum disk_call call, int error)
{
    s.process.fail_with = error;
    s.process.fail_only = 1u << call;
    s.process.fail_at = s.process.calls + 1;
    s.process.fail_count = UINT64_MAX;
}

/*
 * The counts are of more messages than memory can have at once, all of them in slots. Checkpoints
 * while some have been loaded and others have not do not free the half.
 */
START_TEST(counts_of_what_is_still_to_be_loaded)
{
    enum { MANY = 200, FEW = 4, SIZE = 8000, ROUNDS = 6 };
    const uint64_t memory = s.options.memory;
    simulated_free(&s);
    simulated_new(&s);
    s.options.memory = 16 * memory;
    s.options.segment_size = 4 << 20; /* so that there is one checkpoint before the take */
    simulated_open(&s);
    for (uint32_t i = 0; i <= MANY; i++) /* the last one keeps their slot */
        ck_assert_int_eq(simulated_put(&s, s.realtime - HWT_SEC(10) + i, i, SIZE), 0);
    checkpoint(0);
    take(MANY, 1, true);
    simulated_kill(&s);
    s.options.memory = memory;
    simulated_open(&s);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        take(FEW, 2 + i, false);
        checkpoint(0);
    }
    ck_assert_uint_lt(simulated_stats(&s).memory, MANY * SIZE / 2);
    simulated_kill(&s);
    simulated_open(&s);
    take(FEW, 2 + ROUNDS, true);
    ck_assert_uint_eq(finish(2, MANY - FEW), MANY - FEW);
    ck_assert_uint_eq(finish(1, MANY), 1);
}
END_TEST

/*
 * The checkpoint on the disk needs the half that has the first take's block: those that fail do
 * not say what it says.
 */
START_TEST(counts_of_before_checkpoints_that_fail)
{
    enum { AGAIN = 3, FAILED = 4 };
    ck_assert_int_eq(simulated_put(&s, 1, 0, 10), 0);
    ck_assert_int_eq(simulated_put(&s, 2, 1, 10), 0);
    checkpoint(0);
    take(1, 1, true);
    uint32_t deliveries = 0;
    for (int i = 0; i < FAILED; i++) {
        refuse(DISK_OPEN, -EMFILE);
        /* Something for it to write. */
        ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_MIN(60), 2, 10), 0);
        checkpoint(-EMFILE);
        s.process.fail_with = 0;
        for (int k = 0; k < AGAIN; k++)
            take(1, ++deliveries, false);
    }
    simulated_kill(&s);
    simulated_open(&s);
    take(1, 2, true);
    take(1, deliveries + 1, true);
}
END_TEST

/* The block of a take is refused: a close brings the count to the disk, and so does a checkpoint. */
START_TEST(counts_whose_block_is_refused)
{
    static const int errors[] = { -ENOSPC, -EIO };
    ck_assert_int_eq(simulated_put(&s, 1, 0, 10), 0);
    ck_assert_int_eq(simulated_put(&s, 2, 1, 10), 0);
    checkpoint(0);
    for (uint32_t i = 0; i < 4; i++) {
        refuse(DISK_WRITE, errors[i % 2]);
        take(1, 1 + i, true);
        s.process.fail_with = 0;
        if (i / 2 == 1)
            checkpoint(0);
        if (i / 2 == 1)
            simulated_kill(&s);
        else
            simulated_close(&s);
        simulated_open(&s);
    }
    take(1, 5, true);
    take(1, 1, true);
}
END_TEST

/* A checkpoint that fails does not make it good. */
START_TEST(counts_whose_block_is_refused_before_a_checkpoint_that_fails)
{
    ck_assert_int_eq(simulated_put(&s, 1, 0, 10), 0);
    checkpoint(0);
    refuse(DISK_WRITE, -EIO);
    take(1, 1, true);
    refuse(DISK_OPEN, -EMFILE);
    ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_MIN(60), 2, 10), 0);
    checkpoint(-EMFILE);
    s.process.fail_with = 0;
    simulated_close(&s);
    simulated_open(&s);
    take(1, 2, true);
}
END_TEST

/* Messages that are so short that most of what a checkpoint says of one that is leased is how often it was handed
 * over, which no slot says. */
START_TEST(counts_of_many_leased_on_a_full_disk)
{
    enum { MANY = 30000, EACH = 250 };
    static char ids[EACH][8];
    static hwt_delay_message batch[EACH];
    const uint64_t due = s.realtime + HWT_SEC(40);
    const hwt_delay_message *taken;
    uint64_t done = 0;
    simulated_close(&s);
    s.options.memory = 256 << 20;
    simulated_open(&s);
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(ids[i % EACH], sizeof(ids[0]), "%07u", i);
        batch[i % EACH] = (hwt_delay_message){ .due = due + i, .id = ids[i % EACH], .id_size = 7 };
        if (i % EACH < EACH - 1)
            continue;
        ck_assert_int_eq(hwt_delay_put(s.store, batch, EACH), 0);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    }
    simulated_advance(&s, HWT_SEC(41));
    s.disk->capacity = disk_size(s.disk);
    while (done < MANY) {
        int64_t n = hwt_delay_take(s.store, 1000, 0, &taken);
        ck_assert_int_gt(n, 0);
        done += (uint64_t)n;
        hwt_delay_free(taken);
    }
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
}
END_TEST

/* Two series of ids, each with a long beginning that a run tells once. They are leased by turns, so that a checkpoint
 * tells it for each message. */
START_TEST(leased_by_turns_on_a_full_disk)
{
    enum { MANY = 2000, BEGINNING = 240 };
    char id[BEGINNING + 8];
    const uint64_t due = s.realtime + HWT_SEC(40);
    const hwt_delay_message *taken;
    simulated_close(&s);
    s.options.memory = 16 << 20;
    simulated_open(&s);
    for (unsigned series = 0; series < 2; series++) {
        memset(id, series ? 'b' : 'a', BEGINNING);
        for (unsigned i = 0; i < MANY; i += 2) {
            const size_t size = BEGINNING + (size_t)snprintf(id + BEGINNING, 8, "%u", i);
            const hwt_delay_message message = { .due = due + i + series,
                                                .id = id,
                                                .id_size = size };
            ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
        }
        checkpoint(0);
    }
    simulated_advance(&s, HWT_SEC(41));
    s.disk->capacity = disk_size(s.disk);
    for (int64_t leased = 0; leased < MANY;) {
        int64_t n = hwt_delay_take(s.store, MANY, 0, &taken);
        ck_assert_int_gt(n, 0);
        leased += n;
        hwt_delay_free(taken);
    }
    checkpoint(0);
    checkpoint(0);
    simulated_kill(&s);
    simulated_open(&s);
    ck_assert_uint_eq(simulated_stats(&s).pending, MANY);
}
END_TEST

static unsigned half(void)
{
    static char text[8192];
    unsigned its = 2;
    ck_assert_int_gt(hwt_delay_dump(s.store, text, sizeof(text)), 0);
    const char *at = strstr(text, " in half ");
    ck_assert_int_eq(at ? sscanf(at, " in half %u", &its) : 0, 1);
    return its;
}

/* A process that goes on in the half in which the one before it was killed. */
START_TEST(counts_go_on_in_the_half_of_the_last_block)
{
    ck_assert_int_eq(simulated_put(&s, s.realtime, 0, 10), 0);
    uint32_t deliveries = 1;
    while (half() == 0) {
        take(1, deliveries++, false);
        checkpoint(0);
    }
    for (int i = 0; i < 3; i++) {
        take(1, deliveries++, true);
        ck_assert_uint_eq(half(), 1);
        simulated_kill(&s);
        simulated_open(&s);
        ck_assert_uint_eq(half(), 1);
    }
}
END_TEST

/*
 * A process that was killed has handed over what is in slots, and the clock was set back since. So its counts
 * cannot be loaded for long. The next process makes few checkpoints for its own counts, and none is lost.
 */
START_TEST(counts_of_what_is_due_later_by_a_clock_that_was_set_back)
{
    enum { BEFORE = 300, NEXT = 2000, ROUNDS = 1500 };
    const uint64_t due = s.realtime + HWT_MIN(60);
    for (uint32_t i = 0; i < BEFORE; i++)
        ck_assert_int_eq(simulated_put(&s, due + i, i, 10), 0);
    checkpoint(0);
    simulated_advance(&s, HWT_MIN(61));
    for (uint32_t i = 0; i < BEFORE; i++)
        take(1, 1, true);
    simulated_kill(&s);
    s.realtime -= HWT_MIN(61);
    simulated_open(&s);
    ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
    ck_assert_int_eq(simulated_put(&s, s.realtime, NEXT, 10), 0);
    uint32_t deliveries = 0;
    while (deliveries < ROUNDS)
        take(1, ++deliveries, false);
    /* Each has a block of 48 bytes or more, and a checkpoint is for a quarter of what the half has. */
    ck_assert_uint_lt(simulated_stats(&s).checkpoints, ROUNDS / 50);
    simulated_kill(&s);
    simulated_open(&s);
    take(1, ++deliveries, true);
    simulated_kill(&s);
    s.realtime += HWT_MIN(62);
    simulated_open(&s);
    take(1, ++deliveries, true);
    ck_assert_uint_eq(finish(2, BEFORE), BEFORE);
    checkpoint(0);
    checkpoint(0);
    for (uint32_t i = 0; i < ROUNDS; i++) { /* the halves are theirs again */
        ck_assert_int_eq(simulated_put(&s, s.realtime, i % SIMULATED_IDS, 10), 0);
        ck_assert_uint_eq(finish(1, 1), 1);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_handed");
    TCase *tcase = tcase_create("handed");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, counts_of_what_is_still_to_be_loaded);
    tcase_add_test(tcase, counts_of_before_checkpoints_that_fail);
    tcase_add_test(tcase, counts_whose_block_is_refused);
    tcase_add_test(tcase, counts_whose_block_is_refused_before_a_checkpoint_that_fails);
    tcase_add_test(tcase, counts_of_many_leased_on_a_full_disk);
    tcase_add_test(tcase, leased_by_turns_on_a_full_disk);
    tcase_add_test(tcase, counts_go_on_in_the_half_of_the_last_block);
    tcase_add_test(tcase, counts_of_what_is_due_later_by_a_clock_that_was_set_back);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
