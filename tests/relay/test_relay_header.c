/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Bytes of strangers: header blocks of NATS, texts of entries, records. Each is read as it stands, or refused. The copies that
 * are read are as long as they are, so sanitizers see what is read behind them.
 */

#include "hwt/relay/header.h"

#include <errno.h>
#include <string.h>

#include "check_main.h"
#include "hwt/relay/watermark.h"

enum { MUTATIONS = 100000, TEXT_MAX = 1024 };

static struct relay_field *fields;
static size_t count;

static void read_block(const void *bytes, size_t size)
{
    unsigned char *copy = malloc(size + 1); /* malloc(0) may be NULL */

    ck_assert_ptr_nonnull(copy);
    if (size > 0)
        memcpy(copy + 1, bytes, size);
    ck_assert_int_eq(relay_header_read(copy + 1, size, &fields, &count), 0);
    free(copy);
}

#define READ(text) read_block(text, sizeof(text) - 1)

static void has(size_t i, const char *name, const char *value)
{
    ck_assert_uint_lt(i, count);
    ck_assert_str_eq(fields[i].name, name);
    ck_assert_str_eq(fields[i].value, value);
}

START_TEST(headers_come_in_the_order_of_their_names)
{
    READ("NATS/1.0\r\nB:2\r\nA: \t1 \r\nB: 3:4\r\nE:\r\nc: \xff\x01\r\n\r\n");
    ck_assert_uint_eq(count, 5);
    has(0, "A", "1");
    has(1, "B", "2");
    has(2, "B", "3:4");
    has(3, "E", "");
    has(4, "c", "\xff\x01");
    free(fields);
    READ("NATS/1.0 503\nA: 1\nB: a\rb\n\n"); /* lines of another system */
    ck_assert_uint_eq(count, 2);
    has(1, "B", "a\rb");
    free(fields);
    READ("");
    ck_assert_uint_eq(count, 0);
    free(fields);
}
END_TEST

START_TEST(a_line_that_is_no_header_is_seen)
{
    static const struct {
        const char *block;
        size_t size;
        const char *line;
    } cases[] = {
#define CASE(bytes, line) { bytes, sizeof(bytes) - 1, line }
        CASE("NATS/1.0\r\n: x\r\n\r\n", ": x"),
        CASE("NATS/1.0\r\n:\r\n\r\n", ":"),
        CASE("NATS/1.0\r\nx\r\n\r\n", "x"),
        CASE("NATS/1.0\r\n A: x\r\n\r\n", " A: x"),
        CASE("NATS/1.0\r\n\tA: x\r\n\r\n", "\tA: x"),
        CASE("NATS/1.0\r\nHwt-Key: a\0b\r\n\r\n", "Hwt-Key: a?b"),
        CASE("NATS/1.0\r\nHwt\0-Key: a\r\n\r\n", "Hwt?-Key: a"),
        CASE("NATS/1.0\r\n\r\nHwt-Key: a\r\n", "Hwt-Key: a"),
        CASE("NATS/1.0\r\nx", "x"),
        CASE("NATS/2.0\r\n\r\n", "NATS/2.0"),
        CASE("NATS/1.", "NATS/1."),
        CASE("\0", "?"),
    };
    const struct relay_message message = { .fields_count = 1 };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct relay_message bad = message;
        char reason[RELAY_REASON_MAX];
        struct relay_order order;
        read_block(cases[i].block, cases[i].size);
        ck_assert_uint_eq(count, 1);
        has(0, "", cases[i].line);
        bad.fields = fields;
        ck_assert_int_eq(relay_order_read(&bad, &order, reason), -EINVAL);
        ck_assert_ptr_nonnull(strstr(reason, "a line that is no header: "));
        free(fields);
    }
}
END_TEST

