/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A disk that is full, a sync that fails, kills at the worst moment, a burst. */

#include "tests/delay/support/simulated_one.h"

enum {
    PENDING = 400,
    DIE_MAX = 3000,
    CHECKPOINTS = 3 * 65536,
    LEASES = 2 * (1 << 20) / 8, /* room for what may be leased, in two checkpoints */
    CANCELS = 200
};

/* ---- a full disk ---- */

START_TEST(test_full_put_is_refused_and_the_rest_goes_on)
{
    static const uint32_t sizes[] = { 100, 4000 };
    const uint32_t size = sizes[_i];
    const uint64_t due = s.realtime + HWT_SEC(1);
    unsigned counts[SIMULATED_IDS] = { 0 };
    put_many(0, PENDING, due, 0, size);
    s.disk->capacity = disk_size(s.disk);
    int r = 0;
    uint32_t put = PENDING;
    while (put < SIMULATED_IDS && (r = simulated_put(&s, due, put, size)) == 0)
        put++;
    ck_assert_int_eq(r, -ENOSPC);
    hwt_delay_stats stats = simulated_stats(&s);
    ck_assert_uint_eq(stats.full, 1);
    ck_assert_uint_ge(stats.rejected, 1);
    ck_assert_uint_eq(stats.put, put);
    for (uint32_t i = 0; i < CANCELS; i++) {
        uint32_t even = 2 * i;
        ck_assert_int_eq(hwt_delay_cancel(s.store, due, &even, sizeof(even)), 0);
    }
    simulated_advance(&s, HWT_SEC(2));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), put - CANCELS);
    for (uint32_t i = 0; i < put; i++)
        ck_assert_uint_eq(counts[i], i >= 2 * CANCELS || i % 2);
    /* It goes away by itself when there is room. */
    s.disk->capacity = UINT64_MAX;
    ck_assert_int_eq(simulated_put(&s, s.realtime, 1, 100), 0);
    ck_assert_uint_eq(simulated_stats(&s).full, 0);
    reopen(true);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 1);
    ck_assert_uint_eq(counts[1], 2);
}
END_TEST

/*
 * What is leased is whole in a checkpoint: there is room for as much as may be, in one checkpoint
 * after the other, though no slot can be deleted before the last message is done.
 */
START_TEST(test_full_with_all_that_may_be_leased)
{
    const uint64_t due = s.realtime + HWT_SEC(1);
    uint32_t put = PENDING, done = 0;
    put_many(0, PENDING, due, 0, 4000);
    s.disk->capacity = disk_size(s.disk);
    while (put < SIMULATED_IDS && simulated_put(&s, due, put, 4000) == 0)
        put++;
    ck_assert_uint_lt(put, SIMULATED_IDS);
    simulated_advance(&s, HWT_SEC(2));
    for (unsigned round = 0; done < put; round++) {
        uint64_t leases[PENDING];
        const hwt_delay_message *taken;
        uint32_t count = 0;
        int64_t n;
        /* In every other round only a few. */
        while ((n = hwt_delay_take(s.store, round % 2 ? 2 : 8, 0, &taken)) > 0) {
            for (int64_t i = 0; i < n; i++)
                leases[count++] = taken[i].lease;
            hwt_delay_free(taken);
            if (round % 2)
                break;
        }
        ck_assert(n > 0 || n == -ENOBUFS || done + count == put);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        for (uint32_t i = 0; i < count; i++)
            ck_assert_int_eq(hwt_delay_done(s.store, &leases[i], 1), 1);
        done += count;
    }
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_int_eq(simulated_put(&s, due, put, 4000), 0);
}
END_TEST

/* A store on a full disk opens, and delivers. */
START_TEST(test_full_before_opening)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    put_many(0, PENDING, s.realtime + HWT_SEC(1), HWT_MS(10), 100);
    s.disk->capacity = disk_size(s.disk);
    reopen(true);
    simulated_advance(&s, DAY);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), PENDING);
    expect_counts(counts, 0, PENDING, 1);
}
END_TEST

START_TEST(test_full_a_new_store)
{
    simulated_free(&s);
    simulated_new(&s);
    s.disk->capacity = 10000;
    simulated_begin(&s);
    ck_assert_int_eq(simulated_try_open(&s), -ENOSPC);
    s.disk->capacity = UINT64_MAX;
    simulated_open(&s);
    ck_assert_int_eq(simulated_put(&s, 5, 1, 100), 0);
}
END_TEST

/* ---- a sync that fails once ---- */

