/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/kafka_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "hwt/relay/log.h"

/*
 * Offsets have gaps, since the marks of transactions take some, and so does what was taken back. The end of a partition
 * may be such a mark, which nobody can read. So if all has been given out up to the end, the last message
 * is the one that was given last.
 */

static void free_pulled(struct relay_kafka *kafka)
{
    for (size_t i = 0; i < kafka->pulled_count; i++) {
        rd_kafka_message_destroy(kafka->pulled[i]);
        free(kafka->fields[i]);
    }
    kafka->pulled_count = 0;
}

void relay_kafka_pull_end(struct relay_kafka *kafka)
{
    free_pulled(kafka);
    relay_kafka_reader_close(&kafka->reader);
    relay_kafka_reader_close(&kafka->looker);
}

/* Hwt-Delay and the watermark go by the time at which the broker has got a message. */
static void look_at_kind(struct relay_kafka *kafka, const rd_kafka_message_t *message)
{
    rd_kafka_timestamp_type_t kind;

    rd_kafka_message_timestamp(message, &kind);
    if (kind == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME || kafka->warned)
        return;
    kafka->warned = true;
    relay_log(kafka->shard,
              "%s has the timestamps of producers: set message.timestamp.type=LogAppendTime",
              kafka->topic);
}

/* Those that cannot be taken for want of memory are read again. */
static void take(struct relay_kafka *kafka, size_t max)
{
    size_t count = relay_kafka_reader_take(kafka, &kafka->reader, 0, max, kafka->pulled);

    for (size_t i = 0; i < count; i++) {
        rd_kafka_message_t *from = kafka->pulled[i];
        struct relay_message *message = &kafka->messages[i];
        look_at_kind(kafka, from);
        *message = (struct relay_message){ .position = (uint64_t)from->offset + 1,
                                           .timestamp = relay_kafka_stamp_of(from),
                                           .payload = from->payload,
                                           .payload_size = from->len };
        kafka->fields[i] = NULL;
        if (kafka->pulled_count == i &&
            relay_kafka_fields_read(from, message, &kafka->fields[i]) == 0) {
            kafka->pulled_count++;
            kafka->given = message->position;
        } else {
            kafka->reader.reads = false;
            rd_kafka_message_destroy(from);
        }
    }
    if (count == max)
        relay_kafka_signal(kafka); /* there may be more, which the library does not say again */
}

int64_t relay_kafka_pull(struct relay_engine *engine, uint64_t after, size_t max,
                         const struct relay_message **ret_messages)
{
    struct relay_kafka *kafka = relay_kafka_of(engine);
    uint64_t now = relay_kafka_clock(engine);

    free_pulled(kafka);
    if (!kafka->reader.reads || after != kafka->given) {
        if (now < kafka->retry_at)
            return 0;
        kafka->retry_at = now + HWT_MS(500);
        if (relay_kafka_reader_seek(kafka, &kafka->reader, (int64_t)after) < 0)
            return 0;
        kafka->given = after;
        return -ESTALE;
    }
    take(kafka, max < RELAY_PULL_MAX ? max : RELAY_PULL_MAX);
    *ret_messages = kafka->messages;
    return (int64_t)kafka->pulled_count;
}

/* A transaction that is open for longer than a lease is said, when it is seen and when it has ended. */
static void look_at_end(struct relay_kafka *kafka, int64_t end, int64_t high)
{
    const uint64_t now = relay_kafka_clock(&kafka->engine);

    if (end < high && end == kafka->waits_at) {
        if (kafka->waits_said || now - kafka->waits_since < kafka->config->lease)
            return;
        kafka->waits_said = true;
        relay_log(kafka->shard,
                  "%s: a producer's transaction is open at offset %" PRId64 ", so the %" PRId64
                  " messages from there on cannot be read until it ends",
                  kafka->topic, end, high - end);
        return;
    }
    if (kafka->waits_said)
        relay_log(kafka->shard,
                  RELAY_INFO "%s: the transaction has ended, and its partition is read on",
                  kafka->topic);
    kafka->waits_said = false;
    kafka->waits_at = end < high ? end : -1;
    kafka->waits_since = now;
}

