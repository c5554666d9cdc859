/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/kafka_inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hwt/relay/log.h"

/*
 * A reader assigns the partition to itself at an offset, and commits none, because the store has it. The library wants a
 * group nevertheless, though nobody joins it.
 */
static const char *const properties[] = { "enable.auto.commit",
                                          "false",
                                          "auto.offset.reset",
                                          "error",
                                          "enable.partition.eof",
                                          "true",
                                          "fetch.error.backoff.ms",
                                          "100",
                                          "reconnect.backoff.max.ms",
                                          "1000",
                                          "topic.metadata.refresh.interval.ms",
                                          "30000",
                                          "queued.min.messages",
                                          "10000",
                                          "queued.max.messages.kbytes",
                                          "16384",
                                          NULL };

int relay_kafka_reader_open(struct relay_kafka *kafka, struct kafka_reader *reader,
                            const char *topic, enum kafka_use use)
{
    const uint64_t one = 1;
    const char *all[sizeof(properties) / sizeof(properties[0]) + 6];

    all[0] = "group.id";
    all[1] = kafka->topic;
    all[2] = "fetch.wait.max.ms";
    all[3] = use == KAFKA_SIGNALS ? "100" : "1"; /* see relay_kafka_reader_stop() */
    all[4] = "isolation.level";
    all[5] = use == KAFKA_LOOKS_AT_ALL ? "read_uncommitted" : "read_committed";
    memcpy(all + 6, properties, sizeof(properties));
    snprintf(reader->topic, sizeof(reader->topic), "%s", topic);
    reader->partition = (int32_t)kafka->shard;
    reader->rk = relay_kafka_client(kafka, RD_KAFKA_CONSUMER, all);
    if (!reader->rk)
        return -EINVAL;
    rd_kafka_poll_set_consumer(reader->rk);
    reader->queue = rd_kafka_queue_get_consumer(reader->rk);
    if (use == KAFKA_SIGNALS)
        rd_kafka_queue_io_event_enable(reader->queue, kafka->event, &one, sizeof(one));
    return 0;
}

void relay_kafka_reader_close(struct kafka_reader *reader)
{
    if (!reader->rk)
        return;
    rd_kafka_assign(reader->rk, NULL);
    rd_kafka_queue_destroy(reader->queue);
    rd_kafka_destroy_flags(reader->rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    reader->rk = NULL;
}

int relay_kafka_reader_seek(struct relay_kafka *kafka, struct kafka_reader *reader, int64_t offset)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_resp_err_t error;

    rd_kafka_topic_partition_list_add(list, reader->topic, reader->partition)->offset = offset;
    error = rd_kafka_assign(reader->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (error)
        relay_log(kafka->shard, "%s cannot be read: %s", reader->topic, rd_kafka_err2str(error));
    reader->next = offset;
    reader->at_end = false;
    reader->reads = !error;
    return relay_kafka_errno(error);
}

/*
 * Nothing more is fetched. A reader that reads on, has a request under way that the broker holds until there is something
 * new, and each change of the place waits for its end. So one that does not signal reads only while its caller
 * waits, and has the broker answer at once.
 */
void relay_kafka_reader_stop(struct kafka_reader *reader)
{
    rd_kafka_assign(reader->rk, NULL);
}

/* Whether it is a message; else what it says is noted. */
static bool is_message(struct relay_kafka *kafka, struct kafka_reader *reader,
                       const rd_kafka_message_t *message)
{
    if (!message->err) {
        reader->next = message->offset + 1;
        reader->at_end = false;
        return true;
    }
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        if (message->offset > reader->next)
            reader->next = message->offset;
        reader->at_end = true;
        return false;
    }
    relay_log(kafka->shard, "%s: %s", reader->topic, rd_kafka_message_errstr(message));
    /* The rest mends itself. */
    if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
        message->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE)
        reader->reads = false;
    return false;
}

size_t relay_kafka_reader_take(struct relay_kafka *kafka, struct kafka_reader *reader, int wait_ms,
                               size_t max, rd_kafka_message_t **ret_messages)
{
    ssize_t got = rd_kafka_consume_batch_queue(reader->queue, wait_ms, ret_messages, max);
    size_t kept = 0;

    for (ssize_t i = 0; i < got; i++) {
        if (is_message(kafka, reader, ret_messages[i]))
            ret_messages[kept++] = ret_messages[i];
        else
            rd_kafka_message_destroy(ret_messages[i]);
    }
    return kept;
}

/* rd_kafka_query_watermark_offsets() would wait for as long as a broker is away, whatever time it is given. */
static int ask_for(struct relay_kafka *kafka, rd_kafka_t *rk, const struct kafka_reader *reader,
                   int64_t which, int64_t *ret_offset)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *place =
        rd_kafka_topic_partition_list_add(list, reader->topic, reader->partition);
    rd_kafka_resp_err_t error;

    place->offset = which;
    error = rd_kafka_offsets_for_times(rk, list, relay_kafka_wait_ms(kafka));
    if (!error)
        error = place->err;
    *ret_offset = place->offset;
    rd_kafka_topic_partition_list_destroy(list);
    return relay_kafka_errno(error);
}

int relay_kafka_reader_first(struct relay_kafka *kafka, const struct kafka_reader *reader,
                             int64_t *ret_first)
{
    return ask_for(kafka, reader->rk, reader, RD_KAFKA_OFFSET_BEGINNING, ret_first);
}

int relay_kafka_reader_end(struct relay_kafka *kafka, const struct kafka_reader *reader,
                           int64_t *ret_end)
{
    return ask_for(kafka, reader->rk, reader, RD_KAFKA_OFFSET_END, ret_end);
}

/* A client that reads all is told of another end. */
int relay_kafka_reader_high(struct relay_kafka *kafka, const struct kafka_reader *reader,
                            int64_t *ret_high)
{
    return ask_for(kafka, kafka->places.reader.rk, reader, RD_KAFKA_OFFSET_END, ret_high);
}

uint64_t relay_kafka_stamp_of(const rd_kafka_message_t *message)
{
    const int64_t most = (int64_t)(RELAY_DUE_MAX / 1000000) - 1;
    int64_t ms = rd_kafka_message_timestamp(message, NULL);

    ms = ms < 0 ? 0 : ms > most ? most : ms; /* producers may write anything */
    return (uint64_t)ms * 1000000 + (uint64_t)message->offset % 1000000;
}
