/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Slots as files: what was appended to several of them, in several runs each, is gathered in stretches that fit into
 * memory, beside an array of the same records. And the slots that are not on the wheel any more.
 */

#include "tests/delay/support/simulated_one.h"

#include "hwt/delay/slots/slots.h"
#include "hwt/delay/whole.h"

enum { SLOTS = 12, RUNS = 4, RECORDS = 60, SHIFT = 30, ALL = SLOTS * RUNS * RECORDS };

static const uint64_t FIRST_INDEX = 1 << 10;

static hwt_delay *store;
static uint64_t seed, sequence;
static struct hwt_delay_key keys[ALL];
static bool seen[ALL];
static size_t count;

static uint64_t below(uint64_t n)
{
    return test_random(&seed) % n;
}

static void set_up(void)
{
    begin();
    store = s.store;
    seed = test_seed();
    sequence = 1;
    count = 0;
    memset(seen, 0, sizeof(seen));
    pthread_mutex_lock(&store->lock);
    /* Slots have no record that the log has. */
    hwt_delay_log_keep(store, (struct hwt_delay_log_point){ 0, HWT_DELAY_SEGMENT_FRAMES, 1 << 20 });
}

static void tear_down(void)
{
    pthread_mutex_unlock(&store->lock);
    simulated_kill(&s);
    simulated_free(&s);
}

static int by_key(const void *a, const void *b)
{
    return hwt_delay_compare((*(struct hwt_delay_record *const *)a)->key,
                             (*(struct hwt_delay_record *const *)b)->key);
}

static struct hwt_delay_record *make(const struct hwt_delay_slot *slot)
{
    static const unsigned char payload[512];
    const uint64_t number = sequence;
    const hwt_delay_message message = {
        .due = hwt_delay_slot_start(slot) + below(UINT64_C(1) << SHIFT),
        .id = &number,
        .id_size = sizeof(number),
        .payload = payload,
        .payload_size = below(sizeof(payload)),
    };
    struct hwt_delay_record *record = hwt_delay_record_new(HWT_DELAY_PUT, &message);
    must(record != NULL);
    record->key.sequence = sequence++;
    keys[count++] = record->key;
    return record;
}

static void append(struct hwt_delay_slot *slot)
{
    struct hwt_delay_record *records[RECORDS];
    for (size_t i = 0; i < RECORDS; i++)
        records[i] = make(slot);
    qsort(records, RECORDS, sizeof(records[0]), by_key);
    int file = hwt_delay_slot_append(store, slot, records, RECORDS);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(hwt_delay_sync(store, file), 0);
    hwt_delay_close_file(store, file);
    slot->last =
        slot->last > records[RECORDS - 1]->key.due ? slot->last : records[RECORDS - 1]->key.due;
    slot->count = slot->new_count;
    hwt_delay_slot_set_length(store, slot, slot->new_length);
    for (size_t i = 0; i < RECORDS; i++)
        hwt_delay_record_unref(records[i]);
}

static struct hwt_delay_slot *add_slot(uint64_t index)
{
    struct hwt_delay_slot *slot =
        hwt_delay_slot_new(SHIFT, index, hwt_delay_slots_take_number(store));
    ck_assert_ptr_nonnull(slot);
    slot->last = 0;
    hwt_delay_wheel_add(store, slot);
    return slot;
}

static void fill(void)
{
    for (uint64_t i = 0; i < SLOTS; i++)
        add_slot(FIRST_INDEX + i);
    for (int run = 0; run < RUNS; run++) {
        struct hwt_delay_slot *slot;
        HWT_DELAY_FOREACH_SLOT(slot, store)
        {
            append(slot);
        }
    }
}

/* Each record of the stretch once, in order. */
static void see(const struct hwt_delay_gathered *gathered, struct hwt_delay_key from,
                struct hwt_delay_key to)
{
    struct hwt_delay_key last = from;
    struct hwt_delay_record *record;
    RB_FOREACH(record, hwt_delay_keys, (struct hwt_delay_keys *)(uintptr_t)&gathered->keys)
    {
        must(hwt_delay_compare(last, record->key) <= 0 && hwt_delay_compare(record->key, to) < 0);
        last = record->key;
        size_t i = (size_t)record->key.sequence - 1;
        must(i < count && !seen[i] && hwt_delay_compare(keys[i], record->key) == 0);
        seen[i] = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (hwt_delay_compare(keys[i], from) >= 0 && hwt_delay_compare(keys[i], to) < 0)
            must(seen[i]);
    }
}

/* With less memory there are more stretches. Readers go on where they were. */
static size_t gather(uint64_t budget, struct hwt_delay_key end, uint64_t *ret_read)
{
    struct hwt_delay_readers readers = { 0 };
    struct hwt_delay_key from = { 0, 0 };
    size_t stretches = 0;
    *ret_read = 0;
    for (; hwt_delay_compare(from, end) < 0; stretches++) {
        struct hwt_delay_key to = end;
        struct hwt_delay_gathered gathered = { .gaps = NULL };
        ck_assert_int_eq(hwt_delay_readers_choose(store, &readers, from, &to), 0);
        ck_assert_int_eq(
            hwt_delay_gather(store, readers.all, readers.count, from, &to, budget, &gathered), 0);
        ck_assert_int_gt(hwt_delay_compare(to, from), 0);
        see(&gathered, from, to);
        *ret_read += gathered.read;
        hwt_delay_gathered_free(&gathered);
        from = to;
    }
    hwt_delay_readers_free(&readers);
    return stretches;
}