/* There may be as many as a block has room for, and no more is done with each. */
START_TEST(tiny_headers_are_read_as_they_stand)
{
    static char block[65535] = "NATS/1.0\r\n";
    size_t size = strlen(block);

    for (int i = 0; size + 6 <= sizeof(block); i++) {
        block[size++] = (char)('z' - i % 26);
        memcpy(block + size, ":\n", 2);
        size += 2;
    }
    read_block(block, size);
    ck_assert_uint_eq(count, (size - strlen("NATS/1.0\r\n")) / 3);
    has(0, "z", "");
    has(1, "y", "");
    free(fields);
}
END_TEST

START_TEST(a_block_is_written_with_the_id_first)
{
    const struct relay_field own[] = { { "X", "of Nats-Msg-Id: y" },
                                       { "A", "1\r\nB: 2" },
                                       { "A", "" } };
    const char *last;
    char *text = relay_header_write("i", own, 3, &last);

    ck_assert_str_eq(text, "Nats-Msg-Id: i\r\nX: of Nats-Msg-Id: y\r\nA: 1  B: 2\r\nA");
    ck_assert_str_eq(last, "");
    free(text);
    text = relay_header_write(NULL, own, 1, &last);
    ck_assert_str_eq(text, "X");
    ck_assert_str_eq(last, "of Nats-Msg-Id: y");
    free(text);
    text = relay_header_write(NULL, own, 0, &last);
    ck_assert_str_eq(text, "");
    free(text);
}
END_TEST

/* ---- Mutations ---- */

/* Bytes are changed, put in, taken out, or written twice. Returns how many there are. */
static size_t mutate(uint64_t *random, char *bytes, size_t size)
{
    static const char likely[] = "\0\r\n: \t=-+0919.\x01\x02\xff"
                                 "aHhNZ";

    for (uint64_t times = 1 + test_random(random) % 4; times > 0; times--) {
        size_t at = test_random(random) % (size + 1), length = test_random(random) % 8;
        char byte = likely[test_random(random) % (sizeof(likely) - 1)];
        switch (test_random(random) % 4) {
        case 0:
            bytes[at < size ? at : 0] = byte;
            break;
        case 1:
            if (size == TEXT_MAX)
                break;
            memmove(bytes + at + 1, bytes + at, size++ - at);
            bytes[at] = byte;
            break;
        case 2:
            length = length < size - at ? length : size - at;
            memmove(bytes + at, bytes + at + length, size - at - length);
            size -= length;
            break;
        default:
            length = length < size - at ? length : size - at;
            if (size + length > TEXT_MAX)
                break;
            memmove(bytes + at + length, bytes + at, size - at);
            size += length;
        }
    }
    return size;
}

static void use_order(uint64_t timestamp)
{
    const struct relay_message message = { .timestamp = timestamp,
                                           .fields = fields,
                                           .fields_count = count };
    char reason[RELAY_REASON_MAX] = "";
    struct relay_order order;

    if (relay_order_read(&message, &order, reason) == 0)
        ck_assert(order.op == RELAY_CANCEL ? order.key != NULL : order.target != NULL);
    else
        ck_assert_uint_gt(strlen(reason), 0);
    relay_crc(&message);
}

/* What was read is written so that it is read again. */
static void use_fields(void)
{
    size_t good = 0, before = count;
    struct relay_field *kept = fields;
    const char *last;
    char *text, block[2 * TEXT_MAX + 64];

    for (size_t i = 0; i < count; i++)
        if (*fields[i].name)
            fields[good++] = fields[i];
    text = relay_header_write("i", fields, good, &last);
    ck_assert_ptr_nonnull(text);
    snprintf(block, sizeof(block), "NATS/1.0\r\n%s: %s\r\n\r\n", text, last);
    ck_assert_uint_le(strlen(block), relay_fields_size(kept, good) + strlen("Nats-Msg-Id: i\r\n"));
    free(text);
    read_block(block, strlen(block));
    ck_assert_uint_eq(count, good + 1);
    ck_assert_uint_ge(before, good);
    free(fields);
    free(kept);
}

