/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The table beside an array with what each identity should have: puts, tombstones, states and leases at random. Sequences
 * are drawn, so a record also comes after a newer one, as it does when the log is read once more.
 */

#include <stdlib.h>
#include <string.h>

#include "check_main.h"
#include "kit.h"

#include "hwt/delay/table/table.h"
#include "hwt/delay/whole.h"

enum { DUES = 8, IDS = 8, IDENTITIES = DUES * IDS, STEPS = 20000 };

/*
 * An identity has a record, which is in the table or leased, a last lease, which may have been
 * superseded, and one before that, which has been.
 */
struct known {
    bool there, tombstone, shadows;
    uint64_t sequence;
    enum hwt_delay_state state;
    struct hwt_delay_lease *lease, *older;
};

static hwt_delay *store;
static struct known known[IDENTITIES];
static uint64_t seed, sequence, loaded;

static uint64_t below(uint64_t n)
{
    return test_random(&seed) % n;
}

static uint64_t due_of(size_t n)
{
    return (UINT64_C(1) << 40) + n / IDS * (UINT64_C(1) << 34);
}

static void begin(void)
{
    store = calloc(1, sizeof(*store));
    ck_assert_ptr_nonnull(store);
    store->options.memory = 1 << 20;
    store->options.leased_max = UINT32_MAX;
    hwt_delay_table_init(store);
    memset(known, 0, sizeof(known));
    seed = test_seed_get(true);
    sequence = 1;
}

static void end(void)
{
    hwt_delay_table_forget(store);
    for (int i = 0; i < HWT_DELAY_STATES; i++)
        ck_assert_uint_eq(hwt_delay_bytes_in(store, (enum hwt_delay_state)i), 0);
    free(store);
}

static struct hwt_delay_record *record_of(size_t n, uint8_t kind)
{
    const unsigned char id = (unsigned char)(n % IDS);
    const hwt_delay_message message = {
        .due = due_of(n),
        .id = &id,
        .id_size = 1,
        .payload = "payload",
        .payload_size = kind == HWT_DELAY_PUT ? n % 8 : 0,
    };
    struct hwt_delay_record *record = hwt_delay_record_new(kind, &message);
    ck_assert_ptr_nonnull(record);
    /* One in eight is older than what may be there. */
    record->key.sequence = below(8) == 0 && sequence > 16 ? sequence - 1 - below(16) : sequence++;
    return record;
}

static struct hwt_delay_record *lookup(size_t n)
{
    const unsigned char id = (unsigned char)(n % IDS);
    const hwt_delay_message message = { .due = due_of(n), .id = &id, .id_size = 1 };
    struct hwt_delay_record *like = hwt_delay_record_new(HWT_DELAY_TOMBSTONE, &message);
    ck_assert_ptr_nonnull(like);
    struct hwt_delay_record *record = hwt_delay_lookup(store, like);
    hwt_delay_record_unref(like);
    return record;
}

static bool is_leased(const struct known *it)
{
    return it->there && it->state == HWT_DELAY_LEASED;
}

/* See leaves_something() in table.c: a slot may have an older message with this identity. */
static bool leaves(size_t n)
{
    const struct known *it = &known[n];
    return due_of(n) >= loaded || it->shadows || it->tombstone || it->state != HWT_DELAY_FRESH;
}

static void put(size_t n)
{
    struct known *it = &known[n];
    struct hwt_delay_record *record = record_of(n, HWT_DELAY_PUT);
    uint64_t its = record->key.sequence;
    hwt_delay_apply_put(store, record);
    if (it->there && it->sequence >= its)
        return;
    it->shadows = it->there && !is_leased(it) && leaves(n);
    it->there = true;
    it->tombstone = false;
    it->sequence = its;
    it->state = HWT_DELAY_FRESH;
}

