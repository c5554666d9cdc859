/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Records as bytes: each is told against the one before it. Whatever is read is what was written, and there
 * is one way to write it: other bytes are refused.
 */

#include "kit.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/delay/whole.h"

enum { RECORDS = 12, ROUNDS = 3000, SPOILT = 50, ROOM = RECORDS * 700 };

static uint64_t state;
static struct hwt_delay_record *records[RECORDS];
static unsigned char bytes[ROOM];

static uint64_t below(uint64_t most)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (state >> 33) % most;
}

static void set_up(void)
{
    state = test_seed();
}

/* Near a number, or anywhere. */
static uint64_t near(uint64_t number)
{
    switch (below(6)) {
    case 0:
        return number;
    case 1:
        return number + below(300);
    case 2:
        return number - below(300);
    case 3:
        return number + (below(1 << 30) << below(34));
    case 4:
        return below(2) == 0 ? 0 : UINT64_MAX;
    default:
        return below(1 << 30) << 34 | below(1 << 30);
    }
}

/* Often one that begins as the one before does. */
static size_t make_id(unsigned char id[255], size_t before)
{
    size_t size = below(4) == 0 ? 1 + below(255) : 1 + below(8);
    size_t from = below(before + 1);
    for (size_t i = below(3) == 0 ? 0 : from; i < size; i++)
        id[i] = (unsigned char)below(2);
    return size;
}

static struct hwt_delay_record *make_record(unsigned char id[255], size_t *id_size,
                                            struct hwt_delay_key before)
{
    static const uint8_t kinds[] = { HWT_DELAY_PUT,       HWT_DELAY_PUT,    HWT_DELAY_PUT,
                                     HWT_DELAY_TOMBSTONE, HWT_DELAY_CLOSED, HWT_DELAY_NOTE,
                                     HWT_DELAY_DROP };
    static const unsigned char payload[300] = { 1, 2, 3 };
    const uint8_t kind = kinds[below(sizeof(kinds))];
    const bool put = kind == HWT_DELAY_PUT, has_id = put || kind == HWT_DELAY_TOMBSTONE;
    *id_size = has_id ? make_id(id, *id_size) : 0;
    const hwt_delay_message message = {
        .due = near(before.due),
        .id = id,
        .id_size = *id_size,
        .payload = payload,
        .payload_size = put || kind == HWT_DELAY_NOTE ? below(2) * below(sizeof(payload)) : 0,
        .first_due = put ? below(2) * near(before.due) : 0,
        .retries = put ? (uint32_t)(below(2) * below(65536)) : 0,
    };
    struct hwt_delay_record *record = hwt_delay_record_new(kind, &message);
    ck_assert_ptr_nonnull(record);
    record->key.sequence = near(before.sequence);
    record->handed = put ? (uint16_t)(below(2) * below(65536)) : 0;
    record->ends = has_id && below(2) == 0;
    return record;
}

static size_t make_records(void)
{
    unsigned char id[255] = { 0 };
    size_t id_size = 0;
    struct hwt_delay_key key = { 0, 0 };
    struct hwt_delay_before before = { 0 };
    unsigned char *at = bytes;
    for (size_t i = 0; i < RECORDS; i++) {
        records[i] = make_record(id, &id_size, key);
        key = records[i]->key;
        unsigned char *end = hwt_delay_encode(&before, records[i], at);
        must((size_t)(end - at) >= HWT_DELAY_RECORD_LEAST);
        must((size_t)(end - at) <= hwt_delay_encoded_most(records[i]));
        at = end;
    }
    return (size_t)(at - bytes);
}

static void forget_records(void)
{
    for (size_t i = 0; i < RECORDS; i++)
        hwt_delay_record_unref(records[i]);
}

static void assert_same(const struct hwt_delay_packed *packed,
                        const struct hwt_delay_record *record)
{
    must(packed->kind == record->kind && hwt_delay_compare(packed->key, record->key) == 0);
    must(packed->id_size == record->id_size && packed->payload_size == record->payload_size);
    must(memcmp(packed->id, record->bytes, packed->id_size) == 0);
    must(memcmp(packed->payload, record->bytes + record->id_size, packed->payload_size) == 0);
    must(packed->retries == record->retries && packed->handed == record->handed);
    must(packed->origin == (record->origin ? record->origin->due : 0));
    must(((packed->flags & HWT_DELAY_FLAG_ENDS) != 0) == record->ends);
}

