/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How the engine on Kafka reads, and how it is opened: see kafka_kit.h. */

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/relay/kafka_kit.h"

#include "kit.h"

static void produce(rd_kafka_t *rk, const char *payload, size_t size)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(4);

    rd_kafka_header_add(headers, "Hwt-Delay", -1, "5", -1);
    rd_kafka_header_add(headers, "Raw", -1, "a\0b", 3);
    rd_kafka_header_add(headers, "None", -1, NULL, 0);
    rd_kafka_header_add(headers, "Hwt-Delay", -1, "6", -1);
    ck_assert_int_eq(rd_kafka_producev(rk, RD_KAFKA_V_TOPIC("hwt-shop"), RD_KAFKA_V_PARTITION(0),
                                       RD_KAFKA_V_VALUE((void *)(uintptr_t)payload, size),
                                       RD_KAFKA_V_KEY("key", 3), RD_KAFKA_V_HEADERS(headers),
                                       RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END),
                     0);
}

/* So many messages behind a position. */
static size_t pull(uint64_t after, size_t count, const struct relay_message **ret_messages)
{
    uint64_t end = until();
    int64_t n = 0;

    while (n <= 0) {
        n = engine->calls->pull(engine, after, count, ret_messages);
        ck_assert(n >= 0 || n == -ESTALE);
        ck_assert_uint_lt(relay_kafka_clock(NULL), end);
    }
    return (size_t)n;
}

static void is_field(const struct relay_field *field, const char *name, const char *value)
{
    ck_assert_str_eq(field->name, name);
    ck_assert_str_eq(field->value, value);
}

START_TEST(messages_are_read_from_a_place)
{
    struct relay_outgoing outgoing = { .payload = "hand", .payload_size = 4 };
    const struct relay_message *messages;
    struct relay_extent extent;
    uint64_t position, timestamp, at = 0;

    for (uint64_t i = 1; i <= 5; i++) {
        ck_assert_int_eq(engine->calls->publish(engine, &outgoing, &position), 0);
        ck_assert_uint_eq(position, i);
    }
    ck_assert_int_eq(engine->calls->pull(engine, 0, 10, &messages), -ESTALE);
    while (at < 5) {
        size_t n = pull(at, 2, &messages);
        ck_assert_uint_le(n, 2);
        for (size_t i = 0; i < n; i++) {
            ck_assert_uint_eq(messages[i].position, ++at);
            ck_assert_int_eq(engine->calls->find(engine, at, &position, &timestamp), 0);
            ck_assert_uint_eq(position, at);
            ck_assert_uint_eq(messages[i].timestamp, timestamp);
            ck_assert_mem_eq(messages[i].payload, "hand", 4);
        }
    }
    ck_assert_int_eq(engine->calls->extent(engine, &extent), 0);
    ck_assert_uint_eq(extent.first, 1);
    ck_assert_uint_eq(extent.last, 5);
    ck_assert_uint_ne(extent.incarnation, 0);
    ck_assert_int_eq(engine->calls->find(engine, 6, &position, &timestamp), -ENOENT);
    kafka()->retry_at = 0;
    ck_assert_int_eq(engine->calls->pull(engine, 3, 10, &messages), -ESTALE);
    pull(3, 10, &messages);
    ck_assert_uint_eq(messages[0].position, 4);
}
END_TEST

static void publish_some(uint64_t first, uint64_t last)
{
    const struct relay_outgoing outgoing = { .payload = "hand", .payload_size = 4 };
    uint64_t position = 0, end = until();

    for (uint64_t i = first; i <= last; i++) {
        while (engine->calls->publish(engine, &outgoing, &position) < 0)
            ck_assert_uint_lt(relay_kafka_clock(NULL), end);
        ck_assert_uint_eq(position, i);
    }
}

/* Each message once, in order, as the shard reads: what is behind its place. */
static void read_up_to(uint64_t at, uint64_t last)
{
    const struct relay_message *messages;

    while (at < last) {
        size_t n = pull(at, 10, &messages);
        for (size_t i = 0; i < n; i++)
            ck_assert_uint_eq(messages[i].position, ++at);
    }
}

