/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Entries and sends of the engine on Kafka: see kafka_kit.h. */

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/relay/kafka_kit.h"

#include "kit.h"

static struct relay_answer answers[64]; /* that no case has asked for yet */
static int answers_left;

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
    struct relay_engine *other = kafka_open();
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

/* The engine goes by its own. */
START_TEST(properties_of_the_relay_cannot_be_set)
{
    static const char *const words[] = {
        "acks=1",
        "auto.offset.reset=earliest",
        "delivery.timeout.ms=1",
        "enable.auto.commit=true",
        "enable.idempotence=false",
        "group.id=x",
        "isolation.level=read_uncommitted",
        "message.timeout.ms=1",
        "metadata.broker.list=127.0.0.1:1",
        "partitioner=random",
        "transaction.timeout.ms=1",
        "transactional.id=x",
    };
    struct relay_engine *none = NULL;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        config.kafka.word[config.kafka.count++] = words[i];
        ck_assert_int_eq(relay_kafka_open(&config, 0, &none), -EINVAL);
        ck_assert_ptr_null(none);
        config.kafka.count--;
    }
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

    ck_assert_int_eq(relay_kafka_reader_open(kafka(), &reader, topic, KAFKA_LOOKS), 0);
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

/* As if that were long ago. */
static void forget_targets(void)
{
    memset(kafka()->targets, 0, sizeof(kafka()->targets));
    relay_kafka_targets_end(kafka());
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
    engine = kafka_open();
    swap_surely(engine, "shard.0", "one");
    rd_kafka_mock_topic_set_error(mock, "mails", cases[_i].error);
    settle(targets, 5, results);
    for (int i = 0; i < 5; i++)
        ck_assert(i % 2 == 0 ? results[i] == 0
                             : results[i] == cases[_i].result || results[i] == -ETIMEDOUT);
    rd_kafka_mock_topic_set_error(mock, "mails", RD_KAFKA_RESP_ERR_NO_ERROR);
}
END_TEST

/* What a broker refuses as a batch may be one message's fault, and says nothing of the others. */
static const struct {
    rd_kafka_resp_err_t error;
    int result; /* for a message that is alone */
} refusals[] = { { RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, -EMSGSIZE },
                 { RD_KAFKA_RESP_ERR_INVALID_RECORD, -EINVAL },
                 { RD_KAFKA_RESP_ERR_POLICY_VIOLATION, -EIO } };

START_TEST(a_batch_that_is_refused_is_halved)
{
    static const char *const targets[] = { "orders", "orders", "orders", "orders" };
    int results[4];

    swap_surely(engine, "shard.0", "one");
    rd_kafka_mock_push_request_errors(mock, PRODUCE, 2, refusals[_i].error, refusals[_i].error);
    settle(targets, 4, results);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(results[i], 0);
}
END_TEST

/* The entry may meet the error instead, which is no message's fault. */
START_TEST(a_single_message_that_is_refused_is_told)
{
    uint64_t end = until(), revision = swap_surely(engine, "shard.0", "one");
    int result;

    kafka()->limit = 1;
    do {
        rd_kafka_mock_push_request_errors(mock, PRODUCE, 1, refusals[_i].error);
        ck_assert_int_eq(send_to("orders", "m", 1), 0);
        swap(engine, "shard.0", "two", &revision);
        revision = kafka()->owner.revision;
        result = answer_to(1);
        ck_assert_int_eq(result, kafka()->owner.entry_error == refusals[_i].error
                                     ? -ECANCELED
                                     : refusals[_i].result);
        ck_assert_uint_lt(relay_kafka_clock(NULL), end);
    } while (result == -ECANCELED);
}
END_TEST