START_TEST(records_are_read_as_they_were_written)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t size = make_records();
        struct hwt_delay_before before = { 0 };
        const unsigned char *at = bytes;
        for (size_t i = 0; i < RECORDS; i++) {
            struct hwt_delay_packed packed;
            must(hwt_delay_unpack(&before, &at, bytes + size, &packed) == 0);
            assert_same(&packed, records[i]);
            struct hwt_delay_record *record = hwt_delay_record_of(&packed);
            ck_assert_ptr_nonnull(record);
            assert_same(&packed, record);
            hwt_delay_record_unref(record);
        }
        must(at == bytes + size);
        forget_records();
    }
}
END_TEST

/* Reads all records; how many bytes were read, or an error. `copy` has what they are when they are written. */
static int64_t read_all(const unsigned char *from, size_t size, unsigned char *copy,
                        size_t *ret_copied)
{
    struct hwt_delay_before before = { 0 }, again = { 0 };
    const unsigned char *at = from;
    unsigned char *to = copy;
    for (size_t i = 0; i < RECORDS && at < from + size; i++) {
        struct hwt_delay_packed packed;
        int r = hwt_delay_unpack(&before, &at, from + size, &packed);
        if (r < 0)
            return r;
        struct hwt_delay_record *record = hwt_delay_record_of(&packed);
        ck_assert_ptr_nonnull(record);
        to = hwt_delay_encode(&again, record, to);
        hwt_delay_record_unref(record);
    }
    *ret_copied = (size_t)(to - copy);
    return at - from;
}

/* Exactly as long as they are, so that a sanitizer sees who reads behind them. */
static unsigned char *copy_of(size_t size)
{
    unsigned char *copy = malloc(size);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, size);
    return copy;
}

START_TEST(what_is_read_is_written_in_one_way)
{
    static unsigned char again[2 * ROOM];
    uint64_t read = 0;
    for (unsigned round = 0; round < ROUNDS / 10; round++) {
        size_t size = make_records(), copied;
        for (unsigned i = 0; i < SPOILT; i++) {
            unsigned char *spoilt = copy_of(size);
            spoilt[below(size)] ^= (unsigned char)(1 << below(8));
            if (below(2) == 0)
                spoilt[below(size)] = 0;
            int64_t n = read_all(spoilt, size, again, &copied);
            must(n >= 0 || n == -EBADMSG || n == -ENOTSUP);
            read += n > 0;
            must(n < 0 || (copied == (size_t)n && memcmp(again, spoilt, copied) == 0));
            free(spoilt);
        }
        forget_records();
    }
    ck_assert_uint_gt(read, 0); /* payloads may be any bytes */
}
END_TEST

START_TEST(a_part_of_a_record_is_none)
{
    for (unsigned round = 0; round < ROUNDS / 10; round++) {
        size_t size = make_records();
        struct hwt_delay_before before = { 0 };
        const unsigned char *at = bytes;
        struct hwt_delay_packed packed;
        for (size_t i = 0; i < RECORDS; i++) {
            const unsigned char *begin = at;
            struct hwt_delay_before same = before;
            must(hwt_delay_unpack(&before, &at, bytes + size, &packed) == 0);
            size_t part = below((uint64_t)(at - begin));
            unsigned char *copy = copy_of(size);
            const unsigned char *from = copy + (begin - bytes);
            must(hwt_delay_unpack(&same, &from, from + part, &packed) == -EBADMSG);
            must(from == copy + (begin - bytes));
            free(copy);
        }
        forget_records();
    }
}
END_TEST