static void tombstone(size_t n)
{
    struct known *it = &known[n];
    struct hwt_delay_record *record = record_of(n, HWT_DELAY_TOMBSTONE);
    uint64_t its = record->key.sequence;
    hwt_delay_apply_tombstone(store, record);
    if (it->there && it->sequence > its)
        return;
    it->there = !it->there || leaves(n);
    it->tombstone = true;
    it->shadows = false;
    it->sequence = its;
    it->state = HWT_DELAY_FRESH;
}

/* As a checkpoint does it: what is FLUSHING is in its slot, and leaves the table unless it is to be handed over. */
static void file(size_t n)
{
    struct known *it = &known[n];
    struct hwt_delay_record *record = lookup(n);
    if (!it->there || it->state == HWT_DELAY_FILED || is_leased(it))
        return;
    if (it->state == HWT_DELAY_FRESH) {
        hwt_delay_set_state(store, record, HWT_DELAY_FLUSHING);
        it->state = HWT_DELAY_FLUSHING;
        return;
    }
    if (it->tombstone || due_of(n) >= loaded)
        return;
    hwt_delay_filed_add(hwt_delay_filed_of(store), record->key.due, 1);
    hwt_delay_set_state(store, record, HWT_DELAY_FILED);
    it->state = HWT_DELAY_FILED;
}

static void lease(size_t n)
{
    struct known *it = &known[n];
    struct hwt_delay_record *record = lookup(n);
    if (!it->there || it->tombstone || is_leased(it) || (it->lease && it->older))
        return;
    if (it->lease)
        it->older = it->lease;
    it->lease = malloc(sizeof(*it->lease));
    ck_assert_ptr_nonnull(it->lease);
    hwt_delay_lease_add(store, it->lease, record, 1 + below(100));
    ck_assert_ptr_eq(hwt_delay_lease_find(store, it->lease->token), it->lease);
    it->state = HWT_DELAY_LEASED;
}

/* Its message is pending again, unless something newer was put in its place. */
static void end_lease(size_t n)
{
    struct known *it = &known[n];
    if (!it->lease)
        return;
    struct hwt_delay_record *record = hwt_delay_lease_end(store, it->lease);
    ck_assert_int_eq(record != NULL, is_leased(it));
    it->lease = NULL;
    it->there = it->there && !record;
    if (record)
        hwt_delay_record_unref(record);
}

/* What was put in its place stays, leased or not. */
static void end_older(size_t n)
{
    struct known *it = &known[n];
    if (!it->older)
        return;
    ck_assert_ptr_null(hwt_delay_lease_end(store, it->older));
    it->older = NULL;
}

static void check_lease(const struct hwt_delay_lease *lease, bool counts)
{
    must(hwt_delay_lease_find(store, lease->token) == lease);
    must(lease->superseded == !counts);
}

static void check_one(size_t n)
{
    const struct known *it = &known[n];
    const struct hwt_delay_record *record = lookup(n);
    must((record != NULL) == it->there);
    must(!record || (record->key.sequence == it->sequence && record->state == it->state &&
                     (record->kind == HWT_DELAY_TOMBSTONE) == it->tombstone));
    must(!is_leased(it) || record->lease == it->lease);
    if (it->lease)
        check_lease(it->lease, is_leased(it));
    if (it->older)
        check_lease(it->older, false);
}

/* All of the table, once, in the order of the keys; and the sums of it. */
static void check_sums(void)
{
    uint64_t bytes[HWT_DELAY_STATES] = { 0 }, pending = 0, leased = 0;
    size_t count = 0, there = 0, fresh = 0;
    struct hwt_delay_key last = { 0, 0 };
    for (struct hwt_delay_record *record = hwt_delay_lowest(store); record;
         record = RB_NEXT(hwt_delay_keys, NULL, record)) {
        must(hwt_delay_compare(last, record->key) <= 0);
        last = record->key;
        bytes[record->state] += hwt_delay_record_bytes(record);
        pending += record->kind == HWT_DELAY_PUT;
        fresh += record->state == HWT_DELAY_FRESH;
        count++;
    }
    for (size_t n = 0; n < IDENTITIES; n++) {
        there += known[n].there && !is_leased(&known[n]);
        pending += is_leased(&known[n]);
        for (int i = 0; i < 2; i++) {
            const struct hwt_delay_lease *it = i == 0 ? known[n].lease : known[n].older;
            leased += it != NULL;
            bytes[HWT_DELAY_LEASED] += it ? hwt_delay_record_bytes(it->record) : 0;
        }
    }
    must(count == there && hwt_delay_fresh_count(store) == fresh);
    must(hwt_delay_leased_count(store) == leased && hwt_delay_pending(store) == pending);
    for (int i = HWT_DELAY_FRESH; i <= HWT_DELAY_LEASED; i++)
        must(hwt_delay_bytes_in(store, (enum hwt_delay_state)i) == bytes[i]);
}

