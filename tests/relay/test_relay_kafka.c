/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The engine on Kafka, with the mock cluster of its library. That has one broker here, knows no isolation (what was taken
 * back can be read), and gives messages the timestamps of their producers.
 */

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hwt/relay/kafka_inside.h"
/* It wants rdkafka.h before it. */
#include <librdkafka/rdkafka_mock.h>

#include "kit.h"

/* Of Kafka's protocol. */
enum { PRODUCE = 0, INIT_PRODUCER_ID = 22, ADD_PARTITIONS = 24, END_TXN = 26 };

#define LONG HWT_SEC(60) /* for what comes in a moment on a machine that is not loaded */

static rd_kafka_t *base;
static rd_kafka_mock_cluster_t *mock;
static struct relay_config config;
static struct relay_engine *engine;
static struct relay_answer answers[64]; /* that no case has asked for yet */
static int answers_left;

static struct relay_kafka *kafka(void)
{
    return relay_kafka_of(engine);
}

static void make_topic(const char *name)
{
    ck_assert_int_eq(rd_kafka_mock_topic_create(mock, name, 1, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
}

static struct relay_engine *open_engine(void)
{
    struct relay_engine *opened = NULL;
    ck_assert_int_eq(relay_kafka_open(&config, 0, &opened), 0);
    return opened;
}

static void set_up(void)
{
    char why[256];

    base = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof(why));
    ck_assert_ptr_nonnull(base);
    mock = rd_kafka_mock_cluster_new(base, 1);
    make_topic("orders"); /* others are made when they are asked for, of four partitions */
    config = (struct relay_config){ .space = "shop",
                                    .replica = "a",
                                    .engine = "kafka",
                                    .shards = 1,
                                    .lease = HWT_SEC(20),
                                    .message_max = 65536 };
    config.servers.word[config.servers.count++] = rd_kafka_mock_cluster_bootstraps(mock);
    config.kafka.word[config.kafka.count++] = "fetch.wait.max.ms=10";
    engine = open_engine();
    answers_left = 0;
}

static void tear_down(void)
{
    if (engine)
        engine->calls->close(engine);
    rd_kafka_mock_cluster_destroy(mock);
    rd_kafka_destroy(base);
}

static uint64_t until(void)
{
    return relay_kafka_clock(NULL) + LONG;
}

/* ---- Entries ---- */

static int swap(struct relay_engine *by, const char *name, const char *text, uint64_t *revision)
{
    return by->calls->swap(by, name, *revision, text, revision);
}

/* Until it is done, as the shard does: it reads what there is before each further try. */
static uint64_t swap_surely(struct relay_engine *by, const char *name, const char *text)
{
    char found[RELAY_ENTRY_MAX];
    uint64_t end = until(), revision = 0;

    do {
        ck_assert_uint_lt(relay_kafka_clock(NULL), end);
        while (by->calls->read(by, name, found, &revision) < 0)
            ck_assert_uint_lt(relay_kafka_clock(NULL), end);
    } while (swap(by, name, text, &revision) < 0);
    return revision;
}

START_TEST(an_entry_is_changed_by_who_knows_it)
{
    struct relay_engine *other = open_engine();
    char text[RELAY_ENTRY_MAX];
    uint64_t revision = 0, stale = 0, seen, written;

    ck_assert_int_eq(engine->calls->read(engine, "shard.0", text, &seen), 0);
    ck_assert_uint_eq(seen, 0);
    ck_assert_str_eq(text, "");
    revision = swap_surely(engine, "shard.0", "one");
    ck_assert_int_eq(other->calls->read(other, "shard.0", text, &seen), 0);
    ck_assert_str_eq(text, "one");
    ck_assert_uint_eq(seen, revision);
    ck_assert_int_eq(swap(other, "shard.0", "two", &stale), -EAGAIN);
    ck_assert_int_eq(swap(engine, "shard.0", "three", &revision),
                     0); /* it was not fenced by that */
    ck_assert_uint_gt(revision, seen);
    ck_assert_int_eq(engine->calls->written(engine, "shard.0", revision, &written), 0);
    ck_assert_uint_gt(written, UINT64_C(1500000000000000000));
    ck_assert_int_eq(engine->calls->written(engine, "shard.0", seen, &written), -EAGAIN);
    ck_assert_int_eq(engine->calls->written(engine, "place.x.0", 1, &written), -EAGAIN);
    other->calls->close(other);
}
END_TEST

START_TEST(a_producer_of_one_name_serves_another)
{
    uint64_t a = swap_surely(engine, "place.a.0", "one"),
             b = swap_surely(engine, "place.b.0", "two");
    char text[RELAY_ENTRY_MAX];

    ck_assert_int_eq(swap(engine, "place.a.0", "three", &a), 0);
    ck_assert_int_eq(engine->calls->read(engine, "place.b.0", text, &b), 0);
    ck_assert_str_eq(text, "two");
    ck_assert_int_eq(engine->calls->read(engine, "place.a.0", text, &a), 0);
    ck_assert_str_eq(text, "three");
}
END_TEST

/* ---- Sends ---- */

static int send_to(const char *target, const char *payload, uint64_t cookie)
{
    const struct relay_field fields[] = {
        { "X-Own", "own" }, { "\2", "6b00" }, { "\1Raw", "00ff" }, { "\1None", "-" }
    };
    const struct relay_outgoing message = { .target = target,
                                            .id = "shop.0:1:2",
                                            .fields = fields,
                                            .fields_count = 4,
                                            .payload = payload,
                                            .payload_size = strlen(payload) };
    return engine->calls->send(engine, &message, cookie);
}

/* The answer to a cookie, of those that have come. 1: there is none. */
static int answer_to(uint64_t cookie)
{
    answers_left +=
        (int)engine->calls->answers(engine, 64 - (size_t)answers_left, answers + answers_left);
    for (int i = 0; i < answers_left; i++)
        if (answers[i].cookie == cookie) {
            int result = answers[i].result;
            answers[i] = answers[--answers_left];
            return result;
        }
    return 1;
}

/* A client waits for its messages when it ends, so the message goes before it. */
static struct kafka_reader reader;

static void end_one(rd_kafka_message_t *message)
{
    rd_kafka_message_destroy(message);
    relay_kafka_reader_close(&reader);
}

static rd_kafka_message_t *read_one(const char *topic, int64_t offset)
{
    rd_kafka_message_t *message;
    uint64_t end = until();

    ck_assert_int_eq(relay_kafka_reader_open(kafka(), &reader, topic, false), 0);
    ck_assert_int_eq(relay_kafka_reader_seek(kafka(), &reader, offset), 0);
    while (relay_kafka_reader_take(kafka(), &reader, 100, 1, &message) == 0)
        ck_assert_uint_lt(relay_kafka_clock(NULL), end);
    return message;
}

static void is_header(rd_kafka_headers_t *headers, const char *name, const void *wanted,
                      size_t size)
{
    const void *value;
    size_t found;

    ck_assert_int_eq(rd_kafka_header_get_last(headers, name, &value, &found), 0);
    ck_assert_uint_eq(found, size);
    ck_assert_int_eq(value == NULL, wanted == NULL);
    if (wanted)
        ck_assert_mem_eq(value, wanted, size);
}

START_TEST(what_is_sent_goes_with_the_entry)
{
    rd_kafka_headers_t *headers;
    rd_kafka_message_t *message;
    uint64_t revision;

    ck_assert_int_eq(send_to("orders", "early", 1), -EHOSTUNREACH); /* it does not hold the entry */
    revision = swap_surely(engine, "shard.0", "one");
    ck_assert_int_eq(send_to("orders", "body", 2), 0);
    ck_assert_int_eq(send_to("", "dead", 3), 0);
    ck_assert_int_eq(send_to(NULL, "again", 4), 0);
    ck_assert_int_eq(answer_to(2), 1);
    ck_assert_int_eq(swap(engine, "shard.0", "two", &revision), 0);
    for (uint64_t i = 2; i <= 4; i++)
        ck_assert_int_eq(answer_to(i), 0);
    message = read_one("orders", 0);
    ck_assert_uint_eq(message->len, 4);
    ck_assert_mem_eq(message->payload, "body", 4);
    ck_assert_uint_eq(message->key_len, 2);
    ck_assert_mem_eq(message->key, "k\0", 2);
    ck_assert_int_eq(rd_kafka_message_headers(message, &headers), 0);
    ck_assert_uint_eq(rd_kafka_header_cnt(headers), 4);
    is_header(headers, "X-Own", "own", 3);
    is_header(headers, "Raw", "\0\xff", 2);
    is_header(headers, "None", NULL, 0);
    is_header(headers, "Hwt-Id", "shop.0:1:2", 10);
    end_one(message);
    message = read_one("hwt-shop", 0);
    ck_assert_mem_eq(message->payload, "again", 5);
    ck_assert_int_eq(rd_kafka_message_headers(message, &headers), 0);
    ck_assert_uint_eq(rd_kafka_header_cnt(headers), 3);
    end_one(message);
}
END_TEST

START_TEST(names_and_sizes_are_looked_at_first)
{
    static char much[300000];
    uint64_t revision = swap_surely(engine, "shard.0", "one");

    memset(much, 'x', sizeof(much) - 1);
    ck_assert_int_eq(send_to("or/ders", "m", 1), 0);
    ck_assert_int_eq(answer_to(1), -EINVAL);
    ck_assert_int_eq(send_to("__consumer_offsets", "m", 2), 0);
    ck_assert_int_eq(answer_to(2), -EINVAL);
    ck_assert_int_eq(send_to("orders", much, 3), 0);
    ck_assert_int_eq(answer_to(3), -EMSGSIZE);
    ck_assert_int_eq(send_to("orders", "m", 4), 0);
    ck_assert_int_eq(swap(engine, "shard.0", "two", &revision), 0); /* it goes on with the others */
    ck_assert_int_eq(answer_to(4), 0);
}
END_TEST

/* Sends what has not been answered with 0 or an error of its own, until all has. */
static unsigned settle(const char *const *targets, uint64_t count, int results[])
{
    uint64_t end = until();
    unsigned rounds = 0;

    for (uint64_t i = 0; i < count; i++)
        results[i] = -ECANCELED;
    for (bool open = true; open; rounds++) {
        open = false;
        ck_assert_uint_lt(relay_kafka_clock(NULL), end);
        for (uint64_t i = 0; i < count; i++)
            if (results[i] == -ECANCELED && send_to(targets[i], "m", i) < 0)
                break;
        swap_surely(engine, "shard.0", "text");
        for (uint64_t i = 0; i < count; i++) {
            int result = results[i] == -ECANCELED ? answer_to(i) : 1;
            results[i] = result <= 0 ? result : results[i];
            open = open || results[i] == -ECANCELED;
        }
    }
    return rounds;
}

/* The topic is not there, or not permitted. The others arrive, and for a while nothing is tried. */
START_TEST(a_topic_that_fails_holds_no_other)
{
    static const char *const targets[] = { "orders", "mails", "orders", "mails", "orders" };
    static const struct {
        rd_kafka_resp_err_t error;
        int result;
    } cases[] = { { RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, -EHOSTUNREACH },
                  { RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, -EACCES } };
    int results[5];

    config.lease = HWT_SEC(4);
    engine->calls->close(engine);
    engine = open_engine();
    swap_surely(engine, "shard.0", "one");
    rd_kafka_mock_topic_set_error(mock, "mails", cases[_i].error);
    settle(targets, 5, results);
    for (int i = 0; i < 5; i++)
        ck_assert(i % 2 == 0 ? results[i] == 0
                             : results[i] == cases[_i].result || results[i] == -ETIMEDOUT);
    rd_kafka_mock_topic_set_error(mock, "mails", RD_KAFKA_RESP_ERR_NO_ERROR);
}
END_TEST

/* A batch that the broker finds too long may be of messages that are not. */
START_TEST(a_batch_that_is_too_long_is_halved)
{
    static const char *const targets[] = { "orders", "orders", "orders", "orders" };
    int results[4];

    swap_surely(engine, "shard.0", "one");
    rd_kafka_mock_push_request_errors(mock, PRODUCE, 2, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
                                      RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    settle(targets, 4, results);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(results[i], 0);
}
END_TEST

START_TEST(a_single_message_that_is_too_long_is_told)
{
    uint64_t end = until(), revision = swap_surely(engine, "shard.0", "one");
    int result;

    kafka()->limit = 1;
    do {
        rd_kafka_mock_push_request_errors(mock, PRODUCE, 1, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
        ck_assert_int_eq(send_to("orders", "m", 1), 0);
        swap(engine, "shard.0", "two", &revision);
        revision = kafka()->owner.revision;
        result = answer_to(1);
        ck_assert_uint_lt(relay_kafka_clock(NULL), end);
    } while (result == -ECANCELED); /* the entry met the error */
    ck_assert_int_eq(result, -EMSGSIZE);
}
END_TEST

/* The library tries again by itself. */
START_TEST(errors_that_pass_are_not_seen)
{
    uint64_t revision = swap_surely(engine, "shard.0", "one");

    rd_kafka_mock_push_request_errors(mock, END_TXN, 2,
                                      RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
                                      RD_KAFKA_RESP_ERR__TRANSPORT);
    rd_kafka_mock_push_request_errors(mock, PRODUCE, 2, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                                      RD_KAFKA_RESP_ERR__TRANSPORT);
    ck_assert_int_eq(send_to("orders", "m", 1), 0);
    ck_assert_int_eq(swap(engine, "shard.0", "two", &revision), 0);
    ck_assert_int_eq(answer_to(1), 0);
    ck_assert_ptr_nonnull(kafka()->owner.rk);
}
END_TEST

/* Fenced, or in a way that the library does not come back from: what was sent is sent again by the next producer. */
START_TEST(after_a_fatal_error_there_is_another_producer)
{
    static const rd_kafka_resp_err_t errors[] = {
        RD_KAFKA_RESP_ERR_PRODUCER_FENCED, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH,
        RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    };
    static const char *const targets[] = { "orders", "orders" };
    uint64_t revision = swap_surely(engine, "shard.0", "one");
    int results[2];

    rd_kafka_mock_push_request_errors(mock, END_TXN, 1, errors[_i]);
    ck_assert_int_eq(send_to("orders", "m", 1), 0);
    ck_assert_int_eq(swap(engine, "shard.0", "two", &revision), -EIO);
    ck_assert_int_eq(answer_to(1), -ECANCELED);
    ck_assert(!kafka()->owner.holds);
    ck_assert_int_eq(send_to("orders", "m", 2), -EHOSTUNREACH);
    settle(targets, 2, results);
    ck_assert_int_eq(results[0], 0);
    ck_assert_int_eq(results[1], 0);
}
END_TEST

START_TEST(a_transaction_that_is_taken_back_is_made_again)
{
    static const char *const targets[] = { "orders", "mails", "orders" };
    int results[3];

    swap_surely(engine, "shard.0", "one");
    rd_kafka_mock_push_request_errors(mock, ADD_PARTITIONS, 1,
                                      RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    settle(targets, 3, results);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(results[i], 0);
}
END_TEST

START_TEST(who_may_not_begin_does_not_hold)
{
    uint64_t revision = 0;

    rd_kafka_mock_push_request_errors(mock, INIT_PRODUCER_ID, 1,
                                      RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    ck_assert_int_eq(swap(engine, "shard.0", "one", &revision), -EACCES);
    ck_assert_int_eq(send_to("orders", "m", 1), -EHOSTUNREACH);
    swap_surely(engine, "shard.0", "one");
}
END_TEST

/* It is not known whether the transaction was made, until a broker answers again. */
START_TEST(an_outage_leaves_open_what_is_done)
{
    uint64_t end = until(), revision = swap_surely(engine, "shard.0", "one");
    int r, result;

    config.lease = HWT_MS(400);
    ck_assert_int_eq(send_to("orders", "m", 1), 0);
    rd_kafka_mock_broker_set_down(mock, -1);
    ck_assert_int_eq(swap(engine, "shard.0", "two", &revision), -ETIMEDOUT);
    ck_assert_int_eq(answer_to(1), 1);
    ck_assert_int_eq(send_to("orders", "m", 2), -EHOSTUNREACH);
    rd_kafka_mock_broker_set_up(mock, -1);
    config.lease = HWT_SEC(20);
    while ((r = swap(engine, "shard.0", "three", &revision)) == -ETIMEDOUT)
        ck_assert_uint_lt(relay_kafka_clock(NULL), end);
    result = answer_to(1);
    /* Made: then the caller does not know the revision. Taken back: then it is sent again. */
    ck_assert((r == -EAGAIN && result == 0) || (r == -EIO && result == -ECANCELED));
    swap_surely(engine, "shard.0", "three");
}
END_TEST

/* ---- Pulls ---- */

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
    Suite *suite = suite_create("relay_kafka");
    TCase *tcase = tcase_create("kafka");

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, an_entry_is_changed_by_who_knows_it);
    tcase_add_test(tcase, a_producer_of_one_name_serves_another);
    tcase_add_test(tcase, what_is_sent_goes_with_the_entry);
    tcase_add_test(tcase, names_and_sizes_are_looked_at_first);
    tcase_add_loop_test(tcase, a_topic_that_fails_holds_no_other, 0, 2);
    tcase_add_test(tcase, a_batch_that_is_too_long_is_halved);
    tcase_add_test(tcase, a_single_message_that_is_too_long_is_told);
    tcase_add_test(tcase, errors_that_pass_are_not_seen);
    tcase_add_loop_test(tcase, after_a_fatal_error_there_is_another_producer, 0, 3);
    tcase_add_test(tcase, a_transaction_that_is_taken_back_is_made_again);
    tcase_add_test(tcase, who_may_not_begin_does_not_hold);
    tcase_add_test(tcase, an_outage_leaves_open_what_is_done);
    tcase_add_test(tcase, messages_are_read_from_a_place);
    tcase_add_test(tcase, headers_and_keys_are_any_bytes);
    tcase_add_test(tcase, a_trim_that_is_refused_is_told);
    tcase_add_test(tcase, what_it_cannot_open_is_told);
    tcase_add_test(tcase, keys_have_their_partitions);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
