/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The protocol: what each header means, and what becomes a dead letter, with which reason. */

#include "hwt/relay/policy.h"
#include "hwt/relay/record.h"

#include <errno.h>
#include <string.h>

#include "check_main.h"

#define NOW UINT64_C(1800000000000000000)

static struct relay_order order;
static char reason[RELAY_REASON_MAX];

/* Headers in pairs of name and value, NULL at the end. */
static int read_order(const char *const *headers)
{
    struct relay_field fields[RELAY_FIELDS_MAX + 1];
    struct relay_message message = { .position = 1, .timestamp = NOW, .fields = fields };

    for (; headers[0]; headers += 2)
        fields[message.fields_count++] = (struct relay_field){ headers[0], headers[1] };
    reason[0] = 0;
    return relay_order_read(&message, &order, reason);
}

#define READ(...) read_order((const char *const[]){ __VA_ARGS__, NULL })

static void refused_by(int error, int r, const char *part)
{
    ck_assert_int_eq(r, error);
    ck_assert_msg(strstr(reason, part) != NULL, "the reason is: %s", reason);
}

static void refused(int r, const char *part)
{
    refused_by(-EINVAL, r, part);
}

static const struct {
    const char *text;
    uint64_t due;
} good_dues[] = {
    { "100000000000", UINT64_C(100000000000000000) },
    { "1800000000000", NOW },
    { "1970-01-01T00:00:00Z", 0 },
    { "1970-01-01t00:00:01.5z", UINT64_C(1500000000) },
    { "2027-01-15T08:00:00Z", NOW },
    { "2027-01-15T09:30:00.000000001+01:30", NOW + 1 },
    { "2027-01-15T00:00:00.1234567899-08:00", NOW + 123456789 },
    { "2024-02-29T00:00:00Z", UINT64_C(1709164800000000000) },
    { "2554-07-21T23:34:33Z", UINT64_C(18446744073000000000) },
};
static const char *const bad_dues[] = {
    "",
    "-1",
    "1.5",
    "soon",
    "9999-12-31T23:59:59Z",
    "99999999999999",
    "18446744073710",
    "2554-07-21T23:34:34Z",
    "1969-12-31T23:59:59Z",
    "1970-01-01T00:00:00+00:01",
    "2027-02-29T00:00:00Z",
    "2027-13-01T00:00:00Z",
    "2027-01-15T24:00:00Z",
    "2027-01-15T08:00:00",
    "2027-01-15 08:00:00Z",
    "2027-01-15T08:00:00.Z",
    "2027-01-15T08:00:00Zx",
    "2027-01-15T08:00:00+1:00",
    "2027-01-15T08:00:00+01:0",
    "2027-01-15T08:00:00+01:00x",
    "2027-01-15T08:00:00+24:00",
    "2027-01-15T08:00:00+01:60",
    "2027-01-15T08:00:00*01:00",
    "2027-1-15T08:00:00Z",
    "202-01-15T08:00:00Z",
    "2027-01-1T08:00:00Z",
    "2027-01-15T8:00:00Z",
    "2027-01-15T08:0:00Z",
    "2027-01-15T08:00:0Z",
    "2027-01-15T08:60:00Z",
    "2027-01-15T08:00:61Z",
    "2027-00-15T08:00:00Z",
    "2027-01-00T08:00:00Z",
    "2027-01-32T08:00:00Z",
    "2100-02-29T08:00:00Z",
    " 1",
    "1 ",
    "99999999999999999999999",
};

START_TEST(test_due_times)
{
    uint64_t due;

    for (size_t i = 0; i < sizeof(good_dues) / sizeof(good_dues[0]); i++) {
        ck_assert_msg(relay_due_read(good_dues[i].text, &due), "%s", good_dues[i].text);
        ck_assert_uint_eq(due, good_dues[i].due);
    }
    for (size_t i = 0; i < sizeof(bad_dues) / sizeof(bad_dues[0]); i++) {
        ck_assert_msg(!relay_due_read(bad_dues[i], &due), "%s", bad_dues[i]);
        refused(READ("Hwt-Due", bad_dues[i], "Hwt-Target", "plain"), "Hwt-Due is");
    }
}
END_TEST

START_TEST(test_a_due_time_is_read_as_it_was_written)
{
    uint64_t random = test_seed();

    for (int i = 0; i < 100000; i++) {
        uint64_t due = test_random(&random) >> test_random(&random) % 64, again;
        char text[RELAY_DUE_ROOM];
        if (due > RELAY_DUE_MAX)
            continue;
        relay_due_write(due, text);
        ck_assert_msg(relay_due_read(text, &again) && again == due, "%s", text);
    }
}
END_TEST