START_TEST(each_identity_has_what_was_said_last)
{
    static void (*const changes[])(size_t n) = { put,  put,   put,       tombstone, file,
                                                 file, lease, end_lease, end_older };
    loaded = _i == 0 ? 0 : _i == 1 ? due_of(IDENTITIES / 2) : HWT_NEVER;
    hwt_delay_set_loaded(store, (struct hwt_delay_key){ loaded, 0 });
    for (int i = 0; i < STEPS; i++) {
        size_t n = (size_t)below(IDENTITIES);
        changes[below(sizeof(changes) / sizeof(changes[0]))](n);
        check_one(n);
        if (i % 64 == 0)
            check_sums();
    }
    for (size_t n = 0; n < IDENTITIES; n++) {
        check_one(n);
        end_lease(n);
        end_older(n);
    }
    check_sums();
}
END_TEST

START_TEST(the_lowest_record_from_a_key_on)
{
    for (size_t n = 0; n < IDENTITIES; n++)
        hwt_delay_apply_put(store, record_of(n, HWT_DELAY_PUT));
    for (int i = 0; i < 1000; i++) {
        const struct hwt_delay_key key = { due_of((size_t)below(IDENTITIES)) + below(3) - 1,
                                           below(sequence + 1) };
        const struct hwt_delay_record *record = hwt_delay_lowest(store);
        while (record && hwt_delay_compare(record->key, key) < 0)
            record = RB_NEXT(hwt_delay_keys, NULL, (struct hwt_delay_record *)(uintptr_t)record);
        must(hwt_delay_from(store, key) == record);
    }
}
END_TEST

START_TEST(leases_end_by_their_time_and_the_first_is_known)
{
    uint64_t first = HWT_NEVER;
    ck_assert_uint_eq(hwt_delay_lease_first_end(store), HWT_NEVER);
    for (size_t n = 0; n < IDENTITIES; n++) {
        put(n);
        lease(n);
        first = known[n].lease && known[n].lease->end < first ? known[n].lease->end : first;
        ck_assert_uint_eq(hwt_delay_lease_first_end(store), first);
    }
    struct hwt_delay_lease *it;
    size_t count = 0;
    HWT_DELAY_FOREACH_LEASE(it, store)
    {
        ck_assert_uint_eq(it->token, ++count); /* in the order in which they were given */
    }
    ck_assert_uint_eq(count, hwt_delay_leased_count(store));
    for (size_t n = 0; n < IDENTITIES; n++)
        end_lease(n);
    ck_assert_uint_eq(hwt_delay_lease_first_end(store), HWT_NEVER);
}
END_TEST

static void put_and_lease(uint64_t id)
{
    const hwt_delay_message message = { .due = 1, .id = &id, .id_size = sizeof(id) };
    struct hwt_delay_record *record = hwt_delay_record_new(HWT_DELAY_PUT, &message);
    struct hwt_delay_lease *it = malloc(sizeof(*it));
    must(record && it);
    record->key.sequence = sequence++;
    hwt_delay_apply_put(store, record);
    hwt_delay_lease_add(store, it, record, 1);
}