START_TEST(test_a_failed_sync_ends_it_until_it_is_opened_anew)
{
    const hwt_delay_message *taken;
    unsigned counts[SIMULATED_IDS] = { 0 };
    uint64_t lease;
    put_many(0, 10, s.realtime, 0, 50);
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    lease = taken->lease;
    hwt_delay_free(taken);
    s.process.fail_only = 1u << DISK_SYNC;
    s.process.calls = 0;
    s.process.fail_at = s.process.fail_count = 1;
    s.process.fail_with = -EIO;
    ck_assert_int_eq(simulated_put(&s, s.realtime, 10, 50), -EIO);
    s.process.fail_with = 0;
    ck_assert_int_eq(simulated_put(&s, s.realtime, 11, 50), -EIO);
    ck_assert_int_eq(hwt_delay_cancel(s.store, s.realtime, "x", 1), -EIO);
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), -EIO);
    ck_assert_int_eq(hwt_delay_done(s.store, &lease, 1), -EIO);
    ck_assert_int_eq(hwt_delay_retry(s.store, lease, 5), -EIO);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), -EIO);
    ck_assert_uint_eq(simulated_stats(&s).poisoned, 1);
    reopen(_i);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 10 + counts[10]);
    expect_counts(counts, 0, 10, 1);
    ck_assert_uint_le(counts[10], 1);
    ck_assert_uint_eq(counts[11], 0);
}
END_TEST

/* What was read after a failed sync is in no cache only: the next owner makes it durable. */
START_TEST(test_after_a_failed_sync_and_a_restart_power_fails)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        unsigned before[SIMULATED_IDS] = { 0 }, after[SIMULATED_IDS] = { 0 };
        end();
        begin();
        s.random = test_seed() + seed;
        put_many(0, 3, s.realtime, 0, 600);
        s.process.fail_only = 1u << DISK_SYNC;
        s.process.calls = 0;
        s.process.fail_at = s.process.fail_count = 1;
        s.process.fail_with = -EIO;
        ck_assert_int_eq(simulated_put(&s, s.realtime, 3, 2000), -EIO);
        reopen(seed & 1);
        ck_assert_int_eq(simulated_list(&s, before), 0);
        ck_assert_int_eq(simulated_put(&s, s.realtime, 4, 50), 0);
        struct disk *left = disk_crashed(s.disk, &s.random);
        simulated_kill(&s);
        disk_free(s.disk);
        s.disk = left;
        simulated_open(&s);
        ck_assert_int_eq(simulated_list(&s, after), 0);
        before[4]++;
        ck_assert_mem_eq(before, after, sizeof(before));
    }
}
END_TEST

/* ---- ends at the worst moment ---- */

/* What is done while the process dies in each of its calls in turn. */
enum moment { OPENING, CHECKPOINT, LOADING, CLOSING, SALVAGE, MOMENTS };

static void prepare(void)
{
    end();
    begin();
    put_many(0, 40, s.realtime, HWT_SEC(3), 300);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    put_many(40, 80, s.realtime, HWT_SEC(3), 300);
    for (uint32_t i = 0; i < 80; i += 4)
        ck_assert_int_eq(hwt_delay_cancel(s.store, s.realtime + i * HWT_SEC(3), &i, sizeof(i)), 0);
}

static void damage_a_slot(void)
{
    for (size_t i = 0; i < s.disk->seen.count; i++) {
        struct disk_file *file = s.disk->seen.entries[i].file;
        if (strncmp(s.disk->seen.entries[i].name, "slot-", 5) == 0 && file->seen.size > 200)
            disk_flip(file, 150, 1);
    }
}

/* True: it died before the end. */
static bool do_until(enum moment moment, uint64_t die_at)
{
    if (moment == OPENING || moment == SALVAGE) {
        simulated_kill(&s);
        if (moment == SALVAGE)
            damage_a_slot();
        s.options.flags = moment == SALVAGE ? HWT_DELAY_SALVAGE : HWT_DELAY_CREATE;
        simulated_begin(&s);
        s.process.die_at = die_at;
        (void)simulated_try_open(&s);
        bool died = s.process.dying;
        if (s.store && moment == SALVAGE) {
            simulated_advance(&s, HWT_SEC(1)); /* it reads what is damaged */
            (void)hwt_delay_check(s.store, NULL, NULL);
            (void)hwt_delay_checkpoint(s.store);
            died = s.process.dying;
        }
        return died;
    }
    s.process.calls = 0;
    s.process.die_at = die_at;
    if (moment == CHECKPOINT)
        (void)hwt_delay_checkpoint(s.store);
    if (moment == CLOSING)
        hwt_delay_close(s.store);
    if (moment == LOADING) {
        simulated_advance(&s, HWT_SEC(100));
        int64_t n;
        const hwt_delay_message *taken;
        while ((n = hwt_delay_take(s.store, 3, 0, &taken)) > 0)
            hwt_delay_free(taken); /* none is done with */
        s.realtime -= HWT_SEC(100);
        s.boottime -= HWT_SEC(100);
    }
    return s.process.dying;
}