int relay_kafka_extent(struct relay_engine *engine, struct relay_extent *ret_extent)
{
    struct relay_kafka *kafka = relay_kafka_of(engine);
    int64_t first, end, high;
    int r = relay_kafka_reader_first(kafka, &kafka->reader, &first);

    if (r == 0)
        r = relay_kafka_reader_high(kafka, &kafka->reader, &high);
    if (r == 0)
        r = relay_kafka_reader_end(kafka, &kafka->reader, &end);
    if (r < 0)
        return r;
    look_at_end(kafka, end, high);
    relay_kafka_check(kafka);
    *ret_extent = (struct relay_extent){ .incarnation = kafka->cluster,
                                         .first = (uint64_t)first + 1,
                                         .last = (uint64_t)end };
    if (kafka->reader.reads && kafka->reader.next == end && kafka->given <= ret_extent->last)
        ret_extent->last = kafka->given;
    return 0;
}

int relay_kafka_find(struct relay_engine *engine, uint64_t position, uint64_t *ret_position,
                     uint64_t *ret_timestamp)
{
    struct relay_kafka *kafka = relay_kafka_of(engine);
    const int64_t offset = (int64_t)position - 1;
    const uint64_t until = relay_kafka_clock(engine) + kafka->config->lease / 4;
    struct kafka_reader *looker = &kafka->looker;
    rd_kafka_message_t *message;
    size_t count = 0;
    int r = relay_kafka_reader_seek(kafka, looker, offset);

    if (r < 0)
        return r;
    while (count == 0 && looker->reads && !looker->at_end && relay_kafka_clock(engine) < until)
        count = relay_kafka_reader_take(kafka, looker, 50, 1, &message);
    if (count > 0) {
        *ret_position = (uint64_t)message->offset + 1;
        *ret_timestamp = relay_kafka_stamp_of(message);
    } else
        r = looker->at_end ? -ENOENT : -ETIMEDOUT;
    if (count > 0)
        rd_kafka_message_destroy(message);
    relay_kafka_reader_stop(looker);
    return r;
}

/* The event's own error, or that of the partition. */
static rd_kafka_resp_err_t error_of(rd_kafka_event_t *event)
{
    const rd_kafka_topic_partition_list_t *list;

    if (!event)
        return RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (rd_kafka_event_error(event))
        return rd_kafka_event_error(event);
    list = rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(event));
    return list->cnt == 1 ? list->elems[0].err : RD_KAFKA_RESP_ERR__FAIL;
}

int relay_kafka_purge(struct relay_engine *engine, uint64_t incarnation, uint64_t below)
{
    struct relay_kafka *kafka = relay_kafka_of(engine);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(kafka->looker.rk);
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(kafka->looker.rk, RD_KAFKA_ADMIN_OP_DELETERECORDS);
    rd_kafka_DeleteRecords_t *order;
    rd_kafka_resp_err_t error;
    rd_kafka_event_t *event;

    (void)incarnation; /* topics made anew have later timestamps, which the caller has compared */
    rd_kafka_topic_partition_list_add(list, kafka->topic, (int32_t)kafka->shard)->offset =
        (int64_t)below - 1;
    order = rd_kafka_DeleteRecords_new(list);
    rd_kafka_AdminOptions_set_request_timeout(options, relay_kafka_patience(kafka), NULL, 0);
    rd_kafka_DeleteRecords(kafka->looker.rk, &order, 1, options, queue);
    event = rd_kafka_queue_poll(queue, relay_kafka_patience(kafka) + 100);
    error = error_of(event);
    if (error)
        relay_log(kafka->shard, "%s is not trimmed: %s", kafka->topic, rd_kafka_err2str(error));
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_DeleteRecords_destroy(order);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_partition_list_destroy(list);
    return relay_kafka_errno(error);
}