/* One lease of each batch lasts: these are not all in the same few buckets. */
START_TEST(leases_that_last_are_found_in_a_few_steps)
{
    enum { LAST = 512, MOST = 16 };
    static const uint64_t batches[] = { 1, 16, 64, 100, 128, 1000, 1024 };
    for (uint64_t i = 0; i < LAST; i++) {
        put_and_lease(i);
        store->table.next_token += batches[_i] - 1;
    }
    struct hwt_delay_lease *it;
    HWT_DELAY_FOREACH_LEASE(it, store)
    {
        size_t length = 0;
        const struct hwt_delay_node *node =
            hwt_delay_map_bucket(&store->table.tokens, it->by_token.hash);
        for (; node; node = node->next)
            length++;
        must(length <= MOST);
        must(hwt_delay_lease_find(store, it->token) == it);
    }
}
END_TEST

enum { NEAR = 8, GROUPS = 64 };

static void lease_in_turn(void)
{
    store->table.next_token = NEAR;
    for (uint64_t i = 0; i < (uint64_t)NEAR * GROUPS; i++)
        put_and_lease(i);
}

/* The buckets of eight tokens in turn stand beside each other, and each has its own. */
START_TEST(leases_that_were_given_in_turn_are_near)
{
    lease_in_turn();
    struct hwt_delay_lease *it;
    uint64_t group = 0;
    unsigned seen = 0, count = 0;
    HWT_DELAY_FOREACH_LEASE(it, store)
    {
        if (count++ % NEAR == 0) {
            group = it->by_token.hash / NEAR;
            seen = 0;
        }
        ck_assert_uint_eq(it->by_token.hash / NEAR, group);
        seen |= 1U << it->by_token.hash % NEAR;
        if (count % NEAR == 0)
            ck_assert_uint_eq(seen, (1U << NEAR) - 1);
    }
    ck_assert_uint_eq(count, NEAR * GROUPS);
}
END_TEST

/* Some of these have the hash of a token that was given. */
START_TEST(a_token_that_was_not_given_is_that_of_no_lease)
{
    lease_in_turn();
    for (uint64_t token = NEAR; token < NEAR * (GROUPS + 1); token++) {
        must(hwt_delay_lease_find(store, token));
        for (uint64_t high = 1; high < 256; high++) {
            for (uint64_t low = 0; low < NEAR; low++)
                must(!hwt_delay_lease_find(store, token ^ high << 56 ^ low));
        }
    }
}
END_TEST

/* Of each identity the last one alone is found, however often the map has grown since. */
START_TEST(the_last_one_of_an_identity_is_found)
{
    static struct hwt_delay_record *records[IDENTITIES * 2];
    struct hwt_delay_map map;
    hwt_delay_map_init(&map);
    for (size_t i = 0; i < IDENTITIES * 2; i++) {
        const uint8_t kind = i % 2 == 0 ? HWT_DELAY_PUT : HWT_DELAY_TOMBSTONE;
        records[i] = record_of(i / 2, kind);
        must(hwt_delay_supplant(&map, records[i]) == (i % 2 == 0 ? NULL : records[i - 1]));
        ck_assert_uint_eq(map.count, i / 2 + 1);
        for (size_t before = 0; before <= i; before++)
            must(hwt_delay_find(&map, records[before]) ==
                 records[before / 2 < i / 2 ? before / 2 * 2 + 1 : i]);
    }
    hwt_delay_map_clear(&map);
    for (size_t i = 0; i < IDENTITIES * 2; i++)
        hwt_delay_record_unref(records[i]);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_table");
    TCase *tcase = tcase_create("table");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, each_identity_has_what_was_said_last, 0, 3);
    tcase_add_test(tcase, the_lowest_record_from_a_key_on);
    tcase_add_test(tcase, leases_end_by_their_time_and_the_first_is_known);
    tcase_add_test(tcase, the_last_one_of_an_identity_is_found);
    tcase_add_loop_test(tcase, leases_that_last_are_found_in_a_few_steps, 0, 7);
    tcase_add_test(tcase, leases_that_were_given_in_turn_are_near);
    tcase_add_test(tcase, a_token_that_was_not_given_is_that_of_no_lease);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