START_TEST(test_puts)
{
    ck_assert_int_eq(READ("X-Own", "x", "hwt-due", "1800000000000", "HWT-Target", "orders.new"), 0);
    ck_assert_int_eq(order.op, RELAY_PUT);
    ck_assert_uint_eq(order.due, NOW);
    ck_assert_str_eq(order.target, "orders.new");
    ck_assert_ptr_null(order.key);
    ck_assert_int_eq(READ("Hwt-Delay", "250", "Hwt-Target", "plain", "Hwt-Key", "\xff\x01 :"), 0);
    ck_assert_uint_eq(order.due, NOW + 250000000);
    ck_assert_str_eq(order.key, "\xff\x01 :");
    ck_assert_int_eq(READ("Hwt-Delay", "0", "Hwt-Target", "mails.a.send", "Hwt-Source", "x",
                          "Hwt-Reason", "put back by hand", "Hwt-Id", "i", "Hwt-Attempt", "3"),
                     0);
    ck_assert_uint_eq(order.attempt, 3);
    ck_assert_str_eq(order.id, "i");
}
END_TEST

START_TEST(test_puts_that_are_refused)
{
    static char long_key[RELAY_KEY_MAX + 2];

    memset(long_key, 'k', RELAY_KEY_MAX + 1);
    refused(READ("Hwt-Target", "plain"), "neither Hwt-Due nor Hwt-Delay");
    refused(READ("Hwt-Target", "plain", "Hwt-Due", "1", "Hwt-Delay", "1"), "Hwt-Due and Hwt-Delay");
    refused(READ("Hwt-Target", "plain", "Hwt-Due", "1", "hwt-due", "1"), "Hwt-Due is given twice");
    refused(READ("Hwt-Target", "plain", "Hwt-Due", "1795849735"), "seconds by mistake");
    refused(READ("Hwt-Target", "plain", "Hwt-Due", "99999999999"), "seconds by mistake");
    refused(READ("Hwt-Target", "plain", "Hwt-Delay", "-1"), "Hwt-Delay is -1");
    refused(READ("Hwt-Target", "plain", "Hwt-Delay", "18446744073709551615"), "Hwt-Delay is");
    refused(READ("Hwt-Target", "plain", "Hwt-Delay", "16646744073710"), "Hwt-Delay is");
    refused(READ("Hwt-Target", "plain", "Hwt-Delay", "1", "Hwt-Op", "PUT"), "Hwt-Op is PUT");
    refused(READ("Hwt-Target", "plain", "Hwt-Delay", "1", "Hwt-Key", ""), "Hwt-Key is empty");
    refused(READ("Hwt-Target", "plain", "Hwt-Delay", "1", "Hwt-Key", long_key), "longer than 254");
    refused(READ("Hwt-Target", "plain", "Hwt-Delay", "1", "Hwt-Due-Old", "1"),
            "for a replace only");
    refused(READ("Hwt-Target", "plain", "Hwt-Delay", "1", "Hwt-Attempt", "x"), "not a number");
    refused(READ("Hwt-Delay", "1"), "no Hwt-Target");
    refused(READ("Hwt-Op", "\r\nX: y"), "Hwt-Op is ??X: y");
}
END_TEST

/* Those that relays add are not counted. */
START_TEST(test_as_many_headers_as_there_may_be)
{
    struct relay_field fields[RELAY_FIELDS_MAX + 8] = {
        { "Hwt-Delay", "1" },   { "Hwt-Target", "plain" }, { "Hwt-Key", "k" },    { "Hwt-Id", "i" },
        { "Hwt-Attempt", "3" }, { "Hwt-Source", "x" },     { "Nats-Msg-Id", "i" }
    };
    struct relay_message message = { .timestamp = NOW, .fields = fields };

    for (size_t i = 7; i < RELAY_FIELDS_MAX + 8; i++)
        fields[i] = (struct relay_field){ i == 8 ? "Hwt-Later" : "X-Own", "" };
    message.fields_count = RELAY_FIELDS_MAX + 7;
    ck_assert_int_eq(relay_order_read(&message, &order, reason), 0);
    message.fields_count++;
    refused(relay_order_read(&message, &order, reason), "257 headers, more than 256");
}
END_TEST