/* Each has been spoilt in one place, so that it says the same in another way, or what cannot be. */
START_TEST(another_way_is_refused)
{
    static const struct {
        unsigned size;
        unsigned char bytes[20];
    } cases[] = {
        { 9, { HWT_DELAY_PUT, 2, 0, 0, 1, 7, 0, 'a', 0 } },        /* a due time of a byte in two */
        { 7, { HWT_DELAY_PUT, 0x10, 0, 0, 1, 0, 'a' } },           /* a sequence of none in one */
        { 8, { HWT_DELAY_PUT, 0, 2, 0, 1, 0, 0, 'a' } },           /* a size of none in two */
        { 10, { HWT_DELAY_PUT, 0, 0x40, 0, 1, 0, 0, 0, 0, 'a' } }, /* counts of nothing */
        { 14, { HWT_DELAY_PUT, 0, 0x20, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 'a' } }, /* an origin of 0 */
        { 15,
          { HWT_DELAY_PUT, 1, 0x20, 0, 1, 14, 7, 0, 0, 0, 0, 0, 0, 0, 'a' } }, /* it is due then */
        { 5, { HWT_DELAY_PUT, 0, 0, 0, 0 } },                                  /* no id */
        { 5, { HWT_DELAY_TOMBSTONE, 0, 0, 0, 0 } },
        { 8, { HWT_DELAY_TOMBSTONE, 0, 1, 0, 1, 1, 'a', 'b' } }, /* a payload */
        { 6, { HWT_DELAY_NOTE, 0, 0, 0, 1, 'a' } },              /* an id */
        { 7, { HWT_DELAY_DROP, 0, 1, 0, 0, 1, 'a' } },
        { 6, { HWT_DELAY_CLOSED, 0, 0, 0, 1, 'a' } },
        { 6, { HWT_DELAY_PUT, 0, 0, 1, 0, 'a' } }, /* nothing is before it */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hwt_delay_before before = { 0 };
        struct hwt_delay_packed packed;
        const unsigned char *at = cases[i].bytes;
        int r = hwt_delay_unpack(&before, &at, at + cases[i].size, &packed);
        ck_assert_msg(r == -EBADMSG, "case %zu: %d", i, r);
    }
}
END_TEST

/* All that the next id has of the one before it is to be shared. */
START_TEST(an_id_shares_all_it_can)
{
    static const unsigned char whole[] = { HWT_DELAY_PUT, 0, 0, 0, 2, 'a', 'b',
                                           HWT_DELAY_PUT, 0, 0, 1, 1, 'c' };
    static const unsigned char again[] = { HWT_DELAY_PUT, 0, 0, 0, 2, 'a', 'b',
                                           HWT_DELAY_PUT, 0, 0, 0, 2, 'a', 'c' };
    static const unsigned char less[] = { HWT_DELAY_PUT, 0, 0, 0, 2, 'a', 'b',
                                          HWT_DELAY_PUT, 0, 0, 1, 0 };
    unsigned char copy[64];
    size_t copied;
    ck_assert_int_eq(read_all(whole, sizeof(whole), copy, &copied), sizeof(whole));
    ck_assert_int_eq(read_all(less, sizeof(less), copy, &copied), sizeof(less));
    ck_assert_int_eq(read_all(again, sizeof(again), copy, &copied), -EBADMSG);
}
END_TEST

/* The bytes that hwt-delay-format(5) shows. */
START_TEST(the_bytes_are_those_of_the_manual)
{
    static const unsigned char expected[] = {
        1,   0x12, 0x01, 0,   7,   0xd0, 0x07, 0x0c, 2, 'o', 'r',  'd', 'e',
        'r', '-',  '1',  'h', 'i', 2,    0x01, 0x10, 6, 1,   0x13, '2',
    };
    const hwt_delay_message first = {
        .due = 1000, .id = "order-1", .id_size = 7, .payload = "hi", .payload_size = 2
    };
    const hwt_delay_message second = { .due = 990, .id = "order-2", .id_size = 7 };
    struct hwt_delay_record *put = hwt_delay_record_new(HWT_DELAY_PUT, &first);
    struct hwt_delay_record *tombstone = hwt_delay_record_new(HWT_DELAY_TOMBSTONE, &second);
    struct hwt_delay_before before = { 0 };
    put->key.sequence = 7;
    tombstone->key.sequence = 8;
    tombstone->ends = true;
    const unsigned char *end =
        hwt_delay_encode(&before, tombstone, hwt_delay_encode(&before, put, bytes));
    ck_assert_int_eq(end - bytes, sizeof(expected));
    ck_assert_int_eq(memcmp(bytes, expected, sizeof(expected)), 0);
    hwt_delay_record_unref(put);
    hwt_delay_record_unref(tombstone);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("delay_record");
    TCase *tcase = tcase_create("records");

    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_add_test(tcase, records_are_read_as_they_were_written);
    tcase_add_test(tcase, what_is_read_is_written_in_one_way);
    tcase_add_test(tcase, a_part_of_a_record_is_none);
    tcase_add_test(tcase, another_way_is_refused);
    tcase_add_test(tcase, an_id_shares_all_it_can);
    tcase_add_test(tcase, the_bytes_are_those_of_the_manual);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