START_TEST(test_killed_at_the_worst_moment)
{
    enum moment moment = (enum moment)_i;
    uint64_t die_at = 1;
    for (bool died = true; died && die_at < DIE_MAX; die_at++) {
        unsigned counts[SIMULATED_IDS] = { 0 };
        prepare();
        s.random = test_seed() + die_at;
        died = do_until(moment, die_at);
        s.process.dead = true;
        if (moment == CLOSING) {
            process_end(&s.process);
            s.store = NULL;
        }
        simulated_close(&s);
        if (die_at % 2) {
            struct disk *left = disk_crashed(s.disk, &s.random);
            disk_free(s.disk);
            s.disk = left;
        }
        simulated_open(&s);
        simulated_advance(&s, DAY);
        int64_t n = simulated_deliver(&s, SIZE_MAX, counts);
        if (moment != SALVAGE)
            ck_assert_msg(n == 60, "died in call %" PRIu64 ": %" PRId64, die_at, n);
        ck_assert_msg(n > 0, "died in call %" PRIu64 ": %" PRId64, die_at, n);
        for (uint32_t i = 0; i < 80; i++)
            ck_assert_msg(counts[i] == (i % 4 > 0) || moment == SALVAGE,
                          "died in call %" PRIu64 ": message %u: %u", die_at, i, counts[i]);
        for (uint32_t i = 0; i < 80; i++)
            ck_assert_uint_le(counts[i], 1);
    }
    ck_assert_uint_gt(die_at, moment == CLOSING ? 1 : 5);
    ck_assert_uint_lt(die_at, DIE_MAX);
}
END_TEST

/* ---- bounds ---- */

/* Messages of one second, ten times what memory has room for, come in order and once. */
START_TEST(test_a_burst_is_delivered_within_memory)
{
    enum { MANY = 4000 };
    unsigned counts[SIMULATED_IDS] = { 0 };
    uint64_t second = s.realtime + HWT_SEC(3600), most = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(simulated_put(&s, second + test_random(&s.random) % HWT_SEC(1), i, 2500),
                         0);
        uint64_t memory = simulated_stats(&s).memory;
        most = memory > most ? memory : most;
    }
    uint64_t written = (uint64_t)MANY * (2500 + 4 + 24);
    ck_assert_uint_le(disk_size(s.disk),
                      written * 115 / 100 + 2 * SIMULATED_SEGMENT + CHECKPOINTS + LEASES);
    reopen(_i);
    simulated_advance(&s, HWT_SEC(3602));
    int64_t sum = 0;
    while (sum < MANY) {
        int64_t n = simulated_deliver(&s, 16, counts);
        ck_assert_int_gt(n, 0);
        sum += n;
        uint64_t memory = simulated_stats(&s).memory;
        most = memory > most ? memory : most;
    }
    expect_counts(counts, 0, MANY, 1);
    ck_assert_msg(most <= (1 << 20) + (1 << 17), "memory: %" PRIu64, most);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_eq(simulated_stats(&s).pending, 0);
    ck_assert_msg(disk_size(s.disk) <= 2 * SIMULATED_SEGMENT + CHECKPOINTS, "disk: %" PRIu64,
                  disk_size(s.disk));
}
END_TEST

static uint64_t disk_before;
static unsigned deleted;

/* The lock is let go while a file is deleted. */
static void look_at_disk(void *arg, enum disk_call call, const char *name)
{
    (void)arg;
    if (call != DISK_UNLINK || strncmp(name, "slot-", 5) != 0)
        return;
    uint64_t disk = simulated_stats(&s).disk;
    ck_assert_uint_lt(disk, disk_before);
    disk_before = disk;
    deleted++;
}

START_TEST(test_a_look_at_the_disk_while_slots_are_deleted)
{
    for (uint32_t i = 0; i < 6; i++)
        ck_assert_int_eq(simulated_put(&s, s.realtime + HWT_SEC(5000) * (i + 1), i, 100), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_advance(&s, HWT_SEC(50000));
    disk_before = UINT64_MAX;
    deleted = 0;
    s.process.changed = look_at_disk;
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 6);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_gt(deleted, 1);
    s.process.changed = NULL;
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_bad_days");
    TCase *tcase = tcase_create("bad_days");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_full_put_is_refused_and_the_rest_goes_on, 0, 2);
    tcase_add_test(tcase, test_full_with_all_that_may_be_leased);
    tcase_add_test(tcase, test_full_before_opening);
    tcase_add_test(tcase, test_full_a_new_store);
    tcase_add_loop_test(tcase, test_a_failed_sync_ends_it_until_it_is_opened_anew, 0, 2);
    tcase_add_test(tcase, test_after_a_failed_sync_and_a_restart_power_fails);
    tcase_add_loop_test(tcase, test_killed_at_the_worst_moment, 0, MOMENTS);
    tcase_add_loop_test(tcase, test_a_burst_is_delivered_within_memory, 0, 2);
    tcase_add_test(tcase, test_a_look_at_the_disk_while_slots_are_deleted);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