/* Dead letters that are not permitted are told like other targets, so that the shard holds them. */
START_TEST(dead_letters_that_are_refused_are_told)
{
    static const char *const targets[] = { "orders", "", "orders" };
    int results[3];

    config.lease = HWT_SEC(4);
    engine->calls->close(engine);
    engine = kafka_open();
    swap_surely(engine, "shard.0", "one");
    rd_kafka_mock_topic_set_error(mock, "hwt-shop-dead",
                                  RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    settle(targets, 3, results);
    ck_assert_int_eq(results[0], 0);
    ck_assert(results[1] == -EACCES || results[1] == -ETIMEDOUT);
    ck_assert_int_eq(results[2], 0);
    rd_kafka_mock_topic_set_error(mock, "hwt-shop-dead", RD_KAFKA_RESP_ERR_NO_ERROR);
    forget_targets();
    settle((const char *const[]){ "" }, 1, results);
    ck_assert_int_eq(results[0], 0);
}
END_TEST

/* It has waited for the cluster, and not for its topic, so it counts as no attempt there. */
START_TEST(a_message_that_waits_for_the_cluster_is_not_to_blame)
{
    uint64_t end = until(), revision;
    int r;

    config.lease = HWT_SEC(2);
    engine->calls->close(engine);
    engine = kafka_open();
    revision = swap_surely(engine, "shard.0", "one");
    ck_assert_int_eq(relay_kafka_target_look(kafka(), "orders"), 0);
    rd_kafka_mock_broker_set_down(mock, -1);
    ck_assert_int_eq(send_to("orders", "m", 1), 0);
    while (kafka()->sends[0].error == 0) {
        rd_kafka_poll(kafka()->owner.rk, 100);
        ck_assert_uint_lt(relay_kafka_clock(NULL), end);
    }
    rd_kafka_mock_broker_set_up(mock, -1);
    while ((r = swap(engine, "shard.0", "two", &revision)) == -ETIMEDOUT)
        ck_assert_uint_lt(relay_kafka_clock(NULL), end);
    ck_assert_int_lt(r, 0);
    ck_assert_int_eq(answer_to(1), -ECANCELED);
}
END_TEST

/* What is known of a topic is asked for again when it is old, and when it has failed. */
START_TEST(a_topic_is_asked_for_before_something_goes_there)
{
    uint64_t revision;

    config.lease = HWT_SEC(4);
    engine->calls->close(engine);
    engine = kafka_open();
    revision = swap_surely(engine, "shard.0", "one");
    rd_kafka_mock_topic_set_error(mock, "mails", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    ck_assert_int_eq(send_to("orders", "m", 1), 0);
    ck_assert_int_eq(send_to("mails", "m", 2), 0);
    ck_assert_int_eq(answer_to(2), -EHOSTUNREACH); /* at once */
    ck_assert_int_eq(swap(engine, "shard.0", "two", &revision), 0);
    ck_assert_int_eq(answer_to(1), 0);
    rd_kafka_mock_topic_set_error(mock, "mails", RD_KAFKA_RESP_ERR_NO_ERROR);
    ck_assert_int_eq(send_to("mails", "m", 3), 0);
    ck_assert_int_eq(answer_to(3), -EHOSTUNREACH);
    forget_targets();
    ck_assert_int_eq(send_to("mails", "m", 4), 0);
    ck_assert_int_eq(swap(engine, "shard.0", "three", &revision), 0);
    ck_assert_int_eq(answer_to(4), 0);
}
END_TEST

/* All that a topic's partition 0 has, up to a message of this payload. */
static size_t count_before(const char *topic, const char *last)
{
    size_t count = 0;

    for (;; count++) {
        rd_kafka_message_t *message = read_one(topic, (int64_t)count);
        bool found =
            message->len == strlen(last) && memcmp(message->payload, last, message->len) == 0;
        end_one(message);
        if (found)
            return count;
    }
}

/* The library tries again by itself, and the broker knows the numbers of an idempotent producer. */
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
    ck_assert_int_eq(send_to("orders", "last", 2), 0);
    ck_assert_int_eq(swap(engine, "shard.0", "three", &revision), 0);
    ck_assert_uint_eq(count_before("orders", "last"), 1);
}
END_TEST

/* Replicas that claim a shard at once fence each other: who was fenced waits, and does not fence the other one again. */
START_TEST(who_was_fenced_stands_back)
{
    uint64_t revision = swap_surely(engine, "shard.0", "one"), before = relay_kafka_clock(NULL);

    rd_kafka_mock_push_request_errors(mock, END_TXN, 1, RD_KAFKA_RESP_ERR_PRODUCER_FENCED);
    ck_assert_int_eq(swap(engine, "shard.0", "two", &revision), -EIO);
    ck_assert_uint_ge(kafka()->owner.not_before, before);
    kafka()->owner.not_before = HWT_NEVER;
    ck_assert_int_eq(swap(engine, "shard.0", "two", &revision), -EAGAIN);
    ck_assert_ptr_null(kafka()->owner.rk); /* it has not fenced */
    kafka()->owner.not_before = 0;
    swap_surely(engine, "shard.0", "two");
}
END_TEST

/* To take a transaction back may fence the replica that has the shard by now. The mock cluster lets it happen. */
START_TEST(who_takes_back_compares_anew)
{
    struct relay_engine *other = kafka_open();
    char text[RELAY_ENTRY_MAX];
    uint64_t revision = swap_surely(engine, "shard.0", "one"), taken;

    ck_assert_int_eq(other->calls->read(other, "shard.0", text, &taken), 0);
    ck_assert_int_eq(swap(other, "shard.0", "two", &taken), 0);
    rd_kafka_mock_push_request_errors(mock, ADD_PARTITIONS, 1,
                                      RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    ck_assert_int_eq(send_to("orders", "m", 1), 0);
    ck_assert_int_lt(swap(engine, "shard.0", "three", &revision), 0);
    ck_assert_int_eq(send_to("mails", "m", 2), 0);
    ck_assert_int_eq(swap(engine, "shard.0", "three", &revision), -EAGAIN);
    ck_assert_int_eq(answer_to(2), -ECANCELED);
    ck_assert_int_eq(other->calls->read(other, "shard.0", text, &taken), 0);
    ck_assert_str_eq(text, "two");
    other->calls->close(other);
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

int main(void)
{
    Suite *suite = suite_create("relay_kafka");
    TCase *tcase = tcase_create("kafka");

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, kafka_set_up, kafka_tear_down);
    tcase_add_test(tcase, an_entry_is_changed_by_who_knows_it);
    tcase_add_test(tcase, a_producer_of_one_name_serves_another);
    tcase_add_test(tcase, properties_of_the_relay_cannot_be_set);
    tcase_add_test(tcase, what_is_sent_goes_with_the_entry);
    tcase_add_test(tcase, names_and_sizes_are_looked_at_first);
    tcase_add_loop_test(tcase, a_topic_that_fails_holds_no_other, 0, 2);
    tcase_add_loop_test(tcase, a_batch_that_is_refused_is_halved, 0, 3);
    tcase_add_loop_test(tcase, a_single_message_that_is_refused_is_told, 0, 3);
    tcase_add_test(tcase, dead_letters_that_are_refused_are_told);
    tcase_add_test(tcase, a_message_that_waits_for_the_cluster_is_not_to_blame);
    tcase_add_test(tcase, a_topic_is_asked_for_before_something_goes_there);
    tcase_add_test(tcase, who_was_fenced_stands_back);
    tcase_add_test(tcase, errors_that_pass_are_not_seen);
    tcase_add_loop_test(tcase, after_a_fatal_error_there_is_another_producer, 0, 3);
    tcase_add_test(tcase, a_transaction_that_is_taken_back_is_made_again);
    tcase_add_test(tcase, who_takes_back_compares_anew);
    tcase_add_test(tcase, who_may_not_begin_does_not_hold);
    tcase_add_test(tcase, an_outage_leaves_open_what_is_done);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