START_TEST(all_that_was_appended_is_gathered_once)
{
    static const uint64_t budgets[] = { 1, 20000, 200000, UINT64_MAX };
    fill();
    uint64_t read;
    size_t stretches = gather(budgets[_i], (struct hwt_delay_key){ HWT_NEVER, 0 }, &read);
    for (size_t i = 0; i < count; i++)
        ck_assert(seen[i]);
    ck_assert(_i < 3 ? stretches > 1 : stretches == 1);
    /* A block is read again only in the stretch behind the one that ended in it. */
    if (_i >= 2)
        ck_assert_uint_le(read, (_i == 2 ? 2 : 1) * hwt_delay_slots_bytes(store));
}
END_TEST

/* What is below a slot's position has been dealt with. */
START_TEST(what_has_been_dealt_with_is_not_gathered)
{
    fill();
    /* In the middle of a slot. */
    const struct hwt_delay_key left = {
        ((FIRST_INDEX + SLOTS / 2) << SHIFT) + (UINT64_C(1) << (SHIFT - 1)), 5
    };
    struct hwt_delay_slot *slot;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        hwt_delay_seal(store, slot, hwt_delay_epoch(store));
    }
    hwt_delay_positions_raise(store, left);
    for (size_t i = 0; i < count; i++)
        seen[i] = hwt_delay_compare(keys[i], left) < 0; /* not again */
    uint64_t read;
    gather(50000, (struct hwt_delay_key){ HWT_NEVER, 0 }, &read);
    /* A slot that is passed is one whose every record is lower. */
    ck_assert_uint_eq(hwt_delay_passed_count(store), SLOTS / 2);
}
END_TEST

START_TEST(a_finished_slot_is_off_the_wheel_and_its_bytes_count_until_it_is_gone)
{
    fill();
    const uint64_t bytes = hwt_delay_slots_bytes(store);
    struct hwt_delay_slot *slot = hwt_delay_slots_first(store);
    const uint64_t length = slot->length;
    slot->new_length = 0;
    hwt_delay_slots_conclude(store);
    ck_assert_uint_eq(hwt_delay_slots_count(store), SLOTS - 1);
    ck_assert_uint_eq(hwt_delay_slots_bytes(store), bytes);
    ck_assert_ptr_eq(hwt_delay_finished_first(store), slot);
    ck_assert(!hwt_delay_wheel_covers(store, FIRST_INDEX << SHIFT));
    hwt_delay_finished_free(store, slot);
    ck_assert_uint_eq(hwt_delay_slots_bytes(store), bytes - length);
    ck_assert_ptr_null(hwt_delay_finished_first(store));
}
END_TEST

START_TEST(numbers_are_given_once_and_never_go_down)
{
    const uint64_t number = hwt_delay_slots_take_number(store);
    ck_assert_uint_gt(hwt_delay_slots_number(store), number);
    hwt_delay_slots_number_raise(store, number);
    ck_assert_uint_gt(hwt_delay_slots_number(store), number);
    hwt_delay_slots_number_raise(store, number + 100);
    ck_assert_uint_eq(hwt_delay_slots_take_number(store), number + 100);
}
END_TEST

/* A drop covers the slots whose every record it covers, and what they have is not pending from then on. */
START_TEST(a_drop_leaves_out_whole_slots)
{
    fill();
    struct hwt_delay_slot *slot;
    uint64_t bytes = 0, due = ((FIRST_INDEX + 3) << SHIFT) + (UINT64_C(1) << (SHIFT - 1));
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        slot->newest = sequence;
        bytes += hwt_delay_slot_last(slot) <= due ? slot->length : 0;
    }
    const hwt_delay_message message = { .due = due };
    struct hwt_delay_record *record = hwt_delay_record_new(HWT_DELAY_DROP, &message);
    must(record != NULL);
    record->key.sequence = sequence;
    hwt_delay_drop(store, record);
    ck_assert_uint_gt(bytes, 0);
    ck_assert_uint_eq(hwt_delay_dropped_bytes(store), bytes);
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        ck_assert_int_eq(hwt_delay_slot_is_dropped(store, slot), hwt_delay_slot_last(slot) <= due);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_slots");
    TCase *tcase = tcase_create("slots");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, all_that_was_appended_is_gathered_once, 0, 4);
    tcase_add_test(tcase, what_has_been_dealt_with_is_not_gathered);
    tcase_add_test(tcase, a_finished_slot_is_off_the_wheel_and_its_bytes_count_until_it_is_gone);
    tcase_add_test(tcase, numbers_are_given_once_and_never_go_down);
    tcase_add_test(tcase, a_drop_leaves_out_whole_slots);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