/* Another process begins where the store has read up to; and so does one whose broker was away. */
START_TEST(reading_goes_on_where_it_was)
{
    publish_some(1, 4);
    read_up_to(0, 3);
    engine->calls->close(engine);
    engine = kafka_open();
    read_up_to(2, 4);
    rd_kafka_mock_broker_set_down(mock, -1);
    ck_assert_int_lt(engine->calls->extent(engine, &(struct relay_extent){ 0 }), 0);
    rd_kafka_mock_broker_set_up(mock, -1);
    publish_some(5, 8);
    read_up_to(4, 8);
}
END_TEST

/* Fetches fail in all the ways that pass; one that is out of range begins anew, which is told. */
START_TEST(a_pull_survives_what_a_fetch_meets)
{
    static const rd_kafka_resp_err_t errors[] = {
        RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
        RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,    RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,        RD_KAFKA_RESP_ERR_INVALID_MSG
    };

    publish_some(1, 2);
    read_up_to(0, 2);
    rd_kafka_mock_push_request_errors(mock, FETCH, 2, errors[_i], errors[_i]);
    publish_some(3, 4);
    read_up_to(2, 4);
}
END_TEST

START_TEST(headers_and_keys_are_any_bytes)
{
    const struct relay_message *messages;

    engine->calls->pull(engine, 0, 10, &messages);
    rd_kafka_t *rk = relay_kafka_client(kafka(), RD_KAFKA_PRODUCER, (const char *const[]){ NULL });
    produce(rk, "body", 4);
    produce(rk, NULL, 0);
    ck_assert_int_eq(rd_kafka_flush(rk, 60000), 0);
    rd_kafka_destroy(rk);
    pull(0, 1, &messages);
    ck_assert_uint_eq(messages->fields_count, 5);
    is_field(&messages->fields[0], "\2", "6b6579");
    is_field(&messages->fields[1], "Hwt-Delay", "5");
    is_field(&messages->fields[2], "\1Raw", "610062");
    is_field(&messages->fields[3], "\1None", "-");
    is_field(&messages->fields[4], "Hwt-Delay", "6");
    ck_assert_uint_eq(messages->payload_size, 4);
    pull(1, 1, &messages);
    ck_assert_uint_eq(messages->fields_count, 6);
    is_field(&messages->fields[1], "\3", "");
    ck_assert_uint_eq(messages->payload_size, 0);
}
END_TEST

/* The mock cluster cannot delete records: it is said, and nothing else happens. */
START_TEST(a_trim_that_is_refused_is_told)
{
    ck_assert_int_lt(engine->calls->purge(engine, 1, 2), 0);
}
END_TEST

/* ---- Opening ---- */

START_TEST(what_it_cannot_open_is_told)
{
    struct relay_engine *opened = NULL;

    rd_kafka_mock_topic_set_error(mock, "hwt-shop-dead",
                                  RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    ck_assert_int_eq(relay_kafka_open(&config, 0, &opened), -EACCES);
    config.shards = 5; /* more than the partitions that are made */
    ck_assert_int_eq(relay_kafka_open(&config, 0, &opened), -EHOSTUNREACH);
    config.kafka.word[config.kafka.count++] = "no.such.property=1";
    ck_assert_int_eq(relay_kafka_open(&config, 0, &opened), -EINVAL);
    config.kafka.word[config.kafka.count - 1] = "fetch.wait.max.ms=1";
    rd_kafka_mock_broker_set_down(mock, -1);
    ck_assert_int_lt(relay_kafka_open(&config, 0, &opened), 0);
    ck_assert_ptr_null(opened);
}
END_TEST

/* As Java's producers choose: murmur2, without its sign. */
START_TEST(keys_have_their_partitions)
{
    ck_assert_uint_eq(relay_kafka_shard("kafka", 1000000), 0xd067cf64 % 0x80000000 % 1000000);
    ck_assert_uint_lt(relay_kafka_shard("", 16), 16);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_kafka_read");
    TCase *tcase = tcase_create("kafka");

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, kafka_set_up, kafka_tear_down);
    tcase_add_test(tcase, messages_are_read_from_a_place);
    tcase_add_test(tcase, reading_goes_on_where_it_was);
    tcase_add_loop_test(tcase, a_pull_survives_what_a_fetch_meets, 0, 6);
    tcase_add_test(tcase, headers_and_keys_are_any_bytes);
    tcase_add_test(tcase, a_trim_that_is_refused_is_told);
    tcase_add_test(tcase, what_it_cannot_open_is_told);
    tcase_add_test(tcase, keys_have_their_partitions);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
