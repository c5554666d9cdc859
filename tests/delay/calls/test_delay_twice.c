/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A message that two slots have: it was handed over by a process that was killed, and the next one has
 * loaded it with its count and written it again. The slot with the older copy stays, the other one is
 * rewritten.
 */

#include "tests/delay/support/simulated.h"

enum {
    FIRST,              /* it is due before the message, and is leased while that one is loaded */
    MESSAGE,            /* has two copies */
    OTHERS,             /* from here on, have two copies as well, and are cancelled */
    STAY = OTHERS + 15, /* from here on, are in the long slot alone */
    STAY_END = STAY + 400,
    EARLY, /* it is due before all that are in the long slot */
    BULK, /* from here on, are in the slot with the newer copy, and are cancelled with the message */
    BULK_END = BULK + 100,
    SIZE = 200,
    ROUNDS = 6
};

enum { NEWER_IS_READ_FIRST = 1, IS_DONE = 2 }; /* bits of _i */

static struct simulated s;
static uint64_t due; /* of FIRST; the next one is due a nanosecond later, and so on */
static char old_slot[DISK_NAME_MAX], new_slot[DISK_NAME_MAX];

static void reopen(void)
{
    simulated_kill(&s);
    simulated_open(&s);
}

static void checkpoint(void)
{
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
}

static void cancel(uint32_t i)
{
    ck_assert_int_eq(hwt_delay_cancel(s.store, due + i, &i, sizeof(i)), 0);
}

static void put_all(uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        ck_assert_int_eq(simulated_put(&s, due + i, i, SIZE), 0);
}

/* Takes up to `count` messages. Returns the deliveries of MESSAGE, or 0 where it is not among them. */
static uint32_t take(size_t count, uint64_t *ret_lease)
{
    const hwt_delay_message *taken;
    int64_t n = hwt_delay_take(s.store, count, 0, &taken);
    uint32_t deliveries = 0;
    ck_assert_int_gt(n, 0);
    for (int64_t i = 0; i < n; i++) {
        if (simulated_number(&taken[i]) != MESSAGE)
            continue;
        deliveries = taken[i].deliveries;
        *ret_lease = taken[i].lease;
    }
    hwt_delay_free(taken);
    return deliveries;
}

/* Does the file have MESSAGE with its payload? */
static bool has_message(struct disk_file *file)
{
    const uint32_t id = MESSAGE;
    unsigned char bytes[sizeof(id) + SIZE];
    memset(bytes, MESSAGE * 7 + 1, sizeof(bytes));
    memcpy(bytes, &id, sizeof(id));
    return file && memmem(disk_seen(file), file->seen.size, bytes, sizeof(bytes));
}

/* Returns how many slots have the message, and sets the name of the one that is not `old_slot`. */
static unsigned count_copies(char name[DISK_NAME_MAX])
{
    unsigned count = 0;
    for (size_t i = 0; i < s.disk->seen.count; i++) {
        const struct disk_entry *entry = &s.disk->seen.entries[i];
        if (strncmp(entry->name, "slot-", 5) != 0 || !has_message(entry->file))
            continue;
        count++;
        if (strcmp(entry->name, old_slot) != 0)
            snprintf(name, DISK_NAME_MAX, "%s", entry->name);
    }
    return count;
}

/* The long slot has the copy without deliveries, a short one that with 1. */
static void write_twice(bool newer_is_read_first)
{
    uint64_t lease = 0;
    due = s.realtime + HWT_SEC(10 * 86400);
    due += HWT_SEC(4) - (due & ((UINT64_C(1) << 33) - 1)); /* amid a short slot */
    put_all(FIRST, STAY_END);
    checkpoint();
    ck_assert_uint_eq(count_copies(old_slot), 1);
    simulated_advance(&s, due - s.realtime + HWT_SEC(1));
    ck_assert_uint_eq(take(STAY, &lease), 1);
    reopen();
    ck_assert_uint_eq(take(1, &lease), 0);
    if (newer_is_read_first) /* then its block begins before that of the other copy */
        ck_assert_int_eq(simulated_put(&s, due - 1, EARLY, SIZE), 0);
    checkpoint();
    reopen(); /* from now on nothing is loaded: slots of any time are rewritten */
    ck_assert_uint_eq(count_copies(new_slot), 2);
}

/* The slot with the newer copy goes, and that copy to one that is appended to. */
static void rewrite_newer(void)
{
    char gone[DISK_NAME_MAX];
    snprintf(gone, sizeof(gone), "%s", new_slot);
    for (uint32_t i = OTHERS; i < STAY; i++)
        cancel(i);
    for (int i = 0; i < ROUNDS; i++)
        checkpoint();
    ck_assert_ptr_null(disk_find(s.disk, gone));
    ck_assert(has_message(disk_find(s.disk, old_slot)));
}

static void begin(void)
{
    simulated_new(&s);
    s.options.segment_size = 256 << 10;
    memset(old_slot, 0, sizeof(old_slot));
    memset(new_slot, 0, sizeof(new_slot));
    simulated_open(&s);
}

static void end(void)
{
    simulated_free(&s);
}

/* The power fails, and what nobody flushes is not there: the slots alone have the count. */
START_TEST(test_the_newer_count_goes_on)
{
    uint64_t lease = 0;
    write_twice(_i & NEWER_IS_READ_FIRST);
    rewrite_newer();
    simulated_kill(&s);
    disk_cut(disk_find(s.disk, "handed"), 0);
    simulated_open(&s);
    ck_assert_uint_eq(take(STAY, &lease), 2);
}
END_TEST

/* The message ends, and its end is in the slot with the newer copy, when that one is rewritten. */
START_TEST(test_the_older_copy_does_not_come_back)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    uint64_t lease = 0;
    write_twice(_i & NEWER_IS_READ_FIRST);
    rewrite_newer();
    put_all(BULK, BULK_END);
    checkpoint();
    ck_assert_uint_eq(count_copies(new_slot), 2);
    if (_i & IS_DONE) {
        ck_assert_uint_eq(take(STAY, &lease), 2);
        ck_assert_int_eq(hwt_delay_done(s.store, &lease, 1), 1);
        reopen();
    } else {
        cancel(MESSAGE);
    }
    for (uint32_t i = BULK; i < BULK_END; i++)
        cancel(i);
    for (int i = 0; i < ROUNDS; i++)
        checkpoint();
    ck_assert_ptr_null(disk_find(s.disk, new_slot));
    ck_assert_uint_eq(count_copies(new_slot), 1);
    ck_assert(has_message(disk_find(s.disk, old_slot)));
    reopen();
    ck_assert_int_eq(simulated_list(&s, counts), 0);
    ck_assert_uint_eq(counts[MESSAGE], 0);
    ck_assert_int_gt(simulated_deliver(&s, SIZE_MAX, counts), 0);
    ck_assert_uint_eq(counts[MESSAGE], 0);
    for (uint32_t i = STAY; i < STAY_END; i++)
        ck_assert_uint_eq(counts[i], 2);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_twice");
    TCase *tcase = tcase_create("twice");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_the_newer_count_goes_on, 0, 2);
    tcase_add_loop_test(tcase, test_the_older_copy_does_not_come_back, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