START_TEST(mutated_header_blocks)
{
    static const char block[] =
        "NATS/1.0\r\nHwt-Due: 1800000000000\r\nHwt-Target: orders.new\r\nHwt-Key: order-17\r\n"
        "Hwt-Op: replace\r\nHwt-Due-Old: 2027-01-15T08:00:00.5+01:00\r\nHwt-Id: i\r\nHwt-Attempt: "
        "3\r\n"
        "Nats-Msg-Id: x\r\nX-Own: \r\n\r\n";
    uint64_t random = test_seed();

    for (int i = 0; i < MUTATIONS; i++) {
        char bytes[TEXT_MAX];
        size_t size = sizeof(block) - 1;
        memcpy(bytes, block, size);
        size = mutate(&random, bytes, size);
        read_block(bytes, size);
        use_order(test_random(&random));
        use_fields();
    }
}
END_TEST

START_TEST(mutated_texts_of_entries)
{
    static const char *const texts[] = {
        "owner=a life=5 incarnation=1 position=2 timestamp=3 due=18446744073709551614",
        "incarnation=1 position=2 timestamp=3 top=5 top_timestamp=18446744073709551615",
        "incarnation=1 position=2 timestamp=3 life=5 ready=1 policy=7 later=x",
    };
    uint64_t random = test_seed();
    unsigned good = 0;

    for (int i = 0; i < MUTATIONS; i++) {
        char bytes[TEXT_MAX], written[RELAY_ENTRY_MAX], *copy;
        size_t size = strlen(texts[i % 3]);
        struct relay_place place, top;
        struct relay_member member;
        struct relay_entry entry, again;
        memcpy(bytes, texts[i % 3], size);
        size = mutate(&random, bytes, size);
        copy = strndup(bytes, size);
        relay_note_read(copy, &place, &top);
        relay_member_read(copy, &member);
        if (relay_entry_read(copy, &entry) == 0) {
            relay_entry_write(&entry, written);
            ck_assert_int_eq(relay_entry_read(written, &again), 0);
            ck_assert_mem_eq(&entry.watermark, &again.watermark, sizeof(entry.watermark));
            ck_assert_str_eq(entry.owner, again.owner);
            good++;
        }
        free(copy);
    }
    ck_assert_uint_gt(good, 100);
}
END_TEST

START_TEST(mutated_records)
{
    static struct relay_record record = { .place = { 1, 2, 3 },
                                          .target = "orders.new",
                                          .id = "shop.0:1:2",
                                          .key = "k",
                                          .fields = { { "A", "" }, { "B", "c" } },
                                          .fields_count = 2,
                                          .payload = "x",
                                          .payload_size = 1 };
    static struct relay_record read;
    uint64_t random = test_seed();

    for (int i = 0; i < MUTATIONS; i++) {
        char bytes[TEXT_MAX], *copy;
        size_t size;
        record.missing = (uint64_t)i % 2;
        void *written = relay_record_write(&record, &size);
        memcpy(bytes, written, size);
        free(written);
        size = mutate(&random, bytes, size);
        copy = malloc(size + 1);
        if (size > 0)
            memcpy(copy + 1, bytes, size);
        if (relay_record_read(copy + 1, size, &read) == 0) {
            written = relay_record_write(&read, &size);
            ck_assert_ptr_nonnull(written);
            free(written);
        }
        free(copy);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_header");
    TCase *tcase = tcase_create("bytes");

    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, headers_come_in_the_order_of_their_names);
    tcase_add_test(tcase, a_line_that_is_no_header_is_seen);
    tcase_add_test(tcase, tiny_headers_are_read_as_they_stand);
    tcase_add_test(tcase, a_block_is_written_with_the_id_first);
    tcase_add_test(tcase, mutated_header_blocks);
    tcase_add_test(tcase, mutated_texts_of_entries);
    tcase_add_test(tcase, mutated_records);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