START_TEST(test_targets_that_are_refused)
{
    static const char *const bad[] = {
        "",
        "$JS.API.STREAM.INFO.X",
        "$SYS.x",
        "orders.*",
        "orders.>",
        "orders.a b",
        "orders.\t",
        "orders.a\r\nX: y",
        "orders.",
        ".orders",
        "orders..a",
        "orders.\x7f",
        "__consumer_offsets",
        "_INBOX.x",
        "hwt.shop.0",
        "hwt-shop-entries",
    };
    static char longest[RELAY_TARGET_MAX + 2] = "orders.";

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refused(READ("Hwt-Delay", "1", "Hwt-Target", bad[i]), "Hwt-Target");
    memset(longest + 7, 'a', RELAY_TARGET_MAX - 7);
    ck_assert_int_eq(READ("Hwt-Delay", "1", "Hwt-Target", longest), 0);
    longest[RELAY_TARGET_MAX] = 'a';
    refused(READ("Hwt-Delay", "1", "Hwt-Target", longest), "longer than 255");
}
END_TEST

START_TEST(test_cancels_and_replaces)
{
    ck_assert_int_eq(READ("Hwt-Op", "cancel", "Hwt-Due", "500000000000", "Hwt-Key", "k"), 0);
    ck_assert_int_eq(order.op, RELAY_CANCEL);
    ck_assert_uint_eq(order.due, UINT64_C(500000000000000000));
    refused(READ("Hwt-Op", "cancel", "Hwt-Due", "500000000000"), "wants Hwt-Key");
    refused(READ("Hwt-Op", "cancel", "Hwt-Delay", "5", "Hwt-Key", "k"), "a cancel is by Hwt-Due");
    ck_assert_int_eq(READ("Hwt-Op", "replace", "Hwt-Due", "700000000000", "Hwt-Due-Old",
                          "500000000000", "Hwt-Key", "k", "Hwt-Target", "plain"),
                     0);
    ck_assert_int_eq(order.op, RELAY_REPLACE);
    ck_assert_uint_eq(order.due, UINT64_C(700000000000000000));
    ck_assert_uint_eq(order.due_old, UINT64_C(500000000000000000));
    refused(
        READ("Hwt-Op", "replace", "Hwt-Due", "700000000000", "Hwt-Key", "k", "Hwt-Target", "plain"),
        "wants Hwt-Due-Old");
    refused(READ("Hwt-Op", "replace", "Hwt-Due", "700000000000", "Hwt-Due-Old", "500000000000",
                 "Hwt-Target", "plain"),
            "wants Hwt-Key");
}
END_TEST

