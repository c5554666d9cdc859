/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the checkpoint on the disk names is never deleted. A checkpoint fails for want of descriptors,
 * memory or room, at each use of the disk in turn, when slots are done with or dropped. Whatever is called
 * then, a kill leaves a store that can be opened, with all that is pending and no damage.
 */

#include "tests/delay/support/simulated.h"
#include "tests/delay/support/two_disks.h"

enum { SOON = 20, DROPPED = 40, PENDING = 60 };

static struct simulated s;
static struct disk *copied;
static struct process copying;

static void open_store(void)
{
    simulated_begin(&s);
    const struct hwt_delay_system system = two_disks(&s.process, &copying);
    ck_assert_int_eq(hwt_delay_open_on("store", &s.options, &system, true, &s.store), 0);
}

static void drop(uint64_t due, uint64_t mark)
{
    hwt_delay_change change = { .op = HWT_DELAY_OP_DROP, .due = due, .mark = mark };
    ck_assert_int_eq(hwt_delay_apply(s.store, &change, 1, NULL), 0);
}

static uint64_t mark(void)
{
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.note = "";
    ck_assert_int_eq(hwt_delay_apply(s.store, NULL, 0, &batch), 0);
    return batch.mark;
}

/* A slot that is done with, one that is dropped, and others. */
static void begin(void)
{
    simulated_new(&s);
    copied = disk_new();
    process_start(&copying, copied, &s.realtime, &s.boottime);
    open_store();
    for (uint32_t i = 0; i < DROPPED; i++)
        ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_SEC(i < SOON ? 5 : 40), i, 100), 0);
    uint64_t up_to = mark();
    for (uint32_t i = DROPPED; i < PENDING; i++)
        ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_MIN(60), i, 100), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_advance(&s, HWT_SEC(10));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), SOON);
    drop(s.realtime + HWT_SEC(60), up_to);
    for (uint32_t i = PENDING; i < PENDING + 10; i++)
        ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_MIN(60), i, 100), 0);
}

static void end(void)
{
    simulated_free(&s);
    process_end(&copying);
    disk_free(copied);
}

/* ---- what is called ---- */

static void call_nothing(void)
{
}

static void call_copy(void)
{
    ck_assert_int_eq(hwt_delay_copy(s.store, "copy"), 0);
}

static void call_visit(void)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    ck_assert_int_eq(simulated_list(&s, counts), 0);
}

static void call_check(void)
{
    ck_assert_int_eq(hwt_delay_check(s.store, NULL, NULL), 0);
}

static void call_drop(void)
{
    drop(s.realtime + HWT_SEC(60), mark());
}

/* The log gets longer. */
static void call_many(void)
{
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t due = s.realtime + HWT_MIN(60);
        int r = simulated_put(&s, due, SIMULATED_IDS, 400);
        ck_assert(r == 0 || r == -ENOSPC);
        uint32_t number = SIMULATED_IDS;
        ck_assert_int_eq(hwt_delay_cancel(s.store, due, &number, sizeof(number)), 0);
    }
}

static void (*const calls[])(void) = {
    call_nothing, call_copy, call_visit, call_check, call_drop, call_many,
};

enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

/* ---- what is refused ---- */

static const int errors[] = { -EMFILE, -ENFILE, -ENOMEM, -ENOSPC, -EDQUOT };

enum { ERRORS = sizeof(errors) / sizeof(errors[0]) };

static void expect_whole(void)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    ck_assert_int_eq(simulated_list(&s, counts), 0);
    for (uint32_t i = 0; i < PENDING + 10; i++)
        ck_assert_msg(counts[i] == (i >= DROPPED), "message %u: %u times", i, counts[i]);
    ck_assert_int_eq(hwt_delay_check(s.store, NULL, NULL), 0);
}

/* The checkpoint is refused its n-th use of the disk of that kind, and all that follow. */
static bool refuse(enum disk_call call, uint64_t nth, int error)
{
    s.process.calls = 0;
    s.process.fail_only = 1u << call;
    s.process.fail_at = nth;
    s.process.fail_count = UINT64_MAX;
    s.process.fail_with = error;
    int r = hwt_delay_checkpoint(s.store);
    bool refused = s.process.calls >= nth;
    ck_assert(r == 0 || refused);
    s.process.fail_with = 0;
    return refused;
}

START_TEST(test_a_slot_that_the_disk_names_is_not_deleted)
{
    static const enum disk_call kinds[] = { DISK_OPEN, DISK_WRITE };
    for (unsigned at = 0; at < CALLS * 2 * ERRORS; at++) {
        bool refused = true;
        for (uint64_t nth = 1; refused; nth++) {
            begin();
            refused = refuse(kinds[at % 2], nth, errors[at / 2 % ERRORS]);
            if (!simulated_stats(&s).poisoned)
                calls[at / 2 / ERRORS]();
            if (_i == 0)
                s.process.dead = true;
            simulated_close(&s);
            open_store();
            expect_whole();
            end();
        }
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_named");
    TCase *tcase = tcase_create("named");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_a_slot_that_the_disk_names_is_not_deleted, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