START_TEST(test_patterns)
{
    static const char *const bad[] = { "",      "a.>.b",      "a*",       "a.b>",
                                       "$JS.>", "a b",        "a..b",     ">>",
                                       "hwt.>", "hwt.shop.>", "_INBOX.>", "hwt-shop-dead" };

    ck_assert(relay_pattern_matches(">", "a.b"));
    ck_assert(relay_pattern_matches("a.*", "a.b"));
    ck_assert(!relay_pattern_matches("a.*", "a"));
    ck_assert(!relay_pattern_matches("a.*", "a.b.c"));
    ck_assert(!relay_pattern_matches("a.>", "a"));
    ck_assert(relay_pattern_matches("a.>", "a.b.c"));
    ck_assert(!relay_pattern_matches("a", "ab"));
    ck_assert(!relay_pattern_matches("ab", "a"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(relay_pattern_fault(bad[i]) != NULL, "%s", bad[i]);
}
END_TEST

START_TEST(test_which_headers_go_on)
{
    ck_assert(!relay_field_is_known(&(struct relay_field){ "X-Own", "" }));
    ck_assert(relay_field_is_known(&(struct relay_field){ "hwt-key", "" }));
    ck_assert(relay_field_is_known(&(struct relay_field){ "Nats-Rollup", "all" }));
    ck_assert(!relay_field_is_known(&(struct relay_field){ "Hwt-Later", "" }));
    ck_assert(relay_field_is_hwt(&(struct relay_field){ "Hwt-Later", "" }));
}
END_TEST

/* ---- What an owner lets pass ---- */

static int judge(const char *target, const char *name, size_t headers, size_t payload,
                 const struct relay_limits *limits)
{
    static const struct relay_config config = {
        .targets = { { "orders.>", "mails.*.send", "plain" }, 3 }, .message_max = 100000
    };
    static char value[200000];
    const size_t taken = strlen("NATS/1.0\r\n\r\n: \r\n") + strlen(name);
    struct relay_field field = { name, value };

    memset(value, 'x', sizeof(value));
    value[headers - taken] = 0;
    return relay_policy_judge(&config, limits, &(struct relay_case){ target, &field, 1, payload },
                              reason);
}

START_TEST(test_what_an_owner_lets_pass)
{
    static const char *const others[] = { "other",      "orders",         "Orders.a",
                                          "mails.send", "mails.a.b.send", "plain.a" };
    const struct relay_limits none = { 0, 0 }, server = { 80000, 65535 };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        refused_by(-EPERM, judge(others[i], "X", 100, 0, &none), "may publish to");
    ck_assert_int_eq(judge("mails.a.send", "X", 100, 0, &none), 0);
    refused(judge("plain", "Hwt-Dealy", 100, 0, &none), "no header Hwt-Dealy");
    ck_assert_int_eq(judge("plain", "X", 99000, 1000, &none), 0);
    refused_by(-EMSGSIZE, judge("plain", "X", 99000, 1001, &none), "more than message_max");
    ck_assert_int_eq(judge("plain", "X", 100, 80000 - RELAY_ROOM - 100, &server), 0);
    refused_by(-EMSGSIZE, judge("plain", "X", 100, 80000 - RELAY_ROOM - 99, &server),
               "takes 80000 at most");
    ck_assert_int_eq(judge("plain", "X", 65535 - RELAY_ROOM, 0, &server), 0);
    refused_by(-EMSGSIZE, judge("plain", "X", 65536 - RELAY_ROOM, 0, &server),
               "takes 65535 at most");
    ck_assert(!relay_fits(RELAY_ROOM - 1, 0));
}
END_TEST

START_TEST(test_replicas_that_judge_alike_have_one_hash)
{
    const struct relay_config one = { .targets = { { "a", "b" }, 2 }, .message_max = 5 };
    struct relay_config other = { .targets = { { "b", "a" }, 2 }, .message_max = 5, .lease = 3 };

    ck_assert_uint_eq(relay_policy_hash(&one), relay_policy_hash(&other));
    other.message_max = 6;
    ck_assert_uint_ne(relay_policy_hash(&one), relay_policy_hash(&other));
    other = one;
    other.targets.count = 1;
    ck_assert_uint_ne(relay_policy_hash(&one), relay_policy_hash(&other));
    other = one;
    other.attempts = 1;
    ck_assert_uint_ne(relay_policy_hash(&one), relay_policy_hash(&other));
}
END_TEST

START_TEST(test_crc)
{
    const struct relay_message digits = { .payload = "123456789", .payload_size = 9 };
    struct relay_field field = { "a", "bc" };
    struct relay_message one = { .fields = &field, .fields_count = 1 }, two = one;

    ck_assert_uint_eq(relay_crc(&digits), 0xe3069283); /* the check value of CRC-32C */
    two.fields = &(struct relay_field){ "ab", "c" };
    ck_assert_uint_ne(relay_crc(&one), relay_crc(&two));
}
END_TEST

/* Whole, and with something missing. */
START_TEST(test_a_record_is_read_as_it_was_written)
{
    struct relay_record record = { .missing = (uint64_t)_i * 70000,
                                   .place = { 1, UINT64_MAX, 3 },
                                   .crc = UINT32_MAX,
                                   .attempt = 7,
                                   .target = "t",
                                   .id = "i",
                                   .key = "",
                                   .fields = { { "a", "" }, { "b", "c" } },
                                   .fields_count = 2,
                                   .payload = "\0x",
                                   .payload_size = 2 };
    struct relay_record read;
    size_t size;
    unsigned char *bytes = relay_record_write(&record, &size);

    ck_assert_int_eq(relay_record_read(bytes, size, &read), 0);
    ck_assert_mem_eq(&read.place, &record.place, sizeof(read.place));
    ck_assert_uint_eq(read.crc, record.crc);
    ck_assert_uint_eq(read.attempt, 7);
    ck_assert_uint_eq(read.missing, record.missing);
    ck_assert_str_eq(read.fields[1].value, "c");
    ck_assert_uint_eq(read.payload_size, 2);
    for (size_t i = 0; i < size - 2; i++) {  /* the payload may be of any length */
        unsigned char *part = malloc(i + 1); /* so that sanitizers see what is read behind it */
        memcpy(part, bytes, i);
        ck_assert_int_eq(relay_record_read(part, i, &read), -EBADMSG);
        free(part);
    }
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_message");
    TCase *tcase = tcase_create("protocol");

    tcase_add_test(tcase, test_due_times);
    tcase_add_test(tcase, test_a_due_time_is_read_as_it_was_written);
    tcase_add_test(tcase, test_puts);
    tcase_add_test(tcase, test_puts_that_are_refused);
    tcase_add_test(tcase, test_as_many_headers_as_there_may_be);
    tcase_add_test(tcase, test_targets_that_are_refused);
    tcase_add_test(tcase, test_cancels_and_replaces);
    tcase_add_test(tcase, test_patterns);
    tcase_add_test(tcase, test_which_headers_go_on);
    tcase_add_test(tcase, test_what_an_owner_lets_pass);
    tcase_add_test(tcase, test_replicas_that_judge_alike_have_one_hash);
    tcase_add_test(tcase, test_crc);
    tcase_add_loop_test(tcase, test_a_record_is_read_as_it_was_written, 0, 2);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
